"""Where run-time values lie: numpy arrays, and windows of byte arenas with real addresses.

In: shapes, layouts, addresses.  Out: places that are read and written element by element, and `Block`, the run-time form
of a tensor, a tile or a buffer: a place, its shape, and the extents that hold data.
Invariant: memory nobody wrote reads as poison: the 16-bit pattern 0x7FC1 over and over, a quiet NaN as FP16, BF16 and FP32,
0x7FC17FC1 as INT32, and true as BOOL.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pypto.debug.lanes import Array
from pypto.dtypes import DataType
from pypto.errors import ArgumentValueError, InternalError
from pypto.ir.layout import BoxLayout, element_offset, logical_strides

__all__ = ["POISON", "Arena", "ArenaPlace", "ArrayPlace", "Block", "Place", "addresses", "everything", "overlap", "poisoned"]

POISON = 0x7FC1
Index = tuple[Any, ...]


def poisoned(shape: tuple[int, ...], dtype: DataType) -> Array:
    """An array of undefined contents."""
    if dtype is DataType.BOOL:
        return np.ones(shape, np.bool_)
    count = int(np.prod(shape)) * dtype.get_byte()
    return np.full((count + 1) // 2, POISON, "<u2").view(np.uint8)[:count].view(dtype.numpy()).reshape(shape)


def everything(extents: tuple[int, ...]) -> Index:
    """The index of the leading rectangle of these extents."""
    return tuple(slice(0, n) for n in extents)


class Place(Protocol):
    """Elements that can be read and written; `index` is a tuple of slices, integers or index arrays."""

    def get(self, index: Index) -> Array:
        """A copy of the elements."""

    def put(self, index: Index, values: Array) -> None:
        """Overwrite the elements."""

    def window(self, index: Index) -> Place:
        """The same memory, fewer elements."""


class ArrayPlace:
    """The elements of a numpy array, which may be a view of the caller's."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def get(self, index: Index) -> Array:
        return np.array(self.array[index])

    def put(self, index: Index, values: Array) -> None:
        if not self.array.flags.writeable:
            raise ArgumentValueError("an array that the program writes is read-only", hint="pass a copy of it")
        self.array[index] = values

    def window(self, index: Index) -> Place:
        return ArrayPlace(self.array[index])


class Arena:
    """The bytes of one on-chip memory, or of one allocation; as large as what has been touched."""

    __slots__ = ("bytes", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes = poisoned((0,), DataType.UINT8)

    def reserve(self, end: int) -> None:
        have = len(self.bytes)
        if end > have:
            grown = poisoned((max(end, 2 * have) + 31 & -32,), DataType.UINT8)
            grown[:have] = self.bytes
            self.bytes = grown


class ArenaPlace:
    """Elements of a type at byte addresses of an arena."""

    __slots__ = ("arena", "at", "dtype")

    def __init__(self, arena: Arena, at: Array, dtype: DataType) -> None:
        self.arena, self.at, self.dtype = arena, at, dtype
        if at.size:
            if int(at.min()) < 0:
                raise InternalError(f"a tile begins at address {int(at.min())} of {arena.name}")
            arena.reserve(int(at.max()) + dtype.get_byte())

    def _bytes_of(self, index: Index) -> Array:
        made: Array = np.asarray(self.at[index])[..., None] + np.arange(self.dtype.get_byte())
        return made

    def get(self, index: Index) -> Array:
        raw = self.arena.bytes[self._bytes_of(index)]
        if self.dtype is DataType.BOOL:
            return np.array(raw[..., 0] != 0)
        return np.ascontiguousarray(raw).view(self.dtype.numpy())[..., 0]

    def put(self, index: Index, values: Array) -> None:
        at = self._bytes_of(index)
        wide = np.broadcast_to(values, at.shape[:-1]).reshape(-1).astype(self.dtype.numpy())
        self.arena.bytes[at] = wide.view(np.uint8).reshape(at.shape)

    def window(self, index: Index) -> ArenaPlace:
        return ArenaPlace(self.arena, self.at[index], self.dtype)

    @property
    def start(self) -> int:
        """The address of the first element."""
        return int(self.at.flat[0]) if self.at.size else 0

    def coincides(self, other: Place) -> bool:
        """Element for element the same bytes."""
        if not isinstance(other, ArenaPlace) or other.arena is not self.arena or other.dtype.get_byte() != self.dtype.get_byte():
            return False
        return self.at.shape == other.at.shape and bool((self.at == other.at).all())


def overlap(a: Place, b: Place) -> bool:
    """Whether two places share a byte of an arena."""
    if not isinstance(a, ArenaPlace) or not isinstance(b, ArenaPlace) or a.arena is not b.arena or not a.at.size or not b.at.size:
        return False
    if a.at.max() + a.dtype.get_byte() <= b.at.min() or b.at.max() + b.dtype.get_byte() <= a.at.min():
        return False
    return bool(np.isin(a._bytes_of(()).reshape(-1), b._bytes_of(()).reshape(-1)).any())


def addresses(
    layout: BoxLayout, dtype: DataType, shape: tuple[int, ...], base: int, strides: tuple[int, ...] | None = None
) -> Array:
    """Byte addresses of the elements of a tile that begins at `base`; `strides` (in elements) replace a flat tile's pitch."""
    size = dtype.get_byte()
    if strides is None and len(shape) > 2 and not layout.is_flat:  # in boxes of rows and columns, whatever the rank
        return addresses(layout, dtype, (int(np.prod(shape[:-1])), shape[-1]), base).reshape(shape)
    if strides is not None or len(shape) != 2:
        steps = strides if strides is not None else logical_strides(shape)
        offsets: Any = np.zeros(shape, np.int64)
        for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
            offsets = offsets + (np.arange(n) * step).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return np.asarray(base + offsets * size)
    rows, cols = shape
    r: Any = np.arange(rows)[:, None]
    c: Any = np.arange(cols)[None, :]
    return np.asarray(base + element_offset(layout, dtype, rows, cols, r, c) * size)


class Block:
    """A tensor, a tile or a buffer.

    `shape` is logical; the place may hold less where a window was cut at its parent's edge, but never less than `valid`.
    `gm`: the block is global memory, which stores change in place; other values never change once made, except buffers.
    `undefined`: created on the chip, and nothing was written.  `narrow`: valid in less than its variable's type says.
    """

    __slots__ = ("dtype", "gm", "narrow", "place", "shape", "undefined", "valid")

    def __init__(self, place: Place, dtype: DataType, shape: tuple[int, ...], valid: tuple[int, ...], gm: bool = False) -> None:
        self.place, self.dtype, self.shape, self.valid, self.gm = place, dtype, shape, valid, gm
        self.undefined = self.narrow = False

    @staticmethod
    def fresh(dtype: DataType, shape: tuple[int, ...], valid: tuple[int, ...] | None = None, gm: bool = False) -> Block:
        """Undefined storage of its own."""
        return Block(ArrayPlace(poisoned(shape, dtype)), dtype, shape, shape if valid is None else valid, gm)

    def marked(self, like: Block) -> Block:
        """The block, `undefined` and `narrow` as another one is."""
        self.undefined, self.narrow = like.undefined, like.narrow
        return self

    def read(self, extents: tuple[int, ...]) -> Array:
        """The leading rectangle; poison where it leaves the valid one."""
        inside = tuple(min(n, v) for n, v in zip(extents, self.valid, strict=True))
        if inside == tuple(extents):
            return self.place.get(everything(inside))
        out = poisoned(tuple(extents), self.dtype)
        out[everything(inside)] = self.place.get(everything(inside))
        return out

    def whole(self) -> Array:
        """Everything physically there, valid or not."""
        held = self.place.get(everything(self.shape))
        if held.shape == self.shape:
            return held
        out = poisoned(self.shape, self.dtype)
        out[everything(held.shape)] = held
        return out

    def write(self, values: Array) -> None:
        """Overwrite the leading rectangle of the values' shape."""
        self.place.put(everything(values.shape), values)

    def poison(self) -> None:
        self.place.put(everything(self.shape), poisoned(self.shape, self.dtype))
