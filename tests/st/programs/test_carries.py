"""Loop carries are a parallel copy, loops that do not run keep what was there, and exits leave where Python leaves."""

import numpy as np
import pytest
from programs_kit import PLANNED, agree, blocks, cfg, out, run, same

import pypto.language as pl
from pypto.errors import KernelError

ONE_TWO = blocks(1, 2)


def check(kernel, table, *inputs, shape=None, ways=PLANNED):
    """Each configuration gives its blocks of eight equal rows."""
    rows = 8 * len(next(iter(table.values())))
    calls = [[*inputs, cfg(*np.atleast_1d(c)), out(*(shape or (rows, 8)))] for c in table]
    for got, want in zip(agree(kernel, *calls, ways=ways), table.values(), strict=True):
        same(got[-1], np.repeat(want, 8)[:, None])


@pl.jit
def swap(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [8, 8])
        tb = pl.load(a, [8, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        for _, (p, q) in pl.range(0, n, 1, init_values=(ta, tb)):
            p2, q2 = pl.yield_(q, p)
        pl.store(p2, [0, 0], o)
        pl.store(q2, [8, 0], o)
        pl.store(ta, [16, 0], o)
        pl.store(tb, [24, 0], o)
    return o


@pytest.mark.contract("B251", "B252")
def test_a_swap_swaps_and_keeps_the_tiles_it_began_with():
    check(swap, {n: [*((1, 2) if n % 2 == 0 else (2, 1)), 1, 2] for n in range(5)}, ONE_TWO)


@pl.jit
def carries(a: pl.Tensor, v: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t0 = pl.load(a, [0, 0], [8, 8])
        t1 = pl.load(a, [8, 0], [8, 8])
        t2 = pl.load(a, [16, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        for _, (f, g) in pl.range(0, n, 1, init_values=(t0, t1)):  # Fibonacci
            f2, g2 = pl.yield_(g, pl.add(f, g))
        pl.store(f2, [0, 0], o)
        pl.store(g2, [8, 0], o)
        for i, (l1, _l2) in pl.range(0, n, 1, init_values=(t0, t0)):  # shift register, both from one tile
            w = pl.load(v, [i * 8, 0], [8, 8])
            m1, m2 = pl.yield_(w, l1)
        pl.store(m1, [16, 0], o)
        pl.store(m2, [24, 0], o)
        for _, (x, y, z) in pl.range(0, n, 1, init_values=(t0, t1, t2)):  # three-cycle
            x2, y2, z2 = pl.yield_(y, z, x)
        pl.store(x2, [32, 0], o)
        pl.store(y2, [40, 0], o)
        pl.store(z2, [48, 0], o)
        for _, (_r, s) in pl.range(0, n, 1, init_values=(t1, t2)):  # fan-out
            r2, s2 = pl.yield_(s, s)
        pl.store(r2, [56, 0], o)
        pl.store(s2, [64, 0], o)
        for _, (d, e) in pl.range(0, n, 1, init_values=(t0, t0)):  # one tile, two different updates
            d2, e2 = pl.yield_(pl.add(d, 1.0), pl.add(e, d))
        pl.store(d2, [72, 0], o)
        pl.store(e2, [80, 0], o)
    return o


@pytest.mark.contract("B253")
def test_permuted_shifted_and_combined_carries():
    table = {
        0: [0, 1, 0, 0, 0, 1, 2, 1, 2, 0, 0],
        1: [1, 1, 0, 0, 1, 2, 0, 2, 2, 1, 0],
        4: [3, 5, 3, 2, 1, 2, 0, 2, 2, 4, 6],
        10: [55, 89, 9, 8, 1, 2, 0, 2, 2, 10, 45],
    }
    check(carries, table, blocks(0, 1, 2), blocks(*range(16)))


@pl.jit
def nested(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        ta = pl.load(a, [0, 0], [8, 8])
        tb = pl.load(a, [8, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        m = pl.cast(pl.read(c, [1]), pl.INDEX)
        for _, (p, q) in pl.range(0, n, 1, init_values=(ta, tb)):
            for _, (u, w) in pl.range(0, m, 1, init_values=(q, p)):
                u2, w2 = pl.yield_(w, pl.add(u, w))
            p2, q2 = pl.yield_(u2, w2)
        pl.store(p2, [0, 0], o)
        pl.store(q2, [8, 0], o)
    return o


def test_inner_carries_that_begin_with_outer_ones_crossed():
    check(nested, {(0, 3): (1, 2), (1, 0): (2, 1), (1, 1): (1, 3), (2, 2): (7, 10), (3, 3): (56, 97)}, ONE_TWO)


@pl.jit
def four(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t0 = pl.load(a, [0, 0], [8, 8])
        t1 = pl.load(a, [8, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        k = pl.const(3, pl.INDEX)
        for i, (w, x, y, z, s) in pl.range(0, n, 1, init_values=(t0, t1, t1, t0, k)):  # tiles and a scalar
            w2, x2, y2, z2, s2 = pl.yield_(z, w, pl.add(x, pl.cast(s, pl.FP32)), y, s + i)
        pl.store(w2, [0, 0], o)
        pl.store(x2, [8, 0], o)
        pl.store(y2, [16, 0], o)
        pl.store(z2, [24, 0], o)
        pl.store(pl.add(t0, pl.cast(s2, pl.FP32)), [32, 0], o)
    return o


def python_four(n):
    w, x, y, z, s = 1, 2, 2, 1, 3
    for i in range(n):
        w, x, y, z, s = z, w, x + s, y, s + i
    return [w, x, y, z, 1 + s]


def test_four_tiles_and_a_scalar():
    check(four, {n: python_four(n) for n in (0, 1, 2, 3, 4, 7)}, ONE_TWO)


@pl.jit
def rebound(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        p = pl.load(a, [0, 0], [8, 8])
        q = pl.load(a, [8, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        for _ in pl.range(n):
            p, q = q, p
        for _ in pl.range(n):
            h = pl.add(p, q)
            p = q
            q = h
        pl.store(p, [0, 0], o)
        pl.store(q, [8, 0], o)
        k = pl.const(0, pl.INDEX)
        x = pl.load(a, [0, 0], [8, 8])
        y = pl.load(a, [8, 0], [8, 8])
        while k < n:
            x, y = y, pl.add(x, 1.0)
            k = k + 1
        pl.store(x, [16, 0], o)
        pl.store(y, [24, 0], o)
        for j, u, w in pl.while_(init_values=(0, x, y)):
            pl.cond(j < n)
            j2, u2, w2 = pl.yield_(j + 1, w, u)
        pl.store(u2, [32, 0], o)
        pl.store(pl.add(w2, pl.cast(j2, pl.FP32)), [40, 0], o)
    return o


def python_rebound(n):
    p, q = 1, 2
    for _ in range(n):
        p, q = q, p
    for _ in range(n):
        p, q = q, p + q
    x, y = 1, 2
    for _ in range(n):
        x, y = y, x + 1
    u, w = (x, y) if n % 2 == 0 else (y, x)
    return [p, q, x, y, u, w + n]


def test_carries_by_rebinding_and_in_while_loops():
    check(rebound, {n: python_rebound(n) for n in (0, 1, 2, 3, 5)}, ONE_TWO)


@pl.jit
def tensors(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    t = pl.create_tensor([8, 8], dtype=pl.FP32)
    u = pl.create_tensor([8, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[:] = a[0:8, :]
        u[:] = a[8:16, :]
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    for _ in pl.range(n):
        t, u = u, t
        with pl.at(level=pl.Level.CORE_GROUP):
            t[:] = pl.add(t, 10.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = t
        o[8:16, :] = u
    return o


def test_carries_that_are_tensors_in_global_memory():
    check(tensors, {0: (1, 2), 1: (12, 1), 2: (11, 12), 3: (22, 11)}, ONE_TWO)


# -- loops that may not run ----------------------------------------------------------------------------------------


@pl.jit
def trips(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        lo = pl.cast(pl.read(c, [0]), pl.INDEX)
        hi = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 8])
        for _ in pl.range(lo, hi):
            t = pl.add(t, 1.0)
        for _, (u,) in pl.range(lo, hi, 1, init_values=(t,)):
            v = pl.yield_(pl.mul(u, 2.0))
        k = lo
        while k < hi:
            v = pl.add(v, 100.0)
            k = k + 1
        pl.store(v, [0, 0], o)
    return o


@pytest.mark.contract("B229", "B251")
def test_loops_without_a_trip_keep_the_initial_value():
    check(trips, {(0, 0): [7], (5, 2): [7], (3, 3): [7], (0, 2): [236]}, out(8, 8, fill=7))


N = pl.dynamic("N")


@pl.jit
def rows_plus(a: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    n = pl.tensor.dim(a, 0)
    for k in pl.range(n // 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.add(pl.load(a, [k * 16, 0], [16, 64]), 1.0), [k * 16, 0], o)
    return o


def test_launches_of_nothing_before_and_after_something():
    sizes = (0, 32, 0, 48)
    for n, got in zip(sizes, agree(rows_plus, *([out(n, 64, fill=0), out(n, 64)] for n in sizes)), strict=True):
        assert got[1].shape == (n, 64)
        same(got[1], 1)


@pl.jit
def blocks_of_nothing(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    for k in pl.parallel(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.add(pl.load(a, [k * 8, 0], [8, 8]), 1.0), [k * 8, 0], o)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n):
            for j in pl.range(i, n):
                t = pl.load(o, [j * 8, 0], [8, 8])
                pl.store(pl.add(t, 10.0), [j * 8, 0], o)
    return o


def test_parallel_and_nested_loops_without_a_trip():
    o = out(32, 8, fill=5)
    a = blocks(1, 2, 3, 4)
    calls = [[a, cfg(n), o] for n in (0, 1, 4)]
    got = agree(blocks_of_nothing, *calls)
    same(got[0][2], 5)
    same(got[1][2], blocks(12, 5, 5, 5))
    same(got[2][2], blocks(12, 23, 34, 45))


# -- break, continue, steps ----------------------------------------------------------------------------------------


@pl.jit
def down(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.const(0, pl.INDEX)
        for i in pl.range(3, -1, -1):
            if i == 2:
                continue
            s = s + i
        t = pl.const(0, pl.INDEX)
        for j in pl.range(3, -1, -1):
            if j == 1:
                break
            t = t + j
        u = pl.const(0, pl.INDEX)
        for k in pl.range(10, 0, -4):
            u = u * 100 + k
        pl.write(o, [0], pl.cast(s, pl.INT32))
        pl.write(o, [1], pl.cast(t, pl.INT32))
        pl.write(o, [2], pl.cast(u, pl.INT32))
    return o


def test_loops_that_count_down():
    same(run(down, cfg(), out(8, dtype=np.int32))[1], [4, 5, 100602, -777, -777, -777, -777, -777])


@pl.jit
def whiles(c: pl.Tensor, a: pl.Tensor, o: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        v = pl.read(c, [0])
        n = pl.const(0, pl.INDEX)
        t = pl.load(a, [0, 0], [8, 8])
        while v != 0:
            n = n + 1
            v = v - 1
            if v == 1:
                continue
            t = pl.add(t, 1.0)
        x = pl.const(0, pl.INDEX)
        y = pl.const(0, pl.INDEX)
        i = pl.const(0, pl.INDEX)
        while i < 4:
            y = x + 1
            x = y + 2
            i = i + 1
            if x > 8:
                break
        pl.store(t, [0, 0], o)
        pl.write(m, [0], pl.cast(n, pl.INT32))
        pl.write(m, [1], pl.cast(x, pl.INT32))
        pl.write(m, [2], pl.cast(y, pl.INT32))
        pl.write(m, [3], pl.cast(i, pl.INT32))
    return o, m


def test_while_loops_with_exits():
    table = [(0, 0, 0), (1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 5, 4)]
    calls = [[cfg(v), np.zeros((8, 8), np.float32), out(8, 8), out(8, dtype=np.int32)] for v, _, _ in table]
    for (_, n, t), got in zip(table, agree(whiles, *calls), strict=True):
        same(got[2], t)
        same(got[3][:4], [n, 9, 7, 3])


@pl.jit
def inner_break(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        s = pl.const(0, pl.INDEX)
        for i in pl.range(4):
            for j in pl.range(4):
                if j > i:
                    break
                if j == n:
                    continue
                s = s + 10 * i + j
        pl.write(o, [0], pl.cast(s, pl.INT32))
    return o


def test_break_leaves_the_inner_loop_only():
    got = agree(inner_break, *([cfg(n), out(8, dtype=np.int32)] for n in (0, 1, 9)))
    assert [int(g[1][0]) for g in got] == [150, 147, 210]


@pl.jit
def exits(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        lo = pl.cast(pl.read(c, [0]), pl.INDEX)
        hi = pl.cast(pl.read(c, [1]), pl.INDEX)
        by = pl.cast(pl.read(c, [2]), pl.INDEX)
        stop = pl.cast(pl.read(c, [3]), pl.INDEX)
        skip = pl.cast(pl.read(c, [4]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 8])
        u = pl.load(a, [8, 0], [8, 8])
        for i in pl.range(lo, hi, by):  # tiles keep the values of the trip that broke off
            t, u = pl.add(t, u), t
            if i > skip:
                if i == stop:
                    t = pl.mul(t, 2.0)
                    break
            else:
                if i == skip:
                    continue
                u = pl.add(u, 100.0)
            t = pl.add(t, 1.0)
        pl.store(t, [0, 0], o)
        pl.store(u, [8, 0], o)
    return o


def python_exits(lo, hi, by, stop, skip):
    t, u = 1, 2
    for i in range(lo, hi, by):
        t, u = t + u, t
        if i > skip:
            if i == stop:
                t *= 2
                break
        elif i == skip:
            continue
        else:
            u += 100
        t += 1
    return [t, u]


def test_run_time_bounds_steps_and_exits():
    configs = [(0, 5, 1, 3, 1), (5, 0, -1, 2, 1), (0, 6, 2, 9, 2), (9, -3, -4, 5, 7), (0, 5, -1, 0, 0), (5, 0, 2, 0, 0)]
    check(exits, {c: python_exits(*c) for c in configs}, ONE_TWO)


def test_a_zero_step_is_an_error_at_its_line():
    with pytest.raises(KernelError, match="step") as e:
        exits(ONE_TWO, cfg(0, 5, 0, 3, 1), out(16, 8))
    assert e.value.location is not None
    assert "for i in pl.range(lo, hi, by):" in e.value.source_lines[0]


@pl.jit
def edges(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        s = pl.const(0, pl.INDEX)
        for i in pl.range(4):  # the first statement
            if i == n:
                break
            s = s + 1
        t = pl.const(0, pl.INDEX)
        for i in pl.range(4):  # the last one
            t = t + 1
            if i == n:
                break
        w = pl.const(0, pl.INDEX)
        k = pl.const(0, pl.INDEX)
        while k < 3:  # a while around a for
            for i in pl.range(k, 9):
                if i == n:
                    break
                w = w + i
            k = k + 1
            if w > 20:
                continue
            w = w + 100
        for i in pl.range(3):  # a for around a while
            j = i
            while j < 5:
                j = j + 1
                if j == n:
                    continue
                w = w + j
                if w > 1000:
                    break
        pl.write(o, [0], pl.cast(s, pl.INT32))
        pl.write(o, [1], pl.cast(t, pl.INT32))
        pl.write(o, [2], pl.cast(w, pl.INT32))
    return o


def python_edges(n):
    s = t = w = k = 0
    for i in range(4):
        if i == n:
            break
        s += 1
    for i in range(4):
        t += 1
        if i == n:
            break
    while k < 3:
        for i in range(k, 9):
            if i == n:
                break
            w += i
        k += 1
        if w <= 20:
            w += 100
    for i in range(3):
        j = i
        while j < 5:
            j += 1
            if j == n:
                continue
            w += j
            if w > 1000:
                break
    return [s, t, w]


def test_exits_at_the_edges_of_bodies_and_mixed_loops():
    numbers = (0, 1, 2, 4, 20)
    got = agree(edges, *([cfg(n), out(8, dtype=np.int32)] for n in numbers))
    assert [g[1][:3].tolist() for g in got] == [python_edges(n) for n in numbers]
