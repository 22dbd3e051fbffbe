"""Scalar expressions and types as C.

In: IR expressions and the C names of their variables.  Out: one C expression of the exact value: integers wrap in their
width (the unit is compiled with -fwrapv), `//` and `%` follow Python with x // 0 == 0, casts saturate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pypto.dtypes import DataType, nearest
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import scalar
from pypto.ir.expr import BinaryExpr, ConstBool, ConstFloat, ConstInt, Expr, UnaryExpr, Var
from pypto.ir.lanes import LANE_OF
from pypto.ir.types import ArrayType, ScalarType

__all__ = ["C_TYPES", "array_type", "const_text", "expr_text", "float_text", "int_text", "scalar_type", "stored_text"]

# The type of a scalar variable.  Halves are held as binary32: their values are exact there, each operation rounds.
C_TYPES: Mapping[DataType, str] = {
    DataType.BOOL: "bool",
    DataType.INT8: "int8_t",
    DataType.INT16: "int16_t",
    DataType.INT32: "int32_t",
    DataType.INT64: "int64_t",
    DataType.INDEX: "int64_t",
    DataType.UINT8: "uint8_t",
    DataType.UINT16: "uint16_t",
    DataType.UINT32: "uint32_t",
    DataType.UINT64: "uint64_t",
    DataType.FP32: "float",
    DataType.FP16: "float",
    DataType.BF16: "float",
}
_HALVES = {DataType.FP16: "pp_round_f16", DataType.BF16: "pp_round_bf16"}
_INFIX = {
    scalar.Add: "+",
    scalar.Sub: "-",
    scalar.Mul: "*",
    scalar.FloatDiv: "/",
    scalar.Eq: "==",
    scalar.Ne: "!=",
    scalar.Lt: "<",
    scalar.Le: "<=",
    scalar.Gt: ">",
    scalar.Ge: ">=",
    scalar.BitAnd: "&",
    scalar.BitOr: "|",
    scalar.BitXor: "^",
}
_CALLS = {
    scalar.FloorDiv: "floordiv",
    scalar.FloorMod: "floormod",
    scalar.Min: "min",
    scalar.Max: "max",
    scalar.BitShiftLeft: "shl",
    scalar.BitShiftRight: "shr",
}
# Halves are computed in FP32.
_SUFFIX = {**LANE_OF, DataType.FP16: "f32", DataType.BF16: "f32"}


def dtype_of(e: Expr) -> DataType:
    if not isinstance(e.type, ScalarType):
        raise InternalError(f"a scalar was expected, got {e!r}")
    return e.type.dtype


def scalar_type(e: Expr) -> str:
    """The type of a scalar, or of an array of scalars: both are values that are assigned."""
    return array_type(e.type) if isinstance(e.type, ArrayType) else C_TYPES[dtype_of(e)]


def array_type(t: ArrayType) -> str:
    return f"pp_array_{t.dtype.name.lower()}_{t.extent}"


def stored_text(text: str, dtype: DataType) -> str:
    """A scalar as the element that memory holds: halves are their bits there."""
    return f"pp_f32_to_{LANE_OF[dtype]}({text})" if dtype in _HALVES else text


def float_text(value: float, suffix: str = "f") -> str:
    """A C literal of exactly this double, or the double rounded once by the compiler."""
    if value != value:
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return ("-" if value < 0 else "") + f"__builtin_inf{suffix}()"
    if value == int(value) and abs(value) < 1e6:
        return f"{'-' if math.copysign(1, value) < 0 else ''}{abs(int(value))}.0{suffix}"
    return f"{value.hex()}{suffix}"


def int_text(value: int, dtype: DataType) -> str:
    if dtype in (DataType.INT64, DataType.INDEX):
        return "INT64_MIN" if value == -(1 << 63) else f"INT64_C({value})" if abs(value) >= 1 << 31 else str(value)
    if dtype is DataType.UINT64:
        return f"UINT64_C({value})"
    if dtype is DataType.INT32 and value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}u" if dtype is DataType.UINT32 else str(value)


def const_text(e: ConstInt | ConstFloat | ConstBool) -> str:
    if isinstance(e, ConstBool):
        return "true" if e.value else "false"
    if isinstance(e, ConstInt):
        return int_text(e.value, e.dtype)
    return float_text(nearest(e.value, e.dtype))


def expr_text(e: Expr, names: Mapping[Var, str]) -> str:
    """The C text of a scalar expression; parenthesized wherever it is not a single token or call."""
    if isinstance(e, (ConstInt, ConstFloat, ConstBool)):
        text = const_text(e)
        return f"({text})" if text.startswith("-") else text
    if isinstance(e, Var):
        try:
            return names[e]
        except KeyError:
            raise InternalError(f"scalar {e!r} has no value here") from None
    if isinstance(e, BinaryExpr):
        return _binary(e, names)
    if isinstance(e, UnaryExpr):
        return _unary(e, names)
    raise InternalError(f"no C form of the scalar expression {type(e).__name__}")


def _binary(e: BinaryExpr, names: Mapping[Var, str]) -> str:
    kind, dtype = type(e), dtype_of(e)
    if kind in scalar.LOGICAL:
        # Both sides are evaluated, so the operators without short circuit serve.
        a, b = (
            expr_text(x, names) if dtype_of(x) is DataType.BOOL else f"({expr_text(x, names)} != 0)" for x in (e.left, e.right)
        )
        return f"({a} {'&' if kind is scalar.And else '|' if kind is scalar.Or else '^'} {b})"
    left, right = dtype_of(e.left), dtype_of(e.right)
    # Operands meet in their common type: C's own conversions, to int or to the unsigned type, would compute something else.
    common = left if left is right else scalar.promote(left, right)
    known = isinstance(e.left, ConstInt) and isinstance(e.right, ConstInt)
    a, b = (_converted(x, common, names, known) for x in (e.left, e.right))
    name = _CALLS.get(kind) or ("truncdiv" if kind is scalar.FloatDiv and common.is_int() else None)
    if name is not None and (common.is_int() or kind in (scalar.Min, scalar.Max)):
        return _fitted(f"pp_{name}_{_SUFFIX[common]}({a}, {b})", common, dtype)
    infix = _INFIX.get(kind)
    if infix is None:
        what = f"{kind.__name__} of {common} scalars is not executed"
        raise NotSupportedError(what, e.span, "compute it with + - * / or on tiles")
    text = f"({a} {infix} {b})"
    if kind in scalar.COMPARISONS:
        return text
    if common in _HALVES:
        text = f"{_HALVES[common]}{text}"
    elif common.is_int() and common.get_bit() < 32:
        # C computes narrow integers as int: the cast brings the result back to its width.
        text = f"({C_TYPES[common]}){text}"
    return _fitted(text, common, dtype)


def _converted(e: Expr, common: DataType, names: Mapping[Var, str], exactly: bool = False) -> str:
    """An operand in the type that the operation computes in; `exactly`: a constant of C's own type int is not enough."""
    text = _fitted(expr_text(e, names), dtype_of(e), common)
    return f"(({C_TYPES[common]}){text})" if exactly else text


def _fitted(text: str, source: DataType, target: DataType) -> str:
    """A value of one category in another type of it: an integer wrapped, a float rounded once."""
    if C_TYPES[source] == C_TYPES[target] and (source is target or target not in _HALVES):
        return text
    return f"{_HALVES[target]}({text})" if target in _HALVES else f"(({C_TYPES[target]}){text})"


def _unary(e: UnaryExpr, names: Mapping[Var, str]) -> str:
    a, source, dtype = expr_text(e.operand, names), dtype_of(e.operand), dtype_of(e)
    if isinstance(e, scalar.Not):
        return f"(!({a}))"
    if isinstance(e, scalar.Cast):
        return cast_text(a, source, dtype)
    a = _fitted(a, source, dtype)
    if isinstance(e, scalar.Neg):
        return f"({C_TYPES[dtype]})(-({a}))"
    if isinstance(e, scalar.BitNot):
        return f"({C_TYPES[dtype]})(~({a}))"
    if isinstance(e, scalar.Abs):
        return f"pp_abs_{_SUFFIX[dtype]}({a})"
    raise InternalError(f"no C form of {type(e).__name__}")


def cast_text(text: str, source: DataType, target: DataType) -> str:
    """`pl.cast` of a scalar: integers wrap, float to integer truncates and saturates, NaN to 0."""
    if source is target:
        return text
    if target is DataType.BOOL:
        return f"(({text}) != 0)"
    if target in _HALVES:
        if not source.is_int() or source.get_bit() <= 16:
            return f"{_HALVES[target]}((float)({text}))"
        wide = DataType.UINT64 if source is DataType.UINT64 else DataType.INT64
        return f"{_HALVES[target]}_{_SUFFIX[wide]}(({C_TYPES[wide]})({text}))"
    if source.is_float() and target.is_int():
        return f"pp_sat_{_SUFFIX[target]}({text})"
    return f"(({C_TYPES[target]})({text}))"
