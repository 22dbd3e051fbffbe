"""Tiles whose rows become columns: by blocks in registers, with borders of any width, for elements of each size."""

from __future__ import annotations

import numpy as np
import pytest
from lab import BRIEF, assert_same_bits, environment, everywhere

import pypto.language as pl

N, M = pl.dynamic("N"), pl.dynamic("M")
NUMPY = {pl.INT8: np.int8, pl.FP16: np.float16, pl.FP32: np.float32}


def routines(kernel, *args) -> int:
    return kernel.inspect("c", *args).count("    pp_turn_")


def turning(dtype: pl.DataType, rows: int, cols: int):
    @pl.jit
    def turned(x: pl.Tensor[[N, M], dtype], out: pl.Out[pl.Tensor[[M, N], dtype]]):
        n, m = x.shape
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.parallel(0, n, rows):
                for j in pl.range(0, m, cols):
                    out[j : j + cols, i : i + rows] = pl.transpose(x[i : i + rows, j : j + cols], 0, 1)
        return out

    return turned


@pytest.mark.parametrize("dtype", [pl.INT8, pl.FP16, pl.FP32])
@pytest.mark.parametrize(("rows", "cols"), [(32, 64), (32, 32), (64, 96)])
def test_tile_by_tile(dtype: pl.DataType, rows: int, cols: int) -> None:
    x = np.arange(2 * rows * 3 * cols).reshape(2 * rows, 3 * cols).astype(NUMPY[dtype])
    kernel, out = turning(dtype, rows, cols), np.zeros((3 * cols, 2 * rows), NUMPY[dtype])
    assert routines(kernel, x, out) == 1  # from the one array into the other
    assert_same_bits(everywhere(kernel, x, out)[1:], [x.T], "turned")


@pl.jit
def valid_part(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]], rows: pl.INDEX, cols: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [64, 64], [rows, cols])
        out = pl.store(pl.transpose(t, 0, 1), [0, 0], out)
    return out


@pytest.mark.parametrize("rows", [0, 1, 5, 16, 17, 33, 64])
@pytest.mark.parametrize("cols", [1, 15, 16, 31, 64])
def test_borders_of_blocks(rows: int, cols: int) -> None:
    x = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
    out = np.full((64, 64), 7, np.float32)
    want = out.copy()
    want[:cols, :rows] = x[:rows, :cols].T
    valid_part.compile(x, out, rows, cols)(x, out, rows, cols)
    assert_same_bits([out], [want], f"{rows} x {cols}")


@pl.jit
def computed(
    x: pl.Tensor[[64, 48], pl.FP32], out: pl.Out[pl.Tensor[[48, 64], pl.FP32]], sums: pl.Out[pl.Tensor[[48, 1], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.transpose(pl.exp(x), 0, 1)
        out[:] = t * t
        sums[:] = pl.row_sum(t)
    return out, sums


def test_what_is_computed_from_a_turned_tile_reads_it_in_order() -> None:
    x = np.random.default_rng(1).standard_normal((64, 48), dtype=np.float32)
    out, sums = np.zeros((48, 64), np.float32), np.zeros((48, 1), np.float32)
    assert routines(computed, x, out, sums) == 1
    everywhere(computed, x, out, sums, ways=BRIEF)


@pl.jit
def changed_in_between(x: pl.InOut[pl.Tensor[[64, 64], pl.FP32]], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [64, 64])
        u = pl.transpose(t, 0, 1)
        x = pl.store(pl.mul(t, 2.0), [0, 0], x)
        out = pl.store(u, [0, 0], out)
    return x, out


@pl.jit
def onto_itself(x: pl.InOut[pl.Tensor[[64, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[:] = pl.transpose(x, 0, 1)
    return x


def test_what_was_read_stays_as_it_was() -> None:
    x = np.random.default_rng(2).standard_normal((64, 64), dtype=np.float32)
    got = everywhere(changed_in_between, x, np.zeros_like(x))
    assert_same_bits(got, [x * np.float32(2), x.T], "in between")
    assert_same_bits(everywhere(onto_itself, x), [x.T], "onto itself")


@pytest.mark.parametrize("skip", [0, 1, 4])
def test_past_the_caches(skip: int) -> None:
    kernel, x = turning(pl.FP32, 32, 64), np.random.default_rng(3).standard_normal((64, 128), dtype=np.float32)
    room = np.zeros(x.size + 32, np.float32)
    first = -room.ctypes.data % 64 // 4 + skip
    out = room[first : first + x.size].reshape(128, 64)
    with environment(CFLAGS="-DPP_LARGE=0"):
        kernel.compile(x, out)(x, out)
    assert_same_bits([out], [x.T], f"{skip}")
