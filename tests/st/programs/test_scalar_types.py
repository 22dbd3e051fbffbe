"""Scalars of every integer type: operands meet in the wider type, at equal width in the left one's, on both ways of computing."""

import itertools

import numpy as np
import pytest
from ml_dtypes import bfloat16
from programs_kit import BRIEF, agree, module, same

import pypto.language as pl
from pypto.errors import UnsupportedFeatureError

TYPES = (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64)
WAYS = BRIEF[:2]


def wrapped(value, dtype):
    limits = np.iinfo(dtype)
    low = value & ((1 << limits.bits) - 1)
    return low - (1 << limits.bits) if limits.min and low > limits.max else low


def promoted(a, b):
    return b if np.iinfo(b).bits > np.iinfo(a).bits else a


def truncated(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0


def shifted(x, n, bits, left):
    if not 0 <= n < bits:
        return 0 if left or x >= 0 else -1
    return x << n if left else x >> n


@pl.jit
def mixed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.read(a, [0])
        y = pl.read(b, [0])
        pl.write(o, [0], pl.cast(x + y, pl.INT64))
        pl.write(o, [1], pl.cast(x - y, pl.INT64))
        pl.write(o, [2], pl.cast(x * y, pl.INT64))
        pl.write(o, [3], pl.cast(x // y, pl.INT64))
        pl.write(o, [4], pl.cast(x % y, pl.INT64))
        pl.write(o, [5], pl.cast(x / y, pl.INT64))
        pl.write(o, [6], pl.cast(pl.min(x, y), pl.INT64))
        pl.write(o, [7], pl.cast(pl.max(x, y), pl.INT64))
        pl.write(o, [8], pl.cast(x << y, pl.INT64))
        pl.write(o, [9], pl.cast(x >> y, pl.INT64))
        pl.write(o, [10], pl.cast(x < y, pl.INT64))
        pl.write(o, [11], pl.cast(x == y, pl.INT64))
        pl.write(o, [12], pl.cast(x >= y, pl.INT64))
        pl.write(o, [13], pl.cast((x - y) < (y - x), pl.INT64))
        pl.write(o, [14], pl.cast(-y, pl.INT64))
        pl.write(o, [15], pl.cast(~y, pl.INT64))
    return o


def expected(a, b, left, right):
    t = promoted(left, right)
    bits = np.iinfo(t).bits
    x, y = wrapped(a, t), wrapped(b, t)
    u = promoted(right, left)
    results = [x + y, x - y, x * y, x // y if y else 0, x % y if y else 0, truncated(x, y), min(x, y), max(x, y)]
    results += [shifted(x, y, bits, True), shifted(x, y, bits, False)]
    # Differences have the types of their left sides: compared, the wider wins again, else the left.
    below = wrapped(x - y, t) < wrapped(wrapped(wrapped(b, u) - wrapped(a, u), u), t)
    out = [wrapped(wrapped(v, t), np.int64) for v in results] + [int(x < y), int(x == y), int(x >= y), int(below)]
    return [*out, wrapped(wrapped(-b, right), np.int64), wrapped(wrapped(~b, right), np.int64)]


def edges(dtype):
    limits = np.iinfo(dtype)
    return (limits.min, limits.max, 1, 0, -5 if limits.min else 5, 31)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(TYPES, TYPES)))
def test_operands_meet_in_their_common_type(left, right):
    cases = list(itertools.product(edges(left), edges(right)))
    calls = [[np.full(1, a, left), np.full(1, b, right), np.zeros(16, np.int64)] for a, b in cases]
    for (a, b), got in zip(cases, agree(mixed, *calls, ways=WAYS[:1]), strict=True):
        same(got[2], expected(a, b, left, right))


@pl.jit
def powers(n: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(o, [0], pl.cast(1 << n, pl.INT64))
        pl.write(o, [1], pl.cast((-1) << n, pl.INT64))
        pl.write(o, [2], pl.cast(-1000 >> n, pl.INT64))
    return o


def test_constants_are_shifted_in_their_own_type():
    counts = (0, 5, 31, 32, 33, 40, 62, 63, 64, 1000, -1)
    calls = [[n, np.zeros(3, np.int64)] for n in counts]
    for n, got in zip(counts, agree(powers, *calls, ways=WAYS), strict=True):
        one = wrapped(1 << n, np.int64) if 0 <= n < 64 else 0
        same(got[0], [one, -one if 0 <= n < 63 else one, shifted(-1000, n, 64, False)])


def conversion(target):
    @pl.jit
    def converted(a: pl.UINT64, x: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.write(o, [0], pl.cast(a, target))
            p[:] = pl.mul(x, a)
        return o, p

    return converted


@pytest.mark.parametrize(("target", "dtype"), [(pl.FP16, np.float16), (pl.BF16, bfloat16), (pl.FP32, np.float32)])
def test_the_upper_half_of_uint64_to_floats(target, dtype):
    # In binary64 the last one would round to a tie of BF16, and to even from there.
    values = (2**63, 2**63 - 1, 2**64 - 1, 65519, 65520, 2**24 + 1, 2**63 + 2**55 + 1)
    x = np.ones((8, 16), np.float32)
    calls = [[v, x, np.zeros(1, dtype), np.zeros_like(x)] for v in values]
    for v, got in zip(values, agree(conversion(target), *calls, ways=WAYS), strict=True):
        with np.errstate(over="ignore"):
            if dtype is bfloat16:
                bits = max(v.bit_length() - 8, 0)
                kept, rest = v >> bits, v & ((1 << bits) - 1)
                half = 1 << bits >> 1
                want = float((kept + (rest > half or (rest == half and kept & 1 and bits > 0))) << bits)
            else:
                want = dtype(v)
            same(got[1], want)
            same(got[2], np.float32(v))


@pl.jit
def negated(o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(o, [0], pl.cast(-pl.const(200, pl.UINT8), pl.INT64))
        pl.write(o, [1], pl.cast(-pl.const(-(2**31), pl.INT32), pl.INT64))
        pl.write(o, [2], -pl.const(-9223372036854775808, pl.INT64))
        pl.write(o, [3], pl.const(-9223372036854775808, pl.INT64))
        pl.write(o, [4], pl.cast(~pl.const(200, pl.UINT8), pl.INT64))
        pl.write(o, [5], pl.cast(pl.const(-1, pl.INT32) < pl.const(1, pl.UINT32), pl.INT64))
        pl.write(o, [6], pl.cast(pl.const(1, pl.UINT32) < pl.const(-1, pl.INT32), pl.INT64))
    return o


def test_operators_of_typed_constants_wrap():
    low = -(2**63)
    same(agree(negated, [np.zeros(7, np.int64)], ways=WAYS)[0][0], [56, -(2**31), low, low, 55, 1, 1])


@pytest.mark.parametrize("operator", ["//", "%"])
def test_rounded_quotients_of_floats_are_refused_at_their_line(operator, tmp_path):
    text = f"""import pypto.language as pl

@pl.jit
def k(a: pl.FP32, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(o, [0], a {operator} 2.0)
    return o
"""
    with pytest.raises(UnsupportedFeatureError, match=r"of floats") as e:
        module(text, tmp_path).k(1.0, np.zeros(1, np.float32))
    assert e.value.span["line"] == 6
    assert "pl.cast" in e.value.hint
