"""Whole values in another order: transpose, concat, and views of tensors.

In: operand types.  Out: the result's type; its valid rectangle is what the operands' valid rectangles fill.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import TensorLayout
from pypto.ir import arith
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple
from pypto.ir.opdef import Attr, Dsl, DslContext, Lower, OpDef, Operand, OpRejected, Param, Site, Special
from pypto.ir.ops.memory import valid_within
from pypto.ir.ops.rules import MOVABLE, VEC, R, check_dtype, level_of, same_kind, scratch_like, shape_text
from pypto.ir.shaped import ShapedType, TensorType, TensorView, TileType, TileView, as_dims, is_less, same_dims
from pypto.ir.types import Type

__all__ = ["DSL", "OPS", "transposed_axes", "vector_tile"]


# -- transpose -----------------------------------------------------------------------------------------------------


def transposed_axes(c: Call) -> tuple[int, int]:
    """The two axes a transpose exchanges, counted from the front, the smaller first."""
    rank = len(c.args[0].type.shape)  # type: ignore[attr-defined]
    a, b = (e.value % rank for e in c.args[1:3] if isinstance(e, ConstInt))
    return (a, b) if a < b else (b, a)


def _axis(s: Site, i: int, rank: int) -> int:
    e = s.args[i]
    if not isinstance(e, ConstInt):
        s.reject("an axis of a transpose is a constant integer", "write the number of the axis", TypeError)
    if not -rank <= e.value < rank:
        s.reject(f"axis {e.value} is out of range for rank {rank}", f"axes run from 0 to {rank - 1}, or from -{rank} to -1")
    return e.value % rank


def _transpose(s: Site) -> Type:
    t = s.shaped(0)
    check_dtype(s, t.dtype, MOVABLE)
    rank = len(t.shape)
    if rank < 2:
        s.reject(f"exchanges two axes, the operand has rank {rank}", "pl.reshape(x, [1, n]) makes a matrix of a vector")
    a, b = _axis(s, 1, rank), _axis(s, 2, rank)
    if a == b:
        s.reject(f"the two axes are both {a}", "name two different axes: pl.transpose(x, 0, 1)")
    shape, valid = _swapped(t.shape, a, b), _swapped(t.valid, a, b)
    if isinstance(t, TensorType):
        return TensorType(shape, t.dtype, None, TensorView(valid_shape=valid))
    if len(s) > 3:
        scratch_like(s, 3, ", or leave it out")
    return vector_tile(shape, t, valid)


def _swapped(dims: tuple[Expr, ...], a: int, b: int) -> tuple[Expr, ...]:
    out = list(dims)
    out[a], out[b] = out[b], out[a]
    return tuple(out)


def vector_tile(shape: tuple[Expr, ...], like: ShapedType, valid: tuple[Expr, ...]) -> TileType:
    """A fresh vector tile with the layout that its shape implies."""
    layout = TileType(shape, like.dtype, None, None, VEC[0]).layout
    view = TileView(valid, blayout=layout.blayout, slayout=layout.slayout, fractal=layout.fractal)
    return TileType(shape, like.dtype, None, view, VEC[0])


def _transpose_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    return lo.emit("tile.transpose", (lo.tile(args[0]), args[1], args[2]))


# -- concat --------------------------------------------------------------------------------------------------------


def _concat(s: Site) -> Type:
    a, b = s.shaped(0), s.shaped(1)
    check_dtype(s, a.dtype, MOVABLE)
    same_kind(s, a, b)
    if len(a.shape) != 2 or len(b.shape) != 2:
        s.reject(
            f"joins matrices, got {shape_text(a.shape)} and {shape_text(b.shape)}", "pl.reshape the operands to [rows, cols]"
        )
    if not arith.same(a.shape[0], b.shape[0]):
        s.reject(
            f"operands differ in rows: {shape_text(a.shape)} and {shape_text(b.shape)}",
            "slice one of them: the columns of the second follow those of the first, row by row",
        )
    if is_less(b.valid[0], a.valid[0]):
        s.reject(
            f"operands differ in valid shape: {shape_text(a.valid)} and {shape_text(b.valid)}",
            "narrow the first operand with pl.set_validshape: rows outside the second's valid region are undefined",
        )
    shape = (a.shape[0], arith.add(a.shape[1], b.shape[1]))
    valid = (a.valid[0], arith.add(a.valid[1], b.valid[1]))
    if isinstance(a, TensorType):
        return TensorType(shape, a.dtype, None, TensorView(valid_shape=valid))
    return vector_tile(shape, a, valid)


# -- views of tensors ----------------------------------------------------------------------------------------------


def _view(s: Site) -> Type:
    t = s.tensor(0)
    given = s.elements(1)
    shape = given or t.shape
    layout: TensorLayout = s.kwargs.get("layout", TensorLayout.ND)
    if layout is not TensorLayout.ND:
        s.reject(f"a view in the layout {layout.name} is not available", "pl.transpose exchanges two axes of a tensor")
    if not arith.same(arith.product(t.shape), arith.product(shape)):
        s.reject(
            f"cannot view {shape_text(t.shape)} as {shape_text(shape)}: the element counts differ",
            "take a part of the tensor with pl.slice",
        )
    valid = shape
    if len(s) > 2 and s.elements(2):
        if not given:
            s.reject("valid_shape is given without shape", "pass the shape too, or use pl.set_validshape")
        valid = s.elements(2)
        valid_within(s, valid, shape)
    elif not same_dims(t.valid, t.shape):
        if given:
            s.reject("only fully valid data can be viewed under another shape", "say with valid_shape how much of it is data")
        valid = t.valid
    return TensorType(shape, t.dtype, None, TensorView(valid_shape=valid))


def _view_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    """The whole tensor, loaded and relabelled."""
    t = call.type
    assert isinstance(t, TensorType)
    made = lo.tile(args[0])
    if not same_dims(made.type.shape, t.shape):  # type: ignore[attr-defined]
        made = lo.emit("tile.reshape", (made, MakeTuple(t.shape)))
    if len(call.args) > 2 and len(t.shape) == 2:
        made = lo.emit("tile.set_validshape", (made, *t.valid))
    return made


# -- the table -----------------------------------------------------------------------------------------------------

_AXES = (Operand("axis1", "scalar"), Operand("axis2", "scalar"))
_TRANSPOSE, _CONCAT = "a copy with two axes exchanged", "the valid columns of b right behind those of a"
OPS: tuple[OpDef, ...] = (
    OpDef(
        "tensor.transpose",
        (Operand("x", "tensor"), *_AXES),
        _transpose,
        Special("transpose"),
        effects=(R, R, R),
        to_tile=_transpose_to_tile,
        dtypes=MOVABLE,
        doc=_TRANSPOSE,
    ),
    OpDef(
        "tile.transpose",
        (Operand("x", "tile"), *_AXES, Operand("tmp", "tile", optional=True)),
        _transpose,
        Special("transpose"),
        effects=(R, R, R, R),
        spaces=(VEC, None, None, VEC),
        out_space=VEC[0],
        in_place=False,
        scratch=(3,),
        dtypes=MOVABLE,
        pto="ttrans",
        doc=_TRANSPOSE,
    ),
    *(
        OpDef(
            f"{level}.concat",
            (Operand("a", level), Operand("b", level)),
            _concat,
            Special("concat"),
            effects=(R, R),
            spaces=(VEC, VEC) if level == "tile" else None,
            out_space=VEC[0] if level == "tile" else None,
            in_place=False,
            dtypes=MOVABLE,
            pto="tconcat" if level == "tile" else "",
            doc=_CONCAT,
        )
        for level in ("tensor", "tile")
    ),
    OpDef(
        "tensor.view",
        (Operand("x", "tensor"), Operand("shape", "shape"), Operand("valid_shape", "shape", optional=True)),
        _view,
        Special("view"),
        effects=(R, R, R),
        attrs=(Attr("layout", (TensorLayout,)),),
        to_tile=_view_to_tile,
        doc="the same elements in row-major order under another shape and valid shape",
    ),
)


# -- DSL -----------------------------------------------------------------------------------------------------------


def _transpose_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x, tmp = a["x"], a["tmp_tile"]
    level = level_of("transpose", space, (x,))
    if tmp is not None and level == "tensor":
        raise OpRejected("pl.transpose: tmp_tile is only for tiles", "leave tmp_tile out: it is made for a tensor", TypeError)
    axes = as_dims((a["axis1"], a["axis2"]))
    return ctx.op(f"{level}.transpose", (x, *axes, *(() if tmp is None else (tmp,))))


def _concat_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("concat", space, (a["a"], a["b"]))
    return ctx.op(f"{level}.concat", (a["a"], a["b"]))


def _view_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    shape, valid, layout = a["shape"], a["valid_shape"], a["layout"]
    if shape is None and layout is None:
        raise OpRejected("pl.tensor.view: neither shape nor layout is given", "pl.tensor.view(x, [rows, cols])", TypeError)
    if valid is not None and shape is None:
        raise OpRejected("pl.tensor.view: valid_shape is given without shape", "pass the shape too", TypeError)
    rest = () if valid is None else (MakeTuple(as_dims(valid)),)
    kwargs = {} if layout is None else {"layout": layout}
    return ctx.op("tensor.view", (a["x"], MakeTuple(as_dims(shape or ())), *rest), kwargs)


DSL: tuple[Dsl, ...] = (
    Dsl(
        "transpose",
        ("", "tensor", "tile"),
        (Param("x"), Param("axis1", "index"), Param("axis2", "index"), Param("tmp_tile", "value", None)),
        _transpose_build,
        _TRANSPOSE,
    ),
    Dsl("concat", ("", "tensor", "tile"), (Param("a"), Param("b")), _concat_build, _CONCAT),
    Dsl(
        "view",
        ("tensor",),
        (
            Param("x"),
            Param("shape", "shape", None),
            Param("valid_shape", "shape", None),
            Param("layout", "attr", None, True),
        ),
        _view_build,
        "another shape of the same tensor",
    ),
)
