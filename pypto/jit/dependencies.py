"""Everything outside its arguments that a kernel's code depends on.

In: an entry and the present values of the names it and its helpers read.  Out: the parts of the artifact key that say
so, and guards by which a dispatcher notices, call by call, that a name now stands for something else.
Invariant: what is hashed is what is compiled: both come from one walk over the captured sources.
"""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, NamedTuple

from pypto.dtypes import DataType
from pypto.frontend.source import Chain, Source
from pypto.language import annotations as forms
from pypto.language.operations import Construct, Namespace, Operation, Unsupported
from pypto.language.symbols import DynVar, SymbolicOp
from pypto.runtime.record import encode

__all__ = ["Dependencies", "Guard", "collect", "describe", "is_helper"]

Guard = tuple[Any, ...]


class Dependencies(NamedTuple):
    """`sources`: entry first, then helpers in the order they are met.  `parts`: of the key.  `guards`: for dispatchers."""

    sources: tuple[Source, ...]
    parts: dict[str, Any]
    guards: tuple[Guard, ...]


def is_helper(value: object) -> bool:
    """Something that kernels call and that has a source of its own."""
    return isinstance(getattr(value, "source", None), Source) and isinstance(getattr(value, "kind", None), str)


def collect(entry: Source, options: dict[str, Any], missing: object) -> Dependencies:
    """Walk from the entry through every helper it can reach."""
    walk = _Walk(missing)
    walk.number[id(entry)] = 0
    walk.sources.append(entry)
    walk.described.append(_unit(entry, "entry", options))
    at = 0
    while at < len(walk.sources):
        walk.read(at)
        at += 1
    parts = {"kernel": walk.described[0], "helpers": tuple(walk.described[1:]), "values": tuple(walk.values)}
    return Dependencies(tuple(walk.sources), parts, tuple(walk.guards))


def _unit(source: Source, kind: str, options: dict[str, Any]) -> tuple[Any, ...]:
    return kind, source.canonical(defaults=kind != "entry"), tuple((k, describe(options[k])) for k in sorted(options))


class _Walk:
    def __init__(self, missing: object) -> None:
        self.missing = missing
        self.sources: list[Source] = []
        self.described: list[tuple[Any, ...]] = []
        self.number: dict[int, int] = {}
        self.values: list[tuple[Any, ...]] = []
        self.guards: list[Guard] = []
        self.guarded: set[tuple[int, str]] = set()

    def read(self, at: int) -> None:
        source = self.sources[at]
        for chain in source.free_names():
            value = self.follow(source, chain)
            self.values.append((at, ".".join(chain), self.describe(value)))
        # The signature was evaluated at decoration: its values decide, not the names in it.
        for name, value in source.annotations.items():
            self.values.append((at, f"{name}:", self.describe(value)))

    def follow(self, source: Source, chain: Chain) -> Any:
        value: Any = source.lookup(chain[0])
        self.guard_root(source, chain[0], value)
        for attribute in chain[1:]:
            space = getattr(value, "__dict__", None)
            if isinstance(value, types.ModuleType) and isinstance(space, dict) and value.__name__ != "pypto.language":
                self.guard("global", space, attribute, space.get(attribute, self.missing))
            value = getattr(value, attribute, Source.ABSENT)
        return value

    def guard_root(self, source: Source, name: str, value: Any) -> None:
        cell = source.cells.get(name)
        if cell is not None:
            if (id(cell), "") not in self.guarded:
                self.guarded.add((id(cell), ""))
                self.guards.append(("cell", cell, self.missing if value is Source.ABSENT else value))
        elif name not in source.outer and isinstance(source.globals, dict):
            # A builtin is guarded by its absence from the globals.
            self.guard("global", source.globals, name, source.globals.get(name, self.missing))
        if isinstance(value, (list, dict)):
            snapshot = encode(describe(value))
            self.guards.append(("call", lambda: encode(describe(value)) == snapshot))

    def guard(self, kind: str, space: dict[str, Any], name: str, expected: Any) -> None:
        if (id(space), name) not in self.guarded:
            self.guarded.add((id(space), name))
            self.guards.append((kind, space, name, expected))

    def describe(self, value: Any) -> Any:
        if not is_helper(value):
            return describe(value)
        source: Source = value.source
        number = self.number.get(id(source))
        if number is None:
            number = self.number[id(source)] = len(self.sources)
            self.sources.append(source)
            self.described.append(_unit(source, value.kind, getattr(value, "options", {})))
        return ("helper", number)


def describe(value: Any) -> Any:
    """A value of a name as the canonical record knows it: kinds that only the language has become tagged tuples."""
    if value is Source.ABSENT:
        return ("absent",)
    if isinstance(value, (Operation, Construct, Namespace, Unsupported)):
        return ("pl", repr(value))
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if isinstance(value, (DynVar, SymbolicOp)):
        return ("symbol", repr(value))
    if isinstance(value, DataType) or value is None or isinstance(value, Enum):
        return value
    found = _describe_form(value)
    if found is not None:
        return found
    if type(value) in (list, tuple):
        return type(value)(describe(v) for v in value)
    if isinstance(value, types.FunctionType) and value.__module__.startswith("pypto.language"):
        return ("pl", value.__qualname__)
    if isinstance(value, types.BuiltinFunctionType) or (isinstance(value, type) and value.__module__ == "builtins"):
        return ("builtin", value.__qualname__)
    return value


def _describe_form(value: Any) -> tuple[Any, ...] | None:
    """Annotations and the records inside them."""
    if isinstance(value, (type(forms.Tensor), type(forms.Out))):
        return ("pl", repr(value))
    if isinstance(value, forms.Annotation):
        return ("annotation", value.form, *(describe(a) for a in value.args))
    if isinstance(value, forms.Directed):
        return ("direction", value.direction, describe(value.inner))
    if isinstance(value, forms.Opaque):
        return ("pl", value.name)
    if isinstance(value, (forms.TensorView, forms.TileView, forms.MemRef, forms.MemRefSlot)):
        fields = tuple((n, describe(getattr(value, n))) for n in type(value).__slots__)
        return ("record", type(value).__name__, *fields)
    return None
