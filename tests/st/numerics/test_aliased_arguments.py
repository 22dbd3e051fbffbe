"""One array, or one buffer, for several parameters: the numbers of separate arrays, or an error and nothing written."""

import numpy as np
import pytest
from numerics_kit import everywhere
from programs_kit import blocks, out, same, whole

import pypto.language as pl
from pypto.errors import ArgumentValueError


@pl.jit
def product(lhs: pl.Tensor, rhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[:] = pl.matmul(lhs, rhs, out_dtype=pl.FP32)
    return dst


@pl.jit
def turned(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.transpose(pl.load(lhs, [0, 0], [16, 16]), 0, 1), [0, 0], dst)
    return dst


@pl.jit
def by_parts(lhs: pl.Tensor, rhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    """Every part reads all of one operand, which the parts before have overwritten if it is the result."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            dst[i * 8 : i * 8 + 8, :] = pl.matmul(lhs[i * 8 : i * 8 + 8, :], rhs, out_dtype=pl.FP32)
    return dst


@pl.jit
def turned_by_parts(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            pl.store(pl.transpose(pl.load(lhs, [i * 8, 0], [8, 16]), 0, 1), [0, i * 8], dst)
    return dst


@pl.jit
def bits_of(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.cast(pl.load(lhs, [0, 0], [16, 16]), pl.INT32), [0, 0], dst)
    return dst


@pl.jit
def summed(lhs: pl.Tensor, dst: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[:] = pl.add(dst, pl.row_expand(lhs, pl.row_sum(lhs)))
    return dst


def right_or_refused(call, got, want, *names):
    """`call` writes `want` into `got`, or raises an error that names the parameters and writes nothing."""
    before, error = got.copy(), None
    try:
        call()
    except ArgumentValueError as e:
        error = str(e)
    same(got, want if error is None else before)
    assert error is None or all(repr(n) in error for n in names), error


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_kernels_that_read_after_they_wrote(warm):
    a, b = whole(16, 16), whole(16, 16, low=-3, high=4)
    if warm:
        for k, args in ((product, (a, b)), (by_parts, (a, b)), (turned, (a,)), (turned_by_parts, (a,)), (summed, (a,))):
            k(*args, out(16, 16))
    x = a.copy()
    right_or_refused(lambda: product(x, b, x), x, a @ b, "lhs", "dst")
    y = b.copy()
    right_or_refused(lambda: product(a, y, y), y, a @ b, "rhs", "dst")
    same(product(a, a, out(16, 16)), a @ a)  # two inputs may be one
    for k in (turned, turned_by_parts):
        z = a.copy()
        right_or_refused(lambda k=k, z=z: k(z, z), z, a.T, "lhs", "dst")
    u = a.copy()
    right_or_refused(lambda: by_parts(u, b, u), u, a @ b, "lhs", "dst")
    v = b.copy()
    right_or_refused(lambda: by_parts(a, v, v), v, a @ b, "rhs", "dst")
    w = a.copy()
    right_or_refused(lambda: summed(w, w), w, a + a.sum(1, keepdims=True), "lhs", "dst")


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_one_buffer_under_two_types(warm):
    floats = whole(24, 16)
    words = floats.view(np.int32)
    if warm:
        bits_of(floats[:16], np.zeros((16, 16), np.int32))
    before = floats.copy()
    for lhs, dst in ((floats[:16], words[8:]), (floats[8:], words[:16]), (floats[4:20], words[:16])):
        with pytest.raises(ArgumentValueError, match="'lhs' and 'dst' overlap"):
            bits_of(lhs, dst)
    same(floats, before)
    right_or_refused(lambda: bits_of(floats[:16], words[:16]), words[:16], before[:16].astype(np.int32), "lhs", "dst")
    same(floats[16:], before[16:])


def test_arrays_that_are_turned_or_interleaved_leave_each_other_alone():
    """Their bytes interleave with others: whether they are taken or not, only what was asked for changes."""
    wide = whole(16, 32)
    for lhs, dst in ((wide[:, :16], wide[:, 16:]), (wide[:, ::2], wide[:, 1::2]), (wide[::-1, :16], wide[:, 16:])):
        given, at, error = lhs.copy(), dst.copy(), None
        try:
            summed(lhs, dst)
        except ArgumentValueError as e:
            error = str(e)
        same(lhs, given)
        same(dst, at + given.sum(1, keepdims=True) if error is None else at)
        assert error is None or "has strides" in error
    square = whole(16, 16)
    want = square.copy()
    for lhs, dst in ((square.T, square), (square[::-1], square), (square, square.T)):
        right_or_refused(lambda lhs=lhs, dst=dst: turned(lhs, dst), square, want.T)
        square[:] = want


@pl.jit.incore
def total(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    o[:] = pl.add(x, y)
    return o


@pl.jit
def orchestrated(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """Kernels called with one tensor twice, also as their result, and with two parts of one."""
    t = pl.create_tensor([16, 8], dtype=pl.FP32)
    t = total(a, a, t)
    t = total(t, a, t)
    t = total(t, t, t)
    o = total(t, a, o)
    o = total(o, o, o)
    u = pl.create_tensor([8, 8], dtype=pl.FP32)
    u = total(a[0:8, :], a[8:16, :], u)
    u = total(u, u, u)
    p = total(u, a[0:8, :], p)
    return o, p


def test_kernels_of_an_orchestration():
    _, o, p = everywhere(orchestrated, blocks(1, 2), out(16, 8), out(8, 8))
    same(o, blocks(14, 28))  # ((1 + 1 + 1) * 2 + 1) * 2
    same(p, 7)
