"""ExpandMixedKernel: what each core does, what crosses between them, and which kernels cannot be told apart."""

import pytest
from back_lab import applied, scope, through
from pass_lab import apply, findings

from pypto.enums import FunctionType, MemoryPlanner, ParamDirection
from pypto.errors import NotSupportedError
from pypto.ir.expr import Call
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt, IfStmt, WhileStmt
from pypto.ir.verify.cores import is_mixed
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import DEFAULT, STRUCTURAL, verify
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower, split_program

PARAMS = (
    "a: pl.Tensor[[32, 16], pl.FP32], b: pl.Tensor[[16, 32], pl.FP32], c: pl.Tensor[[32, 32], pl.FP32], "
    "n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]], p: pl.Out[pl.Tensor[[32, 32], pl.FP32]]"
)
_LOADED = "pl.load(a, [0, 0], [32, 16], target_memory=pl.Mem.Mat), pl.load(b, [0, 0], [16, 32], target_memory=pl.Mem.Mat)"
PRODUCT = f"x = pl.matmul({_LOADED})\n"


def whole(body: str, params: str = PARAMS) -> Program:
    return through(scope(body, params), "resolve_backend_op_layouts")


def expanded(body: str, params: str = PARAMS) -> Program:
    made = apply(whole(body, params), "expand_mixed_kernel")
    assert not verify({*DEFAULT, *STRUCTURAL, IRProperty.MixedKernelExpanded, IRProperty.NormalizedStmtStructure}, made)
    return made


def side(p: Program, kind: str) -> Function:
    (f,) = [f for f in p.function_list if f.func_type is FunctionType[kind]]
    return f


def work(p: Program, kind: str) -> list[str]:
    """What a core applies, its end of the pipe left out."""
    hidden = ("system.reserve_buffer", "system.import_peer_buffer", f"system.{kind.lower()}_initialize_pipe")
    return [name for name in applied(side(p, kind)) if name not in hidden]


def call(f: Function, name: str) -> Call:
    (found,) = [n for n in walk(f.body) if isinstance(n, Call) and n.op.name == name]
    return found


def test_a_product_goes_to_the_vector_core():
    p = expanded(PRODUCT + "pl.store(pl.exp(x), [0, 0], o)")
    cube = ["tile.load", "tile.load", "tile.move", "tile.move", "tile.matmul", "tile.tpush_to_aiv"]
    assert work(p, "AIC") == cube
    assert work(p, "AIV") == ["tile.tpop_from_aic", "tile.exp", "system.tfree_to_aic", "tile.store"]
    aic, aiv = side(p, "AIC"), side(p, "AIV")
    assert aiv.name == "main_incore_0_aiv"
    reserved = call(aiv, "system.reserve_buffer")
    assert reserved.kwargs == {"name": "main_incore_0_c2v_slot_buffer", "size": 2 * 32 * 32 * 4}
    assert call(aic, "system.import_peer_buffer").kwargs == {"name": reserved.kwargs["name"], "peer_func": aiv.name}
    for f in (aic, aiv):
        opened = call(f, f"system.{f.func_type.name.lower()}_initialize_pipe")
        assert opened.kwargs == {"dir_mask": 1, "slot_size": 32 * 32 * 4}


def test_a_group_stands_for_the_kernel():
    before = whole(PRODUCT + "pl.store(pl.exp(x), [0, 0], o)")
    (kernel,) = [f for f in before.function_list if f.is_device]
    p = apply(before, "expand_mixed_kernel")
    group = side(p, "Group")
    assert (group.name, group.param_directions, group.return_types) == (
        kernel.name,
        kernel.param_directions,
        kernel.return_types,
    )
    assert applied(group) == ["main_incore_0_aic", "main_incore_0_aiv"]
    directions = dict(zip((v.name_hint for v in kernel.params), side(p, "AIC").param_directions, strict=True))
    assert directions["o"] is ParamDirection.In  # the cube core leaves it alone
    assert not findings(p, IRProperty.OrchestrationReferencesResolved)


def test_what_the_vector_core_made_goes_to_the_cube_core_and_back():
    body = (
        PRODUCT
        + "y = pl.exp(x)\npl.store(pl.add(pl.matmul(y, pl.load(c, [0, 0], [32, 32], target_memory=pl.Mem.Mat)), y), [0, 0], o)"
    )
    p = expanded(body)
    crossing = [n for n in work(p, "AIC") if "push" in n or "pop" in n or "free" in n]
    assert crossing == ["tile.tpush_to_aiv", "tile.tpop_from_aiv", "system.tfree_to_aiv", "tile.tpush_to_aiv"]
    assert [n for n in work(p, "AIV") if "push" in n or "pop" in n] == [
        "tile.tpop_from_aic",
        "tile.tpush_to_aic",
        "tile.tpop_from_aic",
    ]
    assert call(side(p, "AIC"), "system.aic_initialize_pipe").kwargs["dir_mask"] == 3
    popped = call(side(p, "AIC"), "tile.tpop_from_aiv").type
    assert popped.memory_space.name == "Mat"


def test_slots_are_freed_before_the_next_tile_is_popped():
    twice = PRODUCT + PRODUCT.replace("x =", "y =")
    p = expanded(twice + "pl.store(pl.add(x, y), [0, 0], o)")
    # Both are needed at once: the first leaves its slot.
    assert work(p, "AIV") == [
        "tile.tpop_from_aic",
        "tile.move",
        "system.tfree_to_aic",
        "tile.tpop_from_aic",
        "tile.add",
        "system.tfree_to_aic",
        "tile.store",
    ]


def test_a_tile_that_a_loop_carries_leaves_its_slot():
    body = f"""
s = pl.tile.full([32, 32], dtype=pl.FP32, value=0.0)
for i in pl.range(n):
    {PRODUCT.strip()}
    s = pl.move(x, target_memory=pl.Mem.Vec)
pl.store(s, [0, 0], o)
"""
    p = expanded(body)
    assert work(p, "AIV") == ["tile.full", "tile.tpop_from_aic", "tile.move", "system.tfree_to_aic", "tile.store"]


def test_two_wholes_of_the_vector_core_are_popped_where_each_is_used():
    body = """
x = pl.exp(pl.load(c, [0, 0], [32, 32]))
y = pl.abs(x)
pl.store(pl.matmul(x, y), [0, 0], o)
"""
    p = expanded(body)
    crossing = [n for n in work(p, "AIC") if n != "tile.store"]
    assert crossing == ["tile.tpop_from_aiv", "tile.move", "system.tfree_to_aiv"] * 2 + ["tile.matmul"]


def test_control_flow_is_on_both_sides_as_far_as_something_in_it_is():
    body = (
        PRODUCT
        + """
s = pl.exp(x)
for i in pl.range(n):
    s = pl.add(s, s)
k = n * 2
if k > 4:
    pl.store(x, [0, 0], p)
pl.store(s, [0, 0], o)
"""
    )
    p = expanded(body)
    loops = {
        f.func_type.name: [type(s) for s in walk(f.body) if isinstance(s, (ForStmt, IfStmt, WhileStmt))] for f in p.function_list
    }
    assert loops["AIC"] == [IfStmt]
    assert loops["AIV"] == [ForStmt]


def test_scalars_that_a_loop_carries_stay_where_they_are_needed():
    body = f"""
k = 0
for i in pl.range(n):
    k = k + i * 2
    {PRODUCT.strip()}
    pl.store(pl.exp(x), [k, 0], o)
"""
    p = expanded(body)
    (cube,), (vector,) = ([s for s in walk(side(p, kind).body) if isinstance(s, ForStmt)] for kind in ("AIC", "AIV"))
    assert (len(cube.iter_args), len(vector.iter_args)) == (0, 1)


def test_kernels_of_one_core_stay():
    p = whole("pl.store(pl.exp(pl.load(c, [0, 0], [32, 32])), [0, 0], o)")
    assert apply(p, "expand_mixed_kernel") is p
    p = whole(PRODUCT + "pl.store(x, [0, 0], o)")
    assert apply(p, "expand_mixed_kernel") is p


def test_a_region_passes_halves():
    body = (
        PRODUCT
        + """
for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
    half = pl.exp(pl.aiv_shard(x))
    y = pl.aic_gather(half)
pl.store(pl.matmul(y, pl.load(c, [0, 0], [32, 32], target_memory=pl.Mem.Mat)), [0, 0], o)
"""
    )
    p = expanded(body)
    aic, aiv = side(p, "AIC"), side(p, "AIV")
    passed = [
        (f, name) for f, names in ((aic, ("to_aiv", "pop_from_aiv")), (aiv, ("pop_from_aic", "push_to_aic"))) for name in names
    ]
    for f, name in passed:
        assert [
            n.kwargs["split"]
            for n in walk(f.body)
            if isinstance(n, Call) and n.op.name.endswith(name) and "free" not in n.op.name
        ] == [1]
    assert [d.value for d in call(aiv, "tile.tpop_from_aic").type.shape] == [16, 32]
    assert [d.value for d in call(aic, "tile.tpop_from_aiv").type.shape] == [32, 32]
    assert call(aic, "system.aic_initialize_pipe").kwargs["slot_size"] == 32 * 32 * 4


@pytest.mark.parametrize(
    ("body", "what", "line"),
    [
        (
            PRODUCT + "v = pl.read(pl.exp(x), [0, 0])\nif v > 0.0:\n    pl.store(x, [0, 0], o)\npl.store(pl.exp(x), [0, 0], p)",
            "'v' is known on one core only, and the cube core needs it",
            "if v > 0.0",
        ),
        (PRODUCT + "pl.store(x, [0, 0], o)\npl.store(pl.exp(x), [0, 0], o)", "both work on 'o', which one of them writes", "exp"),
        (
            "y = pl.load(c, [0, 0], [32, 32], target_memory=pl.Mem.Mat)\npl.store(pl.exp(y), [0, 0], o)",
            "'y' in Mat memory is read by the vector core",
            "exp",
        ),
    ],
)
def test_what_cannot_be_told_apart_is_an_error_at_its_place(body, what, line):
    p = scope(body, PARAMS)
    before = through(p, "resolve_backend_op_layouts")
    with pytest.raises(NotSupportedError, match=what) as e:
        apply(before, "expand_mixed_kernel")
    head = 4  # lines before the scope's statements: the import, the decorator, the function, the scope
    assert line in body.split("\n")[e.value.location.begin_line - head - 1]


def test_the_judge_finds_kernels_of_both_cores():
    p = whole(PRODUCT + "pl.store(pl.exp(x), [0, 0], o)")
    assert [code for code, _ in findings(p, IRProperty.MixedKernelExpanded)] == [640]
    made = apply(p, "expand_mixed_kernel")
    aic, aiv = side(made, "AIC"), side(made, "AIV")
    wrong = made.with_functions(f.replace(body=aiv.body) if f is aic else f for f in made.function_list)
    assert {code for code, _ in findings(wrong, IRProperty.MixedKernelExpanded)} == {641}
    assert not is_mixed(aic)
    assert not is_mixed(aiv)


@pytest.mark.parametrize("planner", list(MemoryPlanner))
def test_each_core_is_planned_on_its_own(planner):
    options = PassOptions(memory_planner=planner)
    program = scope(PRODUCT + "pl.store(pl.exp(x), [0, 0], o)", PARAMS)
    made = split_program(lower(program, options).whole, options)
    spaces = {
        f.func_type.name: {
            n.kwargs["memory_space"].name for n in walk(f.body) if isinstance(n, Call) and n.op.name == "tile.alloc"
        }
        for f in made.function_list
    }
    assert spaces["AIC"] == {"Mat", "Left", "Right", "Acc"}
    assert spaces["AIV"] == {"Vec"}
    assert python_print(split_program(lower(program, options).whole, options)) == python_print(made)
