"""Kernels as people write them, read by the parser and executed as parsed, before any pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto.language as pl
from pypto.debug import interpret
from pypto.dtypes import from_numpy
from pypto.errors import KernelError
from pypto.frontend import TensorArg, capture, parse_kernel

NAN, INF = np.nan, np.inf


def execute(kernel: Callable[..., Any], *args: np.ndarray) -> Any:
    source = capture(kernel)
    dtypes = [from_numpy(a.dtype) for a in args]
    spec = {n: TensorArg(a.shape, d) for n, a, d in zip(source.parameters, args, dtypes, strict=True) if d is not None}
    return interpret(parse_kernel(source, spec).program, args, entry=kernel.__name__)


def out(*shape, dtype=np.float32, fill=-777):
    return np.full(shape, fill, dtype)


def cfg(*values):
    c = np.zeros(8, np.int32)
    c[: len(values)] = values
    return c


def same(got, want):
    np.testing.assert_array_equal(got, np.broadcast_to(np.asarray(want).astype(got.dtype), got.shape))


def chain(a: pl.Tensor, s: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor], h: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.cast(pl.load(a, [0, 0], [8, 256], valid_shape=[4, 256]), pl.FP32)
        w = pl.create_tile([8, 256], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(pl.mul(t, t), w), [0, 0], s)
        pl.store(pl.neg(pl.abs(t)), [0, 0], e)
        pl.store(pl.maximums(pl.sub(t, 2.0), 0.0), [0, 0], m)
        pl.store(pl.cast(pl.slice(t, [8, 128], [0, 128]), pl.FP16), [0, 0], h)
    return s, e, m, h


def test_the_valid_rectangle_survives():
    a = np.full((8, 256), NAN, np.float16)
    a[:4] = np.float16([[1], [2], [3], [4]])
    s, e, m, h = execute(chain, a, out(8, 1), out(8, 256), out(8, 256), out(8, 128, dtype=np.float16))
    same(s[:, 0], [256, 1024, 2304, 4096, -777, -777, -777, -777])
    same(e[:, 0], [-1, -2, -3, -4] + [-777] * 4)
    same(m[:, 0], [0, 0, 1, 2] + [-777] * 4)
    same(h[:, 0], [1, 2, 3, 4] + [-777] * 4)
    for x in (e, m, h):
        same(np.ptp(x, 1), 0)


def softmax(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(a, pl.row_max(a)))
        o[:] = pl.row_expand_div(e, pl.row_sum(e))
    return o


def test_softmax_of_masked_rows():
    a = np.zeros((8, 16), np.float32)
    a[:, 8:] = -INF
    a[3] = -INF
    o = execute(softmax, a, out(8, 16))
    assert np.isnan(o[3]).all()
    rest = np.delete(o, 3, 0)
    same(rest[:, 8:], 0)
    same(rest[:, :8], 0.125)


def extremes(
    a: pl.Tensor,
    mx: pl.Out[pl.Tensor],
    mn: pl.Out[pl.Tensor],
    ax: pl.Out[pl.Tensor],
    an: pl.Out[pl.Tensor],
    cx: pl.Out[pl.Tensor],
    cn: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        mx[:] = pl.row_max(a)
        mn[:] = pl.row_min(a)
        ax[:] = pl.row_argmax(a)
        an[:] = pl.row_argmin(a)
        cx[:] = pl.col_max(a)
        cn[:] = pl.col_min(a)
    return mx, mn, ax, an, cx, cn


def test_one_nan_gives_nan_wherever_it_stands():
    a = np.tile(np.float32([6, 8, 1, 9, 2, 7, 3, 5]), (8, 1))
    for r in range(7):
        a[r, r] = NAN
    a[0, 5] = NAN
    column = lambda dtype: out(8, 1, dtype=dtype)  # noqa: E731
    i32, f32 = np.int32, np.float32
    mx, mn, ax, an, cx, cn = execute(extremes, a, column(f32), column(f32), column(i32), column(i32), out(1, 8), out(1, 8))
    same(mx[:, 0], [NAN] * 7 + [9])
    same(mn[:, 0], [NAN] * 7 + [1])
    same(ax[:, 0], [0, 1, 2, 3, 4, 5, 6, 3])
    same(an[:, 0], [0, 1, 2, 3, 4, 5, 6, 2])
    same(cx[0], [NAN] * 7 + [5])
    same(cn[0], [NAN] * 7 + [5])


def row_sums(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.row_sum(x)
    return o


@pytest.mark.parametrize(
    ("x", "want"),
    [
        (np.full((8, 128), 100, np.int32), 12800),
        (np.full((16, 400), 100, np.int16), -25536),
        (np.ones((16, 2560), np.float16), 2560),
        (np.full((8, 16), 2**30, np.int32), 0),
    ],
)
def test_sums_accumulate_as_declared(x, want):
    same(execute(row_sums, x, out(x.shape[0], 1, dtype=x.dtype)), want)


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


@pytest.mark.parametrize(("lo", "hi", "want"), [(0, 0, 7), (5, 2, 7), (3, 3, 7), (0, 2, 236)])
def test_loops_that_may_not_run(lo, hi, want):
    same(execute(trips, out(8, 8, fill=7), cfg(lo, hi), out(8, 8)), want)


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


@pytest.mark.parametrize(("v", "n", "t"), [(0, 0, 0), (1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 5, 4)])
def test_while_loops_leave_and_go_on_as_in_python(v, n, t):
    o, m = execute(whiles, cfg(v), np.zeros((8, 8), np.float32), out(8, 8), out(8, dtype=np.int32))
    same(o, t)
    same(m[:4], [n, 9, 7, 3])


def empty_sum(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.create_tile([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        pl.store(pl.row_sum(pl.load(a, [0, 0], [8, 16], valid_shape=[8, n]), w), [0, 0], o)
    return o


def test_an_empty_sum_is_an_error_at_its_line():
    same(execute(empty_sum, np.ones((8, 16), np.float32), cfg(3), out(8, 1)), 3)
    with pytest.raises(KernelError, match="row_sum: the valid region is empty") as e:
        execute(empty_sum, np.ones((8, 16), np.float32), cfg(0), out(8, 1))
    assert e.value.location.filename == __file__
    assert "pl.row_sum" in e.value.source_lines[0]
