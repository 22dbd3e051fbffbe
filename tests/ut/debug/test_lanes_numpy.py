"""Every lane instruction against exact arithmetic: fractions for floats, Python integers for integers."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from pypto.debug.lanes import fma32, rounded_constant, run
from pypto.ir.lanes import OPS, Builder, LaneProgram

INTS = {f"{s}{n}": np.dtype(f"{s}{n // 8}") for s in "iu" for n in (8, 16, 32, 64)}


def one(op: str, *types: str, result: str | None = None) -> LaneProgram:
    b = Builder(types)
    out = b.op(op, *(b.input(i) for i in range(len(types))), type=result)
    return LaneProgram(types, tuple(b.instrs), out.number)


def binary32(exact: Fraction) -> float:
    """Round to nearest even, by definition."""
    if not exact:
        return 0.0
    e = exact.numerator.bit_length() - exact.denominator.bit_length()
    while Fraction(2) ** e > abs(exact):
        e -= 1
    step = Fraction(2) ** max(e - 23, -149)
    n = round(exact / step)  # Fraction rounds half to even
    r = n * step
    return float(r) if abs(r) < Fraction(2) ** 128 else float("inf" if r > 0 else "-inf")


def floats(n: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(x), x, np.float32(1)).astype(np.float32)


def hard_fma(n: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Products with addends that cancel them, lie half an ulp away, vanish beside them, or overflow with them."""
    rng = np.random.default_rng(5)
    a, b = floats(n, 1), floats(n, 2)
    moderate = np.ldexp(1 + rng.integers(0, 2**23, n) * 2.0**-23, rng.integers(-70, 60, n)).astype(np.float32)
    # Sums that lie a sliver beside the middle of two neighbours: binary64 alone would see the middle.
    i, sign = rng.integers(1, 200, n) * 2.0**-23, rng.choice([-1.0, 1.0], n)
    above, below = np.float32(2.0**-24 * sign * (1 + i)), np.float32(1 - i)
    out = [(above, below, np.float32(1 + rng.integers(0, 2**23, n) * 2.0**-23))]
    for x, y in ((a, b), (moderate, np.roll(moderate, 1)), (floats(n, 3) * np.float32(2**-60), moderate)):
        with np.errstate(all="ignore"):
            p = x.astype(float) * y.astype(float)
            near = ((-p).astype(np.float32).view(np.int32) + rng.integers(-3, 4, n).astype(np.int32)).view(np.float32)
            scaled = np.ldexp(p, rng.integers(-60, 60, n)).astype(np.float32)
            # A power of two that puts the product half an ulp (and a little) off the sum's grid.
            half = np.ldexp(np.sign(p), np.frexp(p)[1] + rng.integers(20, 28, n)).astype(np.float32)
        out += [(x, y, np.where(np.isfinite(z), z, np.float32(2.0**-149))) for z in (near, scaled, half, floats(n, 4))]
    return out


@pytest.mark.parametrize(("a", "b", "c"), hard_fma(1200))
def test_fma_has_one_rounding(a, b, c):
    want = [binary32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(fma32(a, b, c).astype(float), want)


def test_fma_of_what_is_not_finite_and_of_zeros():
    inf, nan = np.inf, np.nan
    rows = [
        (inf, 1, -inf, nan),
        (inf, 0, 1, nan),
        (inf, -2, 1, -inf),
        (1, 1, inf, inf),
        (nan, 1, 1, nan),
        (1, -1, 1, 0.0),
        (-0.0, 1, -0.0, -0.0),
        (0.0, 1, -0.0, 0.0),
        (2.0**-100, -(2.0**-100), 0.0, -0.0),
        (2.0**127, 2, -(2.0**127), 2.0**127),
        (2.0**127, 2, 0, inf),
    ]
    a, b, c, want = (np.array(col, np.float32) for col in zip(*rows, strict=True))
    got = fma32(a, b, c)
    assert [str(v) for v in got] == [str(v) for v in want]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_float_arithmetic_rounds_once(op):
    a, b = floats(3000, 6), floats(3000, 7)
    b = np.where(b == 0, np.float32(1), b)
    exact = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__, "div": Fraction.__truediv__}[op]
    want = [binary32(exact(Fraction(float(x)), Fraction(float(y)))) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(run(one(op, "f32", "f32"), [a, b]).astype(float), want)


def test_sqrt_is_correctly_rounded():
    x = np.abs(floats(3000, 8))
    got = run(one("sqrt", "f32"), [x])
    for v, r in zip(x.tolist(), got.astype(float).tolist(), strict=True):
        # r is nearest if x lies between the squares of the midpoints around r.
        low, high = np.nextafter(np.float32(r), np.float32(-1)), np.nextafter(np.float32(r), np.float32(np.inf))
        assert (Fraction(r) + Fraction(float(low))) ** 2 <= 4 * Fraction(v) <= (Fraction(r) + Fraction(float(high))) ** 2


@pytest.mark.parametrize("op", ["rint", "floor", "ceil", "trunc"])
def test_integral_roundings(op):
    x = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, -0.49999997, 8388609.0, -8388609.0, 4194304.5, -0.0, 3.7, -3.7])
    want = {
        "rint": [0, 2, 2, -0.0, -2, 0, -0.0, 8388609, -8388609, 4194304, -0.0, 4, -4],
        "floor": [0, 1, 2, -1, -2, 0, -1, 8388609, -8388609, 4194304, -0.0, 3, -4],
        "ceil": [1, 2, 3, -0.0, -1, 1, -0.0, 8388609, -8388609, 4194305, -0.0, 4, -3],
        "trunc": [0, 1, 2, -0.0, -1, 0, -0.0, 8388609, -8388609, 4194304, -0.0, 3, -3],
    }[op]
    assert run(one(op, "f32"), [x]).tobytes() == np.float32(want).tobytes()


def interesting(t: str) -> list[int]:
    info = np.iinfo(INTS[t])
    near = [v for k in range(0, INTS[t].itemsize * 8, 3) for v in ((1 << k) - 1, 1 << k, -(1 << k), -(1 << k) - 1)]
    values = {0, 1, 2, 3, 7, -1, -2, -3, -7, 100, info.min, info.min + 1, info.max, info.max - 1, *near}
    return sorted(v for v in values if info.min <= v <= info.max)


def wrapped(value: int, t: str) -> int:
    bits = INTS[t].itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if t[0] == "i" and value >> (bits - 1) else value


def exact_integer(op: str, x: int, y: int, bits: int) -> int:
    if op in ("tdiv", "fdiv", "fmod") and y == 0:
        return 0
    if op in ("shl", "shr") and not 0 <= y < bits:
        return -1 if op == "shr" and x < 0 else 0
    return {
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "tdiv": lambda: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1),
        "fdiv": lambda: x // y,
        "fmod": lambda: x % y,
        "and": lambda: x & y,
        "or": lambda: x | y,
        "xor": lambda: x ^ y,
        "shl": lambda: x << y,
        "shr": lambda: x >> y,
    }[op]()


@pytest.mark.parametrize("t", INTS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "tdiv", "fdiv", "fmod", "and", "or", "xor", "shl", "shr"])
def test_integers_wrap_and_divide_by_the_rules(op, t):
    values = interesting(t)
    x, y = (v.reshape(-1) for v in np.meshgrid(*[np.array(values, INTS[t])] * 2))
    got = run(one(op, t, t), [x, y])
    want = [wrapped(exact_integer(op, int(p), int(q), INTS[t].itemsize * 8), t) for p, q in zip(x, y, strict=True)]
    assert got.dtype == INTS[t]
    assert got.tolist() == want


@pytest.mark.parametrize("t", ["f32", "i32", "u8"])
def test_comparisons(t):
    values = [0, 1, 2, 250] if t == "u8" else [0, 1, -1, 7]
    x, y = (np.array(v).reshape(-1) for v in np.meshgrid(values, values))
    x, y = (v.astype(np.float32 if t == "f32" else INTS[t]) for v in (x, y))
    if t == "f32":
        x, y = np.append(x, [np.nan, 1]).astype(np.float32), np.append(y, [1, np.nan]).astype(np.float32)
    for op, f in {"lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "eq": "__eq__", "ne": "__ne__"}.items():
        want = [getattr(float(p), f)(float(q)) for p, q in zip(x, y, strict=True)]
        assert run(one(op, t, t), [x, y]).tolist() == want


def test_remainder_of_c():
    x = np.float32([5.5, -5.5, 5.5, 1e10, 3.0, np.inf, 1.0, 0.0, -0.0, 7.0])
    y = np.float32([2.0, 2.0, -2.0, 3.0, np.inf, 2.0, 0.0, 1.0, 1.0, np.nan])
    got = run(one("cremf", "f32", "f32"), [x, y])
    assert got.tobytes()[: 5 * 4] == np.float32([1.5, -1.5, 1.5, 1.0, 3.0]).tobytes()
    assert np.isnan(got[[5, 6, 9]]).all()
    assert got[7:9].tobytes() == np.float32([0.0, -0.0]).tobytes()


def test_bits_select_and_masks():
    b = Builder(("f32", "f32"))
    x, y = b.input(0), b.input(1)
    out = b.select((x < y) & ~(x.eq(1.0)) | x.is_nan(), x.bits("i32"), y.bits("i32"))
    got = run(LaneProgram(b.inputs, tuple(b.instrs), out.number), [np.float32([0, 1, 5, np.nan]), np.float32([2, 2, 2, 2])])
    assert got.tolist() == [0, 0x40000000, 0x40000000, 0x7FC00000]


@pytest.mark.parametrize(("target", "bits"), [("f16", [0x7E00, 0xFE00, 0x7E00, 0x0000, 0x8001, 0x7BFF, 0x7C00, 0x3C00, 0x3C02])])
def test_narrowing_to_half(target, bits):
    x = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF], np.uint32).view(np.float32)
    x = np.append(x, np.float32([2.0**-25, -(2.0**-25) * 1.5, 65519, 65520, 1 + 2.0**-11, 1 + 3 * 2.0**-11]))
    assert run(one("cvt", "f32", result=target), [x]).view(np.uint16).tolist() == bits


def test_narrowing_to_bfloat16():
    x = np.array([0x7F800001, 0xFF800001, 0x00008000, 0x00018000, 0x3F808000, 0x3F818000, 0x7F7FFFFF], np.uint32).view(np.float32)
    got = run(one("cvt", "f32", result="bf16"), [x])
    assert got.view(np.uint16).tolist() == [0x7FC0, 0xFFC0, 0, 2, 0x3F80, 0x3F82, 0x7F80]


def test_binary64_and_integers_reach_a_half_with_one_rounding():
    # By way of binary32 each of these would round to a tie first and then to even.
    doubles = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40])
    assert run(one("cvt", "f64", result="f16"), [doubles]).tolist() == [1 + 2.0**-10, 1 + 2.0**-10]
    big = np.array([2**60 + 2**52 + 1, -(2**60) - 2**52 - 1, 2**60 + 2**52, 2**60 + 3 * 2**52 - 1])
    assert run(one("cvt", "i64", result="bf16"), [big]).astype(float).tolist() == [
        2.0**60 + 2.0**53,
        -(2.0**60) - 2.0**53,
        2.0**60,
        2.0**60 + 2.0**53,
    ]


def test_constants_are_rounded_once():
    assert float(rounded_constant(1 + 2.0**-8 + 2.0**-40, "bf16")[0]) == 1 + 2.0**-7
    assert float(rounded_constant(1.0004882812509095, "f16")[0]) == 1.0009765625
    assert rounded_constant(2**63, "u64")[0] == 2**63
    assert np.isnan(rounded_constant(float("nan"), "bf16")[0])
    assert [float(rounded_constant(v, t)[0]) for v in (1e300, -float("inf")) for t in ("bf16", "f16", "f32")] == (
        [float("inf")] * 3 + [-float("inf")] * 3
    )


def test_conversions_between_integers_and_floats():
    wide = np.array([2**24 + 1, -(2**24) - 1, 2**63 - 1, -(2**63)], np.int64)
    assert run(one("cvt", "i64", result="f32"), [wide]).tolist() == [2.0**24, -(2.0**24), 2.0**63, -(2.0**63)]
    assert run(one("cvt", "u64", result="f32"), [np.array([2**64 - 1], np.uint64)]).tolist() == [2.0**64]
    assert run(one("cvt", "i64", result="i8"), [np.array([300, -129], np.int64)]).tolist() == [44, 127]
    assert run(one("cvt", "f32", result="i16"), [np.float32([2.9, -2.9])]).tolist() == [2, -2]
    assert run(one("cvt", "b8", result="f32"), [np.array([True, False])]).tolist() == [1.0, 0.0]


def test_operands_broadcast_and_are_never_handed_out():
    x = np.float32([[1], [2]])
    assert run(one("add", "f32", "f32"), [x, np.float32([10, 20, 30])]).tolist() == [[11, 21, 31], [12, 22, 32]]
    same = LaneProgram(("f32",), (), 0)
    out = run(same, [x])
    out[0, 0] = 5
    assert x[0, 0] == 1
    assert run(one("neg", "f32"), [np.array(3, np.float32)]).shape == ()


def test_every_instruction_has_a_meaning():
    for op, (count, takes) in OPS.items():
        t = takes[0]
        result = {"bits": "i32", "cvt": "f64"}.get(op)
        types = ("mask", t, t) if op == "select" else (t,) * count
        arrays = [np.ones(3, {"mask": np.bool_, "f32": np.float32, "f16": np.float16, "i8": np.int8}[x]) for x in types]
        assert run(one(op, *types, result=result), arrays).shape == (3,)
    assert np.dtype(ml_dtypes.bfloat16).itemsize == 2
