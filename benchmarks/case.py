"""What a row of the tables is: a kernel, its arrays, what it should give, and how much work that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Case", "Data", "aligned", "check", "empty"]


class Data(NamedTuple):
    """A kernel is called with (*inputs, out, *numbers).

    extents: what the yardstick is told.  moved: bytes that have to be read and written; operations: of its kind of arithmetic.
    """

    inputs: tuple[np.ndarray, ...]
    out: np.ndarray
    numbers: tuple[int, ...]
    extents: tuple[int, ...]
    moved: float
    operations: float


class Case(NamedTuple):
    """make(rng, tiny): the arrays.  reference(*inputs, *numbers): the result in float64, or exact integers.

    tolerance: largest error, relative to the largest element of the result.  kind: of arithmetic, for the machine's peak.
    """

    name: str
    section: str
    function: str
    kernel: Any
    make: Callable[[np.random.Generator, bool], Data]
    reference: Callable[..., np.ndarray]
    tolerance: float
    kind: str = "f32"


def aligned(x: np.ndarray) -> np.ndarray:
    """A copy that begins with a line of the cache."""
    y = empty(x.shape, x.dtype)
    y[...] = x
    return y


def empty(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array that begins with a line of the cache; each page has been touched."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    raw[:] = 1
    return raw[begin : begin + size].view(dtype).reshape(shape)


def check(case: Case, who: str, got: Any, want: np.ndarray) -> float:
    """The largest error, relative to the largest element; AssertionError beyond the case's tolerance."""
    found = np.asarray(got)
    assert found.shape == want.shape, f"{case.name}, {who}: shape {found.shape}, expected {want.shape}"
    error = np.abs(found.astype(np.float64) - want).max() / max(1e-30, np.abs(want).max())
    assert error <= case.tolerance, f"{case.name}, {who}: error {error:.2e}, allowed {case.tolerance:.0e}"
    return float(error)
