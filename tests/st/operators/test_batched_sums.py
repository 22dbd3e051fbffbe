"""Batches that products are added to: in loops and branches, from whatever they begin with, in any extents."""

import numpy as np
import pytest
from lab import everywhere
from test_matmul import out
from test_matmul_batches import product, whole

import pypto.language as pl
from pypto.errors import CompileError

ANY_EXTENTS = pytest.mark.parametrize(("m", "n"), [(16, 32), (20, 17), (1, 16), (48, 5)])


def factors(m, n, batch=(3,), k=32, dtype=np.float32):
    return whole(*batch, m, k, dtype=dtype), whole(*batch, k, n, dtype=dtype)


@pl.jit
def begun(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.FP32)
        o[:] = pl.matmul_acc(acc, a, b)
    return o


@pl.jit
def in_a_loop(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([a.shape[0], a.shape[1], b.shape[2]], dtype=pl.FP32)
        for k in pl.range(2):
            acc = pl.matmul_acc(acc, a[:, :, k * 16 : (k + 1) * 16], b[:, k * 16 : (k + 1) * 16])
        o[:] = acc
    return o


@pl.jit
def told_to_begin(a: pl.Tensor, b: pl.Tensor, first: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.FP32)
        for k in pl.range(3):
            acc = pl.matmul_acc(acc, a, b, init_cond=(k == first))
        o[:] = acc
    return o


@pl.jit
def from_numbers(c: pl.Tensor, a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.mul(c, 2.0)
        for _k in pl.range(2):
            acc = pl.matmul_acc(acc, a, b)
        o[:] = pl.add(acc, c)
    return o


@pl.jit
def on_one_way(a: pl.Tensor, b: pl.Tensor, times: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.FP32)
        if times > 1:
            acc = pl.matmul_acc(acc, a, b)
        else:
            acc = pl.matmul(pl.neg(a), b, out_dtype=pl.FP32)
        o[:] = acc
    return o


@pl.jit
def changing_places(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.matmul(a, b, out_dtype=pl.FP32)
        y = pl.matmul_acc(x, a, b)
        for _k in pl.range(3):
            x, y = y, pl.matmul_acc(x, a, b)
        o[:] = x
        p[:] = y
    return o, p


@pl.jit
def both_ways(a: pl.Tensor, at: pl.Tensor, b: pl.Tensor, bt: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, bt, b_trans=True, out_dtype=pl.FP32)
        acc = pl.matmul_acc(acc, at, b, a_trans=True)
        acc = pl.matmul_acc(acc, at, bt, a_trans=True, b_trans=True)
        o[:] = acc
    return o


@pl.jit
def whole_numbers(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.INT32)
        o[:] = pl.matmul_acc(acc, a, b)
    return o


@pl.jit
def of_tiles(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0, 0], [3, 16, 32], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0, 0], [3, 32, 32], target_memory=pl.Mem.Mat)
        acc = pl.tile.create([3, 16, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for _k in pl.range(2):
            acc = pl.tile.batch_matmul_acc(acc, x, y)
        pl.store(acc, [0, 0, 0], o)
    return o


@pl.jit
def into_a_window(a: pl.Tensor, b: pl.Tensor, o: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.FP32)
        acc = pl.matmul_acc(acc, pl.add(a, 1.0), b)
        o[1:4, 2:22, 3:20] = acc
    return o


@ANY_EXTENTS
def test_a_product_on_a_product(m, n):
    a, b = factors(m, n)
    *_, o = everywhere(begun, a, b, out(3, m, n))
    np.testing.assert_array_equal(o, 2 * product(a, b))


@ANY_EXTENTS
def test_a_loop_over_pieces_of_k(m, n):
    a, b = factors(m, n)
    *_, o = everywhere(in_a_loop, a, b, out(3, m, n))
    np.testing.assert_array_equal(o, product(a, b))


def test_sums_are_rounded_in_the_order_of_k():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 20, 32), (3, 32, 17)))
    *_, o = everywhere(in_a_loop, a, b, out(3, 20, 17))
    for one in range(3):
        *_, alone = everywhere(in_a_loop, a[one : one + 1], b[one : one + 1], out(1, 20, 17))
        np.testing.assert_array_equal(o[one], alone[0])
    assert np.abs(o - product(a, b)).max() < 1e-4


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_sums_that_begin_when_told(first):
    a, b = factors(20, 17)
    *_, o = everywhere(told_to_begin, a, b, first, out(3, 20, 17))
    np.testing.assert_array_equal(o, (4 if first == 3 else 3 - first) * product(a, b))


@ANY_EXTENTS
def test_sums_that_begin_with_numbers_and_are_computed_with(m, n):
    if n % 8:
        n = 24  # rows of vectors are whole blocks of 32 bytes
    a, b = factors(m, n)
    c = whole(3, m, n)
    *_, o = everywhere(from_numbers, c, a, b, out(3, m, n))
    np.testing.assert_array_equal(o, 3 * c + 2 * product(a, b))


@pytest.mark.parametrize("times", [1, 2])
def test_branches(times):
    a, b = factors(20, 17)
    *_, o = everywhere(on_one_way, a, b, times, out(3, 20, 17))
    np.testing.assert_array_equal(o, (2 if times == 2 else -1) * product(a, b))


def test_sums_that_change_places():
    a, b = factors(16, 32)
    *_, o, p = everywhere(changing_places, a, b, out(3, 16, 32), out(3, 16, 32))
    x, y = 1, 2
    for _ in range(3):
        x, y = y, x + 1
    np.testing.assert_array_equal(o, x * product(a, b))
    np.testing.assert_array_equal(p, y * product(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("m", "n"), [(16, 32), (20, 17)])
def test_factors_that_are_turned(m, n, dtype):
    a, b = factors(m, n, dtype=dtype)
    turned = (x.swapaxes(1, 2).copy() for x in (a, b))
    at, bt = turned
    *_, o = everywhere(both_ways, a, at, b, bt, out(3, m, n))
    np.testing.assert_array_equal(o, 3 * product(a, b))


@pytest.mark.parametrize("batch", [(1,), (2, 2), (2, 1, 3)])
def test_leading_axes(batch):
    a, b = factors(20, 17, batch)
    *_, o = everywhere(begun, a, b, out(*batch, 20, 17))
    np.testing.assert_array_equal(o, 2 * product(a, b))


def test_factors_for_all_of_the_batch():
    a, b = whole(3, 16, 32), whole(32, 16)
    *_, o = everywhere(begun, a, b, out(3, 16, 16))
    np.testing.assert_array_equal(o, 2 * product(a, b))


def test_whole_numbers():
    a, b = factors(20, 17, dtype=np.int8)
    *_, o = everywhere(whole_numbers, a, b, out(3, 20, 17, dtype=np.int32))
    np.testing.assert_array_equal(o, 2 * product(a, b))


def test_tiles():
    a, b = factors(16, 32)
    *_, o = everywhere(of_tiles, a, b, out(3, 16, 32))
    np.testing.assert_array_equal(o, 2 * product(a, b))


def test_windows_that_sums_are_written_to():
    a, b = factors(20, 17)
    before = whole(5, 24, 24)
    *_, o = everywhere(into_a_window, a, b, before)
    want = before.copy()
    want[1:4, 2:22, 3:20] = product(2 * a + 1, b)
    np.testing.assert_array_equal(o, want)


def test_more_sums_than_there_is_memory_for():
    with pytest.raises(CompileError) as e:
        begun(*factors(16, 16, (300,)), out(300, 16, 16))
    assert e.value.code == "C031"
    assert all(w in str(e.value) for w in ("300 accumulators", "pl.matmul_acc(acc, a, b)", "loop over the batch"))
    with pytest.raises(CompileError) as e:
        begun(*factors(128, 128, (8,)), out(8, 128, 128))
    assert "Acc" in str(e.value)
