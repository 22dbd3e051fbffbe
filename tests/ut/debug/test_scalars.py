"""Scalar expressions: integers wrap, floats round once, division, shifts, NaN and casts follow the rules."""

import math

import numpy as np
import pytest

from pypto.debug import scalars
from pypto.debug.scalars import binary, cast, fit, unary
from pypto.dtypes import DataType as D
from pypto.errors import NotSupportedError
from pypto.ir import scalar as s
from pypto.ir.expr import Var
from pypto.ir.types import ScalarType

NAN, INF = math.nan, math.inf
MIN = -(2**31)


def v(dtype):
    return Var("v", ScalarType.of(dtype))


def apply(make, x, y, left=D.INT32, right=None):
    return binary(make(v(left), v(right or left)), x, y)


def same(a, b):
    return type(a) is type(b) and (a == b or (a != a and b != b)) and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize(
    ("a", "b", "q", "r"),
    [
        (7, 2, 3, 1),
        (-7, 2, -4, 1),
        (7, -2, -4, -1),
        (-7, -2, 3, -1),
        (-1, 4, -1, 3),
        (MIN, -1, MIN, 0),
        (MIN, MIN, 1, 0),
        (5, 0, 0, 0),
        (MIN, 0, 0, 0),
    ],
)
def test_floor_division_and_remainder(a, b, q, r):
    assert apply(s.floordiv, a, b) == q
    assert apply(s.mod, a, b) == r


def test_integers_wrap_in_their_dtype():
    assert apply(s.add, 2**31 - 1, 1) == MIN
    assert apply(s.mul, 65537, 65537) == 131073
    assert apply(s.sub, 0, 1, D.UINT8) == 255
    assert apply(s.add, 2**63 - 1, 1, D.INDEX) == -(2**63)
    assert apply(s.truediv, -7, 2) == -3
    assert apply(s.truediv, MIN, -1) == MIN
    assert apply(s.truediv, 3, 0) == 0
    assert unary(s.neg(v(D.INT8)), -128) == -128
    assert unary(s.Abs(v(D.INT8), D.INT8), -128) == -128
    assert unary(s.bit_not(v(D.UINT16)), 1) == 65534


def test_operands_of_two_dtypes_meet_in_the_wider_one():
    assert apply(s.add, 2**31 - 1, 1, D.INT32, D.INT64) == 2**31
    assert apply(s.lt, -1, 1, D.INT32, D.INDEX) is True
    # At equal width the left operand's type counts.
    assert apply(s.lt, 2**32 - 1, 1, D.UINT32, D.INT32) is False
    assert apply(s.lt, 1, -1, D.UINT32, D.INT32) is True


@pytest.mark.parametrize(("n", "left", "right"), [(0, -8, -8), (3, -64, -1), (31, 0, -1), (32, 0, -1), (-1, 0, -1)])
def test_shifts(n, left, right):
    assert apply(s.bit_shift_left, -8, n) == left
    assert apply(s.bit_shift_right, -8, n) == right


def test_powers_of_integers():
    assert [apply(s.pow, x, y) for x, y in [(3, 4), (2, 31), (-2, 3), (0, 0), (7, -1), (-1, -3), (1, -5), (-1, -2), (0, -1)]] == (
        [81, MIN, -8, 1, 0, -1, 1, 1, 0]
    )


@pytest.mark.parametrize("dtype", [D.FP32, D.FP16, D.BF16])
def test_floats_round_once(dtype):
    rng = np.random.default_rng(7)
    values = [fit(x, dtype) for x in np.ldexp(rng.normal(size=60), rng.integers(-20, 15, 60)).tolist()] + [
        INF,
        -INF,
        NAN,
        0.0,
        -0.0,
    ]
    t = dtype.numpy()
    for make, f in ((s.add, np.add), (s.sub, np.subtract), (s.mul, np.multiply), (s.truediv, np.divide)):
        for x in values:
            for y in values[::5]:
                with np.errstate(all="ignore"):
                    # For halves by way of binary32, which is innocuous.
                    want = float(f(np.float32(x), np.float32(y)).astype(t))
                assert same(apply(make, x, y, dtype), want), (make, x, y)


def test_minimum_and_maximum():
    for x, y in [(NAN, 1.0), (1.0, NAN), (NAN, NAN)]:
        assert math.isnan(apply(s.min_, x, y, D.FP32))
        assert math.isnan(apply(s.max_, x, y, D.FP32))
    assert apply(s.max_, -1, 2) == 2
    assert apply(s.min_, 1.5, -2.5, D.FP16) == -2.5


def test_comparisons_and_logic():
    assert [apply(m, NAN, 1.0, D.FP32) for m in (s.eq, s.ne, s.lt, s.le, s.gt, s.ge)] == [False, True, False, False, False, False]
    assert apply(s.and_, 3, 4) is True
    assert apply(s.or_, False, False, D.BOOL) is False
    assert binary(s.Xor(v(D.BOOL), v(D.BOOL), D.BOOL), True, True) is False
    assert unary(s.not_(v(D.INT32)), 0) is True
    assert apply(s.eq, True, True, D.BOOL) is True


def test_casts():
    assert [cast(x, D.FP32, D.INT32) for x in (2.7, -2.7, 3e9, -3e9, NAN, INF)] == [2, -2, 2**31 - 1, MIN, 0, 2**31 - 1]
    assert cast(300, D.INT32, D.INT8) == 44
    assert cast(-1, D.INT32, D.UINT64) == 2**64 - 1
    assert cast(2**24 + 1, D.INT64, D.FP32) == 2.0**24
    assert cast(0.1, D.FP32, D.FP16) == float(np.float16(0.1))
    assert cast(True, D.BOOL, D.INT32) == 1
    assert type(cast(1, D.INT32, D.BOOL)) is bool
    assert type(cast(1.0, D.FP32, D.INDEX)) is int
    assert type(cast(7, D.INDEX, D.FP16)) is float
    assert cast(5, D.INT64, D.INDEX) == 5


def test_constants_are_rounded_to_their_dtype():
    assert fit(0.1, D.FP32) == float(np.float32(0.1))
    assert fit(1.0004882812509095, D.FP16) == 1.0009765625
    assert fit(1e300, D.FP32) == INF


def test_what_has_no_defined_rounding_is_refused():
    for make in (s.floordiv, s.mod, s.pow):
        with pytest.raises(NotSupportedError, match="of fp32 scalars is not executed"):
            apply(make, 1.0, 2.0, D.FP32)
    assert set(scalars._FLOAT) < set(scalars._INTEGER)
