"""Broadcasting a vector over a matrix, alone or fused with an operator.

`row_expand_*` takes one value per row ([M, 1]), `col_expand_*` one per column ([1, N]).
"""

from __future__ import annotations

from typing import Any

from pypto.dtypes import DataType
from pypto.enums import WriteChannel
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, MakeTuple, const_index
from pypto.ir.lanes import Builder, Lane, LaneFunction
from pypto.ir.opdef import (
    COL,
    FULL,
    ROW,
    SCALAR,
    UNUSED,
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
    Special,
)
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops import transcendental as tr
from pypto.ir.ops.rules import (
    ARITH,
    FLOATS,
    MOVABLE,
    VEC,
    R,
    W,
    cast_hint,
    check_dtype,
    element_scalar,
    level_of,
    same_kind,
    shape_text,
    tensor_result,
    tile_result,
    unified,
)
from pypto.ir.shaped import ShapedType, TensorType, TileType, is_less, same_dims
from pypto.ir.types import Type
from pypto.named import NamedTuple

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
    same_kind(s, x, v)
    if len(x.shape) < 2:
        s.reject(f"expands over a matrix, got {shape_text(x.shape)}", "pl.reshape it to [rows, cols] first")
    at = len(x.shape) - (1 if pattern == ROW else 2)
    want = (*x.shape[:at], const_index(1), *x.shape[at + 1 :])
    if not same_dims(v.shape, want):
        s.reject(
            f"the vector must have shape {shape_text(want)}, got {shape_text(v.shape)}", _remedy(v.shape, x.shape, want, pattern)
        )
    for i, (a, b) in enumerate(zip(x.valid, v.valid, strict=True)):
        if i != at and is_less(b, a):
            hint = "narrow the matrix with pl.set_validshape: elements outside the vector's valid region are undefined"
            s.reject(f"the vector is valid for {shape_text(v.valid)} only, the matrix for {shape_text(x.valid)}", hint)
    return tile_result(x) if isinstance(x, TileType) else tensor_result(x.shape, x.dtype, x.valid)


def _remedy(v: tuple[Expr, ...], x: tuple[Expr, ...], want: tuple[Expr, ...], pattern: str) -> str:
    """What to write for a vector of another shape: only what has as many elements can be reshaped."""
    if arith.is_const(arith.product(v), 1):
        return f"use the number itself, pl.read(v, [{', '.join('0' for _ in v)}]), with the operator on a matrix and a number"
    across = (*x[:-2], const_index(1), x[-1]) if pattern == ROW else (*x[:-1], const_index(1))
    if same_dims(v, across):
        return f"expand it along the other axis with pl.{'col' if pattern == ROW else 'row'}_expand"
    if arith.same(arith.product(v), arith.product(want)):
        return f"pl.reshape the vector to {shape_text(want)}"
    return f"take a vector with one value for each {'row' if pattern == ROW else 'column'} of the matrix"


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


# -- expand_clone: into global memory ------------------------------------------------------------------------------


def _repeated_axis(s: Site) -> int:
    """The one axis along which the source is repeated."""
    x, t = s.tensor(0), s.tensor(1)
    if x.dtype is not t.dtype:
        s.reject(f"operands differ in dtype: {x.dtype} and {t.dtype}", "convert the source with pl.cast", TypeError)
    if len(x.shape) != 3 or len(t.shape) != 3:
        hint = "pl.reshape both to three dimensions; a matrix is expanded with pl.row_expand and pl.col_expand"
        s.reject(f"takes tensors of rank 3, got {shape_text(x.shape)} and {shape_text(t.shape)}", hint)
    axes = [i for i, (a, b) in enumerate(zip(x.shape, t.shape, strict=True)) if not arith.same(a, b)]
    if len(axes) != 1 or not arith.is_const(x.shape[axes[0]], 1):
        hint = "give both one shape but for one axis, along which the source has extent 1"
        s.reject(f"does not repeat {shape_text(x.shape)} to {shape_text(t.shape)}", hint)
    return axes[0]


def _clone_type(s: Site) -> Type:
    _repeated_axis(s)
    return s.tensor(1)


def _clone_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """The source loaded once, and stored for each index along the axis."""
    x, target = args
    if not lo.is_tensor(target):
        hint = "write into a parameter, or into a tensor that was made outside the kernel"
        raise OpRejected("the target is a value, not a tensor in global memory", hint)
    axis = _repeated_axis(Site(call.op.name, call.args, call.kwargs, call.span))
    assert isinstance(target.type, TensorType)
    tile = lo.tile(x)

    def stored(i: Expr, held: Expr) -> Expr:
        offsets = MakeTuple(i if k == axis else const_index(0) for k in range(3))
        return lo.emit("tile.store", (tile, offsets, held))

    return lo.loop(target.type.shape[axis], target, stored)


_CLONE_DOC = "the source repeated along the axis where its extent is 1, written into the target"
_CLONE = OpDef(
    "tensor.expand_clone",
    (Operand("src", "tensor"), Operand("target", "tensor")),
    _clone_type,
    Special("clone"),
    effects=(R, W),
    channel=WriteChannel.Dma,
    reuses=1,
    to_tile=_clone_to_tile,
    dtypes=MOVABLE,
    doc=_CLONE_DOC,
)


def _clone_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    if level_of("expand_clone", "", (a["src"], a["target"])) == "tile":
        raise OpRejected("pl.expand_clone takes tensors, got a tile", "pl.row_expand and pl.col_expand repeat a tile", TypeError)
    return ctx.op("tensor.expand_clone", (a["src"], a["target"]))


OPS: tuple[OpDef, ...] = (*(op for row in ROWS for axis, p in _AXES for op in _ops(row, axis, p)), *_expands_ops(), _CLONE)
DSL: tuple[Dsl, ...] = (
    *(_dsl(row, axis) for row in ROWS for axis, _ in _AXES),
    Dsl("expand_clone", ("", "tensor"), (Param("src"), Param("target")), _clone_build, _CLONE_DOC),
    Dsl("expands", ("", "tensor", "tile"), (Param("target"), Param("scalar")), _expands_build, _EXPANDS_DOC),
)
