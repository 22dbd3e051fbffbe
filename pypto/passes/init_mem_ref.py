"""InitMemRef: every tile gets a place: an allocation, an offset in it, a size.

In: kernels whose tiles have memories and layouts.  Out: every tile variable's type has a memref; a producer has an
allocation of its own (`mem_<space>_<n> = tile.alloc(...)` at the top of the body), a view lies in its operand, an
operator that works in place shares the operand it replaces, a carry shares what it starts from, a result what is yielded.
Errors, at the user's line: a tile larger than its memory, rows that are no whole blocks.
"""

from __future__ import annotations

from typing import NoReturn

from pypto.enums import MemoryPlanner, MemorySpace
from pypto.errors import CompileError, InternalError
from pypto.ir.expr import Expr, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dims
from pypto.ir.types import PtrType
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.tile_alignment import misaligned_tiles
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.memory.declared import Declared, declared_allocations
from pypto.passes.memory.placing import Allocation, Place, Placer, with_allocations
from pypto.passes.memory.sizes import allocation_bytes, line_pitch
from pypto.passes.statements import applies
from pypto.target import Chip, chip_of

__all__ = ["init_mem_ref"]


class _Fresh(Placer):
    """An allocation for every value of its own."""

    def __init__(self, f: Function, chip: Chip, declared: dict[Var, Declared]) -> None:
        super().__init__(f)
        self.chip, self.declared = chip, declared
        self.allocations: list[Allocation] = []
        self.pinned: dict[Var, Allocation] = {}

    def place_of(self, v: Var, t: TileType, value: Expr) -> Place:
        place = super().place_of(v, t, value)
        if v in self.declared and not place.pinned:
            self.refuse(v, "it lies in its operand and cannot be put into a declared allocation", "declare its operand there")
        return place

    def own_place(self, v: Var, t: TileType) -> Place:
        space = t.memory_space
        if space is None:
            raise InternalError(f"{self.f.name}: tile '{v.name_hint}' is in no memory")
        size = allocation_bytes(t, self.chip)
        limit = self.chip.capacity.get(space)
        if limit is None or size > limit:
            self.refuse(v, f"{space.name} buffer usage ({size} bytes) exceeds platform limit ({limit or 0} bytes)", "")
        d = self.declared.get(v)
        if d is not None:
            return self.in_declared(t, d, space)
        base = Var(f"mem_{space.name.lower()}_{len(self.allocations)}", PtrType.get(), v.span)
        self.allocations.append(Allocation(base, space, size, False))
        return Place(base, 0, size, line_pitch(t), True)

    def in_declared(self, t: TileType, d: Declared, space: MemorySpace) -> Place:
        known = self.pinned.get(d.base)
        if known is None:
            base = Var(d.base.name_hint, PtrType.get(), d.base.span)
            known = self.pinned[d.base] = Allocation(base, space, d.slot_bytes * d.slots, True)
            self.allocations.append(known)
        return Place(known.base, d.slot * d.slot_bytes, allocation_bytes(t, self.chip), line_pitch(t), True, True)

    def refuse(self, v: Var, what: str, hint: str) -> NoReturn:
        t = v.type
        assert isinstance(t, TileType)
        shape = f"{list(const_dims(t.shape) or ())} of {t.dtype}"
        raise CompileError(
            f"kernel '{self.f.name}': tile '{user_name(v)}' ({shape}): {what}",
            v.span,
            hint or "work on smaller tiles: halve a dimension and loop over the pieces",
            code="C050",
        )


def _is_placed(f: Function) -> bool:
    return applies(f, "tile.alloc")


def _reject_misaligned(f: Function) -> None:
    for m in misaligned_tiles(f)[:1]:
        raise CompileError(f"kernel '{f.name}': {m.message}", m.span, m.hint, code="C051")


@function_pass(
    "InitMemRef",
    requires=(
        IRProperty.SSAForm,
        IRProperty.SplitIncoreOrch,
        IRProperty.IncoreTileOps,
        IRProperty.TileOps2D,
        IRProperty.TileMemoryInferred,
    ),
    produces=(IRProperty.HasMemRefs, IRProperty.NormalizedStmtStructure),
)
def init_mem_ref(f: Function, options: PassOptions) -> Function:
    if not f.is_device or _is_placed(f):
        return f
    _reject_misaligned(f)
    chip = chip_of(options.platform)
    declared = declared_allocations(f, chip, options.memory_planner is MemoryPlanner.PTOAS)
    placer = _Fresh(f, chip, declared)
    return with_allocations(placer.function(f), placer.allocations)
