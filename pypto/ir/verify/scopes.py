"""Walking the statements of a function, plainly or with the variables that are visible at each place.

In: a body or a function.  Out: its statements and definitions, or calls of the hooks below, in program order.  Branches and
loop bodies close over what they define; other scopes are transparent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto.ir.expr import Expr, IterArg, Var
from pypto.ir.node import Node
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, SeqStmts, Stmt, WhileStmt

__all__ = ["ScopedWalk", "defined_by", "definitions", "statements", "symbols_of", "uses_in"]


def statements(s: Stmt) -> Iterator[Stmt]:
    """Every statement below and including `s`, in program order; expressions are not looked into."""
    stack = [s]
    while stack:
        top = stack.pop()
        yield top
        if isinstance(top, SeqStmts):
            stack += reversed(top.stmts)
        elif isinstance(top, IfStmt):
            stack += (top.then_body,) if top.else_body is None else (top.else_body, top.then_body)
        elif isinstance(top, (ForStmt, WhileStmt, ScopeStmt)):
            stack.append(top.body)


def defined_by(s: Stmt) -> tuple[Var, ...]:
    """The variables that a statement itself brings into being."""
    if isinstance(s, AssignStmt):
        return (s.var,)
    if isinstance(s, IfStmt):
        return s.return_vars
    if isinstance(s, ForStmt):
        return (*s.iter_args, s.loop_var, *s.return_vars)
    return (*s.iter_args, *s.return_vars) if isinstance(s, WhileStmt) else ()


def definitions(s: Stmt) -> dict[Var, None]:
    """The variables that come into being in `s`, each once."""
    return dict.fromkeys(v for x in statements(s) for v in defined_by(x))


def uses_in(n: Node) -> Iterable[Var]:
    """Variables an expression or a plain statement reads; neither definitions nor extents inside types."""
    stack: list[Node] = [n]
    while stack:
        x = stack.pop()
        if isinstance(x, Var) and x.__identity__:
            yield x
            continue
        stack += x.parts()


def symbols_of(f: Function) -> set[Var]:
    """Dynamic extents that the parameters bring along."""
    found: set[Var] = set()
    for p in f.params:
        found |= {v for v in walk(p.type, types=True) if isinstance(v, Var) and v.__identity__}
    return found


class ScopedWalk:
    """`visible` holds the variables of this place; hooks: define(v, stmt), use(v, stmt), enter(stmt)."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.visible: set[Var] = {*f.params, *symbols_of(f)}

    def define(self, v: Var, at: Stmt) -> None: ...

    def use(self, v: Var, at: Stmt) -> None: ...

    def enter(self, s: Stmt) -> None: ...

    def run(self) -> None:
        self._statement(self.f.body)

    def _define(self, vs: Iterable[Var], at: Stmt) -> None:
        for v in vs:
            self.define(v, at)
            self.visible.add(v)

    def _read(self, e: Node | None, at: Stmt) -> None:
        for v in uses_in(e) if e is not None else ():
            self.use(v, at)

    def _closed(self, s: Stmt | None) -> None:
        if s is not None:
            outer = set(self.visible)
            self._statement(s)
            self.visible = outer

    def _statement(self, s: Stmt) -> None:
        if not isinstance(s, SeqStmts):
            self.enter(s)
        if isinstance(s, SeqStmts):
            for x in s.stmts:
                self._statement(x)
        elif isinstance(s, AssignStmt):
            self._read(s.value, s)
            self._define((s.var,), s)
        elif isinstance(s, IfStmt):
            self._read(s.condition, s)
            self._closed(s.then_body)
            self._closed(s.else_body)
            self._define(s.return_vars, s)
        elif isinstance(s, (ForStmt, WhileStmt)):
            self._loop(s)
        elif isinstance(s, ScopeStmt):
            for e in _heads(s):
                self._read(e, s)
            self._statement(s.body)
        else:
            self._read(s, s)

    def _loop(self, s: ForStmt | WhileStmt) -> None:
        bounds: tuple[Expr, ...] = (s.start, s.stop, s.step) if isinstance(s, ForStmt) else ()
        own: tuple[IterArg, ...] = s.iter_args
        for e in (*bounds, *(a.initValue for a in own)):
            self._read(e, s)
        outer = set(self.visible)
        self._define(own, s)
        if isinstance(s, ForStmt):
            self._define((s.loop_var,), s)
        else:
            self._read(s.condition, s)
        self._statement(s.body)
        self.visible = outer
        self._define(s.return_vars, s)


def _heads(s: ScopeStmt) -> Iterable[Node]:
    """What a scope reads besides its body."""
    return [c for c in s.parts() if c is not s.body]
