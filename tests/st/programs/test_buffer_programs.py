"""Kernels that become buffers: one artifact for all run-time values, and nothing beside the windows is touched."""

import numpy as np
import pytest
from programs_kit import PLANNED, agree, out, same, whole

import pypto.language as pl
from pypto.enums import FunctionIRStage

contract = pytest.mark.contract
I = pl.Scalar[pl.INDEX]  # noqa: E741


def becomes_buffers(kernel, args) -> bool:
    return [f.ir_stage for f in kernel.lower(*args).function_list if f.is_device] == [FunctionIRStage.Buffer]


def check(kernel, calls, want):
    """What `want` makes of each call, under each planner; inputs and the surroundings of windows stay."""
    assert becomes_buffers(kernel, calls[0])
    for given, got in zip(calls, agree(kernel, *calls, ways=PLANNED), strict=True):
        same(got[-1], want(*given))
        same(got[0], given[0])


@pl.jit
def moving(x: pl.Tensor, at: I, rows: I, cols: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [at, 0], [8, 64], valid_shape=[rows, cols])
        pl.store(pl.add(t, t), [at, 0], o)
    return o


@contract("B029", "B120", "B122", "B138", "B145", "B252")
def test_windows_that_move_and_may_be_empty():
    x = whole(32, 64)
    places = [(0, 8, 64), (3, 0, 64), (3, 8, 0), (5, 3, 37), (24, 8, 64), (31, 1, 1), (0, 0, 0)]

    def want(x, at, r, n, o):
        o = o.copy()
        o[at : at + r, :n] = x[at : at + r, :n] * 2
        return o

    check(moving, [[x, *p, out(32, 64)] for p in places], want)


@pl.jit
def narrowed(x: pl.Tensor, cols: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        u = pl.set_validshape(t, 16, cols)
        pl.store(pl.muls(u, 3.0), [0, 0], o)
    return o


@contract("B121", "B249")
def test_columns_that_are_set_at_run_time():
    x = whole(16, 64)
    check(narrowed, [[x, n, out(16, 64)] for n in (64, 1, 33, 0)], lambda x, n, o: np.where(np.arange(64) < n, x * 3, o))


@pl.jit
def sliced(x: pl.Tensor, k: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        pl.store(pl.adds(pl.slice(t, [16, 32], [0, 32]), 1.0), [0, 0], o)
        pl.store(pl.adds(pl.slice(t, [4, 64], [k, 0]), 2.0), [16, 0], o)
        pl.store(pl.adds(pl.slice(pl.slice(t, [8, 32], [4, 8]), [4, 16], [k, 8]), 3.0), [20, 0], o)
    return o


@contract("B069", "B070", "B071", "B249")
def test_slices_of_columns_rows_and_slices():
    x = whole(16, 64)

    def want(x, k, o):
        o = o.copy()
        o[:16, :32] = x[:, 32:] + 1
        o[16:20] = x[k : k + 4] + 2
        o[20:24, :16] = x[4 + k : 8 + k, 16:32] + 3
        return o

    check(sliced, [[x, k, out(24, 64)] for k in (0, 4, 1, 3)], want)


@pl.jit
def overlapping(x: pl.Tensor, k: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        w = pl.slice(t, [8, 64], [k, 0])
        pl.store(pl.assemble(t, w, [4, 0]), [0, 0], o)
    return o


@contract("B077", "B078", "B188")
def test_a_window_assembled_over_itself():
    def want(x, k, o):
        y = x.copy()
        y[4:12] = x[k : k + 8]
        return y

    x = whole(16, 64)
    check(overlapping, [[x, k, out(16, 64)] for k in (0, 4, 8, 3)], want)


@pl.jit
def through_control_flow(x: pl.Tensor, n: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [8, 64])
        b = pl.load(x, [8, 0], [8, 64])
        at = pl.const(0, pl.INDEX)
        for i in pl.range(n):
            a, b = b, a
            at = at + 8
        if n > 1:
            a = pl.sub(a, b)
        else:
            b = pl.sub(b, a)
        k = pl.const(0, pl.INDEX)
        while k < n:
            k = k + 1
            a, b = b, pl.add(a, a)
        pl.store(pl.sub(a, b), [at, 0], o)
    return o


@contract("B054", "B055", "B066", "B229", "B230", "B251", "B252")
def test_swaps_branches_and_loops_with_0_to_3_rounds():
    def want(x, n, o):
        a, b = x[:8], x[8:]
        if n % 2:
            a, b = b, a
        a, b = (a - b, b) if n > 1 else (a, b - a)
        for _ in range(n):
            a, b = b, a + a
        o = o.copy()
        o[n * 8 : n * 8 + 8] = a - b
        return o

    x = whole(16, 64)
    check(through_control_flow, [[x, n, out(32, 64)] for n in (0, 1, 2, 3)], want)
