"""Kernels whose memory maps are known, in a file of their own, so that their lines are."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto.debug.memory_map import Block, KernelMap, MemoryMap, memory_map
from pypto.enums import MemoryPlanner
from pypto.frontend import parse
from pypto.ir.program import Program

KERNELS = """\
import pypto.language as pl

X = pl.Tensor[[64, 64], pl.FP32]
OWN = pl.MemRef("own")


@pl.jit
def sums(x: X, o: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.tile.full([16, 64], dtype=pl.FP32, value=0.0)
        for i in pl.range(0, 64, 16):
            t = pl.load(x, [i, 0], [16, 64])
            u = pl.exp(t)
            acc = pl.add(pl.mul(t, u), acc)
            v = pl.slice(u, [8, 32], [0, 32])
            pl.store(pl.add(v, 1.0), [0, 0], o)
        pl.store(acc, [0, 0], o)
    return o


@pl.jit.incore
def doubled(x: X, o: pl.Out[X]):
    t = pl.load(x, [0, 0], [16, 64])
    return pl.store(pl.add(t, t), [0, 0], o)


@pl.jit.incore
def squared(x: X, o: pl.Out[X], big: pl.INT32):
    t = pl.load(x, [0, 0], [32, 64])
    kept = pl.load(x, [32, 0], [32, 64])
    if big > 0:
        r = pl.mul(t, t)
    else:
        r = pl.add(t, kept)
    return pl.store(pl.add(r, kept), [0, 0], o)


@pl.jit
def both(x: X, o: pl.Out[X], big: pl.INT32):
    o = doubled(x, o)
    o = squared(x, o, big)
    return o


@pl.jit
def declared(x: X, o: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a: pl.Tile[[16, 64], pl.FP32, OWN, pl.Mem.Vec] = pl.load(x, [0, 0], [16, 64])
        b = pl.exp(a)
        pl.store(b, [0, 0], o)
    return o


@pl.jit
def moved(x: X, o: pl.Out[X], rows: pl.INDEX):
    for k in pl.range(0, rows, 16):
        o = o
    return o


@pl.jit
def product(x: X, o: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(a, a), [0, 0], o)
    return o


@pl.jit
def swapped(x: X, o: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [16, 64])
        b = pl.load(x, [16, 0], [16, 64])
        for i in pl.range(0, 3):
            a, b = b, a
        pl.store(a, [0, 0], o)
        pl.store(b, [16, 0], o)
    return o


@pl.jit
def late(x: X, o: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([16, 64], dtype=pl.FP32)
        for i in pl.range(0, 64, 16):
            if i > 0:
                pl.store(t, [i, 0], o)
            t = pl.load(x, [i, 0], [16, 64])
    return o


@pl.jit
def halves(x: X, o: pl.Out[X]):
    with pl.at(level=pl.Level.CORE_GROUP):
        whole = pl.create_tile([16, 64], dtype=pl.FP32)
        up = pl.load(x, [0, 0], [8, 64])
        whole = pl.tile.assemble(whole, up, [0, 0])
        down = pl.load(x, [8, 0], [8, 64])
        whole = pl.tile.assemble(whole, down, [8, 0])
        pl.store(whole, [0, 0], o)
    return o


@pl.jit
def full(x: pl.Tensor[[512, 64], pl.FP32], o: pl.Out[pl.Tensor[[512, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [352, 64])
        b = pl.load(x, [352, 0], [352, 64], valid_shape=[160, 64])
        pl.store(a, [0, 0], o)
        pl.store(b, [352, 0], o)
    return o
"""


def kernels(directory: Path) -> ModuleType:
    """The kernels, from a file `kernels.py`."""
    path = directory / "kernels.py"
    path.write_text(KERNELS, encoding="utf-8")
    return load(path)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def only(m: MemoryMap) -> KernelMap:
    (k,) = m.kernels
    return k


def line_of(text: str) -> int:
    """The first line of the kernels' file that contains a text."""
    return next(i for i, line in enumerate(KERNELS.split("\n"), 1) if text in line)


def facts(blocks: Iterable[Block]) -> list[tuple[Any, ...]]:
    """Name, bytes and lines of blocks."""
    return [(b.name, b.begin, b.end, b.line, b.last_line) for b in blocks]


def placed(body: str) -> MemoryMap:
    """The map of a kernel in the operators' own words; `[16, 64] @ 4096` is a tile type at that byte of Vec."""
    lines = re.sub(
        r"\[(\d+), 64\] @ (\d+)",
        lambda m: f"pl.Tile[[{m[1]}, 64], pl.FP32, pl.MemRef(vec, {m[2]}, {int(m[1]) * 256}), pl.Mem.Vec]",
        textwrap.dedent(body),
    )
    program = parse(
        "# pypto.program: test\nimport pypto.language as pl\n@pl.program\nclass test:\n"
        "    @pl.function(type=pl.FunctionType.InCore)\n"
        "    def k(x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):\n"
        "        vec: pl.Ptr = pl.tile.alloc(pl.const(188416, pl.INT64), memory_space=pl.Mem.Vec)\n"
        + textwrap.indent(lines, "        ")
    )
    assert isinstance(program, Program)
    return memory_map(program, "a2a3sim", MemoryPlanner.PYPTO)
