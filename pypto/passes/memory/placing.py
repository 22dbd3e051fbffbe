"""Giving tiles places in memory, definition by definition.

In: a function in SSA form and, from subclasses, a place for each value that has storage of its own.  Out: the function
with memrefs in the types of its tile variables.
Invariant: views lie in their operand and keep its lines apart; a window at a run-time offset has the place of the whole
it is cut from, and its exact place only by its slice; a memref contains every byte of its tile.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import MemorySpace, TileLayout
from pypto.errors import InternalError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstInt, Expr, IterArg, MakeTuple, MemRef, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dims
from pypto.ir.stmt import AssignStmt, Stmt, flatten_to_stmts, seq
from pypto.ir.types import Type
from pypto.named import NamedTuple
from pypto.passes.memory.sharing import is_view, storage_operand
from pypto.passes.memory.sizes import line_pitch, window_bytes
from pypto.passes.ssa_rewriter import SSARewriter, typed_call

__all__ = ["Allocation", "Place", "Placer", "is_allocation", "place_in", "with_allocations"]


class Place(NamedTuple):
    """Where a tile lies, and how far its lines are apart (elements)."""

    base: Var
    offset: int
    size: int
    pitch: int
    exact: bool = True  # the first byte is the tile's first byte
    pinned: bool = False

    def memref(self) -> MemRef:
        return MemRef(self.base, self.offset, self.size, is_pinned=self.pinned)

    def same(self, other: Place) -> bool:
        """Whether both are exactly the same bytes in the same lines."""
        return self.base is other.base and self.exact and other.exact and self[1:4] == other[1:4]


class Allocation(NamedTuple):
    """Bytes of one memory."""

    base: Var
    space: MemorySpace
    size: int
    pinned: bool = False

    def stmt(self) -> Stmt:
        kwargs = {"memory_space": self.space, **({"pinned": True} if self.pinned else {})}
        call = typed_call("tile.alloc", (ConstInt(self.size, DataType.INT64),), kwargs, self.base.span)
        return AssignStmt(self.base, call, self.base.span)


def with_allocations(f: Function, allocations: list[Allocation]) -> Function:
    """The function with further allocations at the top of its body, behind those that are there."""
    if not allocations:
        return f
    stmts = flatten_to_stmts(f.body)
    first = next((i for i, s in enumerate(stmts) if not is_allocation(s)), len(stmts))
    return f.replace(body=seq([*stmts[:first], *(a.stmt() for a in allocations), *stmts[first:]], f.body.span))


def is_allocation(s: Stmt) -> bool:
    return isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tile.alloc"


class Placer(SSARewriter):
    """Places variables as their definitions are visited; subclasses say where values of their own go."""

    def __init__(self, f: Function) -> None:
        super().__init__()
        self.f = f
        self.places: dict[Var, Place] = {}

    def own_place(self, v: Var, t: TileType) -> Place:
        """The place of a value that lies in no operand."""
        raise NotImplementedError

    # -- definitions --

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        value = self.visit(s.value)
        if not isinstance(s.var.type, TileType):
            return s if value is s.value else self.assign(s, value)
        return s.replace(value=value, var=self.put(s.var, s.var.type, self.place_of(s.var, s.var.type, value)))

    def put(self, v: Var, t: TileType, place: Place) -> Var:
        new = self.define_as(v, t.at(place.memref()))
        self.places[new] = place
        return new

    def type_after(self, v: Var, old: Expr, new: Expr) -> Type:
        """Carries and results lie where the value they take lies."""
        t = v.type
        return t.at(self.of(new).memref()) if isinstance(t, TileType) else super().type_after(v, old, new)

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        made = super().carried(iter_args)
        for a in made:
            if isinstance(a.type, TileType):
                self.places[a] = self.of(a.initValue)
        return made

    def results(self, results: tuple[Var, ...], old_body: Stmt, new_body: Stmt) -> tuple[Var, ...]:
        made = super().results(results, old_body, new_body)
        for r in made:
            if isinstance(r.type, TileType) and r not in self.places:
                self.places[r] = place_in(r.type)
        return made

    def of(self, e: Expr) -> Place:
        place = self.places.get(e) if isinstance(e, Var) else None
        if place is None:
            raise InternalError(f"{self.f.name}: {e!r} has no place in memory")
        return place

    # -- places --

    def place_of(self, v: Var, t: TileType, value: Expr) -> Place:
        if isinstance(value, Var):
            return self.of(value)
        op = ops.of(value) if isinstance(value, Call) else None
        if op is None or not isinstance(value, Call):
            raise InternalError(f"{self.f.name}: tile '{v.name_hint}' is made by no operator")
        k = storage_operand(op)
        if k is None:
            return self.own_place(v, t)
        source = value.args[k]
        whole = self.of(source)
        if is_view(op) and op.concept not in ("slice", "set_validshape"):
            return whole._replace(pitch=line_pitch(t))  # a relabel shows dense bytes
        if op.concept != "slice" or not isinstance(source.type, TileType):
            return whole
        return self.window(t, source.type, whole, value.args[2])

    @staticmethod
    def window(t: TileType, source: TileType, whole: Place, at: Expr) -> Place:
        """The place of a window of type `t` at offsets `at` into a tile."""
        assert isinstance(at, MakeTuple)
        offsets = const_dims(at.elements)
        if offsets is None or not whole.exact or not source.layout.is_flat or len(offsets) != 2:
            return whole._replace(exact=False)
        line, inner = offsets if source.layout.blayout is TileLayout.row_major else (offsets[1], offsets[0])
        first = whole.offset + (line * whole.pitch + inner) * t.dtype.get_byte()
        return whole._replace(offset=first, size=window_bytes(t, whole.pitch))


def place_in(t: TileType) -> Place:
    """The place a dense tile has by its memref."""
    m = t.memref
    if m is None or not isinstance(m.byte_offset_, ConstInt):
        raise InternalError("a tile's memref has no constant offset")
    return Place(m.base_, m.byte_offset_.value, m.size_, line_pitch(t), True, m.is_pinned_)
