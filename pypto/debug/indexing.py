"""Reading and writing by index.

In: an application.  Out: its value.  Invariant: an index that leads to nothing raises `KernelBoundsError` at the operator's
place before anything is written; of several writes to one element the last in row-major order of the index stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from pypto.debug.apply import Application, read_around, require_valid, scalar_lane
from pypto.debug.lanes import Array
from pypto.debug.memory import Block, everything
from pypto.debug.moves import writable
from pypto.errors import KernelBoundsError
from pypto.ir.ops.gathers import COALESCE, OOB, pattern_of

__all__ = ["INDEXING"]

Extents = tuple[int, ...]


def _outside(app: Application, what: str) -> NoReturn:
    hint = "correct the index" + (", or say with gather_oob= what it gives" if app.op.concept == "mgather" else "")
    raise KernelBoundsError(f"{app.op.name}: {what}", app.span, hint)


def _check_range(app: Application, index: Array, count: int, otherwise: str) -> None:
    """Every index is one of `count`; `otherwise` says what a wrong one is."""
    wrong = (index < 0) | (index >= count)
    if wrong.any():
        _outside(app, f"index {int(index[wrong].flat[0])} is {otherwise}")


def _check_flat(app: Application, index: Array, count: int) -> None:
    _check_range(app, index, count, f"none of the {count} elements")


def _check_rows(app: Application, index: Array, count: int) -> None:
    _check_range(app, index, count, f"none of the {count} rows")


def _check_valid(app: Application, where: tuple[Array, ...], valid: Extents) -> None:
    """Elements that are there but not valid are whatever memory held."""
    for axis, (at, n) in enumerate(zip(where, valid, strict=True)):
        if (at >= n).any():
            _outside(app, f"the index leads to element {int(at.max())} of dimension {axis}, of which {n} are valid")


def _index_of(app: Application, i: int) -> Array:
    """The valid part of an index, as 64-bit integers."""
    block = app.block(i)
    return block.read(block.valid).astype(np.int64)


# -- gather ----------------------------------------------------------------------------------------------------------


def _gather(app: Application) -> Block:
    source, dest = app.block(0), app.destination()
    found = read_around(app, dest, [(0, lambda: source.read(source.valid)), (1, lambda: _index_of(app, 1))])
    x, index = found[0], found[1]
    if not index.size:
        return dest
    if "dim" in app.kwargs:
        dest.write(x[_along(app, source, app.block(1), index)])
        return dest
    inside = (index >= 0) & (index < prod(source.shape))
    if source.gm and not inside.all():
        _check_flat(app, index, prod(source.shape))
    where = np.unravel_index(np.where(inside, index, 0), source.shape)
    _check_valid(app, tuple(a[inside] for a in where), source.valid)
    taken = x[tuple(np.minimum(a, n - 1) for a, n in zip(where, x.shape, strict=True))] if x.size else np.zeros_like(index)
    dest.write(np.where(inside, taken, np.zeros((), taken.dtype)).astype(source.dtype.numpy()))
    return dest


def _along(app: Application, source: Block, index_block: Block, index: Array) -> tuple[Array, ...]:
    """Positions in the source: those of the index itself, but for the axis along which it counts."""
    dim: int = app.kwargs["dim"] % (3 if "group" in app.kwargs else len(source.shape))
    if "group" not in app.kwargs:
        where, extents = _positions(index), source.shape
    else:  # matrices of rows in groups: the leading two of three dimensions
        b, n = app.kwargs["group"], app.kwargs["index_group"]
        row, col = _positions(index)
        where, extents = [row // n, row % n, col], (source.shape[0] // b, b, source.shape[1])
    _check_range(app, index, extents[dim], f"out of range for the extent {extents[dim]} of dimension {dim}")
    where[dim] = index
    at = tuple(where) if "group" not in app.kwargs else (where[0] * app.kwargs["group"] + where[1], where[2])
    _check_valid(app, at, source.valid)
    return at


def _positions(x: Array) -> list[Array]:
    """Where each element stands, axis by axis."""
    return list(np.indices(x.shape))


def _gather_mask(app: Application) -> Block:
    source, dest = app.block(0), app.destination()
    first, step = pattern_of(app.kwargs)
    x = read_around(app, dest, [(0, lambda: source.read(source.valid))])[0]
    dest.write(np.ascontiguousarray(x[:, first::step]).view(dest.dtype.numpy()))
    return dest


def _gatherb(app: Application) -> Block:
    source, dest = app.block(0), app.destination()
    found = read_around(app, dest, [(0, lambda: source.read(source.valid)), (1, lambda: _index_of(app, 1))])
    x, offset = found[0], found[1]
    size = source.dtype.get_byte()
    if not offset.size:
        return dest
    wrong = (offset % 32 != 0) | (offset >= prod(source.shape) * size)
    if wrong.any():
        _outside(app, f"offset {int(offset[wrong].flat[0])} is no block of 32 bytes of the source")
    elements = offset[..., None] // size + np.arange(32 // size)
    where = np.unravel_index(elements.reshape(offset.shape[0], -1), source.shape)
    _check_valid(app, where, source.valid)
    dest.write(np.ascontiguousarray(x[where]).view(dest.dtype.numpy()))
    return dest


def _mgather(app: Application) -> Block:
    mem, dest = app.block(0), app.destination()
    index = read_around(app, dest, [(1, lambda: app.block(1).whole().astype(np.int64))])[1]
    rows = app.kwargs["coalesce"] == COALESCE.index("row")
    if rows:
        index = index.reshape(-1)[: dest.valid[0]]
        held = prod(app.block(1).valid)
        if held < dest.valid[0]:
            _outside(app, f"{dest.valid[0]} elements of the index are read, of which {held} are valid")
    else:
        require_valid(app, 1, app.block(1), dest.valid)
        index = index[everything(dest.valid)]
    count = mem.shape[0] if rows else prod(mem.shape)
    at, inside = _in_range(app, index, count)
    if not index.size or 0 in dest.valid:
        return dest
    data = mem.place.get(everything(mem.shape))
    taken = data[at][:, : dest.valid[1]] if rows else data.reshape(-1)[at]
    kept = inside[:, None] if rows else inside
    dest.write(np.where(kept, taken, np.zeros((), taken.dtype)))
    return dest


def _in_range(app: Application, index: Array, count: int) -> tuple[Array, Array]:
    """Indices that are there, and whether each element is one; what is not is decided by `gather_oob`."""
    mode = OOB[app.kwargs.get("gather_oob", 0)]
    unsigned = index & 0xFFFFFFFF
    inside = unsigned < count
    if mode == "undefined" or (count == 0 and mode != "zero"):
        _check_flat(app, index, count)
    if mode == "clamp":
        return np.minimum(unsigned, count - 1), np.ones(index.shape, bool)
    if mode == "wrap" and count:
        return unsigned % count, np.ones(index.shape, bool)
    return np.where(inside, unsigned, 0), inside


# -- scatter ---------------------------------------------------------------------------------------------------------


def _put_last(target: Block, at: Array, values: Array) -> None:
    """Elements by their row-major position; of several for one the last."""
    flat, source = at.reshape(-1), values.reshape(-1)
    positions, back = np.unique(flat[::-1], return_index=True)
    if positions.size:
        target.place.put(np.unravel_index(positions, target.shape), source[::-1][back])


def _scatter(app: Application) -> Block:
    """The tensor form gives a new value, the tile form changes its first operand."""
    i, k = (2, 1) if app.op.level == "tensor" else (1, 2)
    index = _index_of(app, k)
    require_valid(app, i, app.block(i), index.shape)
    values = app.block(i).read(index.shape)
    shape = app.block(0).shape
    if len(app.args) > 3:
        _check_rows(app, app.block(3).read(app.block(3).valid), shape[0])
    if "dim" in app.kwargs:
        _check_range(app, index, shape[1], f"out of range for {shape[1]} columns")
        index = np.arange(index.shape[0])[:, None] * shape[1] + index
    _check_flat(app, index, prod(shape))
    target = _fresh_copy(app) if app.op.level == "tensor" else writable(app)
    _put_last(target, index, values)
    return target


def _fresh_copy(app: Application, i: int = 0) -> Block:
    source, dest = app.block(i), app.destination()
    dest.write(source.read(source.valid))
    return dest


def _scatter_mask(app: Application) -> Block:
    first, step = pattern_of(app.kwargs)
    source = app.block(1)
    values = source.read(source.valid)
    target = _fresh_copy(app) if app.op.level == "tensor" else writable(app)
    rows, cols = source.valid
    target.place.put((slice(0, rows), slice(first, first + cols * step, step)), values)
    return target


def _scatter_update(app: Application) -> Block:
    index, src = _index_of(app, 1).reshape(-1), app.block(2)
    values = src.read(src.valid)
    _check_rows(app, index, app.block(0).shape[0])
    target = _fresh_copy(app)
    for k, row in enumerate(index):
        target.place.put((slice(int(row), int(row) + 1), slice(0, values.shape[1])), values[k : k + 1])
    return target


def _mscatter(app: Application) -> Block:
    target, index = app.block(2), _index_of(app, 1)
    require_valid(app, 0, app.block(0), index.shape)
    values = app.block(0).read(index.shape)
    _check_flat(app, index, prod(target.shape))
    _put_last(target, index, values)
    return target


# -- comparing -------------------------------------------------------------------------------------------------------

_COMPARE = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def _hits(app: Application, dest: Block) -> list[Array]:
    """For each valid row, the columns whose elements compare with the value, the first `out_cols` of them."""
    source = app.block(0)
    reads: list[tuple[int, Callable[[], Array]]] = [(0, lambda: source.read(source.valid))]
    if app.op.level == "tile":
        reads.append((1, lambda: app.block(1).read((1, 1))))
    found = read_around(app, dest, reads)
    value = found[1] if 1 in found else scalar_lane(app.args[1], source.dtype)
    with np.errstate(invalid="ignore"):
        hit = _COMPARE[app.kwargs["cmp_mode"]](found[0], value)
    return [np.flatnonzero(row)[: app.kwargs["out_cols"]] for row in hit]


def _compare_columns(app: Application) -> Block:
    dest = app.destination()
    rows = _hits(app, dest)
    made = np.zeros((len(rows), app.kwargs["out_cols"]), np.int32)
    for r, columns in enumerate(rows):
        made[r, : len(columns)] = columns + app.kwargs.get("offset", 0)
    dest.write(made)
    return dest


def _compare_counts(app: Application) -> Block:
    dest = app.destination()
    counts = [len(columns) for columns in _hits(app, dest)]
    dest.write(np.array([counts], dest.dtype.numpy()))
    return dest


INDEXING: Mapping[str, Callable[[Application], Block]] = MappingProxyType(
    {
        "gather": _gather,
        "gather_mask": _gather_mask,
        "gatherb": _gatherb,
        "mgather": _mgather,
        "scatter": _scatter,
        "scatter_mask": _scatter_mask,
        "scatter_update": _scatter_update,
        "mscatter": _mscatter,
        "compare_columns": _compare_columns,
        "compare_counts": _compare_counts,
    }
)
