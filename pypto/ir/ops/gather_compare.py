"""Columns whose elements compare with a value: where they are, and how many there are, row by row.

In: operand types.  Out: int32 [rows, out_cols] of column numbers plus `offset`, and their counts [1, rows].  Of more than
`out_cols` columns the first ones are taken and counted; what is left of a row is 0.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.ir.expr import Call, Expr, MakeTuple, const_index
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.compare import COMPARISONS
from pypto.ir.ops.rearrange import vector_tile
from pypto.ir.ops.rules import VEC, D, R, cast_hint, check_dtype, element_scalar, is_scalar, level_of, shape_text, tensor_result
from pypto.ir.shaped import ShapedType, TensorType, TileType, as_dims, const_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "compare_columns"]

_TYPES = (D.FP32, D.FP16, D.INT32, D.INT16, D.UINT16)
_COUNTS = (D.INT32, D.UINT32)


def _check(s: Site) -> ShapedType:
    x = s.shaped(0)
    check_dtype(s, x.dtype, _TYPES)
    if len(x.shape) != 2 or const_dims(x.shape) is None:
        s.reject(f"compares matrices of static extents, got {shape_text(x.shape)}", "pl.reshape x to [rows, cols]")
    k = s.args[1].type
    dtype = k.dtype if isinstance(k, TileType) else s.scalar(1)
    if dtype is not x.dtype:
        s.reject(f"kvalue is {dtype}, the elements are {x.dtype}", cast_hint(x.dtype), TypeError)
    if not 0 <= s.kwargs["cmp_mode"] < len(COMPARISONS):
        numbers = ", ".join(f"{i} ({name})" for i, name in enumerate(COMPARISONS))
        s.reject(f"cmp_mode {s.kwargs['cmp_mode']} is no comparison", f"write one of {numbers}")
    if s.kwargs["out_cols"] < 1:
        s.reject(f"out_cols must be positive, got {s.kwargs['out_cols']}", f"out_cols={shape_text(x.shape[1:])[1:-1]}")
    return x


def _made(x: ShapedType, dtype: DataType, shape: tuple[Expr, ...], valid: tuple[Expr, ...]) -> Type:
    return (
        tensor_result(shape, dtype, valid) if isinstance(x, TensorType) else vector_tile(shape, TensorType(shape, dtype), valid)
    )


def _columns(s: Site) -> Type:
    x = _check(s)
    cols = const_index(s.kwargs["out_cols"])
    return _made(x, D.INT32, (x.shape[0], cols), (x.valid[0], cols))


def _counts(s: Site) -> Type:
    x = _check(s)
    dtype: DataType = s.kwargs.get("count_dtype", D.INT32)
    if dtype not in _COUNTS:
        s.reject(f"count_dtype must be int32 or uint32, got {dtype}", "count_dtype=pl.INT32")
    one = const_index(1)
    return _made(x, dtype, (one, x.shape[0]), (one, x.valid[0]))


def _to_tile(name: str) -> Any:
    def rule(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
        x = lo.tile(args[0])
        t = x.type
        assert isinstance(t, TileType)
        row = MakeTuple(as_dims((1, 32 // t.dtype.get_byte())))
        block = lo.emit("tile.create", (row,), {"dtype": t.dtype}, "kvalue")
        value = lo.emit("tile.expands", (block, args[1]), None, "kvalue")
        tmp = lo.emit("tile.create", (MakeTuple(t.shape),), {"dtype": t.dtype}, "gather_tmp")
        return lo.emit(name, (x, value, tmp), call.kwargs)

    return rule


_INT = (int,)
_SHARED = (Attr("cmp_mode", _INT, required=True), Attr("out_cols", _INT, required=True))
_COLUMNS_DOC = "numbers of the columns, plus offset, whose elements compare with kvalue"
_COUNTS_DOC = "how many columns of each row gather_compare gives"
OPS: tuple[OpDef, ...] = tuple(
    op
    for name, infer, kind, attr, doc in (
        ("gather_compare", _columns, "compare_columns", Attr("offset", _INT), _COLUMNS_DOC),
        ("gather_compare_count", _counts, "compare_counts", Attr("count_dtype", (DataType,)), _COUNTS_DOC),
    )
    for op in (
        OpDef(
            f"tensor.{name}",
            (Operand("x", "tensor"), Operand("kvalue", "scalar")),
            infer,
            Special(kind),
            effects=(R, R),
            attrs=(*_SHARED, attr),
            to_tile=_to_tile(f"tile.{name}"),
            in_place=False,
            dtypes=_TYPES,
            doc=doc,
        ),
        OpDef(
            f"tile.{name}",
            (Operand("src", "tile"), Operand("kvalue", "tile"), Operand("tmp", "tile")),
            infer,
            Special(kind),
            effects=(R, R, R),
            attrs=(*_SHARED, attr),
            spaces=(VEC, VEC, VEC),
            out_space=VEC[0],
            in_place=False,
            scratch=(2,),
            dtypes=_TYPES,
            pto="tgather",
            doc=doc,
        ),
    )
)


# -- DSL -----------------------------------------------------------------------------------------------------------


def compare_columns(ctx: DslContext, space: str, a: dict[str, Any]) -> tuple[Expr, ...]:
    """The columns and their counts, as two values."""
    x, k, mode = a["x"], a["kvalue"], a["cmp_mode"]
    level = level_of("gather", space, (x,))
    if isinstance(mode, str) and mode in COMPARISONS:
        mode = COMPARISONS.index(mode)
    if isinstance(mode, bool) or not isinstance(mode, int) or not isinstance(a["out_cols"], int):
        raise OpRejected("pl.gather: cmp_mode and out_cols must be given", 'cmp_mode="gt", out_cols=64', TypeError)
    kwargs = {"cmp_mode": mode, "out_cols": a["out_cols"]}
    if is_scalar(k):
        k = element_scalar(k, x.type.dtype)
        if level == "tile":
            row = MakeTuple(as_dims((1, 32 // x.type.dtype.get_byte())))
            k = ctx.op("tile.expands", (ctx.op("tile.create", (row,), {"dtype": x.type.dtype}), k))
    rest = (a["tmp"],) if level == "tile" else ()
    offset = {"offset": a["offset"]} if a["offset"] else {}
    counted = {} if a["count_dtype"] is None else {"count_dtype": a["count_dtype"]}
    return (
        ctx.op(f"{level}.gather_compare", (x, k, *rest), {**kwargs, **offset}),
        ctx.op(f"{level}.gather_compare_count", (x, k, *rest), {**kwargs, **counted}),
    )


_REST = (
    Param("cmp_mode", "attr", "eq", True),
    Param("out_cols", "attr", None, True),
    Param("offset", "attr", 0, True),
    Param("count_dtype", "attr", None, True),
)
DSL: tuple[Dsl, ...] = (
    Dsl(
        "gather_compare",
        ("tile",),
        (Param("x"), Param("kvalue"), Param("tmp"), *_REST),
        compare_columns,
        "two tiles: numbers of the columns whose elements compare with kvalue, and how many there are in each row",
    ),
    Dsl(
        "gather_compare",
        ("tensor",),
        (Param("x"), Param("kvalue"), *_REST),
        lambda ctx, space, a: compare_columns(ctx, space, {**a, "tmp": None}),
        "two tensors: numbers of the columns whose elements compare with kvalue, and how many there are in each row",
    ),
)
