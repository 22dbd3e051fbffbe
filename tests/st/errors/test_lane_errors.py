"""Mistakes with vector-lane regions: refused at the user's line, before anything is compiled, with what to write instead."""

import textwrap

import numpy as np
import pytest
from errors_kit import kernel, out, refused

from pypto.errors import CompileError, InvalidOperationError, ParserSyntaxError, UnsupportedFeatureError

UP_DOWN = "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n"
NONE = "for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):\n"
PRODUCT = "p = pl.matmul(a, b)\n"
HALF = "o[lane * 16 : lane * 16 + 16, :] = pl.aiv_shard(p)\n"


def given(rows=32):
    return np.ones((rows, 16), np.float32), np.ones((16, 32), np.float32), np.ones((32, 16), np.float32), out(rows, 32)


def region(tmp_path, inside, before=PRODUCT, after="", head=UP_DOWN):
    return kernel(tmp_path, before + head + textwrap.indent(inside, "    ") + after)


# -- where they stand ----------------------------------------------------------------------------------------------


@pytest.mark.contract("T164", "T172")
@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather", "tile.aiv_shard", "tensor.aic_gather"])
def test_outside_of_a_region(name, tmp_path):
    source = "pl.load(a, [0, 0], [32, 16])" if name.startswith("tile") else "p"
    k = kernel(tmp_path, PRODUCT + f"o[:] = pl.{name}({source})\n")
    e = refused(k, given(), InvalidOperationError, f"pl.{name} belongs inside", piece=f"pl.{name}(")
    assert "pl.split_aiv" in e.hint


@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather"])
def test_on_the_control_plane(name, tmp_path):
    k = kernel(tmp_path, f"p = pl.{name}(a)", scoped=False)
    refused(k, given(), InvalidOperationError, f"pl.{name} belongs inside", piece=f"pl.{name}(")


def test_behind_the_region_it_is_over(tmp_path):
    k = region(tmp_path, HALF, after="o[0:16, :] = pl.aiv_shard(p)\n")
    refused(k, given(), InvalidOperationError, "belongs inside", piece="pl.aiv_shard(p)")


def test_lanes_that_share_no_value(tmp_path):
    k = region(tmp_path, HALF, head=NONE)
    refused(k, given(), InvalidOperationError, "mode NONE", piece="pl.aiv_shard(p)")


def test_a_region_in_a_region(tmp_path):
    k = region(tmp_path, UP_DOWN + "    " + HALF)
    refused(k, given(), ParserSyntaxError, "cannot be nested", piece="pl.split_aiv(")


def test_a_region_in_a_helper_in_a_region(tmp_path):
    helper = f"""
@pl.jit.inline
def inner(p: pl.Tensor, o: pl.Out[pl.Tensor]):
    {UP_DOWN.strip()}
        o[0:16, :] = pl.aiv_shard(p)
    return o
"""
    k = kernel(tmp_path, PRODUCT + UP_DOWN + "    o = inner(p, o)\n", before=helper)
    refused(k, given(), ParserSyntaxError, "cannot be nested", piece="")


def test_a_region_in_a_kernel_that_is_split_as_a_whole(tmp_path):
    text = "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN)]):\n"
    k = kernel(tmp_path, text + textwrap.indent(PRODUCT + UP_DOWN + "    " + HALF, "    "), scoped=False)
    refused(k, given(), CompileError, "pl.split", "pl.split_aiv", piece="for lane in")


@pytest.mark.parametrize("word", ["break", "continue"])
def test_a_lane_cannot_be_left(word, tmp_path):
    k = kernel(tmp_path, "for i in pl.range(3):\n    " + UP_DOWN + f"        {word}\n")
    refused(k, given(), InvalidOperationError, word, "pl.split_aiv", piece=word)


def test_a_region_that_returns(tmp_path):
    refused(region(tmp_path, HALF + "return o\n"), given(), UnsupportedFeatureError, "return", piece="return o")


# -- operands ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("T165")
@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather"])
def test_the_tile_form_of_a_tensor(name, tmp_path):
    k = region(tmp_path, f"h = pl.tile.{name}(p, split=1)\n")
    e = refused(k, given(), InvalidOperationError, f"pl.tile.{name} takes a Tile, got a Tensor", piece=f"pl.tile.{name}(")
    assert f"pl.{name}(x)" in e.hint


@pytest.mark.contract("T167")
def test_another_split_than_the_mode_says(tmp_path):
    e = refused(
        region(tmp_path, "h = pl.tensor.aiv_shard(p, split=2)\n"),
        given(),
        InvalidOperationError,
        "split=2",
        "UP_DOWN",
        piece="pl.t",
    )
    assert "split=1" in e.hint


def test_the_mode_is_not_said_twice(tmp_path):
    refused(region(tmp_path, "h = pl.aiv_shard(p, split=1)\n"), given(), InvalidOperationError, "'split'", piece="split=1")


@pytest.mark.contract("T163")
@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather"])
def test_what_is_no_matrix(name, tmp_path):
    k = region(tmp_path, f"h = pl.{name}(c)\n", before="")
    args = list(given())
    args[2] = np.ones((2, 32, 16), np.float32)
    e = refused(k, args, InvalidOperationError, "[2, 32, 16]", piece=f"pl.{name}(")
    assert "pl.reshape" in e.hint


@pytest.mark.contract("T170")
@pytest.mark.parametrize(("name", "remedy"), [("aiv_shard", "pl.slice"), ("aic_gather", "use the tensor itself")])
def test_tensors_in_global_memory_are_not_loaded_for_it(name, remedy, tmp_path):
    k = region(tmp_path, f"_h = pl.{name}(c)\n" + HALF)
    e = refused(k, given(), CompileError, "global memory", code="C010", piece=f"pl.{name}(c)")
    assert remedy in e.hint


@pytest.mark.contract("T169")
def test_a_tile_that_was_loaded(tmp_path):
    k = region(tmp_path, "x = pl.load(c, [0, 0], [32, 16])\npl.store(pl.aiv_shard(x), [0, 0], o)\n", before="")
    e = refused(k, given(), CompileError, "not a tile in Vec memory", code="C063", piece="pl.aiv_shard(x)")
    assert "pl.load" in e.hint


@pytest.mark.parametrize(
    ("rows", "words", "code"),
    [(31, "31 rows do not fall into two halves", "P600"), (20, "the matrix unit makes 32 rows of 20", "C010")],
)
def test_rows_that_have_no_halves(rows, words, code, tmp_path):
    kind = InvalidOperationError if code == "P600" else CompileError
    refused(
        region(tmp_path, "x = pl.aiv_shard(p)\no[0:10, :] = x[0:10, :]\n"), given(rows), kind, words, code=code, piece="pl.aiv_"
    )


def test_halves_whose_whole_is_not_made_of_boxes(tmp_path):
    k = region(tmp_path, "g = pl.aic_gather(c[lane * 5 : lane * 5 + 5, :])\n", before="", after="o[0:10, :] = pl.matmul(g, b)\n")
    refused(k, given(), CompileError, "10 rows", "16 x 8", code="C010", piece="pl.aic_gather(")


def test_a_half_with_a_gap(tmp_path):
    inside = "x = pl.load(c, [0, 0], [16, 16], valid_shape=[12, 16])\ng = pl.aic_gather(x)\n"
    e = refused(region(tmp_path, inside, before=""), given(), InvalidOperationError, "gap", piece="pl.aic_gather(x)")
    assert "pl.fillpad" in e.hint


# -- rules of regions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "after", "words", "piece"),
    [
        ("o[:] = pl.matmul(a, b)\n" + HALF, "", "tensor.matmul inside of a vector-lane region", "pl.matmul(a, b)"),
        ("o[0:1, :] = pl.col_sum(pl.aiv_shard(p))\n", "", "over the rows that the lanes share", "pl.col_sum("),
        (HALF, "o[:, 0:16] = a * 2.0\n", "tensor.muls outside of the regions", "a * 2.0"),
        ("o[:] = p\n", "", "'p' is the whole result of the matrix unit", ""),
        ("h = pl.aiv_shard(p)\n", "o[0:16, :] = h\n", "'h' of one lane is used behind the region", "pl.aiv_shard(p)"),
        ("n = lane + 1\n" + HALF, "for i in pl.range(n):\n    o[:] = p\n", "'n' of one lane is used behind the region", ""),
        (HALF, "o[lane : lane + 32, :] = p\n", "'lane' of one lane is used behind the region", ""),
        ("g = pl.aic_gather(pl.aiv_shard(p))\no[:] = g\n", "", "'g' is whole when all lanes", "o[:] = g"),
        (
            "h = pl.aiv_shard(p)\nif lane == 0:\n    g = pl.aic_gather(h)\nelse:\n    g = pl.aic_gather(h * 2.0)\n",
            "o[:] = g\n",
            "pl.aic_gather inside of a loop or a branch",
            "pl.aic_gather(h)",
        ),
    ],
)
def test_the_rules_of_regions(inside, after, words, piece, tmp_path):
    refused(region(tmp_path, inside, after=after), given(), CompileError, words, code="C063", piece=piece)


def test_a_temporary_of_the_kernel_belongs_to_no_lane(tmp_path):
    before = "x = pl.create_tensor([32, 32], dtype=pl.FP32)\n" + PRODUCT
    k = region(tmp_path, "x[lane * 16 : lane * 16 + 16, :] = pl.aiv_shard(p)\n", before=before, after="o[:] = x\n")
    e = refused(k, given(), CompileError, "'x' of one lane is used behind", code="C063", piece="x[lane")
    assert "pl.aic_gather" in e.hint
