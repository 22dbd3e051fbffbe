"""Windows of tensors and tiles whose places and extents are run-time values, on the way that `@pl.jit` takes by default."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.ir import serialize
from pypto.passes import MemoryPlanner, PassContext
from pypto.testing import st
from runtime.buffer_kit import ALL_BUFFERS, I, check_explicit, final_program, planned, stages, unwritten, whole

contract = pytest.mark.contract
pytestmark = pytest.mark.platforms("a2a3", "a2a3sim", reason="kernels for a5 stay in tile form")


@pl.jit.incore
def moved_window(x: pl.Tensor, o: pl.InOut[pl.Tensor], at: I, left: I, rows: I, cols: I, to: I):
    t = pl.load(x, [at, left], [8, 64], valid_shape=[rows, cols])
    o = pl.store(pl.sub(pl.add(t, t), t), [to, left], o)
    return o


@pl.jit
def moved_windows(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    """Each row of `c`: where the window is read, how far it is valid, where it is written."""
    for i in pl.range(c.shape[0]):
        at = pl.cast(pl.read(c, [i, 0]), pl.INDEX)
        left = pl.cast(pl.read(c, [i, 1]), pl.INDEX)
        rows = pl.cast(pl.read(c, [i, 2]), pl.INDEX)
        cols = pl.cast(pl.read(c, [i, 3]), pl.INDEX)
        to = pl.cast(pl.read(c, [i, 4]), pl.INDEX)
        o = moved_window(x, o, at, left, rows, cols, to)
    return o


def moved(x, c, o):
    o = o.copy()
    for at, left, rows, cols, to in c:
        o[to : to + rows, left : left + cols] = x[at : at + rows, left : left + cols]
    return o


FIRST = np.array([[0, 0, 8, 64, 4], [9, 3, 5, 37, 20], [1, 0, 0, 64, 0], [1, 0, 8, 0, 30], [24, 32, 8, 64, 40]], np.int32)
# Full, partial and empty rectangles in other places, and none of them where the first ones were.
OTHERS = (
    np.array([[31, 95, 1, 1, 63], [0, 0, 0, 0, 0], [3, 17, 8, 64, 8], [16, 0, 1, 64, 1], [2, 32, 7, 63, 50]], np.int32),
    np.array([[0, 0, 0, 0, 63]] * 5, np.int32),
    np.array([[n, n, 8 - n, 64 - 9 * n, 8 * n] for n in range(5)], np.int32),
)
X = whole(32, 96)


def default_cases():
    """Cases that say nothing of Buffer IR."""
    return st.cases(
        *(
            st.case(
                moved_windows,
                X,
                FIRST,
                unwritten(64, 96),
                name=f"moved_windows-{p.name.lower()}",
                memory_planner=p,
                golden=lambda t: moved(t["x"], t["c"], t["o"]),
                rtol=0,
                atol=0,
            )
            for p in MemoryPlanner
        )
    )


@default_cases()
@contract("B029", "B120", "B122", "B145", "B252")
def test_default_dynamic_buffer_windows(case_run):
    """Offsets change, rectangles are full, partial and empty, in one artifact; what ran is what is looked at."""
    case_run.assert_passed()
    check_explicit(case_run, "buffer.set_validshape", "buffer.load", "buffer.add", "buffer.sub", "buffer.store")
    text = case_run.compiled.inspect("buffer_ir")
    assert "stays at tile stage" not in text
    with PassContext(memory_planner=case_run.case.memory_planner, platform=case_run.compiled.platform):
        for c in OTHERS:
            o = unwritten(64, 96)
            moved_windows(X, c, o)
            np.testing.assert_array_equal(o, moved(X, c, unwritten(64, 96)))
        same = moved_windows.compile(X, FIRST, unwritten(64, 96))
    assert same is case_run.compiled
    assert serialize(final_program(case_run)) == serialize(same.lowered)


# -- windows of tiles ------------------------------------------------------------------------------------------------


@pl.jit.incore
def window_of_a_window(x: pl.Tensor, o: pl.InOut[pl.Tensor], k: I, row: I):
    t = pl.load(x, [0, 0], [16, 64])
    outer = pl.slice(t, [8, 32], [k, 16])
    inner = pl.slice(outer, [4, 16], [k, 8])
    o = pl.store(pl.adds(inner, 1.0), [row, 0], o)
    return o


@pl.jit
def windows_of_windows(x: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for k in pl.range(5):
        o = window_of_a_window(x, o, k, k * 8)
    return o


def in_both_windows(t):
    out = t["o"].copy()
    for k in range(5):
        out[8 * k : 8 * k + 4, :16] = t["x"][2 * k : 2 * k + 4, 24:40] + 1
    return out


@planned(windows_of_windows, whole(16, 64), unwritten(40, 32), golden=in_both_windows)
@contract("B071", "B252")
def test_windows_of_windows(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.subview", "buffer.adds")


@pl.jit.incore
def over_itself(x: pl.Tensor, o: pl.InOut[pl.Tensor], k: I, row: I):
    t = pl.load(x, [0, 0], [16, 64])
    w = pl.slice(t, [8, 64], [k, 0])
    o = pl.store(pl.assemble(t, w, [4, 0]), [row, 0], o)
    return o


@pl.jit
def windows_over_themselves(x: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for k in pl.range(0, 9, 2):
        o = over_itself(x, o, k, k * 8)
    return o


def with_rows_put_over(t):
    out = t["o"].copy()
    for k in range(0, 9, 2):
        out[8 * k : 8 * k + 16] = t["x"]
        out[8 * k + 4 : 8 * k + 12] = t["x"][k : k + 8]
    return out


@planned(windows_over_themselves, whole(16, 64), unwritten(88, 64), golden=with_rows_put_over)
@contract("B077", "B188", "B252")
def test_a_window_assembled_over_its_source(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.subview", "buffer.copy")


@pl.jit
def relabelled(x: pl.Tensor, o: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        r = pl.reshape(pl.adds(t, 1.0), [32, 32])
        o = pl.store(pl.muls(r, 2.0), [8, 0], o)
    return o


def in_rows_of_32(t):
    out = t["o"].copy()
    out[8:40] = 2 * (t["x"].reshape(32, 32) + 1)
    return out


@planned(relabelled, whole(16, 64), unwritten(48, 32), golden=in_rows_of_32)
@contract("B252")
def test_one_allocation_in_two_shapes(case_run):
    case_run.assert_passed()
    assert stages(case_run) == ALL_BUFFERS
