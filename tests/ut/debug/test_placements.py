"""Planned tiles lie at real addresses: what a planner overlays, the interpreter overlays."""

import numpy as np
import pytest
from kit import OUT, Kernel, expr

from pypto.debug import Placement, interpret
from pypto.debug.memory import POISON, Arena, ArenaPlace, addresses, poisoned
from pypto.debug.storage import placement_of
from pypto.dtypes import DataType as D
from pypto.enums import MemorySpace, TileLayout
from pypto.errors import InternalError, KernelBoundsError
from pypto.ir.expr import ConstInt, MemRef, Var
from pypto.ir.layout import BoxLayout
from pypto.ir.types import PtrType

X = np.arange(1, 129, dtype=np.float32).reshape(8, 16)
BYTES = 8 * 16 * 4
VEC = MemorySpace.Vec


def out(*shape, dtype=np.float32):
    return np.full(shape, -777, dtype)


class Planned(Kernel):
    """A kernel whose tiles are given addresses."""

    def __init__(self):
        super().__init__()
        self.x, self.o = self.tensor("x", [8, 16], D.FP32), self.tensor("o", [16, 16], D.FP32, OUT)

    def at(self, address, size=BYTES, base=None):
        base = base if base is not None else self.let(self.call("tile.alloc", expr(size, D.INT64), memory_space=VEC), "mem")
        return MemRef(base, address, size)

    def loaded(self, address):
        return self.load(self.x, [0, 0], [8, 16], at=self.at(address), target_memory=VEC)

    def run(self, *tiles, placement=None):
        o = self.o
        for i, t in enumerate(tiles):
            o = self.store(t, [8 * i, 0], o)
        f = self.done(o)
        return interpret(f, [X, out(16, 16)], placement=placement)


def test_poison_is_a_nan_of_every_float_type():
    for d in (D.FP16, D.BF16, D.FP32):
        assert np.isnan(poisoned((5,), d).astype(np.float64)).all()
    assert poisoned((3,), D.INT32).tolist() == [POISON << 16 | POISON] * 3
    assert poisoned((3,), D.UINT8).tolist() == [0xC1, 0x7F, 0xC1]
    assert poisoned((2,), D.BOOL).all()


def test_overlaid_tiles_share_their_bytes():
    k = Planned()
    t = k.loaded(4096)
    u = k.op("tile.neg", t, at=k.at(8192))
    v = k.op("tile.adds", u, expr(0.5), at=k.at(4096))  # t is still alive
    got = k.run(t, v)
    np.testing.assert_array_equal(got, np.vstack([0.5 - X, 0.5 - X]))


def test_the_same_program_without_addresses():
    for placement in (Placement.PRIVATE, Placement.VALUES):
        k = Planned()
        t = k.loaded(0)
        u = k.op("tile.neg", t, at=k.at(0))
        np.testing.assert_array_equal(k.run(t, u, placement=placement), np.vstack([X, -X]))


def test_addresses_are_told_from_offsets():
    for address, want in ((0, Placement.PRIVATE), (BYTES, Placement.ADDRESSED)):
        k = Planned()
        u = k.op("tile.neg", k.loaded(0), at=k.at(address))
        assert placement_of(k.done(k.store(u, [0, 0], k.o))) is want


def test_memory_that_nobody_wrote_is_poison():
    k = Planned()
    t = k.op("tile.create", [8, 16], at=k.at(4096), dtype=D.FP32, target_memory=VEC)
    got = k.run(k.op("tile.write", t, [2, 3], expr(1.0), at=k.at(4096)))[:8]
    assert got[2, 3] == 1
    assert np.isnan(got).sum() == 8 * 16 - 1


@pytest.mark.parametrize("address", [4096, 8192])
def test_storage_that_nothing_wrote_is_not_read(address):
    k = Planned()
    t = k.op("tile.create", [8, 16], at=k.at(4096), dtype=D.FP32, target_memory=VEC)
    u = k.op("tile.move", t, at=k.at(address), target_memory=VEC)
    with pytest.raises(KernelBoundsError, match="nothing has written it"):
        k.run(u)


def test_partially_written_tiles_keep_the_bytes_around():
    k = Planned()
    t = k.loaded(4096)
    k.load(k.x, [0, 0], [8, 16], [2, 3], at=k.at(4096), target_memory=VEC)
    got = k.run(k.op("tile.neg", t, at=k.at(8192)))
    np.testing.assert_array_equal(got[:8], -X)


def test_in_place_is_right_where_it_is_allowed():
    k = Planned()
    t = k.loaded(4096)
    np.testing.assert_array_equal(k.run(k.op("tile.add", t, t, at=k.at(4096)))[:8], 2 * X)


@pytest.mark.parametrize("address", [4096, 4096 + 32, 4096 - 64])
def test_in_place_shows_where_it_is_not_allowed(address):
    """recip may not run in place, and nothing may run on a shifted window of its operand."""
    k = Planned()
    t = k.loaded(4096)
    assert np.isnan(k.run(k.op("tile.recip", t, at=k.at(address)))[:8]).any()
    k = Planned()
    t = k.loaded(4096)
    got = k.run(k.op("tile.neg", t, at=k.at(address)))[:8]
    assert np.isnan(got).any() == (address != 4096)


def test_narrowing_runs_in_place_and_widening_does_not():
    for target, back in ((D.FP16, D.FP32), (D.INT64, D.FP32)):
        k = Planned()
        t = k.loaded(4096)
        narrow = k.op("tile.cast", t, at=k.at(4096, 128 * target.get_byte()), target_type=target)
        got = k.run(k.op("tile.cast", narrow, at=k.at(16384), target_type=back))[:8]
        assert (got == X).all() == (target is D.FP16)


def test_scratch_is_written():
    k = Planned()
    t = k.loaded(4096)
    tmp = k.op("tile.create", [8, 16], at=k.at(4096), dtype=D.FP32, target_memory=VEC)
    k2 = k.op("tile.row_sum", t, tmp, at=k.at(8192, 32))
    got = k.run(k.op("tile.row_expand", t, k2, at=k.at(12288)))
    assert np.isnan(got[:8]).all()


def test_carries_that_lie_elsewhere_are_copied_simultaneously():
    k = Planned()
    a, b = k.loaded(4096), k.op("tile.neg", k.loaded(8192), at=k.at(8192))
    p, q = k.loop(0, 3, 1, [a, b], lambda i, u, w: (w, u))
    np.testing.assert_array_equal(k.run(p, q), np.vstack([-X, X]))


def test_views_alias_their_source():
    k = Planned()
    base = k.at(4096)
    t = k.load(k.x, [0, 0], [8, 16], at=base, target_memory=VEC)
    w = k.op("tile.slice", t, [2, 16], [4, 0], at=MemRef(base.base_, 4096 + 4 * 64, 2 * 64))
    t2 = k.op("tile.write", t, [4, 3], expr(99.0), at=base)
    got = k.run(k.op("tile.neg", w, at=k.at(8192, 128)), t2)
    want = X.copy()
    want[4, 3] = 99
    np.testing.assert_array_equal(got[:2], -want[4:6])
    np.testing.assert_array_equal(got[8:], want)


def test_a_window_at_a_run_time_offset_lies_where_the_offset_says():
    k = Planned()
    n = k.scalar("n", D.INDEX)
    base = k.at(4096)
    t = k.load(k.x, [0, 0], [8, 16], at=base, target_memory=VEC)
    w = k.op("tile.slice", t, [2, 8], [n, 8], at=MemRef(base.base_, 4096, BYTES))
    k.op("tile.write", t, [n, 9], expr(99.0), at=base)
    f = k.done(k.store(k.op("tile.neg", w, at=k.at(8192, 64)), [0, 0], k.o))
    for i in (0, 6):
        got = interpret(f, [X, out(16, 16), i], placement=Placement.ADDRESSED)
        want = -X[i : i + 2, 8:]
        want[0, 1] = -99  # it shares the parent's bytes
        np.testing.assert_array_equal(got[:2, :8], want)


def test_a_view_whose_memref_says_another_address_is_an_error():
    k = Planned()
    base = k.at(4096)
    t = k.load(k.x, [0, 0], [8, 16], at=base, target_memory=VEC)
    w = k.op("tile.slice", t, [2, 16], [4, 0], at=MemRef(base.base_, 4096 + 64, 128))
    with pytest.raises(InternalError, match="views address 4352, its memref says 4160"):
        k.run(k.op("tile.neg", w, at=k.at(8192, 128)))


def test_relabels_reinterpret_the_bytes():
    k = Planned()
    base = k.at(4096)
    t = k.load(k.x, [0, 0], [8, 16], at=base, target_memory=VEC)
    r = k.op("tile.reshape", t, [16, 8], at=base)
    i = k.op("tile.reinterpret_view", r, dtype=D.INT32, at=base)
    back = k.op("tile.reinterpret_view", k.op("tile.adds", i, expr(1, D.INT32), at=base), dtype=D.FP32, at=base)
    got = k.run(k.op("tile.reshape", back, [8, 16], at=base))
    np.testing.assert_array_equal(got[:8], (X.view(np.int32) + 1).view(np.float32))


def test_assembling_elsewhere_copies_the_target_first():
    k = Planned()
    t, s = k.loaded(4096), k.load(k.x, [0, 0], [2, 16], at=k.at(16384, 128), target_memory=VEC)
    t2 = k.op("tile.assemble", t, s, [6, 0], at=k.at(8192))
    want = X.copy()
    want[6:] = X[:2]
    np.testing.assert_array_equal(k.run(t, t2), np.vstack([X, want]))


def test_fractal_addresses():
    nz = BoxLayout(TileLayout.col_major, TileLayout.row_major, 512)
    at = addresses(nz, D.FP16, (32, 32), 1000)
    assert at[17, 5] == 1000 + 554
    for layout, dtype, shape in (
        (nz, D.FP16, (32, 32)),
        (BoxLayout(TileLayout.row_major, TileLayout.col_major, 512), D.FP32, (16, 32)),
        (BoxLayout(TileLayout.row_major, TileLayout.row_major, 512), D.INT8, (32, 64)),
        (BoxLayout(TileLayout.col_major, TileLayout.row_major, 1024), D.FP32, (32, 48)),
        (BoxLayout(TileLayout.col_major, TileLayout.none_box, 512), D.FP32, (8, 3)),
    ):
        found = np.sort(addresses(layout, dtype, shape, 0).reshape(-1))
        np.testing.assert_array_equal(found, np.arange(shape[0] * shape[1]) * dtype.get_byte())
    arena = Arena("Mat")
    boxed = ArenaPlace(arena, at, D.FP16)
    values = np.arange(1024, dtype=np.float16).reshape(32, 32)
    boxed.put((), values)
    np.testing.assert_array_equal(boxed.get(()), values)
    flat = ArenaPlace(arena, np.arange(1000, 1000 + 2048, 2), D.FP16).get(())
    assert flat[277] == values[17, 5]


def test_tiles_at_negative_addresses_are_refused():
    k = Planned()
    base = Var("mem", PtrType.get())
    t = k.load(k.x, [0, 0], [8, 16], at=MemRef(base, ConstInt(-64, D.INT64), BYTES), target_memory=VEC)
    with pytest.raises(InternalError, match="address -64 of Vec"):
        k.run(t, placement=Placement.ADDRESSED)
