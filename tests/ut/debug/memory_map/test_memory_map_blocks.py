"""Which tiles the memory map shows, on which bytes, from which statement to which."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from memory_map_kit import facts, kernels, line_of, load, only, placed

import pypto.language as pl
from pypto.codegen.native.device import build_access
from pypto.debug.memory_map import KernelMap, MemoryMap, memory_map
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import ArgumentValueError
from pypto.ir.rewrite import defined_vars
from pypto.ir.shaped import BufferType, TileType
from pypto.passes import PassContext
from pypto.passes.pipeline import lower

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
PLANNERS = list(MemoryPlanner)
FOR, LOAD, EXP, ACC, SLICE, STORE = (
    line_of(t) for t in ("for i in", "t = pl.load(x, [i", "u = pl.exp", "acc = pl.add", "v = pl.slice", "pl.store(pl.add(v")
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return kernels(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("buffers", [True, False])
def test_each_tile_on_its_bytes_for_its_time(made: ModuleType, buffers: bool) -> None:
    with PassContext(enable_buffer_ir=buffers):
        k = only(made.sums.memory_map())
    assert k.stage == ("Buffer" if buffers else "Tile")
    (vec,) = k.spaces
    assert facts(vec.blocks) == [
        ("acc", 0, 4096, FOR - 1, STORE + 1),
        ("t", 4096, 8192, LOAD, ACC),
        ("u", 8192, 12288, EXP, STORE if buffers else SLICE + 1),
        ("mul()", 4096, 8192, ACC, ACC),
        ("adds()", 4096, 5120, STORE, STORE),
    ]
    # A window costs a statement at tile stage; as a buffer it is other words for its whole.
    late = 0 if buffers else 1
    assert [(b.first, b.last) for b in vec.blocks] == [(0, 8 + 2 * late), (2, 4), (3, 6 + late), (4, 5), (6 + late, 7 + late)]
    assert [b.by for b in vec.blocks] == ["full", "load", "exp", "mul", "adds"]
    assert {b.dtype for b in vec.blocks} == {"FP32"}
    assert [b.shape for b in vec.blocks] == [(16, 64)] * 4 + [(8, 32)]
    words = ["full", "for", "load", "exp", "mul", "add", *(["slice"] if late else []), "adds", "store"]
    assert [s.what for s in k.statements][: len(words)] == words
    assert [s.depth for s in k.statements][:3] == [0, 0, 1]
    assert k.statements[3].text == "u = pl.exp(t)"
    assert k.statements[3].line == EXP


@pytest.mark.parametrize("buffers", [True, False])
def test_the_peak_and_what_limits_there(made: ModuleType, buffers: bool) -> None:
    with PassContext(enable_buffer_ir=buffers):
        vec = only(made.sums.memory_map()).space("Vec")
    assert (vec.capacity, vec.peak, vec.extent, vec.peak_at) == (184 << 10, 12288, 12288, (3, 4, 5))
    assert {b.name for b in vec.limiting} == {"acc", "t", "u"}
    assert (vec.hole, vec.free, vec.unused, vec.fragmentation) == (172 << 10, 172 << 10, 172 << 10, 0)
    assert [vec.occupied(n) for n in range(3)] == [4096, 4096, 8192]
    assert [b.name for b in vec.live(2)] == ["acc", "t"]
    # Two tiles on the same bytes, of which one statement reads the first and writes the second, count once.
    assert {b.name for b in vec.live(4)} == {"acc", "t", "u", "mul()"}
    assert vec.occupied(4) == 12288


def test_a_branch_holds_what_its_own_side_needs(made: ModuleType) -> None:
    with PassContext(enable_buffer_ir=False):
        m = made.both.memory_map(big=pl.RUNTIME)
    assert [k.name for k in m.kernels] == ["doubled", "squared"]
    k = m.kernel("squared")
    number = {s.what: s.ordinal for s in reversed(k.statements)}  # the first of each kind
    live = {what: sorted(b.name for b in k.space("Vec").live(n)) for what, n in number.items()}
    assert live["mul"] == ["kept", "r", "t"]
    assert live["yield"] == ["kept", "r"]
    assert live["add"] == ["kept", "r", "t"]
    assert live["store"] == ["add()"]
    lines = {name: [f[3:] for f in facts(k.space("Vec").blocks) if f[0] == name] for name in ("t", "kept", "r")}
    # `t` is there up to the one side's last use, and again in the other one; `r` is the same bytes whichever side made it.
    arms = line_of("r = pl.mul"), line_of("r = pl.add")
    end = line_of("pl.store(pl.add(r")
    assert lines == {"t": [(arms[0] - 3, arms[0]), (arms[1], arms[1])], "kept": [(arms[0] - 2, end)], "r": [(arms[0], end)]}
    with pytest.raises(KeyError, match="doubled, squared"):
        m.kernel("nothing")
    with pytest.raises(KeyError, match="no Acc memory"):
        k.space("Acc")


@pytest.mark.parametrize("buffers", [True, False])
def test_declared_allocations_are_marked(made: ModuleType, buffers: bool) -> None:
    with PassContext(enable_buffer_ir=buffers):
        vec = only(made.declared.memory_map()).space("Vec")
    assert [(b.name, b.declared) for b in vec.blocks] == [("a", True), ("b", False)]
    a, b = vec.blocks
    assert b.begin >= a.end or a.begin >= b.end


@pytest.mark.parametrize("buffers", [True, False])
def test_what_the_next_iteration_reads_is_there_from_the_write_on(made: ModuleType, buffers: bool) -> None:
    with PassContext(enable_buffer_ir=buffers):
        k = only(made.late.memory_map())
    at = {s.what: s.ordinal for s in k.statements}
    blocks = k.space("Vec").blocks
    assert {b.name for b in blocks} == {"t"}
    # Through the first read, and again from the load to the end of the iteration; not on the side that reads nothing.
    begins = at["for"] if buffers else at["create"]
    ends = at["load"] if buffers else max(n for n in range(len(k.statements)) if k.statements[n].depth == 1)
    assert [(b.first, b.last) for b in blocks] == [(begins, at["store"]), (at["load"], ends)]


@pytest.mark.parametrize("buffers", [True, False])
def test_a_tile_that_is_put_together_is_one(made: ModuleType, buffers: bool) -> None:
    with PassContext(enable_buffer_ir=buffers):
        k = only(made.halves.memory_map())
    blocks = {b.name: b for b in k.space("Vec").blocks}
    assert list(map(tuple, [blocks["whole"][1:3], blocks["whole"].shape])) == [(0, 4096), (16, 64)]
    assert (blocks["up"].begin, blocks["down"].begin) == (4096, 4096)
    assert set(blocks) == {"whole", "up", "down"}
    assert blocks["whole"].last_line == line_of("pl.store(whole")


def test_the_memories_of_the_matrix_unit(made: ModuleType) -> None:
    k = only(made.product.memory_map())
    assert [s.name for s in k.spaces] == ["Mat", "Left", "Right", "Acc"]
    assert [s.capacity >> 10 for s in k.spaces] == [512, 64, 64, 128]
    assert k.space("Mat").blocks[0].name == "a"
    assert k.tightest is not None
    assert k.tightest.name in ("Left", "Right")


def test_the_chip_decides_the_capacity(made: ModuleType) -> None:
    with PassContext(platform="a5sim"):
        m = made.sums.memory_map()
    assert (m.chip, only(m).space("Vec").capacity) == ("a5", 240 << 10)
    assert facts(only(m).space("Vec").blocks)[:2] == [
        ("acc", 0, 4096, FOR - 1, STORE + 1),
        ("t", 4096, 8192, LOAD, ACC),
    ]


def test_a_kernel_that_uses_no_memory(made: ModuleType) -> None:
    m = made.moved.memory_map(rows=pl.RUNTIME)
    assert m.kernels == () or only(m).spaces == ()


# -- the same by other rules -------------------------------------------------------------------------------------------


def all_examples() -> dict[str, tuple[str, tuple[object, ...]]]:
    x, row, half = np.zeros((40, 256), np.float32), np.zeros((1, 256), np.float32), np.zeros((40, 256), np.float16)
    return {
        "norms.softmax": ("norms", (x, x.copy())),
        "norms.rms_norm": ("norms", (x, row, x.copy())),
        "norms.layer_norm": ("norms", (half, row, row.copy(), half.copy())),
        "flash_attention.attention": ("flash_attention", ()),
        "paged_attention.decode": ("paged_attention", ()),
        "linear.linear": ("linear", ()),
    }


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", all_examples())
def test_no_two_tiles_are_at_one_place_at_one_time(name: str, planner: MemoryPlanner) -> None:
    file, args = all_examples()[name]
    kernel = getattr(load(EXAMPLES / f"{file}.py"), name.split(".")[1])
    with PassContext(memory_planner=planner, disabled_diagnostics=None):
        m = kernel.memory_map(*args)
    for k in m.kernels:
        assert k.spaces
        for s in k.spaces:
            for a, b in combinations(s.blocks, 2):
                apart = a.end <= b.begin or b.end <= a.begin
                # One statement may read the one for the last time and write the other.
                handed = a.last <= b.first or b.last <= a.first
                assert apart or handed, (k.name, s.name, a, b)
            check_sums(k, s.name)


def check_sums(k: KernelMap, name: str) -> None:
    """Peak, hole and extent, counted in blocks of 32 bytes one by one."""
    s = k.space(name)
    unit = 32
    used = np.zeros((len(k.statements), max(s.capacity, s.extent) // unit), bool)
    for b in s.blocks:
        used[b.first : b.last + 1, b.begin // unit : -(-b.end // unit)] = True
    assert all(b.begin % unit == 0 for b in s.blocks)
    if all(b.size % unit == 0 for b in s.blocks):
        sums = used.sum(1) * unit
        assert s.peak == sums.max()
        assert s.peak_at == tuple(np.flatnonzero(sums == s.peak))
        holes = [max(len(run) for run in "".join(map(str, (~row).astype(int))).split("0")) for row in used[list(s.peak_at)]]
        if s.placed:
            assert s.hole == min(holes) * unit
    assert s.extent == max(b.end for b in s.blocks)


# -- planners ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffers", [True, False])
@pytest.mark.parametrize("planner", [MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP])
def test_addresses_are_the_planners(made: ModuleType, planner: MemoryPlanner, buffers: bool) -> None:
    with PassContext(memory_planner=planner, enable_buffer_ir=False):
        program = made.sums.lower()
    (f,) = [f for f in program.function_list if f.is_device]
    tiles = [v.type for v in defined_vars(f) if isinstance(v.type, TileType)]
    starts = {t.memref.byte_offset_.value for t in tiles if t.memref is not None and t.dims == (16, 64)}  # type: ignore[attr-defined]
    with PassContext(memory_planner=planner, enable_buffer_ir=buffers):
        m = made.sums.memory_map()
    assert m.addresses == "planner"
    assert {b.begin for b in only(m).space("Vec").blocks if b.shape == (16, 64)} == starts


@pytest.mark.parametrize("buffers", [True, False])
def test_without_addresses_tiles_lie_where_native_code_puts_them(made: ModuleType, buffers: bool) -> None:
    with PassContext(memory_planner=MemoryPlanner.PTOAS, enable_buffer_ir=buffers) as context:
        m = made.sums.memory_map()
        program = lower(made.sums.specialize(), context.options).host
    vec = only(m).space("Vec")
    assert (m.addresses, vec.placed) == ("host", False)
    (f,) = [f for f in program.function_list if f.is_device]
    assert (f.ir_stage is FunctionIRStage.Buffer) is buffers
    access = build_access(f, addressed=False)
    views = {v.name_hint: w for v, w in access.views.items() if isinstance(v.type, (TileType, BufferType))}  # type: ignore[attr-defined]
    assert {b.name for b in vec.blocks} == {"acc", "t", "u", "mul()", "adds()"}
    for b in vec.blocks:
        assert (views[b.variable].low, views[b.variable].high) == (b.begin, b.end)
    # What is live at once, not the highest address, is what the assembler has to place.
    assert vec.used == vec.peak == 16384
    assert vec.extent == 17408


def test_without_addresses_the_copies_of_the_host_are_shown(made: ModuleType) -> None:
    with PassContext(memory_planner=MemoryPlanner.PTOAS, enable_buffer_ir=False) as context:
        vec = only(made.swapped.memory_map()).space("Vec")
        lanes = lower(made.swapped.specialize(), context.options)
    assert lanes.device.as_python() != lanes.host.as_python()
    assert [(b.begin, b.end, b.by) for b in vec.blocks] == [(0, 4096, "load"), (4096, 8192, "load"), (8192, 12288, "move")]


# -- by hand -----------------------------------------------------------------------------------------------------------


def load_at(name: str, rows: int, at: int) -> str:
    where = "target_memory=pl.Mem.Vec"
    return f"{name}: [{rows}, 64] @ {at} = pl.tile.load(x, [0, 0], [{rows}, 64], [{rows}, 64], {where})\n"


def test_the_largest_hole_may_lie_between_tiles() -> None:
    body = load_at("a", 16, 0) + load_at("b", 16, 100 << 10) + load_at("c", 16, 180 << 10)
    stores = "".join(f"s_{n}: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store({n}, [0, 0], o)\n" for n in "abc")
    (vec,) = only(placed(body + stores)).spaces
    assert (vec.peak, vec.peak_at, vec.extent) == (12288, (2, 3), 184 << 10)
    assert vec.hole == 96 << 10
    assert vec.unused == 0
    assert vec.fragmentation == pytest.approx(1 - 12 / 184)


def test_what_is_made_and_never_read_is_there_where_it_is_made() -> None:
    (vec,) = only(placed(load_at("a", 16, 0) + load_at("b", 16, 0))).spaces
    assert [(b.name, b.first, b.last) for b in vec.blocks] == [("a", 0, 0), ("b", 1, 1)]


def test_a_tile_from_outside_a_loop_is_needed_until_its_end() -> None:
    body = load_at("a", 16, 0) + load_at("b", 16, 4096)
    body += "for i in pl.range(n):\n    t: [16, 64] @ 8192 = pl.tile.add(a, a)\n"
    body += "    u: [16, 64] @ 8192 = pl.tile.muls(t, 2.0)\n    s: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store(u, [0, 0], o)\n"
    body += "e: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store(b, [0, 0], o)\n"
    (vec,) = only(placed(body)).spaces
    assert [(b.name, b.first, b.last) for b in vec.blocks] == [("a", 0, 5), ("b", 1, 6), ("t", 3, 4), ("u", 4, 5)]


@pytest.mark.parametrize("kind", ["for i, (c,) in pl.range(n, init_values=(a,)):", "for (c,) in pl.while_(init_values=(a,)):"])
def test_what_a_loop_carries_is_one_tile(kind: str) -> None:
    condition = "    pl.cond(n > 0)\n" if "while" in kind else ""
    body = load_at("a", 16, 0) + f"{kind}\n{condition}    t: [16, 64] @ 4096 = pl.tile.muls(c, 2.0)\n"
    body += "    c2: [16, 64] @ 0 = pl.tile.add(c, t)\n    r = pl.yield_(c2)\n"
    body += "e: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store(r, [0, 0], o)\n"
    k = only(placed(body))
    (vec,) = k.spaces
    assert [s.what for s in k.statements][1] == ("while" if "while" in kind else "for")
    assert [(b.name, b.begin, b.first, b.last) for b in vec.blocks] == [("a", 0, 0, 5), ("t", 4096, 2, 3)]


# -- how it is asked for -----------------------------------------------------------------------------------------------


def test_sample_arguments_the_last_compilation_and_a_compiled_program_agree(made: ModuleType) -> None:
    x = np.ones((64, 64), np.float32)
    by_annotation = made.sums.memory_map()
    made.sums(x, x.copy())
    assert made.sums.memory_map(x, x.copy()) == by_annotation
    assert made.sums.memory_map() == by_annotation
    with PassContext(memory_planner=MemoryPlanner.DSA_RP):
        compiled = made.sums.compile(x, x.copy())
        assert compiled.memory_map().planner == "DSA_RP"


def test_maps_do_not_change(made: ModuleType) -> None:
    m = made.sums.memory_map()
    for value, name in ((m, "chip"), (only(m), "name"), (only(m).spaces[0], "peak"), (only(m).spaces[0].blocks[0], "name")):
        with pytest.raises(AttributeError):
            setattr(value, name, "other")
    assert hash(m) == hash(made.sums.memory_map())


def test_a_program_before_planning_is_refused(made: ModuleType) -> None:
    with PassContext(enable_buffer_ir=False):
        program = made.sums.lower()
    mutated = program.with_functions(_without_places(f) if f.is_device else f for f in program.function_list)
    with pytest.raises(ArgumentValueError, match="tile 'acc' has no place in memory yet") as caught:
        memory_map(mutated, "a2a3sim", MemoryPlanner.PYPTO)
    assert "after all passes" in str(caught.value)


def _without_places(f):  # type: ignore[no-untyped-def]
    from pypto.ir.rewrite import Mutator

    class Unplaced(Mutator):
        def visit_tile_type(self, t):  # type: ignore[no-untyped-def]
            return t.replace(memref=None)

    return Unplaced().visit(f)


def test_as_dict_says_everything(made: ModuleType) -> None:
    m = made.sums.memory_map()
    assert isinstance(m, MemoryMap)
    d = m.as_dict()
    (k,) = d["kernels"]
    (vec,) = k["spaces"]
    assert (d["chip"], k["tightest"], vec["peak"], vec["free"], vec["peak_at"]) == ("a2a3", "Vec", 12288, 172 << 10, [3, 4, 5])
    assert vec["blocks"][0]["shape"] == [16, 64]
    assert k["statements"][3]["text"] == "u = pl.exp(t)"
