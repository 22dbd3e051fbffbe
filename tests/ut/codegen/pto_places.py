"""Which bytes the handles of `.pto` text name, as far as constants say.

In: tile types, addresses, offsets.  Out: places that know whether they are the same or overlap.  A window at a run-time
offset may be anywhere within its parent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pto_types import Tile

__all__ = ["Place", "allocated"]


class Place(NamedTuple):
    """`rows` x `cols` cells (elements, or boxes of a fractal layout) of `unit` bytes, at base + r * down + c * right.

    root: memory and, where the text gives no addresses, the allocation.  moving: the handle whose offset is not known.
    """

    root: tuple[str, str]
    base: int
    down: int
    right: int
    rows: int
    cols: int
    unit: int
    moving: str = ""

    @property
    def end(self) -> int:
        return self.base + (self.rows - 1) * self.down + (self.cols - 1) * self.right + self.unit

    @property
    def dense(self) -> bool:
        return self.end - self.base == self.rows * self.cols * self.unit

    def pieces(self) -> tuple[np.ndarray, int]:
        """Starts of contiguous pieces, and their length."""
        if self.dense or self.moving:
            return np.array([self.base]), self.end - self.base
        rows, cols = self.base + np.arange(self.rows) * self.down, np.arange(self.cols) * self.right
        if self.right == self.unit:
            return rows, self.cols * self.unit
        if self.down == self.unit:
            return self.base + cols, self.rows * self.unit
        return np.sort((rows[:, None] + cols[None, :]).reshape(-1)), self.unit

    def overlaps(self, other: Place) -> bool:
        if self.root != other.root or self.end <= other.base or other.end <= self.base:
            return False
        (a, n), (b, m) = self.pieces(), other.pieces()
        # A piece of b meets one of a where the last piece of a that begins before b's end reaches over b's start.
        last = np.searchsorted(a, b + m, side="left") - 1
        return bool(((last >= 0) & (a[np.maximum(last, 0)] + n > b)).any())

    def same(self, other: Place) -> bool:
        """Element for element the same bytes."""
        return self == other

    def window(self, name: str, tile: Tile, parent: Tile, at: tuple[int | None, int | None]) -> Place:
        """A window of the type `tile`; None for an offset known at run time."""
        if None in at or self.moving:
            return self._replace(moving=name)
        (r0, c0), (r, c) = tile.box, at
        assert r is not None
        assert c is not None
        return self._replace(
            base=self.base + r // r0 * self.down + c // c0 * self.right, rows=tile.rows // r0, cols=tile.cols // c0
        )

    def relabelled(self, tile: Tile) -> Place:
        """The same bytes under another type."""
        made = allocated(tile, self.root, self.base)
        return made._replace(moving=self.moving, base=self.base) if not self.moving else self


def allocated(tile: Tile, root: tuple[str, str], address: int) -> Place:
    """All of a tile that begins at an address."""
    r0, c0 = tile.box
    rows, cols, unit = tile.rows // r0, tile.cols // c0, r0 * c0 * tile.size
    by_rows = tile.blayout == "row_major"
    down, right = (cols * unit, unit) if by_rows else (unit, rows * unit)
    return Place(root, address, down, right, rows, cols, unit)
