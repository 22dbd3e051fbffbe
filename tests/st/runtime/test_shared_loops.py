"""Parallel loops around kernels: threads share their trips where the calls are proved apart, and nowhere else."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.codegen.native.unit import generate
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

N = pl.dynamic("N")
Rows = pl.Tensor[[N, 256], pl.FP32]


@pl.jit
def by_blocks(x: Rows, o: pl.Out[Rows]):
    for i in pl.parallel(pl.tensor.dim(x, 0) // 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[8 * i : 8 * i + 8, :] = x[8 * i : 8 * i + 8, :] * 2.0
    return o


@pl.jit
def by_rows(x: Rows, o: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[r : r + 8, :] * 2.0
    return o


@pl.jit
def by_computed_rows(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    for i in pl.parallel(n // 8):
        r = n - 8 - 8 * i
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[8 * i : 8 * i + 8, :] * 2.0
    return o


@pl.jit
def two_results(x: Rows, o: pl.Out[Rows], p: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[r : r + 8, :] * 2.0
            p[r : r + 8, :] = x[r : r + 8, :] + 1.0
    return o, p


@pl.jit
def nested(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    for h in pl.range(2):
        for i in pl.parallel(n // 16):
            r = n // 2 * h + 8 * i
            with pl.at(level=pl.Level.CORE_GROUP):
                o[r : r + 8, :] = x[r : r + 8, :] * 2.0
    return o


@pl.jit
def overlapping(x: Rows, o: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0) - 8, 7):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[r : r + 8, :] * 2.0
    return o


@pl.jit
def one_place(x: Rows, o: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[0:8, :] = x[r : r + 8, :] * 2.0
    return o


@pl.jit
def reads_the_next(x: pl.InOut[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0) - 8, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            x[r : r + 8, :] = x[r + 8 : r + 16, :] * 2.0
    return x


@pl.jit
def bends(x: Rows, o: pl.Out[Rows]):
    """Trips 0 and 1 write the same rows."""
    for i in pl.parallel(pl.tensor.dim(x, 0) // 8):
        r = i // 2 * 8
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[8 * i : 8 * i + 8, :] * 2.0
    return o


@pl.jit
def runs_back(x: Rows, o: pl.Out[Rows]):
    """One number goes up by as much as the other goes down."""
    for i in pl.parallel(pl.tensor.dim(x, 0) // 8):
        r = 8 * i
        s = -8 * i
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r + s : r + s + 8, :] = x[r : r + 8, :] * 2.0
    return o


@pl.jit
def two_kernels(x: Rows, o: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[r : r + 8, :] * 2.0
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = o[r : r + 8, :] + 1.0
    return o


@pl.jit
def given_twice(x: pl.InOut[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            x[r : r + 8, :] = x[r : r + 8, :] * 2.0
    return x


@pl.jit
def counts(x: Rows, o: pl.Out[Rows]):
    n = 0
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[r : r + 8, :] = x[r : r + 8, :] * 2.0
        n = n + 1
    return o


SHARED = (by_blocks, by_rows, by_computed_rows, two_results, nested)
APART = {
    overlapping: "'o' is written where another one may write",
    one_place: "'o' is written where another one may write",
    reads_the_next: "'x' is written where another one may read",
    bends: "'r' does not move by the same from trip to trip",
    runs_back: "'o' is written where another one may write",
    two_kernels: "a trip is not one call of a kernel",
}


def arguments(kernel):
    x = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    results = {two_results: 2, reads_the_next: 0, given_twice: 0}.get(kernel, 1)
    return (x, *(np.zeros_like(x) for _ in range(results)))


def loops(kernel):
    args = arguments(kernel)
    return [e.apart for e in generate(lower(kernel.specialize(*args), PassOptions()).host, kernel.__name__).loops]


@pytest.mark.parametrize("kernel", SHARED, ids=lambda k: k.__name__)
def test_trips_that_are_apart_are_shared(kernel):
    assert loops(kernel) == [None]


@pytest.mark.parametrize("kernel", APART, ids=lambda k: k.__name__)
def test_others_are_not_and_the_report_says_why(kernel):
    (why,) = loops(kernel)
    assert why == APART[kernel]
    assert "threads share no trips of the parallel loop of line" in kernel.inspect("report", *arguments(kernel))


@pytest.mark.parametrize("kernel", [*SHARED, *APART, given_twice, counts], ids=lambda k: k.__name__)
def test_results_are_those_of_the_loop_in_order(kernel):
    args = arguments(kernel)
    x = args[0].copy()
    made = kernel(*args)
    want = np.zeros_like(x)
    if kernel is two_results:
        np.testing.assert_array_equal(made[1], x + 1)
        made, want = made[0], x * 2
    elif kernel is overlapping:
        for r in range(0, 56, 7):
            want[r : r + 8] = x[r : r + 8] * 2
    elif kernel in (one_place, runs_back):
        want[0:8] = x[56:64] * 2
    elif kernel is bends:
        want[:32] = np.concatenate([x[16 * i + 8 : 16 * i + 16] for i in range(4)]) * 2
    elif kernel is by_computed_rows:
        want = np.concatenate([x[8 * i : 8 * i + 8] for i in reversed(range(8))]) * 2
    elif kernel is reads_the_next:
        want = np.concatenate([x[8:] * 2, x[56:]])
    else:
        want = x * 2 + (kernel is two_kernels)
    np.testing.assert_array_equal(made, want)


# -- loops inside loops ----------------------------------------------------------------------------------------------


@pl.jit
def tiles(x: Rows, o: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        for c in pl.parallel(0, 256, 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                o[r : r + 8, c : c + 64] = x[r : r + 8, c : c + 64] * 2.0
    return o


@pl.jit
def turned_about(x: Rows, o: pl.Out[Rows]):
    """The inner loop moves rows; both numbers of the window are computed."""
    n = pl.tensor.dim(x, 0)
    for c in pl.parallel(4):
        last = 192 - 64 * c
        for r in pl.range(n // 8):
            row = n - 8 - 8 * r
            with pl.at(level=pl.Level.CORE_GROUP):
                o[row : row + 8, last : last + 64] = x[row : row + 8, last : last + 64] * 2.0
    return o


@pl.jit
def halves(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    for h in pl.parallel(2):
        for i in pl.range(n // 16):
            for c in pl.range(0, 256, 128):
                r = n // 2 * h + 8 * i
                with pl.at(level=pl.Level.CORE_GROUP):
                    o[r : r + 8, c : c + 128] = x[r : r + 8, c : c + 128] * 2.0
    return o


@pl.jit
def adds_up(x: Rows, o: pl.InOut[Rows]):
    """The inner trips go over the same rows, one after the other."""
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        for c in pl.range(0, 256, 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                o[r : r + 8, 0:64] = o[r : r + 8, 0:64] * 0.5 + x[r : r + 8, c : c + 64]
    return o


@pl.jit
def triangle(x: Rows, o: pl.Out[Rows]):
    for i in pl.parallel(pl.tensor.dim(x, 0) // 8):
        for j in pl.range(0, i + 1):
            with pl.at(level=pl.Level.CORE_GROUP):
                o[8 * i : 8 * i + 8, 32 * j : 32 * j + 32] = x[8 * i : 8 * i + 8, 32 * j : 32 * j + 32] * 2.0
    return o


@pl.jit
def one_behind(x: Rows, o: pl.Out[Rows]):
    """Trips of the outer loop are apart if the inner one stands still, which it does not."""
    n = pl.tensor.dim(x, 0)
    for h in pl.parallel(2):
        for i in pl.range(n // 8 - 1):
            with pl.at(level=pl.Level.CORE_GROUP):
                o[8 * i + 8 * h : 8 * i + 8 * h + 8, :] = x[8 * i + 8 * h : 8 * i + 8 * h + 8, :] * 2.0
    return o


def expected(kernel, x):
    if kernel is adds_up:
        o = x * 0
        for c in range(0, 256, 64):
            o[:, :64] = o[:, :64] * np.float32(0.5) + x[:, c : c + 64]
        return o
    o = x * 2
    if kernel is triangle:
        for i in range(8):
            o[8 * i : 8 * i + 8, 32 * (i + 1) :] = 0
    return o


@pytest.mark.parametrize(
    ("kernel", "shared"), [(tiles, 2), (turned_about, 2), (adds_up, 1)], ids=lambda k: getattr(k, "__name__", k)
)
def test_a_nest_is_shared_as_far_as_its_trips_are_apart(kernel, shared):
    assert loops(kernel) == [None]
    assert f"_{shared}_k_{kernel.__name__}_incore_0(" in kernel.inspect("c", *arguments(kernel))


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (triangle, "how often the loop inside it turns differs from trip to trip"),
        (one_behind, "'o' is written where another one may write"),
        (halves, "'r' does not move by the same from trip to trip"),
    ],
    ids=lambda k: getattr(k, "__name__", ""),
)
def test_nests_that_are_not(kernel, why):
    assert loops(kernel) == [why]


@pytest.mark.parametrize("kernel", [tiles, turned_about, halves, adds_up, triangle, one_behind], ids=lambda k: k.__name__)
def test_a_nest_does_what_it_does_in_order(kernel):
    args = arguments(kernel)
    want = expected(kernel, args[0])
    np.testing.assert_array_equal(kernel(*args), want)


def test_no_trips_at_all():
    empty = np.zeros((0, 256), np.float32)
    assert by_blocks(empty, empty.copy()).shape == (0, 256)
    short = np.ones((5, 256), np.float32)
    np.testing.assert_array_equal(by_blocks(short, np.zeros_like(short)), 0 * short)
