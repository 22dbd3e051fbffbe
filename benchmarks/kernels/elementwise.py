"""Elementwise kernels over matrices whose rows and columns divide by the blocks.

Blocks are wide: rows of a tile lie one behind the other in memory as far as they can, which every memory likes best.
"""

from __future__ import annotations

import pypto.language as pl

N, M = pl.dynamic("N"), pl.dynamic("M")
Matrix = pl.Tensor[[N, M], pl.FP32]
ROWS, COLS = 2, 4096  # 32 KiB a tile


@pl.jit
def sum_times(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    """(a + b) * b."""
    n, m = a.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, n, ROWS):
            for j in pl.range(0, m, COLS):
                x, y = a[i : i + ROWS, j : j + COLS], b[i : i + ROWS, j : j + COLS]
                out[i : i + ROWS, j : j + COLS] = (x + y) * y
    return out


@pl.jit
def sum_times_by_tiles(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    """(a + b) * b, each tile a kernel of its own."""
    n, m = a.shape
    for i in pl.parallel(0, n, ROWS):
        for j in pl.parallel(0, m, COLS):
            with pl.at(level=pl.Level.CORE_GROUP):
                x, y = a[i : i + ROWS, j : j + COLS], b[i : i + ROWS, j : j + COLS]
                out[i : i + ROWS, j : j + COLS] = (x + y) * y
    return out


CHAIN_ROWS = 1  # 16 KiB a tile


@pl.jit
def chain(a: Matrix, b: Matrix, out: pl.Out[Matrix]):
    """Ten operations, one of each exp, sqrt, division and maximum among them."""
    n, m = a.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, n, CHAIN_ROWS):
            for j in pl.range(0, m, COLS):
                x, y = a[i : i + CHAIN_ROWS, j : j + COLS], b[i : i + CHAIN_ROWS, j : j + COLS]
                e = pl.exp(x * -0.5)
                r = pl.sqrt(y * y + 1.0)
                q = (e + x) / r
                out[i : i + CHAIN_ROWS, j : j + COLS] = pl.maximum(q - y, 0.25) * e
    return out


@pl.jit
def small(a: pl.Tensor[[16, 32], pl.FP32], b: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
    """a + b: what is left of its time is the call."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b
    return out


SHIFT = 0.0


@pl.jit
def small_guarded(a: pl.Tensor[[16, 32], pl.FP32], b: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
    """a + b + SHIFT: each call asks whether the global is still the number that was compiled."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b + SHIFT
    return out
