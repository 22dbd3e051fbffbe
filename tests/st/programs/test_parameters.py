"""Parameters of kernels: bare and full annotations, run-time extents, scalars of every dtype, defaults, keywords, closures."""

import ml_dtypes
import numpy as np
import pytest
from programs_kit import agree, bits, normal, out, run, same, whole

import pypto
import pypto.language as pl
from pypto.errors import ArgumentTypeError, ArgumentValueError

M, N, K = pl.dynamic("M"), pl.dynamic("N"), pl.dynamic("K")


@pl.jit
def bare(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(a, a)
    return o


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(8, 32), (1, 16), (37, 48), (64,), (2, 3, 32)], ids=str)
def test_shapes_and_dtypes_come_from_the_arguments(shape, dtype):
    a = whole(*shape, dtype=dtype)
    same(run(bare, a, np.full(shape, 77, dtype))[1], a + a)


def test_each_specialization_is_compiled_once():
    a = whole(8, 16)
    bare(a, out(8, 16))
    before = pypto.cache_stats().builds
    for _ in range(3):
        bare(a, out(8, 16))
    assert pypto.cache_stats().builds == before
    bare(a.astype(np.int32), out(8, 16, dtype=np.int32))
    bare(whole(9, 16), out(9, 16))
    assert pypto.cache_stats().builds == before + 2


@pl.jit
def full(a: pl.Tensor[[8, 32], pl.FP32], b: pl.Tensor[[8, 1], pl.FP32], o: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.sub(a, b)
    return o


def test_full_annotations():
    a, b = whole(8, 32), whole(8, 1)
    bits(run(full, a, b, out(8, 32))[2], a - b)
    for bad, words in ((whole(8, 16), "32"), (whole(9, 32), "8"), (whole(32), "rank")):
        with pytest.raises(ArgumentValueError, match=f"'a'.*{words}"):
            full(bad, b, out(8, 32))
    with pytest.raises(ArgumentTypeError, match=r"'a'.*fp32.*int32"):
        full(a.astype(np.int32), b, out(8, 32))


@pl.jit
def shared(
    a: pl.Tensor[[M, N], pl.FP32],
    b: pl.Tensor[[1, N], pl.FP32],
    c: pl.Tensor[[M, 8], pl.FP32],
    o: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    m = pl.tensor.dim(a, 0)
    n = pl.tensor.dim(a, 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, m, 8):
            rows = pl.min(8, m - i)
            w = pl.create_tile([8, 8], dtype=pl.FP32, target_memory=pl.Mem.Vec)
            v = pl.row_max(pl.load(c, [i, 0], [8, 8], valid_shape=[rows, 8]), w)
            for j in pl.range(0, n, 16):
                cols = pl.min(16, n - j)
                t = pl.load(a, [i, j], [8, 16], valid_shape=[rows, cols])
                u = pl.load(b, [0, j], [1, 16], valid_shape=[1, cols])
                pl.store(pl.row_expand_add(pl.col_expand_mul(t, u), v), [i, j], o)
    return o


def shared_call(m, n):
    return [whole(m, n), whole(1, n), whole(m, 8), out(m, n)]


def test_several_run_time_extents():
    before = pypto.cache_stats().builds
    calls = [shared_call(*s) for s in ((16, 32), (1, 1), (5, 40), (9, 17), (0, 5), (3, 0))]
    for c in calls:
        shared(*c)
    assert pypto.cache_stats().builds == before + 1
    for (a, b, c, _), got in zip(calls, agree(shared, *calls), strict=True):
        same(got[3], a * b + c.max(1, keepdims=True) if a.size else a)


def test_extents_that_contradict_each_other():
    a, b, c, o = shared_call(8, 16)
    shared(a, b, c, o)
    for args, words in (
        ([a, whole(1, 17), c, o], r"'b'.*N is 17 on axis 1 but 16 on axis 1 of 'a'"),
        ([a, b, whole(9, 8), o], r"'c'.*M is 9 on axis 0 but 8 on axis 0 of 'a'"),
        ([a, b, c, out(8, 15)], r"'o'.*N is 15 on axis 1 but 16 on axis 1 of 'a'"),
    ):
        before = args[3].copy()
        with pytest.raises(ArgumentValueError, match=words):
            shared(*args)
        same(args[3], before)


@pl.jit
def bound_in_the_body(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    a.bind_dynamic(0, K)
    o.bind_dynamic(0, K)
    m, n = a.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(m // 16):
            o[r * 16 : r * 16 + 16, 0:n] = pl.add(a[r * 16 : r * 16 + 16, :], 1.0)
    return o


def test_extents_bound_in_the_body():
    before = pypto.cache_stats().builds
    for rows in (16, 48, 32):
        a = whole(rows, 32)
        same(bound_in_the_body(a, out(rows, 32)), a + 1)
    assert pypto.cache_stats().builds == before + 1
    calls = [[whole(n, 32), out(n, 32)] for n in (16, 64)]
    for (a, _), got in zip(calls, agree(bound_in_the_body, *calls), strict=True):
        same(got[1], a + 1)


# -- scalars -------------------------------------------------------------------------------------------------------


@pl.jit
def integers(
    i8: pl.INT8,
    i16: pl.INT16,
    i32: pl.INT32,
    i64: pl.INT64,
    u8: pl.UINT8,
    u16: pl.UINT16,
    u32: pl.UINT32,
    u64: pl.UINT64,
    n: pl.INDEX,
    flag: pl.BOOL,
    o: pl.Out[pl.Tensor[[16], pl.INT64]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(o, [0], pl.cast(i8, pl.INT64))
        pl.write(o, [1], pl.cast(i16, pl.INT64))
        pl.write(o, [2], pl.cast(i32, pl.INT64))
        pl.write(o, [3], i64)
        pl.write(o, [4], pl.cast(u8, pl.INT64))
        pl.write(o, [5], pl.cast(u16, pl.INT64))
        pl.write(o, [6], pl.cast(u32, pl.INT64))
        pl.write(o, [7], pl.cast(n, pl.INT64))
        if flag and n > 0:
            s = i64 + 1
        else:
            s = i64 - 1
        pl.write(o, [8], s)
        pl.write(o, [9], pl.cast(i8 + i8, pl.INT64))
        pl.write(o, [10], pl.cast(u8 + u8, pl.INT64))
        pl.write(o, [11], pl.cast(u64 // 3, pl.INT64))
    return o


def test_integer_scalars_of_every_width():
    extreme = [
        (-128, -(2**15), -(2**31), -(2**63) + 1, 0, 0, 0, 0, -5, False),
        (127, 2**15 - 1, 2**31 - 1, 2**63 - 2, 255, 2**16 - 1, 2**32 - 1, 2**64 - 1, 7, True),
        (-1, 1, 0, 3, 200, 1, 2**31, 2**63, 0, True),
    ]
    calls = [[*values, out(16, dtype=np.int64)] for values in extreme]
    for values, got in zip(extreme, agree(integers, *calls), strict=True):
        i8, *_, u64, n, flag = values
        i64, u8 = values[3], values[4]
        narrow = (np.array([2 * i8]).astype(np.int8)[0], np.array([2 * u8]).astype(np.uint8)[0])
        counted = i64 + 1 if flag and n > 0 else i64 - 1
        same(got[0][:12], np.array([*values[:7], n, counted, *narrow, u64 // 3], np.int64))


@pl.jit
def floats(a: pl.Tensor, f: pl.FP32, h: pl.FP16, b: pl.BF16, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 16])
        pl.store(pl.mul(t, f), [0, 0], o)
        pl.store(pl.cast(pl.mul(pl.cast(t, pl.FP16), h), pl.FP32), [8, 0], o)
        pl.store(pl.add(t, pl.cast(b, pl.FP32)), [16, 0], o)
        pl.write(s, [0], f)
        pl.write(s, [1], pl.cast(h, pl.FP32))
        pl.write(s, [2], pl.cast(b, pl.FP32))
        pl.write(s, [3], f / 3.0 - f)
    return o, s


def test_float_scalars_are_rounded_to_their_type():
    a = normal(8, 16)
    values = [(0.1, 0.1, 0.1), (3.4e38, 65519.0, 3.39e38), (float("nan"), float("inf"), -0.0), (np.float32(2.5), 2, 7)]
    for v, got in zip(values, agree(floats, *([a, *v, out(24, 16), out(8)] for v in values)), strict=True):
        f, h, b = np.float32(v[0]), np.float16(v[1]), np.float32(ml_dtypes.bfloat16(v[2]))
        with np.errstate(all="ignore"):
            bits(got[1], np.vstack([a * f, (a.astype(np.float16) * h).astype(np.float32), a + b]))
            bits(got[2][:4], np.float32([f, h, b, f / np.float32(3) - f]))


def test_scalars_are_run_time_arguments():
    a = normal(8, 16)
    floats(a, 1.0, 1.0, 1.0, out(24, 16), out(8))
    before = pypto.cache_stats().builds
    for k in range(5):
        floats(a, k / 3, k, -k, out(24, 16), out(8))
    assert pypto.cache_stats().builds == before


@pl.jit
def sized(a: pl.Tensor, rows: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [rows, 16])  # a shape has to be a constant
        for i in pl.range(rows):
            t = pl.add(t, 1.0)
        pl.store(t, [0, 0], o)
    return o


def test_a_scalar_that_the_language_needs_as_a_constant():
    a = whole(16, 16)
    before = pypto.cache_stats().compiler_runs
    for rows in (8, 4, 8, 4):
        want = out(16, 16)
        want[:rows] = a[:rows] + rows
        same(sized(a, rows, out(16, 16)), want)
    assert pypto.cache_stats().compiler_runs == before + 2
    same(run(sized, a, 8, out(16, 16))[1][:8], a[:8] + 8)


@pl.jit
def defaulted(a: pl.Tensor, o: pl.Out[pl.Tensor], k: pl.FP32 = 2.0, *, shift: pl.FP32 = 0.5):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.mul(a, k), shift)
    return o


def test_defaults_and_keywords():
    a, o = whole(8, 16), out(8, 16)
    for _ in range(2):
        same(defaulted(a, o), a * 2 + 0.5)
        same(defaulted(a, o, 3.0), a * 3 + 0.5)
        same(defaulted(o=o, a=a, shift=-1.0), a * 2 - 1)
        same(defaulted(a, k=0.0, shift=4, o=o), 4)


def made(scale, names):
    @pl.jit
    def closure(a: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.mul(a, scale)
            if names:
                o[:] = pl.add(t, WIDTH)
            else:
                o[:] = pl.sub(t, WIDTH)
        return o

    return closure


WIDTH = 16


def test_constants_from_closures_and_modules():
    a = whole(8, 16)
    same(run(made(2, True), a, out(8, 16))[1], a * 2 + 16)
    same(run(made(0.5, False), a, out(8, 16))[1], a * 0.5 - 16)


@pl.jit
def several(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(a, 1.0)
        p[:] = pl.add(a, 2.0)
    return p, o


@pl.jit
def nothing(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(a, 1.0)


@pl.jit.incore
def silent(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    o[:] = pl.add(a, 1.0)
    return None


@pl.jit
def said_to_be_nothing(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    silent(a, o)
    return None


def test_what_a_call_returns():
    a, o, p = whole(8, 16), out(8, 16), out(8, 16)
    for _ in range(2):
        first, second = several(a, o, p)
        assert first is p
        assert second is o
        assert bare(a, o) is o
        for kernel in (nothing, said_to_be_nothing):
            o[:] = 0
            assert kernel(a, o) is None
            same(o, a + 1)


@pl.jit
def hidden(a: pl.Tensor):
    t = pl.create_tensor([8, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[:] = pl.mul(a, 2.0)
    return t


def test_a_temporary_that_is_returned():
    a = whole(8, 16)
    first, second = hidden(a), hidden(a + 1)
    same(first, a * 2)
    same(second, a * 2 + 2)


@pl.jit
def partly(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[2:4, :] = pl.add(a[0:2, :], 1.0)
        p[0:2, :] = pl.add(p[2:4, :], a[0:2, :])
    return o, p


def test_what_a_kernel_does_not_write_is_kept():
    a, o, p = whole(8, 16), whole(8, 16) + 100, whole(8, 16) - 100
    _, got_o, got_p = run(partly, a, o, p)
    same(got_o, np.vstack([o[:2], a[:2] + 1, o[4:]]))
    same(got_p, np.vstack([p[2:4] + a[:2], p[2:]]))
