"""From tile types to buffer descriptors.

In: the type of a tile.  Out: its `BufferType`: physical extents, element type, layout, and valid extents, -1 where they
are known only at run time.
An allocation's descriptor has all extents static or all dynamic, because the update of run-time extents writes both; a
window's has each extent as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.ir.expr import Expr
from pypto.ir.layout import physical_bytes
from pypto.ir.shaped import BufferType, TileType, const_dim, const_dims
from pypto.ir.types import Type
from pypto.passes.memory.sizes import is_dynamic

__all__ = ["allocation_type", "buffer_bytes", "is_empty", "window_type"]


def is_empty(extents: Sequence[Expr]) -> bool:
    """Whether a rectangle is known to hold nothing."""
    return any(const_dim(e) == 0 for e in extents)


def buffer_bytes(t: Type) -> int:
    """Bytes of a buffer without gaps."""
    assert isinstance(t, BufferType)
    return physical_bytes(t.dtype, t.physical_shape)


def allocation_type(t: TileType, full: bool = False) -> BufferType:
    """The descriptor of a tile that owns its storage; `full`: with all of it valid."""
    if full:
        return _descriptor(t, None)
    return _descriptor(t, (-1, -1) if is_dynamic(t) else const_dims(t.valid))


def window_type(t: TileType) -> BufferType:
    """The descriptor of a window."""
    return _descriptor(t, tuple(-1 if const_dim(e) is None else const_dim(e) or 0 for e in t.valid))


def _descriptor(t: TileType, valid: tuple[int, ...] | None) -> BufferType:
    dims = const_dims(t.shape)
    assert dims is not None
    assert t.memory_space is not None
    view = t.get_effective_tile_view()
    return BufferType(dims, t.dtype, t.memory_space, valid, view.blayout, view.slayout, view.fractal, view.pad, view.compact)
