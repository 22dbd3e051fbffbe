"""Products of matrices, cut into blocks of the result that fit into the accumulator, and a linear layer.

The inner extent is worked off in pieces of 32 KiB an operand, half of its memory, so that a chip can load the next meanwhile.
"""

from __future__ import annotations

import pypto.language as pl

BLOCK = 128
DEPTH, DEPTH_HALF, DEPTH_INT8 = 64, 128, 256  # 32 KiB of 4, 2 and 1 bytes an element


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a @ b of FP32."""
    m, n = out.shape
    depth = a.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, m, BLOCK):
            for j in pl.range(0, n, BLOCK):
                acc = pl.matmul(a[i : i + BLOCK, 0:DEPTH], b[0:DEPTH, j : j + BLOCK], out_dtype=pl.FP32)
                for k in pl.range(DEPTH, depth, DEPTH):
                    acc = pl.matmul_acc(acc, a[i : i + BLOCK, k : k + DEPTH], b[k : k + DEPTH, j : j + BLOCK])
                out[i : i + BLOCK, j : j + BLOCK] = acc
    return out


@pl.jit
def product_half(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a @ b of FP16 or BF16, added up in FP32."""
    m, n = out.shape
    depth = a.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, m, BLOCK):
            for j in pl.range(0, n, BLOCK):
                acc = pl.matmul(a[i : i + BLOCK, 0:DEPTH_HALF], b[0:DEPTH_HALF, j : j + BLOCK], out_dtype=pl.FP32)
                for k in pl.range(DEPTH_HALF, depth, DEPTH_HALF):
                    acc = pl.matmul_acc(acc, a[i : i + BLOCK, k : k + DEPTH_HALF], b[k : k + DEPTH_HALF, j : j + BLOCK])
                out[i : i + BLOCK, j : j + BLOCK] = acc
    return out


@pl.jit
def product_int8(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a @ b of INT8, added up in INT32."""
    m, n = out.shape
    depth = a.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, m, BLOCK):
            for j in pl.range(0, n, BLOCK):
                acc = pl.matmul(a[i : i + BLOCK, 0:DEPTH_INT8], b[0:DEPTH_INT8, j : j + BLOCK], out_dtype=pl.INT32)
                for k in pl.range(DEPTH_INT8, depth, DEPTH_INT8):
                    acc = pl.matmul_acc(acc, a[i : i + BLOCK, k : k + DEPTH_INT8], b[k : k + DEPTH_INT8, j : j + BLOCK])
                out[i : i + BLOCK, j : j + BLOCK] = acc
    return out


@pl.jit
def linear(x: pl.Tensor, w: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor]):
    """max(x @ w + bias, 0)."""
    m, n = out.shape
    depth = x.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, m, BLOCK):
            for j in pl.range(0, n, BLOCK):
                acc = pl.matmul(x[i : i + BLOCK, 0:DEPTH], w[0:DEPTH, j : j + BLOCK], out_dtype=pl.FP32)
                for k in pl.range(DEPTH, depth, DEPTH):
                    acc = pl.matmul_acc(acc, x[i : i + BLOCK, k : k + DEPTH], w[k : k + DEPTH, j : j + BLOCK])
                out[i : i + BLOCK, j : j + BLOCK] = pl.maximum(pl.col_expand_add(acc, bias[0:1, j : j + BLOCK]), 0.0)
    return out
