"""Operators beside the plain table on tensors of other ranks than two: rows are all axes but the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import operator_data as data
from lab import everywhere
from operator_kit import import_text

from pypto.dtypes import DataType as D

SHAPE = (2, 8, 64)
KERNEL = """import pypto.language as pl


@pl.jit
def ranks(
    x: pl.Tensor[[2, 8, 64], pl.INT16],
    y: pl.Tensor[[2, 8, 64], pl.INT16],
    f: pl.Tensor[[2, 8, 64], pl.FP32],
    v: pl.Tensor[[64], pl.INT16],
    a: pl.Out[pl.Tensor[[2, 8, 64], pl.INT16]],
    b: pl.Out[pl.Tensor[[2, 8, 64], pl.INT16]],
    c: pl.Out[pl.Tensor[[2, 8, 64], pl.FP32]],
    d: pl.Out[pl.Tensor[[64], pl.INT16]],
    e: pl.Out[pl.Tensor[[1, 1, 64], pl.INT32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.xor(pl.and_(x, y), pl.shls(x, 3))
        b[:] = pl.part_max(x, y)
        c[:] = pl.rsqrt(pl.fmod(pl.sin(f), pl.cos(f)), high_precision=True)
        d[:] = pl.or_(v, pl.arange(7, [64], dtype=pl.INT16))
        e[:] = pl.arange(3, [1, 1, 64], descending=True)
    return a, b, c, d, e
"""


def test_ranks(tmp_path: Path) -> None:
    kernel = import_text("ranks", KERNEL, tmp_path)
    x, y = (v.reshape(SHAPE) for v in data.pair(D.INT16, (16, 64), 71))
    f = data.ordinary(D.FP32, SHAPE, np.random.default_rng(72))
    v = data.ordinary(D.INT16, (64,), np.random.default_rng(73))
    outputs = [np.zeros(SHAPE, np.int16), np.zeros(SHAPE, np.int16), np.zeros(SHAPE, np.float32)]
    outputs += [np.zeros(64, np.int16), np.zeros((1, 1, 64), np.int32)]
    a, b, c, d, e = everywhere(kernel, x, y, f, v, *outputs)[4:]
    np.testing.assert_array_equal(a, (x & y) ^ (x << np.int16(3)))
    np.testing.assert_array_equal(b, np.maximum(x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        wide = f.astype(np.float64)
        want = 1 / np.sqrt(np.fmod(np.sin(wide), np.cos(wide)))
    # A quotient next to an integer may fall on either side of it.
    far = np.abs(np.fmod(np.tan(wide), 1)) % 0.99 > 0.01
    assert far.mean() > 0.9
    np.testing.assert_allclose(c[far], want[far], rtol=1e-3)
    np.testing.assert_array_equal(d, v | np.arange(7, 71, dtype=np.int16))
    np.testing.assert_array_equal(e, 3 - np.arange(64)[None, None, :])
