"""Values that are computed only to be stored.

In: a kernel in SSA form.  Out: for each value that nothing but one store of its own region reads, that store.
"""

from __future__ import annotations

from collections import Counter

from pypto.ir.expr import Call, Var
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.passes.retype import count_uses

__all__ = ["single_stores", "uses_of"]


def uses_of(f: Function) -> Counter[Var]:
    """How often each variable is read."""
    return Counter(count_uses(f.body))


def single_stores(f: Function) -> dict[Var, AssignStmt]:
    """Values with the one store that reads them, where both stand in one region; atomic stores and cut windows do not count."""
    uses = uses_of(f)
    found: dict[Var, AssignStmt] = {}
    for region in _regions(f.body):
        here = {s.var for s in region if isinstance(s, AssignStmt)}
        for s in region:
            c = s.value if isinstance(s, AssignStmt) else None
            if not isinstance(c, Call) or c.op.name != "tile.store" or len(c.args) > 3 or c.kwargs.get("atomic"):
                continue
            source = c.args[0]
            if isinstance(source, Var) and source in here and uses[source] == 1:
                assert isinstance(s, AssignStmt)
                found[source] = s
    return found


def _regions(body: Stmt) -> list[list[Stmt]]:
    """The statements of each region."""
    found: list[list[Stmt]] = []
    stack: list[Stmt] = [body]
    while stack:
        region = stack.pop()
        stmts = list(getattr(region, "stmts", (region,)))
        found.append(stmts)
        for s in stmts:
            stack += [b for b in (getattr(s, n, None) for n in ("body", "then_body", "else_body")) if isinstance(b, Stmt)]
    return found
