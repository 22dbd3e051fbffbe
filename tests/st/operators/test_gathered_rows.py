"""Rows by number that go straight to a tensor: where nothing else reads the tile; a wrong number leaves the tensor unharmed."""

from __future__ import annotations

import numpy as np
import pytest
from lab import assert_same_bits, environment, everywhere

import pypto.language as pl
from pypto.errors import KernelError

R, S, W = (pl.dynamic(n) for n in "RSW")


def kernel_of(dtype: pl.DataType, width: int, oob: str = "undefined"):
    @pl.jit
    def rows(x: pl.Tensor[[R, width], dtype], index: pl.Tensor[[1, S], pl.INT32], out: pl.Out[pl.Tensor[[S, width], dtype]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.parallel(0, pl.tensor.dim(index, 1), 16):
                out = pl.store(pl.mgather(x, pl.load(index, [0, i], [1, 16]), "row", gather_oob=oob), [i, 0], out)
        return out

    return rows


def tiles_of(kernel, *args) -> bool:
    """Whether rows are gathered into a tile."""
    (line,) = (text for text in kernel.inspect("c", *args).splitlines() if "= pp_mgather_row_" in text)
    return "(mem" in line.partition(", ")[0]


def data(dtype: type, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(width)
    x = rng.integers(-100, 100, (40, width)).astype(dtype)
    return x, rng.integers(0, 40, (1, 32)).astype(np.int32), np.zeros((32, width), dtype)


@pytest.mark.parametrize(("dtype", "numpy"), [(pl.INT8, np.int8), (pl.FP16, np.float16), (pl.FP32, np.float32)])
@pytest.mark.parametrize("width", [32, 96, 512])
def test_rows_go_to_the_tensor(dtype: pl.DataType, numpy: type, width: int) -> None:
    kernel, (x, index, out) = kernel_of(dtype, width), data(numpy, width)
    assert not tiles_of(kernel, x, index, out)
    assert_same_bits(everywhere(kernel, x, index, out)[2:], [x[index[0]]], "gathered")


@pytest.mark.parametrize("skip", [0, 1, 4, 15])
@pytest.mark.parametrize("width", [96, 512])
def test_past_the_caches(skip: int, width: int) -> None:
    kernel, (x, index, out) = kernel_of(pl.FP32, width), data(np.float32, width)
    room = np.full(out.size + 64, 7, np.float32)
    first = -room.ctypes.data % 64 // 4 + skip
    out = room[first : first + out.size].reshape(out.shape)
    with environment(CFLAGS="-DPP_LARGE=0"):
        kernel.compile(x, index, out)(x, index, out)
    assert_same_bits([out], [x[index[0]]], "gathered")
    assert (room[:first] == 7).all()
    assert (room[first + out.size :] == 7).all()


def test_a_wrong_number_writes_nothing_of_its_tile() -> None:
    kernel, (x, index, out) = kernel_of(pl.FP32, 96), data(np.float32, 96)
    index[0, 20] = 40
    with pytest.raises(KernelError, match="the index 40 leads to no valid element"):
        kernel(x, index, out)
    assert_same_bits([out[16:]], [np.zeros((16, 96), np.float32)], "the second tile")


@pytest.mark.parametrize("oob", ["clamp", "wrap", "zero"])
def test_numbers_out_of_range(oob: str) -> None:
    kernel, (x, index, out) = kernel_of(pl.FP32, 96, oob), data(np.float32, 96)
    index[0, 3::5] = 43
    everywhere(kernel, x, index, out)


@pl.jit
def read_twice(
    x: pl.Tensor[[40, 96], pl.FP32],
    index: pl.Tensor[[1, 16], pl.INT32],
    out: pl.Out[pl.Tensor[[16, 96], pl.FP32]],
    other: pl.Out[pl.Tensor[[16, 96], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mgather(x, pl.load(index, [0, 0], [1, 16]), "row")
        out = pl.store(t, [0, 0], out)
        other = pl.store(pl.mul(t, t), [0, 0], other)
    return out, other


@pl.jit
def written_in_between(
    x: pl.InOut[pl.Tensor[[16, 96], pl.FP32]], index: pl.Tensor[[1, 16], pl.INT32], y: pl.Tensor[[16, 96], pl.FP32]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mgather(x, pl.load(index, [0, 0], [1, 16]), "row")
        x = pl.store(pl.load(y, [0, 0], [16, 96]), [0, 0], x)
        x = pl.store(t, [0, 0], x)
    return x


def test_a_tile_stays_where_it_is_needed() -> None:
    x, index, out = data(np.float32, 96)
    index = index[:, :16].copy()
    got = everywhere(read_twice, x, index, out[:16].copy(), out[:16].copy())
    assert_same_bits(got[2:], [x[index[0]], x[index[0]] ** 2], "read twice")
    assert tiles_of(read_twice, x, index, out[:16].copy(), out[:16].copy())
    index %= 16
    got = everywhere(written_in_between, x[:16].copy(), index, x[16:32].copy())
    assert_same_bits(got[:1], [x[:16][index[0]]], "in between")
