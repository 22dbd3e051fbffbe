"""A whole program: its text, its twin's, and the arguments of a few calls.

In: decisions.  Out: a `Program`.  Invariant: every argument is within what the program relies on, and everything else about
it is free: special values, extreme integers, extents of one row, loops that do not run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from fuzz_body import SLOTS, Arrays
from fuzz_choices import Choices
from fuzz_entry import ENTRY, entry_body
from fuzz_flow import statement

CALLS = 3
SENTINEL = {"f": -777.0, "i": 77, "u": 77}
NUMPY = {"FP32": np.float32, "FP16": np.float16, "BF16": ml_dtypes.bfloat16, "INT64": np.int64}
NUMPY |= {f"{s}INT{n}": np.dtype(f"{s.lower() or 'i'}{n // 8}").type for s in ("", "U") for n in (8, 16, 32)}


class Program(NamedTuple):
    kernel: str
    twin: str
    calls: list[list[Any]]
    aliases: list[tuple[int, int]]  # an input that may be the same array as an output
    outputs: list[int]
    chains: bool  # its conversions mean what the chip makes of them

    def __repr__(self) -> str:
        return "Program"  # what fails is printed whole, once

    def text(self) -> str:
        numbers = [[a for a in call if not isinstance(a, np.ndarray)] for call in self.calls]
        return f"{self.kernel}\n# twin:\n{self.twin}\n# numbers of the calls: {numbers}\n"


def program(r: Choices, most: int) -> Program:
    """A program of up to `most` statements of an entry, each a kernel or some control flow around kernels."""
    b = entry_body(r)
    b.chains = r.chance(25)
    ENTRY[0][1](b)
    for _ in range(r.number(0, most - 1)):
        statement(b)
    return _finished(r, b, b.arrays)


def _finished(r: Choices, b: Any, arrays: Arrays) -> Program:
    seed = r.number(0, 9999)
    outputs = {n: (o[0], _rows(r, arrays, o), o[1]) for n, o in arrays.outputs.items() if o[2]}
    kernel, twin = _signature(r, arrays, outputs)
    returned = [*outputs, *arrays.elements]
    b.lines.put(f"return {', '.join(returned)}" if returned and r.chance(80) else "", "")
    texts = ["import pypto.language as pl", *(f'{s} = pl.dynamic("{s}")' for s in arrays.symbols), ""]
    twins: list[str] = []
    for lines, said in b.functions:
        texts += [*lines, ""]
        twins += [*said, ""]
    texts += ["@pl.jit", f"def entry({', '.join(kernel)}):", *b.lines.kernel, ""]
    twins += [f"def entry({', '.join(twin)}):", *b.lines.twin, ""]
    calls = [_arguments(arrays, outputs, seed, k) for k in range(CALLS)]
    first = calls[0]
    reads = range(len(arrays.inputs))
    places = range(len(first) - len(outputs) - len(arrays.elements), len(first) - len(arrays.elements))
    same = [(i, o) for o in places for i in reads if (first[i].shape, first[i].dtype) == (first[o].shape, first[o].dtype)]
    writes = [i for i, n in enumerate(twin) if n[0] in "oe"]
    return Program("\n".join(texts), "\n".join(twins), calls, same, writes, b.chains)


def _rows(r: Choices, arrays: Arrays, o: list[Any]) -> int:
    """As many rows as are used, or as an input of that width has, so that one array may be both."""
    alike = [g.shape[0] for g in arrays.inputs.values() if g.dtype == o[0] and g.shape[1] == o[1] and g.shape[0] >= o[2]]
    return int(o[2]) if not alike else min(alike)


def _signature(r: Choices, arrays: Arrays, outputs: dict[str, tuple[str, int, int]]) -> tuple[list[str], list[str]]:
    kernel, names = [], []

    def put(name: str, note: str) -> None:
        kernel.append(f"{name}: {note}")
        names.append(name)

    for n, g in arrays.inputs.items():
        put(n, f"pl.Tensor[{list(g.shape)}, pl.{g.dtype}]" if r.chance(30) else "pl.Tensor")
    for symbol, (x, o, dtype, cols, _) in arrays.symbols.items():
        put(x, f"pl.Tensor[[{symbol}, {cols}], pl.{dtype}]")
        put(o, f"pl.Out[pl.Tensor[[{symbol}, {cols}], pl.{dtype}]]")
    put("c", "pl.Tensor")
    for n, s in arrays.numbers.items():
        put(n, f"pl.{s.dtype}")
    for n, (dtype, rows, cols) in outputs.items():
        direction = "InOut" if n in arrays.read_outputs else "Out"
        put(n, f"pl.{direction}[pl.Tensor[[{rows}, {cols}], pl.{dtype}]]" if r.chance(30) else f"pl.{direction}[pl.Tensor]")
    for n in arrays.elements:
        put(n, "pl.Out[pl.Tensor]")
    return kernel, names


# -- arguments -----------------------------------------------------------------------------------------------------------

_HARD = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-44, 3.4e38, 0.5, -2.5, 1.5, 65504.0, 6e-8, 2.0**31, -(2.0**31)]


def values(rng: Any, dtype: str, shape: tuple[int, ...], flavour: int, limit: int = 0, step: int = 1) -> Any:
    """Small whole numbers; ordinary numbers; hard ones among them.  Indices are below their limit."""
    numpy = np.dtype(NUMPY[dtype])
    if limit:
        return (rng.integers(0, limit, shape) * step).astype(numpy)
    if numpy.kind in "iu":
        info = np.iinfo(numpy)
        if flavour == 0:
            return rng.integers(max(-9, info.min), 10, shape).astype(numpy)
        made = rng.integers(info.min, info.max, shape, dtype=np.int64, endpoint=True).astype(numpy)
        hard = np.array([info.min, info.max, 0, 1, info.max // 2, max(info.min, -1)], numpy)
        return np.where(rng.random(shape) < 0.2, hard[rng.integers(0, len(hard), shape)], made)
    if flavour == 0:
        return rng.integers(-9, 10, shape).astype(np.float32).astype(numpy)
    made = (rng.standard_normal(shape) * 4).astype(np.float32)
    if flavour == 2:
        with np.errstate(all="ignore"):
            hard = np.array(_HARD, np.float32)[rng.integers(0, len(_HARD), shape)]
            made = np.where(rng.random(shape) < 0.3, hard, made * 10.0 ** rng.integers(-6, 7, shape)).astype(np.float32)
    with np.errstate(all="ignore"):
        return made.astype(numpy)


def _arguments(arrays: Arrays, outputs: dict[str, tuple[str, int, int]], seed: int, k: int) -> list[Any]:
    rng = np.random.default_rng([seed, k])
    out: list[Any] = [values(rng, g.dtype, g.shape, k % 3, g.limit, g.step) for g in arrays.inputs.values()]
    for _, _, dtype, cols, rows in arrays.symbols.values():
        n = int(rng.choice([1, rows, rows + 1, 2 * rows, 2 * rows + 3, max(1, rows - 1)]))
        out += [values(rng, dtype, (n, cols), k % 3), _sentinels(dtype, n, cols)]
    config = np.zeros(SLOTS, np.int32)
    for i, (low, high) in enumerate(arrays.slots):
        config[i] = low if k == 1 and rng.random() < 0.5 else rng.integers(low, high, endpoint=True)
    out.append(config)
    for s in arrays.numbers.values():
        out.append(_number(rng, s.dtype, s.low, s.high, k))
    out += [_sentinels(d, rows, cols) for d, rows, cols in outputs.values()]
    out += [_sentinels(o[0], SLOTS) for o in arrays.elements.values()]
    return out


def _sentinels(dtype: str, *shape: int) -> Any:
    numpy = np.dtype(NUMPY[dtype])
    return np.full(shape, SENTINEL.get(numpy.kind, -777.0)).astype(numpy)


def _number(rng: Any, dtype: str, low: int | None, high: int | None, k: int) -> Any:
    if dtype == "BOOL":
        return bool(rng.integers(0, 2))
    if dtype == "FP32":
        return float(values(rng, "FP32", (1,), k % 3)[0])
    if low is not None and high is not None:
        return int(rng.integers(low, high, endpoint=True))
    return int(values(rng, "INT32", (1,), k % 3)[0])
