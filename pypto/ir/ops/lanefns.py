"""Scalar functions of the elementwise operators, as lane programs.

Half-precision types compute in binary32 and round once: for + - * / and sqrt that is the correctly rounded result,
because 24 >= 2 * 11 + 2 (Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.ir.lanes import Builder, Lane, LaneFunction, LaneProgram, lane_type, program

__all__ = ["lanes"]

Build = Callable[[tuple[DataType, ...], DataType, Mapping[str, Any]], LaneProgram]
_HALF = ("f16", "bf16")


def lanes(f: LaneFunction, half_form: LaneFunction | None = None) -> Build:
    """A program builder for a function of lanes of one element type; halves are widened and rounded once.

    `half_form` is computed for halves in place of `f`, where the rounding of f's binary32 result to a half would be a
    second rounding that shows.
    """

    def widened(b: Builder, *xs: Lane) -> Lane:
        half = next((x.type for x in xs if x.type in _HALF), None)
        if half is None:
            return f(b, *xs)
        out = (half_form or f)(b, *(x.to("f32") if x.type in _HALF else x for x in xs))
        return out.to(half) if out.type == "f32" else out

    widened.__name__ = getattr(f, "__name__", "lane function")

    def build(inputs: tuple[DataType, ...], result: DataType, _: Mapping[str, Any]) -> LaneProgram:
        return program(widened, tuple(lane_type(d) for d in inputs), lane_type(result))

    return build


def is_float(x: Lane) -> bool:
    return x.type[0] == "f"


def add(b: Builder, x: Lane, y: Lane) -> Lane:
    return x + y


def sub(b: Builder, x: Lane, y: Lane) -> Lane:
    return x - y


def mul(b: Builder, x: Lane, y: Lane) -> Lane:
    return x * y


def div(b: Builder, x: Lane, y: Lane) -> Lane:
    """IEEE for floats; truncating for integers, x / 0 is 0 and MIN / -1 is MIN."""
    return x / y if is_float(x) else b.op("tdiv", x, y)


def floordiv(b: Builder, x: Lane, y: Lane) -> Lane:
    return b.op("fdiv", x, y)


def mod(b: Builder, x: Lane, y: Lane) -> Lane:
    return b.op("fmod", x, y)


def maximum(b: Builder, x: Lane, y: Lane) -> Lane:
    return b.maximum(x, y)


def minimum(b: Builder, x: Lane, y: Lane) -> Lane:
    return b.minimum(x, y)


def fmod(b: Builder, x: Lane, y: Lane) -> Lane:
    return b.op("cremf", x, y)


def floor_fmod(b: Builder, x: Lane, y: Lane) -> Lane:
    """Python's `x % y`, which has the divisor's sign, a zero too.  Floats: fmod, and y more where the signs differ."""
    if not is_float(x):
        return b.op("fmod", x, y)
    r = b.op("cremf", x, y)
    zero = b.op("abs", r)
    r = b.select(((r < 0.0) & (y > 0.0)) | ((r > 0.0) & (y < 0.0)), r + y, r)
    return b.select(r.eq(0.0), b.select(y < 0.0, -zero, zero), r)


def absolute(b: Builder, x: Lane) -> Lane:
    return b.op("abs", x)


def neg(b: Builder, x: Lane) -> Lane:
    return -x


def sqrt(b: Builder, x: Lane) -> Lane:
    return b.op("sqrt", x)


def rsqrt(b: Builder, x: Lane) -> Lane:
    """1 / sqrt(x), each rounded: at most one unit in the last place from the correctly rounded result."""
    return b.const(1.0, x.type) / b.op("sqrt", x)


def recip(b: Builder, x: Lane) -> Lane:
    return b.const(1.0, x.type) / x


def relu(b: Builder, x: Lane) -> Lane:
    """max(x, 0); NaN stays NaN."""
    zero = b.const(0, x.type)
    return b.select((x < zero), zero, x)


def lrelu(b: Builder, x: Lane, slope: Lane) -> Lane:
    """x where x > 0, else x * slope."""
    return b.select(x > 0.0, x, x * slope)


def prelu(b: Builder, x: Lane, slope: Lane) -> Lane:
    """x where x > 0, else x * slope; NaN stays NaN."""
    return lrelu(b, x, slope)


def addc(b: Builder, x: Lane, y: Lane, z: Lane) -> Lane:
    return x + y + z


def subc(b: Builder, x: Lane, y: Lane, z: Lane) -> Lane:
    return x - y - z


def copy(b: Builder, x: Lane) -> Lane:
    return x
