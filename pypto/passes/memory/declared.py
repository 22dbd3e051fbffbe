"""Allocations that the user declares by binding tiles to `pl.MemRef`.

In: variables whose types carry a pinned memref.  Out: per variable the declaration, its slot, and the bytes of a slot
(the largest tile bound to the declaration).
Errors, at the tile: different memories in one declaration, slots chosen at run time, several slots without addresses.
"""

from __future__ import annotations

from pypto.errors import CompileError, NotSupportedError
from pypto.ir.expr import ConstInt, MemRef, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.passes.memory.sizes import aligned, allocation_bytes
from pypto.passes.statements import statements
from pypto.target import Chip

__all__ = ["Declared", "declared_allocations"]


class Declared(NamedTuple):
    """Which declaration a tile is bound to, and where in it."""

    base: Var
    slot: int
    slots: int
    slot_bytes: int


def declared_allocations(f: Function, chip: Chip, symbolic: bool) -> dict[Var, Declared]:
    """The declared place of every variable that has one; `symbolic`: the planner gives no addresses."""
    bound: dict[Var, list[tuple[Var, TileType, MemRef]]] = {}
    for n in statements(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.var.type, TileType):
            m = n.var.type.memref
            if m is not None and m.is_pinned_:
                bound.setdefault(m.base_, []).append((n.var, n.var.type, m))
    found: dict[Var, Declared] = {}
    for base, tiles in bound.items():
        first, t, _ = tiles[0]
        for v, other, _ in tiles[1:]:
            if other.memory_space is not t.memory_space:
                raise CompileError(
                    f"declared memory '{user_name(base)}' holds '{user_name(first)}' in {_name(t)}, "
                    f"'{user_name(v)}' in {_name(other)}",
                    v.span,
                    "declare one pl.MemRef per memory space",
                    code="C052",
                )
        size = max(allocation_bytes(o, chip) for _, o, _ in tiles)
        for v, _, m in tiles:
            found[v] = Declared(base, _slot(v, m, symbolic), m.slot_count_, aligned(size) if m.slot_count_ > 1 else size)
    return found


def _slot(v: Var, m: MemRef, symbolic: bool) -> int:
    if m.slot_count_ == 1:
        return 0
    if symbolic:
        raise NotSupportedError(
            f"'{user_name(v)}': several slots of one declared memory need addresses", v.span, "use the PYPTO planner, or one slot"
        )
    if not isinstance(m.slot_index_, ConstInt):
        raise NotSupportedError(f"'{user_name(v)}': the slot is chosen at run time", v.span, "write the slot as a constant")
    return m.slot_index_.value


def _name(t: TileType) -> str:
    return t.memory_space.name if t.memory_space is not None else "no memory"
