"""`@pl.jit.opaque` stages: parts of an entry that open kernels of their own and return what they were given."""

from __future__ import annotations

import numpy as np
import pytest
from lab import everywhere

import pypto.language as pl

F32 = np.float32


@pl.jit.opaque
def stage(a: pl.Tensor, o: pl.Out[pl.Tensor], n: pl.INDEX):
    tmp = pl.create_tensor([8, 32], dtype=pl.FP32)
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            tmp[:] = pl.add(a, 1.0)
        with pl.at(level=pl.Level.CORE_GROUP):
            o[i * 8 : i * 8 + 8, :] = pl.mul(tmp, pl.cast(pl.cast(i, pl.INT32), pl.FP32))
    return o


@pl.jit
def staged(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    o = stage(a, o, 3)
    if pl.read(b, [0, 0]) > 0.0:
        p = stage(b, p, 2)
    with pl.at(level=pl.Level.CORE_GROUP):
        p[16:24, :] = pl.add(pl.slice(o, [8, 32], [8, 0]), 2.0)
    return o, p


@pytest.mark.parametrize("sign", [1, -1])
def test_stages_one_after_the_other(sign: int) -> None:
    a = np.random.default_rng(0).random((8, 32), dtype=F32)
    b = (a + F32(1)) * F32(sign)
    got = everywhere(staged, a, b, np.zeros((24, 32), F32), np.zeros((24, 32), F32))
    np.testing.assert_array_equal(got[2].reshape(3, 8, 32), np.stack([(a + F32(1)) * F32(i) for i in range(3)]))
    want = np.stack([(b + F32(1)) * F32(i) for i in range(2)]) if sign > 0 else np.zeros((2, 8, 32), F32)
    np.testing.assert_array_equal(got[3][:16].reshape(2, 8, 32), want)
    np.testing.assert_array_equal(got[3][16:], (a + F32(1)) + F32(2))


@pl.jit
def temporaries(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        t = pl.create_tensor([24, 32], dtype=pl.FP32)
        t = stage(a, t, 3)
        with pl.at(level=pl.Level.CORE_GROUP):
            o[i * 8 : i * 8 + 8, :] = pl.slice(t, [8, 32], [16, 0])
    return o


def test_into_temporaries() -> None:
    a = np.random.default_rng(0).random((8, 32), dtype=F32)
    got = everywhere(temporaries, a, np.zeros((16, 32), F32))[1]
    np.testing.assert_array_equal(got.reshape(2, 8, 32), np.stack([(a + F32(1)) * F32(2)] * 2))
