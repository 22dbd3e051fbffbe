"""Judge of NoNestedCalls: a call stands alone on the right of an assignment or as a bare statement.

Codes: 201 inside another call's arguments, 202 in a condition, 203 in a loop's range or initial values, 204 under a
binary operator, 205 under a unary one, 206 anywhere else (returned or yielded values, tuples).
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.ir.expr import BinaryExpr, Call, Expr, MakeTuple, Submit, TupleGetItemExpr, UnaryExpr
from pypto.ir.program import Program
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ReturnStmt, SpmdScopeStmt, Stmt, WhileStmt, YieldStmt
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements

__all__ = ["no_nested_calls"]

_WHERE = {
    201: "in the arguments of another call",
    202: "in a condition",
    203: "in the range or the initial values of a loop",
    204: "under a binary operator",
    205: "under a unary operator",
    206: "inside an expression",
}


def no_nested_calls(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for s in statements(f.body):
            yield from _statement(s)


def _statement(s: Stmt) -> Iterator[Diagnostic]:
    if isinstance(s, (AssignStmt, EvalStmt)):
        top = s.value if isinstance(s, AssignStmt) else s.expr
        if isinstance(top, (Call, Submit)):
            for e in top.args:
                yield from _inside(e, 201)
        else:
            yield from _inside(top, 206)
    elif isinstance(s, (IfStmt, WhileStmt)):
        yield from _inside(s.condition, 202)
    if isinstance(s, (ForStmt, WhileStmt)):
        bounds = (s.start, s.stop, s.step) if isinstance(s, ForStmt) else ()
        for e in (*bounds, *(a.initValue for a in s.iter_args)):
            yield from _inside(e, 203)
    if isinstance(s, (ReturnStmt, YieldStmt)):
        for e in s.value:
            yield from _inside(e, 206)
    if isinstance(s, SpmdScopeStmt):
        yield from _inside(s.core_num, 206)


def _inside(e: Expr, code: int) -> Iterator[Diagnostic]:
    if isinstance(e, (Call, Submit)):
        message = f"the call of '{e.op.name}' stands {_WHERE[code]}"
        yield Diagnostic(Severity.Error, "NoNestedCall", code, message, e.span)
        for a in e.args:
            yield from _inside(a, 201)
    elif isinstance(e, BinaryExpr):
        yield from _inside(e.left, 204)
        yield from _inside(e.right, 204)
    elif isinstance(e, UnaryExpr):
        yield from _inside(e.operand, 205)
    elif isinstance(e, MakeTuple):
        for a in e.elements:
            yield from _inside(a, code)
    elif isinstance(e, TupleGetItemExpr):
        yield from _inside(e.tuple, code)
