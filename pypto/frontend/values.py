"""What an expression of the language can stand for, and how it becomes IR.

A value is an `ir.Expr` (known at run time), a plain Python object (known now), or a tuple of values.  Plain numbers stay
Python numbers until an operator consumes them, so that they fold by Python's rules and take the dtype they meet.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pypto.dtypes import DataType
from pypto.frontend.constants import describe
from pypto.ir import arith, scalar
from pypto.ir.expr import BinaryExpr, ConstBool, ConstFloat, ConstInt, Expr, MakeTuple, UnaryExpr, Var
from pypto.ir.shaped import TensorType, TileType, const_dim
from pypto.ir.types import ArrayType, ScalarType, TupleType, Type
from pypto.span import Span

__all__ = [
    "constant_of",
    "contains_expr",
    "fold",
    "is_const_expr",
    "number_expr",
    "retag",
    "scalar_dtype",
    "type_text",
]

_I64 = range(-(1 << 63), 1 << 63)


def number_expr(value: float, span: Span) -> Expr:
    """A plain number on its own: ints are INDEX, floats FP32, booleans BOOL; OverflowError beyond 64 bits."""
    if value is True or value is False:
        return ConstBool(value, span)
    if isinstance(value, int):
        if value not in _I64:
            raise OverflowError(f"{value} does not fit 64 bits")
        return ConstInt(value, DataType.INDEX, span)
    return ConstFloat(value, DataType.FP32, span)


def retag(value: float, dtype: DataType, span: Span) -> Expr:
    """A plain number beside a scalar of `dtype`: it takes that dtype if it is of the category and fits."""
    if value is True or value is False:
        return ConstBool(value, span)
    if isinstance(value, int) and dtype.is_int() and arith.wrap(value, dtype) == value:
        return ConstInt(value, dtype, span)
    if isinstance(value, float) and dtype.is_float():
        return ConstFloat(value, dtype, span)
    return number_expr(value, span)


def is_const_expr(value: Any) -> bool:
    return isinstance(value, (ConstInt, ConstFloat, ConstBool))


def constant_of(value: Any) -> Any:
    """The Python number of a constant expression; anything else as it is."""
    return value.value if is_const_expr(value) else value


def scalar_dtype(value: Any) -> DataType | None:
    """The dtype of a scalar expression, else None."""
    return value.type.dtype if isinstance(value, Expr) and isinstance(value.type, ScalarType) else None


def contains_expr(value: Any) -> bool:
    return isinstance(value, Expr) or (isinstance(value, tuple) and any(map(contains_expr, value)))


# -- folding with known parameters ---------------------------------------------------------------------------------

_FOLD: dict[type[Expr], Callable[[Expr, Expr], Expr]] = {
    scalar.Add: arith.add,
    scalar.Sub: arith.sub,
    scalar.Mul: arith.mul,
    scalar.FloorDiv: arith.floordiv,
    scalar.FloorMod: arith.mod,
    scalar.Min: arith.minimum,
    scalar.Max: arith.maximum,
}


_COMPARE: dict[type[Expr], Callable[[int, int], bool]] = {
    scalar.Eq: operator.eq,
    scalar.Ne: operator.ne,
    scalar.Lt: operator.lt,
    scalar.Le: operator.le,
    scalar.Gt: operator.gt,
    scalar.Ge: operator.ge,
    scalar.And: lambda a, b: bool(a and b),
    scalar.Or: lambda a, b: bool(a or b),
}


def fold(e: Expr, known: dict[Var, Expr]) -> Expr:
    """`e` with variables opened and arithmetic on integer constants done; used only to find out whether it is constant."""
    if isinstance(e, Var):
        value = known.get(e)
        return e if value is None else fold(value, known)
    if isinstance(e, BinaryExpr):
        left, right = fold(e.left, known), fold(e.right, known)
        f = _FOLD.get(type(e))
        if f is not None and isinstance(left, ConstInt) and isinstance(right, ConstInt):
            return f(left, right)
        compare = _COMPARE.get(type(e))
        if compare is not None and isinstance(left, (ConstInt, ConstBool)) and isinstance(right, (ConstInt, ConstBool)):
            return ConstBool(compare(*_common(left, right)))
        return e if left is e.left and right is e.right else e.replace(left=left, right=right)
    if isinstance(e, UnaryExpr):
        operand = fold(e.operand, known)
        if isinstance(e, scalar.Cast) and isinstance(operand, ConstInt) and scalar.dtype_of(e).is_int():
            return arith.const(operand.value, scalar.dtype_of(e))
        if isinstance(e, scalar.Neg) and isinstance(operand, ConstInt):
            return arith.const(-operand.value, operand.dtype)
        if isinstance(e, scalar.Not) and isinstance(operand, ConstBool):
            return ConstBool(not operand.value)
        return e if operand is e.operand else e.replace(operand=operand)
    if isinstance(e, MakeTuple):
        return MakeTuple((fold(x, known) for x in e.elements), e.span)
    return e


def _common(left: ConstInt | ConstBool, right: ConstInt | ConstBool) -> tuple[int, int]:
    """Two constants in the type that they are compared in."""
    if isinstance(left, ConstBool) or isinstance(right, ConstBool):
        return int(left.value), int(right.value)
    dtype = scalar.promote(left.dtype, right.dtype)
    return arith.wrap(left.value, dtype), arith.wrap(right.value, dtype)


# -- text ------------------------------------------------------------------------------------------------------------


def value_text(value: Any) -> str:
    """A value in an error message: an expression by its type."""
    if isinstance(value, Expr):
        return str(constant_of(value)) if is_const_expr(value) else type_text(value.type)
    return describe(value)


def dim_text(d: Expr) -> str:
    value = const_dim(d)
    if value is not None:
        return str(value)
    return d.name_hint if isinstance(d, Var) else "?"


def type_text(t: Type) -> str:
    """A type as a user would write it, in short."""
    if isinstance(t, ScalarType):
        return f"pl.Scalar[pl.{t.dtype.name}]"
    if isinstance(t, (TensorType, TileType)):
        shape = ", ".join(map(dim_text, t.shape))
        extra = ""
        if isinstance(t, TileType):
            extra = f", pl.Mem.{t.memory_space.name}" if t.memory_space is not None else ""
        if not all(a is b or arith.same(a, b) for a, b in zip(t.valid, t.shape, strict=True)):
            extra += f", valid [{', '.join(map(dim_text, t.valid))}]"
        name = "Tensor" if isinstance(t, TensorType) else "Tile"
        return f"pl.{name}[[{shape}], pl.{t.dtype.name}{extra}]"
    if isinstance(t, TupleType):
        return f"pl.Tuple[{', '.join(map(type_text, t.types))}]"
    if isinstance(t, ArrayType):
        return f"pl.Array[{t.extent}, pl.{t.dtype.name}]"
    return type(t).__name__.removesuffix("Type")
