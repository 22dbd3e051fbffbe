"""Seconds of one kernel, with as many threads as PYPTO_NUM_THREADS says: FUNCTION SECONDS tiny|full."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from benchmarks.cases import CASES


def main() -> None:
    name, seconds, size = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    case = next(c for c in CASES if c.name == name)
    data = case.make(np.random.default_rng(0), size == "tiny")
    arguments = (*data.inputs, data.out, *data.numbers)
    times = []
    case.kernel(*arguments)
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        case.kernel(*arguments)
        times.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": min(times), "sum": float(np.abs(data.out.astype(np.float64)).sum())}))


if __name__ == "__main__":
    main()
