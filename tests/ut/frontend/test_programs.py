"""Whole kernels, as people write them: parsed, printed and read back, interpreted, compared with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from frontend_kit import Kernel, entry, f32, i32, incore, round_trip

import pypto.language as pl

N = pl.dynamic("N")
H, EPS = 64, 1e-5
rng = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32)


def run(k: Kernel, *args: Any) -> None:
    k(*args)
    round_trip(k.parse(*args).program)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@entry
def saxpy(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.mul(a, 3.0), b)
    return o


def test_whole_tensors() -> None:
    a, b, o = data(32, 128), data(32, 128), f32(32, 128)
    run(saxpy, a, b, o)
    close(o, 3 * a + b)


@entry
def gate(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(4):
            x = pl.load(a, [r * 16, 0], [16, 64])
            y = pl.load(b, [r * 16, 0], [16, 64])
            s = pl.recip(pl.add(pl.exp(pl.neg(x)), 1.0))
            z = pl.mul(pl.maximum(y, 0.0), s)
            pl.store(pl.div(z, 2.0), [r * 16, 0], o)
    return o


def test_tiles_in_a_loop() -> None:
    a, b, o = data(64, 64), data(64, 64), f32(64, 64)
    run(gate, a, b, o)
    close(o, np.maximum(b, 0) / (1 + np.exp(-a)) / 2)


@entry
def narrow(a: pl.Tensor, q: pl.Out[pl.Tensor], back: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [16, 64])
        h = pl.cast(pl.abs(t), pl.FP16)
        pl.store(pl.cast(t, pl.INT32, mode="floor"), [0, 0], q)
        pl.store(pl.cast(h, pl.FP32), [0, 0], back)
    return q, back


def test_changes_of_dtype() -> None:
    a, q, back = data(16, 64) * 100, np.zeros((16, 64), np.int32), f32(16, 64)
    run(narrow, a, q, back)
    np.testing.assert_array_equal(q, np.floor(a).astype(np.int32))
    np.testing.assert_array_equal(back, np.abs(a).astype(np.float16).astype(np.float32))


@entry
def affine(a: pl.Tensor, k: pl.FP32, n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        base = pl.mul(a, k)
        if n > 0:
            r = pl.yield_(pl.add(base, 10.0))
        else:
            r = pl.yield_(base)
        o[:] = r
    return o


def test_scalars_stay_run_time_values() -> None:
    a = data(16, 64)
    for n in (0, 1):
        o = f32(16, 64)
        run(affine, a, 2.5, n, o)
        close(o, 2.5 * a + 10 * n)
    assert affine.parse(a, 2.5, 1, a).program.as_python() == affine.parse(a, 7.0, 0, a).program.as_python()


@entry
def fold(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.load(a, [0, 0], [16, 32])
        for i in pl.range(1, 4):
            s = pl.add(s, pl.load(a, [i * 16, 0], [16, 32]))
        pl.store(s, [0, 0], o)
        z = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
        for i, (s,) in pl.range(4, init_values=(z,)):
            t = pl.load(a, [i * 16, 0], [16, 32])
            acc = pl.yield_(pl.add(s, pl.mul(t, t)))
        pl.store(acc, [0, 0], p)
    return o, p


def test_carries_by_rebinding_and_by_name() -> None:
    a, o, p = data(64, 32), f32(16, 32), f32(16, 32)
    run(fold, a, o, p)
    close(o, a.reshape(4, 16, 32).sum(0))
    close(p, (a.reshape(4, 16, 32) ** 2).sum(0))


@entry
def route(a: pl.Tensor, cfg: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        mode = pl.read(cfg, [0])
        x = pl.load(a, [0, 0], [16, 64])
        if mode > 0:
            y = pl.yield_(pl.exp(x))
        else:
            y = pl.yield_(pl.neg(x))
        n = pl.cast(pl.read(cfg, [1]), pl.INDEX)
        for i, (p, q) in pl.range(n, init_values=(y, x)):
            p2, q2 = pl.yield_(q, pl.add(p, 1.0))
        for k, v in pl.while_(init_values=(0, p2)):
            pl.cond(k < n)
            k2, v2 = pl.yield_(k + 1, pl.add(v, v))
        pl.store(v2, [0, 0], o)
        pl.store(q2, [16, 0], o)
    return o


def test_swaps_and_while_carries() -> None:
    a = data(16, 64)
    for m in (0, 1):
        for n in range(4):
            o = f32(32, 64)
            run(route, a, i32(m, n), o)
            p, q = (np.exp(a) if m else -a), a
            for _ in range(n):
                p, q = q, p + 1
            close(o, np.vstack([p * 2**n, q]))


@entry
def quilt(a: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        left = a[:, 0:32]
        right = a[0:32, 32:64]
        o[:, 0:32] = pl.neg(right)
        o[:, 32:64] = left
        o[0:16, 64:128] = pl.mul(a[0:16, :], 0.5)
        for r in pl.range(2):
            o[16 + r * 8 : 16 + r * 8 + 8, 64:128] = pl.add(a[r * 8 : r * 8 + 8, :], 100.0)
    return o


def test_windows() -> None:
    a, o = data(32, 64), f32(32, 128)
    run(quilt, a, o)
    close(o[:, :32], -a[:, 32:])
    close(o[:, 32:64], a[:, :32])
    close(o[:16, 64:], a[:16] * 0.5)
    close(o[16:, 64:], a[:16] + 100)


@entry
def tail(  # type: ignore[no-untyped-def]
    a: pl.Tensor, cfg: pl.Tensor, mx: pl.Out[pl.Tensor], pad: pl.Out[pl.Tensor], keep: pl.InOut[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(cfg, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 64], valid_shape=[16, n])
        w1 = pl.create_tile([16, 64], dtype=a.dtype, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(t, w1), [0, 0], mx)
        pl.store(pl.fillpad(t, pl.PadValue.min), [0, 0], pad)
        cut = pl.set_validshape(pl.load(a, [0, 0], [16, 64]), 16, n)
        pl.store(cut, [0, 0], keep)
    return mx, pad, keep


def test_ragged_tails() -> None:
    a = data(16, 64)
    for n in (8, 50, 64):
        mx, pad, keep = f32(16, 1), f32(16, 64), f32(16, 64, fill=-7)
        run(tail, a, i32(n), mx, pad, keep)
        inside = np.arange(64) < n
        np.testing.assert_array_equal(mx, a[:, :n].max(1, keepdims=True))
        np.testing.assert_array_equal(pad, np.where(inside, a, -np.inf))
        np.testing.assert_array_equal(keep, np.where(inside, a, -7))


@entry
def norms(x: pl.Tensor, g: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, H])
        gt = pl.load(g, [0, 0], [1, H])
        bt = pl.load(b, [0, 0], [1, H])
        w0 = pl.create_tile([16, H], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        mean_row = pl.mul(pl.reshape(pl.row_sum(t, w0), [1, 16]), 1.0 / H)
        c = pl.row_expand_sub(t, pl.reshape(mean_row, [16, 1]))
        w1 = pl.create_tile([16, H], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        var_row = pl.mul(pl.reshape(pl.row_sum(c * c, w1), [1, 16]), 1.0 / H)
        std = pl.reshape(pl.sqrt(var_row + EPS), [16, 1])
        y = pl.col_expand_mul(pl.row_expand_div(c, std), gt)
        pl.store(pl.add(y, pl.col_expand(y, bt)), [0, 0], o)
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        s[:] = pl.row_expand_div(e, pl.row_sum(e))
    return o, s


def test_norms() -> None:
    x, g, b, o, s = data(16, H), data(1, H), data(1, H), f32(16, H), f32(16, H)
    run(norms, x, g, b, o, s)
    mu = x.mean(1, keepdims=True)
    close(o, (x - mu) / np.sqrt(((x - mu) ** 2).mean(1, keepdims=True) + EPS) * g + b)
    e = np.exp(x - x.max(1, keepdims=True))
    close(s, e / e.sum(1, keepdims=True))


@incore
def scale_rows(a: pl.Tensor, u: pl.Out[pl.Tensor], k: pl.Scalar[pl.INDEX]):  # type: ignore[no-untyped-def]
    t = pl.load(a, [k * 16, 0], [16, 64])
    pl.store(pl.mul(t, 2.0), [k * 16, 0], u)
    return u


@entry
def two_stage(a: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):  # type: ignore[no-untyped-def]
    n = pl.tensor.dim(a, 0)
    u = pl.create_tensor([N, 64], dtype=pl.FP32)
    for k in pl.range(n // 16):
        u = scale_rows(a, u, k)
    for b in pl.spmd(4):
        for k in pl.range(b, n // 16, 4):
            t = pl.load(u, [k * 16, 0], [16, 64])
            pl.store(pl.sub(t, 1.0), [k * 16, 0], o)
    return o


def test_two_kernels_and_a_dynamic_extent() -> None:
    texts = set()
    for rows in (48, 80):
        a, o = data(rows, 64), f32(rows, 64)
        texts.add(two_stage.parse(a, o).program.as_python())
        run(two_stage, a, o)
        close(o, 2 * a - 1)
    assert len(texts) == 1


@entry
def tail_loops(c: pl.Tensor, o: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.const(0, pl.INDEX)
        for i in pl.range(3, -1, -1):
            if i == 2:
                continue
            s = s + i
        v = pl.read(c, [0])
        n = pl.const(0, pl.INDEX)
        while v != 0:
            n = n + 1
            v = v - 1
            if n > 4:
                break
        pl.write(o, [0], pl.cast(s, pl.INT32))
        pl.write(o, [1], pl.cast(n, pl.INT32))
        pl.write(o, [2], pl.read(c, [0]) // -3)
        pl.write(o, [3], pl.read(c, [0]) % -3)
    return o


def test_early_exits_and_integer_division() -> None:
    for v in (0, 3, 9):
        o = i32(0, 0, 0, 0)
        run(tail_loops, i32(v), o)
        np.testing.assert_array_equal(o, [4, min(v, 5), v // -3, v % -3])
