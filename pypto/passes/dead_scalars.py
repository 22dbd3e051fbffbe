"""Scalar computation that nothing reads, removed.

In: a function in SSA form.  Out: the function without pure scalar assignments whose variable is never read, and without
the branches and loops that are empty then.
Invariant: whatever calls an operator stays, and so does a loop whose step could still prove to be zero.
"""

from __future__ import annotations

from pypto.ir.expr import ConstInt, Expr, MakeTuple, Var
from pypto.ir.fold import is_pure
from pypto.ir.node import Node
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, SeqStmts, Stmt, WhileStmt, flatten_to_stmts
from pypto.ir.types import ScalarType
from pypto.passes.retype import rebuilt, used_vars

__all__ = ["without_dead_scalars"]


def without_dead_scalars(f: Function) -> Function:
    """One pass from the end to the beginning: every read of a variable stands behind its definition."""
    dead = _Dead()
    for p in f.params:
        dead.read(p.type)
    return f.replace(body=dead.body(f.body))


class _Dead:
    def __init__(self) -> None:
        self.used: set[Var] = set()

    def read(self, n: Node) -> None:
        self.used |= used_vars(n, types=True).keys()

    def body(self, s: Stmt) -> Stmt:
        kept: list[Stmt] = []
        for x in reversed(flatten_to_stmts(s)):
            made = self.statement(x)
            if made is not None:
                kept.append(made)
        return rebuilt(s, kept[::-1])

    def statement(self, s: Stmt) -> Stmt | None:
        if isinstance(s, AssignStmt):
            removable = isinstance(s.var.type, ScalarType) or isinstance(s.value, MakeTuple)
            if removable and s.var not in self.used and is_pure(s.value):
                return None
        elif isinstance(s, IfStmt):
            return self._branch(s)
        elif isinstance(s, (ForStmt, WhileStmt)):
            return self._loop(s)
        elif isinstance(s, ScopeStmt):
            made = s.replace(body=self.body(s.body))
            self.read(s.replace(body=SeqStmts(())))
            return made
        self.read(s)
        return s

    def _branch(self, s: IfStmt) -> Stmt | None:
        for r in s.return_vars:
            self.read(r.type)
        then, other = self.body(s.then_body), None if s.else_body is None else self.body(s.else_body)
        if not s.return_vars and _empty(then) and _empty(other) and is_pure(s.condition):
            return None
        self.read(s.condition)
        return s.replace(then_body=then, else_body=None if not s.return_vars and _empty(other) else other)

    def _loop(self, s: ForStmt | WhileStmt) -> Stmt | None:
        for v in (*s.return_vars, *s.iter_args):
            self.read(v.type)
        body = self.body(s.body)
        heads: list[Expr] = [a.initValue for a in s.iter_args]
        if isinstance(s, ForStmt):
            bounds = (s.start, s.stop, s.step)
            if _empty(body) and not s.iter_args and isinstance(s.step, ConstInt) and all(is_pure(e) for e in bounds):
                return None
            heads += bounds
        else:
            heads.append(s.condition)
        for e in heads:
            self.read(e)
        return s.replace(body=body)


def _empty(s: Stmt | None) -> bool:
    return not flatten_to_stmts(s)
