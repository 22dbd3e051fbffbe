"""Tiles made out of numbers: sequences and triangles.

In: an application.  Out: its value; only the valid rectangle is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.memory import Block
from pypto.ir.ops.counter_random import RANDOM, WORDS

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


def _random(app: Application) -> Block:
    """Element e, row by row through the whole shape, is word e % 16 of ChaCha block e // 16."""
    dest = app.destination()
    key0, key1, *counter = (int(w) & _MASK for w in app.args[: len(WORDS)])
    rows, cols = dest.shape
    blocks = -(-rows * cols // 16)
    first = sum(w << 32 * i for i, w in enumerate(counter))
    state = np.empty((16, blocks), np.uint32)
    state[:12] = np.array([*_CONSTANTS, key0, key1, *[0] * 6], np.uint32)[:, None]
    for n in range(blocks):
        state[12:, n] = [(first + n >> 32 * i) & _MASK for i in range(4)]
    words = state.copy()
    for r in range(app.kwargs.get("rounds", 10)):
        for i in range(4):
            _quarter(words, [i, *(4 * k + (i + (k if r % 2 else 0)) % 4 for k in (1, 2, 3))])
    words += state
    grid = words.T.reshape(-1)[: rows * cols].reshape(rows, cols)
    dest.write(grid[: dest.valid[0], : dest.valid[1]].view(dest.dtype.numpy()))
    return dest


_MASK = (1 << 32) - 1
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)


def _quarter(words: Any, at: list[int]) -> None:
    """The quarter round on four rows of words."""
    a, b, c, d = at
    for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        words[x] += words[y]
        words[z] ^= words[x]
        words[z] = words[z] << np.uint32(n) | words[z] >> np.uint32(32 - n)


GENERATORS: Mapping[str, Callable[[Application], Block]] = MappingProxyType(
    {"sequence": _sequence, "triangle": _triangle, RANDOM: _random}
)
