"""Numbers come from the valid part of a tile and go only there: through helpers, in every tail, and into every reduction."""

import numpy as np
import pytest
from numerics_kit import agree
from programs_kit import cfg, out, same, whole

import pypto.language as pl

SNAN = np.full(1, 0x7FA00001, np.uint32).view(np.float32)[0]


@pl.jit.inline
def halved(x: pl.Tile):
    return pl.muls(pl.cast(pl.cast(x, pl.FP16), pl.FP32), 0.5)


@pl.jit.inline
def reduced(x: pl.Tile, w: pl.Tile):
    y = halved(x)
    return y, pl.row_sum(y, w), pl.col_max(pl.neg(y))


@pl.jit
def handed_on(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    """A partial tile through helpers, a branch, a loop and a choice."""
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.read(c, [0])
        r = pl.cast(pl.read(c, [1]), pl.INDEX)
        n = pl.cast(pl.read(c, [2]), pl.INDEX)
        w = pl.create_tile([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        mask = pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)
        t = pl.load(a, [0, 0], [8, 64], valid_shape=[r, n])
        if k > 1:
            t = pl.abs(t)
        y, rows, cols = reduced(t, w)
        for _ in pl.range(k):
            y = pl.sel(pl.tile.cmps(y, 1.0, cmp_type=4), pl.subs(y, 1.0), pl.adds(y, 2.0), mask)
        pl.store(y, [0, 0], o)
        pl.store(rows, [0, 0], s)
        pl.store(cols, [0, 0], m)
    return o, s, m


def test_a_partial_tile_through_helpers_branches_and_loops():
    full = whole(8, 64)
    configs = [(0, 8, 64), (1, 5, 37), (2, 1, 1), (3, 8, 63), (2, 3, 64)]
    calls = []
    for _, r, n in configs:
        a = np.full((8, 64), SNAN)
        a[:r, :n] = full[:r, :n]
        calls.append([a, cfg(*configs[len(calls)]), out(8, 64), out(8, 1), out(1, 64)])
    for (k, r, n), (*_, o, s, m) in zip(configs, agree(handed_on, *calls), strict=True):
        x = (abs(full) if k > 1 else full)[:r, :n] / 2
        want, rows, cols = out(8, 64), out(8, 1), out(1, 64)
        rows[:r, 0], cols[0, :n] = x.sum(1), (-x).max(0)
        for _ in range(k):
            x = np.where(x > 1, x - 1, x + 2)
        want[:r, :n] = x
        same(o, want)
        same(s, rows)
        same(m, cols)


@pl.jit
def tails(
    a: pl.Tensor,
    h: pl.Tensor,
    i: pl.Tensor,
    c: pl.Tensor,
    o: pl.Out[pl.Tensor],
    f: pl.Out[pl.Tensor],
    p: pl.Out[pl.Tensor],
    q: pl.Out[pl.Tensor],
):
    """Sums, products, extremes and their places, of a chain and of what was loaded, for three types."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        w = pl.create_tile([8, 80], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        t = pl.load(a, [0, 0], [8, 80], valid_shape=[8, n])
        u = pl.add(pl.mul(t, t), 1.0)
        pl.store(pl.row_sum(u, w), [0, 0], o)
        pl.store(pl.row_max(pl.neg(u), w), [8, 0], o)
        pl.store(pl.row_min(t, w), [16, 0], o)
        pl.store(pl.row_prod(pl.minimums(t, 1.0), w), [24, 0], o)
        pl.store(u, [0, 0], f)
        w1 = pl.create_tile([16, 80], dtype=pl.FP16, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(pl.load(h, [0, 0], [16, 80], valid_shape=[16, n]), w1), [0, 0], p)
        w2 = pl.create_tile([16, 80], dtype=pl.INT16, target_memory=pl.Mem.Vec)
        pl.store(pl.row_min(pl.load(i, [0, 0], [16, 80], valid_shape=[16, n]), w2), [0, 0], q)
    return o, f, p, q


@pytest.mark.parametrize("dead", [SNAN, np.inf, -np.inf, 0.0], ids=["nan", "inf", "-inf", "0"])
def test_every_tail(dead):
    """Every width natively; a few in all ways."""
    rng = np.random.default_rng(4)
    full = rng.integers(2, 9, (16, 80)).astype(np.float32)
    calls = []
    for n in range(1, 81):
        a, h, i = np.full((8, 80), dead), np.full((16, 80), dead, np.float16), np.full((16, 80), -(2**15), np.int16)
        for x in (a, h, i):
            x[:, :n] = full[: len(x), :n]
        outputs = [out(32, 1), out(8, 80), out(16, 1, dtype=np.float16), out(16, 1, dtype=np.int16)]
        calls.append([a.astype(np.float32), h, i, cfg(n), *outputs])
    some = (0, 2, 16, 62, 63, 64, 79)
    done = dict(zip(some, agree(tails, *(calls[j] for j in some)), strict=True)) if dead is SNAN else {}
    for j, call in enumerate(calls):
        if j not in done:
            tails(*call)
        *_, o, f, p, q = done.get(j, call)
        every = full[:, : j + 1]
        x = every[:8]
        want = out(8, 80)
        want[:, : j + 1] = x * x + 1
        same(f, want)
        same(o[:8, 0], (x * x + 1).sum(1))
        same(o[8:16, 0], -(x * x + 1).min(1))
        same(o[16:24, 0], x.min(1))
        same(o[24:, 0], 1)
        same(p[:, 0], every.max(1))
        same(q[:, 0], every.min(1))


@pl.jit
def of_tensors(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    """The same at tensor level, and over what an earlier kernel left around the data."""
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    t = pl.create_tensor([8, 32], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[:] = pl.add(a, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.slice(t, [8, 32], [0, 0], valid_shape=[8, n])
        s[:] = pl.row_max(pl.neg(x))
        o = pl.assemble(o, pl.row_expand_sub(x, pl.row_min(x)), [0, 0])
    return o, s


def test_tensors_that_are_partly_valid():
    a = whole(8, 32)
    for n, (*_, o, s) in zip(
        (32, 21, 1), agree(of_tensors, *([a, cfg(n), out(8, 32), out(8, 1)] for n in (32, 21, 1))), strict=True
    ):
        x = a[:, :n] + 1
        same(s, -x.min(1, keepdims=True))
        same(o[:, :n], x - x.min(1, keepdims=True))
        same(o[:, n:], -777)
