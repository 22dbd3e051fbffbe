"""Operators that read after they write get storage of their own, and arrays that meet give the numbers of separate ones."""

import numpy as np
import pytest
from programs_kit import PLANNED, agree, blocks, cfg, normal, out, run, same, whole

import pypto.language as pl
from pypto.errors import ArgumentValueError


@pl.jit
def dying_inputs(
    x: pl.Tensor, h: pl.Tensor, o: pl.Out[pl.Tensor], wide: pl.Out[pl.Tensor], narrow: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]
):
    """Producer, operator, store: the operand's storage is free while the operator runs."""
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.cast(pl.add(pl.load(h, [0, 0], [16, 16]), 0.0), pl.FP32), [0, 0], wide)
        pl.store(pl.cast(pl.add(pl.load(x, [0, 0], [16, 16]), 0.0), pl.FP16), [0, 0], narrow)
        pl.store(pl.recip(pl.add(pl.load(x, [0, 0], [16, 16]), 2.0)), [0, 0], o)
        pl.store(pl.rsqrt(pl.add(pl.abs(pl.load(x, [0, 0], [16, 16])), 1.0)), [16, 0], o)
        w = pl.create_tile([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        v = pl.create_tile([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_sum(pl.add(pl.load(x, [0, 0], [16, 16]), 0.0), w), [0, 0], s)
        pl.store(
            pl.row_expand(pl.add(pl.load(x, [0, 0], [16, 16]), 1.0), pl.row_max(pl.load(x, [0, 0], [16, 16]), v)), [32, 0], o
        )
        pl.store(pl.col_expand(pl.load(x, [0, 0], [16, 16]), pl.col_min(pl.add(pl.load(x, [0, 0], [16, 16]), 0.0))), [48, 0], o)
        mask = pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)
        t = pl.add(pl.load(x, [0, 0], [16, 16]), 0.0)
        pl.store(pl.sel(pl.tile.cmps(pl.add(t, 0.0), 0.0, cmp_type=4), pl.add(t, 1.0), pl.sub(t, 1.0), mask), [64, 0], o)
    return o, wide, narrow, s


def test_operators_do_not_destroy_what_they_read():
    x, h = whole(16, 16), (np.arange(256) / 8).astype(np.float16).reshape(16, 16)
    x[x == -2] = 3
    _, _, o, wide, narrow, s = run(
        dying_inputs, x, h, out(80, 16), out(16, 16), out(16, 16, dtype=np.float16), out(16, 1), ways=PLANNED
    )
    same(wide, h)
    same(narrow, x)
    same(s, x.sum(1, keepdims=True))
    same(o[:16], np.float32(1) / (x + 2))
    np.testing.assert_allclose(o[16:32], 1 / np.sqrt(abs(x) + 1), rtol=3e-7)
    same(o[32:48], x.max(1, keepdims=True))
    same(o[48:64], x.min(0, keepdims=True))
    same(o[64:], np.where(x > 0, x + 1, x - 1))


@pl.jit
def views(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """Views keep the tile they look into alive: slices, reshapes, windows at run-time places."""
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 16])
        s = pl.slice(t, [8, 16], [m, 0])
        r = pl.reshape(pl.add(t, 1.0), [8, 32])
        u = pl.add(t, 100.0)
        for i in pl.range(3):
            u = pl.assemble(u, pl.slice(t, [4, 16], [i * 4, 0]), [12 - i * 4, 0])
            u = pl.adds(u, 0.0)
        pl.store(s, [0, 0], o)
        pl.store(pl.reshape(r, [16, 16]), [8, 0], o)
        pl.store(u, [24, 0], o)
        x = pl.load(a, [0, 0], [8, 16])
        for _ in pl.range(m):
            x = pl.add(x, s)
        pl.store(x, [40, 0], o)
        pl.store(t, [48, 0], o)
    return o


def test_views_and_what_they_look_into():
    a = whole(16, 16)
    for m, g in zip((0, 3, 8), agree(views, *([a, cfg(m), out(64, 16)] for m in (0, 3, 8)), ways=PLANNED), strict=True):
        u = a + 100
        for i in range(3):
            u[12 - i * 4 : 16 - i * 4] = a[i * 4 : i * 4 + 4]
        same(g[2], np.vstack([a[m : m + 8], a + 1, u, a[:8] + m * a[m : m + 8], a]))


FULL = 46080  # FP32 elements: four tiles of a quarter of 184 KiB fill the memory to the last byte


@pl.jit
def to_the_brim(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t0 = pl.load(a, [0, 0], [46, 256])
        t1 = pl.load(a, [46, 0], [46, 256])
        t2 = pl.load(a, [92, 0], [46, 256])
        for _ in pl.range(2):
            t3 = pl.add(t0, t1)
            t0 = pl.sub(t2, t1)
            t1 = pl.minimum(t3, t2)
        pl.store(t0, [0, 0], o)
        pl.store(t1, [46, 0], o)
        pl.store(t2, [92, 0], o)
    return o


def test_tiles_that_fill_the_memory():
    a = whole(138, 256)
    t0, t1, t2 = a[:46], a[46:92], a[92:]
    for _ in range(2):
        t0, t1 = t2 - t1, np.minimum(t0 + t1, t2)
    same(run(to_the_brim, a, out(138, 256))[1], np.vstack([t0, t1, t2]))


# -- one array for several parameters ------------------------------------------------------------------------------


@pl.jit
def add2(lhs: pl.Tensor, rhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(4):
            pl.store(pl.add(pl.load(lhs, [r * 8, 0], [8, 16]), pl.load(rhs, [r * 8, 0], [8, 16])), [r * 8, 0], dst)
    return dst


@pl.jit
def blocks_reversed(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(4):
            pl.store(pl.load(lhs, [24 - r * 8, 0], [8, 16]), [r * 8, 0], dst)
    return dst


@pl.jit
def centred(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[:] = pl.sub(lhs, pl.row_max(lhs))
    return dst


@pl.jit
def twice_read(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[:] = pl.add(lhs, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[:] = pl.add(dst, lhs)
    return dst


@pl.jit
def element_by_element(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(32):
            pl.write(dst, [31 - i, 0], pl.read(lhs, [i, 0]) + 1.0)
    return dst


@pl.jit
def shifted(lhs: pl.Tensor, dst: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst[0:16, :] = pl.add(lhs[16:32, :], dst[0:16, :])
        dst[16:32, :] = pl.add(lhs[0:16, :], 1.0)
    return dst


def right_or_refused(call, got, want, *names):
    """The numbers of separate arrays (True), or a ValueError that names the parameters and nothing written (False)."""
    before, error = got.copy(), None
    try:
        call()
    except ArgumentValueError as e:
        error = e
    same(got, want if error is None else before)
    assert error is None or all(repr(n) in str(error) for n in names), str(error)
    return error is None


def grid():
    return np.arange(512, dtype=np.float32).reshape(32, 16)


def test_elementwise_kernels_work_in_place():
    for _ in range(2):  # the first call and a warm one
        x = grid()
        add2(x, x, x)
        same(x, 2 * grid())
        x, y = grid(), normal(32, 16)
        add2(x, y, x)
        same(x, grid() + y)
        x = grid()
        add2(y, x, x)
        same(x, grid() + y)
        x = grid()
        same(add2(x, x, out(32, 16)), 2 * x)  # two inputs may always be one


IN_PLACE = {
    blocks_reversed: lambda x: x.reshape(4, 8, 16)[::-1].reshape(32, 16),
    centred: lambda x: x - x.max(1, keepdims=True),
    twice_read: lambda x: x + 1 + x,
    element_by_element: lambda x: np.hstack([x[::-1, :1] + 1, x[:, 1:]]),
    shifted: lambda x: np.vstack([x[16:] + x[:16], x[:16] + 1]),
}


@pytest.mark.parametrize("kernel", IN_PLACE, ids=lambda k: k.__name__)
def test_other_kernels_are_right_in_place_or_refuse(kernel):
    for _ in range(2):
        x = grid()
        right_or_refused(lambda x=x: kernel(x, x), x, IN_PLACE[kernel](grid()), "lhs", "dst")
        kernel(grid(), out(32, 16))  # the next one is a warm call


def test_partial_overlap_is_refused():
    buf = np.arange(40 * 16, dtype=np.float32).reshape(40, 16)
    for lhs, dst in ((buf[:32], buf[8:]), (buf[8:], buf[:32])):
        assert not right_or_refused(lambda lhs=lhs, dst=dst: add2(lhs, lhs, dst), dst, 2 * lhs, "lhs", "dst")
    # The same bytes under another type, or as another array's memory.
    raw = bytearray(40 * 64)
    one, two = np.frombuffer(raw, np.float32, 512).reshape(32, 16), np.frombuffer(raw, np.float32, 512, 64).reshape(32, 16)
    assert not right_or_refused(lambda: add2(one, one, two), two, two, "lhs", "dst")


def test_neighbours_in_one_buffer_are_accepted():
    buf = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    want = 2 * buf[:32]
    same(add2(buf[:32], buf[:32], buf[32:]), want)


@pl.jit
def two(lhs: pl.Tensor, dst1: pl.Out[pl.Tensor], dst2: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(lhs, [0, 0], [32, 16])
        pl.store(pl.add(t, 1.0), [0, 0], dst1)
        pl.store(pl.add(t, 2.0), [0, 0], dst2)
    return dst1, dst2


def test_two_outputs_never_overlap():
    z, zeros = out(40, 16), np.zeros((32, 16), np.float32)
    for _ in range(2):
        for a, b in ((z[:32], z[:32]), (z[:32], z[8:])):
            with pytest.raises(ArgumentValueError, match=r"'dst1' and 'dst2'"):
                two(zeros, a, b)
        same(z, -777)
        x, y = two(zeros, out(32, 16), out(32, 16))
        same(x, 1)
        same(y, 2)


@pl.jit.incore
def copied(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    o[:] = pl.add(a, 1.0)
    return o


@pl.jit
def through_kernels(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    t = pl.create_tensor([16, 8], dtype=pl.FP32)
    t = copied(a, t)
    o = copied(t, o)
    return o


def test_one_array_through_an_orchestration():
    x = blocks(1, 2)
    right_or_refused(lambda: through_kernels(x, x), x, blocks(3, 4), "a", "o")
    same(run(through_kernels, blocks(1, 2), out(16, 8))[1], blocks(3, 4))


@pl.jit
def doubled_in_place(x: pl.InOut[pl.Tensor], y: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        x[:] = pl.add(x, y)
    return x


def test_an_inout_array():
    x, y = whole(16, 16), normal(16, 16)
    same(run(doubled_in_place, x, y)[0], x + y)
    z = x.copy()
    right_or_refused(lambda: doubled_in_place(z, z), z, 2 * x, "x", "y")


@pl.jit
def written_before_it_is_read(lhs: pl.Tensor, rhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(4):
            pl.store(pl.load(rhs, [r * 8, 0], [8, 16]), [r * 8, 0], dst)
            pl.store(pl.add(pl.load(lhs, [r * 8, 0], [8, 16]), 1.0), [r * 8, 0], dst)
    return dst


def test_a_read_after_a_write_of_the_same_loop():
    for _ in range(2):
        x, y = grid(), normal(32, 16)
        right_or_refused(lambda x=x, y=y: written_before_it_is_read(x, y, x), x, grid() + 1, "lhs", "dst")
        same(written_before_it_is_read(y, grid(), out(32, 16)), y + 1)
