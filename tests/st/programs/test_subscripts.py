"""Subscripts: elements, rows and windows of tensors and tiles, read and written, at constant and run-time places."""

import numpy as np
import pytest
from programs_kit import agree, cfg, out, run, same, whole

import pypto.language as pl


@pl.jit
def reads(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        o[0:8, 0:32] = a[0:8, :]  # constant window
        o[8:12, 0:16] = a[i : i + 4, 16:32]  # run-time place, constant extent
        o[12:16, :] = a[4:8]  # missing axes are whole
        o[16:20, 0:8] = a[0:8][2:6][:, 8:16]  # windows of windows
        o[20, :] = a[i]  # a row, one axis gone
        o[21, 0:16] = a[i + 1, 0:16]  # mixed
        o[22:23, :] = a[i : i + 1, :]  # a row, both axes kept
        pl.write(s, [0], a[3, 5])  # elements
        pl.write(s, [1], a[i, i + 2] + a[0, 0])
    return o, s


def test_reads_of_a_tensor():
    a = whole(16, 32)
    for i, got in zip((0, 3, 12), agree(reads, *([a, cfg(i), out(24, 32), out(8)] for i in (0, 3, 12))), strict=True):
        want = out(24, 32)
        want[:8], want[8:12, :16], want[12:16] = a[:8], a[i : i + 4, 16:32], a[4:8]
        want[16:20, :8], want[20], want[21, :16] = a[2:6, 8:16], a[i], a[i + 1, :16]
        want[22:23] = a[i : i + 1]
        same(got[2], want)
        same(got[3][:2], [a[3, 5], a[i, i + 2] + a[0, 0]])


@pl.jit
def tile_reads(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 32])
        pl.store(t[0:4, 8:24], [0, 0], o)
        pl.store(pl.add(t[4:8, :], t[8:12, :]), [4, 0], o)
        pl.store(pl.slice(t, [4, 16], [i, 8]), [8, 0], o)
        pl.store(t[8:16][2:6, 0:8], [12, 0], o)
        pl.write(s, [0], t[i, i + 1])
        pl.write(s, [1], t[15, 31] * 2.0)
        u = pl.write(t, [i, 0], 50.0)
        pl.write(s, [2], u[i, 0])
        pl.store(pl.neg(u), [16, 0], o)
    return o, s


def test_reads_of_a_tile():
    a = whole(16, 32)
    for i, got in zip((0, 5, 12), agree(tile_reads, *([a, cfg(i), out(32, 32), out(8)] for i in (0, 5, 12))), strict=True):
        want = out(32, 32)
        want[:4, :16], want[4:8], want[8:12, :16] = a[:4, 8:24], a[4:8] + a[8:12], a[i : i + 4, 8:24]
        want[12:16, :8] = a[10:14, :8]
        b = a.copy()
        b[i, 0] = 50
        want[16:] = -b
        same(got[2], want)
        same(got[3][:3], [a[i, i + 1], a[15, 31] * 2, 50])


@pl.jit
def writes(a: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        o[0:4, 8:24] = pl.mul(a[0:4, 0:16], 2.0)
        o[i : i + 2, :] = a[8:10, :]
        o[12, :] = pl.neg(a[i])
        for r in pl.range(2):
            o[14 + r : 15 + r, 16:32] = pl.add(a[r : r + 1, 0:16], pl.cast(r, pl.FP32))
        o[13, 0:8] = o[i, 0:8]  # reads what was written above
    return o


def test_writes_of_a_tensor():
    a, before = whole(16, 32), whole(16, 32) + 100
    for i, got in zip((2, 5, 9), agree(writes, *([a, cfg(i), before] for i in (2, 5, 9))), strict=True):
        want = before.copy()
        want[:4, 8:24] = 2 * a[:4, :16]
        want[i : i + 2] = a[8:10]
        want[12] = -a[i]
        want[14, 16:], want[15, 16:] = a[0, :16], a[1, :16] + 1
        want[13, :8] = want[i, :8]
        same(got[2], want)


@pl.jit
def tile_writes(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 32])
        u = pl.load(a, [16, 0], [4, 32])
        t[0:4, :] = u
        t[8:12, 0:16] = pl.neg(u)[:, 16:32]
        t = pl.assemble(t, pl.add(u, 1.0), [i, 0])
        pl.store(t, [0, 0], o)
        w = pl.load(a, [0, 0], [16, 32])
        v = pl.assemble(w, u, [12, 0])
        pl.store(w, [16, 0], o)  # the target of an assemble is a value of its own
        pl.store(v, [32, 0], o)
    return o


def test_writes_of_a_tile():
    a = whole(20, 32)
    u = a[16:]
    for i, got in zip((0, 6, 12), agree(tile_writes, *([a, cfg(i), out(48, 32)] for i in (0, 6, 12))), strict=True):
        t = a[:16].copy()
        t[:4], t[8:12, :16] = u, -u[:, 16:]
        t[i : i + 4] = u + 1
        v = a[:16].copy()
        v[12:] = u
        same(got[2], np.vstack([t, a[:16], v]))


@pl.jit
def deep(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        o[0, :, :] = pl.add(a[i], 1.0)  # a matrix of a stack
        o[1, 0:2, 8:24] = a[2, 1:3, 0:16]
        t = pl.load(a, [i, 0, 8], [2, 2, 16])  # a box
        pl.store(pl.mul(t, 2.0), [1, 1, 0], o)
        pl.write(s, [1, 0, 7], a[i, 2, 0] * 3.0)
    return o, s


def test_stacks_of_matrices():
    a = whole(3, 3, 32)
    for i, got in zip((0, 1), agree(deep, *([a, cfg(i), out(3, 3, 32), out(2, 1, 8)] for i in (0, 1))), strict=True):
        want = out(3, 3, 32)
        want[0] = a[i] + 1
        want[1, :2, 8:24] = a[2, 1:3, :16]
        want[1:3, 1:3, :16] = 2 * a[i : i + 2, :2, 8:24]
        same(got[2], want)
        assert got[3][1, 0, 7] == a[i, 2, 0] * 3


@pl.jit
def cut(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.add(pl.load(a, [0, 0], [8, 16]), 1.0)
        pl.store(t, [0, 0], o, shapes=[4, 8])  # a part of the tile
        pl.store(pl.load(a, [0, 0], [8, 16], valid_shape=[6, 12]), [4, 8], o, shapes=[8, 8])  # no more than is valid
        pl.store(t, [0, 0, 0], p, shapes=[2, 4, 16])  # rows of a stack
    return o, p


def test_stores_that_say_their_extents():
    a = whole(8, 16)
    _, o, p = run(cut, a, out(16, 16), out(2, 4, 16))
    want = out(16, 16)
    want[:4, :8] = a[:4, :8] + 1
    want[4:10, 8:16] = a[:6, :8]
    same(o, want)
    same(p, (a + 1).reshape(2, 4, 16))


@pl.jit
def vectors(v: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        o[0:32] = pl.add(v[0:32], v[32:64])
        o[32:40] = v[i : i + 8]
        pl.store(pl.mul(pl.load(v, [i], [16]), 2.0), [40], o)
    return o


def test_vectors():
    v = whole(64)
    for i, got in zip((0, 11, 48), agree(vectors, *([v, cfg(i), out(64)] for i in (0, 11, 48))), strict=True):
        want = out(64)
        want[:32], want[32:40], want[40:56] = v[:32] + v[32:], v[i : i + 8], 2 * v[i : i + 16]
        same(got[2], want)


@pl.jit
def clamped(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [i, 8], [8, 16], clamp=True)  # no more than there is
        pl.store(pl.add(t, 1.0), [0, 0], o)
    return o


def test_loads_that_end_with_the_tensor():
    a = whole(10, 20)
    for i, got in zip((0, 2, 5, 9), agree(clamped, *([a, cfg(i), out(8, 16)] for i in (0, 2, 5, 9))), strict=True):
        want = out(8, 16)
        part = a[i : i + 8, 8:24]
        want[: part.shape[0], : part.shape[1]] = part + 1
        same(got[2], want)


@pl.jit
def operators(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = a * 2.0 - b / 4.0 + -a
        t = pl.load(a, [0, 0], [8, 16])
        u = pl.load(b, [0, 0], [8, 16])
        pl.store((t + u) * (t - u) - 1.0, [8, 0], o)
        pl.store(1.0 - t, [16, 0], o)
        pl.store(2.0 * t + 1.0, [24, 0], o)
        o[32:40, :] = a >= b
    return o


def test_python_operators():
    a, b = whole(8, 16), whole(8, 16)[::-1].copy()
    want = [a * 2 - b / 4 - a, (a + b) * (a - b) - 1, 1 - a, 2 * a + 1, a >= b]
    same(run(operators, a, b, out(40, 16))[2], np.vstack(want))


@pytest.mark.parametrize(("rows", "cols"), [(1, 8), (1, 40), (3, 8), (5, 24), (9, 128), (33, 16)])
def test_sizes_that_do_not_divide(rows, cols):
    """Rows of every remainder, one row, more rows than columns."""

    @pl.jit
    def sums(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], r: pl.Out[pl.Tensor], k: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            e = pl.add(pl.mul(a, 2.0), 1.0)
            o[:] = pl.col_expand_sub(e, b)
            k[:] = pl.col_max(e)
            w = pl.create_tile([40, 128], dtype=pl.FP32, target_memory=pl.Mem.Vec)
            t = pl.load(a, [0, 0], [40, 128], valid_shape=[rows, cols])
            pl.store(pl.row_sum(pl.sub(t, 1.0), w), [0, 0], r)
        return o, r, k

    a, b = whole(rows, cols), whole(1, cols)
    _, _, o, r, k = run(sums, a, b, out(rows, cols), out(rows, 1), out(1, cols))
    same(o, 2 * a + 1 - b)
    same(r, (a - 1).sum(1, keepdims=True))
    same(k, (2 * a + 1).max(0, keepdims=True))
