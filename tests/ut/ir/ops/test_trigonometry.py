"""sin and cos: absolute errors against binary64, exact special values, and what is left of huge angles."""

import numpy as np
import pytest

from pypto.debug.lanes import run
from pypto.dtypes import DataType as D
from pypto.ir import ops

INF, NAN = np.inf, np.nan
FUNCTIONS = {"sin": np.sin, "cos": np.cos}


def value(name: str, x: object) -> np.ndarray:
    form = ops.get(f"tensor.{name}").semantics
    return run(form.build((D.FP32,), D.FP32, {}), [np.asarray(x, np.float32)])


def angles(limit: float, seed: int) -> np.ndarray:
    """Angles of all sizes, and the neighbours of multiples of a quarter turn."""
    rng = np.random.default_rng(seed)
    near = (np.arange(1, int(min(limit, 1e5) / np.pi * 2)) * (np.pi / 2)).astype(np.float32)
    near = np.concatenate([near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(INF))])
    some = np.concatenate([rng.uniform(0, limit, 200_000), 2.0 ** rng.uniform(-40, np.log2(limit), 100_000)]).astype(np.float32)
    x = np.concatenate([near, some])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("limit", "error"), [(2.0**16, 2e-7), (2.0**17, 2e-6)])
def test_the_error_is_small(name: str, limit: float, error: float) -> None:
    x = angles(limit, 31)
    assert np.abs(value(name, x) - FUNCTIONS[name](x.astype(np.float64))).max() < error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_angles_keep_all_digits(name: str) -> None:
    """Relative to the result, where the argument is not reduced."""
    x = np.random.default_rng(32).uniform(-1.5, 1.5, 200_000).astype(np.float32)
    want = FUNCTIONS[name](x.astype(np.float64))
    assert (np.abs(value(name, x) - want) / np.abs(want)).max() < (2e-6 if name == "cos" else 3e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_large_angles_are_those_of_a_neighbour(name: str) -> None:
    """The error is no more than changing the angle by three halves of its last place makes."""
    x = np.random.default_rng(33).uniform(2.0**16, 2.0**24, 200_000).astype(np.float32)
    error = np.abs(value(name, x) - FUNCTIONS[name](x.astype(np.float64)))
    assert (error / np.spacing(x)).max() < 1.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_never_beyond_one(name: str) -> None:
    assert np.abs(value(name, angles(2.0**24 - 1, 34))).max() == 1


def test_special_values() -> None:
    np.testing.assert_array_equal(value("sin", [NAN, INF, -INF, 2.0**24, -3.4e38]), np.float32([NAN] * 5))
    np.testing.assert_array_equal(value("cos", [NAN, INF, -INF, 2.0**24, -3.4e38]), np.float32([NAN] * 5))
    zeros = value("sin", [0.0, -0.0])
    assert (zeros == 0).all()
    assert list(np.signbit(zeros)) == [False, True]
    np.testing.assert_array_equal(value("cos", [0.0, -0.0, 2.0**-149]), np.float32([1, 1, 1]))
    tiny = np.float32([2.0**-149, -(2.0**-149), 2.0**-126, 1e-40])
    np.testing.assert_allclose(value("sin", tiny), tiny, rtol=1e-6, atol=0)
