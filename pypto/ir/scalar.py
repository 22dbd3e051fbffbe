"""Scalar operator nodes, and the constructors that type them.

In: scalar expressions.  Out: one node whose dtype follows the promotion rule: the wider type wins, at equal width the
left one; integers and floats do not mix.  Comparisons and logic give BOOL.  No folding happens here: `arith.py` folds.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.ir.expr import BinaryExpr, Expr, UnaryExpr
from pypto.ir.node import variant
from pypto.ir.types import ScalarType
from pypto.span import Span

__all__ = [
    "COMPARISONS",
    "LOGICAL",
    "Abs",
    "Add",
    "And",
    "BitAnd",
    "BitNot",
    "BitOr",
    "BitShiftLeft",
    "BitShiftRight",
    "BitXor",
    "Cast",
    "Eq",
    "FloatDiv",
    "FloorDiv",
    "FloorMod",
    "Ge",
    "Gt",
    "Le",
    "Lt",
    "Max",
    "Min",
    "Mul",
    "Ne",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "Sub",
    "Xor",
    "add",
    "and_",
    "bit_and",
    "bit_not",
    "bit_or",
    "bit_shift_left",
    "bit_shift_right",
    "bit_xor",
    "cast",
    "dtype_of",
    "eq",
    "floordiv",
    "ge",
    "gt",
    "le",
    "lt",
    "max_",
    "min_",
    "mod",
    "mul",
    "ne",
    "neg",
    "not_",
    "or_",
    "pow",
    "promote",
    "sub",
    "truediv",
]


@variant
class Add(BinaryExpr):
    """left + right; integers wrap"""


@variant
class Sub(BinaryExpr):
    """left - right; integers wrap"""


@variant
class Mul(BinaryExpr):
    """left * right; integers wrap"""


@variant
class FloorDiv(BinaryExpr):
    """Quotient rounded down; x // 0 is 0."""


@variant
class FloorMod(BinaryExpr):
    """Remainder with the divisor's sign; x % 0 is 0."""


@variant
class FloatDiv(BinaryExpr):
    """True division in the operands' dtype."""


@variant
class Min(BinaryExpr):
    """The smaller value; NaN if either is NaN."""


@variant
class Max(BinaryExpr):
    """The larger value; NaN if either is NaN."""


@variant
class Pow(BinaryExpr):
    """left ** right"""


@variant
class Eq(BinaryExpr):
    """left == right"""


@variant
class Ne(BinaryExpr):
    """left != right"""


@variant
class Lt(BinaryExpr):
    """left < right"""


@variant
class Le(BinaryExpr):
    """left <= right"""


@variant
class Gt(BinaryExpr):
    """left > right"""


@variant
class Ge(BinaryExpr):
    """left >= right"""


@variant
class And(BinaryExpr):
    """Both; both sides are always evaluated."""


@variant
class Or(BinaryExpr):
    """Either; both sides are always evaluated."""


@variant
class Xor(BinaryExpr):
    """One but not both."""


@variant
class BitAnd(BinaryExpr):
    """Bitwise and."""


@variant
class BitOr(BinaryExpr):
    """Bitwise or."""


@variant
class BitXor(BinaryExpr):
    """Bitwise exclusive or."""


@variant
class BitShiftLeft(BinaryExpr):
    """left << right; bits shifted out are lost."""


@variant
class BitShiftRight(BinaryExpr):
    """left >> right; arithmetic for signed types."""


@variant
class Abs(UnaryExpr):
    """Magnitude; the smallest integer stays itself."""


@variant
class Neg(UnaryExpr):
    """-operand; integers wrap."""


@variant
class Not(UnaryExpr):
    """Logical negation."""


@variant
class BitNot(UnaryExpr):
    """Bitwise complement."""


@variant
class Cast(UnaryExpr):
    """Conversion to the dtype given; float to integer truncates, saturates, and takes NaN to 0."""


COMPARISONS: tuple[type[BinaryExpr], ...] = (Eq, Ne, Lt, Le, Gt, Ge)
LOGICAL: tuple[type[BinaryExpr], ...] = (And, Or, Xor)
_UNKNOWN = Span.unknown()


def dtype_of(e: Expr) -> DataType:
    """The element type of a scalar expression; TypeError for anything else."""
    t = e.type
    if not isinstance(t, ScalarType):
        raise TypeError(
            f"Expression must be ScalarExpr or Var with ScalarType, got {type(e).__name__} with type {type(t).__name__}"
        )
    return t.dtype


def promote(left: DataType, right: DataType) -> DataType:
    """The common type of two numeric dtypes of one category; TypeError across categories."""
    if left is right and (left.is_int() or left.is_float()):
        return left
    same = (left.is_int() and right.is_int()) or (left.is_float() and right.is_float())
    if not same:
        raise TypeError(f"requires same numeric dtype category, got {left} and {right}")
    return right if right.get_bit() > left.get_bit() else left


def _arithmetic(cls: type[BinaryExpr], a: Expr, b: Expr, span: Span) -> Expr:
    return cls(a, b, promote(dtype_of(a), dtype_of(b)), span)


def _compare(cls: type[BinaryExpr], a: Expr, b: Expr, span: Span) -> Expr:
    x, y = dtype_of(a), dtype_of(b)
    if not (x is DataType.BOOL and y is DataType.BOOL):
        promote(x, y)
    return cls(a, b, DataType.BOOL, span)


def _logic(cls: type[BinaryExpr], a: Expr, b: Expr, span: Span) -> Expr:
    for e in (a, b):
        if not (dtype_of(e) is DataType.BOOL or dtype_of(e).is_int()):
            raise TypeError(f"and/or take BOOL or integers, not {dtype_of(e)}")
    return cls(a, b, DataType.BOOL, span)


def _bits(cls: type[BinaryExpr], a: Expr, b: Expr, span: Span) -> Expr:
    for e in (a, b):
        if not dtype_of(e).is_int():
            raise TypeError(f"bit operations take integers, not {dtype_of(e)}")
    return cls(a, b, promote(dtype_of(a), dtype_of(b)), span)


def add(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(Add, lhs, rhs, span)


def sub(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(Sub, lhs, rhs, span)


def mul(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(Mul, lhs, rhs, span)


def truediv(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(FloatDiv, lhs, rhs, span)


def floordiv(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(FloorDiv, lhs, rhs, span)


def mod(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(FloorMod, lhs, rhs, span)


def pow(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(Pow, lhs, rhs, span)


def min_(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(Min, lhs, rhs, span)


def max_(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _arithmetic(Max, lhs, rhs, span)


def eq(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _compare(Eq, lhs, rhs, span)


def ne(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _compare(Ne, lhs, rhs, span)


def lt(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _compare(Lt, lhs, rhs, span)


def le(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _compare(Le, lhs, rhs, span)


def gt(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _compare(Gt, lhs, rhs, span)


def ge(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _compare(Ge, lhs, rhs, span)


def and_(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _logic(And, lhs, rhs, span)


def or_(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _logic(Or, lhs, rhs, span)


def bit_and(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _bits(BitAnd, lhs, rhs, span)


def bit_or(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _bits(BitOr, lhs, rhs, span)


def bit_xor(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _bits(BitXor, lhs, rhs, span)


def bit_shift_left(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _bits(BitShiftLeft, lhs, rhs, span)


def bit_shift_right(lhs: Expr, rhs: Expr, span: Span = _UNKNOWN) -> Expr:
    return _bits(BitShiftRight, lhs, rhs, span)


def neg(operand: Expr, span: Span = _UNKNOWN) -> Expr:
    return Neg(operand, promote(dtype_of(operand), dtype_of(operand)), span)


def bit_not(operand: Expr, span: Span = _UNKNOWN) -> Expr:
    if not dtype_of(operand).is_int():
        raise TypeError(f"bit operations take integers, not {dtype_of(operand)}")
    return BitNot(operand, dtype_of(operand), span)


def not_(operand: Expr, span: Span = _UNKNOWN) -> Expr:
    dtype_of(operand)
    return Not(operand, DataType.BOOL, span)


def cast(operand: Expr, dtype: DataType, span: Span = _UNKNOWN) -> Expr:
    dtype_of(operand)
    return Cast(operand, dtype, span)
