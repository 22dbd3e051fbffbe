"""Decisions of the generators, drawn from hypothesis, so that a failing program shrinks by itself.

In: a draw function.  Out: numbers and picks.  Invariant: the smallest decision is the simplest one: lists of options
begin with the plainest, "no" is smaller than "yes".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


@lru_cache(maxsize=4096)
def _numbers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


class Choices:
    """The one source of every decision of a program."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        """Of low..high, both included."""
        return low if high <= low else int(self._draw(_numbers(low, high)))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """Of (weight, option) pairs."""
        at = self.number(0, sum(w for w, _ in options) - 1)
        for weight, option in options:
            at -= weight
            if at < 0:
                return option
        raise AssertionError("weights are positive")
