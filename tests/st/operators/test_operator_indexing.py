"""Operators that rearrange, and that read and write by index: what numpy gives, element by element.

`INDEXED` says for each operator which applications are tried; `test_operator_moves` decides that none is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lab
import numpy as np
import operator_data as data
import pytest
from operator_comparing import COMPARED
from operator_kit import ASSEMBLE, OPTIMIZED, PLAIN, Unit, check, sentinel
from operator_sorting import SORTED, runs_to_merge
from test_operator_moves import SHAPE, Array, Made, Maker, whole

import pypto.language as pl
from pypto.dtypes import DataType
from pypto.errors import KernelBoundsError
from pypto.ir.ops.rules import MOVABLE

D = DataType
BY_PLANNER = tuple(w for w in lab.ALL if w.buffers and not w.optimize)
GATHERED = (D.FP32, D.FP16, D.INT32, D.INT16)
SCATTERED = (D.FP32, D.INT32, D.UINT32, D.FP16, D.BF16, D.INT16, D.UINT16, D.INT8, D.UINT8)


def load(name: str, rows: int, cols: int, *valid: Any) -> str:
    extent = f", [{valid[0]}, {valid[1]}]" if valid else ""
    return f"pl.load({name}, [0, 0], [{rows}, {cols}]{extent})"


# -- whole values in another order ---------------------------------------------------------------------------------------


def tile_transpose(m: Maker) -> Made:
    yield m("pl.tile.transpose(t$, 0, 1)", (96, 32), lambda a: a["x"].T, whole())
    yield m("pl.transpose(t$, -1, -2)", (96, 32), lambda a: a["x"][:21, :77].T, f"t$ = {load('x', 32, 96, 21, 77)}")
    part = f"t$ = {load('x', 32, 96, 'i', 'j')}"
    yield m("pl.tile.transpose(t$, 1, 0)", (96, 32), lambda a: a["x"][: a["i"], : a["j"]].T, part)
    window = "u$ = pl.tile.slice(t$, [32, 32], [0, 64])"
    yield m("pl.tile.transpose(u$, 0, 1)", (32, 32), lambda a: a["x"][:, 64:].T, whole(), window)
    scratch = f"u$ = pl.create_tile([32, 96], dtype=pl.{m.dtype.name})"
    yield m("pl.tile.transpose(t$, 0, 1, u$)", (96, 32), lambda a: a["x"].T, whole(), scratch)


def tensor_transpose(m: Maker) -> Made:
    yield m("pl.tensor.transpose(pl.slice(x, [32, 96], [0, 0]), 0, 1)", (96, 32), lambda a: a["x"].T, store=ASSEMBLE)
    cut = "pl.transpose(pl.slice(x, [32, 96], [0, 0], valid_shape=[i, j]), 0, 1)"
    yield m(cut, (96, 32), lambda a: a["x"][: a["i"], : a["j"]].T, store=ASSEMBLE)


def tile_concat(m: Maker) -> Made:
    parts = (f"t$ = {load('x', 32, 32)}", f"u$ = {load('y', 32, 64)}")
    yield m("pl.tile.concat(t$, u$)", SHAPE, lambda a: np.concatenate([a["x"][:, :32], a["y"][:, :64]], 1), *parts)
    parts = (f"t$ = {load('x', 32, 32, 9, 5)}", f"u$ = {load('y', 32, 64, 21, 7)}")
    yield m("pl.concat(t$, u$)", SHAPE, lambda a: np.concatenate([a["x"][:9, :5], a["y"][:9, :7]], 1), *parts)
    parts = (f"t$ = {load('x', 32, 32, 'i', 'j')}", f"u$ = {load('y', 32, 64, 20, 'i')}")
    yield m(
        "pl.concat(t$, u$)", SHAPE, lambda a: np.concatenate([a["x"][: a["i"], : a["j"]], a["y"][: a["i"], : a["i"]]], 1), *parts
    )


def tensor_concat(m: Maker) -> Made:
    joined = "pl.concat(pl.slice(x, [32, 32], [0, 1]), pl.slice(y, [32, 64], [0, 5]))"
    yield m(joined, SHAPE, lambda a: np.concatenate([a["x"][:, 1:33], a["y"][:, 5:69]], 1), store=ASSEMBLE)


def tensor_view(m: Maker) -> Made:
    source = "pl.slice(x, [32, 96], [0, 0])"
    yield m(f"pl.tensor.view({source}, [96, 32])", (96, 32), lambda a: a["x"].reshape(96, 32), store=ASSEMBLE)
    part = f"pl.tensor.view({source}, [96, 32], [i, j])"
    yield m(part, (96, 32), lambda a: a["x"].reshape(96, 32)[: a["i"], : a["j"]], store=ASSEMBLE)


# -- gather --------------------------------------------------------------------------------------------------------------


def _flat(x: Array, index: Array) -> Array:
    """Elements of x in row-major order; 0 beyond it."""
    inside = (index >= 0) & (index < x.size)
    return np.where(inside, x.reshape(-1)[np.where(inside, index, 0)], np.zeros((), x.dtype))


def tile_gather(m: Maker) -> Made:
    if m.dtype in GATHERED:
        parts = (whole(), f"u$ = {load('f', 32, 32)}", "w$ = pl.create_tile([32, 32], dtype=pl.INT32)")
        yield m("pl.tile.gather(t$, u$, w$)", (32, 32), lambda a: _flat(a["x"], a["f"][:, :32]), *parts)
        parts = (whole(), f"u$ = {load('f', 32, 32, 'i', 'j')}", "w$ = pl.create_tile([32, 32], dtype=pl.INT32)")
        yield m("pl.tile.gather(t$, u$, w$)", (32, 32), lambda a: _flat(a["x"], a["f"][: a["i"], : a["j"]]), *parts)
        parts = (whole(), "s$ = pl.slice(t$, [8, 32], [3, 32])", f"u$ = {load('o', 8, 16)}")
        scratch = "w$ = pl.create_tile([8, 16], dtype=pl.INT32)"
        wild = "pl.tile.gather(s$, u$, w$)"
        yield m(wild, (8, 16), lambda a: _flat(a["x"][3:11, 32:64].copy(), a["o"][:8, :16].astype(np.int64)), *parts, scratch)


def tensor_gather(m: Maker) -> Made:
    if m.dtype not in GATHERED:
        return
    chip, cut = "pl.reshape(pl.slice(x, [8, 32], [3, 32]), [8, 32])", "pl.slice({}, [{}, {}], [0, 0])"
    f, n, c = cut.format("f", 16, 32), cut.format("n", 16, 96), cut.format("c", 16, 32)
    yield m(f"pl.gather(x, {f})", (16, 32), lambda a: _flat(a["x"], a["f"][:16, :32]), store=ASSEMBLE)
    yield m(
        f"pl.gather({chip}, index={f})", (16, 32), lambda a: _flat(a["x"][3:11, 32:64].copy(), a["f"][:16, :32]), store=ASSEMBLE
    )
    along = lambda a, d, i: np.take_along_axis(a["x"][:16] if d else a["x"], i.astype(np.int64), d)  # noqa: E731
    yield m(f"pl.gather(x, dim=-1, index={c})", (16, 32), lambda a: along(a, 1, a["c"][:16, :32]), store=ASSEMBLE)
    yield m(f"pl.tensor.gather(x, 0, {n})", (16, 96), lambda a: along(a, 0, a["n"][:16]), store=ASSEMBLE)
    part = "pl.gather(x, 1, pl.slice(c, [16, 32], [0, 0], valid_shape=[i, j]))"
    yield m(part, (16, 32), lambda a: along(a, 1, a["c"][:16])[: a["i"], : a["j"]], store=ASSEMBLE)
    if m.dtype.get_byte() == 2:
        short = cut.format("h", 16, 32)
        yield m(f"pl.gather(x, 1, {short})", (16, 32), lambda a: along(a, 1, a["h"][:16, :32]), store=ASSEMBLE)


_PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}


def _wide(m: Maker, step: int) -> int:
    """Columns of which a step's part is still whole blocks."""
    return 96 if 96 // step * m.dtype.get_byte() % 32 == 0 else 64 if 64 // step * m.dtype.get_byte() % 32 == 0 else 0


def tile_gather_mask(m: Maker) -> Made:
    for p, (first, step) in _PATTERNS.items():
        n = _wide(m, step)
        if n:
            want = lambda a, f=first, s=step, n=n: a["x"][:, f:n:s]  # noqa: E731
            yield m(f"pl.tile.gather_mask(t$, mask_pattern={p})", (32, n // step), want, f"t$ = {load('x', 32, n)}")
            part = f"t$ = {load('x', 32, n, 'i', 'j')}"
            some = lambda a, f=first, s=step: a["x"][: a["i"], f : a["j"] : s]  # noqa: E731
            yield m(f"pl.tile.gather_mask(t$, mask_pattern={p})", (32, n // step), some, part)
    other = {1: D.UINT8, 2: D.INT16, 4: D.INT32, 8: D.INT64}[m.dtype.get_byte()]
    if other is not m.dtype and m.dtype is not D.BOOL:
        n = 64
        yield m(
            f"pl.tile.gather_mask(t$, mask_pattern=pl.tile.MaskPattern.P1010, output_dtype=pl.{other.name})",
            (32, 32),
            lambda a: np.ascontiguousarray(a["x"][:, 1:64:2]).view(other.numpy()),
            f"t$ = {load('x', 32, n)}",
            dtype=other,
        )


def tensor_gather_mask(m: Maker) -> Made:
    source = "pl.slice(x, [32, 64], [0, 3])"
    value = f"pl.gather({source}, mask_pattern=pl.tile.MaskPattern.P0101)"
    yield m(value, (32, 32), lambda a: a["x"][:, 3:67:2], store=ASSEMBLE)


def gatherb(m: Maker) -> Made:
    count = 32 // m.dtype.get_byte()

    def want(a: Any) -> Array:
        first = a["b"][:32, :8].astype(np.int64) // m.dtype.get_byte()
        return a["x"].reshape(-1)[first[..., None] + np.arange(count)].reshape(32, -1)

    if 8 * count <= 96:
        yield m("pl.gatherb(t$, u$)", (32, 8 * count), want, whole(), f"u$ = {load('b', 32, 8)}")
        part = f"u$ = {load('b', 32, 8, 'i', 3)}"
        yield m("pl.tile.gatherb(t$, u$)", (32, 8 * count), lambda a: want(a)[: a["i"], : 3 * count], whole(), part)


def mgather(m: Maker) -> Made:
    row, flat = 'coalesce="row"', 'coalesce="elem"'
    yield m(f"pl.mgather(x, u$, {row})", (32, 96), lambda a: a["x"][a["n"][0, :32]], f"u$ = {load('n', 1, 32)}")
    part = f"u$ = {load('n', 1, 32, 1, 'j')}"
    yield m(f"pl.mgather(x, u$, {row})", (32, 96), lambda a: a["x"][a["n"][0, : a["j"]]], part)
    yield m(
        f"pl.mgather(x, u$, {row}, valid_shape=[i, 40])",
        (32, 96),
        lambda a: a["x"][a["n"][:4, :8].reshape(-1)[: a["i"]], :40],
        f"u$ = {load('n', 4, 8)}",
    )
    yield m(f"pl.mgather(x, u$, {flat})", (16, 32), lambda a: a["x"].reshape(-1)[a["f"][:16, :32]], f"u$ = {load('f', 16, 32)}")
    part = f"u$ = {load('f', 16, 32, 'i', 'j')}"
    yield m("pl.tile.mgather(x, u$, 1)", (16, 32), lambda a: a["x"].reshape(-1)[a["f"][: a["i"], : a["j"]]], part)
    for mode in ("clamp", "wrap", "zero"):
        wild = lambda a, mode=mode: _oob(a["x"].reshape(-1), a["o"][:8, :32], mode)  # noqa: E731
        yield m(f'pl.mgather(x, u$, {flat}, gather_oob="{mode}")', (8, 32), wild, f"u$ = {load('o', 8, 32)}")
        rows = lambda a, mode=mode: _oob(a["x"], a["o"][0, :32], mode)  # noqa: E731
        yield m(f'pl.mgather(x, u$, {row}, gather_oob="{mode}")', (32, 96), rows, f"u$ = {load('o', 1, 32)}")


def _oob(x: Array, index: Array, mode: str) -> Array:
    """Rows (or elements) of x; the index counts as unsigned."""
    at, n = index.astype(np.uint32).astype(np.int64), len(x)
    made = x[np.minimum(at, n - 1) if mode == "clamp" else at % n]
    if mode == "zero":
        made = made.copy()
        made[at >= n] = 0
    return made


# -- scatter -------------------------------------------------------------------------------------------------------------


def _put(x: Array, index: Array, src: Array) -> Array:
    made = x.copy()
    for at in np.ndindex(index.shape):
        made.reshape(-1)[index[at]] = src[at]
    return made


def tile_scatter(m: Maker) -> Made:
    # BOOL and 64-bit elements are not scattered.
    if m.dtype is D.BOOL or m.dtype.get_byte() == 8:
        return
    name = "f" if m.dtype.get_byte() == 4 else "g"
    parts = (whole(), f"u$ = {load('y', 16, 32)}", f"w$ = {load(name, 16, 32)}")
    yield m("pl.tile.scatter(t$, u$, w$)", SHAPE, lambda a: _put(a["x"], a[name][:16, :32], a["y"]), *parts)
    parts = (whole(), f"u$ = {load('y', 16, 32, 15, 32)}", f"w$ = {load(name, 16, 32, 'i', 'j')}")
    yield m("pl.tile.scatter(t$, u$, w$)", SHAPE, lambda a: _put(a["x"], a[name][: a["i"], : a["j"]], a["y"]), *parts)
    parts = (whole(), f"w$ = {load(name, 16, 32)}", "s$ = pl.tile.scatter(t$, pl.slice(t$, [16, 32], [1, 32]), w$)")
    own = lambda a: _put(a["x"], a[name][:16, :32], a["x"][1:17, 32:64])  # noqa: E731
    yield m("s$", SHAPE, own, *parts)
    # What was scattered into is a new value: the old one is still there.
    kept = (whole(), f"u$ = {load('y', 16, 32)}", f"w$ = {load(name, 16, 32)}", "s$ = pl.tile.scatter(t$, u$, w$)")
    both = "pl.tile.concat(pl.slice(t$, [32, 32], [0, 0]), pl.slice(s$, [32, 64], [0, 0]))"
    yield m(both, SHAPE, lambda a: np.concatenate([a["x"][:, :32], _put(a["x"], a[name][:16, :32], a["y"])[:, :64]], 1), *kept)


def tensor_scatter(m: Maker) -> Made:
    if m.dtype not in SCATTERED:
        return
    name = "c" if m.dtype.get_byte() == 4 else "h"

    def want(a: Any) -> Array:
        made = a["x"].copy()
        for r, k in np.ndindex(16, 32):
            made[r, a[name][r, k]] = a["y"][r, k]
        return made

    value = f"pl.scatter(x, dim=-1, index=pl.slice({name}, [16, 32], [0, 0]), src=pl.slice(y, [16, 32], [0, 0]))"
    yield m(value, SHAPE, want, store=ASSEMBLE)


def _masked(x: Array, src: Array, p: int) -> Array:
    first, step = _PATTERNS[p]
    made = x.copy()
    made[: src.shape[0], first : first + step * src.shape[1] : step] = src
    return made


def tile_scatter_mask(m: Maker) -> Made:
    for p, (_, step) in _PATTERNS.items():
        n = _wide(m, step)
        if n:
            parts = (f"t$ = {load('x', 32, n)}", f"u$ = {load('y', 32, n // step)}")
            want = lambda a, p=p, n=n, s=step: _masked(a["x"][:, :n], a["y"][:, : n // s], p)  # noqa: E731
            yield m(f"pl.tile.scatter_mask(t$, u$, mask_pattern={p})", (32, n), want, *parts)
    parts = (f"t$ = {load('x', 32, 64)}", f"u$ = {load('y', 32, 32, 'i', 'j')}")
    some = lambda a: _masked(a["x"][:, :64], a["y"][: a["i"], : a["j"]], 2)  # noqa: E731
    yield m("pl.tile.scatter_mask(t$, u$, mask_pattern=2)", (32, 64), some, *parts)


def tensor_scatter_mask(m: Maker) -> Made:
    value = "pl.scatter(pl.slice(y, [32, 32], [0, 0]), mask_pattern=pl.tile.MaskPattern.P1010, dst=pl.slice(x, [32, 64], [0, 0]))"
    yield m(value, (32, 64), lambda a: _masked(a["x"][:, :64], a["y"][:, :32], 2), store=ASSEMBLE)


def _updated(a: Any) -> Array:
    made = a["x"].copy()
    for k, row in enumerate(a["n"][:2, :8].reshape(-1)):
        made[row] = a["y"][k]
    return made


def tile_scatter_update(m: Maker) -> Made:
    if m.dtype in SCATTERED:
        parts = (whole(), f"u$ = {load('n', 2, 8)}", f"w$ = {load('y', 16, 96)}")
        yield m("pl.tile.scatter_update(t$, u$, w$)", SHAPE, _updated, *parts)


def tensor_scatter_update(m: Maker) -> Made:
    if m.dtype in SCATTERED:
        index, src = "pl.slice(n, [2, 8], [0, 0])", "pl.slice(y, [16, 96], [0, 0])"
        yield m(f"pl.scatter_update(x, -2, {index}, {src})", SHAPE, _updated, store=ASSEMBLE)
        yield m(f"pl.scatter_update(x, {index}, {src}, dim=-2)", SHAPE, _updated, store=ASSEMBLE)
        pages = f"pl.scatter_update(pl.reshape(x, [8, 4, 1, 96]), {index}, pl.reshape({src}, [2, 8, 1, 96]))"
        yield m(f"pl.reshape({pages}, [32, 96])", SHAPE, _updated, store=ASSEMBLE)


def mscatter(m: Maker) -> Made:
    """Into rows of the output that begin where the result's rows do."""

    def want(a: Any) -> Array:
        return _put(np.full(SHAPE, sentinel(m.dtype), m.dtype.numpy()), a["f"][:16, :32], a["y"])

    index = "pl.add(pl.load(f, [0, 0], [16, 32]), {row} * 96)"
    yield m("u$", SHAPE, want, f"u$ = {load('y', 16, 32)}", store=f"pl.mscatter({{value}}, {index}, {{out}})")


INDEXED: dict[str, Callable[[Maker], Made]] = {
    "tile.transpose": tile_transpose,
    "tensor.transpose": tensor_transpose,
    "tile.concat": tile_concat,
    "tensor.concat": tensor_concat,
    "tensor.view": tensor_view,
    "tile.gather": tile_gather,
    "tensor.gather": tensor_gather,
    "tile.gather_mask": tile_gather_mask,
    "tensor.gather_mask": tensor_gather_mask,
    "tile.gatherb": gatherb,
    "tile.mgather": mgather,
    "tile.scatter": tile_scatter,
    "tensor.scatter": tensor_scatter,
    "tile.scatter_mask": tile_scatter_mask,
    "tensor.scatter_mask": tensor_scatter_mask,
    "tile.scatter_update": tile_scatter_update,
    "tensor.scatter_update": tensor_scatter_update,
    "tile.mscatter": mscatter,
    **SORTED,
    **COMPARED,
}


def _indices(dtype: DataType) -> dict[str, tuple[tuple[int, ...], DataType, Array]]:
    """n: rows; c, h: columns; f, g: elements; b: bytes of blocks; o: anything."""
    rng = np.random.default_rng(9)
    draw = lambda top, kind: rng.integers(0, top, SHAPE).astype(kind)  # noqa: E731
    wild = draw(2 * 3072, np.int32)
    wild[:, ::5] = rng.choice([-1, -97, 2**31 - 1, -(2**31), 3072, 32], wild[:, ::5].shape)
    blocks = draw(3072 * dtype.get_byte() // 32, np.uint32) * np.uint32(32)
    made = {
        "n": (D.INT32, draw(32, np.int32)),
        "c": (D.INT32, draw(96, np.int32)),
        "h": (D.INT16, draw(96, np.int16)),
        "f": (D.INT32, draw(3072, np.int32)),
        "g": (D.INT16, draw(3072, np.int16)),
        "b": (D.UINT32, blocks),
        "o": (D.INT32, wild),
    }
    made["e"] = (D.UINT32, draw(40, np.uint32))
    return {name: (SHAPE, d, values) for name, (d, values) in made.items()} | runs_to_merge(dtype)


@pytest.mark.parametrize("dtype", MOVABLE, ids=lambda d: d.name)
def test_indexed(dtype: DataType, tmp_path: Any) -> None:
    x, y = data.pair(dtype, SHAPE, 8)
    indices = _indices(dtype)
    given = {name: values for name, (_, _, values) in indices.items()}
    calls = [{"x": x, "y": y, "i": i, "j": j, **given} for i, j in ((3, 9), (0, 0), (15, 31), (1, 16))]
    inputs = {"x": (SHAPE, dtype), "y": (SHAPE, dtype), "i": ((), D.INDEX), "j": ((), D.INDEX)}
    inputs |= {name: (shape, d) for name, (shape, d, _) in indices.items()}
    m = Maker(dtype)
    made = [r for make in INDEXED.values() for r in make(m)]
    unit = Unit(f"indexed_{dtype.name.lower()}", inputs, [[r] for r in made])
    check(unit, tmp_path, calls, ways=(OPTIMIZED, *(BY_PLANNER if dtype is D.FP32 else (PLAIN,))), interpreted=(0, 1))


# -- three dimensions ----------------------------------------------------------------------------------------------------


@pl.jit
def turned_pages(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.transpose(pl.load(x, [0, 0, 0], [3, 8, 16]), 1, 2), [0, 0, 0], o)
    return o


@pl.jit
def along_each(
    x: pl.Tensor, i: pl.Tensor, j: pl.Tensor, k: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.gather(x, dim=0, index=i)
    with pl.at(level=pl.Level.CORE_GROUP):
        p[:] = pl.gather(x, dim=1, index=j)
    with pl.at(level=pl.Level.CORE_GROUP):
        q[:] = pl.gather(x, dim=-1, index=k)
    return o, p, q


def test_pages_are_turned_one_by_one() -> None:
    x = np.arange(3 * 8 * 16, dtype=np.float32).reshape(3, 8, 16)
    found = lab.everywhere(turned_pages, x, np.zeros((3, 16, 8), np.float32), ways=lab.ALL)
    assert (found[1] == x.swapaxes(1, 2)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_three_dimensions(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-99, 99, (3, 4, 16)).astype(dtype)
    shapes = ((5, 2, 16), (2, 7, 16), (3, 2, 32))
    index = [rng.integers(0, n, shape).astype(np.int32) for n, shape in zip(x.shape, shapes, strict=True)]
    found = lab.everywhere(along_each, x, *index, *(np.zeros(s, dtype) for s in shapes))[4:]
    for dim, (shape, at) in enumerate(zip(shapes, index, strict=True)):
        want = np.empty(shape, dtype)
        for place in np.ndindex(shape):
            source = list(place)
            source[dim] = at[place]
            want[place] = x[tuple(source)]
        assert (found[dim] == want).all()
    wrong = [i.copy() for i in index]
    wrong[1][1, 6, 15] = 4  # the next page has a row there
    with pytest.raises(KernelBoundsError):
        along_each(x, *wrong, *(np.zeros(s, dtype) for s in shapes))


# -- in loops ------------------------------------------------------------------------------------------------------------


@pl.jit
def changing(x: pl.Tensor, i: pl.Tensor, n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 16])
        index = pl.load(i, [0, 0], [8, 8])
        tmp = pl.create_tile([8, 8], dtype=pl.INT32)
        s = t
        for j in pl.range(n):
            s = pl.tile.scatter(s, pl.add(pl.tile.gather(s, index, tmp), 1.0), index)
            if j == 2:
                s = pl.transpose(s, 0, 1)
        pl.store(s, [0, 0], o)
        pl.store(t, [0, 0], p)
    return o, p


@pl.jit
def changing_tensor(x: pl.Tensor, i: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = x + 1.0
        for j in pl.range(3):
            y = pl.scatter(y, dim=-1, index=i, src=pl.slice(x, [8, 8], [j, j]))
        o[:] = pl.concat(y, pl.transpose(y, 0, 1))
    return o


def test_values_that_loops_change() -> None:
    rng = np.random.default_rng(0)
    x, i = rng.normal(size=(16, 16)).astype(np.float32), rng.integers(0, 16, (8, 8)).astype(np.int32)
    calls = [(x, i, n, x * 0, x * 0) for n in (0, 1, 5)]
    for (_, _, o, p), (_, _, n, *_rest) in zip(lab.agree(changing, *calls, ways=lab.ALL), calls, strict=True):
        want = x.copy()
        for j in range(n):
            want = _put(want, i, want.reshape(-1)[i] + np.float32(1))
            want = np.ascontiguousarray(want.T) if j == 2 else want
        assert (o == want).all()
        assert (p == x).all()
    want = x + 1
    for j in range(3):
        for r, k in np.ndindex(8, 8):
            want[r, i[r, k]] = x[j + r, j + k]
    o = lab.everywhere(changing_tensor, x, i, np.zeros((16, 32), np.float32), ways=lab.ALL)[2]
    assert (o == np.concatenate([want, want.T], 1)).all()
