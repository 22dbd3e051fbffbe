"""exp and log in binary32 as lane programs."""

from __future__ import annotations

import math

from pypto.ir.lanes import Builder, Lane

__all__ = ["exp", "log"]


def exp(b: Builder, x: Lane) -> Lane:
    """e ** x: 2 ** k times a polynomial in the remainder."""
    clamped = b.minimum(b.maximum(x, b.const(-104.0, "f32")), b.const(89.0, "f32"))
    k = b.op("rint", clamped * 1.4426950408889634)
    r = b.fma(k, b.const(-0.693145751953125, "f32"), clamped)
    r = b.fma(k, b.const(-1.4286068203094172e-06, "f32"), r)
    p = b.const(1 / 5040, "f32")
    for n in range(6, -1, -1):
        p = b.fma(p, r, 1.0 / math.factorial(n))
    i = b.select(x.is_nan(), b.const(0.0, "f32"), k).to("i32")
    h = i >> 1
    y = p * _power_of_two(h) * _power_of_two(i - h)
    return b.select(x.is_nan(), x, y)


def _power_of_two(e: Lane) -> Lane:
    return ((e + 127) << 23).bits("f32")


def log(b: Builder, x: Lane) -> Lane:
    """ln x."""
    tiny = x < 1.1754943508222875e-38
    scaled = b.select(tiny, x * 8388608.0, x)
    u = scaled.bits("i32") - 0x3F2AAAAB
    k = u >> 23
    m = ((u & 0x007FFFFF) + 0x3F2AAAAB).bits("f32") - 1.0
    e = k.to("f32") - b.select(tiny, b.const(23.0, "f32"), b.const(0.0, "f32"))
    s = m / (m + 2.0)
    z = s * s
    p = b.const(2 / 13, "f32")
    for n in (11, 9, 7, 5, 3):
        p = b.fma(p, z, 2.0 / n)
    t = b.fma(p * z, s, s * 2.0)
    y = b.fma(e, b.const(0.6931471805599453, "f32"), t)
    y = b.select(x.eq(float("inf")), x, y)
    y = b.select(x.eq(0.0), b.const(float("-inf"), "f32"), y)
    return b.select((x < 0.0) | x.is_nan(), b.const(float("nan"), "f32"), y)
