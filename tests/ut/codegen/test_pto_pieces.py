"""Kernels as `.pto` text that run to the bit as the interpreter: blocks, rows and columns that are taken and put elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from pto_lab import WAYS, agree, kernel
from test_pto_programs import blank, everywhere, normal, t


def test_products_with_a_bias_and_of_vectors() -> None:
    params = f"a: {t(16, 32)}, b: {t(32, 32)}, c: {t(1, 32)}, v: {t(1, 32)}, o: pl.Out[{t(16, 32)}], q: pl.Out[{t(3, 32)}]"
    body = """
    x = pl.load(a, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
    y = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
    z = pl.load(c, [0, 0], [1, 32], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul_bias(x, y, z), [0, 0], o)
    r = pl.load(v, [0, 0], [16, 32], valid_shape=[1, 32], target_memory=pl.Mem.Mat)
    g = pl.gemv(r, y)
    pl.store(g, [0, 0], q)
    g = pl.gemv_acc(g, r, y)
    pl.store(g, [1, 0], q)
    pl.store(pl.gemv_bias(r, y, z), [2, 0], q)
    """
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(((16, 32), (32, 32), (1, 32), (1, 32)))]
    for ran in everywhere(params, body, [*arrays, blank(16, 32), blank(3, 32)], kind="AIC"):
        assert {"tmatmul.bias", "tgemv", "tgemv.acc", "tgemv.bias"} <= ran.executed.keys()


def test_pieces() -> None:
    """Copies of windows, also out of matrices and into them; columns behind columns; blocks by offset."""
    params = f"x: {t(16, 64)}, j: {t(16, 8, dtype='UINT32')}, o: pl.Out[{t(64, 128)}], r: pl.Scalar[pl.INDEX]"
    body = """
    a = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
    i = pl.tile.load(j, [0, 0], [16, 8], [16, 8], target_memory=pl.Mem.Vec)
    e = pl.tile.extract(a, 8, 32, [8, 32], target_memory=pl.Mem.Vec)
    f = pl.tile.extract(a, r, 0, [8, 32], target_memory=pl.Mem.Vec)
    o0 = pl.tile.store(pl.tile.concat(e, f), [0, 0], o)
    o1 = pl.tile.store(pl.tile.gatherb(a, i), [16, 0], o0)
    """
    j = np.random.default_rng(6).integers(0, 128, (16, 8)).astype(np.uint32) * 32
    p = kernel("k", params, body, raw=True)
    for ran in agree(p, "k", *([normal(16, 64), j, blank(64, 128), r] for r in (0, 8)), ways=WAYS[1::2]):
        assert not ran.refused, ran.refused
        assert {"textract", "tconcat", "tgatherb"} <= ran.executed.keys()


def test_pieces_of_matrices() -> None:
    """Blocks of a matrix as operands, and a product that goes back into a matrix as one of its blocks."""
    params = f"a: {t(32, 64, dtype='FP16')}, b: {t(64, 32, dtype='FP16')}, o: pl.Out[{t(32, 32)}], n: pl.Scalar[pl.INDEX]"
    body = """
    x = pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
    y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
    acc = pl.create_tile([32, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)
    for k in pl.range(n):
        l = pl.tile.extract(x, 0, k * 32, [32, 32], target_memory=pl.Mem.Left)
        r = pl.tile.extract(y, k * 32, 0, [32, 32], target_memory=pl.Mem.Right)
        acc = pl.matmul_acc(acc, l, r, init_cond=(k == 0))
    pl.store(acc, [0, 0], o)
    """
    args = [normal(32, 64, dtype=np.float16), normal(64, 32, seed=1, dtype=np.float16), blank(32, 32), 2]
    for ran in everywhere(params, body, args, kind="AIC"):
        assert ran.executed["textract"] == 4


def test_as_deep_as_the_left_operand() -> None:
    """A right operand that is valid in more rows than the left one has columns is read as far as these."""
    params = f"a: {t(16, 64)}, b: {t(64, 16)}, o: pl.Out[{t(16, 16)}]"
    body = """
    x = pl.load(a, [0, 0], [16, 64], valid_shape=[16, 50], target_memory=pl.Mem.Mat)
    y = pl.load(b, [0, 0], [64, 16], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul(x, y), [0, 0], o)
    """
    everywhere(params, body, [normal(16, 64), normal(64, 16, seed=1), blank(16, 16)], kind="AIC")


@pytest.mark.parametrize("at", [0, 3])
def test_rows_of_a_tensor_into_a_tile(at: int) -> None:
    """At a place that a number says: row by row, since a window of all of them might leave the tile."""
    params = f"x: {t(16, 64)}, o: pl.Out[{t(16, 32)}], r: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]"
    body = """
    acc = pl.load(x, [0, 0], [16, 32])
    acc = pl.tile.gather_row(acc, x, [r, 0], [1, 32], [16, 32], valid_shape=[n, 32])
    acc = pl.tile.gather_row(acc, x, [15, 8], [0, 5], [1, 16])
    pl.store(acc, [0, 0], o)
    """
    for ran in everywhere(params, body, *([normal(16, 64), blank(16, 32), at, n] for n in (13, 1, 0))):
        assert "scf.for" in ran.texts["k"]


@pytest.mark.parametrize("valid", ["[0, 32]", "[16, 0]"])
def test_no_rows_of_a_tensor_into_a_tile(valid: str) -> None:
    params = f"x: {t(16, 64)}, o: pl.Out[{t(16, 32)}]"
    body = f"""
    acc = pl.tile.gather_row(pl.load(x, [0, 0], [16, 32]), x, [0, 0], [0, 32], [16, 32], valid_shape={valid})
    pl.store(acc, [0, 0], o)
    """
    for ran in everywhere(params, body, [normal(16, 64), blank(16, 32)]):
        assert "subview" not in ran.texts["k"]


@pytest.mark.parametrize("valid", ["[0, 32]", "[16, 0]"])
def test_the_fill_of_a_tile_of_which_nothing_is_valid(valid: str) -> None:
    params = f"x: {t(16, 64)}, o: pl.Out[{t(16, 32)}]"
    body = f"pl.store(pl.fillpad(pl.load(x, [0, 0], [16, 32], {valid}), pl.PadValue.min), [0, 0], o)"
    for ran in everywhere(params, body, [normal(16, 64), blank(16, 32)]):
        assert "tfillpad" not in ran.texts["k"]


def test_one_column_of_more_axes() -> None:
    params = f"x: {t(2, 8, 1)}, o: pl.Out[{t(2, 8, 1)}]"
    everywhere(params, "pl.store(pl.load(x, [0, 0, 0], [2, 8, 1]), [0, 0, 0], o)", [normal(2, 8, 1), blank(2, 8, 1)])


def test_names_outside_of_ascii() -> None:
    p = kernel("λ", f"x: {t(8, 32)}, o: pl.Out[{t(8, 32)}]", "é = pl.load(x, [0, 0], [8, 32])\npl.store(é, [0, 0], o)")
    for ran in agree(p, "λ", [normal(8, 32), blank(8, 32)]):
        assert "@kernel_cebb(" in ran.texts["λ"]
        assert ran.texts["λ"].isascii()
