"""Scalar functions of the operators: half precision rounds once, integers wrap, NaN and division follow the rules."""

import numpy as np
import pytest

from pypto.debug.lanes import run
from pypto.dtypes import DataType as D
from pypto.ir.ops import lanefns as fn

NAN, INF = np.nan, np.inf
MIN = -(2**31)


def apply(f, *xs, dtype=D.FP32):
    return run(fn.lanes(f)((dtype,) * len(xs), dtype, {}), [np.asarray(x, dtype.numpy()) for x in xs])


def halves(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 65536, n, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize(
    ("f", "reference"), [(fn.add, np.add), (fn.sub, np.subtract), (fn.mul, np.multiply), (fn.div, np.divide)]
)
def test_half_arithmetic_is_correctly_rounded(f, reference):
    x, y = halves(100_000, 1), halves(100_000, 2)
    # Same and neighbouring exponents meet often enough to cancel.
    y[::2] = (x[::2].view(np.uint16) + np.random.default_rng(3).integers(0, 9, 50_000).astype(np.uint16)).view(np.float16)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64), y.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(apply(f, x, y, dtype=D.FP16), want)


@pytest.mark.parametrize(("f", "reference"), [(fn.sqrt, np.sqrt), (fn.recip, lambda v: 1 / v)])
def test_half_functions_are_correctly_rounded(f, reference):
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(apply(f, x, dtype=D.FP16), want)


@pytest.mark.parametrize("dtype", [D.FP32, D.FP16], ids=lambda d: d.name)
def test_nan_wins_in_either_operand(dtype):
    x, y = [NAN, 1, NAN, 2, -INF, 3], [1, NAN, NAN, 3, INF, -3]
    np.testing.assert_array_equal(apply(fn.maximum, x, y, dtype=dtype).astype(float), [NAN, NAN, NAN, 3, INF, 3])
    np.testing.assert_array_equal(apply(fn.minimum, x, y, dtype=dtype).astype(float), [NAN, NAN, NAN, 2, -INF, -3])
    np.testing.assert_array_equal(apply(fn.relu, [NAN, -1, 0, 2, INF, -INF], dtype=dtype).astype(float), [NAN, 0, 0, 2, INF, 0])


def test_integer_maximum_compares_signed_values():
    assert apply(fn.maximum, [MIN, -1], [2**31 - 1, 1], dtype=D.INT32).tolist() == [2**31 - 1, 1]
    assert apply(fn.minimum, [MIN, -1], [2**31 - 1, 1], dtype=D.INT32).tolist() == [MIN, -1]


DIVISIONS = [
    (7, 2, 3, 1, 3),
    (-7, 2, -4, 1, -3),
    (7, -2, -4, -1, -3),
    (-7, -2, 3, -1, 3),
    (-1, 4, -1, 3, 0),
    (1, -4, -1, -3, 0),
    (6, -3, -2, 0, -2),
    (0, -5, 0, 0, 0),
    (MIN, 2, -1073741824, 0, -1073741824),
    (MIN, -1, MIN, 0, MIN),
    (MIN, 1, MIN, 0, MIN),
    (MIN, MIN, 1, 0, 1),
    (2147483647, -2, -1073741824, -1, -1073741823),
    (5, 0, 0, 0, 0),
    (-5, 0, 0, 0, 0),
    (0, 0, 0, 0, 0),
    (MIN, 0, 0, 0, 0),
]


def test_division_by_the_rules():
    a, b, q, r, d = zip(*DIVISIONS, strict=True)
    assert apply(fn.floordiv, a, b, dtype=D.INT32).tolist() == list(q)
    assert apply(fn.mod, a, b, dtype=D.INT32).tolist() == list(r)
    assert apply(fn.div, a, b, dtype=D.INT32).tolist() == list(d)
    assert apply(fn.floordiv, [-32768, -7], [-1, 2], dtype=D.INT16).tolist() == [-32768, -4]


def test_integers_wrap():
    for v, plus, square, minus in [(2147483647, MIN, 1, -2147483647), (MIN, MIN + 1, 0, MIN), (65537, 65538, 131073, -65537)]:
        assert apply(fn.add, v, 1, dtype=D.INT32) == plus
        assert apply(fn.mul, v, v, dtype=D.INT32) == square
        assert apply(fn.neg, v, dtype=D.INT32) == minus


def bits(x):
    return np.asarray(x, np.float32).tobytes()


def test_ieee_specials_survive():
    x = np.float32([NAN, INF, -INF, 0.0, -0.0, 1e-40, 1.0, -2.0])
    np.testing.assert_array_equal(apply(fn.sub, x, x), np.float32([NAN, NAN, NAN, 0, 0, 0, 0, 0]))
    assert bits(apply(fn.mul, x, np.float32(0))[3:]) == bits([0.0, -0.0, 0.0, 0.0, -0.0])
    assert bits(apply(fn.add, x, np.float32(0))[1:]) == bits([INF, -INF, 0.0, 0.0, 1e-40, 1.0, -2.0])
    np.testing.assert_array_equal(apply(fn.div, x, x), np.float32([NAN] * 5 + [1, 1, 1]))
    assert bits(apply(fn.absolute, np.float32([-0.0, -3.0]))) == bits([0.0, 3.0])
    assert bits(apply(fn.neg, np.float32([0.0, -3.0]))) == bits([-0.0, 3.0])
    assert bits(apply(fn.sqrt, np.float32([-0.0, 4.0]))) == bits([-0.0, 2.0])
    assert bits(apply(fn.rsqrt, np.float32([0.0, -0.0, INF]))) == bits([INF, -INF, 0.0])
    assert bits(apply(fn.recip, np.float32([0.0, -0.0, INF]))) == bits([INF, -INF, 0.0])
    assert np.isnan(apply(fn.sqrt, [-1.0])).all()


def test_products_are_not_fused_into_sums():
    a, b = np.float32(1.1), np.float32(1.3)
    assert bits(apply(fn.sub, apply(fn.mul, a, b), a * b)) == bits(0.0)
    assert apply(fn.sub, apply(fn.add, 3.0, 1e8), 1e8) == 0


def test_leaky_relu():
    got = run(fn.lanes(fn.lrelu)((D.FP32, D.FP32), D.FP32, {}), [np.float32([2, -2, NAN, -INF]), np.float32([0.5])])
    np.testing.assert_array_equal(got, np.float32([2, -1, NAN, -INF]))
