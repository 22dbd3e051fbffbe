"""Visitors and mutators subclassed from outside."""

from __future__ import annotations

from typing import Any

import ir_samples
from ir_samples import index

from pypto.ir import scalar
from pypto.ir.equality import structural_equal
from pypto.ir.expr import Call, ConstInt, Expr, GlobalVar, MakeTuple, Var, const_index
from pypto.ir.program import Function, Program
from pypto.ir.stmt import EvalStmt, ForStmt, Stmt
from pypto.ir.visitors import IRMutator, IRVisitor


def test_every_node_passes_the_entry_points_once_per_use() -> None:
    class Counter(IRVisitor):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_expr(self, e: Expr) -> None:
            self.seen.append("expr")
            super().visit_expr(e)

        def visit_stmt(self, s: Stmt) -> None:
            self.seen.append("stmt")
            super().visit_stmt(s)

        def visit_function(self, f: Function) -> None:
            self.seen.append("function")
            super().visit_function(f)

        def visit_program(self, p: Program) -> None:
            self.seen.append("program")
            super().visit_program(p)

    a = index("a")
    counter = Counter()
    counter.visit_program(Program([Function("f", [a], [], EvalStmt(scalar.add(a, const_index(1))))]))
    assert counter.seen == ["program", "function", "expr", "stmt", "expr", "expr", "expr"]


def test_specific_hooks_win_and_fall_back_to_their_category() -> None:
    class Names(IRVisitor):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_add(self, e: Any) -> None:
            self.seen.append("add")
            super().visit_add(e)  # type: ignore[misc]

        def visit_binary_expr(self, e: Any) -> None:
            self.seen.append(f"binary {type(e).__name__}")
            super().visit_binary_expr(e)

        def visit_unary_expr(self, e: Any) -> None:
            self.seen.append(f"unary {type(e).__name__}")
            super().visit_unary_expr(e)

        def visit_var_like(self, v: Var) -> None:
            self.seen.append(v.name_hint)

    names = Names()
    names.visit_expr(scalar.add(scalar.mul(index("a"), index("b")), scalar.neg(index("c"))))
    assert names.seen == ["add", "binary Add", "binary Mul", "a", "b", "unary Neg", "c"]


def test_a_visitor_walks_whole_programs() -> None:
    class Calls(IRVisitor):
        def __init__(self) -> None:
            self.names: list[str] = []

        def visit_call(self, c: Call) -> None:
            self.names.append(c.op.name)
            super().visit_call(c)  # type: ignore[misc]

        def visit_for_stmt(self, s: ForStmt) -> None:
            self.names.append("for")
            super().visit_for_stmt(s)  # type: ignore[misc]

    calls = Calls()
    calls.visit_program(ir_samples.program())
    assert calls.names.count("for") == 2
    assert calls.names.count("tile.add") == 3
    assert "kernel" in calls.names


def test_a_mutator_that_changes_nothing_returns_the_same_object() -> None:
    program = ir_samples.program()
    assert IRMutator().visit_program(program) is program
    for s in ir_samples.control().body.stmts:  # type: ignore[attr-defined]
        assert IRMutator().visit_stmt(s) is s


def test_a_mutator_rewrites_uses_and_keeps_the_rest() -> None:
    class Double(IRMutator):
        def visit_const_int(self, e: ConstInt) -> Expr:
            return const_index(e.value * 2)

        def visit_call(self, c: Call) -> Any:
            made = super().visit_call(c)  # type: ignore[misc]
            return made.replace(op=GlobalVar("renamed"))

    a = index("a")
    tree = EvalStmt(Call(GlobalVar("f"), [scalar.add(a, const_index(3)), MakeTuple([a])]))
    want = EvalStmt(Call(GlobalVar("renamed"), [scalar.add(a, const_index(6)), MakeTuple([a])]))
    made = Double().visit_stmt(tree)
    assert structural_equal(made, want)
    assert made.expr.args[1] is tree.expr.args[1]  # type: ignore[attr-defined]


def test_a_mutator_renews_definitions_with_their_uses() -> None:
    class Retype(IRMutator):
        def visit_type(self, t: Any) -> Any:
            return ir_samples.F32 if t is ir_samples.INDEX else t

    a = index("a")
    f = Function("f", [a], [], EvalStmt(a))
    made = Retype().visit_function(f)
    assert made.params[0].type is ir_samples.F32
    assert made.body.expr is made.params[0]
