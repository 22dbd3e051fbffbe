"""Which variable a name of a kernel's text stands for, at each point of it.

In: bindings, blocks entered and left.  Out: the binding of a name.
Invariant: a name that is bound outside a loop or branch and assigned inside is one variable, so that the assignment
reaches what follows; within one block a name may go to a fresh variable of another type.  A compile-time value is known
only where no loop or branch in between can have changed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pypto.frontend.source import Source
from pypto.ir.expr import Expr, Var
from pypto.ir.shaped import ShapedType, same_dims
from pypto.span import Span

__all__ = ["ABSENT", "Binding", "Block", "Scope"]

ABSENT = Source.ABSENT


class Block:
    """A stretch of statements that runs zero, one or more times as a whole."""

    __slots__ = ()


class Binding:
    """What a name stands for.

    `value`: the variable, or a compile-time value.  `constant`: the value it is known to hold here, if any.
    `assignable`: whether another assignment may go to the same variable (not to loop variables and carries).
    `leaked`: bound in a block that has ended and may not have run, and not read since: another assignment starts afresh.
    `poison`: why the name may not be read.
    """

    __slots__ = ("assignable", "block", "constant", "leaked", "poison", "span", "value")

    def __init__(
        self,
        value: Any,
        block: Block,
        span: Span,
        *,
        constant: Any = ABSENT,
        assignable: bool = True,
        leaked: bool = False,
        poison: str | None = None,
    ) -> None:
        self.value, self.block, self.span = value, block, span
        self.constant, self.assignable, self.leaked, self.poison = constant, assignable, leaked, poison

    @property
    def var(self) -> Var | None:
        return self.value if isinstance(self.value, Var) else None

    def but(self, **changes: Any) -> Binding:
        fields = {n: changes.get(n, getattr(self, n)) for n in self.__slots__}
        return Binding(fields.pop("value"), fields.pop("block"), fields.pop("span"), **fields)


class Scope:
    """The names of one captured function."""

    def __init__(self, flat: bool = False) -> None:
        """`flat`: every name is one variable wherever it stands, as in printed programs."""
        self.flat = flat
        self.block = Block()
        self.names: dict[str, Binding] = {}
        # Variables of the branch before this one: the same name of the same type is the same variable.
        self.siblings: dict[str, Binding] = {}

    def get(self, name: str) -> Binding | None:
        return self.names.get(name)

    def read(self, name: str) -> Binding | None:
        """The binding of a name that is used: from here on it is an ordinary variable."""
        b = self.names.get(name)
        if b is not None and b.leaked:
            b = self.names[name] = b.but(leaked=False)
        return b

    def bind(self, name: str, value: Any, span: Span, *, constant: Any = ABSENT, assignable: bool = True) -> None:
        self.names[name] = Binding(value, self.block, span, constant=constant, assignable=assignable)

    def rebind(self, name: str, old: Binding, constant: Any, span: Span) -> None:
        """The same variable, assigned again."""
        self.names[name] = old.but(constant=constant, span=span, leaked=False, poison=None)

    @contextmanager
    def borrowed(self, names: Iterable[str]) -> Iterator[None]:
        """Names that a loop uses for itself: what they stood for outside comes back after it."""
        before = {n: self.names.get(n) for n in names}
        yield
        if self.flat:
            return
        for n, b in before.items():
            if b is not None:
                self.names[n] = b
            else:
                self.names.pop(n, None)

    def poison(self, name: str, reason: str, span: Span) -> None:
        """The name may not be read until it is assigned again."""
        old = self.names.get(name)
        self.names[name] = old.but(poison=reason) if old is not None else Binding(None, self.block, span, poison=reason)

    def forget_constants(self, names: Iterable[str]) -> None:
        """What a loop assigns is not known inside it."""
        for n in names:
            b = self.names.get(n)
            if b is not None and b.constant is not ABSENT:
                self.names[n] = b.but(constant=ABSENT)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A loop body: names bound before keep their variables, without constants where the body assigned; new ones leak."""
        if self.flat:
            yield
            return
        before, block = dict(self.names), self.block
        self.block = Block()
        yield
        self.names = merge([self.names], before, block)
        self.block = block

    def branches(self) -> _Branches:
        return _Branches(self)


class _Branches:
    """The arms of a conditional: each starts from the names before it, and they meet after it."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.before, self.block = scope, dict(scope.names), scope.block
        self.ends: list[dict[str, Binding]] = []

    @contextmanager
    def arm(self) -> Iterator[None]:
        s = self.scope
        if s.flat:
            yield
            return
        siblings = s.siblings
        s.names, s.block = dict(self.before), Block()
        s.siblings = {**siblings, **{n: b for end in self.ends for n, b in end.items() if n not in self.before}}
        yield
        self.ends.append(s.names)
        s.siblings, s.block = siblings, self.block

    def join(self) -> None:
        """After the conditional; the caller has opened as many arms as there are ways through it."""
        if self.scope.flat:
            return
        self.scope.names = merge(self.ends, self.before, self.block)
        for name, b in self.scope.names.items():
            if b.leaked and len(self.ends) > 1 and all(name in end and not end[name].leaked for end in self.ends):
                self.scope.names[name] = b.but(leaked=False)


def merge(ends: list[dict[str, Binding]], before: dict[str, Binding], block: Block) -> dict[str, Binding]:
    """Names after a construct: `ends` are the names at the end of each of its blocks."""
    after: dict[str, Binding] = {}
    for end in ends:
        for name, b in end.items():
            old = before.get(name)
            if old is b:
                after.setdefault(name, b)
            elif old is not None and (old.value is b.value or _equal_static(old, b)):
                after[name] = b.but(constant=ABSENT) if isinstance(b.value, Expr) else b
            elif old is not None:
                after[name] = b.but(poison=_changed(name, old, b), block=block)
            else:
                after[name] = _leak(name, after.get(name), b, block)
    return after


def _leak(name: str, other: Binding | None, b: Binding, block: Block) -> Binding:
    """A name first bound inside: visible afterwards, unless two arms mean different things by it."""
    if other is not None and other.value is not b.value and not _equal_static(other, b):
        return b.but(poison=_changed(name, other, b), block=block, leaked=True)
    if b.poison is not None:
        return b.but(block=block, leaked=True)
    return b.but(constant=ABSENT if isinstance(b.value, Expr) else b.constant, block=block, leaked=True)


def _equal_static(a: Binding, b: Binding) -> bool:
    if isinstance(a.value, Expr) or isinstance(b.value, Expr):
        return False
    return type(a.value) is type(b.value) and not _holds_expr(a.value) and bool(a.value == b.value)


def _holds_expr(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(v, Expr) or _holds_expr(v) for v in value)


def _changed(name: str, a: Binding, b: Binding) -> str:
    text = f"'{name}' stands for different things depending on which way the program went"
    x, y = (v.value.type if isinstance(v.value, Expr) else None for v in (a, b))
    if isinstance(x, ShapedType) and isinstance(y, ShapedType) and x.dtype is y.dtype and same_dims(x.shape, y.shape):
        return f"{text}, valid in different parts: pl.fillpad({name}) in each of them makes it valid everywhere"
    return text
