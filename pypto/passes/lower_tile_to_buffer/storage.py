"""Handles for planned allocations.

In: a function whose tiles have places.  Out: per allocation the statements that declare its handles, and the handle of
every tile that is no window: one per descriptor and offset, shared by all tiles that have both.
Invariant: the allocation's byte capacity decides; a view that would leave it, or that is not whole 32-byte blocks, fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var, const_index
from pypto.ir.ops.buffer_matrix import MATRIX
from pypto.ir.program import Function
from pypto.ir.shaped import BufferType, TileType, as_dims
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.ir.types import Type
from pypto.named import NamedTuple
from pypto.passes.lower_tile_to_buffer.descriptors import allocation_type, buffer_bytes, is_empty
from pypto.passes.lower_tile_to_buffer.locality import first_uses
from pypto.passes.memory.sizes import is_dynamic, tile_bytes
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import definitions, statements
from pypto.passes.verify_tile_storage import WITHOUT_BUFFERS
from pypto.span import Span
from pypto.target.chip import BLOCK_BYTES

__all__ = ["Handles", "Uses", "index_storage"]


class Member(NamedTuple):
    """A tile that lies in an allocation: its descriptor, the byte where it begins, whether windows are cut from it."""

    var: Var
    tile: TileType
    descriptor: BufferType
    offset: int
    is_parent: bool

    @property
    def key(self) -> tuple[BufferType, int]:
        return self.descriptor, self.offset


class Handles(NamedTuple):
    """What takes the place of the allocations.

    `declarations`: statements by allocation; `at_first_use`: those that stand in front of the first statement that needs
    them instead.  `of`: the handle of each tile variable.  `products`: of accumulators, the handle that shows the product.
    """

    declarations: dict[Var, list[Stmt]]
    at_first_use: dict[Stmt, list[Stmt]]
    of: dict[Var, Var]
    products: dict[Var, Var]


class Uses(NamedTuple):
    """What of a function decides about the form of its storage.

    `windows` are defined where they are used, `parents` have windows cut from them, `products` are the types of products
    that are written into accumulators valid in more.
    """

    windows: frozenset[Var]
    parents: frozenset[Var]
    products: Mapping[Var, TileType]


def index_storage(f: Function, uses: Uses, addressed: bool) -> Handles:
    """Handles for a function."""
    allocations: dict[Var, AssignStmt] = {}
    for n in statements(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.value, Call) and n.value.op.name == "tile.alloc":
            allocations[n.var] = n
    members: dict[Var, list[Var]] = {}
    for v in definitions(f.body):
        if isinstance(v.type, TileType) and v not in uses.windows:
            members.setdefault(_base(v), []).append(v)
    handles = Handles({}, {}, {}, {})
    local = {} if addressed else first_uses(f)
    for base, tiles in members.items():
        alloc = allocations.get(base)
        if alloc is None:
            raise _error("storage root requires a planned tile.alloc capacity", tiles[0].span)
        _Allocation(alloc, tiles, uses, addressed, handles).declare(local.get(base))
    for base in allocations:
        handles.declarations.setdefault(base, [])  # nothing lies in it
    return handles


def _base(v: Var) -> Var:
    assert isinstance(v.type, TileType)
    m = v.type.memref
    if m is None or m.slot_index_ is not None or m.slot_count_ != 1:
        raise _error("tile storage must be planned; multi-slot storage needs its own recipe", v.span)
    return m.base_


def _error(message: str, span: Span, hint: str = WITHOUT_BUFFERS) -> CompileError:
    """Storage that has no form as buffers."""
    return CompileError(message, span, hint, code="C080")


class _Allocation:
    """One allocation, and the tiles that lie in it."""

    def __init__(self, alloc: AssignStmt, tiles: list[Var], uses: Uses, addressed: bool, into: Handles) -> None:
        self.alloc, self.addressed, self.into = alloc, addressed, into
        call = alloc.value
        assert isinstance(call, Call)
        size = call.args[0]
        self.capacity = size.value if isinstance(size, ConstInt) else 0
        self.space: MemorySpace = call.kwargs["memory_space"]
        if self.capacity <= 0 or self.space not in (MemorySpace.Vec, *MATRIX):
            raise _error("static positive Vec, Mat, Left, Right or Acc allocation capacity", alloc.span)
        self.origin = self._origin(tiles)
        self.members = [self._member(v, v.type, v in uses.parents) for v in tiles]
        self.products = [self._member(v, uses.products[v], False) for v in tiles if v in uses.products]
        self.out: list[Stmt] = []
        self.known: dict[tuple[Any, ...], Var] = {}

    def _origin(self, tiles: list[Var]) -> int:
        """The address where the allocation begins: that of a member that fills it."""
        offsets = {_offset(v) for v in tiles}
        if not self.addressed:
            return 0
        anchors = {_offset(v) for v in tiles if _size(v) == self.capacity}
        if not anchors:
            raise _error("addressed storage needs a full-capacity MemRef anchor", tiles[0].span)
        if len(anchors) > 1:
            raise _error("full-capacity storage members disagree on the allocation origin", tiles[0].span)
        origin = anchors.pop()
        if min(offsets) < origin:
            raise _error("dense storage window must begin within its allocation", tiles[0].span)
        return origin

    def _member(self, v: Var, t: Type, is_parent: bool) -> Member:
        assert isinstance(t, TileType)
        offset = _offset(v) - self.origin
        if not 0 <= offset < self.capacity:
            raise _error("dense storage window must begin within its allocation", v.span)
        if offset + tile_bytes(t) > self.capacity:
            raise _error("descriptor window exceeds the planned allocation capacity", v.span)
        return Member(v, t, allocation_type(t), offset, is_parent)

    # -- which form --

    def declare(self, first_use: Stmt | None) -> None:
        """Make the handles; `first_use`: of storage that one region uses alone."""
        if self.space in MATRIX:
            self._matrix()
        elif any(is_dynamic(m.tile) for m in self.members):
            self._dynamic()
        elif len({(m.tile.dims, m.tile.dtype, m.tile.layout, m.offset) for m in self.members}) == 1 and self._fills(
            self.members[0]
        ):
            self._typed()
        else:
            self._shared()
        if first_use is not None and self.space is MemorySpace.Acc:
            # Nothing is kept in it from one iteration to the next.
            self.into.declarations[self.alloc.var] = []
            self.into.at_first_use.setdefault(first_use, []).extend(self.out)
        else:
            self.into.declarations[self.alloc.var] = self.out

    def _fills(self, m: Member) -> bool:
        return m.offset == 0 and tile_bytes(m.tile) == self.capacity

    def _dynamic(self) -> None:
        """One handle whose extents are set where tiles are defined."""
        first = self.members[0]
        one = len({(m.tile.dims, m.tile.dtype, m.tile.layout) for m in self.members}) == 1
        if not one or not all(self._fills(m) for m in self.members):
            raise _error("a tile with run-time valid extents must own its allocation", first.var.span)
        t = first.descriptor
        dynamic = t.replace(valid_shape=(-1, -1))
        handle = self._alloc(dynamic, 0, first, "")
        for m in self.members:
            self.into.of[m.var] = handle

    def _typed(self) -> None:
        """One shape: the allocation itself, and a window per further static valid rectangle."""
        valids = {m.descriptor.valid_shape for m in self.members}
        if len(valids) == 1:
            handle = self._alloc(self.members[0].descriptor, 0, self.members[0], "")
            for m in self.members:
                self.into.of[m.var] = handle
            return
        root = self._alloc(allocation_type(self.members[0].tile, full=True), 0, self.members[0], "")
        for m in self.members:
            self.into.of[m.var] = self._narrowed(root, m)

    def _shared(self) -> None:
        """Several descriptors: views of a root that fills the allocation."""
        filling = [m for m in self.members if m.is_parent and self._fills(m)]
        root = self._alloc(allocation_type(filling[0].tile, full=True), 0, filling[0], "") if filling else None
        for m in self.members:
            same = root is not None and root.type == allocation_type(m.tile, full=True) and m.offset == 0
            if root is not None and same:
                whole = root
            elif m.is_parent:
                whole = self._own_alias(m)
            elif root is not None and self._fills(m):
                whole = self._relabel(root, m)
            elif root is not None and self.addressed:
                whole = self._own_alias(m)
            else:
                self.into.of[m.var] = self._byte_view(m)
                continue
            self.into.of[m.var] = self._narrowed(whole, m)

    def _matrix(self) -> None:
        """Fractal layouts have no byte view: a handle per window, aliases only at addresses."""
        for m in (*self.members, *self.products):
            if is_dynamic(m.tile):
                raise _error("a matrix with run-time valid extents has no buffer form", m.var.span)
        self.into.of.update((m.var, self._matrix_handle(m)) for m in self.members)
        self.into.products.update((m.var, self._matrix_handle(m)) for m in self.products)

    def _matrix_handle(self, m: Member) -> Var:
        if self.addressed:
            return self._once(("matrix", *m.key), lambda: self._alloc(m.descriptor, m.offset, m, ""))
        root = self._once(("root",), lambda: self._alloc(m.descriptor, 0, m, ""))
        if root.type == m.descriptor and m.offset == 0:
            return root
        if m.offset or buffer_bytes(root.type) != buffer_bytes(m.descriptor):
            raise _error(f"an addressless {self.space.name} allocation can hold only one window", m.var.span)
        name = f"{m.var.name_hint}_view"
        return self._once(("relabel", m.descriptor), lambda: self._let("buffer.reshape", (root,), m.descriptor, name, m))

    # -- statements --

    def _once(self, key: tuple[Any, ...], make: Any) -> Var:
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def _let(self, name: str, args: tuple[Expr, ...], t: BufferType, hint: str, m: Member) -> Var:
        span = self.alloc.span if self.alloc.span.is_valid() else m.var.span
        var = Var(hint, t, span)
        self.out.append(AssignStmt(var, typed_call(name, args, None, span, t), span))
        return var

    def _alloc(self, t: BufferType, offset: int, m: Member, suffix: str) -> Var:
        extents = [n for n, v in zip(t.physical_shape, t.valid_shape, strict=True) if v < 0]
        args: tuple[Expr, ...] = (MakeTuple(as_dims(extents)),)
        if self.addressed:
            args += (const_index(self.origin + offset),)
        return self._let("buffer.alloc", args, t, f"{self.alloc.var.name_hint}_buffer{suffix}", m)

    def _own_alias(self, m: Member) -> Var:
        """An allocation of its own at the planned address, for a tile that windows are cut from."""
        if not self.addressed:
            raise _error("a shared allocation without an address can have windows cut from one type only", m.var.span)
        t = allocation_type(m.tile, full=True)
        return self._once(("alias", t, m.offset), lambda: self._alloc(t, m.offset, m, "_alias"))

    def _narrowed(self, whole: Var, m: Member) -> Var:
        """The whole with the static valid rectangle of a tile; nothing is written through an empty one."""
        if whole.type == m.descriptor or is_empty(m.tile.valid):
            return whole
        zeros = MakeTuple(as_dims((0, 0)))
        valids = MakeTuple(as_dims(m.descriptor.valid_shape))
        key = ("narrow", whole, m.descriptor)
        return self._once(
            key, lambda: self._let("buffer.subview", (whole, zeros, valids), m.descriptor, f"{m.var.name_hint}_buffer", m)
        )

    def _relabel(self, root: Var, m: Member) -> Var:
        t = allocation_type(m.tile, full=True)
        if root.type == t:
            return root
        return self._once(("relabel", root, t), lambda: self._let("buffer.reshape", (root,), t, f"{m.var.name_hint}_view", m))

    def _byte_view(self, m: Member) -> Var:
        """A relabel of the bytes of the allocation where the tile lies."""
        self._check_blocks(m)
        root = self._once(("bytes",), lambda: self._alloc(_bytes(self.capacity), 0, m, "_bytes"))
        size = tile_bytes(m.tile)
        window = root
        if size != self.capacity:
            t = _bytes(size)
            offset = MakeTuple(as_dims((m.offset // BLOCK_BYTES, 0)))
            valids = MakeTuple(as_dims(t.physical_shape))
            name = f"{m.var.name_hint}_buffer_bytes"
            window = self._once(
                ("window", m.offset, size), lambda: self._let("buffer.subview", (root, offset, valids), t, name, m)
            )
        return self._once(
            ("view", *m.key), lambda: self._let("buffer.reshape", (window,), m.descriptor, f"{m.var.name_hint}_view", m)
        )

    def _check_blocks(self, m: Member) -> None:
        if self.capacity % BLOCK_BYTES:
            raise _error("byte storage views require allocation capacity aligned to 32 bytes", m.var.span)
        if m.offset % BLOCK_BYTES or tile_bytes(m.tile) % BLOCK_BYTES:
            raise _error("static byte views require offsets and windows aligned to 32 bytes", m.var.span)
        dims = m.tile.dims
        if dims is None or dims[-1] * m.tile.dtype.get_byte() % BLOCK_BYTES:
            raise _error("static byte views require physical rows aligned to 32 bytes", m.var.span)


def _bytes(size: int) -> BufferType:
    return BufferType((size // BLOCK_BYTES, BLOCK_BYTES), DataType.UINT8, MemorySpace.Vec)


def _offset(v: Var) -> int:
    assert isinstance(v.type, TileType)
    assert v.type.memref is not None
    offset = v.type.memref.byte_offset_
    if not isinstance(offset, ConstInt) or offset.value < 0:
        raise _error("expected a static nonnegative storage window address", v.span)
    return offset.value


def _size(v: Var) -> int:
    assert isinstance(v.type, TileType)
    assert v.type.memref is not None
    return v.type.memref.size_
