"""The largest K of each row and where they are, by sorting blocks and merging them.

`sort32` sorts every 32 elements, largest first, into pairs of a value and its index; `mrgsort` merges four runs into one.
Of the pairs of a sorted row the first K are taken apart again.

    python examples/top_k.py
"""

import time

import numpy as np

import pypto.language as pl

WIDTH, K = 128, 8

N = pl.dynamic("N")


@pl.jit
def top_k(
    x: pl.Tensor[[N, WIDTH], pl.FP32],
    columns: pl.Tensor[[1, WIDTH], pl.UINT32],
    values: pl.Out[pl.Tensor[[N, K], pl.FP32]],
    indices: pl.Out[pl.Tensor[[N, K], pl.UINT32]],
):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        where = pl.load(columns, [0, 0], [1, WIDTH])
        for i in pl.range(n):
            runs = pl.sort32(pl.load(x, [i, 0], [1, WIDTH]), where)
            pairs = pl.tile.extract(pl.mrgsort(runs, block_len=64), 0, 0, [1, 2 * K], target_memory=pl.Mem.Vec)
            pl.store(pl.tile.gather_mask(pairs, pl.tile.MaskPattern.P0101), [i, 0], values)
            found = pl.tile.gather_mask(pairs, pl.tile.MaskPattern.P1010)
            pl.store(pl.tile.reinterpret_view(found, dtype=pl.UINT32), [i, 0], indices)
    return values, indices


def main() -> None:
    rng = np.random.default_rng(0)
    columns = np.arange(WIDTH, dtype=np.uint32)[None]
    for rows in (1, 1000):
        x = rng.standard_normal((rows, WIDTH), dtype=np.float32)
        values, indices = np.empty((rows, K), np.float32), np.empty((rows, K), np.uint32)
        top_k(x, columns, values, indices)
        begin = time.perf_counter()
        top_k(x, columns, values, indices)
        took = time.perf_counter() - begin
        order = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :K]
        error = np.abs(values - np.take_along_axis(x, order, 1)).max()
        print(f"the largest {K} of {WIDTH}, {rows} rows: largest error {error:.1e}; {took * 1e3:.2f} ms")
        assert error == 0
        assert (indices == order).all()


if __name__ == "__main__":
    main()
