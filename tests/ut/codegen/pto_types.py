"""Types of `.pto` text, taken apart.

In: a type as printed.  Out: a record of its fields, or None for a type of another kind.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["BYTES", "SCALARS", "Partition", "Tile", "array_of", "partition_of", "pointer_of", "tile_of", "view_of"]

BYTES = {"f32": 4, "i32": 4, "ui32": 4, "f16": 2, "bf16": 2, "i16": 2, "ui16": 2, "i8": 1, "ui8": 1, "i64": 8, "ui64": 8}
SCALARS = frozenset((*BYTES, "i1", "index"))
_TILE = re.compile(
    r"!pto\.tile_buf<loc=(\w+), dtype=(\w+), rows=(\d+), cols=(\d+), v_row=(\d+|\?), v_col=(\d+|\?), "
    r"blayout=(row_major|col_major), slayout=(none_box|row_major|col_major), fractal=(32|512|1024), pad=([0-3])"
    r"(?:, compact=([12]))?>"
)
_PARTITION = re.compile(r"!pto\.partition_tensor_view<((?:(?:\d+|\?)x)+)(\w+)>")
_VIEW = re.compile(r"!pto\.tensor_view<((?:\?x)+)(\w+)>")
_POINTER = re.compile(r"!pto\.ptr<(\w+)>")


_ARRAY = re.compile(r"!pto\.local_array<([1-9]\d*)x(\w+)>")


def array_of(text: str) -> tuple[int, str] | None:
    """Extent and element type of an array of scalars."""
    m = _ARRAY.fullmatch(text)
    return (int(m[1]), m[2]) if m is not None and m[2] in BYTES else None


class Tile(NamedTuple):
    """A tile type; valid extents are None where they are known at run time."""

    loc: str
    dtype: str
    rows: int
    cols: int
    v_row: int | None
    v_col: int | None
    blayout: str
    slayout: str
    fractal: int
    pad: int
    compact: int

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the inner box."""
        if self.slayout == "none_box":
            return 1, 1
        if self.fractal == 1024:
            return 16, 16
        long = 32 // BYTES[self.dtype]
        if self.fractal == 32:
            return (16, 2) if self.slayout == "row_major" else (2, 16)
        return (16, long) if self.slayout == "row_major" else (long, 16)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    @property
    def valid(self) -> tuple[int | None, int | None]:
        return self.v_row, self.v_col

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        return self.rows * self.cols * self.size

    @property
    def logical(self) -> tuple[int, int]:
        """Valid extents where they are constant, else the stored ones."""
        return (self.rows if self.v_row is None else self.v_row, self.cols if self.v_col is None else self.v_col)

    @property
    def config(self) -> tuple[object, ...]:
        """What a window has of its parent."""
        return self.loc, self.dtype, self.blayout, self.slayout, self.fractal, self.pad, self.compact


class Partition(NamedTuple):
    """A part of a tensor; None for a size known at run time."""

    sizes: tuple[int | None, ...]
    dtype: str


def tile_of(text: str) -> Tile | None:
    m = _TILE.fullmatch(text)
    if m is None or m[2] not in BYTES:
        return None
    v_row, v_col = (None if x == "?" else int(x) for x in (m[5], m[6]))
    return Tile(m[1], m[2], int(m[3]), int(m[4]), v_row, v_col, m[7], m[8], int(m[9]), int(m[10]), int(m[11] or 0))


def partition_of(text: str) -> Partition | None:
    m = _PARTITION.fullmatch(text)
    if m is None or m[2] not in BYTES:
        return None
    return Partition(tuple(None if n == "?" else int(n) for n in m[1].rstrip("x").split("x")), m[2])


def view_of(text: str) -> tuple[int, str] | None:
    """Rank and element type of a view of a tensor."""
    m = _VIEW.fullmatch(text)
    return None if m is None or m[2] not in BYTES else (m[1].count("x"), m[2])


def pointer_of(text: str) -> str | None:
    """The element type of a pointer to global memory."""
    m = _POINTER.fullmatch(text)
    return None if m is None or m[1] not in BYTES else m[1]
