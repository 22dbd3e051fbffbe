"""One operator under all its spellings: Python's sign, `pl.name`, `pl.tensor.name`, `pl.tile.name`, with a scalar `pl.names`.

Each spelling gives what the oracle says, and all spellings of one thing give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import operator_data as data
import pytest
from operator_kit import ASSEMBLE, OPTIMIZED, PLAIN, STORE, Array, Result, Unit, check, compiled, same_bits
from operator_oracle import ELEMENTWISE, packed

from pypto.dtypes import DataType

D = DataType
SHAPE = ROWS, COLUMNS = 32, 96
PAIRS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "maximum": "", "minimum": ""}
ALONE = {"neg": "-", "abs": "", "exp": "", "log": "", "sqrt": "", "relu": ""}
EXPANDED = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "max", "minimum": "min"}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
INTEGERS_ONLY, FLOATS_ONLY = ("floordiv", "mod"), ("abs", "exp", "log", "sqrt")


class Group(NamedTuple):
    """Spellings that mean the same over two tiles or tensors `a` and `b` and a scalar `s`; f(a, b, s) is what they mean."""

    name: str
    spellings: list[str]
    f: Callable[[Array, Array, Array], Array]
    ulps: int = 0
    any_zero: bool = False
    truth: bool = False


def pairs(dtype: DataType, level: str) -> Iterator[Group]:
    number = "1.5" if dtype.is_float() else "7"
    constant = np.asarray(float(number)).astype(dtype.numpy())
    for name, sign in PAIRS.items():
        if name in INTEGERS_ONLY and dtype.is_float():
            continue
        f, _, any_zero = ELEMENTWISE[name]

        def spelled(b: str, scalar: str = "", name: str = name, sign: str = sign) -> list[str]:
            python = [f"a {sign} {b}"] if sign else []
            forms = [f"pl.{name}(a, {b})", f"pl.{level}.{name}(a, {b})"]
            return [*python, *forms, *([f"pl.{name}s(a, {b})", f"pl.{level}.{name}s(a, {b})"] if scalar else [])]

        yield Group(f"a {name} b", spelled("b"), lambda a, b, s, f=f: f(a, b), 0, any_zero)
        yield Group(f"a {name} s", spelled("s", "s"), lambda a, b, s, f=f: f(a, s), 0, any_zero)
        yield Group(f"a {name} {number}", spelled(number, "s"), lambda a, b, s, f=f: f(a, constant), 0, any_zero)
        if sign:
            left = [f"s {sign} a", f"pl.{name}(pl.expands(a, s), a)"]
            yield Group(f"s {name} a", left, lambda a, b, s, f=f: f(np.broadcast_to(s, a.shape), a))


def broadcasts(dtype: DataType) -> Iterator[Group]:
    """A column `v` and a row `w` of the second tensor, repeated over the first."""
    for axis, vector, of in (("row", "v", lambda b: b[:, 3:4]), ("col", "w", lambda b: b[5:6])):
        for name, suffix in EXPANDED.items():
            if name == "div" and not dtype.is_float():
                continue
            f, _, any_zero = ELEMENTWISE[name]
            sign = PAIRS[name]
            forms = [
                *([f"a {sign} {vector}"] if sign else []),
                f"pl.{name}(a, {vector})",
                f"pl.{axis}_expand_{suffix}(a, {vector})",
            ]
            if name in ("add", "mul", "maximum", "minimum"):
                forms.append(f"pl.{name}({vector}, a)")
            yield Group(f"a {name} {vector}", forms, lambda a, b, s, f=f, of=of: f(a, of(b)), 0, any_zero)


def others(dtype: DataType, level: str) -> Iterator[Group]:
    for name, sign in ALONE.items():
        if name not in FLOATS_ONLY or dtype.is_float():
            f, ulps, any_zero = ELEMENTWISE[name]
            forms = [*([f"{sign}a"] if sign else []), f"pl.{name}(a)", f"pl.{level}.{name}(a)"]
            yield Group(name, forms, lambda a, b, s, f=f: f(a), ulps[dtype is D.FP16], any_zero)
    cmp = ELEMENTWISE["cmp"].f
    for kind, sign in enumerate(COMPARISONS):
        for other in ("b", "s"):
            python = [f"a {sign} {other}", f"{other} {TURNED.get(sign, sign)} a"]
            forms = [
                f"pl.cmp(a, {other}, cmp_type={kind})",
                f"pl.{level}.{'cmp' if other == 'b' else 'cmps'}(a, {other}, cmp_type={kind})",
            ]
            f = (lambda a, b, s, k=kind: cmp(a, b, k)) if other == "b" else (lambda a, b, s, k=kind: cmp(a, s, k))
            yield Group(f"a {sign} {other}", [*python, *forms], f, truth=True)


def kernel(g: Group, dtype: DataType, level: str) -> list[Result]:
    if level == "tile":
        lines: tuple[str, ...] = ("a = pl.load(x, [0, 0], [32, 96])", "b = pl.load(y, [0, 0], [32, 96])")
    else:
        lines = ("a = pl.slice(x, [32, 96], [0, 0])", "b = pl.slice(y, [32, 96], [0, 0])")
        lines += ("v = pl.slice(y, [32, 1], [0, 3])", "w = pl.slice(y, [1, 96], [5, 0])")
    masked = g.truth and level == "tile"

    def want(args: Any) -> Array:
        with np.errstate(all="ignore"):
            made = g.f(args["x"], args["y"], np.asarray(args["s"]).astype(dtype.numpy()))
        return packed(made) if masked else made.astype(dtype.numpy()) if g.truth else made

    return [
        Result(
            f"{text} ({level}, {dtype})",
            lines if n == 0 else (),
            text,
            D.UINT8 if masked else dtype,
            SHAPE,
            want,
            g.ulps,
            g.any_zero,
            store=STORE if level == "tile" else ASSEMBLE,
        )
        for n, text in enumerate(g.spellings)
    ]


@pytest.mark.parametrize("dtype", [D.FP32, D.FP16, D.INT32], ids=lambda d: d.name)
@pytest.mark.parametrize("level", ["tile", "tensor"])
def test_spellings(level: str, dtype: DataType, tmp_path: Any) -> None:
    x, y = data.pair(dtype, SHAPE, 10)
    scalars = (-2.75, 0.0) if dtype.is_float() else (3, -1)
    inputs = {"x": (SHAPE, dtype), "y": (SHAPE, dtype), "s": ((), dtype)}
    groups = [*pairs(dtype, level), *others(dtype, level), *(broadcasts(dtype) if level == "tensor" else ())]
    kernels = [kernel(g, dtype, level) for g in groups]
    unit = Unit(f"spellings_{level}_{dtype.name.lower()}", inputs, kernels)
    check(
        unit, tmp_path, [{"x": x, "y": y, "s": s} for s in scalars], ways=(OPTIMIZED, PLAIN), c_optimizer=False, interpreted=(0,)
    )
    outputs = unit.fresh_outputs()
    build = compiled(unit.load(tmp_path), [x, y, scalars[0], *outputs], c_optimizer=False)
    build(x, y, scalars[0], *outputs)
    found = dict(zip(unit.rows, outputs, strict=True))
    for each in kernels:
        parts = [found[r.dtype][row : row + ROWS] for r, _, row in unit.place if r in each]
        for a, b in pairwise(parts):
            assert same_bits(a, b).all(), [r.value for r in each]
