"""Kernels over every element type: half floats through ml_dtypes and numpy, integers of all widths, booleans, masks."""

import ml_dtypes
import numpy as np
import pytest
from programs_kit import bits, normal, out, run, same, whole

import pypto.language as pl

BF16 = ml_dtypes.bfloat16


@pl.jit
def halves(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [16, 32])
        y = pl.load(b, [0, 0], [16, 32])
        pl.store(pl.sub(pl.mul(x, y), 1.5), [0, 0], o)
        pl.store(pl.maximum(pl.abs(x), pl.div(x, y)), [16, 0], o)
        pl.store(pl.exp(x), [0, 0], p)
        pl.store(pl.sqrt(pl.abs(y)), [16, 0], p)
    return o, p


def test_fp16_rounds_after_every_operator():
    a, b = normal(16, 32).astype(np.float16), normal(16, 32, number=1).astype(np.float16)
    _, _, o, p = run(halves, a, b, out(32, 32, dtype=np.float16), out(32, 32, dtype=np.float16))
    bits(o, np.vstack([a * b - np.float16(1.5), np.maximum(abs(a), a / b)]))
    wide = np.vstack([np.exp(a.astype(np.float64)), np.sqrt(abs(b).astype(np.float64))])
    bits(p, wide.astype(np.float16))


@pl.jit
def brain(a: pl.Tensor, o: pl.Out[pl.Tensor], w: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.cast(pl.load(a, [0, 0], [16, 32]), pl.FP32)
        pl.store(pl.cast(pl.mul(t, t), pl.BF16), [0, 0], o)
        pl.store(t, [0, 0], w)
        v = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(t, v), [0, 0], s)
        o[16:32, :] = a[0:16, :]
    return o, w, s


def test_bf16_arrays():
    a = (whole(16, 32) / 4).astype(BF16)
    f = a.astype(np.float32)
    _, o, w, s = run(brain, a, out(32, 32, dtype=BF16), out(16, 32), out(16, 1))
    bits(o, np.vstack([(f * f).astype(BF16), a]))
    bits(w, f)
    same(s, f.sum(1, keepdims=True))


def test_bf16_under_the_name_of_its_bits():
    @pl.jit
    def annotated(a: pl.Tensor[[8, 16], pl.BF16], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.cast(a, pl.FP32)
        return o

    a = normal(8, 16).astype(BF16)
    bits(run(annotated, a, out(8, 16))[1], a.astype(np.float32))
    for _ in range(2):
        bits(annotated(a.view(np.uint16), out(8, 16)), a.astype(np.float32))


def wrapped(dtype):
    limits = np.iinfo(dtype)
    return np.random.default_rng(1).integers(limits.min, limits.max, (8, 32), endpoint=True).astype(dtype)


@pl.jit
def integers(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = pl.sub(pl.mul(a, b), a)
        o[8:16, :] = pl.maximum(a, b)
        t = pl.load(a, [0, 0], [8, 32])
        pl.store(pl.minimums(pl.adds(t, 1), 7), [16, 0], o)
        pl.store(pl.maximums(pl.neg(t), -5), [24, 0], o)
        s[:] = pl.col_sum(a)
    return o, s


@pytest.mark.parametrize("dtype", [np.int16, np.int32], ids=lambda d: d.__name__)
def test_integer_arithmetic(dtype):
    a, b = wrapped(dtype), wrapped(dtype)[::-1].copy()
    _, _, o, s = run(integers, a, b, np.zeros((32, 32), dtype), np.zeros((1, 32), dtype))
    with np.errstate(over="ignore"):
        one = a + dtype(1)
        same(o, np.vstack([a * b - a, np.maximum(a, b), np.minimum(one, 7), np.maximum(-a, -5)]))
        same(s, a.sum(0, keepdims=True, dtype=dtype))


@pl.jit
def moved(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 32])
        pl.store(pl.slice(t, [4, 32], [4, 0]), [0, 0], o)
        pl.store(pl.fillpad(pl.set_validshape(t, 3, 20), pl.PadValue.max), [8, 0], o)
        o[4:8, :] = a[0:4, :]
    return o


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32], ids=lambda d: d.__name__)
def test_every_integer_type_is_moved(dtype):
    a = wrapped(dtype)
    got = run(moved, a, np.zeros((16, 32), dtype))[1]
    filled = np.full((8, 32), np.iinfo(dtype).max, dtype)
    filled[:3, :20] = a[:3, :20]
    same(got, np.vstack([a[4:], a[:4], filled]))


@pl.jit
def wide(a: pl.Tensor, o: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 16])
        pl.store(pl.cast(t, pl.FP32), [0, 0], o)
        pl.store(pl.cast(t, pl.INT32), [0, 0], n)
    return o, n


def test_int64_arrays():
    a = np.random.default_rng(2).integers(-(2**62), 2**62, (8, 16))
    _, o, n = run(wide, a, out(8, 16), out(8, 16, dtype=np.int32))
    bits(o, a.astype(np.float32))
    same(n, a.astype(np.int32))


@pl.jit
def bytes_to_floats(a: pl.Tensor, o: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.cast(pl.cast(pl.load(a, [0, 0], [8, 32]), pl.FP16), pl.FP32)
        pl.store(pl.mul(x, 0.5), [0, 0], o)
        pl.store(pl.cast(pl.cast(pl.add(pl.mul(x, 2.0), -0.5), pl.FP16), a.dtype), [0, 0], b)
    return o, b


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=lambda d: d.__name__)
def test_pictures(dtype):
    a = wrapped(dtype)
    _, o, b = run(bytes_to_floats, a, out(8, 32), np.zeros((8, 32), dtype))
    limits = np.iinfo(dtype)
    same(o, a * np.float32(0.5))
    twice = a.astype(np.float64) * 2 - 0.5
    same(b, (np.sign(twice) * np.floor(abs(twice) + 0.5)).clip(limits.min, limits.max))


@pl.jit
def selected(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 24])
        u = pl.load(b, [0, 0], [8, 24])
        scratch = pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)
        pl.store(pl.sel(pl.tile.cmp(t, u, cmp_type=4), t, u, scratch), [0, 0], o)
        pl.store(pl.sel(pl.tile.cmps(t, 0.0, cmp_type=2), pl.neg(t), t, scratch), [8, 0], o)
        pl.store(pl.sels(pl.tile.cmps(u, 3.0, cmp_type=5), u, scratch, 3.0), [16, 0], o)
    return o


def test_masks():
    a, b = whole(8, 24), whole(8, 24)[::-1].copy()
    want = [np.where(a > b, a, b), abs(a), np.where(b >= 3, b, 3)]
    same(run(selected, a, b, out(24, 24))[2], np.vstack(want))


@pl.jit
def flags(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8):
            f = pl.read(a, [i])
            if f:
                pl.write(o, [i], not f)
            else:
                pl.write(o, [i], i > 3)
    return o


def test_booleans():
    a = np.array([True, False, True, False] * 2)
    same(run(flags, a, np.zeros(8, bool))[1], [False, False, False, False, False, True, False, True])


@pl.jit
def relabelled(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 16])
        b = pl.reinterpret_view(t, pl.INT32)
        pl.store(b, [0, 0], o)
        pl.store(pl.reinterpret_view(pl.add(b, 1), pl.FP32), [0, 0], p)
        pl.store(pl.reshape(pl.add(b, 0), [4, 32]), [0, 16], o, shapes=[4, 32])
    return o, p


def test_bits_under_another_type():
    a = normal(8, 16)
    _, o, p = run(relabelled, a, out(8, 48, dtype=np.int32), out(8, 16))
    raw = a.view(np.int32)
    want = out(8, 48, dtype=np.int32)
    want[:, :16] = raw
    want[:4, 16:] = raw.reshape(4, 32)
    same(o, want)
    bits(p, (raw + 1).view(np.float32))
