"""Kernels that read and write by index, each with what is in order and what is not.

`CASES`: kernel, arguments, and for each wrong call the position of the index among them and the number that is wrong.
Run as a script, every call is made: wrong ones have to raise KernelBoundsError.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pypto.language as pl
from pypto.errors import KernelBoundsError

Array = Any


class Case(NamedTuple):
    kernel: Any
    arguments: tuple[Array, ...]
    index: int
    wrong: tuple[int, ...]


@pl.jit
def along_rows(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.gather(x, dim=1, index=i)
    return o


@pl.jit
def down_columns(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.gather(x, dim=0, index=i)
    return o


@pl.jit
def elements(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.gather(x, i)
    return o


@pl.jit
def valid_elements(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32], [9, 20])
        tmp = pl.create_tile([8, 8], dtype=pl.INT32)
        pl.store(pl.tile.gather(t, pl.load(i, [0, 0], [8, 8]), tmp), [0, 0], o)
    return o


@pl.jit
def unused(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        _ = pl.mgather(x, pl.load(i, [0, 0], [8, 8]), "elem")
        pl.store(t, [0, 0], o)
    return o


@pl.jit
def rows(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.mgather(x, pl.load(i, [0, 0], [1, 8]), "row"), [0, 0], o)
    return o


@pl.jit
def blocks(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        pl.store(pl.gatherb(t, pl.load(i, [0, 0], [1, 8])), [0, 0], o)
    return o


@pl.jit
def scattered_rows(x: pl.Tensor, i: pl.Tensor, v: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.scatter(x, dim=-1, index=i, src=v)
    return o


@pl.jit
def scattered(x: pl.Tensor, i: pl.Tensor, v: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.tile.scatter(pl.load(x, [0, 0], [16, 32]), pl.load(v, [0, 0], [8, 8]), pl.load(i, [0, 0], [8, 8]))
        pl.store(t, [0, 0], o)
    return o


@pl.jit
def updated(x: pl.Tensor, i: pl.Tensor, v: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.scatter_update(x, i, v)
    return o


@pl.jit
def written(v: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o = pl.mscatter(pl.load(v, [0, 0], [8, 8]), pl.load(i, [0, 0], [8, 8]), o)
    return o


@pl.jit
def turned(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.transpose(x, 0, 1)
    return o


@pl.jit
def merged(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = pl.sort32(pl.load(x, [0, 0], [1, 128]), pl.load(i, [0, 0], [1, 128]))
        s = pl.mrgsort(s, block_len=64)
        pl.store(pl.mrgsort(s, s, tmp=pl.create_tile([1, 512], dtype=pl.FP32)), [0, 0], o)
    return o


@pl.jit
def compared(x: pl.Tensor, o: pl.Out[pl.Tensor], n: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i, c = pl.gather(x, kvalue=0.0, cmp_mode="gt", out_cols=8)
        o[:] = i
        n[:] = c
    return o, n


@pl.jit
def paged(x: pl.Tensor, i: pl.Tensor, t: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.paged_gather(x, i, t, 2, 32, 8, space=pl.Mem.Vec)
    return o


def _cases() -> list[Case]:
    rng = np.random.default_rng(3)
    x, v = rng.normal(size=(16, 32)).astype(np.float32), rng.normal(size=(8, 8)).astype(np.float32)
    i = rng.integers(0, 16, (8, 8)).astype(np.int32)
    wide = rng.integers(0, 16, (8, 32)).astype(np.int32)
    row = rng.integers(0, 16, (1, 8)).astype(np.int32)

    def out(*shape: int) -> Array:
        return np.full(shape, -7, np.float32)

    extreme = (-1, 2**31 - 1, -(2**31))
    return [
        Case(along_rows, (x, i, out(8, 8)), 1, (32, *extreme)),
        Case(down_columns, (x, wide, out(8, 32)), 1, (16, *extreme)),
        Case(elements, (x, i, out(8, 8)), 1, (512, *extreme)),
        Case(valid_elements, (x, i, out(8, 8)), 1, (9 * 32, 20, 511)),
        Case(unused, (x, i, out(16, 32)), 1, (512, *extreme)),
        Case(rows, (x, row, out(8, 32)), 1, (16, *extreme)),
        Case(blocks, (x, (row * 32).astype(np.uint32), out(1, 64)), 1, (2048, 31, 2**32 - 32)),
        Case(scattered_rows, (x, i, v, out(16, 32)), 1, (32, *extreme)),
        Case(scattered, (x, i, v, out(16, 32)), 1, (512, *extreme)),
        Case(updated, (x, row, rng.normal(size=(8, 32)).astype(np.float32), out(16, 32)), 1, (16, -1)),
        Case(written, (v, i, out(100)), 1, (100, *extreme)),
        Case(paged, (x, row, np.array([[7, 2, 0, 3, 5, 1, 6, 4]], np.int32), out(8, 32)), 1, (16, *extreme)),
        Case(turned, (x, out(32, 16)), 0, ()),
        Case(compared, (x, np.zeros((16, 8), np.int32), np.zeros((1, 16), np.int32)), 0, ()),
        Case(merged, (rng.normal(size=(1, 128)).astype(np.float32), np.arange(128, dtype=np.uint32)[None], out(1, 512)), 1, ()),
    ]


CASES = _cases()


def wrong_calls(case: Case) -> list[tuple[Array, ...]]:
    """The arguments with one element of the index, the last, replaced by each wrong number."""
    made = []
    for number in case.wrong:
        args = [a.copy() for a in case.arguments]
        args[case.index][-1, -1] = number
        made.append(tuple(args))
    return made


def main() -> None:
    for case in CASES:
        case.kernel(*(a.copy() for a in case.arguments))
        for args in wrong_calls(case):
            try:
                case.kernel(*args)
            except KernelBoundsError:
                continue
            raise SystemExit(f"{case.kernel.__name__}: {args[case.index][-1, -1]} was accepted")


if __name__ == "__main__":
    main()
