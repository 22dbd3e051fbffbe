"""Matrix kernels that are buffers by default: every planner, native and interpreted, gives what tiles give, to the bit."""

import ml_dtypes
import numpy as np
import pytest
from lab import Way, everywhere
from test_matmul import a_turned, b_turned, halves, mm, mm8, out, product, small

import pypto.language as pl
from pypto.enums import FunctionIRStage, MemoryPlanner

BF16 = ml_dtypes.bfloat16
WAYS = (*(Way(p, True, o) for p in MemoryPlanner for o in (True, False)), Way(buffers=False))


@pl.jit
def twice(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.move(pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
        y = pl.move(pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Right)
        pl.store(pl.matmul_acc(pl.matmul(x, y), x, y), [0, 0], o)
    return o


@pl.jit
def in_a_loop(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        c = pl.create_tile([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k in pl.range(0, 128, 32):
            x = pl.load(a, [0, k], [64, 32], target_memory=pl.Mem.Mat)
            c = pl.matmul_acc(c, x, pl.load(b, [k, 0], [32, 64], target_memory=pl.Mem.Mat), init_cond=(k == 0))
        pl.store(c, [0, 0], o)
    return o


@pl.jit
def row_by_row(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        for k in pl.range(0, 64, 16):
            x = pl.load(a, [k, 0], [16, 64], target_memory=pl.Mem.Mat)
            pl.store(pl.matmul(x, y), [k, 0], o)
    return o


@pl.jit
def beside(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        c = pl.matmul(x, pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat))
        z = pl.load(b, [0, 0], [64, 64], valid_shape=[64, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul_acc(c, x, z), [0, 0], o)
    return o


@pl.jit
def above(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        c = pl.matmul(pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat), y)
        z = pl.load(a, [0, 0], [64, 64], valid_shape=[32, 64], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul_acc(c, z, y), [0, 0], o)
    return o


def chosen(kernel, *args):
    """What the kernel leaves in its output, however it is executed; it is a kernel of buffers."""
    lowered = kernel.lower(*args)
    assert [f.ir_stage for f in lowered.function_list if f.is_device] == [FunctionIRStage.Buffer]
    *_, o = everywhere(kernel, *args, ways=WAYS)
    return o


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
def test_sums_that_begin_and_go_on(dtype):
    a, b = small(64, 128, dtype, 3), small(128, 64, dtype, 2)
    np.testing.assert_array_equal(chosen(in_a_loop, a, b, out(64, 64)), product(a, b))
    a, b = a[:, :64].copy(), b[:64].copy()
    np.testing.assert_array_equal(chosen(twice, a, b, out(64, 64)), 2 * product(a, b))
    np.testing.assert_array_equal(chosen(row_by_row, a, b, out(64, 64)), product(a, b))


def test_sums_beside_a_product_stay():
    a, b = small(64, 64, np.float16, 3), small(64, 64, np.float16, 2)
    want = product(a, b)
    want[:, :32] *= 2
    np.testing.assert_array_equal(chosen(beside, a, b, out(64, 64)), want)


def test_sums_below_a_product_of_fewer_rows_are_tiles():
    """The matrix unit would write them elsewhere than they lie: there is no text for it, and no kernel of buffers."""
    a, b = small(64, 64, np.float16, 3), small(64, 64, np.float16, 2)
    want = product(a, b)
    want[:32] *= 2
    assert [f.ir_stage for f in above.lower(a, b, out(64, 64)).function_list if f.is_device] == [FunctionIRStage.Functional]
    *_, o = everywhere(above, a, b, out(64, 64), ways=WAYS)
    np.testing.assert_array_equal(o, want)
    assert "a product of 32 rows is written into an accumulator of 64" in above.compile(a, b, out(64, 64)).inspect("buffer_ir")


@pytest.mark.parametrize(("m", "k", "n"), [(40, 64, 72), (40, 1024, 72)])
def test_products_of_tensors(m, k, n):
    a, b = small(m, k, np.float16, 3), small(k, n, np.float16, 2)
    np.testing.assert_array_equal(chosen(mm, a, b, out(m, n)), product(a, b))
    np.testing.assert_array_equal(chosen(a_turned, a.T.copy(), b, out(m, n)), product(a, b))
    np.testing.assert_array_equal(chosen(b_turned, a, b.T.copy(), out(m, n)), product(a, b))
    o = chosen(halves, a, b, out(m, n, dtype=np.float16))
    np.testing.assert_array_equal(o, product(a, b).astype(np.float16))
    a, b = small(m, k, np.int8, 3), small(k, n, np.int8, 2)
    np.testing.assert_array_equal(chosen(mm8, a, b, out(m, n, dtype=np.int32)), product(a, b))
