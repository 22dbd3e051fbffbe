"""Numbers of kernels in Buffer IR, under each planner: transfers, arithmetic, products, windows and run-time extents.

Entries read run-time values from a tensor and call one kernel with each, so that one artifact shows all of them; what no
value makes the kernel write keeps its sentinel.
"""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from runtime.buffer_kit import I, carried, check_explicit, config, dyadic, planned, unwritten, whole

contract = pytest.mark.contract
pytestmark = pytest.mark.platforms("a2a3", "a2a3sim", reason="kernels for a5 stay in tile form")
BF16 = ml_dtypes.bfloat16


# -- load, add, mul, store -------------------------------------------------------------------------------------------


@pl.jit.incore
def add_then_mul(x: pl.Tensor, y: pl.Tensor, o: pl.InOut[pl.Tensor], row: I):
    a = pl.load(x, [row, 0], [16, 64])
    b = pl.load(y, [row, 0], [16, 64])
    o = pl.store(pl.mul(pl.add(a, b), a), [row, 0], o)
    return o


@pl.jit
def rows_added_and_multiplied(x: pl.Tensor, y: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(3):
        o = add_then_mul(x, y, o, i * 16)
    return o


def in_the_first_48_rows(t):
    out = t["o"].copy()
    out[:48] = (t["x"] + t["y"]) * t["x"]
    return out


def of_type(dtype):
    return whole(48, 64, dtype=dtype), whole(48, 64, dtype=dtype)[::-1].copy(), unwritten(64, 64, dtype=dtype)


@planned(rows_added_and_multiplied, *of_type(np.float32), name="fp32", golden=in_the_first_48_rows, rtol=1e-6, atol=1e-6)
@contract("B037", "B248", "B252")
def test_load_add_mul_store(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.load", "buffer.add", "buffer.mul", "buffer.store")


@planned(rows_added_and_multiplied, *of_type(np.float16), name="fp16", golden=in_the_first_48_rows)
@contract("B037", "B248", "B252")
def test_load_add_mul_store_in_fp16(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.add", "buffer.mul")


@planned(rows_added_and_multiplied, *of_type(np.int32), name="int32", golden=in_the_first_48_rows)
@contract("B037", "B248", "B252")
def test_load_add_mul_store_in_int32(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.add", "buffer.mul")


PRODUCTS = ("buffer.load", "buffer.copy", "buffer.matmul", "buffer.matmul_acc", "buffer.store")


# -- products --------------------------------------------------------------------------------------------------------


@pl.jit
def product_and_sum(a: pl.Tensor, b: pl.Tensor, o: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        am = pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        bm = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        al = pl.move(am, target_memory=pl.Mem.Left)
        br = pl.move(bm, target_memory=pl.Mem.Right)
        acc = pl.matmul(al, br)
        acc = pl.matmul_acc(acc, al, br)
        o = pl.store(acc, [16, 0], o)
    return o


def twice_the_product(t):
    wide = t["o"].dtype
    out = t["o"].copy()
    out[16:48, :32] = 2 * (t["a"].astype(wide) @ t["b"].astype(wide))
    return out


@planned(
    product_and_sum,
    dyadic(32, 64, dtype=np.float16),
    dyadic(64, 32, dtype=np.float16),
    unwritten(64, 48),
    name="fp16",
    golden=twice_the_product,
)
@contract("B248", "B252")
def test_product_and_sum_in_fp16(case_run):
    case_run.assert_passed()
    check_explicit(case_run, *PRODUCTS)


@planned(
    product_and_sum,
    dyadic(32, 64, dtype=BF16),
    dyadic(64, 32, dtype=BF16),
    unwritten(64, 48),
    name="bf16",
    golden=twice_the_product,
)
@contract("B248", "B252")
def test_product_and_sum_in_bf16(case_run):
    case_run.assert_passed()
    check_explicit(case_run, *PRODUCTS)


@planned(
    product_and_sum,
    whole(32, 64, dtype=np.int8, low=-128, high=128),
    whole(64, 32, dtype=np.int8, low=-128, high=128),
    unwritten(64, 48, dtype=np.int32),
    name="int8",
    golden=twice_the_product,
)
@contract("B248", "B252")
def test_product_and_sum_in_int8(case_run):
    case_run.assert_passed()
    check_explicit(case_run, *PRODUCTS)


@pl.jit.incore
def sum_over_k(a: pl.Tensor, b: pl.Tensor, o: pl.InOut[pl.Tensor], first: I, row: I):
    acc = pl.tile.create([32, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
    for k in pl.range(4):
        am = pl.load(a, [0, k * 32], [32, 32], target_memory=pl.Mem.Mat)
        bm = pl.load(b, [k * 32, 0], [32, 32], target_memory=pl.Mem.Mat)
        al = pl.move(am, target_memory=pl.Mem.Left)
        br = pl.move(bm, target_memory=pl.Mem.Right)
        acc = pl.matmul_acc(acc, al, br, init_cond=(k <= first))
    o = pl.store(acc, [row, 0], o)
    return o


@pl.jit
def sums_over_k(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        first = pl.cast(pl.read(c, [i]), pl.INDEX)
        o = sum_over_k(a, b, o, first, i * 48)
    return o


def from_the_first_on(t):
    """Blocks up to the first one begin the sum anew."""
    out = t["o"].copy()
    for i, first in enumerate(t["c"]):
        k = slice(int(first) * 32, None)
        out[i * 48 : i * 48 + 32] = t["a"][:, k].astype(np.float32) @ t["b"][k].astype(np.float32)
    return out


@planned(
    sums_over_k,
    dyadic(32, 128, dtype=np.float16),
    dyadic(128, 32, dtype=np.float16),
    config(0, 3, 1, 2),
    unwritten(192, 32),
    golden=from_the_first_on,
)
@contract("B248", "B252")
def test_a_sum_over_k_that_begins_at_run_time(case_run):
    case_run.assert_passed()
    # The predicate is a branch of two products; neither it nor the loop hands on the accumulator.
    check_explicit(case_run, *PRODUCTS)
    assert carried(case_run) == [[], []]


@pl.jit
def tiled_by_itself(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    return o


@planned(
    tiled_by_itself,
    whole(128, 512, dtype=BF16),
    whole(512, 96, dtype=BF16),
    unwritten(128, 96),
    golden=lambda t: t["a"].astype(np.float32) @ t["b"].astype(np.float32),
)
@contract("B248")
def test_a_product_in_bf16_that_is_tiled_by_itself(case_run):
    case_run.assert_passed()
    # Both operands exceed the memories in front of the matrix unit: parts of them are multiplied and added up.
    check_explicit(case_run, "buffer.extract", "buffer.matmul", "buffer.matmul_acc")


@pl.jit
def transposed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True)
    return o


@planned(
    transposed,
    dyadic(32, 64, dtype=np.float16),
    dyadic(48, 64, dtype=np.float16),
    unwritten(32, 48),
    golden=lambda t: t["a"].astype(np.float32) @ t["b"].astype(np.float32).T,
)
@contract("B248")
def test_a_product_with_a_transposed_operand(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.load", "buffer.matmul", "buffer.store")


# -- windows and run-time extents ------------------------------------------------------------------------------------


@pl.jit.incore
def columns_into_a_new_tile(x: pl.Tensor, o: pl.InOut[pl.Tensor], n: I, row: I):
    t = pl.load(x, [0, 0], [16, 64])
    canvas = pl.tile.full([16, 64], dtype=pl.FP32, value=0.5)
    o = pl.store(pl.assemble(canvas, pl.slice(t, [16, 32], [0, n * 8]), [0, 32]), [row, 0], o)
    return o


@pl.jit.incore
def rows_at(x: pl.Tensor, o: pl.InOut[pl.Tensor], n: I, row: I):
    t = pl.load(x, [0, 0], [16, 64])
    o = pl.store(pl.adds(pl.slice(t, [8, 64], [n, 0]), 1.0), [row, 0], o)
    return o


@pl.jit.incore
def columns_loaded(x: pl.Tensor, o: pl.InOut[pl.Tensor], n: I, row: I):
    t = pl.load(x, [0, 0], [16, 64], valid_shape=[16, n])
    o = pl.store(pl.add(t, t), [row, 0], o)
    return o


@pl.jit.incore
def columns_set(x: pl.Tensor, o: pl.InOut[pl.Tensor], n: I, row: I):
    t = pl.load(x, [0, 0], [16, 64])
    u = pl.set_validshape(t, 16, n)
    o = pl.store(pl.muls(u, 3.0), [row, 0], o)
    return o


@pl.jit
def four_column_slices(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = columns_into_a_new_tile(x, o, pl.cast(pl.read(c, [i]), pl.INDEX), i * 24)
    return o


@pl.jit
def four_row_slices(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = rows_at(x, o, pl.cast(pl.read(c, [i]), pl.INDEX), i * 24)
    return o


@pl.jit
def four_loads(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = columns_loaded(x, o, pl.cast(pl.read(c, [i]), pl.INDEX), i * 24)
    return o


@pl.jit
def four_set_shapes(x: pl.Tensor, c: pl.Tensor, o: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        o = columns_set(x, o, pl.cast(pl.read(c, [i]), pl.INDEX), i * 24)
    return o


def banded(one):
    """Golden of an entry: for each run-time value, what `one` makes of its band of 24 rows."""

    def golden(t):
        out = t["o"].copy()
        for i, n in enumerate(t["c"]):
            one(t["x"], int(n), out[i * 24 : i * 24 + 24])
        return out

    return golden


def windows(*values):
    return whole(16, 64), config(*values), unwritten(96, 64)


def put_columns(x, n, band):
    band[:16, :32] = 0.5
    band[:16, 32:] = x[:, n * 8 : n * 8 + 32]


@planned(four_column_slices, *windows(0, 4, 1, 3), golden=banded(put_columns))
@contract("B069", "B249", "B252")
def test_a_column_slice_assembled_into_a_new_tile(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.subview", "buffer.copy")


def put_rows(x, n, band):
    band[:8] = x[n : n + 8] + 1


@planned(four_row_slices, *windows(8, 0, 5, 3), golden=banded(put_rows))
@contract("B070", "B249", "B252")
def test_a_row_slice_at_run_time(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.subview", "buffer.adds")


def put_doubled(x, n, band):
    band[:16, :n] = 2 * x[:, :n]


@planned(four_loads, *windows(64, 0, 33, 1), golden=banded(put_doubled))
@contract("B029", "B120", "B249", "B252")
def test_columns_that_are_loaded_as_far_as_they_are_valid(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.set_validshape", "buffer.add")


def put_tripled(x, n, band):
    band[:16, :n] = 3 * x[:, :n]


@planned(four_set_shapes, *windows(1, 64, 0, 40), golden=banded(put_tripled))
@contract("B121", "B249", "B252")
def test_columns_that_are_set_valid(case_run):
    case_run.assert_passed()
    check_explicit(case_run, "buffer.set_validshape", "buffer.muls")
