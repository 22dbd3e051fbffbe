"""What values of `.pto` text are while it runs: handles of on-chip bytes, parts of arrays.

In: tile types and addresses, numpy arrays.  Out: places that are read and written element by element at real addresses.
Invariant: memory that nothing wrote reads as poison; a window that leaves what it is cut from is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pto_types import Tile

from pypto.debug.memory import Arena, ArenaPlace, addresses, everything, overlap, poisoned
from pypto.dtypes import DataType
from pypto.enums import TileLayout
from pypto.ir.layout import BoxLayout

__all__ = ["DTYPES", "Array", "Handle", "MachineError", "Pointer", "handle_at", "layout_of", "strided"]

Array = Any
DTYPES = {
    "f32": DataType.FP32,
    "f16": DataType.FP16,
    "bf16": DataType.BF16,
    "i8": DataType.INT8,
    "i16": DataType.INT16,
    "i32": DataType.INT32,
    "i64": DataType.INT64,
    "ui8": DataType.UINT8,
    "ui16": DataType.UINT16,
    "ui32": DataType.UINT32,
    "ui64": DataType.UINT64,
    "i1": DataType.BOOL,
    "index": DataType.INDEX,
}


class MachineError(Exception):
    """The text does what no accelerator defines."""


def layout_of(t: Tile) -> BoxLayout:
    return BoxLayout(TileLayout[t.blayout], TileLayout[t.slayout], t.fractal)


@dataclass
class Handle:
    """Bytes on the chip under a tile type; `valid` may change, and with it, in a compact tile, where elements lie."""

    name: str
    tile: Tile
    arena: Arena
    base: int
    valid: tuple[int, int]
    window: Array = None  # addresses of the elements, where they are those of a parent
    own: bool = True  # not cut from another handle
    places: dict[int, ArenaPlace] = field(default_factory=dict)

    @property
    def dtype(self) -> DataType:
        return DTYPES[self.tile.dtype]

    @property
    def place(self) -> ArenaPlace:
        rows = self.tile.rows
        if self.tile.compact and self.tile.loc == "acc":
            rows = -(-self.valid[0] // 16) * 16
        if rows not in self.places:
            at = self.window
            if at is None:
                at = addresses(layout_of(self.tile), self.dtype, (rows, self.tile.cols), self.base)
            self.places[rows] = ArenaPlace(self.arena, at, self.dtype)
        return self.places[rows]

    def read(self, extents: tuple[int, ...]) -> Array:
        """The leading rectangle, which must be valid."""
        if any(n > v for n, v in zip(extents, self.valid, strict=True)):
            raise MachineError(f"{extents} of {self.name} are read, {self.valid} are valid")
        return self.place.get(everything(tuple(extents)))

    def write(self, values: Array) -> None:
        if any(n > m for n, m in zip(values.shape, self.place.at.shape, strict=True)):
            raise MachineError(f"{values.shape} elements are written to {self.name}, which has {self.place.at.shape}")
        self.place.put(everything(values.shape), values)

    def poison(self) -> None:
        shape = self.place.at.shape
        self.place.put(everything(shape), poisoned(shape, self.dtype))

    def set_valid(self, valid: tuple[int, int]) -> None:
        for v, n in zip(valid, self.tile.shape, strict=True):
            if not 0 <= v <= n:
                raise MachineError(f"valid extents {valid} of {self.name}, which has {self.tile.shape}")
        self.valid = valid

    def coincides(self, other: Handle) -> bool:
        return self.place.coincides(other.place)

    def overlaps(self, other: Handle) -> bool:
        return overlap(self.place, other.place)


def handle_at(name: str, tile: Tile, arena: Arena, base: int, valid: tuple[int, int]) -> Handle:
    made = Handle(name, tile, arena, base, (0, 0))
    made.set_valid(valid)
    return made


@dataclass
class Pointer:
    """An argument: the caller's array, whose elements lie where its strides say."""

    array: Array


def strided(p: Pointer, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The array under a view's shape and strides, in elements."""
    a, size = p.array, p.array.itemsize
    want = tuple(s * size for s in strides)
    same = [n == 1 or s == t for n, s, t in zip(a.shape, a.strides, want, strict=False)]
    if a.shape == shape and all(same):
        return a
    if not a.flags.c_contiguous:
        # The text says that it is packed: of an array that is not, what it says of a copy holds.
        packed = np.ascontiguousarray(a)
        if a.shape == shape and all(n == 1 or s == t for n, s, t in zip(shape, packed.strides, want, strict=True)):
            return a
        raise MachineError(f"a view of shape {shape} and strides {strides} of an array of {a.shape} with strides {a.strides}")
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if 0 not in shape and last >= a.size:
        raise MachineError(f"a view of shape {shape} and strides {strides} leaves an array of {a.size} elements")
    return np.lib.stride_tricks.as_strided(a, shape, want, writeable=bool(a.flags.writeable))
