"""Rounding wherever it hides: every value that becomes a narrower type, or an integer, is rounded once and by the same rule.

Operands of tiles, constants, fills, stores of accumulators, scalars; constants that are folded agree with what runs.
"""

import ml_dtypes
import numpy as np
from numerics_kit import agree, everywhere, scope
from programs_kit import bits, out, same

import pypto.language as pl

BF16 = ml_dtypes.bfloat16
NAN, INF = np.nan, np.inf
# Just above the middle between two halves: by way of FP32 it would be the middle, and round to the even one below.
ABOVE = 1 + 2.0**-11 + 2.0**-40
UP, DOWN = 1 + 2.0**-10, 1.0


@pl.jit
def halves(x: pl.Tensor, s: pl.Tensor, o: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        f = pl.read(s, [0])
        pl.store(pl.mul(t, 1.0004882812509095), [0, 0], o)
        pl.store(pl.tile.full([8, 16], dtype=pl.FP16, value=1.0004882812509095), [8, 0], o)
        pl.store(pl.expands(t, 1.0004882812509095), [16, 0], o)
        pl.store(pl.muls(t, f), [24, 0], o)
        pl.store(pl.muls(t, pl.cast(f, pl.FP16)), [32, 0], o)
        pl.store(pl.cast(pl.adds(pl.cast(t, pl.FP32), 0.00048828125), pl.FP16), [40, 0], o)
        pl.store(pl.maximums(t, 1.0004882812509095), [48, 0], o)
        pl.store(pl.adds(pl.muls(t, 65504.0), 16.0), [56, 0], o)
        pl.store(pl.muls(t, 5.960464477539063e-08), [64, 0], o)
        pl.store(pl.muls(pl.muls(t, 5.960464477539063e-08), 0.5), [72, 0], o)
        pl.store(pl.muls(pl.muls(t, 5.960464477539063e-08), 1.5), [80, 0], o)
        pl.write(e, [0], 1.0004882812509095)
        pl.write(e, [1], pl.cast(f, pl.FP16))
        pl.write(e, [2], pl.cast(1.0004882812509095, pl.FP16))
        pl.write(e, [3], -0.0)
        pl.write(e, [4], 65519.9)
        pl.write(e, [5], 65520.0)
        pl.write(e, [6], -2.9802322387695312e-08)
        pl.write(e, [7], 2.980232238769532e-08)
    return o, e


def test_halves():
    s = np.float32([1 + 2.0**-11 + 2.0**-20])
    h = np.float16
    _, _, o, e = everywhere(halves, np.ones((8, 16), h), s, out(88, 16, dtype=h), out(8, dtype=h))
    small = 2.0**-24
    rows = [UP, UP, UP, UP, UP, DOWN, UP, INF, small, 0, 2 * small]  # 2**-25 and 1.5 * 2**-24 go to the even one
    bits(o, np.repeat(np.array(rows, h), 8)[:, None])
    bits(e, np.array([UP, UP, UP, -0.0, 65504, INF, -0.0, small], h))
    assert np.float16(np.float32(ABOVE)) == DOWN  # what rounding twice would give


@pl.jit
def literals(e: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(e, [0], pl.cast(pl.cast(1.0004882812509095, pl.FP32), pl.FP16))
        pl.write(e, [1], pl.cast(pl.const(1.0004882812509095, pl.FP32), pl.FP16))
        pl.write(e, [2], pl.const(1.0004882812509095, pl.FP16))
        pl.write(e, [3], pl.cast(1.0004882812509095, pl.FP16))
    return e


def test_each_conversion_of_a_literal_rounds():
    """A literal is rounded where it is converted; one that was converted before is rounded a second time."""
    (e,) = everywhere(literals, out(8, dtype=np.float16))
    bits(e[:4], np.array([DOWN, DOWN, UP, UP], np.float16))
    assert np.float16(np.float32(1.0004882812509095)) == DOWN


@pl.jit
def accumulators(a: pl.Tensor, b: pl.Tensor, h: pl.Out[pl.Tensor], w: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    """A wide accumulator that is stored as something narrower, and sums of narrow elements."""
    with pl.at(level=pl.Level.CORE_GROUP):
        h[:] = pl.matmul(a, b, out_dtype=pl.FP16)
        w[:] = pl.matmul(a, b, out_dtype=pl.BF16)
        c = pl.cast(pl.matmul(a, b, out_dtype=pl.FP32), pl.FP16, mode="floor")
        s[:] = c
    return h, w, s


def test_accumulators_that_are_stored_narrow():
    a, b = np.zeros((16, 16), np.float32), np.eye(16, dtype=np.float32)
    a[0, :8] = 1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11, 65519, 65520, 2.0**-25, -(2.0**-25) * 1.5, 259
    h, w = np.float16, BF16
    *_, x, y, z = everywhere(accumulators, a, b, out(16, 16, dtype=h), out(16, 16, dtype=w), out(16, 16, dtype=h))
    same(x[0, :8], np.array([1, 1 + 2.0**-9, -1, 65504, INF, 0, -(2.0**-24), 259], h))
    same(y[0, :8], np.array([1, 1, -1, 65536, 65536, 2.0**-25, -1.5 * 2.0**-25, 260], w))
    same(z[0, :8], np.array([1, 1 + 2.0**-10, -1 - 2.0**-10, 65504, 65504, 0, -(2.0**-24), 259], h))


MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
TIES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0]
GIVEN = {
    "none": [0, 1, 2, 0, -1, -2, 0, 8388609],
    "rint": [0, 2, 2, 0, -2, -2, 0, 8388609],
    "round": [1, 2, 3, -1, -2, -3, 0, 8388609],
    "floor": [0, 1, 2, -1, -2, -3, 0, 8388609],
    "ceil": [1, 2, 3, 0, -1, -2, 1, 8388609],
    "trunc": [0, 1, 2, 0, -1, -2, 0, 8388609],
    "odd": [1, 1, 3, -1, -1, -3, 0, 8388609],
}


def test_modes_by_name_and_by_number_at_both_levels(tmp_path):
    lines, row = ["t = pl.load(x, [0, 0], [8, 8])"], 0
    for number, name in enumerate(MODES):
        for mode in (repr(name), number):
            lines.append(f"pl.store(pl.cast(t, pl.INT32, mode={mode}), [{row}, 0], o)")
            lines.append(f"o[{row + 8}:{row + 16}, :] = pl.cast(x, pl.INT32, mode={mode})")
            row += 16
    k = scope("x: pl.Tensor, o: pl.Out[pl.Tensor]", lines, tmp_path)
    o = everywhere(k, np.tile(np.float32(TIES), (8, 1)), out(row, 8, dtype=np.int32))[1]
    for number, name in enumerate(MODES):
        same(o[32 * number : 32 * number + 32], np.array(GIVEN[name]))


@pl.jit
def tails(x: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], h: pl.Out[pl.Tensor], w: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(x, [0, 0], [8, 48], valid_shape=[8, n])
        pl.store(pl.cast(t, pl.INT16, mode="rint"), [0, 0], o)
        pl.store(pl.cast(t, pl.FP16), [0, 0], h)
        pl.store(pl.cast(t, pl.BF16, mode="floor"), [0, 0], w)
    return o, h, w


def test_casts_in_every_tail():
    """The same number in every column, whatever the width: vector bodies and tails round alike."""
    column = np.float32([0.5, 1.5, 2.5, -2.5, 40000, 1 + 2.0**-11, -1.00390625, NAN])[:, None]
    want = {
        np.int16: [0, 2, 2, -2, 32767, 1, -1, 0],
        np.float16: [0.5, 1.5, 2.5, -2.5, 40000, 1, -1.00390625, NAN],
        BF16: [0.5, 1.5, 2.5, -2.5, 39936, 1, -1.0078125, NAN],
    }
    calls = []
    for n in range(1, 49):
        x = np.full((8, 48), np.float32(3e38))
        x[:, :n] = column
        calls.append([x, np.int32([n]), *(out(8, 48, dtype=d, fill=77) for d in want)])
    some = (0, 14, 15, 30, 46)
    done = dict(zip(some, agree(tails, *(calls[i] for i in some)), strict=True))
    for i, call in enumerate(calls):
        if i not in done:
            tails(*call)
        for got, (dtype, values) in zip(done.get(i, call)[2:], want.items(), strict=True):
            same(got[:, : i + 1].astype(np.float32), np.array(values, np.float32)[:, None])
            same(got[:, i + 1 :], np.array(77, dtype))


@pl.jit
def folded(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(o, [0], pl.cast(2.5, pl.INT32))
        pl.write(o, [1], pl.cast(-2.5, pl.INT32))
        pl.write(o, [2], pl.cast(3e9, pl.INT32))
        pl.write(o, [3], pl.cast(-3e9, pl.INT32))
        pl.write(o, [4], pl.cast(0.99999999, pl.INT32))
        for i in pl.range(5):
            pl.write(o, [8 + i], pl.cast(pl.read(x, [i]), pl.INT32))
    return o


def test_folded_and_run_time_conversions_of_scalars():
    x = np.float32([2.5, -2.5, 3e9, -3e9, 0.9999999])
    o = everywhere(folded, x, out(16, dtype=np.int32))[1]
    same(o[8:13], [2, -2, 2**31 - 1, -(2**31), 0])
    same(o[:4], o[8:12])
    assert o[4] in (0, 1)  # 0.99999999 is 1 in FP32
