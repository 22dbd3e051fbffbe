"""numpy, with results written into arrays that exist where numpy can do that; products go to its BLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Data
from benchmarks.kernels.attention import SCALE
from benchmarks.kernels.norms import EPSILON


def _sum_times(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.multiply(np.add(a, b, out=out), b, out=out)


def _chain(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    e = np.multiply(a, np.float32(-0.5))
    np.exp(e, out=e)
    r = np.multiply(b, b)
    np.sqrt(np.add(r, np.float32(1), out=r), out=r)
    np.divide(np.add(e, a, out=out), r, out=out)
    np.maximum(np.subtract(out, b, out=out), np.float32(0.25), out=out)
    return np.multiply(out, e, out=out)


def _softmax(out: np.ndarray, x: np.ndarray) -> np.ndarray:
    np.exp(np.subtract(x, x.max(1, keepdims=True), out=out), out=out)
    return np.divide(out, out.sum(1, keepdims=True), out=out)


def _rms_norm(out: np.ndarray, x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", x, x)[:, None] * np.float32(1 / x.shape[1]) + np.float32(EPSILON))
    return np.multiply(np.multiply(x, scale, out=out), gain, out=out)


def _layer_norm(out: np.ndarray, x: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
    c = np.subtract(x, x.mean(1, keepdims=True), out=out)
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", c, c)[:, None] * np.float32(1 / x.shape[1]) + np.float32(EPSILON))
    np.multiply(np.multiply(c, scale, out=out), gain, out=out)
    return np.add(out, shift, out=out)


def _product(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a, b, out=out)


def _widened(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.float32), b.astype(np.float32), out=out)


def _int8(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By way of floats, which is exact while no sum exceeds 2^24: up to an inner extent of 1024."""
    assert a.shape[1] <= 1024
    out[...] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return out


def _linear(out: np.ndarray, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    np.matmul(x, w, out=out)
    return np.maximum(np.add(out, bias, out=out), np.float32(0), out=out)


def _attention(out: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, length: int) -> np.ndarray:
    q3, k3, v3, o3 = (x.reshape(-1, length, x.shape[1]) for x in (q, k, v, out))
    s = np.matmul(q3, k3.transpose(0, 2, 1))
    s *= np.float32(SCALE)
    s -= s.max(2, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(2, keepdims=True)
    np.matmul(s, v3, out=o3)
    return out


def _transpose(out: np.ndarray, x: np.ndarray) -> np.ndarray:
    np.copyto(out, x.T)
    return out


def _columns(out: np.ndarray, x: np.ndarray, first: int) -> np.ndarray:
    np.copyto(out, x[:, first : first + out.shape[1]])
    return out


def _side_by_side(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate((a, b), axis=1, out=out)


def _rows_by_number(out: np.ndarray, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take(x, index[0], axis=0, out=out, mode="clip")


CALLS: dict[str, Callable[..., np.ndarray]] = {
    "sum_times": _sum_times,
    "chain": _chain,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "product_f32": _product,
    "product_f16": _widened,
    "product_bf16": _widened,
    "product_i8": _int8,
    "linear": _linear,
    "attention": _attention,
    "transpose": _transpose,
    "columns": _columns,
    "side_by_side": _side_by_side,
    "rows_by_number": _rows_by_number,
}


def prepare(function: str, data: Data) -> Callable[[], Any] | None:
    call, out = CALLS[function], np.empty_like(data.out)
    return lambda: call(out, *data.inputs, *data.numbers)


def as_numpy(result: Any) -> np.ndarray:
    return np.asarray(result)
