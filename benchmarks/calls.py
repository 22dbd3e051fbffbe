"""What a call costs: the first one ever, the first of a process, and the next ones; and what importing costs.

Each figure is the fastest of several fresh processes with byte code written; the cache is a directory of its own.

    python benchmarks/calls.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_KERNEL = """
import time
begin = time.perf_counter()
import pypto.language as pl
imported = time.perf_counter() - begin
import numpy as np

@pl.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(a, b)
    return out

a, b = np.ones((32, 64), np.float32), np.ones((32, 64), np.float32)
o = np.empty_like(a)
begin = time.perf_counter()
add(a, b, o)
first = time.perf_counter() - begin
begin = time.perf_counter()
for _ in range(100000):
    add(a, b, o)
many = (time.perf_counter() - begin) / 100000
print(imported, first, many)
"""


def process(script: Path, cache: Path) -> tuple[float, float, float, float]:
    """Seconds of a fresh process as a whole, of the import, of the first call, and of one of many calls."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(script)], env={**env, "PYPTO_CACHE_DIR": str(cache)}, capture_output=True, text=True
    )
    whole = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(done.stderr)
    imported, first, many = map(float, done.stdout.split())
    return whole, imported, first, many


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "kernel.py"
        script.write_text(_KERNEL)
        other = Path(folder) / "another.py"
        other.write_text(_KERNEL.replace("pl.add(a, b)", "pl.sub(a, b)"))
        ever = min(process(script, Path(folder) / f"cache{i}")[2] for i in range(runs))
        cold = []
        for i in range(runs):
            cache = Path(folder) / f"cache{i}"
            other.write_text(_KERNEL.replace("pl.add(a, b)", f"pl.add(a, {i}.5)"))
            cold.append(process(other, cache)[2])
        warm = [process(script, Path(folder) / "cache0") for _ in range(runs)]
    print(f"import pypto.language                       {min(w[1] for w in warm) * 1e3:8.1f} ms")
    print(f"first call, nothing on this machine yet     {ever * 1e3:8.1f} ms  (the launcher is compiled, too)")
    print(f"first call of a new kernel                  {min(cold) * 1e3:8.1f} ms")
    print(f"first call of a process, kernel in the cache{min(w[2] for w in warm) * 1e3:8.1f} ms")
    print(f"the process around it, from start to end    {min(w[0] - 1e5 * w[3] for w in warm) * 1e3:8.1f} ms")
    per = min(w[3] for w in warm)
    print(f"every further call                          {per * 1e6:8.2f} us  ({1 / per / 1e6:.2f} million a second)")


if __name__ == "__main__":
    main()
