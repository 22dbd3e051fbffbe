"""Rows that need processes of their own: threads, imports, first calls, compilation.

In: the setting of a run.  Out: rows whose contenders are processes, taken in turn.  Each has a cache of its own where the row is
about the cache; byte code is written, as it is for users.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import CASES
from benchmarks.inspection import facts
from benchmarks.measure import Contender, Rounds, measured
from benchmarks.operators import c_source, module
from benchmarks.result import Result
from benchmarks.setting import Setting
from benchmarks.yardsticks import command
from pypto.runtime.cpus import available_cpus

__all__ = ["SECTIONS", "rows"]

ROOT = Path(__file__).resolve().parents[1]
SHARED = (
    "10 operations 4096x4096",
    "(a+b)*b 4096x4096",
    "(a+b)*b by tiles 4096x4096",
    "softmax 4096x1024",
    "FP32 1024",
    "attention 8x1024x64",
)


def rows(section: str, s: Setting) -> Iterator[Result]:
    """The section's rows, each measured as it is asked for.  RuntimeError with a child's words if one fails."""
    yield from SECTIONS[section](s)


def _run(arguments: list[str], **variables: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])
    done = subprocess.run(arguments, env=env | variables, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def _child(name: str, *arguments: str, **variables: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_run([sys.executable, "-m", f"benchmarks.children.{name}", *arguments], **variables))
    return answer


def _answers(name: str, key: str, *arguments: str, **variables: str) -> Callable[[int], float]:
    """Seconds that a child measured itself, under `key`."""
    return lambda times: sum(_child(name, *arguments, **variables)[key] for _ in range(times))


def _whole(arguments: list[str], **variables: str) -> Callable[[int], float]:
    """Seconds of a process from start to end."""

    def run(times: int) -> float:
        begin = time.perf_counter()
        for _ in range(times):
            _run(arguments, **variables)
        return time.perf_counter() - begin

    return run


def _processes(contenders: Sequence[Contender], s: Setting) -> Rounds:
    """Each call a process of its own; other processes leave this one alone anyway, while it waits."""
    return measured([c._replace(is_process=True) for c in contenders], s.seconds, s.watch)


# -- threads ---------------------------------------------------------------------------------------------------------


def _threads(s: Setting) -> Iterator[Result]:
    """As many threads as there are processors beside one; "x best peer" is their time over that of one."""
    most, size = available_cpus(), "tiny" if s.tiny else "full"
    for case in SHARED:
        sums: set[float] = set()

        def run(times: int, threads: int, case: str = case, sums: set[float] = sums) -> float:
            took = 0.0
            for _ in range(times):
                answer = _child("shared", case, str(s.seconds / 4), size, PYPTO_NUM_THREADS=str(threads))
                sums.add(answer["sum"])
                took += answer["seconds"]
            return took

        several = Contender(f"{most} threads", lambda n, run=run: run(n, most))
        rounds = _processes([several, Contender("1 thread", lambda n, run=run: run(n, 1))], s)
        assert len(sums) == 1, f"{case}: results depend on the number of threads"
        yield Result("threads", case, rounds, several.name, (), ("1 thread",), facts=_facts(case, s))


def _facts(name: str, s: Setting) -> dict[str, Any]:
    case = next(c for c in CASES if c.name == name)
    data = case.make(np.random.default_rng(0), s.tiny)
    found = facts(case.kernel, *data.inputs, data.out, *data.numbers)
    return {"stage": found.stage, "stages": found.stages, "sharing": found.sharing, "shared": found.shared}


# -- starting --------------------------------------------------------------------------------------------------------


def _imports(s: Setting) -> Result:
    """Whole processes: the interpreter's own start is in all of them."""
    python = [sys.executable, "-c"]
    contenders = [Contender("pypto", _whole([*python, "import pypto.language"]))]
    contenders += [Contender(name, _whole([*python, f"import {name}"])) for name in s.peers]
    if "numpy" not in s.peers:
        contenders.append(Contender("numpy", _whole([*python, "import numpy"])))
    rounds = _processes(contenders, s)
    return Result("start", "import, whole process", rounds, "pypto", (), ("numpy",))


def _start(s: Setting) -> Iterator[Result]:
    yield _imports(s)
    empty = s.folder / "empty.c"
    empty.write_text("void nothing(void) {}\n")
    library = s.folder / "empty.so"
    compiler = [*command(), str(empty), "-o", str(library)]
    _run(compiler)
    compiled = [Contender(name, _answers("peer_first", "first", name)) for name in ("numba", "jax") if name in s.peers]
    peers, numbers = tuple(c.name for c in compiled), count(1)
    warm = str(s.folder / "warm")
    _child("first_call", "0", PYPTO_CACHE_DIR=warm)
    opened = Contender("C", _answers("empty_library", "first", str(library), "nothing"))
    first = Contender("pypto", _answers("first_call", "first", "0", PYPTO_CACHE_DIR=warm))
    yield Result("start", "first call, kernel in the cache", _processes([first, opened], s), "pypto", ("C",))

    def cold(times: int) -> float:
        return sum(_child("first_call", str(next(numbers)), PYPTO_CACHE_DIR=warm)["first"] for _ in range(times))

    contenders = [Contender("pypto", cold), Contender("C", _whole(compiler)), *compiled]
    yield Result("start", "first call, new kernel", _processes(contenders, s), "pypto", ("C",), peers)

    def ever(times: int) -> float:
        caches = [str(s.folder / f"ever{next(numbers)}") for _ in range(times)]
        return sum(_child("first_call", "0", PYPTO_CACHE_DIR=cache)["first"] for cache in caches)

    contenders[0] = Contender("pypto", ever)
    yield Result("start", "first call ever", _processes(contenders, s), "pypto", ("C",), peers)


# -- compiling -------------------------------------------------------------------------------------------------------


def _operators(s: Setting) -> Iterator[Result]:
    """Kernels of so many operators; the compiler's time for a C loop of as many is beside them."""
    numbers, launcher = count(), str(s.folder / "operators")
    for n in (10, 30) if s.tiny else (10, 100, 1000):

        def ours(times: int, n: int = n) -> float:
            took = 0.0
            for _ in range(times):
                file = s.folder / f"many{next(numbers)}.py"
                file.write_text(module(n, next(numbers)))
                took += _child("operators", str(file), PYPTO_CACHE_DIR=launcher)[str(n)]
            return took

        source = s.folder / f"loop{n}.c"
        source.write_text(c_source(n))
        hand = Contender("C", _whole([*command(), str(source), "-o", str(source.with_suffix(".so"))]))
        rounds = _processes([Contender("pypto", ours), hand], s)
        yield Result("compile", f"{n} operators, for each", rounds, "pypto", ("C",), per=n)


def _pool(s: Setting) -> Result:
    kernels = 2 if s.tiny else 32

    def run(times: int, workers: int) -> float:
        took = 0.0
        for _ in range(times):
            cache = s.folder / f"pool{time.monotonic_ns()}"
            took += _child("pool", str(workers), str(kernels), PYPTO_CACHE_DIR=str(cache))["seconds"]
        return took

    contenders = [Contender("2 workers", lambda n: run(n, 2)), Contender("1 worker", lambda n: run(n, 1))]
    rounds = _processes(contenders, s)
    return Result("compile", f"{kernels} kernels, pool", rounds, "2 workers", (), ("1 worker",))


def _compile(s: Setting) -> Iterator[Result]:
    yield from _operators(s)
    yield _pool(s)


SECTIONS: dict[str, Callable[[Setting], Iterator[Result]]] = {"threads": _threads, "start": _start, "compile": _compile}
