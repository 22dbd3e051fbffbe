"""Attention with an online softmax: no row of scores is ever held whole.

For each block of queries the kernel walks over blocks of keys and values and keeps a running maximum, a running sum and
the output so far, rescaled whenever the maximum grows (Dao et al., "FlashAttention", 2022, algorithm 1; the running
softmax is Milakov and Gimelshein's, 2018).  Neither the number of queries nor that of keys divides by the blocks.

    python examples/flash_attention.py
"""

import time

import numpy as np

import pypto.language as pl

QUERIES, KEYS, DIM = 32, 64, 64  # rows of a block of queries, of keys, and the width of a head
SCALE = DIM**-0.5

S = pl.dynamic("S")  # queries
T = pl.dynamic("T")  # keys and values


@pl.jit.incore
def attend(
    q: pl.Tensor[[S, DIM], pl.FP32],
    k: pl.Tensor[[T, DIM], pl.FP32],
    v: pl.Tensor[[T, DIM], pl.FP32],
    o: pl.Out[pl.Tensor[[S, DIM], pl.FP32]],
    row: pl.INDEX,
    rows: pl.INDEX,
):
    """The outputs of `rows` queries from `row` on."""
    t = pl.tensor.dim(k, 0)
    queries = pl.load(q, [row, 0], [QUERIES, DIM], valid_shape=[rows, DIM], target_memory=pl.Mem.Mat)
    scratch = pl.create_tile([QUERIES, KEYS], dtype=pl.FP32)
    top = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=-1e30)
    total = pl.tile.full([QUERIES, 1], dtype=pl.FP32, value=0.0)
    out = pl.tile.full([QUERIES, DIM], dtype=pl.FP32, value=0.0)
    for j in pl.range(0, t, KEYS):
        n = pl.min(KEYS, t - j)
        keys = pl.load(k, [j, 0], [KEYS, DIM], valid_shape=[n, DIM], target_memory=pl.Mem.Mat)
        values = pl.load(v, [j, 0], [KEYS, DIM], valid_shape=[n, DIM], target_memory=pl.Mem.Mat)
        scores = pl.fillpad(pl.mul(pl.matmul(queries, pl.tile.transpose_view(keys)), SCALE), pl.PadValue.min)
        higher = pl.maximum(top, pl.row_max(scores, scratch))
        shrink = pl.exp(pl.sub(top, higher))
        weights = pl.exp(pl.row_expand_sub(scores, higher))
        total = pl.add(pl.mul(total, shrink), pl.row_sum(weights, scratch))
        part = pl.matmul(pl.set_validshape(weights, QUERIES, n), values)
        out = pl.add(pl.row_expand_mul(out, shrink), part)
        top = higher
    result = pl.row_expand_div(out, total)
    return pl.store(pl.set_validshape(result, rows, DIM), [row, 0], o)


@pl.jit
def attention(
    q: pl.Tensor[[S, DIM], pl.FP32],
    k: pl.Tensor[[T, DIM], pl.FP32],
    v: pl.Tensor[[T, DIM], pl.FP32],
    o: pl.Out[pl.Tensor[[S, DIM], pl.FP32]],
):
    s = pl.tensor.dim(q, 0)
    for i in pl.range(0, s, QUERIES):
        o = attend(q, k, v, o, i, pl.min(QUERIES, s - i))
    return o


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.T * SCALE
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


def main() -> None:
    rng = np.random.default_rng(0)
    for queries, keys in ((1, 1), (77, 200), (512, 1000)):
        q, k, v = (rng.standard_normal((n, DIM), dtype=np.float32) for n in (queries, keys, keys))
        o = np.empty_like(q)
        attention(q, k, v, o)
        begin = time.perf_counter()
        attention(q, k, v, o)
        took = time.perf_counter() - begin
        error = np.abs(o - reference(q, k, v)).max()
        print(f"{queries} queries, {keys} keys: largest error {error:.1e}; {took * 1e3:.2f} ms")
        assert error < 1e-5


if __name__ == "__main__":
    main()
