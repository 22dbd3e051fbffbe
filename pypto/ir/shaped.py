"""Types with a shape: tensors in global memory, tiles on the chip, buffers, and the views that refine them.

Invariant: a tile view equal to the implicit one of its shape and memory space is stored as None, so that equal types
are equal objects in every field; `valid`, `layout` and friends answer for both forms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import CompactMode, MemorySpace, PadValue, TensorLayout, TileLayout
from pypto.ir.expr import ConstInt, Expr, MemRef, const_index
from pypto.ir.layout import BoxLayout, implicit_layout
from pypto.ir.node import node
from pypto.ir.structural import compare
from pypto.ir.types import Type

__all__ = [
    "BufferType",
    "Dim",
    "ShapedType",
    "TensorType",
    "TensorView",
    "TileType",
    "TileView",
    "as_dims",
    "const_dim",
    "const_dims",
    "is_less",
    "same_dims",
]

Dim = int | Expr
_put = object.__setattr__


def as_dims(shape: Iterable[Dim]) -> tuple[Expr, ...]:
    """Extents as expressions; ints become shared INDEX constants."""
    return tuple(const_index(d) if isinstance(d, int) else d for d in shape)


def const_dim(d: Expr) -> int | None:
    """The value of a constant extent, else None."""
    return d.value if isinstance(d, ConstInt) else None


def is_less(a: Expr, b: Expr) -> bool:
    """Whether `a` is known to be less than `b`; what is known at run time only is checked there."""
    return isinstance(a, ConstInt) and isinstance(b, ConstInt) and a.value < b.value


def const_dims(shape: Iterable[Expr]) -> tuple[int, ...] | None:
    """All extents as ints, or None if any is not constant."""
    dims = []
    for d in shape:
        if not isinstance(d, ConstInt):
            return None
        dims.append(d.value)
    return tuple(dims)


def same_dims(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Provably equal extents: same rank, and each pair structurally equal."""
    return len(a) == len(b) and all(x is y or compare(x, y) is None for x, y in zip(a, b, strict=True))


@node
class TensorView(Type):
    """How a tensor lies in its memory: strides in elements (empty: packed), layout, valid extents, padding."""

    stride: tuple[Expr, ...]
    layout: TensorLayout
    valid_shape: tuple[Expr, ...]
    pad: PadValue

    def __init__(
        self,
        stride: Iterable[Dim] = (),
        layout: TensorLayout = TensorLayout.ND,
        valid_shape: Iterable[Dim] = (),
        pad: PadValue = PadValue.null,
    ) -> None:
        _put(self, "stride", as_dims(stride))
        _put(self, "layout", layout)
        _put(self, "valid_shape", as_dims(valid_shape))
        _put(self, "pad", pad)


@node
class TileView(Type):
    """Refinements of a tile: valid rectangle, strides, offset, layout, padding; None and empty mean "as implied"."""

    valid_shape: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    start_offset: Expr | None
    blayout: TileLayout
    slayout: TileLayout
    fractal: int
    pad: PadValue
    compact: CompactMode

    def __init__(
        self,
        valid_shape: Iterable[Dim] | None = None,
        stride: Iterable[Dim] | None = None,
        start_offset: Dim | None = None,
        blayout: TileLayout = TileLayout.row_major,
        slayout: TileLayout = TileLayout.none_box,
        fractal: int = 512,
        pad: PadValue = PadValue.null,
        compact: CompactMode = CompactMode.null,
    ) -> None:
        _put(self, "valid_shape", as_dims(valid_shape or ()))
        _put(self, "stride", as_dims(stride or ()))
        _put(self, "start_offset", const_index(start_offset) if isinstance(start_offset, int) else start_offset)
        _put(self, "blayout", blayout)
        _put(self, "slayout", slayout)
        _put(self, "fractal", fractal)
        _put(self, "pad", pad)
        _put(self, "compact", compact)

    @property
    def layout(self) -> BoxLayout:
        return BoxLayout(self.blayout, self.slayout, self.fractal)


@node
class ShapedType(Type):
    """Base of tensor and tile types."""

    shape: tuple[Expr, ...]
    dtype: DataType
    memref: MemRef | None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The physical extents as ints, or None where one is symbolic."""
        return const_dims(self.shape)

    @property
    def valid(self) -> tuple[Expr, ...]:
        """The extents that hold data."""
        return self.shape

    def shares_memref_with(self, other: ShapedType) -> bool:
        return self.memref is not None and other.memref is not None and compare(self.memref, other.memref) is None


@node
class TensorType(ShapedType):
    """A tensor in global memory."""

    tensor_view: TensorView | None

    def __init__(
        self, shape: Iterable[Dim], dtype: DataType, memref: MemRef | None = None, tensor_view: TensorView | None = None
    ) -> None:
        dims = as_dims(shape)
        _put(self, "shape", dims)
        _put(self, "dtype", dtype)
        _put(self, "memref", memref)
        _put(self, "tensor_view", None if tensor_view is None else _canonical_tensor_view(dims, tensor_view))

    def replace(self, **changes: Any) -> TensorType:
        """A copy with some fields changed, in canonical form."""
        fields = {f.name: changes.pop(f.name, getattr(self, f.name)) for f in type(self).__fields__}
        return TensorType(**fields, **changes)

    @property
    def memory_space(self) -> MemorySpace:
        return MemorySpace.DDR

    @property
    def valid(self) -> tuple[Expr, ...]:
        """The extents that hold data: those of the view, else the shape."""
        v = self.tensor_view
        return v.valid_shape if v is not None and v.valid_shape else self.shape


def _canonical_tensor_view(shape: tuple[Expr, ...], view: TensorView) -> TensorView | None:
    """Valid extents equal to the shape say nothing; a view that says nothing is none."""
    if view.valid_shape and same_dims(view.valid_shape, shape):
        view = view.replace(valid_shape=())
    nothing = not view.stride and not view.valid_shape and view.layout is TensorLayout.ND and view.pad is PadValue.null
    return None if nothing else view


@node
class TileType(ShapedType):
    """A tile in an on-chip memory (or, before spaces are inferred, in one to be chosen)."""

    tile_view: TileView | None
    memory_space: MemorySpace | None

    def __init__(
        self,
        shape: Iterable[Dim],
        dtype: DataType,
        memref: MemRef | None = None,
        tile_view: TileView | None = None,
        memory_space: MemorySpace | None = None,
    ) -> None:
        if memref is not None and memory_space is None:
            raise ValueError("TileType with MemRef must have explicit memory_space")
        dims = as_dims(shape)
        _put(self, "shape", dims)
        _put(self, "dtype", dtype)
        _put(self, "memref", memref)
        _put(self, "tile_view", None if tile_view is None else _canonical_tile_view(dims, memory_space, tile_view))
        _put(self, "memory_space", memory_space)

    def replace(self, **changes: Any) -> TileType:
        """A copy with some fields changed, in canonical form."""
        fields = {f.name: changes.pop(f.name, getattr(self, f.name)) for f in type(self).__fields__}
        return TileType(**fields, **changes)

    def get_effective_tile_view(self) -> TileView:
        """The view with everything written out: valid extents and layout."""
        v = self.tile_view
        if v is None:
            layout = _implicit(self.shape, self.memory_space)
            return TileView(self.shape, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
        return v if v.valid_shape else v.replace(valid_shape=self.shape)

    @property
    def valid(self) -> tuple[Expr, ...]:
        """Extents of the valid rectangle."""
        v = self.tile_view
        return v.valid_shape if v is not None and v.valid_shape else self.shape

    @property
    def layout(self) -> BoxLayout:
        return self.tile_view.layout if self.tile_view is not None else _implicit(self.shape, self.memory_space)

    @property
    def is_fully_valid(self) -> bool:
        v = self.tile_view
        return v is None or not v.valid_shape or same_dims(v.valid_shape, self.shape)

    def with_view(self, **changes: Any) -> TileType:
        """The type with some fields of its effective view changed."""
        return TileType(self.shape, self.dtype, self.memref, self.get_effective_tile_view().replace(**changes), self.memory_space)

    def in_space(self, space: MemorySpace | None) -> TileType:
        """The type in another memory space: an implicit layout becomes the implicit layout there."""
        if space is self.memory_space:
            return self
        view = self.tile_view
        if view is not None and view.layout == _implicit(self.shape, self.memory_space):
            there = _implicit(self.shape, space)
            view = view.replace(blayout=there.blayout, slayout=there.slayout, fractal=there.fractal)
        return TileType(self.shape, self.dtype, self.memref if space is not None else None, view, space)

    def at(self, memref: MemRef | None) -> TileType:
        """The type with (or without) a place in memory."""
        return self.replace(memref=memref)


def _implicit(shape: tuple[Expr, ...], space: MemorySpace | None) -> BoxLayout:
    return implicit_layout(space, tuple(const_dim(d) for d in shape))


def _canonical_tile_view(shape: tuple[Expr, ...], space: MemorySpace | None, view: TileView) -> TileView | None:
    if view.valid_shape and same_dims(view.valid_shape, shape):
        view = view.replace(valid_shape=())
    nothing = (
        not view.valid_shape
        and not view.stride
        and view.start_offset is None
        and view.pad is PadValue.null
        and view.compact is CompactMode.null
        and view.layout == _implicit(shape, space)
    )
    return None if nothing else view


_BUFFER_SPACES = frozenset(s for s in MemorySpace if s not in (MemorySpace.DDR, MemorySpace.ScalarLocal))


@node
class BufferType(Type):
    """Descriptor of a storage handle: everything explicit, extents as ints, -1 for a run-time valid extent."""

    physical_shape: tuple[int, ...]
    dtype: DataType
    memory_space: MemorySpace
    valid_shape: tuple[int, ...]
    blayout: TileLayout
    slayout: TileLayout
    fractal: int
    pad: PadValue
    compact: CompactMode

    def __init__(
        self,
        shape: Iterable[int],
        dtype: DataType,
        memory_space: MemorySpace,
        valid_shape: Iterable[int] | None = None,
        blayout: TileLayout = TileLayout.row_major,
        slayout: TileLayout = TileLayout.none_box,
        fractal: int = 512,
        pad: PadValue = PadValue.null,
        compact: CompactMode = CompactMode.null,
    ) -> None:
        physical = _ints(shape, "physical shape")
        if not physical or any(n < 1 for n in physical):
            raise ValueError(f"physical shape: every physical extent must be positive, got {physical}")
        valid = _ints(valid_shape, "valid shape") if valid_shape is not None else ()
        valid = valid or physical
        if len(valid) != len(physical) or any(not -1 <= v <= n for v, n in zip(valid, physical, strict=False)):
            raise ValueError(f"valid extents {valid} must be -1 or within the physical shape {physical}")
        if dtype is DataType.TASK_ID:
            raise ValueError(f"{dtype} is no element data type of a buffer")
        if memory_space not in _BUFFER_SPACES:
            raise ValueError(f"a buffer lives in on-chip tile memory, not in {memory_space.name}")
        if blayout is TileLayout.none_box:
            raise ValueError("the block layout of a buffer is row_major or col_major")
        if fractal < 1:
            raise ValueError(f"fractal size must be positive, got {fractal}")
        values = (physical, dtype, memory_space, valid, blayout, slayout, fractal, pad, compact)
        for f, v in zip(type(self).__fields__, values, strict=True):
            _put(self, f.name, v)

    @property
    def layout(self) -> BoxLayout:
        return BoxLayout(self.blayout, self.slayout, self.fractal)


def _ints(values: Iterable[int], what: str) -> tuple[int, ...]:
    out = tuple(values)
    for v in out:
        if isinstance(v, bool) or not isinstance(v, int):
            raise TypeError(f"{what}: expected integers, got {type(v).__name__}")
    return out
