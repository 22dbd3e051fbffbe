"""Many operators in one compiled unit: text from results wanted, runs in every way, comparison element by element.

In: kernels, each a list of `Result`s (an expression, and what it gives).  Out: an assertion that names the way, the result
and the element that is wrong.  Every result has rows of its own in an output array of its dtype; what a result does not
define is either untouched (it still holds the sentinel) or free.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from lab import Way, environment

from pypto.config import CFLAGS, NATIVE_OPT
from pypto.debug import interpret
from pypto.dtypes import DataType
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.ir.program import Function, Program
from pypto.jit import JITFunction, driver
from pypto.jit.compiled import CompiledProgram
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.pipeline import Lowered, lower

Array = Any
Arguments = Mapping[str, Any]

COLUMNS = 96  # of every output array
# The optimizing code under the C compiler's optimizer; the plain code without it: quicker, and a second opinion about the C.
OPTIMIZED, PLAIN = Way(), Way(optimize=False)
WITHOUT_BUFFERS = (Way(buffers=False), Way(buffers=False, optimize=False))
OTHER_PLANNERS = (Way(MemoryPlanner.DSA_RP, optimize=False), Way(MemoryPlanner.PTOAS, optimize=False))


# How a result reaches its rows: a tile, a tensor.
STORE, ASSEMBLE = "pl.store({value}, [{row}, 0], {out})", "pl.assemble({out}, {value}, [{row}, 0])"


class Result(NamedTuple):
    """One value that a kernel computes and stores.

    want: the defined rectangle, from the top left, in the result's dtype.  ulps: how far from it an element may be.
    any_zero: the sign of a zero is not promised.  outside: "untouched" or "free", what lies beyond the rectangle.
    """

    label: str
    lines: tuple[str, ...]  # statements before the expression
    value: str
    dtype: DataType
    shape: tuple[int, int]  # physical rows and columns
    want: Callable[[Arguments], Array]
    ulps: int = 0
    any_zero: bool = False
    outside: str = "untouched"
    store: str = STORE


class Unit:
    """An entry whose on-chip scopes are the kernels; parameters: the inputs in order, then one output per dtype."""

    def __init__(self, name: str, inputs: Mapping[str, tuple[tuple[int, ...], DataType]], kernels: Sequence[Sequence[Result]]):
        self.name, self.inputs, self.kernels = name, dict(inputs), [tuple(k) for k in kernels]
        self.place: list[tuple[Result, str, int]] = []
        self.rows: dict[DataType, int] = {}
        for r in (r for k in self.kernels for r in k):
            at = self.rows.get(r.dtype, 0)
            self.place.append((r, _output(r.dtype), at))
            self.rows[r.dtype] = at + r.shape[0]

    def text(self) -> str:
        params = [f"    {n}: {_annotation(shape, d)}," for n, (shape, d) in self.inputs.items()]
        params += [f"    {_output(d)}: pl.Out[pl.Tensor[[{n}, {COLUMNS}], pl.{d.name}]]," for d, n in self.rows.items()]
        lines = ["import pypto.language as pl", "", "", "@pl.jit", f"def {self.name}(", *params, "):"]
        where = iter(self.place)
        for kernel in self.kernels:
            lines.append("    with pl.at(level=pl.Level.CORE_GROUP):")
            for r in kernel:
                _, out, row = next(where)
                lines += [f"        {line}" for line in r.lines]
                lines.append(f"        {out} = {r.store.format(value=r.value, row=row, out=out)}")
        lines.append(f"    return {', '.join(_output(d) for d in self.rows)}")
        return "\n".join(lines) + "\n"

    def load(self, directory: Path) -> JITFunction:
        """The entry, imported from a module written below `directory`."""
        return import_text(self.name, self.text(), directory)

    def fresh_outputs(self) -> list[Array]:
        return [np.full((n, COLUMNS), sentinel(d), d.numpy()) for d, n in self.rows.items()]


def import_text(name: str, text: str, directory: Path) -> JITFunction:
    """The kernel `name` of a module with this text, written below `directory`."""
    path = directory / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel: JITFunction = getattr(module, name)
    return kernel


def sentinel(dtype: DataType) -> Any:
    return True if dtype is DataType.BOOL else 77 if dtype.is_int() else -776.0


def _output(dtype: DataType) -> str:
    return f"o_{dtype.name.lower()}"


def _annotation(shape: tuple[int, ...], dtype: DataType) -> str:
    return f"pl.Tensor[{list(shape)}, pl.{dtype.name}]" if shape else f"pl.Scalar[pl.{dtype.name}]"


# -- what is wanted ------------------------------------------------------------------------------------------------------


class Wanted:
    """The outputs of one call as they have to be: values, ulps allowed (-1: anything), zeros of either sign."""

    def __init__(self, unit: Unit, args: Arguments) -> None:
        self.unit = unit
        self.values = dict(zip(map(_output, unit.rows), unit.fresh_outputs(), strict=True))
        self.ulps = {n: np.zeros(v.shape, np.int64) for n, v in self.values.items()}
        self.any_zero = {n: np.zeros(v.shape, bool) for n, v in self.values.items()}
        for r, out, row in unit.place:
            values = np.asarray(r.want(args))
            assert values.dtype == r.dtype.numpy(), f"{r.label}: the oracle gives {values.dtype}, the operator {r.dtype}"
            n, m = values.shape
            assert n <= r.shape[0], r.label
            assert m <= r.shape[1], r.label
            if r.outside == "free":
                self.ulps[out][row : row + r.shape[0], : r.shape[1]] = -1
            self.values[out][row : row + n, :m] = values
            self.ulps[out][row : row + n, :m] = r.ulps
            self.any_zero[out][row : row + n, :m] = r.any_zero

    def check(self, got: Sequence[Array], way: str, first: Sequence[Array] | None) -> None:
        """Within what is allowed of the values, and to the bit what the first way gave."""
        for i, name in enumerate(self.values):
            self._report(name, got[i], self.values[name], self._wrong(name, got[i]), way)
            if first is not None:
                apart = ~same_bits(got[i], first[i]) & (self.ulps[name] >= 0)
                self._report(name, got[i], first[i], apart, f"{way}, against the first way")

    def _wrong(self, name: str, got: Array) -> Array:
        want, ulps = self.values[name], self.ulps[name]
        good = same_bits(got, want) | (ulps < 0)
        if got.dtype.kind not in "iub":
            good |= self.any_zero[name] & (got == 0) & (want == 0)
            good |= (ulps > 0) & (np.abs(_ordinals(got) - _ordinals(want)) <= ulps) & ~np.isnan(got) & ~np.isnan(want)
        return ~good

    def _report(self, name: str, got: Array, want: Array, wrong: Array, way: str) -> None:
        if not wrong.any():
            return
        found = []
        for r, out, row in self.unit.place:
            part = wrong[row : row + r.shape[0]] if out == name else wrong[:0]
            if part.any():
                i, j = (int(k) for k in np.argwhere(part)[0])
                found.append(
                    f"{r.label}: {int(part.sum())} wrong, first [{i}, {j}]: {got[row + i, j]!r}, not {want[row + i, j]!r}"
                )
        raise AssertionError(f"{self.unit.name}, {way}:\n  " + "\n  ".join(found[:20]))


def same_bits(a: Array, b: Array) -> Array:
    """Elementwise; any NaN is any NaN."""
    bits = f"u{a.dtype.itemsize}"
    equal = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return equal if a.dtype.kind in "iub" else equal | ((a != a) & (b != b))


def _ordinals(x: Array) -> Array:
    """Floats as integers in their order, neighbours one apart, both zeros 0."""
    width = 8 * x.dtype.itemsize
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").astype(np.int64)
    magnitude = bits & ((1 << (width - 1)) - 1)
    return np.where(bits >> (width - 1), -magnitude, magnitude)


# -- runs ----------------------------------------------------------------------------------------------------------------


def compiled(
    kernel: JITFunction, args: Sequence[Any], way: Way = OPTIMIZED, *, c_optimizer: bool = True, platform: str = "a2a3sim"
) -> CompiledProgram:
    """The kernel as built for one way.  (A plain call would find what the process built first: it reads no environment.)"""
    flags = os.environ.get(CFLAGS.name, "") + ("" if c_optimizer else " -O0")
    with (
        environment(**{NATIVE_OPT.name: str(int(way.optimize)), CFLAGS.name: flags.strip()}),
        PassContext(memory_planner=way.planner, enable_buffer_ir=way.buffers, platform=platform),
    ):
        return kernel.compile(*args)


def check(
    unit: Unit,
    directory: Path,
    argument_sets: Sequence[Arguments],
    *,
    ways: Sequence[Way] = (OPTIMIZED, PLAIN, *WITHOUT_BUFFERS),
    c_optimizer: bool = True,
    interpreted: Sequence[int] | None = None,
    as_parsed: bool = True,
    platform: str = "a2a3sim",
) -> list[int]:
    """Every call gives what is wanted: natively in all ways, and interpreted as parsed and as finally lowered.

    Returns the numbers of the kernels that are lowered to buffers.

    Without a kernel that is lowered to buffers, the ways without Buffer IR would repeat the others and are left out.
    `c_optimizer` is for the first way.  `interpreted`: which of the calls are interpreted too.  `as_parsed` False: only
    the lowered program means the same.
    """
    kernel = unit.load(directory)
    calls = [(Wanted(unit, a), [a[n] for n in unit.inputs]) for a in argument_sets]
    sample = [*calls[0][1], *unit.fresh_outputs()]
    once = _Once()
    with mock.patch.object(driver, "lower", once), ThreadPoolExecutor(1) as pool:
        # The C compiler works on the first way while the interpreter runs.
        building = pool.submit(compiled, kernel, sample, ways[0], platform=platform) if c_optimizer else None
        program = kernel.specialize(*sample)
        lowered = once(program, PassOptions(platform=platform))
        chosen = range(len(calls)) if interpreted is None else interpreted
        found = _interpreted(unit, program if as_parsed else None, lowered, [(i, *calls[i]) for i in chosen])
        buffers = [k for k in range(len(unit.kernels)) if _is_buffers(lowered.device.get_function(f"{unit.name}_incore_{k}"))]
        builds = {ways[0]: building.result()} if building is not None else {}
        for way in ways:
            if way not in builds and (way.buffers or buffers):
                builds[way] = compiled(kernel, sample, way, c_optimizer=False, platform=platform)
    firsts: list[Any] = [None] * len(calls)
    for way, build in builds.items():
        for i, (wanted, values) in enumerate(calls):
            got = unit.fresh_outputs()
            build(*values, *got)
            wanted.check(got, f"native, {way}, call {i}", firsts[i])
            firsts[i] = got if firsts[i] is None else firsts[i]
    for what, i, got in found:
        calls[i][0].check(got, what, firsts[i])
    return buffers


class _Once:
    """The pass pipeline for one kernel: ways that part after it share its work."""

    def __init__(self) -> None:
        self.lock, self.known = Lock(), dict[PassOptions, Lowered]()

    def __call__(self, program: Program, options: PassOptions, **_: Any) -> Lowered:
        with self.lock:
            if options not in self.known:
                self.known[options] = lower(program, options)
            return self.known[options]


def _is_buffers(f: Function | None) -> bool:
    assert f is not None
    return f.ir_stage is FunctionIRStage.Buffer


def _interpreted(
    unit: Unit, parsed: Program | None, lowered: Lowered, calls: Sequence[tuple[int, Wanted, list[Any]]]
) -> list[tuple[str, int, list[Array]]]:
    """What the interpreter gives for each program and call, checked against what is wanted."""
    stages = {"as parsed": parsed, "lowered for the host": lowered.host}
    if lowered.device is not lowered.host:
        stages["lowered for the device"] = lowered.device
    found = []
    for stage, p in stages.items():
        for i, wanted, values in calls if p is not None else ():
            got = unit.fresh_outputs()
            interpret(p, [*values, *got], unit.name)
            what = f"interpreted {stage}, call {i}"
            wanted.check(got, what, None)
            found.append((what, i, got))
    return found
