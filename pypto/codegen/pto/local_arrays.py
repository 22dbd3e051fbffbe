"""Arrays of scalars on the core: storage that is declared, and read and written element by element.

In: operators on array values.  Out: `declare_local_array`, `local_array_get`, `local_array_set`.  A value takes the storage
of the one that it replaces where nobody reads that any more, else a copy's; what control flow hands on has storage of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pypto.codegen.pto.scalars import Scalars
from pypto.codegen.pto.text import Text, Value
from pypto.codegen.pto.types import scalar_type
from pypto.dtypes import DataType
from pypto.errors import InternalError, NotSupportedError
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.local_arrays import ArrayUses
from pypto.ir.opdef import OpDef
from pypto.ir.program import Function
from pypto.ir.types import ArrayType
from pypto.span import Span

__all__ = ["LocalArrays"]

# Element types that have no storage of their own.
_HELD = {DataType.BOOL: DataType.INT8, DataType.INDEX: DataType.INT64}


class LocalArrays(Scalars):
    """Storage of arrays, by variable."""

    def __init__(self, text: Text, f: Function) -> None:
        super().__init__(text)
        self.arrays: dict[Var, Value] = {}
        self._uses = ArrayUses(f)

    def array(self, e: Expr) -> Value:
        known = self.arrays.get(e) if isinstance(e, Var) else None
        if known is None:
            raise InternalError(f"{e!r} is no array that has storage")
        return known

    # -- operators --

    def on_array_create(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if var is None:
            return
        made = self.declared(var, span)
        zero = self.integer(0, _held(_type(var))).name
        with self._elements(var) as i:
            self.text.op(f"pto.local_array_set {made.name}[{i}], {zero} : {made.type}, {_element(_type(var))}", span)

    def on_array_get(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if var is None:
            return
        t = _type(c.args[0])
        source, at = self.array(c.args[0]), self.index(c.args[1])
        text = f"pto.local_array_get {source.name}[{at}] : {source.type} -> {_element(t)}"
        self.values[var] = self.cast(self.let(text, _element(t)), _held(t), t.dtype, var)

    def on_array_update(self, op: OpDef, var: Var | None, c: Call, span: Span) -> None:
        if var is None:
            return
        t = _type(var)
        at, value = self.index(c.args[1]), self.cast(self.value(c.args[2]), t.dtype, _held(t), c.args[2])
        made = self.renewed(var, c.args[0], span)
        self.text.op(f"pto.local_array_set {made.name}[{at}], {value.name} : {made.type}, {_element(t)}", span)

    # -- storage --

    def declared(self, var: Var, span: Span) -> Value:
        """New storage for an array."""
        t = _type(var)
        if t.dtype.get_bit() < 8 and t.dtype is not DataType.BOOL:
            raise NotSupportedError(f"an array of {t.dtype} has no .pto form", span, "use an array of INT8")
        made = Value(self.text.named(var.name_hint), f"!pto.local_array<{t.extent}x{_element(t)}>")
        self.text.op(f"{made.name} = pto.declare_local_array -> {made.type}", span)
        self.arrays[var] = made
        return made

    def renewed(self, var: Var, old: Expr, span: Span) -> Value:
        """Storage for an array that begins as another: that one's, if it is free."""
        if self._uses.free(old, var):
            self.arrays[var] = self.array(old)
        else:
            self._copy(self.declared(var, span), self.array(old), var)
        return self.arrays[var]

    def handed_on(self, targets: Sequence[Var], values: Sequence[Expr], span: Span) -> None:
        """Arrays at the end of an arm or a trip go where those who come after look for them, all at once."""
        pairs = [(t, self.array(t), self.array(v)) for t, v in zip(targets, values, strict=True) if isinstance(t.type, ArrayType)]
        moves = [(t, into, source) for t, into, source in pairs if into != source]
        taken = {into for _, into, _ in moves}
        for n, (t, into, source) in enumerate(moves):
            if source in taken:
                copy = self.declared(Var(f"{t.name_hint}_next", t.type, span), span)
                self._copy(copy, source, t)
                moves[n] = t, into, copy
        for t, into, source in moves:
            self._copy(into, source, t)

    def _copy(self, into: Value, source: Value, like: Var) -> None:
        element = _element(_type(like))
        with self._elements(like) as i:
            held = self.let(f"pto.local_array_get {source.name}[{i}] : {source.type} -> {element}", element)
            self.text.op(f"pto.local_array_set {into.name}[{i}], {held.name} : {into.type}, {element}")

    @contextmanager
    def _elements(self, var: Var) -> Iterator[str]:
        """What is written inside happens for every element; its number."""
        low, high, by = (self.text.index(n) for n in (0, _type(var).extent, 1))
        i = self.text.named("element")
        self.text.raw(f"scf.for {i} = {low} to {high} step {by} {{")
        with self.text.region():
            yield i
        self.text.raw("}")


def _type(e: Expr) -> ArrayType:
    if not isinstance(e.type, ArrayType):
        raise InternalError(f"{e!r} is no array")
    return e.type


def _held(t: ArrayType) -> DataType:
    return _HELD.get(t.dtype, t.dtype)


def _element(t: ArrayType) -> str:
    return scalar_type(_held(t))
