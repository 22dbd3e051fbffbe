"""Offsets that several windows are cut at, computed once.

In: a function in which windows were cut anew from copies, at the offsets they had.  Out: where such an offset is computed
from other scalars, it is computed in front of the first of those windows and has a name in all of them that can see it.
Invariant: windows stay where they are; values do not change.
"""

from __future__ import annotations

from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import calls

__all__ = ["bind_shared_offsets"]


def bind_shared_offsets(f: Function) -> Function:
    """The function with a name for each computed offset that more than one window is cut at."""
    cuts = [c.args[2] for c in calls(f.body) if c.op.name == "tile.slice"]
    shared = {at for at in cuts if isinstance(at, MakeTuple) and sum(at is x for x in cuts) > 1 and _is_computed(at)}
    return _Binder(shared).function(f) if shared else f


def _is_computed(at: MakeTuple) -> bool:
    return not all(isinstance(e, (Var, ConstInt)) for e in at.elements)


class _Binder(SSARewriter):
    def __init__(self, shared: set[MakeTuple]) -> None:
        super().__init__()
        self.shared = shared
        self.bound: dict[MakeTuple, MakeTuple] = {}

    def body(self, s: Stmt) -> Stmt:
        """A region: names that are made in it end with it."""
        outer, self.bound = self.bound, dict(self.bound)
        made = super().body(s)
        self.bound = outer
        return made

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        c = s.value
        if not isinstance(c, Call) or c.op.name != "tile.slice" or c.args[2] not in self.shared:
            return s
        at = c.args[2]
        assert isinstance(at, MakeTuple)
        if at not in self.bound:
            self.bound[at] = MakeTuple(tuple(self._named(e, s.var) for e in at.elements))
        return s.replace(value=c.replace(args=(*c.args[:2], self.bound[at], *c.args[3:])))

    def _named(self, e: Expr, window: Var) -> Expr:
        return e if isinstance(e, (Var, ConstInt)) else self.let(f"{window.name_hint}_offset", e)
