"""Tiles made out of numbers: sequences and triangles.

In: an application.  Out: its value; only the valid rectangle is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.memory import Block

__all__ = ["GENERATORS"]


def _sequence(app: Application) -> Block:
    """Every row begins with a number and goes up or down by one; integers wrap."""
    dest = app.destination()
    start, step = int(app.args[0]), -1 if app.kwargs.get("descending") else 1
    values = np.int64(start) + step * np.arange(dest.valid[-1], dtype=np.int64)
    dest.write(np.broadcast_to(values.astype(dest.dtype.numpy()), dest.valid))
    return dest


def _triangle(app: Application) -> Block:
    """Ones on one side of a diagonal and on it, zeros on the other."""
    dest = app.destination()
    rows, cols = (np.arange(n, dtype=np.int64) for n in dest.valid)
    at = rows[:, None] + int(app.args[0])
    chosen = cols[None, :] >= at if app.kwargs.get("upper") else cols[None, :] <= at
    dest.write(chosen.astype(dest.dtype.numpy()))
    return dest


GENERATORS: Mapping[str, Callable[[Application], Block]] = MappingProxyType({"sequence": _sequence, "triangle": _triangle})
