"""Programs built with the builder: the same nodes as built by hand."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ir_samples import BOOL, F32, INDEX, index

from pypto.dtypes import DataType as D
from pypto.enums import ForKind, FunctionType, Level, ParamDirection, Role, ScopeKind, SplitMode
from pypto.errors import ArgumentValueError
from pypto.ir import op, scalar
from pypto.ir.builder import IRBuilder
from pypto.ir.equality import assert_structural_equal
from pypto.ir.expr import Call, ConstFloat, ConstInt, GlobalVar, IterArg, Var, const_index
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ContinueStmt,
    EvalStmt,
    ForStmt,
    HierarchyScopeStmt,
    IfStmt,
    InCoreScopeStmt,
    InlineStmt,
    ReturnStmt,
    RuntimeScopeStmt,
    SeqStmts,
    SplitAivScopeStmt,
    SpmdScopeStmt,
    WhileStmt,
    YieldStmt,
)
from pypto.span import Span


def test_a_function() -> None:
    ib = IRBuilder()
    with ib.function("f", type=FunctionType.InCore, attrs={"split": 1}) as f:
        a = f.param("a", INDEX)
        b = f.param("b", F32, direction=ParamDirection.InOut)
        f.return_type(INDEX)
        c = ib.let("c", scalar.add(a, const_index(2)))
        ib.assign(c, 3)
        ib.let("d", 1.5)
        ib.eval_stmt(b)
        ib.return_stmt(c)
    x, y, z, w = index("x"), Var("y", F32), index("z"), Var("w", F32)
    body = [
        AssignStmt(z, scalar.add(x, const_index(2))),
        AssignStmt(z, const_index(3)),
        AssignStmt(w, ConstFloat(1.5, D.FP32)),
        EvalStmt(y),
        ReturnStmt([z]),
    ]
    params = [x, (y, ParamDirection.InOut)]
    want = Function("f", params, [INDEX], SeqStmts(body), type=FunctionType.InCore, attrs={"split": 1})
    assert_structural_equal(f.get_result(), want)


def test_loops_with_carried_values() -> None:
    ib = IRBuilder()
    with ib.function("f") as f:
        n = f.param("n", INDEX)
        i = ib.var("i", INDEX)
        with ib.for_loop(i, 0, n, kind=ForKind.Pipeline, attrs={"pipeline_stages": 2}) as loop:
            total = loop.iter_arg("total", 0)
            r = loop.return_var("r")
            ib.emit(YieldStmt([scalar.add(total, i)]))
        assert loop.output() is r
        assert loop.outputs() == [r]
        with ib.while_loop() as again:
            k = again.iter_arg("k", r)
            again.set_condition(scalar.lt(k, n))
            s = again.return_var("s")
            ib.emit(YieldStmt([scalar.add(k, const_index(1))]))
        ib.return_stmt([r, s])
    m, j = index("m"), index("j")
    t, q = IterArg("t", INDEX, const_index(0)), index("q")
    one = const_index(1)
    first = ForStmt(
        j, const_index(0), m, one, [t], YieldStmt([scalar.add(t, j)]), [q], kind=ForKind.Pipeline, attrs={"pipeline_stages": 2}
    )
    u, p = IterArg("u", INDEX, q), index("p")
    second = WhileStmt(scalar.lt(u, m), [u], YieldStmt([scalar.add(u, one)]), [p])
    assert_structural_equal(f.get_result(), Function("f", [m], [], SeqStmts([first, second, ReturnStmt([q, p])])))
    assert loop.get_result() is f.get_result().body.stmts[0]


def test_branches() -> None:
    ib = IRBuilder()
    with ib.function("f") as f:
        flag = f.param("flag", BOOL)
        with ib.if_stmt(flag) as both:
            r = both.return_var("r", INDEX)
            ib.emit(YieldStmt([const_index(1)]))
            both.else_()
            ib.emit(YieldStmt([const_index(2)]))
        with ib.if_stmt(flag):
            ib.eval_stmt(r)
    b, q = Var("b", BOOL), index("q")
    first = IfStmt(b, YieldStmt([const_index(1)]), YieldStmt([const_index(2)]), [q])
    assert_structural_equal(f.get_result(), Function("f", [b], [], SeqStmts([first, IfStmt(b, EvalStmt(q), None)])))


def test_programs_and_calls() -> None:
    ib = IRBuilder()
    with ib.program("P") as p:
        callee = p.declare_function("g")
        assert p.get_global_var("g") is callee
        for name in ("g", "f"):
            with ib.function(name) as f:
                if name == "f":
                    ib.eval_stmt(Call(callee, []))
                ib.return_stmt()
            p.add_function(f.get_result())
        with pytest.raises(ArgumentValueError, match="'h' is not declared"):
            p.get_global_var("h")
    g = Function("g", [], [], ReturnStmt())
    f = Function("f", [], [], SeqStmts([EvalStmt(Call(GlobalVar("g"), [])), ReturnStmt()]))
    assert_structural_equal(p.get_result(), Program([g, f]))
    assert p.get_result().name == "P"


def test_scopes() -> None:
    ib = IRBuilder()
    n = index("n")
    cases: list[tuple[dict[str, Any], Any]] = [
        ({"scope_kind": ScopeKind.InCore, "split": SplitMode.UP_DOWN}, InCoreScopeStmt(SplitMode.UP_DOWN, body=EvalStmt(n))),
        (
            {"scope_kind": ScopeKind.Hierarchy, "level": Level.HOST, "role": Role.Orchestrator, "name_hint": "x"},
            HierarchyScopeStmt(Level.HOST, Role.Orchestrator, "x", body=EvalStmt(n)),
        ),
        (
            {"scope_kind": ScopeKind.Spmd, "core_num": 4, "sync_start": True, "attrs": [("a", 1)]},
            SpmdScopeStmt(4, True, body=EvalStmt(n), attrs={"a": 1}),
        ),
        ({"scope_kind": ScopeKind.SplitAiv, "split": SplitMode.NONE}, SplitAivScopeStmt(SplitMode.NONE, body=EvalStmt(n))),
        ({"scope_kind": ScopeKind.Runtime, "manual": True}, RuntimeScopeStmt(True, body=EvalStmt(n))),
    ]
    for options, want in cases:
        with ib.function("f"):
            with ib.scope(**options) as scope:
                ib.eval_stmt(n)
            assert_structural_equal(scope.get_result(), want)
    with pytest.raises(ArgumentValueError, match="a Cluster scope takes no split"):
        ib.scope(ScopeKind.Cluster, split=SplitMode.UP_DOWN)


def test_the_other_statements_and_where_we_are() -> None:
    ib = IRBuilder()
    assert not ib.in_function()
    with ib.function("f") as f:
        ib.add_function_attrs({"x": 1})
        with ib.for_loop(ib.var("i", INDEX), 0, 4):
            assert (ib.in_function(), ib.in_loop(), ib.in_if()) == (True, True, False)
            with ib.if_stmt(True) as branch:
                assert ib.in_if()
                ib.break_stmt()
                branch.else_()
                ib.continue_stmt()
        ib.inline_stmt("pass")
        pair = ib.make_tuple([1, 2.5])
    result = f.get_result()
    assert result.attrs == {"x": 1}
    inner = result.body.stmts[0].body
    assert isinstance(inner.then_body, BreakStmt)
    assert isinstance(inner.else_body, ContinueStmt)
    assert isinstance(result.body.stmts[1], InlineStmt)
    assert [type(e) for e in pair.elements] == [ConstInt, ConstFloat]


def test_places_are_the_callers_lines() -> None:
    ib = IRBuilder()
    with ib.function("f") as f:
        ib.let("a", 1)
        ib.let("b", 2, span=Span("given.py", 7, 1))
    first, second = f.get_result().body.stmts
    assert first.span.filename == __file__
    assert second.span.begin_line == 7
    assert f.get_result().span.begin_line < first.span.begin_line


def test_comments_go_to_the_next_statement() -> None:
    ib = IRBuilder()
    with ib.function("f") as f:
        ib.push_pending_leading_comments(["why"])
        ib.let("a", 1)
        ib.let("b", 2)
        assert ib.pop_pending_leading_comments() == []
    first, second = f.get_result().body.stmts
    assert (first.leading_comments, second.leading_comments) == (("why",), ())


def test_misuse() -> None:
    ib = IRBuilder()
    with pytest.raises(ArgumentValueError, match="open function"):
        ib.let("a", 1)
    with ib.function("f") as f:
        with pytest.raises(ArgumentValueError, match="still open"):
            f.get_result()
        with ib.for_loop(ib.var("i", INDEX), 0, 4) as loop, pytest.raises(ArgumentValueError, match="no iter_arg"):
            loop.return_var("r")
        with pytest.raises(ArgumentValueError, match="needs a condition"), ib.while_loop():
            pass
        with ib.if_stmt(True) as branch:
            branch.else_()
            with pytest.raises(ArgumentValueError, match="one else"):
                branch.else_()
        with pytest.raises(TypeError, match="got str"):
            ib.let("a", "x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentValueError, match="no function is open"):
        ib.add_function_attrs({})


def test_a_block_that_fails_leaves_no_trace() -> None:
    ib = IRBuilder()
    with ib.function("f") as f:
        branch = ib.if_stmt(True)
        with contextlib.suppress(KeyError), branch:
            ib.eval_stmt(1)
            raise KeyError
        with pytest.raises(ArgumentValueError, match="still open"):
            branch.get_result()
        ib.return_stmt()
    assert isinstance(f.get_result().body, ReturnStmt)


def test_operator_namespaces_build_checked_calls() -> None:
    x = Var("x", TensorType([64, 64], D.FP32))
    t = op.tile.load(x, [0, 0], [16, 64], [16, 64])
    assert t.op.name == "tile.load"
    doubled = op.tile.muls(t, 2)
    assert (doubled.args[1].value, doubled.args[1].dtype) == (2.0, D.FP32)
    assert op.tensor.dim(x, const_index(0)).type is INDEX
    assert "add" in dir(op.tile)
    with pytest.raises(AttributeError, match="not found in registry"):
        _ = op.tile.nonsense
    with pytest.raises(TypeError, match="takes 2 operands"):
        op.tile.add(t)
    with pytest.raises(TypeError, match="not object"):
        op.tile.muls(t, object())
