"""Types that need no expressions: scalars, tuples, arrays, and the opaque singletons.

Invariant: types are values. They compare and hash structurally, and are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir.node import Node, node
from pypto.ir.structural import compare, structural_hash

__all__ = [
    "ArrayType",
    "AsyncEventType",
    "AsyncSessionType",
    "CommCtxType",
    "MemRefType",
    "PrefetchAsyncContextType",
    "PtrType",
    "ScalarType",
    "TupleType",
    "Type",
    "UnknownType",
    "VoidType",
    "WindowBufferType",
]

S = TypeVar("S", bound="Singleton")


class Type(Node):
    """Base of all types."""

    __slots__ = ()
    __type__ = True

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and compare(self, other) is None)

    def __hash__(self) -> int:
        return structural_hash(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(getattr(self, f.name)) for f in type(self).__fields__)})"


class Singleton(Type):
    """A type without parameters: one shared instance per class."""

    __slots__ = ()

    @classmethod
    def get(cls: type[S]) -> S:
        return cls()

    def __new__(cls: type[S]) -> S:
        made = _SINGLETONS.get(cls)
        if made is None:
            made = _SINGLETONS.setdefault(cls, object.__new__(cls))
        return made  # type: ignore[return-value]

    @classmethod
    def make(cls: type[S], *_: Any) -> S:
        return cls()


_SINGLETONS: dict[type[Singleton], Singleton] = {}


class UnknownType(Singleton):
    """No information, or an operation without a result in the functional stage."""

    __slots__ = ()


class VoidType(Singleton):
    """Statically known absence of a result; may only stand in an EvalStmt."""

    __slots__ = ()


class PtrType(Singleton):
    """Identity of one allocation."""

    __slots__ = ()


class MemRefType(Singleton):
    __slots__ = ()


class WindowBufferType(Singleton):
    __slots__ = ()


class CommCtxType(Singleton):
    __slots__ = ()


class PrefetchAsyncContextType(Singleton):
    __slots__ = ()


class AsyncEventType(Singleton):
    __slots__ = ()


class AsyncSessionType(Singleton):
    __slots__ = ()


@node
class ScalarType(Type):
    """One run-time value of an element type; instances are shared per dtype."""

    dtype: DataType

    @staticmethod
    def of(dtype: DataType) -> ScalarType:
        made = _SCALARS.get(dtype)
        return made if made is not None else _SCALARS.setdefault(dtype, ScalarType(dtype))


_SCALARS: dict[DataType, ScalarType] = {}


@node
class TupleType(Type):
    types: tuple[Type, ...]

    def __init__(self, types: Iterable[Type]) -> None:
        object.__setattr__(self, "types", tuple(types))


@node
class ArrayType(Type):
    """A rank-1 array of scalars on the core; `extent` is a constant."""

    dtype: DataType
    extent: int

    def __init__(self, dtype: DataType, extent: int) -> None:
        if not (dtype.is_int() or dtype in (DataType.BOOL, DataType.TASK_ID)):
            raise ValueError(f"an array holds integers, BOOL or TASK_ID, not {dtype}")
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            raise ValueError(f"an array extent is a positive compile-time integer, not {extent!r}")
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "extent", extent)

    @property
    def memory_space(self) -> MemorySpace:
        return MemorySpace.ScalarLocal
