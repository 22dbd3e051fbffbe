"""Kernels over buffers: handles and destinations, control flow, pipelines of one's own, and what cannot be converted."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from back_lab import call_of, kernel_of, named, raw_kernel, scope, through
from buffer_lab import (
    LOAD,
    LOADS,
    PLANNERS,
    PTOAS,
    STORE,
    T,
    X,
    alloc,
    by_hand,
    calls,
    definition,
    handles,
    load,
    lowered,
    names,
    operations,
    planned,
    planned_tiles,
    root,
    tile,
)

import pypto.language as pl
from pypto import passes
from pypto.codegen import pto
from pypto.codegen.native import from_tile
from pypto.codegen.native.device import build_access, emit_device
from pypto.codegen.native.emit import Sites
from pypto.codegen.native.functions import LaneFunctions
from pypto.dtypes import DataType
from pypto.enums import FunctionIRStage, MemorySpace
from pypto.errors import CompileError, Error, VerificationError
from pypto.ir import ops, scalar
from pypto.ir.expr import Call, MakeTuple, Var, const_index
from pypto.ir.opdef import OpRejected
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator, defined_vars, walk
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.shaped import BufferType, TensorType, TileType
from pypto.ir.stmt import (
    AssignStmt,
    ForStmt,
    IfStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    attach_leading_comments,
    flatten_to_stmts,
    last_yield,
)
from pypto.ir.structural import compare
from pypto.ir.types import ScalarType, VoidType
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.lower_tile_to_buffer import lower_tile_to_buffer
from pypto.passes.lower_tile_to_buffer import storage as places
from pypto.passes.lower_tile_to_buffer.convert import Converter
from pypto.passes.lower_tile_to_buffer.windows import find_windows
from pypto.passes.pipeline import lower
from pypto.passes.statements import definitions, statements
from pypto.span import Span

contract = pytest.mark.contract


@pl.jit
def chain(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64])
        u = pl.load(y, [0, 0], [16, 64])
        pl.store(pl.mul(pl.add(t, u), t), [0, 0], o)
    return o


# -- straight lines --------------------------------------------------------------------------------------------------


@contract("B001", "B024", "B025", "B026", "B155", "B156", "B157", "B241")
@pytest.mark.parametrize("planner", PLANNERS)
def test_producers_write_into_their_destination(planner):
    f = lowered(LOADS + "pl.store(pl.mul(pl.add(t, u), t), [0, 0], o)", planner)
    found = operations(f)
    assert [found.count(n) for n in ("load", "add", "mul", "store")] == [2, 1, 1, 1]
    for c in (n for n in walk(f.body) if isinstance(n, Call)):
        assert isinstance(c.type, BufferType if c.op.name == "buffer.alloc" else VoidType)
    assert {len(c.args) for c in calls(f, "alloc")} == {1 if planner is PTOAS else 2}


@contract("B241")
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_public_frontend_through_the_whole_pipeline(planner):
    import numpy as np

    args = [np.ones((16, 64), np.float32)] * 3
    with PassContext([], memory_planner=planner):
        parsed = chain.specialize(*args)
        before = serialize(parsed)
        manager = passes.PassManager(passes.OptimizationStrategy.Default)
        made = manager.run_passes(parsed)
        assert serialize(parsed) == before
        assert compare(made, chain.lower(*args), auto_map=True) is None
        assert passes.lower_tile_to_buffer()(made) is made
    f = kernel_of(made)
    assert names(flatten_to_stmts(f.body)) == [
        *["alloc"] * len(calls(f, "alloc")),
        "load",
        "load",
        "add",
        "mul",
        "store",
        "ReturnStmt",
    ]
    assert [len(c.args) for c in calls(f, "alloc")] == [1 if planner is PTOAS else 2] * len(calls(f, "alloc"))
    (add,), (mul,), (store,) = calls(f, "add"), calls(f, "mul"), calls(f, "store")
    assert add.args[2] is mul.args[0]
    assert mul.args[2] is store.args[0]
    read = deserialize(serialize(made))
    assert isinstance(read, Program)
    assert compare(made, read, auto_map=True) is None
    assert kernel_of(read).ir_stage is FunctionIRStage.Buffer


@contract("B165", "B166")
def test_the_signature_and_the_caller_stay():
    p = scope(LOADS + "pl.store(pl.add(t, u), [0, 0], o)", X)
    plain = lower(p, PassOptions(enable_buffer_ir=False)).device
    device = lower(p, PassOptions()).device
    a, b = kernel_of(plain), kernel_of(device)
    assert [f.ir_stage for f in (a, b)] == [FunctionIRStage.Functional, FunctionIRStage.Buffer]
    assert {f.ir_stage for f in device.function_list if not f.is_device} == {FunctionIRStage.Functional}
    assert [v.name_hint for v in a.params] == [v.name_hint for v in b.params]
    assert a.param_directions == b.param_directions
    assert compare(plain.get_function("main"), device.get_function("main"), auto_map=True) is None


@contract("B042")
@pytest.mark.parametrize("dtype", ["INDEX", "INT32", "FP32", "FP16", "BF16"])
def test_scalars_are_passed_as_they_are_to_tiles(dtype):
    t = "pl.Tensor[[16, 64], pl.FP32]"
    text = LOAD + "k = pl.cast(s, pl.FP32)\npl.store(pl.muls(t, k), [0, 0], o)"
    p = scope(text, f"x: {t}, s: pl.Scalar[pl.{dtype}], o: pl.Out[{t}]")
    both = [lower(p, PassOptions(enable_buffer_ir=on)).device for on in (True, False)]
    buffers, tiles = (kernel_of(d) for d in both)
    assert (buffers.ir_stage, tiles.ir_stage) == (FunctionIRStage.Buffer, FunctionIRStage.Functional)
    assert [v.type for v in buffers.params] == [v.type for v in tiles.params]
    assert compare(*(d.get_function("main") for d in both), auto_map=True) is None
    signatures = [next(line for line in text_of(f).splitlines() if line.startswith("static int64_t")) for f in (buffers, tiles)]
    assert signatures[0] == signatures[1]


def text_of(f: Function) -> str:
    return emit_device(f, True, True, Sites(), LaneFunctions()).text


@contract("B002", "B012", "B179")
@pytest.mark.parametrize("planner", PLANNERS)
def test_generated_text_comes_from_handles_and_destinations_alone(planner, monkeypatch):
    f = lowered(LOADS + "w = pl.slice(t, [8, 64], [n, 0])\npl.store(pl.add(w, pl.slice(u, [8, 64], [0, 0])), [0, 0], o)", planner)

    def no_detour(*_: Any) -> None:
        raise AssertionError("a kernel of buffers was taken for one of tiles")

    monkeypatch.setattr(from_tile, "build", no_detour)
    bare = deserialize(serialize(Program([f.replace(attrs=f.attrs.without("buffer_ir_selected"))])))
    assert isinstance(bare, Program)
    assert text_of(bare.function_list[0]) == text_of(f)


@contract("B002", "B012", "B179")
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_accelerators_text_names_each_handle_once(planner, monkeypatch):
    """One allocation, view or relabel of the program is one of the text, and no other is made."""
    body = (
        LOADS
        + "w = pl.slice(t, [8, 64], [n, 0])\nr = pl.adds(pl.reshape(pl.add(w, pl.slice(u, [8, 64], [0, 0])), [16, 32]), 1.0)"
    )
    f = lowered(body + "\npl.store(pl.reshape(r, [8, 64]), [0, 0], o)", planner)
    monkeypatch.setattr(pto, "PipeText", None)
    text = pto.PTOCodegen().generate(Program([f]), emit_tile_addr=planner is not PTOAS, emit_source_loc=False)
    found = operations(f)
    for op, name in (
        ("alloc_tile", "alloc"),
        ("subview", "subview"),
        ("treshape", "reshape"),
        ("tload", "load"),
        ("tstore", "store"),
    ):
        assert text.count(f"pto.{op} ") == found.count(name), (op, text)
    for h in handles(f):
        assert text.count(f"%{h.name_hint} = ") == 1
    assert ("addr = " in text) == (planner is not PTOAS)
    bare = deserialize(serialize(Program([f.replace(attrs=f.attrs.without("buffer_ir_selected"))])))
    assert pto.PTOCodegen().generate(bare, emit_tile_addr=planner is not PTOAS, emit_source_loc=False) == text


@contract("B179")
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_generator_gives_each_allocation_its_bytes_and_adds_none(planner):
    f = lowered(
        LOADS + "r = pl.adds(pl.reshape(t, [32, 32]), 1.0)\npl.store(pl.add(pl.reshape(r, [16, 64]), u), [0, 0], o)", planner
    )
    access = build_access(f, planner is not PTOAS)
    size = {h: h.type.physical_shape[0] * h.type.physical_shape[1] * h.type.dtype.get_byte() for h in handles(f)}
    allocations = [s for s in statements(f.body) if isinstance(s, AssignStmt) and names([s]) == ["alloc"]]
    if planner is PTOAS:
        assert access.used == {MemorySpace.Vec: sum(size[s.var] for s in allocations)}
    else:
        ends = [s.value.args[1].value + size[s.var] for s in allocations]
        assert access.used == {MemorySpace.Vec: max(ends)}
    assert set(access.views) == set(handles(f))


@contract("B167", "B240")
def test_conversion_is_idempotent_pure_and_survives_serialization():
    p = through(scope(LOADS + "pl.store(pl.add(t, u), [0, 0], o)", X), "materialize_valid_shape_symbols")
    before = python_print(p)
    made = lower_tile_to_buffer.run(p, PassOptions())
    assert python_print(p) == before
    assert lower_tile_to_buffer.run(made, PassOptions()) is made
    assert compare(made, deserialize(serialize(made)), auto_map=True) is None


@contract("B043")
def test_scalars_take_the_element_type():
    f = lowered(LOADS + "k = pl.cast(n, pl.FP32)\npl.store(pl.muls(t, k), [0, 0], o)")
    (c,) = calls(f, "muls")
    assert c.args[1].type.dtype is c.args[0].type.dtype


@contract("B043")
@pytest.mark.parametrize("dtype", ["INDEX", "INT32", "FP16", "BF16"])
def test_a_scalar_of_another_type_is_cast_when_the_kernel_is_lowered(dtype):
    """An index goes by way of INT64; what has the element type already is as it was."""
    text = alloc("m") + load("t", tile("m")) + f"r: {tile('m')} = pl.tile.muls(t, k)\n"
    p = raw_kernel(text, f"x: {T}, k: pl.Scalar[pl.FP32]")
    f = p.function_list[0]
    (same,) = calls(kernel_of(lower_tile_to_buffer.run(p, PassOptions())), "muls")
    assert same.args[1] is f.params[1]
    other = Var("k", ScalarType.of(getattr(DataType, dtype)))
    f = f.replace(params=(f.params[0], other), body=Mutator({f.params[1]: other}).body(f.body))
    (c,) = calls(kernel_of(lower_tile_to_buffer.run(Program([f]), PassOptions())), "muls")
    scalars, e = [], c.args[1]
    while isinstance(e, scalar.Cast):
        scalars.append(e.type.dtype.name)
        e = e.operand
    assert e is other
    assert scalars == (["FP32", "INT64"] if dtype == "INDEX" else ["FP32"])


@contract("B044", "B238")
def test_fills_take_their_shape_from_the_destination():
    f = lowered("pl.store(pl.tile.full([16, 64], dtype=pl.FP32, value=2.5), [0, 0], o)")
    assert operations(f) == ["alloc", "full", "store"]
    (full,) = calls(f, "full")
    assert (full.args[1].type.physical_shape, full.args[1].type.dtype.name) == ((16, 64), "FP32")


@contract("B047", "B048")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    "body", ["r = pl.recip(pl.adds(t, 100.0))", "r = pl.adds(t, 2.0)\nfor i in pl.range(n):\n    r = pl.recip(r)"]
)
def test_recip_has_a_destination_of_its_own(planner, body):
    f = lowered(LOADS + body + STORE, planner)
    (c,) = calls(f, "recip")
    assert c.args[0] is not c.args[1]
    if planner is not PTOAS:
        addresses = [definition(f, root(f, a)).args[1].value for a in c.args]
        assert len(set(addresses)) == 2


@contract("B050")
@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("name", ["div", "log", "recip"])
def test_precision_reaches_the_operation(name, precise):
    operands = "t, u" if name == "div" else "t"
    body = LOADS + f"pl.store(pl.{name}({operands}, high_precision={precise}), [0, 0], o)"
    (made,) = calls(lowered(body), name)
    tiles = kernel_of(lower(scope(body, X), PassOptions(enable_buffer_ir=False)).device)
    assert made.kwargs == call_of(tiles, f"tile.{name}").kwargs
    assert bool(made.kwargs.get("high_precision")) == precise


@contract("B237")
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32", "INT32"])
def test_transfers_convert_nothing(dtype):
    t = f"pl.Tensor[[16, 64], pl.{dtype}]"
    f = kernel_of(lower(scope(LOAD + "pl.store(t, [0, 0], o)", f"x: {t}, o: pl.Out[{t}]"), PassOptions()).device)
    assert operations(f) == ["alloc", "load", "store"]
    (read,), (written,) = calls(f, "load"), calls(f, "store")
    assert {e.type.dtype.name for e in (read.args[0], read.args[3], written.args[0], written.args[3])} == {dtype}


@contract("B237")
@pytest.mark.parametrize("name", ["load", "store"])
def test_a_transfer_between_element_types_is_refused(name):
    gm, at, extents = Var("x", TensorType([16, 64], DataType.FP32)), tup(0, 0), tup(16, 64)
    held = Var("b", BufferType((16, 64), DataType.INT32, MemorySpace.Vec))
    args = (gm, at, extents, held) if name == "load" else (held, at, extents, gm)
    with pytest.raises(OpRejected, match="a transfer does not convert"):
        ops.get(f"buffer.{name}").call(args, None, Span.unknown())


def tup(*elements: int) -> MakeTuple:
    return MakeTuple(const_index(n) for n in elements)


# -- tables of the conversion ----------------------------------------------------------------------------------------

LOOPED = """
k = pl.const(0, pl.INDEX)
for i in pl.range(n):
    t = pl.add(t, u)
    k = k + 1
if n > 1:
    t = pl.mul(t, u)
w = pl.slice(t, [8, 64], [m, 0])
pl.store(pl.adds(w, 1.0), [0, 0], o)
"""


@contract("B158")
@pytest.mark.parametrize("planner", PLANNERS)
def test_every_placed_tile_but_windows_has_a_handle(planner, monkeypatch):
    found = []

    def watched(*args):
        found.append((args[0], index(*args)))
        return found[-1][1]

    index = places.index_storage
    monkeypatch.setattr(import_module("pypto.passes.lower_tile_to_buffer"), "index_storage", watched)
    lower_tile_to_buffer.run(planned_tiles(LOADS + LOOPED, planner), PassOptions(planner))
    ((f, made),) = found  # one walk
    tiles = [v for v in definitions(f.body) if isinstance(v.type, TileType)]
    assert any(v.name_hint.startswith("t__rv") or v.name_hint.startswith("t__iter") for v in tiles)
    assert set(made.of) == set(tiles) - set(find_windows(f).cuts)
    assert set(made.declarations) == {s.var for s in statements(f.body) if names([s]) == ["tile.alloc"]}


@contract("B159")
def test_what_an_operator_deduces_says_nothing_about_storage():
    p = raw_kernel(alloc("m") + alloc("q") + load("t", tile("m")), X)
    f = p.function_list[0]
    elsewhere = named(f, "t").type.memref.replace(base_=named(f, "q"))

    class Astray(Mutator):
        """The call's own type names another allocation."""

        def visit_call(self, c: Call) -> Call:
            return c.replace(type=c.type.at(elsewhere)) if c.op.name == "tile.load" else c

    made = lower_tile_to_buffer.run(Program([f.replace(body=Astray().body(f.body))]), PassOptions())
    assert [h.name_hint for h in handles(kernel_of(made))] == ["m_buffer"]


@contract("B160")
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_result_carries_no_table(planner):
    p = planned_tiles(LOADS + LOOPED, planner)
    made = kernel_of(lower_tile_to_buffer.run(p, PassOptions(planner)))
    assert dict(made.attrs) == dict(kernel_of(p).attrs)
    assert [v.type for v in made.params] == [v.type for v in kernel_of(p).params]
    assert not any(getattr(n, "attrs", None) for n in walk(made.body))
    assert not any(isinstance(v.type, TileType) for v in defined_vars(made))


@contract("B164")
def test_a_copy_of_something_onto_itself_goes_away():
    copied = tile("m").join(["u: ", " = pl.tile.move(t, target_memory=pl.Mem.Vec)\n"])
    kept = tile("q", 4096).join(["v: ", " = pl.tile.move(u, target_memory=pl.Mem.Vec)\n"])
    f = planned(alloc("m") + alloc("q") + load("t", tile("m")) + copied + kept)
    (copy,) = calls(f, "copy")
    assert [h.name_hint for h in copy.args] == ["m_buffer", "q_buffer"]


@contract("B169")
def test_an_allocation_without_a_place_takes_that_of_its_tile():
    p = raw_kernel(alloc("m") + load("t", tile("m")), X)

    class Synthetic(Mutator):
        def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
            return s.replace(span=Span.unknown()) if names([s]) == ["tile.alloc"] else s

    f = p.function_list[0]
    where = named(f, "t").span
    assert where.is_valid()
    for body, line in ((f.body, where.begin_line - 1), (Synthetic().body(f.body), where.begin_line)):
        made = kernel_of(lower_tile_to_buffer.run(Program([f.replace(body=body)]), PassOptions()))
        (handle,) = handles(made)
        (stmt,) = [s for s in statements(made.body) if isinstance(s, AssignStmt)]
        assert [x.span.begin_line for x in (handle, stmt, stmt.value)] == [line] * 3


@contract("B154")
@pytest.mark.parametrize("planner", PLANNERS)
def test_an_allocation_stands_where_the_one_it_replaces_stood(planner):
    f = planned(alloc("m") + load("t", tile("m")) + alloc("q") + load("u", tile("q")) + alloc("unused"), planner=planner)
    assert names(flatten_to_stmts(f.body)) == ["alloc", "load", "alloc", "load"]
    assert [h.name_hint for h in handles(f)] == ["m_buffer", "q_buffer"]


# -- pipelines of one's own ------------------------------------------------------------------------------------------


@contract("B151")
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_pipeline_of_ones_own(planner):
    p = planned_tiles(LOADS + LOOPED, planner)
    with PassContext([], memory_planner=planner):
        mine = passes.PassPipeline()
        mine.add_pass(passes.lower_tile_to_buffer())
        made = mine.run(p)
    assert mine.get_pass_names() == ["LowerTileToBuffer"]
    assert kernel_of(made).ir_stage is FunctionIRStage.Buffer
    assert compare(made, lower_tile_to_buffer.run(p, PassOptions(planner)), auto_map=True) is None
    other = passes.PassPipeline()
    other.add_pass(passes.lower_tile_to_buffer())
    with pytest.raises(ValueError, match="HasMemRefs"):
        other.add_pass(passes.memory_reuse())  # no pass on functional tiles comes after it


@contract("B150")
@pytest.mark.parametrize("planner", PLANNERS)
def test_addresses_that_overlap_are_found(planner):
    """Two allocations that lie half on one another, where one operation reads the one and writes the other."""
    moved = tile("q", 2048).join(["u: ", " = pl.tile.{}\n"])
    for text, words in (("move(t, target_memory=pl.Mem.Vec)", "overlaps its source"), ("adds(t, 1.0)", "partially overlapping")):
        body = alloc("m") + alloc("q") + load("t", tile("m")) + moved.format(text)
        if planner is PTOAS:
            body = body.replace("(q, 2048", "(q, 0")
            planned(body, planner=planner)
            continue
        with pytest.raises(VerificationError, match=words):
            planned(body, planner=planner)


@contract("B114")
@pytest.mark.parametrize(
    ("body", "target"),
    [
        ("r = pl.add(t, u)", "a5sim"),
        ("r = pl.adds(pl.reshape(pl.slice(t, [4, 64], [n, 0]), [8, 32]), 1.0)", "a2a3sim"),
        ("r = pl.adds(pl.tile.extract(t, 0, 8, [4, 32]), 1.0)", "a2a3sim"),
    ],
)
def test_what_passes_by_hand_convert_is_not_chosen_for_that(body, target):
    by_hand(LOADS + body + STORE, target=target)
    device = lower(scope(LOADS + body + STORE, X), PassOptions(platform=target)).device
    assert kernel_of(device).ir_stage is FunctionIRStage.Functional


@contract("B098")
@pytest.mark.parametrize("attrs", ['{"buffer_ir_selected": True}', ""])
def test_a_malformed_window_of_a_chosen_kernel_is_an_error(attrs):
    text = alloc("m") + load("t", tile("m")) + load("u", tile("m", 3072, (16, 32)), "[16, 32]")
    with pytest.raises(CompileError, match="exceeds the planned allocation capacity"):
        planned(text, attrs=attrs)
    p = raw_kernel(text, X, attrs='{"buffer_ir_selected": False}')
    assert lower_tile_to_buffer.run(p, PassOptions()).function_list[0] is p.function_list[0]


# -- control flow ----------------------------------------------------------------------------------------------------


@contract("B054", "B055", "B067", "B225", "B229", "B231")
@pytest.mark.parametrize("planner", PLANNERS)
def test_only_scalars_pass_through_control_flow(planner):
    body = """
        k = pl.const(0, pl.INDEX)
        for i in pl.range(n):
            t, u = u, t
            k = k + 1
        if n > 1:
            t = pl.mul(t, u)
            k = k + 4
        else:
            t = u
        while k < m:
            k = k + 1
            u = pl.add(u, t)
        pl.store(pl.sub(t, u), [0, 0], o)
        """
    f = lowered(LOADS + "\n".join(line[8:] for line in body.splitlines()), planner, ((0, 0), (1, 5), (2, 9), (3, 2)))
    for s in walk(f.body):
        if isinstance(s, (ForStmt, WhileStmt)):
            assert len(s.iter_args) == len(s.return_vars) == 1
        elif isinstance(s, IfStmt):
            assert len(s.return_vars) == 1


@contract("B056", "B232")
def test_stores_in_loops_keep_the_parameter():
    f = lowered(
        "for i in pl.range(n):\n    t = pl.load(x, [i * 4, 0], [4, 64])\n    pl.store(t, [i * 4, 0], o)", trips=((0, 0), (4, 0))
    )
    (store,) = calls(f, "store")
    assert store.args[3] is next(v for v in f.params if v.name_hint == "o")


NESTED = """
if n > 1:
    t = pl.adds(t, 1.0)
    k = n + 3
    if m > 5:
        t = pl.mul(t, u)
        j = m + 1
    else:
        j = m + 2
        u = pl.sub(u, t)
    k = k * 2 + j
else:
    k = m * 3
    j = n
pl.store(pl.sub(t, u), [0, 0], o)
pl.store(pl.muls(u, pl.cast(k + j, pl.FP32)), [0, 0], o)
"""


def carries(s: ForStmt | WhileStmt) -> list[Var]:
    return [a for a in s.iter_args if isinstance(a.type, ScalarType)]


@contract("B067", "B231")
@pytest.mark.parametrize("planner", PLANNERS)
def test_scalars_trade_places(planner):
    """Tiles between them, two scalars change at once, in a loop that counts and in one that does not."""
    body = """
j, k = n + 1, m + 7
for i in pl.range(n):
    t, j, u, k = u, k, t, j
while k < 20:
    j, t, k = k + 2, pl.add(t, u), j + 5
pl.store(pl.muls(t, pl.cast(j * 100 + k, pl.FP32)), [0, 0], o)
"""
    f = lowered(LOADS + body, planner, ((0, 0), (1, 5), (2, 9), (3, 2)))
    tiles = kernel_of(through(scope(LOADS + body, X), "materialize_valid_shape_symbols", planner))
    order, wanted = (
        [[a.name_hint for a in carries(s)] for s in statements(g.body) if isinstance(s, (ForStmt, WhileStmt))] for g in (f, tiles)
    )
    assert order == wanted
    assert [len(names_) for names_ in order] == [2, 2]


@contract("B228", "B142")
@pytest.mark.parametrize("planner", PLANNERS)
def test_nested_branches_keep_their_yields_apart(planner):
    f = lowered(LOADS + NESTED, planner, ((0, 0), (0, 9), (2, 5), (2, 6), (9, 8)))
    outer, inner = (s for s in statements(f.body) if isinstance(s, IfStmt))
    assert [len(s.return_vars) for s in (outer, inner)] == [2, 1]
    for s in (outer, inner):
        for arm in (s.then_body, s.else_body):
            assert [v.type for v in last_yield(arm).value] == [v.type for v in s.return_vars]
    tiles = kernel_of(through(scope(LOADS + NESTED, X), "materialize_valid_shape_symbols", planner))
    moved, made = (names(s for s in statements(g.body)) for g in (tiles, f))
    assert made.count("copy") == moved.count("tile.move")  # what the tiles needed, and no more
    assert made.count("alloc") == moved.count("tile.alloc")


@contract("B228")
def test_comments_on_branches_and_yields_survive():
    p = through(scope(LOADS + NESTED, X), "materialize_valid_shape_symbols")
    wanted = []
    for s in statements(kernel_of(p).body):
        if isinstance(s, (IfStmt, YieldStmt)):
            wanted.append((type(s), (f"comment {len(wanted)}",)))
            attach_leading_comments(s, wanted[-1][1])
    made = kernel_of(lower_tile_to_buffer.run(p, PassOptions()))
    kept = [(type(s), s.leading_comments) for s in statements(made.body) if isinstance(s, (IfStmt, YieldStmt))]
    assert kept == wanted
    assert len(kept) == 6


@contract("B234")
@pytest.mark.parametrize("planner", PLANNERS)
def test_nested_loops_have_their_own_yields(planner):
    body = """
j = pl.const(0, pl.INDEX)
for i in pl.range(n):
    k = pl.const(1, pl.INDEX)
    while k < m:
        t, u = u, pl.add(t, u)
        k = k + 2
        if k > 3:
            j = j + k
        else:
            t = pl.adds(t, 1.0)
    j = j + i
pl.store(pl.sub(pl.muls(t, 2.0), u), [0, 0], o)
pl.store(pl.muls(u, pl.cast(j, pl.FP32)), [0, 0], o)
"""
    f = lowered(LOADS + body, planner, ((0, 5), (2, 0), (1, 6), (2, 3)))
    loop, inner, branch = (s for s in statements(f.body) if isinstance(s, (ForStmt, WhileStmt, IfStmt)))
    assert [len(s.return_vars) for s in (loop, inner, branch)] == [1, 2, 1]
    for s in (loop, inner):
        assert [v.type for v in last_yield(s.body).value] == [a.type for a in s.iter_args]


@contract("B234")
def test_an_initial_value_is_visited_where_it_is_bound(monkeypatch):
    """Each of a chain of loops begins with what the one around it carries."""
    depth = 12
    text = "k = n\n" + "".join("    " * i + f"for i{i} in pl.range(m):\n" for i in range(depth))
    text += "    " * depth + "k = k + 1\n"
    p = through(scope(LOAD + text + "pl.store(pl.muls(t, pl.cast(k, pl.FP32)), [0, 0], o)", X), "materialize_valid_shape_symbols")
    visits: dict[Any, int] = {}
    visit = Converter.visit

    def counted(self, node):
        if isinstance(node, Var):
            visits[node] = visits.get(node, 0) + 1
        return visit(self, node)

    monkeypatch.setattr(Converter, "visit", counted)
    lower_tile_to_buffer.run(p, PassOptions())
    found = [a for s in statements(kernel_of(p).body) if isinstance(s, ForStmt) for a in s.iter_args]
    assert len(found) == depth
    for a in found:
        assert visits.get(a.initValue, 0) <= 2, a.name_hint  # where it is bound, and where a body reads it


@contract("B142", "B225", "B229", "B231")
@pytest.mark.parametrize("planner", PLANNERS)
def test_no_buffer_is_carried_or_chosen(planner):
    f = lowered(LOADS + LOOPED, planner, ((0, 0), (1, 4), (3, 8)))
    found = [s for s in statements(f.body) if isinstance(s, (ForStmt, WhileStmt, IfStmt))]
    assert len(found) == 2
    for s in found:
        joined = (*s.return_vars, *getattr(s, "iter_args", ()), *(a.initValue for a in getattr(s, "iter_args", ())))
        assert not any(isinstance(v.type, BufferType) for v in joined)


HALF, SUMS = "pl.Tensor[[64, 64], pl.FP16]", "pl.Tensor[[64, 64], pl.FP32]"
MATRICES = """
a = pl.move(pl.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
b = pl.move(pl.load(y, [0, 0], [64, 64], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
"""
IN_ONE_REGION = """
for i in pl.range(n):
    acc = pl.matmul(a, b)
    acc2 = pl.matmul_acc(acc, a, b)
    pl.store(acc2, [0, 0], o)
"""
CARRIED = """
acc = pl.matmul(a, b)
for i in pl.range(n):
    acc = pl.matmul_acc(acc, a, b)
pl.store(acc, [0, 0], o)
"""


@contract("B161", "B162")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(("text", "local"), [(IN_ONE_REGION, True), (CARRIED, False)])
def test_where_an_accumulator_is_declared(planner, text, local):
    """Without an address, where the only region that uses it first does; else where its allocation stood."""
    p = scope(MATRICES + text, f"x: {HALF}, y: {HALF}, n: pl.Scalar[pl.INDEX], o: pl.Out[{SUMS}]")
    f = kernel_of(lower(p, PassOptions(planner)).device)
    (loop,) = (s for s in statements(f.body) if isinstance(s, ForStmt))
    inside = names(flatten_to_stmts(loop.body))
    assert len([h for h in handles(f) if h.type.memory_space is MemorySpace.Acc]) == 1
    assert ("alloc" in inside) == (local and planner is PTOAS)
    if "alloc" in inside:
        assert inside == ["alloc", "matmul", "matmul_acc", "store"]
    top = names(flatten_to_stmts(f.body))
    assert top.index("load") == top.count("alloc") == operations(f).count("alloc") - ("alloc" in inside)


@contract("B162")
@pytest.mark.parametrize("planner", PLANNERS)
def test_vector_storage_is_declared_in_front_of_everything(planner):
    body = "if n > 1:\n    a = pl.adds(t, 1.0)\n    pl.store(a, [0, 0], o)\nelse:\n    pl.store(t, [0, 0], o)"
    f = lowered(LOAD + body, planner, ((0, 0), (2, 0)))
    top = names(flatten_to_stmts(f.body))
    assert top.count("alloc") == operations(f).count("alloc")


# -- what has no buffer form -----------------------------------------------------------------------------------------


def explicit(
    body: str, params: str = "x: pl.Tensor[[16, 64], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"
) -> Program:
    """The low-level pass by hand, on a kernel that selection never saw."""
    options = PassOptions(enable_buffer_ir=False)
    p = through(scope(body, params), "allocate_memory_addr", buffers=False)
    return lower_tile_to_buffer.run(p, options)


@contract("B223", "B239")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (LOAD + "pl.store(pl.row_expand_add(t, pl.row_max(t, t)), [0, 0], o)", "no conversion recipe for 'tile.row_max'"),
        (LOAD + "k = pl.read(t, [0, 0])\npl.store(pl.muls(t, k), [0, 0], o)", "no conversion recipe for 'tile.read'"),
        (LOAD + "pl.store(t, [0, 0], o, atomic=pl.AtomicType.Add)", "atomic and phased stores require"),
        ("pl.store(pl.load(x, [0, 0], [16, 64], cache=1), [0, 0], o)", "cache-policy loads require"),
    ],
)
def test_what_has_no_recipe_is_diagnosed_at_its_line(body, words):
    with pytest.raises(CompileError, match=words) as e:
        explicit(body)
    assert e.value.span["line"] >= 5


@contract("B226")
def test_global_memory_must_be_one_parameter():
    t = "pl.Tensor[[16, 64], pl.FP32]"
    text = f"""
if n > 0:
    r: {t}
    r = pl.yield_(x)
else:
    r = pl.yield_(y)
"""
    p = raw_kernel(text + alloc("mem") + load("t", tile("mem")).replace("(x,", "(r,"), f"x: {t}, y: {t}, n: pl.Scalar[pl.INDEX]")
    with pytest.raises(CompileError, match="GM branch results must alias the same parameter"):
        lower_tile_to_buffer.run(p, PassOptions())
    one = raw_kernel(
        text.replace("(y)", "(x)") + alloc("mem") + load("t", tile("mem")).replace("(x,", "(r,"),
        f"x: {t}, n: pl.Scalar[pl.INDEX]",
    )
    f = kernel_of(lower_tile_to_buffer.run(one, PassOptions()))
    (read,) = calls(f, "load")
    assert read.args[0] is f.params[0]


@contract("B232")
def test_a_tensor_that_a_loop_changes_is_reported():
    t = "pl.Tensor[[16, 64], pl.FP32]"
    text = f"for i, (c,) in pl.range(3, init_values=(x,)):\n    r: {t} = pl.yield_({{}})\n"
    read = alloc("mem") + load("t", tile("mem")).replace("(x,", "(r,")
    with pytest.raises(CompileError, match="GM loop results must retain their initial parameter alias"):
        planned(text.format("y") + read)
    f = planned(text.format("c") + read)
    (load_,) = calls(f, "load")
    assert load_.args[0] is f.params[0]
    assert not any(s.iter_args for s in statements(f.body) if isinstance(s, ForStmt))


@contract("B224")
def test_attributes_need_a_contract():
    text = alloc("mem") + load("t", tile("mem")).replace("Mem.Vec)", "Mem.Vec, attrs={attrs})")
    params = "x: pl.Tensor[[16, 64], pl.FP32]"
    with pytest.raises(CompileError, match="explicit conversion contract"):
        lower_tile_to_buffer.run(raw_kernel(text.replace("{attrs}", "{'no_duplicate': True}"), params), PassOptions())
    made = lower_tile_to_buffer.run(
        raw_kernel(text.replace("{attrs}", "{'pipeline_membership': ['0:1']}"), params), PassOptions()
    )
    assert not any(c.attrs for c in calls(kernel_of(made), "load"))


CARRIED_APART = f"""
for i, (c,) in pl.range(3, init_values=(t,)):
    d: {tile("q", 4096)} = pl.tile.muls(c, 2.0)
    r = pl.yield_(d)
"""


@contract("B149")
def test_storage_is_checked_again():
    text = alloc("m") + alloc("q") + load("t", tile("m")) + CARRIED_APART
    with PassContext([], verification_level=0), pytest.raises(VerificationError, match="must share canonical storage"):
        lower_tile_to_buffer(raw_kernel(text, "x: pl.Tensor[[16, 64], pl.FP32]"))


@contract("B167")
def test_a_conversion_that_fails_leaves_its_input_alone():
    p = raw_kernel(alloc("m") + alloc("q") + load("t", tile("m")) + CARRIED_APART, "x: pl.Tensor[[16, 64], pl.FP32]")
    before = serialize(p)
    with pytest.raises(Error):
        lower_tile_to_buffer.run(p, PassOptions())
    assert serialize(p) == before


@contract("B010", "B012", "B108")
def test_kernels_left_at_tile_stage_stay():
    p = scope(LOADS + "pl.store(pl.row_expand_add(t, pl.row_max(u, t)), [0, 0], o)", X)
    f = kernel_of(lower(p, PassOptions()).device)
    assert f.ir_stage is FunctionIRStage.Functional
    assert f.attrs["buffer_ir_selected"] is False
