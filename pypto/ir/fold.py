"""Folding of scalar expressions.

In: a node whose operands are folded, and what an analyzer knows.  Out: a simpler expression with the same bits on every
run, or the node itself.  Integers wrap in the dtype of the operation, division rounds down; floats are left alone but for
exact conversions and signs of constants.
Invariant: nothing that calls an operator is dropped; a constant zero divisor is an error where it was written.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto.dtypes import DataType
from pypto.errors import CompileError
from pypto.ir import arith, scalar
from pypto.ir.analyzer import Analyzer
from pypto.ir.expr import BinaryExpr, Call, ConstBool, ConstFloat, ConstInt, Expr, Submit, UnaryExpr
from pypto.ir.rewrite import walk
from pypto.ir.structural import compare
from pypto.ir.types import ScalarType

__all__ = ["fold", "is_pure"]

_EXACT_DOUBLE = 1 << 53


def is_pure(e: Expr) -> bool:
    """Whether evaluating the expression does nothing but compute."""
    return not any(isinstance(n, (Call, Submit)) for n in walk(e))


def fold(e: Expr, known: Analyzer) -> Expr:
    """The node `e`, simplified at its top."""
    if isinstance(e, UnaryExpr):
        return _unary(e)
    if not isinstance(e, BinaryExpr):
        return e
    if isinstance(e, scalar.COMPARISONS):
        decided = known.decide(e) if is_pure(e) else None
        return e if decided is None else ConstBool(decided, e.span)
    if isinstance(e, scalar.LOGICAL):
        return _logic(e)
    dtype = scalar.dtype_of(e)
    if not dtype.is_int() or isinstance(e, (scalar.FloatDiv, scalar.Pow)):
        return e
    if isinstance(e, (scalar.FloorDiv, scalar.FloorMod)) and isinstance(e.right, ConstInt) and e.right.value == 0:
        sign = "//" if isinstance(e, scalar.FloorDiv) else "%"
        what = f"division by zero: the divisor of {sign} is the constant 0"
        raise CompileError(what, e.span, "a constant divisor must not be zero", code="C024")
    for rule in (_constants, _identity, _regrouped):
        made = rule(e, dtype)
        if made is not None:
            return made
    for bounded in (_divided, _extremum):
        made = bounded(e, known)
        if made is not None:
            return made
    return e


# -- constants -----------------------------------------------------------------------------------------------------

_EVALUATE: dict[type[BinaryExpr], Callable[[int, int], int]] = {
    scalar.Add: lambda x, y: x + y,
    scalar.Sub: lambda x, y: x - y,
    scalar.Mul: lambda x, y: x * y,
    scalar.FloorDiv: lambda x, y: x // y,
    scalar.FloorMod: lambda x, y: x % y,
    scalar.Min: min,
    scalar.Max: max,
    scalar.BitAnd: lambda x, y: x & y,
    scalar.BitOr: lambda x, y: x | y,
    scalar.BitXor: lambda x, y: x ^ y,
    scalar.BitShiftLeft: lambda x, y: x << y,
    scalar.BitShiftRight: lambda x, y: x >> y,
}


def _value(e: Expr, dtype: DataType) -> int | None:
    """A constant operand in the dtype of its operation."""
    return arith.wrap(e.value, dtype) if isinstance(e, ConstInt) else None


def _constants(e: BinaryExpr, dtype: DataType) -> Expr | None:
    x, y = _value(e.left, dtype), _value(e.right, dtype)
    evaluate = _EVALUATE.get(type(e))
    if x is None or y is None or evaluate is None:
        return None
    if isinstance(e, (scalar.BitShiftLeft, scalar.BitShiftRight)) and not 0 <= y < dtype.get_bit():
        return None
    return None if y == 0 and isinstance(e, (scalar.FloorDiv, scalar.FloorMod)) else _const(evaluate(x, y), dtype, e)


def _const(value: int, dtype: DataType, at: Expr) -> Expr:
    return ConstInt(arith.wrap(value, dtype), dtype, at.span)


def _unary(e: UnaryExpr) -> Expr:
    x, dtype = e.operand, scalar.dtype_of(e)
    if isinstance(e, scalar.Cast):
        return _cast(e, x, dtype)
    if isinstance(e, scalar.Not):
        if isinstance(x, ConstBool):
            return ConstBool(not x.value, e.span)
        inner_is_bool = isinstance(x, scalar.Not) and scalar.dtype_of(x.operand) is DataType.BOOL
        return x.operand if isinstance(x, scalar.Not) and inner_is_bool else e
    if isinstance(x, ConstFloat) and x.dtype is dtype and isinstance(e, (scalar.Neg, scalar.Abs)):
        return ConstFloat(-x.value if isinstance(e, scalar.Neg) else abs(x.value), dtype, e.span)
    value = _value(x, dtype) if dtype.is_int() else None
    if value is None:
        return e
    made = {scalar.Neg: -value, scalar.Abs: abs(value), scalar.BitNot: ~value}.get(type(e))
    return e if made is None else _const(made, dtype, e)


def _cast(e: UnaryExpr, x: Expr, dtype: DataType) -> Expr:
    if isinstance(x.type, ScalarType) and x.type.dtype is dtype:
        return x
    if not isinstance(x, (ConstInt, ConstBool)):
        return e
    value = int(x.value)
    if dtype.is_int():
        return _const(value, dtype, e)
    if dtype is DataType.BOOL:
        return ConstBool(value != 0, e.span)
    # The constant is rounded once, as the conversion would be, if a double holds the integer.
    return ConstFloat(float(value), dtype, e.span) if dtype.is_float() and abs(value) <= _EXACT_DOUBLE else e


def _logic(e: BinaryExpr) -> Expr:
    for constant, other in ((e.left, e.right), (e.right, e.left)):
        if not isinstance(constant, ConstBool) or scalar.dtype_of(other) is not DataType.BOOL:
            continue
        if isinstance(e, scalar.Xor):
            return other if not constant.value else _unary(scalar.Not(other, DataType.BOOL, e.span))
        if constant.value == isinstance(e, scalar.And):
            return other
        if is_pure(other):
            return ConstBool(constant.value, e.span)
    return e


# -- identities ----------------------------------------------------------------------------------------------------


def _identity(e: BinaryExpr, dtype: DataType) -> Expr | None:
    """x + 0, x * 1, x - x and the like, where the operand that stays has the dtype of the result."""
    x, y = _value(e.left, dtype), _value(e.right, dtype)
    left = e.left if scalar.dtype_of(e.left) is dtype else None
    right = e.right if scalar.dtype_of(e.right) is dtype else None
    if isinstance(e, scalar.Add):
        return left if y == 0 else right if x == 0 else _collapsed(e)
    if isinstance(e, scalar.Sub):
        if y == 0:
            return left
        same = left is not None and right is not None and compare(left, right) is None and is_pure(left)
        return _const(0, dtype, e) if same else _collapsed(e)
    if isinstance(e, scalar.Mul):
        if (x == 0 and is_pure(e.right)) or (y == 0 and is_pure(e.left)):
            return _const(0, dtype, e)
        return left if y == 1 else right if x == 1 else None
    if isinstance(e, scalar.FloorDiv):
        return left if y == 1 else _const(0, dtype, e) if x == 0 and is_pure(e.right) else None
    if isinstance(e, scalar.FloorMod):
        return _const(0, dtype, e) if (y == 1 and is_pure(e.left)) or (x == 0 and is_pure(e.right)) else None
    if isinstance(e, (scalar.BitShiftLeft, scalar.BitShiftRight, scalar.BitOr, scalar.BitXor)) and y == 0:
        return left
    return None


def _collapsed(e: BinaryExpr) -> Expr | None:
    """A sum whose terms cancel to one variable or a constant."""
    if scalar.dtype_of(e) not in (DataType.INDEX, DataType.INT64) or not is_pure(e):
        return None
    form = arith.linear(e)
    if not form.terms:
        return _const(form.constant, scalar.dtype_of(e), e)
    atom, factor = form.terms[0]
    alone = len(form.terms) == 1 and factor == 1 and form.constant == 0 and atom is not e
    return atom if alone and scalar.dtype_of(atom) is scalar.dtype_of(e) else None


def _regrouped(e: BinaryExpr, dtype: DataType) -> Expr | None:
    """Constants of nested sums or products together; exact, since the dtype's arithmetic is modular."""
    inner, y = e.left, _value(e.right, dtype)
    if y is None or not isinstance(inner, BinaryExpr) or scalar.dtype_of(inner) is not dtype:
        return None
    c = _value(inner.right, dtype)
    if c is None or scalar.dtype_of(inner.left) is not dtype:
        return None
    if isinstance(e, scalar.Mul) and isinstance(inner, scalar.Mul):
        return scalar.Mul(inner.left, _const(c * y, dtype, e), dtype, e.span)
    if not isinstance(e, (scalar.Add, scalar.Sub)) or not isinstance(inner, (scalar.Add, scalar.Sub)):
        return None
    total = (c if isinstance(inner, scalar.Add) else -c) + (y if isinstance(e, scalar.Add) else -y)
    total = arith.wrap(total, dtype)
    if total == 0:
        return inner.left
    if total > 0 or not dtype.is_signed_int() or total == arith.wrap(-total, dtype):
        return scalar.Add(inner.left, _const(total, dtype, e), dtype, e.span)
    return scalar.Sub(inner.left, _const(-total, dtype, e), dtype, e.span)


# -- with bounds ---------------------------------------------------------------------------------------------------


def _divided(e: BinaryExpr, known: Analyzer) -> Expr | None:
    """Quotients and remainders by a positive constant that the bounds of the dividend decide."""
    dtype = scalar.dtype_of(e)
    by = _value(e.right, dtype)
    if not isinstance(e, (scalar.FloorDiv, scalar.FloorMod)) or by is None or by <= 0 or not is_pure(e.left):
        return None
    if scalar.dtype_of(e.left) is not dtype:
        return None
    x = known.bounds(e.left)
    quotient = isinstance(e, scalar.FloorDiv)
    if x.low // by == x.high // by:
        base = x.low // by
        if quotient:
            return _const(base, dtype, e)
        return e.left if base == 0 else None
    if dtype not in (DataType.INDEX, DataType.INT64):
        return None
    form = known.exact(e.left)
    if form is None or any(c % by for _, c in form.terms):
        return None
    # Every term is a multiple of the divisor: the quotient is the sum of the quotients, the rest is a constant.
    if not quotient:
        return _const(form.constant % by, dtype, e)
    if len(form.terms) != 1 or scalar.dtype_of(form.terms[0][0]) is not dtype:
        return None
    atom, factor = form.terms[0]
    return arith.add(arith.mul(atom, arith.const(factor // by, dtype)), arith.const(form.constant // by, dtype))


def _extremum(e: BinaryExpr, known: Analyzer) -> Expr | None:
    dtype = scalar.dtype_of(e)
    if not isinstance(e, (scalar.Min, scalar.Max)) or not is_pure(e):
        return None
    if scalar.dtype_of(e.left) is not dtype or scalar.dtype_of(e.right) is not dtype:
        return None
    below = known.decide(scalar.Le(e.left, e.right, DataType.BOOL))
    if below is None:
        return None
    return e.left if below == isinstance(e, scalar.Min) else e.right
