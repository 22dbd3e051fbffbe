"""AllocateMemoryAddr: every allocation gets an address.

In: kernels whose memrefs are offsets in allocations (planners PYPTO and DSA_RP).  Out: memrefs are addresses in their
memory: one after the other for PYPTO, by lifetimes for DSA_RP, behind the slots of pipes.  Unused allocations are gone.
Error, at the largest tile: more bytes than the memory has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pypto._lazy import later
from pypto.dtypes import DataType
from pypto.enums import MemoryPlanner, MemorySpace
from pypto.errors import CompileError, InternalError
from pypto.ir.expr import ConstInt, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dims
from pypto.ir.stmt import AssignStmt
from pypto.ir.types import Type
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.ssa import user_name
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.memory.intervals import Interval, Intervals
from pypto.passes.memory.reserved import with_slot_addresses
from pypto.passes.memory.sizes import aligned
from pypto.passes.memory_reuse import without_pipeline_marks
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.target import Chip, chip_of

if TYPE_CHECKING:
    from pypto.passes.memory import dsa_rp
else:
    dsa_rp = later("pypto.passes.memory", "dsa_rp")

__all__ = ["allocate_memory_addr"]


def _bump(intervals: Intervals, floors: Mapping[MemorySpace, int]) -> dict[Var, int]:
    """Allocations one after the other, each on a block boundary."""
    ends = dict(floors)
    found: dict[Var, int] = {}
    for i in intervals.all:
        found[i.base] = ends.get(i.space, 0)
        ends[i.space] = found[i.base] + aligned(i.size)
    return found


class _Addresses(SSARewriter):
    """Memrefs become addresses; an allocation's origin is the lowest offset that anything in it has."""

    def __init__(self, addresses: Mapping[Var, int], intervals: Intervals) -> None:
        super().__init__()
        self.shift: dict[Var, int] = {}
        for base, address in addresses.items():
            members = intervals.storage.members[base]
            self.shift[base] = address - min(_offset(v.type) for v in members)

    def placed(self, t: Type) -> Type:
        if not isinstance(t, TileType) or t.memref is None or not self.shift.get(t.memref.base_):
            return t
        return t.at(t.memref.replace(byte_offset_=ConstInt(_offset(t) + self.shift[t.memref.base_], DataType.INT64)))

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        value = self.visit(s.value)
        return s.replace(value=value, var=self.define_as(s.var, self.placed(s.var.type)))

    def type_after(self, v: Var, old: Any, new: Any) -> Type:
        return self.placed(v.type) if isinstance(v.type, TileType) else super().type_after(v, old, new)


def _offset(t: Type) -> int:
    assert isinstance(t, TileType)
    assert t.memref is not None
    if not isinstance(t.memref.byte_offset_, ConstInt):
        raise InternalError("a tile's memref has no constant offset")
    return t.memref.byte_offset_.value


def _check_capacity(
    f: Function, intervals: Intervals, addresses: Mapping[Var, int], floors: Mapping[MemorySpace, int], chip: Chip
) -> None:
    for space in MemorySpace:
        mine = [i for i in intervals.all if i.space is space]
        used = max((addresses[i.base] + i.size for i in mine), default=0)
        limit, floor = chip.capacity.get(space, 0), floors.get(space, 0)
        if floor > limit:
            raise CompileError(
                f"kernel '{f.name}': {slots_note(space, floor)} (limit {limit})", f.span, _FEWER_SLOTS, code="C060"
            )
        if used > limit:
            raise capacity_error(f, intervals, mine, space, used, limit, floor)


def slots_note(space: MemorySpace, floor: int) -> str:
    return f"slots of pipes take {floor} bytes of {space.name} memory"


_FEWER_SLOTS = "pass smaller tiles between the cores, or have fewer slots: optimizations=[pl.cross_core_slot(slot_num=1)]"


def capacity_error(
    f: Function, intervals: Intervals, mine: list[Interval], space: MemorySpace, used: int, limit: int, floor: int
) -> CompileError:
    """What does not fit, at the largest tile, with the tiles that take most."""
    largest = sorted(mine, key=lambda i: (-i.size, i.order))
    tiles = [_root(intervals, i) for i in largest]
    listed = ", ".join(f"'{user_name(v)}' {_shape(v)} {i.size} bytes" for v, i in list(zip(tiles, largest, strict=True))[:4])
    return CompileError(
        f"kernel '{f.name}': {space.name} buffer usage ({used} bytes) exceeds platform limit ({limit} bytes)",
        tiles[0].span,
        "work on smaller tiles in a loop, or finish with a tile before the next one is made",
        f"largest of {len(mine)} tiles that are needed: {listed}" + (f"; {slots_note(space, floor)}" if floor else ""),
        code="C060",
    )


def _root(intervals: Intervals, i: Interval) -> Var:
    return min(intervals.storage.members[i.base], key=lambda v: intervals.storage.live.defined[v])


def _shape(v: Var) -> str:
    assert isinstance(v.type, TileType)
    return f"{list(const_dims(v.type.shape) or ())} of {v.type.dtype}"


@function_pass(
    "AllocateMemoryAddr",
    requires=(IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps, IRProperty.HasMemRefs, IRProperty.TileOps2D),
    produces=(IRProperty.AllocatedMemoryAddr,),
)
def allocate_memory_addr(f: Function, options: PassOptions) -> Function:
    if not f.is_device:
        return f
    chip = chip_of(options.platform)
    f, floors = with_slot_addresses(f)
    intervals = Intervals(f)
    planned_by_lifetime = options.memory_planner is MemoryPlanner.DSA_RP
    addresses = dsa_rp.solve(f, intervals, chip, floors) if planned_by_lifetime else _bump(intervals, floors)
    _check_capacity(f, intervals, addresses, floors, chip)
    return without_pipeline_marks(_Addresses(addresses, intervals).function(f))
