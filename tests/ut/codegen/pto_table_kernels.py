"""Kernels that apply every operator of the table that has an instruction, many in one function.

In: an element type.  Out: a kernel in the operators' own words, and arrays for it.  Each result is stored in rows of its
own; operands are as the operator's declared semantics say that it reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword
from typing import Any

import numpy as np
from pto_lab import kernel
from pto_memory import DTYPES
from pto_tables import ELEMENTS, FORMS

from pypto.dtypes import DataType
from pypto.ir import ops
from pypto.ir.opdef import COL, FULL, MASK, PART, ROW, SCALAR, UNUSED, Lanewise, OpDef, Reduce
from pypto.ir.program import Program

__all__ = ["ROWS", "arrays", "table_kernel", "taken"]

ROWS, COLS = 32, 64
_TILES = {FULL: (ROWS, COLS), PART: (ROWS, COLS), ROW: (ROWS, 1), COL: (1, COLS)}
# Where results go that hold something else than the operands.
_TARGETS = {"cmp": "masks", "cmps": "masks", **{f"{w}_arg{n}": "indices" for w in ("row", "col") for n in ("max", "min")}}
_SCRATCH = {"prelu": "pl.tile.create([64, 64], dtype=pl.UINT8, target_memory=pl.Mem.Vec)"}


def taken(dtype: str, arch: str = "a2a3") -> list[OpDef]:
    """Operators on tiles whose instruction takes elements of a type, and which are no conversions."""
    masks = any(op.concept == "cmp" for op in _computing(dtype, arch))
    return [op for op in _computing(dtype, arch) if masks or not op.concept.startswith("sel")]


def _computing(dtype: str, arch: str) -> Iterator[OpDef]:
    for op in ops.ALL:
        declared = op.dtypes
        here = ELEMENTS.get(op.pto)
        computes = isinstance(op.semantics, (Lanewise, Reduce)) and op.level == "tile" and op.concept != "cast"
        on_chip = op.pto in FORMS and (here is None or dtype in here[arch == "a5"])
        if computes and on_chip and (not declared or DTYPES[dtype] in declared):
            yield op


def table_kernel(dtype: str, chosen: list[OpDef], arch: str = "a2a3") -> Program:
    """One kernel `k(x, y, row, col, o, masks, indices)` that applies the operators one after the other."""
    name = DTYPES[dtype].name
    lines = [
        _load("a", "x", (ROWS, COLS)),
        _load("b", "y", (ROWS, COLS)),
        _load("r", "row", (ROWS, 1)),
        _load("c", "col", (1, COLS)),
        f"s = pl.tile.create([{ROWS}, {COLS}], dtype=pl.{name}, target_memory=pl.Mem.Vec)",
        "m = pl.tile.cmp(a, b, cmp_type=4)" if _compares(dtype, arch) else "",
        "w = pl.tile.create([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)",
    ]
    for i, op in enumerate(chosen):
        spelled = op.concept + "_" * iskeyword(op.concept)
        lines.append(f"x{i} = pl.tile.{spelled}({', '.join(_operands(op, name))})")
        target = _TARGETS.get(op.concept, "o")
        lines.append(f"z{i} = pl.tile.store(x{i}, [{i * ROWS}, 0], {target})")
    rows = len(chosen) * ROWS
    params = (
        f"x: {_tensor(ROWS, COLS, name)}, y: {_tensor(ROWS, COLS, name)}, row: {_tensor(ROWS, 1, name)}, "
        f"col: {_tensor(1, COLS, name)}, o: pl.Out[{_tensor(rows, COLS, name)}], "
        f"masks: pl.Out[{_tensor(rows, 32, 'UINT8')}], indices: pl.Out[{_tensor(rows, COLS, 'INT32')}]"
    )
    return kernel("k", params, "\n".join(filter(None, lines)), raw=True)


def _compares(dtype: str, arch: str) -> bool:
    """Whether masks can be made of elements of a type."""
    return any(op.concept == "cmp" for op in _computing(dtype, arch))


def _tensor(rows: int, cols: int, name: str) -> str:
    return f"pl.Tensor[[{rows}, {cols}], pl.{name}]"


def _load(tile: str, tensor: str, shape: tuple[int, int]) -> str:
    r, c = shape
    return f"{tile} = pl.tile.load({tensor}, [0, 0], [{r}, {c}], [{r}, {c}], target_memory=pl.Mem.Vec)"


def _operands(op: OpDef, name: str) -> list[str]:
    form = op.semantics
    if isinstance(form, Reduce):
        given = ["a"] + ["s"] * (len(op.operands) - 1)
    else:
        assert isinstance(form, Lanewise)
        full = iter(("a", "b", "a"))
        given = [_operand(op, i, p, full, name) for i, p in enumerate(form.patterns)]
    return given + (["cmp_type=4"] if "cmp_type" in op.attrs else [])


def _operand(op: OpDef, i: int, pattern: str, full: Iterator[str], name: str) -> str:
    if pattern == SCALAR:
        value = "0.75" if DTYPES_BY_NAME[name].is_float() else "3"
        return f"pl.const({value}, pl.{name})"
    if pattern == UNUSED and i in op.scratch:
        return _SCRATCH.get(op.concept, "w" if op.concept == "sel" else "s")
    return {FULL: lambda: next(full), PART: lambda: "b", ROW: lambda: "r", COL: lambda: "c", MASK: lambda: "m"}.get(
        pattern, lambda: "a"
    )()


DTYPES_BY_NAME: dict[str, DataType] = {d.name: d for d in DTYPES.values()}


def arrays(dtype: str, count: int) -> list[Any]:
    """Arguments: numbers of which few are special, and outputs that show what was not written."""
    rng = np.random.default_rng(count)
    d = DTYPES[dtype]

    def numbers(*shape: int) -> np.ndarray:
        if d.is_float():
            return (rng.standard_normal(shape) * 3).astype(d.numpy())
        return rng.integers(0 if d.is_unsigned_int() else -7, 12, shape).astype(d.numpy())

    outs = [np.full((count * ROWS, n), 77, t) for n, t in ((COLS, d.numpy()), (32, np.uint8), (COLS, np.int32))]
    return [numbers(ROWS, COLS), numbers(ROWS, COLS), numbers(ROWS, 1), numbers(1, COLS), *outs]
