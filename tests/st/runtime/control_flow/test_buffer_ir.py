"""Numbers of branches and loops in Buffer IR, under each planner.

Each entry reads counts and flags from a tensor and calls one kernel with them, so that one artifact takes every path.  Each
call writes into a band of 32 rows: places that move with carried scalars, a result that shows a swap that went wrong, and the
input as it was.  What no path writes keeps its sentinel, which differs from band to band.
"""

import pytest

import pypto.language as pl
from runtime.buffer_kit import OTHER, UNWRITTEN, I, carried, check_explicit, config, planned, unwritten, whole

contract = pytest.mark.contract
pytestmark = pytest.mark.platforms("a2a3", "a2a3sim", reason="kernels for a5 stay in tile form")
X = whole(16, 64)


def bands(n):
    """An output of n bands with two sentinels by turns."""
    o = unwritten(32 * n, 64)
    for i in range(1, n, 2):
        o[32 * i : 32 * i + 32] = OTHER
    assert UNWRITTEN in o
    return o


def golden(one):
    """For each row of `c`, what `one` makes of its band."""

    def expected(t):
        out = t["o"].copy()
        for i, numbers in enumerate(t["c"].tolist()):
            one(t["x"], numbers, out[32 * i : 32 * i + 32])
        return out

    return expected


def final(band, x, a, b, row, column):
    """The end of every kernel: an expression that is not symmetric in the two tiles, and the input."""
    band[row : row + 8, column : column + 32] = 2 * a - b
    band[24:32, :32] = x[:8, :32]


# -- branches --------------------------------------------------------------------------------------------------------


@pl.jit.incore
def branch(x: pl.Tensor, o: pl.InOut[pl.Tensor], flag: I, n: I, band: I):
    a = pl.load(x, [0, 0], [8, 32])
    b = pl.load(x, [8, 32], [8, 32])
    if flag > 0:
        first, row, second, column, out = pl.yield_(pl.mul(a, b), n, a, n + 1, pl.store(b, [band + 8, 32], o))
    else:
        first, row, second, column, out = pl.yield_(b, n + 2, a, n, pl.store(a, [band + 8, 32], o))
    out = pl.store(pl.sub(pl.add(first, first), second), [band + row, column], out)
    out = pl.store(a, [band + 24, 0], out)
    return out


@pl.jit
def branches(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = branch(x, o, pl.cast(pl.read(c, [i, 0]), pl.INDEX), pl.cast(pl.read(c, [i, 1]), pl.INDEX), i * 32)
    return o


def one_arm(x, numbers, band):
    flag, n = numbers
    a, b = x[:8, :32], x[8:, 32:]
    band[8:16, 32:] = b if flag else a
    first, row, column = (a * b, n, n + 1) if flag else (b, n + 2, n)
    final(band, x, first, a, row, column)


@planned(branches, X, config([1, 0], [0, 0], [0, 3], [1, 5]), bands(4), golden=golden(one_arm))
@contract("B066", "B225", "B226", "B251", "B252")
def test_both_arms(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.mul", "buffer.copy", "buffer.store")
    assert carried(case_run) == [["index", "index"]]


# -- loops -----------------------------------------------------------------------------------------------------------


@pl.jit.incore
def counted(x: pl.Tensor, o: pl.InOut[pl.Tensor], count: I, band: I):
    a = pl.load(x, [0, 0], [8, 32])
    b = pl.load(x, [8, 32], [8, 32])
    for i, (left, row, right, column, out) in pl.range(count, init_values=(a, 0, b, 0, o)):
        written = pl.store(left, [band + 8, 32], out)
        left, row, right, column, out = pl.yield_(right, row + 1, left, column + 2, written)
    out = pl.store(pl.sub(pl.add(left, left), right), [band + row, column], out)
    out = pl.store(a, [band + 24, 0], out)
    return out


@pl.jit
def counts(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = counted(x, o, pl.cast(pl.read(c, [i, 0]), pl.INDEX), i * 32)
    return o


def swapped_each_round(x, numbers, band):
    (count,) = numbers
    left, right = x[:8, :32], x[8:, 32:]
    for _ in range(count):
        band[8:16, 32:] = left
        left, right = right, left
    final(band, x, left, right, count, 2 * count)


@planned(counts, X, config([0], [1], [2], [3]), bands(4), golden=golden(swapped_each_round))
@contract("B054", "B055", "B056", "B066", "B229", "B230", "B231", "B232", "B251", "B252")
def test_for_loops_with_0_to_3_rounds(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.copy", "buffer.store")
    assert carried(case_run) == [["index", "index"]]


@pl.jit.incore
def bounded(x: pl.Tensor, o: pl.InOut[pl.Tensor], count: I, band: I):
    a = pl.load(x, [0, 0], [8, 32])
    b = pl.load(x, [8, 32], [8, 32])
    for k, left, column, right, out in pl.while_(init_values=(0, a, 0, b, o)):
        pl.cond(k < count)
        written = pl.store(right, [band + 8, 32], out)
        k, left, column, right, out = pl.yield_(k + 1, right, column + 3, pl.add(left, left), written)
    out = pl.store(pl.sub(pl.add(left, left), right), [band + k, column], out)
    out = pl.store(a, [band + 24, 0], out)
    return out


@pl.jit
def bounds(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = bounded(x, o, pl.cast(pl.read(c, [i, 0]), pl.INDEX), i * 32)
    return o


def swapped_and_doubled(x, numbers, band):
    (count,) = numbers
    left, right = x[:8, :32], x[8:, 32:]
    for _ in range(count):
        band[8:16, 32:] = right
        left, right = right, left + left
    final(band, x, left, right, count, 3 * count)


@planned(bounds, X, config([3], [0], [2], [1]), bands(4), golden=golden(swapped_and_doubled))
@contract("B054", "B055", "B056", "B066", "B229", "B230", "B231", "B232", "B251", "B252")
def test_while_loops_with_0_to_3_rounds(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.copy", "buffer.add", "buffer.store")
    assert carried(case_run) == [["index", "index"]]


# -- nested ----------------------------------------------------------------------------------------------------------


@pl.jit.incore
def nest(x: pl.Tensor, o: pl.InOut[pl.Tensor], outer: I, inner: I, band: I):
    a = pl.load(x, [0, 0], [8, 32])
    b = pl.load(x, [8, 32], [8, 32])
    for i, (left, row, right, out) in pl.range(outer, init_values=(a, 0, b, o)):
        for k, (low, column, high, within) in pl.range(inner, init_values=(left, 0, right, out)):
            if k > 0:
                turned, step = pl.yield_(pl.sub(low, high), 2)
            else:
                turned, step = pl.yield_(pl.add(low, low), 1)
            kept = pl.store(turned, [band + 8, 32], within)
            low, column, high, within = pl.yield_(high, column + step, turned, kept)
        left, row, right, out = pl.yield_(high, row + column, low, within)
    out = pl.store(pl.sub(pl.add(left, left), right), [band + row, 0], out)
    out = pl.store(a, [band + 24, 0], out)
    return out


@pl.jit
def nests(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(5):
        o = nest(x, o, pl.cast(pl.read(c, [i, 0]), pl.INDEX), pl.cast(pl.read(c, [i, 1]), pl.INDEX), i * 32)
    return o


def inside_and_outside(x, numbers, band):
    outer, inner = numbers
    left, right, row = x[:8, :32], x[8:, 32:], 0
    for _ in range(outer):
        low, high, column = left, right, 0
        for k in range(inner):
            turned, step = (low - high, 2) if k else (low + low, 1)
            band[8:16, 32:] = turned
            low, column, high = high, column + step, turned
        left, row, right = high, row + column, low
    final(band, x, left, right, row, 0)


@planned(nests, X, config([0, 2], [2, 0], [1, 1], [2, 3], [3, 2]), bands(5), golden=golden(inside_and_outside))
@contract("B066", "B229", "B230", "B231", "B234", "B251", "B252", "B253")
def test_loops_in_loops_without_rounds_outside_or_inside(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.copy", "buffer.sub", "buffer.store")
    assert sorted(map(len, carried(case_run))) == [1, 1, 1]


# -- one source, two destinations ------------------------------------------------------------------------------------


@pl.jit.incore
def fan_out(x: pl.Tensor, o: pl.InOut[pl.Tensor], count: I, band: I):
    a = pl.load(x, [0, 0], [8, 32])
    b = pl.load(x, [8, 32], [8, 32])
    c = pl.load(x, [8, 0], [8, 32])
    for i, (source, first, second) in pl.range(count, init_values=(a, b, c)):
        source, first, second = pl.yield_(pl.sub(first, second), source, source)
    o = pl.store(source, [band + 8, 32], o)
    o = pl.store(pl.sub(pl.add(first, first), second), [band, 0], o)
    o = pl.store(a, [band + 24, 0], o)
    return o


@pl.jit
def fans(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = fan_out(x, o, pl.cast(pl.read(c, [i, 0]), pl.INDEX), i * 32)
    return o


def spread(x, numbers, band):
    (count,) = numbers
    source, first, second = x[:8, :32], x[8:, 32:], x[8:, :32]
    for _ in range(count):
        source, first, second = first - second, source, source
    band[8:16, 32:] = source
    final(band, x, first, second, 0, 0)


@planned(fans, X, config([2], [0], [3], [1]), bands(4), golden=golden(spread))
@contract("B229", "B230", "B252", "B253")
def test_one_tile_that_spreads_to_two(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.copy", "buffer.sub")
    assert carried(case_run) == [[]]
