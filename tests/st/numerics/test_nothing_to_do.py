"""Where there is nothing to do, nothing is done, and rightly: no trips, no rows, no columns, no products to add up."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numerics_kit import agree
from programs_kit import cfg, out, same, whole

import pypto.language as pl
from pypto.errors import KernelError

N = pl.dynamic("N")


@pl.jit
def inner_extent(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """A product over an inner extent that may be 0, and one added to an accumulator."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        am = pl.load(a, [0, 0], [16, 16], valid_shape=[16, n], target_memory=pl.Mem.Mat)
        bm = pl.load(b, [0, 0], [16, 16], valid_shape=[n, 16], target_memory=pl.Mem.Mat)
        left = pl.move(am, target_memory=pl.Mem.Left)
        right = pl.move(bm, target_memory=pl.Mem.Right)
        pl.store(pl.matmul(left, right), [0, 0], o)
        pl.store(pl.matmul_acc(pl.matmul(left, right), left, right), [0, 0], p)
    return o, p


def test_a_product_over_nothing_is_zero():
    one = np.ones((16, 16), np.float16)
    sizes = (7, 0, 16)
    for n, (*_, o, p) in zip(
        sizes, agree(inner_extent, *([one, one, cfg(n), out(16, 16), out(16, 16)] for n in sizes)), strict=True
    ):
        same(o, n)
        same(p, 2 * n)


@pl.jit
def strides(a: pl.Tensor[[N, 32], pl.FP32], o: pl.Out[pl.Tensor[[N, 32], pl.FP32]], s: pl.InOut[pl.Tensor[[N, 32], pl.FP32]]):
    """Rows shared out among blocks, of which most have none."""
    n = pl.tensor.dim(a, 0)
    for b in pl.spmd(4):
        for i in pl.range(b * 8, n, 32):
            pl.store(pl.add(pl.load(a, [i, 0], [8, 32]), 1.0), [i, 0], o)
    for i in pl.parallel(0, n, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.mul(pl.load(s, [i, 0], [8, 32]), 2.0), [i, 0], s)
    return o, s


def test_blocks_and_parallel_loops_without_work():
    sizes = (0, 8, 0, 40, 8)
    calls = [[whole(n, 32), out(n, 32), np.full((n, 32), 3, np.float32)] for n in sizes]
    for n, (a, o, s) in zip(sizes, agree(strides, *calls), strict=True):
        assert o.shape == (n, 32)
        same(o, a + 1)
        same(s, 6)


@pl.jit
def beyond(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """The last window of a loop may begin where the data end."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.tile.full([8, 16], dtype=pl.FP32, value=0.0)
        for i in pl.range(4):
            rows = pl.max(pl.min(n - i * 8, 8), 0)
            x = pl.load(a, [i * 8, 0], [8, 16], valid_shape=[rows, 16])
            t = pl.add(t, pl.fillpad(x, pl.PadValue.zero))
            pl.store(pl.neg(x), [i * 8, 0], o)
        pl.store(t, [32, 0], o)
    return o


def test_windows_that_begin_behind_the_data():
    a = whole(32, 16)
    sizes = (0, 1, 8, 19, 32)
    for n, (*_, o) in zip(sizes, agree(beyond, *([a, cfg(n), out(40, 16)] for n in sizes)), strict=True):
        same(o[:n], -a[:n])
        same(o[n:32], -777)
        given = np.where(np.arange(32)[:, None] < n, a, 0)
        same(o[32:], given.reshape(4, 8, 16).sum(0))


@pl.jit
def extremes(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        w = pl.create_tile([8, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_max(pl.load(a, [0, 0], [8, 16], valid_shape=[8, n]), w), [0, 0], o)
    return o


def test_a_reduction_that_turns_out_empty_hands_out_no_earlier_number():
    a, o = whole(8, 16), out(8, 1)
    extremes(a, cfg(16), o)
    same(o, a.max(1, keepdims=True))
    before = o.copy()
    for _ in range(2):
        with pytest.raises(KernelError, match=r"row_max.*empty"):
            extremes(a, cfg(0), o)
        same(o, before)
    extremes(a, cfg(1), o)
    same(o, a[:, :1])


PROGRAM = """
import sys
import numpy as np
import pypto.language as pl
N = pl.dynamic("N")
@pl.jit
def k(a: pl.Tensor[[N, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    n = pl.tensor.dim(a, 0)
    for i in pl.range(n // 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.add(pl.load(a, [i * 16, 0], [16, 64]), 1.0), [i * 16, 0], o)
    return o
if sys.argv[1] == "compile":
    k.compile(np.zeros((0, 64), np.float32), np.zeros((0, 64), np.float32))
for n in map(int, sys.argv[2:]):
    o = np.full((n, 64), -777, np.float32)
    assert k(np.zeros((n, 64), np.float32), o) is o
    assert (o == 1).all(), n
assert len(k.kernels) == 1
print("done")
"""


@pytest.mark.parametrize("order", [("compile", "32"), ("call", "0", "32", "0", "48")], ids=" ".join)
def test_in_a_process_of_its_own(order, tmp_path):
    """What comes first, nothing or something, in a process and in the store, does not matter: nothing is built twice."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    root = str(Path(pl.__file__).resolve().parents[2])
    settings = {**os.environ, "PYPTO_CACHE_DIR": str(tmp_path / "store"), "PYTHONPATH": root}
    for turn in (order, ("call", "16", "0")):
        done = subprocess.run([sys.executable, str(path), *turn], env=settings, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["done"], done.stderr
