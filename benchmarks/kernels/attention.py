"""Attention of several heads with an online softmax (Dao et al., "FlashAttention", 2022, algorithm 1).

Heads lie one below the other: arrays are [heads * length, 64].  No row of scores is ever held whole.
"""

from __future__ import annotations

import pypto.language as pl

QUERIES, KEYS, DIM = 64, 64, 64
SCALE = DIM**-0.5
R = pl.dynamic("R")
Heads = pl.Tensor[[R, DIM], pl.FP32]


@pl.jit
def attention(q: Heads, k: Heads, v: Heads, out: pl.Out[Heads], length: pl.INDEX):
    """`length`: of each head, a multiple of 64.  A block takes 64 queries."""
    rows = pl.tensor.dim(q, 0)
    for b in pl.spmd(rows // QUERIES):
        row = b * QUERIES
        first = row // length * length
        queries = pl.load(q, [row, 0], [QUERIES, DIM], target_memory=pl.Mem.Mat)
        scratch = pl.create_tile([QUERIES, KEYS], dtype=pl.FP32)
        top = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=-1e30)
        total = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
        acc = pl.tile.full([QUERIES, DIM], dtype=pl.FP32, value=0.0)
        for j in pl.range(first, first + length, KEYS):
            keys = pl.load(k, [j, 0], [KEYS, DIM], target_memory=pl.Mem.Mat)
            values = pl.load(v, [j, 0], [KEYS, DIM], target_memory=pl.Mem.Mat)
            scores = pl.mul(pl.matmul(queries, pl.tile.transpose_view(keys)), SCALE)
            higher = pl.maximum(top, pl.row_max(scores, scratch))
            shrink = pl.exp(pl.sub(top, higher))
            weights = pl.exp(pl.row_expand_sub(scores, higher))
            total = pl.add(pl.mul(total, shrink), pl.row_sum(weights, scratch))
            acc = pl.add(pl.row_expand_mul(acc, shrink), pl.matmul(weights, values))
            top = higher
        out = pl.store(pl.row_expand_div(acc, total), [row, 0], out)
    return out
