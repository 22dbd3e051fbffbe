"""Types as `.pto` text.

In: element types, buffer descriptors, tensor extents.  Out: the fixed spelling: every field of a tile buffer in order,
`?` for what run-time values decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from pypto.dtypes import DataType
from pypto.enums import CompactMode, MemorySpace, PadValue, TileLayout
from pypto.errors import NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Expr, const_index
from pypto.ir.layout import implicit_layout
from pypto.ir.shaped import BufferType, TileType, const_dim, const_dims, same_dims
from pypto.target.chip import BLOCK_BYTES

__all__ = ["descriptor", "element", "matrix_valid", "partition_type", "pointer", "scalar_type", "tile_buf", "view_type"]

_ELEMENTS: Mapping[DataType, str] = {
    DataType.FP32: "f32",
    DataType.FP16: "f16",
    DataType.BF16: "bf16",
    DataType.INT8: "i8",
    DataType.INT16: "i16",
    DataType.INT32: "i32",
    DataType.INT64: "i64",
    DataType.UINT8: "ui8",
    DataType.UINT16: "ui16",
    DataType.UINT32: "ui32",
    DataType.UINT64: "ui64",
    DataType.BOOL: "i1",
    DataType.INDEX: "index",
}
_SPACES: Mapping[MemorySpace, str] = {
    MemorySpace.Vec: "vec",
    MemorySpace.Mat: "mat",
    MemorySpace.Left: "left",
    MemorySpace.Right: "right",
    MemorySpace.Acc: "acc",
    MemorySpace.Bias: "bias",
}
_LAYOUTS = {TileLayout.none_box: "none_box", TileLayout.row_major: "row_major", TileLayout.col_major: "col_major"}
_PADS = {PadValue.null: 0, PadValue.zero: 1, PadValue.max: 2, PadValue.min: 3}


def element(dtype: DataType) -> str:
    """The element type of memory."""
    text = _ELEMENTS.get(dtype)
    if text is None:
        raise NotSupportedError(f"elements of type {dtype} have no .pto form")
    return text


def scalar_type(dtype: DataType) -> str:
    """The type of a scalar value; unsigned ones are signless where they are computed with."""
    return element(dtype)


def pointer(dtype: DataType) -> str:
    return f"!pto.ptr<{element(dtype)}>"


def view_type(rank: int, dtype: DataType) -> str:
    """A tensor in global memory; its extents are operands, never part of the type."""
    return f"!pto.tensor_view<{'?x' * rank}{element(dtype)}>"


def partition_type(sizes: Iterable[int | None], dtype: DataType) -> str:
    """A window of a tensor; None for a size known at run time."""
    dims = "".join(f"{'?' if n is None else n}x" for n in sizes)
    return f"!pto.partition_tensor_view<{dims}{element(dtype)}>"


def tile_buf(t: BufferType) -> str:
    """On-chip storage by its descriptor."""
    space = _SPACES.get(t.memory_space)
    if space is None or len(t.physical_shape) != 2:
        raise NotSupportedError(f"a rank-{len(t.physical_shape)} buffer in {t.memory_space.name} has no .pto form")
    rows, cols = t.physical_shape
    along = (cols if t.blayout is TileLayout.row_major else rows) * t.dtype.get_byte()
    if t.slayout is TileLayout.none_box and along % BLOCK_BYTES:
        what = (
            f"a tile of {rows} x {cols} elements of {t.dtype} is not made of blocks of {BLOCK_BYTES} bytes: it has no .pto form"
        )
        raise NotSupportedError(what, hint="make it as large as whole blocks, and say with valid_shape= how much holds data")
    valid = ", ".join(f"{n}={'?' if v < 0 else v}" for n, v in zip(("v_row", "v_col"), t.valid_shape, strict=True))
    fields = (
        f"loc={space}, dtype={element(t.dtype)}, rows={rows}, cols={cols}, {valid}, blayout={_LAYOUTS[t.blayout]}, "
        f"slayout={_LAYOUTS[t.slayout]}, fractal={t.fractal}, pad={_PADS[t.pad]}"
    )
    compact = "" if t.compact is CompactMode.null else f", compact={t.compact.value}"
    return f"!pto.tile_buf<{fields}{compact}>"


def matrix_valid(t: TileType) -> tuple[Expr, Expr]:
    """Valid extents of a tile as rows and columns: all axes but the last are rows, in row-major order."""
    if len(t.shape) == 1:
        return const_index(1), t.valid[0]
    *leading, cols = t.valid
    if all(same_dims((v,), (n,)) for v, n in zip(leading[1:], t.shape[1:-1], strict=True)):
        return arith.product(leading), cols
    if all(const_dim(v) == 1 for v in leading[:-1]):
        return leading[-1], cols
    raise NotSupportedError(f"a tile of rank {len(t.shape)} whose valid rows are not one after the other has no .pto form")


def descriptor(t: TileType) -> BufferType:
    """What the storage of a tile looks like, as rows and columns; valid extents known at run time are -1."""
    dims = const_dims(t.shape)
    if dims is None or t.memory_space is None:
        raise NotSupportedError("a tile without constant extents or without a memory has no .pto form")
    rows, cols = prod(dims[:-1]), dims[-1]
    valid = [-1 if n is None else n for n in map(const_dim, matrix_valid(t))]
    view = t.get_effective_tile_view()
    layout = t.layout if len(dims) < 3 or not t.layout.is_flat else implicit_layout(t.memory_space, (rows, cols))
    return BufferType(
        (rows, cols), t.dtype, t.memory_space, valid, layout.blayout, layout.slayout, layout.fractal, view.pad, view.compact
    )
