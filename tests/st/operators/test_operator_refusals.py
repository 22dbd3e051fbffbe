"""Operators beside the plain table: the spellings of one thing are one thing, and what they refuse says what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import operator_data as data
import pytest
from operator_kit import ASSEMBLE, OPTIMIZED, PLAIN, STORE, Arguments, Result, Unit, check, import_text
from operator_oracle import ELEMENTWISE

from pypto.dtypes import DataType
from pypto.errors import Error
from pypto.frontend import parse
from pypto.ir.program import Program
from pypto.ir.structural import compare

Array = Any
D = DataType
SHAPE = (32, 96)

# Spellings of the same thing over `a`, `b` and the number `s`; `u` is a scratch tile.
ON_BOTH = {
    "and": ("pl.and_(a, b)", "pl.{level}.and_(a, b)"),
    "ands": ("pl.and_(a, s)", "pl.ands(a, s)", "pl.{level}.ands(a, s)"),
    "or": ("pl.or_(a, b)", "pl.{level}.or_(a, b)"),
    "ors": ("pl.or_(a, s)", "pl.ors(a, s)", "pl.{level}.ors(a, s)"),
    "not": ("pl.not_(a)", "pl.{level}.not_(a)"),
    "shl": ("pl.shl(a, b)", "a << b"),
    "shls": ("pl.shl(a, s)", "pl.shls(a, s)", "a << s"),
    "shr": ("pl.shr(a, b)", "a >> b"),
    "shrs": ("pl.shr(a, s)", "pl.shrs(a, s)", "a >> s"),
}
ON_TENSORS = {"xor": ("pl.xor(a, b)", "pl.tensor.xor(a, b)"), "xors": ("pl.xor(a, s)", "pl.xors(a, s)")}
ON_TILES = {
    "xor": ("pl.xor(a, b, u)", "pl.tile.xor(a, b, tmp=u)"),
    "xors": ("pl.xor(a, s, u)", "pl.xors(a, s, u)", "pl.tile.xors(a, s, tmp=u)"),
    "addc": ("pl.addc(a, b, c)", "pl.tile.addc(a, b, c)"),
    "addsc": ("pl.addc(a, s, c)", "pl.addsc(a, s, c)"),
    "subc": ("pl.subc(a, b, c)", "pl.tile.subc(a, b, c)"),
    "subsc": ("pl.subc(a, s, c)", "pl.subsc(a, s, c)"),
}


@pytest.mark.parametrize("level", ["tile", "tensor"])
def test_spellings(level: str, tmp_path: Path) -> None:
    dtype = D.INT16
    x, y = data.pair(dtype, SHAPE, 51)
    z, _ = data.pair(dtype, SHAPE, 52)
    form = "pl.load({}, [0, 0], [32, 96])" if level == "tile" else "pl.slice({}, [32, 96], [0, 0])"
    lines = tuple(f"{n} = {form.format(of)}" for n, of in zip("abc"[: 3 if level == "tile" else 2], "xyz", strict=False))
    if level == "tile":
        lines += ("u = pl.create_tile([32, 96], dtype=pl.INT16)",)

    def one(name: str, spelling: str, first: bool) -> Result:
        def want(args: Arguments) -> Array:
            second = np.asarray(args["s"], np.int16) if "s" in name[2:] else args["y"]
            operands = (args["x"],) if name == "not" else (args["x"], second)
            return ELEMENTWISE[name].f(*operands, *((args["z"],) if name.endswith("c") else ()))

        store = STORE if level == "tile" else ASSEMBLE
        return Result(f"{level}: {spelling}", lines if first else (), spelling, dtype, SHAPE, want, store=store)

    groups = ON_BOTH | (ON_TILES if level == "tile" else ON_TENSORS)
    kernels = [[one(name, s.format(level=level), n == 0) for n, s in enumerate(spellings)] for name, spellings in groups.items()]
    inputs = {**dict.fromkeys("xyz", (SHAPE, dtype)), "s": ((), dtype)}
    calls = [{"x": x, "y": y, "z": z, "s": s} for s in (3, -1, 15, 16)]
    check(Unit(f"bits_{level}", inputs, kernels), tmp_path, calls, ways=(OPTIMIZED, PLAIN), c_optimizer=False, interpreted=(0, 1))


KERNEL = """import pypto.language as pl


@pl.jit
def refused(x: pl.Tensor[[8, 64], pl.{dtype}], f: pl.Tensor[[8, 64], pl.FP32], o: pl.Out[pl.Tensor[[8, 64], pl.{dtype}]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [8, 64])
        b = pl.load(f, [0, 0], [8, 64])
        u = pl.create_tile([8, 64], dtype=pl.{dtype})
        w = pl.create_tile([8, 32], dtype=pl.{dtype})
        o = pl.store({call}, [0, 0], o)
    return o
"""
REFUSALS = [
    ("INT32", "pl.xor(a, a)", ("tmp", "pl.create_tile")),
    ("INT32", "pl.xor(x, x, u)", ("tmp", "only for tiles", "leave tmp out")),
    ("INT32", "pl.xor(a, a, w)", ("scratch", "[8, 64]")),
    ("INT32", "pl.shls(a, -1)", ("negative", "pl.shrs(x, 1)")),
    ("INT32", "pl.shr(a, -2)", ("negative", "pl.shls(x, 2)")),
    ("INT32", "pl.and_(a, b)", ("differ in dtype",)),
    ("INT32", "pl.ands(a, a)", ("scalar", "pl.and_")),
    ("FP32", "pl.or_(a, b)", ("fp32", "pl.cast")),
    ("INT32", "a & a", ("BitAnd", "pl.and_(a, a)")),
    ("INT32", "pl.not_(a)", ("int32", "int16")),
    ("INT32", "pl.fmod(a, a)", ("int32", "fp32")),
    ("INT32", "pl.sin(a)", ("int32", "pl.cast")),
    ("INT32", "pl.rems(a, 0, u)", ("divisor", "0")),
    ("INT32", "pl.rem(a, a, w)", ("scratch", "[8, 64]")),
    ("INT32", "pl.rem(x, x, u)", ("tiles", "pl.load")),
    ("FP32", "pl.prelu(a, b, u)", ("UINT8", "pl.create_tile")),
    ("FP32", "pl.prelu(a, 0.5, u)", ("slope", "pl.lrelu")),
    ("FP32", "pl.rsqrt(a, high_precision=True)", ("high_precision", "only for tensors", "tmp=")),
    ("FP32", "pl.rsqrt(x, tmp=u)", ("tmp", "only for tiles", "high_precision=True")),
    ("FP32", "pl.rsqrt(a, tmp=w)", ("scratch", "[8, 64]")),
    ("INT32", "pl.tile.ci(0, [2, 32])", ("row", "[2, 32]")),
    ("INT32", "pl.tile.ci(0, [8, 1])", ("row",)),
    ("INT32", "pl.tile.ci(0, [1, 1])", ("pl.full",)),
    ("INT32", "pl.tile.ci(pl.tensor.dim(x, 0), [1, 64])", ("index", "pl.cast")),
    ("INT32", "pl.tile.ci(0, [1, 64], dtype=pl.FP32)", ("fp32", "int32")),
    ("INT32", "pl.tile.ci(3000000000, [1, 64])", ("3000000000", "int32")),
    ("INT32", "pl.tri(0, [1, 8, 64])", ("two dimensions",)),
    ("INT32", "pl.tri(0, [8, 64], valid_shape=[9, 64])", ("valid extent 9", "0..8")),
    ("INT32", "pl.tri(pl.tensor.dim(x, 0), [8, 64])", ("index", "pl.cast")),
    ("INT32", "pl.fillpad_expand(a, [8, 32])", ("smaller", "[8, 64]")),
    ("INT32", "pl.fillpad_expand(a, [8, 64], pad_value=pl.PadValue.null)", ("null", "pl.PadValue.zero")),
]


@pytest.mark.parametrize(("dtype", "call", "words"), REFUSALS, ids=[c for _, c, _ in REFUSALS])
def test_refusals(dtype: str, call: str, words: tuple[str, ...], tmp_path: Path) -> None:
    x = np.zeros((8, 64), getattr(D, dtype).numpy())
    kernel = import_text("refused", KERNEL.format(dtype=dtype, call=call), tmp_path)
    with pytest.raises(Error) as e:
        kernel(x, np.zeros((8, 64), np.float32), x.copy())
    for word in words:
        assert word.lower() in str(e.value).lower(), str(e.value)
    assert e.value.hint, "no remedy"


def test_names_that_are_words_of_python_print_and_parse(tmp_path: Path) -> None:
    call = "pl.xor(pl.or_(pl.and_(a, 3), pl.not_(a)), a, u)"
    kernel = import_text("refused", KERNEL.format(dtype="INT16", call=call), tmp_path)
    x = np.zeros((8, 64), np.int16)
    p = kernel.specialize(x, np.zeros((8, 64), np.float32), x)
    text = p.as_python()
    assert "pl.tile.or_(" in text
    again = parse(text)
    assert isinstance(again, Program)
    assert compare(again, p, auto_map=True) is None
