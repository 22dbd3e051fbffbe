"""Storage that one region uses alone.

In: a function over placed tiles.  Out: by allocation, the first statement that mentions a tile in it, if all statements
that do so stand in one region.  What regions share, or a loop carries, is in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto.ir.expr import Call, Expr, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    ScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
)

__all__ = ["first_uses"]


def first_uses(f: Function) -> dict[Var, Stmt]:
    """The statements in front of which the storage of one region may come into being."""
    regions: dict[Var, set[int]] = {}
    first: dict[Var, Stmt] = {}
    bodies: list[Stmt] = [f.body]
    while bodies:
        body = bodies.pop()
        for s in flatten_to_stmts(body):
            for base in _bases(_mentioned(s)):
                regions.setdefault(base, set()).add(id(body))
                first.setdefault(base, s)
            bodies += _inner(s)
    return {base: s for base, s in first.items() if len(regions[base]) == 1}


def _inner(s: Stmt) -> list[Stmt]:
    if isinstance(s, IfStmt):
        return [b for b in (s.then_body, s.else_body) if b is not None]
    return [s.body] if isinstance(s, (ForStmt, WhileStmt, ScopeStmt)) else []


def _mentioned(s: Stmt) -> Iterable[Expr]:
    """The tiles that a statement itself defines or uses, whatever its regions do."""
    if isinstance(s, AssignStmt):
        return (s.var, *(s.value.args if isinstance(s.value, Call) else (s.value,)))
    if isinstance(s, EvalStmt):
        return s.expr.args if isinstance(s.expr, Call) else (s.expr,)
    if isinstance(s, IfStmt):
        return s.return_vars
    if isinstance(s, (ForStmt, WhileStmt)):
        return (*s.iter_args, *(a.initValue for a in s.iter_args), *s.return_vars)
    return s.value if isinstance(s, (YieldStmt, ReturnStmt)) else ()


def _bases(mentioned: Iterable[Expr]) -> Iterator[Var]:
    for e in mentioned:
        if isinstance(e.type, TileType) and e.type.memref is not None:
            yield e.type.memref.base_
