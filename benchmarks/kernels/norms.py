"""Kernels over rows of 1024 columns: each row is reduced and then scaled."""

from __future__ import annotations

import pypto.language as pl

N = pl.dynamic("N")
WIDTH, ROWS, EPSILON = 1024, 8, 1e-5
Rows = pl.Tensor[[N, WIDTH], pl.FP32]
Row = pl.Tensor[[1, WIDTH], pl.FP32]


@pl.jit
def softmax(x: Rows, out: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n, ROWS):
            t = x[k : k + ROWS, :]
            e = pl.exp(t - pl.row_max(t))
            out[k : k + ROWS, :] = e / pl.row_sum(e)
    return out


@pl.jit
def rms_norm(x: Rows, gain: Row, out: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        g = gain[0:1, :]
        for k in pl.parallel(0, n, ROWS):
            t = x[k : k + ROWS, :]
            scale = pl.rsqrt(pl.row_sum(t * t) * (1 / WIDTH) + EPSILON)
            out[k : k + ROWS, :] = pl.col_expand_mul(pl.row_expand_mul(t, scale), g)
    return out


@pl.jit
def layer_norm(x: Rows, gain: Row, shift: Row, out: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        g, b = gain[0:1, :], shift[0:1, :]
        for k in pl.parallel(0, n, ROWS):
            t = x[k : k + ROWS, :]
            centred = pl.row_expand_sub(t, pl.row_sum(t) * (1 / WIDTH))
            scale = pl.rsqrt(pl.row_sum(centred * centred) * (1 / WIDTH) + EPSILON)
            y = pl.row_expand_mul(centred, scale)
            out[k : k + ROWS, :] = pl.col_expand_add(pl.col_expand_mul(y, g), b)
    return out
