"""jax on the CPU, compiled by jit; a call waits for its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.case import Data
from benchmarks.kernels.attention import SCALE
from benchmarks.kernels.movement import COLS
from benchmarks.kernels.norms import EPSILON


def _sum_times(a, b):
    return (a + b) * b


def _chain(a, b):
    e = jnp.exp(a * -0.5)
    return jnp.maximum((e + a) / jnp.sqrt(b * b + 1) - b, 0.25) * e


def _softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _rms_norm(x, gain):
    return x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + EPSILON) * gain


def _layer_norm(x, gain, shift):
    c = x - x.mean(1, keepdims=True)
    return c * jax.lax.rsqrt((c * c).mean(1, keepdims=True) + EPSILON) * gain + shift


def _product(a, b, dtype):
    return jax.lax.dot(a, b, precision="highest", preferred_element_type=dtype)


def _linear(x, w, bias):
    return jnp.maximum(_product(x, w, jnp.float32) + bias, 0)


def _attention(q, k, v, length):
    q3, k3, v3 = (x.reshape(-1, length, x.shape[1]) for x in (q, k, v))
    s = jnp.einsum("hqd,hkd->hqk", q3, k3, precision="highest") * SCALE
    return jnp.einsum("hqk,hkd->hqd", _softmax(s), v3, precision="highest").reshape(q.shape)


def _transpose(x):
    return jnp.transpose(x)


def _columns(x, first):
    return x[:, first : first + COLS]


def _side_by_side(a, b):
    return jnp.concatenate((a, b), axis=1)


def _rows_by_number(x, index):
    return jnp.take(x, index[0], axis=0, mode="clip")


_floats = partial(_product, dtype=jnp.float32)
CALLS: dict[str, Callable[..., Any]] = {
    "sum_times": _sum_times,
    "chain": _chain,
    "softmax": _softmax,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "product_f32": _floats,
    "product_f16": _floats,
    "product_bf16": _floats,
    "product_i8": partial(_product, dtype=jnp.int32),
    "linear": _linear,
    "attention": _attention,
    "transpose": _transpose,
    "columns": _columns,
    "side_by_side": _side_by_side,
    "rows_by_number": _rows_by_number,
}


def prepare(function: str, data: Data) -> Callable[[], Any] | None:
    count = len(data.inputs)
    compiled = jax.jit(CALLS[function], static_argnums=tuple(range(count, count + len(data.numbers))))
    inputs = [jax.device_put(np.array(x)) for x in data.inputs]
    return lambda: compiled(*inputs, *data.numbers).block_until_ready()


def as_numpy(result: Any) -> np.ndarray:
    return np.asarray(result)
