"""Symbolic extents as Python sees them: `pl.dynamic("M")` and simple arithmetic over it.

In: names and ints.  Out: inert values that annotations hold and the parser turns into index expressions.
Invariant: a symbol has no truth value and no number outside a kernel.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["DynVar", "IntLike", "SymbolicInt", "dynamic"]


class SymbolicInt:
    """Base of symbolic extents; `+ - * // %` with ints and other symbols build expressions."""

    __slots__ = ()

    def __add__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("+", self, other)

    def __radd__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("+", other, self)

    def __sub__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("-", self, other)

    def __rsub__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("-", other, self)

    def __mul__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("*", self, other)

    def __rmul__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("*", other, self)

    def __floordiv__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("//", self, other)

    def __rfloordiv__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("//", other, self)

    def __mod__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("%", self, other)

    def __rmod__(self, other: IntLike) -> SymbolicInt:
        return SymbolicOp("%", other, self)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is a symbolic extent; it has a value only inside a kernel")


IntLike = int | SymbolicInt


class DynVar(SymbolicInt):
    """A run-time extent; equal names in one program mean equal extents."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"pl.dynamic: the name must be an identifier, got {name!r}")
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[type[DynVar], tuple[str]]:
        return DynVar, (self.name,)


class SymbolicOp(SymbolicInt):
    """An arithmetic expression over symbols."""

    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: IntLike, right: IntLike) -> None:
        for side in (left, right):
            if not isinstance(side, SymbolicInt) and type(side) is not int:
                raise TypeError(f"a symbolic extent combines with ints and extents, not with {side!r}")
        self.op, self.left, self.right = op, left, right

    def __repr__(self) -> str:
        return f"({self.left!r} {self.op} {self.right!r})"


def dynamic(name: str) -> DynVar:
    """A symbolic extent; ValueError if `name` is no identifier."""
    return DynVar(name)
