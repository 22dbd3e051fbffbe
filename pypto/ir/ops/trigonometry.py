"""sin and cos of binary32, as a sequence of additions, products and conversions of whole tiles.

The argument is reduced by the nearest multiple k of pi (for the cosine, of pi less a half) in parts of pi of few bits each
(W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980, chapter 8); an odd polynomial follows, with
the sign of (-1) ** k.  `sine` and `cosine` are written once over `Steps`, so that the lane program that the interpreter runs
and the tile operators that `LowerCompositeOps` puts in place are the same instructions.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from pypto.ir.expr import Expr
from pypto.ir.lanes import Builder, Lane, LaneFunction
from pypto.ir.opdef import FULL, Dsl, DslContext, Lanewise, OpDef, Operand, Param, Sample
from pypto.ir.ops import lanefns as fn
from pypto.ir.ops.casts import MODES, convert
from pypto.ir.ops.rules import VEC, D, R, unary_type, unified

__all__ = ["COMPOSITES", "DSL", "OPS", "Steps", "cosine", "sine"]

V = TypeVar("V")


class Steps(Protocol[V]):
    """Arithmetic on values of FP32 (an INT32 value between `to_int` and `to_float`), each step rounded once."""

    def times(self, x: V, c: float) -> V:
        """x * c."""

    def plus(self, x: V, c: float) -> V:
        """x + c."""

    def add(self, x: V, y: V) -> V:
        """x + y."""

    def sub(self, x: V, y: V) -> V:
        """x - y."""

    def mul(self, x: V, y: V) -> V:
        """x * y."""

    def at_least(self, x: V, c: float) -> V:
        """The larger of x and c; NaN for NaN."""

    def at_most(self, x: V, c: float) -> V:
        """The smaller of x and c; NaN for NaN."""

    def to_int(self, x: V, mode: str) -> V:
        """x rounded to an INT32; saturates, NaN gives 0."""

    def to_float(self, n: V) -> V:
        """The FP32 nearest to an INT32."""


_1_PI = 0.31830988732818603515625
# pi in five parts; the products of the first two with k are exact while k has no more than 15 bits.
_PI = (3.140625, 9.670257568359375e-4, 6.2771141529083251953125e-7, 1.21644916362129151821e-10, -1.0290623200529979163e-13)
_HALF_PI, _HALF_PI_REST = 1.57079637050628662109375, -4.371139000189375e-8
# sin(t) / t - 1 as a polynomial in t**2, without its constant term, from the highest power down.
_SIN = (2.604926501e-6, -1.980894471e-4, 8.333049340e-3, -1.666665792e-1)
# Times this, every number from 2**24 on is infinite: neighbours are then two apart, the reduction has no correct digit.
_TOO_LARGE = 2.0**104


def sine(s: Steps[V], x: V) -> V:
    """sin(x); -0 for -0, NaN where |x| >= 2**24, for infinities and for NaN."""
    x = _finite(s, x)
    k = s.to_float(s.to_int(s.times(x, _1_PI), "round"))
    t = s.sub(s.sub(x, s.times(k, _PI[0])), s.times(k, _PI[1]))
    return _polynomial(s, _last_parts(s, t, k), k)


def cosine(s: Steps[V], x: V) -> V:
    """cos(x) as sin(x + pi / 2); NaN as `sine`."""
    x = _finite(s, x)
    k = s.to_float(s.to_int(s.plus(s.times(x, _1_PI), 0.5), "rint"))
    t = s.sub(s.sub(x, s.times(k, _PI[0])), s.times(k, _PI[1]))
    t = _last_parts(s, s.plus(t, _HALF_PI), k)
    return _polynomial(s, s.plus(t, _HALF_PI_REST), k)


def _finite(s: Steps[V], x: V) -> V:
    """x, or NaN: a number times 0 is a zero of its sign, an infinity times 0 is NaN."""
    return s.add(x, s.times(s.times(x, _TOO_LARGE), 0.0))


def _last_parts(s: Steps[V], t: V, k: V) -> V:
    # The two smallest together: on its own the negative one would turn a zero's sign.
    t = s.sub(t, s.times(k, _PI[2]))
    return s.sub(t, s.add(s.times(k, _PI[3]), s.times(k, _PI[4])))


def _polynomial(s: Steps[V], t: V, k: V) -> V:
    """(-1) ** k * sin(t), |t| <= pi / 2."""
    u = s.mul(t, t)
    p = s.plus(s.times(u, _SIN[0]), _SIN[1])
    for c in (*_SIN[2:], 1.0):
        p = s.plus(s.mul(p, u), c)
    half = s.to_float(s.to_int(s.times(k, 0.5), "floor"))
    sign = s.plus(s.add(s.times(half, 4.0), s.times(k, -2.0)), 1.0)
    # Rounding can lead one unit past 1, where an arcsine has no value.
    return s.mul(sign, s.at_most(s.at_least(s.mul(t, p), -1.0), 1.0))


class _Lanes:
    """The steps as lane instructions."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def times(self, x: Lane, c: float) -> Lane:
        return x * c

    def plus(self, x: Lane, c: float) -> Lane:
        return x + c

    def add(self, x: Lane, y: Lane) -> Lane:
        return x + y

    def sub(self, x: Lane, y: Lane) -> Lane:
        return x - y

    def mul(self, x: Lane, y: Lane) -> Lane:
        return x * y

    def at_least(self, x: Lane, c: float) -> Lane:
        return self.b.maximum(x, self.b.const(c, "f32"))

    def at_most(self, x: Lane, c: float) -> Lane:
        return self.b.minimum(x, self.b.const(c, "f32"))

    def to_int(self, x: Lane, mode: str) -> Lane:
        return convert(self.b, x, "i32", MODES.index(mode), False)

    def to_float(self, n: Lane) -> Lane:
        return n.to("f32")


def _sin(b: Builder, x: Lane) -> Lane:
    return sine(_Lanes(b), x)


def _cos(b: Builder, x: Lane) -> Lane:
    return cosine(_Lanes(b), x)


COMPOSITES = {"tile.sin": sine, "tile.cos": cosine}
_F32 = (D.FP32,)
_ROWS = (("sin", _sin, "sine of an angle in radians"), ("cos", _cos, "cosine of an angle in radians"))
_DOC = "; within 2e-7 up to |x| = 2**16, then as if x were changed by a unit in its last place; NaN from 2**24 on"


def _ops(name: str, f: LaneFunction, doc: str) -> list[OpDef]:
    common: dict[str, Any] = {"effects": (R,), "dtypes": _F32, "doc": doc + _DOC, "samples": (Sample(((8, 64), (16, 48)), _F32),)}
    form = Lanewise((FULL,), fn.lanes(f))
    return [
        OpDef(f"tensor.{name}", (Operand("x", "tensor"),), lambda s: unary_type(s, _F32), form, **common),
        OpDef(
            f"tile.{name}",
            (Operand("x", "tile"),),
            lambda s: unary_type(s, _F32),
            form,
            spaces=(VEC,),
            out_space=VEC[0],
            **common,
        ),
    ]


def _dsl(name: str, doc: str) -> Dsl:
    def build(ctx: DslContext, space: str, a: dict[str, Any]) -> Expr:
        return unified(ctx, space, name, a["x"])

    return Dsl(name, ("", "tensor", "tile"), (Param("x"),), build, doc + _DOC)


OPS: tuple[OpDef, ...] = tuple(op for name, f, doc in _ROWS for op in _ops(name, f, doc))
DSL: tuple[Dsl, ...] = tuple(_dsl(name, doc) for name, _, doc in _ROWS)
