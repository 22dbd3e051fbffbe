"""Walking statements without their expressions.

In: a body.  Out: its statements in program order, those inside loops, branches and scopes included; the operators that
they apply (in three-address form a call is a statement's whole value).
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.ir.expr import Call, IterArg, Var
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, SeqStmts, Stmt, WhileStmt, value_of

__all__ = ["applies", "calls", "definitions", "statements"]


def statements(body: Stmt | None) -> Iterator[Stmt]:
    """Every statement but sequences, parents first."""
    stack: list[Stmt | None] = [body]
    while stack:
        s = stack.pop()
        if s is None:
            continue
        if isinstance(s, SeqStmts):
            stack.extend(reversed(s.stmts))
            continue
        yield s
        if isinstance(s, IfStmt):
            stack += (s.else_body, s.then_body)
        elif isinstance(s, (ForStmt, WhileStmt, ScopeStmt)):
            stack.append(s.body)


def calls(body: Stmt | None) -> Iterator[Call]:
    """Every call that is the whole value of a statement."""
    for s in statements(body):
        e = value_of(s)
        if isinstance(e, Call):
            yield e


def applies(f: Function, *names: str) -> bool:
    """Whether a function applies one of the operators."""
    return any(c.op.name in names for c in calls(f.body))


def definitions(body: Stmt | None) -> Iterator[Var]:
    """Every variable that statements define: assignments, loop variables, carries, results."""
    for s in statements(body):
        if isinstance(s, AssignStmt):
            yield s.var
        elif isinstance(s, IfStmt):
            yield from s.return_vars
        elif isinstance(s, (ForStmt, WhileStmt)):
            carries: tuple[IterArg, ...] = s.iter_args
            yield from carries
            if isinstance(s, ForStmt):
                yield s.loop_var
            yield from s.return_vars
