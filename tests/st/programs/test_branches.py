"""The value of an if is the value of the arm that ran, and what the arms hand out stays what it was."""

import numpy as np
from programs_kit import PLANNED, agree, blocks, cfg, out, same

import pypto.language as pl


@pl.jit
def phi(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 8])
        u = pl.load(b, [0, 0], [8, 8])
        k = pl.read(c, [0])
        if k > 0:
            r = pl.yield_(pl.mul(t, t))
        else:
            r = pl.yield_(pl.add(t, t))
        if k > 0:
            s = pl.yield_(t)  # arms hand out live inputs
        else:
            s = pl.yield_(u)
        s2 = pl.mul(s, 10.0)
        if k > 1:  # nested, the inner result yielded again; both inner arms the same value
            w = pl.yield_(u)
        else:
            if k > 0:
                w1 = pl.yield_(s2)
            else:
                w1 = pl.yield_(s2)
            w = pl.yield_(w1)
        pl.store(r, [0, 0], o)
        pl.store(s, [8, 0], o)
        pl.store(s2, [16, 0], o)
        pl.store(w, [24, 0], o)
        pl.store(t, [32, 0], o)
        pl.store(u, [40, 0], o)
    return o


def test_arms_that_compute_and_arms_that_hand_out_inputs():
    a, b = out(8, 8, fill=3), out(8, 8, fill=5)
    table = {0: [6, 5, 50, 50, 3, 5], 1: [9, 3, 30, 30, 3, 5], 2: [9, 3, 30, 5, 3, 5]}
    for got, want in zip(agree(phi, *([a, b, cfg(k), out(48, 8)] for k in table), ways=PLANNED), table.values(), strict=True):
        same(got[3], blocks(*want))


@pl.jit
def last_only(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.load(a, [0, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        k = pl.const(0, pl.INDEX)
        for i in pl.range(n):
            if i == n - 1:  # one arm for the tile, two for the scalar
                r = pl.add(r, 100.0)
                k = k + 5
            else:
                k = k + 1
        pl.store(r, [0, 0], o)
        pl.write(m, [0], pl.cast(k, pl.INT32))
    return o, m


def test_an_arm_that_runs_in_the_last_trip_only():
    table = [(0, 1, 0), (1, 101, 5), (4, 101, 8)]
    calls = [[out(8, 8, fill=1), cfg(n), out(8, 8), out(8, dtype=np.int32)] for n, _, _ in table]
    for (_, r, k), got in zip(table, agree(last_only, *calls, ways=PLANNED), strict=True):
        same(got[2], r)
        same(got[3], [k] + [-777] * 7)


@pl.jit
def chosen(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 8])
        u = pl.load(a, [8, 0], [8, 8])
        k = pl.read(c, [0])
        if k == 0:  # one name in every arm
            r = pl.add(t, 1.0)
        elif k == 1:
            r = pl.mul(u, 2.0)
        elif k == 2:
            r = t
        else:
            r = pl.neg(u)
        if k > 1:  # no else
            t = u
        y = t
        if k != 1:
            y = pl.add(y, r)
            u = pl.sub(u, 1.0)
        if k > 0 and k < 3:  # a tile, a swap and a scalar in one
            p, q, s = u, y, k * 10
        else:
            p, q, s = y, u, k + 100
        pl.store(r, [0, 0], o)
        pl.store(t, [8, 0], o)
        pl.store(y, [16, 0], o)
        pl.store(p, [24, 0], o)
        pl.store(q, [32, 0], o)
        pl.store(pl.add(p, pl.cast(s, pl.FP32)), [40, 0], o)
    return o


def python_chosen(k):
    t, u = 1, 2
    r = {0: t + 1, 1: u * 2, 2: t}.get(k, -u)
    t = u if k > 1 else t
    y = t
    if k != 1:
        y, u = y + r, u - 1
    p, q, s = (u, y, k * 10) if 0 < k < 3 else (y, u, k + 100)
    return [r, t, y, p, q, p + s]


def test_chains_rebinding_and_several_results():
    numbers = (0, 1, 2, 3)
    got = agree(chosen, *([blocks(1, 2), cfg(k), out(48, 8)] for k in numbers), ways=PLANNED)
    for k, g in zip(numbers, got, strict=True):
        same(g[2], blocks(*python_chosen(k)))


ALWAYS = True


@pl.jit
def around_loops(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 8])
        u = pl.load(a, [8, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        if ALWAYS:  # a constant condition
            w = pl.add(t, u)
        else:
            w = t
        i = pl.const(0, pl.INDEX)
        while i < n:  # arms that yield the carry of an enclosing loop
            if i % 2 == 0:
                x = w
            else:
                x = t
            t = pl.add(x, 1.0)
            if i > 2:
                w = t
            i = i + 1
        if n > 2:  # loops inside of arms
            for _ in pl.range(n):
                u = pl.add(u, t)
        else:
            for _ in pl.range(2):
                u = pl.mul(u, 3.0)
        pl.store(t, [0, 0], o)
        pl.store(u, [8, 0], o)
        pl.store(w, [16, 0], o)
    return o


def python_around_loops(n):
    t, u = 1, 2
    w = t + u
    for i in range(n):
        t = (w if i % 2 == 0 else t) + 1
        w = t if i > 2 else w
    u = u + n * t if n > 2 else u * 9
    return [t, u, w]


def test_branches_inside_and_around_loops():
    numbers = (0, 1, 2, 3, 4, 6)
    got = agree(around_loops, *([blocks(1, 2), cfg(n), out(24, 8)] for n in numbers), ways=PLANNED)
    for n, g in zip(numbers, got, strict=True):
        same(g[2], blocks(*python_around_loops(n)))


@pl.jit
def ragged_arms(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.read(c, [0])
        r = pl.cast(pl.read(c, [1]), pl.INDEX)
        n = pl.cast(pl.read(c, [2]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 16], valid_shape=[r, n])
        if k > 0:  # both arms keep the partial rectangle
            u = pl.neg(t)
        else:
            u = pl.add(t, 1.0)
        for _ in pl.range(k):
            u = pl.add(u, t)
        pl.store(u, [0, 0], o)
    return o


def test_partial_rectangles_through_branches_and_loops():
    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    configs = [(0, 8, 16), (1, 5, 11), (2, 1, 1), (0, 0, 7), (3, 8, 0)]
    got = agree(ragged_arms, *([a, cfg(*c), out(8, 16)] for c in configs), ways=PLANNED)
    for (k, r, n), g in zip(configs, got, strict=True):
        want = out(8, 16)
        want[:r, :n] = ((-a if k > 0 else a + 1) + k * a)[:r, :n]
        same(g[2], want)
