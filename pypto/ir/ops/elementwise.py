"""Elementwise arithmetic: one row per operator gives its tensor, tile, scalar and buffer forms.

A row says the scalar function, the element types, the instruction, and where the buffer form is used by default;
shapes, valid rectangles, effects, DSL entries and tests follow from the family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.arith import product
from pypto.ir.expr import Call, Expr, const_index
from pypto.ir.lanes import LaneFunction
from pypto.ir.opdef import (
    FULL,
    SCALAR,
    Attr,
    BufferRecipe,
    Dsl,
    DslContext,
    Lanewise,
    Lower,
    OpDef,
    Operand,
    OpRejected,
    Param,
    Sample,
)
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops import transcendental as tr
from pypto.ir.ops.buffer_rules import elementwise_buffer
from pypto.ir.ops.rules import (
    ARITH,
    FLOATS,
    VEC,
    D,
    R,
    binary_tensor_type,
    binary_tile_type,
    dim_text,
    element_scalar,
    is_scalar,
    level_of,
    scalar_form_type,
    shape_text,
    unary_type,
    unified,
)
from pypto.ir.shaped import TensorType, const_dim, same_dims
from pypto.named import NamedTuple

__all__ = ["DSL", "OPS"]

_PRECISE = (Attr("high_precision", (bool,)),)
_F32 = (D.FP32,)
_WIDE = (D.FP32, D.FP16, D.INT32)


class Binary(NamedTuple):
    """A row: operator on two tiles or tensors, and its form with a scalar second operand."""

    name: str
    f: LaneFunction
    pto: str
    doc: str
    dtypes: tuple[DataType, ...] = ARITH
    buffer: tuple[DataType, ...] = ()  # element types whose kernels use the buffer form by default
    scalar: str = ""  # name of the scalar form
    scalar_buffer: tuple[DataType, ...] = ()
    scalar_dtypes: tuple[DataType, ...] | None = None
    expand: str = ""  # suffix of the row/col_expand operators that a [M, 1] or [1, N] operand turns into
    in_place: bool = True
    precise: bool = False
    commutes: bool = False  # but for the sign of a zero, which is that of the matrix's element first


class Unary(NamedTuple):
    """A row: operator on one tile or tensor."""

    name: str
    f: LaneFunction
    pto: str
    doc: str
    dtypes: tuple[DataType, ...] = FLOATS
    buffer: tuple[DataType, ...] = ()
    in_place: bool = True
    precise: bool = False
    half: LaneFunction | None = None  # what halves compute instead, before the one rounding


BINARY = (
    Binary("add", fn.add, "tadd", "lhs + rhs; integers wrap", ARITH, _WIDE, "adds", _F32, expand="add", commutes=True),
    Binary("sub", fn.sub, "tsub", "lhs - rhs; integers wrap", ARITH, _F32, "subs", _F32, expand="sub"),
    Binary("mul", fn.mul, "tmul", "lhs * rhs; integers wrap", ARITH, _WIDE, "muls", _F32, expand="mul", commutes=True),
    Binary(
        "div",
        fn.div,
        "tdiv",
        "lhs / rhs; IEEE for floats; integers truncate toward zero, x / 0 is 0 and MIN / -1 is MIN",
        ARITH,
        _F32,
        "divs",
        _F32,
        expand="div",
        precise=True,
    ),
    Binary(
        "maximum",
        fn.maximum,
        "tmax",
        "the larger element; NaN if either is NaN",
        ARITH,
        _F32,
        "maximums",
        _F32,
        expand="max",
        commutes=True,
    ),
    Binary(
        "minimum",
        fn.minimum,
        "tmin",
        "the smaller element; NaN if either is NaN",
        ARITH,
        _F32,
        "minimums",
        _F32,
        expand="min",
        commutes=True,
    ),
    Binary(
        "fmod",
        fn.fmod,
        "tfmod",
        "remainder of the quotient rounded toward zero, exact: the sign is lhs's; NaN for a divisor 0 and an infinite lhs",
        _F32,
        (),
        "fmods",
        in_place=False,
    ),
    Binary("floordiv", fn.floordiv, "", "quotient rounded down; x // 0 is 0", (D.INT32, D.INT16), (), "floordivs"),
    Binary("mod", fn.mod, "", "remainder with the divisor's sign; x % 0 is 0", (D.INT32, D.INT16), (), "mods"),
)

UNARY = (
    Unary("abs", fn.absolute, "tabs", "|x|", FLOATS, _F32),
    Unary("neg", fn.neg, "tneg", "-x; integers wrap", ARITH, _F32),
    Unary("exp", tr.exp, "texp", "e ** x", FLOATS, _F32, half=tr.exp_odd),
    Unary("log", tr.log, "tlog", "natural logarithm; NaN below 0, -inf at 0", FLOATS, _F32, precise=True, half=tr.log_odd),
    Unary("sqrt", fn.sqrt, "tsqrt", "square root; NaN below 0", FLOATS, _F32),
    Unary("recip", fn.recip, "trecip", "1 / x", FLOATS, _F32, in_place=False, precise=True),
    Unary("relu", fn.relu, "trelu", "max(x, 0); NaN stays NaN", (D.FP32, D.FP16, D.INT32), _F32),
)

_SAMPLE_SHAPES = ((8, 64), (16, 48))


# -- building the forms of a row -----------------------------------------------------------------------------------


def _binary_ops(row: Binary) -> list[OpDef]:
    lane = fn.lanes(row.f)
    attrs = _PRECISE if row.precise else ()
    samples = (Sample(_SAMPLE_SHAPES, row.dtypes),)
    common: dict[str, Any] = {"in_place": row.in_place, "dtypes": row.dtypes, "doc": row.doc, "samples": samples}
    pair = Lanewise((FULL, FULL), lane)
    out = [
        OpDef(
            f"tensor.{row.name}",
            (Operand("lhs", "tensor"), Operand("rhs", "tensor")),
            lambda s: binary_tensor_type(s, row.dtypes),
            pair,
            effects=(R, R),
            attrs=attrs,
            to_tile=_binary_to_tile(row),
            **common,
        ),
        OpDef(
            f"tile.{row.name}",
            (Operand("lhs", "tile"), Operand("rhs", "tile")),
            lambda s: binary_tile_type(s, row.dtypes),
            pair,
            effects=(R, R),
            attrs=attrs,
            spaces=(VEC, VEC),
            out_space=VEC[0],
            pto=row.pto,
            buffer=BufferRecipe(row.name, frozenset(row.buffer)) if row.buffer else None,
            **common,
        ),
    ]
    if row.buffer:
        out.append(elementwise_buffer(row.name, pair, row.buffer, row.pto, attrs, row.in_place))
    if row.scalar:
        out += _scalar_ops(row, lane)
    return out


def _scalar_ops(row: Binary, lane: fn.Build) -> list[OpDef]:
    dtypes = row.scalar_dtypes or row.dtypes
    form = Lanewise((FULL, SCALAR), lane)
    pto = row.pto + "s" if row.pto else ""
    common: dict[str, Any] = {
        "effects": (R, R),
        "in_place": row.in_place,
        "dtypes": dtypes,
        "doc": row.doc + "; the second operand is a scalar",
        "samples": (Sample(_SAMPLE_SHAPES[:1], dtypes),),
    }
    tile: dict[str, Any] = {
        "spaces": (VEC, None),
        "out_space": VEC[0],
        "pto": pto,
        "buffer": BufferRecipe(row.scalar, frozenset(row.scalar_buffer)) if row.scalar_buffer else None,
    }
    none: dict[str, Any] = {}
    out = [
        OpDef(
            f"{level}.{row.scalar}",
            (Operand("x", level), Operand("scalar", "scalar")),
            lambda s: scalar_form_type(s, dtypes),
            form,
            **common,
            **extra,
        )
        for level, extra in (("tensor", none), ("tile", tile))
    ]
    if row.scalar_buffer:
        out.append(elementwise_buffer(row.scalar, form, row.scalar_buffer, pto, (), row.in_place))
    return out


def _unary_ops(row: Unary) -> list[OpDef]:
    form = Lanewise((FULL,), fn.lanes(row.f, row.half))
    attrs = _PRECISE if row.precise else ()
    common: dict[str, Any] = {
        "effects": (R,),
        "attrs": attrs,
        "in_place": row.in_place,
        "dtypes": row.dtypes,
        "doc": row.doc,
        "samples": (Sample(_SAMPLE_SHAPES, row.dtypes),),
    }
    out = [
        OpDef(f"tensor.{row.name}", (Operand("x", "tensor"),), lambda s: unary_type(s, row.dtypes), form, **common),
        OpDef(
            f"tile.{row.name}",
            (Operand("x", "tile"),),
            lambda s: unary_type(s, row.dtypes),
            form,
            spaces=(VEC,),
            out_space=VEC[0],
            pto=row.pto,
            buffer=BufferRecipe(row.name, frozenset(row.buffer)) if row.buffer else None,
            **common,
        ),
    ]
    if row.buffer:
        out.append(elementwise_buffer(row.name, form, row.buffer, row.pto, attrs, row.in_place))
    return out


def _binary_to_tile(row: Binary) -> Callable[[Lower, Call, tuple[Expr, ...]], Expr]:
    """Same name on tiles; a [M, 1] or [1, N] operand becomes the fused expand operator."""

    def rule(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
        a, b = call.args[0].type, call.args[1].type
        assert isinstance(a, TensorType)
        assert isinstance(b, TensorType)
        kind, swap = _vector_side(a, b)
        if not kind:
            if not same_dims(a.shape, b.shape):
                raise _no_broadcast(row.name, a, b)
            return lo.emit(f"tile.{row.name}", (lo.tile(args[0]), lo.tile(args[1])), call.kwargs)
        if not row.expand or (swap and not row.commutes):
            raise OpRejected(
                f"{row.name} cannot broadcast here: the matrix goes on the left, a [M, 1] or [1, N] vector on the right",
                "expand the vector with pl.row_expand or pl.col_expand first",
            )
        if call.kwargs.get("high_precision"):
            raise OpRejected("high_precision needs operands of one shape", "drop high_precision", TypeError)
        matrix, vector = (args[1], args[0]) if swap else (args[0], args[1])
        if not _is_vector_of(b if not swap else a, a if not swap else b, kind):
            raise _no_broadcast(row.name, a, b)
        return lo.emit(f"tile.{kind}_expand_{row.expand}", (lo.tile(matrix), lo.tile(vector)))

    return rule


def _vector_side(a: TensorType, b: TensorType) -> tuple[str, bool]:
    """("row" | "col" | "", whether the vector is the first operand): which broadcast two tensor shapes ask for."""
    for x, y, swap in ((a, b, False), (b, a, True)):
        m, n = x.shape, y.shape
        if len(m) != len(n) or len(m) < 2:
            continue
        last, rows = (const_dim(n[-1]), const_dim(m[-1])), (const_dim(n[-2]), const_dim(m[-2]))
        if last[0] == 1 and last[1] != 1:
            return "row", swap
        if rows[0] == 1 and rows[1] != 1:
            return "col", swap
    return "", False


def _is_vector_of(v: TensorType, m: TensorType, kind: str) -> bool:
    at = len(m.shape) - (1 if kind == "row" else 2)
    return same_dims(v.shape, (*m.shape[:at], const_index(1), *m.shape[at + 1 :]))


def _no_broadcast(name: str, a: TensorType, b: TensorType) -> OpRejected:
    """Shapes that numpy would broadcast and the chip does not: what the smaller operand should be."""
    small, large = (a, b) if len(a.shape) < len(b.shape) or arith.is_const(product(a.shape), 1) else (b, a)
    if arith.is_const(product(small.shape), 1):
        zeros = ", ".join("0" for _ in small.shape)
        hint = f"read the number of the {shape_text(small.shape)} tensor: pl.read(x, [{zeros}])"
    elif len(small.shape) == 1 and len(large.shape) == 2:
        hint = f"make the vector a row, pl.reshape(x, [1, {dim_text(small.shape[0])}]), and put it on the right"
    else:
        hint = "a matrix [M, N] takes a matrix of its shape, a column [M, 1], a row [1, N] or a number on its right"
    return OpRejected(f"pl.{name} does not broadcast {shape_text(a.shape)} with {shape_text(b.shape)}", hint)


# -- DSL -----------------------------------------------------------------------------------------------------------


def _binary_dsl(row: Binary) -> list[Dsl]:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        x, y = a["lhs"], a["rhs"]
        precise = {"high_precision": True} if a.get("high_precision") else {}
        if isinstance(x.type, TensorType) and isinstance(y.type, TensorType) and row.commutes and _vector_side(x.type, y.type)[1]:
            x, y = y, x  # as the expand operator will take them
        if not is_scalar(y):
            return unified(ctx, space, row.name, x, (y,), precise)
        if precise:
            raise OpRejected(f"pl.{row.name}: high_precision needs a tensor or tile divisor", "drop high_precision", TypeError)
        if is_scalar(x):
            extremum = f"use pl.{row.name[:3]}" if row.name in ("maximum", "minimum") else "use the Python operator"
            raise OpRejected(f"pl.{row.name}: expected Tensor or Tile operands, got two scalars", extremum, TypeError)
        return _scalar_call(ctx, space, row, x, y)

    params = (Param("lhs"), Param("rhs"), *((Param("high_precision", "attr", False),) if row.precise else ()))
    out = [Dsl(row.name, ("", "tensor", "tile"), params, build, row.doc)]
    if row.scalar:

        def build_scalar(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
            return _scalar_call(ctx, space, row, a["x"], a["scalar"])

        out.append(Dsl(row.scalar, ("", "tensor", "tile"), (Param("x"), Param("scalar")), build_scalar, row.doc))
    return out


def _scalar_call(ctx: DslContext, space: str, row: Binary, x: Expr, scalar: Expr) -> Expr:
    level = level_of(row.scalar, space, (x,))
    return ctx.op(f"{level}.{row.scalar}", (x, element_scalar(scalar, x.type.dtype)))  # type: ignore[attr-defined]


def _unary_dsl(row: Unary) -> Dsl:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        precise = {"high_precision": True} if a.get("high_precision") else {}
        return unified(ctx, space, row.name, a["x"], (), precise)

    params = (Param("x"), *((Param("high_precision", "attr", False),) if row.precise else ()))
    return Dsl(row.name, ("", "tensor", "tile"), params, build, row.doc)


# -- lrelu: a unary operator with a scalar setting -------------------------------------------------------------------

_LRELU = Lanewise((FULL, SCALAR), fn.lanes(fn.lrelu))


def _lrelu_ops() -> list[OpDef]:
    doc = "x where x > 0, else x * slope"
    common: dict[str, Any] = {"effects": (R, R), "dtypes": FLOATS, "doc": doc, "samples": (Sample(_SAMPLE_SHAPES[:1], FLOATS),)}

    def operands(level: str) -> tuple[Operand, ...]:
        return Operand("x", level), Operand("slope", "scalar")

    return [
        OpDef("tensor.lrelu", operands("tensor"), lambda s: scalar_form_type(s, FLOATS), _LRELU, **common),
        OpDef(
            "tile.lrelu",
            operands("tile"),
            lambda s: scalar_form_type(s, FLOATS),
            _LRELU,
            spaces=(VEC, None),
            out_space=VEC[0],
            pto="tlrelu",
            buffer=BufferRecipe("lrelu", frozenset(_F32)),
            **common,
        ),
        elementwise_buffer("lrelu", _LRELU, _F32, "tlrelu", (), True),
    ]


def _lrelu_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    level = level_of("lrelu", space, (a["x"],))
    return ctx.op(f"{level}.lrelu", (a["x"], element_scalar(a["slope"], a["x"].type.dtype)))


OPS: tuple[OpDef, ...] = (
    *(op for row in BINARY for op in _binary_ops(row)),
    *(op for row in UNARY for op in _unary_ops(row)),
    *_lrelu_ops(),
)
DSL: tuple[Dsl, ...] = (
    *(d for row in BINARY for d in _binary_dsl(row)),
    *(_unary_dsl(row) for row in UNARY),
    Dsl("lrelu", ("", "tensor", "tile"), (Param("x"), Param("slope")), _lrelu_build, "x where x > 0, else x * slope"),
)
