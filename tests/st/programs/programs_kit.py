"""What the program tests share: arrays with sentinels, exact comparisons, and kernels run in every way on several inputs.

In: a kernel and one or more argument lists of one specialization.  Out: the arrays after each call, which native code and
interpreter agree on to the bit, whatever the planner, Buffer IR and optimizations.
"""

import importlib.util
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from lab import (
    ALL,
    BRIEF,
    Way,
    agree,
    agree_interpreted,
    agree_natively,
    arrays,
    assert_same_bits,
    copies,
    on_the_way,
)
from lab import everywhere as run

from pypto import ir
from pypto.enums import MemoryPlanner
from pypto.ir.program import Program

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


def agree_program(program: Program, entry: str, *calls: Sequence[Any], ways: Iterable[Way] = BRIEF) -> list[list[np.ndarray]]:
    """The arrays after each call of a program that exists already, on which every way agrees."""
    ways = tuple(ways)

    def call(args: Sequence[Any], way: Way) -> list[np.ndarray]:
        given = copies(args)
        with on_the_way(way):
            ir.compile(program)(*given)
        return arrays(given)

    wanted = agree_natively(call, calls, ways)
    agree_interpreted(program, entry, range(len(calls[0])), calls, wanted, ways, True)
    return wanted


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
