"""Products made of pieces: how large the pieces are, and what the kernel becomes."""

import textwrap

import numpy as np
import pytest
from back_lab import applied, kernel_of, raw_kernel
from pass_lab import same

from pypto import passes
from pypto.enums import ForKind
from pypto.errors import CompileError
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt
from pypto.passes.auto_tile_matmul_l0 import auto_tile_matmul_l0
from pypto.passes.context import PassOptions
from pypto.passes.l0_tile_chooser import L0TileConfig, choose_l0_tile


def tiled(body: str, a: str, b: str, o: str, dtype: str = "FP32"):
    p = kernel(body, a, b, o, dtype)
    made = auto_tile_matmul_l0.run(p, PassOptions())
    assert auto_tile_matmul_l0.run(made, PassOptions()) is made
    return p, made


def kernel(body: str, a: str, b: str, o: str, dtype: str = "FP32"):
    params = f"a: pl.Tensor[{a}, pl.{dtype}], b: pl.Tensor[{b}, pl.{dtype}], o: pl.Out[pl.Tensor[{o}, pl.FP32]]"
    return raw_kernel(textwrap.dedent(body), params, f"pl.Tensor[{o}, pl.FP32]")


def loads(a: str, b: str) -> str:
    return (
        f"\nx = pl.tile.load(a, [0, 0], {a}, {a}, target_memory=pl.Mem.Mat)\n"
        f"y = pl.tile.load(b, [0, 0], {b}, {b}, target_memory=pl.Mem.Mat)\n"
    )


PLAIN = "c = pl.tile.matmul(x, y)\nr = pl.tile.store(c, [0, 0], o)\nreturn r"


def test_what_fits_stays():
    p, made = tiled(loads("[128, 128]", "[128, 128]") + PLAIN, "[128, 128]", "[128, 128]", "[128, 128]")
    assert made is p


def test_a_deep_product_adds_up_slices():
    _, made = tiled(loads("[64, 512]", "[512, 128]") + PLAIN, "[64, 512]", "[512, 128]", "[64, 128]")
    want = """
        c0 = pl.tile.create([64, 128], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for ko, (c1,) in pl.pipeline(0, 512, 64, init_values=(c0,), stage=2):
            if ko == 0:
                l0 = pl.tile.extract(x, 0, ko, [64, 64], target_memory=pl.Mem.Left)
                r0 = pl.tile.extract(y, ko, 0, [64, 128], target_memory=pl.Mem.Right)
                c2 = pl.tile.matmul(l0, r0)
                c3 = pl.yield_(c2)
            else:
                l1 = pl.tile.extract(x, 0, ko, [64, 64], target_memory=pl.Mem.Left)
                r1 = pl.tile.extract(y, ko, 0, [64, 128], target_memory=pl.Mem.Right)
                c4 = pl.tile.matmul_acc(c1, l1, r1)
                c3 = pl.yield_(c4)
            c = pl.yield_(c3)
        r = pl.tile.store(c, [0, 0], o)
        return r
        """
    same(made, kernel(loads("[64, 512]", "[512, 128]") + textwrap.dedent(want), "[64, 512]", "[512, 128]", "[64, 128]"))


def test_an_accumulator_is_carried_through():
    body = """
        c0 = pl.tile.create([128, 128], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        c = pl.tile.matmul_acc(c0, x, y)
        r = pl.tile.store(c, [0, 0], o)
        return r
        """
    _, made = tiled(loads("[128, 400]", "[400, 128]") + textwrap.dedent(body), "[128, 400]", "[400, 128]", "[128, 128]")
    want = """
        c0 = pl.tile.create([128, 128], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for ko, (c1,) in pl.pipeline(0, 384, 64, init_values=(c0,), stage=2):
            l1 = pl.tile.extract(x, 0, ko, [128, 64], target_memory=pl.Mem.Left)
            r1 = pl.tile.extract(y, ko, 0, [64, 128], target_memory=pl.Mem.Right)
            c4 = pl.tile.matmul_acc(c1, l1, r1)
            c5 = pl.yield_(c4)
        l2 = pl.tile.extract(x, 0, 384, [128, 16], target_memory=pl.Mem.Left)
        r2 = pl.tile.extract(y, 384, 0, [16, 128], target_memory=pl.Mem.Right)
        c = pl.tile.matmul_acc(c5, l2, r2)
        r = pl.tile.store(c, [0, 0], o)
        return r
        """
    same(made, kernel(loads("[128, 400]", "[400, 128]") + textwrap.dedent(want), "[128, 400]", "[400, 128]", "[128, 128]"))


def test_a_large_product_is_a_grid_of_stores():
    _, made = tiled(loads("[256, 64]", "[64, 256]") + PLAIN, "[256, 64]", "[64, 256]", "[256, 256]")
    loops = [n for n in walk(kernel_of(made).body) if isinstance(n, ForStmt)]
    assert [n.kind for n in loops] == [ForKind.Sequential]
    assert applied(kernel_of(made)).count("tile.store") == 1


def test_operands_too_large_for_mat_are_loaded_window_by_window():
    _, made = tiled(loads("[64, 4096]", "[4096, 64]") + PLAIN, "[64, 4096]", "[4096, 64]", "[64, 64]")
    found = [n for n in applied(kernel_of(made)) if n in ("tile.load", "tile.extract")]
    assert found == ["tile.load"] * 4  # two in each arm; those of the whole operands are gone


def test_operands_in_the_matrix_units_memories_stay():
    moves = "l = pl.tile.move(x, target_memory=pl.Mem.Left)\nq = pl.tile.move(y, target_memory=pl.Mem.Right)\n"
    rest = "c = pl.tile.matmul(l, q)\nr = pl.tile.store(c, [0, 0], o)\nreturn r"
    p, made = tiled(loads("[64, 64]", "[64, 64]") + moves + rest, "[64, 64]", "[64, 64]", "[64, 64]")
    assert made is p
    with pytest.raises(CompileError) as e:
        tiled(loads("[64, 512]", "[512, 64]") + moves + rest, "[64, 512]", "[512, 64]", "[64, 64]")
    assert e.value.code == "C053"
    assert all(w in str(e.value) for w in ("'l'", "131072", "65536", "Left"))


def test_a_product_that_two_operators_read_is_no_grid():
    body = PLAIN.replace("return r", "s = pl.tile.store(c, [0, 0], r)\nreturn s")
    with pytest.raises(CompileError) as e:
        tiled(loads("[256, 64]", "[64, 256]") + body, "[256, 64]", "[64, 256]", "[256, 256]")
    assert e.value.code == "C054"


# -- the choice ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size", [(1, 1, 5000), (16, 4000, 48), (4000, 16, 48), (512, 512, 1024), (100, 300, 500), (4096, 4096, 4096)]
)
@pytest.mark.parametrize("each", [1, 2, 4])
@pytest.mark.parametrize("double", [False, True])
def test_pieces_fit(size, each, double):
    c = L0TileConfig(*size, each, each, double_buffer_c=double)
    r = choose_l0_tile(c)
    assert r is not None
    assert r.m % 16 == r.n % 16 == r.k % 16 == 0
    slots = 1 if r.k >= c.K else 2  # slices of K take turns in two places
    assert slots * r.m * r.k * each <= c.l0a_bytes
    assert slots * r.k * r.n * each <= c.l0b_bytes
    assert (2 if double else 1) * r.m * r.n * 4 <= c.l0c_bytes


def test_no_larger_piece_is_quicker():
    c = L0TileConfig(512, 512, 512, 4, 4)
    best = choose_l0_tile(c)
    assert best is not None
    for smaller in (L0TileConfig(512, 512, 512, 4, 4, l0c_bytes=64 << 10), L0TileConfig(512, 512, 512, 4, 4, l0a_bytes=32 << 10)):
        other = choose_l0_tile(smaller)
        assert other is not None
        assert other.wall >= best.wall


def test_whole_products_are_one_piece():
    assert choose_l0_tile(L0TileConfig(64, 64, 64))[:3] == (64, 64, 64)
    assert choose_l0_tile(L0TileConfig(128, 256, 512, 4, 4))[:3] == (128, 256, 32)


def test_a_bias_limits_the_columns():
    assert choose_l0_tile(L0TileConfig(64, 1024, 64, bias_bytes=1024)).n == 256
    assert choose_l0_tile(L0TileConfig(64, 1024, 64, bias_bytes=32)) is None


def test_the_chooser_is_public():
    assert passes.l0_tile_chooser.choose_l0_tile is choose_l0_tile
    assert np.isfinite(choose_l0_tile(L0TileConfig(100, 100, 100)).wall)
