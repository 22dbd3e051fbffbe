"""Reading by index: gather in its forms, gather_mask, gatherb and mgather.

In: operand types.  Out: the result's type.  Only where the index is valid something is read; an index that leads to an
element that is not there, or not valid, is an error when the kernel runs, but for the forms that say what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, MakeTuple, const_index
from pypto.ir.layout import implicit_layout
from pypto.ir.opdef import FROM_TARGET, Attr, Lower, OpDef, Operand, Site, Special
from pypto.ir.ops.memory import valid_within
from pypto.ir.ops.rearrange import vector_tile
from pypto.ir.ops.rules import MOVABLE, VEC, D, R, check_dtype, dim_text, falls_short, shape_text, tensor_result
from pypto.ir.shaped import ShapedType, TensorType, TileType, TileView, as_dims, const_dim, const_dims, is_less, same_dims
from pypto.ir.types import Type

__all__ = ["COALESCE", "OOB", "OPS", "SOURCES", "check_index", "masked_columns", "pattern_of"]

SOURCES = (D.FP32, D.FP16, D.INT32, D.INT16)
COALESCE = ("row", "elem")  # by number
OOB = ("undefined", "clamp", "wrap", "zero")  # by number
# First column and step of each mask pattern, by number; the names say which of four columns are taken, the last one first.
_PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
_PATTERN = Attr("mask_pattern", (int,), required=True)


def check_index(s: Site, t: ShapedType, allowed: tuple[DataType, ...], what: str = "the index") -> None:
    if t.dtype not in allowed:
        names = " or ".join(str(d) for d in allowed)
        s.reject(f"{what} has dtype {t.dtype}", f"it must be {names}: pl.cast(index, pl.{allowed[0].name})", TypeError)


# -- gather --------------------------------------------------------------------------------------------------------


def _gather(s: Site) -> Type:
    x, index = s.shaped(0), s.shaped(1)
    check_dtype(s, x.dtype, SOURCES)
    check_index(s, index, (D.INT32, D.INT16) if x.dtype.get_byte() == 2 else (D.INT32,))
    if "dim" in s.kwargs:
        _check_axes(s, x, index, s.kwargs["dim"])
    if len(s) > 2:
        tmp = s.tile(2)
        if tmp.dtype is not D.INT32 or not same_dims(tmp.shape, index.shape):
            hint = f"pl.create_tile({shape_text(index.shape)}, dtype=pl.INT32)"
            s.reject(f"the scratch tile must have dtype int32 and the index's shape {shape_text(index.shape)}", hint)
    if s.name.startswith("tensor"):
        return tensor_result(index.shape, x.dtype, index.valid)
    return vector_tile(index.shape, x, index.valid)


def _check_axes(s: Site, x: ShapedType, index: ShapedType, dim: int) -> None:
    rank = len(x.shape)
    if "group" in s.kwargs:  # matrices that stand for three dimensions: checked when they had them
        return
    if rank > 3:
        s.reject(
            f"gathers along an axis of up to three dimensions, got {shape_text(x.shape)}", "pl.reshape leading axes into one"
        )
    if not -rank <= dim < rank:
        s.reject(f"dim {dim} is out of range for rank {rank}", f"axes run from 0 to {rank - 1}, or from -{rank} to -1")
    if len(index.shape) != rank:
        s.reject(
            f"the index {shape_text(index.shape)} and x {shape_text(x.shape)} differ in rank",
            f"pl.reshape the index to {rank} dimensions; pl.gather(x, index), without dim, counts over all elements of x",
        )
    for i, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)):
        if i != dim % rank and is_less(m, n):
            hint = f"slice the index to {dim_text(m)} along axis {i}"
            s.reject(f"the index has extent {dim_text(n)} along axis {i}, x only {dim_text(m)}", hint)


def _gather_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """From global memory element by element; on chip from a compact tile."""
    x, index = args
    if "dim" not in call.kwargs and lo.is_tensor(x):
        return lo.emit("tile.mgather", (x, lo.tile(index)), {"coalesce": COALESCE.index("elem")})
    source = lo.tile(x) if "dim" in call.kwargs else lo.compact(x)
    where = lo.tile(index)
    t = where.type
    assert isinstance(t, TileType)
    scratch: Expr = lo.emit("tile.create", (MakeTuple(t.shape),), {"dtype": D.INT32}, "gather_tmp")
    if not t.is_fully_valid and len(t.shape) == 2:
        scratch = lo.emit("tile.set_validshape", (scratch, *t.valid), None, "gather_tmp")
    kwargs = {"dim": call.kwargs["dim"] % len(t.shape)} if "dim" in call.kwargs else {}
    return lo.emit("tile.gather", (source, where, scratch), kwargs)


# -- columns by a pattern ------------------------------------------------------------------------------------------


def pattern_of(kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """First column and step of a mask pattern."""
    return _PATTERNS[kwargs["mask_pattern"]]


def check_pattern(s: Site) -> tuple[int, int]:
    if s.kwargs["mask_pattern"] not in _PATTERNS:
        names = "1 (P0101), 2 (P1010), 3 (P0001), 4 (P0010), 5 (P0100), 6 (P1000), 7 (P1111)"
        s.reject(f"mask_pattern {s.kwargs['mask_pattern']} is no pattern", f"write one of {names}")
    return pattern_of(s.kwargs)


def masked_columns(count: Expr, first: int, step: int) -> Expr:
    """How many of `count` columns a pattern takes."""
    return count if step == 1 else arith.floordiv(arith.add(count, const_index(step - 1 - first)), const_index(step))


def _gather_mask(s: Site) -> Type:
    x = s.shaped(0)
    check_dtype(s, x.dtype, MOVABLE)
    first, step = check_pattern(s)
    dtype: DataType = s.kwargs.get("output_dtype", x.dtype)
    if dtype.get_byte() != x.dtype.get_byte():
        s.reject(
            f"output_dtype {dtype} and the elements, {x.dtype}, differ in size", "convert the result with pl.cast", TypeError
        )
    cols = const_dim(x.shape[-1])
    if len(x.shape) != 2 or cols is None:
        s.reject(f"takes columns of a matrix of static width, got {shape_text(x.shape)}", "pl.reshape it to [rows, cols]")
    if cols % step:
        s.reject(f"{cols} columns are no multiple of {step}", f"slice a multiple of {step} columns")
    shape = (x.shape[0], const_index(cols // step))
    valid = (x.valid[0], masked_columns(x.valid[1], first, step))
    if isinstance(x, TensorType):
        return tensor_result(shape, dtype, valid)
    return vector_tile(shape, TensorType(shape, dtype), valid)


# -- blocks --------------------------------------------------------------------------------------------------------


def _gatherb(s: Site) -> Type:
    x, offset = s.tile(0), s.tile(1)
    check_dtype(s, x.dtype, MOVABLE)
    check_index(s, offset, (D.UINT32,), "the offset")
    dtype: DataType = s.kwargs.get("output_dtype", x.dtype)
    if dtype.get_byte() != x.dtype.get_byte():
        s.reject(
            f"output_dtype {dtype} and the elements, {x.dtype}, differ in size", "convert the result with pl.cast", TypeError
        )
    cols, dims = const_dim(x.shape[-1]), const_dims(offset.shape)
    if len(x.shape) != 2 or dims is None or len(dims) != 2:
        s.reject("gathers blocks of matrices", "pl.reshape the operands to [rows, cols]")
    if cols is None or cols * x.dtype.get_byte() % 32:
        s.reject("a row of the source is no multiple of 32 bytes", "slice or pad the source to whole blocks of 32 bytes")
    block = const_index(32 // x.dtype.get_byte())
    shape = (offset.shape[0], arith.mul(offset.shape[1], block))
    valid = (offset.valid[0], arith.mul(offset.valid[1], block))
    return vector_tile(shape, TensorType(shape, dtype), valid)


# -- from global memory --------------------------------------------------------------------------------------------


def _mgather(s: Site) -> Type:
    mem, index = s.tensor(0), s.tile(1)
    check_dtype(s, mem.dtype, MOVABLE)
    check_index(s, index, (D.INT32,))
    for name, words in (("coalesce", COALESCE), ("gather_oob", OOB)):
        if not 0 <= s.kwargs.get(name, 0) < len(words):
            s.reject(f"{name} {s.kwargs[name]} is none of {', '.join(words)}", f'{name}="{words[0]}"')
    if s.kwargs["coalesce"] == COALESCE.index("row"):
        shape, valid = _rows_by_index(s, mem, index)
    else:
        shape, valid = index.shape, index.valid
    if len(s) > 2 and s.elements(2):
        asked = s.elements(2)
        valid_within(s, asked, shape)
        if falls_short(valid, asked):
            s.reject(
                f"valid_shape {shape_text(asked)} is more than the index gives, {shape_text(valid)}", "leave valid_shape out"
            )
        valid = asked
    space: MemorySpace = s.kwargs.get("target_memory") or MemorySpace.Vec
    if space not in (MemorySpace.Vec, MemorySpace.Mat):
        s.reject(f"gathers to Vec or Mat, not {space.name}", "gather to Mat, then pl.move")
    if space is MemorySpace.Vec:
        return vector_tile(shape, mem, valid)
    layout = implicit_layout(space, const_dims(shape) or ())
    return TileType(
        shape, mem.dtype, None, TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal), space
    )


def _rows_by_index(s: Site, mem: TensorType, index: TileType) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """One row of the result for each element of the index, in row-major order."""
    width, dims = const_dim(mem.shape[-1]), const_dims(index.shape)
    if len(mem.shape) != 2 or width is None or dims is None:
        s.reject(
            f"takes rows of a matrix of static width, got {shape_text(mem.shape)}",
            "pl.reshape the tensor to [rows, cols] before the kernel",
        )
    count = 1
    for n in dims:
        count *= n
    partial = [i for i, (v, n) in enumerate(zip(index.valid, index.shape, strict=True)) if not arith.same(v, n)]
    first = next((i for i, n in enumerate(dims) if n != 1), 0)
    if any(i > first for i in partial):
        s.reject(
            f"the valid region {shape_text(index.valid)} of the index {shape_text(index.shape)} is no run of elements",
            "make the index one row, pl.reshape(index, [1, n]), or fully valid",
        )
    return as_dims((count, width)), (arith.product(index.valid), const_index(width))


# -- the table -----------------------------------------------------------------------------------------------------

_DIM = Attr("dim", (int,))
_DTYPE = Attr("output_dtype", (DataType,))
_GATHER = "elements of x by index: along axis `dim`, else counted over all of x in row-major order"
_MASK = "the columns that a pattern takes, side by side"
OPS: tuple[OpDef, ...] = (
    OpDef(
        "tensor.gather",
        (Operand("x", "tensor"), Operand("index", "tensor")),
        _gather,
        Special("gather"),
        effects=(R, R),
        attrs=(_DIM,),
        to_tile=_gather_to_tile,
        in_place=False,
        dtypes=SOURCES,
        doc=_GATHER,
    ),
    OpDef(
        "tile.gather",
        (Operand("src", "tile"), Operand("indices", "tile"), Operand("tmp", "tile")),
        _gather,
        Special("gather"),
        effects=(R, R, R),
        # A flattened tile of three dimensions says how many rows make one of its leading index.
        attrs=(_DIM, Attr("group", (int,)), Attr("index_group", (int,))),
        spaces=(VEC, VEC, VEC),
        out_space=VEC[0],
        in_place=False,
        scratch=(2,),
        dtypes=SOURCES,
        pto="tgather",
        doc=_GATHER + "; without dim, an index beyond the tile gives 0",
    ),
    *(
        OpDef(
            f"{level}.gather_mask",
            (Operand("src", level),),
            _gather_mask,
            Special("gather_mask"),
            effects=(R,),
            attrs=(_PATTERN, _DTYPE),
            spaces=(VEC,) if level == "tile" else None,
            out_space=VEC[0] if level == "tile" else None,
            in_place=False,
            dtypes=MOVABLE,
            pto="tgather" if level == "tile" else "",
            doc=_MASK,
        )
        for level in ("tensor", "tile")
    ),
    OpDef(
        "tile.gatherb",
        (Operand("src", "tile"), Operand("offset", "tile")),
        _gatherb,
        Special("gatherb"),
        effects=(R, R),
        attrs=(_DTYPE,),
        spaces=(VEC, VEC),
        out_space=VEC[0],
        in_place=False,
        dtypes=MOVABLE,
        pto="tgatherb",
        doc="blocks of 32 bytes of src, by their offsets in bytes",
    ),
    OpDef(
        "tile.mgather",
        (
            Operand("mem", "tensor"),
            Operand("idx", "tile"),
            Operand("valid_shape", "shape", optional=True),
            Operand("scratch", "tile", optional=True),
        ),
        _mgather,
        Special("mgather"),
        effects=(R, R, R, R),
        attrs=(Attr("coalesce", (int,), required=True), Attr("gather_oob", (int,)), Attr("target_memory", (MemorySpace,))),
        spaces=(None, VEC, None, None),
        out_space=FROM_TARGET,
        in_place=False,
        scratch=(3,),
        dtypes=MOVABLE,
        pto="mgather",
        doc="rows, or elements, of a tensor in global memory by index",
    ),
)
