"""Valid extents that change: who still looks at the old ones.

In: a placed kernel.  Out: the first tile that is used after new valid extents were set on the storage it shares,
directly, by another name or as a window cut before; or none.
Setting extents at run time changes the one descriptor that all tiles of the allocation have; static rectangles have
descriptors of their own and do not count.
"""

from __future__ import annotations

from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, Stmt, YieldStmt
from pypto.passes.memory.sizes import is_dynamic
from pypto.passes.statements import statements

__all__ = ["stale_extents"]


def stale_extents(f: Function) -> Var | None:
    """The first use of a tile whose valid extents are no longer those of its storage."""
    current: dict[Var, int] = {}
    version: dict[Var, int] = {}
    for n in statements(f.body):
        for e in _reads(n):
            placed = isinstance(e, Var) and isinstance(e.type, TileType) and e.type.memref is not None
            if placed and version.get(e, 0) != current.get(e.type.memref.base_, 0):  # type: ignore[attr-defined,call-overload]
                return e  # type: ignore[return-value]
        if isinstance(n, AssignStmt) and isinstance(n.var.type, TileType) and n.var.type.memref is not None:
            base = n.var.type.memref.base_
            if _sets_extents(n.value) and _is_shared_dynamic(n):
                current[base] = current.get(base, 0) + 1
            version[n.var] = current.get(base, 0)
    return None


def _reads(s: Stmt) -> tuple[Expr, ...]:
    if isinstance(s, AssignStmt):
        return s.value.args if isinstance(s.value, Call) else (s.value,)
    if isinstance(s, EvalStmt):
        return s.expr.args if isinstance(s.expr, Call) else ()
    return s.value if isinstance(s, YieldStmt) else ()


def _sets_extents(e: Expr) -> bool:
    op = ops.of(e) if isinstance(e, Call) else None
    return op is not None and op.concept == "set_validshape" and isinstance(op.semantics, Special)


def _is_shared_dynamic(s: AssignStmt) -> bool:
    assert isinstance(s.value, Call)
    source = s.value.args[0].type
    return any(isinstance(t, TileType) and is_dynamic(t) for t in (s.var.type, source))
