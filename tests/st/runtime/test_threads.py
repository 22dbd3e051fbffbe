"""Parallel loops and blocks on several threads: what is shared, what is not, and the same bits whatever their number."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto.language as pl
from pypto.codegen.native.unit import generate
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

N = pl.dynamic("N")
Rows = pl.Tensor[[N, 256], pl.FP32]

KERNELS = '''
import os, sys
import numpy as np
import pypto.language as pl
from pypto.errors import KernelError

N = pl.dynamic("N")
Rows = pl.Tensor[[N, 256], pl.FP32]


@pl.jit
def trips(x: Rows, g: pl.Tensor[[1, 256], pl.FP32], o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        w = g[0:1, :]
        for k in pl.parallel(0, n, 8):
            t = x[k : k + 8, :]
            e = pl.exp(t - pl.row_max(t))
            o[k : k + 8, :] = pl.col_expand_mul(e / pl.row_sum(e), w)
    return o


@pl.jit
def backwards(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(n - 8, -8, -8):
            o[k : k + 8, :] = x[k : k + 8, :] * 2.0
    return o


@pl.jit
def blocks(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    for b in pl.spmd(n // 8):
        o[b * 8 : b * 8 + 8, :] = pl.exp(x[b * 8 : b * 8 + 8, :])
    return o


@pl.jit
def launched(x: Rows, g: pl.Tensor[[1, 256], pl.FP32], o: pl.Out[Rows]):
    """A kernel for each trip."""
    n = pl.tensor.dim(x, 0)
    for k in pl.parallel(n // 8):
        r = 8 * k
        with pl.at(level=pl.Level.CORE_GROUP):
            t = x[r : r + 8, :]
            o[r : r + 8, :] = pl.col_expand_mul(pl.exp(t - pl.row_max(t)), g[0:1, :])
    return o


@pl.jit
def products(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    m, n = o.shape
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, m, 64):
            for j in pl.range(0, n, 64):
                o[i : i + 64, j : j + 64] = pl.matmul(a[i : i + 64, :], b[:, j : j + 64], out_dtype=pl.FP32)
    return o


@pl.jit
def grid(x: Rows, o: pl.Out[Rows]):
    """Tiles of two loops, each a call of its own."""
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 64):
        for c in pl.parallel(0, 256, 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                o[r : r + 64, c : c + 64] = pl.exp(x[r : r + 64, c : c + 64])
    return o


@pl.jit
def adds_up(x: Rows, o: pl.InOut[Rows]):
    """Of two loops, the inner one goes over the same rows again."""
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 64):
        for c in pl.range(0, 256, 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                o[r : r + 64, 0:64] = o[r : r + 64, 0:64] * 0.5 + pl.exp(x[r : r + 64, c : c + 64])
    return o


@pl.jit
def meets(x: Rows, o: pl.Out[Rows]):
    """Each trip overwrites a row of the next one."""
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n - 8, 8):
            o[k : k + 9, :] = x[k : k + 9, :] * 2.0
    return o


rng = np.random.default_rng(7)
x, g = rng.standard_normal((1024, 256), np.float32), rng.standard_normal((1, 256), np.float32)
a, b = rng.standard_normal((512, 128), np.float32), rng.standard_normal((128, 512), np.float32)


def results():
    found = [trips(x, g, np.zeros_like(x)), backwards(x, np.zeros_like(x)), blocks(x, np.zeros_like(x))]
    found += [launched(x, g, np.zeros_like(x)), grid(x, np.zeros_like(x)), adds_up(x, np.zeros_like(x))]
    found += [products(a, b, np.zeros((512, 512), np.float32)), meets(x, np.zeros_like(x))]
    return found


def crowd():
    return len(os.listdir("/proc/self/task"))
'''


def run(script: str, threads: int, directory: Path) -> str:
    path = directory / "script.py"
    path.write_text(KERNELS + textwrap.dedent(script), encoding="utf-8")
    env = os.environ | {"PYPTO_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_same_bits_whatever_the_number(tmp_path: Path) -> None:
    script = """
    import hashlib
    for _ in range(20):
        print(*(hashlib.sha256(r).hexdigest() for r in results()))
    """
    lines = {line for n in (1, 2, 3, 7) for line in run(script, n, tmp_path).splitlines()}
    assert len(lines) == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted by /proc")
def test_as_many_threads_as_were_asked_for(tmp_path: Path) -> None:
    script = """
    before = crowd()
    meets(x, np.zeros_like(x))
    alone = crowd()
    results()
    results()
    print(alone - before, crowd() - before)
    """
    assert run(script, 1, tmp_path) == "0 0"
    assert run(script, 4, tmp_path) == "0 3"


def test_children_and_other_threads(tmp_path: Path) -> None:
    """A forked child begins without threads and makes its own; calls at the same time share the team or go alone."""
    script = """
    import threading
    want = results()
    def same():
        for _ in range(10):
            if not all((p == q).all() for p, q in zip(want, results())):
                raise SystemExit("differs")
    pid = os.fork()
    if pid == 0:
        same()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    failed = []
    def work():
        try:
            same()
        except BaseException as e:
            failed.append(e)
    crowd = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in crowd]
    pid = os.fork()  # while the team works
    if pid == 0:
        same()
        os._exit(7)
    [t.join() for t in crowd]
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    print(failed)
    """
    assert run(script, 3, tmp_path) == "[]"


def test_the_first_trip_that_fails_is_the_one_reported(tmp_path: Path) -> None:
    script = """
    @pl.jit
    def looks_up(at: pl.Tensor[[N], pl.INT32], x: Rows, o: pl.Out[Rows]):
        n = pl.tensor.dim(x, 0)
        with pl.at(level=pl.Level.CORE_GROUP):
            for k in pl.parallel(0, n, 8):
                i = pl.read(at, [k])
                o[k : k + 8, :] = x[i : i + 8, :]
        return o

    at = np.zeros(1024, np.int32)
    at[40::8] = 5000 + np.arange(40, 1024, 8)
    for _ in range(50):
        try:
            looks_up(at, x, np.zeros_like(x))
        except KernelError as e:
            print("5040" in str(e))
    looks_up(at * 0, x, np.zeros_like(x))
    """
    assert set(run(script, 4, tmp_path).split()) == {"True"}


# -- what may be shared --------------------------------------------------------------------------------------------


def reasons(kernel: Any, *args: Any) -> dict[str, tuple[str | None, str | None]]:
    """For each kernel of a program, why its trips and the blocks of a launch are not shared."""
    program = kernel.specialize(*args)
    return dict(generate(lower(program, PassOptions()).host, kernel.__name__).sharing)


X, Y = np.zeros((64, 256), np.float32), np.zeros((64, 256), np.float32)


@pl.jit
def apart(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n, 8):
            v = pl.min(8, n - k)
            t = pl.load(x, [k, 0], [8, 256], valid_shape=[v, 256])
            pl.store(t, [k, 0], o)
    return o


@pl.jit
def overlapping(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n - 8, 8):
            o[k : k + 9, :] = x[k : k + 9, :] * 2.0
    return o


@pl.jit
def one_place(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n, 8):
            o[0:8, :] = x[k : k + 8, :]
    return o


@pl.jit
def reads_neighbours(x: pl.InOut[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n - 8, 8):
            x[k : k + 8, :] = x[k + 8 : k + 16, :] * 2.0
    return x


@pl.jit
def in_place(x: pl.InOut[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n, 8):
            x[k : k + 8, :] = x[k : k + 8, :] * 2.0
    return x


@pl.jit
def by_two_variables(x: Rows, o: pl.Out[Rows]):
    """Trip k = 8, j = 0 writes where trip k = 0, j = 8 does."""
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n - 8, 8):
            for j in pl.range(0, 16, 8):
                o[k + j : k + j + 8, :] = x[k : k + 8, :]
    return o


@pl.jit
def in_order(x: Rows, o: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, n, 8):
            o[k : k + 8, :] = x[k : k + 8, :]
    return o


@pl.jit
def on_chip_total(x: Rows, o: pl.Out[Rows]):
    """A tile that every trip adds to."""
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8, 256], dtype=pl.FP32, value=0.0)
        for k in pl.parallel(0, n, 8):
            t = pl.add(t, x[k : k + 8, :])
            o[k : k + 8, :] = t
    return o


@pl.jit
def reads_ahead(x: pl.InOut[Rows]):
    """What the first trip overwrites is read before the loop, and all threads do what stands before it."""
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        w = x[0:8, :]
        for k in pl.parallel(0, n, 8):
            x[k : k + 8, :] = x[k : k + 8, :] + w
    return x


@pl.jit
def reads_a_number_ahead(x: pl.InOut[Rows]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.read(x, [0, 0])
        for k in pl.parallel(0, n, 8):
            x[k : k + 8, :] = x[k : k + 8, :] + w
    return x


@pl.jit
def placed_by_an_array(x: Rows, o: pl.Out[Rows]):
    """k + i is the same in all trips."""
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, n, 8):
            h = pl.array.create(1, pl.INT32)
            h[0] = -pl.cast(k, pl.INT32)
            i = h[0]
            o[k + i : k + i + 8, :] = x[k : k + 8, :]
    return o


@pytest.mark.parametrize(
    ("kernel", "shared"),
    [
        (apart, True),
        (in_place, True),
        (overlapping, False),
        (one_place, False),
        (reads_neighbours, False),
        (by_two_variables, False),
        (in_order, False),
        (on_chip_total, False),
        (reads_ahead, False),
        (reads_a_number_ahead, False),
        (placed_by_an_array, False),
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_trips_are_shared_only_where_they_are_apart(kernel: Any, shared: bool) -> None:
    args = (X,) if kernel in (in_place, reads_neighbours, reads_ahead, reads_a_number_ahead) else (X, Y)
    ((trips, _),) = reasons(kernel, *args).values()
    assert (trips is None) is shared, trips


@pl.jit
def blocks_apart(x: Rows, o: pl.Out[Rows]):
    for b in pl.spmd(8):
        o[b * 8 : b * 8 + 8, :] = x[b * 8 : b * 8 + 8, :]
    return o


@pl.jit
def blocks_meet(x: Rows, o: pl.Out[Rows]):
    for b in pl.spmd(7):
        o[b * 8 : b * 8 + 9, :] = x[b * 8 : b * 8 + 9, :]
    return o


@pl.jit
def blocks_placed_by_an_array(x: Rows, o: pl.Out[Rows]):
    for b in pl.spmd(8):
        h = pl.array.create(1, pl.INT32)
        h[0] = pl.cast(b, pl.INT32) * -8
        i = h[0]
        o[b * 8 + i : b * 8 + i + 8, :] = x[b * 8 : b * 8 + 8, :]
    return o


@pytest.mark.parametrize(("kernel", "shared"), [(blocks_apart, True), (blocks_meet, False), (blocks_placed_by_an_array, False)])
def test_blocks_are_shared_only_where_they_are_apart(kernel: Any, shared: bool) -> None:
    ((_, blocks),) = reasons(kernel, X, Y).values()
    assert (blocks is None) is shared, blocks
