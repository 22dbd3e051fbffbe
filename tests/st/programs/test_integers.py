"""Integer arithmetic: floor division and remainder as Python's, wrapping in the type's own width, wide accumulation."""

import numpy as np
import pytest
from programs_kit import agree, cfg, out, run, same

import pypto.language as pl
from pypto.errors import ParserTypeError

MIN, MAX = -(2**31), 2**31 - 1
#        a    b     //    %    pl.div, which truncates
CASES = [
    (7, 2, 3, 1, 3),
    (-7, 2, -4, 1, -3),
    (7, -2, -4, -1, -3),
    (-7, -2, 3, -1, 3),
    (-1, 4, -1, 3, 0),
    (1, -4, -1, -3, 0),
    (6, -3, -2, 0, -2),
    (0, -5, 0, 0, 0),
    (MIN, 2, -1073741824, 0, -1073741824),
    (MIN, -1, MIN, 0, MIN),
    (MIN, 1, MIN, 0, MIN),
    (MIN, MIN, 1, 0, 1),
    (MAX, -2, -1073741824, -1, -1073741823),
    (5, 0, 0, 0, 0),
    (-5, 0, 0, 0, 0),
    (0, 0, 0, 0, 0),
    (MIN, 0, 0, 0, 0),
]


@pl.jit
def scalars(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.read(c, [0])
        b = pl.read(c, [1])
        q = a // b
        r = a % b
        pl.write(o, [0], q)
        pl.write(o, [1], r)
        pl.write(o, [2], q * b + r)
    return o


def test_scalar_division():
    got = agree(scalars, *([cfg(a, b), out(8, dtype=np.int32)] for a, b, *_ in CASES))
    for (a, b, q, r, _), g in zip(CASES, got, strict=True):
        same(g[1][:3], [q, r, a if b else 0])


@pl.jit
def tiles(x: pl.Tensor, y: pl.Tensor, q: pl.Out[pl.Tensor], r: pl.Out[pl.Tensor], d: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [8, 32])
        b = pl.load(y, [0, 0], [8, 32])
        pl.store(a // b, [0, 0], q)
        pl.store(a % b, [0, 0], r)
        pl.store(pl.div(a, b), [0, 0], d)
    return q, r, d


def test_tile_division():
    x, y = np.zeros((8, 32), np.int32), np.ones((8, 32), np.int32)
    want = [x.copy(), x.copy(), x.copy()]
    for i, (a, b, *results) in enumerate(CASES):
        for at in (i, 255 - i):  # in the vector body and in the tail
            x.reshape(-1)[at], y.reshape(-1)[at] = a, b
            for w, v in zip(want, results, strict=True):
                w.reshape(-1)[at] = v
    got = run(tiles, x, y, *(out(8, 32, dtype=np.int32) for _ in range(3)))
    for g, w in zip(got[2:], want, strict=True):
        same(g, w)


@pytest.mark.parametrize("dtype", [np.int32, np.int16])
def test_tile_division_of_many_numbers(dtype):
    r = np.random.default_rng(7)
    limits = np.iinfo(dtype)
    x = r.integers(limits.min, limits.max, (8, 32), endpoint=True).astype(dtype)
    y = r.integers(-9, 10, (8, 32)).astype(dtype)
    with np.errstate(all="ignore"):
        wide, by = x.astype(np.int64), np.where(y == 0, 1, y).astype(np.int64)
        q, m = np.where(y == 0, 0, wide // by), np.where(y == 0, 0, wide % by)
        t = np.where(y == 0, 0, np.sign(wide) * np.sign(by) * (abs(wide) // abs(by)))
    got = run(tiles, x, y, *(out(8, 32, dtype=dtype) for _ in range(3)))
    for g, w in zip(got[2:], (q, m, t), strict=True):
        same(g, w)


def by_constant(d):
    @pl.jit
    def divided(x: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 32])
            n = pl.read(c, [0])
            pl.store(t // d, [0, 0], o)
            pl.store(t % d, [8, 0], o)
            pl.store(pl.divs(t, d), [16, 0], o)
            pl.store(t // n, [24, 0], o)
            pl.store(t % n, [32, 0], o)
            pl.store(pl.divs(t, n), [40, 0], o)
            pl.store(pl.mods(pl.floordivs(t, 3), 5), [48, 0], o)
        return o

    return divided


@pytest.mark.parametrize("d", [4, -4, 7, 1, -1])
def test_division_by_scalars(d):
    """Powers of two too: a shift would round pl.divs down, a mask would forget the sign."""
    x = np.random.default_rng(3).integers(MIN, MAX, (8, 32), endpoint=True).astype(np.int32)
    x[0, :6] = MIN, MAX, -1, 0, 1, -8
    wide = x.astype(np.int64)
    q, m, t = (
        (wide // d).astype(np.int32),
        (wide % d).astype(np.int32),
        (np.sign(wide) * np.sign(d) * (abs(wide) // abs(d))).astype(np.int32),
    )
    got = run(by_constant(d), x, cfg(d), out(56, 32, dtype=np.int32))[2]
    same(got, np.vstack([q, m, t, q, m, t, wide // 3 % 5]))


def folded(a, b):
    @pl.jit
    def constants(c: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            n = pl.cast(pl.read(c, [0]), pl.INDEX)
            pl.write(o, [0], pl.cast(a // b, pl.INT32))  # folded while compiling
            pl.write(o, [1], pl.cast(a % b, pl.INT32))
            pl.write(o, [2], pl.cast(n // b, pl.INT32))  # one constant, one run-time operand
            pl.write(o, [3], pl.cast(n % b, pl.INT32))
            pl.write(o, [4], pl.cast(a // pl.cast(pl.read(c, [1]), pl.INDEX), pl.INT32))
            pl.write(o, [5], pl.cast(a % pl.cast(pl.read(c, [1]), pl.INDEX), pl.INT32))
            pl.write(o, [6], pl.cast(pl.cast(pl.read(c, [0]), pl.INT64) // b, pl.INT32))
            pl.write(o, [7], pl.cast(pl.cast(pl.read(c, [0]), pl.INT64) % pl.cast(pl.read(c, [1]), pl.INT64), pl.INT32))
        return o

    return constants


@pytest.mark.parametrize(("a", "b", "q", "r"), [(-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (-1, 4, -1, 3)])
def test_folding_and_run_time_agree(a, b, q, r):
    same(run(folded(a, b), cfg(a, b), out(8, dtype=np.int32))[1], [q, r] * 4)


@pl.jit
def offsets(x: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        for i in pl.range((n % 5) // 2):  # in bounds and offsets of negative and positive numbers
            row = ((i - 3) % 4) * 8
            pl.store(pl.load(x, [row, 0], [8, 8]), [((n + i) % 4) * 8, 0], o)
    return o


def test_remainders_in_loop_bounds_and_offsets():
    x = np.arange(256, dtype=np.float32).reshape(32, 8)
    numbers = (-1, 4, 9, -6, 0)
    for n, g in zip(numbers, agree(offsets, *([x, cfg(n), out(32, 8)] for n in numbers)), strict=True):
        want = out(32, 8)
        for i in range((n % 5) // 2):
            row, to = ((i - 3) % 4) * 8, ((n + i) % 4) * 8
            want[to : to + 8] = x[row : row + 8]
        same(g[2], want)


@pl.jit
def by_zero(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(o, [0], pl.read(c, [0]) // 0)
    return o


def test_a_constant_zero_divisor_is_an_error_at_its_place():
    o = out(8, dtype=np.int32)
    with pytest.raises(ParserTypeError, match="division by zero") as e:
        by_zero(cfg(5), o)
    span = e.value.span
    assert span["filename"] == __file__
    assert e.value.source_lines[0][span["column"] - 1 :].startswith("pl.read(c, [0]) // 0")
    same(o, -777)


# -- wrapping ------------------------------------------------------------------------------------------------------


@pl.jit
def wrap(x: pl.Tensor, p: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        p[:] = pl.add(x, 1)
        m[:] = pl.mul(x, x)
        n[:] = pl.neg(x)
    return p, m, n


@pytest.mark.parametrize("dtype", [np.int32, np.int16])
def test_elements_wrap_in_their_own_width(dtype):
    limits = np.iinfo(dtype)
    x = np.resize(np.array([limits.max, limits.min, 257, -1, limits.max // 2 + 1, 0], dtype), (8, 16))
    got = run(wrap, x, *(out(8, 16, dtype=dtype) for _ in range(3)))
    with np.errstate(over="ignore"):
        for g, w in zip(got[1:], (x + dtype(1), x * x, -x), strict=True):
            same(g, w)


@pl.jit
def wrapping_scalars(c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.read(c, [0])
        b = pl.read(c, [1])
        pl.write(o, [0], a + b)
        pl.write(o, [1], a - b)
        pl.write(o, [2], a * b)
        pl.write(o, [3], -a)
        if a + 1 > a:  # must not become true
            r = pl.const(1, pl.INT32)
        else:
            r = pl.const(0, pl.INT32)
        pl.write(o, [4], r)
        pl.write(o, [5], pl.min(a, b))
        pl.write(o, [6], pl.max(a, b))
    return o


def test_scalars_wrap_too():
    cases = [(MAX, MAX), (MIN, 1), (65537, 65537), (-3, 7)]
    for (a, b), g in zip(cases, agree(wrapping_scalars, *([cfg(a, b), out(8, dtype=np.int32)] for a, b in cases)), strict=True):
        low = np.array([a + b, a - b, a * b, -a]).astype(np.int32)
        same(g[1][:7], [*low, int(a != MAX), min(a, b), max(a, b)])


# -- sums ----------------------------------------------------------------------------------------------------------


@pl.jit
def row_sums(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.row_sum(x)
    return o


@pl.jit
def col_sums(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.col_sum(x)
    return o


@pl.jit
def row_products(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.row_prod(x)
    return o


@pytest.mark.parametrize(
    ("x", "want"),
    [
        (np.full((8, 128), 100, np.int32), 12800),
        (np.full((16, 400), 100, np.int16), -25536),  # 40000 wraps
        (np.ones((16, 2560), np.float16), 2560),  # FP32 inside, rounded once
        (np.full((8, 16), 2**30, np.int32), 0),
    ],
)
def test_row_sums(x, want):
    same(run(row_sums, x, out(len(x), 1, dtype=x.dtype))[1], want)


def test_column_sums_and_products():
    same(run(col_sums, np.ones((2560, 16), np.float16), out(1, 16, dtype=np.float16))[1], 2560)
    same(run(col_sums, np.full((300, 16), 2**24, np.int32), out(1, 16, dtype=np.int32))[1], (300 * 2**24) - 2**32)
    x = np.ones((16, 64), np.float16)
    x[:, :3] = 65504, 65504, 2.0**-20
    same(run(row_products, x, out(16, 1, dtype=np.float16))[1], np.float16(65504.0 * 65504 * 2.0**-20))
    same(run(row_products, np.full((8, 40), 3, np.int32), out(8, 1, dtype=np.int32))[1], np.array(3**40).astype(np.int32))


@pl.jit
def split_sum(x: pl.Tensor, whole: pl.Out[pl.Tensor], parts: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.create_tile([8, 512], dtype=x.dtype, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(pl.load(x, [0, 0], [8, 512]), w), [0, 0], whole)
        s = pl.load(x, [0, 0], [8, 64])
        for i in pl.range(1, 8):
            s = pl.add(s, pl.load(x, [0, i * 64], [8, 64]))
        v = pl.create_tile([8, 64], dtype=x.dtype, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(s, v), [0, 0], parts)
    return whole, parts


def test_a_sum_in_parts_is_the_sum():
    """Integers exactly; floats in the documented order: 64 lanes by column, each in order, then folded."""
    x = np.random.default_rng(1).integers(MIN, MAX, (8, 512)).astype(np.int32)
    _, a, b = run(split_sum, x, out(8, 1, dtype=np.int32), out(8, 1, dtype=np.int32))
    same(a, x.astype(np.int64).sum(1, keepdims=True).astype(np.int32))
    same(b, a)
    x = np.random.default_rng(2).standard_normal((8, 512), dtype=np.float32)
    _, a, b = run(split_sum, x, out(8, 1), out(8, 1))
    same(b, a)
    np.testing.assert_allclose(a, x.sum(1, keepdims=True, dtype=np.float64), rtol=1e-4, atol=1e-5)
