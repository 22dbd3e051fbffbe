"""Every conversion in every mode, against an independent rounding: all operands of 16 bits, boundaries of wider ones."""

import numpy as np
import pytest
from rounding import MODES, NUMPY, different, int_to_float, limits, to_float, to_int, wrap

from pypto.debug.lanes import run
from pypto.dtypes import DataType as D
from pypto.ir.ops.casts import cast_lanes, scalar_cast_lanes

FLOATS = (D.FP32, D.FP16, D.BF16)
INTS = tuple(d for d in NUMPY if d.is_int())


def float_operands(d: D) -> np.ndarray:
    if d is not D.FP32:
        return np.arange(65536, dtype=np.uint16).view(NUMPY[d])
    rng = np.random.default_rng(3)
    anything = rng.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    halves = np.arange(0, 65536, 3, dtype=np.uint32)
    around_bf16 = np.concatenate([(halves << 16) + k for k in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).astype(np.uint32)
    with np.errstate(all="ignore"):
        h = np.arange(0, 65536, 3, dtype=np.uint16).view(np.float16)
        ties = ((h.astype(np.float32) + np.nextafter(h, np.float16(np.inf)).astype(np.float32)) / 2).view(np.int32)
    around_fp16 = np.concatenate([ties - 1, ties, ties + 1]).view(np.float32)
    powers = np.array([s * 2.0**k + e for k in range(66) for s in (1, -1) for e in (-0.5, 0, 0.5)], np.float32)
    near = [np.nextafter(powers, np.float32(v)) for v in (0, np.inf, -np.inf)]
    return np.concatenate(
        [anything, around_bf16.view(np.float32), around_fp16, np.arange(-700, 700, 0.25, np.float32), powers, *near]
    )


def int_operands(d: D) -> list[int]:
    bits = d.get_bit()
    low, high = limits(d)
    if bits <= 16:
        return list(range(low, high + 1))
    rng = np.random.default_rng(4)
    wide = rng.integers(0, 2**64 - 1, 3000, dtype=np.uint64) >> rng.integers(0, 64, 3000).astype(np.uint64)
    found = {low, high, 0, 1, *(wrap(s * int(v), d) for v in wide for s in (1, -1))}
    for k in range(bits):
        for j in range(k):
            # Ties and near ties of 8, 11 and 24 bits of precision, and sums that binary64 cannot hold.
            extra = [m for m in (k - 7, k - 8, k - 10, k - 11, k - 23, k - 24) if 0 <= m < j]
            sums = [(1 << k) + (1 << j), *((1 << k) + (1 << j) + (1 << m) for m in extra)]
            found.update(wrap(s * (v + e), d) for v in sums for e in (-1, 0, 1) for s in (1, -1))
    return sorted(found)


def check(source: D, target: D, mode: int | None, x: np.ndarray, want: np.ndarray) -> None:
    got = run(cast_lanes(source, target, mode), [x])
    bad = different(got, want)
    assert not bad.any(), [(x[i], got[i], want[i]) for i in np.nonzero(bad)[0][:5]]


@pytest.mark.parametrize("target", NUMPY, ids=lambda d: d.name)
@pytest.mark.parametrize("source", FLOATS, ids=lambda d: d.name)
def test_from_floats(source, target):
    if source is target:
        return
    x = float_operands(source)
    with np.errstate(all="ignore"):
        v = x.astype(np.float64)
    for mode in (None, *range(len(MODES))):
        name = None if mode is None else MODES[mode]
        if target.is_float():
            want = to_float(v, target, name or "rint")
        else:
            want = v != 0 if target is D.BOOL else to_int(v, target, name or "round")
        check(source, target, mode, x, want)


@pytest.mark.parametrize("target", NUMPY, ids=lambda d: d.name)
@pytest.mark.parametrize("source", INTS, ids=lambda d: d.name)
def test_from_integers(source, target):
    if source is target:
        return
    values = int_operands(source)
    x = np.array(values, NUMPY[source])
    if target.is_float():
        want = np.array([int_to_float(v, target) for v in values]).astype(NUMPY[target])
    elif target is D.BOOL:
        want = x != 0
    else:
        want = np.array([wrap(v, target) for v in values], NUMPY[target])
    check(source, target, None, x, want)
    # Modes say nothing about integers: the very same program.
    assert {cast_lanes(source, target, m) for m in (None, *range(len(MODES)))} == {cast_lanes(source, target, None)}


@pytest.mark.parametrize("target", NUMPY, ids=lambda d: d.name)
def test_from_bool(target):
    if target is not D.BOOL:
        check(D.BOOL, target, None, np.array([True, False]), np.array([1, 0]).astype(NUMPY[target]))


@pytest.mark.parametrize("target", INTS, ids=lambda d: d.name)
@pytest.mark.parametrize("source", FLOATS, ids=lambda d: d.name)
def test_scalars_truncate(source, target):
    x = np.array([2.7, -2.7, 3e9, -3e9, np.inf, -np.inf, np.nan, 0.99, -0.99], np.float64)
    with np.errstate(over="ignore"):
        x = x.astype(NUMPY[source])
    got = run(scalar_cast_lanes(source, target), [x])
    np.testing.assert_array_equal(got, to_int(x.astype(np.float64), target, "trunc"))


TABLE = """0.2691408770292272 0.26953125    0.26953125  0.267578125      0.267578125      0.26953125
           3.14               3.140625      3.140625    3.125            3.125            3.140625
           1.00390625         1.0           1.0078125   1.0              1.0              1.0078125
           1.01171875         1.015625      1.015625    1.0078125        1.0078125        1.015625
          -1.00390625        -1.0          -1.0078125  -1.0             -1.0078125       -1.0
          -1.01171875        -1.015625     -1.015625   -1.0078125       -1.015625        -1.0078125
           259.0              260.0         260.0       258.0            258.0            260.0
           3.4e38             inf           inf         3.3895313892515355e38 3.3895313892515355e38 inf
          -3.4e38            -inf          -inf        -3.3895313892515355e38 -inf       -3.3895313892515355e38"""


@pytest.mark.parametrize(("column", "mode"), [(1, None), (1, 1), (2, 2), (3, 5), (4, 3), (5, 4)])
def test_known_values_of_bfloat16(column, mode):
    rows = [[float(f) for f in line.split()] for line in TABLE.splitlines()]
    x = np.float32([r[0] for r in rows])
    np.testing.assert_array_equal(run(cast_lanes(D.FP32, D.BF16, mode), [x]).astype(float), [r[column] for r in rows])
    patterns = run(cast_lanes(D.FP32, D.BF16, None), [np.float32([3.14, 3.4e38, -0.0, 259.0])]).view(np.uint16)
    assert patterns.tolist() == [0x4049, 0x7F80, 0x8000, 0x4382]


TIES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
NEAR = [0.49999997, -0.49999997, 8388609.0, -8388609.0, 0.50000006, 4194304.5]
ROUNDED = {
    None: ([1, 2, 3, -1, -2, -3], [0, 0, 8388609, -8388609, 1, 4194305]),
    2: ([1, 2, 3, -1, -2, -3], [0, 0, 8388609, -8388609, 1, 4194305]),
    1: ([0, 2, 2, 0, -2, -2], [0, 0, 8388609, -8388609, 1, 4194304]),
    5: ([0, 1, 2, 0, -1, -2], [0, 0, 8388609, -8388609, 0, 4194304]),
    0: ([0, 1, 2, 0, -1, -2], [0, 0, 8388609, -8388609, 0, 4194304]),
    3: ([0, 1, 2, -1, -2, -3], [0, -1, 8388609, -8388609, 0, 4194304]),
    4: ([1, 2, 3, 0, -1, -2], [1, 0, 8388609, -8388609, 1, 4194305]),
    6: ([1, 1, 3, -1, -1, -3], [0, 0, 8388609, -8388609, 1, 4194305]),
}


@pytest.mark.parametrize("mode", ROUNDED)
def test_known_values_of_float_to_integer(mode):
    ties, near = ROUNDED[mode]
    for target in (D.INT8, D.INT16, D.INT32, D.INT64):
        assert run(cast_lanes(D.FP32, target, mode), [np.float32(TIES)]).tolist() == ties
        assert run(cast_lanes(D.FP16, target, mode), [np.float16(TIES)]).tolist() == ties
    assert run(cast_lanes(D.FP32, D.UINT8, mode), [np.float32(TIES)]).tolist() == [max(w, 0) for w in ties]
    assert run(cast_lanes(D.FP32, D.INT32, mode), [np.float32(NEAR)]).tolist() == near
