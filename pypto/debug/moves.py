"""Operators that move, alias or query: what each `Special` kind does.

In: an application of an operator to run-time values.  Out: its value.
Invariant: a window that leaves its tensor or tile raises `KernelBoundsError` at the operator's place before anything moves;
a window without elements never does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from pypto.debug.apply import Application, read_around, scalar_lane
from pypto.debug.frame import Value
from pypto.debug.lanes import Array, run
from pypto.debug.memory import ArenaPlace, Block, everything
from pypto.debug.views import view
from pypto.dtypes import DataType
from pypto.enums import MemorySpace, PadValue
from pypto.errors import InternalError, KernelBoundsError, NotSupportedError
from pypto.ir.ops import lanefns
from pypto.ir.ops.casts import cast_lanes
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import BufferType

__all__ = ["SPECIAL", "writable"]


def _window(offsets: Sequence[int], extents: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(o, o + e) for o, e in zip(offsets, extents, strict=True))


def _operands(app: Application, functional: tuple[int, ...], buffer: tuple[int, ...]) -> list[Value]:
    """Operands in one order, where the tile and the buffer form order them differently."""
    return [app.args[i] for i in (buffer if app.op.level == "buffer" else functional) if i < len(app.args)]


# -- transfers -------------------------------------------------------------------------------------------------------


def _load(app: Application) -> Value:
    """The valid extents of a window of a tensor; nothing else of the result is written."""
    source, offsets = app.block(0), app.args[1]
    dest = app.destination()
    if app.op.level == "buffer":
        extents = app.frame.within(app.args[2], dest.shape, app.span)
    elif len(app.args[2]) != len(dest.shape):
        return _load_rows(app, source, dest)
    else:
        # A clamped window is cut by the result's type, so that the type alone says what is read.
        extents = dest.valid
    app.check_window(offsets, extents, source.valid, "reads")
    dest.write(source.place.get(_window(offsets, extents)))
    return None if app.op.level == "buffer" else dest


def _load_rows(app: Application, source: Block, dest: Block) -> Value:
    """A window of another rank than the tile: all its axes but the last are the tile's rows, in row-major order."""
    offsets, window, extents = app.args[1], app.args[2], app.frame.within(app.args[3], app.args[2], app.span)
    if app.kwargs.get("clamp"):
        rest = tuple(max(0, n - o) for n, o in zip(source.valid, offsets, strict=True))
        extents = tuple(min(e, r) for e, r in zip(extents, rest, strict=True))
    app.check_window(offsets, extents, source.valid, "reads")
    data = source.place.get(_window(offsets, extents))
    if data.size:
        rows = np.arange(int(np.prod(window[:-1]))).reshape(window[:-1])[everything(extents[:-1])].reshape(-1, 1)
        dest.place.put((rows, np.arange(extents[-1])[None, :]), data.reshape(rows.shape[0], -1))
    return dest


def _store(app: Application) -> Value:
    """The valid rectangle of a tile into a window of a tensor; as many rows of a window of higher rank as there are."""
    tile, offsets, target = _operands(app, (0, 1, 2), (0, 1, 3))
    if not target.gm:
        hint = "store into a parameter, or into a tensor that was made outside the kernel"
        raise NotSupportedError(f"{app.op.name}: the target is a value, not a tensor in global memory", app.span, hint)
    if app.op.level == "buffer":
        extents: tuple[int, ...] = app.frame.within(app.args[2], tile.shape, app.span)
    else:
        extents = app.args[3] if len(app.args) > 3 else tile.valid
    data = tile.read(_rows_by_columns(tile, extents))
    covered = _covered(data.shape, extents)
    app.check_window(offsets, covered, target.shape, "writes")
    if data.size:
        _put(app, target, offsets, extents, run(cast_lanes(tile.dtype, target.dtype, None), [data]))
    return None if app.op.level == "buffer" else target


def _rows_by_columns(tile: Block, extents: tuple[int, ...]) -> tuple[int, ...]:
    """The part of a tile that goes into a window: its valid rectangle, cut to the window."""
    if len(tile.valid) == len(extents):
        return tuple(min(v, e) for v, e in zip(tile.valid, extents, strict=True))
    if len(tile.valid) != 2:
        raise InternalError(f"a tile of rank {len(tile.valid)} for a window of rank {len(extents)}")
    return min(tile.valid[0], int(np.prod(extents[:-1]))), min(tile.valid[1], extents[-1])


def _covered(data: tuple[int, ...], extents: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of what is really written, in the window's rank."""
    if len(data) == len(extents):
        return data
    if 0 in data:
        return (0,) * len(extents)
    return (*(int(axis.max()) + 1 for axis in _leading(data[0], extents)), data[1])


def _leading(rows: int, extents: tuple[int, ...]) -> tuple[Array, ...]:
    """The indices that rows 0, 1, ... of a tile have along all axes of a window but the last."""
    return np.unravel_index(np.arange(rows), extents[:-1]) if len(extents) > 1 else ()


def _put(app: Application, target: Block, offsets: Sequence[int], extents: tuple[int, ...], data: Array) -> None:
    index: tuple[Any, ...]
    if data.ndim == len(extents):
        index = _window(offsets, data.shape)
    else:
        leading = _leading(data.shape[0], extents)
        columns = np.arange(data.shape[1])[None, :] + offsets[-1]
        index = (*(axis[:, None] + o for axis, o in zip(leading, offsets[:-1], strict=True)), columns)
        if not leading:
            data, index = data[0], (columns[0],)
    if app.kwargs.get("atomic"):
        add = lanefns.lanes(lanefns.add)((target.dtype, target.dtype), target.dtype, {})
        data = run(add, [target.place.get(index), data])
    target.place.put(index, data)


def _copy(app: Application) -> Value:
    """A whole tile, what is not valid included; of a vector buffer what is valid.  Onto itself it is nothing."""
    source, dest = app.block(0), app.destination()
    t = app.call.args[-1].type
    if isinstance(t, BufferType) and t.memory_space is MemorySpace.Vec:
        dest.write(read_around(app, dest, [(0, lambda: source.read(dest.valid))])[0])
        return None
    if not (isinstance(dest.place, ArenaPlace) and dest.place.coincides(source.place)):
        data = read_around(app, dest, [(0, source.whole)])[0]
        # A bias is widened on its way into Bias memory.
        dest.write(data if source.dtype is dest.dtype else run(cast_lanes(source.dtype, dest.dtype, None), [data]))
    return None if app.op.level == "buffer" else dest


def _clone(app: Application) -> Value:
    """What of a tensor is valid, repeated along the one axis on which it differs from the target."""
    source, target = app.block(0), app.block(1)
    if not target.gm:
        hint = "write into a parameter, or into a tensor that was made outside the kernel"
        raise NotSupportedError(f"{app.op.name}: the target is a value, not a tensor in global memory", app.span, hint)
    extents = tuple(m if n != m else v for v, n, m in zip(source.valid, source.shape, target.shape, strict=True))
    if 0 not in source.valid:
        target.place.put(everything(extents), np.broadcast_to(source.read(source.valid), extents))
    return target


def _extract(app: Application) -> Value:
    """A copy of a window of the result's shape."""
    source, row, col = app.block(0), app.args[1], app.args[2]
    dest = app.destination()
    app.check_window((row, col), dest.shape, source.shape, "reads")
    window = _window((row, col), dest.shape)
    dest.write(read_around(app, dest, [(0, lambda: source.place.get(window))])[0])
    return None if app.op.level == "buffer" else dest


def _insert(app: Application) -> Value:
    """The valid elements of the source over a window of the target; a tile's window lies inside of it whole."""
    source, offsets = app.block(1), app.args[2]
    extents = source.valid
    app.check_window(offsets, extents if app.op.level == "tensor" else source.shape, app.block(0).shape, "writes")
    data = source.read(extents)
    target = writable(app)
    if data.size:
        _put(app, target, offsets, extents, data)
    return target


def writable(app: Application) -> Block:
    """Operand 0 as something that may change: itself in global memory, else the result, holding what the operand holds."""
    target = app.block(0)
    if target.gm:
        return target
    dest = app.destination()
    place = app.result_place()
    if place is None or not place.coincides(target.place):
        dest.write(target.whole())
    return dest


def _pad(app: Application) -> Value:
    source, dest = app.block(0), app.destination()
    contents = read_around(app, dest, [(0, lambda: source.read(source.valid))])[0]
    pad = _pad_value(source.dtype, app.kwargs.get("pad_value", PadValue.zero))
    dest.write(np.broadcast_to(scalar_lane(pad, source.dtype), dest.shape))
    dest.write(contents)
    return dest


def _pad_value(dtype: DataType, pad: PadValue) -> float:
    if pad is PadValue.zero:
        return 0
    largest = pad is PadValue.max
    if dtype.is_float():
        return float("inf") if largest else -float("inf")
    if dtype is DataType.BOOL:
        return int(largest)
    bits = dtype.get_bit() - dtype.is_signed_int()
    return (1 << bits) - 1 if largest else -(1 << bits) if dtype.is_signed_int() else 0


# -- storage ---------------------------------------------------------------------------------------------------------


def _create(app: Application) -> Value:
    dest = app.destination()
    init = app.kwargs.get("init_value")
    if init is not None:
        dest.write(np.broadcast_to(scalar_lane(init, dest.dtype), dest.shape))
    else:
        dest.poison()
        dest.undefined = not dest.gm
    return dest


def _fill(app: Application) -> Value:
    dest = app.destination()
    dest.write(np.broadcast_to(scalar_lane(app.args[1], dest.dtype), dest.shape))
    return dest


def _alloc(app: Application) -> Value:
    """A buffer's handle; allocations of tiles exist through the memrefs that name them."""
    t = app.call.type
    if not isinstance(t, BufferType):
        return None
    given = iter(app.args[0])
    valid = app.frame.within(tuple(next(given) if v < 0 else v for v in t.valid_shape), t.physical_shape, app.span)
    if app.var is None:
        raise InternalError("a buffer is allocated and not bound")
    address = int(app.args[1]) if len(app.args) > 1 else None
    return Block(app.frame.storage.allocate(t, address, app.var), t.dtype, t.physical_shape, valid)


def _set_valid(app: Application) -> Value:
    """New valid extents of a handle; what it holds stays."""
    buffer = app.block(0)
    buffer.valid = app.frame.within(app.args[1], buffer.shape, app.span)
    return None


# -- elements and queries --------------------------------------------------------------------------------------------


def _read(app: Application) -> Value:
    block, at = app.block(0), app.args[1]
    app.check_window(at, (1,) * len(at), block.shape, "reads")
    for axis, (i, v) in enumerate(zip(at, block.valid, strict=True)):
        if i >= v:
            raise KernelBoundsError(
                f"{app.op.name} reads element {i} of dimension {axis}, of which {v} are valid",
                app.span,
                "fill the rest of the tile with pl.fillpad, or read what is valid",
            )
    return _number(block.place.get(tuple(at)), block.dtype)


def _number(element: Any, dtype: DataType) -> Value:
    value = np.asarray(element)
    return bool(value) if dtype is DataType.BOOL else float(value) if dtype.is_float() else int(value)


def _write(app: Application) -> Value:
    at = app.args[1]
    app.check_window(at, (1,) * len(at), app.block(0).shape, "writes")
    target = writable(app)
    target.place.put(tuple(at), scalar_lane(app.args[2], dtype_of(app.call.args[2])))
    return target


def _query(app: Application) -> Value:
    if app.args:
        return app.block(0).shape[app.args[1]]
    position = app.frame.position
    answers = {"get_block_idx": position.block, "get_block_num": position.blocks, "get_subblock_idx": position.lane}
    return answers[app.op.concept]


SPECIAL: Mapping[str, Callable[[Application], Value]] = MappingProxyType(
    {
        "view": view,
        "load": _load,
        "store": _store,
        "copy": _copy,
        "clone": _clone,
        "insert": _insert,
        "extract": _extract,
        "pad": _pad,
        "create": _create,
        "fill": _fill,
        "alloc": _alloc,
        "set_valid": _set_valid,
        "read": _read,
        "write": _write,
        "query": _query,
    }
)
