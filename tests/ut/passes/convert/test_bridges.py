"""Operands come from global memory to where their operators read them: one table, one place where operators say it."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest
from back_lab import applied, call_of, kernel_of, raw_kernel
from convert_kit import IN, OUT, T, calls_of, convert, directions, kernel, raw_converted, values
from pass_lab import apply

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError, InternalError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstInt
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, flatten_to_stmts
from pypto.passes.convert_tensor_to_tile_ops.bridges import bridges_of, check_bridges
from pypto.passes.memory.spaces import staging_space

contract = pytest.mark.contract
M = MemorySpace
STAGED = {
    M.Vec: M.Vec,
    M.Mat: M.Mat,
    M.Left: M.Mat,
    M.Right: M.Mat,
    M.Bias: M.Mat,
    M.LeftScale: M.Mat,
    M.RightScale: M.Mat,
}
NUMBERS = {
    M.Vec: "T080",
    M.Mat: "T081",
    M.Left: "T082",
    M.Right: "T083",
    M.Bias: "T084",
    M.LeftScale: "T085",
    M.RightScale: "T085",
}
SPACES = [pytest.param(s, marks=contract(n)) for s, n in NUMBERS.items()]


def spaces(monkeypatch, name: str, *allowed: MemorySpace | None) -> None:
    """Let an operator say that it reads its operands elsewhere."""
    monkeypatch.setattr(ops.get(name), "spaces", tuple(None if s is None else (s,) for s in allowed))


# -- where loads go --------------------------------------------------------------------------------------------------


@contract("T006", "T007", "T015", "T072", "T073", "T074", "T075", "T076")
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    ("source", "params"),
    [
        ("y = pl.tensor.adds(x, 1.0)", f"x: {T}"),
        ("s = pl.tensor.slice(x, [4, 64], [4, 0])\ny = pl.tensor.adds(s, 1.0)", f"x: {T}"),
        ("w = pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))\ny = pl.tensor.adds(w, 1.0)", f"x: {T}"),
    ],
    ids=["whole", "slice", "written"],
)
def test_a_load_goes_where_it_can_for_what_its_consumer_declares(monkeypatch, space, source, params):
    spaces(monkeypatch, "tile.adds", space, None)
    f = kernel_of(convert(raw_kernel(source, params)))
    assert call_of(f, "tile.load").kwargs["target_memory"] is STAGED[space]
    assert isinstance(call_of(f, "tile.adds").args[0].type, TileType)
    assert "tile.move" not in applied(f)


@contract("T007")
def test_the_operator_that_declares_nothing_asks_for_nothing(monkeypatch):
    monkeypatch.setattr(ops.get("tile.adds"), "spaces", None)
    f = raw_converted("s = pl.tensor.slice(x, [4, 64], [4, 0])\ny = pl.tensor.adds(s, 1.0)", f"x: {T}")
    assert "target_memory" not in call_of(f, "tile.load").kwargs


@contract("T016")
def test_a_value_that_nobody_needs_anywhere_leaves_its_memory_open():
    p = convert(raw_kernel("s = pl.tensor.slice(x, [4, 64], [4, 0])", f"x: {T}"))
    assert "target_memory" not in call_of(kernel_of(p), "tile.load").kwargs
    (loaded,) = values(kernel_of(p), "tile.load")
    assert loaded.type.memory_space is None
    decided = kernel_of(apply(p, "flatten_tile_nd_to_2d", "infer_tile_memory_space"))
    assert call_of(decided, "tile.load").kwargs["target_memory"] is M.Vec


@contract("T082", "T083", "T084", "T085")
@pytest.mark.parametrize("space", [s for s, staged in STAGED.items() if s is not staged])
def test_a_move_makes_the_rest_of_the_way(monkeypatch, space):
    spaces(monkeypatch, "tile.adds", space, None)
    p = convert(raw_kernel("y = pl.tensor.adds(x, 1.0)", f"x: {T}"))
    f = kernel_of(apply(p, "flatten_tile_nd_to_2d", "infer_tile_memory_space"))
    assert [c.kwargs["target_memory"] for c in calls_of(f, "tile.move")] == [space]
    assert call_of(f, "tile.adds").args[0].type.memory_space is space


@contract("T086")
def test_nothing_is_loaded_into_an_accumulator():
    mat, acc = "pl.Tensor[[32, 32], pl.FP32]", "pl.Tensor[[32, 32], pl.FP32]"
    assert staging_space(M.Acc) is None
    with pytest.raises(CompileError, match="cannot be loaded into Acc memory") as e:
        raw_converted("y = pl.tensor.matmul_acc(c, a, b)", f"a: {mat}, b: {mat}, c: {acc}")
    assert e.value.hint


@contract("T087")
@pytest.mark.parametrize("space", list(STAGED))
def test_loads_that_are_placed_later_agree_with_loads_that_are_made(monkeypatch, space):
    spaces(monkeypatch, "tile.adds", space, None)
    made = raw_converted("y = pl.tensor.adds(x, 1.0)", f"x: {T}")
    open_ = raw_kernel("t = pl.tile.load(x, [0, 0], [16, 64], [16, 64])\ny = pl.tile.adds(t, 1.0)", f"x: {T}")
    placed = kernel_of(apply(convert(open_), "flatten_tile_nd_to_2d", "infer_tile_memory_space"))
    assert call_of(made, "tile.load").kwargs["target_memory"] is call_of(placed, "tile.load").kwargs["target_memory"]


@contract("T076", "T087")
def test_both_passes_ask_the_same_function():
    body = import_module("pypto.passes.convert_tensor_to_tile_ops.body")
    infer = import_module("pypto.passes.infer_tile_memory_space")
    assert body.staging_space is infer.staging_space is staging_space
    assert {s: staging_space(s) for s in MemorySpace} == {s: STAGED.get(s) for s in MemorySpace}


# -- rules that lead to several operators ----------------------------------------------------------------------------

PRODUCTS = {
    "tensor.matmul": ("tile.matmul", "tile.batch_matmul"),
    "tensor.matmul_acc": ("tile.matmul_acc", "tile.batch_matmul_acc"),
}


def like(op, **changes):
    """An operator of the table with other declarations."""
    made = copy.copy(op)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


@contract("T077")
@pytest.mark.parametrize("name", list(PRODUCTS))
def test_a_rule_names_every_operator_that_it_may_lead_to(name):
    op = ops.get(name)
    assert op.becomes == PRODUCTS[name]
    rank2, rank3 = (
        {n for n in applied(kernel("acc = " + PRODUCT[name] + "\no[:] = acc", params)) if "matmul" in n}
        for params in (MATRICES, BATCHES)
    )
    assert (rank2, rank3) == ({op.becomes[0]}, {op.becomes[1]})


MATRICES = "a: pl.Tensor[[32, 32], pl.FP32], b: pl.Tensor[[32, 32], pl.FP32], o: pl.Tensor[[32, 32], pl.FP32]"
BATCHES = MATRICES.replace("[32, 32]", "[1, 32, 32]")
PRODUCT = {
    "tensor.matmul": "pl.matmul(a, b)",
    "tensor.matmul_acc": "pl.matmul_acc(pl.create_tensor(o.shape, dtype=pl.FP32), a, b, init_cond=True)",
}


@contract("T077", "T078")
@pytest.mark.parametrize("name", list(PRODUCTS))
def test_operators_that_one_rule_leads_to_read_an_operand_in_one_memory(monkeypatch, name):
    op = ops.get(name)
    found = bridges_of(op)
    assert found is not None
    for i, operand in enumerate(op.operands):
        read = {ops.get(n).spaces[i] for n in op.becomes}
        assert read == {found[i]} if operand.kind == "tensor" else found[i] is None
    batch = ops.get(op.becomes[1])
    for i, operand in enumerate(op.operands):
        elsewhere = tuple((M.Vec,) if j == i else s for j, s in enumerate(batch.spaces))
        monkeypatch.setattr(batch, "spaces", elsewhere)
        if operand.kind == "tensor":
            with pytest.raises(
                InternalError, match=rf"operand {i} in different memories: {op.becomes[0]} in .* {batch.name} in Vec"
            ):
                check_bridges(ops.ALL)
        monkeypatch.undo()
    check_bridges(ops.ALL)


@contract("T079")
@pytest.mark.parametrize(("becomes", "what"), [(("tile.matmul", "tile.nothing"), "tile.nothing .* is not registered")])
def test_an_operator_that_is_not_there_is_an_error_of_the_table(becomes, what):
    with pytest.raises(InternalError, match=what):
        check_bridges([like(ops.get("tensor.matmul"), becomes=becomes)])


@contract("T079")
@pytest.mark.parametrize("spaces", [None, (), (None, (M.Right,)), ((M.Left,),)])
def test_an_operator_that_does_not_say_where_it_reads_is_an_error_of_the_table(monkeypatch, spaces):
    monkeypatch.setattr(ops.get("tile.batch_matmul"), "spaces", spaces)
    with pytest.raises(InternalError, match=r"tile\.batch_matmul does not say in which memory it reads operand [01]"):
        check_bridges(ops.ALL)


@contract("T077", "T079")
def test_what_the_table_does_not_say_is_an_error_before_a_kernel_is_converted(monkeypatch):
    body = "y = pl.tensor.matmul(x, w)"
    params = "x: pl.Tensor[[16, 32], pl.FP16], w: pl.Tensor[[32, 16], pl.FP16]"
    assert "tile.matmul" in applied(raw_converted(body, params))
    monkeypatch.setattr(ops.get("tile.batch_matmul"), "spaces", None)  # which this kernel does not become
    with pytest.raises(InternalError, match=r"tile\.batch_matmul does not say"):
        raw_converted(body, params)


# -- what loads for itself, what follows its operand -----------------------------------------------------------------


@contract("T020", "T088")
@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("y = pl.tensor.slice(x, [4, 64], [4, 0])", ["tile.load"]),
        ("s = pl.tensor.slice(x, [4, 64], [4, 0])\ny = pl.tensor.assemble(o, s, [0, 0])", ["tile.load", "tile.store"]),
        ("y = pl.tensor.write(x, [0, 0], pl.const(1.0, pl.FP32))", ["tensor.write"]),
        ("y = pl.tensor.read(x, [0, 0])", ["tensor.read"]),
        ("y = pl.tensor.dim(x, 0)", ["tensor.dim"]),
        ("y = pl.tensor.gather(x, n)", ["tile.load", "tile.mgather"]),
    ],
)
def test_operators_on_memory_keep_their_tensors(body, names):
    f = raw_converted(body, f"x: {T}, n: pl.Tensor[[2, 8], pl.INT32], o: {T}")
    assert applied(f) == names


@contract("T089")
@pytest.mark.parametrize("space", [M.Vec, M.Mat])
def test_an_assembled_tile_lies_where_its_target_lies(space):
    body = (
        f"t = pl.tile.create([32, 64], dtype=pl.FP32, target_memory=pl.Mem.{space.name})\n"
        f"s = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.{space.name})\nr = pl.tile.assemble(t, s, [16, 0])"
    )
    f = kernel_of(apply(convert(raw_kernel(body, f"x: {T}")), "infer_tile_memory_space"))
    assert values(f, "tile.assemble")[0].type.memory_space is space
    assert "tile.move" not in applied(f)


@contract("T089")
@pytest.mark.parametrize("space", [M.Vec, M.Mat])
def test_a_gathered_row_lies_where_its_tile_lies(space):
    body = (
        f"t = pl.tile.create([32, 64], dtype=pl.FP32, target_memory=pl.Mem.{space.name})\n"
        "r = pl.tile.gather_row(t, x, [16, 0], [0, 0], [16, 64])"
    )
    f = kernel_of(apply(convert(raw_kernel(body, f"x: {T}")), "infer_tile_memory_space"))
    assert values(f, "tile.gather_row")[0].type.memory_space is space
    assert "tile.move" not in applied(f)


# -- rules -----------------------------------------------------------------------------------------------------------


@contract("T017")
def test_an_operator_becomes_what_its_own_rule_makes(monkeypatch):
    monkeypatch.setattr(ops.get("tensor.exp"), "to_tile", lambda lo, call, args: lo.emit("tile.neg", (lo.tile(args[0]),)))
    assert applied(kernel("o[:] = pl.exp(x)", f"x: {T}, o: {T}")) == ["tile.load", "tile.neg", "tile.store"]


@contract("T017")
def test_an_operator_without_a_form_on_tiles_is_refused(monkeypatch):
    found = ops.find
    monkeypatch.setattr(ops, "find", lambda name: None if name == "tile.exp" else found(name))
    with pytest.raises(CompileError, match=r"tensor\.exp has no form on tiles") as e:
        kernel("o[:] = pl.exp(x)", f"x: {T}, o: {T}")
    assert e.value.code == "C022"


@contract("T018")
def test_an_operand_is_loaded_in_front_of_the_statement_that_needs_it():
    f = kernel("pl.write(x, [0, 0], pl.const(1.0, pl.FP32))\na = pl.mul(y, 2.0)\no[:] = pl.add(a, x)", f"x: {T}, y: {T}, o: {T}")
    stmts = [s.value for s in flatten_to_stmts(f.body) if isinstance(s, AssignStmt)]
    names = [v.op.name for v in stmts if isinstance(v, Call)]
    assert names == ["tile.load", "tensor.write", "tile.muls", "tile.load", "tile.add", "tile.store"]


@contract("T025", "T183")
@pytest.mark.parametrize("shape", ["[64]", "[16, 64]"])
def test_the_smallest_kernel(shape):
    t = f"pl.Tensor[{shape}, pl.FP32]"
    f = kernel_of(convert(raw_kernel("y = pl.tensor.add(x, x)\nreturn y", f"x: {t}", t)))
    assert applied(f) == ["tile.load", "tile.add", "tile.store"]
    assert directions(f) == {"x": IN, "ret0_out": OUT}
    add, store = call_of(f, "tile.add"), call_of(f, "tile.store")
    assert add.args[0] is add.args[1]
    assert store.args[2] is f.params[1]
    assert all(isinstance(e, ConstInt) and e.value == 0 and e.dtype is DataType.INDEX for e in store.args[1].elements)
    assert f.params[1].type == f.params[0].type
