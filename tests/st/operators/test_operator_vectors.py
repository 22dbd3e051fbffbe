"""Hand-made cases of single operators (`tests/data/operators.json`, described in the README beside it).

Each case is one kernel; the kernels of many cases are one compiled unit.  Native code with and without optimizations and
the interpreter give what the case says.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from operator_kit import PLAIN, compiled, import_text

from pypto.debug import interpret
from pypto.dtypes import DataType
from pypto.errors import Error
from pypto.ir import ops
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

Array = Any
FILE = Path(__file__).resolve().parents[2] / "data" / "operators.json"
# Cases that the operator may refuse, and does.
_REFUSED = """
    add_BF16_1 add_INT8_1 mul_INT8_1 add_FP32_7 abs_INT32_1 col_argmax_INT32_1 col_argmin_INT32_1 col_argmax_INT16_1
    col_argmin_INT16_1
"""
REFUSED = frozenset(_REFUSED.split())
# Elements that depend on the order of a reduction: this product stays in range from left to right only, not by lanes.
ORDERED = {"row_prod_FP32_1": (7, 0)}
UNIT = 40  # cases


def _known(op: str) -> bool:
    space, _, name = op.rpartition(".")
    return space == "scalar" or any(ops.find_dsl(s, name) is not None for s in ({space} if space else {"", "tile", "tensor"}))


class Case(NamedTuple):
    """One case under names of its own."""

    data: dict[str, Any]
    n: int
    inputs: list[Array]
    want: Array  # of floats and integers, NaN where nothing is said; None where the case is to be refused
    said: Array

    @property
    def params(self) -> list[str]:
        names = [
            f"v{self.n}_i{k}: pl.Tensor[{list(x.shape)}, pl.{d}]"
            for k, (x, d) in enumerate(zip(self.inputs, self.data["dtypes"], strict=True))
        ]
        return [*names, f"v{self.n}_o0: pl.Out[pl.Tensor[{list(self.shape)}, pl.{self.data['out']}]]"]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.want.shape if self.want is not None else self.inputs[0].shape

    def output(self) -> Array:
        return np.full(self.shape, self.data.get("dest_fill", 0), dtype_of(self.data["out"]))

    def body(self) -> list[str]:
        """Statements that write the output."""
        tree = ast.parse(self.data["dsl"])
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        lines = []
        for k, x in enumerate(self.inputs):
            if f"t{k}" in used - made:
                valid = self.data.get("valid")
                extent = f", {valid[k]}" if valid else ""
                lines.append(f"t{k} = pl.load(i{k}, {[0] * x.ndim}, {list(x.shape)}{extent})")
        if "w" in used - made:
            lines.append(f"w = pl.create_tile({list(self.inputs[0].shape)}, dtype=pl.{self.data['dtypes'][0]})")
        text, start = self.data["dsl"].split("; "), [0] * len(self.shape)
        if "o0" not in used:
            result = text.pop()
            text.append(
                f"o0 = pl.store({result}, {start}, o0)"
                if self.data["level"] == "tile"
                else f"o0 = pl.assemble(o0, {result}, {start})"
            )
        own = ast.parse("\n".join([*lines, *text]))
        for node in ast.walk(own):
            if isinstance(node, ast.Name) and node.id != "pl":
                node.id = f"v{self.n}_{node.id}"
        return ast.unparse(own).splitlines()

    def check(self, got: Array, way: str) -> None:
        v, said = self.data, self.said
        have, want = got.astype(np.float64) if got.dtype.kind not in "iu" else got, self.want
        equal = (have == want) | ((have != have) & (want != want))
        if "rtol" in v:
            with np.errstate(invalid="ignore"):
                equal |= np.abs(have - want) <= v["rtol"] * np.abs(want) + v.get("atol", 0)
        if v.get("zero_sign"):
            equal &= (have != 0) | (np.signbit(have) == np.signbit(want))
        wrong = said & ~equal
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise AssertionError(f"{v['id']}, {way}: {v['dsl']}: element {list(at)} is {got[at]!r}, not {want[at]!r}")


def dtype_of(name: str) -> Any:
    return getattr(DataType, name).numpy()


def array_of(values: Any, dtype: str) -> Array:
    def number(x: Any) -> Any:
        return [number(y) for y in x] if isinstance(x, list) else float(x) if isinstance(x, str) else x

    with np.errstate(over="ignore"):
        return np.array(number(values)).astype(dtype_of(dtype))


def _cases() -> list[Case]:
    file = json.loads(FILE.read_text())
    made = []
    for n, v in enumerate(file["vectors"]):
        inputs = [array_of(file["arrays"][i], d) for i, d in zip(v["inputs"], v["dtypes"], strict=True)]
        want = said = None
        if "expected" in v:
            values = file["arrays"][v["expected"]]
            said = np.array(_said(values))
            if v["id"] in ORDERED:
                said[ORDERED[v["id"]]] = False
            want = array_of(_filled(values), v["out"])
            want = want if want.dtype.kind in "iu" else want.astype(np.float64)
        made.append(Case(v, n, inputs, want, said))
    return made


def _said(x: Any) -> Any:
    return [_said(y) for y in x] if isinstance(x, list) else x is not None


def _filled(x: Any) -> Any:
    return [_filled(y) for y in x] if isinstance(x, list) else 0 if x is None else x


CASES = _cases()
RUN = [c for c in CASES if "refused" not in c.data and c.data["id"] not in REFUSED]
# A conversion may become a chain of them, which only the lowered program says.
CASTS, OTHERS = [c for c in RUN if c.data["op"] == "cast"], [c for c in RUN if c.data["op"] != "cast"]
UNITS = [
    (f"{name}_{at}", group[at : at + UNIT])
    for name, group in (("cast", CASTS), ("others", OTHERS))
    for at in range(0, len(group), UNIT)
]


def entry(name: str, cases: list[Case], directory: Path) -> Any:
    lines = ["import pypto.language as pl", "", "", "@pl.jit", f"def {name}("]
    lines += [f"    {p}," for c in cases for p in c.params]
    lines.append("):")
    for c in cases:
        lines += ["    with pl.at(level=pl.Level.CORE_GROUP):", *(f"        {s}" for s in c.body())]
    lines.append(f"    return {', '.join(f'v{c.n}_o0' for c in cases)}")
    return import_text(name, "\n".join(lines) + "\n", directory)


def arguments(cases: list[Case]) -> list[Array]:
    return [a for c in cases for a in (*c.inputs, c.output())]


def check(cases: list[Case], args: list[Array], way: str) -> None:
    at = 0
    for c in cases:
        at += len(c.inputs) + 1
        c.check(args[at - 1], way)


@pytest.mark.parametrize(("name", "cases"), UNITS, ids=[n for n, _ in UNITS])
def test_cases(name: str, cases: list[Case], tmp_path: Path) -> None:
    kernel = entry(name, cases, tmp_path)
    args = arguments(cases)
    kernel(*args)
    check(cases, args, "called")
    args = arguments(cases)
    compiled(kernel, args, PLAIN, c_optimizer=False)(*args)
    check(cases, args, f"native, {PLAIN}")
    program = kernel.specialize(*arguments(cases))
    lowered = lower(program, PassOptions())
    stages = {"as parsed": program} if not name.startswith("cast") else {}
    for stage, p in (stages | {"lowered for the host": lowered.host, "lowered for the device": lowered.device}).items():
        args = arguments(cases)
        interpret(p, args, name)
        check(cases, args, f"interpreted {stage}")


@pytest.mark.parametrize("case", [c for c in CASES if "refused" in c.data], ids=lambda c: c.data["id"])
def test_refused_cases(case: Case, tmp_path: Path) -> None:
    kernel = entry("refused", [case], tmp_path)
    args = arguments([case])
    with pytest.raises(Error) as e:
        kernel(*args)
    for word in case.data["refused"]:
        assert word.lower() in str(e.value).lower(), str(e.value)


@pytest.mark.parametrize("case", [c for c in CASES if c.data["id"] in REFUSED], ids=lambda c: c.data["id"])
def test_optional_cases_that_are_refused(case: Case, tmp_path: Path) -> None:
    assert case.data["optional"]
    with pytest.raises(Error):
        entry("optional", [case], tmp_path)(*arguments([case]))


def test_every_operator_of_the_cases_is_known() -> None:
    names = {c.data["op"] for c in CASES}
    assert {op for op in names if _known(op)} == names
    assert len(CASES) == 460
