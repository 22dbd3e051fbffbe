"""Small complete programs, one for each part of the language, against their numpy expressions."""

import numpy as np
from programs_kit import agree, bits, normal, out, run, same

import pypto
import pypto.language as pl


def near(got, want, rtol=1e-6):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


@pl.jit
def saxpy(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.mul(a, 3.0), b)
    return o


def test_elementwise_on_tensors():
    a, b = normal(32, 128), normal(32, 128, number=1)
    bits(run(saxpy, a, b, out(32, 128))[2], np.float32(3) * a + b)


@pl.jit
def gate(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(4):
            x = pl.load(a, [r * 16, 0], [16, 64])
            y = pl.load(b, [r * 16, 0], [16, 64])
            s = pl.recip(pl.add(pl.exp(pl.neg(x)), 1.0))
            z = pl.mul(pl.maximum(y, 0.0), s)
            pl.store(pl.div(z, 2.0), [r * 16, 0], o)
    return o


def test_chained_tile_operators():
    a, b = normal(64, 64), normal(64, 64, number=1)
    near(run(gate, a, b, out(64, 64))[2], np.maximum(b, 0) / (1 + np.exp(-a.astype(np.float64))) / 2)


@pl.jit
def narrow(a: pl.Tensor, q: pl.Out[pl.Tensor], back: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [16, 64])
        h = pl.cast(pl.abs(t), pl.FP16)
        n = pl.cast(t, pl.INT32, mode="floor")
        pl.store(n, [0, 0], q)
        pl.store(pl.cast(h, pl.FP32), [0, 0], back)
    return q, back


def test_changes_of_dtype():
    a = normal(16, 64) * 300
    _, q, back = run(narrow, a, out(16, 64, dtype=np.int32), out(16, 64))
    same(q, np.floor(a))
    bits(back, np.abs(a).astype(np.float16).astype(np.float32))


@pl.jit
def affine(a: pl.Tensor, k: pl.FP32, n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        base = pl.mul(a, k)
        if n > 0:
            r = pl.yield_(pl.add(base, 10.0))
        else:
            r = pl.yield_(base)
        o[:] = r
    return o


def test_scalar_parameters_and_a_branch():
    a = normal(16, 64)
    one, none = agree(affine, [a, 2.5, 1, out(16, 64)], [a, 2.5, 0, out(16, 64)])
    bits(one[1], np.float32(2.5) * a + np.float32(10))
    bits(none[1], np.float32(2.5) * a)


@pl.jit
def fold(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.load(a, [0, 0], [16, 32])
        for i in pl.range(1, 4):
            s = pl.add(s, pl.load(a, [i * 16, 0], [16, 32]))
        pl.store(s, [0, 0], o)
    return o


@pl.jit
def fold_squares(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        z = pl.tile.full([16, 32], dtype=pl.FP32, value=0.0)
        for i, (s,) in pl.range(4, init_values=(z,)):
            t = pl.load(a, [i * 16, 0], [16, 32])
            acc = pl.yield_(pl.add(s, pl.mul(t, t)))
        pl.store(acc, [0, 0], o)
    return o


def test_accumulation_by_rebinding_and_by_yield():
    a = normal(64, 32)
    p, q, r, s = a.reshape(4, 16, 32)
    bits(run(fold, a, out(16, 32))[1], ((p + q) + r) + s)
    bits(run(fold_squares, a, out(16, 32))[1], (((np.float32(0) + p * p) + q * q) + r * r) + s * s)


@pl.jit
def route(a: pl.Tensor, cfg: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mode = pl.read(cfg, [0])
        x = pl.load(a, [0, 0], [16, 64])
        if mode > 0:
            y = pl.yield_(pl.exp(x))
        else:
            y = pl.yield_(pl.neg(x))
        n = pl.cast(pl.read(cfg, [1]), pl.INDEX)
        for _, (p, q) in pl.range(n, init_values=(y, x)):
            p2, q2 = pl.yield_(q, pl.add(p, 1.0))
        pl.store(p2, [0, 0], o)
        pl.store(q2, [16, 0], o)
    return o


def test_run_time_branches_and_swapping_carries():
    a = normal(16, 64)
    configs = [(m, n) for m in (0, 1) for n in range(4)]
    got = agree(route, *([a, np.int32(c), out(32, 64)] for c in configs))
    exp = agree(route, [a, np.int32([1, 0]), out(32, 64)])[0][2][:16]
    near(exp, np.exp(a.astype(np.float64)))
    for (m, n), g in zip(configs, got, strict=True):
        p, q = exp if m else -a, a
        for _ in range(n):
            p, q = q, p + np.float32(1)
        bits(g[2], np.vstack([p, q]))


@pl.jit
def grow(a: pl.Tensor, cfg: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        v0 = pl.load(a, [0, 0], [16, 32])
        bound = pl.cast(pl.read(cfg, [0]), pl.INDEX)
        for k, v in pl.while_(init_values=(0, v0)):
            pl.cond(k < bound)
            _k2, v2 = pl.yield_(k + 1, pl.add(v, v))
        pl.store(v2, [0, 0], o)
    return o


def test_a_while_loop_that_carries_a_tile():
    a = normal(16, 32)
    bounds = (0, 1, 3, 8)
    for b, g in zip(bounds, agree(grow, *([a, np.int32([b]), out(16, 32)] for b in bounds)), strict=True):
        bits(g[2], a * np.float32(2.0**b))


@pl.jit
def quilt(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        left = a[:, 0:32]
        right = a[0:32, 32:64]
        o[:, 0:32] = pl.neg(right)
        o[:, 32:64] = left
        o[0:16, 64:128] = pl.mul(a[0:16, :], 0.5)
        for r in pl.range(2):
            o[16 + r * 8 : 16 + r * 8 + 8, 64:128] = pl.add(a[r * 8 : r * 8 + 8, :], 100.0)
    return o


def test_windows_read_and_written():
    a = normal(32, 64)
    want = out(32, 128)
    want[:, :32] = -a[:, 32:]
    want[:, 32:64] = a[:, :32]
    want[:16, 64:] = a[:16] * np.float32(0.5)
    want[16:, 64:] = a[:16] + np.float32(100)
    bits(run(quilt, a, out(32, 128))[1], want)


@pl.jit
def tail(
    a: pl.Tensor,
    cfg: pl.Tensor,
    mx: pl.Out[pl.Tensor],
    sm: pl.Out[pl.Tensor],
    pad: pl.Out[pl.Tensor],
    keep: pl.InOut[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(cfg, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 64], valid_shape=[16, n])
        w1 = pl.create_tile([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(t, w1), [0, 0], mx)
        w2 = pl.create_tile([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(t, w2), [0, 0], sm)
        pl.store(pl.fillpad(t, pl.PadValue.min), [0, 0], pad)
        full = pl.load(a, [0, 0], [16, 64])
        cut = pl.set_validshape(full, 16, n)
        pl.store(cut, [0, 0], keep)
    return mx, sm, pad, keep


def test_a_ragged_tail():
    a = normal(16, 64)
    columns = (1, 8, 50, 64)
    calls = [[a, np.int64([n]), out(16, 1), out(16, 1), out(16, 64), out(16, 64)] for n in columns]
    for n, (_, _, mx, sm, pad, keep) in zip(columns, agree(tail, *calls), strict=True):
        bits(mx, a[:, :n].max(1, keepdims=True))
        near(sm, a[:, :n].sum(1, keepdims=True, dtype=np.float64), rtol=1e-5)
        inside = np.arange(64) < n
        bits(pad, np.where(inside, a, -np.inf))
        bits(keep, np.where(inside, a, -777))


@pl.jit
def softmax(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.row_max(a)
        e = pl.exp(pl.row_expand_sub(a, m))
        o[:] = pl.row_expand_div(e, pl.row_sum(e))
    return o


@pl.jit
def softmax_by_broadcast(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.row_max(a)
        e = pl.exp(pl.sub(a, m))
        o[:] = pl.div(e, pl.row_sum(e))
    return o


@pl.jit
def softmax_by_operators(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(a - pl.row_max(a))
        o[:] = e / pl.row_sum(e)
    return o


def test_softmax_in_three_spellings():
    a = normal(32, 64) * 4
    e = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    first = run(softmax, a, out(32, 64))[1]
    near(first, e / e.sum(1, keepdims=True))
    for other in (softmax_by_broadcast, softmax_by_operators):
        bits(run(other, a, out(32, 64))[1], first)


H, EPS = 64, 1e-5


@pl.jit
def norms(x: pl.Tensor, g: pl.Tensor, b: pl.Tensor, ln: pl.Out[pl.Tensor], rms: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, H])
        gt = pl.load(g, [0, 0], [1, H])
        bt = pl.load(b, [0, 0], [1, H])
        w0 = pl.create_tile([16, H], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        mean_row = pl.mul(pl.reshape(pl.row_sum(t, w0), [1, 16]), 1.0 / H)
        c = pl.row_expand_sub(t, pl.reshape(mean_row, [16, 1]))
        w1 = pl.create_tile([16, H], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        var_row = pl.mul(pl.reshape(pl.row_sum(pl.mul(c, c), w1), [1, 16]), 1.0 / H)
        std = pl.reshape(pl.sqrt(pl.add(var_row, EPS)), [16, 1])
        y = pl.col_expand_mul(pl.row_expand_div(c, std), gt)
        pl.store(pl.add(y, pl.col_expand(y, bt)), [0, 0], ln)
        w2 = pl.create_tile([16, H], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        ms = pl.mul(pl.reshape(pl.row_sum(pl.mul(t, t), w2), [1, 16]), 1.0 / H)
        r = pl.reshape(pl.sqrt(pl.add(ms, EPS)), [16, 1])
        pl.store(pl.col_expand_mul(pl.row_expand_div(t, r), gt), [0, 0], rms)
    return ln, rms


def test_layer_norm_and_rms_norm():
    x, g, b = normal(16, 64), normal(1, 64, number=1), normal(1, 64, number=2)
    _, _, _, ln, rms = run(norms, x, g, b, out(16, 64), out(16, 64))
    wide = x.astype(np.float64)
    mu = wide.mean(1, keepdims=True)
    var = ((wide - mu) ** 2).mean(1, keepdims=True)
    near(ln, (wide - mu) / np.sqrt(var + EPS) * g + b, rtol=1e-5)
    near(rms, wide / np.sqrt((wide * wide).mean(1, keepdims=True) + EPS) * g, rtol=1e-5)


@pl.jit
def gemm_t(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True)
    return o


@pl.jit
def cube(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        am = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        bm = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        al = pl.move(am, target_memory=pl.Mem.Left)
        br = pl.move(bm, target_memory=pl.Mem.Right)
        pl.store(pl.matmul(al, br), [0, 0], c)
    return c


@pl.jit
def cube_k(a: pl.Tensor, b: pl.Tensor, c: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k in pl.range(4):
            am = pl.load(a, [0, k * 32], [64, 32], target_memory=pl.Mem.Mat)
            bm = pl.load(b, [k * 32, 0], [32, 64], target_memory=pl.Mem.Mat)
            al = pl.move(am, target_memory=pl.Mem.Left)
            br = pl.move(bm, target_memory=pl.Mem.Right)
            acc = pl.matmul_acc(acc, al, br, init_cond=(k == 0))
        pl.store(acc, [0, 0], c)
    return c


def test_products_of_matrices():
    a, b = normal(32, 64).astype(np.float16), normal(48, 64, number=1).astype(np.float16)
    near(run(gemm_t, a, b, out(32, 48))[2], a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5)
    a, b = normal(64, 64).astype(np.float16), normal(64, 64, number=1).astype(np.float16)
    near(run(cube, a, b, out(64, 64))[2], a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)
    a, b = normal(64, 128).astype(np.float16), normal(128, 64, number=1).astype(np.float16)
    near(run(cube_k, a, b, out(64, 64))[2], a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)


N = pl.dynamic("N")


@pl.jit.incore
def scale_rows(a: pl.Tensor, u: pl.Out[pl.Tensor], k: pl.Scalar[pl.INDEX]):
    t = pl.load(a, [k * 16, 0], [16, 64])
    pl.store(pl.mul(t, 2.0), [k * 16, 0], u)
    return u


@pl.jit
def two_stage(a: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    n = pl.tensor.dim(a, 0)
    u = pl.create_tensor([N, 64], dtype=pl.FP32)
    for k in pl.range(n // 16):
        u = scale_rows(a, u, k)
    for b in pl.spmd(4):
        for k in pl.range(b, n // 16, 4):
            t = pl.load(u, [k * 16, 0], [16, 64])
            pl.store(pl.sub(t, 1.0), [k * 16, 0], o)
    return o


def test_two_kernels_and_a_temporary_of_run_time_size():
    builds = pypto.cache_stats().builds
    for a in (normal(48, 64), normal(80, 64), normal(0, 64)):
        two_stage(a, out(*a.shape))
    assert pypto.cache_stats().builds == builds + 1  # one artifact for all sizes
    calls = [[normal(n, 64), out(n, 64)] for n in (48, 80, 16)]
    for (a, _), g in zip(calls, agree(two_stage, *calls), strict=True):
        bits(g[1], np.float32(2) * a - np.float32(1))
