"""What products of matrices mean, said with plain numpy: one fused multiply-add for each product, in ascending inner index.

Floats are those of binary32, whatever the operands are, rounded to the result's dtype once; bytes are added in 32 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz_twin import V, dtype, value
from fuzz_twin import _fresh as fresh
from fuzz_twin import _inside as inside

Array = Any


def fused(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of binary32 numbers, rounded once.

    The product is exact in binary64; the sum is rounded there to odd, after which rounding to 24 bits is right
    (53 >= 24 + 2).
    """
    p, z64 = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    s = p + z64
    t = s - p
    error = (p - (s - t)) + (z64 - t)
    even = (s.view(np.int64) & 1) == 0
    inexact = np.isfinite(s) & np.isfinite(error) & (error != 0)
    odd = np.nextafter(s, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact & even, odd, s).astype(np.float32)


def _rows_times_columns(a: Array, b: Array, start: Array) -> Array:
    if a.dtype.kind == "i":
        return (start.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    a, b, total = a.astype(np.float32), b.astype(np.float32), start.astype(np.float32)
    for k in range(a.shape[1]):
        total = fused(a[:, k, None], b[None, k], total)
    return total


def matmul(x: Any, y: Any, result: str, a_trans: bool = False, b_trans: bool = False, start: Any = None) -> V:
    """The last two axes are the matrices'; `start`: what the sums begin with, 0 if nothing."""
    x, y = value(x), value(y)
    a, b = inside(x, x.valid), inside(y, y.valid)
    a = np.swapaxes(a, -1, -2) if a_trans else a
    b = np.swapaxes(b, -1, -2) if b_trans else b
    shape = [np.swapaxes(v.data, -1, -2).shape if t else v.data.shape for v, t in ((x, a_trans), (y, b_trans))]
    kind = np.int32 if a.dtype.kind == "i" else np.float32
    batch = a.shape[:-2]
    made = np.zeros((*batch, a.shape[-2], b.shape[-1]), kind)
    if start is not None:
        s = value(start)
        made[...] = inside(s, tuple(min(n, e) for n, e in zip(s.data.shape, made.shape, strict=True)))
    with np.errstate(all="ignore"):
        for at in np.ndindex(*batch):
            made[at] = _rows_times_columns(a[at], b[at][: a.shape[-1]], made[at])
        return fresh(made.astype(dtype(result)), (*batch, shape[0][-2], shape[1][-1]), made.shape)


def matmul_acc(acc: Any, x: Any, y: Any, afresh: bool = False, a_trans: bool = False, b_trans: bool = False) -> V:
    """`acc` plus the product; or the product.  What is beside it stays; the first product of a sum is the sum."""
    before = value(acc)
    first = not before.known.any()
    start = None if afresh or first else acc
    made = matmul(x, y, "INT32" if value(x).data.dtype.kind == "i" else "FP32", a_trans, b_trans, start)
    if first or (before.data.shape == made.data.shape and before.valid == made.valid):
        return made
    data, known = before.data.copy(), before.known.copy()
    at = tuple(slice(0, n) for n in made.valid)
    data[at], known[at] = made.data[at], made.known[at]
    return V(data, known, before.valid)


def undefined(shape: Any, name: str) -> V:
    return V(np.zeros(shape, dtype(name)), np.zeros(shape, bool), tuple(shape))


def shard(x: Any, lane: int, axis: int) -> V:
    """The half of a matrix that belongs to a lane."""
    x = value(x)
    half = x.data.shape[axis] // 2
    cut = tuple(slice(lane * half, lane * half + half) if i == axis else slice(None) for i in range(2))
    valid = tuple(max(0, min(half, v - lane * half)) if i == axis else v for i, v in enumerate(x.valid))
    return V(x.data[cut].copy(), x.known[cut].copy(), valid)


def whole_of(halves: Any, axis: int) -> V:
    """The matrix whose halves the lanes have."""
    a, b = (value(h) for h in halves)
    valid = tuple(p + q if i == axis else p for i, (p, q) in enumerate(zip(a.valid, b.valid, strict=True)))
    return V(np.concatenate([a.data, b.data], axis), np.concatenate([a.known, b.known], axis), valid)
