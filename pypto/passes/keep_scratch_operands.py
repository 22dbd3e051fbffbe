"""What is given as scratch and read again stays as it is.

In: a kernel over two-dimensional tiles in SSA form.  Out: an operator whose scratch operand shares its storage with something
that it reads itself, or that is read afterwards, works in storage of its own instead.
Invariant: values do not change; a tile that nothing reads any more is scratch as given.
"""

from __future__ import annotations

from typing import Any

from pypto.ir import ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var
from pypto.ir.node import Node
from pypto.ir.opdef import OpDef
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.passes.memory.liveness import Liveness
from pypto.passes.memory.sharing import is_view
from pypto.passes.retype import used_vars
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import calls, statements

__all__ = ["keep_scratch_operands"]


def keep_scratch_operands(f: Function) -> Function:
    """The kernel with scratch of its own where it needs that; the same one if it does not."""
    return _Keeper(f).function(f) if any(_scratch(c) for c in calls(f.body)) else f


def _scratch(c: Call) -> list[int]:
    op = ops.of(c)
    return [i for i in op.scratch if i < len(c.args) and isinstance(c.args[i].type, TileType)] if op is not None else []


class _Contents(Liveness):
    """When what values hold is needed: to be scratch is no need."""

    def _reads(self, n: Node, at: int) -> None:
        scratch = _scratch(n) if isinstance(n, Call) else []
        parts = [a for i, a in enumerate(n.args) if i not in scratch] if scratch and isinstance(n, Call) else [n]
        for v in dict.fromkeys(v for p in parts for v in used_vars(p)):
            self.used.setdefault(v, []).append(at)


class _Keeper(SSARewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.live = _Contents(f)
        self.root: dict[Expr, Expr] = {}
        self.family: dict[Expr, list[Var]] = {}
        for s in statements(f.body):
            if isinstance(s, AssignStmt) and isinstance(s.var.type, TileType):
                source = _source(s.value)
                root = s.var if source is None else self.root.get(source, source)
                self.root[s.var] = root
                self.family.setdefault(root, []).append(s.var)

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        c = s.value
        at = self.live.at[s]
        needed = [i for i in _scratch(c) if self.needed(c.args[i], at)] if isinstance(c, Call) else []
        if not needed or not isinstance(c, Call):
            return super().visit_assign_stmt(s)  # type: ignore[return-value]
        args = [self.own(self.expr(a)) if i in needed else self.expr(a) for i, a in enumerate(c.args)]
        return self.assign(s, self.recall(c, args))

    def needed(self, e: Expr, at: int) -> bool:
        root = self.root.get(e, e)
        return any(self.live.live_after(v, at) or self.live.reads_at(v, at) for v in {root, e, *self.family.get(root, ())})

    def own(self, like: Expr) -> Expr:
        t = like.type
        assert isinstance(t, TileType)
        kwargs: dict[str, Any] = {"dtype": t.dtype, **({} if t.memory_space is None else {"target_memory": t.memory_space})}
        return self.emit("tile.create", (MakeTuple(t.shape),), kwargs, "scratch")


def _source(e: Expr) -> Expr | None:
    """The value whose storage another one is."""
    if isinstance(e, Var):
        return e
    op: OpDef | None = ops.of(e) if isinstance(e, Call) else None
    return e.args[0] if op is not None and isinstance(e, Call) and is_view(op) else None
