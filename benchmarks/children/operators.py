"""Seconds from the call to the result of kernels with many operators, none of them in the cache: FILE, a module of kernels.

Each kernel there is named after its operators, k10, k100; the launcher is built before.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time

import numpy as np

from benchmarks.children.first_call import first


def main() -> None:
    spec = importlib.util.spec_from_file_location("many", sys.argv[1])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, out = np.full((8, 64), 0.5, np.float32), np.empty((8, 64), np.float32)
    first(x, x, out)
    times = {}
    for name in sorted((n for n in vars(module) if n[0] == "k" and n[1:].isdigit()), key=lambda n: int(n[1:])):
        begin = time.perf_counter()
        getattr(module, name)(x, x, out)
        times[name[1:]] = time.perf_counter() - begin
        want = module.expected(int(name[1:]), x)
        assert np.abs(out - want).max() <= 1e-4 * np.abs(want).max(), name
    print(json.dumps(times))


if __name__ == "__main__":
    main()
