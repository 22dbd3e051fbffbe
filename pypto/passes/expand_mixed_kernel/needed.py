"""What a body does that anybody can see, and what that needs.

In: a body in SSA form.  Out: the body without assignments, carries, results, branches and loops that nothing visible needs.
Invariant: what writes memory, returns, or acts on a pipe stays, and in its order.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.fold import is_pure
from pypto.ir.node import Node
from pypto.ir.stmt import (
    AssignStmt,
    ForStmt,
    IfStmt,
    ScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    last_yield,
    seq,
)
from pypto.passes.retype import used_vars

__all__ = ["acts", "without_needless"]


def acts(s: Stmt) -> bool:
    """Whether a plain statement does more than to give a value."""
    if isinstance(s, AssignStmt):
        if isinstance(s.value, Call):
            op = ops.of(s.value)
            return op is None or not op.is_pure(s.value.kwargs)
        return not is_pure(s.value)
    return not isinstance(s, YieldStmt)


def without_needless(body: Stmt) -> Stmt:
    """The body with what is needed of it."""
    found = _Needed()
    known = -1
    while known != len(found.vars):  # what a carry needs may be needed by what came before it in the loop
        known = len(found.vars)
        found.mark(body)
    return _swept(body, found)


class _Needed:
    """Variables that are needed, and statements that hold something visible."""

    def __init__(self) -> None:
        self.vars: set[Var] = set()
        self.live: set[int] = set()  # by identity

    def read(self, *nodes: Node) -> None:
        for n in nodes:
            self.vars |= used_vars(n, types=True).keys()

    def mark(self, s: Stmt | None) -> bool:
        """Whether a body holds anything that is needed."""
        return any([self._statement(x) for x in reversed(flatten_to_stmts(s))])

    def _statement(self, s: Stmt) -> bool:
        found = self._is_live(s)
        if found:
            self.live.add(id(s))
        return found

    def _is_live(self, s: Stmt) -> bool:
        if isinstance(s, IfStmt):
            return self._branch(s)
        if isinstance(s, (ForStmt, WhileStmt)):
            return self._loop(s)
        if isinstance(s, ScopeStmt):
            return self.mark(s.body)
        if isinstance(s, YieldStmt):
            return False
        if acts(s) or (isinstance(s, AssignStmt) and s.var in self.vars):
            self.read(s)
            if isinstance(s, AssignStmt):
                self.read(s.var.type)
            return True
        return False

    def _branch(self, s: IfStmt) -> bool:
        inside = [self.mark(b) for b in (s.then_body, s.else_body)]
        kept = _positions(s.return_vars, self.vars)
        for b in (s.then_body, s.else_body):
            self._yielded(b, kept)
        if not any(inside) and not kept:
            return False
        self.read(s.condition, *(s.return_vars[i].type for i in kept))
        return True

    def _loop(self, s: ForStmt | WhileStmt) -> bool:
        inside = self.mark(s.body)
        if not inside and not _kept(s, self.vars):
            return False
        self.read(*((s.start, s.stop, s.step) if isinstance(s, ForStmt) else (s.condition,)))
        kept = _kept(s, self.vars)
        self._yielded(s.body, kept)
        for i in kept:
            self.read(s.iter_args[i].initValue, s.iter_args[i].type)
        return True

    def _yielded(self, b: Stmt | None, kept: Iterable[int]) -> None:
        y = last_yield(b)
        if y is not None:
            self.read(*(y.value[i] for i in kept))


def _positions(values: Iterable[Var], among: set[Var]) -> list[int]:
    return [i for i, v in enumerate(values) if v in among]


def _kept(s: ForStmt | WhileStmt, needed: set[Var]) -> list[int]:
    """Carries that somebody reads, inside or behind the loop."""
    return sorted({*_positions(s.return_vars, needed), *_positions(s.iter_args, needed)})


# -- what stays ----------------------------------------------------------------------------------------------------


def _swept(s: Stmt, found: _Needed, kept: Iterable[int] = ()) -> Stmt:
    return seq([y for x in flatten_to_stmts(s) for y in _left(x, found, kept)], s.span)


def _left(s: Stmt, found: _Needed, kept: Iterable[int]) -> list[Stmt]:
    if isinstance(s, YieldStmt):
        values = _at(s.value, kept)
        return [s.replace(value=values)] if values else []
    if id(s) not in found.live:
        return []
    if isinstance(s, IfStmt):
        mine = _positions(s.return_vars, found.vars)
        then = _swept(s.then_body, found, mine)
        other = None if s.else_body is None else _swept(s.else_body, found, mine)
        other = None if other is None or not flatten_to_stmts(other) else other
        return [s.replace(then_body=then, else_body=other, return_vars=_at(s.return_vars, mine))]
    if isinstance(s, (ForStmt, WhileStmt)):
        mine = _kept(s, found.vars)
        made = s.replace(iter_args=_at(s.iter_args, mine), return_vars=_at(s.return_vars, mine))
        return [made.replace(body=_swept(s.body, found, mine))]
    return [s.replace(body=_swept(s.body, found))] if isinstance(s, ScopeStmt) else [s]


def _at(values: tuple[Expr, ...], kept: Iterable[int]) -> tuple[Expr, ...]:
    return tuple(values[i] for i in kept)
