"""Printed programs parse back to equal programs, and print the same again."""

from __future__ import annotations

import ir_samples
import pytest
from ir_samples import BOOL, INDEX, VEC, dims, index

import pypto.language as pl
from pypto.dtypes import DataType as D
from pypto.enums import FunctionType, Level, MemorySpace, PadValue, ParamDirection, SplitMode, TensorLayout, TileLayout
from pypto.ir import ops, scalar
from pypto.ir.equality import assert_structural_equal
from pypto.ir.expr import Call, ConstInt, Expr, GlobalVar, IterArg, MemRef, TupleGetItemExpr, Var, const_index
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TensorView, TileType, TileView
from pypto.ir.stmt import (
    AssignStmt,
    ClusterScopeStmt,
    EvalStmt,
    ForStmt,
    HierarchyScopeStmt,
    IfStmt,
    InCoreScopeStmt,
    ReturnStmt,
    RuntimeScopeStmt,
    SeqStmts,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    Stmt,
    YieldStmt,
    seq,
)
from pypto.ir.types import PtrType, ScalarType, TupleType


def check(program: Program | Function, concise: bool = False) -> None:
    text = python_print(program, concise=concise)
    parsed = pl.parse(text)
    assert_structural_equal(program, parsed, enable_auto_mapping=True)
    uncommented = [line for line in text.splitlines()[1:] if not line.lstrip().startswith("#")]
    assert python_print(parsed, concise=concise).splitlines()[1:] == uncommented
    assert python_print(parsed, concise=concise).splitlines()[0] == text.splitlines()[0]


def control() -> Function:
    """The sample without the two scalar nodes that only print for reading."""
    f = ir_samples.control()
    unread = (scalar.Xor, scalar.Abs)
    kept = [s for s in f.body if not (isinstance(s, AssignStmt) and isinstance(s.value, unread))]  # type: ignore[attr-defined]
    return f.replace(body=SeqStmts(kept))


def layouts() -> Function:
    """Tiles with every kind of view, in every memory."""
    n, base = index("n"), Var("buf", PtrType.get())
    boxed = {"blayout": TileLayout.col_major, "slayout": TileLayout.row_major}
    types = [
        TileType([16, 32], D.FP32, None, TileView([n, 32]), VEC),
        TileType([16, 1], D.FP32, None, TileView([n, 1], blayout=TileLayout.col_major), VEC),
        TileType([16, 1], D.FP32, None, TileView(), VEC),
        TileType([16, 32], D.FP32, None, TileView([8, 32], **boxed), MemorySpace.Mat),
        TileType([16, 32], D.FP32, None, TileView(), MemorySpace.Mat),
        TileType([16, 32], D.FP32, None, TileView(fractal=1024, **boxed), MemorySpace.Acc),
        TileType([16, 32], D.FP32, MemRef(base, 64, 2048), TileView([4, 4], pad=PadValue.max), VEC),
        TileType([16, 32], D.FP32, MemRef(base, scalar.mul(n, const_index(32)), 2048), None, VEC),
        TileType([16, 32], D.FP32),
    ]
    stmts: list[Stmt] = [AssignStmt(base, ops.create_op_call("tile.alloc", [ConstInt(4096, D.INT64)], {"memory_space": VEC}))]
    for i, t in enumerate(types):
        kwargs = {"dtype": D.FP32} | ({"target_memory": t.memory_space} if t.memory_space is not None else {})
        stmts.append(AssignStmt(Var(f"t{i}", t), ops.create_op_call("tile.create", [dims(*map(_value, t.shape))], kwargs)))
    return Function("layouts", [n], [], SeqStmts([*stmts, ReturnStmt()]), type=FunctionType.InCore)


def _value(e: Expr) -> int:
    assert isinstance(e, ConstInt)
    return e.value


def launches() -> Program:
    """Symbols, views of tensors, scopes, calls with directions, several results."""
    rows, n = index("M"), index("n")
    x = Var("x", TensorType([rows, 64], D.FP32, None, TensorView([128, 1], TensorLayout.ND, [rows, 32], PadValue.min)))
    o = Var("o", TensorType([rows, 64], D.FP32))
    m = index("m")
    kernel = Function("kernel", [m], [INDEX, BOOL], ReturnStmt([m, scalar.lt(m, rows)]), type=FunctionType.InCore)
    pair = Var("pair", TupleType([INDEX, BOOL]))
    lane = index("lane")
    stmts: list[Stmt] = [
        AssignStmt(pair, Call(GlobalVar("kernel"), [n], pair.type)),
        AssignStmt(index("first"), TupleGetItemExpr(pair, 0)),
        HierarchyScopeStmt(Level.HOST, body=SeqStmts([])),
        RuntimeScopeStmt(True, body=ClusterScopeStmt("grouped", body=SpmdScopeStmt(n, True, body=EvalStmt(_call(n))))),
        InCoreScopeStmt(
            SplitMode.UP_DOWN,
            "named",
            body=SplitAivScopeStmt(
                SplitMode.LEFT_RIGHT,
                body=seq([AssignStmt(lane, ops.create_op_call("tile.get_subblock_idx", [])), EvalStmt(_call(lane))]),
            ),
            attrs={"windowize": True, "note": (1, 2.5, "x", None, n)},
        ),
        ReturnStmt([o, n]),
    ]
    params = [x, (o, ParamDirection.InOut), n]
    attrs = {"auto_scope": False, "cache_policy": ((0, 1),)}
    main = Function("main", params, [o.type, INDEX], SeqStmts(stmts), type=FunctionType.Orchestration, attrs=attrs)
    return Program([kernel, main], "Launches")


def _call(e: Expr) -> Call:
    return Call(GlobalVar("kernel"), [e], TupleType([INDEX, BOOL]))


def nested_yields() -> Function:
    """A branch in a branch in a loop, all of which hand on values; results of another type than what is yielded."""
    n, i, r = index("n"), Var("i", ScalarType.of(D.INT32)), index("r")
    carry = IterArg("x", INDEX, n)
    inner_result, outer_result = index("x"), index("x")
    inner = IfStmt(scalar.gt(carry, n), YieldStmt([carry]), YieldStmt([const_index(-1)]), [inner_result])
    outer = IfStmt(scalar.eq(carry, n), YieldStmt([n]), seq([inner, YieldStmt([inner_result])]), [outer_result])
    bounds = [ConstInt(v, D.INT32) for v in (0, 10, 2)]
    loop = ForStmt(i, *bounds, [carry], seq([outer, YieldStmt([outer_result])]), [r])
    base = Var("mem", PtrType.get())
    t = Var("t", TileType([8, 8], D.FP32, None, None, VEC))
    placed = Var("placed", TileType([8, 8], D.FP32, MemRef(base, 0, 256), None, VEC))
    make = ops.create_op_call("tile.create", [dims(8, 8)], {"dtype": D.FP32, "target_memory": VEC})
    moved = ForStmt(index("j"), *map(const_index, (0, 4, 1)), [IterArg("t", t.type, t)], YieldStmt([t]), [placed])
    alloc = ops.create_op_call("tile.alloc", [const_index(256)], {"memory_space": VEC})
    stmts = [loop, AssignStmt(base, alloc), AssignStmt(t, make), moved, ReturnStmt([r])]
    return Function("nested", [n], [INDEX], SeqStmts(stmts), type=FunctionType.AIV)


@pytest.mark.parametrize("make", [ir_samples.kernel, control, layouts, nested_yields])
@pytest.mark.parametrize("concise", [False, True])
def test_functions_alone_and_in_programs(make: object, concise: bool) -> None:
    check(make(), concise)  # type: ignore[operator]
    check(Program([make()], "P"), concise)  # type: ignore[operator]


@pytest.mark.parametrize("concise", [False, True])
def test_programs_with_symbols_scopes_and_launches(concise: bool) -> None:
    check(launches(), concise)
