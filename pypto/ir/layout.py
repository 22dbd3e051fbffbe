"""Where an element of a tile lies: layouts, boxes, and the map from (row, column) to bytes.

The one place that knows fractal addressing; interpreter, verifier and generators call it.  A tile of R x C elements
of e bytes is stored in boxes of R0 x C0; with BR = R/R0, BC = C/C0, S = R0*C0, box (br, bc) and position (ir, ic) in it:

    ND  row_major / none_box    r*C + c                           DN  col_major / none_box    c*R + r
    NZ  col_major / row_major   (bc*BR + br)*S + ir*C0 + ic       ZN  row_major / col_major   (br*BC + bc)*S + ic*R0 + ir
    ZZ  row_major / row_major   (br*BC + bc)*S + ir*C0 + ic       NN  col_major / col_major   (bc*BR + br)*S + ic*R0 + ir
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import MemorySpace, TileLayout
from pypto.named import NamedTuple

__all__ = [
    "BoxLayout",
    "arriving_layout",
    "box_of",
    "element_offset",
    "implicit_layout",
    "logical_strides",
    "physical_bytes",
    "product_fits",
]


class BoxLayout(NamedTuple):
    """Order of the boxes, order inside a box, and the box size in bytes (512, 1024, or 32 for MX scales)."""

    blayout: TileLayout
    slayout: TileLayout
    fractal: int

    @property
    def is_flat(self) -> bool:
        return self.slayout is TileLayout.none_box


_ROW, _COL, _FLAT = TileLayout.row_major, TileLayout.col_major, TileLayout.none_box

_BY_SPACE = {
    MemorySpace.Mat: BoxLayout(_COL, _ROW, 512),
    MemorySpace.Left: BoxLayout(_COL, _ROW, 512),
    MemorySpace.Acc: BoxLayout(_COL, _ROW, 1024),
    MemorySpace.LeftScale: BoxLayout(_ROW, _ROW, 32),
    MemorySpace.RightScale: BoxLayout(_COL, _COL, 32),
}


def implicit_layout(space: MemorySpace | None, shape: tuple[int | None, ...]) -> BoxLayout:
    """The layout a tile of `shape` (None where an extent is not constant) has in `space` unless it says otherwise."""
    fixed = _BY_SPACE.get(space) if space is not None else None
    if fixed is not None:
        return fixed
    # A column vector is stored along its column: one element per row would waste a 32-byte row each.
    column = len(shape) == 2 and shape[1] == 1 and shape[0] is not None and shape[0] > 1
    outer = _COL if column else _ROW
    return BoxLayout(outer, _COL if space is MemorySpace.Right else _FLAT, 512)


def arriving_layout(space: MemorySpace | None, shape: tuple[int | None, ...]) -> BoxLayout:
    """The layout of a tile that is loaded or passed into `space`: one row is no box in Mat memory, it lies flat."""
    layout = implicit_layout(space, shape)
    row = space is MemorySpace.Mat and len(shape) == 2 and shape[0] == 1
    return layout._replace(blayout=_ROW, slayout=_FLAT) if row else layout


def box_of(layout: BoxLayout, dtype: DataType) -> tuple[int, int]:
    """Rows and columns of one box; (1, 1) for flat layouts."""
    if layout.is_flat:
        return 1, 1
    if layout.fractal == 1024:
        return 16, 16
    if layout.fractal == 32:
        return (16, 2) if layout.slayout is _ROW else (2, 16)
    long = 32 * 8 // dtype.get_bit()
    return (16, long) if layout.slayout is _ROW else (long, 16)


def element_offset(layout: BoxLayout, dtype: DataType, rows: int, cols: int, r: int, c: int, pitch: int | None = None) -> int:
    """Elements from the tile's first one to (r, c); `pitch` replaces the row (or column) pitch of a flat window."""
    if layout.is_flat:
        if layout.blayout is _ROW:
            return r * (cols if pitch is None else pitch) + c
        return c * (rows if pitch is None else pitch) + r
    r0, c0 = box_of(layout, dtype)
    br, ir, bc, ic = r // r0, r % r0, c // c0, c % c0
    block = bc * (rows // r0) + br if layout.blayout is _COL else br * (cols // c0) + bc
    inside = ir * c0 + ic if layout.slayout is _ROW else ic * r0 + ir
    return block * (r0 * c0) + inside


def product_fits(made: int, rows: int, cols: int) -> bool:
    """Whether the rows of a product lie in Acc memory as in a tile of rows x cols.

    The cube unit writes columns of boxes, of 16 rows each, as close together as the `made` rows of the product ask.
    """
    return -(-made // 16) * 16 == rows or rows <= 16 or cols <= 16


def physical_bytes(dtype: DataType, shape: tuple[int, ...]) -> int:
    """Bytes of a dense tile or tensor; 4-bit types are packed two per byte, BOOL takes a byte per element."""
    count = 1
    for n in shape:
        count *= n
    return (count * dtype.get_bit() + 7) // 8 if dtype.get_bit() != 1 else count


def logical_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)
