"""Products of matrices: every size, transposed operands, windows, accumulators; numpy to the last bit where sums are exact."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from lab import everywhere

import pypto.language as pl
from pypto.errors import Error

BF16 = ml_dtypes.bfloat16


def small(rows, cols, dtype, step):
    """Small whole numbers: products and their sums are exact in every type."""
    return ((np.arange(rows)[:, None] * step + np.arange(cols) * 5) % 7 - 3).astype(dtype)


def product(a, b):
    return a.astype(np.int64) @ b.astype(np.int64)


def out(*shape, dtype=np.float32):
    return np.full(shape, 77, dtype)


@pl.jit
def mm(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    return o


@pl.jit
def mm8(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.INT32)
    return o


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(5, 64, 32), (8, 64, 32), (16, 64, 5), (5, 64, 5), (1, 64, 16), (33, 64, 17), (17, 32, 31), (1, 32, 1), (100, 96, 49)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.int8])
def test_rows_and_columns_of_any_number(m, k, n, dtype):
    a, b = small(m, k, dtype, 3), small(k, n, dtype, 2)
    kernel, result = (mm8, np.int32) if dtype is np.int8 else (mm, np.float32)
    *_, o = everywhere(kernel, a, b, out(m, n, dtype=result))
    np.testing.assert_array_equal(o, product(a, b))


def fused(x, y, z):
    """x * y + z with one rounding to FP32: the nearest of the neighbours of the double that is nearest."""
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    near = np.float32(float(exact))
    around = (near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf)))
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))


def test_sums_are_rounded_in_ascending_k():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((19, 32), dtype=np.float32), rng.standard_normal((32, 23), dtype=np.float32)
    want = np.zeros((19, 23), np.float32)
    for k in range(32):
        for i, j in np.ndindex(19, 23):
            want[i, j] = fused(a[i, k], b[k, j], want[i, j])
    *_, o = everywhere(mm, a, b, out(19, 23))
    np.testing.assert_array_equal(o, want)


def test_special_values():
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    a[0, 0], a[1, 1], a[2, 2], b[0, 0], b[1, 1], b[2, 2] = np.inf, np.nan, 1e38, 0, 1, 1e38
    *_, o = everywhere(mm, a, b, out(16, 16))
    with np.errstate(all="ignore"):
        want = np.zeros((16, 16), np.float32)
        for k in range(16):
            want += a[:, k, None] * b[None, k]
    np.testing.assert_array_equal(o, want)
    assert np.isnan(o[0]).all()
    assert np.isinf(o[2, 2])


def test_bytes_are_added_up_in_32_bits():
    a, b = np.full((16, 32), -128, np.int8), np.full((32, 32), -128, np.int8)
    *_, o = everywhere(mm8, a, b, out(16, 32, dtype=np.int32))
    np.testing.assert_array_equal(o, 32 * 16384)


# -- transposed operands and windows -------------------------------------------------------------------------------


@pl.jit
def a_turned(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32, a_trans=True)
    return o


@pl.jit
def b_turned(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True)
    return o


@pl.jit
def both_turned(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32, a_trans=True, b_trans=True)
    return o


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (5, 7), (33, 16)])
@pytest.mark.parametrize("kernel", [a_turned, b_turned, both_turned])
def test_transposed_operands(kernel, m, n, dtype):
    a, b = small(m, 32, dtype, 3), small(32, n, dtype, 2)
    given = a.T.copy() if kernel is not b_turned else a, b.T.copy() if kernel is not a_turned else b
    *_, o = everywhere(kernel, *given, out(m, n))
    np.testing.assert_array_equal(o, product(a, b))


@pl.jit
def windows(a: pl.Tensor, w: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            o[:, i * 64 : i * 64 + 64] = pl.matmul(a, w[i * 64 : i * 64 + 64, :], out_dtype=pl.FP32, b_trans=True)
    return o


@pl.jit
def one_window(a: pl.Tensor, w: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        o[:] = pl.matmul(a, w[i * 64 : i * 64 + 64, :], out_dtype=pl.FP32, b_trans=True)
    return o


@pl.jit
def both_ways(a: pl.Tensor, w: pl.Tensor, s: pl.Out[pl.Tensor], t: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s[:] = pl.matmul(a, w[64:128, :], out_dtype=pl.FP32)
        t[:] = pl.matmul(a, w[64:128, :], out_dtype=pl.FP32, b_trans=True)
    return s, t


def test_windows_of_a_larger_tensor():
    a, w = small(16, 64, np.float16, 3), small(256, 64, np.float16, 7)
    *_, o = everywhere(windows, a, w, out(16, 256))
    np.testing.assert_array_equal(o, product(a, w.T))
    for i in range(4):
        *_, o = everywhere(one_window, a, w, np.array([i], np.int32), out(16, 64))
        np.testing.assert_array_equal(o, product(a, w[i * 64 : i * 64 + 64].T))
    *_, s, t = everywhere(both_ways, a, w, out(16, 64), out(16, 64))
    np.testing.assert_array_equal(s, product(a, w[64:128]))
    np.testing.assert_array_equal(t, product(a, w[64:128].T))


# -- K -------------------------------------------------------------------------------------------------------------


@pl.jit
def k_valid(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        am = pl.load(a, [0, 0], [16, 112], valid_shape=[16, 100], target_memory=pl.Mem.Mat)
        bm = pl.load(b, [0, 0], [112, 16], valid_shape=[100, 16], target_memory=pl.Mem.Mat)
        c = pl.matmul(pl.move(am, target_memory=pl.Mem.Left), pl.move(bm, target_memory=pl.Mem.Right))
        pl.store(c, [0, 0], o)
    return o


def test_k_that_is_no_multiple_of_a_box():
    a, b = small(16, 100, np.float16, 3), small(100, 16, np.float16, 2)
    *_, o = everywhere(k_valid, a, b, out(16, 16))
    np.testing.assert_array_equal(o, product(a, b))
    with pytest.raises(Error) as e:
        mm(a, b, out(16, 16))
    assert isinstance(e.value, ValueError)
    assert all(w in str(e.value) for w in ("K", "100", "112", "valid_shape"))


# -- accumulators --------------------------------------------------------------------------------------------------


@pl.jit
def split_k(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:32], b[0:32, :], out_dtype=pl.FP32)
        for k in pl.range(32, 128, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        o[:] = acc
    return o


@pl.jit
def conditional(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([20, 32], dtype=pl.FP32)
        for k in pl.range(0, 128, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == 0))
        o[:] = acc
    return o


@pytest.mark.parametrize(("kernel", "m"), [(split_k, 16), (split_k, 48), (conditional, 20)])
def test_split_sums_are_the_whole_sum(kernel, m):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((m, 128), dtype=np.float32), rng.standard_normal((128, 32), dtype=np.float32)
    *_, whole = everywhere(mm, a, b, out(m, 32))
    *_, o = everywhere(kernel, a, b, out(m, 32))
    np.testing.assert_array_equal(o, whole)


# -- results -------------------------------------------------------------------------------------------------------


@pl.jit
def halves(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b)
    return o


@pl.jit
def then_vector(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.matmul(a, b), 1.0)
    return o


def test_results_in_the_type_of_the_operands():
    a, b = small(16, 64, np.float16, 3), small(64, 16, np.float16, 2)
    a[0], b[:, 0] = 200, 300
    *_, o = everywhere(halves, a, b, out(16, 16, dtype=np.float16))
    with np.errstate(over="ignore"):
        want = product(a, b).astype(np.float32).astype(np.float16)
    np.testing.assert_array_equal(o, want)
    *_, o = everywhere(then_vector, a, b, out(16, 16, dtype=np.float16))
    np.testing.assert_array_equal(o, want + np.float16(1))


@pl.jit
def narrow(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    """The products have 50 rows, the accumulator has room for 64."""
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([64, 32], dtype=pl.FP32)
        for k in pl.range(0, 64, 32):
            rows = pl.set_validshape(a[:, k : k + 32], 50, 32)
            acc = pl.matmul_acc(acc, rows, b[k : k + 32, :], init_cond=(k == 0))
        o[:] = acc
    return o


def test_an_accumulator_is_valid_in_what_is_added_up_in_it():
    a, b = small(64, 64, np.float32, 3), small(64, 32, np.float32, 2)
    want = out(64, 32)
    want[:50] = product(a, b)[:50]
    *_, o = everywhere(narrow, a, b, out(64, 32))
    np.testing.assert_array_equal(o, want)
