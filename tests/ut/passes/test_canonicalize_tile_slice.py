"""Windows that cannot be read in place become copies."""

import textwrap

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, raw_kernel, scope, through
from pass_lab import agree, out, same

from pypto.ir.shaped import TileType, const_dims
from pypto.passes.canonicalize_tile_slice import canonicalize_tile_slice
from pypto.passes.context import PassOptions

X = "x: pl.Tensor[[16, 64], pl.FP32], n: pl.Scalar[pl.INDEX]"
LOAD = "t = pl.tile.load(x, [0, 0], [16, 64], [16, 64])\n"


def canonical(body: str):
    p = raw_kernel(LOAD + textwrap.dedent(body), X)
    made = canonicalize_tile_slice.run(p, PassOptions())
    assert canonicalize_tile_slice.run(made, PassOptions()) is made
    return made


def test_an_unaligned_window_is_copied():
    made = canonical("w = pl.tile.slice(t, [16, 8], [0, 4])\ny = pl.tile.muls(w, 2.0)")
    same(made, raw_kernel(LOAD + "w = pl.tile.extract(t, 0, 4, [16, 8], target_memory=pl.Mem.Vec)\ny = pl.tile.muls(w, 2.0)", X))


@pytest.mark.parametrize(
    ("offset", "stays"),
    [("[0, 8]", True), ("[n, 16]", True), ("[0, n * 8]", True), ("[0, n * 8 + 4]", False), ("[0, n]", False), ("[3, 24]", True)],
)
def test_alignment_is_proved_from_scalar_arithmetic(offset, stays):
    f = kernel_of(canonical(f"w = pl.tile.slice(t, [8, 8], {offset})\ny = pl.tile.muls(w, 2.0)"))
    assert ("tile.slice" in applied(f)) == stays
    assert ("tile.extract" in applied(f)) != stays


def test_scalar_definitions_are_opened():
    body = """
        k: pl.Scalar[pl.INDEX] = n * 4
        j: pl.Scalar[pl.INDEX] = k + k
        w = pl.tile.slice(t, [8, 8], [0, j])
        y = pl.tile.muls(w, 2.0)
        """
    f = kernel_of(canonical(body))
    assert "tile.slice" in applied(f)


def test_offsets_of_windows_of_windows_add_up():
    f = kernel_of(
        canonical("v = pl.tile.slice(t, [8, 32], [4, 4])\nw = pl.tile.slice(v, [4, 8], [2, 4])\ny = pl.tile.muls(w, 2.0)")
    )
    assert applied(f).count("tile.slice") == 2  # 4 + 4 columns: aligned as a whole
    e = kernel_of(
        canonical("v = pl.tile.slice(t, [8, 32], [4, 8])\nw = pl.tile.slice(v, [4, 8], [2, 4])\ny = pl.tile.muls(w, 2.0)")
    )
    assert [a.value for a in call_of(e, "tile.extract").args[1:3]] == [6, 12]


def test_a_column_of_a_wider_tile_is_copied_wherever_it_begins():
    f = kernel_of(canonical("w = pl.tile.slice(t, [16, 1], [0, 0])\ny = pl.tile.muls(w, 2.0)"))
    assert "tile.extract" in applied(f)


def test_relabels_need_dense_bytes():
    f = kernel_of(canonical("w = pl.tile.slice(t, [4, 16], [0, 0])\nr = pl.tile.reshape(w, [1, 64])\ny = pl.tile.muls(r, 2.0)"))
    assert "tile.extract" in applied(f)
    g = kernel_of(canonical("w = pl.tile.slice(t, [4, 64], [4, 0])\nr = pl.tile.reshape(w, [8, 32])\ny = pl.tile.muls(r, 2.0)"))
    assert "tile.slice" in applied(g)


def test_an_extract_of_a_window_reads_the_tile_behind_it():
    f = kernel_of(
        canonical("w = pl.tile.slice(t, [8, 32], [4, 8])\ny = pl.tile.extract(w, 2, n, [4, 8], target_memory=pl.Mem.Vec)")
    )
    assert applied(f) == ["tile.load", "tile.extract"]
    assert call_of(f, "tile.extract").args[0].name_hint == "t"


def test_unused_windows_are_gone():
    assert applied(kernel_of(canonical("w = pl.tile.slice(t, [8, 32], [4, 8])\nv = pl.tile.slice(w, [4, 8], [0, 0])"))) == [
        "tile.load"
    ]


def test_a_copy_is_valid_where_the_window_was():
    f = kernel_of(canonical("w = pl.tile.slice(t, [16, 8], [0, n])\ny = pl.tile.muls(w, 2.0)"))
    t = call_of(f, "tile.muls").type
    assert isinstance(t, TileType)
    assert const_dims(t.valid) == (16, 8)


def test_carried_windows_are_copies():
    body = """
        w = pl.tile.slice(t, [8, 8], [0, 4])
        for i, (c,) in pl.range(3, init_values=(w,)):
            d = pl.tile.muls(c, 2.0)
            r = pl.yield_(d)
        """
    assert "tile.extract" in applied(kernel_of(canonical(body)))


def test_numbers_stay():
    body = """
        t = pl.load(x, [0, 0], [16, 64])
        for i in pl.range(3):
            w = pl.slice(t, [8, 8], [i, i + 4])
            t = pl.assemble(t, pl.adds(w, 1.0), [i + 1, i * 8])
        pl.store(t, [0, 0], o)
        """
    p = scope(body, "x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]")
    x = np.arange(1024, dtype=np.float32).reshape(16, 64)
    agree(through(p, "flatten_tile_nd_to_2d"), through(p, "canonicalize_tile_slice"), [x, out(16, 64)])
