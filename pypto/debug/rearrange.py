"""Whole values in another order: transpose and concat.

In: an application.  Out: its value, a copy; only what is valid is read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pypto.debug.apply import Application, read_around, require_valid
from pypto.debug.memory import ArrayPlace, Block
from pypto.ir.ops.rearrange import transposed_axes

__all__ = ["REARRANGE"]


def _transpose(app: Application) -> Block:
    """A copy, but of a tensor outside of kernels, which is seen under exchanged axes."""
    source = app.block(0)
    if source.gm and not app.frame.on_core and isinstance(source.place, ArrayPlace):
        a, b = transposed_axes(app.call)
        turned = ArrayPlace(np.swapaxes(source.place.array, a, b))
        return Block(turned, source.dtype, _exchanged(source.shape, a, b), _exchanged(source.valid, a, b), gm=True)
    dest = app.destination()
    x = read_around(app, dest, [(0, lambda: source.read(source.valid))])[0]
    dest.write(np.swapaxes(x, *transposed_axes(app.call)))
    return dest


def _exchanged(extents: tuple[int, ...], a: int, b: int) -> tuple[int, ...]:
    made = list(extents)
    made[a], made[b] = made[b], made[a]
    return tuple(made)


def _concat(app: Application) -> Block:
    a, b, dest = app.block(0), app.block(1), app.destination()
    rows = a.valid[0]
    require_valid(app, 1, b, (rows, b.valid[1]))
    reads = [(0, lambda: a.read(a.valid)), (1, lambda: b.read((rows, b.valid[1])))]
    found = read_around(app, dest, reads)
    dest.write(np.concatenate([found[0], found[1]], axis=1))
    return dest


REARRANGE: Mapping[str, Callable[[Application], Block]] = MappingProxyType({"transpose": _transpose, "concat": _concat})
