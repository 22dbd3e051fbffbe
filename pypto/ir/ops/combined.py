"""Elementwise operators beside the plain table: of three operands, over parts, or with a scratch tile.

addc subc addsc subsc    a + b + c and a - b - c, the second operand a scalar in the last two
prelu                    a slope per element
rem rems                 Python's remainder
rsqrt                    1 / sqrt(x); a scratch tile asks for the precise instruction, here the same number
part_add mul max min     both operands where both are valid, the first one elsewhere
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.dtypes import DataType
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple
from pypto.ir.lanes import LaneFunction
from pypto.ir.opdef import (
    FULL,
    PART,
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
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops.rules import (
    ARITH,
    FLOATS,
    VEC,
    D,
    R,
    check_dtype,
    element_scalar,
    is_scalar,
    level_of,
    same_kind,
    same_tiles,
    scalar_form_type,
    scratch_like,
    shape_text,
    tensor_result,
    tile_result,
    unary_type,
)
from pypto.ir.shaped import ShapedType, TensorType, TileType, same_dims
from pypto.ir.types import Type
from pypto.named import NamedTuple

__all__ = ["DSL", "OPS"]

_SHAPES = ((8, 64), (16, 48))
_REM = (D.FP32, D.INT32)


def _as_needed(value: Expr, x: Expr) -> Expr:
    """A scalar in the element type of x."""
    if not isinstance(x.type, ShapedType):
        raise OpRejected("the first operand must be a tile", "put the tile first, and the number second", TypeError)
    return element_scalar(value, x.type.dtype)


# -- three operands, and remainders: tiles only ----------------------------------------------------------------------


class Form(NamedTuple):
    """A tile operator: its operands' names and patterns; the last UNUSED one is scratch."""

    name: str
    operands: tuple[tuple[str, str], ...]
    f: LaneFunction
    doc: str
    dtypes: tuple[DataType, ...]
    in_place: bool = True
    mask: bool = False  # the scratch tile holds a mask of bits


_XY = (("lhs", FULL), ("rhs", FULL))
_XS = (("lhs", FULL), ("scalar", SCALAR))
_C, _TMP = ("c", FULL), ("tmp", UNUSED)
FORMS = (
    Form("addc", (*_XY, _C), fn.addc, "lhs + rhs + c, from left to right", ARITH),
    Form("subc", (*_XY, _C), fn.subc, "lhs - rhs - c, from left to right", ARITH),
    Form("addsc", (*_XS, _C), fn.addc, "lhs + scalar + c, from left to right", ARITH),
    Form("subsc", (*_XS, _C), fn.subc, "lhs - scalar - c, from left to right", ARITH),
    Form("prelu", (("x", FULL), ("slope", FULL), _TMP), fn.prelu, "x where x > 0, else x * slope", FLOATS, False, True),
    Form("rem", (*_XY, _TMP), fn.floor_fmod, "Python's lhs % rhs, with the divisor's sign; an integer by 0 gives 0", _REM),
    Form("rems", (*_XS, _TMP), fn.floor_fmod, "Python's lhs % scalar, with the divisor's sign; an integer by 0 gives 0", _REM),
)


def _form_type(form: Form) -> Callable[[Site], Type]:
    def infer(s: Site) -> Type:
        x = s.tile(0)
        check_dtype(s, x.dtype, form.dtypes)
        for i, (_, pattern) in enumerate(form.operands[1:], 1):
            if pattern == FULL:
                same_tiles(s, x, s.tile(i))
            elif pattern == SCALAR:
                scalar_form_type(s, form.dtypes)
            elif not form.mask:
                scratch_like(s, i)
            elif s.tile(i).dtype is not D.UINT8:
                rows = shape_text(x.shape)
                s.reject(
                    f"the scratch tile holds a mask: UINT8, not {s.tile(i).dtype}", f"pl.create_tile({rows}, dtype=pl.UINT8)"
                )
        return tile_result(x)

    return infer


def _form_op(form: Form) -> OpDef:
    patterns = tuple(p for _, p in form.operands)
    scratch = tuple(i for i, p in enumerate(patterns) if p == UNUSED)
    return OpDef(
        f"tile.{form.name}",
        tuple(Operand(name, "scalar" if p == SCALAR else "tile") for name, p in form.operands),
        _form_type(form),
        Lanewise(patterns, fn.lanes(form.f)),
        effects=(R,) * len(patterns),
        spaces=tuple(None if p == SCALAR else VEC for p in patterns),
        out_space=VEC[0],
        in_place=form.in_place,
        no_alias=scratch,
        scratch=scratch,
        pto=f"t{form.name}",
        samples=(Sample(_SHAPES, form.dtypes),),
        dtypes=form.dtypes,
        doc=form.doc,
    )


def _form_dsl(form: Form) -> Dsl:
    names = tuple(name for name, _ in form.operands)

    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        x, y, z = (a[n] for n in names)
        if any(isinstance(v.type, TensorType) for v in (x, y, z)):
            hint = "load the tensors with pl.load; tensors as they are take the signs + - * and, of integers, %"
            raise OpRejected(f"pl.{form.name} takes tiles, got a tensor", hint, TypeError)
        level_of(form.name, space, (x, z))
        name = form.name
        if is_scalar(y) and form.operands[1][1] == FULL:
            if name not in ("addc", "subc", "rem"):
                raise OpRejected(f"pl.{name}: '{names[1]}' must be a tile", "pl.lrelu(x, slope) takes a number", TypeError)
            name = {"addc": "addsc", "subc": "subsc", "rem": "rems"}[name]
        elif not is_scalar(y) and form.operands[1][1] == SCALAR:
            other = {"addsc": "addc", "subsc": "subc", "rems": "rem"}[name]
            raise OpRejected(f"pl.{name}: the second operand must be a scalar", f"pl.{other} takes two tiles", TypeError)
        if name == "rems" and isinstance(y, ConstInt) and y.value == 0 and not x.type.dtype.is_float():
            raise OpRejected(f"pl.{form.name}: the divisor is 0", "a constant divisor must not be zero")
        return ctx.op(f"tile.{name}", (x, _as_needed(y, x) if is_scalar(y) else y, z))

    return Dsl(form.name, ("", "tile"), tuple(Param(n) for n in names), build, form.doc)


# -- rsqrt ---------------------------------------------------------------------------------------------------------

_RSQRT_DOC = "1 / sqrt(x), each step rounded; infinite at a zero, NaN below"


def _rsqrt_type(s: Site) -> Type:
    if len(s) > 1:
        scratch_like(s, 1)
    return unary_type(s, FLOATS)


def _rsqrt_to_tile(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
    x = lo.tile(args[0])
    assert isinstance(x.type, ShapedType)
    if not call.kwargs.get("high_precision"):
        return lo.emit("tile.rsqrt", (x,))
    return lo.emit("tile.rsqrt", (x, lo.emit("tile.create", (MakeTuple(x.type.shape),), {"dtype": x.type.dtype}, "tmp")))


def _rsqrt_ops() -> list[OpDef]:
    common: dict[str, Any] = {
        "in_place": False,
        "dtypes": FLOATS,
        "doc": _RSQRT_DOC,
        "samples": (Sample(_SHAPES, FLOATS),),
    }
    lane = fn.lanes(fn.rsqrt)
    return [
        OpDef(
            "tensor.rsqrt",
            (Operand("x", "tensor"),),
            _rsqrt_type,
            Lanewise((FULL,), lane),
            effects=(R,),
            attrs=(Attr("high_precision", (bool,)),),
            to_tile=_rsqrt_to_tile,
            **common,
        ),
        OpDef(
            "tile.rsqrt",
            (Operand("x", "tile"), Operand("tmp", "tile", optional=True)),
            _rsqrt_type,
            Lanewise((FULL, UNUSED), lane),
            effects=(R, R),
            spaces=(VEC, VEC),
            out_space=VEC[0],
            no_alias=(1,),
            scratch=(1,),
            pto="trsqrt",
            **common,
        ),
    ]


def _rsqrt_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x, tmp, precise = a["x"], a.get("tmp"), bool(a.get("high_precision"))
    level = level_of("rsqrt", space, (x,))
    if level == "tile" and precise:
        hint = "pass a scratch tile of x's type instead: pl.rsqrt(x, tmp=t)"
        raise OpRejected("pl.rsqrt: high_precision is only for tensors", hint, TypeError)
    if level == "tensor" and tmp is not None:
        raise OpRejected(
            "pl.rsqrt: tmp is only for tiles", "write high_precision=True: the scratch tile is made for a tensor", TypeError
        )
    kwargs = {"high_precision": True} if precise else {}
    return ctx.op(f"{level}.rsqrt", (x,) if tmp is None else (x, tmp), kwargs)


_X, _PRECISE, _SCRATCH = Param("x"), Param("high_precision", "attr", False), Param("tmp", "value", None)
_RSQRT_DSL = (("", (_X, _PRECISE, _SCRATCH)), ("tensor", (_X, _PRECISE)), ("tile", (_X, _SCRATCH)))

# -- in part -------------------------------------------------------------------------------------------------------

_PARTS = (
    ("add", fn.add, "the sum"),
    ("mul", fn.mul, "the product"),
    ("max", fn.maximum, "the larger (NaN if either is NaN)"),
    ("min", fn.minimum, "the smaller (NaN if either is NaN)"),
)
_PART_DOC = " where both operands are valid, src0's element elsewhere; valid as src0"


def _part_type(s: Site) -> Type:
    a, b = s.shaped(0), s.shaped(1)
    check_dtype(s, a.dtype, ARITH)
    same_kind(s, a, b)
    if not same_dims(a.shape, b.shape):
        hint = "give both the same shape; valid_shape says how much of each there is"
        s.reject(f"operands differ in shape: {shape_text(a.shape)} and {shape_text(b.shape)}", hint)
    return tile_result(a) if isinstance(a, TileType) else tensor_result(a.shape, a.dtype, a.valid)


def _part_ops(name: str, f: LaneFunction, doc: str) -> list[OpDef]:
    # Not on src1: src0 is copied before the two are combined.
    tile: dict[str, Any] = {"spaces": (VEC, VEC), "out_space": VEC[0], "no_alias": (1,), "pto": f"tpart{name}"}
    none: dict[str, Any] = {}
    return [
        OpDef(
            f"{level}.part_{name}",
            (Operand("src0", level), Operand("src1", level)),
            _part_type,
            Lanewise((FULL, PART), fn.lanes(f)),
            effects=(R, R),
            samples=(Sample(_SHAPES, ARITH),),
            dtypes=ARITH,
            doc=doc + _PART_DOC,
            **extra,
        )
        for level, extra in (("tensor", none), ("tile", tile))
    ]


def _part_dsl(name: str, doc: str) -> Dsl:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        x, y = a["src0"], a["src1"]
        level = level_of(f"part_{name}", space, (x, y))
        if is_scalar(x) or is_scalar(y):
            short = {"max": "maximums", "min": "minimums"}.get(name, f"{name}s")
            raise OpRejected(f"pl.part_{name}: takes two operands of one shape, got a scalar", f"pl.{short}(x, s)", TypeError)
        return ctx.op(f"{level}.part_{name}", (x, y))

    return Dsl(f"part_{name}", ("", "tensor", "tile"), (Param("src0"), Param("src1")), build, doc + _PART_DOC)


OPS: tuple[OpDef, ...] = (
    *map(_form_op, FORMS),
    *_rsqrt_ops(),
    *(op for name, f, doc in _PARTS for op in _part_ops(name, f, doc)),
)
DSL: tuple[Dsl, ...] = (
    *map(_form_dsl, FORMS),
    *(Dsl("rsqrt", (space,), params, _rsqrt_build, _RSQRT_DOC) for space, params in _RSQRT_DSL),
    *(_part_dsl(name, doc) for name, _, doc in _PARTS),
)
