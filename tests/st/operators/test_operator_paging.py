"""Accumulators filled window by window from global memory: what numpy gives, in every way of running."""

from __future__ import annotations

from typing import Any

import lab
import numpy as np
import pytest

import pypto.language as pl
from pypto.dtypes import DataType
from pypto.errors import Error, KernelBoundsError

Array = Any
D = DataType
# What is tried here.
PAGED = frozenset({"tensor.create_l1", "tensor.gather_row", "tile.gather_row", "tensor.paged_gather"})


def values(rows: int, cols: int, dtype: DataType = D.FP32) -> Array:
    return (np.arange(rows * cols).reshape(rows, cols) % 113 - 50).astype(dtype.numpy())


def fresh(*shape: int, dtype: DataType = D.FP32) -> Array:
    return np.full(shape, -77, dtype.numpy())


def numbers(*given: int) -> Array:
    made = np.zeros(8, np.int32)
    made[: len(given)] = given
    return made


@pl.jit
def windows(x: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        at = pl.cast(pl.read(c, [1]), pl.INDEX)
        acc = pl.load(x, [0, 0], [16, 32])
        both = pl.gather_row(acc, x, [n, 0], [at, 32], [16, 32], valid_shape=[16 - n, 32])
        both = pl.tile.gather_row(both, x, [0, 8], [at, 5], [1, 16])
        pl.store(both, [0, 0], o)
        pl.store(acc, [0, 0], p)
    return o, p


@pytest.mark.parametrize("dtype", [D.FP32, D.FP16, D.BF16, D.INT8, D.INT64], ids=lambda d: d.name)
def test_windows_of_a_tensor(dtype: DataType) -> None:
    """What was filled is a new value; the accumulator it began with is still what it was."""
    x = values(64, 64, dtype)
    calls = [(x, numbers(n, at), fresh(16, 32, dtype=dtype), fresh(16, 32, dtype=dtype)) for n, at in ((3, 7), (16, 63), (0, 48))]
    for (_, _, o, p), (_, c, *_rest) in zip(
        lab.agree(windows, *calls, ways=lab.ALL if dtype is D.FP32 else lab.BRIEF), calls, strict=True
    ):
        n, at = c[:2]
        want = x[:16, :32].copy()
        want[n:] = x[at : at + 16 - n, 32:]
        want[0, 8:24] = x[at, 5:21]
        assert (o == want).all()
        assert (p == x[:16, :32]).all()


@pytest.mark.parametrize(("n", "at"), [(17, 0), (-1, 0), (0, 49), (0, -1), (3, 2**31 - 1)])
def test_a_window_that_is_not_there_is_an_error(n: int, at: int) -> None:
    x, given = values(64, 64), [fresh(16, 32), fresh(16, 32)]
    with pytest.raises(KernelBoundsError):
        windows(x, numbers(n, at), *given)


@pl.jit
def carried(x: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tile([8, 32], dtype=pl.FP32)
        for i in pl.range(8):
            acc = pl.gather_row(acc, x, [7 - i, 0], [pl.cast(pl.read(c, [i]), pl.INDEX), 16], [1, 32])
        pl.store(acc, [0, 0], o)
    return o


def test_rows_in_a_loop() -> None:
    x, rows = values(64, 64), (5, 9, 63, 0, 5, 31, 2, 8)
    o = lab.everywhere(carried, x, numbers(*rows), fresh(8, 32), ways=lab.ALL)[2]
    assert (o == x[list(rows)[::-1], 16:48]).all()


@pl.jit
def product(q: pl.Tensor, x: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        at = pl.cast(pl.read(c, [1]), pl.INDEX)
        kv = pl.create_l1([32, 64], pl.FP16)
        kv = pl.gather_row(kv, x, [0, 0], [at, 0], [32, 64], valid_shape=[n, 64])
        kv = pl.gather_row(kv, x, [n, 0], [0, 0], [32, 64], valid_shape=[32 - n, 64])
        o[:] = pl.matmul(q, kv, out_dtype=pl.FP32, b_trans=True)
    return o


def test_an_accumulator_of_the_matrix_unit() -> None:
    q, x = values(16, 64, D.FP16), values(64, 64, D.FP16)
    for n, at in ((3, 7), (32, 30), (0, 5)):
        o = lab.everywhere(product, q, x, numbers(n, at), fresh(16, 32))[3]
        kv = np.concatenate([x[at : at + n], x[: 32 - n]]).astype(np.int64)
        assert (o == q.astype(np.int64) @ kv.T).all()


N = pl.dynamic("N")


@pl.jit
def paged(x: pl.Tensor, idx: pl.Tensor[[N], pl.INT32], table: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.paged_gather(x, idx, table, 4, 32, 16, space=pl.Mem.Vec, col_off=8)
    return o


def _paged(x: Array, idx: Array, table: Array, block: int, first: int, size: int) -> Array:
    return np.stack([x[table.reshape(-1)[i // block] * block + i % block, first : first + size] for i in idx.reshape(-1)])


def test_pages_in_vector_memory() -> None:
    x, table = values(64, 64), np.array([[7, 2, 15, 0, 9, 9]], np.int32)
    for count in (16, 5, 1):
        idx = (np.arange(count) * 7 % 24).astype(np.int32)
        o = lab.everywhere(paged, x, idx, table, fresh(16, 32), ways=lab.ALL if count == 5 else lab.BRIEF)[3]
        assert (o[:count] == _paged(x, idx, table, 4, 8, 32)).all()
        assert (o[count:] == -77).all()


@pytest.mark.parametrize(("index", "page"), [(24, 0), (-1, 0), (2**31 - 1, 0), (0, 16), (0, -1)])
def test_an_index_or_a_page_that_is_not_there_is_an_error(index: int, page: int) -> None:
    x, table = values(64, 64), np.array([[page, 2, 15, 0, 9, 9]], np.int32)
    with pytest.raises(KernelBoundsError):
        paged(x, np.array([index], np.int32), table, fresh(16, 32))


def test_more_indices_than_there_is_room_for_are_an_error() -> None:
    with pytest.raises(KernelBoundsError):
        paged(values(64, 64), np.zeros(17, np.int32), np.zeros((1, 6), np.int32), fresh(16, 32))


@pl.jit
def attention(q: pl.Tensor, x: pl.Tensor, idx: pl.Tensor, table: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        kv = pl.paged_gather(x, idx, table, 4, 64, 32)
        o[:] = pl.matmul(q, kv, out_dtype=pl.FP32, b_trans=True)
    with pl.at(level=pl.Level.CORE_GROUP):
        kt = pl.paged_gather(x, idx, table, 4, 64, 32, is_trans=True)
        p[:] = pl.matmul(q, kt, out_dtype=pl.FP32)
    return o, p


def test_pages_for_the_matrix_unit() -> None:
    """As they are, and turned: both give the same products."""
    q, x = values(16, 64, D.FP16), values(64, 64, D.FP16)
    idx, table = (np.arange(32) * 5 % 24).reshape(1, 32).astype(np.int32), np.array([7, 2, 15, 0, 9, 4], np.int32)
    found = lab.everywhere(attention, q, x, idx, table, fresh(16, 32), fresh(16, 32))
    want = q.astype(np.int64) @ _paged(x, idx, table, 4, 0, 64).astype(np.int64).T
    assert (found[4] == want).all()
    assert (found[5] == want).all()


def test_refusals() -> None:
    @pl.jit
    def too_far(x: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.create_tile([8, 32], dtype=pl.FP32)
            pl.store(pl.gather_row(acc, x, [4, 0], [0, 0], [8, 32]), [0, 0], o)
        return o

    @pl.jit
    def not_on_chip(x: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.gather_row(o, x, [0, 0], [0, 0], [8, 32])
        return o

    for kernel, words in ((too_far, ("past the end", "valid_shape")), (not_on_chip, ("create_l1",))):
        with pytest.raises(Error) as e:
            kernel(values(64, 64), fresh(8, 32))
        assert all(w in str(e.value) for w in words), str(e.value)


@pl.jit
def in_order(
    x: pl.InOut[pl.Tensor], v: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        before = pl.load(x, [0, 0], [8, 8])
        index = pl.load(i, [0, 0], [8, 8])
        first = pl.mgather(x, index, "elem")
        x = pl.mscatter(pl.load(v, [0, 0], [8, 8]), index, x)
        second = pl.mgather(x, index, "elem")
        x = pl.store(pl.add(before, 1.0), [8, 8], x)
        acc = pl.gather_row(pl.create_tile([8, 8], dtype=pl.FP32), x, [0, 0], [8, 8], [8, 8])
        pl.store(before, [0, 0], o)
        pl.store(pl.sub(first, second), [0, 0], p)
        pl.store(acc, [0, 0], q)
    return x, o, p, q


def test_order_in_global_memory() -> None:
    """What is read before a write by index is what was there before, and the other way round."""
    x, v, i = values(16, 16), -values(8, 8), (np.arange(64) * 5 % 256).reshape(8, 8).astype(np.int32)
    o, p, q = (fresh(8, 8) for _ in range(3))
    got = lab.everywhere(in_order, x, v, i, o, p, q, ways=lab.ALL)
    want = x.copy()
    want.reshape(-1)[i] = v
    want[8:, 8:] = x[:8, :8] + 1
    assert (got[0] == want).all()
    assert (got[3] == x[:8, :8]).all()
    assert (got[4] == x.reshape(-1)[i] - v).all()
    assert (got[5] == x[:8, :8] + 1).all()
