"""What the program tests share: arrays with sentinels, exact comparisons, and kernels run in every way on several inputs.

In: a kernel and one or more argument lists of one specialization.  Out: the arrays after each call, which native code and
interpreter agree on to the bit, whatever the planner, Buffer IR and optimizations.
"""

import importlib.util
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from lab import ALL, BRIEF, Way, _optimizations, assert_same_bits, native, stages

from pypto import ir
from pypto.debug import Placement
from pypto.debug import run as debug_run
from pypto.enums import MemoryPlanner
from pypto.ir.program import Program
from pypto.jit import JITFunction
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.pipeline import lower

__all__ = [
    "ALL",
    "BRIEF",
    "PLANNED",
    "agree",
    "agree_program",
    "bits",
    "blocks",
    "cfg",
    "module",
    "normal",
    "out",
    "run",
    "same",
    "whole",
]

# Every planner with and without Buffer IR, and with and without optimizations, each pair of choices at least once.
PLANNED = (
    Way(),
    Way(MemoryPlanner.PYPTO, False, False),
    Way(MemoryPlanner.DSA_RP, True, False),
    Way(MemoryPlanner.DSA_RP, False),
    Way(MemoryPlanner.PTOAS, True),
    Way(MemoryPlanner.PTOAS, False, False),
)
_numbers = itertools.count()


def out(*shape: int, dtype: Any = np.float32, fill: float = -777) -> np.ndarray:
    """An output whose elements show whether they were written."""
    return np.full(shape, fill, dtype)


def cfg(*values: int) -> np.ndarray:
    """Run-time parameters for pl.read."""
    c = np.zeros(8, np.int32)
    c[: len(values)] = values
    return c


def normal(*shape: int, number: int = 0) -> np.ndarray:
    """Standard normal numbers, the same ones every time."""
    return np.random.default_rng(number).standard_normal(shape, dtype=np.float32)


def whole(*shape: int, dtype: Any = np.float32, low: int = -9, high: int = 10) -> np.ndarray:
    """Small integers: sums and products of a few of them are exact."""
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def blocks(*values: float, rows: int = 8, cols: int = 8) -> np.ndarray:
    """Blocks of equal rows, one after the other."""
    return np.repeat(np.float32(values), rows)[:, None] * np.ones((1, cols), np.float32)


def same(got: np.ndarray, want: Any) -> None:
    """Equal values; NaN equals NaN, and the sign of zero does not count."""
    np.testing.assert_array_equal(got, np.broadcast_to(np.asarray(want).astype(got.dtype), got.shape))


def bits(got: np.ndarray, want: Any) -> None:
    """Equal bits: the sign of zero counts; NaN may have any."""
    full = np.ascontiguousarray(np.broadcast_to(np.asarray(want, got.dtype), got.shape))
    assert_same_bits([np.ascontiguousarray(got)], [full], "result")
    assert ((got != got) == (full != full)).all()


def agree(kernel: JITFunction, *calls: Sequence[Any], ways: Iterable[Way] = BRIEF, early: bool = True) -> list[list[np.ndarray]]:
    """The arrays after each call, on which every way agrees; all calls must ask for one specialization.

    `early` off: the chip decides what the kernel means (a conversion by several hops), so that it is interpreted only as
    the host runs it.
    """
    ways = tuple(ways)
    wanted = _native(lambda args, way: native(kernel, args, way), calls, ways)
    program = kernel.specialize(*calls[0])
    entry = program.get_function(kernel.__name__)
    assert entry is not None
    # A scalar that the language needs as a constant is no parameter of the program.
    known = {p.name_hint for p in entry.params}
    kept = [i for i, name in enumerate(kernel.source.parameters) if name in known]
    _interpreted(program, kernel.__name__, kept, calls, wanted, ways, early)
    return wanted


def agree_program(program: Program, entry: str, *calls: Sequence[Any], ways: Iterable[Way] = BRIEF) -> list[list[np.ndarray]]:
    """The same for a program that exists already."""
    ways = tuple(ways)

    def call(args: Sequence[Any], way: Way) -> list[np.ndarray]:
        given = _copies(args)
        with _optimizations(way.optimize), PassContext(memory_planner=way.planner, enable_buffer_ir=way.buffers):
            ir.compile(program)(*given)
        return _arrays(given)

    wanted = _native(call, calls, ways)
    _interpreted(program, entry, range(len(calls[0])), calls, wanted, ways, True)
    return wanted


def _native(call: Callable[[Sequence[Any], Way], list[np.ndarray]], calls: Any, ways: tuple[Way, ...]) -> list[list[np.ndarray]]:
    wanted = [call(args, ways[0]) for args in calls]
    for way in ways[1:]:
        for args, want in zip(calls, wanted, strict=True):
            assert_same_bits(call(args, way), want, f"native, {way}")
    return wanted


def _interpreted(
    program: Program, entry: str, kept: Iterable[int], calls: Any, wanted: Any, ways: tuple[Way, ...], early: bool
) -> None:
    for stage, p, placement in _executable(program, ways, early):
        for args, want in zip(calls, wanted, strict=True):
            given = _copies(args)
            debug_run(p, entry, [given[i] for i in kept], placement)
            assert_same_bits(_arrays(given), want, f"interpreted, {stage}")


def _copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def _arrays(args: Sequence[Any]) -> list[np.ndarray]:
    return [a for a in args if isinstance(a, np.ndarray)]


def _executable(program: Program, ways: tuple[Way, ...], early: bool) -> Iterator[tuple[str, Program, Placement]]:
    """The program as parsed, after the passes that change its form, and as each planner leaves it for the host.

    Places in memory mean nothing before the host's storage is legalized: until then a tile is the value of its variable.
    """
    for stage, p in stages(program) if early else ():
        if not stage.startswith("lowered"):
            yield stage, p, Placement.VALUES
    for planner, buffers in dict.fromkeys((w.planner, w.buffers) for w in ways):
        host = lower(program, PassOptions(memory_planner=planner, enable_buffer_ir=buffers)).host
        yield f"for the host, {Way(planner, buffers)}", host, _MEANING[planner]


_MEANING = {
    MemoryPlanner.PYPTO: Placement.ADDRESSED,
    MemoryPlanner.DSA_RP: Placement.ADDRESSED,
    MemoryPlanner.PTOAS: Placement.PRIVATE,
}


def run(kernel: JITFunction, *args: Any, ways: Iterable[Way] = BRIEF, early: bool = True) -> list[np.ndarray]:
    """The arrays after one call, on which every way agrees."""
    return agree(kernel, args, ways=ways, early=early)[0]


def module(text: str, folder: Any) -> Any:
    """A module from generated text, in a file of its own, where source capture finds it."""
    name = f"generated_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
