"""Versions of one tensor: what a value becomes by element and window writes, carries and branches.

In: the variable where it begins and the operators that pass it on.  Out: every version, and whether the program uses
them as one tensor: each version is replaced by the next one and never looked at again.
"""

from __future__ import annotations

from collections import Counter

from pypto.ir.expr import Call, Var
from pypto.ir.node import Node
from pypto.ir.rewrite import walk
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    last_yield,
)
from pypto.named import NamedTuple

__all__ = ["Chain", "chain_of"]


class Chain(NamedTuple):
    """The versions of a tensor that grow out of one: in order of definition, and whether nothing else touches them."""

    versions: dict[Var, None]
    closed: bool


def chain_of(body: Stmt, first: Var, passes_on: frozenset[str], reads: frozenset[str]) -> Chain:
    """Versions made from `first` by the operators `passes_on`, by carries and by branches.

    The chain is closed if versions are used only so, or read by the operators `reads`, or returned, and no version is
    passed on twice on one path.
    """
    versions: dict[Var, None] = {first: None}
    nodes = list(walk(body))
    grown = True
    while grown:
        before = len(versions)
        for n in nodes:
            _grow(n, versions, passes_on)
        grown = len(versions) > before
    harmless = all(_harmless(n, versions, passes_on | reads) for n in nodes)
    return Chain(versions, harmless and all(n <= 1 for n in _replacements(body, versions, reads).values()))


def _grow(n: Node, versions: dict[Var, None], passes_on: frozenset[str]) -> None:
    if isinstance(n, AssignStmt) and isinstance(n.value, Call) and n.value.op.name in passes_on:
        if n.value.args[0] in versions:
            versions[n.var] = None
    elif isinstance(n, (ForStmt, WhileStmt)):
        y = last_yield(n.body)
        for a, r, v in zip(n.iter_args, n.return_vars, y.value if y is not None else (), strict=False):
            if a.initValue in versions:
                versions[a] = None
            if a in versions and v in versions:
                versions[r] = None
    elif isinstance(n, IfStmt):
        then, other = last_yield(n.then_body), last_yield(n.else_body)
        for i, r in enumerate(n.return_vars):
            if then is not None and other is not None and then.value[i] in versions and other.value[i] in versions:
                versions[r] = None


def _replacements(s: Stmt | None, versions: dict[Var, None], reads: frozenset[str]) -> Counter[Var]:
    """How often each version is passed on, along the path where that is most often."""
    found: Counter[Var] = Counter()
    for stmt in flatten_to_stmts(s):
        if isinstance(stmt, (AssignStmt, EvalStmt)):
            e = stmt.value if isinstance(stmt, AssignStmt) else stmt.expr
            if isinstance(e, Call) and e.op.name not in reads:
                found.update(a for a in e.args if isinstance(a, Var) and a in versions)
        elif isinstance(stmt, IfStmt):
            found += _replacements(stmt.then_body, versions, reads) | _replacements(stmt.else_body, versions, reads)
        elif isinstance(stmt, (ForStmt, WhileStmt)):
            found.update(a.initValue for a in stmt.iter_args if isinstance(a.initValue, Var) and a.initValue in versions)
            found += _replacements(stmt.body, versions, reads)
        elif isinstance(stmt, (YieldStmt, ReturnStmt)):
            # Handing one version out twice names one tensor twice, which is harmless.
            found.update({v for v in stmt.value if isinstance(v, Var) and v in versions})
    return found


def _harmless(n: Node, versions: dict[Var, None], allowed: frozenset[str]) -> bool:
    """Whether a node uses versions only in ways that keep them one tensor."""
    if isinstance(n, Call):
        uses = [i for i, a in enumerate(n.args) if a in versions]
        return not uses or (uses == [0] and n.op.name in allowed and not n.kwargs.get("atomic"))
    if isinstance(n, AssignStmt):
        return n.value not in versions  # an alias would be a second name
    if isinstance(n, (ForStmt, WhileStmt)):
        y = last_yield(n.body)
        pairs = zip(n.iter_args, y.value if y is not None else (), strict=False)
        return all((a in versions) == (v in versions) for a, v in pairs)
    if isinstance(n, IfStmt):
        arms = [last_yield(b) for b in (n.then_body, n.else_body)]
        values = [{i for i, v in enumerate(y.value) if v in versions} if y is not None else set() for y in arms]
        return values[0] == values[1]
    return True
