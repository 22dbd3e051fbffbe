"""Products at the edges: of memory, of a larger result, of accumulators, of windows read straight and turned."""

import ml_dtypes
import numpy as np
import pytest
from lab import native
from numerics_kit import TWO, agree, everywhere
from programs_kit import cfg, out, same
from test_valid_regions import at_page_edge

import pypto.language as pl

BF16 = ml_dtypes.bfloat16


def small(rows, cols, dtype=np.float16, step=3, modulus=7):
    return ((np.arange(rows)[:, None] * step + np.arange(cols) * 5) % modulus - modulus // 2).astype(dtype)


def product(a, b):
    return a.astype(np.int64) @ b.astype(np.int64)


@pl.jit
def framed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    """A product of odd extents in the middle of a larger result."""
    with pl.at(level=pl.Level.CORE_GROUP):
        o[3:16, 5:28] = pl.matmul(a, b, out_dtype=pl.FP32)
    return o


@pl.jit
def framed_bytes(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[3:16, 5:28] = pl.matmul(a, b, out_dtype=pl.INT32)
    return o


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32, BF16], ids=["fp16", "int8", "fp32", "bf16"])
def test_nothing_around_operands_and_result_is_touched(dtype):
    """The operands end where memory ends; the matrix unit's boxes reach beyond them."""
    a, b = at_page_edge(small(13, 32, dtype)), at_page_edge(small(32, 23, dtype, 2, 5))
    kernel, kind = (framed_bytes, np.int32) if dtype is np.int8 else (framed, np.float32)
    want = out(20, 32, dtype=kind)
    want[3:16, 5:28] = product(a, b)
    for way in TWO:
        same(native(kernel, [a, b, out(20, 32, dtype=kind)], way)[2], want)
    o = at_page_edge(out(20, 32, dtype=kind))
    kernel(a, b, o)
    same(o, want)


@pl.jit
def windows(a: pl.Tensor, w: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    """Windows of one parent by rows and by columns, windows of windows, straight and turned, at places of run time."""
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        o[:] = pl.matmul(a, w[i * 16 : i * 16 + 64, 16:80][:, i : i + 32], out_dtype=pl.FP32)
        p[:] = pl.matmul(w[i * 16 : i * 16 + 64, 8:21], w[0:64, 0:32], out_dtype=pl.FP32, a_trans=True)
        q[:] = pl.matmul(w[0:64, i : i + 5], w[i : i + 17, 0:64], out_dtype=pl.FP32, a_trans=True, b_trans=True)
    return o, p, q


def test_windows_of_one_parent_straight_and_turned():
    a, w = small(16, 64), small(112, 96, np.float16, 7, 11)
    places = (0, 1, 3)
    got = agree(windows, *([a, w, cfg(i), out(16, 32), out(13, 32), out(5, 17)] for i in places))
    for i, (*_, o, p, q) in zip(places, got, strict=True):
        same(o, product(a, w[i * 16 : i * 16 + 64, 16 + i : 48 + i]))
        same(p, product(w[i * 16 : i * 16 + 64, 8:21].T, w[:64, :32]))
        same(q, product(w[:64, i : i + 5].T, w[i : i + 17, :64].T))


@pl.jit
def turned(
    x: pl.Tensor, h: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]
):
    """Transposes of windows and of valid parts, of elements of four, two and one byte."""
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(x, [r, n], [16, 8])
        pl.store(pl.transpose(t, 0, 1), [0, 0], o)
        pl.store(pl.transpose(pl.load(x, [0, 0], [16, 16], valid_shape=[r, n]), 0, 1), [8, 0], o)
        pl.store(pl.transpose(pl.slice(pl.load(x, [0, 0], [32, 32]), [8, 16], [8, 16]), 0, 1), [24, 0], o)
        pl.store(pl.transpose(pl.load(h, [n, r], [16, 16], valid_shape=[r, 16]), 0, 1), [0, 0], p)
        pl.store(pl.transpose(pl.load(b, [r, 0], [32, 32]), 0, 1), [0, 0], q)
    return o, p, q


def test_transposes_of_windows_and_valid_parts():
    x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    h, b = x.astype(np.float16), (np.arange(48 * 32) % 251 - 125).astype(np.int8).reshape(48, 32)
    configs = [(3, 5), (16, 16), (1, 7)]
    outputs = [out(40, 16), out(16, 16, dtype=np.float16), out(32, 32, dtype=np.int8, fill=77)]
    got = agree(turned, *([x, h, b, cfg(*c), *outputs] for c in configs))
    for (r, n), (*_, o, p, q) in zip(configs, got, strict=True):
        want = out(40, 16)
        want[:8] = x[r : r + 16, n : n + 8].T
        want[8 : 8 + n, :r] = x[:r, :n].T
        want[24:, :8] = x[8:16, 16:32].T
        same(o, want)
        half = out(16, 16, dtype=np.float16)
        half[:, :r] = h[n : n + r, r : r + 16].T
        same(p, half)
        same(q, b[r : r + 32].T)


@pl.jit
def turned_before(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], t: pl.Out[pl.Tensor]):
    """A transpose of one kernel is the operand of the next."""
    u = pl.create_tensor([64, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        u[:] = pl.transpose(a, 0, 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(u, b, out_dtype=pl.FP32)
        t[:] = pl.matmul(u, b, out_dtype=pl.FP32, a_trans=True, b_trans=True)
    return o, t


def test_a_transpose_fed_to_a_product():
    a, b = small(16, 64, np.float32), small(16, 64, np.float32, 2, 5)
    *_, o, t = everywhere(turned_before, a, b, out(64, 64), out(16, 16))
    same(o, product(a.T, b))
    same(t, product(a, b.T))


@pl.jit
def long_sums(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.FP32)
        for _ in pl.range(63):
            acc = pl.matmul_acc(acc, a, b)
        o[:] = acc
    return o


@pl.jit
def long_sums_of_bytes(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b, out_dtype=pl.INT32)
        for _ in pl.range(63):
            acc = pl.matmul_acc(acc, a, b)
        o[:] = acc
    return o


def test_accumulators_are_wider_than_their_operands():
    h, w = np.full((16, 64), 1.5, np.float16), np.full((64, 16), 1.5, np.float16)
    same(everywhere(long_sums, h, w, out(16, 16))[2], 64 * 64 * 2.25)  # beyond 2048, where sums of halves stop growing
    h, w = np.full((16, 64), 1.0078125, BF16), np.full((64, 16), 3, BF16)
    same(everywhere(long_sums, h, w, out(16, 16))[2], 64 * 64 * 3.0234375)
    i, j = np.full((16, 64), -128, np.int8), np.full((64, 32), -128, np.int8)
    i[1], i[2, :2], i[2, 2:] = 127, (-44, -20), 0
    j[:2, 0], j[:2, 1] = (24, 127), (-75, -101)
    o = everywhere(long_sums_of_bytes, i, j, out(16, 32, dtype=np.int32))[2]
    same(o, 64 * product(i, j))
    assert o[2, 0] == 64 * -3596
    assert o[0, 5] == 64 * 64 * 16384
