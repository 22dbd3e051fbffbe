"""Folding constructors and linear forms for index arithmetic.

In: scalar expressions.  Out: the simplest equal expression that needs no facts about variables.  Integer constants fold
by the language's rules (floor division, wrapping in the operand width); floats fold only where numpy's result
of the same operation in the same dtype is taken, so that folding and run time agree to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pypto.dtypes import DataType
from pypto.ir import scalar
from pypto.ir.expr import ConstBool, ConstInt, Expr, Var, const_index
from pypto.ir.structural import compare

__all__ = [
    "Linear",
    "add",
    "const",
    "distance",
    "floordiv",
    "index_add",
    "is_const",
    "linear",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "product",
    "same",
    "sub",
    "trips",
    "wrap",
]


def wrap(value: int, dtype: DataType) -> int:
    """An integer reduced to the range of a dtype (two's complement)."""
    bits = dtype.get_bit()
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_signed_int() and value >> (bits - 1) else value


def is_const(e: Expr, value: int) -> bool:
    return isinstance(e, ConstInt) and e.value == value


def const(value: int, dtype: DataType) -> Expr:
    value = wrap(value, dtype)
    return const_index(value) if dtype is DataType.INDEX else ConstInt(value, dtype)


def _fold(op: str, a: Expr, b: Expr) -> Expr | None:
    if not isinstance(a, ConstInt) or not isinstance(b, ConstInt):
        return None
    dtype = scalar.promote(a.dtype, b.dtype)
    x, y = wrap(a.value, dtype), wrap(b.value, dtype)
    if op == "+":
        return const(x + y, dtype)
    if op == "-":
        return const(x - y, dtype)
    if op == "*":
        return const(x * y, dtype)
    if op in ("min", "max"):
        return const(min(x, y) if op == "min" else max(x, y), dtype)
    if y == 0:
        return None  # a constant zero divisor is reported where it was written
    return const(x // y if op == "//" else x % y, dtype)


def _keeps_type(kept: Expr, other: Expr) -> bool:
    """Dropping `other` from an operation must not change the result's dtype."""
    return scalar.promote(scalar.dtype_of(kept), scalar.dtype_of(other)) is scalar.dtype_of(kept)


def add(a: Expr, b: Expr) -> Expr:
    if is_const(a, 0) and _keeps_type(b, a):
        return b
    if is_const(b, 0) and _keeps_type(a, b):
        return a
    folded = _fold("+", a, b)
    return scalar.add(a, b, a.span) if folded is None else folded


def index_add(a: Expr, b: Expr) -> Expr:
    """The sum of two positions, an index: it does not wrap, however narrow the integers are."""
    if _index(a) or _index(b):
        return add(a, b)
    return add(scalar.cast(a, DataType.INDEX, a.span), b)


def sub(a: Expr, b: Expr) -> Expr:
    if is_const(b, 0) and _keeps_type(a, b):
        return a
    folded = _fold("-", a, b)
    if folded is not None:
        return folded
    difference = linear(a).minus(linear(b)) if _index(a) and _index(b) else None
    if difference is not None and not difference.terms:
        return const_index(difference.constant)
    return scalar.sub(a, b, a.span)


def distance(stop: Expr, start: Expr) -> Expr:
    """`stop - start` of a window's ends.  Indices of any width count as exact: one that wrapped would be in no tensor."""
    if isinstance(stop, ConstInt) and isinstance(start, ConstInt):
        return const_index(stop.value - start.value)
    between = linear(stop, exact=True).minus(linear(start, exact=True))
    return sub(stop, start) if between.terms else const_index(between.constant)


def mul(a: Expr, b: Expr) -> Expr:
    if is_const(a, 1) and _keeps_type(b, a):
        return b
    if is_const(b, 1) and _keeps_type(a, b):
        return a
    if (is_const(a, 0) and _keeps_type(a, b)) or (is_const(b, 0) and _keeps_type(b, a)):
        return a if is_const(a, 0) else b
    folded = _fold("*", a, b)
    return scalar.mul(a, b, a.span) if folded is None else folded


def floordiv(a: Expr, b: Expr) -> Expr:
    if is_const(b, 1) and _keeps_type(a, b):
        return a
    folded = _fold("//", a, b)
    return scalar.floordiv(a, b, a.span) if folded is None else folded


def mod(a: Expr, b: Expr) -> Expr:
    if is_const(b, 1) and _index(a):
        return const_index(0)
    folded = _fold("%", a, b)
    return scalar.mod(a, b, a.span) if folded is None else folded


def minimum(a: Expr, b: Expr) -> Expr:
    return _extremum("min", scalar.Min, a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    return _extremum("max", scalar.Max, a, b)


def _extremum(op: str, kind: type[scalar.Min | scalar.Max], a: Expr, b: Expr) -> Expr:
    if same(a, b):
        return a
    for x, y in ((a, b), (b, a)):  # one is such an extremum of the other already
        if isinstance(x, kind) and (same(x.left, y) or same(x.right, y)):
            return x
    folded = _fold(op, a, b)
    if folded is not None:
        return folded
    return scalar.min_(a, b, a.span) if op == "min" else scalar.max_(a, b, a.span)


def product(dims: Iterable[Expr]) -> Expr:
    """The product of extents as an INDEX expression."""
    out: Expr = const_index(1)
    for d in dims:
        out = mul(out, d)
    return out


def trips(start: Expr, stop: Expr, step: Expr) -> int | None:
    """How many trips a loop makes that nothing leaves early; None where the bounds are not constant, or the step is 0."""
    bounds = [e.value for e in (start, stop, step) if isinstance(e, ConstInt)]
    return len(range(*bounds)) if len(bounds) == 3 and bounds[2] else None


def trip_count(start: Expr, stop: Expr, step: int, dtype: DataType) -> Expr:
    """How many trips a loop makes that counts up by `step`, a positive number, and that nothing leaves early."""
    ahead = add(sub(stop, start), const(step - 1, dtype))
    return maximum(const(0, dtype), floordiv(ahead, const(step, dtype)))


def same(a: Expr, b: Expr) -> bool:
    """Provably equal for every value of their variables."""
    if a is b or compare(a, b) is None:
        return True
    if not _index(a) or not _index(b):
        return False
    d = linear(a).minus(linear(b))
    return not d.terms and d.constant == 0


def _index(e: Expr) -> bool:
    t = getattr(e.type, "dtype", None)
    return t in (DataType.INDEX, DataType.INT64)


def _integer(e: Expr) -> bool:
    t = getattr(e.type, "dtype", None)
    return isinstance(t, DataType) and t.is_int()


class Linear:
    """`constant + sum(coefficient * atom)`; atoms are expressions that are not sums or constant multiples."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int, terms: list[tuple[Expr, int]]) -> None:
        self.constant, self.terms = constant, terms

    def scaled(self, k: int) -> Linear:
        return Linear(self.constant * k, [(e, c * k) for e, c in self.terms] if k else [])

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        terms = list(self.terms)
        for e, c in other.terms:
            for i, (f, d) in enumerate(terms):
                if e is f or compare(e, f) is None:
                    terms[i] = (f, d + sign * c)
                    break
            else:
                terms.append((e, sign * c))
        return Linear(self.constant + sign * other.constant, [t for t in terms if t[1]])

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def divisor(self) -> int:
        """The largest integer that divides the value whatever the atoms are; 0 for a constant zero."""
        return math.gcd(self.constant, *(c for _, c in self.terms))


def linear(e: Expr, value_of: dict[Var, Expr] | None = None, exact: bool = False) -> Linear:
    """The linear form of an index expression; `value_of` opens variables that are assigned once.

    exact: integers narrower than an index are opened too, as if they never wrapped.
    """
    known = _integer if exact else _index
    added: list[tuple[Expr, int]] = []
    while True:  # down a chain of sums, which may be as long as a program
        if value_of and isinstance(e, Var) and e in value_of:
            e = value_of[e]
        elif isinstance(e, scalar.Cast) and _index(e) and known(e.operand):
            e = e.operand
        elif isinstance(e, (scalar.Add, scalar.Sub)) and known(e):
            added.append((e.right, 1 if isinstance(e, scalar.Add) else -1))
            e = e.left
        else:
            break
    form = _term(e, value_of, exact)
    for right, sign in reversed(added):
        form = form.plus(linear(right, value_of, exact), sign)
    return form


def _term(e: Expr, value_of: dict[Var, Expr] | None, exact: bool) -> Linear:
    """The linear form of what is no sum."""
    known = _integer if exact else _index
    if isinstance(e, ConstInt):
        return Linear(e.value, [])
    if isinstance(e, ConstBool):
        return Linear(int(e.value), [])
    if isinstance(e, scalar.Mul) and known(e):
        x, y = linear(e.left, value_of, exact), linear(e.right, value_of, exact)
        if not x.terms or not y.terms:
            return y.scaled(x.constant) if not x.terms else x.scaled(y.constant)
    if isinstance(e, scalar.Neg) and known(e):
        return linear(e.operand, value_of, exact).scaled(-1)
    return Linear(0, [(e, 1)])
