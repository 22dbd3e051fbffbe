"""Which core does what touches no tile and acts all the same: single elements written to tensors.

In: a kernel of both cores.  Out: for each such statement the core that knows what is written; else the one that works on the
tensor anyway, so that it sees its own writes in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pypto.ir.expr import Call, Expr, Var
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, Stmt, WhileStmt, last_yield
from pypto.ir.verify.cores import Core, core_of_call
from pypto.ir.verify.roots import Flow, Roots, accesses
from pypto.ir.verify.scopes import statements, uses_in
from pypto.passes.expand_mixed_kernel.needed import acts

__all__ = ["owners_of"]


def owners_of(f: Function) -> Mapping[int, Core]:
    """By identity of statements."""
    known = _knowing(f)
    roots = Flow().roots(f)
    found: dict[int, Core] = {}
    busy = {p: core for core in (Core.VECTOR, Core.CUBE) for s in statements(f.body) for p in _touched(s, core, roots)}
    for s, c in _plain(f):
        if core_of_call(c, s.var if isinstance(s, AssignStmt) else None) is Core.SHARED and acts(s):
            told = next((known[v] for v in uses_in(c) if v in known), None)
            tensor = next((busy[p] for p in accesses(s, roots) if p in busy), Core.CUBE)
            found[id(s)] = tensor if told is None else told
    return found


def _plain(f: Function) -> Iterator[tuple[AssignStmt | EvalStmt, Call]]:
    for s in statements(f.body):
        if isinstance(s, (AssignStmt, EvalStmt)):
            value = s.value if isinstance(s, AssignStmt) else s.expr
            if isinstance(value, Call):
                yield s, value


def _touched(s: Stmt, core: Core, roots: Roots) -> Iterator[Var]:
    """Tensors that a statement of a core works on."""
    if isinstance(s, (AssignStmt, EvalStmt)):
        value = s.value if isinstance(s, AssignStmt) else s.expr
        if isinstance(value, Call) and core_of_call(value, s.var if isinstance(s, AssignStmt) else None) is core:
            yield from accesses(s, roots)


def _knowing(f: Function) -> dict[Var, Core]:
    """Scalars that come from a tile, and the core of it."""
    known: dict[Var, Core] = {}

    def learn(targets: tuple[Var, ...], values: tuple[Expr, ...]) -> None:
        for v, e in zip(targets, values, strict=False):
            core = next((known[u] for u in uses_in(e) if u in known), None)
            if core is not None:
                known.setdefault(v, core)

    before = -1
    while before != len(known):
        before = len(known)
        for s in statements(f.body):
            if isinstance(s, AssignStmt) and isinstance(s.value, Call) and core_of_call(s.value, s.var) is not Core.SHARED:
                known.setdefault(s.var, core_of_call(s.value, s.var))
            elif isinstance(s, AssignStmt):
                learn((s.var,), (s.value,))
            elif isinstance(s, IfStmt):
                for b in (s.then_body, s.else_body):
                    y = last_yield(b)
                    learn(s.return_vars, y.value if y is not None else ())
            elif isinstance(s, (ForStmt, WhileStmt)):
                y = last_yield(s.body)
                for values in (tuple(a.initValue for a in s.iter_args), y.value if y is not None else ()):
                    learn(s.iter_args, values)
                    learn(s.return_vars, values)
    return known
