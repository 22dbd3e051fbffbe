"""Kernels that only move data: a transposition, a slice of columns, two matrices side by side, rows by number."""

from __future__ import annotations

import pypto.language as pl

N, M, W, R, S = (pl.dynamic(n) for n in "NMWRS")
BLOCK = 64


@pl.jit
def transpose(x: pl.Tensor[[N, M], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    n, m = x.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, n, BLOCK):
            for j in pl.range(0, m, BLOCK):
                out[j : j + BLOCK, i : i + BLOCK] = pl.transpose(x[i : i + BLOCK, j : j + BLOCK], 0, 1)
    return out


ROWS, COLS = 8, 1024  # 32 KiB a tile


@pl.jit
def columns(x: pl.Tensor[[N, M], pl.FP32], out: pl.Out[pl.Tensor[[N, COLS], pl.FP32]], first: pl.INDEX):
    """x[:, first : first + 1024]."""
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, n, ROWS):
            out[i : i + ROWS, :] = x[i : i + ROWS, first : first + COLS]
    return out


HALF_ROWS, HALF = 4, 2048  # 32 KiB a tile


@pl.jit
def side_by_side(a: pl.Tensor[[N, M], pl.FP32], b: pl.Tensor[[N, M], pl.FP32], out: pl.Out[pl.Tensor[[N, W], pl.FP32]]):
    """[a | b]."""
    n, m = a.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, n, HALF_ROWS):
            for j in pl.range(0, m, HALF):
                out[i : i + HALF_ROWS, j : j + HALF] = a[i : i + HALF_ROWS, j : j + HALF]
                out[i : i + HALF_ROWS, m + j : m + j + HALF] = b[i : i + HALF_ROWS, j : j + HALF]
    return out


PICKED, WIDTH = 64, 128  # 32 KiB a tile


@pl.jit
def rows_by_number(
    x: pl.Tensor[[R, WIDTH], pl.FP32], index: pl.Tensor[[1, S], pl.INT32], out: pl.Out[pl.Tensor[[S, WIDTH], pl.FP32]]
):
    """x[index]."""
    s = pl.tensor.dim(index, 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, s, PICKED):
            numbers = pl.load(index, [0, i], [1, PICKED])
            out = pl.store(pl.mgather(x, numbers, "row"), [i, 0], out)
    return out
