"""The rows that compare one kernel with its peers in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.case import Case, Data, aligned, empty
from benchmarks.kernels import attention, elementwise, movement, norms, products

__all__ = ["CASES"]

Rng = np.random.Generator
Make = Callable[[Rng, bool], Data]


def _normal(rng: Rng, *shape: int) -> np.ndarray:
    return aligned(rng.standard_normal(shape, dtype=np.float32))


def _two(rng: Rng, tiny: bool, operations: float) -> Data:
    n, m = (16 if tiny else 4096), 4096
    a, b, out = _normal(rng, n, m), _normal(rng, n, m), empty((n, m))
    return Data((a, b), out, (), (n, m), 3 * out.nbytes, operations * n * m)


def _rows(rng: Rng, tiny: bool, parameters: int, operations: float) -> Data:
    n, m = (16 if tiny else 4096), norms.WIDTH
    x, out = _normal(rng, n, m), empty((n, m))
    extra = tuple(_normal(rng, 1, m) for _ in range(parameters))
    return Data((x, *extra), out, (), (n, m), 2 * out.nbytes, operations * n * m)


def _product(rng: Rng, tiny: bool, n: int, dtype: Any, out_dtype: Any = np.float32, bias: bool = False) -> Data:
    n = products.DEPTH_INT8 if tiny else n
    if dtype == np.int8:
        a, b = (aligned(rng.integers(-128, 128, (n, n)).astype(np.int8)) for _ in range(2))
    else:
        a, b = (aligned(_normal(rng, n, n).astype(dtype)) for _ in range(2))
    inputs = (a, b, _normal(rng, 1, n)) if bias else (a, b)
    out = empty((n, n), out_dtype)
    return Data(inputs, out, (), (n, n, n), a.nbytes + b.nbytes + out.nbytes, 2 * n**3)


def _attention(rng: Rng, tiny: bool) -> Data:
    heads, length, dim = (2, 128, attention.DIM) if tiny else (8, 1024, attention.DIM)
    q, k, v = (_normal(rng, heads * length, dim) for _ in range(3))
    out = empty(q.shape)
    return Data((q, k, v), out, (length,), (heads * length, dim, length), 4 * out.nbytes, 4 * heads * length**2 * dim)


def _transpose(rng: Rng, tiny: bool) -> Data:
    n = 128 if tiny else 4096
    x, out = _normal(rng, n, n), empty((n, n))
    return Data((x,), out, (), (n, n), 2 * out.nbytes, 0)


def _columns(rng: Rng, tiny: bool) -> Data:
    n, m, first = (16 if tiny else 4096), (2048 if tiny else 4096), 1024
    x, out = _normal(rng, n, m), empty((n, movement.COLS))
    return Data((x,), out, (first,), (n, m, movement.COLS, first), 2 * out.nbytes, 0)


def _side_by_side(rng: Rng, tiny: bool) -> Data:
    n, m = (16 if tiny else 4096), 2048
    a, b, out = _normal(rng, n, m), _normal(rng, n, m), empty((n, 2 * m))
    return Data((a, b), out, (), (n, m), 2 * out.nbytes, 0)


def _gather(rng: Rng, tiny: bool) -> Data:
    n, m = (256 if tiny else 65536), movement.WIDTH
    x, out = _normal(rng, n, m), empty((n, m))
    index = aligned(rng.integers(0, n, (1, n)).astype(np.int32))
    return Data((x, index), out, (), (n, m), 2 * out.nbytes, 0)


# -- what they should give -------------------------------------------------------------------------------------------


def _wide(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(a.astype(np.float64) for a in arrays)


def _sum_times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = _wide(a, b)
    return (x + y) * y


def _chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = _wide(a, b)
    e = np.exp(x * -0.5)
    return np.maximum((e + x) / np.sqrt(y * y + 1) - y, 0.25) * e


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _rms_norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    t, g = _wide(x, gain)
    return t / np.sqrt((t * t).mean(1, keepdims=True) + norms.EPSILON) * g


def _layer_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
    t, g, s = _wide(x, gain, shift)
    c = t - t.mean(1, keepdims=True)
    return c / np.sqrt((c * c).mean(1, keepdims=True) + norms.EPSILON) * g + s


def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = _wide(a, b)  # exact for INT8, too
    return x @ y


def _linear(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.maximum(_matmul(x, w) + bias, 0)


def _attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, length: int) -> np.ndarray:
    q3, k3, v3 = (x.reshape(-1, length, x.shape[1]) for x in _wide(q, k, v))
    weights = _softmax(q3 @ k3.transpose(0, 2, 1) * attention.SCALE)
    return (weights @ v3).reshape(q.shape)


def _case(
    section: str, name: str, kernel: Any, make: Make, reference: Any, tolerance: float, kind: str = "f32", function: str = ""
) -> Case:
    return Case(name, section, function or kernel.__name__, kernel, make, reference, tolerance, kind)


def _products() -> list[Case]:
    made = []
    for n in (512, 1024, 2048):
        make = partial(_product, n=n, dtype=np.float32)
        made.append(_case("products", f"FP32 {n}", products.product, make, _matmul, 3e-6, function="product_f32"))
    for title, dtype, kind, function in (
        ("BF16 1024", ml_dtypes.bfloat16, "bf16", "product_bf16"),
        ("FP16 1024", np.float16, "f32", "product_f16"),
    ):
        make = partial(_product, n=1024, dtype=dtype)
        made.append(_case("products", title, products.product_half, make, _matmul, 3e-6, kind, function))
    make = partial(_product, n=1024, dtype=np.int8, out_dtype=np.int32)
    made.append(_case("products", "INT8 1024", products.product_int8, make, _matmul, 0.0, "i8", "product_i8"))
    make = partial(_product, n=1024, dtype=np.float32, bias=True)
    made.append(_case("products", "linear+bias+relu 1024", products.linear, make, _linear, 3e-6))
    return made


CASES: tuple[Case, ...] = (
    _case("elementwise", "(a+b)*b 4096x4096", elementwise.sum_times, partial(_two, operations=2), _sum_times, 2e-7),
    _case(
        "elementwise",
        "(a+b)*b by tiles 4096x4096",
        elementwise.sum_times_by_tiles,
        partial(_two, operations=2),
        _sum_times,
        2e-7,
        function="sum_times",
    ),
    _case("elementwise", "10 operations 4096x4096", elementwise.chain, partial(_two, operations=22), _chain, 1e-6),
    _case("rows", "softmax 4096x1024", norms.softmax, partial(_rows, parameters=0, operations=17), _softmax, 2e-6),
    _case("rows", "RMS norm 4096x1024", norms.rms_norm, partial(_rows, parameters=1, operations=4), _rms_norm, 2e-6),
    _case("rows", "layer norm 4096x1024", norms.layer_norm, partial(_rows, parameters=2, operations=8), _layer_norm, 2e-6),
    *_products(),
    _case("attention", "attention 8x1024x64", attention.attention, _attention, _attend, 5e-6),
    _case("movement", "transpose 4096x4096", movement.transpose, _transpose, np.transpose, 0.0),
    _case("movement", "columns 1024 of 4096", movement.columns, _columns, lambda x, first: x[:, first : first + 1024], 0.0),
    _case("movement", "side by side 2x4096x2048", movement.side_by_side, _side_by_side, lambda a, b: np.hstack([a, b]), 0.0),
    _case("movement", "gather 64k rows of 128", movement.rows_by_number, _gather, lambda x, index: x[index[0]], 0.0),
)
