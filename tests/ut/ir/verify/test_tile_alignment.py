"""Lines of whole blocks."""

import pytest
from judge_lab import kernel, kernel_program

from pypto.ir.verify.tile_alignment import check_tile_alignment, misaligned_tiles


def load(shape: str, dtype: str, more: str = "") -> str:
    return f"t = pl.tile.load(x, [0, 0], {shape}, {shape}, target_memory=pl.Mem.Vec{more})\n"


@pytest.mark.parametrize(
    ("dtype", "shape", "legal"),
    [
        ("FP32", "[16, 8]", None),
        ("FP32", "[16, 12]", "[16, 16]"),
        ("FP32", "[16, 1]", None),  # a column vector lies along its column
        ("FP32", "[12, 1]", "[16, 1]"),
        ("FP16", "[16, 8]", "[16, 16]"),
        ("FP16", "[16, 1]", None),
        ("FP16", "[8, 1]", "[16, 1]"),
        ("INT8", "[4, 48]", "[4, 64]"),
        ("INT8", "[4, 64]", None),
        ("INT32", "[3, 8]", None),
    ],
)
def test_lines(dtype, shape, legal):
    found = misaligned_tiles(kernel(load(shape, dtype), f"x: pl.Tensor[[64, 64], pl.{dtype}]"))
    assert [m.tile.name_hint for m in found] == ([] if legal is None else ["t"])
    for m in found:
        assert f"the next legal shape is {legal}: load tiles with " in m.hint
        assert "blocks of 32 bytes" in m.message


@pytest.mark.parametrize(("shape", "legal"), [("[16, 16]", None), ("[20, 16]", "[32, 16]"), ("[16, 12]", "[16, 16]")])
def test_boxes_of_matrix_memories(shape, legal):
    body = f"t = pl.tile.load(x, [0, 0], {shape}, {shape}, target_memory=pl.Mem.Mat)\n"
    found = misaligned_tiles(kernel(body, "x: pl.Tensor[[64, 64], pl.FP32]"))
    assert len(found) == (legal is not None)
    for m in found:
        assert "whole 16 x 8 boxes of Mat memory" in m.message
        assert f"next legal shape is {legal}" in m.hint


@pytest.mark.parametrize(
    ("shape", "valid", "space", "words"),
    [
        ("[8, 32]", "[8, 20]", "Mat", "the next legal shape is [16, 32]; say what is data with valid_shape=[8, 20]"),
        ("[8, 32]", "[n, 20]", "Mat", "the next legal shape is [16, 32]; keep the valid_shape= that says what is data"),
        ("[8, 12]", "[8, 9]", "Vec", "load tiles with 16 columns, and say with valid_shape= that 9 hold data"),
        ("[8, 12]", "[8, n]", "Vec", "load tiles with 16 columns, and say with valid_shape= how many hold data, as now"),
    ],
)
def test_what_is_data_stays_so_in_a_larger_shape(shape, valid, space, words):
    body = f"t = pl.tile.load(x, [0, 0], {shape}, {valid}, target_memory=pl.Mem.{space})\n"
    (m,) = misaligned_tiles(kernel(body, "x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX]"))
    assert words in m.hint


def test_windows_have_the_lines_of_their_whole():
    body = load("[16, 16]", "FP32") + "w = pl.tile.slice(t, [16, 3], [0, 0])\nu = pl.tile.muls(w, 2.0)\n"
    (m,) = misaligned_tiles(kernel(body, "x: pl.Tensor[[64, 64], pl.FP32]"))
    assert m.tile.name_hint == "u"
    assert m.span.begin_line == 9


def test_the_judge_says_which_kernel_and_where():
    body = "if n > 0:\n    t = pl.tile.load(x, [0, 0], [16, 12], [16, 12], target_memory=pl.Mem.Vec)\n"
    (d,) = check_tile_alignment(kernel_program(body, "x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX]"))
    assert "kernel 'k': tile 't' of shape [16, 12] and type fp32 has rows of 48 bytes" in d.message
    assert d.span.begin_line == 8
