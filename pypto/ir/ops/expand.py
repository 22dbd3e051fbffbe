"""Broadcasting a vector over a matrix, alone or fused with an operator.

`row_expand_*` takes one value per row ([M, 1]), `col_expand_*` one per column ([1, N]).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pypto.dtypes import DataType
from pypto.ir.expr import Expr, const_index
from pypto.ir.lanes import Builder, Lane, LaneFunction
from pypto.ir.opdef import COL, FULL, ROW, SCALAR, UNUSED, Dsl, DslContext, Lanewise, OpDef, Operand, Param, Sample, Site
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops import transcendental as tr
from pypto.ir.ops.rules import (
    ARITH,
    FLOATS,
    MOVABLE,
    VEC,
    R,
    cast_hint,
    check_dtype,
    element_scalar,
    level_of,
    shape_text,
    tensor_result,
    tile_result,
    unified,
)
from pypto.ir.shaped import ShapedType, TileType, const_dim, same_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS"]


class Row(NamedTuple):
    """A fused operator `f(element, vector value)`; without f, the vector value itself."""

    suffix: str
    f: LaneFunction | None
    doc: str
    dtypes: tuple[DataType, ...] = ARITH


def _expdif(b: Builder, x: Lane, v: Lane) -> Lane:
    return tr.exp(b, x - v)


ROWS = (
    Row("", None, "the vector repeated to the target's shape", MOVABLE),
    Row("_add", fn.add, "x + v"),
    Row("_sub", fn.sub, "x - v"),
    Row("_mul", fn.mul, "x * v"),
    Row("_div", fn.div, "x / v", FLOATS),
    Row("_max", fn.maximum, "the larger of x and v; NaN if either is NaN"),
    Row("_min", fn.minimum, "the smaller of x and v; NaN if either is NaN"),
    Row("_expdif", _expdif, "exp(x - v)", FLOATS),
)
_AXES = (("row", ROW), ("col", COL))


def _infer(s: Site, pattern: str, dtypes: tuple[DataType, ...]) -> Type:
    x, v = s.shaped(0), s.shaped(1)
    check_dtype(s, x.dtype, dtypes)
    if type(x) is not type(v):
        s.reject("cannot mix a tensor and a tile", "load the tensor with pl.load, or use tensors throughout", TypeError)
    if v.dtype is not x.dtype:
        s.reject(f"operands differ in dtype: {x.dtype} and {v.dtype}", "convert one with pl.cast", TypeError)
    if len(x.shape) < 2:
        s.reject(f"expands over a matrix, got {shape_text(x.shape)}", "pl.reshape it to [rows, cols] first")
    at = len(x.shape) - (1 if pattern == ROW else 2)
    want = (*x.shape[:at], const_index(1), *x.shape[at + 1 :])
    if not same_dims(v.shape, want):
        other = "col" if pattern == ROW else "row"
        hint = f"pl.reshape the vector to {shape_text(want)}, or expand it along the other axis with pl.{other}_expand"
        s.reject(f"the vector must have shape {shape_text(want)}, got {shape_text(v.shape)}", hint)
    for i, (a, b) in enumerate(zip(x.valid, v.valid, strict=True)):
        m, n = const_dim(a), const_dim(b)
        if i != at and m is not None and n is not None and n < m:
            hint = "narrow the matrix with pl.set_validshape: elements outside the vector's valid region are undefined"
            s.reject(f"the vector is valid for {shape_text(v.valid)} only, the matrix for {shape_text(x.valid)}", hint)
    return tile_result(x) if isinstance(x, TileType) else tensor_result(x.shape, x.dtype, x.valid)


def _ops(row: Row, axis: str, pattern: str) -> list[OpDef]:
    name = f"{axis}_expand{row.suffix}"

    def operands(level: str) -> tuple[Operand, ...]:
        return Operand("x", level), Operand("v", level)

    form = Lanewise((FULL if row.f is not None else UNUSED, pattern), fn.lanes(row.f if row.f is not None else fn.copy))
    common: dict[str, Any] = {"dtypes": row.dtypes, "doc": row.doc, "samples": (Sample(((8, 64), (16, 48)), row.dtypes),)}
    tmp = (Operand("tmp", "tile", optional=True),) if name == "row_expand_add" else ()
    tile_form = form._replace(patterns=(*form.patterns, UNUSED)) if tmp else form
    return [
        OpDef(
            f"tensor.{name}",
            operands("tensor"),
            lambda s: _infer(s, pattern, row.dtypes),
            form,
            effects=(R, R),
            **common,
        ),
        OpDef(
            f"tile.{name}",
            (*operands("tile"), *tmp),
            lambda s: _infer(s, pattern, row.dtypes),
            tile_form,
            effects=(R,) * (2 + len(tmp)),
            spaces=(VEC,) * (2 + len(tmp)),
            out_space=VEC[0],
            no_alias=(1, 2) if tmp else (1,),
            scratch=(2,) if tmp else (),
            pto=f"t{axis}expand{row.suffix.replace('_', '')}",
            **common,
        ),
    ]


def _dsl(row: Row, axis: str) -> Dsl:
    name = f"{axis}_expand{row.suffix}"

    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        rest = (a["v"],) if a.get("tmp") is None else (a["v"], a["tmp"])
        return unified(ctx, space, name, a["x"], rest)

    tmp = (Param("tmp", "value", None),) if name == "row_expand_add" else ()
    return Dsl(name, ("", "tensor", "tile"), (Param("x"), Param("v"), *tmp), build, row.doc)


def _expands_type(s: Site) -> Type:
    t = s.shaped(0)
    check_dtype(s, t.dtype, MOVABLE)
    if s.scalar(1) is not t.dtype:
        s.reject(f"the scalar is {s.scalar(1)}, the elements are {t.dtype}", cast_hint(t.dtype), TypeError)
    return tile_result(t) if isinstance(t, TileType) else tensor_result(t.shape, t.dtype, t.valid)


_EXPANDS = Lanewise((UNUSED, SCALAR), fn.lanes(fn.copy))
_EXPANDS_DOC = "the scalar in every valid element of the target's shape"


def _expands_ops() -> list[OpDef]:
    common: dict[str, Any] = {"effects": (R, R), "dtypes": MOVABLE, "doc": _EXPANDS_DOC}
    return [
        OpDef("tensor.expands", (Operand("target", "tensor"), Operand("scalar", "scalar")), _expands_type, _EXPANDS, **common),
        OpDef(
            "tile.expands",
            (Operand("target", "tile"), Operand("scalar", "scalar")),
            _expands_type,
            _EXPANDS,
            spaces=(VEC, None),
            out_space=VEC[0],
            pto="texpands",
            **common,
        ),
    ]


def _expands_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    target = a["target"]
    level = level_of("expands", space, (target,))
    assert isinstance(target.type, ShapedType)
    return ctx.op(f"{level}.expands", (target, element_scalar(a["scalar"], target.type.dtype)))


OPS: tuple[OpDef, ...] = (*(op for row in ROWS for axis, p in _AXES for op in _ops(row, axis, p)), *_expands_ops())
DSL: tuple[Dsl, ...] = (
    *(_dsl(row, axis) for row in ROWS for axis, _ in _AXES),
    Dsl("expands", ("", "tensor", "tile"), (Param("target"), Param("scalar")), _expands_build, _EXPANDS_DOC),
)
