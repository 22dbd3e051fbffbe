"""`NamedTuple` as typing has it, made in a tenth of the time: annotations stay the text that they are, and no text is compiled.

typing checks the annotation of each field, and collections compiles a constructor for each class; the package has hundreds
of such classes, and a process that calls its first kernel should not wait for that.  Here constructors with as many fields
share one piece of code but for the names of its arguments.  Type checkers are told that this is typing's.
"""

from __future__ import annotations

from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

__all__ = ["NamedTuple"]

_SCOPE = {"__builtins__": {}, "__name__": __name__, "tuple_new": tuple.__new__}


def _make(cls: Any, values: Iterable[Any]) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise TypeError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({fields})"


def _getnewargs(self: Any) -> tuple[Any, ...]:
    return tuple(self)


# What all of them have, beyond a tuple; a body may have its own.
_SHARED = {
    "_make": classmethod(_make),
    "_replace": _replace,
    "_asdict": _asdict,
    "__repr__": _repr,
    "__getnewargs__": _getnewargs,
    "__slots__": (),
}


@cache
def _constructor(count: int) -> CodeType:
    """The code of `__new__` with so many fields."""
    names = ", ".join(f"_{i}" for i in range(count))
    found: CodeType = eval(f"lambda _cls, {names}: tuple_new(_cls, ({names}{',' if count else ''}))", {}).__code__
    return found.replace(co_name="__new__", co_filename=f"<{__name__}>")


@cache
def _getter(index: int) -> Any:
    """The attribute of the field there: it knows no name, so that all classes share it."""
    return _tuplegetter(index, f"Field number {index}")


class _Meta(type):
    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(mcls, name, bases, body)
        annotations: dict[str, Any] = body.get("__annotations__", {})
        fields = tuple(annotations)
        defaults = {f: body[f] for f in fields if f in body}
        if fields[len(fields) - len(defaults) :] != tuple(defaults):
            raise TypeError(f"{name}: a field without a default follows one that has one")
        code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields))
        new = FunctionType(code, _SCOPE, "__new__", tuple(defaults.values()))
        new.__qualname__ = f"{name}.__new__"
        made = {**_SHARED, "__doc__": f"{name}({', '.join(fields)})", **body, "__annotations__": annotations}
        made |= {f: _getter(i) for i, f in enumerate(fields)}
        made |= {"__match_args__": fields, "_fields": fields, "_field_defaults": defaults, "__new__": new}
        return type(name, (tuple,), made)


class NamedTuple(metaclass=_Meta):
    """The base to write; the class that comes of it derives from tuple."""
