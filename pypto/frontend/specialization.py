"""For what arguments a kernel is compiled: one record per parameter.

Invariant: everything here is a value (hashable, picklable); run-time scalars keep their sample value only so that a
parameter that turns out to be needed as a constant can be made one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import TensorLayout
from pypto.named import NamedTuple

__all__ = ["Argument", "ScalarArg", "Specialization", "StaticArg", "StaticParameterNeeded", "TensorArg"]


class TensorArg(NamedTuple):
    """A tensor: each extent an int, or the name of a dynamic symbol."""

    dims: tuple[int | str, ...]
    dtype: DataType
    layout: TensorLayout = TensorLayout.ND


class ScalarArg(NamedTuple):
    """A run-time scalar; `value` is that of the call at hand, None where it is not known."""

    dtype: DataType
    value: int | float | bool | None = None


class StaticArg(NamedTuple):
    """A parameter that is a constant of this specialization."""

    value: Any


Argument = TensorArg | ScalarArg | StaticArg
Specialization = Mapping[str, Argument]


class StaticParameterNeeded(Exception):
    """The language needs a constant (a shape, a tile size, an attribute) where run-time parameter `name` stands."""

    def __init__(self, name: str, function: str, owner: object = None) -> None:
        super().__init__(f"parameter '{name}' of '{function}' must be static")
        self.name, self.function = name, function
        self.owner = owner  # the function under construction whose parameter it is

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticParameterNeeded, (self.name, self.function)
