"""Sorting into runs of (value, index) pairs, and merging runs.

In: an application.  Out: its value.  Values are in descending order, NaN before all numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from pypto.debug.apply import Application, read_around, require_valid
from pypto.debug.lanes import Array
from pypto.debug.memory import Block
from pypto.errors import KernelBoundsError
from pypto.ir.ops.sorting import pair_width

__all__ = ["SORTING"]

_BLOCK = 32


def _sort32(app: Application) -> Block:
    source, dest = app.block(0), app.destination()
    rows, cols = source.valid
    require_valid(app, 1, app.block(1), source.valid)
    if rows and cols % _BLOCK:
        raise KernelBoundsError(f"{app.op.name}: {cols} valid columns are no whole number of blocks of {_BLOCK}", app.span)
    found = read_around(app, dest, [(0, lambda: source.read(source.valid)), (1, lambda: app.block(1).read(source.valid))])
    values, index = (found[i].reshape(-1, _BLOCK) for i in (0, 1))
    wide = values.astype(np.float64)
    order = np.lexsort((index, -wide, ~np.isnan(wide)), axis=-1)
    made = _pairs(np.take_along_axis(values, order, 1), np.take_along_axis(index, order, 1))
    dest.write(made.reshape(rows, cols * pair_width(source.dtype)))
    return dest


def _pairs(values: Array, index: Array) -> Array:
    """Value and bits of the index, in elements of the value's type."""
    made = np.zeros((*values.shape, 8 // values.itemsize), values.dtype)
    made[..., 0] = values
    made.view(np.uint32)[..., 1] = index
    return made


# -- merging ---------------------------------------------------------------------------------------------------------


def _merged(lists: Sequence[Array], width: int, until_one_ends: bool = False) -> Array:
    """Lists of pairs merged, the first of several equal heads first; what is left out is 0."""
    pairs = [x.reshape(-1, width) for x in lists]
    keys = [[(not np.isnan(v), -v) for v in p[:, 0].astype(np.float64)] for p in pairs]
    heads = [0] * len(pairs)
    made = np.zeros((sum(len(p) for p in pairs), width), lists[0].dtype)
    for n in range(len(made)):
        left = [k for k in range(len(pairs)) if heads[k] < len(pairs[k])]
        if until_one_ends and len(left) < len(pairs):
            break
        k = left[0]
        for other in left[1:]:
            if _before(keys[other][heads[other]], keys[k][heads[k]]):
                k = other
        made[n] = pairs[k][heads[k]]
        heads[k] += 1
    return made.reshape(-1)


def _before(a: tuple[bool, float], b: tuple[bool, float]) -> bool:
    """Strictly before: NaNs are equal to each other."""
    return a[0] < b[0] or (a[0] and b[0] and a[1] < b[1])


def _whole_pairs(app: Application, cols: int, width: int) -> None:
    if cols % width:
        raise KernelBoundsError(f"{app.op.name}: {cols} valid columns are no whole number of pairs of {width} elements", app.span)


def _merge_runs(app: Application) -> Block:
    source, dest = app.block(0), app.destination()
    width, length = pair_width(source.dtype), app.kwargs["block_len"]
    rows, cols = source.valid
    x = read_around(app, dest, [(0, lambda: source.read(source.valid))])[0]
    if rows:
        _whole_pairs(app, cols, width)
    made = np.zeros_like(x)
    for r in range(rows):
        for at in range(0, cols, 4 * length):
            group = x[r, at : at + 4 * length]
            made[r, at : at + len(group)] = _merged([group[k : k + length] for k in range(0, len(group), length)], width)
    dest.write(made)
    return dest


def _merge_lists(app: Application) -> Block:
    which = [i for i in range(len(app.args)) if not (app.op.level == "tile" and i == 2)]
    dest, rows = app.destination(), app.block(0).valid[0]
    width = pair_width(dest.dtype)
    for i in which:
        require_valid(app, i, app.block(i), (rows, app.block(i).valid[1]))
        if rows:
            _whole_pairs(app, app.block(i).valid[1], width)

    def reader(i: int) -> Callable[[], Array]:
        return lambda: app.block(i).read((rows, app.block(i).valid[1]))

    found = read_around(app, dest, [(i, reader(i)) for i in which])
    made = [_merged([found[i][r] for i in which], width, bool(app.kwargs.get("exhausted"))) for r in range(rows)]
    if made:
        dest.write(np.stack(made))
    return dest


SORTING: Mapping[str, Callable[[Application], Block]] = MappingProxyType(
    {"sort32": _sort32, "merge_runs": _merge_runs, "merge_lists": _merge_lists}
)
