"""Conversions: every pair of dtypes that a chip converts, in every rounding mode, to the bit.

A pair without an instruction goes by way of other dtypes and rounds at each; which, stands in `WAYPOINTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import operator_data as data
import pytest
import rounding
from operator_kit import OPTIMIZED, PLAIN, Arguments, Result, Unit, check
from rounding import MODES

from pypto.dtypes import DataType
from pypto.errors import CompileError
from pypto.frontend import parse
from pypto.ir.ops.rules import MOVABLE
from pypto.ir.program import Program
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

Array = Any
D = DataType
SHAPE = ROWS, COLUMNS = 32, 96


def _names(text: str) -> tuple[DataType, ...]:
    return tuple(getattr(D, n) for n in text.split())


# The conversions that are instructions on A2/A3, and those that A5 adds, of dtypes that the host has.
NATIVE = {
    D.BF16: _names("FP32 INT32"),
    D.FP16: _names("FP32 INT16 INT32 INT8 UINT8"),
    D.FP32: _names("BF16 FP16 INT16 INT32 INT64"),
    D.INT16: _names("FP16 FP32"),
    D.INT32: _names("FP16 FP32 INT16 INT64"),
    D.INT64: _names("FP32 INT32"),
    D.INT8: _names("FP16"),
    D.UINT8: _names("FP16"),
}
ONLY_A5 = {
    D.BF16: _names("FP16"),
    D.INT16: _names("INT32 UINT32 UINT8"),
    D.INT8: _names("INT16 INT32"),
    D.INT32: _names("UINT16 UINT8"),
    D.UINT8: _names("UINT16"),
    D.UINT32: _names("INT16 UINT16 UINT8"),
}
# On A2/A3: what lies between source and target.  The first hop takes a float where the pair has one, an integer between
# integers; after it, chains only narrow.
WAYPOINTS = {
    D.BF16: {"FP16": "FP32", "INT16": "FP32", "INT8": "FP32 FP16", "UINT8": "FP32 FP16"},
    D.FP16: {"BF16": "FP32"},
    D.FP32: {"INT8": "FP16", "UINT8": "FP16"},
    D.INT16: {"BF16": "FP32", "INT8": "FP16", "UINT8": "FP16"},
    D.INT32: {"BF16": "FP32", "INT8": "FP16", "UINT8": "FP16"},
    D.INT64: {"BF16": "FP32", "FP16": "FP32", "INT16": "INT32", "INT8": "INT32 FP16", "UINT8": "INT32 FP16"},
    D.INT8: {"UINT8": "FP16"},
    D.UINT8: {"INT8": "FP16"},
}


# -- what a conversion gives ---------------------------------------------------------------------------------------------


def converted(x: Array, source: DataType, target: DataType, mode: str | None) -> Array:
    """One hop.  Without a mode: float to integer rounds half away from zero, all else to nearest even."""
    if source.is_float():
        with np.errstate(all="ignore"):
            v = x.astype(np.float64)
        return rounding.to_float(v, target, mode or "rint") if target.is_float() else rounding.to_int(v, target, mode or "round")
    if target.is_float():
        values, back = np.unique(x, return_inverse=True)
        made = np.array([rounding.int_to_float(int(n), target) for n in values], np.float64)
        return made.astype(rounding.NUMPY[target])[back].reshape(x.shape)
    low, _ = rounding.limits(target)
    return x.astype(target.numpy()) if low else (x.astype(np.int64) & ((1 << target.get_bit()) - 1)).astype(target.numpy())


def through(hops: tuple[DataType, ...], mode: str | None) -> Callable[[Array], Array]:
    def f(x: Array) -> Array:
        for source, target in pairwise(hops):
            x = converted(x, source, target, mode)
        return x

    return f


# -- operands ------------------------------------------------------------------------------------------------------------


def operands(dtype: DataType) -> Array:
    """All numbers of up to 16 bits; of wider ones, those next to a rounding boundary of any target."""
    if dtype.get_bit() <= 16:
        return np.arange(1 << dtype.get_bit(), dtype=f"u{dtype.get_byte()}").view(dtype.numpy())
    rng = np.random.default_rng(7)
    anything = data.ordinary(dtype, (6000,), rng)
    if not dtype.is_float():
        bits = dtype.get_bit()
        near = []
        # A leading bit, the bit that is half an ulp of 8, 11 and 24 bits of precision, one more, and their neighbours.
        for k in range(bits - 1):
            halves = [0, *(1 << (k - p) for p in (8, 11, 24) if k >= p)]
            near += [((1 << k) | h | extra) + e for h in halves for extra in (0, 1, h << 1) for e in (-1, 0, 1)]
        values = np.array(sorted({n & ((1 << bits) - 1) for n in near}), np.uint64)
        values = np.concatenate([values, (~values + np.uint64(1)) & np.uint64((1 << bits) - 1)])
        return np.concatenate([data.hard(dtype), values.astype(f"u{dtype.get_byte()}").view(dtype.numpy()), anything])
    raw = rng.integers(0, 1 << 32, 6000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    bf16 = (np.arange(0, 65536, 7, dtype=np.uint32) << 16)[:, None] + np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32)
    half = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        ties = ((half + np.nextafter(half.astype(np.float16), np.float16(np.inf)).astype(np.float32)) / 2).view(np.int32)
    fp16 = np.concatenate([ties - 1, ties, ties + 1]).view(np.float32)
    limits = np.array(
        [s * (2.0**k + e) for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for e in (-1, -0.5, 0, 0.5)], np.float32
    )
    beside = [np.nextafter(limits, np.float32(to)) for to in (np.inf, -np.inf)]
    integers = np.arange(-300, 300, 0.25, np.float32)
    return np.concatenate([data.hard(dtype), raw, bf16.reshape(-1).view(np.float32), fp16, limits, *beside, integers, anything])


def calls(source: DataType) -> list[Arguments]:
    """All operands in tiles; the first call covers a part of its tile at run time, the others all of it."""
    every = operands(source)
    n = ROWS * COLUMNS
    tiles = [np.resize(every[at : at + n], SHAPE) for at in range(0, len(every), n)]
    return [{"x": t, "r": 13 if i == 0 else ROWS, "c": 65 if i == 0 else COLUMNS} for i, t in enumerate((tiles[0], *tiles))]


# -- kernels -------------------------------------------------------------------------------------------------------------


def results(hops: tuple[DataType, ...]) -> Iterator[Result]:
    """A conversion without a mode over a whole tile; in every mode, by name or by number, over run-time extents."""
    source, target = hops[0], hops[-1]
    # Modes say nothing about integers: one is enough to show it.
    choices = (None, *MODES) if source.is_float() else (None, "floor")
    text = f"pl.{target.name}"
    yield Result(
        f"{source} to {target} by {hops[1:-1]}, whole",
        ("t = pl.load(x, [0, 0], [32, 96])",),
        f"pl.tile.cast(t, {text})",
        target,
        SHAPE,
        lambda a: through(hops, None)(a["x"]),
    )
    for n, mode in enumerate(choices):
        given = "" if mode is None else f", mode={mode!r}" if n % 2 else f", mode={MODES.index(mode)}"
        yield Result(
            f"{source} to {target} by {hops[1:-1]}{given}",
            (f"d{n} = pl.load(x, [0, 0], [32, 96], [r, c])",),
            f"pl.tile.cast(d{n}, {text}{given})",
            target,
            SHAPE,
            lambda a, mode=mode: through(hops, mode)(a["x"][: a["r"], : a["c"]]),
        )


def unit(name: str, source: DataType, chains: list[tuple[DataType, ...]]) -> Unit:
    inputs = {"x": (SHAPE, source), "r": ((), D.INDEX), "c": ((), D.INDEX)}
    return Unit(f"cast_{name}_{source.name.lower()}", inputs, [list(results(c)) for c in chains])


@pytest.mark.parametrize("source", NATIVE, ids=lambda d: d.name)
def test_native_casts(source: DataType, tmp_path: Any) -> None:
    check(
        unit("native", source, [(source, t) for t in NATIVE[source]]),
        tmp_path,
        calls(source),
        ways=(OPTIMIZED, PLAIN),
        interpreted=(0, 1),
    )


@pytest.mark.parametrize("source", WAYPOINTS, ids=lambda d: d.name)
def test_chains_round_at_every_hop(source: DataType, tmp_path: Any) -> None:
    """As parsed, a conversion is one step still: only the lowered program means the chain."""
    chains = [(source, *_names(by), getattr(D, target)) for target, by in WAYPOINTS[source].items()]
    check(
        unit("chain", source, chains),
        tmp_path,
        calls(source),
        ways=(OPTIMIZED, PLAIN),
        c_optimizer=False,
        interpreted=(0,),
        as_parsed=False,
    )


@pytest.mark.parametrize("source", ONLY_A5, ids=lambda d: d.name)
def test_native_casts_of_a5(source: DataType, tmp_path: Any) -> None:
    made = unit("a5", source, [(source, t) for t in ONLY_A5[source]])
    check(made, tmp_path, calls(source), ways=(OPTIMIZED, PLAIN), c_optimizer=False, interpreted=(0,), platform="a5sim")


def test_every_other_pair_is_refused() -> None:
    """Every source and target that move data are accounted for: converted as above, or an error that names both."""
    for source in MOVABLE:
        for target in MOVABLE:
            known = target in NATIVE.get(source, ()) or target.name in WAYPOINTS.get(source, {})
            if source is target or known:
                continue
            text = (
                "import pypto.language as pl\n@pl.function\n"
                f"def main(x: pl.Tensor[[32, 32], pl.{source.name}], o: pl.Out[pl.Tensor[[32, 32], pl.{target.name}]]):\n"
                "    with pl.at(level=pl.Level.CORE_GROUP):\n"
                f"        o[:] = pl.cast(x, pl.{target.name})\n"
            )
            with pytest.raises(CompileError, match=f"from {source} to {target} for arch a2a3") as e:
                lower(Program([parse(text)], "test"), PassOptions())
            assert e.value.span["line"] == 5
