"""Operators of two operands on windows cut off at the edge of their tensor, every extent being known while the kernel is
compiled: the result is valid where the first operand is, so that it can be written as it is."""

import numpy as np
import pytest
from lab import BRIEF, native
from programs_kit import normal, out, run, same, whole

import pypto.language as pl
from pypto.errors import CompileError

H, W = 13, 20


@pl.jit
def with_columns(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        xx = pl.slice(a, [16, 32], [0, 0], clamp=True)
        m = pl.row_max(xx)
        o = pl.assemble(o, xx - m, [0, 0])
        o = pl.assemble(o, xx + m, [13, 0])
        o = pl.assemble(o, m + xx, [26, 0])
        o = pl.assemble(o, xx * m, [39, 0])
        o = pl.assemble(o, xx / m, [52, 0])
        o = pl.assemble(o, pl.sub(xx, m), [65, 0])
        o = pl.assemble(o, pl.maximum(xx, m), [78, 0])
        o = pl.assemble(o, pl.minimum(m, xx), [91, 0])
        o = pl.assemble(o, pl.exp(xx - m) * 2.0, [104, 0])
        p[:] = xx - m
    return o, p


def test_a_column_from_the_window_itself():
    a = whole(H, W, low=1)
    m = a.max(1, keepdims=True)
    _, o, p = run(with_columns, a, out(9 * H, W), out(H, W))
    same(o[: 8 * H], np.vstack([a - m, a + m, a + m, a * m, a / m, a - m, np.maximum(a, m), np.minimum(a, m)]))
    np.testing.assert_allclose(o[8 * H :], 2 * np.exp(a - m), rtol=1e-6)
    same(p, a - m)


@pl.jit
def with_rows(x: pl.Tensor, w: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        xx = pl.slice(x, [16, 32], [0, 0], clamp=True)
        ww = pl.slice(w, [32, 32], [0, 0], clamp=True)
        yy = pl.slice(y, [1, 32], [0, 0], clamp=True)
        product = pl.matmul(xx, ww)
        o = pl.assemble(o, pl.relu(product + yy), [0, 0])
        p[:] = yy * product
    with pl.at(level=pl.Level.CORE_GROUP):
        q[:] = pl.slice(o, [16, 32], [0, 0], clamp=True) - pl.slice(y, [1, 32], [0, 0], clamp=True)
    return o, p, q


def test_a_row_over_a_product_and_over_a_window():
    x, w, y = whole(H, 32), whole(32, W), whole(1, W)
    *_, o, p, q = run(with_rows, x, w, y, out(H, W), out(H, W), out(H, W))
    want = np.maximum(x @ w + y, 0)
    same(o, want)
    same(p, x @ w * y)
    same(q, want - y)


@pl.jit
def over_ragged_depth(x: pl.Tensor, w: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(pl.slice(x, [16, 32], [0, 0], clamp=True), pl.slice(w, [32, 32], [0, 0], clamp=True))
        o[:] = product + pl.slice(y, [1, 32], [0, 0], clamp=True)
    return o


def test_a_depth_that_is_no_whole_boxes():
    x, w, y = whole(H, W), whole(W, 17), whole(1, 17)
    same(run(over_ragged_depth, x, w, y, out(H, 17))[3], x @ w + y)


@pl.jit
def of_one_shape(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """The second operand is valid in more than the first."""
    with pl.at(level=pl.Level.CORE_GROUP):
        xx = pl.slice(a, [16, 32], [0, 0], clamp=True)
        yy = pl.slice(b, [16, 32], [0, 0], clamp=True)
        o = pl.assemble(o, xx - yy, [0, 0])
        o = pl.assemble(o, xx > yy, [13, 0])
        o = pl.assemble(o, xx > 0.5, [26, 0])
        o = pl.assemble(o, pl.part_add(xx, yy), [39, 0])
        p[:] = (xx <= yy) * xx
    return o, p


@pytest.mark.parametrize("shape", [(16, 32), (15, 21), (H, W)])
def test_a_second_operand_that_is_valid_in_more(shape):
    a, b = normal(H, W), normal(*shape, number=1)
    *_, o, p = run(of_one_shape, a, b, out(4 * H, W), out(H, W))
    c = b[:H, :W]
    same(o, np.vstack([a - c, a > c, a > 0.5, a + c]))
    same(p, (a <= c) * a)


@pl.jit
def of_bits(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        xx = pl.slice(a, [16, 32], [0, 0], clamp=True)
        yy = pl.slice(b, [16, 32], [0, 0], clamp=True)
        o = pl.assemble(o, pl.xor(xx, yy), [0, 0])
        o = pl.assemble(o, pl.xor(xx, 5), [13, 0])
        o = pl.assemble(o, pl.and_(xx, yy), [26, 0])
    return o


def test_bits():
    a, b = whole(H, W, dtype=np.int32), whole(16, W, dtype=np.int32)
    o = run(of_bits, a, b, out(3 * H, W, dtype=np.int32))[2]
    same(o, np.vstack([a ^ b[:H], a ^ 5, a & b[:H]]))


@pl.jit
def short_column(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.slice(a, [16, 32], [0, 0], clamp=True) * pl.slice(b, [16, 8], [0, 0], clamp=True)[:, 0:1]
    return o


def test_a_vector_that_is_valid_in_less_is_refused():
    with pytest.raises(CompileError, match=r"valid for \[12, 1\] only"):
        short_column(normal(H, W), normal(12, 8), out(H, W))


@pl.jit
def narrowing(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.slice(a, [16, 32], [0, 0], clamp=True)
        for _ in pl.range(3):
            x = x - pl.row_max(x) * 0.5
        o[:] = x
    return o


def test_a_name_that_is_assigned_again_in_a_loop():
    a = want = whole(H, W)
    for _ in range(3):
        want = want - want.max(1, keepdims=True) * np.float32(0.5)
    same(run(narrowing, a, out(H, W))[1], want)


@pl.jit
def handed_on(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        xx = pl.slice(a, [16, 32], [0, 0], clamp=True)
        y = xx - pl.row_max(xx)
    with pl.at(level=pl.Level.CORE_GROUP):
        o = pl.assemble(o, pl.col_sum(y), [0, 0])
    return o


@pl.jit
def handed_on_in_part(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    a.bind_dynamic(0, pl.dynamic("ROWS"))
    for i in pl.range(0, a.shape[0], 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            xx = pl.slice(a, [16, 32], [i, 0], clamp=True)
            y = xx - pl.row_max(xx)
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.assemble(o, pl.col_sum(y), [0, 0])
    return o


def test_rows_that_hold_no_data_are_not_read_by_the_next_kernel():
    a = whole(H, 32)
    for way in BRIEF:
        same(native(handed_on, (a, out(1, 32)), way)[1], (a - a.max(1, keepdims=True)).sum(0))
    with pytest.raises(CompileError, match="valid extent 0 of parameter"):
        handed_on_in_part(a, out(1, 32))
