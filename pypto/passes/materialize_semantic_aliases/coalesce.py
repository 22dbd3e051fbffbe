"""Allocations that can be one become one.

In: a placed function and the pairs of values that would share storage if they could: what is copied at a loop's entry,
at its back edge, at the end of a branch.  Out: the function with those allocations merged whose values never need the
bytes at the same time; copies within one allocation are gone, and so are allocations that nothing lies in.
Invariant: a declared allocation is never merged; values do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pypto.ir.expr import Call, ConstInt, Expr, IterArg, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, Stmt, flatten_to_stmts, seq
from pypto.ir.types import Type
from pypto.named import NamedTuple
from pypto.passes.memory.placing import is_allocation
from pypto.passes.memory.sharing import Storage
from pypto.passes.memory.sizes import tile_bytes
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import definitions, statements

__all__ = ["Pair", "coalesce", "merge_allocations"]

CARRY, BRANCH, ENTRY = range(3)


class Pair(NamedTuple):
    """A value and the one it becomes; carries of inner loops are tried first, entries of loops last."""

    kind: int
    source: Var
    target: Var
    around: Stmt  # the loop or branch


def coalesce(f: Function, pairs: Iterable[Pair]) -> Function:
    """The function with the allocations of as many pairs merged as may be."""
    wanted = list(pairs)
    if not wanted:
        return f
    merged = _Merger(f).run(wanted)
    return merge_allocations(f, merged)


class _Merger:
    def __init__(self, f: Function) -> None:
        self.storage = Storage(f)
        self.live = self.storage.live
        self.members: dict[Var, list[Var]] = {b: list(vs) for b, vs in self.storage.members.items()}
        self.into: dict[Var, Var] = {}
        self.sizes = _allocation_sizes(f)
        self.order = {b: i for i, b in enumerate(self.sizes)}

    def run(self, pairs: list[Pair]) -> Mapping[Var, Var]:
        depth = {id(p): self.live.loops_at(self.live.at[p.around]) for p in pairs}
        for p in sorted(pairs, key=lambda p: (p.kind, -depth[id(p)])):
            self.try_pair(p)
        return {b: self.find(b) for b in self.into}

    def find(self, base: Var) -> Var:
        while base in self.into:
            base = self.into[base]
        return base

    def try_pair(self, p: Pair) -> None:
        x, w = self.whole(p.source), self.whole(p.target)
        if x is None or w is None or x is w or self.sizes.get(x) != self.sizes.get(w):
            return
        # A branch takes over what is made inside it; what comes from outside is copied, unless the result replaces a carry.
        replaces = any(isinstance(v, IterArg) for v in self.members[w])
        if p.kind != ENTRY and not replaces and not all(self.live.inside(v, p.around) for v in self.members[x]):
            return
        if self.storage.conflict(self.members[x], self.members[w]):
            return
        kept, gone = (x, w) if self.order[x] < self.order[w] else (w, x)
        self.members[kept] += self.members.pop(gone)
        self.into[gone] = kept

    def whole(self, v: Var) -> Var | None:
        """The allocation that a value fills from its first byte; None for windows and declared memory."""
        t = v.type
        if not isinstance(t, TileType) or t.memref is None or v in self.storage.windows or t.memref.is_pinned_:
            return None
        first = isinstance(t.memref.byte_offset_, ConstInt) and t.memref.byte_offset_.value == 0
        return self.find(t.memref.base_) if first and t.memref.size_ >= tile_bytes(t) else None


def _allocation_sizes(f: Function) -> dict[Var, int]:
    """Bytes of each allocation, in order."""
    found: dict[Var, int] = {}
    for n in statements(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.value, Call) and n.value.op.name == "tile.alloc":
            size = n.value.args[0]
            assert isinstance(size, ConstInt)
            found[n.var] = size.value
    return found


def merge_allocations(f: Function, into: Mapping[Var, Var]) -> Function:
    """The function with allocations replaced, copies onto themselves and unused allocations dropped."""
    return _without_unused(_Apply(into).function(f))


class _Apply(SSARewriter):
    def __init__(self, into: Mapping[Var, Var]) -> None:
        super().__init__()
        self.into = into

    def placed(self, t: Type) -> Type:
        if not isinstance(t, TileType) or t.memref is None or t.memref.base_ not in self.into:
            return t
        return t.at(t.memref.replace(base_=self.into[t.memref.base_]))

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        value = self.visit(s.value)
        var = self.define_as(s.var, self.placed(s.var.type))
        if _is_self_copy(var, value):
            assert isinstance(value, Call)
            self.vars[s.var] = value.args[0]
            return None
        return s.replace(value=value, var=var)

    def type_after(self, v: Var, old: Expr, new: Expr) -> Type:
        return self.placed(v.type) if isinstance(v.type, TileType) else super().type_after(v, old, new)


def _is_self_copy(v: Var, value: Expr) -> bool:
    if not isinstance(value, Call) or value.op.name != "tile.move":
        return False
    a, b = value.args[0].type, v.type
    return isinstance(a, TileType) and isinstance(b, TileType) and a == b


def _without_unused(f: Function) -> Function:
    places = (v.type.memref for v in definitions(f.body) if isinstance(v.type, TileType))
    used = {m.base_ for m in places if m is not None}
    stmts = flatten_to_stmts(f.body)
    kept = [s for s in stmts if not (is_allocation(s) and isinstance(s, AssignStmt) and s.var not in used)]
    return f if len(kept) == len(stmts) else f.replace(body=seq(kept, f.body.span))
