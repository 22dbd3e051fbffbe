"""Regions become loops over lanes: halves are extracts, wholes are carried, tensors that a region writes are carried too."""

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, raw_kernel, scope, through
from pass_lab import agree, out

from pypto.enums import ForKind, MemorySpace
from pypto.errors import CompileError
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt, SplitAivScopeStmt, YieldStmt, last_yield
from pypto.passes.context import PassOptions
from pypto.passes.infer_tile_memory_space import infer_tile_memory_space
from pypto.passes.lower_auto_vector_split import lower_auto_vector_split
from pypto.passes.pipeline import ORDER

F32 = "pl.Tensor[[32, 32], pl.FP32]"
PARAMS = f"x: {F32}, y: {F32}, o: pl.Out[{F32}]"
GATHERED = """
p = pl.matmul(x, y)
for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
    g = pl.aic_gather(pl.aiv_shard(p) * 2.0)
o[:] = pl.matmul(g, y)
"""
STORED = """
p = pl.matmul(x, y)
for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    o[lane * 16 : lane * 16 + 16, :] = pl.aiv_shard(p) + pl.cast(pl.get_subblock_idx(), pl.FP32)
"""


def lowered(text, params=PARAMS):
    p = scope(text, params)
    before, after = through(p, "resolve_backend_op_layouts"), through(p, "lower_auto_vector_split")
    k = kernel_of(after)
    assert not any(isinstance(n, SplitAivScopeStmt) for n in walk(k.body))
    assert not {"tile.aiv_shard", "tile.aic_gather", "tile.get_subblock_idx"} & set(applied(k))
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    agree(before, after, [x, y, out(32, 32)])
    return before, after


def lanes(p):
    (loop,) = [n for n in walk(kernel_of(p).body) if isinstance(n, ForStmt)]
    assert [e.value for e in (loop.start, loop.stop, loop.step)] == [0, 2, 1]
    assert loop.kind is ForKind.Sequential
    return loop


@pytest.mark.parametrize(("mode", "axis"), [("UP_DOWN", 0), ("LEFT_RIGHT", 1)])
def test_halves_and_wholes(mode, axis):
    _, after = lowered(GATHERED.format(mode=mode))
    k, loop = kernel_of(after), lanes(after)
    assert loop.loop_var.name_hint == "lane"
    half = call_of(k, "tile.extract")
    assert half.type.memory_space is MemorySpace.Vec
    assert half.type.dims == ((16, 32), (32, 16))[axis]
    (carried,) = loop.iter_args
    whole = call_of(k, "tile.assemble")
    assert whole.args[0] is carried
    assert carried.type.memory_space is MemorySpace.Mat
    assert carried.type.dims == (32, 32)
    assert applied(k).index("tile.create") < applied(k).index("tile.extract")


def test_the_lane_is_the_loop_variable_everywhere():
    _, after = lowered(STORED)
    loop = lanes(after)
    assert sum(n is loop.loop_var for n in walk(loop.body)) >= 3  # the half, where it is stored, what is added


def test_tensors_that_are_written_are_carried():
    _, after = lowered(STORED)
    loop = lanes(after)
    (carried,) = loop.iter_args
    k = kernel_of(after)
    assert carried.initValue is k.params[-1]
    store = call_of(k, "tile.store")
    assert store.args[2] is carried
    assert isinstance(last_yield(loop.body), YieldStmt)


def test_a_whole_that_nobody_reads_is_not_made():
    _, after = lowered(GATHERED.format(mode="UP_DOWN").replace("matmul(g, y)", "matmul(x, y)"))
    assert "tile.assemble" not in applied(kernel_of(after))
    assert lanes(after).iter_args == ()


def test_a_kernel_without_regions_is_the_same_object():
    p = through(scope("o[:] = pl.exp(x)", PARAMS), "resolve_backend_op_layouts")
    assert lower_auto_vector_split.run(p, PassOptions()).function_list[0] is p.function_list[0]
    assert kernel_of(lower_auto_vector_split.run(p, PassOptions())) is kernel_of(p)


@pytest.mark.contract("T162", "T167", "T168", "T170")
@pytest.mark.parametrize(("mode", "split"), [("UP_DOWN", 1), ("LEFT_RIGHT", 2)])
def test_tensor_forms_become_tile_forms_one_for_one(mode, split):
    k = kernel_of(through(scope(GATHERED.format(mode=mode), PARAMS), "convert_tensor_to_tile_ops"))
    names = applied(k)
    assert [n for n in names if "shard" in n or "gather" in n] == ["tile.aiv_shard", "tile.aic_gather"]
    assert names.count("tile.load") == 2  # x and y: none for the border
    shard, gather = call_of(k, "tile.aiv_shard"), call_of(k, "tile.aic_gather")
    assert shard.kwargs["split"] == gather.kwargs["split"] == split
    assert (shard.type.memory_space, gather.type.memory_space) == (MemorySpace.Vec, MemorySpace.Mat)


def test_what_passes_emit_for_the_only_statement_of_a_region_stands_in_it():
    text = """
v = pl.tile.load(x, [0, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)
with pl.split_aiv(2, mode=pl.SplitMode.NONE):
    o1 = pl.tile.store(v, [0, 0], o)
"""
    k = kernel_of(infer_tile_memory_space.run(raw_kernel(text, PARAMS), PassOptions()))
    (region,) = [n for n in walk(k.body) if isinstance(n, SplitAivScopeStmt)]
    assert [n.op.name for n in walk(region.body) if isinstance(n, Call)] == ["tile.move", "tile.store"]


def test_its_place_in_the_pipeline():
    assert ORDER.index("lower_auto_vector_split") == ORDER.index("resolve_backend_op_layouts") + 1


def test_one_of_several_tensors_cannot_leave():
    text = """
for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
    if lane == 0:
        z = pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], o)
    else:
        z = pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], w)
pl.store(pl.load(x, [0, 0], [8, 16]), [0, 0], z)
"""
    p = scope(text, f"x: {F32}, o: pl.Out[{F32}], w: pl.Out[{F32}]")
    with pytest.raises(CompileError, match="'z' may be one of several tensors") as e:
        through(p, "lower_auto_vector_split")
    assert e.value.hint
