"""Seconds that a pool takes for kernels that are not in the cache: WORKERS KERNELS; the launcher is built before."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import pypto
import pypto.language as pl
from benchmarks.children.first_call import first


def kernel(number: float):
    @pl.jit
    def scaled(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            e = pl.exp(a * number)
            out[:] = e / pl.row_sum(e) + b
        return out

    return scaled


def main() -> None:
    workers, count = int(sys.argv[1]), int(sys.argv[2])
    x, out = np.full((8, 64), 0.5, np.float32), np.empty((8, 64), np.float32)
    first(x, x, out)
    kernels = [kernel(1.0 + i) for i in range(count)]
    begin = time.perf_counter()
    with pypto.PrecompilePool(workers=workers) as pool:
        done = [f.result() for f in [pool.submit(k, x, x, out) for k in kernels]]
    took = time.perf_counter() - begin
    assert [d.outcome for d in done] == ["built"] * count, [d.outcome for d in done]
    assert np.abs(kernels[-1](x, x, out) - (1 / 64 + 0.5)).max() < 1e-6
    print(json.dumps({"seconds": took}))


if __name__ == "__main__":
    main()
