"""NaN, infinities, zeros of either sign and subnormals: kept by every operator, and nothing is rearranged around them."""

import ctypes

import numpy as np
import pytest
from programs_kit import agree, bits, cfg, out, run, same

import pypto.language as pl

NAN, INF = np.nan, np.inf


@pl.jit
def pair(
    a: pl.Tensor,
    b: pl.Tensor,
    mx: pl.Out[pl.Tensor],
    mn: pl.Out[pl.Tensor],
    s: pl.Out[pl.Tensor],
    u: pl.Out[pl.Tensor],
    k: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [8, 16])
        y = pl.load(b, [0, 0], [8, 16])
        pl.store(pl.maximum(x, y), [0, 0], mx)
        pl.store(pl.minimum(x, y), [0, 0], mn)
        pl.store(pl.maximums(x, 1.0), [0, 0], s)
        pl.store(pl.relu(x), [0, 0], u)
        pl.store(pl.minimum(pl.lrelu(x, 0.5), 2.0), [0, 0], k)
    return mx, mn, s, u, k


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_in_either_operand_and_every_lane(dtype):
    pattern = np.uint16(0xFE01).view(np.float16) if dtype is np.float16 else np.uint32(0xFFC00001).view(np.float32)
    outputs = [out(8, 16, dtype=dtype) for _ in range(5)]
    calls = []
    for lane in range(0, 128, 3):
        for first in (True, False):
            a, b = out(8, 16, dtype=dtype, fill=2), out(8, 16, dtype=dtype, fill=3)
            (a if first else b).reshape(-1)[lane] = pattern if lane % 2 else NAN
            calls.append([a, b, *outputs])
    # The interpreter is not quick; native code sees every lane.
    for a, b, *got in agree(pair, *calls[:4]) + [[*c[:2], *(o.copy() for o in c[2:])] for c in calls[4:]]:
        if got[0][0, 0] == -777:
            pair(a, b, *got)
        mx, mn, s, u, k = got
        nan = np.isnan(a) | np.isnan(b)
        same(mx, np.where(nan, NAN, 3))
        same(mn, np.where(nan, NAN, 2))
        same(s, a)  # max(a, 1), relu(a) and min(lrelu(a), 2) are a itself here
        same(u, a)
        same(k, a)


@pl.jit
def reduced(
    a: pl.Tensor,
    mx: pl.Out[pl.Tensor],
    mn: pl.Out[pl.Tensor],
    ax: pl.Out[pl.Tensor],
    an: pl.Out[pl.Tensor],
    cx: pl.Out[pl.Tensor],
    cn: pl.Out[pl.Tensor],
    dx: pl.Out[pl.Tensor],
    dn: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        mx[:] = pl.row_max(a)
        mn[:] = pl.row_min(a)
        ax[:] = pl.row_argmax(a)
        an[:] = pl.row_argmin(a)
        cx[:] = pl.col_max(a)
        cn[:] = pl.col_min(a)
        dx[:] = pl.col_argmax(a)
        dn[:] = pl.col_argmin(a)
    return mx, mn, ax, an, cx, cn, dx, dn


def test_one_nan_gives_nan_and_its_own_index():
    a = np.tile(np.float32([6, 8, 1, 9, 2, 7, 3, 5]), (8, 1))
    for r in range(7):
        a[r, r] = NAN
    a[0, 5] = NAN  # a second one later in the row
    i32 = np.int32
    o = [out(8, 1), out(8, 1), out(8, 1, dtype=i32), out(8, 1, dtype=i32), out(1, 8), out(1, 8)]
    o += [out(1, 8, dtype=i32), out(1, 8, dtype=i32)]
    (_, mx, mn, ax, an, cx, cn, dx, dn), all_nan = agree(reduced, [a, *o], [np.full_like(a, NAN), *o])
    same(mx[:, 0], [NAN] * 7 + [9])
    same(mn[:, 0], [NAN] * 7 + [1])
    same(ax[:, 0], [0, 1, 2, 3, 4, 5, 6, 3])
    same(an[:, 0], [0, 1, 2, 3, 4, 5, 6, 2])
    same(cx[0], [NAN] * 7 + [5])
    same(cn[0], [NAN] * 7 + [5])
    same(dx[0], [0, 1, 2, 3, 4, 0, 6, 0])
    same(dn[0], [0, 1, 2, 3, 4, 0, 6, 0])
    for g, w in zip(all_nan[1:], (NAN, NAN, 0, 0, NAN, NAN, 0, 0), strict=True):
        same(g, w)


@pl.jit
def expanded(a: pl.Tensor, v: pl.Tensor, w: pl.Tensor, o: pl.Out[pl.Tensor], c: pl.Tensor, s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 19 + 5])
        col = pl.load(v, [0, 0], [8, 1])
        row = pl.load(w, [0, 0], [1, 24])
        pl.store(pl.row_expand_max(t, col), [0, 0], o)
        pl.store(pl.row_expand_min(t, col), [8, 0], o)
        pl.store(pl.col_expand_max(t, row), [16, 0], o)
        pl.store(pl.col_expand_min(t, row), [24, 0], o)
        pl.store(pl.abs(pl.neg(t)), [32, 0], o)
        x = pl.read(c, [0])
        y = pl.read(c, [1])
        pl.write(s, [0], pl.max(x, y))
        pl.write(s, [1], pl.min(x, y))
        pl.write(s, [2], pl.max(y, x))
        pl.write(s, [3], pl.min(y, x))
    return o, s


def test_nan_in_expansions_and_scalars():
    a = np.zeros((8, 24), np.float32)
    a[1, 2] = a[4, 23] = NAN
    v, w = np.ones((8, 1), np.float32), np.ones((1, 24), np.float32)
    v[3] = w[0, 7] = NAN
    got = agree(expanded, *([a, v, w, out(40, 24), np.float32(p), out(4)] for p in ((NAN, 1), (1, NAN), (3, 2))))
    at, rows, cols = np.isnan(a), np.isnan(v), np.isnan(w)
    want = [np.where(at | rows, NAN, 1), np.where(at | rows, NAN, 0), np.where(at | cols, NAN, 1)]
    want += [np.where(at | cols, NAN, 0), np.where(at, NAN, 0)]
    for g in got:
        same(g[3], np.vstack(want))
    same(got[0][5], NAN)
    same(got[1][5], NAN)
    same(got[2][5], [3, 2, 3, 2])


@pl.jit
def split_maximum(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.load(a, [0, 0], [8, 16])
        for i in pl.range(1, 4):
            m = pl.maximum(m, pl.load(a, [0, i * 16], [8, 16]))
        w = pl.create_tile([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(m, w), [0, 0], o)
    return o


def test_a_maximum_over_several_tiles():
    a = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    for r in range(6):
        a[r, 11 * r] = NAN
    same(run(split_maximum, a, out(8, 1))[1][:, 0], [NAN] * 6 + [447, 511])


@pl.jit
def compared(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = pl.cmp(x, y, cmp_type=0)
        o[8:16, :] = pl.cmp(x, y, cmp_type=1)
        o[16:24, :] = pl.cmp(x, y, cmp_type=2)
        o[24:32, :] = pl.cmp(x, y, cmp_type=3)
        o[32:40, :] = pl.cmp(x, y, cmp_type=4)
        o[40:48, :] = pl.cmp(x, y, cmp_type=5)
        o[48:56, :] = x < y
        o[56:64, :] = pl.cmp(x, 1.0, cmp_type=1)
    return o


def test_comparisons():
    values = np.float32([NAN, INF, -INF, 0.0, -0.0, 1e-40, 1.0, 1e-10])
    x, y = np.repeat(values, 8).reshape(8, 8), np.tile(values, (8, 1))
    with np.errstate(invalid="ignore"):
        rows = [x == y, x != y, x < y, x <= y, x > y, x >= y, x < y, x != 1]
    same(run(compared, x, y, out(64, 8))[2], np.vstack(rows))


# -- no fast-math --------------------------------------------------------------------------------------------------


@pl.jit
def ieee(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = pl.cmp(x, x, cmp_type=1)
        o[8:16, :] = pl.sub(x, x)
        o[16:24, :] = pl.mul(x, 0.0)
        o[24:32, :] = pl.add(x, 0.0)
        o[32:40, :] = pl.div(x, x)
        o[40:48, :] = pl.add(x, -0.0)
        o[48:56, :] = pl.sub(x, 0.0)
        o[56:64, :] = pl.mul(x, 1.0)
        o[64:72, :] = pl.div(x, 1.0)
        o[72:80, :] = pl.neg(pl.neg(x))
        o[80:88, :] = pl.div(x, 3.0)
        o[88:96, :] = pl.mul(x, -0.0)
        o[96:104, :] = pl.sub(pl.neg(x), x)
    return o


ROW = np.float32([NAN, INF, -INF, 0.0, -0.0, 1e-40, 1.0, -2.0])


def test_identities_of_real_numbers_that_are_none_here():
    x = np.tile(ROW, (8, 1))
    o = run(ieee, x, out(104, 8))[1].reshape(13, 8, 8)
    zero, one = np.float32(0), np.float32(1)
    with np.errstate(all="ignore"):
        want = [x != x, x - x, x * zero, x + zero, x / x, x + -zero, x - zero, x * one, x / one, x, x / np.float32(3)]
        want += [x * -zero, -x - x]
    for got, w in zip(o, want, strict=True):
        bits(got, w)
    # What numpy could not say: the process still has subnormals after loading our code.
    assert np.float32(1e-40) * one == np.float32(1e-40) != 0


@pl.jit
def contracted(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor], f: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.sub(pl.mul(a, b), c)
        e[:] = pl.sub(pl.mul(a, b), pl.mul(a, b))
        f[:] = pl.sub(pl.add(a, 1e8), 1e8)
    return o, e, f


def test_every_operation_rounds():
    a, b = out(8, 8, fill=1.1), out(8, 8, fill=1.3)
    _, _, _, o, e, f = run(contracted, a, b, a * b, out(8, 8), out(8, 8), out(8, 8))
    bits(o, 0.0)  # a fused multiply-add leaves 3.09944e-08
    bits(e, 0.0)
    same(f, 0.0)  # not 1.1


@pl.jit
def transcendental(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = pl.exp(x)
        o[8:16, :] = pl.log(x)
        o[16:24, :] = pl.sqrt(x)
        o[24:32, :] = pl.rsqrt(x)
        o[32:40, :] = pl.recip(x)
        o[40:48, :] = pl.exp(pl.log(x))
    return o


def test_special_values_of_the_functions():
    x = np.tile(ROW, (8, 1))
    o = run(transcendental, x, out(48, 8))[1].reshape(6, 8, 8)[:, 0]
    bits(o[0][:5], [NAN, INF, 0.0, 1.0, 1.0])
    bits(o[1][:5], [NAN, INF, NAN, -INF, -INF])
    bits(o[1][6:], [0.0, NAN])
    with np.errstate(all="ignore"):
        bits(o[2], np.sqrt(ROW))
        bits(o[4], np.float32(1) / ROW)
    bits(o[3][:5], [NAN, 0.0, NAN, INF, -INF])
    bits(o[3][6:], [1.0, NAN])
    same(o[5][[1, 3, 4, 6]], [INF, 0, 0, 1])
    assert np.isnan(o[5][[0, 2, 7]]).all()


FE_UPWARD = 0x800  # of the x86 C library
FE_INVALID_AND_MORE = 0x3D


@pl.jit
def third(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.div(x, 3.0)
    return o


@pytest.mark.skipif("x86" not in __import__("platform").machine(), reason="the numbers of fenv.h are those of x86")
def test_the_callers_rounding_mode_neither_matters_nor_changes():
    x, o = np.ones((8, 8), np.float32), out(8, 8)
    third(x, o)
    libm = ctypes.CDLL("libm.so.6")
    before = libm.fegetround()
    libm.fesetround(FE_UPWARD)
    try:
        o[:] = -777
        third(x, o)
        assert libm.fegetround() == FE_UPWARD
    finally:
        libm.fesetround(before)
    bits(o, np.float32(1) / np.float32(3))


@pl.jit
def literals(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.read(c, [0])
        pl.write(o, [0], 0.0 - x)
        pl.write(o, [1], -x)
        pl.write(o, [2], x * 0.0)
        pl.write(o, [3], x + 0.0)
        pl.write(o, [4], x / 0.0)
        pl.write(o, [5], 0.1 + 0.2)
        pl.write(o, [6], -0.0)
        pl.write(o, [7], x - x)
    return o


def test_scalar_floats():
    f = np.float32
    for v in (0.0, -0.0, -2.0, INF):
        with np.errstate(all="ignore"):
            want = [f(0) - f(v), -f(v), f(v) * f(0), f(v) + f(0), f(v) / f(0), f(0.1) + f(0.2), -0.0, f(v) - f(v)]
        got = run(literals, np.float32([v]), out(8))[1]
        # Two literals are folded: either the sum of what they round to, or the rounded sum.
        assert got[5] in (want[5], f(0.1 + 0.2))
        bits(np.delete(got, 5), np.delete(np.float32(want), 5))


@pl.jit
def infinite(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8):
            v = pl.cast(pl.read(c, [i]), pl.FP32)
            t = pl.tile.full([1, 8], dtype=pl.FP32, value=1.0)
            pl.store(pl.div(t, v), [i, 0], o)
    return o


def test_division_by_run_time_scalars():
    same(run(infinite, cfg(0, 2, -4), out(8, 8))[1][:4, 0], [INF, 0.5, -0.25, INF])
