"""Shared by the system tests: one kernel, run in every way there is, and the demand that all of them agree to the bit.

In: a kernel and arrays.  Out: what it wrote and returned.  The ways: native code with and without optimizations, under
each memory planner, with and without Buffer IR, and the interpreter on the program as parsed, after chosen passes, and as
finally lowered for the device and for the host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pypto.config import NATIVE_OPT
from pypto.debug import interpret
from pypto.enums import MemoryPlanner
from pypto.ir.program import Program
from pypto.jit import JITFunction
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.framework import Pass
from pypto.passes.pipeline import lower

__all__ = ["ALL", "BRIEF", "Way", "assert_same_bits", "everywhere", "interpreted", "native"]


class Way(NamedTuple):
    """One way to native code."""

    planner: MemoryPlanner = MemoryPlanner.PYPTO
    buffers: bool = True
    optimize: bool = True

    def __str__(self) -> str:
        return (
            f"{self.planner.name}, Buffer IR {'on' if self.buffers else 'off'}, optimizations {'on' if self.optimize else 'off'}"
        )


DEFAULT = Way()
ALL = tuple(Way(p, b, o) for p in MemoryPlanner for b in (True, False) for o in (True, False))
# Each choice against the default: what a program costs four builds to cover.
BRIEF = (DEFAULT, Way(optimize=False), Way(MemoryPlanner.DSA_RP), Way(MemoryPlanner.PTOAS, False))
# Where the program has changed its form: SSA, kernels of their own, tiles, memory spaces, storage, addresses.
STAGES = (
    "ConvertToSSA",
    "OutlineIncoreScopes",
    "ConvertTensorToTileOps",
    "InferTileMemorySpace",
    "InitMemRef",
    "AllocateMemoryAddr",
)


@contextmanager
def _optimizations(on: bool) -> Iterator[None]:
    before = os.environ.get(NATIVE_OPT.name)
    os.environ[NATIVE_OPT.name] = "1" if on else "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[NATIVE_OPT.name]
        else:
            os.environ[NATIVE_OPT.name] = before


def _copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]


def _arrays(args: Sequence[Any]) -> list[np.ndarray]:
    return [a for a in args if isinstance(a, np.ndarray)]


def native(kernel: JITFunction, args: Sequence[Any], way: Way = DEFAULT) -> list[np.ndarray]:
    """The arrays after a native call on copies."""
    given = _copies(args)
    with _optimizations(way.optimize), PassContext(memory_planner=way.planner, enable_buffer_ir=way.buffers):
        kernel(*given)
    return _arrays(given)


def interpreted(program: Program, args: Sequence[Any], entry: str | None = None) -> list[np.ndarray]:
    """The arrays after interpreting a program on copies."""
    given = _copies(args)
    interpret(program, given, entry)
    return _arrays(given)


def stages(program: Program, way: Way = DEFAULT) -> Iterator[tuple[str, Program]]:
    """The program as parsed, after each pass of `STAGES`, and as lowered."""
    kept: list[tuple[str, Program]] = []

    def watch(_: int, p: Pass, after: Program) -> None:
        if p.name in STAGES:
            kept.append((f"after {p.name}", after))

    lowered = lower(program, PassOptions(memory_planner=way.planner, enable_buffer_ir=way.buffers), watch=watch)
    yield "as parsed", program
    yield from kept
    yield "lowered for the device", lowered.device
    yield "lowered for the host", lowered.host


def assert_same_bits(got: Sequence[np.ndarray], want: Sequence[np.ndarray], what: str) -> None:
    """Equal to the bit; every NaN is the same NaN to an arithmetic result, so NaNs of floats count as equal."""
    assert len(got) == len(want)
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), f"{what}: array {n}"
        bits = f"u{g.dtype.itemsize}"
        differs = np.ascontiguousarray(g).view(bits) != np.ascontiguousarray(w).view(bits)
        if g.dtype.kind not in "iub":
            differs &= ~((g != g) & (w != w))
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            raise AssertionError(
                f"{what}: array {n}, {int(differs.sum())} elements differ, first at {at}: {g[at]!r}, not {w[at]!r}"
            )


def everywhere(kernel: JITFunction, *args: Any, ways: Iterable[Way] = BRIEF, interpreter: bool = True) -> list[np.ndarray]:
    """The arrays among `args` after a call, which every way agrees on."""
    ways = tuple(ways)
    want = native(kernel, args, ways[0])
    for way in ways[1:]:
        assert_same_bits(native(kernel, args, way), want, f"native, {way}")
    if interpreter:
        program = kernel.specialize(*args)
        for stage, p in stages(program):
            assert_same_bits(interpreted(p, args, kernel.__name__), want, f"interpreted {stage}")
    return want
