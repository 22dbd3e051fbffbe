"""Seconds of the import and the first call of another tool that compiles: numba|jax; nothing of it is cached."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def _numba() -> Any:
    import numba

    @numba.njit
    def add(a, b, out):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                out[i, j] = a[i, j] + b[i, j]
        return out

    return add


def _jax() -> Any:
    import jax

    return lambda a, b, out: jax.jit(lambda x, y: x + y)(a, b).block_until_ready()


def main() -> None:
    begin = time.perf_counter()
    add = {"numba": _numba, "jax": _jax}[sys.argv[1]]()
    imported = time.perf_counter() - begin
    import numpy as np

    a, b = np.ones((32, 64), np.float32), np.ones((32, 64), np.float32)
    begin = time.perf_counter()
    out = add(a, b, np.empty_like(a))
    took = time.perf_counter() - begin
    assert (np.asarray(out) == 2).all()
    print(json.dumps({"import": imported, "first": took}))


if __name__ == "__main__":
    main()
