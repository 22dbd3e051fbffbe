"""Stores past the caches: the same bits wherever rows begin and however long they are, and taken only where they make sense."""

from __future__ import annotations

import numpy as np
import pytest
from lab import BRIEF, DEFAULT, assert_same_bits, environment, everywhere, native

import pypto.language as pl
from pypto.errors import KernelError

N, M = pl.dynamic("N"), pl.dynamic("M")
Matrix = pl.Tensor[[N, M], pl.FP32]
ALWAYS = {"CFLAGS": "-DPP_LARGE=0"}  # every tensor counts as large


def streams(kernel, *args) -> bool:
    return "pp_store_lines" in kernel.inspect("c", *args)


def placed(values: np.ndarray, skip: int) -> np.ndarray:
    """The array, beginning `skip` elements behind the beginning of a line."""
    size = values.itemsize
    room = np.zeros(values.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 64 + skip * size
    out = room[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


def in_place(kernel, *args) -> list[np.ndarray]:
    """The arrays after a call with these very arrays, which begin where they begin."""
    with environment(**ALWAYS):
        kernel.compile(*args)(*args)
    return [a for a in args if isinstance(a, np.ndarray)]


def some(shape, dtype, rng) -> np.ndarray:
    return (rng.integers(-100, 100, shape)).astype(dtype)


@pl.jit
def long_rows(
    a: pl.Tensor[[N, M], pl.FP32], b: pl.Tensor[[N, M], pl.FP32], out: pl.Out[pl.Tensor[[N, M], pl.FP32]], valid: pl.INDEX
):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, pl.tensor.dim(a, 0), 2):
            x = pl.load(a, [i, 0], [2, 640], [2, valid])
            y = pl.load(b, [i, 0], [2, 640], [2, valid])
            out = pl.store(pl.mul(pl.add(x, y), y), [i, 0], out)
    return out


@pytest.mark.parametrize("skip", [0, 1, 4, 15])
@pytest.mark.parametrize("valid", [640, 639, 256, 255, 16, 1, 0])
def test_rows_of_any_length_that_begin_anywhere(skip: int, valid: int) -> None:
    rng = np.random.default_rng(valid)
    a, b = some((4, 645), np.float32, rng), some((4, 645), np.float32, rng)
    want = np.full((4, 645), 7, np.float32)
    want[:, :valid] = ((a + b) * b)[:, :valid]
    out = placed(np.full((4, 645), 7, np.float32), skip)
    assert streams(long_rows, a, b, out, valid)
    assert_same_bits([in_place(long_rows, a, b, out, valid)[2]], [want], f"{skip}, {valid}")


def kernel_of(dtype: pl.DataType, wide: pl.DataType):
    @pl.jit
    def two_widths(a: pl.Tensor[[N, M], dtype], out: pl.Out[pl.Tensor[[N, M], dtype]], other: pl.Out[pl.Tensor[[N, M], wide]]):
        n, m = a.shape
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.parallel(0, n, 2):
                for j in pl.range(0, m, 512):
                    x = a[i : i + 2, j : j + 512]
                    y = x + x
                    out[i : i + 2, j : j + 512] = y
                    other[i : i + 2, j : j + 512] = pl.cast(x, wide)
        return out, other

    return two_widths


@pytest.mark.parametrize(("dtype", "wide"), [(pl.FP16, pl.FP32), (pl.INT32, pl.FP32), (pl.INT16, pl.FP32)])
@pytest.mark.parametrize("skips", [(0, 0), (4, 4), (8, 4), (3, 0)])
def test_outputs_of_two_widths(dtype: pl.DataType, wide: pl.DataType, skips: tuple[int, int]) -> None:
    kernel = kernel_of(dtype, wide)
    rng = np.random.default_rng(1)
    numpy_of = {pl.FP16: np.float16, pl.INT32: np.int32, pl.INT16: np.int16, pl.FP32: np.float32}
    a = some((4, 1024), numpy_of[dtype], rng)
    out, other = (placed(np.zeros((4, 1024), numpy_of[d]), s) for d, s in zip((dtype, wide), skips, strict=True))
    assert streams(kernel, a, out, other)
    in_place(kernel, a, out, other)
    assert_same_bits([out, other], [a + a, a.astype(np.float32)], str(skips))


@pl.jit
def short_rows(a: pl.Tensor[[N, M], pl.FP32], out: pl.Out[pl.Tensor[[N, M], pl.FP32]]):
    n, m = a.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, n, 8):
            for j in pl.range(0, m, 64):
                out[i : i + 8, j : j + 64] = pl.exp(a[i : i + 8, j : j + 64])
    return out


@pytest.mark.parametrize("skip", [0, 4, 5])
def test_short_rows(skip: int) -> None:
    a = np.random.default_rng(2).standard_normal((16, 192), dtype=np.float32)
    out = placed(np.zeros_like(a), skip)
    assert streams(short_rows, a, out)
    want = everywhere(short_rows, a, np.zeros_like(a))
    assert_same_bits([in_place(short_rows, a, out)[1]], want[1:], "always")


def test_an_output_that_is_the_input() -> None:
    a = placed(np.random.default_rng(3).standard_normal((4, 1280), dtype=np.float32), 3)
    b = np.random.default_rng(4).standard_normal((4, 1280), dtype=np.float32)
    want = a.copy()
    want[:, :640] = ((a + b) * b)[:, :640]
    assert_same_bits([in_place(long_rows, a, b, a, 640)[2]], [want], "in place")


@pl.jit
def blocks_of_rows(a: pl.Tensor[[N, 1024], pl.FP32], out: pl.Out[pl.Tensor[[N, 1024], pl.FP32]], blocks: pl.INDEX):
    for i in pl.spmd(blocks):
        out[i * 2 : i * 2 + 2, :] = a[i * 2 : i * 2 + 2, :] * 3.0
    return out


def test_every_way_agrees_where_every_store_streams() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((4, 640), dtype=np.float32) for _ in range(2))
    with environment(**ALWAYS):
        everywhere(long_rows, a, b, np.zeros_like(a), 640, ways=BRIEF)


@pl.jit
def read_again(a: pl.Tensor[[N, 1024], pl.FP32], out: pl.InOut[pl.Tensor[[N, 1024], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, pl.tensor.dim(a, 0), 2):
            out[i : i + 2, :] = out[i : i + 2, :] + a[i : i + 2, :]
    return out


@pl.jit
def written_again(a: pl.Tensor[[N, 1024], pl.FP32], out: pl.Out[pl.Tensor[[N, 1024], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, pl.tensor.dim(a, 0), 2):
            for k in pl.range(3):
                out[i : i + 2, :] = a[i : i + 2, :] * pl.cast(k, pl.FP32)
    return out


@pl.jit
def small(a: pl.Tensor[[64, 1024], pl.FP32], out: pl.Out[pl.Tensor[[64, 1024], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 64, 2):
            out[i : i + 2, :] = a[i : i + 2, :] * 2.0
    return out


@pytest.mark.parametrize("kernel", [read_again, written_again, small])
def test_what_stays_in_the_caches(kernel) -> None:
    a, out = np.ones((64, 1024), np.float32), np.zeros((64, 1024), np.float32)
    assert not streams(kernel, a, out)


def test_only_large_tensors_stream() -> None:
    """The flag is set where the kernel begins, from extents and trips."""
    a = np.ones((16, 640), np.float32)
    text = long_rows.inspect("c", a, a, a, 640)
    (flag,) = (line.strip() for line in text.splitlines() if "const bool k_past_out" in line)
    assert flag.startswith("const bool k_past_out = pp_is_large((double)4 * k_N * k_M) && pp_is_large(")
    assert "pp_past_end(k_past_out);" in text
    assert_same_bits(native(long_rows, (a, a, np.zeros_like(a), 640), DEFAULT)[2:], [2 * a], "as usual")


def test_blocks_stream() -> None:
    a = placed(np.random.default_rng(6).standard_normal((8, 1024), dtype=np.float32), 1)
    out = placed(np.zeros_like(a), 2)
    assert streams(blocks_of_rows, a, out, 4)
    assert_same_bits([in_place(blocks_of_rows, a, out, 4)[1]], [a * np.float32(3)], "blocks")


@pl.jit
def tile_by_tile(a: Matrix, out: pl.Out[Matrix]):
    n, m = a.shape
    for i in pl.parallel(0, n, 2):
        for j in pl.range(0, m, 512):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 2, j : j + 512] = a[i : i + 2, j : j + 512] * 3.0
    return out


@pl.jit
def the_same_tile(a: Matrix, out: pl.Out[Matrix]):
    for _ in pl.range(0, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:2, 0:512] = a[0:2, 0:512] * 3.0
    return out


@pytest.mark.parametrize("skip", [0, 3])
def test_tiles_of_an_entrys_loops_stream(skip: int) -> None:
    """A kernel that stores one tile is told how many of them loops around it make."""
    a = np.random.default_rng(7).standard_normal((6, 1024), dtype=np.float32)
    out = placed(np.zeros_like(a), skip)
    text = tile_by_tile.inspect("c", a, out)
    assert "pp_is_large((double)4 * 2 * 512 * pp_calls)" in text
    assert text.count("pp_trips(") >= 2
    assert streams(tile_by_tile, a, out)
    want = everywhere(tile_by_tile, a, np.zeros_like(a))
    assert_same_bits([in_place(tile_by_tile, a, out)[1]], want[1:], "always")


def test_a_tile_that_every_call_writes_does_not() -> None:
    a = np.ones((6, 1024), np.float32)
    assert not streams(the_same_tile, a, np.zeros_like(a))


@pl.jit
def steps(a: Matrix, out: pl.Out[Matrix], first: pl.INDEX, step: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(first, 4, step):
            out[i : i + 1, 0:1024] = a[i : i + 1, 0:1024] * 2.0
    return out


def test_a_step_of_zero_is_refused_where_the_loop_is() -> None:
    a = np.ones((4, 1024), np.float32)
    assert streams(steps, a, np.zeros_like(a), 0, 1)
    assert_same_bits([in_place(steps, a, np.zeros_like(a), 0, 2)[1][::2]], [2 * a[::2]], "every second row")
    with pytest.raises(KernelError, match="a loop step of 0"):
        steps(a, np.zeros_like(a), 8, 0)
