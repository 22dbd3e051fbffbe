"""Compiling ahead: one worker beside two, processes beside threads, over caches of their own; and what submitting costs.

Workers are running before the clock is.

    python benchmarks/precompile.py [--kernels 16]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any

import pypto
import pypto.language as pl

X = pl.Tensor[[256, 128], pl.FP32]


def kernel(factor: float) -> Any:
    @pl.jit
    def scaled_softmax(x: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for k in pl.range(0, 256, 16):
                t = pl.mul(x[k : k + 16, :], factor)
                e = pl.exp(t - pl.row_max(t))
                o[k : k + 16, :] = e / pl.row_sum(e)
        return o

    return scaled_softmax


def measure(workers: int, kind: Any, kernels: int) -> tuple[float, float]:
    """Seconds until the last submission, and until the last kernel."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYPTO_CACHE_DIR"] = cache
        with pypto.PrecompilePool(workers, kind=kind) as pool:
            for future in [pool.submit(kernel(-1.0 - i), X, X) for i in range(2 * workers)]:
                future.result()
            wanted = [kernel(float(i)) for i in range(kernels)]
            begin = time.perf_counter()
            futures = [pool.submit(k, X, X) for k in wanted]
            submitted = time.perf_counter() - begin
            for future in futures:
                future.result()
            return submitted, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=16)
    count = parser.parse_args().kernels
    for kind in ("process", "thread"):
        (_, one), (submitted, two) = (measure(workers, kind, count) for workers in (1, 2))
        print(
            f"{kind:8} {count} kernels: one worker {one:6.2f} s, two {two:6.2f} s, {one / two:.2f} times as fast;"
            f" submitting {1e3 * submitted / count:.1f} ms each"
        )


if __name__ == "__main__":
    main()
