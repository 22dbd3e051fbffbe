"""Columns that compare with a value: applications of gather_compare, and what numpy finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from operator_kit import ASSEMBLE
from test_operator_moves import Array, Made, Maker

from pypto.dtypes import DataType

D = DataType
_MODES = ("eq", "ne", "lt", "le", "gt", "ge")
_NUMPY = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_VALUE = {D.FP32: "0.5", D.FP16: "0.5", D.INT32: "7", D.INT16: "7", D.UINT16: "7"}


def _found(x: Array, value: Any, mode: int, most: int, offset: int = 0) -> tuple[Array, Array]:
    """The columns, and how many they are."""
    columns, counts = np.zeros((len(x), most), np.int32), []
    for r, row in enumerate(x):
        hit = [c for c, v in enumerate(row) if _NUMPY[mode](v, row.dtype.type(value))][:most]
        columns[r, : len(hit)] = [c + offset for c in hit]
        counts.append(len(hit))
    return columns, np.array([counts], np.int32)


def _pair(m: Maker, lines: tuple[str, ...], x: Callable[[Any], Array], mode: int, most: int, offset: int, **more: Any) -> Made:
    value = float(_VALUE[m.dtype])
    for k, shape in ((0, (32, most)), (1, (1, 32))):
        yield m(
            f"{'pq'[k]}$",
            shape,
            lambda a, k=k: _found(x(a), value, mode, most, offset)[k],
            *(line.replace("p$, q$ =", ("p$, _ =", "_, q$ =")[k]) for line in lines),
            dtype=D.INT32,
            **more,
        )


def tile_compare(m: Maker) -> Made:
    if m.dtype not in _VALUE:
        return
    for mode in range(6):
        lines = (
            "t$ = pl.load(x, [0, 0], [32, 96], [i, 70])",
            f"w$ = pl.create_tile([32, 96], dtype=pl.{m.dtype.name})",
            f'p$, q$ = pl.tile.gather_compare(t$, {_VALUE[m.dtype]}, w$, cmp_mode="{_MODES[mode]}", out_cols=32, offset=5)',
        )
        yield from _pair(m, lines, lambda a: a["x"][: a["i"], :70], mode, 32, 5)


def tensor_compare(m: Maker) -> Made:
    if m.dtype in _VALUE:
        line = f"p$, q$ = pl.gather(pl.slice(x, [32, 96], [0, 0]), kvalue={_VALUE[m.dtype]}, cmp_mode=4, out_cols=64)"
        yield from _pair(m, (line,), lambda a: a["x"], 4, 64, 0, store=ASSEMBLE)


COMPARED: dict[str, Callable[[Maker], Made]] = {
    "tile.gather_compare": tile_compare,
    "tile.gather_compare_count": lambda m: iter(()),  # the second result of every one above
    "tensor.gather_compare": tensor_compare,
    "tensor.gather_compare_count": lambda m: iter(()),
}
