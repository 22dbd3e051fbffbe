"""Shared by the tests of calls and of the artifact cache: scripts in processes of their own, each over a private cache.

In: a script.  Out: what it printed, and how many kernels were compiled for it.  The count comes from a compiler wrapper
that writes down each run, and the processes' own counters must agree with it.  The units that all kernels share (launcher,
identity of the compiler and of the package) are in every new box already.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]

# What every script begins with: `call(kernel)` runs a kernel of (input, output) on ones and gives the one number it wrote.
HEAD = """
import atexit, json, os, sys, threading
import numpy as np
import pypto, pypto.language as pl
def ones(): return np.ones((64, 64), np.float32)
def call(k, x=None):
    x = ones() if x is None else x
    y = np.full(x.shape, -777, x.dtype); k(x, y)
    assert (y == y[0, 0]).all() or (y != y).all()
    return float(y[0, 0])
def scaled(c, name="k"):
    source = f'''
@pl.jit
def {name}(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, c)
    return y
'''
    import linecache
    where = f"<scaled {name}>"
    linecache.cache[where] = (len(source), None, source.splitlines(True), where)
    space = {"pl": pl, "c": c}
    exec(compile(source, where, "exec"), space)
    return space[name]
def note_counters():
    with open(os.environ["COUNTERS"], "a") as log: log.write(json.dumps(pypto.cache_stats()._asdict()) + chr(10))
if "COUNTERS" in os.environ: atexit.register(note_counters)
"""
SCALE = HEAD + "print(call(scaled(FACTOR)))\n"
# The compiler, counted by the file that it is to make.
COUNTING = 'case " $* " in *" -o kernel.so "*) echo x >> "$CC_LOG" ;; esac\nexec "$REAL_CC" "$@"'


# For scripts with another compiler or an empty cache, where the launcher would have to be built before the kernel.
NO_LAUNCHER = {"PYPTO_LAUNCHER": "ctypes"}


def tool(path: Path, body: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


class Ran:
    """A process that has ended."""

    def __init__(self, returncode: int, out: str, err: str) -> None:
        self.returncode, self.out, self.err = returncode, out, err

    @property
    def words(self) -> list[str]:
        return self.out.split()

    @property
    def warnings(self) -> int:
        return self.err.count("PyptoWarning")


class Box:
    """A directory with a cache, a home, and the compiler that counts."""

    def __init__(self, directory: Path, compiler: Path, seed: Path | None = None) -> None:
        """`seed`: the cache to begin with, a copy of which is made."""
        self.dir, self.cc = directory, compiler
        self.root, self.log, self.counters = directory / "cache", directory / "cc.log", directory / "counters"
        (directory / "home").mkdir(parents=True)
        if seed is not None:
            shutil.copytree(seed, self.root, symlinks=True)

    def env(self, **changes: object) -> dict[str, str]:
        """The environment of a script; None drops a variable."""
        unwanted = ("PYPTO", "PYTHON", "CFLAGS", "XDG_", "COV_")
        base = {k: v for k, v in os.environ.items() if not k.startswith(unwanted) and k not in ("CC", "TMPDIR")}
        base.update(
            PYPTO_CACHE_DIR=str(self.root),
            PYPTO_CC=str(self.cc),
            CC_LOG=str(self.log),
            COUNTERS=str(self.counters),
            HOME=str(self.dir / "home"),
            REAL_CC=shutil.which("cc") or "",
            PYTHONDONTWRITEBYTECODE="1",
            # What costs time and is not looked at here.
            OPENBLAS_NUM_THREADS="1",
            PYPTO_VERIFY_LEVEL="none",
            PYTHONPATH=str(ROOT),
        )
        base.update({k: str(v) for k, v in changes.items() if v is not None})
        return {k: v for k, v in base.items() if changes.get(k, "") is not None}

    def start(
        self, code: str, *args: object, name: str = "t.py", cwd: Path | None = None, wrap: Sequence[str] = (), **env: object
    ) -> subprocess.Popen[str]:
        """A script, written to a file and started in a process group of its own."""
        path = (cwd or self.dir) / name
        path.write_text(textwrap.dedent(code))
        command = [*wrap, sys.executable, str(path), *map(str, args)]
        return subprocess.Popen(
            command,
            env=self.env(**env),
            cwd=cwd or self.dir,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, *args: object, ok: bool = True, timeout: float = 60, **kw: Any) -> Ran:
        """A script from beginning to end; with `ok` it must succeed."""
        p = self.start(code, *args, **kw)
        out, err = p.communicate(timeout=timeout)
        assert not ok or p.returncode == 0, err
        return Ran(p.returncode, out, err)

    def scale(self, factor: object, **kw: Any) -> float:
        """What a kernel that multiplies by `factor` makes of one."""
        return float(self.run(SCALE.replace("FACTOR", repr(factor)), **kw).words[-1])

    def builds(self, *, agree: bool = True) -> int:
        """Kernels compiled since this was last asked; with `agree`, the processes must have counted the same."""
        runs = len(self.log.read_text().split()) if self.log.exists() else 0
        noted = [json.loads(line) for line in self.counters.read_text().splitlines()] if self.counters.exists() else []
        self.log.unlink(missing_ok=True)
        self.counters.unlink(missing_ok=True)
        counted = sum(n["builds"] for n in noted)
        assert not agree or counted == runs, f"{runs} runs of the compiler, but the processes say {counted} builds"
        return runs

    def stats(self) -> list[dict[str, Any]]:
        """The counters of each process since this or `builds` was last asked."""
        noted = [json.loads(line) for line in self.counters.read_text().splitlines()] if self.counters.exists() else []
        self.counters.unlink(missing_ok=True)
        return noted


def full(value: float, shape: tuple[int, ...] = (64, 64), dtype: Any = np.float32) -> np.ndarray:
    return np.full(shape, value, dtype)


def untouched(shape: tuple[int, ...] = (64, 64), dtype: Any = np.float32) -> np.ndarray:
    """An output whose elements show whether they were written."""
    return np.full(shape, 77, dtype)


def scaled(factor: Any) -> Any:
    """A fresh kernel y = x * factor; kernels of equal factors have one key."""
    import pypto.language as pl

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, factor)
        return y

    return k


def call(kernel: Any) -> float:
    """The one number that a kernel of (input, output) makes of ones."""
    y = untouched()
    kernel(full(1.0), y)
    assert (y == y[0, 0]).all()
    return float(y[0, 0])
