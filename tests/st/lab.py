"""Shared by the system tests: one kernel, run in every way there is, and the demand that all of them agree to the bit.

In: a kernel and arrays.  Out: what it wrote and returned.  The ways: native code with and without optimizations, under
each memory planner, with and without Buffer IR, and the interpreter on the program as parsed, after chosen passes, and as
finally lowered for the device and for the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pypto.config import CFLAGS, NATIVE_OPT
from pypto.debug import Placement, interpret
from pypto.enums import MemoryPlanner
from pypto.ir.program import Program
from pypto.jit import JITFunction
from pypto.passes.context import ROUNDTRIP, PassContext, PassOptions
from pypto.passes.framework import Pass
from pypto.passes.pipeline import lower

__all__ = [
    "ALL",
    "BRIEF",
    "DEFAULT",
    "Way",
    "agree",
    "agree_interpreted",
    "agree_natively",
    "arrays",
    "assert_same_bits",
    "copies",
    "environment",
    "everywhere",
    "native",
    "on_the_way",
    "stages",
]


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
def environment(**values: str) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def on_the_way(way: Way) -> Iterator[None]:
    """Everything that decides how kernels are compiled.

    All but the default are compiled with -O0: that is quicker, and what the C means is checked by two compilers of sorts.
    """
    flags = os.environ.get(CFLAGS.name, "") + ("" if way == DEFAULT else " -O0")
    switches = {NATIVE_OPT.name: str(int(way.optimize)), CFLAGS.name: flags.strip()}
    with environment(**switches), PassContext(memory_planner=way.planner, enable_buffer_ir=way.buffers):
        yield


def copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]


def arrays(args: Sequence[Any]) -> list[np.ndarray]:
    return [a for a in args if isinstance(a, np.ndarray)]


def native(kernel: JITFunction, args: Sequence[Any], way: Way = DEFAULT) -> list[np.ndarray]:
    """The arrays after a native call on copies.

    Options of the environment are read when a kernel is specialized, which `compile` does and a repeated call does not.
    """
    given = copies(args)
    with on_the_way(way):
        kernel.compile(*given)(*given)
    return arrays(given)


def stages(program: Program, ways: Iterable[Way] = (DEFAULT,), early: bool = True) -> Iterator[tuple[str, Program, Placement]]:
    """The program as parsed, after the passes that change its form, and as each planner leaves it for the host.

    Every pass of the first planner is followed by the round trips through text and binary form.  Places in memory mean
    nothing before the host's storage is legalized: until then a tile is the value of its variable.
    """
    kept: list[tuple[str, Program, Placement]] = [("as parsed", program, Placement.VALUES)]

    def watch(_: int, p: Pass, after: Program) -> None:
        if p.name in STAGES:
            kept.append((f"after {p.name}", after, Placement.VALUES))

    level: int | None = ROUNDTRIP
    for planner, buffers in dict.fromkeys((w.planner, w.buffers) for w in ways):
        lowered = lower(program, PassOptions(memory_planner=planner, enable_buffer_ir=buffers), level=level, watch=watch)
        if level is not None:
            yield from kept if early else ()
            level = None
        yield f"for the host, {Way(planner, buffers)}", lowered.host, _MEANING[planner]


_MEANING = {
    MemoryPlanner.PYPTO: Placement.ADDRESSED,
    MemoryPlanner.DSA_RP: Placement.ADDRESSED,
    MemoryPlanner.PTOAS: Placement.PRIVATE,
}


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


def agree(kernel: JITFunction, *calls: Sequence[Any], ways: Iterable[Way] = BRIEF, early: bool = True) -> list[list[np.ndarray]]:
    """The arrays after each call, on which every way agrees; all calls must ask for one specialization.

    `early` off: the chip decides what the kernel means (a conversion by several hops), so that it is interpreted only as
    the host runs it.
    """
    ways = tuple(ways)
    wanted = agree_natively(lambda args, way: native(kernel, args, way), calls, ways)
    program = kernel.specialize(*calls[0])
    entry = program.get_function(kernel.__name__)
    assert entry is not None
    # A scalar that the language needs as a constant is no parameter of the program.
    known = {p.name_hint for p in entry.params}
    kept = [i for i, name in enumerate(kernel.source.parameters) if name in known]
    agree_interpreted(program, kernel.__name__, kept, calls, wanted, ways, early)
    return wanted


def everywhere(kernel: JITFunction, *args: Any, ways: Iterable[Way] = BRIEF, early: bool = True) -> list[np.ndarray]:
    """The arrays among `args` after one call, on which every way agrees."""
    return agree(kernel, args, ways=ways, early=early)[0]


def agree_natively(
    call: Callable[[Sequence[Any], Way], list[np.ndarray]], calls: Sequence[Sequence[Any]], ways: Sequence[Way]
) -> list[list[np.ndarray]]:
    """The arrays after each call, on which the ways to native code agree."""
    wanted = [call(args, ways[0]) for args in calls]
    for way in ways[1:]:
        for args, want in zip(calls, wanted, strict=True):
            assert_same_bits(call(args, way), want, f"native, {way}")
    return wanted


def agree_interpreted(
    program: Program,
    entry: str,
    kept: Iterable[int],
    calls: Sequence[Sequence[Any]],
    wanted: Sequence[Sequence[np.ndarray]],
    ways: Sequence[Way],
    early: bool,
) -> None:
    """Demand that interpreting every stage gives what was `wanted`; `kept` are the arguments that the program takes."""
    for stage, p, placement in stages(program, ways, early):
        for args, want in zip(calls, wanted, strict=True):
            given = copies(args)
            interpret(p, [given[i] for i in kept], entry, placement)
            assert_same_bits(arrays(given), want, f"interpreted, {stage}")
