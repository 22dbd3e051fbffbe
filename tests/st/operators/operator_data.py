"""Operands for the operator tests: the hard values of each dtype in every combination, among random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.dtypes import DataType

Array = Any
D = DataType

# Powers of two, halves between integers, and the operands next to where exp begins to overflow or to give 0.
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.0, -8.0, 3.0, 1 / 3, 1024.0, 0.0009765625, 10.0, -11.0)
_SPECIAL = (float("nan"), float("inf"), -float("inf"))
_LIMITS = {
    # largest, smallest normal, smallest, a subnormal, the first integer that is lost, edges of exp
    D.FP32: (3.4028235e38, 2.0**-126, 2.0**-149, -1e-40, 16777216.0, 88.72283, 88.72284, -87.33655, -103.97208, -103.98),
    D.FP16: (65504.0, 2.0**-14, 2.0**-24, -3e-6, 2048.0, 11.0859375, 11.09375, -9.703125, -17.328125, -17.34375),
    D.BF16: (3.3895313892515355e38, 2.0**-126, 2.0**-133, -1e-39, 256.0),
}


def hard(dtype: DataType) -> Array:
    """The values at which operators of a dtype go wrong."""
    if dtype is D.BOOL:
        return np.array([False, True])
    if dtype.is_float():
        largest = _LIMITS[dtype][0]
        return np.array([*_REALS, *_SPECIAL, *_LIMITS[dtype], -largest], np.float64).astype(dtype.numpy())
    info = np.iinfo(dtype.numpy())
    values = {0, 1, 2, 3, 7, 10, 100, info.max, info.max - 1, info.max // 2 + 1}
    if info.min:
        values |= {-1, -2, -3, -7, -10, info.min, info.min + 1, info.min // 2}
    values |= {1 << k for k in range(4, 8 * dtype.get_byte() - 1, 5)}
    return np.array(sorted(values), dtype.numpy())


def ordinary(dtype: DataType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers of many magnitudes; integers of every width up to the dtype's."""
    if dtype is D.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float():
        return (rng.normal(0, 1, shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(dtype.numpy())
    info = np.iinfo(dtype.numpy())
    anything = rng.integers(info.min, info.max, shape, dtype=np.int64 if info.min else np.uint64, endpoint=True)
    return (anything >> rng.integers(0, 8 * dtype.get_byte(), shape).astype(anything.dtype)).astype(dtype.numpy())


def pair(dtype: DataType, shape: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    """Two operands: every ordered pair of hard values somewhere, ordinary numbers elsewhere."""
    rng = np.random.default_rng(seed)
    x, y = ordinary(dtype, shape, rng), ordinary(dtype, shape, rng)
    values = hard(dtype)
    n = len(values)
    assert n * n <= x.size, f"more pairs of hard values of {dtype} than elements"
    at = rng.permutation(x.size)[: n * n]
    x.reshape(-1)[at], y.reshape(-1)[at] = np.repeat(values, n), np.tile(values, n)
    return x, y


def for_sums(dtype: DataType, shape: tuple[int, int], seed: int) -> Array:
    """Numbers whose sum depends on the order of addition; a few rows hold what is not finite."""
    rng = np.random.default_rng(seed)
    return _spoilt(ordinary(dtype, shape, rng), dtype)


def for_products(dtype: DataType, shape: tuple[int, int], seed: int) -> Array:
    """Numbers whose product stays in range, with a full mantissa; odd integers, whose product does not vanish."""
    rng = np.random.default_rng(seed)
    if not dtype.is_float():
        return ordinary(dtype, shape, rng) | np.array(1, dtype.numpy())
    x = (rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.uniform(-0.3, 0.3, shape)).astype(dtype.numpy())
    return _spoilt(x, dtype)


def for_extremes(dtype: DataType, shape: tuple[int, int], seed: int) -> Array:
    """Few different numbers, so that extremes repeat; limits and NaN in some rows."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype(dtype.numpy())
    if not dtype.is_float():
        info = np.iinfo(dtype.numpy())
        x[3, 5::30], x[4, 7::30] = info.max, info.min
        x[6] = info.min
        x[8] = info.max
        return x
    x[3, 5::30], x[4, 7::30] = np.inf, -np.inf
    x[6], x[8] = -np.inf, np.inf
    return _spoilt(x, dtype)


def _spoilt(x: Array, dtype: DataType) -> Array:
    if dtype.is_float():
        x[2, 70], x[5, 3], x[5, 40], x[7, 10], x[9, 11] = np.nan, np.nan, np.nan, np.inf, -np.inf
        x[10, 12], x[10, 76] = np.inf, -np.inf
        x[11, ::5] = -0.0
    return x
