"""The default pipeline: its order, its two lanes, and whole kernels through it."""

import numpy as np
import pytest
from pass_lab import agree, body, ints, out, outputs

from pypto import passes
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.pipeline import ORDER, default_pipeline, find_pass, lower

PYPTO, PTOAS, DSA_RP = MemoryPlanner.PYPTO, MemoryPlanner.PTOAS, MemoryPlanner.DSA_RP
TILES = "a: pl.Tensor[[16, 8], pl.FP32], c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[32, 8], pl.FP32]]"
A = np.repeat(np.float32([1, 2]), 8)[:, None] * np.ones((1, 8), np.float32)
SWAP = """
with pl.at(level=pl.Level.CORE_GROUP):
    ta = pl.load(a, [0, 0], [8, 8])
    tb = pl.load(a, [8, 0], [8, 8])
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    for i in pl.range(n):
        if i == 3:
            break
        t = tb
        tb = pl.add(ta, tb)
        ta = t
    pl.store(ta, [0, 0], o)
    pl.store(tb, [8, 0], o)
with pl.at(level=pl.Level.CORE_GROUP):
    m = pl.load(a, [0, 0], [16, 8])
    w = pl.create_tile([16, 8], dtype=pl.FP32, target_memory=pl.Mem.Vec)
    pl.store(pl.row_expand_add(m, pl.row_sum(m, w)), [16, 0], o)
return o
"""


def argument_lists():
    return [[A, ints(n), out(32, 8)] for n in (0, 1, 2, 5)]


def test_passes_run_in_the_order_of_the_list():
    names = default_pipeline(PassOptions()).names
    assert names == [find_pass(n).name for n in ORDER]
    assert names.count("Simplify") == 2
    assert [n.lower() for n in names] == [n.replace("_", "") for n in ORDER]


@pytest.mark.parametrize("planner", list(MemoryPlanner))
@pytest.mark.parametrize("buffers", [True, False])
def test_planners_and_buffer_ir_choose_the_passes(planner, buffers):
    names = set(default_pipeline(PassOptions(planner, buffers)).names)
    assert ("MemoryReuse" in names) == (planner is PYPTO)
    assert ("AllocateMemoryAddr" in names) == (planner is not PTOAS)
    for n in ("SelectBufferIRFunctions", "VerifyTileStorage", "LowerTileToBuffer"):
        assert (n in names) == buffers


@pytest.mark.parametrize("planner", [PYPTO, PTOAS])
@pytest.mark.parametrize("buffers", [True, False])
def test_both_lanes_keep_the_numbers(planner, buffers):
    p = body(SWAP, TILES)
    low = lower(p, PassOptions(planner, buffers), level=1)
    agree(p, low.host, *argument_lists())
    assert outputs(low.host, argument_lists()[3])[2][:16:8, 0].tolist() == [5, 8]


def test_written_forms_hold_after_every_pass():
    lower(body(SWAP, TILES), PassOptions(), level=2)


def test_functions_that_the_lanes_treat_alike_are_shared():
    low = lower(body(SWAP, TILES), PassOptions())
    device = {f.name: f for f in low.device.function_list}
    same = [f.name for f in low.host.function_list if device[f.name] is f]
    stages = {f.name: f.ir_stage for f in low.device.function_list}
    assert "main" in same
    # Kernels that were lowered to buffers are the same; a kernel that stays at tile stage is the host's own affair.
    for name, stage in stages.items():
        if stage is FunctionIRStage.Buffer:
            assert name in same
    selected_only = body(
        "with pl.at(level=pl.Level.CORE_GROUP):\n    pl.store(pl.load(a, [0, 0], [8, 8]), [0, 0], o)\nreturn o", TILES
    )
    both = lower(selected_only, PassOptions())
    assert both.host is both.device


def test_the_watcher_sees_the_device_lane():
    seen = []
    low = lower(body(SWAP, TILES), PassOptions(), watch=lambda n, p, program: seen.append((n, p.name, program)))
    assert [s[0] for s in seen] == list(range(1, len(ORDER) + 1))
    assert [s[1] for s in seen] == default_pipeline(PassOptions()).names
    assert seen[-1][2] is low.device


# -- PassManager ---------------------------------------------------------------------------------------------------


def test_the_manager_lists_and_runs_the_passes(tmp_path, capsys):
    manager = passes.PassManager.get_strategy(passes.OptimizationStrategy.Default)
    assert manager.pass_names == manager.get_pass_names() == [p.get_name() for p in manager.passes]
    p = body(SWAP, TILES)
    after = manager.run_passes(p, dump_ir=True, output_dir=tmp_path / "dumps")
    files = sorted(f.name for f in (tmp_path / "dumps").iterdir())
    assert files[0] == "00_frontend.py"
    assert files[1:] == [f"{i:02d}_after_{n}.py" for i, n in enumerate(manager.pass_names, 1)]
    assert "pl.range" in (tmp_path / "dumps" / "00_frontend.py").read_text()
    assert {f.name for f in after.function_list} == {"main", "main_incore_0", "main_incore_1"}
    capsys.readouterr()


def test_what_the_manager_refuses():
    with pytest.raises(ValueError, match="Unsupported optimization strategy"):
        passes.PassManager("O3")
    manager = passes.PassManager()
    p = body(SWAP, TILES)
    with pytest.raises(ValueError, match="output_dir"):
        manager.run_passes(p, dump_ir=passes.PassDumpLevel.EXPLICIT)
    with pytest.raises(ValueError, match="Program"):
        manager.run_passes(p.function_list[0], dump_ir=True, output_dir="unused")
    with PassContext([], memory_planner=PTOAS), pytest.raises(RuntimeError, match="memory_planner"):
        manager.run_passes(p)
    with PassContext([], enable_buffer_ir=False), pytest.raises(RuntimeError, match="enable_buffer_ir"):
        manager.run_passes(p)


def test_diagnostics_run_where_the_context_says(capsys, tmp_path):
    p = body("d = pl.read(c, [0])\n" + SWAP.strip(), TILES)
    passes.PassManager().run_passes(p)
    assert "'d' is assigned but never read" in capsys.readouterr().err
    with PassContext([], diagnostic_phase=passes.DiagnosticPhase.NONE):
        passes.PassManager().run_passes(p)
    assert capsys.readouterr().err == ""
    with PassContext([passes.ReportInstrument(tmp_path)], disabled_diagnostics=[passes.DiagnosticCheck.UnusedVariable]):
        passes.PassManager().run_passes(p)
    assert "'d' is assigned" not in capsys.readouterr().err


def test_the_older_place_of_the_manager():
    from pypto.ir import pass_manager

    assert pass_manager.PassManager is passes.PassManager
