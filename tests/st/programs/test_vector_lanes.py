"""Vector-lane regions: `pl.split_aiv`, `pl.aiv_shard`, `pl.aic_gather` mean the same in every way of running a kernel."""

import ml_dtypes
import numpy as np
import pytest
from programs_kit import agree, agree_program, cfg, normal, out, run, same, whole

import pypto.language as pl

BF16 = ml_dtypes.bfloat16
N = pl.dynamic("N")
A, B, C = pl.Tensor[[32, 16], pl.FP32], pl.Tensor[[16, 32], pl.FP32], pl.Tensor[[32, 32], pl.FP32]


@pl.jit
def rows_shared(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.aiv_shard(product)
            whole = pl.aic_gather(half * 2.0 + 1.0)
        o[:] = pl.matmul(whole, c)
    return o


@pl.jit
def columns_shared(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            half = pl.aiv_shard(product)
            whole = pl.aic_gather(half * 2.0 + 1.0)
        o[:] = pl.matmul(whole, c)
    return o


@pytest.mark.parametrize("kernel", [rows_shared, columns_shared])
@pytest.mark.parametrize(("m", "k", "n", "p"), [(32, 16, 32, 16), (64, 32, 64, 48), (32, 16, 32, 5)])
def test_halves_become_a_whole_again(kernel, m, k, n, p):
    a, b, c = whole(m, k), whole(k, n), whole(n, p)
    *_, o = run(kernel, a, b, c, out(m, p))
    same(o, (a @ b * 2 + 1) @ c)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_products_of_narrow_elements_are_narrowed_in_each_half(dtype):
    a, b, c = normal(32, 16).astype(dtype), normal(16, 32, number=1).astype(dtype), normal(32, 16, number=2).astype(dtype)
    *_, o = run(narrow_halves, a, b, c, out(32, 16, dtype=dtype))
    want = ascending(ascending(a, b).astype(dtype), c).astype(dtype)
    np.testing.assert_array_equal(o.astype(np.float32), want.astype(np.float32))


def ascending(a, b):
    """The product, every sum rounded, in ascending k."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c = c + a[:, k, None].astype(np.float32) * b[None, k].astype(np.float32)
    return c


@pl.jit
def narrow_halves(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            whole = pl.aic_gather(pl.aiv_shard(product))
        o[:] = pl.matmul(whole, c)
    return o


@pl.jit
def stored_by_lanes(a: pl.Tensor, b: pl.Tensor, bias: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.aiv_shard(product)
            n = half.shape[0]
            x = half + bias[lane * n : lane * n + 16, :]
            o[lane * n : lane * n + 16, :] = x
            s[lane * n : lane * n + 16, :] = pl.row_sum(x)
    return o, s


def test_lanes_store_their_halves():
    a, b, bias = whole(32, 16), whole(16, 32), whole(32, 32)
    *_, o, s = run(stored_by_lanes, a, b, bias, out(32, 32), out(32, 1))
    same(o, a @ b + bias)
    same(s, (a @ b + bias).sum(axis=1, keepdims=True))


@pl.jit
def attention(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scores = pl.matmul(q, k, b_trans=True)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            s = pl.aiv_shard(scores)
            e = pl.exp(pl.row_expand_sub(s, pl.row_max(s)))
            p = pl.aic_gather(pl.row_expand_div(e, pl.row_sum(e)))
        o[:] = pl.matmul(p, v)
    return o


def test_softmax_of_rows():
    q, k, v = normal(32, 16), normal(32, 16, number=1), normal(32, 16, number=2)
    *_, o = run(attention, q, k, v, out(32, 16))
    s = (q @ k.T).astype(np.float64)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(o, e / e.sum(axis=1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


@pl.jit
def tasks(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            for i in pl.range(lane, 5, 2):
                o[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :] * 2.0 + pl.cast(lane, pl.FP32)
    return o


def test_lanes_choose_from_one_list_of_tasks():
    x = whole(40, 16)
    *_, o = run(tasks, x, out(40, 16))
    same(o, x * 2 + np.repeat([0, 1, 0, 1, 0], 8)[:, None])


@pl.jit
def regions_in_a_loop(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, n: pl.Tensor, o: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(pl.read(n, [0])):
            product = pl.matmul(a, b)
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                half = pl.aiv_shard(product) + pl.cast(i, pl.FP32)
                g = pl.aic_gather(half)
            second = pl.matmul(g, c)
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                o[lane * 16 : lane * 16 + 16, :] = o[lane * 16 : lane * 16 + 16, :] + pl.aiv_shard(second)
    return o


def test_regions_in_a_loop_whose_length_is_known_at_run_time():
    a, b, c, o = whole(32, 16), whole(16, 32), whole(32, 16), whole(32, 16)
    calls = [(a, b, c, cfg(n), o) for n in (0, 1, 3)]
    for n, got in zip((0, 1, 3), agree(regions_in_a_loop, *calls), strict=True):
        same(got[-1], o + sum((a @ b + i) @ c for i in range(n)))


@pl.jit
def loops_in_a_region(a: pl.Tensor, b: pl.Tensor, n: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            x = pl.aiv_shard(product)
            for i in pl.range(pl.read(n, [0])):
                if i % 2 == lane:
                    x = x * 2.0
                else:
                    x = x + 1.0
            if lane == 1:
                x = -x
            o[:, lane * 16 : lane * 16 + 16] = x
    return o


def test_loops_and_branches_in_a_region():
    a, b = whole(32, 16), whole(16, 32)
    calls = [(a, b, cfg(n), out(32, 32)) for n in (0, 1, 4)]
    for n, got in zip((0, 1, 4), agree(loops_in_a_region, *calls), strict=True):
        x, y = (a @ b)[:, :16], (a @ b)[:, 16:]
        for i in range(n):
            x, y = (x * 2, y + 1) if i % 2 == 0 else (x + 1, y * 2)
        same(got[-1], np.hstack([x, -y]))


@pl.jit
def valid_rows(a: pl.Tensor, b: pl.Tensor, n: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.read(n, [0])
        x = pl.load(a, [0, 0], [32, 16], valid_shape=[rows, 16], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
        product = pl.matmul(pl.move(x, pl.Mem.Left), pl.move(y, pl.Mem.Right))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            half = pl.aiv_shard(product)
            pl.store(pl.mul(half, 3.0), [lane * 16, 0], o)
    return o


def test_a_half_is_valid_as_far_as_the_operand_reaches_into_it():
    a, b = whole(32, 16), whole(16, 32)
    sizes = (0, 1, 15, 16, 17, 31, 32)
    calls = [(a, b, cfg(n), out(32, 32)) for n in sizes]
    for n, got in zip(sizes, agree(valid_rows, *calls), strict=True):
        want = out(32, 32)
        want[:n] = (a[:n] @ b) * 3
        same(got[-1], want)


@pl.jit
def valid_rows_gathered(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, n: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.read(n, [0])
        x = pl.load(a, [0, 0], [32, 16], valid_shape=[rows, 16], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
        z = pl.load(c, [0, 0], [32, 16], target_memory=pl.Mem.Mat)
        product = pl.matmul(pl.move(x, pl.Mem.Left), pl.move(y, pl.Mem.Right))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            g = pl.tile.aic_gather(pl.mul(pl.tile.aiv_shard(product, split=2), 3.0), split=2)
        pl.store(pl.matmul(pl.move(g, pl.Mem.Left), pl.move(z, pl.Mem.Right)), [0, 0], o)
    return o


def test_a_whole_is_valid_as_its_halves_are():
    a, b, c = whole(32, 16), whole(16, 32), whole(32, 16)
    sizes = (0, 1, 16, 17, 32)
    calls = [(a, b, c, cfg(n), out(32, 16)) for n in sizes]
    for n, got in zip(sizes, agree(valid_rows_gathered, *calls), strict=True):
        want = out(32, 16)
        want[:n] = (a[:n] @ b) * 3 @ c
        same(got[-1], want)


def test_rows_that_are_no_whole_boxes_can_be_split_by_columns():
    a, b, c = whole(20, 16), whole(16, 32), whole(32, 16)
    *_, o = run(columns_shared, a, b, c, out(20, 16))
    same(o, (a @ b * 2 + 1) @ c)


@pl.jit
def accumulated(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([32, 32], dtype=pl.FP32)
        for k in pl.range(3):
            acc = pl.matmul_acc(acc, a[:, k * 16 : k * 16 + 16], b[k * 16 : k * 16 + 16, :], init_cond=(k == 0))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            x = pl.maximum(pl.aiv_shard(acc), 0.0)
            left = pl.aic_gather(x)
            right = pl.aic_gather(x * 2.0)
        o[:] = pl.matmul(left, c)
        o[:] = pl.matmul_acc(pl.matmul(left, c), right, c)
    return o


def test_sums_of_products_and_two_wholes():
    a, b, c = whole(32, 48), whole(48, 32), whole(32, 16)
    *_, o = run(accumulated, a, b, c, out(32, 16))
    same(o, np.maximum(a @ b, 0) @ c * 3)


@pl.jit.inline
def doubled(x: pl.Tensor):
    return pl.aiv_shard(x) * 2.0


@pl.jit.inline
def region(product: pl.Tensor, o: pl.Out[pl.Tensor]):
    for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
        o[lane * 16 : lane * 16 + 16, :] = doubled(product)
    return o


@pl.jit
def helpers(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        o = region(product, o)
    return o


def test_helpers_in_and_around_a_region():
    a, b = whole(32, 16), whole(16, 32)
    *_, o = run(helpers, a, b, out(32, 32))
    same(o, a @ b * 2)


@pl.jit
def blocks_of_lanes(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    for i in pl.spmd(3):
        product = pl.matmul(a[i * 32 : i * 32 + 32, :], b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            at = i * 32 + pl.get_subblock_idx() * 16
            o[at : at + 16, :] = pl.aiv_shard(product) + pl.cast(lane, pl.FP32)
    return o


def test_blocks_of_a_launch_have_lanes():
    a, b = whole(96, 16), whole(16, 32)
    *_, o = run(blocks_of_lanes, a, b, out(96, 32))
    same(o, a @ b + np.tile(np.repeat([0, 1], 16), 3)[:, None])


@pl.jit
def names_of_a_lane(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [8, 16])
        k = pl.read(x, [0, 0])
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            k = k + 1.0
            t = pl.add(t, k)
            pl.write(t, [0, lane], 100.0)
            pl.store(t, [lane * 8, 0], o)
    return o


def test_every_lane_begins_with_what_there_was_before_the_region():
    x = whole(8, 16)
    *_, o = run(names_of_a_lane, x, out(16, 16))
    want = np.vstack([x + x[0, 0] + 1] * 2)
    want[0, 0] = want[8, 1] = 100
    same(o, want)


@pl.jit
def one_after_the_other(x: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            if lane == 0:
                o[:] = x + 1.0
            else:
                p[:] = o + x


def test_a_lane_sees_what_the_one_before_it_wrote():
    x = whole(16, 16)
    _, o, p = run(one_after_the_other, x, out(16, 16), out(16, 16))
    same(o, x + 1)
    same(p, x + x + 1)


@pl.jit
def filled(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, n: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = pl.read(n, [0])
        x = pl.load(a, [0, 0], [32, 16], valid_shape=[rows, 16], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
        z = pl.load(c, [0, 0], [32, 16], target_memory=pl.Mem.Mat)
        product = pl.matmul(pl.move(x, pl.Mem.Left), pl.move(y, pl.Mem.Right))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            g = pl.aic_gather(pl.fillpad(pl.aiv_shard(product)))
        pl.store(pl.matmul(pl.move(g, pl.Mem.Left), pl.move(z, pl.Mem.Right)), [0, 0], o)
    return o


def test_halves_that_are_filled_make_a_whole():
    a, b, c = whole(32, 16), whole(16, 32), whole(32, 16)
    sizes = (0, 3, 16, 20, 32)
    calls = [(a, b, c, cfg(n), out(32, 16)) for n in sizes]
    for n, got in zip(sizes, agree(filled, *calls), strict=True):
        want = np.zeros((32, 16), np.float32)
        want[:n] = a[:n] @ b @ c
        same(got[-1], want)


@pl.jit
def carried_tile(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, n: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            x = pl.aiv_shard(product)
            for i in pl.range(pl.read(n, [0])):
                x = x + 1.0
                o[lane * 16 : lane * 16 + 16, :] = x
            g = pl.aic_gather(x)
        o[:] = pl.matmul(g, c)
    return o


def test_a_tile_that_a_loop_of_the_region_carries():
    a, b, c = whole(32, 16), whole(16, 32), whole(32, 32)
    for got, n in zip(agree(carried_tile, *[(a, b, c, cfg(n), out(32, 32)) for n in (0, 2)]), (0, 2), strict=True):
        same(got[-1], (a @ b + n) @ c)


@pl.jit
def views(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            y = pl.reshape(x, [32, 8])
            o[lane * 8 : lane * 8 + 8, :] = pl.reshape(y[lane * 16 : lane * 16 + 16, :], [8, 16]) * 2.0
    return o


def test_views_of_tensors_in_a_region():
    x = whole(16, 16)
    *_, o = run(views, x, out(16, 16))
    same(o, x * 2)


@pl.jit
def any_height(x: pl.Tensor[[N, 16], pl.FP32], o: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = x.shape[0]
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            for i in pl.range(lane * 8, n, 16):
                t = pl.load(x, [i, 0], [8, 16], valid_shape=[pl.min(8, n - i), 16])
                pl.store(pl.add(t, 1.0), [i, 0], o)


def test_lanes_share_a_tensor_of_any_height():
    heights = (1, 8, 9, 37)
    calls = [(whole(n, 16), out(n, 16)) for n in heights]
    for (x, _), got in zip(calls, agree(any_height, *calls), strict=True):
        same(got[-1], x + 1)


@pl.jit
def scaled_product(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        n = product.shape[0] // 2
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            o[lane * n : lane * n + n, :] = pl.aiv_shard(product) * 3.0
    return o


def test_a_product_that_is_made_of_pieces():
    a, b = whole(128, 512), whole(512, 256)
    *_, o = run(scaled_product, a, b, out(128, 256))
    same(o, a @ b * 3)


@pl.jit
def whole_numbers(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b, out_dtype=pl.INT32)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            o[:, lane * 16 : lane * 16 + 16] = pl.aiv_shard(product) * 3
    return o


def test_sums_of_whole_numbers():
    a, b = whole(32, 32, dtype=np.int8), whole(32, 32, dtype=np.int8)
    *_, o = run(whole_numbers, a, b, out(32, 32, dtype=np.int32))
    same(o, a.astype(np.int32) @ b.astype(np.int32) * 3)


@pl.program
class Written:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, a: A, b: B, o: pl.Out[C]) -> C:
        x = pl.move(pl.load(a, [0, 0], [32, 16], target_memory=pl.Mem.Mat), pl.Mem.Left)
        y = pl.move(pl.load(b, [0, 0], [16, 32], target_memory=pl.Mem.Mat), pl.Mem.Right)
        product = pl.matmul(x, y)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            o = pl.store(pl.adds(pl.tile.aiv_shard(product, split=1), 1.0), [lane * 16, 0], o)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: A, b: B, o: pl.Out[C]) -> C:
        o = self.k(a, b, o)
        return o


def test_a_kernel_of_a_program():
    a, b = whole(32, 16), whole(16, 32)
    ((*_, o),) = agree_program(Written, "main", (a, b, out(32, 32)))
    same(o, a @ b + 1)


@pl.jit
def whole_kernel(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):
        o[:] = pl.exp(x)
    return o


def test_a_kernel_that_is_split_as_a_whole_runs_as_a_whole():
    x = normal(7, 16)
    *_, o = run(whole_kernel, x, out(7, 16))
    np.testing.assert_allclose(o, np.exp(x), rtol=1e-6)


@pl.jit
def pipelined(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([32, 16], dtype=pl.FP32)
        for i in pl.pipeline(3, stage=2):
            s = pl.matmul(a, b[:, i * 32 : i * 32 + 32])
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                p = pl.aic_gather(pl.maximum(pl.aiv_shard(s), 0.0))
            acc = pl.matmul_acc(acc, p, c[i * 32 : i * 32 + 32, :], init_cond=(i == 0))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            o[lane * 16 : lane * 16 + 16, :] = pl.aiv_shard(acc) * 0.5
    return o


def test_regions_of_a_pipelined_loop_between_two_products():
    a, b, c = whole(32, 16), whole(16, 96), whole(96, 16)
    *_, o = run(pipelined, a, b, c, out(32, 16))
    same(o, np.maximum(a @ b, 0) @ c * 0.5)
