"""Sums over pieces of K, of rows that are no whole boxes: all element types, transposed operands, batches."""

import numpy as np
import pytest
from lab import everywhere
from test_matmul import BF16, out, product, small

import pypto.language as pl


@pl.jit
def summed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor(o.shape, dtype=o.dtype)
        for k in pl.range(0, a.shape[1], 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == 0))
        o[:] = acc
    return o


@pl.jit
def turned(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor(o.shape, dtype=o.dtype)
        for k in pl.pipeline(0, a.shape[0], 32, stage=2):
            acc = pl.matmul_acc(acc, a[k : k + 32, :], b[:, k : k + 32], a_trans=True, b_trans=True, init_cond=(k == 0))
        o[:] = acc
    return o


@pl.jit
def begun(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:32], b[0:32, :], out_dtype=o.dtype)
        for k in pl.range(32, a.shape[1], 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        o[:] = acc
    return o


@pl.jit
def batched(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(a.shape[0]):
            acc = pl.create_tensor([a.shape[1], b.shape[2]], dtype=o.dtype)
            for k in pl.range(0, a.shape[2], 32):
                acc = pl.matmul_acc(acc, a[i, :, k : k + 32], b[i, k : k + 32, :], init_cond=(k == 0))
            o[i] = acc
    return o


@pl.jit
def one_matrix(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor(o.shape, dtype=o.dtype)
        for k in pl.range(0, a.shape[2], 32):
            acc = pl.matmul_acc(acc, a[:, :, k : k + 32], b[:, k : k + 32, :], init_cond=(k == 0))
        o[:] = acc
    return o


DTYPES = [np.float32, np.float16, BF16, np.int8]


def result(dtype):
    return np.int32 if dtype is np.int8 else np.float32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [33, 100])
@pytest.mark.parametrize("kernel", [summed, begun])
def test_sums_of_any_number_of_rows(kernel, m, dtype):
    a, b = small(m, 96, dtype, 3), small(96, 32, dtype, 2)
    *_, o = everywhere(kernel, a, b, out(m, 32, dtype=result(dtype)))
    np.testing.assert_array_equal(o, product(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [17, 33, 100])
def test_sums_of_transposed_operands(m, dtype):
    a, b = small(m, 128, dtype, 3), small(128, 32, dtype, 2)
    *_, o = everywhere(turned, a.T.copy(), b.T.copy(), out(m, 32, dtype=result(dtype)))
    np.testing.assert_array_equal(o, product(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_sums_of_batches(dtype):
    a, b = np.stack([small(33, 64, dtype, n) for n in (3, 4)]), np.stack([small(64, 32, dtype, n) for n in (2, 5)])
    *_, o = everywhere(batched, a, b, out(2, 33, 32, dtype=result(dtype)))
    np.testing.assert_array_equal(o, product(a, b))
    a, b = a[:1, :32].copy(), b[:1]
    *_, o = everywhere(one_matrix, a, b, out(1, 32, 32, dtype=result(dtype)))
    np.testing.assert_array_equal(o, product(a, b))


def test_rounded_sums_are_one_sum():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((33, 96), dtype=np.float32), rng.standard_normal((96, 32), dtype=np.float32)
    *_, one = everywhere(summed, a, b, out(33, 32))
    *_, other = everywhere(begun, a, b, out(33, 32))
    *_, third = everywhere(turned, a.T.copy(), b.T.copy(), out(33, 32))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, third)
