"""Kernels in buffer form among tasks: what submissions give and wait for, and errors while such a kernel runs."""

from __future__ import annotations

import numpy as np
import pytest
from programs_kit import out, same, whole

import pypto.language as pl
from pypto.debug import run
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import KernelBoundsError
from pypto.ir.expr import Submit
from pypto.ir.rewrite import walk
from pypto.ir.structural import compare
from pypto.jit import driver
from pypto.passes import PassContext
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

contract = pytest.mark.contract
PLANNERS = list(MemoryPlanner)
T = pl.Tensor[[16, 64], pl.FP32]
I = pl.Scalar[pl.INDEX]  # noqa: E741


@pl.program
class tasks:
    @pl.function(type=pl.FunctionType.InCore)
    def doubled(self, x: T, n: I, o: pl.Out[T]) -> T:
        t = pl.load(x, [0, 0], [16, 64])
        for i in pl.range(n):
            t = pl.add(t, t)
        s = pl.store(t, [0, 0], o)
        return s

    @pl.function(type=pl.FunctionType.InCore)
    def largest_added(self, x: T, o: pl.InOut[T]) -> T:
        t = pl.load(x, [0, 0], [16, 64])
        w = pl.create_tile([16, 64], dtype=pl.FP32)
        s = pl.store(pl.row_expand_add(pl.load(o, [0, 0], [16, 64]), pl.row_max(t, w)), [0, 0], o)
        return s

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: T, n: I, o: pl.Out[T]) -> T:
        a, first = pl.submit(self.doubled, x, n, o)
        b, second = pl.submit(self.largest_added, x, a, deps=[first])
        c, _ = pl.submit(self.doubled, b, n, b, deps=[first, second])
        return c


def devices(planner):
    """The program with buffers and without."""
    return [lower(tasks, PassOptions(planner, on)).device for on in (True, False)]


@contract("B014", "B015", "B165")
@pytest.mark.parametrize("planner", PLANNERS)
def test_submissions_give_and_wait_for_the_same(planner):
    both = devices(planner)
    assert [f.ir_stage.name for f in both[0].function_list] == ["Buffer", "Functional", "Functional"]
    main, plain = (d.get_function("main") for d in both)
    found, wanted = ([n for n in walk(f.body) if isinstance(n, Submit)] for f in (main, plain))
    assert [n.type for n in found] == [n.type for n in wanted]
    assert [(len(n.deps), n.attrs["arg_directions"]) for n in found] == [(len(n.deps), n.attrs["arg_directions"]) for n in wanted]
    assert [len(n.deps) for n in found] == [0, 1, 2]
    assert compare(main, plain, auto_map=True) is None
    for f in both[1].function_list:
        g = both[0].get_function(f.name)
        assert (g.return_types, g.param_directions) == (f.return_types, f.param_directions)


@contract("B013", "B014", "B015")
@pytest.mark.parametrize("planner", PLANNERS)
def test_tasks_of_both_forms_give_the_same_numbers(planner):
    x = whole(16, 64)
    for device in devices(planner):
        for n in (0, 1, 2):
            o = out(16, 64)
            returned = run(device, "main", [x, n, o])
            same(o, (x * 2**n + x.max(axis=1, keepdims=True)) * 2**n)
            same(returned, o)


@pl.jit
def moving(x: pl.Tensor, at: I, rows: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [at, 0], [8, 64])
        u = pl.set_validshape(t, rows, 64)
        pl.store(pl.add(u, u), [at, 0], o)
    return o


WRONG = [
    pytest.param(25, 8, "leaves axis 0 of extent 32", marks=contract("B019")),
    pytest.param(-1, 8, "leaves axis 0 of extent 32", marks=contract("B019")),
    pytest.param(0, 9, "the valid extent 9 of axis 0 is not within 0..8", marks=contract("B144")),
    pytest.param(0, -1, "the valid extent -1 of axis 0 is not within 0..8", marks=contract("B144")),
]


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(("at", "rows", "words"), WRONG)
def test_an_error_while_a_kernel_of_buffers_runs_is_the_callers(at, rows, words, planner, monkeypatch):
    x, o = whole(32, 64), out(32, 64)
    with PassContext([], memory_planner=planner):
        (f,) = [f for f in moving.lower(x, 0, 8, o).function_list if f.is_device]
        assert f.ir_stage is FunctionIRStage.Buffer
        moving(x, 0, 8, o)
        same(o[:8], x[:8] * 2)
        builds = []
        monkeypatch.setattr(driver, "build", lambda *args, **kwargs: builds.append(args))
        with pytest.raises(KernelBoundsError, match=words) as e:
            moving(x, at, rows, out(32, 64))
        assert e.value.span["filename"] == __file__
        assert not builds  # and the kernel is not built anew in another form
        moving(x, 24, 8, o)
    same(o[24:], x[24:] * 2)


@contract("B144")
@pytest.mark.parametrize("rows", [9, -1])
def test_extents_that_leave_the_stored_tile_are_found_by_the_interpreter_too(rows):
    program = moving.lower(whole(32, 64), 0, 8, out(32, 64))
    with pytest.raises(KernelBoundsError, match=rf"valid extent {rows} of dimension 0 is not within 0\.\.8"):
        run(program, "moving", [whole(32, 64), 0, rows, out(32, 64)])


@pl.jit
def widened(x: pl.Tensor, y: pl.Tensor, n: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 64])
        u = pl.set_validshape(t, n, 64)
        pl.store(u, [0, 0], o)
        v = pl.set_validshape(u, 8, 64)
        pl.store(v, [8, 0], o)
    return o


@contract("B143", "B144")
@pytest.mark.parametrize("planner", PLANNERS)
def test_what_was_written_is_there_when_it_becomes_valid_again(planner):
    x = whole(8, 64)
    with PassContext([], memory_planner=planner):
        for n in (0, 3, 8):
            o = out(16, 64)
            widened(x, x, n, o)
            same(o[:n], x[:n])
            same(o[n:8], -777)
            same(o[8:], x)


@contract("B144")
def test_what_was_never_written_reads_as_nothing_in_particular():
    """The interpreter shows it as not a number; nothing writes zeros there."""

    x, o = whole(8, 64), out(16, 64)
    with PassContext([], enable_buffer_ir=True):
        program = unwritten.lower(x, 3, o)
    run(program, "unwritten", [x, 3, o])
    same(o[:3], x[:3])
    assert np.isnan(o[3:8]).all()


@pl.jit
def unwritten(x: pl.Tensor, n: I, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 64], valid_shape=[n, 64])
        u = pl.set_validshape(t, 8, 64)
        pl.store(u, [0, 0], o)
    return o
