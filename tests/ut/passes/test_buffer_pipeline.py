"""Where buffers stand in the pipeline, what decides about them, and how both forms live in one program."""

from __future__ import annotations

import numpy as np
import pytest
from back_lab import applied, kernel_of, scope, through
from pass_lab import agree, body, out

from pypto.dtypes import DataType
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import VerificationError
from pypto.ir.expr import Call
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator, walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, flatten_to_stmts, seq
from pypto.ir.structural import compare
from pypto.ir.verify.properties import IRProperty as P
from pypto.passes import pipeline
from pypto.passes.context import PassContext, PassOptions, effective
from pypto.passes.manager import Pipeline
from pypto.passes.pipeline import default_pipeline, find_pass, lower

contract = pytest.mark.contract
PLANNERS = list(MemoryPlanner)
T = "pl.Tensor[[16, 64], pl.FP32]"
X = f"x: {T}, y: {T}, o: pl.Out[{T}]"
SUM = "t = pl.load(x, [0, 0], [16, 64])\nu = pl.load(y, [0, 0], [16, 64])\npl.store(pl.mul(pl.add(t, u), t), [0, 0], o)"
REDUCED = """
t = pl.load(x, [0, 0], [16, 64])
w = pl.create_tile([16, 64], dtype=pl.FP32)
pl.store(pl.row_expand_add(t, pl.row_sum(t, w)), [0, 0], o)
"""


@contract("B003", "B116")
def test_the_option_is_a_truth_value_and_true() -> None:
    assert PassOptions().enable_buffer_ir is effective().enable_buffer_ir is PassContext([]).options.enable_buffer_ir is True
    with pytest.raises(TypeError, match="enable_buffer_ir must be a bool"):
        PassContext([], enable_buffer_ir=1)  # type: ignore[arg-type]
    with PassContext([], enable_buffer_ir=False):
        assert effective().enable_buffer_ir is False
        assert "LowerTileToBuffer" not in default_pipeline(effective()).names
    assert "LowerTileToBuffer" in default_pipeline(effective()).names


@contract("B004", "B005", "B007", "B146", "B147")
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_places_of_the_passes(planner: MemoryPlanner) -> None:
    names = default_pipeline(PassOptions(memory_planner=planner)).names
    at = names.index
    assert names[at("SelectBufferIRFunctions") + 1] == "MaterializeSemanticAliases"
    assert at("InitMemRef") < at("SelectBufferIRFunctions")
    assert names.count("SelectBufferIRFunctions") == 1
    assert at("MaterializeValidShapeSymbols") < at("LowerTileToBuffer")
    assert at("MaterializeSemanticAliases") < at("VerifyTileStorage")
    if planner is not MemoryPlanner.PTOAS:
        assert at("VerifyTileStorage") < at("AllocateMemoryAddr")


@contract("B168")
def test_no_pass_on_tiles_comes_afterwards() -> None:
    assert pipeline.ORDER[-1] == "lower_tile_to_buffer"


@contract("B152", "B153")
def test_what_the_conversion_needs_and_what_it_ends() -> None:
    it = find_pass("lower_tile_to_buffer")
    assert P.NoNestedCalls in it.requires
    assert P.BufferIR in it.produces
    assert {P.TileStorageLegalized, P.TileStorageAllocated} <= it.invalidates
    with pytest.raises(Exception, match="NoNestedCalls"):
        Pipeline([it], given=it.requires - {P.NoNestedCalls})


@contract("B115")
@pytest.mark.parametrize(
    ("text", "buffers", "stage"), [(SUM, True, "Buffer"), (REDUCED, True, "Functional"), (SUM, False, "Functional")]
)
def test_which_form_a_kernel_has_in_the_end(text: str, buffers: bool, stage: str) -> None:
    f = kernel_of(lower(scope(text, X), PassOptions(enable_buffer_ir=buffers)).device)
    assert f.ir_stage is FunctionIRStage[stage]


BOTH = """
with pl.at(level=pl.Level.CORE_GROUP):
    t = pl.load(x, [0, 0], [16, 64])
    pl.store(pl.add(t, t), [0, 0], o)
with pl.at(level=pl.Level.CORE_GROUP):
    m = pl.load(o, [0, 0], [16, 64])
    w = pl.create_tile([16, 64], dtype=pl.FP32)
    pl.store(pl.row_expand_add(m, pl.row_sum(m, w)), [0, 0], q)
return q
"""


@contract("B010", "B011", "B013", "B016")
@pytest.mark.parametrize("planner", PLANNERS)
def test_both_forms_in_one_program(planner: MemoryPlanner) -> None:
    p = body(BOTH, f"x: {T}, o: pl.InOut[{T}], q: pl.Out[{T}]")
    options = PassOptions(memory_planner=planner)
    low = lower(p, options, level=1)
    stages = [f.ir_stage for f in low.device.function_list if f.is_device]
    assert sorted(s.name for s in stages) == ["Buffer", "Functional"]
    x = np.arange(1024, dtype=np.float32).reshape(16, 64) % 7
    agree(p, low.host, [x, out(16, 64), out(16, 64)])
    plain = lower(p, options._replace(enable_buffer_ir=False)).device
    for f in low.device.function_list:
        if f.is_device and f.ir_stage is FunctionIRStage.Functional:
            without = f.replace(attrs=f.attrs.without("buffer_ir_selected"))
            assert compare(plain.get_function(f.name), without, auto_map=True) is None, python_print(low.device)


@contract("B016")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("wrong", ["operands", "results", "order"])
def test_the_closing_checks_see_callers_and_kernels_of_both_forms(planner, wrong, monkeypatch) -> None:
    """What the last pass would do wrong outside of the kernels it converts is found."""
    it = find_pass("lower_tile_to_buffer")
    convert = it.run

    class Spoiled(Mutator):
        def visit_call(self, c: Call) -> Call:
            if not c.op.name.startswith("main_incore"):
                return c
            return c.replace(args=c.args[:-1]) if wrong == "operands" else c.replace(type=TensorType([8, 8], DataType.FP32))

    def spoiled(f: Function) -> Function:
        if wrong != "order":
            return f if f.is_device else f.replace(body=Spoiled().body(f.body))
        if not f.is_device or f.ir_stage is FunctionIRStage.Buffer:
            return f
        first, second, *rest = (s for s in flatten_to_stmts(f.body) if "alloc" not in python_print(s))
        return f.replace(body=seq([second, *rest, first]))

    def spoiling(p: Program, options: PassOptions) -> Program:
        return convert(p, options).with_functions(spoiled(f) for f in convert(p, options).function_list)

    p = body(BOTH, f"x: {T}, o: pl.InOut[{T}], q: pl.Out[{T}]")
    lower(p, PassOptions(memory_planner=planner), level=1)
    monkeypatch.setattr(it, "run", spoiling)
    with pytest.raises(VerificationError, match="pipeline_output"):
        lower(p, PassOptions(memory_planner=planner), level=1)


@contract("B017", "B018", "B020")
def test_an_error_in_a_chosen_kernel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def broken(program, options):
        found.append(program)
        raise VerificationError("planted", None, "nothing helps")

    for name in ("verify_tile_storage", "lower_tile_to_buffer"):
        with monkeypatch.context() as m:
            m.setattr(find_pass(name), "run", broken)
            with pytest.raises(VerificationError, match="planted"):
                lower(scope(SUM, X), PassOptions())
    assert len(found) == 2


@contract("B154", "B162", "B163")
@pytest.mark.parametrize("planner", PLANNERS)
def test_allocations_stay_where_and_as_many_as_they_were(planner: MemoryPlanner) -> None:
    text = "t = pl.load(x, [0, 0], [16, 64])\nfor i in pl.range(4):\n    t = pl.add(t, t)\npl.store(t, [0, 0], o)"
    before = kernel_of(through(scope(text, X), "materialize_valid_shape_symbols", planner))
    after = kernel_of(through(scope(text, X), "lower_tile_to_buffer", planner))
    kinds = {"tile.alloc": before, "buffer.alloc": after}
    counts = [sum(isinstance(s, AssignStmt) and applied_is(s, n) for s in walk(f.body)) for n, f in kinds.items()]
    assert counts[0] == counts[1]
    first = next(n for n in applied(after) if not n.startswith("buffer.alloc"))
    assert first == "buffer.load"
    assert not {"buffer.copy", "buffer.move"} & set(applied(after))


def applied_is(s: AssignStmt, name: str) -> bool:
    return getattr(getattr(s.value, "op", None), "name", "") == name


@contract("B148", "B155", "B156")
@pytest.mark.parametrize("planner", PLANNERS)
def test_who_gives_addresses(planner: MemoryPlanner) -> None:
    f = kernel_of(through(scope(SUM, X), "lower_tile_to_buffer", planner))
    operands = {len(n.args) for n in walk(f.body) if getattr(getattr(n, "op", None), "name", "") == "buffer.alloc"}
    assert operands == ({1} if planner is MemoryPlanner.PTOAS else {2})
