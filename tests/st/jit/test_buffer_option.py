"""Who decides whether kernels become buffers: whoever asks, also where somebody else compiles."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest

import pypto.language as pl
from pypto import ir, passes
from pypto.enums import FunctionIRStage
from pypto.passes import PassContext

contract = pytest.mark.contract
X = np.ones((16, 64), np.float32)
ARGS = (X, X.copy())
either = pytest.mark.parametrize("on", [True, False])


@pl.jit
def doubled(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        pl.store(pl.add(t, t), [0, 0], o)
    return o


def has_buffers(program) -> bool:
    return any(f.ir_stage is FunctionIRStage.Buffer for f in program.function_list)


def last_dump(directory) -> str:
    return sorted(directory.rglob("*_after_*.py"))[-1].read_text()


@contract("B118")
@either
def test_contexts_for_dumps_keep_the_option(on, tmp_path):
    program = doubled.specialize(*ARGS)
    with PassContext([], enable_buffer_ir=on):
        compiled = ir.compile(program, output_dir=tmp_path / "a", dump_passes=True)
        made = passes.PassManager().run_passes(program, dump_ir=True, output_dir=tmp_path / "b")
    with PassContext([], enable_buffer_ir=on, platform="a5sim"):
        # Another platform is asked for: what is opened inside for it keeps the rest.
        other = ir.compile(program, platform="a2a3sim", output_dir=tmp_path / "c")
    assert has_buffers(compiled.lowered) == has_buffers(made) == has_buffers(other.lowered) == on
    for name in "abc":
        assert ("buffer.add" in last_dump(tmp_path / name)) == on
        assert bool(list((tmp_path / name).rglob("*_after_LowerTileToBuffer.py"))) == on


@contract("B118")
@either
def test_a_context_that_only_watches_says_so_for_itself(on):
    """A context that the user opens inside is a whole one of its own; it says what it wants."""
    seen = []
    watch = passes.CallbackInstrument(after_pass=lambda p, program: seen.append(p.get_name()))
    with PassContext([], enable_buffer_ir=on) as outer:
        with PassContext([watch], enable_buffer_ir=outer.get_enable_buffer_ir()):
            assert has_buffers(doubled.compile(*ARGS).lowered) == on
    assert ("LowerTileToBuffer" in seen) == on


@contract("B119")
@either
def test_compilations_for_debugging_use_the_option_of_whoever_asked(on):
    with PassContext([], enable_buffer_ir=on):
        compiled = doubled.compile(*ARGS)
        inside = compiled.memory_map().text()
        assert has_buffers(doubled.lower(*ARGS)) == on
    with PassContext([], enable_buffer_ir=not on):
        # Asked of what was compiled, under other options: it is shown as it was compiled.
        assert has_buffers(compiled.lowered) == on
        assert ("buffer.add" in compiled.inspect("buffer_ir")) == on
        assert ("Buffer stage" in compiled.inspect("c")) == on
        assert compiled.memory_map().text() == inside
        assert has_buffers(doubled.lower(*ARGS)) != on


@contract("B119")
@either
def test_workers_that_compile_ahead_use_the_option_of_whoever_asked(on):
    async def elsewhere():
        return await asyncio.to_thread(doubled.compile, *ARGS)

    with PassContext([], enable_buffer_ir=on):
        with ThreadPoolExecutor(1) as workers:
            ahead = workers.submit(copy_context().run, doubled.compile, *ARGS).result()
        tasks = asyncio.run(elsewhere())
        here = doubled.compile(*ARGS)
    assert ahead is tasks is here
    assert has_buffers(ahead.lowered) == on
