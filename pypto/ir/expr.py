"""Expressions: variables, constants, scalar arithmetic, tuples and calls.

Invariant: a `Var` is its identity; every other expression is a value that may be shared.  `==` between expressions
builds an `Eq` node once `pypto.ir.operators` is loaded, and the truth value of an expression is an error, so
that comparing nodes by accident fails at once: use `is`.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NoReturn

from pypto.dtypes import DataType
from pypto.enums import ArgDirection
from pypto.ir.node import EMPTY, Attrs, Node, ignored, node
from pypto.ir.types import MemRefType, ScalarType, TupleType, Type, UnknownType, WindowBufferType
from pypto.span import Span

__all__ = [
    "BinaryExpr",
    "Call",
    "ConstBool",
    "ConstFloat",
    "ConstInt",
    "Expr",
    "GlobalVar",
    "IRNode",
    "IterArg",
    "MakeTuple",
    "MemRef",
    "Op",
    "Submit",
    "TupleGetItemExpr",
    "UnaryExpr",
    "Var",
    "WindowBuffer",
    "const_index",
]

_put = object.__setattr__
_UNKNOWN = Span.unknown()
_ids = itertools.count(1)


class IRNode(Node):
    """Base of expressions, statements, functions and programs: everything with a place in the source."""

    __slots__ = ()
    span: Span

    def same_as(self, other: object) -> bool:
        return self is other

    def as_python(self, prefix: str = "pl", concise: bool = False, format: bool = True) -> str:
        """The node in the language's own syntax, as `pypto.ir.python_print` writes it."""
        from pypto.ir.printer import python_print  # the printer knows all node kinds, and few who build nodes print them

        return python_print(self, prefix, concise, format)


class Expr(IRNode):
    """Base of expressions; `type` is the type of the value."""

    __slots__ = ()
    type: Type

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the truth value of a symbolic {type(self).__name__} is unknown at compile time; compare nodes with `is`"
        )


@node
class Var(Expr):
    """A variable: its identity is the object, `name_hint` is cosmetic."""

    __identity__: ClassVar[bool] = True
    name_hint: str = ignored()
    type: Type
    span: Span = ignored()
    unique_id: int = ignored()

    def __init__(self, name_hint: str, type: Type, span: Span = _UNKNOWN) -> None:
        _put(self, "name_hint", name_hint)
        _put(self, "type", type)
        _put(self, "span", span)
        _put(self, "unique_id", next(_ids))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name_hint}#{self.unique_id}>"


def _make_var(name_hint: str, type: Type, span: Span, unique_id: int) -> Var:
    return Var(name_hint, type, span)


Var.make = staticmethod(_make_var)  # type: ignore[method-assign]


@node
class IterArg(Var):
    """A loop-carried variable with the value it starts from."""

    initValue: Expr

    def __init__(self, name_hint: str, type: Type, initValue: Expr, span: Span = _UNKNOWN) -> None:
        Var.__init__(self, name_hint, type, span)
        _put(self, "initValue", initValue)


def _make_iter_arg(name_hint: str, type: Type, span: Span, unique_id: int, initValue: Expr) -> IterArg:
    return IterArg(name_hint, type, initValue, span)


IterArg.make = staticmethod(_make_iter_arg)  # type: ignore[method-assign]


# -- constants -------------------------------------------------------------------------------------------------


@node
class ConstInt(Expr):
    value: int
    dtype: DataType
    span: Span = ignored(default=_UNKNOWN)

    @property
    def type(self) -> Type:  # type: ignore[override]
        return ScalarType.of(self.dtype)

    def _compare_key(self) -> tuple[Any, ...]:
        # Index constants read the same whether they were typed INDEX or INT64.
        return ConstInt, self.value, DataType.INT64 if self.dtype is DataType.INDEX else self.dtype

    def __repr__(self) -> str:
        return f"ConstInt({self.value}, {self.dtype})"


@node
class ConstFloat(Expr):
    """Holds the Python double; it is rounded once, to the dtype that consumes it."""

    value: float
    dtype: DataType
    span: Span = ignored(default=_UNKNOWN)

    @property
    def type(self) -> Type:  # type: ignore[override]
        return ScalarType.of(self.dtype)

    def _compare_key(self) -> tuple[Any, ...]:
        v = self.value
        return ConstFloat, b"nan" if v != v else struct.pack("<d", v), self.dtype

    def __repr__(self) -> str:
        return f"ConstFloat({self.value}, {self.dtype})"


@node
class ConstBool(Expr):
    value: bool
    span: Span = ignored(default=_UNKNOWN)

    @property
    def dtype(self) -> DataType:
        return DataType.BOOL

    @property
    def type(self) -> Type:  # type: ignore[override]
        return ScalarType.of(DataType.BOOL)

    def __repr__(self) -> str:
        return f"ConstBool({self.value})"


_INDICES: dict[int, ConstInt] = {}


def const_index(value: int) -> ConstInt:
    """A shared INDEX constant without a place in the source."""
    made = _INDICES.get(value)
    if made is None:
        made = ConstInt(value, DataType.INDEX)
        if -4096 <= value <= 65536:
            _INDICES[value] = made
    return made


# -- scalar arithmetic -----------------------------------------------------------------------------------------


@node
class BinaryExpr(Expr):
    """`left op right`; the constructor takes the result's dtype verbatim."""

    left: Expr
    right: Expr
    type: Type
    span: Span = ignored()

    def __init__(self, left: Expr, right: Expr, dtype: DataType, span: Span = _UNKNOWN) -> None:
        _put(self, "left", left)
        _put(self, "right", right)
        _put(self, "type", ScalarType.of(dtype))
        _put(self, "span", span)


@node
class UnaryExpr(Expr):
    """`op operand`; for `Cast`, the dtype is the target."""

    operand: Expr
    type: Type
    span: Span = ignored()

    def __init__(self, operand: Expr, dtype: DataType, span: Span = _UNKNOWN) -> None:
        _put(self, "operand", operand)
        _put(self, "type", ScalarType.of(dtype))
        _put(self, "span", span)


# -- tuples ----------------------------------------------------------------------------------------------------


@node
class MakeTuple(Expr):
    elements: tuple[Expr, ...]
    span: Span = ignored(default=_UNKNOWN)

    def __init__(self, elements: Iterable[Expr], span: Span = _UNKNOWN) -> None:
        _put(self, "elements", tuple(elements))
        _put(self, "span", span)

    @property
    def type(self) -> Type:  # type: ignore[override]
        return TupleType(tuple(e.type for e in self.elements))


@node
class TupleGetItemExpr(Expr):
    tuple: Expr
    index: int
    span: Span = ignored(default=_UNKNOWN)

    def __init__(self, tuple: Expr, index: int, span: Span = _UNKNOWN) -> None:
        t = tuple.type
        if isinstance(t, TupleType) and not 0 <= index < len(t.types):
            raise ValueError(f"tuple index {index} is out of range for {len(t.types)} elements")
        _put(self, "tuple", tuple)
        _put(self, "index", index)
        _put(self, "span", span)

    @property
    def type(self) -> Type:  # type: ignore[override]
        t = self.tuple.type
        return t.types[self.index] if isinstance(t, TupleType) else UnknownType.get()


# -- calls -----------------------------------------------------------------------------------------------------


@node
class Op(Node):
    """A reference to an operator by its registered name."""

    name: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


@node
class GlobalVar(Op):
    """A reference to a function of the program."""


@node
class Call(Expr):
    """An operator or function applied to arguments.

    `kwargs` is what the user said, `attrs` what the compiler found out.  Without a type the result is unknown.
    """

    op: Op
    args: tuple[Expr, ...]
    kwargs: Attrs
    attrs: Attrs
    type: Type
    span: Span = ignored()

    def __init__(self, op: Op, args: Iterable[Expr], *rest: Any) -> None:
        """`Call(op, args, [kwargs, [attrs,]] [type,] span)`."""
        kwargs, attrs, type, span = _split_rest(rest)
        values = tuple(args)
        if any(a is None for a in values):
            raise TypeError(f"{op.name}: an argument is None")
        directions = attrs.get("arg_directions", ())
        if directions and len(directions) != len(values):
            raise TypeError(f"{op.name}: {len(directions)} arg_directions for {len(values)} arguments")
        _put(self, "op", op)
        _put(self, "args", values)
        _put(self, "kwargs", kwargs)
        _put(self, "attrs", attrs)
        _put(self, "type", type)
        _put(self, "span", span)

    @property
    def arg_directions(self) -> tuple[ArgDirection, ...]:
        directions: tuple[ArgDirection, ...] = self.attrs.get("arg_directions", ())
        return directions


def _split_rest(rest: tuple[Any, ...]) -> tuple[Attrs, Attrs, Type, Span]:
    maps: list[Attrs] = []
    type: Type = UnknownType.get()
    span = _UNKNOWN
    for value in rest:
        if isinstance(value, Span):
            span = value
        elif isinstance(value, Type):
            type = value
        elif isinstance(value, Mapping) and len(maps) < 2:
            maps.append(value if isinstance(value, Attrs) else Attrs(value))
        else:
            raise TypeError(f"Call: unexpected argument {value!r}")
    maps += [EMPTY] * (2 - len(maps))
    return maps[0], maps[1], type, span


@node
class Submit(Expr):
    """An asynchronous launch; yields the callee's results followed by a task id."""

    op: Op
    args: tuple[Expr, ...]
    deps: tuple[Expr, ...]
    kwargs: Attrs
    attrs: Attrs
    type: Type
    span: Span = ignored()
    core_num: Expr | None
    sync_start: bool
    allow_early_resolve: bool
    predicate: Expr | None


# -- memory ----------------------------------------------------------------------------------------------------


@node
class MemRef(Var):
    """A window of an allocation: base pointer, byte offset and size; compared by value, not identity."""

    __identity__: ClassVar[bool] = False
    base_: Var
    byte_offset_: Expr
    size_: int
    is_pinned_: bool
    slot_count_: int
    slot_index_: Expr | None

    def __init__(
        self,
        base: Var,
        byte_offset: int | Expr,
        size: int,
        span: Span = _UNKNOWN,
        is_pinned: bool = False,
        slots: int = 1,
        slot: Expr | None = None,
    ) -> None:
        Var.__init__(self, base.name_hint, MemRefType.get(), span)
        _put(self, "base_", base)
        _put(self, "byte_offset_", ConstInt(byte_offset, DataType.INT64) if isinstance(byte_offset, int) else byte_offset)
        _put(self, "size_", size)
        _put(self, "is_pinned_", is_pinned)
        _put(self, "slot_count_", slots)
        _put(self, "slot_index_", slot)

    @staticmethod
    def same_allocation(a: MemRef, b: MemRef) -> bool:
        return a.base_ is b.base_

    @staticmethod
    def may_alias(a: MemRef, b: MemRef) -> bool:
        """Same allocation and ranges that overlap, or that cannot be told apart."""
        if a.base_ is not b.base_:
            return False
        x, y = a.byte_offset_, b.byte_offset_
        if not isinstance(x, ConstInt) or not isinstance(y, ConstInt):
            return True
        return x.value < y.value + b.size_ and y.value < x.value + a.size_


def _make_memref(
    name_hint: str, type: Type, span: Span, uid: int, base: Var, off: Expr, size: int, pinned: bool, n: int, slot: Expr | None
) -> MemRef:
    return MemRef(base, off, size, span, pinned, n, slot)


MemRef.make = staticmethod(_make_memref)  # type: ignore[method-assign]


@node
class WindowBuffer(Var):
    """A cross-rank window; carried for the names, not executed on a host."""

    base: Expr
    size: Expr
    load_from_host: bool
    store_to_host: bool

    def __init__(
        self, base: Var, size: Expr, load_from_host: bool = False, store_to_host: bool = False, span: Span = _UNKNOWN
    ) -> None:
        Var.__init__(self, base.name_hint, WindowBufferType.get(), span)
        _put(self, "base", base)
        _put(self, "size", size)
        _put(self, "load_from_host", load_from_host)
        _put(self, "store_to_host", store_to_host)


def _make_window(
    name_hint: str, type: Type, span: Span, uid: int, base: Var, size: Expr, load: bool, store: bool
) -> WindowBuffer:
    return WindowBuffer(base, size, load, store, span)


WindowBuffer.make = staticmethod(_make_window)  # type: ignore[method-assign]
