"""numba: loops, compiled without fast-math; for products it calls the same BLAS as numpy, so there it has no rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from benchmarks.case import Data
from benchmarks.kernels.norms import EPSILON

_HALF, _ONE, _QUARTER, _EPSILON = np.float32(-0.5), np.float32(1), np.float32(0.25), np.float32(EPSILON)


@numba.njit(error_model="numpy")
def _sum_times(out, a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = (a[i, j] + b[i, j]) * b[i, j]
    return out


@numba.njit(error_model="numpy")
def _chain(out, a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            x, y = a[i, j], b[i, j]
            e = math.exp(x * _HALF)
            out[i, j] = max((e + x) / math.sqrt(y * y + _ONE) - y, _QUARTER) * e
    return out


@numba.njit(error_model="numpy")
def _softmax(out, x):
    for i in range(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


@numba.njit(error_model="numpy")
def _rms_norm(out, x, gain):
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
        scale = _ONE / np.sqrt(total / np.float32(x.shape[1]) + _EPSILON)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * scale * gain[0, j]
    return out


@numba.njit(error_model="numpy")
def _layer_norm(out, x, gain, shift):
    n = np.float32(x.shape[1])
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / n
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += (x[i, j] - mean) * (x[i, j] - mean)
        scale = _ONE / np.sqrt(total / n + _EPSILON)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gain[0, j] + shift[0, j]
    return out


@numba.njit(error_model="numpy")
def _transpose(out, x):
    for i0 in range(0, x.shape[0], 64):
        for j0 in range(0, x.shape[1], 64):
            for j in range(j0, j0 + 64):
                for i in range(i0, i0 + 64):
                    out[j, i] = x[i, j]
    return out


@numba.njit(error_model="numpy")
def _columns(out, x, first):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i, first + j]
    return out


@numba.njit(error_model="numpy")
def _side_by_side(out, a, b):
    m = a.shape[1]
    for i in range(a.shape[0]):
        for j in range(m):
            out[i, j] = a[i, j]
        for j in range(m):
            out[i, m + j] = b[i, j]
    return out


@numba.njit(error_model="numpy")
def _rows_by_number(out, x, index):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[index[0, i], j]
    return out


CALLS: dict[str, Any] = {
    "sum_times": _sum_times,
    "chain": _chain,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "transpose": _transpose,
    "columns": _columns,
    "side_by_side": _side_by_side,
    "rows_by_number": _rows_by_number,
}


def prepare(function: str, data: Data) -> Callable[[], Any] | None:
    call, out = CALLS.get(function), np.empty_like(data.out)
    return None if call is None else lambda: call(out, *data.inputs, *data.numbers)


def as_numpy(result: Any) -> np.ndarray:
    return np.asarray(result)
