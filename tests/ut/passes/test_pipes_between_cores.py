"""The passes behind ExpandMixedKernel: memory of pipes, how the lanes share what they pass, slots freed as filled, loops."""

import pytest
from back_lab import raw, scope, through
from pass_lab import apply, findings
from test_expand_mixed_kernel import PARAMS, PRODUCT, call, expanded, side, whole

from pypto.enums import ForKind, MemoryPlanner, MemorySpace, ParamDirection
from pypto.errors import CompileError, NotSupportedError
from pypto.ir.expr import Call, ConstInt, const_index
from pypto.ir.printer import python_print
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, flatten_to_stmts, seq
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import DEFAULT, STRUCTURAL, verify
from pypto.passes.context import PassOptions
from pypto.passes.inject_gm_pipe_buffer import with_launches
from pypto.passes.pipeline import find_pass, lower, split_program

VECTOR = PRODUCT + "pl.store(pl.exp(x), [0, 0], o)"
PAIR = """
@pl.program
class test:
    @pl.function(type=pl.FunctionType.AIV)
    def v(o: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        slots: pl.Scalar[pl.INT32] = pl.system.reserve_buffer(name="s", size=4096)
        pl.system.aiv_initialize_pipe(slots, pl.const(0, pl.INT32), dir_mask=1, slot_size=1024)
        {body}
        return
"""
POP = "t: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic([8, 16], [8, 16], dtype=pl.FP32, split=1, id=2)"


# -- InjectGMPipeBuffer --


def test_global_memory_of_a_pipe_comes_from_orchestration():
    p = apply(expanded(VECTOR), "inject_gm_pipe_buffer")
    assert not verify({*DEFAULT, *STRUCTURAL}, p)
    for kind in ("AIC", "AIV", "Group"):
        f = side(p, kind)
        assert f.params[-1].name_hint == "__gm_pipe_buffer"
        assert f.param_directions[-1] is ParamDirection.Out
        assert f.params[-1].type.dims == (2 * 32 * 32,)
    opened = call(side(p, "AIC"), "system.aic_initialize_pipe")
    assert opened.args[2] is side(p, "AIC").params[-1]
    main = next(f for f in p.function_list if f.name == "main")
    made = next(s.var for s in walk(main.body) if isinstance(s, AssignStmt) and s.value.op.name == "tensor.create")
    assert call(main, "main_incore_0").args[-1] is made


@pytest.mark.parametrize(("counts", "rows"), [((4,), "4"), ((1,), ""), ((4, 2), "k"), (("n",), "k"), ((4, "call"), "4")])
def test_global_memory_of_a_launch_has_a_row_for_each_block(counts, rows):
    """Also where launches differ, or only a run knows how many blocks there are, or a call is of one block."""
    p = with_launches(whole(VECTOR))
    kernel = next(f for f in p.function_list if f.is_device)
    main = next(f for f in p.function_list if f.name == "main")
    n = next(v for v in main.params if v.name_hint == "n")
    (launch,) = [s for s in flatten_to_stmts(main.body) if kernel.name in {c.op.name for c in walk(s) if isinstance(c, Call)}]

    def told(s, count):
        blocks = {} if count == "call" else {"core_num": n if count == "n" else const_index(count)}
        c = s.value if isinstance(s, AssignStmt) else s.expr
        return EvalStmt(c.replace(attrs={**c.attrs, **blocks}), s.span)

    body = seq([told(launch, count) for count in counts], main.body.span)
    p = with_launches(p.with_functions(f.replace(body=body, return_types=()) if f is main else f for f in p.function_list))
    p = apply(apply(p, "expand_mixed_kernel"), "inject_gm_pipe_buffer")
    for kind in ("AIC", "AIV", "Group"):
        *leading, size = side(p, kind).params[-1].type.shape
        assert size.value == 2 * 32 * 32
        assert [d.value if isinstance(d, ConstInt) else "k" for d in leading] == [int(x) if x.isdigit() else x for x in rows]
    main = next(f for f in p.function_list if f.name == "main")
    made = [s.var.type.shape for s in walk(main.body) if isinstance(s, AssignStmt) and s.value.op.name == "tensor.create"]
    shown = [d[0].value if isinstance(d[0], ConstInt) else d[0].name_hint for d in made]
    assert shown == ([2048] if not rows else [4] * len(counts) if rows == "4" else list(counts))


def test_chips_that_pass_tiles_directly_need_none():
    p = expanded(VECTOR)
    assert find_pass("inject_gm_pipe_buffer").run(p, PassOptions(platform="a5sim")) is p


def test_other_programs_stay():
    p = whole("pl.store(pl.exp(pl.load(c, [0, 0], [32, 32])), [0, 0], o)")
    assert apply(p, "inject_gm_pipe_buffer") is p


# -- SplitVectorKernel --


def test_a_function_says_how_its_lanes_share():
    p = apply(raw(PAIR.format(body=POP)), "split_vector_kernel")
    assert side(p, "AIV").attrs["split"] == 1
    assert "split" not in side(apply(expanded(VECTOR), "split_vector_kernel"), "AIV").attrs


def arms(p: Program) -> list[list[str]]:
    """What lane 0 and lane 1 of the vector core apply, getting room left out."""
    (choice,) = [s for s in flatten_to_stmts(side(p, "AIV").body) if isinstance(s, IfStmt)]
    found = [choice.then_body, *([choice.else_body] if choice.else_body is not None else [])]
    return [[n.op.name for n in walk(b) if isinstance(n, Call) and n.op.name != "tile.create"] for b in found]


def test_what_lanes_do_not_share_is_done_by_one():
    body = PRODUCT + "y = pl.exp(x)\nfor i in pl.range(n):\n    pl.store(y, [i, 0], o)\npl.store(pl.matmul(y, y), [0, 0], p)"
    before = expanded(body)
    p = apply(before, "split_vector_kernel")
    assert not verify({*DEFAULT, *STRUCTURAL}, p)
    first, second = arms(p)
    assert first.count("tile.exp") == first.count("tile.store") == 1
    pipes = [n for n in first if "push" in n or "pop" in n or "free" in n]
    assert pipes == [n for n in second if n != "tile.set_validshape"]
    pushed = [n for n in walk(side(p, "AIV").body) if isinstance(n, Call) and n.op.name == "tile.tpush_to_aic"]
    assert [[d.value for d in c.args[0].type.valid] for c in pushed] == [[32, 32], [32, 32], [0, 0], [0, 0]]
    assert side(p, "AIV").attrs["dual_aiv_dispatch"] is True
    assert apply(p, "split_vector_kernel") is p


def test_lanes_that_pass_nothing_need_no_second_arm():
    body = "pl.store(pl.exp(pl.load(c, [0, 0], [32, 32])), [0, 0], p)\n" + PRODUCT + "pl.store(x, [0, 0], o)"
    assert arms(apply(expanded(body), "split_vector_kernel")) == [["tile.load", "tile.exp", "tile.store"]]


def test_lanes_that_need_not_start_together_do_not():
    p = expanded(VECTOR)
    assert find_pass("split_vector_kernel").run(p, PassOptions(platform="a5sim")) is p


def test_lanes_with_a_list_of_tasks_both_work():
    body = (
        PRODUCT
        + """
pl.store(x, [0, 0], o)
for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
    for i in pl.range(lane, 4, 2):
        pl.store(pl.exp(pl.load(c, [i * 8, 0], [8, 32])), [i * 8, 0], p)
"""
    )
    p = apply(expanded(body), "split_vector_kernel")
    assert side(p, "AIV").attrs["dual_aiv_dispatch"] is True
    assert not [s for s in walk(side(p, "AIV").body) if isinstance(s, IfStmt)]


def test_lanes_share_in_one_way():
    body = (
        POP
        + "\n        u: pl.Tile[[8, 16], pl.FP32, pl.Mem.Vec] = pl.tile.tpop_from_aic([8, 16], [8, 16], dtype=pl.FP32, split=2)"
    )
    with pytest.raises(NotSupportedError, match="more than one way"):
        apply(raw(PAIR.format(body=body)), "split_vector_kernel")


# -- StampTfreeSplit --


def test_slots_are_freed_as_they_were_filled():
    p = apply(raw(PAIR.format(body=POP + "\n        pl.system.tfree_to_aic(t)")), "split_vector_kernel")
    assert [code for code, _ in findings(p, IRProperty.VectorKernelSplit)] == [643]
    p = apply(p, "stamp_tfree_split")
    assert call(side(p, "AIV"), "system.tfree_to_aic").kwargs == {"split": 1, "id": 2}
    assert not findings(p, IRProperty.VectorKernelSplit)
    assert python_print(apply(p, "stamp_tfree_split")) == python_print(p)


def test_the_judge_wants_the_lanes_named():
    assert [code for code, _ in findings(raw(PAIR.format(body=POP)), IRProperty.VectorKernelSplit)] == [642]


# -- SkewCrossCorePipeline --


def loops(p: Program, kind: str) -> list[ForStmt]:
    return [s for s in walk(side(p, kind).body) if isinstance(s, ForStmt)]


def test_loops_that_pass_tiles_run_trip_by_trip():
    body = f"for i in pl.pipeline(0, n, 1, stage=2):\n    {PRODUCT}    pl.store(pl.exp(x), [i, 0], o)"
    p = expanded(body)
    assert [s.kind for s in (*loops(p, "AIC"), *loops(p, "AIV"))] == [ForKind.Pipeline] * 2
    p = apply(p, "skew_cross_core_pipeline")
    assert [(s.kind, dict(s.attrs)) for s in (*loops(p, "AIC"), *loops(p, "AIV"))] == [(ForKind.Sequential, {})] * 2
    assert not findings(p, IRProperty.PipelineLoopValid)


def test_other_pipelined_loops_stay():
    body = "for i in pl.pipeline(0, n, 1, stage=2):\n    pl.store(pl.exp(pl.load(c, [i, 0], [8, 32])), [i, 0], o)"
    p = whole(body)
    assert apply(p, "skew_cross_core_pipeline") is p


# -- where slots lie --


@pytest.mark.parametrize("planner", [MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP])
def test_slots_lie_below_all_tiles(planner):
    options = PassOptions(memory_planner=planner)
    body = VECTOR.replace("pl.store(pl.exp(x)", "y = pl.exp(x)\npl.store(pl.matmul(y, pl.abs(y))")
    p = split_program(lower(scope(body, PARAMS), options).whole, options)
    for kind, space in (("AIC", MemorySpace.Mat), ("AIV", MemorySpace.Vec)):
        reserved = call(side(p, kind), "system.reserve_buffer").kwargs
        assert (reserved["base"], reserved["size"]) == (0, 8192)
        placed = [
            s.var.type.memref.byte_offset_.value
            for s in walk(side(p, kind).body)
            if isinstance(s, AssignStmt) and isinstance(s.var.type, TileType) and s.var.type.memory_space is space
        ]
        assert placed
        assert min(placed) >= 8192


def test_without_addresses_slots_have_none():
    options = PassOptions(memory_planner=MemoryPlanner.PTOAS)
    p = split_program(lower(scope(VECTOR, PARAMS), options).whole, options)
    assert "base" not in call(side(p, "AIV"), "system.reserve_buffer").kwargs


def test_slots_that_have_a_place_keep_it():
    body = 'more: pl.Scalar[pl.INT32] = pl.system.reserve_buffer(name="u", size=64, base=32)'
    p = through(raw(PAIR.format(body=body)), "allocate_memory_addr")
    found = {c.kwargs["name"]: c.kwargs["base"] for c in walk(p) if isinstance(c, Call) and c.op.name == "system.reserve_buffer"}
    assert found == {"s": 96, "u": 32}


def test_slots_that_overlap_are_an_error():
    body = "\n        ".join(
        f'm{i}: pl.Scalar[pl.INT32] = pl.system.reserve_buffer(name="u{i}", size=64, base={32 * i})' for i in range(2)
    )
    with pytest.raises(CompileError, match="'u1' begins at 32, and 'u0' ends at 64"):
        through(raw(PAIR.format(body=body)), "allocate_memory_addr")


@pytest.mark.parametrize("planner", [MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP])
def test_slots_that_leave_no_room_are_an_error(planner):
    options = PassOptions(memory_planner=planner)
    params = PARAMS.replace("[[16, 32], pl.FP32]", "[[16, 1024], pl.FP32]").replace(
        "[[32, 32], pl.FP32]", "[[32, 1024], pl.FP32]"
    )
    body = VECTOR.replace("[16, 32]", "[16, 1024]")
    whole_ = lower(scope(body, params), options).whole
    with pytest.raises(CompileError, match=r"slots of pipes take 262144 bytes|Vec buffer usage"):
        split_program(whole_, options)


def test_slot_buffers_are_constants_of_the_text_only_where_they_are_known():
    assert isinstance(call(side(expanded(VECTOR), "AIV"), "system.aiv_initialize_pipe").args[1].operand, ConstInt)
