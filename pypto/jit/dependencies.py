"""Everything outside its arguments that a kernel's code depends on.

In: an entry and the present values of the names it and its helpers read.  Out: the parts of the artifact key that say
so, and guards by which a dispatcher notices, call by call, that a name now stands for something else.
Invariant: what is hashed is what is compiled: both come from one walk over the captured sources.
"""

from __future__ import annotations

import ast
import types
from enum import Enum
from itertools import pairwise
from typing import Any

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.frontend.diagnostics import error_at
from pypto.frontend.source import Chain, Pins, Source
from pypto.language import annotations as forms
from pypto.language.operations import Construct, Namespace, Operation, Unsupported
from pypto.language.symbols import DynVar, SymbolicOp
from pypto.named import NamedTuple
from pypto.runtime.record import MAX_DEPTH, encode

__all__ = ["Dependencies", "Guard", "blame", "collect", "describe", "is_helper"]

Guard = tuple[Any, ...]


class Dependencies(NamedTuple):
    """`sources`: entry first, then helpers in the order they are met.  `parts`: of the key.  `guards`: for dispatchers.

    `pins`: the values that `parts` describe, for the compilation that follows: other threads may bind names anew meanwhile.
    """

    sources: tuple[Source, ...]
    parts: dict[str, Any]
    guards: tuple[Guard, ...]
    pins: Pins


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
    pins = {id(source): names for source, names in zip(walk.sources, walk.pins, strict=True)}
    return Dependencies(tuple(walk.sources), parts, tuple(walk.guards), pins)


def blame(found: Dependencies) -> None:
    """Raise for the first value that no artifact can be identified by, at a place where it is read."""
    for at, name, value in found.parts["values"]:
        try:
            encode(value)
        except (ArgumentTypeError, ArgumentValueError) as e:
            source, root = found.sources[at], name.partition(".")[0]
            node = next((n for n in ast.walk(source.node) if isinstance(n, ast.Name) and n.id == root), source.node)
            hint = e.hint or "use a plain int, float, bool, str or dtype, or a list or tuple of them"
            error = error_at(type(e), f"'{name}': {e.message}", source, node, hint)
            error.code = e.code
            raise error from None


def _unit(source: Source, kind: str, options: dict[str, Any]) -> tuple[Any, ...]:
    return kind, source.canonical(defaults=kind != "entry"), tuple((k, describe(options[k])) for k in sorted(options))


class _Walk:
    def __init__(self, missing: object) -> None:
        self.missing = missing
        self.sources: list[Source] = []
        self.described: list[tuple[Any, ...]] = []
        self.number: dict[int, int] = {}
        self.values: list[tuple[Any, ...]] = []
        self.pins: list[dict[str, Any]] = []
        self.guards: list[Guard] = []
        self.guarded: set[tuple[int, str]] = set()

    def read(self, at: int) -> None:
        source = self.sources[at]
        pins: dict[str, Any] = {}
        self.pins.append(pins)
        for chain in source.free_names():
            value = self.follow(source, chain, pins)
            self.values.append((at, ".".join(chain), self.describe(value)))
        # The signature was evaluated at decoration: its values decide, not the names in it.
        for name, value in source.annotations.items():
            self.values.append((at, f"{name}:", self.describe(value)))
        for name, value in source.defaults.items() if at else ():
            self.guard_content(value)
            self.values.append((at, f"{name}=", self.describe(value)))

    def follow(self, source: Source, chain: Chain, pins: dict[str, Any]) -> Any:
        """The value of a dotted name, as it is pinned: containers are copies, modules have copies of what is read of them."""
        value: Any = source.lookup(chain[0])
        self.guard_root(source, chain[0], value)
        held = pins
        for name, attribute in pairwise(chain):
            space = getattr(value, "__dict__", None)
            if isinstance(value, types.ModuleType) and isinstance(space, dict) and value.__name__ != "pypto.language":
                self.guard("global", space, attribute, space.get(attribute, self.missing))
                if attribute not in space and hasattr(value, "__getattr__"):
                    self.guard_computed(value, attribute)
                held = _stand_in(held, name, value)
            else:
                held.setdefault(name, value)
                held = {}
            value = getattr(value, attribute, Source.ABSENT)
        self.guard_content(value)
        value = _copied(value)
        if isinstance(value, types.ModuleType):
            held.setdefault(chain[-1], value)
        elif value is not Source.ABSENT or held is pins:
            held[chain[-1]] = value
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

    def guard_content(self, value: Any) -> None:
        """A container is watched by what it holds."""
        if _may_change(value):
            snapshot = _snapshot(value)
            self.guards.append(("call", lambda: _snapshot(value) == snapshot))

    def guard_computed(self, module: types.ModuleType, name: str) -> None:
        """An attribute that the module makes when it is asked for: only asking again shows what it is now."""
        if (id(module), name) not in self.guarded:
            self.guarded.add((id(module), name))
            seen = getattr(module, name, Source.ABSENT)
            # A fresh object each time is no other value; what it was described as decides.
            known = _snapshot(seen)
            self.guards.append(("call", lambda: _same(getattr(module, name, Source.ABSENT), seen, known)))

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


def _stand_in(held: dict[str, Any], name: str, module: types.ModuleType) -> dict[str, Any]:
    """The names of the module's double, which is made where there is none yet."""
    double = held.get(name)
    if double is None or double is module:
        double = held[name] = types.ModuleType(module.__name__)
        # One copy, which no other thread can come between.
        names = vars(module).copy()
        vars(double).update((k, v) for k, v in names.items() if not k.startswith("__") or k == "__getattr__")
    return vars(double)


def _copied(value: Any, depth: int = 0) -> Any:
    """A container with containers of its own; one in itself stays what it is, and is refused where it is encoded."""
    if depth > MAX_DEPTH or not _may_change(value) or type(value) not in (list, tuple, dict):
        return value
    if isinstance(value, dict):
        return {k: _copied(v, depth + 1) for k, v in value.copy().items()}
    return type(value)(_copied(v, depth + 1) for v in value)


def _may_change(value: object) -> bool:
    """Whether a container may become another value and stay the same object."""
    return isinstance(value, (list, dict)) or (isinstance(value, tuple) and any(map(_may_change, value)))


def _same(value: object, seen: object, snapshot: bytes) -> bool:
    return value is seen or (bool(snapshot) and _snapshot(value) == snapshot)


def _snapshot(value: object) -> bytes:
    """The content of a container; of one that no artifact can be identified by, the same for all."""
    try:
        return encode(describe(value))
    except (ArgumentTypeError, ArgumentValueError):
        return b""


def describe(value: Any, depth: int = 0) -> Any:
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
    if type(value) in (list, tuple) and depth <= MAX_DEPTH:  # deeper ones are refused where they are encoded
        return type(value)(describe(v, depth + 1) for v in value)
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
        # A postponed annotation has tuples where one that Python evaluated has lists.
        return ("annotation", value.form, *(describe(tuple(a) if isinstance(a, list) else a) for a in value.args))
    if isinstance(value, forms.Directed):
        return ("direction", value.direction, describe(value.inner))
    if isinstance(value, forms.Opaque):
        return ("pl", value.name)
    if isinstance(value, (forms.TensorView, forms.TileView, forms.MemRef, forms.MemRefSlot)):
        fields = tuple((n, describe(getattr(value, n))) for n in type(value).__slots__)
        return ("record", type(value).__name__, *fields)
    return None
