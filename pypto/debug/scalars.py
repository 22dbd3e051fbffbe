"""Scalar expressions on exact Python numbers.

In: an operator node and the values of its operands (int, float or bool, within their dtypes).  Out: the value, within the
node's dtype: integers wrapped, floats rounded once.  Sums, products and quotients are formed in binary64 and rounded to
the dtype, which is the correctly rounded result because 53 >= 2 * 24 + 2 (Figueroa, 1995).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.debug.lanes import lane_dtype, rounded_constant, run
from pypto.dtypes import DataType
from pypto.errors import NotSupportedError
from pypto.ir import scalar
from pypto.ir.arith import wrap
from pypto.ir.expr import BinaryExpr, UnaryExpr
from pypto.ir.lanes import lane_type
from pypto.ir.ops.casts import scalar_cast_lanes

__all__ = ["Scalar", "binary", "cast", "fit", "unary"]

Scalar = int | float | bool


def fit(value: Any, dtype: DataType) -> Scalar:
    """A number as a value of a dtype: an integer wrapped, a float rounded to nearest even."""
    if dtype is DataType.BOOL:
        return bool(value)
    if dtype.is_float():
        return float(rounded_constant(float(value), lane_type(dtype))[0])
    return wrap(int(value), dtype)


def cast(value: Scalar, source: DataType, target: DataType) -> Scalar:
    """`pl.cast` of a scalar."""
    if source is target:
        return value
    x = np.array([value]).astype(lane_dtype(lane_type(source)))
    return fit(run(scalar_cast_lanes(source, target), [x])[0], target)


# -- integers --------------------------------------------------------------------------------------------------------


def _truncated(x: int, y: int) -> int:
    q = abs(x) // abs(y) if y else 0
    return -q if (x < 0) != (y < 0) else q


def _power(x: int, y: int) -> int:
    if y < 0:
        return _truncated(1, x) if y % 2 or x != -1 else 1
    return pow(x, y, 1 << 64)


def _shifted(x: int, n: int, bits: int, left: bool) -> int:
    if not 0 <= n < bits:
        return 0 if left or x >= 0 else -1
    return x << n if left else x >> n


_INTEGER: dict[type[BinaryExpr], Callable[[int, int], int]] = {
    scalar.Add: lambda x, y: x + y,
    scalar.Sub: lambda x, y: x - y,
    scalar.Mul: lambda x, y: x * y,
    scalar.FloorDiv: lambda x, y: x // y if y else 0,
    scalar.FloorMod: lambda x, y: x % y if y else 0,
    scalar.FloatDiv: _truncated,
    scalar.Min: min,
    scalar.Max: max,
    scalar.Pow: _power,
    scalar.BitAnd: lambda x, y: x & y,
    scalar.BitOr: lambda x, y: x | y,
    scalar.BitXor: lambda x, y: x ^ y,
}


# -- floats ----------------------------------------------------------------------------------------------------------


def _divided(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


_FLOAT: dict[type[BinaryExpr], Callable[[float, float], float]] = {
    scalar.Add: lambda x, y: x + y,
    scalar.Sub: lambda x, y: x - y,
    scalar.Mul: lambda x, y: x * y,
    scalar.FloatDiv: _divided,
    scalar.Max: lambda x, y: x if x > y or math.isnan(x) else y,
    scalar.Min: lambda x, y: x if x < y or math.isnan(x) else y,
}

_COMPARE: dict[type[BinaryExpr], Callable[[Any, Any], bool]] = {
    scalar.Eq: lambda x, y: x == y,
    scalar.Ne: lambda x, y: x != y,
    scalar.Lt: lambda x, y: x < y,
    scalar.Le: lambda x, y: x <= y,
    scalar.Gt: lambda x, y: x > y,
    scalar.Ge: lambda x, y: x >= y,
}

_LOGIC: dict[type[BinaryExpr], Callable[[bool, bool], bool]] = {
    scalar.And: lambda x, y: x and y,
    scalar.Or: lambda x, y: x or y,
    scalar.Xor: lambda x, y: x != y,
}


def binary(e: BinaryExpr, x: Scalar, y: Scalar) -> Scalar:
    """The value of `x op y`."""
    kind = type(e)
    if kind in _LOGIC:
        return _LOGIC[kind](bool(x), bool(y))
    left, right = scalar.dtype_of(e.left), scalar.dtype_of(e.right)
    # Operands meet in their common type; for BOOL that is BOOL.
    common = left if left is right else scalar.promote(left, right)
    x, y = fit(x, common), fit(y, common)
    if kind in _COMPARE:
        return _COMPARE[kind](x, y)
    result = scalar.dtype_of(e)
    if kind in (scalar.BitShiftLeft, scalar.BitShiftRight):
        return fit(_shifted(int(x), int(y), common.get_bit(), kind is scalar.BitShiftLeft), result)
    if common.is_float():
        if kind not in _FLOAT:
            name = kind.__name__
            raise NotSupportedError(f"{name} of {common} scalars is not executed", e.span, "compute it with + - * / or on tiles")
        return fit(_FLOAT[kind](float(x), float(y)), result)
    return fit(_INTEGER[kind](int(x), int(y)), result)


def unary(e: UnaryExpr, x: Scalar) -> Scalar:
    """The value of `op x`."""
    if isinstance(e, scalar.Cast):
        return cast(x, scalar.dtype_of(e.operand), scalar.dtype_of(e))
    if isinstance(e, scalar.Not):
        return not x
    result = scalar.dtype_of(e)
    if isinstance(e, scalar.BitNot):
        return fit(~int(x), result)
    if isinstance(e, scalar.Abs):
        return fit(abs(x), result)
    return fit(-x, result)
