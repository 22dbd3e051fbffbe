"""The valid rectangle survives every operator, nothing outside it is read or written, and it takes no part in reductions."""

import ctypes
import mmap

import numpy as np
import pytest
from lab import native
from programs_kit import agree, cfg, normal, out, run, same, whole

import pypto.language as pl
from pypto.debug import interpret
from pypto.errors import Error, KernelBoundsError, KernelError

NAN, INF = np.nan, np.inf


@pl.jit
def chain(a: pl.Tensor, s: pl.Out[pl.Tensor], e: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor], h: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.cast(pl.load(a, [0, 0], [8, 256], valid_shape=[4, 256]), pl.FP32)
        w = pl.create_tile([8, 256], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(pl.mul(t, t), w), [0, 0], s)
        pl.store(pl.neg(pl.abs(t)), [0, 0], e)
        pl.store(pl.maximums(pl.sub(t, 2.0), 0.0), [0, 0], m)
        pl.store(pl.cast(pl.slice(t, [8, 128], [0, 128]), pl.FP16), [0, 0], h)
    return s, e, m, h


def test_four_of_eight_rows_through_a_chain():
    a = np.full((8, 256), NAN, np.float16)
    a[:4] = np.float16([[1], [2], [3], [4]])
    _, s, e, m, h = run(chain, a, out(8, 1), out(8, 256), out(8, 256), out(8, 128, dtype=np.float16))
    same(s[:, 0], [256, 1024, 2304, 4096, -777, -777, -777, -777])
    same(e, np.float32([-1, -2, -3, -4] + [-777] * 4)[:, None])
    same(m, np.float32([0, 0, 1, 2] + [-777] * 4)[:, None])
    same(h, np.float32([1, 2, 3, 4] + [-777] * 4)[:, None])


@pl.jit
def ragged(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], k: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 64], valid_shape=[r, n])
        u = pl.add(pl.neg(pl.neg(t)), 1.0)
        w = pl.create_tile([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(u, w), [0, 0], k)
        pl.store(pl.col_min(u), [0, 0], q)
        pl.store(u, [0, 0], o)
    return o, k, q


def test_both_extents_at_run_time():
    full = np.arange(512, dtype=np.float32).reshape(8, 64)
    extents = [(8, 64), (5, 37), (1, 1), (8, 63), (3, 64)]
    calls = []
    for r, n in extents:
        a = np.full((8, 64), NAN, np.float32)
        a[:r, :n] = full[:r, :n]
        calls.append([a, cfg(r, n), out(8, 64), out(8, 1), out(1, 64)])
    for (r, n), (_, _, o, k, q) in zip(extents, agree(ragged, *calls), strict=True):
        want, most, least = out(8, 64), out(8, 1), out(1, 64)
        want[:r, :n] = full[:r, :n] + 1
        most[:r, 0] = full[:r, n - 1] + 1
        least[0, :n] = full[0, :n] + 1
        same(o, want)
        same(k, most)
        same(q, least)


@pl.jit
def family(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """One operator of every kind over one partial rectangle; results one after the other."""
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[r, n])
        u = pl.load(b, [0, 0], [8, 32], valid_shape=[r, n])
        scratch = pl.create_tile([8, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        mask = pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)
        column = pl.row_max(u, scratch)
        pl.store(pl.sub(t, u), [0, 0], o)
        pl.store(pl.muls(t, 3.0), [8, 0], o)
        pl.store(pl.abs(t), [16, 0], o)
        pl.store(pl.row_expand_sub(t, column), [24, 0], o)
        pl.store(pl.col_expand_mul(t, pl.load(b, [0, 0], [1, 32])), [32, 0], o)
        pl.store(pl.sel(pl.tile.cmp(t, u, cmp_type=2), t, u, mask), [40, 0], o)
        pl.store(pl.cast(pl.cast(t, pl.FP16), pl.FP32), [48, 0], o)
        pl.store(pl.slice(t, [4, 32], [2, 0]), [56, 0], o)
        pl.store(pl.set_validshape(pl.neg(t), 3, 5), [64, 0], o)
        pl.store(pl.fillpad(t, pl.PadValue.max), [72, 0], o)
        pl.store(pl.expands(t, 2.5), [80, 0], o)
        pl.store(pl.row_expand(t, column), [88, 0], o)
        pl.store(pl.relu(pl.lrelu(t, 0.5)), [96, 0], o)
        pl.store(column, [0, 0], p)
    return o, p


def numpy_family(a, b, r, n):
    inside = np.zeros((8, 32), bool)
    inside[:r, :n] = True
    cut = lambda x: np.where(inside, x, np.float32(-777))  # noqa: E731
    most = np.where(inside, b, -INF).max(1, keepdims=True)
    window = out(8, 32)
    window[:4] = cut(a)[2:6]
    small = out(8, 32)
    small[:3, :5] = -a[:3, :5]
    rows = [
        cut(a - b),
        cut(a * 3),
        cut(abs(a)),
        cut(a - most),
        cut(a * b[:1]),
        cut(np.minimum(a, b)),
        cut(a),
        window,
        small,
        np.where(inside, a, INF),
        cut(np.full((8, 32), 2.5)),
        cut(np.broadcast_to(most, (8, 32))),
        cut(np.maximum(a, 0)),
    ]
    column = out(8, 1)
    column[:r] = most[:r]
    return np.vstack(rows), column


def test_every_kind_of_operator():
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-9, 10, (8, 32)).astype(np.float32) for _ in range(2))
    extents = [(8, 32), (6, 21), (7, 32), (3, 5)]
    got = agree(family, *([a, b, cfg(*e), out(104, 32), out(8, 1)] for e in extents))
    for e, g in zip(extents, got, strict=True):
        rows, column = numpy_family(a, b, *e)
        same(g[4], column)
        same(g[3], rows)


@pl.jit
def extents(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        pl.store(pl.add(pl.load(a, [0, 0], [8, 16], valid_shape=[r, n]), 1.0), [0, 0], o)
    return o


def test_extents_that_may_be_zero():
    table = [(0, 16), (8, 0), (0, 0), (3, 5), (8, 16)]
    for (r, n), g in zip(table, agree(extents, *([out(8, 16, fill=0), cfg(*e), out(8, 16)] for e in table)), strict=True):
        want = out(8, 16)
        want[:r, :n] = 1
        same(g[2], want)


@pytest.mark.parametrize("bad", [(9, 16), (8, 17), (-1, 4), (3, -2)])
def test_an_extent_outside_of_its_tile_is_an_error_at_its_line(bad):
    o = out(8, 16)
    with pytest.raises(KernelBoundsError) as e:
        extents(out(8, 16, fill=0), cfg(*bad), o)
    assert "pl.load(a, [0, 0], [8, 16], valid_shape=[r, n])" in e.value.source_lines[0]
    assert str(next(v for v, most in zip(bad, (8, 16), strict=True) if not 0 <= v <= most)) in e.value.message
    same(o, -777)


@pl.jit
def empty_sum(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.create_tile([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(pl.load(a, [0, 0], [8, 16], valid_shape=[8, 0]), w), [0, 0], o)
    return o


@pl.jit
def perhaps_empty_sum(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        w = pl.create_tile([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        t = pl.load(a, [0, 0], [8, 16], valid_shape=[8, n])
        pl.store(pl.row_sum(t, w), [0, 0], o)
    return o


def test_reductions_of_nothing_are_refused():
    a, o = np.zeros((8, 16), np.float32), out(8, 1)
    with pytest.raises(Error, match="empty") as e:
        empty_sum(a, o)
    assert e.value.span["filename"] == __file__
    with pytest.raises(KernelError, match=r"row_sum.*empty") as k:
        perhaps_empty_sum(a, cfg(0), o)
    assert "pl.row_sum(t, w)" in k.value.source_lines[0]
    same(o, -777)
    same(run(perhaps_empty_sum, a + 1, cfg(3), o)[2], 3)


# -- reductions ----------------------------------------------------------------------------------------------------


@pl.jit
def rows(
    a: pl.Tensor,
    mx: pl.Out[pl.Tensor],
    mn: pl.Out[pl.Tensor],
    sm: pl.Out[pl.Tensor],
    pr: pl.Out[pl.Tensor],
    ax: pl.Out[pl.Tensor],
    an: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [16, 16], valid_shape=[16, 3])
        w1 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        w2 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        w3 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        w4 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        w5 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        w6 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(t, w1), [0, 0], mx)
        pl.store(pl.row_min(t, w2), [0, 0], mn)
        pl.store(pl.row_sum(t, w3), [0, 0], sm)
        pl.store(pl.row_prod(t, w4), [0, 0], pr)
        pl.store(pl.row_argmax(t, w5), [0, 0], ax)
        pl.store(pl.row_argmin(t, w6), [0, 0], an)
    return mx, mn, sm, pr, ax, an


def row_outputs(dtype):
    return [out(16, 1, dtype=dtype) for _ in range(4)] + [out(16, 1, dtype=np.int32) for _ in range(2)]


DEAD = {
    np.float32: (NAN, INF, -INF),
    np.float16: (NAN, INF, -INF),
    np.int32: (2**31 - 1, -(2**31)),
    np.int16: (2**15 - 1, -(2**15)),
}


@pytest.mark.parametrize("dtype", DEAD)
def test_columns_that_are_no_data(dtype):
    table = {(-5, -3, -7): (-3, -7, -15, -105, 1, 2), (5, 3, 7): (7, 3, 15, 105, 2, 1)}
    calls, wanted = [], []
    for dead in DEAD[dtype]:
        for row, want in table.items():
            a = np.full((16, 16), dead, dtype)
            a[:, :3] = row
            calls.append([a, *row_outputs(dtype)])
            wanted.append(want)
    for want, got in zip(wanted, agree(rows, *calls), strict=True):
        for g, w in zip(got[1:], want, strict=True):
            same(g, w)


@pl.jit
def columns(
    a: pl.Tensor,
    c: pl.Tensor,
    mx: pl.Out[pl.Tensor],
    mn: pl.Out[pl.Tensor],
    sm: pl.Out[pl.Tensor],
    pr: pl.Out[pl.Tensor],
    ax: pl.Out[pl.Tensor],
    an: pl.Out[pl.Tensor],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 16], valid_shape=[r, 11])
        w1 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        w2 = pl.create_tile([16, 16], dtype=a.dtype, target_memory=pl.Mem.Vec)
        pl.store(pl.col_max(t), [0, 0], mx)
        pl.store(pl.col_min(t), [0, 0], mn)
        pl.store(pl.col_sum(t), [0, 0], sm)
        pl.store(pl.col_prod(t), [0, 0], pr)
        pl.store(pl.col_argmax(t, w1), [0, 0], ax)
        pl.store(pl.col_argmin(t, w2), [0, 0], an)
    return mx, mn, sm, pr, ax, an


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_that_are_no_data(dtype):
    a = np.full((16, 16), NAN, dtype)
    x = np.random.default_rng(3).integers(-3, 4, (5, 11)).astype(dtype)
    a[:5, :11] = x
    counts = (1, 3, 5)
    outputs = [out(1, 16, dtype=dtype) for _ in range(4)] + [out(1, 16, dtype=np.int32) for _ in range(2)]
    for r, got in zip(counts, agree(columns, *([a, cfg(r), *outputs] for r in counts)), strict=True):
        v = x[:r]
        for g, w in zip(got[2:], (v.max(0), v.min(0), v.sum(0), v.prod(0), v.argmax(0), v.argmin(0)), strict=True):
            same(g[0, :11], w)
            same(g[0, 11:], -777)


@pl.jit
def fused(a: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """Reductions of a producer, of a slice, and of what an earlier fill left around the data."""
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.create_tile([8, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        v = pl.create_tile([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[8, 21])
        pl.store(pl.row_max(pl.sub(pl.mul(t, t), 500.0), w), [0, 0], o)
        pl.store(pl.row_min(pl.slice(t, [8, 16], [0, 16]), v), [8, 0], o)
        f = pl.fillpad(t, pl.PadValue.max)
        g = pl.set_validshape(f, 8, 21)
        pl.store(pl.row_max(g, w), [16, 0], o)
        pl.store(pl.row_max(f, w), [24, 0], o)
    with pl.at(level=pl.Level.CORE_GROUP):
        p[:] = pl.row_sum(pl.abs(a[:, 0:24]))
    return o, p


def test_reductions_of_chains_and_slices():
    a = np.full((8, 32), NAN, np.float32)
    a[:, :24] = np.random.default_rng(1).integers(-20, 20, (8, 24))
    _, o, p = run(fused, a, out(32, 1), out(8, 1))
    x = a[:, :21]
    want = np.vstack([(x * x - 500).max(1), x[:, 16:].min(1), x.max(1), np.full(8, INF)]).reshape(-1, 1)
    same(o, want)
    same(p, abs(a[:, :24]).sum(1, keepdims=True))


@pl.jit
def softmax(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(a, pl.row_max(a)))
        o[:] = pl.row_expand_div(e, pl.row_sum(e))
    return o


def test_softmax_of_masked_rows():
    a = np.zeros((8, 16), np.float32)
    a[:, 8:] = -INF
    a[3] = -INF
    o = run(softmax, a, out(8, 16))[1]
    assert np.isnan(o[3]).all()
    same(np.delete(o, 3, 0)[:, 8:], 0)
    np.testing.assert_allclose(np.delete(o, 3, 0)[:, :8], 0.125, rtol=1e-6)


# -- memory --------------------------------------------------------------------------------------------------------


def at_page_edge(a):
    """A copy of `a` whose last byte is the last one before an unreadable page."""
    n = -(-a.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    m = mmap.mmap(-1, n + mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(m))
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(base + n), mmap.PAGESIZE, 0) == 0
    r = np.frombuffer(m, a.dtype, a.size, n - a.nbytes).reshape(a.shape)
    r[:] = a
    return r


@pl.jit
def whole_tensor(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.mul(a, 2.0), 1.0)
    return o


def test_nothing_behind_an_array_is_touched():
    """The tile is wider than the tensor; a native access behind the array would end the process."""
    a = at_page_edge(np.float32([[-5, -3, -7]] * 16))
    got = native(rows, [a, *row_outputs(np.float32)])
    for g, w in zip(got[1:], (-3, -7, -15, -105, 1, 2), strict=True):
        same(g, w)
    rows(a, *(at_page_edge(o) for o in row_outputs(np.float32)))
    a, o = at_page_edge(normal(7, 24)), at_page_edge(out(7, 24))
    whole_tensor(a, o)
    same(o, a * 2 + 1)


@pl.jit
def mixed(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], kind: pl.INT32):
    """A full tile and one that is partly valid, in every pattern of reading."""
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32])
        u = pl.load(a, [0, 0], [8, 32], valid_shape=[r, n])
        scratch = pl.create_tile([8, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        if kind == 0:
            pl.store(pl.add(t, u), [0, 0], o)
        if kind == 1:
            pl.store(pl.row_expand_add(t, pl.row_max(u, scratch)), [0, 0], o)
        if kind == 2:
            pl.store(pl.col_expand_mul(t, pl.col_max(u)), [0, 0], o)
        if kind == 3:
            pl.store(pl.add(u, t), [0, 0], o)
        if kind == 4:
            pl.store(pl.add(t, pl.fillpad(u)), [0, 0], o)
    return o


@pytest.mark.parametrize(
    ("kind", "rows", "cols", "words"),
    [
        (0, 3, 32, "8 rows reads an operand of which only 3"),
        (0, 8, 31, "32 columns reads an operand of which only 31"),
        (1, 3, 5, "8 rows reads an operand of which only 3"),
        (2, 3, 5, "32 columns reads an operand of which only 5"),
    ],
)
def test_undefined_elements_are_not_read(kind, rows, cols, words):
    """Where an operand is not valid its memory holds anything: reading that is refused, never computed with."""
    a, o = whole(8, 32), out(8, 32)
    with pytest.raises(KernelBoundsError, match=words):
        mixed(a, cfg(rows, cols), o, kind)
    with pytest.raises(KernelBoundsError, match="operand 1"):
        interpret(mixed.lower(a, cfg(rows, cols), o, kind), [a, cfg(rows, cols), o, kind], "mixed")
    same(o, out(8, 32))


def test_what_a_narrower_result_leaves_out_may_be_undefined():
    a = whole(8, 32)
    for kind, want in ((0, 2 * a), (3, 2 * a), (4, 2 * a)):
        (arrays_,) = agree(mixed, [a, cfg(8, 32), out(8, 32), kind])
        same(arrays_[2], want)
    (narrow, filled) = agree(mixed, [a, cfg(3, 5), out(8, 32), 3], [a, cfg(3, 5), out(8, 32), 4])
    want = out(8, 32)
    want[:3, :5] = 2 * a[:3, :5]
    same(narrow[2], want)
    want = a.copy()
    want[:3, :5] *= 2
    same(filled[2], want)


@pl.jit
def narrowed_windows(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [24, 64])
        u = pl.load(a, [24, 0], [24, 64])
        w = pl.tile.slice(t, [8, 64], [n, 0])
        u = pl.tile.assemble(u, pl.set_validshape(w, 3, 40), [n, 0])
        r = pl.reshape(w, [16, 32])
        pl.store(pl.set_validshape(r, 5, 32), [24, 0], o)
        pl.store(pl.set_validshape(pl.tile.slice(w, [4, 64], [2, 0]), 0, 40), [0, 0], o)
        pl.store(u, [0, 0], o)
    return o


def test_windows_at_rows_of_the_call_that_are_narrowed_to_known_extents():
    """The window lies where its row says, which its narrowed name cannot."""
    a = whole(48, 64)
    rows = (0, 1, 5, 16)
    for n, (_, _, o) in zip(rows, agree(narrowed_windows, *([a, cfg(n), out(32, 64)] for n in rows)), strict=True):
        want = out(32, 64)
        want[:24] = a[24:]
        want[n : n + 3, :40] = a[n : n + 3, :40]
        want[24:29, :32] = a[n : n + 8].reshape(16, 32)[:5]
        same(o, want)
