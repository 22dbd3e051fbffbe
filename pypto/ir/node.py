"""The class factory behind every IR node and type.

In: a class whose annotations are its fields.  Out: the same class with slots, a constructor, and `__fields__`, which
says for each field what role it plays and how its value is walked.  Traversal, equality, hashing, substitution and
serialization read `__fields__` and nothing else, so that a node kind is described once.
Invariant: instances never change after construction and have no value equality of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from pypto.named import NamedTuple

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # typing.dataclass_transform is 3.11; only type checkers act on it

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda f: f


__all__ = ["DEFINITION", "IGNORED", "USUAL", "Attrs", "Field", "Node", "definition", "ignored", "node", "usual", "variant"]

USUAL = 0  # takes part in equality and is walked
DEFINITION = 1  # introduces variables: equality maps them, substitution renews them
IGNORED = 2  # spans, hints, comments: neither compared nor walked

# How the value of a field is walked.
PLAIN = 0  # not walked: numbers, strings, enums, dtypes
ONE = 1  # a node, a type, or None
MANY = 2  # a tuple of nodes or types
MAP = 3  # Attrs whose values are any of the above

T = TypeVar("T")
_MISSING = object()


class _Spec(NamedTuple):
    role: int
    default: Any


class Field(NamedTuple):
    """One field of a node class."""

    name: str
    role: int
    walk: int
    default: Any


def usual(default: Any = _MISSING) -> Any:
    """A field that counts (the role of a bare annotation, needed only to give a default)."""
    return _Spec(USUAL, default)


def definition(default: Any = _MISSING) -> Any:
    """A field whose variables come into being here."""
    return _Spec(DEFINITION, default)


def ignored(default: Any = _MISSING) -> Any:
    """A field that says where or why, never what."""
    return _Spec(IGNORED, default)


class Attrs(dict[str, Any]):
    """An ordered, read-only mapping; comparison of nodes is insensitive to its order."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("attributes of a node are read-only; build a new mapping")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = __ior__ = _refuse

    def with_(self, **items: Any) -> Attrs:
        return Attrs({**self, **items})

    def without(self, *names: str) -> Attrs:
        return Attrs({k: v for k, v in self.items() if k not in names})

    def __reduce__(self) -> tuple[Any, ...]:
        return Attrs, (dict(self),)


EMPTY = Attrs()


class Node:
    """Base of everything the factory makes."""

    __slots__ = ()
    __fields__: ClassVar[tuple[Field, ...]] = ()
    # Class name in snake case: the suffix of visitor hooks.
    __hook__: ClassVar[str] = "node"
    # The fields that are walked.
    __walked__: ClassVar[tuple[Field, ...]] = ()
    # Variables are their identity; everything else is compared by fields.
    __identity__: ClassVar[bool] = False
    # Types have extents below them, which most walks pass by.
    __type__: ClassVar[bool] = False

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot delete {name!r}")

    @classmethod
    def make(cls: type[T], *values: Any) -> T:
        """An instance from all field values in order, without the public constructor's conversions."""
        raise NotImplementedError

    def replace(self: T, **changes: Any) -> T:
        """A copy with some fields changed; the very object where nothing changes."""
        if changes:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(map(repr, changes))}")
        return self

    def children(self) -> list[Any]:
        """Nodes and types below this one, in field order; variables at their definitions included."""
        return []

    def parts(self) -> list[Any]:
        """The children that are no types."""
        return []


def attr_nodes(attrs: dict[str, Any]) -> Iterator[Any]:
    """The nodes among the values of an attribute mapping, inside tuples too."""
    for value in attrs.values():
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for v in value:
                if isinstance(v, Node):
                    yield v


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(usual, definition, ignored))
def node(cls: type[T]) -> type[T]:
    """Turn an annotated class into a slotted node class; methods of such a class must not use zero-argument super()."""
    return _build(cls)


def variant(cls: type[T]) -> type[T]:
    """A node class with exactly the fields and the constructor of its base."""
    return _build(cls)


def _build(cls: type[T]) -> type[T]:
    inherited: tuple[Field, ...] = getattr(cls, "__fields__", ())
    own = []
    namespace = dict(cls.__dict__)
    for name, annotation in namespace.get("__annotations__", {}).items():
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if text.startswith("ClassVar"):
            continue
        spec = namespace.pop(name, None)
        role, default = spec if isinstance(spec, _Spec) else (USUAL, _MISSING)
        own.append(Field(name, role, _walk_of(text), default))
    names = {f.name for f in own}
    # A subclass may restate a field of its base to move it; the slot stays where it was.
    fields = (*(f for f in inherited if f.name not in names), *own)
    inherited_names = {f.name for f in inherited}
    namespace["__slots__"] = tuple(f.name for f in own if f.name not in inherited_names)
    namespace["__fields__"] = fields
    namespace["__walked__"] = tuple(f for f in fields if f.role != IGNORED and f.walk != PLAIN)
    namespace.update({k: f for k, f in _FIRST.items() if k not in namespace})
    namespace["__hook__"] = _snake(cls.__name__)
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    factory: Any = type(cls)
    made = factory(cls.__name__, cls.__bases__, namespace)
    _add_constructors(made, fields, "__init__" in namespace or (not own and "__init__" not in Node.__dict__ and _has_init(cls)))
    return made  # type: ignore[no-any-return]


def _has_init(cls: type[Any]) -> bool:
    return any("__init__" in b.__dict__ for b in cls.__mro__[1:-1])


_NODE_WORDS = ("Expr", "Var", "Stmt", "Type", "MemRef", "Op", "Function", "Node", "IterArg", "WindowBuffer", "View", "GlobalVar")


def _walk_of(annotation: str) -> int:
    base = annotation.removesuffix(" | None")
    if base == "Attrs":
        return MAP
    if base.startswith("tuple["):
        return MANY if base[6:].split(",")[0].rstrip("]").endswith(_NODE_WORDS) else PLAIN
    # Enumerations such as FunctionType end like node words but are not nodes.
    return ONE if base.endswith(_NODE_WORDS) and base not in ("DataType", "FunctionType") else PLAIN


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i and not name[i - 1].isupper() else c.lower() for i, c in enumerate(name))


_COMPILED: dict[str, CodeType] = {}


def _compiled(text: str) -> CodeType:
    code = _COMPILED.get(text)
    if code is None:  # the scalar operators share one text
        code = _COMPILED.setdefault(text, compile(text, "<node>", "exec"))
    return code


def _add_constructors(cls: Any, fields: tuple[Field, ...], keep_init: bool) -> None:
    """`make` (all fields, no conversions) always; `__init__` from the fields unless the class wrote its own."""
    scope: dict[str, Any] = {"new": object.__new__, "cls": cls}
    for i, f in enumerate(fields):
        scope[f"s{i}"] = getattr(cls, f.name).__set__  # the slot's own setter: not stopped by __setattr__
    names = tuple(f.name for f in fields)
    make, init = _constructors(len(fields))
    cls.make = staticmethod(FunctionType(make.replace(co_varnames=(*names, "self")), scope, "make"))
    if not keep_init:
        defaults = tuple(f.default for f in fields if f.default is not _MISSING)
        if any(f.default is _MISSING for f in fields[len(fields) - len(defaults) :]):
            raise TypeError(f"{cls.__name__}: a field without a default follows one that has one")
        cls.__init__ = FunctionType(init.replace(co_varnames=("self", *names)), scope, "__init__", defaults)


@cache
def _constructors(count: int) -> tuple[CodeType, CodeType]:
    """The code of `make` and `__init__` with so many fields: but for the names of its arguments, one for all classes."""
    names = ", ".join(f"f{i}" for i in range(count))
    body = "; ".join(f"s{i}(self, f{i})" for i in range(count)) or "pass"
    scope: dict[str, Any] = {}
    exec(f"def make({names}):\n self = new(cls); {body}; return self\ndef __init__(self, {names}):\n {body}\n", scope)
    return scope["make"].__code__, scope["__init__"].__code__


# -- methods written for each class when it first needs them --------------------------------------------------------
#
# Passes spend most of their time here, and most programs use few of the classes.


def _lazily(name: str, text: Callable[[Any], str]) -> Callable[..., Any]:
    """A method that puts the written one in its place, and calls it."""

    def method(self: Any, **given: Any) -> Any:
        cls: Any = type(self)
        scope: dict[str, Any] = {"make": cls.make, "attr_nodes": attr_nodes, "_same": _MISSING}
        exec(_compiled(text(cls)), scope)
        setattr(cls, name, scope[name])
        return scope[name](self, **given)

    return method


def _text_of_replace(cls: Any) -> str:
    names = [f.name for f in cls.__fields__]
    if not names:
        return "def replace(self):\n return self\n"
    lines = [f"def replace(self, *, {', '.join(f'{n}=_same' for n in names)}):"]
    for n in names:
        lines += [f" old = self.{n}", f" if {n} is _same: {n} = old", f" same_{n} = {n} is old"]
    lines += [f" if {' and '.join(f'same_{n}' for n in names)}: return self", f" return make({', '.join(names)})"]
    return "\n".join(lines) + "\n"


def _text_of_children(cls: Any, keep: str = "") -> str:
    name = "parts" if keep else "children"
    lines = [f"def {name}(self):", " found = []"]
    for f in cls.__walked__:
        value = f"self.{f.name}"
        if f.walk == ONE:
            lines += [f" value = {value}", f" if value is not None{keep and ' and not value.__type__'}: found.append(value)"]
        else:
            nodes = value if f.walk == MANY else f"attr_nodes({value})"
            lines.append(f" found += [x for x in {nodes}{keep}]" if keep else f" found += {nodes}")
    return "\n".join([*lines, " return found"]) + "\n"


def _text_of_parts(cls: Any) -> str:
    return _text_of_children(cls, " if not x.__type__")


_FIRST = {
    "replace": _lazily("replace", _text_of_replace),
    "children": _lazily("children", _text_of_children),
    "parts": _lazily("parts", _text_of_parts),
}
