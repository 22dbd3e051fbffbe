"""Programs that searching found, made small; each with what went wrong."""

import numpy as np
import pytest
from lab import everywhere

import pypto.language as pl
from pypto.debug import interpret
from pypto.errors import CompileError, KernelBoundsError, ParserError


@pl.jit
def loops_of_their_own(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        s = pl.tile.full([8, 16], dtype=pl.FP32, value=0.0)
        for i in pl.range(n):
            s = pl.add(s, pl.load(a, [i * 8, 0], [8, 16]))
        for i in pl.range(0, n, 1):
            pl.store(s, [i * 8, 0], o)
    return o


def test_reads_and_writes_in_different_loops():
    """Whether `a` and `o` may be one array compared the loops as values, and comparing expressions raised a TypeError."""
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    (_, _, o) = everywhere(loops_of_their_own, a, np.array([2], np.int32), np.zeros_like(a))
    np.testing.assert_array_equal(o, np.tile(a[:8] + a[8:], (2, 1)))


@pl.jit
def rows_replaced(x: pl.InOut[pl.Tensor], i: pl.Tensor, v: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[:] = pl.scatter_update(x, i, v)
    return x


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("row", [16, -1, 2048, -2048, 1 << 26, 1 << 27, -(1 << 31)])
def test_a_row_that_is_not_there(row, dtype):
    """The position of an element, row * width in 32 (or 16) bits, wrapped to one that is there."""
    x, i, v = np.zeros((16, 32), dtype), np.array([[1, 2, 3, 4, 5, 6, 7, row]], np.int32), np.ones((8, 32), dtype)
    with pytest.raises(KernelBoundsError, match=str(row)):
        rows_replaced(x, i, v)
    with pytest.raises(KernelBoundsError, match=str(row)):
        interpret(rows_replaced.lower(x, i, v), [x, i, v], "rows_replaced")
    assert not x.any()


S = pl.dynamic("S")


@pl.jit
def arms(x: pl.Tensor[[S, 64], pl.FP32], o: pl.InOut[pl.Tensor[[8, 64], pl.FP32]], n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = pl.full([8, 64], pl.FP32, value=1.0)
        if n > 0:
            m = b + b
        else:
            m = pl.slice(x, [8, 64], [0, 0], clamp=True) + b
        o = pl.assemble(o, m, [0, 0])
    return o


@pl.jit
def trips(x: pl.Tensor[[S, 64], pl.FP32], o: pl.InOut[pl.Tensor[[8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.full([8, 64], pl.FP32, value=1.0)
        for i in pl.range(0, x.shape[0], 8):
            m = pl.slice(x, [8, 64], [i, 0], clamp=True) + m
        o = pl.assemble(o, m, [0, 0])
    return o


def test_values_that_are_valid_in_different_parts_do_not_meet():
    """One arm's tile was taken for the other's, and memory that nobody wrote was stored."""
    x, o = np.ones((5, 64), np.float32), np.zeros((8, 64), np.float32)
    for kernel, args in ((arms, (x, o, 0)), (trips, (x, o))):
        with pytest.raises((CompileError, ParserError), match="'m'") as e:
            kernel(*args)
        assert "pl.fillpad(m)" in str(e.value)
    assert not o.any()


@pl.jit
def bits_in_the_way(
    x: pl.Tensor, a: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor[[2, 32], pl.INT8]], p: pl.Out[pl.Tensor[[3, 32], pl.FP16]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [1, 32])
        m = pl.cmps(pl.load(x, [0, 0], [1, 32]), 0.0, cmp_type=4)
        u = pl.muls(t, 2.0)
        chosen = pl.sel(m, t, u, pl.create_tile([1, 32], dtype=pl.UINT8))
        b = pl.cast(chosen, pl.INT8)
        for i in pl.range(n):
            pl.store(b, [i, 0], o)
            pl.store(t, [0, 0], p)
            pl.store(u, [1, 0], p)
            pl.store(chosen, [2, 0], p)
    return o, p


def test_bytes_take_the_place_of_a_mask():
    """The bytes were written in the loop that still read the mask's bits of later columns in the same place."""
    x, a = np.where(np.arange(32) % 3, 1, -1).astype(np.float16)[None], np.arange(32, dtype=np.float16)[None]
    o, p = np.zeros((2, 32), np.int8), np.zeros((3, 32), np.float16)
    *_, o, p = everywhere(bits_in_the_way, x, a, 2, o, p)
    chosen = np.where(x > 0, a, 2 * a)
    np.testing.assert_array_equal(o, np.repeat(chosen, 2, 0))
    np.testing.assert_array_equal(p, np.concatenate([a, 2 * a, chosen]))


@pl.jit
def there_and_back(a: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.read(a, [n, 0])
        pl.write(o, [0], pl.cast(pl.cast(x, pl.INT32), pl.FP32))
        pl.write(o, [1], pl.cast(pl.cast(x, pl.INT8), pl.FP32))
        pl.write(o, [2], pl.cast(pl.cast(x, pl.INT64), pl.FP32))
    return o


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("x", [-0.5, -0.0, -1e-7, -3.5, 0.5])
def test_a_number_that_becomes_an_integer_and_a_float_again(x, dtype):
    """The C compiler made one truncation of both, and an integer 0 came back as -0."""
    *_, o = everywhere(there_and_back, np.full((4, 2), x, dtype), 1, np.ones(3, np.float32))
    assert o.tobytes() == np.full(3, int(x), np.float32).tobytes()


@pl.jit
def window_at_bytes(a: pl.Tensor, d: pl.UINT8, e: pl.UINT8, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.slice(pl.load(a, [0, 0], [512, 32]), [256, 32], [d, 0])
        pl.store(pl.slice(w, [16, 16], [e, 1]), [0, 0], o)
        pl.store(pl.tile.extract(w, e, 1, [16, 16]), [16, 0], o)
    return o


@pl.jit
def product_at_bytes(a: pl.Tensor, d: pl.UINT8, e: pl.UINT8, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.slice(pl.load(a, [0, 0], [512, 32], target_memory=pl.Mem.Mat), [256, 32], [d, 0])
        right = pl.load(b, [0, 0], [32, 16], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(pl.slice(w, [16, 32], [e, 0]), right), [0, 0], o)
    return o


def test_positions_of_windows_in_windows_do_not_wrap():
    """The positions of a window and of one in it were added up in their own type: rows 208 and 96 as bytes gave row 48."""
    a = np.arange(512 * 32, dtype=np.float32).reshape(512, 32)
    *_, o = everywhere(window_at_bytes, a, 208, 96, np.zeros((32, 16), np.float32))
    np.testing.assert_array_equal(o, np.tile(a[304:320, 1:17], (2, 1)))
    a = (a % 509).astype(np.float16)
    *_, o = everywhere(product_at_bytes, a, 208, 96, np.eye(32, 16, dtype=np.float16), np.zeros((16, 16), np.float32))
    np.testing.assert_array_equal(o, a[304:320, :16].astype(np.float32))
