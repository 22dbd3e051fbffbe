"""Bitwise operators and shifts of integers, in their forms on two tiles or tensors and on one with a scalar.

In: operands of one integer dtype.  Out: the same dtype.  A shift by less than 0, or by the width or more, shifts everything
out: 0 remains, or the sign bits to the right of a signed number.  `shr` is arithmetic for signed types, logical for others.
The language's names end with an underscore where Python has the word for itself.
"""

from __future__ import annotations

import keyword
from typing import Any

from pypto.dtypes import DataType
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple
from pypto.ir.lanes import Builder, Lane, LaneFunction
from pypto.ir.opdef import (
    FULL,
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
)
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops.rules import (
    VEC,
    D,
    R,
    binary_tensor_type,
    binary_tile_type,
    element_scalar,
    is_scalar,
    level_of,
    scalar_form_type,
    scratch_like,
    unary_type,
)
from pypto.ir.shaped import ShapedType
from pypto.ir.types import Type
from pypto.named import NamedTuple

__all__ = ["DSL", "OPS"]

_INTEGERS = (D.INT8, D.INT16, D.INT32, D.UINT8, D.UINT16, D.UINT32)
_SHIFTED = (D.INT16, D.INT32, D.UINT16, D.UINT32)
_SIXTEEN = (D.INT16, D.UINT16)
_SAMPLES = ((8, 64), (16, 96))


def _and(b: Builder, x: Lane, y: Lane) -> Lane:
    return x & y


def _or(b: Builder, x: Lane, y: Lane) -> Lane:
    return x | y


def _xor(b: Builder, x: Lane, y: Lane) -> Lane:
    return x ^ y


def _not(b: Builder, x: Lane) -> Lane:
    return ~x


def _shl(b: Builder, x: Lane, y: Lane) -> Lane:
    return x << y


def _shr(b: Builder, x: Lane, y: Lane) -> Lane:
    return x >> y


class Row(NamedTuple):
    """An operator of two operands; `<name>s` takes a scalar as the second."""

    name: str
    f: LaneFunction
    doc: str
    scalar_dtypes: tuple[DataType, ...] = _INTEGERS
    scratch: bool = False  # the instruction wants a tile for itself
    shifts: bool = False


ROWS = (
    Row("and", _and, "bits that are 1 in both"),
    Row("or", _or, "bits that are 1 in either"),
    Row("xor", _xor, "bits that differ", scratch=True),
    Row("shl", _shl, "lhs << rhs, bits shifted out are lost", _SHIFTED, shifts=True),
    Row("shr", _shr, "lhs >> rhs, arithmetic for signed types", _SHIFTED, shifts=True),
)


# -- the forms of a row --------------------------------------------------------------------------------------------


def _tensor_type(s: Site, row: Row, scalar: bool) -> Type:
    return scalar_form_type(s, row.scalar_dtypes) if scalar else binary_tensor_type(s, _INTEGERS)


def _tile_type(s: Site, row: Row, scalar: bool) -> Type:
    if row.scratch:
        scratch_like(s, 2)
    return scalar_form_type(s, row.scalar_dtypes) if scalar else binary_tile_type(s, _INTEGERS)


def _to_tile(name: str) -> Any:
    """The tile form with a scratch tile of its own."""

    def rule(lo: Lower, call: Call, args: tuple[Expr, ...]) -> Expr:
        x = lo.tile(args[0])
        y = args[1] if is_scalar(args[1]) else lo.tile(args[1])
        assert isinstance(x.type, ShapedType)
        tmp = lo.emit("tile.create", (MakeTuple(x.type.shape),), {"dtype": x.type.dtype}, "tmp")
        return lo.emit(f"tile.{name}", (x, y, tmp))

    return rule


def _ops(row: Row, scalar: bool) -> list[OpDef]:
    name, second = row.name + "s" * scalar, SCALAR if scalar else FULL
    dtypes = row.scalar_dtypes if scalar else _INTEGERS
    lane = fn.lanes(row.f)
    common: dict[str, Any] = {"dtypes": dtypes, "doc": row.doc, "samples": (Sample(_SAMPLES, dtypes),)}

    def operands(level: str) -> tuple[Operand, ...]:
        return Operand("lhs", level), Operand("scalar", "scalar") if scalar else Operand("rhs", level)

    tmp, unused = ((Operand("tmp", "tile"),), (UNUSED,)) if row.scratch else ((), ())
    return [
        OpDef(
            f"tensor.{name}",
            operands("tensor"),
            lambda s: _tensor_type(s, row, scalar),
            Lanewise((FULL, second), lane),
            effects=(R, R),
            to_tile=_to_tile(name) if row.scratch else None,
            **common,
        ),
        OpDef(
            f"tile.{name}",
            (*operands("tile"), *tmp),
            lambda s: _tile_type(s, row, scalar),
            Lanewise((FULL, second, *unused), lane),
            effects=(R, R, *(R,) * len(tmp)),
            spaces=(VEC, None if scalar else VEC, *(VEC,) * len(tmp)),
            out_space=VEC[0],
            in_place=not scalar or row.shifts,
            no_alias=(2,) if tmp else (),
            scratch=(2,) if tmp else (),
            pto=f"t{name}",
            **common,
        ),
    ]


def _not_ops() -> list[OpDef]:
    form = Lanewise((FULL,), fn.lanes(_not))
    common: dict[str, Any] = {"effects": (R,), "dtypes": _SIXTEEN, "doc": _NOT_DOC, "samples": (Sample(_SAMPLES, _SIXTEEN),)}
    tile: dict[str, Any] = {"spaces": (VEC,), "out_space": VEC[0], "pto": "tnot"}
    none: dict[str, Any] = {}
    return [
        OpDef(f"{level}.not", (Operand("x", level),), lambda s: unary_type(s, _SIXTEEN), form, **common, **extra)
        for level, extra in (("tensor", none), ("tile", tile))
    ]


# -- DSL -----------------------------------------------------------------------------------------------------------


def _spelled(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def _build(row: Row, ctx: DslContext, space: str, x: Expr, y: Expr, tmp: Expr | None, asked: str) -> Expr:
    scalar = is_scalar(y)
    name = row.name + "s" * scalar
    level = level_of(asked, space, (x,) if scalar else (x, y))
    rest: tuple[Expr, ...] = (_amount(row, asked, x, y) if scalar else y,)
    if level == "tensor" and tmp is not None:
        raise OpRejected(f"pl.{asked}: tmp is only for tiles", "leave tmp out: it is made for a tensor", TypeError)
    if level == "tile" and row.scratch:
        if tmp is None:
            hint = f"tmp = pl.create_tile(<shape of x>, dtype=pl.{x.type.dtype.name})"  # type: ignore[attr-defined]
            raise OpRejected(f"pl.{asked}: a tile operand needs tmp, a scratch tile of the same type", hint, TypeError)
        rest = (*rest, tmp)
    return ctx.op(f"{level}.{name}", (x, *rest))


def _amount(row: Row, asked: str, x: Expr, y: Expr) -> Expr:
    assert isinstance(x.type, ShapedType)
    if row.shifts and isinstance(y, ConstInt) and y.value < 0:
        other = "shr" if row.name == "shl" else "shl"
        raise OpRejected(f"pl.{asked}: the amount {y.value} is negative", f"shift the other way: pl.{other}s(x, {-y.value})")
    return element_scalar(y, x.type.dtype)


def _dsl(row: Row) -> list[Dsl]:
    tmp = (Param("tmp", "value", None),) if row.scratch else ()
    pair, single = _spelled(row.name), row.name + "s"

    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        return _build(row, ctx, space, a["lhs"], a["rhs"], a.get("tmp"), pair)

    def build_scalar(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        if not is_scalar(a["scalar"]):
            raise OpRejected(
                f"pl.{single}: the second operand must be a scalar", f"pl.{pair} takes two tiles or tensors", TypeError
            )
        return _build(row, ctx, space, a["x"], a["scalar"], a.get("tmp"), single)

    spaces = ("", "tensor", "tile")
    return [
        Dsl(pair, spaces, (Param("lhs"), Param("rhs"), *tmp), build, row.doc),
        Dsl(single, spaces, (Param("x"), Param("scalar"), *tmp), build_scalar, row.doc + "; the second operand is a scalar"),
    ]


def _not_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    return ctx.op(f"{level_of('not_', space, (a['x'],))}.not", (a["x"],))


_NOT_DOC = "every bit turned over"
OPS: tuple[OpDef, ...] = (*(op for row in ROWS for scalar in (False, True) for op in _ops(row, scalar)), *_not_ops())
DSL: tuple[Dsl, ...] = (
    *(d for row in ROWS for d in _dsl(row)),
    Dsl("not_", ("", "tensor", "tile"), (Param("x"),), _not_build, _NOT_DOC),
)
