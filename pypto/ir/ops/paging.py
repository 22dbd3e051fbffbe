"""Accumulators on chip that are filled window by window from global memory: create_l1, gather_row, paged_gather.

In: operand types.  Out: the accumulator's type.  A window is read where the caller says, its valid extents only.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir import arith, scalar
from pypto.ir.expr import Call, Expr, MakeTuple, const_index
from pypto.ir.layout import box_of
from pypto.ir.opdef import INHERIT, Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.memory import check_window, valid_within
from pypto.ir.ops.rules import MOVABLE, RW, D, R, check_dtype, shape_text, tensor_result
from pypto.ir.shaped import ShapedType, TensorType, TileType, as_dims, const_dim, const_dims, same_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "row_place"]


# -- create_l1 -----------------------------------------------------------------------------------------------------


def _create(s: Site) -> Type:
    shape = s.elements(0)
    check_dtype(s, s.kwargs["dtype"], MOVABLE)
    dims = const_dims(shape)
    if dims is None or len(dims) != 2 or min(dims) < 1:
        s.reject(f"makes matrices of static, positive extents, got {shape_text(shape)}", "pl.create_l1([rows, cols], dtype)")
    return TensorType(shape, s.kwargs["dtype"])


def _create_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    kwargs: dict[str, Any] = {"dtype": call.kwargs["dtype"], "target_memory": MemorySpace.Mat}
    if call.kwargs.get("transpose"):
        kwargs["transpose"] = True
    return lo.emit("tile.create", args, kwargs)


# -- gather_row ----------------------------------------------------------------------------------------------------


def _gather_row(s: Site) -> Type:
    acc, src = s.shaped(0), s.tensor(1)
    to, at, shape = s.elements(2), s.elements(3), s.elements(4)
    if src.dtype is not acc.dtype:
        s.reject(f"acc holds {acc.dtype}, src {src.dtype}", f"make acc of dtype pl.{src.dtype.name}", TypeError)
    if not len(acc.shape) == len(src.shape) == len(to) == len(at) == len(shape) == 2:
        s.reject("works on matrices: acc, src, both offsets and shapes have two extents", "pl.reshape src to [rows, cols]")
    dims = const_dims(shape)
    if dims is None or min(dims) < 1:
        s.reject(f"shapes must be constant and positive, got {shape_text(shape)}", "put run-time extents into valid_shape")
    valid = s.elements(5) if len(s) > 5 and s.elements(5) else shape
    valid_within(s, valid, shape)
    turned = bool(s.kwargs.get("transpose"))
    if turned and not same_dims(valid, shape):
        s.reject("transpose=True moves whole windows", "leave valid_shape out")
    if turned and isinstance(acc, TileType) and acc.memory_space not in (None, MemorySpace.Mat):
        s.reject(f"transpose=True fills Mat tiles, acc is in {acc.memory_space}", "pl.create_l1(shape, dtype, transpose=True)")
    check_window(s, at, valid, src.valid, "narrow the window with valid_shape")
    check_window(s, to, valid[::-1] if turned else valid, acc.shape, "narrow the window with valid_shape", "writes")
    return tensor_result(acc.shape, acc.dtype, acc.valid) if isinstance(acc, TensorType) else acc.replace(memref=None)


def row_place(t: TileType, extents: tuple[Expr, ...], shape: tuple[Expr, ...]) -> TileType:
    """Where a window of `shape` lies in an accumulator of type `t`: whole boxes of it, of which `extents` are valid."""
    box = box_of(t.layout, t.dtype)
    whole = [-(-n // b) * b for n, b in zip(const_dims(shape) or (), box, strict=True)]
    return TileType(as_dims(whole), t.dtype, None, t.get_effective_tile_view().replace(valid_shape=extents), t.memory_space)


def _row_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    if lo.is_tensor(args[0]):
        raise OpRejected("acc is a tensor in global memory", "start with pl.create_l1(shape, dtype)", TypeError)
    return lo.emit("tile.gather_row", (args[0], _in_global_memory(lo, args[1], "src"), *args[2:]), call.kwargs)


def _in_global_memory(lo: Lower, e: Expr, name: str) -> Expr:
    if not lo.is_tensor(e):
        raise OpRejected(
            f"{name} is computed in the kernel, and lies on chip", "pass a tensor parameter of the kernel", TypeError
        )
    return e


# -- paged_gather --------------------------------------------------------------------------------------------------


def _list_length(s: Site, i: int, name: str) -> Expr:
    """The extent of a list of numbers: a vector, or one row."""
    t = s.tensor(i)
    if t.dtype not in (D.INT32, D.INT64):
        s.reject(f"{name} must be int32 or int64, got {t.dtype}", f"pl.cast({name}, pl.INT32) before the kernel", TypeError)
    if any(const_dim(n) != 1 for n in t.shape[:-1]):
        s.reject(f"{name} must be one row of numbers, got {shape_text(t.shape)}", f"pl.reshape({name}, [1, n])")
    return t.shape[-1]


def _paged(s: Site) -> Type:
    src = s.tensor(0)
    check_dtype(s, src.dtype, MOVABLE)
    count = _list_length(s, 1, "indices")
    _list_length(s, 2, "block_table")
    size, most, block = s.kwargs["size"], s.kwargs["max_indices"], s.kwargs["block_size"]
    if len(src.shape) != 2:
        s.reject(f"takes rows of a matrix, got {shape_text(src.shape)}", "pl.reshape src to [rows, cols] before the kernel")
    for name, value in (("size", size), ("max_indices", most), ("block_size", block)):
        if value < 1:
            s.reject(f"{name} must be positive, got {value}", f"{name}=16")
    known = const_dim(count)
    if known is not None and known > most:
        s.reject(f"there are {known} indices, max_indices is {most}", f"max_indices={known}")
    turned = bool(s.kwargs.get("is_trans"))
    if turned and s.kwargs.get("space", MemorySpace.Mat) is not MemorySpace.Mat:
        s.reject("is_trans=True fills Mat tiles", "space=pl.Mem.Mat")
    if s.kwargs.get("space", MemorySpace.Mat) not in (MemorySpace.Mat, MemorySpace.Vec):
        s.reject(f"gathers to Mat or Vec, not {s.kwargs['space'].name}", "space=pl.Mem.Mat")
    check_window(s, (const_index(0), s.args[3]), as_dims((1, size)), src.shape)
    shape, valid = as_dims((most, size)), (arith.minimum(count, const_index(most)), const_index(size))
    if known is None:
        valid = (count, const_index(size))
    return tensor_result(shape[::-1], src.dtype, valid[::-1]) if turned else tensor_result(shape, src.dtype, valid)


def _paged_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """A loop over the indices: each names a row by its page and its place in it."""
    src, indices, table = (_in_global_memory(lo, a, n) for a, n in zip(args, ("src", "indices", "block_table"), strict=False))
    t = call.type
    assert isinstance(t, TensorType)
    turned = bool(call.kwargs.get("is_trans"))
    size, block = const_index(call.kwargs["size"]), const_index(call.kwargs["block_size"])
    create: dict[str, Any] = {"dtype": t.dtype, "target_memory": call.kwargs.get("space", MemorySpace.Mat)}
    if turned:
        create["transpose"] = True
    acc = lo.emit("tile.create", (MakeTuple(t.shape),), create, "pages")
    zero, one = const_index(0), const_index(1)
    rows = lo.emit("tensor.dim", (indices, const_index(len(indices.type.shape) - 1)), None, "rows")  # type: ignore[attr-defined]

    def number(e: Expr, at: Expr, hint: str) -> Expr:
        rank = len(e.type.shape)  # type: ignore[attr-defined]
        found = lo.emit("tensor.read", (e, MakeTuple((*([zero] * (rank - 1)), at))), None, hint)
        return scalar.cast(found, D.INDEX)

    def row(i: Expr, carried: Expr) -> Expr:
        index = number(indices, i, "idx")
        page = number(table, scalar.floordiv(index, block), "page")
        at = scalar.add(scalar.mul(page, block), scalar.mod(index, block))
        to = (zero, i) if turned else (i, zero)
        window = (MakeTuple(to), MakeTuple((at, args[3])), MakeTuple((one, size)))
        return lo.emit("tile.gather_row", (carried, src, *window), {"transpose": True} if turned else {}, "pages")

    made = lo.loop(rows, acc, row)
    if same_dims(t.valid, t.shape):
        return made
    return lo.emit("tile.set_validshape", (made, *((size, rows) if turned else (rows, size))), None, "pages")


# -- the table -----------------------------------------------------------------------------------------------------

_ROW = "acc with a window of a tensor in global memory copied into it, in place"
_ROW_OPERANDS = (
    Operand("src", "tensor"),
    Operand("dst_offset", "shape"),
    Operand("src_offset", "shape"),
    Operand("shapes", "shape"),
    Operand("valid_shape", "shape", optional=True),
)
_PAGED = "rows of src by index through a table of pages"
_INT = (int,)
OPS: tuple[OpDef, ...] = (
    OpDef(
        "tensor.create_l1",
        (Operand("shape", "shape"),),
        _create,
        Special("create"),
        effects=(R,),
        attrs=(Attr("dtype", (DataType,), required=True), Attr("transpose", (bool,))),
        to_tile=_create_to_tile,
        doc="an undefined accumulator in Mat memory",
    ),
    OpDef(
        "tensor.gather_row",
        (Operand("acc", "tensor"), *_ROW_OPERANDS),
        _gather_row,
        Special("gather_row"),
        effects=(RW, R, R, R, R, R),
        attrs=(Attr("transpose", (bool,)),),
        reuses=0,
        to_tile=_row_to_tile,
        doc=_ROW,
    ),
    OpDef(
        "tile.gather_row",
        (Operand("acc", "tile"), *_ROW_OPERANDS),
        _gather_row,
        Special("gather_row"),
        effects=(RW, R, R, R, R, R),
        attrs=(Attr("transpose", (bool,)),),
        spaces=((MemorySpace.Mat, MemorySpace.Vec), None, None, None, None, None),
        out_space=INHERIT,
        reuses=0,
        in_place=False,
        pto="tload",
        doc=_ROW,
    ),
    OpDef(
        "tensor.paged_gather",
        (Operand("src", "tensor"), Operand("indices", "tensor"), Operand("block_table", "tensor"), Operand("col_off", "scalar")),
        _paged,
        Special("paged_gather"),
        effects=(R, R, R, R),
        attrs=(
            *(Attr(n, _INT, required=True) for n in ("block_size", "size", "max_indices")),
            Attr("space", (MemorySpace,)),
            Attr("is_trans", (bool,)),
            Attr("is_b_matrix", (bool,)),
        ),
        to_tile=_paged_to_tile,
        doc=_PAGED + ": row i is src[table[idx[i] // block_size] * block_size + idx[i] % block_size, col_off : col_off + size]",
    ),
)


# -- DSL -----------------------------------------------------------------------------------------------------------


def _create_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    if not isinstance(a["dtype"], DataType):
        raise OpRejected(f"pl.create_l1: dtype must be a dtype such as pl.FP16, got {a['dtype']!r}", "dtype=pl.FP16", TypeError)
    kwargs = {"dtype": a["dtype"], **({"transpose": True} if a["transpose"] else {})}
    return ctx.op("tensor.create_l1", (MakeTuple(as_dims(a["shape"])),), kwargs)


def _row_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    acc = a["acc"]
    if not isinstance(acc.type, ShapedType):
        raise OpRejected("pl.gather_row: acc must be an accumulator on chip", "start with pl.create_l1(shape, dtype)", TypeError)
    level = "tile" if isinstance(acc.type, TileType) else "tensor"
    args = [acc, a["src"], *(MakeTuple(as_dims(a[n])) for n in ("dst_offset", "src_offset", "shapes"))]
    if a["valid_shape"] is not None:
        args.append(MakeTuple(as_dims(a["valid_shape"])))
    return ctx.op(f"{level}.gather_row", args, {"transpose": True} if a["transpose"] else {})


def _paged_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    kwargs: dict[str, Any] = {n: a[n] for n in ("block_size", "size", "max_indices")}
    if a["space"] is not MemorySpace.Mat:
        kwargs["space"] = a["space"]
    for flag in ("is_trans", "is_b_matrix"):
        if a[flag]:
            kwargs[flag] = True
    (offset,) = as_dims((a["col_off"],))
    return ctx.op("tensor.paged_gather", (a["src"], a["indices"], a["block_table"], offset), kwargs)


DSL: tuple[Dsl, ...] = (
    Dsl(
        "create_l1",
        ("", "tensor"),
        (Param("shape", "shape"), Param("dtype", "attr"), Param("transpose", "attr", False)),
        _create_build,
        "an undefined accumulator in Mat memory",
    ),
    Dsl(
        "gather_row",
        ("", "tensor", "tile"),
        (
            Param("acc"),
            Param("src"),
            Param("dst_offset", "shape"),
            Param("src_offset", "shape"),
            Param("shapes", "shape"),
            Param("transpose", "attr", False),
            Param("valid_shape", "shape", None, True),
        ),
        _row_build,
        "a window of a tensor copied into an accumulator",
    ),
    Dsl(
        "paged_gather",
        ("", "tensor"),
        (
            Param("src"),
            Param("indices"),
            Param("block_table"),
            Param("block_size", "attr"),
            Param("size", "attr"),
            Param("max_indices", "attr"),
            Param("space", "attr", MemorySpace.Mat, True),
            Param("col_off", "index", 0, True),
            Param("is_trans", "attr", False, True),
            Param("is_b_matrix", "attr", False, True),
        ),
        _paged_build,
        _PAGED,
    ),
)
