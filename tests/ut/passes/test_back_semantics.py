"""What the back half of the pipeline may not change: numbers.

Random kernels run on the interpreter before and after every pass, then under every planner with real addresses, at tile
stage and as buffers; the judges find nothing on what the planners made.
"""

import random

import numpy as np
import pytest
from pass_lab import FRONT, apply, copies, out, outputs, program
from random_kernels import buffer_arguments, buffer_kernel, tile_arguments, tile_kernel

from pypto.debug import Placement, run
from pypto.dtypes import DataType
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import VerificationError
from pypto.ir.expr import ConstInt, IterArg, Var
from pypto.ir.program import Program
from pypto.ir.rewrite import Mutator, defined_vars
from pypto.ir.shaped import TileType
from pypto.ir.verify.placement import overlapping_tiles
from pypto.ir.verify.tile_storage import check_storage
from pypto.passes.context import PassOptions
from pypto.passes.lower_tile_to_buffer import lower_tile_to_buffer
from pypto.passes.materialize_semantic_aliases import materialize_all_semantic_aliases
from pypto.passes.pipeline import ORDER, find_pass, lower

TILE_PASSES = ORDER[len(FRONT) : ORDER.index("materialize_semantic_aliases")]
PLANNERS = list(MemoryPlanner)
CONFIGS = [(0, 0, 16, 32), (1, 4, 11, 20), (3, 8, 1, 7)]


def placement(planner: MemoryPlanner) -> Placement:
    return Placement.PRIVATE if planner is MemoryPlanner.PTOAS else Placement.ADDRESSED


def executed(p: Program, args: list[object], how: Placement | None) -> list[bytes]:
    given = copies(args)
    run(p, "main", given, how)
    return [a.tobytes() for a in given if isinstance(a, np.ndarray)]


def nothing_overlaps(p: Program, planner: MemoryPlanner) -> None:
    addressed = planner is not MemoryPlanner.PTOAS
    for f in p.function_list:
        if f.is_device and f.ir_stage is FunctionIRStage.Functional:
            assert [x.text() for x in overlapping_tiles(f, addressed)] == []
            assert check_storage(f, addressed) == []


@pytest.mark.parametrize("seed", range(12))
def test_every_pass_keeps_the_numbers(seed):
    partial = "rows, cols" if seed % 2 else "11, 20"
    p = apply(tile_kernel(seed, partial), *FRONT)
    lists = [tile_arguments(*c) for c in CONFIGS]
    for name in TILE_PASSES:
        q = find_pass(name).run(p, PassOptions())
        if q is not p:
            for args in lists:
                assert executed(p, args, Placement.VALUES) == executed(q, args, Placement.VALUES), name
            assert find_pass(name).run(q, PassOptions()) is q, f"{name} is not idempotent"
        p = q


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("seed", range(20, 28))
def test_every_planner_gives_the_numbers(seed, planner):
    p = tile_kernel(seed, "rows, cols" if seed % 2 else "11, 20")
    host = lower(p, PassOptions(memory_planner=planner)).host
    nothing_overlaps(host, planner)
    for c in CONFIGS:
        args = tile_arguments(*c)
        assert executed(host, args, placement(planner)) == executed(p, args, Placement.VALUES)


@pytest.mark.contract("B166", "B167")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("seed", range(8))
def test_buffers_give_the_numbers(seed, planner):
    p = buffer_kernel(seed)
    options = PassOptions(memory_planner=planner)
    planned = {
        MemoryPlanner.PYPTO: ("memory_reuse", "allocate_memory_addr"),
        MemoryPlanner.DSA_RP: ("allocate_memory_addr",),
        MemoryPlanner.PTOAS: (),
    }[planner]
    q = p
    for name in (*FRONT, *TILE_PASSES):
        if name != "select_buffer_ir_functions":
            q = find_pass(name).run(q, options)
    q = materialize_all_semantic_aliases.run(q, options)
    for name in planned:
        q = find_pass(name).run(q, options)
    nothing_overlaps(q, planner)
    made = lower_tile_to_buffer.run(q, options)
    assert made.function_list[0].ir_stage is FunctionIRStage.Buffer
    assert lower_tile_to_buffer.run(made, options) is made
    for n, m in ((0, 0), (1, 4), (3, 8)):
        args = buffer_arguments(n, m)
        assert executed(made, args, None) == executed(p, args, Placement.VALUES)


class _Shift(Mutator):
    """An allocation, and all that lies in it, so many bytes further on."""

    def __init__(self, base: Var, by: int) -> None:
        super().__init__()
        self.base, self.by = base, by

    def define(self, v: Var) -> Var:
        if not isinstance(v.type, TileType) or v.type.memref is None or v.type.memref.base_ is not self.base:
            return super().define(v)
        to = ConstInt(start(v.type) + self.by, DataType.INT64)
        t = v.type.at(v.type.memref.replace(byte_offset_=to))
        made = IterArg(v.name_hint, t, self.visit(v.initValue)) if isinstance(v, IterArg) else Var(v.name_hint, t)
        self.vars[v] = made
        return made


def start(t: TileType) -> int:
    assert t.memref is not None
    assert isinstance(t.memref.byte_offset_, ConstInt)
    return t.memref.byte_offset_.value


def planned(p: Program, planner: MemoryPlanner) -> Program:
    """The kernel of buffers, when its tiles have got their addresses."""
    seen: dict[str, Program] = {}
    lower(p, PassOptions(memory_planner=planner), watch=lambda n, each, made: seen.setdefault(each.name, made))
    return seen["AllocateMemoryAddr"]


@pytest.mark.contract("B150")
@pytest.mark.parametrize("planner", [MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP])
def test_whatever_changes_a_number_is_found(planner):
    """Allocations moved at random: of each that makes a kernel compute something else the judge says so, and it is no buffers."""
    r, wrong = random.Random(7), 0
    for seed in range(6):
        p = planned(buffer_kernel(seed), planner)
        args = [buffer_arguments(n, m) for n, m in ((1, 4), (3, 8))]
        (f,) = p.function_list
        assert check_storage(f, True) == overlapping_tiles(f, True) == []
        lowered = lower_tile_to_buffer.run(p, PassOptions(planner))
        want = [executed(lowered, a, None) for a in args]
        tiles = [v.type for v in defined_vars(f.body) if isinstance(v.type, TileType) and v.type.memref is not None]
        for _ in range(8):
            moved, onto = r.sample(tiles, 2)
            by = start(onto) - start(moved) + 32 * r.choice([0, 0, 1, -1, 8])
            if start(moved) + by < 0 or moved.memref.base_ is onto.memref.base_:
                continue
            broken = p.with_functions([f.replace(body=_Shift(moved.memref.base_, by).body(f.body))])
            (g,) = broken.function_list
            found = [*overlapping_tiles(g, True), *check_storage(g, True)]
            differs = [executed(broken, a, Placement.ADDRESSED) for a in args] != want
            wrong += differs
            assert found or not differs, f"seed {seed}: {moved.memref} at {start(moved) + by}"
            if found:
                with pytest.raises(VerificationError):
                    lower_tile_to_buffer.run(broken, PassOptions(planner))
    assert wrong >= 10


TENSORS = """
@pl.function
def main(x: pl.Tensor[[16, 64], pl.FP32], v: pl.Tensor[[64], pl.FP32], w: pl.Tensor[[2, 8, 64], pl.FP32],
         c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]], u: pl.Out[pl.Tensor[[64], pl.FP32]]):
    n = pl.cast(pl.read(c, [0]), pl.INDEX)
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.sub(x, pl.row_max(x))
        for i in pl.range(n):
            e = pl.add(e, x)
        s = pl.row_sum(e)
    with pl.at(level=pl.Level.CORE_GROUP):
        z = pl.row_expand_add(e, s)
        o[:] = z
        u[:] = pl.adds(v, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        h = x[4:8, 32:64]
        o[8:12, 0:32] = pl.mul(h, 2.0)
        k = pl.read(v, [3])
        t = pl.reshape(pl.muls(x[12:16, :], k), [2, 128])
        o[0:2, 0:64] = t[:, 64:128]
    return o, u
"""


@pytest.mark.parametrize("planner", PLANNERS)
def test_tensor_level_programs_keep_the_numbers(planner):
    p = program(TENSORS)
    x = np.arange(1024, dtype=np.float32).reshape(16, 64) * 7 % 13 - 6
    v, w = np.arange(64, dtype=np.float32), np.ones((2, 8, 64), np.float32)
    host = lower(p, PassOptions(memory_planner=planner)).host
    nothing_overlaps(host, planner)
    for n in (0, 1, 3):
        config = np.zeros(8, np.int32)
        config[0] = n
        args = [x, v, w, config, out(16, 64), out(64)]
        assert executed(host, args, placement(planner)) == executed(p, args, Placement.VALUES)
    assert outputs(p, args)[5][3] == 4
