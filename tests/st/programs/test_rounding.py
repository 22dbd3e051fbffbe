"""Conversions: narrow floats are really narrow, float to int follows its mode, saturates, and sends NaN to 0."""

import ml_dtypes
import numpy as np
import pytest
from programs_kit import agree, bits, out, run, same

import pypto.language as pl

INF, NAN = np.inf, np.nan
MODES = ("default", "round", "rint", "trunc", "floor", "ceil")


def narrowing(dtype):
    """FP32 to a narrow float and back, in every mode: blocks of eight rows."""

    @pl.jit
    def narrow(x: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 16])
            pl.store(pl.cast(pl.cast(t, dtype), pl.FP32), [0, 0], o)
            pl.store(pl.cast(pl.cast(t, dtype, mode="round"), pl.FP32), [8, 0], o)
            pl.store(pl.cast(pl.cast(t, dtype, mode="rint"), pl.FP32), [16, 0], o)
            pl.store(pl.cast(pl.cast(t, dtype, mode="trunc"), pl.FP32), [24, 0], o)
            pl.store(pl.cast(pl.cast(t, dtype, mode="floor"), pl.FP32), [32, 0], o)
            pl.store(pl.cast(pl.cast(t, dtype, mode="ceil"), pl.FP32), [40, 0], o)
        return o

    return narrow


def through(dtype, *lists):
    """For each list of values: mode -> what became of them; they stand at the beginning of the tile and at its end."""
    calls = []
    for values in lists:
        x = np.zeros((8, 16), np.float32)
        x.reshape(-1)[: len(values)] = values
        x.reshape(-1)[-len(values) :] = values
        calls.append([x, out(48, 16)])
    found = []
    for values, (_, o) in zip(lists, agree(narrowing(dtype), *calls), strict=True):
        flat = o.reshape(6, -1)
        bits(flat[:, -len(values) :], flat[:, : len(values)])
        found.append(dict(zip(MODES, flat[:, : len(values)], strict=True)))
    return found


#      value                default, rint  "round"      "trunc"               "floor"              "ceil"
BF16_TABLE = """
     0.2691408770292272   0.26953125     0.26953125   0.267578125           0.267578125           0.26953125
     3.14                 3.140625       3.140625     3.125                 3.125                 3.140625
     1.00390625           1.0            1.0078125    1.0                   1.0                   1.0078125
     1.01171875           1.015625       1.015625     1.0078125             1.0078125             1.015625
    -1.00390625          -1.0           -1.0078125   -1.0                  -1.0078125            -1.0
    -1.01171875          -1.015625      -1.015625    -1.0078125            -1.015625             -1.0078125
     259.0                260.0          260.0        258.0                 258.0                 260.0
     3.4e38               inf            inf          3.3895313892515355e38 3.3895313892515355e38 inf
    -3.4e38              -inf           -inf         -3.3895313892515355e38 -inf                  -3.3895313892515355e38
"""
COLUMNS = {"default": 1, "rint": 1, "round": 2, "trunc": 3, "floor": 4, "ceil": 5}


def test_fp32_to_bf16_in_every_mode():
    rows = [[float(f) for f in line.split()] for line in BF16_TABLE.split("\n") if line.strip()]
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0x7FC00000], np.uint32).view(np.float32)
    kept = np.float32([-0.0, INF, -INF, 2.0**-133])
    got, of_nans, of_kept = through(pl.BF16, [r[0] for r in rows], nans, kept)
    for mode, column in COLUMNS.items():
        bits(got[mode], np.float32([r[column] for r in rows]))
        assert np.isnan(of_nans[mode]).all(), mode
        bits(of_kept[mode], kept)


def test_fp32_to_fp16():
    values = [65504.0, 65519.0, 65520.0, 2.0**-24, 2.0**-25, 2.0**-25 * 1.5, -0.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 0.1]
    ties = [1 + 2.0**-11, 2.0**-25, -(2.0**-25)]
    large = [65519.0, 1e6, 2.0**-25, -0.1]
    nearest, away, cut = through(pl.FP16, values, ties, large)
    want = np.float32([65504, 65504, INF, 2.0**-24, 0, 2.0**-24, -0.0, 1.0, 1.001953125, 0.0999755859375])
    bits(nearest["default"], want)
    bits(nearest["rint"], want)
    bits(away["round"], np.float32([1.0009765625, 2.0**-24, -(2.0**-24)]))
    bits(cut["trunc"], np.float32([65504, 65504, 0, -0.0999755859375]))
    bits(cut["floor"], np.float32([65504, 65504, 0, -0.10003662109375]))
    bits(cut["ceil"], np.float32([INF, INF, 2.0**-24, -0.0999755859375]))


def test_every_fp16_and_bf16_value_survives_widening():
    """All 65536 patterns, there and back."""

    @pl.jit
    def there_and_back(x: pl.Tensor, o: pl.Out[pl.Tensor], wide: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for r in pl.range(16):
                t = pl.cast(pl.load(x, [r * 16, 0], [16, 256]), pl.FP32)
                pl.store(t, [r * 16, 0], wide)
                pl.store(pl.cast(t, x.dtype), [r * 16, 0], o)
        return o, wide

    patterns = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = patterns.view(dtype)
        with np.errstate(invalid="ignore"):  # numpy says so of signalling NaNs
            _, back, wide = run(there_and_back, x, out(256, 256, dtype=dtype), out(256, 256))
            bits(wide, x.astype(np.float32))
            bits(back, x)


@pl.jit
def stored(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.cast(pl.load(x, [0, 0], [8, 16]), pl.BF16), [0, 0], o)
    return o


def test_bf16_patterns_in_memory():
    x = np.zeros((8, 16), np.float32)
    x[0, :5] = 3.14, 3.4e38, np.uint32(0x7F800001).view(np.float32), -0.0, 259
    got = run(stored, x, np.zeros((8, 16), ml_dtypes.bfloat16))[1].view(np.uint16)
    assert [hex(v) for v in got[0, :5]] == ["0x4049", "0x7f80", "0x7fc0", "0x8000", "0x4382"]
    # The same bits under their integer name.
    raw = np.zeros((8, 16), np.uint16)
    stored(x, raw.view(ml_dtypes.bfloat16))
    same(raw, got)


@pl.jit
def narrowed_twice(x: pl.Tensor, o: pl.Out[pl.Tensor], d: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        n = pl.cast(pl.cast(t, pl.BF16), pl.FP32)
        m = pl.cast(pl.cast(pl.mul(n, 3.0), pl.BF16), pl.FP32)
        pl.store(m, [0, 0], o)
        pl.store(pl.sub(n, t), [0, 0], d)  # does not fold to 0
    return o, d


def test_a_round_trip_through_a_narrow_type_is_kept():
    _, o, d = run(narrowed_twice, out(8, 16, fill=3.14), out(8, 16), out(8, 16))
    same(o, 9.4375)
    same(d, np.float32(3.140625) - np.float32(3.14))
    same(d, 0.0006248950958251953)


@pl.jit
def from_int(x: pl.Tensor, o: pl.Out[pl.Tensor], h: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        pl.store(pl.cast(pl.cast(t, pl.BF16), pl.FP32), [0, 0], o)
        pl.store(pl.cast(t, pl.FP16), [0, 0], h)
    return o, h


def test_integers_to_narrow_floats():
    x = np.zeros((8, 16), np.int32)
    x[0, :5] = 259, -259, 16842753, 2147483647, 65519
    x[1, :3] = 65520, 2049, -2051
    _, o, h = run(from_int, x, out(8, 16), out(8, 16, dtype=np.float16), early=False)
    same(o[0, :5], [260, -260, 16777216, 2147483648.0, 65536])  # by way of FP32, rounded at each hop
    same(h[0, :5], [259, -259, INF, INF, 65504])
    same(h[1, :3], [INF, 2048, -2052])


@pl.jit
def literals(x: pl.Tensor, o: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        pl.store(pl.mul(t, 1.0004882812509095), [0, 0], o)  # 1 + 2^-11 + 2^-40
        pl.store(pl.cast(pl.mul(pl.cast(t, pl.FP32), 1.0004882812509095), pl.FP16), [0, 0], b)
    return o, b


def test_a_literal_is_rounded_once_to_the_type_that_uses_it():
    _, o, b = run(literals, np.ones((8, 16), np.float16), *(out(8, 16, dtype=np.float16) for _ in range(2)))
    same(o, 1.0009765625)
    same(b, 1.0)  # here the product is one of FP32


@pl.jit
def add16(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [8, 16]), 16.0), [0, 0], o)
    return o


def test_fp16_sums_overflow_to_infinity():
    same(run(add16, np.full((8, 16), 65504, np.float16), out(8, 16, dtype=np.float16))[1], INF)


# -- float to int --------------------------------------------------------------------------------------------------


def to_int(dtype):
    """To integers in every mode: blocks of eight rows, 37 of 64 columns."""

    @pl.jit
    def converted(x: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [8, 64], valid_shape=[8, 37])
            pl.store(pl.cast(t, dtype), [0, 0], o)
            pl.store(pl.cast(t, dtype, mode="round"), [8, 0], o)
            pl.store(pl.cast(t, dtype, mode="rint"), [16, 0], o)
            pl.store(pl.cast(t, dtype, mode="trunc"), [24, 0], o)
            pl.store(pl.cast(t, dtype, mode="floor"), [32, 0], o)
            pl.store(pl.cast(t, dtype, mode="ceil"), [40, 0], o)
        return o

    return converted


def check(dtype, to, *lists, source=np.float32):
    """Lists of (values, mode -> results), each repeated over the 37 valid columns; the rest is not written."""
    calls = []
    for values, _ in lists:
        x = np.full((8, 64), NAN, source)
        x[:, :37] = np.resize(np.array(values, source), 37)
        calls.append([x, out(48, 64, dtype=to, fill=77)])
    for (values, wanted), (_, o) in zip(lists, agree(to_int(dtype), *calls), strict=True):
        same(o[:, 37:], 77)
        for i, mode in enumerate(MODES):
            want = np.array(wanted[mode] if isinstance(wanted, dict) else wanted, to)
            assert len(want) == len(values)
            same(o[8 * i : 8 * i + 8, :37], np.resize(want, 37))


TIES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
TIED = {
    "default": [1, 2, 3, -1, -2, -3],
    "round": [1, 2, 3, -1, -2, -3],
    "rint": [0, 2, 2, 0, -2, -2],
    "trunc": [0, 1, 2, 0, -1, -2],
    "floor": [0, 1, 2, -1, -2, -3],
    "ceil": [1, 2, 3, 0, -1, -2],
}
# Neighbours of a half, and values to which adding a half is itself inexact.
NEAR = [0.49999997, -0.49999997, 8388609.0, -8388609.0, 0.50000006, 4194304.5]
NEARLY = {
    "default": [0, 0, 8388609, -8388609, 1, 4194305],
    "round": [0, 0, 8388609, -8388609, 1, 4194305],
    "rint": [0, 0, 8388609, -8388609, 1, 4194304],
    "trunc": [0, 0, 8388609, -8388609, 0, 4194304],
    "floor": [0, -1, 8388609, -8388609, 0, 4194304],
    "ceil": [1, 0, 8388609, -8388609, 1, 4194305],
}
BEYOND = {
    np.int32: (
        [2147483520.0, 2147483648.0, 3e9, -2147483648.0, -2147483904.0, INF, -INF, NAN],
        [2147483520, 2147483647, 2147483647, -2147483648, -2147483648, 2147483647, -2147483648, 0],
    ),
    np.int16: (
        [32767.0, 32768.0, 1e9, -32768.0, -32769.0, INF, -INF, NAN],
        [32767, 32767, 32767, -32768, -32768, 32767, -32768, 0],
    ),
    np.int8: ([127.0, 128.0, 1e6, -128.0, -129.0, INF, -INF, NAN], [127, 127, 127, -128, -128, 127, -128, 0]),
    np.uint8: ([255.0, 256.0, 1e6, -1.0, -300.0, INF, -INF, NAN], [255, 255, 255, 0, 0, 255, 0, 0]),
    np.int64: (
        [9.223371487098962e18, 9.3e18, -9.223372036854775808e18, -1e19, INF, -INF, NAN],
        [9223371487098961920, 2**63 - 1, -(2**63), -(2**63), 2**63 - 1, -(2**63), 0],
    ),
}
UNSIGNED = {mode: [max(v, 0) for v in row] for mode, row in TIED.items()}


def test_fp32_to_int32():
    check(pl.INT32, np.int32, (TIES, TIED), (NEAR, NEARLY), BEYOND[np.int32])


@pytest.mark.parametrize(("dtype", "to"), [(pl.INT64, np.int64), (pl.INT16, np.int16), (pl.INT8, np.int8)])
def test_fp32_to_other_signed_integers(dtype, to):
    check(dtype, to, (TIES, TIED), BEYOND[to])


def test_fp32_to_uint8():
    check(pl.UINT8, np.uint8, (TIES, UNSIGNED), BEYOND[np.uint8])


@pytest.mark.parametrize(("dtype", "to"), [(pl.INT32, np.int32), (pl.INT16, np.int16), (pl.INT8, np.int8)])
def test_fp16_to_integers(dtype, to):
    limits = np.iinfo(to)
    beyond = [INF, -INF, NAN, 65504.0, -65504.0]
    want = [limits.max, limits.min, 0, min(65504, limits.max), max(-65504, limits.min)]
    check(dtype, to, (TIES, TIED), (beyond, want), source=np.float16)


@pl.jit
def tensor_level(x: pl.Tensor, i: pl.Out[pl.Tensor], r: pl.Out[pl.Tensor], h: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i[:] = pl.cast(x, pl.INT32, mode="floor")
        r[:] = pl.cast(pl.mul(x, 0.5), pl.INT32, mode="rint")
        h[:] = pl.cast(x, pl.FP16)
    return i, r, h


def test_tensor_level_casts():
    x = np.linspace(-40, 40, 8 * 48, dtype=np.float32).reshape(8, 48)
    _, i, r, h = run(tensor_level, x, out(8, 48, dtype=np.int32), out(8, 48, dtype=np.int32), out(8, 48, dtype=np.float16))
    same(i, np.floor(x))
    same(r, np.rint(x * np.float32(0.5)))
    bits(h, x.astype(np.float16))


@pl.jit
def scalar_casts(x: pl.Tensor, o: pl.Out[pl.Tensor], f: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8):
            v = pl.read(x, [i])
            pl.write(o, [i], pl.cast(v, pl.INT32))
            pl.write(f, [i], pl.cast(pl.cast(v, pl.BF16), pl.FP32))
        pl.write(o, [8], pl.cast(2.7, pl.INT32))  # constants are folded to the same
        pl.write(o, [9], pl.cast(-2.7, pl.INT32))
        pl.write(o, [10], pl.cast(3e9, pl.INT32))
    return o, f


def test_scalar_casts_truncate_and_saturate():
    x = np.float32([2.7, -2.7, 3e9, NAN, -3e9, INF, 0.5, 3.14])
    _, o, f = run(scalar_casts, x, out(16, dtype=np.int32), out(8))
    same(o[:8], [2, -2, 2147483647, 0, -2147483648, 2147483647, 0, 3])
    same(o[8:11], [2, -2, 2147483647])
    bits(f, x.astype(ml_dtypes.bfloat16).astype(np.float32))


@pl.jit
def int_to_int(x: pl.Tensor, w: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 32])
        pl.store(pl.cast(t, pl.INT64), [0, 0], w)
        pl.store(pl.cast(t, pl.INT16), [0, 0], n)
        pl.store(pl.cast(t, pl.INT8), [0, 0], b)
    return w, n, b


def test_integers_to_other_integers():
    x = np.zeros((8, 32), np.int32)
    x[0, :8] = 5, -5, 127, 128, 32767, 32768, 70000, -(2**31)
    _, w, n, b = run(int_to_int, x, *(np.full((8, 32), 77, d) for d in (np.int64, np.int16, np.int8)), early=False)
    same(w, x)
    same(n, x.astype(np.int16))  # the low bits
    same(b[0, :8], [5, -5, 127, 127, 127, 127, 127, -128])  # by way of FP16, whose last hop saturates
