"""Conversion of elements: every rounding mode, saturation, and the native pairs of each target.

Modes by number: 0 none, 1 rint (half to even), 2 round (half away from zero), 3 floor, 4 ceil, 5 trunc, 6 odd (nearest,
ties to the odd integer).  Without a mode, float to integer rounds half away from zero and everything else to nearest
even; "none" truncates float to integer.  Float to integer saturates, NaN becomes 0.  Integer to integer keeps the low
bits; integer to float is nearest even whatever the mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType, nearest
from pypto.ir.expr import ConstBool, ConstFloat, ConstInt, Expr
from pypto.ir.lanes import Builder, Lane, LaneProgram, lane_type, program
from pypto.ir.opdef import FULL, Attr, Dsl, DslContext, Lanewise, OpDef, Operand, OpRejected, Param, Sample, Site
from pypto.ir.ops.rules import MOVABLE, VEC, R, check_dtype, is_scalar, level_of, unary_type
from pypto.ir.scalar import cast as scalar_cast
from pypto.ir.shaped import ShapedType
from pypto.ir.types import ScalarType, Type

__all__ = ["DSL", "MODES", "OPS", "cast_lanes", "convert", "scalar_cast_lanes"]

MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
_NONE, _RINT, _ROUND, _FLOOR, _CEIL, _TRUNC, _ODD = range(7)
_DEFAULT = -1  # no mode given


def cast_lanes(source: DataType, target: DataType, mode: int | None) -> LaneProgram:
    """The conversion of one element; `mode` None is the default of the pair."""
    return program(
        convert, (lane_type(source),), lane_type(target), lane_type(target), _DEFAULT if mode is None else mode, target.is_float()
    )


def scalar_cast_lanes(source: DataType, target: DataType) -> LaneProgram:
    """`pl.cast` of a scalar: float to integer truncates."""
    return cast_lanes(source, target, _TRUNC if source.is_float() and not target.is_float() else None)


def convert(b: Builder, x: Lane, target: str, mode: int, to_float: bool) -> Lane:
    """x as a lane of the type `target`; `mode` as in the list of modes."""
    from_float = x.type in ("f32", "f16", "bf16")
    if x.type == target:
        return x
    if not from_float:
        return _from_int(b, x, target)
    if not to_float:
        return _to_int(b, x.to("f32"), target, _ROUND if mode == _DEFAULT else mode)
    if target == "f32":
        return x.to("f32")
    wide = x.to("f32")
    if mode in (_DEFAULT, _RINT, _NONE):
        return wide.to(target)
    return _narrow_float(b, wide, target, mode)


def _from_int(b: Builder, x: Lane, target: str) -> Lane:
    if target == "b8":
        return x.ne(0).to("b8")
    if target in ("f16", "bf16"):
        # Integers up to 16 bits are exact in binary32.
        return x.to("f32").to(target) if x.type in ("i8", "u8", "i16", "u16") else _int_to_half(b, x, target)
    return x.to(target)


def _int_to_half(b: Builder, x: Lane, target: str) -> Lane:
    """Round an integer to binary32 toward zero with a sticky last bit, so that the second rounding is the only one."""
    if x.type in ("i64", "u64"):
        x = _fits_f64(b, x)
    f = x.to("f32")
    back = f.to("f64")
    exact = x.to("f64")
    inexact = back.ne(exact)
    bits = f.bits("i32")
    away = b.op("abs", back) > b.op("abs", exact)
    toward_zero = b.select(away, bits - 1, bits)
    sticky = b.select(inexact, toward_zero | 1, bits)
    return sticky.bits("f32").to(target)


def _fits_f64(b: Builder, x: Lane) -> Lane:
    """Where binary64 might not hold x: its low eleven bits folded into the one above them (rounding to odd)."""
    top = x >> 52
    small = top.eq(0) | top.eq(-1) if x.type == "i64" else top.eq(0)
    zero, sticky = b.const(0, x.type), b.const(0x800, x.type)
    folded = ((x >> 11) << 11) | b.select((x & 0x7FF).eq(0), zero, sticky)
    return b.select(small, x, folded)


def rounded(b: Builder, x: Lane, mode: int) -> Lane:
    """x to an integral value of its own float type."""
    if mode == _RINT:
        return b.op("rint", x)
    if mode == _FLOOR:
        return b.op("floor", x)
    if mode == _CEIL:
        return b.op("ceil", x)
    t = b.op("trunc", x)
    if mode in (_TRUNC, _NONE):
        return t
    # x - trunc(x) is exact, so the comparison with a half is too.
    fraction = b.op("abs", x - t)
    one = b.const(1.0, x.type)
    away = t + b.select(x < 0.0, -one, one)
    if mode == _ROUND:
        return b.select(fraction >= 0.5, away, t)
    odd = (t * 0.5).ne(b.op("trunc", t * 0.5))
    return b.select((fraction > 0.5) | (fraction.eq(0.5) & ~odd), away, t)


def _to_int(b: Builder, x: Lane, target: str, mode: int) -> Lane:
    """Round, saturate, NaN to 0."""
    if target == "b8":
        return x.ne(0.0).to("b8")
    signed, bits = target[0] == "i", int(target[1:])
    low = -(2.0 ** (bits - 1)) if signed else 0.0
    high = 2.0 ** (bits - 1) if signed else 2.0**bits  # first value above the range, exact in binary32
    r = rounded(b, x, mode)
    over, under = r >= high, r < low
    safe = b.select(over | under | x.is_nan(), b.const(0.0, "f32"), r)
    # The limits are put in where the number is 0: of a chain of choices C compilers make branches, and no vectors.
    n, zero = safe.to(target), b.const(0, target)
    if signed:
        n = n | b.select(under, b.const(int(low), target), zero)
    return n | b.select(over, b.const(int(high) - 1, target), zero)


def _narrow_float(b: Builder, x: Lane, target: str, mode: int) -> Lane:
    """Directed and half-away rounding to a half type: pick between the two neighbours of |x|."""
    near = x.to(target)
    back = near.to("f32")
    bits = near.bits("i16").to("i32")
    # The neighbour below in magnitude: one step down where nearest went up.
    magnitude = bits & 0x7FFF
    went_up = b.op("abs", back) > b.op("abs", x)
    down = b.select(went_up, magnitude - 1, magnitude)
    exact = back.eq(x)
    low = down.to("i16").bits(target).to("f32")
    up = b.select(exact, magnitude, down + 1)
    negative = x < 0.0
    if mode == _TRUNC:
        chosen = down
    elif mode == _FLOOR:
        chosen = b.select(negative, up, down)
    elif mode == _CEIL:
        chosen = b.select(negative, down, up)
    else:
        chosen = _half_away(b, x, low, down, up, target, mode)
    chosen = b.select(exact | x.is_nan(), magnitude, chosen)
    return (chosen | (bits & -0x8000)).to("i16").bits(target)


def _half_away(b: Builder, x: Lane, low: Lane, down: Lane, up: Lane, target: str, mode: int) -> Lane:
    """Nearest, ties away from zero (or to the odd pattern)."""
    high = (down + 1).to("i16").bits(target).to("f32")
    # Above the largest finite value the next step stands for the value one unit further.
    step = b.const(2.0**5 if target == "f16" else 2.0**120, "f32")
    top = b.const(65504.0 if target == "f16" else 3.3895313892515355e38, "f32")
    magnitude = b.op("abs", x)
    # Differences of neighbours are exact.
    to_low = magnitude - low
    to_high = b.select(low.eq(top), step - to_low, high - magnitude)
    tie = to_low.eq(to_high)
    prefer_up = (tie & (down & 1).eq(0)) if mode == _ODD else tie
    return b.select((to_low > to_high) | prefer_up, up, down)


# -- operators -----------------------------------------------------------------------------------------------------


def _build(inputs: tuple[DataType, ...], result: DataType, kwargs: Mapping[str, Any]) -> LaneProgram:
    return cast_lanes(inputs[0], result, kwargs.get("mode"))


def _infer(s: Site) -> Type:
    target = s.kwargs["target_type"]
    mode = s.kwargs.get("mode")
    if mode is not None and not 0 <= mode < len(MODES):
        s.reject(f"cast mode {mode} is not in the range 0 to {len(MODES) - 1}", f"modes: {', '.join(MODES)}")
    t = s.shaped(0)
    check_dtype(s, target, MOVABLE)
    if t.dtype is target:
        s.reject(f"same-dtype cast is not a valid operation ({target} to {target})", "drop the cast")
    return unary_type(s, MOVABLE, target)


_DOC = "elements converted to another type; see the rounding modes"
_ATTRS = (Attr("target_type", (DataType,), required=True), Attr("mode", (int,)))
_FORM = Lanewise((FULL,), _build)
_SAMPLES = (Sample(((8, 64),), MOVABLE),)
OPS: tuple[OpDef, ...] = (
    OpDef("tensor.cast", (Operand("x", "tensor"),), _infer, _FORM, effects=(R,), attrs=_ATTRS, doc=_DOC, samples=_SAMPLES),
    OpDef(
        "tile.cast",
        (Operand("x", "tile"),),
        _infer,
        _FORM,
        effects=(R,),
        attrs=_ATTRS,
        spaces=(VEC,),
        out_space=VEC[0],
        pto="tcvt",
        dtypes=MOVABLE,
        samples=_SAMPLES,
        doc=_DOC,
    ),
)


def mode_number(mode: Any) -> int | None:
    """A mode by name or number; None where none is given."""
    if mode is None:
        return None
    if isinstance(mode, str):
        if mode not in MODES:
            raise OpRejected(f"unknown cast mode '{mode}'", f"modes: {', '.join(MODES)}")
        return MODES.index(mode)
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise OpRejected(f"a cast mode is a name or a number, not {mode!r}", f"modes: {', '.join(MODES)}", TypeError)
    return mode


def _cast_build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
    x, target, mode = a["x"], a["target_type"], mode_number(a["mode"])
    if not isinstance(target, DataType):
        what = f"pl.cast: the target must be a dtype such as pl.FP16, got {target!r}"
        raise OpRejected(what, "pl.cast(x, pl.FP16)", TypeError)
    if is_scalar(x):
        if mode is not None:
            raise OpRejected("pl.cast: a scalar is cast in the default mode only", "leave mode out", TypeError)
        return _cast_scalar(x, target)
    level = level_of("cast", space, (x,))
    assert isinstance(x.type, ShapedType)
    return ctx.op(f"{level}.cast", (x,), {"target_type": target, **({} if mode is None else {"mode": mode})})


def _cast_scalar(x: Expr, target: DataType) -> Expr:
    if isinstance(x, ConstFloat) and target.is_float():
        return ConstFloat(nearest(x.value, target), target, x.span)  # what casts it again begins with the rounded value
    if isinstance(x.type, ScalarType) and x.type.dtype is target:
        return x
    if isinstance(x, ConstInt) and target.is_int():
        bits = target.get_bit()
        value = x.value & ((1 << bits) - 1)
        return ConstInt(value - (1 << bits) if target.is_signed_int() and value >> (bits - 1) else value, target, x.span)
    if isinstance(x, ConstInt) and abs(x.value) > 1 << 53:
        return scalar_cast(x, target, x.span)  # a double would round it a first time
    if isinstance(x, (ConstInt, ConstBool)) and target.is_float():
        return ConstFloat(nearest(float(x.value), target), target, x.span)
    return scalar_cast(x, target, x.span)


DSL: tuple[Dsl, ...] = (
    Dsl(
        "cast", ("", "tensor", "tile"), (Param("x"), Param("target_type", "attr"), Param("mode", "attr", None)), _cast_build, _DOC
    ),
)
