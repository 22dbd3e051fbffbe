"""Tiles as values: fills, pads, views of views, element writes, atomic stores, run-time scalars as operands."""

import numpy as np
import pytest
from programs_kit import agree, cfg, out, run, same, whole

import pypto.language as pl


@pl.jit
def fills(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.full([8, 16], dtype=pl.FP32, value=2.5)
        u = pl.full([8, 16], dtype=pl.FP32, value=-1.0)
        o[0:8, :] = u
        pl.store(t, [8, 0], o)
        pl.store(pl.move(pl.add(t, 1.0), target_memory=pl.Mem.Vec), [16, 0], o)
        x = pl.load(a, [0, 0], [8, 16])
        pl.store(pl.tile.extract(x, 2, 0, [4, 16], target_memory=pl.Mem.Vec), [24, 0], o)
        w = pl.load(a, [0, 0], [8, 16], valid_shape=[5, 11])
        pl.store(pl.fillpad(w, pl.PadValue.zero), [0, 0], p)
        pl.store(pl.fillpad(w, pl.PadValue.min), [8, 0], p)
        pl.store(pl.fillpad(pl.cast(pl.cast(w, pl.FP16), pl.FP32), pl.PadValue.max), [16, 0], p)
        pl.store(pl.fillpad(pl.fillpad(w)), [24, 0], p)
    return o, p


def test_fills_and_pads():
    a = whole(8, 16)
    _, o, p = run(fills, a, out(32, 16), out(32, 16))
    want = out(32, 16)
    want[:8], want[8:16], want[16:24], want[24:28] = -1, 2.5, 3.5, a[2:6]
    same(o, want)
    inside = np.zeros((8, 16), bool)
    inside[:5, :11] = True
    same(p, np.vstack([np.where(inside, a, v) for v in (0, -np.inf, np.inf, 0)]))


@pl.jit
def views_of_views(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 32])
        s = pl.slice(t, [8, 16], [i, 8])
        u = pl.slice(s, [4, 8], [2, 8])
        pl.store(pl.add(u, 1.0), [0, 0], o)
        r = pl.reshape(pl.reshape(pl.add(t, 0.0), [8, 64]), [4, 128])
        pl.store(pl.reshape(pl.neg(r), [16, 32]), [16, 0], o)
        col = pl.load(a, [0, 3], [16, 1])
        row = pl.reshape(col, [1, 16])
        pl.store(pl.mul(row, 2.0), [8, 0], o)
        pl.store(pl.reshape(pl.add(row, 1.0), [16, 1]), [16, 31], o)
        v = pl.set_validshape(pl.add(t, 100.0), 3, i)
        pl.store(v, [12, 8], o)
    return o


def test_views_of_views():
    a = whole(16, 32)
    for i, got in zip((0, 3, 8), agree(views_of_views, *([a, cfg(i), out(32, 32)] for i in (0, 3, 8))), strict=True):
        want = out(32, 32)
        want[:4, :8] = a[i + 2 : i + 6, 16:24] + 1
        want[16:] = -a
        want[8, :16] = 2 * a[:, 3]
        want[16:, 31] = a[:, 3] + 1
        want[12:15, 8 : 8 + i] = a[:3, :i] + 100
        same(got[2], want)


@pl.jit
def element_writes(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 16])
        keep = pl.add(t, 0.0)
        for i in pl.range(n):
            t = pl.write(t, [i, i + 1], pl.read(t, [i, 0]) * 10.0)
            if i > 0:
                t = pl.write(t, [0, i], pl.read(t, [i - 1, i]))
        pl.store(t, [0, 0], o)
        pl.store(keep, [8, 0], o)
        stage = pl.full([1, 16], dtype=pl.FP32, value=-1.0)
        for i in pl.range(4):
            pl.write(stage, [0, i], pl.cast(i * i, pl.FP32))
        o[16:17, 0:16] = stage
    return o


def test_element_writes():
    a = whole(8, 16)
    for n, got in zip((0, 1, 8), agree(element_writes, *([a, cfg(n), out(24, 16)] for n in (0, 1, 8))), strict=True):
        t = a.copy()
        for i in range(n):
            t[i, i + 1] = t[i, 0] * 10
            if i > 0:
                t[0, i] = t[i - 1, i]
        want = out(24, 16)
        want[:8], want[8:16] = t, a
        want[16] = -1
        want[16, :4] = [0, 1, 4, 9]
        same(got[2], want)


@pl.jit
def atomics(a: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor], h: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        for i in pl.range(n):
            t = pl.load(a, [i * 4, 0], [4, 16])
            pl.store(t, [(i % 2) * 4, 0], o, atomic=pl.AtomicType.Add)
            pl.store(pl.cast(t, pl.FP16), [0, 0], h, atomic=pl.AtomicType.Add)
    return o, h


def test_atomic_stores_add():
    a, o = whole(16, 16), whole(8, 16) + 100
    h = np.ones((4, 16), np.float16)
    for n, got in zip((0, 1, 4), agree(atomics, *([a, cfg(n), o, h] for n in (0, 1, 4))), strict=True):
        want, half = o.copy(), h.copy()
        for i in range(n):
            want[(i % 2) * 4 : (i % 2) * 4 + 4] += a[i * 4 : i * 4 + 4]
            half += a[i * 4 : i * 4 + 4].astype(np.float16)
        same(got[2], want)
        same(got[3], half)


@pl.jit
def scalar_operands(a: pl.Tensor, k: pl.FP32, n: pl.INDEX, c: pl.Tensor, o: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 16])
        i = pl.read(c, [1])
        pl.store(pl.adds(pl.muls(t, k), pl.cast(n, pl.FP32)), [0, 0], o)
        pl.store(pl.subs(pl.divs(t, 2.0), k), [8, 0], o)
        pl.store(pl.minimums(pl.maximums(t, -k), k), [16, 0], o)
        pl.store(pl.lrelu(t, k), [24, 0], o)
        pl.store(pl.expands(t, k + 1.0), [32, 0], o)
        pl.store(pl.add(t, pl.read(t, [1, 1])), [40, 0], o)
        u = pl.cast(t, pl.INT32)
        pl.store(pl.adds(pl.muls(u, i), i), [0, 0], q)
        pl.store(pl.divs(pl.subs(u, 100), i), [8, 0], q)
    return o, q


@pytest.mark.parametrize("k", [2.0, -0.5])
def test_run_time_scalars_as_operands(k):
    a = whole(8, 16)
    _, _, o, q = run(scalar_operands, a, k, 7, cfg(0, -3), out(48, 16), out(16, 16, dtype=np.int32))
    want = [
        a * k + 7,
        a / 2 - k,
        np.minimum(np.maximum(a, -k), k),
        np.where(a > 0, a, a * k),
        np.full_like(a, k + 1),
        a + a[1, 1],
    ]
    same(o, np.vstack(want))
    u = a.astype(np.int32)
    same(q, np.vstack([u * -3 - 3, np.trunc((u - 100) / -3)]))


@pl.jit
def column_vectors(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.create_tile([16, 24], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        t = pl.load(a, [0, 0], [16, 24])
        m = pl.row_max(t, w)
        s = pl.add(pl.muls(m, 2.0), pl.row_min(t, w))
        for i in pl.range(3):
            s = pl.maximum(pl.neg(s), pl.add(m, pl.cast(i, pl.FP32)))
        pl.store(s, [0, 0], p)
        pl.store(pl.row_expand_mul(t, s), [0, 0], o)
        d = pl.row_expand_sub(t, m)
        pl.store(pl.col_expand_add(d, pl.col_max(d)), [16, 0], o)
        pl.store(pl.row_expand(t, s), [32, 0], o)
        pl.store(pl.row_expand_max(t, pl.row_min(d, w)), [48, 0], o)
    return o, p


def test_columns_and_rows_as_values():
    a = whole(16, 24)
    m = a.max(1, keepdims=True)
    s = 2 * m + a.min(1, keepdims=True)
    for i in range(3):
        s = np.maximum(-s, m + i)
    d = a - m
    _, o, p = run(column_vectors, a, out(64, 24), out(16, 1))
    same(p, s)
    want = [a * s, d + d.max(0), np.broadcast_to(s, a.shape), np.maximum(a, d.min(1, keepdims=True))]
    same(o, np.vstack(want))


@pl.jit
def arguments_of(a: pl.Tensor, rx: pl.Out[pl.Tensor], rn: pl.Out[pl.Tensor], cx: pl.Out[pl.Tensor], cn: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rx[:] = pl.row_argmax(a)
        rn[:] = pl.row_argmin(a)
        cx[:] = pl.col_argmax(a)
        cn[:] = pl.col_argmin(a)
    return rx, rn, cx, cn


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_places_of_extremes(dtype):
    """The first of equals."""
    a = np.random.default_rng(4).integers(-3, 4, (16, 48)).astype(dtype)
    i32 = np.int32
    got = run(arguments_of, a, out(16, 1, dtype=i32), out(16, 1, dtype=i32), out(1, 48, dtype=i32), out(1, 48, dtype=i32))
    for g, w in zip(got[1:], (a.argmax(1), a.argmin(1), a.argmax(0), a.argmin(0)), strict=True):
        same(g.reshape(-1), w)
