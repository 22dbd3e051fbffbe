"""Views: slice, reshape, reinterpret_view, set_validshape, and their buffer forms.

In: an application of a view operator.  Out: a block over the same memory under another descriptor.
Invariant: in device code a view of global memory is a copy made here and now, as the load is that it becomes; everywhere
else it stays a view, through which stores reach the tensor.  A tile in a modelled memory is relabelled byte for byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.lanes import Array
from pypto.debug.memory import ArenaPlace, ArrayPlace, Block, Place
from pypto.debug.storage import relabelled
from pypto.dtypes import DataType
from pypto.errors import InternalError, NotSupportedError
from pypto.ir.shaped import BufferType, ShapedType, TileType

__all__ = ["view"]

Extents = tuple[int, ...]


def view(app: Application) -> Block:
    """Operand 0 under the descriptor of the result."""
    source = app.block(0)
    dtype, shape, valid = _descriptor(app)
    if app.op.concept in ("slice", "subview"):
        return _slice(app, source, shape, valid)
    if app.op.concept == "set_validshape":
        made = _settled(app, source, Block(source.place, dtype, shape, valid, source.gm))
        made.undefined = source.undefined
        return made
    place: Place
    if app.op.concept == "transpose_view" and isinstance(source.place, ArrayPlace):
        place = ArrayPlace(source.place.array.swapaxes(-1, -2))
    else:
        place = _relabel(app, source, dtype, shape)
    return _settled(app, source, Block(place, dtype, shape, valid, source.gm))


def _descriptor(app: Application) -> tuple[DataType, Extents, Extents]:
    t = app.call.type
    if isinstance(t, BufferType):
        given = app.args[2] if len(app.args) > 2 else t.valid_shape
        return t.dtype, t.physical_shape, app.frame.within(tuple(given), t.physical_shape, app.span)
    if not isinstance(t, ShapedType):
        raise InternalError(f"{app.op.name} has a result of type {type(t).__name__}")
    shape = app.frame.extents(t.shape)
    return t.dtype, shape, app.frame.valid(t.valid, shape, app.span)


def _settled(app: Application, source: Block, made: Block) -> Block:
    """A view of global memory in device code becomes a copy."""
    if not (source.gm and app.frame.on_core):
        return made
    return Block(ArrayPlace(made.whole()), made.dtype, made.shape, made.valid)


# -- windows ---------------------------------------------------------------------------------------------------------


def _slice(app: Application, source: Block, shape: Extents, valid: Extents) -> Block:
    window, offsets = (shape, app.args[1]) if app.op.level == "buffer" else (tuple(app.args[1]), app.args[2])
    dropped = frozenset(app.args[4]) if len(app.args) > 4 else frozenset()
    kept = iter(valid)
    covered = tuple(1 if axis in dropped else next(kept) for axis in range(len(window)))
    if source.gm and app.frame.on_core:
        # This becomes a load, which moves the valid extents only.
        app.check_window(offsets, covered, source.valid, "reads")
        ends = tuple(o + n for o, n in zip(offsets, covered, strict=True))
    elif app.kwargs.get("clamp"):
        app.check_window(offsets, covered, source.shape, "reads")
        ends = tuple(min(o + n, e) for o, n, e in zip(offsets, window, source.shape, strict=True))
    else:
        app.check_window(offsets, window, source.shape, "reads")
        ends = tuple(o + n for o, n in zip(offsets, window, strict=True))
    if 0 in covered and ends != tuple(o + n for o, n in zip(offsets, window, strict=True)):
        # Nothing is there, and the offsets may be anything.
        return Block.fresh(source.dtype, shape, valid, source.gm and not app.frame.on_core)
    index: tuple[Any, ...] = tuple(
        int(o) if axis in dropped else slice(o, max(o, end)) for axis, (o, end) in enumerate(zip(offsets, ends, strict=True))
    )
    return _settled(app, source, Block(source.place.window(index), source.dtype, shape, valid, source.gm))


# -- relabels --------------------------------------------------------------------------------------------------------


def _relabel(app: Application, source: Block, dtype: DataType, shape: Extents) -> Place:
    """The same elements in row-major order, or the same bytes, under another shape."""
    place = source.place
    if isinstance(place, ArenaPlace):
        t = app.var.type if app.var is not None and isinstance(app.var.type, TileType) else app.call.type
        if not isinstance(t, (TileType, BufferType)):
            raise InternalError(f"{app.op.name} relabels on-chip memory as {type(t).__name__}")
        return relabelled(place.arena, t, place.start)
    if not isinstance(place, ArrayPlace):
        raise InternalError(f"{app.op.name}: unknown kind of storage")
    array = place.array
    if array.shape != source.shape:
        raise NotSupportedError(f"{app.op.name} of a window that was cut at the edge is not executed", app.span, "copy it first")
    made = _recast(array, dtype).reshape(shape)
    if source.gm and not app.frame.on_core and array.size and not np.shares_memory(made, array):
        raise NotSupportedError(
            f"{app.op.name} of a window that is not contiguous is not executed", app.span, "reshape the tensor before slicing it"
        )
    return ArrayPlace(made)


def _recast(array: Array, dtype: DataType) -> Array:
    """The bytes of an array as elements of another type, row by row."""
    target = dtype.numpy()
    if array.dtype == target:
        return array
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(target)
