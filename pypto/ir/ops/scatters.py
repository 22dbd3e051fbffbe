"""Writing by index: scatter in its forms, scatter_mask, scatter_update and mscatter.

In: operand types.  Out: the result's type.  Where an index occurs more than once, the last one in row-major order wins;
an index that leads out of the destination is an error when the kernel runs, before anything is written.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.enums import WriteChannel
from pypto.ir import arith
from pypto.ir.expr import Call, ConstFloat, ConstInt, Expr, MakeTuple, const_index
from pypto.ir.opdef import INHERIT, Attr, Lower, OpDef, Operand, Site, Special
from pypto.ir.ops.gathers import check_index, check_pattern
from pypto.ir.ops.rules import (
    MOVABLE,
    RW,
    VEC,
    D,
    R,
    W,
    check_dtype,
    dim_text,
    falls_short,
    shape_text,
    tensor_result,
    tile_result,
)
from pypto.ir.shaped import ShapedType, TensorType, TileType, as_dims, const_dim, const_dims, is_less, same_dims
from pypto.ir.types import Type

__all__ = ["OPS"]

_SCATTERED = tuple(d for d in MOVABLE if d.get_byte() in (1, 2, 4) and d is not D.BOOL)
# A comparison and a selection, by which what was not hit is kept, take these; bytes pass as FP16, which holds them all.
_KEPT = (D.FP32, D.INT32, D.UINT32, D.FP16, D.BF16, D.INT16, D.UINT16, D.INT8, D.UINT8)


def _index_type(dtype: DataType) -> DataType:
    """Of the index by which elements of a dtype are scattered."""
    return D.INT32 if dtype.get_byte() == 4 else D.INT16


def _check_source(s: Site, dst: ShapedType, src: ShapedType, index: ShapedType) -> None:
    check_dtype(s, dst.dtype, _SCATTERED)
    if src.dtype is not dst.dtype:
        s.reject(f"src holds {src.dtype}, the destination {dst.dtype}", f"pl.cast(src, pl.{dst.dtype.name})", TypeError)
    if not same_dims(src.shape, index.shape):
        s.reject(
            f"src {shape_text(src.shape)} and index {shape_text(index.shape)} differ in shape",
            "slice one of them: each element of src has its own index",
        )
    if falls_short(src.valid, index.valid):
        s.reject(
            f"src is valid for {shape_text(src.valid)} only, the index for {shape_text(index.valid)}",
            "narrow the index with pl.set_validshape: elements outside the valid region of src are undefined",
        )


# -- scatter -------------------------------------------------------------------------------------------------------


def _along_rows(s: Site, dst: ShapedType, src: ShapedType) -> None:
    """Indices are columns of the row they stand in."""
    dim = s.kwargs["dim"]
    if len(dst.shape) != 2 or len(src.shape) != 2 or dim not in (-1, 1):
        s.reject(
            f"scatters matrices along dim -1, got dim {dim} of {shape_text(dst.shape)}",
            "pl.reshape the operands to [rows, cols], and pl.transpose them to scatter along the rows",
        )
    if is_less(dst.shape[0], src.shape[0]):
        rows = dim_text(dst.shape[0])
        s.reject(f"src has {dim_text(src.shape[0])} rows, the destination only {rows}", f"slice src and index to {rows} rows")


def _scatter_tensor(s: Site) -> Type:
    x, index, src = s.tensor(0), s.tensor(1), s.tensor(2)
    _check_source(s, x, src, index)
    check_dtype(s, x.dtype, _KEPT)
    check_index(s, index, (_index_type(x.dtype),))
    _along_rows(s, x, src)
    return tensor_result(x.shape, x.dtype, x.valid)


def _scatter_tile(s: Site) -> Type:
    dst, src, index = s.tile(0), s.tile(1), s.tile(2)
    _check_source(s, dst, src, index)
    check_index(s, index, (_index_type(dst.dtype),))
    if "dim" in s.kwargs:
        _along_rows(s, dst, src)
    return dst.replace(memref=None)


def _scatter_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    x, index, src = (lo.tile(a) for a in args)
    return _kept(lo, x, src, index, {"dim": 1})


def _kept(lo: Lower, x: Expr, src: Expr, index: Expr, kwargs: dict[str, Any], rows: Expr | None = None) -> Expr:
    """src scattered into zeros, ones into a mask, and x where the mask has none: the instruction keeps nothing itself."""
    t, n = x.type, src.type
    assert isinstance(t, TileType)
    assert isinstance(n, TileType)
    if t.dtype.get_byte() == 1:
        wide, values = (lo.emit("tile.cast", (v,), {"target_type": D.FP16}, "wide") for v in (x, src))
        return lo.emit("tile.cast", (_kept(lo, wide, values, index, kwargs, rows),), {"target_type": t.dtype})
    zeros = _filled(lo, t, t.dtype, 0, "zeros")
    scattered = lo.emit("tile.scatter", (zeros, src, index, *(() if rows is None else (rows,))), kwargs, "scattered")
    marks = _mark_type(t.dtype)
    base, ones = _filled(lo, t, marks, 0, "mask_zeros"), _filled(lo, n, marks, 1, "mask_ones")
    mask = lo.emit("tile.scatter", (base, ones, index), kwargs, "mask")
    zero: Expr = ConstFloat(0.0, marks) if marks.is_float() else ConstInt(0, marks)
    hit = lo.emit("tile.cmps", (mask, zero), {"cmp_type": 1}, "hit")
    scratch = lo.emit("tile.create", (MakeTuple(as_dims((1, 32))),), {"dtype": D.UINT8}, "sel_tmp")
    return lo.emit("tile.sel", (hit, scattered, x, scratch))


def _mark_type(dtype: DataType) -> DataType:
    """The dtype of the mask: that of the data where a comparison takes it, else an integer of its width."""
    return dtype if dtype in (D.FP32, D.FP16, D.INT32, D.INT16, D.UINT16) else D.INT32 if dtype.get_byte() == 4 else D.INT16


def _filled(lo: Lower, like: TileType, dtype: DataType, value: int, hint: str) -> Expr:
    constant: Expr = ConstFloat(float(value), dtype) if dtype.is_float() else ConstInt(value, dtype)
    made = lo.emit("tile.full", (MakeTuple(like.shape), constant), {"dtype": dtype}, hint)
    return made if like.is_fully_valid else lo.emit("tile.set_validshape", (made, *like.valid), None, hint)


# -- columns by a pattern ------------------------------------------------------------------------------------------


def _scatter_mask(s: Site) -> Type:
    dst, src = s.shaped(0), s.shaped(1)
    check_dtype(s, dst.dtype, MOVABLE)
    if src.dtype is not dst.dtype:
        s.reject(f"src holds {src.dtype}, the destination {dst.dtype}", f"pl.cast(src, pl.{dst.dtype.name})", TypeError)
    _, step = check_pattern(s)
    want = (src.shape[0], arith.mul(src.shape[-1], const_index(step)))
    if len(src.shape) != 2 or not same_dims(dst.shape, want):
        s.reject(
            f"the destination must have shape {shape_text(want)}, got {shape_text(dst.shape)}",
            f"this pattern takes every column of {step}: src has 1/{step} of the destination's columns",
        )
    return tensor_result(dst.shape, dst.dtype, dst.valid) if isinstance(dst, TensorType) else dst.replace(memref=None)


# -- scatter_update ------------------------------------------------------------------------------------------------


def _scatter_update(s: Site) -> Type:
    x, index, src = s.shaped(0), s.shaped(1), s.shaped(2)
    check_dtype(s, x.dtype, _KEPT)
    if s.kwargs.get("dim", -2) != -2:
        s.reject(f"updates whole rows, dim -2, not dim {s.kwargs['dim']}", "leave dim out, or write dim=-2")
    check_index(s, index, (D.INT32,))
    if src.dtype is not x.dtype:
        s.reject(f"src holds {src.dtype}, x {x.dtype}", f"pl.cast(src, pl.{x.dtype.name})", TypeError)
    if len(x.shape) != 2 or len(src.shape) != 2 or len(index.shape) != 2:
        s.reject(
            f"takes x [m, d], index [b, s] and src [b * s, d], got {shape_text(x.shape)}, {shape_text(index.shape)} and "
            f"{shape_text(src.shape)}",
            "pl.reshape the operands to two dimensions",
        )
    if not arith.same(src.shape[1], x.shape[1]) or not arith.same(src.shape[0], arith.product(index.shape)):
        want = shape_text((arith.product(index.shape), x.shape[1]))
        s.reject(f"src must have shape {want}, got {shape_text(src.shape)}", "one row of src for each element of the index")
    for t, name in ((index, "the index"), (src, "src")):
        if not same_dims(t.valid, t.shape):
            s.reject(f"{name} is valid for {shape_text(t.valid)} of {shape_text(t.shape)} only", "slice it to what is valid")
    dims = const_dims(x.shape)
    if x.dtype.get_byte() < 4 and dims is not None and dims[0] * dims[1] > 1 << 15:
        s.reject(
            f"x has {dims[0] * dims[1]} elements: elements of one or two bytes are counted in 16 bits, up to 32768",
            "update rows of a narrower slice of x, or cast x and src to pl.FP32 first",
        )
    return tile_result(x) if isinstance(x, TileType) else tensor_result(x.shape, x.dtype, x.valid)


def _update_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """Rows by the position of each of their elements: index * d + column, in 32 bits until it is complete."""
    x, index, src = (lo.tile(a) for a in args)
    t, n, k = x.type, src.type, index.type
    assert isinstance(t, TileType)
    assert isinstance(n, TileType)
    assert isinstance(k, TileType)
    d = n.shape[1]
    row = MakeTuple((const_index(1), d))
    column = lo.emit("tile.ci", (ConstInt(0, D.INT32), row), {"dtype": D.INT32}, "column")
    zeros = lo.emit("tile.full", (MakeTuple(n.shape), ConstInt(0, D.INT32)), {"dtype": D.INT32}, "zeros")
    columns = lo.emit("tile.col_expand", (zeros, column), None, "columns")
    listed = lo.emit("tile.reshape", (index, MakeTuple((n.shape[0], const_index(1)))), None, "rows")
    width = const_dim(d)
    assert width is not None
    start = lo.emit("tile.muls", (listed, ConstInt(width, D.INT32)), None, "row_start")
    flat = lo.emit("tile.row_expand_add", (columns, start), None, "flat_index")
    if t.dtype.get_byte() < 4:
        flat = lo.emit("tile.cast", (flat,), {"target_type": D.INT16, "mode": 5}, "flat_index")
    return _kept(lo, x, src, flat, {}, listed)


# -- to global memory ----------------------------------------------------------------------------------------------


def _mscatter(s: Site) -> Type:
    src, index, t = s.tile(0), s.tile(1), s.tensor(2)
    check_dtype(s, src.dtype, MOVABLE)
    if src.dtype is not t.dtype:
        s.reject(f"cannot scatter {src.dtype} elements into a {t.dtype} tensor", f"pl.cast(src, pl.{t.dtype.name})", TypeError)
    check_index(s, index, (D.INT32,))
    if not same_dims(src.shape, index.shape):
        s.reject(
            f"src {shape_text(src.shape)} and index {shape_text(index.shape)} differ in shape",
            "slice one of them: each element of src has its own index",
        )
    return t


# -- the table -----------------------------------------------------------------------------------------------------

_DIM = Attr("dim", (int,), required=True)
_PATTERN = Attr("mask_pattern", (int,), required=True)
_UPDATE = (("x", "index", "src"), "x with the rows that the index names replaced by those of src")


def _levels(level: str, *names: str) -> tuple[Operand, ...]:
    return tuple(Operand(n, level) for n in names)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "tensor.scatter",
        _levels("tensor", "x", "index", "src"),
        _scatter_tensor,
        Special("scatter"),
        effects=(R, R, R),
        attrs=(_DIM,),
        to_tile=_scatter_to_tile,
        in_place=False,
        dtypes=_KEPT,
        doc="x with elements of each row replaced: out[b, index[b, k]] = src[b, k]",
    ),
    OpDef(
        "tile.scatter",
        (*_levels("tile", "dst", "src", "indexes"), Operand("rows", "tile", optional=True)),
        _scatter_tile,
        Special("scatter"),
        effects=(RW, R, R, R),
        attrs=(Attr("dim", (int,)),),
        spaces=(VEC, VEC, VEC, VEC),
        out_space=INHERIT,
        reuses=0,
        in_place=False,
        dtypes=_SCATTERED,
        pto="tscatter",
        doc="elements of dst, counted in row-major order, replaced in place: dst[indexes[i, j]] = src[i, j]; `rows` are the "
        "row numbers that indexes were computed from: one that dst does not have is refused, however its products wrapped",
    ),
    OpDef(
        "tensor.scatter_mask",
        _levels("tensor", "dst", "src"),
        _scatter_mask,
        Special("scatter_mask"),
        effects=(R, R),
        attrs=(_PATTERN,),
        to_tile=lambda lo, call, args: lo.emit("tile.scatter_mask", (lo.tile(args[0]), lo.tile(args[1])), call.kwargs),
        in_place=False,
        dtypes=MOVABLE,
        doc="dst with the columns that a pattern takes replaced by those of src",
    ),
    OpDef(
        "tile.scatter_mask",
        _levels("tile", "dst", "src"),
        _scatter_mask,
        Special("scatter_mask"),
        effects=(RW, R),
        attrs=(_PATTERN,),
        spaces=(VEC, VEC),
        out_space=INHERIT,
        reuses=0,
        in_place=False,
        dtypes=MOVABLE,
        pto="tscatter",
        doc="the columns of dst that a pattern takes replaced by those of src, in place",
    ),
    *(
        OpDef(
            f"{level}.scatter_update",
            _levels(level, *_UPDATE[0]),
            _scatter_update,
            Special("scatter_update"),
            effects=(R, R, R),
            attrs=(Attr("dim", (int,)),),
            spaces=(VEC, VEC, VEC) if level == "tile" else None,
            out_space=VEC[0] if level == "tile" else None,
            to_tile=_update_to_tile,
            in_place=False,
            dtypes=_KEPT,
            doc=_UPDATE[1],
        )
        for level in ("tensor", "tile")
    ),
    OpDef(
        "tile.mscatter",
        (Operand("src", "tile"), Operand("idx", "tile"), Operand("tensor", "tensor")),
        _mscatter,
        Special("mscatter"),
        effects=(R, R, W),
        channel=WriteChannel.Dma,
        spaces=(VEC, VEC, None),
        reuses=2,
        dtypes=MOVABLE,
        pto="mscatter",
        doc="elements of a tensor, counted in row-major order, replaced: tensor[idx[i, j]] = src[i, j]",
    ),
)
