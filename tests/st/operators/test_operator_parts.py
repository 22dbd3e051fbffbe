"""Operators over parts: combined where both operands are valid, the first operand's element elsewhere.

Every relation of two rectangles that begin at the same corner: one within the other, either way round, and crossing; with
extents known when the kernel is built and at run time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import operator_data as data
import pytest
from operator_kit import ASSEMBLE, OPTIMIZED, OTHER_PLANNERS, PLAIN, STORE, Arguments, Result, Unit, check, import_text
from operator_oracle import ELEMENTWISE

from pypto.debug import interpret
from pypto.dtypes import DataType
from pypto.errors import Error

Array = Any
D = DataType
SHAPE = ROWS, COLUMNS = 32, 96
# Valid extents of the two operands; names come at run time.
RECTANGLES: tuple[tuple[tuple[Any, Any], tuple[Any, Any]], ...] = (
    ((32, 96), (21, 77)),
    ((21, 77), (32, 96)),
    ((21, 96), (32, 77)),
    ((32, 96), ("n", "m")),
    (("r", "c"), ("n", "m")),
)
CALLS = ((32, 96, 20, 40), (20, 40, 32, 96), (20, 96, 32, 40), (5, 7, 5, 7), (32, 96, 0, 96), (9, 33, 9, 0), (0, 5, 3, 3))


def extents(valid: tuple[Any, Any], args: Arguments) -> tuple[int, int]:
    r, c = (args[v] if isinstance(v, str) else v for v in valid)
    return r, c


def result(name: str, dtype: DataType, level: str, n: int, mine: tuple[Any, Any], other: tuple[Any, Any], turned: bool) -> Result:
    meaning = ELEMENTWISE[f"part_{name}"]

    def want(args: Arguments) -> Array:
        (r, c), (h, w) = extents(mine, args), extents(other, args)
        made = np.array(args["x"][:r, :c])
        h, w = min(r, h), min(c, w)
        with np.errstate(all="ignore"):
            made[:h, :w] = meaning.f(args["x"][:h, :w], args["y"][:h, :w])
        return made

    def window(of: str, valid: tuple[Any, Any]) -> str:
        form = (
            "pl.load({}, [0, 0], [32, 96], [{}, {}])"
            if level == "tile"
            else "pl.slice({}, [32, 96], [0, 0], valid_shape=[{}, {}])"
        )
        return form.format(of, *valid)

    lines = (f"a{n} = {window('x', mine)}", f"b{n} = {window('y', other)}")
    return Result(
        f"{level} part_{name} {dtype} of {mine} and {other}",
        lines[::-1] if turned else lines,
        f"pl.part_{name}(a{n}, b{n})",
        dtype,
        SHAPE,
        want,
        meaning.ulps[dtype is D.FP16],
        meaning.any_zero,
        "untouched" if level == "tile" else "free",
        STORE if level == "tile" else ASSEMBLE,
    )


@pytest.mark.parametrize("dtype", [D.FP32, D.FP16, D.INT32, D.INT16], ids=lambda d: d.name)
@pytest.mark.parametrize("level", ["tile", "tensor"])
def test_parts(level: str, dtype: DataType, tmp_path: Path) -> None:
    x, y = data.pair(dtype, SHAPE, 21)
    inputs = {"x": (SHAPE, dtype), "y": (SHAPE, dtype), **{k: ((), D.INDEX) for k in "rcnm"}}
    made = [
        [result(name, dtype, level, n, mine, other, bool(n % 2)) for n, (mine, other) in enumerate(RECTANGLES)]
        for name in ("add", "mul", "max", "min")
    ]
    calls = [{"x": x, "y": y, **dict(zip("rcnm", extents, strict=True))} for extents in CALLS]
    ways = (OPTIMIZED, PLAIN, *(OTHER_PLANNERS if dtype is D.FP32 and level == "tile" else ()))
    unit = Unit(f"parts_{level}_{dtype.name.lower()}", inputs, made)
    check(unit, tmp_path, calls, ways=ways, c_optimizer=level == "tile", interpreted=(0, 1, 2, 4))


REPEATED = """import pypto.language as pl


@pl.jit
def repeated(x: pl.Tensor[[32, 96], pl.FP32], y: pl.Tensor[[32, 96], pl.FP32], o: pl.Out[pl.Tensor[[32, 96], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.mul(pl.load(x, [0, 0], [32, 96]), 2.0)
        b = pl.mul(pl.load(y, [0, 0], [32, 96], [8, 96]), 3.0)
        c = pl.part_add(a, b)
        d = pl.part_add(c, pl.set_validshape(b, 4, 50))
        o = pl.store(d, [0, 0], o)
    return o
"""


def test_the_second_operand_outlives_the_copy(tmp_path: Path) -> None:
    """Operands that were computed and die here: the result may take the first one's place, never the second one's."""
    x, y = data.ordinary(D.FP32, SHAPE, np.random.default_rng(22)), data.ordinary(D.FP32, SHAPE, np.random.default_rng(23))
    want = x * 2
    want[:8] += y[:8] * 3
    want[:4, :50] += (y * 3)[:4, :50]
    kernel = import_text("repeated", REPEATED, tmp_path)
    o = np.zeros_like(x)
    kernel(x, y, o)
    assert o.tobytes() == want.tobytes()
    o = np.zeros_like(x)
    interpret(kernel.specialize(x, y, o), [x, y, o], "repeated")
    assert o.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("pl.part_add(a, pl.load(y, [0, 0], [16, 96]))", ("shape", "[32, 96]", "[16, 96]")),
        ("pl.part_add(a, 1.0)", ("scalar", "pl.adds")),
        ("pl.part_max(a, x)", ("mix", "Tensor", "Tile")),
        ("pl.part_min(a, pl.cast(a, pl.FP16))", ("dtype", "pl.cast")),
    ],
)
def test_refusals(call: str, words: tuple[str, ...], tmp_path: Path) -> None:
    text = REPEATED.replace("pl.part_add(a, b)", call)
    x = np.zeros(SHAPE, np.float32)
    with pytest.raises(Error) as e:
        import_text("repeated", text, tmp_path)(x, x, x.copy())
    for word in words:
        assert word in str(e.value), str(e.value)
