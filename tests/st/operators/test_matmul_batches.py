"""Products of batches and of vectors; products between other operators of a kernel, whatever their extents."""

import numpy as np
import pytest
from lab import everywhere
from test_matmul import a_turned, b_turned, both_turned, halves, mm, out

import pypto.language as pl
from pypto.errors import Error


def whole(*shape, dtype=np.float32):
    """Small whole numbers: products and their sums are exact in every type."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype)


def product(a, b):
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 16, 64), (3, 64, 32)),
        ((3, 20, 64), (3, 64, 17)),  # no whole boxes
        ((2, 2, 5, 32), (2, 2, 32, 16)),
        ((16, 64), (3, 64, 32)),  # one operand for all
        ((3, 1, 16, 32), (2, 32, 16)),  # axes broadcast
        ((1, 16, 32), (1, 32, 16)),
        ((2, 128, 272), (2, 272, 128)),  # matrices that are made of pieces
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batches(a, b, dtype):
    a, b = whole(*a, dtype=dtype), whole(*b, dtype=dtype)
    want = product(a, b)
    *_, o = everywhere(mm, a, b, out(*want.shape))
    np.testing.assert_array_equal(o, want)


@pytest.mark.parametrize("kernel", [a_turned, b_turned, both_turned])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (20, 17)])
def test_transposed_batches(kernel, m, n):
    a, b = whole(2, m, 32), whole(2, 32, n)
    given = (
        a.swapaxes(1, 2).copy() if kernel is not b_turned else a,
        b.swapaxes(1, 2).copy() if kernel is not a_turned else b,
    )
    *_, o = everywhere(kernel, *given, out(2, m, n))
    np.testing.assert_array_equal(o, product(a, b))


def test_batches_in_the_type_of_the_operands():
    a, b = whole(2, 20, 64, dtype=np.float16), whole(2, 64, 16, dtype=np.float16)
    *_, o = everywhere(halves, a, b, out(2, 20, 16, dtype=np.float16))
    np.testing.assert_array_equal(o, product(a, b))


@pl.jit
def batch_by_batch(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(3):
            o[i] = pl.matmul(a[i], b[i], out_dtype=pl.FP32)
    return o


@pl.jit
def used_further(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.batch_matmul(a, b, out_dtype=pl.FP32), 1.0)
    return o


@pl.jit
def computed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(pl.add(a, 1.0), b, out_dtype=pl.FP32)
    return o


@pl.jit
def of_tiles(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0, 0], [3, 16, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0, 0], [3, 64, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.batch_matmul(x, y), [0, 0, 0], o)
    return o


@pytest.mark.parametrize(("m", "n"), [(16, 32), (20, 17), (5, 24)])
def test_a_loop_over_the_batch(m, n):
    a, b = whole(3, m, 64), whole(3, 64, n)
    *_, o = everywhere(batch_by_batch, a, b, out(3, m, n))
    np.testing.assert_array_equal(o, product(a, b))


@pytest.mark.parametrize(("m", "n"), [(16, 32), (20, 24)])
def test_batches_that_are_computed_with(m, n):
    a, b = whole(3, m, 64), whole(3, 64, n)
    *_, o = everywhere(used_further, a, b, out(3, m, n))
    np.testing.assert_array_equal(o, product(a, b) + 1)
    *_, o = everywhere(computed, a, b, out(3, m, n))
    np.testing.assert_array_equal(o, product(a + 1, b))


@pl.jit
def computed_and_turned(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(pl.add(a, 1.0), pl.add(b, 2.0), out_dtype=pl.FP32, a_trans=True, b_trans=True)
    return o


@pytest.mark.parametrize("batch", [(), (1,), (3,)])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (24, 20)])
def test_computed_operands_are_read_transposed(batch, m, n):
    a, b = whole(*batch, 32, m), whole(*batch, n, 32)
    *_, o = everywhere(computed_and_turned, a, b, out(*batch, m, n))
    np.testing.assert_array_equal(o, product((a + 1).swapaxes(-2, -1), (b + 2).swapaxes(-2, -1)))


def test_batches_of_tiles():
    a, b = whole(3, 16, 64), whole(3, 64, 32)
    *_, o = everywhere(of_tiles, a, b, out(3, 16, 32))
    np.testing.assert_array_equal(o, product(a, b))


def test_batches_that_do_not_broadcast():
    with pytest.raises(Error) as e:
        mm(whole(3, 16, 64), whole(2, 64, 32), out(3, 16, 32))
    assert all(w in str(e.value) for w in ("[3]", "[2]"))


# -- vectors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [((64,), (64, 32)), ((20, 64), (64,)), ((64,), (64,)), ((2, 16, 64), (64,))])
def test_vectors(a, b):
    a, b = whole(*a), whole(*b)
    want = np.atleast_1d(product(a, b))
    *_, o = everywhere(mm, a, b, out(*want.shape))
    np.testing.assert_array_equal(o, want)


# -- between other operators ---------------------------------------------------------------------------------------


@pl.jit
def then_vector(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.mul(pl.add(pl.matmul(a, b), 1.0), 2.0)
    return o


@pl.jit
def chain(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(pl.matmul(a, b), c)
    return o


@pl.jit
def reshaped(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(pl.reshape(a, [20, 64]), b)
    return o


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("m", "n"), [(16, 16), (20, 32), (5, 48)])
def test_products_between_vector_operators(m, n, dtype):
    a, b, c = whole(m, 64, dtype=dtype), whole(64, n, dtype=dtype), whole(n, 16, dtype=dtype)
    *_, o = everywhere(then_vector, a, b, out(m, n, dtype=dtype))
    np.testing.assert_array_equal(o, (product(a, b).astype(dtype) + dtype(1)) * dtype(2))
    *_, o = everywhere(computed, a, b, out(m, n))
    np.testing.assert_array_equal(o, product(a + dtype(1), b))
    *_, o = everywhere(chain, a, b, c, out(m, 16, dtype=dtype))
    np.testing.assert_array_equal(o, product(product(a, b).astype(dtype), c).astype(dtype))


def test_an_operand_of_another_shape():
    a, b = whole(32, 40), whole(64, 16)
    *_, o = everywhere(reshaped, a, b, out(20, 16))
    np.testing.assert_array_equal(o, product(a.reshape(20, 64), b))
