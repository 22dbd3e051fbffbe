"""Products of tiles in the matrix unit's memories: windows as operands, biases, vector products."""

import numpy as np
import pytest
from lab import everywhere
from test_matmul import out
from test_matmul_batches import product, whole

import pypto.language as pl
from pypto.errors import Error

# -- windows -------------------------------------------------------------------------------------------------------


@pl.jit
def windows(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [64, 128], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [128, 32], target_memory=pl.Mem.Mat)
        for i in pl.range(4):
            z = pl.slice(x, [16, 128], [i * 16, 0])
            c = pl.matmul(pl.slice(z, [16, 64], [0, 64]), pl.slice(y, [64, 32], [64, 0]))
            pl.store(c, [i * 16, 0], o)
    return o


@pl.jit
def narrow_windows(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [64, 128], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [128, 32], target_memory=pl.Mem.Mat)
        v = pl.move(pl.slice(x, [16, 64], [16, 0], valid_shape=[5, 50]), target_memory=pl.Mem.Left)
        pl.store(pl.matmul(v, pl.slice(y, [64, 16], [0, 16])), [0, 0], o)
    return o


@pl.jit
def deep_windows(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [64, 1152], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [1152, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(pl.slice(x, [32, 1152], [32, 0]), pl.slice(y, [1152, 16], [0, 16])), [0, 0], o)
    return o


@pl.jit
def part_of_a_product(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [64, 128], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [128, 32], target_memory=pl.Mem.Mat)
        c = pl.matmul(x, y)
        pl.store(pl.slice(c, [16, 16], [32, 16]), [0, 0], o)
    return o


@pl.jit
def window_as_accumulator(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [64, 128], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [128, 32], target_memory=pl.Mem.Mat)
        c = pl.matmul(x, y)
        d = pl.matmul_acc(pl.slice(c, [16, 32], [16, 0]), pl.slice(x, [16, 128], [0, 0]), y)
        pl.store(d, [0, 0], o)
    return o


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_windows_as_operands(dtype):
    a, b = whole(64, 128, dtype=dtype), whole(128, 32, dtype=dtype)
    *_, o = everywhere(windows, a, b, out(64, 32))
    np.testing.assert_array_equal(o, product(a[:, 64:], b[64:]))
    *_, o = everywhere(narrow_windows, a, b, out(5, 16))
    np.testing.assert_array_equal(o, product(a[16:21, :50], b[:50, 16:]))
    *_, o = everywhere(part_of_a_product, a, b, out(16, 16))
    np.testing.assert_array_equal(o, product(a, b)[32:48, 16:])


def test_windows_that_are_made_of_pieces():
    a, b = whole(64, 1152, dtype=np.float16), whole(1152, 32, dtype=np.float16)
    *_, o = everywhere(deep_windows, a, b, out(32, 16))
    np.testing.assert_array_equal(o, product(a[32:], b[:, 16:]))


def test_an_accumulator_is_no_window():
    with pytest.raises(Error) as e:
        window_as_accumulator(whole(64, 128), whole(128, 32), out(16, 32))
    assert all(w in str(e.value) for w in ("window", "of their own", "pl.matmul_acc(acc, a, b)", "pl.matmul_acc(pl.slice("))


# -- biases --------------------------------------------------------------------------------------------------------


@pl.jit
def with_bias(a: pl.Tensor, b: pl.Tensor, d: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.move(pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
        y = pl.move(pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
        z = pl.move(pl.load(d, [0, 0], [1, 32], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Bias)
        pl.store(pl.matmul_bias(x, y, z), [0, 0], o)
    return o


@pl.jit
def large_with_bias(a: pl.Tensor, b: pl.Tensor, d: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [32, 592], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [592, 48], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul_bias(x, y, pl.load(d, [0, 0], [1, 48])), [0, 0], o)
    return o


@pl.jit
def wide_with_bias(a: pl.Tensor, b: pl.Tensor, d: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [32, 528], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul_bias(x, y, pl.load(d, [0, 0], [1, 528])), [0, 0], o)
    return o


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_biases(dtype):
    a, b, d = whole(32, 64, dtype=dtype), whole(64, 32, dtype=dtype), whole(1, 32)
    *_, o = everywhere(with_bias, a, b, d, out(32, 32))
    np.testing.assert_array_equal(o, product(a, b) + d)
    *_, o = everywhere(with_bias, a, b, d.astype(dtype), out(32, 32))
    np.testing.assert_array_equal(o, product(a, b) + d)


@pytest.mark.parametrize(("kernel", "shape"), [(large_with_bias, (32, 592, 48)), (wide_with_bias, (16, 32, 528))])
def test_biases_of_products_in_pieces(kernel, shape):
    m, k, n = shape
    a, b, d = whole(m, k), whole(k, n), whole(1, n)
    *_, o = everywhere(kernel, a, b, d, out(m, n))
    np.testing.assert_array_equal(o, product(a, b) + d)


def test_sums_start_at_the_bias():
    a, b, d = np.zeros((32, 64), np.float32), np.zeros((64, 32), np.float32), np.full((1, 32), 2.0**24, np.float32)
    a[:, :2] = b[:2] = 1
    *_, o = everywhere(with_bias, a, b, d, out(32, 32))
    np.testing.assert_array_equal(o, 2.0**24)  # adding 1 twice is lost, adding 2 at the end is not


# -- vector products -----------------------------------------------------------------------------------------------


@pl.jit
def vector(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [1, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.gemv(x, y), [0, 0], o)
    return o


@pl.jit
def row_of_a_box(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [16, 64], valid_shape=[1, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.gemv(x, y), [0, 0], o)
    return o


@pl.jit
def long_vector(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [1, 1200], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [1200, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.gemv(x, y), [0, 0], o)
    return o


@pl.jit
def vector_twice(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [1, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        c = pl.gemv(x, y, acc_phase="partial")
        pl.store(pl.gemv_acc(c, x, y, acc_phase="final"), [0, 0], o)
    return o


@pl.jit
def vector_with_bias(a: pl.Tensor, b: pl.Tensor, d: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [1, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.gemv_bias(x, y, pl.load(d, [0, 0], [1, 32])), [0, 0], o)
    return o


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_vector_products(dtype):
    a, b, d = whole(1, 64, dtype=dtype), whole(64, 32, dtype=dtype), whole(1, 32)
    want = product(a, b)
    for kernel in (vector, row_of_a_box):
        *_, o = everywhere(kernel, a, b, out(1, 32))
        np.testing.assert_array_equal(o, want)
    *_, o = everywhere(vector_twice, a, b, out(1, 32))
    np.testing.assert_array_equal(o, 2 * want)
    *_, o = everywhere(vector_with_bias, a, b, d, out(1, 32))
    np.testing.assert_array_equal(o, want + d)


def test_long_vectors():
    a, b = whole(1, 1200), whole(1200, 32)
    *_, o = everywhere(long_vector, a, b, out(1, 32))
    np.testing.assert_array_equal(o, product(a, b))


@pl.jit
def changing_places(x: pl.Tensor, y: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    """Each trip adds to the sum that the other name held: the second trip's is the first of its own."""
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
        b = pl.load(y, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
        c = pl.create_tile([32, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        d = pl.create_tile([32, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for i in pl.range(n):
            c = pl.matmul_acc(c, a, b, init_cond=(i < 2))
            c, d = d, c
        pl.store(c, [0, 0], o)
        pl.store(d, [0, 0], q)
    return o, q


@pytest.mark.parametrize(("trips", "first", "second"), [(2, 1, 1), (3, 1, 2), (6, 3, 3)])
def test_sums_that_change_places(trips, first, second):
    one = np.ones((32, 32), np.float32)
    *_, o, q = everywhere(changing_places, one, one, trips, out(32, 32), out(32, 32))
    assert (o == 32 * first).all()
    assert (q == 32 * second).all()
