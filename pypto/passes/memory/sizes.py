"""Bytes of tiles: what an allocation needs, what a window spans, how far lines are apart; whether extents change.

In: tile types with static shapes.  Out: byte counts.  A line is a row of a row-major tile, a column of a column-major one.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import MemorySpace, TileLayout
from pypto.ir.layout import physical_bytes
from pypto.ir.shaped import TileType, const_dims
from pypto.target import Chip
from pypto.target.chip import BLOCK_BYTES

__all__ = ["aligned", "allocation_bytes", "is_dynamic", "line_pitch", "tile_bytes", "window_bytes"]


def aligned(size: int) -> int:
    """A byte count rounded up to whole blocks."""
    return (size + BLOCK_BYTES - 1) // BLOCK_BYTES * BLOCK_BYTES


def _dims(t: TileType) -> tuple[int, ...]:
    dims = const_dims(t.shape)
    if dims is None:
        raise ValueError("a tile's shape is static")
    return dims


def _lines(t: TileType) -> tuple[int, int]:
    """Number and length of the lines of a flat tile, in elements."""
    dims = _dims(t)
    rows, cols = 1, dims[-1] if dims else 1
    for d in dims[:-1]:
        rows *= d
    return (rows, cols) if t.layout.blayout is TileLayout.row_major else (cols, rows)


def tile_bytes(t: TileType) -> int:
    """Bytes of a dense tile."""
    return physical_bytes(t.dtype, _dims(t))


def allocation_bytes(t: TileType, chip: Chip) -> int:
    """Bytes that a tile of its own needs; accumulators are stored in whole row blocks."""
    dims = _dims(t)
    if t.memory_space is MemorySpace.Acc and len(dims) == 2:
        block = 32 if t.dtype is DataType.INT32 and chip.name == "a2a3" else 16
        dims = ((dims[0] + block - 1) // block * block, dims[1])
    return physical_bytes(t.dtype, dims)


def line_pitch(t: TileType) -> int:
    """Elements from one line of a dense tile to the next."""
    return _lines(t)[1]


def window_bytes(t: TileType, pitch: int) -> int:
    """Bytes from the first to the last byte of a window with lines `pitch` elements apart, gaps included."""
    count, length = _lines(t)
    return physical_bytes(t.dtype, ((count - 1) * pitch + length,))


def is_dynamic(t: TileType) -> bool:
    """Whether a tile's valid extents can change: one is no constant, or both are the empty sentinel [0, 0]."""
    valid = const_dims(t.valid)
    return valid is None or (len(valid) == 2 and valid == (0, 0))
