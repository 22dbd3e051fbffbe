"""On-chip storage of one function activation: from the memrefs of types to bytes.

In: a function and how its memrefs are to be read (`Placement`).  Out: the place of a type that has one.
Invariant: every activation starts with poisoned memories.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pypto.debug.memory import Arena, ArenaPlace, addresses
from pypto.enums import MemorySpace
from pypto.errors import InternalError, NotSupportedError
from pypto.ir.expr import Call, ConstInt, Expr, MemRef, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.shaped import BufferType, TileType, const_dims
from pypto.ir.stmt import AssignStmt

__all__ = ["Placement", "Storage", "placement_of"]


class Placement(Enum):
    """What a memref means.

    VALUES      nothing: every tile is a value of its own
    PRIVATE     an allocation is a memory of its own, in which the memref's offset counts
    ADDRESSED   the memref's offset is the address in its memory space, whatever the allocation
    """

    VALUES = 0
    PRIVATE = 1
    ADDRESSED = 2


def placement_of(f: Function) -> Placement:
    """ADDRESSED once a window lies outside the allocation it belongs to, which only a real address does."""
    sizes: dict[Var, int] = {}
    for n in walk(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.value, Call) and n.value.op.name == "tile.alloc":
            size = n.value.args[0]
            sizes[n.var] = size.value if isinstance(size, ConstInt) else 0
    for v in defined_vars(f):
        m = v.type.memref if isinstance(v.type, TileType) else None
        if m is not None and isinstance(m.byte_offset_, ConstInt) and m.byte_offset_.value + m.size_ > sizes.get(m.base_, 0):
            return Placement.ADDRESSED
    return Placement.PRIVATE


class Storage:
    """The memories of one activation."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._arenas: dict[Var | MemorySpace, Arena] = {}

    def place(self, t: TileType, evaluate: Callable[[Expr], int]) -> ArenaPlace | None:
        """Where values of a type lie; None where the type does not say or memrefs mean nothing."""
        m = t.memref
        if m is None or self.placement is Placement.VALUES:
            return None
        if m.slot_index_ is not None or m.slot_count_ != 1:
            raise NotSupportedError("allocations of several slots are not executed", m.span)
        shape = const_dims(t.shape)
        if shape is None or t.memory_space is None:
            raise InternalError(f"a tile in {m.name_hint} has no static shape or no memory space")
        view = t.tile_view
        strides = tuple(evaluate(s) for s in view.stride) if view is not None and view.stride else None
        base = evaluate(m.byte_offset_)
        return ArenaPlace(self._arena(m, t.memory_space), addresses(t.layout, t.dtype, shape, base, strides), t.dtype)

    def _arena(self, m: MemRef, space: MemorySpace) -> Arena:
        private = self.placement is Placement.PRIVATE
        return self.arena(m.base_ if private else space, m.name_hint if private else space.name)

    def arena(self, key: Var | MemorySpace, name: str) -> Arena:
        found = self._arenas.get(key)
        if found is None:
            found = self._arenas[key] = Arena(name)
        return found

    def allocate(self, t: BufferType, address: int | None, owner: Var) -> ArenaPlace:
        """A buffer's place: at an address of its space, or in a memory of its own that starts undefined."""
        if address is None:
            self._arenas.pop(owner, None)
        arena = self.arena(owner, owner.name_hint) if address is None else self.arena(t.memory_space, t.memory_space.name)
        return relabelled(arena, t, address or 0)


def relabelled(arena: Arena, t: TileType | BufferType, base: int) -> ArenaPlace:
    """The bytes from `base` on under a type's dtype, shape and layout."""
    shape = t.physical_shape if isinstance(t, BufferType) else const_dims(t.shape)
    if shape is None:
        raise InternalError("a tile in memory has no static shape")
    return ArenaPlace(arena, addresses(t.layout, t.dtype, shape, base), t.dtype)
