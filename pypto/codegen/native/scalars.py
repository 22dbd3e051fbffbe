"""Scalar expressions and types as C.

In: IR expressions and the C names of their variables.  Out: one C expression of the exact value: integers wrap in their
width (the unit is compiled with -fwrapv), `//` and `%` follow Python with x // 0 == 0, casts saturate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pypto.dtypes import DataType
from pypto.errors import InternalError
from pypto.ir import scalar
from pypto.ir.expr import BinaryExpr, ConstBool, ConstFloat, ConstInt, Expr, UnaryExpr, Var
from pypto.ir.lanes import LANE_OF
from pypto.ir.types import ScalarType

__all__ = ["C_TYPES", "const_text", "expr_text", "scalar_type"]

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
# Halves are computed in FP32.
_SUFFIX = {**LANE_OF, DataType.FP16: "f32", DataType.BF16: "f32"}


def dtype_of(e: Expr) -> DataType:
    if not isinstance(e.type, ScalarType):
        raise InternalError(f"a scalar was expected, got {e!r}")
    return e.type.dtype


def scalar_type(e: Expr) -> str:
    return C_TYPES[dtype_of(e)]


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


def round_const(value: float, dtype: DataType) -> float:
    """A double rounded once, to nearest even, to a float dtype."""
    import numpy as np

    if dtype is DataType.BF16:
        return _round_bf16(value)
    with np.errstate(over="ignore"):
        return float(np.float16(value) if dtype is DataType.FP16 else np.float32(value))


def _round_bf16(value: float) -> float:
    if value != value or math.isinf(value) or value == 0:
        return value
    _, e = math.frexp(value)  # value = m * 2**e with |m| in [0.5, 1)
    quantum = max(e - 8, -133)  # 8 significant bits; the smallest subnormal is 2**-133
    scaled = math.ldexp(value, -quantum)
    rounded = math.ldexp(float(round(scaled)), quantum)  # round() is half to even and exact here
    return math.copysign(math.inf, value) if abs(rounded) > 3.3895313892515355e38 else rounded


def const_text(e: ConstInt | ConstFloat | ConstBool) -> str:
    if isinstance(e, ConstBool):
        return "true" if e.value else "false"
    if isinstance(e, ConstInt):
        return int_text(e.value, e.dtype)
    return float_text(round_const(e.value, e.dtype))


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
    a, b = expr_text(e.left, names), expr_text(e.right, names)
    if kind in (scalar.FloorDiv, scalar.FloorMod):
        if not dtype.is_int():
            raise InternalError("floor division of floats has no rule")
        return f"pp_{'floordiv' if kind is scalar.FloorDiv else 'floormod'}_{_SUFFIX[dtype]}({a}, {b})"
    if kind in (scalar.Min, scalar.Max):
        return f"pp_{'min' if kind is scalar.Min else 'max'}_{_SUFFIX[dtype]}({a}, {b})"
    if kind in (scalar.And, scalar.Or, scalar.Xor):
        # Both sides are evaluated, so the operators without short circuit serve.
        a, b = (t if dtype_of(x) is DataType.BOOL else f"({t} != 0)" for t, x in ((a, e.left), (b, e.right)))
        return f"({a} {'&' if kind is scalar.And else '|' if kind is scalar.Or else '^'} {b})"
    if kind in (scalar.BitShiftLeft, scalar.BitShiftRight):
        return f"({C_TYPES[dtype]})(({a}) {'<<' if kind is scalar.BitShiftLeft else '>>'} ({b}))"
    if kind is scalar.FloatDiv and dtype.is_int():
        return f"pp_truncdiv_{_SUFFIX[dtype]}({a}, {b})"
    infix = _INFIX.get(kind)
    if infix is None:
        raise InternalError(f"no C form of {kind.__name__}")
    text = f"({a} {infix} {b})"
    if dtype in _HALVES:
        return f"{_HALVES[dtype]}{text}"
    # C computes narrow integers as int: the cast brings the result back to its width.
    return f"({C_TYPES[dtype]}){text}" if dtype.get_bit() < 32 and dtype is not DataType.BOOL else text


def _unary(e: UnaryExpr, names: Mapping[Var, str]) -> str:
    a, dtype = expr_text(e.operand, names), dtype_of(e)
    if isinstance(e, scalar.Not):
        return f"(!({a}))"
    if isinstance(e, scalar.Neg):
        return f"({C_TYPES[dtype]})(-({a}))"
    if isinstance(e, scalar.BitNot):
        return f"({C_TYPES[dtype]})(~({a}))"
    if isinstance(e, scalar.Abs):
        return f"pp_abs_{_SUFFIX[dtype]}({a})"
    if isinstance(e, scalar.Cast):
        return cast_text(a, dtype_of(e.operand), dtype)
    raise InternalError(f"no C form of {type(e).__name__}")


def cast_text(text: str, source: DataType, target: DataType) -> str:
    """`pl.cast` of a scalar: integers wrap, float to integer truncates and saturates, NaN to 0."""
    if source is target:
        return text
    if target is DataType.BOOL:
        return f"(({text}) != 0)"
    if target in _HALVES:
        wide = "pp_round_f16_i64" if target is DataType.FP16 else "pp_round_bf16_i64"
        return (
            f"{wide}((int64_t)({text}))" if source.is_int() and source.get_bit() > 16 else f"{_HALVES[target]}((float)({text}))"
        )
    if source.is_float() and target.is_int():
        return f"pp_sat_{_SUFFIX[target]}({text})"
    return f"(({C_TYPES[target]})({text}))"
