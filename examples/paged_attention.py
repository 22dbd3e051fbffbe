"""Decoding attention over a paged cache: keys and values lie in blocks that a table finds.

Each sequence has one new token with HEADS query heads, which share the keys and values of the cache.  Position p of
sequence b is row p % BLOCK of block table[b, p // BLOCK]; blocks lie anywhere, lengths are arbitrary (Kwon et al.,
"PagedAttention", 2023).

    python examples/paged_attention.py
"""

import time

import numpy as np

import pypto.language as pl

HEADS, BLOCK, DIM = 16, 32, 64
SCALE = DIM**-0.5

B = pl.dynamic("B")  # sequences
R = pl.dynamic("R")  # rows of queries: HEADS for each sequence
P = pl.dynamic("P")  # rows of the cache
M = pl.dynamic("M")  # blocks of the longest sequence


@pl.jit
def decode(
    q: pl.Tensor[[R, DIM], pl.FP32],
    keys: pl.Tensor[[P, DIM], pl.FP32],
    values: pl.Tensor[[P, DIM], pl.FP32],
    table: pl.Tensor[[B, M], pl.INT32],
    lengths: pl.Tensor[[B, 1], pl.INT32],
    o: pl.Out[pl.Tensor[[R, DIM], pl.FP32]],
):
    sequences = pl.tensor.dim(lengths, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for b in pl.range(sequences):
            length = pl.cast(pl.read(lengths, [b, 0]), pl.INDEX)
            query = pl.load(q, [b * HEADS, 0], [HEADS, DIM], target_memory=pl.Mem.Mat)
            scratch = pl.create_tile([HEADS, BLOCK], dtype=pl.FP32)
            top = pl.tile.full([HEADS, 1], dtype=pl.FP32, value=-1e30)
            total = pl.tile.full([HEADS, 1], dtype=pl.FP32, value=0.0)
            out = pl.tile.full([HEADS, DIM], dtype=pl.FP32, value=0.0)
            for j in pl.range(0, length, BLOCK):
                n = pl.min(BLOCK, length - j)
                row = pl.cast(pl.read(table, [b, j // BLOCK]), pl.INDEX) * BLOCK
                k = pl.load(keys, [row, 0], [BLOCK, DIM], valid_shape=[n, DIM], target_memory=pl.Mem.Mat)
                v = pl.load(values, [row, 0], [BLOCK, DIM], valid_shape=[n, DIM], target_memory=pl.Mem.Mat)
                scores = pl.mul(pl.matmul(query, pl.tile.transpose_view(k)), SCALE)
                higher = pl.maximum(top, pl.row_max(scores, scratch))
                shrink = pl.exp(pl.sub(top, higher))
                weights = pl.exp(pl.row_expand_sub(scores, higher))
                total = pl.add(pl.mul(total, shrink), pl.row_sum(weights, scratch))
                out = pl.add(pl.row_expand_mul(out, shrink), pl.matmul(weights, v))
                top = higher
            pl.store(pl.row_expand_div(out, total), [b * HEADS, 0], o)
    return o


def reference(q, keys, values, table, lengths):
    out = np.empty(q.shape)
    for b, n in enumerate(lengths[:, 0]):
        rows = [table[b, p // BLOCK] * BLOCK + p % BLOCK for p in range(n)]
        scores = q[b * HEADS : (b + 1) * HEADS].astype(np.float64) @ keys[rows].T * SCALE
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out[b * HEADS : (b + 1) * HEADS] = weights @ values[rows] / weights.sum(1, keepdims=True)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    for lengths in ([1], [33, 1, 250, 64], rng.integers(1, 600, 16)):
        lengths = np.array(lengths, np.int32)[:, None]
        most = -(-int(lengths.max()) // BLOCK)
        blocks = len(lengths) * most
        table = rng.permutation(blocks).astype(np.int32).reshape(len(lengths), most)
        keys, values = (rng.standard_normal((blocks * BLOCK, DIM), dtype=np.float32) for _ in range(2))
        q = rng.standard_normal((len(lengths) * HEADS, DIM), dtype=np.float32)
        o = np.empty_like(q)
        decode(q, keys, values, table, lengths, o)
        begin = time.perf_counter()
        decode(q, keys, values, table, lengths, o)
        took = time.perf_counter() - begin
        error = np.abs(o - reference(q, keys, values, table, lengths)).max()
        print(f"{len(lengths)} sequences, {int(lengths.sum())} positions: largest error {error:.1e}; {took * 1e3:.2f} ms")
        assert error < 1e-5


if __name__ == "__main__":
    main()
