"""Operators that read after they write get storage of their own, though their operand dies with them.

Which operators, the table of operators says; what they give, numpy.  Every shape of the hazard: each operand in turn the
one that dies, one tile for two operands, a view of the tile that dies, a loop whose carry is the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numerics_kit import PLACED, everywhere
from operator_kit import OPTIMIZED, OTHER_PLANNERS, PLAIN, Arguments, Result, Unit, check
from operator_oracle import ELEMENTWISE, REDUCTIONS
from programs_kit import out, same, whole

import pypto.language as pl
from pypto.dtypes import DataType
from pypto.ir import ops
from pypto.ir.opdef import COL, FULL, MASK, PART, ROW, SCALAR, UNUSED, Lanewise, OpDef, Reduce

D = DataType
ROWS, COLS = 16, 32
SOURCES = {FULL: "xy", PART: "yx", ROW: "v", COL: "w", UNUSED: "x"}


def hazardous(op: OpDef) -> bool:
    """Of tiles, computing, and not to be run over one of the operands."""
    return op.level == "tile" and isinstance(op.semantics, (Lanewise, Reduce)) and (not op.in_place or bool(op.no_alias))


TABLE = [op for op in ops.ALL if hazardous(op)]


def pattern(op: OpDef, i: int) -> str:
    if isinstance(op.semantics, Reduce):
        return FULL if i == 0 else UNUSED
    assert isinstance(op.semantics, Lanewise)
    return op.semantics.patterns[i]


class Application:
    """One call in one shape of the hazard; `dying`: the operand computed for it alone, the others are read again later."""

    def __init__(self, op: OpDef, dtype: DataType, tag: str, dying: int, kind: str = "") -> None:
        self.op, self.dtype, self.tag, self.dying, self.kind = op, dtype, tag, dying, kind
        self.lines: list[str] = []
        self.later: list[tuple[str, str, tuple[int, int]]] = []  # tiles that live on: name, source, shape
        self.reads: list[Any] = []
        self.names = [self.operand(i) for i, o in enumerate(op.operands) if not o.optional]

    def operand(self, i: int) -> str:
        p, name = pattern(self.op, i), f"{self.tag}_{i}"
        if p == SCALAR:
            self.reads.append(lambda a: np.asarray(3).astype(self.dtype.numpy()))
            return "3.0" if self.dtype.is_float() else "3"
        if i in self.op.scratch:
            self.lines.append(f"{name} = pl.create_tile({self.scratch()}, target_memory=pl.Mem.Vec)")
            return name
        if p == MASK:
            self.lines += [f"{name}q = pl.load(q, [0, 0], [{ROWS}, {COLS}])", f"{name} = pl.tile.cmps({name}q, 0, cmp_type=4)"]
            self.reads.append(lambda a: a["q"][:ROWS] > 0)
            return name
        shape = (ROWS, 1) if p == ROW else (1, COLS) if p == COL else (ROWS, COLS)
        source = SOURCES[p][0 if self.kind == "same" or not any(pattern(self.op, j) in (FULL, PART) for j in range(i)) else -1]
        at = ROWS if i == self.dying and self.kind == "view" else 0
        self.reads.append(lambda a: a[source][at : at + shape[0], : shape[1]])
        if self.kind == "same" and self.lines and p == FULL:
            return f"{self.tag}_0"
        self.tile(i, name, source, shape)
        return name

    def scratch(self) -> str:
        shape, dtype = ([1, 32], D.UINT8) if self.op.concept in ("sel", "sels") else ([ROWS, COLS], self.dtype)
        if self.op.concept == "prelu":
            shape, dtype = [ROWS + 1, COLS], D.UINT8
        return f"{shape}, dtype=pl.{dtype.name}"

    def tile(self, i: int, name: str, source: str, shape: tuple[int, int]) -> None:
        one = "1.0" if self.dtype.is_float() else "1"
        if i != self.dying:
            self.lines.append(f"{name} = pl.load({source}, [0, 0], {list(shape)})")
            self.later.append((name, source, shape))
        elif self.kind == "view":
            self.lines.append(f"{name}w = pl.muls(pl.load({source}, [0, 0], [{2 * ROWS}, {shape[1]}]), {one})")
            self.lines.append(f"{name} = pl.slice({name}w, {list(shape)}, [{ROWS}, 0])")
        else:
            self.lines.append(f"{name} = pl.muls(pl.load({source}, [0, 0], {list(shape)}), {one})")

    def results(self) -> Iterator[Result]:
        op, meaning = self.op, (REDUCTIONS if isinstance(self.op.semantics, Reduce) else ELEMENTWISE)[self.op.concept]
        mask = isinstance(op.semantics, Lanewise) and op.semantics.result == MASK
        shape, dtype = (ROWS, COLS), D.INT32 if "arg" in op.concept else self.dtype
        if isinstance(op.semantics, Reduce):
            shape = (ROWS, 1) if op.concept.startswith("row") else (1, COLS)
        keywords = {"cmp_type": 4} if mask else {}
        words = [*self.names, *(f"{k}={v}" for k, v in keywords.items())]
        value = f"pl.tile.{op.concept}({', '.join(words)})"
        lines, times = list(self.lines), 1
        if mask:  # as numbers
            lines += [
                f"{self.tag}m = {value}",
                f"{self.tag}t = pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)",
            ]
            value = f"pl.sels({self.tag}m, pl.load(y, [0, 0], [{ROWS}, {COLS}]), {self.tag}t, 0)"
        elif self.kind == "carry":
            lines += ["for _ in pl.range(3):", f"    {self.names[0]} = {value}"]
            value, times = self.names[0], 3

        def want(a: Arguments) -> Any:
            first, *rest = (read(a) for read in self.reads)
            for _ in range(times):
                first = meaning.f(first, *rest, **keywords)
            return np.where(first, a["y"][:ROWS], np.zeros((), self.dtype.numpy())) if mask else first.astype(dtype.numpy())

        label = f"{op.name} of {self.dtype.name}, {self.kind or f'operand {self.dying} dies'}"
        yield Result(label, tuple(lines), value, dtype, shape, want, meaning.ulps[self.dtype is D.FP16], meaning.any_zero)
        for name, source, rect in self.later:
            yield Result(f"{label}: {name}", (), name, self.dtype, rect, lambda a, s=source, r=rect: a[s][: r[0], : r[1]])


def applications(dtype: DataType) -> Iterator[tuple[OpDef, int, str]]:
    for op in TABLE:
        if dtype not in op.dtypes:
            continue
        tiles = [i for i in range(len(op.operands)) if pattern(op, i) in (FULL, PART, ROW, COL) and i not in op.scratch]
        yield from ((op, i, "") for i in tiles)
        if dtype.get_byte() == 2:
            continue
        yield op, tiles[0], "view"
        patterns = [pattern(op, i) for i in range(len(op.operands))]
        if patterns.count(FULL) == 2 and patterns[0] == FULL:
            yield op, 0, "same"
        result_is_operand = isinstance(op.semantics, Lanewise) and op.semantics.result != MASK and patterns[0] == FULL
        if result_is_operand and ELEMENTWISE[op.concept].ulps == (0, 0):
            yield op, 0, "carry"


def test_the_table_has_such_operators() -> None:
    assert {"tile.fmod", "tile.recip", "tile.row_sum", "tile.xor", "tile.cmp", "tile.col_expand_add"} <= {o.name for o in TABLE}


# Where storage is shared: without optimizations, under the planners that share.
WAYS = {D.FP32: (PLAIN, OTHER_PLANNERS[0]), D.FP16: (OPTIMIZED, PLAIN), D.INT32: (PLAIN,), D.INT16: (OTHER_PLANNERS[0],)}


@pytest.mark.parametrize("dtype", WAYS, ids=lambda d: d.name)
def test_operators_of_the_table(dtype: DataType, tmp_path: Path) -> None:
    made = [list(Application(op, dtype, f"t{n}", i, kind).results()) for n, (op, i, kind) in enumerate(applications(dtype))]
    kernels: list[list[Result]] = [[r for results in made[at : at + 12] for r in results] for at in range(0, len(made), 12)]
    shapes = {"x": (2 * ROWS, COLS), "y": (2 * ROWS, COLS), "v": (2 * ROWS, COLS), "w": (2 * ROWS, COLS)}
    values = {n: whole(*s, dtype=dtype.numpy(), low=1 + i, high=9 + i) for i, (n, s) in enumerate(shapes.items())}
    values["q"] = whole(2 * ROWS, COLS, dtype=np.int32)
    inputs = {**{n: (s, dtype) for n, s in shapes.items()}, "q": ((2 * ROWS, COLS), D.INT32)}
    unit = Unit(f"hazards_{dtype.name.lower()}", inputs, kernels)
    check(unit, tmp_path, [values], ways=WAYS[dtype], c_optimizer=False, as_parsed=False)


@pl.jit
def moves(a: pl.Tensor, h: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    """Producer, operator, store: what is moved around within a tile, from a tile that nobody else needs."""
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.concat(pl.add(pl.load(a, [0, 0], [8, 8]), 0.5), pl.add(pl.load(a, [8, 0], [8, 8]), 0.5)), [0, 0], o)
        s = pl.add(pl.load(a, [0, 0], [8, 8]), 1.0)
        pl.store(pl.concat(s, s), [8, 0], o)
        t = pl.add(pl.load(a, [0, 0], [16, 16]), 2.0)
        pl.store(pl.concat(pl.slice(t, [8, 8], [8, 8]), pl.slice(t, [8, 8], [0, 0])), [16, 0], o)
        u = pl.add(pl.load(a, [0, 0], [16, 16]), 3.0)
        for _ in pl.range(3):
            u = pl.transpose(pl.add(u, 1.0), 0, 1)
        pl.store(u, [24, 0], o)
        pl.store(pl.transpose(pl.add(pl.load(a, [0, 0], [16, 8]), 4.0), 0, 1), [40, 0], o)
        w = pl.create_tile([8, 16], dtype=pl.INT32, target_memory=pl.Mem.Vec)
        pl.store(pl.tile.gather(pl.add(pl.load(a, [0, 0], [8, 16]), 5.0), pl.load(i, [0, 0], [8, 16]), w), [48, 0], o)
        pl.store(pl.cast(pl.add(pl.load(h, [0, 0], [8, 16]), 0.5), pl.FP32), [56, 0], o)
        x = pl.cast(pl.load(a, [0, 0], [8, 16]), pl.FP16)
        for _ in pl.range(2):
            x = pl.cast(pl.add(pl.cast(x, pl.FP32), 0.25), pl.FP16)
        pl.store(x, [0, 0], p)
        pl.store(pl.transpose(pl.add(pl.load(h, [0, 0], [16, 16]), 1.0), 0, 1), [8, 0], p)
        pl.store(pl.concat(pl.muls(pl.load(i, [0, 0], [8, 8]), 3), pl.adds(pl.load(i, [8, 0], [8, 8]), 7)), [0, 0], q)
        pl.store(pl.transpose(pl.muls(pl.load(i, [0, 0], [16, 16]), 2), 0, 1), [8, 0], q)
    return o, p, q


def numpy_moves(a, h, i):
    u = a + 3
    for _ in range(3):
        u = (u + 1).T
    parts = [np.hstack([a[:8, :8], a[8:, :8]]) + 0.5, np.hstack([a[:8, :8]] * 2) + 1, np.hstack([a[8:, 8:], a[:8, :8]]) + 2]
    parts += [u, (a[:, :8] + 4).T, a[:8].reshape(-1)[i[:8]] + 5, h[:8].astype(np.float32) + 0.5]
    halves = [a[:8] + 0.5, (h + 1).T]
    return np.vstack(parts), np.vstack(halves), np.vstack([np.hstack([i[:8, :8] * 3, i[8:, :8] + 7]), i.T * 2])


def test_operators_that_move_elements() -> None:
    a, h = np.arange(256, dtype=np.float32).reshape(16, 16), (np.arange(256) / 8).astype(np.float16).reshape(16, 16)
    i = np.arange(255, -1, -1, dtype=np.int32).reshape(16, 16) % 128
    outputs = [out(64, 16), out(24, 16, dtype=np.float16), out(24, 16, dtype=np.int32)]
    got = everywhere(moves, a, h, i, *outputs, ways=PLACED)
    for g, w in zip(got[3:], numpy_moves(a, h, i), strict=True):
        same(g, w)


@pl.jit
def by_order(x: pl.Tensor, n: pl.Tensor, at: pl.Tensor, o: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.sort32(pl.add(pl.load(x, [0, 0], [1, 128]), 0.5), pl.load(n, [0, 0], [1, 128]))
        pl.store(pl.mrgsort(t, block_len=64), [0, 0], o)
        u = pl.add(pl.load(x, [0, 0], [4, 32]), 1.0)
        v = pl.add(pl.load(x, [0, 0], [8, 32]), 2.0)
        pl.store(pl.tile.scatter_update(u, pl.load(at, [0, 0], [1, 8]), v), [0, 0], s)
        pl.store(pl.tile.gather_mask(pl.add(pl.load(x, [0, 0], [4, 32]), 3.0), mask_pattern=2), [4, 0], s)
    return o, s


def test_operators_that_sort_and_place_elements() -> None:
    x = (np.arange(128, dtype=np.float32) * 37 % 128) + 200 * np.arange(8, dtype=np.float32)[:, None]
    n, at = np.arange(128, dtype=np.uint32)[None], np.int32([[3, 0, 3, 1, 0, 2, 3, 0]])
    *_, o, s = everywhere(by_order, x, n, at, out(1, 256), out(8, 32), ways=PLACED)
    order = np.argsort(-x[0])
    same(o[0, 0::2], x[0][order] + 0.5)
    same(np.ascontiguousarray(o[0, 1::2]).view(np.uint32), order)
    want = x[:4, :32] + 1
    for k, row in enumerate(at[0]):
        want[row] = x[k, :32] + 2
    same(s[:4], want)
    same(s[4:, :16], x[:4, 1:32:2] + 3)
    same(s[4:, 16:], -777)
