"""Accumulators filled window by window from global memory: gather_row, paged_gather.

In: an application.  Out: its value.  Invariant: a window that leaves its tensor or the accumulator, and an index or page that
is not there, raise `KernelBoundsError` at the operator's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.lanes import Array
from pypto.debug.memory import Block
from pypto.debug.moves import writable
from pypto.errors import KernelBoundsError

__all__ = ["PAGING"]


def _gather_row(app: Application) -> Block:
    source, to, at = app.block(1), app.args[2], app.args[3]
    window: tuple[int, ...] = app.args[4]
    extents = app.frame.within(app.args[5], window, app.span) if len(app.args) > 5 and app.args[5] else window
    turned = bool(app.kwargs.get("transpose"))
    app.check_window(at, extents, source.valid, "reads")
    app.check_window(to, extents[::-1] if turned else extents, app.block(0).shape, "writes")
    if app.op.level == "tile":
        target = writable(app)
    else:
        target = app.destination()
        target.write(app.block(0).whole())
    if 0 not in extents:
        data = source.place.get(tuple(slice(o, o + n) for o, n in zip(at, extents, strict=True)))
        data = data.T if turned else data
        target.place.put(tuple(slice(o, o + n) for o, n in zip(to, data.shape, strict=True)), data)
    return target


def _paged_gather(app: Application) -> Block:
    source, dest, column = app.block(0), app.destination(), app.args[3]
    indices, table = (app.block(i).whole().reshape(-1).astype(np.int64) for i in (1, 2))
    size, block, most = (app.kwargs[n] for n in ("size", "block_size", "max_indices"))
    if len(indices) > most:
        raise KernelBoundsError(f"{app.op.name}: {len(indices)} indices, there is room for {most}", app.span, "raise max_indices")
    dest.poison()
    rows: list[Array] = []
    for index in indices:
        page = int(index) // block
        app.check_window((page,), (1,), table.shape, "reads")
        at = int(table[page]) * block + int(index) % block
        app.check_window((at, column), (1, size), source.valid, "reads")
        rows.append(source.place.get((at, slice(column, column + size))))
    if rows:
        dest.write(np.stack(rows).T if app.kwargs.get("is_trans") else np.stack(rows))
    return dest


PAGING: Mapping[str, Callable[[Application], Block]] = MappingProxyType(
    {"gather_row": _gather_row, "paged_gather": _paged_gather}
)
