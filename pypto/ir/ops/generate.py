"""Tiles and tensors made out of numbers: arange (`ci`) and triangles.

In: numbers and a constant shape.  Out: values of that shape, valid as said.
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.memory import static_shape, valid_within
from pypto.ir.ops.rules import D, R, check_dtype, element_scalar, is_scalar
from pypto.ir.shaped import TensorType, TileType, TileView, as_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "checked_dtype", "number"]

_COUNTS = (D.INT32, D.INT16, D.UINT32, D.UINT16)
_ONES = (D.INT32, D.INT16, D.INT8, D.UINT32, D.UINT16, D.UINT8, D.FP32, D.FP16, D.BF16)
_DTYPE = Attr("dtype", (DataType,), required=True)
_VEC = MemorySpace.Vec


# -- arange --------------------------------------------------------------------------------------------------------


def _sequence_type(s: Site) -> Type:
    dims = static_shape(s, 1)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, _COUNTS)
    if any(d != 1 for d in dims[:-1]):
        s.reject(f"counts along one row: every extent but the last is 1, got {list(dims)}", "expand the row with pl.col_expand")
    if dims[-1] == 1:
        s.reject("a sequence has two elements or more", "use pl.full or pl.expands for a single number")
    if s.scalar(0) is not dtype:
        s.reject(f"the start is {s.scalar(0)}, the elements are {dtype}", f"pl.cast(<start>, pl.{dtype.name})", TypeError)
    return TensorType(dims, dtype) if s.name.startswith("tensor") else TileType(dims, dtype, None, None, _VEC)


def _sequence_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    return lo.emit("tile.ci", args, call.kwargs)


def _sequence_ops() -> list[OpDef]:
    common: dict[str, Any] = {
        "effects": (R, R),
        "attrs": (_DTYPE, Attr("descending", (bool,))),
        "dtypes": _COUNTS,
        "doc": _SEQUENCE_DOC,
    }
    operands = (Operand("start", "scalar"), Operand("shape", "shape"))
    tile: dict[str, Any] = {"spaces": (None, None), "out_space": _VEC, "pto": "tci"}
    tensor: dict[str, Any] = {"to_tile": _sequence_to_tile}
    return [
        OpDef(f"{level}.ci", operands, _sequence_type, Special("sequence"), **common, **extra)
        for level, extra in (("tensor", tensor), ("tile", tile))
    ]


def _sequence_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    dtype = checked_dtype("arange", a["dtype"])
    kwargs = {"dtype": dtype, **({"descending": True} if a["descending"] else {})}
    start = number("arange", "start", a["start"], dtype)
    return ctx.op(f"{space or 'tensor'}.ci", (start, MakeTuple(as_dims(a["shape"]))), kwargs)


# -- triangles -----------------------------------------------------------------------------------------------------


def _triangle_type(s: Site) -> Type:
    dims = static_shape(s, 1)
    dtype: DataType = s.kwargs["dtype"]
    check_dtype(s, dtype, _ONES)
    if len(dims) != 2:
        s.reject(f"a triangle has two dimensions, got {len(dims)}", "give [rows, cols]")
    if s.scalar(0) is not D.INT32:
        s.reject(f"the diagonal is INT32, got {s.scalar(0)}", "pl.cast(<diagonal>, pl.INT32)", TypeError)
    t = TileType(dims, dtype, None, None, _VEC)
    if len(s) < 3:
        return t
    valid = s.elements(2)
    valid_within(s, valid, t.shape)
    layout = t.layout
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(dims, dtype, None, view, _VEC)


def _triangle_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    dtype = checked_dtype("tri", a["dtype"])
    valid = () if a["valid_shape"] is None else (MakeTuple(as_dims(a["valid_shape"])),)
    kwargs = {"dtype": dtype, **({"upper": True} if a["upper"] else {})}
    diagonal = number("tri", "diagonal", a["diagonal"], D.INT32)
    return ctx.op("tile.tri", (diagonal, MakeTuple(as_dims(a["shape"])), *valid), kwargs)


def checked_dtype(name: str, dtype: Any) -> DataType:
    """A keyword that must be a dtype."""
    if not isinstance(dtype, DataType):
        raise OpRejected(f"pl.{name}: dtype must be a dtype such as pl.INT32, got {dtype!r}", "dtype=pl.INT32", TypeError)
    return dtype


def number(name: str, what: str, value: Expr, dtype: DataType) -> Expr:
    """A whole number of the dtype; a run-time scalar must have it."""
    if not is_scalar(value):
        raise OpRejected(f"pl.{name}: '{what}' must be a number", f"pl.const(0, pl.{dtype.name})", TypeError)
    if isinstance(value, ConstInt) or value.type.dtype is dtype:  # type: ignore[attr-defined]
        return element_scalar(value, dtype)
    got = value.type.dtype  # type: ignore[attr-defined]
    raise OpRejected(f"pl.{name}: '{what}' must be {dtype}, got {got}", f"pl.cast(<{what}>, pl.{dtype.name})", TypeError)


# -- the table -----------------------------------------------------------------------------------------------------

_SEQUENCE_DOC = "start, start + 1, start + 2, … along the last axis (start, start - 1, … with descending=True); integers wrap"
_TRIANGLE_DOC = "1 where the column is at most row + diagonal (with upper=True: at least), else 0"
OPS: tuple[OpDef, ...] = (
    *_sequence_ops(),
    OpDef(
        "tile.tri",
        (Operand("diagonal", "scalar"), Operand("shape", "shape"), Operand("valid_shape", "shape", optional=True)),
        _triangle_type,
        Special("triangle"),
        effects=(R, R, R),
        attrs=(_DTYPE, Attr("upper", (bool,))),
        spaces=(None, None, None),
        out_space=_VEC,
        pto="ttri",
        dtypes=_ONES,
        doc=_TRIANGLE_DOC,
    ),
)
_SEQUENCE_PARAMS = (
    Param("start"),
    Param("shape", "shape"),
    Param("dtype", "attr", D.INT32),
    Param("descending", "attr", False),
)
_TRIANGLE_PARAMS = (
    Param("diagonal"),
    Param("shape", "shape"),
    Param("valid_shape", "shape", None),
    Param("dtype", "attr", D.INT32),
    Param("upper", "attr", False),
)
DSL: tuple[Dsl, ...] = (
    Dsl("arange", ("", "tensor"), _SEQUENCE_PARAMS, _sequence_build, _SEQUENCE_DOC),
    Dsl("ci", ("tensor", "tile"), _SEQUENCE_PARAMS, _sequence_build, _SEQUENCE_DOC),
    Dsl("tri", ("", "tile"), _TRIANGLE_PARAMS, _triangle_build, _TRIANGLE_DOC),
)
