"""Helpers of kernels, and orchestrations of several kernels with temporaries, loops and branches."""

import numpy as np
from programs_kit import agree, bits, blocks, cfg, normal, out, run, same, whole

import pypto
import pypto.language as pl


@pl.jit.inline
def square(x: pl.Tensor):
    y = pl.mul(x, x)
    return y


@pl.jit.inline
def poly(x: pl.Tensor, k: pl.FP32):
    s = square(x)
    t = square(s)  # a helper in a helper, twice
    return pl.add(pl.mul(t, k), s)


@pl.jit
def inlined(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = poly(a, 3.0)
        z = square(y)
        o[:] = pl.sub(z, poly(a, 1.0))
    return o


def test_inlined_helpers_in_helpers():
    a = whole(8, 32, low=-3, high=4)
    y = 3 * a**4 + a**2
    same(run(inlined, a, out(8, 32))[1], y**2 - (a**4 + a**2))


@pl.jit.inline
def clipped(t, lo: pl.FP32, hi: pl.FP32):
    return pl.maximum(pl.minimum(t, hi), lo)


@pl.jit.inline
def both(t, u):
    s = pl.add(t, u)
    d = pl.sub(t, u)
    return s, d


@pl.jit
def on_tiles(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[8, n])
        u = pl.load(a, [8, 0], [8, 32], valid_shape=[8, n])
        s, d = both(t, u)
        for _ in pl.range(2):
            s, d = both(s, d)
        pl.store(clipped(s, -5.0, 5.0), [0, 0], o)
        pl.store(clipped(d, -1.0, 100.0), [8, 0], o)
    return o


def test_helpers_that_take_tiles_and_give_several():
    a = whole(16, 32)
    for n, g in zip((32, 21), agree(on_tiles, *([a, cfg(n), out(16, 32)] for n in (32, 21))), strict=True):
        s, d = a[:8] + a[8:], a[:8] - a[8:]
        for _ in range(2):
            s, d = s + d, s - d
        want = out(16, 32)
        want[:, :n] = np.vstack([s.clip(-5, 5), d.clip(-1, 100)])[:, :n]
        same(g[2], want)


@pl.jit.inline
def accumulate(x: pl.Tensor, n: pl.INDEX):
    s = pl.load(x, [0, 0], [8, 16])
    for i in pl.range(1, n):
        if i % 2 == 0:
            s = pl.add(s, pl.load(x, [i * 8, 0], [8, 16]))
        else:
            s = pl.sub(s, pl.load(x, [i * 8, 0], [8, 16]))
    return s


@pl.jit
def with_control_flow(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = accumulate(a, 4)
        s2 = accumulate(b, 2)
        pl.store(pl.mul(s, s2), [0, 0], o)
    return o


def test_helpers_with_loops_and_branches():
    a, b = whole(32, 16), whole(16, 16)
    p, q, r, s = a.reshape(4, 8, 16)
    same(run(with_control_flow, a, b, out(8, 16))[2], (p - q + r - s) * (b[:8] - b[8:]))


# -- orchestration -------------------------------------------------------------------------------------------------


@pl.jit.incore
def addk(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    o[:] = pl.add(a, b)
    return o


@pl.jit.incore
def scaled(a: pl.Tensor, k: pl.FP32, o: pl.Out[pl.Tensor]):
    o[:] = pl.mul(square(a), k)
    return o


@pl.jit.incore
def minmax(a: pl.Tensor, lo: pl.Out[pl.Tensor], hi: pl.Out[pl.Tensor]):
    lo[:] = pl.row_min(a)
    hi[:] = pl.row_max(a)
    return lo, hi


@pl.jit
def staged(a: pl.Tensor, b: pl.Tensor, k: pl.FP32, o: pl.Out[pl.Tensor], lo: pl.Out[pl.Tensor], hi: pl.Out[pl.Tensor]):
    t = pl.create_tensor([16, 32], dtype=pl.FP32)
    u = pl.create_tensor([16, 32], dtype=pl.FP32)
    t = addk(a, b, t)
    u = scaled(t, k, u)
    t = addk(u, t, t)
    o = scaled(t, 0.5, o)
    lo, hi = minmax(o, lo, hi)
    with pl.at(level=pl.Level.CORE_GROUP):
        lo[:] = pl.neg(lo)
    return o, lo, hi


def test_several_kernels_with_temporaries():
    a, b = whole(16, 32, low=-3, high=4), whole(16, 32, low=-2, high=3)
    t = (a + b) ** 2 * 3 + (a + b)
    want = t**2 * 0.5
    got = run(staged, a, b, 3.0, out(16, 32), out(16, 1), out(16, 1))
    same(got[2], want)
    same(got[3], -want.min(1, keepdims=True))
    same(got[4], want.max(1, keepdims=True))


@pl.jit
def one_scope_after_another(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    tmp = pl.create_tensor([32, 32], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="first"):
        tmp[:] = pl.mul(a, 2.0)
        row = pl.row_max(a)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="second"):
        o[:] = pl.add(pl.sub(tmp, row), a)
    return o


def test_values_that_leave_a_scope():
    a = whole(32, 32)
    same(run(one_scope_after_another, a, out(32, 32))[1], 2 * a - a.max(1, keepdims=True) + a)


@pl.jit.incore
def row_block(a: pl.Tensor, o: pl.Out[pl.Tensor], k: pl.INDEX, s: pl.FP32):
    t = pl.load(a, [k, 0], [8, 16])
    o = pl.store(pl.add(t, s), [k, 0], o)
    return o


@pl.jit
def steered(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    total = pl.const(0.0, pl.FP32)
    for k in pl.range(0, 32, 8):
        v = pl.read(a, [k, 0])
        if v > 0.0:
            o = row_block(a, o, k, v)
            total = total + v
        else:
            o = row_block(a, o, k, -100.0)
        if k // 8 == n:
            break
    i = pl.const(0, pl.INDEX)
    while i < n:
        o = row_block(a, o, 24, total)
        i = i + 1
        if i > 1:
            continue
        total = total + 1.0
    pl.write(m, [0], total)
    pl.write(m, [1], pl.cast(i, pl.FP32))
    return o, m


def python_steered(a, n):
    o, total = out(32, 16), 0.0
    for k in range(0, 32, 8):
        v = a[k, 0]
        o[k : k + 8] = a[k : k + 8] + (v if v > 0 else -100)
        total += max(v, 0)
        if k // 8 == n:
            break
    for i in range(n):
        o[24:] = a[24:] + total
        if i == 0:
            total += 1
    return o, total


def test_loops_branches_and_scalars_of_an_orchestration():
    a = whole(32, 16)
    a[::8, 0] = 3, -2, 5, 0
    numbers = (0, 1, 2, 7)
    for n, got in zip(numbers, agree(steered, *([a, cfg(n), out(32, 16), out(8)] for n in numbers)), strict=True):
        o, total = python_steered(a, n)
        same(got[2], o)
        same(got[3][:2], [total, n])


@pl.jit
def temporaries_in_loops(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    acc = pl.create_tensor([8, 16], dtype=pl.FP32, init_value=1)
    for k in pl.range(n):
        t = pl.create_tensor([8, 16], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            t[:] = pl.mul(a, pl.cast(k + 1, pl.FP32))
        acc = addk(acc, t, acc)
    o = addk(acc, a, o)
    return o


def test_temporaries_made_in_a_loop():
    a = whole(8, 16)
    for n, got in zip((0, 1, 5), agree(temporaries_in_loops, *([a, cfg(n), out(8, 16)] for n in (0, 1, 5))), strict=True):
        same(got[2], 1 + a * (n * (n + 1) // 2) + a)


@pl.jit
def windows_of_tensors(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    top = a[0:8, :]
    flat = pl.reshape(top, [16, 16])
    t = pl.create_tensor([16, 16], dtype=pl.FP32)
    t = addk(flat, flat, t)
    for k in pl.parallel(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[k * 8 : k * 8 + 8, :] = pl.add(pl.reshape(t, [8, 32]), a[k * 8 : k * 8 + 8, :])
    return o


def test_views_at_the_control_plane():
    a = whole(16, 32)
    same(run(windows_of_tensors, a, out(16, 32))[1], np.vstack([2 * a[:8]] * 2) + a)


@pl.jit
def unrolled_and_pipelined(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 64])
        for i in pl.unroll(4):
            part = pl.slice(t, [8, 16], [0, i * 16])
            pl.store(pl.mul(part, pl.cast(i + 1, pl.FP32)), [0, i * 16], o)
    for i in pl.pipeline(1, 4, 1, stage=2):
        with pl.at(level=pl.Level.CORE_GROUP):
            u = pl.load(a, [i * 8, 0], [8, 64])
            o = pl.store(pl.abs(u), [i * 8, 0], o)
    return o


def test_unrolled_and_pipelined_loops():
    a = whole(32, 64)
    want = abs(a)
    want[:8] = a[:8] * np.repeat(np.float32([1, 2, 3, 4]), 16)
    same(run(unrolled_and_pipelined, a, out(32, 64))[1], want)


def test_more_calls_than_one_give_one_artifact_each():
    a, b = normal(16, 32), normal(16, 32)
    before = pypto.cache_stats().builds
    for _ in range(3):
        staged(a, b, 2.0, out(16, 32), out(16, 1), out(16, 1))
    assert pypto.cache_stats().builds <= before + 1


def test_kernels_keep_their_arrays_apart():
    """A kernel called twice within one call works on what each call was given."""
    a = blocks(1, 2)
    want = out(16, 8, fill=0)

    @pl.jit
    def twice(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
        o = addk(x, y, o)
        p = addk(y, o, p)
        o = addk(o, p, o)
        return o, p

    _, _, o, p = run(twice, a, a + 10, want, want)
    bits(p, (a + 10) + (2 * a + 10))
    bits(o, (2 * a + 10) + (3 * a + 20))
