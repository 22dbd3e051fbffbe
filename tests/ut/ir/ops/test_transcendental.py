"""exp and log: ulps against binary64, exact special values, and every half-precision operand correctly rounded."""

import numpy as np
import pytest

from pypto.debug.lanes import run
from pypto.dtypes import DataType as D
from pypto.ir import ops
from pypto.ir.lanes import program
from pypto.ir.ops import transcendental as tr

INF, NAN = np.inf, np.nan


def f32(f, x):
    return run(program(f, ("f32",), "f32"), [np.asarray(x, np.float32)])


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance from the exact value in units of the last place that binary32 has there."""
    _, e = np.frexp(exact)
    return np.abs(got.astype(np.float64) - exact) / np.ldexp(1.0, np.maximum(e - 24, -149))


def hexes(text: str) -> list[float]:
    return [float.fromhex(word) for word in text.split()]


def every_exponent(signs: tuple[int, ...], per: int) -> np.ndarray:
    """Random mantissas, and the first and last, for each exponent, subnormals included."""
    rng = np.random.default_rng(11)
    m = np.concatenate([rng.integers(0, 1 << 23, (255, per)), np.tile([0, 1, (1 << 23) - 1], (255, 1))], axis=1)
    bits = (np.arange(255)[:, None] << 23) + m
    return np.concatenate([(bits + (s << 31)).reshape(-1) for s in signs]).astype(np.uint32).view(np.float32)


def test_exp_is_within_an_ulp():
    rng = np.random.default_rng(12)
    x = np.concatenate(
        [
            every_exponent((0, 1), 100),
            rng.uniform(-104, 89, 100_000),
            rng.uniform(-0.36, 0.36, 50_000),
            # The worst operands of the whole range, the halves of ln 2 apart, and both ends.
            hexes("-0x1.775366p2 0x1.da69c4p5 -0x1.049e22p4 0x1.f41336p3"),
            np.arange(-210, 180) * 0.34657359027997264,
            np.float32([-103.97208, -103.27893, -87.33655, 88.72283, 88.72284, -104, 89, -103.98]),
        ]
    ).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    got = f32(tr.exp, x)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(rounded))
    finite = np.isfinite(rounded)
    assert ulps(got[finite], exact[finite]).max() < 0.995


def test_log_is_within_an_ulp():
    rng = np.random.default_rng(13)
    x = np.concatenate(
        [
            every_exponent((0,), 200)[1:],
            rng.uniform(0.4, 3, 100_000),
            1 + rng.uniform(-1, 1, 20_000) * 2.0 ** rng.integers(-23, -3, 20_000),
            hexes("0x1.4574e2p-1 0x1.46bc3ep-1 0x1.57398ap1"),
            [2 / 3, 4 / 3, 0.6666667, 1.3333334],
        ]
    ).astype(np.float32)
    x = x[x > 0]
    got, exact = f32(tr.log, x), np.log(x.astype(np.float64))
    assert ulps(got[x != 1], exact[x != 1]).max() < 0.94


def test_special_values():
    x = [0.0, -0.0, INF, -INF, NAN, -NAN, 89, 1e38, -104, -1e38, -(2.0**-149), 2.0**-149]
    want = [1, 1, INF, 0, NAN, NAN, INF, INF, 0, 0, 1, 1]
    got = f32(tr.exp, x)
    np.testing.assert_array_equal(got, np.float32(want))
    assert not np.signbit(got[[3, 8, 9]]).any()
    got = f32(tr.log, [1.0, 0.0, -0.0, INF, -INF, NAN, -1.0, -(2.0**-149)])
    np.testing.assert_array_equal(got, np.float32([0, -INF, -INF, INF, NAN, NAN, NAN, NAN]))
    assert not np.signbit(got[0])


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0xFF800001])
def test_any_nan_gives_nan(bits):
    x = np.array([bits], np.uint32).view(np.float32)
    assert np.isnan(f32(tr.exp, x)).all()
    assert np.isnan(f32(tr.log, x)).all()


@pytest.mark.parametrize(("name", "reference"), [("exp", np.exp), ("log", np.log), ("rsqrt", lambda v: 1 / np.sqrt(v))])
def test_every_half_is_correctly_rounded(name, reference):
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    build = ops.get(f"tile.{name}").semantics.build
    got = run(build((D.FP16,), D.FP16, {}), [x])
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
        want, below, above = ((exact * (1 + e)).astype(np.float16) for e in (0, -4e-15, 4e-15))
    # The reference's own error cannot reach a tie: a little less and a little more round alike.
    np.testing.assert_array_equal(below, above)
    np.testing.assert_array_equal(got, want)


def test_programs_are_short_and_straight():
    for f, most in ((tr.exp, 26), (tr.log, 29)):
        work = [i.op for i in program(f, ("f32",), "f32").instrs if i.op != "const"]
        assert len(work) <= most
        assert "div" not in work
