"""Sets of enumeration members under the method names that existing programs use.

Invariant: iteration and text follow the members' numbers; unlike a frozenset they can change, so they have no hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from pypto.ir.verify.properties import IRProperty

__all__ = ["EnumSet", "IRPropertySet"]

E = TypeVar("E", bound=Enum)
S = TypeVar("S", bound="EnumSet[Enum]")


class EnumSet(Generic[E]):
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, members: Iterable[E] = ()) -> None:
        self._items = set(members)

    def insert(self, member: E) -> None:
        self._items.add(member)

    def remove(self, member: E) -> None:
        """Take one out; nothing happens if it is not in."""
        self._items.discard(member)

    def contains(self, member: object) -> bool:
        return member in self._items

    def contains_all(self, other: Iterable[E]) -> bool:
        return self._items >= set(other)

    def union_with(self: S, other: Iterable[E]) -> S:
        return type(self)({*self._items, *other})

    def intersection(self: S, other: Iterable[E]) -> S:
        return type(self)({*self._items} & set(other))

    def difference(self: S, other: Iterable[E]) -> S:
        return type(self)({*self._items} - set(other))

    def empty(self) -> bool:
        return not self._items

    def to_list(self) -> list[E]:
        return sorted(self._items, key=lambda m: m.value)

    def __contains__(self, member: object) -> bool:
        return member in self._items

    def __iter__(self) -> Iterator[E]:
        return iter(self.to_list())

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._items == other._items

    def __str__(self) -> str:
        return "{" + ", ".join(m.name for m in self.to_list()) + "}"

    __repr__ = __str__


class IRPropertySet(EnumSet[IRProperty]):
    """Properties of a program."""

    __slots__ = ()
