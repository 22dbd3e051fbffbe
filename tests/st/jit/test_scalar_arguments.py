"""Numbers as arguments: the documented conversions or a TypeError that names the parameter; one kernel for all values."""

import decimal
import enum
import fractions

import numpy as np
import pytest
from jit_kit import HEAD, full, untouched

import pypto
import pypto.language as pl


def of_two():
    @pl.jit
    def k(x: pl.Tensor, s: pl.FP32, n: pl.Scalar[pl.INDEX], y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.mul(x, s)
            if n > 0:
                r = pl.yield_(pl.add(t, 10.0))
            else:
                r = pl.yield_(t)
            y[:] = r
        return y

    return k


def go(kernel, s, n):
    y = untouched()
    kernel(full(1.0), s, n, y)
    assert (y == y[0, 0]).all()
    return float(y[0, 0])


class Count(enum.IntEnum):
    ONE = 1


class Index:
    def __index__(self):
        return 1


class Float:
    def __float__(self):
        return 3.0


class Both(Index, Float):
    pass


FLOATS = [
    (2.5, 2.5),
    (-0.0, -0.0),
    (float("inf"), float("inf")),
    (3, 3.0),
    (True, 1.0),
    (np.float32(3), 3.0),
    (np.float64(3), 3.0),
    (np.float16(3), 3.0),
    (np.int64(3), 3.0),
    (np.array(3.0), 3.0),
    (np.array(3, np.int8), 3.0),
    (np.True_, 1.0),
    (Float(), 3.0),
    (Index(), 1.0),
    (Count.ONE, 1.0),
    (fractions.Fraction(3), 3.0),
    (decimal.Decimal(3), 3.0),
    (1e300, float("inf")),
    (2**70, float(2**70)),
]
INTEGERS = [1, np.int64(1), np.uint8(1), np.array(1), True, np.True_, Count.ONE, Index(), 2**63 - 1]
NEITHER = [
    ([3.0], 1),
    ("3", 1),
    (b"3", 1),
    (None, 1),
    ({}, 1),
    (3j, 1),
    (np.complex64(3), 1),
    (full(1.0), 1),
    (np.array([3.0]), 1),
    (np.array("3"), 1),
    (np.datetime64(3, "s"), 1),
    (2.0, 1.5),
    (2.0, 1.0),
    (2.0, np.float32(1)),
    (2.0, np.array(1.0)),
    (2.0, Float()),
    (2.0, [1]),
    (2.0, "1"),
    (2.0, None),
    (2.0, np.array([1])),
]


def test_all_values_are_one_kernel(launcher):
    kernel = of_two()
    before = pypto.cache_stats().requests
    for s, want in FLOATS:
        assert go(kernel, s, 0) == want, s
        assert np.signbit(go(kernel, s, 0)) == np.signbit(want), s
    for n in INTEGERS:
        assert go(kernel, 2.0, n) == 12.0, n
    for n in (0, -1, -(2**63), False, np.int32(-5)):
        assert go(kernel, 2.0, n) == 2.0, n
    assert len(kernel.kernels) == 1
    assert pypto.cache_stats().requests == before + 1


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_what_is_no_number_of_the_kind(launcher, warm):
    kernel = of_two()
    if warm:
        assert go(kernel, 2.5, 1) == 12.5
    for s, n in NEITHER:
        with pytest.raises(TypeError, match=r"'s'|'n'"):
            go(kernel, s, n)
    assert len(kernel.kernels) <= 1
    assert go(kernel, 2.5, 0) == 2.5


def test_integers_out_of_range(launcher):
    kernel = of_two()
    for _ in range(2):
        for n in (2**63, -(2**63) - 1, np.uint64(2**63), 2**5000):
            with pytest.raises(ValueError, match=r"'n'.*INDEX"):
                kernel(full(1.0), 1.0, n, untouched())
        with pytest.raises(ValueError, match="'s'"):
            kernel(full(1.0), 10**400, 1, untouched())
        assert go(kernel, 2.0, 1) == 12.0


def of_dtype(dtype):
    @pl.jit
    def k(x: pl.Tensor, s: pl.Scalar[dtype], y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.add(x, pl.cast(s, pl.INT32))
        return y

    return k


@pytest.mark.parametrize("dtype", [pl.INT8, pl.UINT8, pl.INT16, pl.UINT16, pl.INT32, pl.UINT32, pl.INT64, pl.UINT64])
def test_the_ends_of_every_integer_type(launcher, dtype):
    kernel = of_dtype(dtype)
    info = np.iinfo(dtype.numpy())
    x = np.zeros((8, 8), np.int32)
    for value in (int(info.min), int(info.max), 0, 1):
        y = untouched((8, 8), np.int32)
        kernel(x, value, y)
        assert (y == np.array(value % 2**32, np.uint32).astype(np.int32)).all(), value
        y[:] = 77
        kernel(x, info.dtype.type(value), y)
        assert (y == np.array(value % 2**32, np.uint32).astype(np.int32)).all(), value
    for value in (int(info.min) - 1, int(info.max) + 1):
        with pytest.raises(ValueError, match=f"'s' expects {dtype.name}"):
            kernel(x, value, y)


def with_flag():
    @pl.jit
    def k(x: pl.Tensor, on: pl.Scalar[pl.BOOL], y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if on:
                r = pl.yield_(pl.mul(x, 2.0))
            else:
                r = pl.yield_(pl.mul(x, 3.0))
            y[:] = r
        return y

    return k


def test_bools(launcher):
    kernel = with_flag()
    for value, want in ((True, 2), (False, 3), (1, 2), (0, 3), (np.True_, 2), (np.False_, 3), (np.array(True), 2)):
        y = untouched()
        kernel(full(1.0), value, y)
        assert (y == want).all(), value
    for value in (2, -1):
        with pytest.raises(ValueError, match="'on'"):
            kernel(full(1.0), value, y)
    for value in (1.0, "yes", None, full(1.0)):
        with pytest.raises(TypeError, match="'on'"):
            kernel(full(1.0), value, y)


def test_a_scalar_for_a_tensor_and_the_reverse(launcher):
    kernel = of_two()
    for _ in range(2):
        for x in (1.0, 1, None, "x", np.float32(1), [[1.0]], (1.0,), {}):
            with pytest.raises(TypeError, match=r"'x' expects a tensor|'x' expects FP32"):
                kernel(x, 1.0, 1, untouched())
        with pytest.raises(TypeError, match="'s'"):
            kernel(full(1.0), full(1.0), 1, untouched())
        assert go(kernel, 2.0, 1) == 12.0


def test_values_that_change_between_compile_and_call(launcher):
    kernel = of_two()
    made = kernel.compile(full(1.0), 2.0, 1, full(1.0))
    y = untouched()
    made(full(1.0), 5.0, 0, y)
    assert (y == 5).all()
    assert go(kernel, 7.0, 1) == 17.0
    assert kernel.compile(full(1.0), 9.0, 0, full(1.0)) is made


def sliced():
    @pl.jit
    def k(x: pl.Tensor, width: pl.INDEX, s: pl.FP32, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [64, width], [0, 0])
            y[0:64, 0:width] = pl.mul(t, s)
        return y

    return k


def test_a_scalar_where_the_language_needs_a_constant(launcher):
    """It becomes part of the key: one kernel for each value, found by value and not by what came first."""
    kernel = sliced()
    for _ in range(2):
        for width in (32, 16, np.int32(8), 32):
            for s in (2.0, 3.0):
                y = untouched()
                kernel(full(1.0), width, s, y)
                assert (y[:, :width] == s).all()
                assert (y[:, width:] == 77).all()
    assert len(kernel.kernels) == 3
    with pytest.raises(TypeError, match="'width'"):
        kernel(full(1.0), 32.0, 2.0, untouched())
    with pytest.raises(pypto.Error, match="32"):
        kernel(full(1.0), 7, 2.0, untouched())  # rows of 28 bytes


def test_the_second_process_knows_which_parameter_is_a_constant(box):
    code = """
@pl.jit
def k(x: pl.Tensor, n: pl.INDEX, s: pl.FP32, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [64, n], [0, 0])
        y[0:64, 0:n] = pl.mul(t, s)
    return y
for n in (32, 16, 32):
    y = np.zeros((64, 64), np.float32); k(ones(), n, 2.0, y); print(int(y.sum()))
print(k.explain(ones(), 16, 5.0, y).split(":")[1].split()[0], k.explain(ones(), 8, 5.0, y).split(":")[1].split()[0])
s = pypto.cache_stats(); print(s.pipeline_runs > 0, s.requests, s.disk_hits)
"""
    assert box.run(HEAD + code).words == ["4096", "2048", "4096", "loaded", "not", "True", "2", "0"]
    assert box.builds() == 2
    assert box.run(HEAD + code).words == ["4096", "2048", "4096", "loaded", "not", "False", "2", "2"]
    assert box.builds() == 0


def test_the_upper_half_of_uint64_is_no_different_when_the_kernel_is_compiled():
    def made():
        @pl.jit
        def k(x: pl.Tensor, n: pl.UINT64, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.mul(x, n)
            return y

        return k

    for value in (2**63, 2**64 - 1, np.uint64(2**64 - 1)):
        k = made()
        for _ in range(2):  # cold, then warm
            y = untouched()
            k(full(1.0), value, y)
            assert (y == np.float32(int(value))).all()
    for value in (2**64, -1, 2**200):
        for kernel in (made(), k):
            with pytest.raises(pypto.errors.ArgumentValueError, match="'n' expects UINT64"):
                kernel(full(1.0), value, untouched())
