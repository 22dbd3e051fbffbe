"""Accumulators and operands whose extents are no whole boxes, or known only when the kernel runs."""

import numpy as np
import pytest
from lab import everywhere
from test_matmul import out
from test_matmul_batches import product, whole

import pypto.language as pl


@pl.jit
def branches(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([100, 32], dtype=pl.FP32)
        for k in pl.range(0, 128, 32):
            if k == 0:
                acc = pl.matmul(a[:, k : k + 32], b[k : k + 32, :], out_dtype=pl.FP32)
            else:
                acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        o[:] = acc
    return o


@pl.jit
def clamped(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 70, 32):
            w = pl.slice(a, [32, 64], [i, 0], clamp=True)
            o[i : i + 32, :] = pl.matmul(w, b, out_dtype=pl.FP32)
    return o


@pl.jit
def accumulated(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        x = pl.load(a, [0, 0], [64, 32], valid_shape=[m, 32], target_memory=pl.Mem.Mat)
        acc = pl.matmul(x, pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat))
        for k in pl.range(32, 128, 32):
            x = pl.load(a, [0, k], [64, 32], valid_shape=[m, 32], target_memory=pl.Mem.Mat)
            acc = pl.matmul_acc(acc, x, pl.load(b, [k, 0], [32, 32], target_memory=pl.Mem.Mat))
        pl.store(acc, [0, 0], o)
    return o


@pl.jit
def wider_accumulator(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        x = pl.load(a, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        acc = pl.matmul(x, pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat))
        y = pl.load(a, [0, 32], [64, 32], valid_shape=[m, 32], target_memory=pl.Mem.Mat)
        acc = pl.matmul_acc(acc, y, pl.load(b, [32, 0], [32, 32], target_memory=pl.Mem.Mat))
        pl.store(acc, [0, 0], o)
    return o


@pl.jit
def then_vector(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        x = pl.load(a, [0, 0], [64, 32], valid_shape=[m, 32], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.add(pl.matmul(x, y), 1.0), [0, 0], o)
    return o


def test_sums_begin_in_a_branch():
    a, b = whole(100, 128), whole(128, 32)
    *_, o = everywhere(branches, a, b, out(100, 32))
    np.testing.assert_array_equal(o, product(a, b))


def test_windows_cut_at_the_edge():
    a, b = whole(70, 64), whole(64, 32)
    *_, o = everywhere(clamped, a, b, out(70, 32))
    np.testing.assert_array_equal(o, product(a, b))


@pytest.mark.parametrize("m", [64, 17, 1])
def test_rows_known_when_the_kernel_runs(m):
    a, b, rows = whole(64, 128), whole(128, 32), np.array([m], np.int32)
    want = out(64, 32)
    want[:m] = product(a[:m], b)
    *_, o = everywhere(accumulated, a, b, rows, out(64, 32))
    np.testing.assert_array_equal(o, want)

    want = product(a[:, :32], b[:32])
    want[:m] += product(a[:m, 32:64], b[32:64])
    *_, o = everywhere(wider_accumulator, a, b, rows, out(64, 32))
    np.testing.assert_array_equal(o, want)

    want = out(64, 32)
    want[:m] = product(a[:m, :32], b[:32]) + 1
    *_, o = everywhere(then_vector, a, b, rows, out(64, 32))
    np.testing.assert_array_equal(o, want)


@pl.jit
def one_column(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """A tile is moved whole, and its only valid column is read of as many rows as the run says."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, a.shape[0], 32):
            x = pl.slice(a, [32, 32], [i, 0], clamp=True)
            y = pl.slice(b, [32, 16], [0, 0], clamp=True)
            out = pl.assemble(out, pl.matmul(x, y, out_dtype=pl.FP32), [i, 0])
    return out


@pytest.mark.parametrize(("m", "k", "n"), [(33, 1, 16), (40, 1, 3), (33, 2, 16), (1, 1, 1)])
def test_a_depth_of_one(m, k, n):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    got = everywhere(one_column, a, b, np.zeros((m, n), np.float32))[-1]
    np.testing.assert_allclose(got, a @ b, rtol=1e-6)
