"""Tiles of any rank become rows and columns."""

import numpy as np
import pytest
from back_lab import applied, kernel_of, scope, through
from pass_lab import agree, out

from pypto.errors import CompileError
from pypto.ir.shaped import TileType
from pypto.passes.context import PassOptions
from pypto.passes.flatten_tile_nd_to_2d import flatten_tile_nd_to_2d
from pypto.passes.statements import definitions

V = "pl.Tensor[[64], pl.FP32]"
W = "pl.Tensor[[2, 3, 64], pl.FP32]"


def flattened(body: str, params: str, *args):
    """The kernel before and after; both give the same bits."""
    before = through(scope(body, params), "lower_composite_ops")
    after = flatten_tile_nd_to_2d.run(before, PassOptions())
    assert flatten_tile_nd_to_2d.run(after, PassOptions()) is after
    if args:
        agree(before, after, list(args))
    return kernel_of(after)


def shapes(f):
    """Ranks of the tiles that operators other than loads work on."""
    return {len(v.type.shape) for v in definitions(f.body) if isinstance(v.type, TileType) and v.name_hint != "nd"}


def test_a_vector_is_one_row():
    x = np.arange(64, dtype=np.float32)
    f = flattened("o[:] = pl.add(x, pl.muls(x, pl.read(x, [3])))", f"x: {V}, o: pl.Out[{V}]", x, out(64))
    assert shapes(f) == {2}


def test_elements_and_windows_of_vectors():
    x = np.arange(64, dtype=np.float32)
    body = """
        t = pl.adds(x, 1.0)
        w = pl.slice(t, [16], [32])
        u = pl.write(t, [5], pl.read(t, [7]))
        o[0:16] = w
        o[16:64] = u[16:64]
        """
    f = flattened(body, f"x: {V}, o: pl.Out[{V}]", x, out(64))
    assert shapes(f) == {2}


def test_leading_axes_merge_and_stores_say_the_window():
    x = np.arange(384, dtype=np.float32).reshape(2, 3, 64)
    body = """
        v = pl.mul(x, x)
        m = pl.row_max(v)
        o[:] = pl.row_expand_sub(v, m)
        r[:] = m
        p[:] = pl.reshape(v, [6, 64])
        q[:] = pl.reshape(v, [4, 96])
        """
    params = (
        f"x: {W}, o: pl.Out[{W}], r: pl.Out[pl.Tensor[[2, 3, 1], pl.FP32]], "
        "p: pl.Out[pl.Tensor[[6, 64], pl.FP32]], q: pl.Out[pl.Tensor[[4, 96], pl.FP32]]"
    )
    f = flattened(body, params, x, out(2, 3, 64), out(2, 3, 1), out(6, 64), out(4, 96))
    assert shapes(f) == {2}
    stores = [c for c in applied(f) if c == "tile.store"]
    assert len(stores) == 4


def test_windows_and_assembles_of_adjacent_rows():
    x = np.arange(384, dtype=np.float32).reshape(2, 3, 64)
    body = """
        v = pl.adds(x, 1.0)
        w = pl.slice(v, [1, 3, 64], [1, 0, 0])
        a = pl.assemble(v, pl.muls(w, 2.0), [0, 0, 0])
        b = pl.write(a, [1, 2, 3], pl.read(a, [0, 1, 5]))
        o[:] = b
        """
    f = flattened(body, f"x: {W}, o: pl.Out[{W}]", x, out(2, 3, 64))
    assert shapes(f) == {2}


def test_partial_windows_of_adjacent_rows():
    x = np.arange(384, dtype=np.float32).reshape(2, 3, 64)
    body = """
        v = pl.adds(pl.load(x, [0, 0, 0], [2, 3, 64]), 1.0)
        w = pl.slice(v, [2, 3, 64], [0, 0, 0], valid_shape=[1, 3, 40])
        pl.store(v, [0, 0, 0], o)
        pl.store(w, [0, 0, 0], o)
        """
    f = flattened(body, f"x: {W}, o: pl.Out[{W}]", x, out(2, 3, 64))
    assert shapes(f) == {2}
    valid = {
        tuple(e.value for e in v.type.valid) for v in definitions(f.body) if isinstance(v.type, TileType) and "w" in v.name_hint
    }
    assert (3, 40) in valid


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("r[:] = pl.slice(pl.adds(x, 1.0), [2, 3, 64], [0, 0, 0], valid_shape=[2, 1, 64])[:, 0:1, :]", "rectangle of rows"),
        ("r[:] = pl.col_sum(pl.adds(x, 1.0))", "across the rows"),
        ("r[:] = pl.slice(pl.adds(x, 1.0), [2, 1, 64], [0, 1, 0])", "not adjacent"),
    ],
)
def test_what_is_no_band_of_rows_is_refused_at_its_line(body, words):
    with pytest.raises(CompileError, match=words) as e:
        flattened(body, f"x: {W}, r: pl.Out[pl.Tensor[[2, 1, 64], pl.FP32]]")
    assert e.value.code == "C030"
    assert e.value.span["line"] == 5
    assert e.value.hint


def test_a_kernel_of_matrices_is_returned_as_it_is():
    p = through(
        scope("o[:] = pl.adds(x, 1.0)", "x: pl.Tensor[[8, 8], pl.FP32], o: pl.Out[pl.Tensor[[8, 8], pl.FP32]]"),
        "lower_composite_ops",
    )
    assert flatten_tile_nd_to_2d.run(p, PassOptions()) is p


def test_the_last_two_axes_are_exchanged_page_by_page():
    x = np.arange(384, dtype=np.float32).reshape(2, 8, 24)
    X, Y = "pl.Tensor[[2, 8, 24], pl.FP32]", "pl.Tensor[[2, 24, 8], pl.FP32]"
    f = flattened("o[:, :, :] = pl.transpose(x, -1, -2)", f"x: {X}, o: pl.Out[{Y}]", x, out(2, 24, 8))
    assert applied(f).count("tile.transpose") == 2
    assert shapes(f) == {2}


def test_pages_cannot_be_exchanged():
    X, Y = "pl.Tensor[[2, 8, 24], pl.FP32]", "pl.Tensor[[8, 2, 24], pl.FP32]"
    with pytest.raises(CompileError, match="exchanges axes 0 and 1 of a tile") as e:
        flattened("o[:, :, :] = pl.transpose(x, 0, 1)", f"x: {X}, o: pl.Out[{Y}]")
    assert "two-dimensional pieces" in e.value.hint


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_three_dimensions_are_gathered_from_rows_in_groups(dim):
    x = np.arange(384, dtype=np.float32).reshape(2, 8, 24)
    n = (np.arange(2 * 4 * 8) % x.shape[dim]).astype(np.int32).reshape(2, 4, 8)
    X, N, Y = "pl.Tensor[[2, 8, 24], pl.FP32]", "pl.Tensor[[2, 4, 8], pl.INT32]", "pl.Tensor[[2, 4, 8], pl.FP32]"
    f = flattened(f"o[:, :, :] = pl.gather(x, {dim}, n)", f"x: {X}, n: {N}, o: pl.Out[{Y}]", x, n, out(2, 4, 8))
    assert shapes(f) == {2}
