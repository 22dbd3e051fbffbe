"""Pipelined loops: every trip once, in order, whatever the number of stages, the bounds and what is carried."""

import numpy as np
import pytest
from programs_kit import agree, bits, cfg, normal, out, same, whole

import pypto.language as pl
from pypto.enums import ForKind
from pypto.errors import CompileError
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt


@pl.jit
def constant_bounds(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.pipeline(0, 5, 1, stage=2):
            pl.store(pl.sub(pl.load(a, [k * 16, 0], [16, 64]), 1.0), [k * 16, 0], o)
    return o


@pl.jit
def downwards(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.pipeline(4, -1, -1, stage=3):
            pl.store(pl.sub(pl.load(a, [k * 16, 0], [16, 64]), 1.0), [k * 16, 0], o)
    return o


@pytest.mark.parametrize("kernel", [constant_bounds, downwards])
def test_constant_bounds(kernel):
    a = whole(80, 64)
    ((_, o),) = agree(kernel, [a, out(80, 64)])
    same(o, a - 1)


@pl.jit
def bounds_of_the_call(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    """Sums rounded in order; the last trip's tile, and how often the loop ran."""
    with pl.at(level=pl.Level.CORE_GROUP):
        start = pl.cast(pl.read(c, [0]), pl.INDEX)
        stop = pl.cast(pl.read(c, [1]), pl.INDEX)
        total = pl.tile.full([8, 32], dtype=pl.FP32, value=0.0)
        count = pl.const(0, pl.INDEX)
        for k in pl.pipeline(start, stop, 2, stage=3):
            t = pl.load(a, [k * 8, 0], [8, 32])
            total = pl.add(pl.mul(total, 0.75), t)
            count = count + k
        pl.store(total, [0, 0], o)
        pl.write(s, [0], pl.cast(count, pl.INT32))
    return o, s


def test_bounds_of_the_call_and_carried_values():
    a = normal(128, 32)
    bounds = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 8), (0, 12), (3, 16), (5, 4)]
    calls = [[a, cfg(*b), out(8, 32), np.zeros(1, np.int32)] for b in bounds]
    for (start, stop), (_, _, o, s) in zip(bounds, agree(bounds_of_the_call, *calls), strict=True):
        total = np.zeros((8, 32), np.float32)
        for k in range(start, stop, 2):
            total = total * np.float32(0.75) + a[k * 8 : k * 8 + 8]
        bits(o, total)
        assert s[0] == sum(range(start, stop, 2))


@pl.jit
def through_memory(a: pl.InOut[pl.Tensor], o: pl.Out[pl.Tensor]):
    """Each trip loads what the one before it stored; branches and loops inside."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.pipeline(0, 6, 1, stage=2):
            t = pl.load(a, [k * 8, 0], [8, 32])
            for _ in pl.pipeline(0, 3, 1, stage=2):
                t = pl.add(t, 1.0)
            if k > 2:
                pl.store(pl.neg(t), [k * 8, 0], o)
            else:
                pl.store(t, [k * 8, 0], o)
            pl.store(t, [k * 8 + 8, 0], a)
    return a, o


def test_a_load_stays_behind_the_store_it_depends_on():
    a = whole(56, 32)
    ((got, o),) = agree(through_memory, [a, out(48, 32)])
    for k in range(6):
        same(got[8 * k + 8 : 8 * k + 16], a[:8] + 3 * (k + 1))
        same(o[8 * k : 8 * k + 8], (a[:8] + 3 * (k + 1)) * (-1 if k > 2 else 1))


@pl.jit
def products(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([16, 32], dtype=pl.FP32)
        for k in pl.pipeline(0, 96, 32, stage=2):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == 0))
        o[:] = acc
    return o


def test_an_accumulator():
    a, b = whole(16, 96).astype(np.float16), whole(96, 32).astype(np.float16)
    ((*_, o),) = agree(products, [a, b, out(16, 32)])
    same(o, a.astype(np.float32) @ b.astype(np.float32))


@pl.jit
def windows_carried(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], w: pl.Out[pl.Tensor]):
    """Every copy of a trip cuts its window at the same computed row, and so do the trips that are left."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [24, 32])
        u = pl.load(a, [16, 0], [24, 32])
        v = pl.tile.slice(t, [8, 32], [n, 0])
        for _ in pl.pipeline(0, n, stage=3):
            t = pl.tile.assemble(t, v, [n + 1, 0])
            v = pl.tile.slice(u, [8, 32], [n + 1, 0])
        pl.store(t, [0, 0], o)
        pl.store(v, [0, 0], w)
        if n > 2:
            pl.store(pl.tile.slice(u, [8, 32], [n + 1, 0]), [8, 0], w)
        else:
            pl.store(pl.tile.slice(u, [8, 32], [n + 2, 0]), [8, 0], w)
    return o, w


def test_windows_at_a_row_of_the_call():
    a = whole(40, 32)
    counts = range(6)
    calls = [[a, cfg(n), out(24, 32), out(16, 32)] for n in counts]
    for n, (_, _, o, w) in zip(counts, agree(windows_carried, *calls), strict=True):
        t, u = a[:24].copy(), a[16:]
        v = t[n : n + 8].copy()
        for _ in range(n):
            t[n + 1 : n + 9], v = v, u[n + 1 : n + 9]
        same(o, t)
        same(w[:8], v)
        same(w[8:], u[n + 1 : n + 9] if n > 2 else u[n + 2 : n + 10])


def test_loads_come_first_and_nothing_of_the_pipeline_is_left():
    lowered = constant_bounds.lower(whole(80, 64), out(80, 64))
    loops = [n for f in lowered.function_list for n in walk(f.body) if isinstance(n, ForStmt)]
    (loop,) = loops
    assert loop.kind is ForKind.Sequential
    assert not [k for k in loop.attrs if k.startswith("pipeline")]
    names = [n.op.name.split(".")[1] for n in walk(loop.body) if hasattr(n, "op")]
    assert names == ["load", "load", "subs", "store", "subs", "store"]


@pl.jit
def step_of_the_call(a: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.pipeline(0, 5, s, stage=2):
            pl.store(pl.load(a, [k * 16, 0], [16, 64]), [k * 16, 0], o)
    return o


def test_a_step_of_the_call_is_refused():
    with pytest.raises(CompileError, match="step of a pipelined loop must be a constant") as e:
        step_of_the_call(whole(80, 64), out(80, 64), 1)
    assert e.value.hint


@pl.jit
def past_the_end(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([64, 64], dtype=pl.FP32)
        for k in pl.pipeline(0, 96, 32, stage=2):
            x = pl.slice(a, [64, 32], [0, k + 32], clamp=True)
            y = pl.slice(b, [32, 64], [k + 32, 0], clamp=True)
            acc = pl.matmul_acc(acc, x, y, init_cond=(k == 0))
        out[:] = acc
    return out


def test_a_trip_by_itself_whose_windows_hold_nothing():
    """The last trip is no copy in the loop: its first column is a number, and so is what of it there is, none."""
    a, b = (np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in enumerate([(64, 96), (96, 64)]))
    ((_, _, o),) = agree(past_the_end, [a, b, out(64, 64)])
    np.testing.assert_allclose(o, a[:, 32:] @ b[32:], rtol=0, atol=1e-4)
