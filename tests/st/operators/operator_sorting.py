"""Sorting and merging: applications of the operators, and what they give, by insertion and by taking the first head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import operator_data as data
from operator_kit import ASSEMBLE
from test_operator_moves import SHAPE, Array, Made, Maker

from pypto.dtypes import DataType

D = DataType


def _before(a: Any, b: Any) -> bool:
    """NaN before numbers, larger before smaller."""
    return bool(np.isnan(a) and not np.isnan(b)) or bool(a > b)


def _pair_list(row: Array) -> list[Array]:
    width = 8 // row.itemsize
    return list(row.reshape(-1, width))


def _sorted_pairs(x: Array, index: Array) -> Array:
    """Blocks of 32 by insertion, then pairs of 8 bytes."""
    made = np.zeros((*x.shape, 8 // x.itemsize), x.dtype)
    for r in range(x.shape[0]):
        for at in range(0, x.shape[1], 32):
            block: list[tuple[Any, int]] = []
            for v, i in zip(x[r, at : at + 32], index[r, at : at + 32], strict=True):
                k = 0
                while k < len(block) and (_before(block[k][0], v) or (not _before(v, block[k][0]) and block[k][1] <= i)):
                    k += 1
                block.insert(k, (v, i))
            for n, (v, i) in enumerate(block):
                made[r, at + n, 0] = v
                made[r, at + n].view(np.uint32)[1] = i
    return made.reshape(x.shape[0], -1)


def _merge(lists: list[list[Array]], until_one_ends: bool = False) -> Array:
    width, total = len(next(p for x in lists for p in x)), sum(map(len, lists))
    lists, made = [list(x) for x in lists], []
    while any(lists) and not (until_one_ends and not all(lists)):
        best = next(x for x in lists if x)
        for x in lists:
            if x and _before(x[0][0], best[0][0]):
                best = x
        made.append(best.pop(0))
    rest = [np.zeros(width, made[0].dtype if made else np.float32)] * (total - len(made))
    return np.concatenate(made + rest)


def sort32(m: Maker, level: str = "tile") -> Made:
    if m.dtype not in (D.FP32, D.FP16):
        return
    n = 32 if m.dtype is D.FP32 else 16
    width = 8 // m.dtype.get_byte()
    if m.dtype is D.FP16:
        n = 32  # of which 24 pairs would fill the output's columns: stored in two parts
        whole_ = ("t$ = pl.load(x, [0, 0], [32, 32])", "u$ = pl.load(e, [0, 0], [32, 32])", "s$ = pl.tile.sort32(t$, u$)")
        for at in (0, 64):
            want = lambda a, at=at: _sorted_pairs(a["x"][:, :32], a["e"][:, :32])[:, at : at + 64]  # noqa: E731
            yield m(f"pl.slice(s$, [32, 64], [0, {at}])", (32, 64), want, *whole_)
        return
    for rows in ("32", "i"):
        parts = (f"t$ = pl.load(x, [0, 3], [32, 32], [{rows}, 32])", f"u$ = pl.load(e, [0, 0], [32, {n}])")
        want = lambda a, rows=rows: _sorted_pairs(a["x"][:, 3:35], a["e"][:, :32])[: a.get(rows, 32)]  # noqa: E731
        yield m("pl.sort32(t$, u$)", (32, n * width), want, *parts)


def tensor_sort32(m: Maker) -> Made:
    if m.dtype is D.FP32:
        value = "pl.sort32(pl.slice(x, [32, 32], [0, 3]), pl.slice(e, [32, 32], [0, 0]))"
        yield m(value, (32, 64), lambda a: _sorted_pairs(a["x"][:, 3:35], a["e"][:, :32]), store=ASSEMBLE)


def _runs(x: Array, length: int, cols: int) -> Array:
    made = x[:, :cols].copy()
    for r in range(made.shape[0]):
        for at in range(0, cols, 4 * length):
            group = x[r, at : min(at + 4 * length, cols)]
            made[r, at : at + len(group)] = _merge([_pair_list(group[k : k + length]) for k in range(0, len(group), length)])
    return made


def merge_runs(m: Maker, store: str = "", source: str = "pl.load(z, [0, 0], [4, 1024])") -> Made:
    """Of sorted runs in z, and of what is not sorted at all."""
    if m.dtype not in (D.FP32, D.FP16):
        return
    more = {"store": store} if store else {}
    for length in (64, 128, 512):
        for at in (0, 512, 928):
            want = lambda a, length=length, at=at: _runs(a["z"], length, 1024)[:, at : at + 96]  # noqa: E731
            cut = f"pl.slice(s$, [4, 96], [0, {at}])"
            yield m(cut, (4, 96), want, f"s$ = pl.mrgsort({source}, block_len={length})", **more)


def tensor_merge_runs(m: Maker) -> Made:
    return merge_runs(m, ASSEMBLE, "pl.slice(z, [4, 1024], [0, 0])")


def merge_lists(m: Maker, level: str = "tile") -> Made:
    if m.dtype not in (D.FP32, D.FP16):
        return
    w = 8 // m.dtype.get_byte()
    take = "pl.load(z, [0, {}], [4, {}])" if level == "tile" else "pl.slice(z, [4, {1}], [0, {0}])"
    kept = {} if level == "tile" else {"store": ASSEMBLE}
    for sizes in ((32, 64), (32, 16, 48), (16, 32, 16, 32)):
        for exhausted in (False, True):

            def want(a: Any, sizes: Any = sizes, exhausted: bool = exhausted) -> Array:
                rows = []
                for r in range(4):
                    lists = [_pair_list(a["z"][r, 64 * k : 64 * k + n]) for k, n in enumerate(sizes)]
                    rows.append(_merge(lists, exhausted))
                return np.stack(rows).astype(m.dtype.numpy())

            lists = ", ".join(take.format(64 * k, n) for k, n in enumerate(sizes))
            tmp = f", tmp=pl.create_tile([4, {sum(sizes)}], dtype=pl.{m.dtype.name})" if level == "tile" else ""
            yield m(f"pl.mrgsort({lists}{tmp}, exhausted={exhausted})", (4, sum(sizes)), want, **kept)
    if level == "tile":
        parts = (f"t$ = pl.load(z, [0, 0], [4, 32], [3, {4 * w}])", f"u$ = pl.load(z, [0, 64], [4, 64], [4, i * {w}])")

        def some(a: Any) -> Array:
            lists = [[_pair_list(a["z"][r, : 4 * w]), _pair_list(a["z"][r, 64 : 64 + w * a["i"]])] for r in range(3)]
            return np.stack([_merge(x) for x in lists])

        yield m(f"pl.mrgsort(t$, u$, tmp=pl.create_tile([4, 96], dtype=pl.{m.dtype.name}))", (4, 96), some, *parts)


def tensor_merge_lists(m: Maker) -> Made:
    return merge_lists(m, "tensor")


def runs_to_merge(dtype: DataType) -> dict[str, tuple[tuple[int, ...], DataType, Array]]:
    """z: pairs in sorted runs of 64 elements, in the last row none that is sorted."""
    if dtype not in (D.FP32, D.FP16):
        return {}
    width = 8 // dtype.get_byte()
    x, _ = data.pair(dtype, SHAPE, 11)
    values = np.resize(x.reshape(-1), (4, 1024 // width))
    values[0, ::3] = 1
    order = np.argsort(np.where(np.isnan(values), -np.inf, -values.astype(np.float64)).reshape(4, -1, 64 // width), -1, "stable")
    runs = np.take_along_axis(values.reshape(4, -1, 64 // width), order, -1).reshape(4, -1)
    runs[3] = values[3]
    pairs = np.zeros((4, 1024 // width, width), dtype.numpy())
    pairs[..., 0] = runs
    pairs[..., 1:] = np.arange(pairs[..., 1:].size).reshape(pairs[..., 1:].shape) % 997
    return {"z": ((4, 1024), dtype, pairs.reshape(4, 1024))}


SORTED: dict[str, Callable[[Maker], Made]] = {
    "tile.sort32": sort32,
    "tensor.sort32": tensor_sort32,
    "tile.mrgsort_format1": merge_runs,
    "tensor.mrgsort_format1": tensor_merge_runs,
    "tile.mrgsort_format2": merge_lists,
    "tensor.mrgsort_format2": tensor_merge_lists,
}
