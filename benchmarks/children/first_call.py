"""Seconds of the import and of the first call of a kernel in a process: the cache is where PYPTO_CACHE_DIR says.

The kernel computes a + b + NUMBER, its argument, so that each number is a kernel of its own.
"""

from __future__ import annotations

import json
import sys
import time

begin = time.perf_counter()
import pypto.language as pl  # noqa: E402

imported = time.perf_counter() - begin
import numpy as np  # noqa: E402

import pypto  # noqa: E402

NUMBER = float(sys.argv[1]) if __name__ == "__main__" else 0.0


@pl.jit
def first(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = a + b + NUMBER
    return out


def main() -> None:
    a, b = np.ones((32, 64), np.float32), np.ones((32, 64), np.float32)
    out = np.empty_like(a)
    begin = time.perf_counter()
    first(a, b, out)
    took = time.perf_counter() - begin
    assert (out == 2 + NUMBER).all()
    print(json.dumps({"import": imported, "first": took, "builds": pypto.cache_stats().builds}))


if __name__ == "__main__":
    main()
