"""What is known about integer scalars: intervals, linear forms, conditions that hold here.

In: bounds and definitions of variables, conditions of the branches around a place.  Out: intervals of expressions, and
comparisons decided where they come out the same for every run.
Invariant: machine arithmetic is what is described: a value that could wrap in its dtype has the whole range of the dtype,
and a linear form speaks for a value only where its exact result cannot leave the dtype.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from pypto.dtypes import DataType
from pypto.ir import scalar
from pypto.ir.arith import Linear, linear
from pypto.ir.expr import BinaryExpr, Call, ConstBool, ConstFloat, ConstInt, Expr, UnaryExpr, Var
from pypto.ir.rewrite import walk
from pypto.ir.structural import compare
from pypto.ir.types import ScalarType
from pypto.named import NamedTuple

__all__ = ["Analyzer", "Interval", "range_of"]


_MOST_OPENED = 64


class Interval(NamedTuple):
    """low <= value <= high"""

    low: int
    high: int

    def within(self, other: Interval) -> bool:
        return other.low <= self.low and self.high <= other.high

    def joined(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def met(self, other: Interval) -> Interval:
        low, high = max(self.low, other.low), min(self.high, other.high)
        # A contradiction means that the place is never reached; any answer is right there.
        return Interval(low, high) if low <= high else self


def range_of(dtype: DataType) -> Interval:
    """All values of an integer dtype or BOOL."""
    if dtype is DataType.BOOL:
        return Interval(0, 1)
    bits = dtype.get_bit()
    return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed_int() else Interval(0, (1 << bits) - 1)


def _integer(e: Expr) -> DataType | None:
    t = e.type
    return t.dtype if isinstance(t, ScalarType) and (t.dtype.is_int() or t.dtype is DataType.BOOL) else None


def _wide(dtype: DataType | None) -> bool:
    return dtype in (DataType.INDEX, DataType.INT64)


class Analyzer:
    """Facts of one place in a function; `region` forgets what was learned inside."""

    def __init__(self) -> None:
        self._bounds: dict[Var, Interval] = {}
        self._values: dict[Var, Expr] = {}
        self._opened: dict[Var, int] = {}  # how many definitions, one inside the other, a value stands for
        # Each is <= 0 wherever we are, exactly.
        self._facts: list[Linear] = []
        # Intervals already found; forgotten whenever something is learned.
        self._memo: dict[int, tuple[Expr, Interval]] = {}

    @contextmanager
    def region(self) -> Iterator[None]:
        saved = dict(self._bounds), dict(self._values), list(self._facts)
        try:
            yield
        finally:
            self._bounds, self._values, self._facts = saved
            self._memo.clear()

    def bind(self, v: Var, value: Expr) -> None:
        """`v` is assigned once, to this value."""
        dtype = _integer(v)
        if dtype is None or _integer(value) is None:
            return
        self.bound(v, self.bounds(value))
        if _wide(dtype) and _wide(_integer(value)) and not any(isinstance(n, Call) for n in walk(value)):
            # A chain of definitions is opened so far and no further: opening it is recursive.
            opened = 1 + max((self._opened.get(n, 0) for n in walk(value) if isinstance(n, Var)), default=0)
            if opened <= _MOST_OPENED:
                self._values[v], self._opened[v] = value, opened
            self._memo.clear()

    def bound(self, v: Var, interval: Interval) -> None:
        dtype = _integer(v)
        if dtype is not None and interval.within(range_of(dtype)):
            self._bounds[v] = self._bounds.get(v, interval).met(interval)
            self._memo.clear()

    def assume(self, condition: Expr, holds: bool = True) -> None:
        """The condition is true (or false) here."""
        if isinstance(condition, scalar.Not):
            self.assume(condition.operand, not holds)
        elif isinstance(condition, scalar.And if holds else scalar.Or) and isinstance(condition, BinaryExpr):
            self.assume(condition.left, holds)
            self.assume(condition.right, holds)
        elif isinstance(condition, (scalar.Lt, scalar.Le, scalar.Gt, scalar.Ge, scalar.Eq, scalar.Ne)):
            self._assume_comparison(condition, holds)

    def _assume_comparison(self, c: BinaryExpr, holds: bool) -> None:
        sides = self._exact_sides(c)
        kind = _relation(c, holds)
        if sides is None or kind == "!=":
            return
        difference = sides[0].minus(sides[1])
        negated = difference.scaled(-1)
        known = {
            "<": [difference.plus(Linear(1, []))],
            "<=": [difference],
            ">": [negated.plus(Linear(1, []))],
            ">=": [negated],
            "==": [difference, negated],
        }[kind]
        for fact in known:
            self._facts.append(fact)
            self._narrow(fact)

    def _narrow(self, fact: Linear) -> None:
        """Bounds of the variables of a fact: c * v + rest <= 0."""
        for atom, factor in fact.terms:
            if not isinstance(atom, Var) or abs(factor) != 1:
                continue
            least = self.range(Linear(fact.constant, [(e, c) for e, c in fact.terms if e is not atom])).low
            old = self.bounds(atom)
            limit = Interval(old.low, -least) if factor > 0 else Interval(least, old.high)
            self._bounds[atom] = old.met(limit)
            self._memo.clear()

    # -- intervals --

    def bounds(self, e: Expr) -> Interval:
        """Every value the integer expression can have."""
        dtype = _integer(e)
        if dtype is None:
            raise TypeError(f"bounds of a {e.type!r}")
        known = self._memo.get(id(e))
        if known is None:
            whole = range_of(dtype)
            found = self._interval(e)
            known = self._memo[id(e)] = (e, found if found is not None and found.within(whole) else whole)
        return known[1]

    def _interval(self, e: Expr) -> Interval | None:
        if isinstance(e, (ConstInt, ConstBool)):
            return Interval(int(e.value), int(e.value))
        if isinstance(e, Var):
            return self._bounds.get(e)
        if isinstance(e, UnaryExpr):
            return self._unary(e)
        if not isinstance(e, BinaryExpr):
            return None
        if isinstance(e, (scalar.Add, scalar.Sub, scalar.Mul)):
            return self._sum(e)
        x, y = self._converted(e.left, e), self._converted(e.right, e)
        if isinstance(e, scalar.FloorDiv):
            return _quotient(x, y)
        if isinstance(e, scalar.FloorMod):
            return _remainder(x, y)
        if isinstance(e, scalar.Min):
            return Interval(min(x.low, y.low), min(x.high, y.high))
        if isinstance(e, scalar.Max):
            return Interval(max(x.low, y.low), max(x.high, y.high))
        if isinstance(e, scalar.BitAnd) and (x.low >= 0 or y.low >= 0):
            return Interval(0, min(i.high for i in (x, y) if i.low >= 0))
        if isinstance(e, scalar.BitShiftRight) and y.low == y.high and 0 <= y.low < 64:
            return Interval(x.low >> y.low, x.high >> y.low)
        return None

    def _unary(self, e: UnaryExpr) -> Interval | None:
        if _integer(e.operand) is None:
            return None
        x = self.bounds(e.operand)
        if isinstance(e, scalar.Cast):
            # A value that does not fit keeps its low bits: anything, then.
            return x
        if isinstance(e, scalar.Neg):
            return Interval(-x.high, -x.low)
        if isinstance(e, scalar.Abs):
            return Interval(0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high)), max(abs(x.low), abs(x.high)))
        return None

    def _converted(self, operand: Expr, to: Expr) -> Interval:
        """The interval of an operand in the dtype of the operation."""
        dtype = _integer(to)
        x = self.bounds(operand) if _integer(operand) is not None else None
        whole = range_of(dtype or DataType.INT64)
        return x if x is not None and x.within(whole) else whole

    def _sum(self, e: BinaryExpr) -> Interval | None:
        """Bounds of a sum or product: operand by operand, and as a linear form where that cannot wrap."""
        local = self._arithmetic(e)
        form = linear(e, self._values) if _wide(_integer(e)) else None
        if form is None or (len(form.terms) == 1 and form.terms[0][0] is e):
            return local
        exact = self.range(form)
        if not exact.within(range_of(DataType.INT64)):
            return local
        return exact if local is None else local.met(exact)

    def _arithmetic(self, e: BinaryExpr) -> Interval | None:
        x, y = self._converted(e.left, e), self._converted(e.right, e)
        if isinstance(e, scalar.Add):
            made = Interval(x.low + y.low, x.high + y.high)
        elif isinstance(e, scalar.Sub):
            made = Interval(x.low - y.high, x.high - y.low)
        else:
            corners = [a * b for a in x for b in y]
            made = Interval(min(corners), max(corners))
        dtype = _integer(e)
        return made if dtype is not None and made.within(range_of(dtype)) else None

    def range(self, form: Linear) -> Interval:
        """The exact values of a linear form, without wrapping."""
        low = high = form.constant
        for atom, factor in form.terms:
            x = self.bounds(atom)
            low += factor * (x.low if factor > 0 else x.high)
            high += factor * (x.high if factor > 0 else x.low)
        return Interval(low, high)

    def exact(self, e: Expr) -> Linear | None:
        """A linear form whose exact value is the machine's, or None."""
        dtype = _integer(e)
        if dtype is None:
            return None
        whole = range_of(dtype)
        if _wide(dtype):
            for form in (linear(e, self._values), linear(e)):
                if self.range(form).within(whole):
                    return form
        return Linear(0, [(e, 1)]) if not isinstance(e, ConstInt) else Linear(e.value, [])

    # -- decisions --

    def decide(self, condition: Expr) -> bool | None:
        """Whether a condition holds on every run, on none, or (None) not known."""
        if isinstance(condition, ConstBool):
            return condition.value
        if isinstance(condition, scalar.Not):
            inner = self.decide(condition.operand)
            return None if inner is None else not inner
        if isinstance(condition, (scalar.And, scalar.Or)):
            sides = (self.decide(condition.left), self.decide(condition.right))
            short = isinstance(condition, scalar.Or)
            if short in sides:
                return short
            return None if None in sides else not short
        if isinstance(condition, scalar.COMPARISONS) and isinstance(condition, BinaryExpr):
            return self._compare(condition)
        return None

    def _compare(self, c: BinaryExpr) -> bool | None:
        kind = _relation(c, True)
        if isinstance(c.left, ConstFloat) and isinstance(c.right, ConstFloat):
            return _compare_floats(kind, c.left, c.right)
        left, right = _integer(c.left), _integer(c.right)
        if left is None or right is None:
            return None
        if kind in ("==", "!="):
            equal = self._equal(c)
            return None if equal is None else equal == (kind == "==")
        sides = self._exact_sides(c)
        if sides is None:
            return None
        difference = sides[0].minus(sides[1])
        if kind in (">", ">="):
            difference = difference.scaled(-1)
        if kind in ("<", ">"):
            difference = difference.plus(Linear(1, []))
        return self._at_most_zero(difference)

    def _equal(self, c: BinaryExpr) -> bool | None:
        left, right = _integer(c.left), _integer(c.right)
        if left is right and compare(c.left, c.right) is None and not any(isinstance(n, Call) for n in walk(c.left)):
            return True
        if _wide(left) and _wide(right):
            # Linear forms are exact modulo 2^64, which is all that equality needs.
            difference = linear(c.left, self._values).minus(linear(c.right, self._values))
            if not difference.terms:
                return difference.constant % (1 << 64) == 0
        sides = self._exact_sides(c)
        if sides is None:
            return None
        difference = sides[0].minus(sides[1])
        below, above = self._at_most_zero(difference), self._at_most_zero(difference.scaled(-1))
        return False if below is False or above is False else True if below and above else None

    def _exact_sides(self, c: BinaryExpr) -> tuple[Linear, Linear] | None:
        """Both sides of a comparison, exact in the dtype they are compared in."""
        left, right = _integer(c.left), _integer(c.right)
        if left is None or right is None:
            return None
        dtype = left if left is DataType.BOOL or right is DataType.BOOL else scalar.promote(left, right)
        whole = range_of(dtype)
        if not self.bounds(c.left).within(whole) or not self.bounds(c.right).within(whole):
            return None
        x, y = self.exact(c.left), self.exact(c.right)
        return None if x is None or y is None else (x, y)

    def _at_most_zero(self, form: Linear) -> bool | None:
        inside = self.range(form)
        if inside.high <= 0:
            return True
        if inside.low > 0:
            return False
        opposite = form.scaled(-1).plus(Linear(1, []))
        for fact in self._facts:
            if self.range(form.minus(fact)).high <= 0:
                return True
            if self.range(opposite.minus(fact)).high <= 0:
                return False
        return None


_KINDS: dict[type[BinaryExpr], tuple[str, str]] = {
    scalar.Lt: ("<", ">="),
    scalar.Le: ("<=", ">"),
    scalar.Gt: (">", "<="),
    scalar.Ge: (">=", "<"),
    scalar.Eq: ("==", "!="),
    scalar.Ne: ("!=", "=="),
}


def _relation(c: BinaryExpr, holds: bool) -> str:
    return _KINDS[type(c)][0 if holds else 1]


def _compare_floats(kind: str, a: ConstFloat, b: ConstFloat) -> bool | None:
    """Comparison of two binary32 constants as they are after rounding."""
    if a.dtype is not DataType.FP32 or b.dtype is not DataType.FP32:
        return None
    try:
        x, y = (struct.unpack("<f", struct.pack("<f", c.value))[0] for c in (a, b))
    except OverflowError:
        return None
    return bool({"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[kind])


def _quotient(x: Interval, y: Interval) -> Interval | None:
    """Floor quotients; None where the divisor may be 0."""
    if y.low <= 0 <= y.high:
        return None
    corners = [a // b for a in x for b in y]
    return Interval(min(corners), max(corners))


def _remainder(x: Interval, y: Interval) -> Interval | None:
    if y.low > 0:
        return x if x.low >= 0 and x.high < y.low else Interval(0, y.high - 1)
    return Interval(y.low + 1, 0) if y.high < 0 else None
