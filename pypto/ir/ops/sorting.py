"""Sorting: sort32 makes sorted runs of (value, index) pairs, mrgsort merges runs.

A pair of FP32 is two elements, the value and the bits of its index; a pair of FP16 is four, the value, 0, and the lower and
upper half of the index.  Order is descending, NaN before all numbers; sort32 puts the lower index first among equals,
mrgsort the earlier run.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, MakeTuple, const_index
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.rearrange import vector_tile
from pypto.ir.ops.rules import FLOATS, VEC, D, R, check_dtype, dim_text, falls_short, level_of, shape_text, tensor_result
from pypto.ir.shaped import ShapedType, TensorType, const_dim, is_less, same_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "pair_width"]

_BLOCK = 32  # values in a block of sort32
_LONGEST = 4  # runs that are merged at once


def pair_width(dtype: DataType) -> int:
    """Elements of a (value, index) pair."""
    return 8 // dtype.get_byte()


def _matrix(s: Site, i: int, what: str) -> ShapedType:
    t = s.shaped(i)
    check_dtype(s, t.dtype, FLOATS)
    if len(t.shape) != 2:
        s.reject(f"{what} must have two dimensions, got {shape_text(t.shape)}", "pl.reshape it to [rows, columns]")
    return t


def _made(t: ShapedType, shape: tuple[Expr, ...], valid: tuple[Expr, ...]) -> Type:
    return tensor_result(shape, t.dtype, valid) if isinstance(t, TensorType) else vector_tile(shape, t, valid)


# -- sort32 --------------------------------------------------------------------------------------------------------


def _sort32(s: Site) -> Type:
    x, index = _matrix(s, 0, "src"), s.shaped(1)
    if index.dtype is not D.UINT32 or not same_dims(index.shape, x.shape):
        hint = "pl.cast the index to pl.UINT32, or make it with pl.arange(0, [1, n], dtype=pl.UINT32)"
        s.reject(f"the index must be uint32 of shape {shape_text(x.shape)}, got {index.dtype} of {shape_text(index.shape)}", hint)
    for extent in (x.shape[1], x.valid[1]):
        count = const_dim(extent)
        if count is not None and count % _BLOCK:
            s.reject(
                f"sorts blocks of {_BLOCK} columns, {count} are no multiple of that",
                "fill up with pl.fillpad(x, pad_value=pl.PadValue.min) to whole blocks",
            )
    if falls_short(index.valid, x.valid):
        s.reject(f"the index is valid for {shape_text(index.valid)} only, src for {shape_text(x.valid)}", "load the index whole")
    width = const_index(pair_width(x.dtype))
    return _made(x, (x.shape[0], arith.mul(x.shape[1], width)), (x.valid[0], arith.mul(x.valid[1], width)))


# -- mrgsort -------------------------------------------------------------------------------------------------------


def _merge_runs(s: Site) -> Type:
    x = _matrix(s, 0, "src")
    length = s.kwargs["block_len"]
    if length < 64 or length % 64:
        s.reject(f"block_len {length} is no positive multiple of 64", "a run that sort32 makes of FP32 has 64 elements")
    cols = const_dim(x.shape[1])
    if cols is None or cols % length:
        s.reject(f"{shape_text(x.shape)} is no whole number of runs of {length} elements", "pad the rows to whole runs")
    return _made(x, x.shape, x.valid)


def _lists(s: Site) -> list[ShapedType]:
    """The lists to merge; a tile form has its scratch behind the first two."""
    last = [i for i in range(len(s)) if not (s.name.startswith("tile") and i == 2)]
    return [_matrix(s, i, f"list {n}") for n, i in enumerate(last)]


def _merge_lists(s: Site) -> Type:
    lists = _lists(s)
    x = lists[0]
    width = pair_width(x.dtype)
    for n, t in enumerate(lists):
        if t.dtype is not x.dtype:
            s.reject(f"list {n} holds {t.dtype}, list 0 {x.dtype}", "merge lists of one dtype", TypeError)
        cols = const_dim(t.shape[1])
        if not arith.same(t.shape[0], x.shape[0]) or cols is None or cols % width:
            s.reject(
                f"list {n} has shape {shape_text(t.shape)}, list 0 {shape_text(x.shape)}",
                f"a list has the rows of the others, and {width} elements for each pair",
            )
        if is_less(t.valid[0], x.valid[0]):
            rows = f"list {n} is valid for {dim_text(t.valid[0])} rows only, list 0 for {dim_text(x.valid[0])}"
            s.reject(rows, "narrow list 0 with pl.set_validshape")
    if s.name.startswith("tile"):
        tmp = s.tile(2)
        if tmp.dtype is not x.dtype:
            s.reject(f"the scratch tile holds {tmp.dtype}", f"make it of dtype pl.{x.dtype.name}")
    shape, valid = x.shape, x.valid
    for t in lists[1:]:
        shape, valid = (shape[0], arith.add(shape[1], t.shape[1])), (valid[0], arith.add(valid[1], t.valid[1]))
    return _made(x, shape, valid)


def _merge_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    t = call.type
    assert isinstance(t, TensorType)
    lists = [lo.tile(a) for a in args]
    tmp = lo.emit("tile.create", (MakeTuple(t.shape),), {"dtype": t.dtype}, "merge_tmp")
    return lo.emit("tile.mrgsort_format2", (*lists[:2], tmp, *lists[2:]), call.kwargs)


# -- the table -----------------------------------------------------------------------------------------------------

_SORT = "each block of 32 columns in descending order, as (value, index) pairs"
_RUNS = "four adjacent sorted runs of block_len elements merged into one, all along the rows"
_LISTS = "two to four sorted lists merged into one; with `exhausted`, until one of them ends: the rest is 0"
_EXHAUSTED = Attr("exhausted", (bool,))
OPS: tuple[OpDef, ...] = (
    *(
        OpDef(
            f"{level}.sort32",
            (Operand("src", level), Operand("idx", level)),
            _sort32,
            Special("sort32"),
            effects=(R, R),
            spaces=(VEC, VEC) if level == "tile" else None,
            out_space=VEC[0] if level == "tile" else None,
            in_place=False,
            dtypes=FLOATS,
            pto="tsort32" if level == "tile" else "",
            doc=_SORT,
        )
        for level in ("tensor", "tile")
    ),
    *(
        OpDef(
            f"{level}.mrgsort_format1",
            (Operand("src", level),),
            _merge_runs,
            Special("merge_runs"),
            effects=(R,),
            attrs=(Attr("block_len", (int,), required=True),),
            spaces=(VEC,) if level == "tile" else None,
            out_space=VEC[0] if level == "tile" else None,
            in_place=False,
            dtypes=FLOATS,
            pto="tmrgsort" if level == "tile" else "",
            doc=_RUNS,
        )
        for level in ("tensor", "tile")
    ),
    OpDef(
        "tensor.mrgsort_format2",
        tuple(Operand(f"src{n}", "tensor", optional=n > 1) for n in range(_LONGEST)),
        _merge_lists,
        Special("merge_lists"),
        effects=(R,) * _LONGEST,
        attrs=(_EXHAUSTED,),
        to_tile=_merge_to_tile,
        in_place=False,
        dtypes=FLOATS,
        doc=_LISTS,
    ),
    OpDef(
        "tile.mrgsort_format2",
        (
            Operand("src0", "tile"),
            Operand("src1", "tile"),
            Operand("tmp", "tile"),
            Operand("src2", "tile", optional=True),
            Operand("src3", "tile", optional=True),
        ),
        _merge_lists,
        Special("merge_lists"),
        effects=(R,) * 5,
        attrs=(_EXHAUSTED,),
        spaces=(VEC,) * 5,
        out_space=VEC[0],
        in_place=False,
        scratch=(2,),
        dtypes=FLOATS,
        pto="tmrgsort",
        doc=_LISTS,
    ),
)


# -- DSL -----------------------------------------------------------------------------------------------------------


def _sort_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("sort32", space, (a["src"], a["idx"]))
    return ctx.op(f"{level}.sort32", (a["src"], a["idx"]))


def _merge_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    """Runs of one tile, or lists in several."""
    lists = [a[f"src{n}"] for n in range(_LONGEST) if a[f"src{n}"] is not None]
    if a["block_len"] is not None:
        if len(lists) > 1 or a["tmp"] is not None or a["exhausted"]:
            hint = "pl.mrgsort(x, block_len=64) merges runs of x; pl.mrgsort(x, y, tmp=w) merges lists"
            raise OpRejected("pl.mrgsort: block_len takes one operand", hint, TypeError)
        return _runs_build(ctx, space, {"src": lists[0], "block_len": a["block_len"]})
    if len(lists) < 2:
        hint = "pl.mrgsort(x, block_len=64) merges runs of x; pl.mrgsort(x, y, tmp=w) merges lists"
        raise OpRejected("pl.mrgsort: neither block_len nor a second list is given", hint, TypeError)
    level = level_of("mrgsort", space, lists)
    if level == "tensor" and a["tmp"] is not None:
        raise OpRejected("pl.mrgsort: tmp is only for tiles", "leave tmp out: it is made for a tensor", TypeError)
    if level == "tile" and a["tmp"] is None:
        hint = "pass a scratch tile of the result's shape: tmp=pl.create_tile(shape, dtype)"
        raise OpRejected("pl.mrgsort: lists in tiles need tmp", hint, TypeError)
    kwargs = {"exhausted": True} if a["exhausted"] else {}
    args = (*lists[:2], a["tmp"], *lists[2:]) if level == "tile" else lists
    return ctx.op(f"{level}.mrgsort_format2", args, kwargs)


def _runs_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    length = a["block_len"]
    if isinstance(length, bool) or not isinstance(length, int):
        raise OpRejected(f"pl.mrgsort: block_len must be an integer, got {length!r}", "block_len=64", TypeError)
    level = level_of("mrgsort", space, (a["src"],))
    return ctx.op(f"{level}.mrgsort_format1", (a["src"],), {"block_len": length})


_SRCS = tuple(Param(f"src{n}", "value", None) for n in range(1, _LONGEST))
_LEVELS = ("", "tensor", "tile")
_LAST = (Param("tmp", "value", None, True), Param("exhausted", "attr", False, True))
DSL: tuple[Dsl, ...] = (
    Dsl("sort32", _LEVELS, (Param("src"), Param("idx")), _sort_build, _SORT),
    Dsl(
        "mrgsort",
        _LEVELS,
        (Param("src0"), *_SRCS, Param("block_len", "attr", None, True), *_LAST),
        _merge_build,
        "sorted runs merged",
    ),
    Dsl("mrgsort_format1", _LEVELS[1:], (Param("src"), Param("block_len", "attr")), _runs_build, _RUNS),
    Dsl(
        "mrgsort_format2",
        _LEVELS[1:],
        (Param("src0"), *_SRCS, *_LAST),
        lambda ctx, space, a: _merge_build(ctx, space, {**a, "block_len": None}),
        _LISTS,
    ),
)
