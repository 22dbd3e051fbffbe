"""exp and log in binary32, as branch-free lane programs without tables.

Measured over every finite binary32 operand against binary64: exp is within 0.991 ulp of the exact value, log within 0.934.
The `_odd` forms serve half-precision operands: their binary32 result is rounded to odd, so that rounding it once more
gives the correctly rounded half (all 65536 operands are checked).
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.ir.lanes import Builder, Lane

__all__ = ["exp", "exp_odd", "log", "log_odd"]

_INF = float("inf")
# ln 2 as the nearest binary32 and the rest.
_LN2, _LN2_REST = 0.693147182464599609375, -1.904654290582768e-09

# The polynomials are minimax fits by Lawson's algorithm (iteratively reweighted least squares; Cheney, "Introduction to
# Approximation Theory", 1966) on 2000 Chebyshev points in extended precision, with coefficients rounded to binary32 one
# by one from the lowest power up, the higher ones fitted again after each.
#
# (e**r - 1 - r) / r**2 on |r| <= ln(2)/2, fit of the error relative to e**r, negative r counting four times: there an
# ulp of the result is half as large.  Approximation error 4.9e-9.
_EXP = (0.4999997615814209, 0.16666531562805176, 0.04167307913303375, 0.008367686532437801, 0.0013532902812585235)
# (log(1 + f) - f + f**2/2) / f**3 on |f| <= 1/3, fit of the error relative to log(1 + f).  Approximation error 4.7e-9.
_LOG = (
    0.3333321511745453,
    -0.2499980479478836,
    0.20010435581207275,
    -0.16680221259593964,
    0.14005543291568756,
    -0.12187454104423523,
    0.13985593616962433,
    -0.12879285216331482,
)


def _horner(b: Builder, coefficients: Sequence[float], x: Lane) -> Lane:
    p = b.const(coefficients[-1], x.type)
    for c in reversed(coefficients[:-1]):
        p = b.fma(p, x, c)
    return p


def _to_odd(b: Builder, y: Lane, lost: Lane) -> Lane:
    """y, the rounding of y + lost, with the rounding replaced: toward zero, then the last bit set if inexact."""
    one, zero = b.const(1, "i32"), b.const(0, "i32")
    past = b.select(lost.ne(0.0) & (((lost < 0.0) & (y > 0.0)) | ((lost > 0.0) & (y < 0.0))), one, zero)
    return ((y.bits("i32") - past) | b.select(lost.ne(0.0), one, zero)).bits("f32")


def exp(b: Builder, x: Lane) -> Lane:
    """e ** x as 2 ** k times e ** r, |r| <= ln(2)/2; NaN for NaN, exactly 1 at 0."""
    u, w = _exp_parts(b, x)
    return _scaled(w + 1.0, u)


def exp_odd(b: Builder, x: Lane) -> Lane:
    """As exp, rounded to odd wherever the result is a normal number."""
    u, w = _exp_parts(b, x)
    p = w + 1.0
    return _scaled(_to_odd(b, p, w - (p - 1.0)), u)


def _exp_parts(b: Builder, x: Lane) -> tuple[Lane, Lane]:
    """(integer whose low bits are k plus twice the bias of an exponent, e ** r - 1)."""
    # Past these bounds the result is infinite or zero; NaN passes both comparisons.  Both look at the same number: C compilers
    # take a comparison of what was selected apart, and compare more often.
    x = b.select(x > 89.0, b.const(89.0, "f32"), b.select(x < -104.0, b.const(-104.0, "f32"), x))
    # Adding 1.5 * 2**23 rounds to an integer, which then stands in the low bits of the sum.  The biases are even: ties stay ties.
    shifter = 12582912.0 + 2 * 127
    t = b.fma(x, b.const(1.4426950408889634, "f32"), shifter)
    k = t - shifter
    r = b.fma(k, b.const(-_LN2, "f32"), x)
    r = b.fma(k, b.const(-_LN2_REST, "f32"), r)
    return t.bits("i32"), b.fma(r * r, _horner(b, _EXP, r), r)


def _scaled(p: Lane, u: Lane) -> Lane:
    """p * 2 ** k in two steps, so that each factor is normal and only the last product rounds."""
    half = u >> 1
    return p * _of_exponent(half) * _of_exponent(u - half)


def _of_exponent(e: Lane) -> Lane:
    """The power of two with this biased exponent; the bits of the shifter above the low nine are shifted out."""
    return (e << 23).bits("f32")


def log(b: Builder, x: Lane) -> Lane:
    """ln x as k * ln 2 + log(1 + f), |f| <= 1/3; NaN below 0, -inf at either zero, exactly 0 at 1."""
    k, f, p = _log_parts(b, x)
    return _log_special(b, x, b.fma(k, b.const(_LN2, "f32"), b.fma(f * f, p, f)))


def log_odd(b: Builder, x: Lane) -> Lane:
    """As log, rounded to odd."""
    k, f, p = _log_parts(b, x)
    high = b.const(_LN2, "f32")
    y = b.fma(k, high, b.fma(f * f, p, f))
    # What y lost, in an order in which the large parts cancel exactly: k * ln 2 and f are multiples of 2**-24.
    rest = (b.fma(k, high, -y) + f) + f * f * p
    return _log_special(b, x, _to_odd(b, y, b.fma(k, b.const(_LN2_REST, "f32"), rest)))


def _log_parts(b: Builder, x: Lane) -> tuple[Lane, Lane, Lane]:
    """(k, f, p) with x = 2 ** k * (1 + f) and log(1 + f) = f + f**2 * p; anything for x that has no logarithm."""
    tiny = x < 2.0**-126
    u = b.select(tiny, x * 2.0**23, x).bits("i32")
    e = (u - 0x3F2AAAAB) & -0x800000  # k in the place of an exponent; 0x3F2AAAAB is 2/3
    f = (u - e).bits("f32") - 1.0
    k = b.fma(e.to("f32"), b.const(2.0**-23, "f32"), b.select(tiny, b.const(-23.0, "f32"), b.const(0.0, "f32")))
    return k, f, b.fma(_horner(b, _LOG, f), f, -0.5)


def _log_special(b: Builder, x: Lane, y: Lane) -> Lane:
    y = b.select(x.eq(_INF), x, y)
    return b.select(x > 0.0, y, b.select(x.eq(0.0), b.const(-_INF, "f32"), b.const(float("nan"), "f32")))
