"""Blocks that wait for each other: what the others wrote before a barrier is there behind it, in every way of running them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab import ALL, agree, everywhere

import pypto.language as pl
from pypto import ir
from pypto.debug import interpret
from pypto.errors import CompileError, InvalidOperationError, KernelError, NotSupportedError, ParserTypeError
from pypto.passes.context import PassContext

BLOCKS, ROWS = 4, 4 * 8
F32 = np.float32


def numbers(blocks: int = BLOCKS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((blocks * 8, 32), dtype=F32)


def blank(blocks: int = BLOCKS) -> np.ndarray:
    return np.full((blocks * 8, 32), -7, F32)


def space(blocks: int = BLOCKS) -> np.ndarray:
    return np.zeros((1, blocks * 8), np.int32)


@pl.jit
def turned(a: pl.Tensor, s: pl.InOut[pl.Tensor], w: pl.InOut[pl.Tensor], o: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        n = pl.get_block_num()
        t = pl.load(a, [b * 8, 0], [8, 32])
        w = pl.store(pl.mul(t, 2.0), [b * 8, 0], w)
        pl.system.syncall(mode="soft", gm_workspace=s, used_cores=n)
        o = pl.store(pl.add(pl.load(w, [(n - 1 - b) * 8, 0], [8, 32]), t), [b * 8, 0], o)
    return o


def test_a_block_reads_what_others_wrote() -> None:
    a = numbers()
    got = everywhere(turned, a, space(), blank(), blank(), ways=ALL)
    parts = a.reshape(BLOCKS, 8, 32)
    np.testing.assert_array_equal(got[3], (parts[::-1] * F32(2) + parts).reshape(ROWS, 32))


@pl.jit
def rounds(a: pl.Tensor, s: pl.InOut[pl.Tensor], w: pl.InOut[pl.Tensor], n: pl.INT32, o: pl.Out[pl.Tensor]):
    with pl.spmd(4, name_hint="passing"):
        b = pl.get_block_idx()
        t = pl.load(a, [b * 8, 0], [8, 32])
        h = pl.array.create(4, pl.INDEX)
        for k in pl.range(n):
            w = pl.store(t, [b * 8, 0], w)
            h[b] = h[b] + 1
            pl.system.syncall(mode="soft", gm_workspace=s)
            t = pl.add(t, pl.load(w, [(b + k + 1) % 4 * 8, 0], [8, 32]))
            if k % 2 == 0:
                pl.system.syncall(mode="soft", gm_workspace=s)
            else:
                h[0] = h[0] + 10
                pl.system.syncall("aiv_only", "soft", s)
        o = pl.store(pl.mul(t, pl.cast(pl.cast(h[0], pl.INT32), pl.FP32)), [b * 8, 0], o)
    return o


def test_in_loops_and_branches_that_all_blocks_take() -> None:
    calls = [(numbers(), space(), blank(), n, blank()) for n in range(4)]
    for (a, _, _, n, _), got in zip(calls, agree(rounds, *calls), strict=True):
        t = a.reshape(BLOCKS, 8, 32).copy()
        for k in range(n):
            t = t + np.stack([t[(b + k + 1) % BLOCKS] for b in range(BLOCKS)])
        h = np.array([n + n // 2 * 10] + [n // 2 * 10] * 3, F32)
        np.testing.assert_array_equal(got[3].reshape(t.shape), t * h[:, None, None])


@pl.jit
def filled(a: pl.Tensor, w: pl.InOut[pl.Tensor], o: pl.Out[pl.Tensor]):
    for b in pl.spmd(24, sync_start=True):
        w = pl.store(pl.neg(pl.load(a, [b * 8, 0], [8, 32])), [b * 8, 0], w)
        pl.system.syncall()
        o = pl.store(pl.load(w, [(23 - b) * 8, 0], [8, 32]), [b * 8, 0], o)
    return o


def test_a_hard_barrier_of_a_launch_that_fills_the_chip() -> None:
    a = numbers(24)
    got = everywhere(filled, a, blank(24), blank(24))
    np.testing.assert_array_equal(got[2].reshape(24, 8, 32), -a.reshape(24, 8, 32)[::-1])


def test_the_text_says_it() -> None:
    from pypto.codegen.pto import module_of
    from pypto.passes.pipeline import lower

    made = lower(filled.specialize(numbers(24), blank(24), blank(24))).host
    (text,) = (module_of([f], "a2a3", True, False) for f in made.function_list if f.is_device)
    assert "pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>" in text
    soft = lower(turned.specialize(numbers(), space(), blank(), blank())).host
    (kernel,) = (f for f in soft.function_list if f.is_device)
    with pytest.raises(NotSupportedError, match="a barrier that counts in global memory"):
        module_of([kernel], "a2a3", True, False)


# -- faults ------------------------------------------------------------------------------------------------------------


@pl.jit
def missing(c: pl.Tensor, s: pl.InOut[pl.Tensor], o: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        if pl.read(c, [0, b]) > 0:
            pl.system.syncall(mode="soft", gm_workspace=s)
        pl.write(o, [b * 8, 0], 1.0)
    return o


@pytest.mark.parametrize("present", [(0, 1, 1, 1), (1, 1, 1, 0), (0, 0, 1, 0)])
def test_a_block_that_never_comes(present: tuple[int, ...]) -> None:
    c = np.zeros((1, 8), np.int32)
    c[0, :4] = present
    first, waiting = present.index(0), sum(present)
    words = f"block {first} has ended while {waiting} blocks wait for it at a syncall"
    for call in (missing, missing, lambda *args: interpret(missing.specialize(*args), args)):
        with pytest.raises(KernelError, match=words) as caught:
            call(c, space(), blank())
        assert caught.value.source_lines[0].strip() == 'pl.system.syncall(mode="soft", gm_workspace=s)'
    for all_or_none in (0, 1):
        c[0, :4] = all_or_none
        assert (everywhere(missing, c, space(), blank())[2][::8, 0] == 1).all()


@pl.jit
def failing(c: pl.Tensor, s: pl.InOut[pl.Tensor], o: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        pl.system.syncall(mode="soft", gm_workspace=s)
        h = pl.array.create(2, pl.INT32)
        h[pl.read(c, [0, b])] = 1
        pl.system.syncall(mode="soft", gm_workspace=s)
        pl.write(o, [b * 8, 0], pl.cast(h[0], pl.FP32))
    return o


def test_a_fault_between_barriers_ends_them_all() -> None:
    c = np.zeros((1, 8), np.int32)
    c[0, 2] = 5
    for call in (failing, lambda *args: interpret(failing.specialize(*args), args)):
        o = blank()
        with pytest.raises(IndexError, match="element 5 of an array of 2"):
            call(c, space(), o)
        np.testing.assert_array_equal(o, blank())


@pl.jit
def counted(s: pl.InOut[pl.Tensor], n: pl.INT32, o: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        pl.system.syncall("aiv_only", "soft", s, n)
        pl.write(o, [b * 8, 0], 1.0)
    return o


def test_as_many_cores_as_blocks() -> None:
    assert (everywhere(counted, space(), 4, blank())[1][::8, 0] == 1).all()
    for call in (counted, lambda *args: interpret(counted.specialize(*args), args)):
        with pytest.raises(KernelError, match="a barrier of 12 cores in a launch of 4 blocks"):
            call(space(), 12, blank())


# -- refused -----------------------------------------------------------------------------------------------------------

SPMD = "for b in pl.spmd({launch}):\n    {body}\n    pl.write(o, [b * 8, 0], 1.0)"


def refused(folder: Any, lines: str, kind: type[Exception], words: str, line: str) -> None:
    import importlib.util

    head = "import pypto.language as pl\n\n@pl.jit\ndef k(s: pl.Tensor, o: pl.Out[pl.Tensor]):\n"
    path = folder / "refused.py"
    path.write_text(head + "".join(f"    {x}\n" for x in lines.split("\n")) + "    return o\n")
    spec = importlib.util.spec_from_file_location("refused", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    with pytest.raises(kind) as caught:
        made.k(space(), blank())
    assert words in str(caught.value), str(caught.value)
    assert caught.value.source_lines[0].strip() == line  # type: ignore[attr-defined]
    assert caught.value.hint  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("pl.system.syncall(core_type='vector')", "'core_type' is 'vector'"),
        ("pl.system.syncall(mode='quick')", "'mode' is 'quick'"),
        ("pl.system.syncall(gm_workspace=s)", "a hard barrier has no workspace"),
        ("pl.system.syncall(mode='soft')", "it needs 'gm_workspace'"),
        ("pl.system.syncall(mode='soft', gm_workspace=o)", "the workspace holds INT32, not fp32"),
        ("pl.system.syncall(mode='soft', gm_workspace=s, used_cores=0)", "'used_cores' is 0"),
        ("pl.system.syncall(used_cores=4)", "'used_cores' goes with 'gm_workspace'"),
        ("pl.system.sync_set(16, pipe=pl.PipeType.MTE3)", "event 16"),
        ("pl.system.sync_set(0, pipe='V')", "'pipe' must be a pl.PipeType"),
        ("pl.system.sync_set(0, pipe=pl.PipeType.V, ffts_mode=3)", "'ffts_mode' is 3"),
        ("pl.system.sync_wait(0, pipe=pl.PipeType.V, core_type='x')", "'core_type' is 'x'"),
        ("pl.system.sync_wait(0)", "missing required argument 'pipe'"),
        ("pl.system.set_ffts(o)", "the workspace of flags holds integers"),
        ("j = pl.system.task_dummy(deps=[])", "inside a kernel"),
    ],
)
def test_operands_that_mean_nothing(tmp_path: Any, body: str, words: str) -> None:
    refused(tmp_path, SPMD.format(launch="4", body=body), InvalidOperationError, words, body)


@pytest.mark.parametrize(
    ("launch", "body", "words"),
    [
        ("4", "pl.system.syncall()", "a hard syncall (mix) in a launch of 4 blocks"),
        ("24", "pl.system.syncall()", "need not begin together"),
        ("24, sync_start=True", "pl.system.syncall('aiv_only')", "there are 48"),
        ("36, sync_start=True", "pl.system.syncall('aic_only')", "there are 24"),
    ],
)
def test_a_hard_barrier_of_a_launch_that_leaves_cores_out(tmp_path: Any, launch: str, body: str, words: str) -> None:
    refused(tmp_path, SPMD.format(launch=launch, body=body), CompileError, words, f"for b in pl.spmd({launch}):")


def test_another_chip_has_other_cores() -> None:
    with PassContext(platform="a5sim"), pytest.raises(CompileError, match="there are 36"):
        filled(numbers(24), blank(24), blank(24))


def test_one_block_is_no_launch(tmp_path: Any) -> None:
    lines = "with pl.at(level=pl.Level.CORE_GROUP):\n    pl.system.syncall()\n    pl.write(o, [0, 0], 1.0)"
    refused(tmp_path, lines, CompileError, "in a launch of 1 block", "with pl.at(level=pl.Level.CORE_GROUP):")


def test_not_outside_of_kernels_and_not_in_lanes(tmp_path: Any) -> None:
    refused(tmp_path, "pl.system.syncall()", InvalidOperationError, "Misplaced system op", "pl.system.syncall()")
    lanes = "with pl.at(level=pl.Level.CORE_GROUP):\n    for l in pl.split_aiv(2, mode=pl.SplitMode.NONE):\n"
    lanes += "        pl.system.syncall()"
    refused(tmp_path, lanes, InvalidOperationError, "a barrier inside of a vector-lane region", "pl.system.syncall()")


def test_it_gives_nothing(tmp_path: Any) -> None:
    line = "x = pl.system.syncall('mix', 'soft', s)"
    refused(tmp_path, SPMD.format(launch="4", body=line), ParserTypeError, "returns nothing", line)


# -- flags and prefetches ----------------------------------------------------------------------------------------------


@pl.jit
def told(a: pl.Tensor, s: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.system.set_ffts(s)
        ctx: pl.PrefetchAsyncContext = pl.prefetch.make_context()
        event = pl.prefetch.async_prefetch(a, ctx)
        session = pl.prefetch.session(ctx)
        t = pl.load(a, [0, 0], [8, 32])
        pl.system.sync_set(3, pipe=pl.PipeType.MTE3, ffts_mode=2)
        pl.prefetch.wait(event, session)
        for i in pl.range(2):
            pl.system.sync_wait(i, pipe=pl.PipeType.V, core_type="aiv_only")
        o = pl.store(pl.exp(t), [0, 0], o)
    return o


def test_flags_and_prefetches_change_no_number() -> None:
    a = numbers(1)
    plain = everywhere(told, a, np.zeros((1, 8), np.int64), blank(1))[2]
    np.testing.assert_allclose(plain, np.exp(a), rtol=1e-6)


@pl.jit
def told_to_all(o: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        pl.system.sync_set(0, pipe=pl.PipeType.MTE3, ffts_mode=0)
        pl.write(o, [b * 8, 0], 1.0)
    return o


def test_a_flag_between_blocks_is_not_executed() -> None:
    for call in (told_to_all, lambda *args: interpret(told_to_all.specialize(*args), args)):
        with pytest.raises(NotSupportedError, match="a flag between blocks") as caught:
            call(blank())
        assert caught.value.source_lines[0].strip().startswith("pl.system.sync_set")


# -- tasks -------------------------------------------------------------------------------------------------------------


@pl.jit
def waited(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.manual_scope():
        with pl.at(level=pl.Level.CORE_GROUP) as first:
            o = pl.store(pl.load(a, [0, 0], [8, 32]), [0, 0], o)
        j = pl.system.task_dummy(deps=[first, None])
        k = pl.system.task_dummy(deps=[j])
        with pl.at(level=pl.Level.CORE_GROUP, deps=[j, k]):
            o = pl.store(pl.neg(pl.load(o, [0, 0], [8, 32])), [0, 0], o)
    return o


def test_a_task_that_only_waits() -> None:
    a = numbers(1)
    np.testing.assert_array_equal(everywhere(waited, a, blank(1))[1], -a)


@pl.program
class Graph:
    @pl.function(type=pl.FunctionType.InCore)
    def part(
        self,
        a: pl.Tensor[[8, 32], pl.FP32],
        u: pl.Out[pl.Tensor[[16, 32], pl.FP32]],
        i: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[16, 32], pl.FP32]:
        return pl.store(pl.add(pl.load(a, [0, 0], [8, 32]), 1.0), [i * 8, 0], u)

    @pl.function(type=pl.FunctionType.InCore)
    def join(self, u: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        return pl.store(pl.mul(pl.load(u, [0, 0], [16, 32]), 2.0), [0, 0], o)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        a: pl.Tensor[[8, 32], pl.FP32],
        u: pl.InOut[pl.Tensor[[16, 32], pl.FP32]],
        o: pl.Out[pl.Tensor[[16, 32], pl.FP32]],
    ) -> pl.Tensor[[16, 32], pl.FP32]:
        with pl.manual_scope():
            ids = pl.array.create(2, pl.TASK_ID)
            for i in pl.range(2):
                u, t = pl.submit(self.part, a, u, i)
                ids[i] = t
            j = pl.system.task_dummy(deps=[ids])
            o, last = pl.submit(self.join, u, o, deps=[j, ids[0], None])
        return o


def test_arrays_of_task_ids() -> None:
    a, u, o = numbers(1), blank(2), blank(2)
    want = np.concatenate([a, a]) + F32(1)
    interpret(Graph, (a, u, o), "main")
    np.testing.assert_array_equal(o, want * 2)
    u, o = blank(2), blank(2)
    ir.compile(Graph)(a, u, o)
    np.testing.assert_array_equal(u, want)
    np.testing.assert_array_equal(o, want * 2)
    ir.assert_structural_equal(pl.parse(Graph.as_python()), Graph)


@pytest.mark.parametrize("deps", ["[s]", "s", "[1]"])
def test_lists_of_other_things(tmp_path: Any, deps: str) -> None:
    line = f"j = pl.system.task_dummy(deps={deps})"
    refused(tmp_path, line, ParserTypeError, "deps", line)
