"""Comparison and selection.

At tensor level a comparison gives 0 or 1 in the operands' dtype; at tile level a packed bit mask, one bit per element,
each row starting at its own byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.expr import Call, ConstFloat, ConstInt, Expr, MakeTuple, const_index
from pypto.ir.lanes import Builder, Lane, LaneProgram, lane_type, program
from pypto.ir.opdef import (
    FULL,
    MASK,
    SCALAR,
    UNUSED,
    Attr,
    Dsl,
    DslContext,
    Lanewise,
    Lower,
    OpDef,
    Operand,
    OpRejected,
    Param,
    Sample,
    Site,
)
from pypto.ir.ops.rules import (
    VEC,
    D,
    R,
    binary_tensor_type,
    cast_hint,
    check_dtype,
    covers,
    element_scalar,
    is_scalar,
    level_of,
    same_tiles,
    tensor_result,
    tile_result,
)
from pypto.ir.shaped import TensorType, TileType, TileView, const_dim, same_dims
from pypto.ir.types import Type

__all__ = ["COMPARISONS", "DSL", "OPS", "mask_type"]

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")  # by cmp_type
_TYPES = (D.FP32, D.FP16, D.INT32, D.INT16, D.UINT16)
_CMP = (Attr("cmp_type", (int,)),)


def _widen(x: Lane) -> Lane:
    return x.to("f32") if x.type in ("f16", "bf16") else x


def _compare(b: Builder, x: Lane, y: Lane, kind: int) -> Lane:
    return b.op(COMPARISONS[kind], _widen(x), _widen(y))


def _as_number(b: Builder, x: Lane, y: Lane, kind: int, result: str) -> Lane:
    one, zero = b.const(1.0, result), b.const(0.0, result)
    return b.select(_compare(b, x, y, kind), one, zero)


def _build_mask(inputs: tuple[DataType, ...], _: DataType, kwargs: Mapping[str, Any]) -> LaneProgram:
    return program(_compare, tuple(lane_type(d) for d in inputs), "mask", int(kwargs.get("cmp_type", 0)))


def _build_number(inputs: tuple[DataType, ...], result: DataType, kwargs: Mapping[str, Any]) -> LaneProgram:
    t = lane_type(result)
    return program(_as_number, tuple(lane_type(d) for d in inputs), t, int(kwargs.get("cmp_type", 0)), t)


def _select(b: Builder, m: Lane, x: Lane, y: Lane) -> Lane:
    return b.select(m, x, y)


def _build_select(inputs: tuple[DataType, ...], result: DataType, _: Mapping[str, Any]) -> LaneProgram:
    t = lane_type(result)
    return program(_select, ("mask", t, t), t)


def mask_type(t: TileType) -> TileType:
    """The packed mask of a tile: UINT8, columns rounded up to whole bytes and then to 32 of them."""
    cols = const_dim(t.shape[-1])
    if cols is None:
        raise OpRejected("a mask needs a constant column extent", "compare windows of a fixed width: a[:, j : j + 64]")
    bytes_ = (cols + 7) // 8
    width = (bytes_ + 31) // 32 * 32
    valid = (*t.valid[:-1], arith.floordiv(arith.add(t.valid[-1], const_index(7)), const_index(8)))
    return tile_result(TileType((*t.shape[:-1], width), D.UINT8, None, TileView(valid)))


def _kind(s: Site) -> None:
    kind = s.kwargs.get("cmp_type", 0)
    if not 0 <= kind <= 5:
        hint = "write the number, or an operator: a < b"
        s.reject(f"cmp_type {kind} is not 0 (eq), 1 (ne), 2 (lt), 3 (le), 4 (gt) or 5 (ge)", hint)


def _tile_cmp(s: Site) -> Type:
    _kind(s)
    a = s.tile(0)
    check_dtype(s, a.dtype, _TYPES)
    if is_scalar(s.args[1]):
        if s.scalar(1) is not a.dtype:
            hint = cast_hint(a.dtype)
            s.reject(f"the scalar is {s.scalar(1)}, the elements are {a.dtype}", hint, TypeError)
    else:
        same_tiles(s, a, s.tile(1))
    return mask_type(a)


def _tensor_cmp(s: Site) -> Type:
    _kind(s)
    if is_scalar(s.args[1]):
        a = s.tensor(0)
        check_dtype(s, a.dtype, _TYPES[:3])
        return tensor_result(a.shape, a.dtype, a.valid)
    return binary_tensor_type(s, _TYPES[:3])


def _check_mask(s: Site, x: TileType) -> None:
    m = s.tile(0)
    if m.dtype is not D.UINT8 or not same_dims(m.shape, mask_type(x).shape):
        s.reject("the mask must be the packed UINT8 mask of a comparison of tiles of this shape", "use pl.tile.cmp or cmps")
    covers(s, mask_type(x), m, "mask and operand")
    if x.dtype.get_byte() not in (2, 4):
        hint = "convert the tiles with pl.cast, to pl.FP16 or pl.FP32 say, and back"
        s.reject(f"selects 2- and 4-byte elements, not {x.dtype}", hint, TypeError)


def _sel(s: Site) -> Type:
    x, y = s.tile(1), s.tile(2)
    _check_mask(s, x)
    same_tiles(s, x, y)
    return tile_result(x)


def _sels(s: Site) -> Type:
    x = s.tile(1)
    _check_mask(s, x)
    if s.scalar(3) is not x.dtype:
        s.reject(f"the scalar is {s.scalar(3)}, the elements are {x.dtype}", cast_hint(x.dtype), TypeError)
    return tile_result(x)


def _cmp_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """cmp, then sel between tiles of ones and zeros."""
    x = lo.tile(args[0])
    t = x.type
    assert isinstance(t, TileType)
    if is_scalar(args[1]):
        mask = lo.emit("tile.cmps", (x, args[1]), call.kwargs, "mask")
    else:
        mask = lo.emit("tile.cmp", (x, lo.tile(args[1])), call.kwargs, "mask")
    values = []
    for n in (1, 0):
        value: Expr = ConstFloat(float(n), t.dtype) if t.dtype.is_float() else ConstInt(n, t.dtype)
        full = lo.emit("tile.full", (MakeTuple(t.shape), value), {"dtype": t.dtype}, ("zero", "one")[n])
        values.append(full if t.is_fully_valid else lo.emit("tile.set_validshape", (full, *t.valid)))
    scratch = lo.emit("tile.create", (MakeTuple((const_index(1), const_index(32))),), {"dtype": D.UINT8}, "tmp")
    return lo.emit("tile.sel", (mask, *values, scratch))


def _operands(level: str, scalar: bool) -> tuple[Operand, ...]:
    return Operand("lhs", level), Operand("scalar", "scalar") if scalar else Operand("rhs", level)


_DOC = "elementwise comparison by cmp_type: 0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge; false for NaN except ne"
_SAMPLES = (Sample(((8, 64), (8, 40)), _TYPES[:3]),)
OPS: tuple[OpDef, ...] = (
    *(
        OpDef(
            f"tensor.{name}",
            _operands("tensor", scalar),
            _tensor_cmp,
            Lanewise((FULL, SCALAR if scalar else FULL), _build_number),
            effects=(R, R),
            attrs=_CMP,
            to_tile=_cmp_to_tile,
            samples=_SAMPLES,
            dtypes=_TYPES[:3],
            doc=_DOC + "; 1 or 0 in the operands' dtype",
        )
        for name, scalar in (("cmp", False), ("cmps", True))
    ),
    *(
        OpDef(
            f"tile.{name}",
            _operands("tile", scalar),
            _tile_cmp,
            Lanewise((FULL, SCALAR if scalar else FULL), _build_mask, MASK),
            effects=(R, R),
            attrs=_CMP,
            in_place=False,
            spaces=(VEC, None if scalar else VEC),
            out_space=VEC[0],
            pto="tcmps" if scalar else "tcmp",
            samples=_SAMPLES,
            dtypes=_TYPES,
            doc=_DOC + "; a packed bit mask",
        )
        for name, scalar in (("cmp", False), ("cmps", True))
    ),
    OpDef(
        "tile.sel",
        (Operand("mask", "tile"), Operand("lhs", "tile"), Operand("rhs", "tile"), Operand("tmp", "tile")),
        _sel,
        Lanewise((MASK, FULL, FULL, UNUSED), _build_select),
        effects=(R, R, R, R),
        spaces=(VEC, VEC, VEC, VEC),
        out_space=VEC[0],
        no_alias=(0, 3),
        scratch=(3,),
        pto="tsel",
        dtypes=_TYPES,
        doc="mask bit ? lhs : rhs",
    ),
    OpDef(
        "tile.sels",
        (Operand("mask", "tile"), Operand("src", "tile"), Operand("tmp", "tile"), Operand("scalar", "scalar")),
        _sels,
        Lanewise((MASK, FULL, UNUSED, SCALAR), _build_select),
        effects=(R, R, R, R),
        spaces=(VEC, VEC, VEC, None),
        out_space=VEC[0],
        no_alias=(0,),
        scratch=(2,),
        pto="tsels",
        dtypes=_TYPES,
        doc="mask bit ? src : scalar",
    ),
)


def _cmp_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x, y = a["lhs"], a["rhs"]
    if isinstance(a["cmp_type"], bool) or not isinstance(a["cmp_type"], int):
        numbers = ", ".join(f"{i} ({name})" for i, name in enumerate(COMPARISONS))
        hint = f"write one of {numbers}, or an operator: a < b"
        raise OpRejected(f"cmp_type must be a number, got {a['cmp_type']!r}", hint, TypeError)
    kind = {"cmp_type": a["cmp_type"]}
    if not is_scalar(y):
        level = level_of("cmp", space, (x, y))
        return ctx.op(f"{level}.cmp", (x, y), kind)
    level = level_of("cmp", space, (x,))
    return ctx.op(f"{level}.cmps", (x, element_scalar(y, x.type.dtype)), kind)


def _only_tiles(name: str, *values: Expr) -> None:
    if any(isinstance(v.type, TensorType) for v in values):
        hint = (
            "load the tensors with pl.load, or compute with the comparison itself, which is 1 or 0 for each element of a "
            "tensor: m = x > t, then m * x + (1 - m) * y"
        )
        raise OpRejected(f"pl.{name} selects between tiles, got a tensor", hint, TypeError)


def _sel_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    _only_tiles("sel", a["mask"], a["lhs"], a["rhs"], a["tmp"])
    return ctx.op("tile.sel", (a["mask"], a["lhs"], a["rhs"], a["tmp"]))


def _sels_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    _only_tiles("sels", a["mask"], a["src"], a["tmp"])
    return ctx.op("tile.sels", (a["mask"], a["src"], a["tmp"], element_scalar(a["scalar"], a["src"].type.dtype)))


_KIND = Param("cmp_type", "attr", 0)
DSL: tuple[Dsl, ...] = (
    Dsl("cmp", ("", "tensor", "tile"), (Param("lhs"), Param("rhs"), _KIND), _cmp_build, _DOC),
    Dsl("cmps", ("", "tensor", "tile"), (Param("lhs"), Param("rhs"), _KIND), _cmp_build, _DOC),
    Dsl("sel", ("", "tile"), (Param("mask"), Param("lhs"), Param("rhs"), Param("tmp")), _sel_build, "mask bit ? lhs : rhs"),
    Dsl(
        "sels", ("", "tile"), (Param("mask"), Param("src"), Param("tmp"), Param("scalar")), _sels_build, "mask bit ? src : scalar"
    ),
)
