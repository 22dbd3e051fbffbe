"""Operators that move, alias, fill or query: each gives the bytes it should, for every dtype that moves.

`MOVES` says for each operator which applications are tried; the table decides that none is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import operator_data as data
import pytest
from operator_kit import ASSEMBLE, OPTIMIZED, PLAIN, WITHOUT_BUFFERS, Arguments, Result, Unit, check, sentinel

from pypto.dtypes import DataType
from pypto.ir import ops
from pypto.ir.opdef import Special
from pypto.ir.ops.rules import MOVABLE

Array = Any
D = DataType
SHAPE = ROWS, COLUMNS = 32, 96
# Storage as printed programs name it; nobody writes it.
UNWRITTEN = frozenset({"tile.alloc", "tensor.alloc", "tile.expect_written"})
# Tiles in boxes, halves of lanes, pipes between cores, random words: test_matmul.py, programs/test_vector_lanes.py, the tests of
# pipes and test_operator_random.py have them.
ELSEWHERE = frozenset(
    (
        "tile.transpose_view",
        *(f"tile.t{n}" for n in ("push_to_aic", "push_to_aiv", "pop_from_aic", "pop_from_aiv")),
        *(f"{level}.random" for level in ("tensor", "tile")),
        *(f"{level}.{n}" for level in ("tensor", "tile") for n in ("aiv_shard", "aic_gather")),
    )
)
# What at least one kernel of FP32 does with buffers.
AS_BUFFERS = frozenset(
    f"tile.{name}"
    for name in ("load", "store", "move", "slice", "assemble", "reshape", "reinterpret_view", "set_validshape", "full", "create")
) | {"tile.get_block_idx", "tile.get_block_num", "tile.get_subblock_idx"}
ATOMIC = frozenset({D.FP32, D.FP16, D.BF16, D.INT32, D.INT16, D.INT8})
Made = Iterator[Result]


class Maker:
    """Results of one operator for one dtype; names are made unique per result."""

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype
        self.count = 0

    def __call__(
        self,
        value: str,
        shape: tuple[int, int],
        want: Callable[[Arguments], Array],
        *lines: str,
        dtype: DataType | None = None,
        **more: Any,
    ) -> Result:
        """`value` and `lines` name their variables with a trailing $, which becomes a number."""
        self.count += 1
        dtype = dtype or self.dtype
        mark = str(self.count)
        text = value.replace("$", mark)
        made = tuple(s.replace("$", mark) for s in lines)
        return Result(f"{dtype}: {'; '.join((*made, text))}", made, text, dtype, shape, want, **more)


def whole(name: str = "x") -> str:
    return f"t$ = pl.load({name}, [0, 0], [32, 96])"


# -- transfers -----------------------------------------------------------------------------------------------------------


def load(m: Maker) -> Made:
    yield m("pl.load(x, [3, 32], [16, 32])", (16, 32), lambda a: a["x"][3:19, 32:64])
    yield m("pl.load(x, [5, 7], [16, 32], [9, 21])", (16, 32), lambda a: a["x"][5:14, 7:28])
    yield m("pl.load(x, [i, j], [16, 32], [i, j])", (16, 32), lambda a: a["x"][a["i"] : 2 * a["i"], a["j"] : 2 * a["j"]])
    yield m("pl.load(x, [28, 80], [16, 32], clamp=True)", (16, 32), lambda a: a["x"][28:, 80:])
    yield m("pl.load(x, [i, 90], [32, 32], clamp=True)", (32, 32), lambda a: a["x"][a["i"] :, 90:])
    yield m("pl.load(x, [0, 5], [32, 1])", (32, 1), lambda a: a["x"][:, 5:6])
    yield m("pl.load(x, [7, 0], [1, 96])", (1, 96), lambda a: a["x"][7:8])


def store(m: Maker) -> Made:
    cut = "pl.store({value}, [{row}, 0], {out}, [8, 16])"
    yield m("t$", SHAPE, lambda a: a["x"][:8, :16], whole(), store=cut)
    right = "pl.store({value}, [{row} + i, 64], {out})"
    # The window begins i rows down and 64 columns to the right: what is left of it is not written.
    yield m("pl.load(x, [0, 0], [8, 32])", SHAPE, lambda a: _placed(m, a["x"][:8, :32], a["i"], 64), store=right)
    if m.dtype in ATOMIC:
        add = "pl.store({value}, [{row}, 0], {out}, atomic=pl.AtomicType.Add)"
        yield m("t$", SHAPE, lambda a: _added(a["x"]), whole(), store=add)


def _placed(m: Maker, part: Array, row: int, col: int) -> Array:
    made = np.full((row + part.shape[0], col + part.shape[1]), sentinel(m.dtype), part.dtype)
    made[row:, col:] = part
    return made


def _added(x: Array) -> Array:
    """To what the output held."""
    held = np.full(x.shape, 77 if x.dtype.kind in "iu" else -776.0, x.dtype)
    with np.errstate(all="ignore"):
        if x.dtype.kind in "iu":
            return held + x
        return (held.astype(np.float32) + x.astype(np.float32)).astype(x.dtype)


def move(m: Maker) -> Made:
    yield m("pl.move(t$, target_memory=pl.Mem.Vec)", SHAPE, lambda a: a["x"], whole())
    part = "t$ = pl.load(x, [0, 0], [32, 96], [i, j])"
    yield m("pl.move(t$, target_memory=pl.Mem.Vec)", SHAPE, lambda a: a["x"][: a["i"], : a["j"]], part)


def extract(m: Maker) -> Made:
    to = "target_memory=pl.Mem.Vec"
    yield m(f"pl.tile.extract(t$, 2, 32, [8, 32], {to})", (8, 32), lambda a: a["x"][2:10, 32:64], whole())
    yield m(f"pl.tile.extract(t$, 2, 5, [8, 32], {to})", (8, 32), lambda a: a["x"][2:10, 5:37], whole())
    part = "t$ = pl.load(x, [0, 0], [32, 96], [20, 50])"
    yield m(f"pl.tile.extract(t$, 16, 32, [8, 32], {to})", (8, 32), lambda a: a["x"][16:20, 32:50], part)
    yield m(
        f"pl.tile.extract(t$, i, j, [8, 32], {to})", (8, 32), lambda a: a["x"][a["i"] : a["i"] + 8, a["j"] : a["j"] + 32], whole()
    )


# -- windows and relabels ------------------------------------------------------------------------------------------------


def tile_slice(m: Maker) -> Made:
    yield m("pl.tile.slice(t$, [8, 32], [4, 32])", (8, 32), lambda a: a["x"][4:12, 32:64], whole())
    part = "t$ = pl.load(x, [0, 0], [32, 96], [21, 77])"
    yield m("pl.tile.slice(t$, [16, 64], [8, 32])", (16, 64), lambda a: a["x"][8:21, 32:77], part)
    yield m("pl.tile.slice(t$, [16, 64], [8, 32], valid_shape=[3, 60])", (16, 64), lambda a: a["x"][8:11, 32:77], part)
    yield m("pl.tile.slice(t$, [16, 32], [i, 64])", (16, 32), lambda a: a["x"][a["i"] : a["i"] + 16, 64:], whole())
    yield m(
        "pl.tile.slice(u$, [4, 32], [3, 0])",
        (4, 32),
        lambda a: a["x"][7:11, 32:64],
        whole(),
        "u$ = pl.tile.slice(t$, [8, 32], [4, 32])",
    )


def tensor_slice(m: Maker) -> Made:
    yield m("pl.tensor.slice(x, [8, 32], [4, 7])", (8, 32), lambda a: a["x"][4:12, 7:39], store=ASSEMBLE)
    yield m("pl.tensor.slice(x, [8, 32], [4, 7], valid_shape=[3, 20])", (8, 32), lambda a: a["x"][4:7, 7:27], store=ASSEMBLE)
    yield m(
        "pl.tensor.slice(x, [16, 32], [i, j], valid_shape=[i, j])",
        (16, 32),
        lambda a: a["x"][a["i"] : 2 * a["i"], a["j"] : 2 * a["j"]],
        store=ASSEMBLE,
    )
    yield m("pl.tensor.slice(x, [16, 32], [28, 80], clamp=True)", (16, 32), lambda a: a["x"][28:, 80:], store=ASSEMBLE)
    line = "pl.reshape(pl.tensor.slice(x, [1, 32], [3, 7], drop_dims=[0]), [1, 32])"
    yield m(line, (1, 32), lambda a: a["x"][3:4, 7:39], store=ASSEMBLE)


def tile_assemble(m: Maker) -> Made:
    parts = (whole(), "u$ = pl.load(y, [0, 0], [8, 32])")
    yield m("pl.tile.assemble(t$, u$, [8, 32])", SHAPE, lambda a: _inserted(a["x"], a["y"][:8, :32], 8, 32), *parts)
    yield m("pl.tile.assemble(t$, u$, [i, 64])", SHAPE, lambda a: _inserted(a["x"], a["y"][:8, :32], a["i"], 64), *parts)
    grows = ("t$ = pl.load(x, [0, 0], [32, 96], [8, 96])", "u$ = pl.load(y, [0, 0], [8, 96])")
    yield m("pl.tile.assemble(t$, u$, [8, 0])", SHAPE, lambda a: np.concatenate([a["x"][:8], a["y"][:8]]), *grows)


def tensor_assemble(m: Maker) -> Made:
    yield m(
        "pl.tensor.slice(x, [8, 32], [0, 0])",
        SHAPE,
        lambda a: _placed(m, a["x"][:8, :32], 0, 64),
        store="pl.tensor.assemble({out}, {value}, [{row}, 64])",
    )
    if m.dtype in ATOMIC:
        add = "pl.tensor.assemble({out}, {value}, [{row}, 0], atomic=pl.AtomicType.Add)"
        yield m("pl.tensor.slice(x, [32, 96], [0, 0])", SHAPE, lambda a: _added(a["x"]), store=add)


def _inserted(x: Array, part: Array, row: int, col: int) -> Array:
    made = x.copy()
    made[row : row + part.shape[0], col : col + part.shape[1]] = part
    return made


def tile_reshape(m: Maker) -> Made:
    yield m("pl.tile.reshape(t$, [96, 32])", (96, 32), lambda a: a["x"].reshape(96, 32), whole())
    yield m(
        "pl.tile.reshape(t$, [96, 32])",
        (96, 32),
        lambda a: a["x"][:16].reshape(48, 32),
        "t$ = pl.load(x, [0, 0], [32, 96], [16, 96])",
    )
    yield m("pl.tile.reshape(t$, [1, 32])", (1, 32), lambda a: a["x"][:, 3:4].T, "t$ = pl.load(x, [0, 3], [32, 1])")
    yield m("pl.tile.reshape(t$, [32, 1])", (32, 1), lambda a: a["x"][3:4, :32].T, "t$ = pl.load(x, [3, 0], [1, 32])")


def tensor_reshape(m: Maker) -> Made:
    yield m("pl.tensor.reshape(x, [96, 32])", (96, 32), lambda a: a["x"].reshape(96, 32), store=ASSEMBLE)
    yield m("pl.tensor.reshape(pl.slice(x, [32, 1], [0, 3]), [1, 32])", (1, 32), lambda a: a["x"][:, 3:4].T, store=ASSEMBLE)


_SAME_WIDTH = {1: D.UINT8, 2: D.INT16, 4: D.INT32, 8: D.INT64}


def _reinterpreted(m: Maker, level: str) -> Made:
    size = m.dtype.get_byte()
    n = COLUMNS // size
    source, kept = (f"pl.load(x, [0, 0], [32, {n}])", "") if level == "tile" else (f"pl.slice(x, [32, {n}], [0, 0])", ASSEMBLE)
    more = {"store": kept} if kept else {}
    for target in {_SAME_WIDTH[size], D.UINT8, D.FP32, D.UINT16} - {m.dtype}:
        columns = COLUMNS // target.get_byte()
        yield m(
            f"pl.{level}.reinterpret_view(t$, pl.{target.name})",
            (32, columns),
            lambda a, target=target: np.ascontiguousarray(a["x"][:, :n]).view(np.uint8).view(target.numpy()),
            f"t$ = {source}",
            dtype=target,
            **more,
        )
    target = _SAME_WIDTH[size] if _SAME_WIDTH[size] is not m.dtype else D.UINT32 if size == 4 else D.UINT8
    if target is not m.dtype and target.get_byte() == size:
        yield m(
            f"pl.{level}.reinterpret_view(t$, pl.{target.name}, shape=[{n}, 32])",
            (n, 32),
            lambda a: np.ascontiguousarray(a["x"][:, :n]).view(target.numpy()).reshape(n, 32),
            f"t$ = {source}",
            dtype=target,
            **more,
        )


def tile_reinterpret(m: Maker) -> Made:
    return _reinterpreted(m, "tile")


def tensor_reinterpret(m: Maker) -> Made:
    return _reinterpreted(m, "tensor")


def tile_set_validshape(m: Maker) -> Made:
    yield m("pl.tile.set_validshape(t$, 5, 9)", SHAPE, lambda a: a["x"][:5, :9], whole())
    yield m("pl.tile.set_validshape(t$, i, j)", SHAPE, lambda a: a["x"][: a["i"], : a["j"]], whole())


def tensor_set_validshape(m: Maker) -> Made:
    yield m("pl.tensor.set_validshape(pl.slice(x, [32, 96], [0, 0]), 5, 9)", SHAPE, lambda a: a["x"][:5, :9], store=ASSEMBLE)
    yield m(
        "pl.tensor.set_validshape(pl.slice(x, [32, 96], [0, 0]), i, j)",
        SHAPE,
        lambda a: a["x"][: a["i"], : a["j"]],
        store=ASSEMBLE,
    )


# -- fills ---------------------------------------------------------------------------------------------------------------


def _padded(x: Array, rows: int, columns: int, pad: str) -> Array:
    if x.dtype.kind in "iu":
        value: Any = {"zero": 0, "max": np.iinfo(x.dtype).max, "min": np.iinfo(x.dtype).min}[pad]
    else:
        value = {"zero": 0, "max": 1, "min": 0}[pad] if x.dtype.kind == "b" else {"zero": 0.0, "max": np.inf, "min": -np.inf}[pad]
    made = np.full(x.shape, value, x.dtype)
    made[:rows, :columns] = x[:rows, :columns]
    return made


def tile_fillpad(m: Maker) -> Made:
    for valid in ((21, 96), (32, 77), (9, 33), ("i", "j")):
        for pad in ("zero", "max", "min"):
            yield m(
                f"pl.tile.fillpad(t$, pad_value=pl.PadValue.{pad})",
                SHAPE,
                lambda a, valid=valid, pad=pad: _padded(a["x"], *(a.get(v, v) for v in valid), pad),
                f"t$ = pl.load(x, [0, 0], [32, 96], [{valid[0]}, {valid[1]}])",
            )


def tensor_fillpad(m: Maker) -> Made:
    for pad in ("zero", "max", "min"):
        yield m(
            f"pl.tensor.fillpad(pl.slice(x, [32, 96], [0, 0], valid_shape=[i, 77]), pad_value=pl.PadValue.{pad})",
            SHAPE,
            lambda a, pad=pad: _padded(a["x"], a["i"], 77, pad),
            store=ASSEMBLE,
        )


def tile_fillpad_inplace(m: Maker) -> Made:
    for valid in ((21, 96), (32, 77), ("i", "j")):
        for pad in ("zero", "max", "min"):
            yield m(
                "t$",
                SHAPE,
                lambda a, valid=valid, pad=pad: _padded(a["x"], *(a.get(v, v) for v in valid), pad),
                f"t$ = pl.load(x, [0, 0], [32, 96], [{valid[0]}, {valid[1]}])",
                f"t$ = pl.tile.fillpad_inplace(t$, pad_value=pl.PadValue.{pad})",
            )
    yield m(
        "t$",
        SHAPE,
        lambda a: _inserted(a["x"], _padded(a["x"][4:12, 32:64], a["i"] % 9, 7, "max"), 4, 32),
        whole(),
        "w$ = pl.tile.slice(t$, [8, 32], [4, 32], valid_shape=[i % 9, 7])",
        "w$ = pl.tile.fillpad_inplace(w$, pad_value=pl.PadValue.max)",
        "t$ = pl.tile.assemble(t$, w$, [4, 32])",
    )


def fillpad_expand(m: Maker, level: str, **more: Any) -> Made:
    def larger(x: Array, rows: int, columns: int, pad: str, shape: tuple[int, int]) -> Array:
        return _padded(np.pad(x, ((0, shape[0] - x.shape[0]), (0, shape[1] - x.shape[1]))), rows, columns, pad)

    for valid in ((16, 64), (9, 33), ("i", "j")):
        for pad, shape in (("zero", (32, 96)), ("max", (16, 96)), ("min", (24, 64))):
            window = (
                "pl.load(x, [2, 3], [16, 64], [{}, {}])"
                if level == "tile"
                else "pl.slice(x, [16, 64], [2, 3], valid_shape=[{}, {}])"
            )
            yield m(
                f"pl.{level}.fillpad_expand({window.format(*valid)}, {list(shape)}, pad_value=pl.PadValue.{pad})",
                shape,
                lambda a, valid=valid, pad=pad, shape=shape: larger(
                    a["x"][2:18, 3:67], *(a.get(v, v) for v in valid), pad, shape
                ),
                **more,
            )


# -- made out of numbers -------------------------------------------------------------------------------------------------


def arange(m: Maker, level: str, **more: Any) -> Made:
    if m.dtype not in (D.INT32, D.INT16, D.UINT32, D.UINT16):
        return
    name, info = m.dtype.name, np.iinfo(m.dtype.numpy())

    def counted(start: int, step: int) -> Array:
        return (start + step * np.arange(96, dtype=np.int64)).astype(m.dtype.numpy())[None, :]

    for start in (0, 5, int(info.max) - 3):
        for down, step in (("", 1), (", descending=True", -1)):
            yield m(
                f"pl.{level}.ci(pl.const({start}, pl.{name}), [1, 96], dtype=pl.{name}{down})",
                (1, 96),
                lambda _, start=start, step=step: counted(start, step),
                **more,
            )
    yield m(
        f"pl.{level}.ci(pl.read(x, [i, j]), [1, 96], dtype=pl.{name})",
        (1, 96),
        lambda a: counted(int(a["x"][a["i"], a["j"]]), 1),
        **more,
    )


def tri(m: Maker) -> Made:
    if m.dtype is D.BOOL or m.dtype.get_byte() == 8:
        return

    def triangle(diagonal: int, upper: bool, rows: int = ROWS, columns: int = COLUMNS) -> Array:
        return (np.triu if upper else np.tril)(np.ones(SHAPE), diagonal)[:rows, :columns].astype(m.dtype.numpy())

    name = m.dtype.name
    for upper in (False, True):
        for diagonal in (0, 1, -1, 40, -40, 200, -200):
            yield m(
                f"pl.tile.tri({diagonal}, [32, 96], dtype=pl.{name}, upper={upper})",
                SHAPE,
                lambda _, d=diagonal, upper=upper: triangle(d, upper),
            )
        yield m(
            f"pl.tri(pl.cast(j, pl.INT32) - 10, [32, 96], valid_shape=[i, j], dtype=pl.{name}, upper={upper})",
            SHAPE,
            lambda a, upper=upper: triangle(a["j"] - 10, upper, a["i"], a["j"]),
        )


def _full(m: Maker, level: str, **more: Any) -> Made:
    values: tuple[Any, ...] = (
        (0.1, -1e30, float("inf"), 0) if m.dtype.is_float() else (True, False) if m.dtype is D.BOOL else (3, 0)
    )
    for value in values:
        text = 'float("inf")' if value == float("inf") else repr(value)
        with np.errstate(all="ignore"):
            made = np.full(SHAPE, value, np.float64 if m.dtype.is_float() else None).astype(m.dtype.numpy())
        yield m(f"pl.{level}.full([32, 96], dtype=pl.{m.dtype.name}, value={text})", SHAPE, lambda _, made=made: made, **more)


def tile_full(m: Maker) -> Made:
    return _full(m, "tile")


def tensor_full(m: Maker) -> Made:
    return _full(m, "tensor", store=ASSEMBLE)


def tile_create(m: Maker) -> Made:
    make = f"u$ = pl.tile.create([32, 96], dtype=pl.{m.dtype.name})"
    yield m("pl.tile.assemble(u$, t$, [0, 0])", SHAPE, lambda a: a["x"], make, whole())


def tensor_create(m: Maker) -> Made:
    make = f"u$ = pl.tensor.create([32, 96], dtype=pl.{m.dtype.name})"
    yield m("pl.assemble(u$, pl.slice(x, [32, 96], [0, 0]), [0, 0])", SHAPE, lambda a: a["x"], make, store=ASSEMBLE)


# -- elements and queries ------------------------------------------------------------------------------------------------

_ELEMENT = "pl.write({out}, [{row}, 0], {value})"


def tile_read(m: Maker) -> Made:
    yield m("pl.tile.read(t$, [3, 5])", (1, 1), lambda a: a["x"][3:4, 5:6], whole(), store=_ELEMENT)
    yield m("pl.tile.read(t$, [i, j])", (1, 1), lambda a: a["x"][a["i"], a["j"]].reshape(1, 1), whole(), store=_ELEMENT)


def tensor_read(m: Maker) -> Made:
    yield m("pl.tensor.read(x, [3, 5])", (1, 1), lambda a: a["x"][3:4, 5:6], store=_ELEMENT)
    yield m("pl.tensor.read(x, [i, j])", (1, 1), lambda a: a["x"][a["i"], a["j"]].reshape(1, 1), store=_ELEMENT)


def tile_write(m: Maker) -> Made:
    changed = "t$ = pl.tile.write(t$, [i, j], pl.read(y, [1, 2]))"
    yield m("t$", SHAPE, lambda a: _inserted(a["x"], a["y"][1:2, 2:3], a["i"], a["j"]), whole(), changed)


def tensor_write(m: Maker) -> Made:
    element = "pl.tensor.write({out}, [{row} + i, 5], {value})"
    yield m("pl.read(y, [1, 2])", SHAPE, lambda a: _placed(m, a["y"][1:2, 2:3], a["i"], 5), store=element)


def _query(text: str, value: int) -> Callable[[Maker], Made]:
    """As a number, and as an offset."""

    def make(m: Maker) -> Made:
        yield m(f"pl.cast({text}, pl.INT32)", (1, 1), lambda _: np.full((1, 1), value, np.int32), dtype=D.INT32, store=_ELEMENT)
        row = value % ROWS
        offset = text if row == value else f"{text} - {value - row}"
        yield m(f"pl.load(x, [{offset}, 0], [16, 32])", (16, 32), lambda a: a["x"][row : row + 16, :32])

    return make


MOVES: dict[str, Callable[[Maker], Made]] = {
    "tile.load": load,
    "tile.store": store,
    "tile.move": move,
    "tile.extract": extract,
    "tile.slice": tile_slice,
    "tensor.slice": tensor_slice,
    "tile.assemble": tile_assemble,
    "tensor.assemble": tensor_assemble,
    "tile.reshape": tile_reshape,
    "tensor.reshape": tensor_reshape,
    "tile.reinterpret_view": tile_reinterpret,
    "tensor.reinterpret_view": tensor_reinterpret,
    "tile.set_validshape": tile_set_validshape,
    "tensor.set_validshape": tensor_set_validshape,
    "tile.fillpad": tile_fillpad,
    "tensor.fillpad": tensor_fillpad,
    "tile.fillpad_inplace": tile_fillpad_inplace,
    "tile.fillpad_expand": lambda m: fillpad_expand(m, "tile"),
    "tensor.fillpad_expand": lambda m: fillpad_expand(m, "tensor", store=ASSEMBLE),
    "tensor.expand_clone": lambda _: iter(()),  # of three dimensions: test_operator_clone
    "tile.ci": lambda m: arange(m, "tile"),
    "tensor.ci": lambda m: arange(m, "tensor", store=ASSEMBLE),
    "tile.tri": tri,
    "tile.full": tile_full,
    "tensor.full": tensor_full,
    "tile.create": tile_create,
    "tensor.create": tensor_create,
    "tile.read": tile_read,
    "tensor.read": tensor_read,
    "tile.write": tile_write,
    "tensor.write": tensor_write,
    "tensor.dim": _query("pl.tensor.dim(x, 1)", COLUMNS),
    **{f"{level}.get_block_idx": _query(f"pl.{level}.get_block_idx()", 0) for level in ("tensor", "tile")},
    **{f"{level}.get_block_num": _query(f"pl.{level}.get_block_num()", 1) for level in ("tensor", "tile")},
    **{f"{level}.get_subblock_idx": _query(f"pl.{level}.get_subblock_idx()", 0) for level in ("tensor", "tile")},
}


def test_no_operator_is_forgotten() -> None:
    from test_operator_indexing import INDEXED  # it imports from here
    from test_operator_paging import PAGED

    moving = {op.name for op in ops.ALL if op.level in ("tile", "tensor") and isinstance(op.semantics, Special)}
    assert moving - UNWRITTEN - ELSEWHERE == set(MOVES) | set(INDEXED) | PAGED, "say in MOVES what the operator gives"
    assert moving >= UNWRITTEN | ELSEWHERE


@pytest.mark.parametrize("dtype", MOVABLE, ids=lambda d: d.name)
def test_moves(dtype: DataType, tmp_path: Any) -> None:
    x, y = data.pair(dtype, SHAPE, 8)
    calls = [{"x": x, "y": y, "i": i, "j": j} for i, j in ((3, 9), (0, 0), (15, 31), (1, 16))]
    m = Maker(dtype)
    inputs = {"x": (SHAPE, dtype), "y": (SHAPE, dtype), "i": ((), D.INDEX), "j": ((), D.INDEX)}
    made = [(name, r) for name, make in MOVES.items() for r in make(m)]
    unit = Unit(f"moves_{dtype.name.lower()}", inputs, [[r] for _, r in made])
    found = {made[k][0] for k in check(unit, tmp_path, calls, ways=(OPTIMIZED, PLAIN, WITHOUT_BUFFERS[1]), interpreted=(0, 1))}
    assert found >= (AS_BUFFERS if dtype is D.FP32 else set())
