"""Arguments to parameters, exactly as Python binds them.

In: a captured signature.  Out: values in parameter order, or the TypeError that Python itself would raise, with the
kernel named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import FunctionType
from typing import Any

from pypto.errors import ArgumentTypeError
from pypto.frontend.source import Source

__all__ = ["Binder", "option_hint"]


class Binder:
    """Binds calls of one kernel."""

    __slots__ = ("_stub", "name")

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._stub = _stub(source)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        try:
            bound: tuple[Any, ...] = self._stub(*args, **kwargs)
        except TypeError as e:
            from inspect import signature

            form = (
                option_hint(kwargs, tuple(signature(self._stub).parameters)) or f"call it as {self.name}{signature(self._stub)}"
            )
            raise ArgumentTypeError(f"@pl.jit function '{self.name}': {e}", hint=form, code="A101") from None
        return bound


def option_hint(given: Iterable[str], parameters: Collection[str]) -> str | None:
    """Where the first keyword that is no parameter belongs, if it says how to run."""
    from pypto.runtime.run_config import FIELDS

    unknown = next((name for name in given if name not in parameters), None)
    if unknown not in FIELDS:
        return None
    return f"give the call config=RunConfig({unknown}=...), from pypto.runtime" + (
        ", or work in `with PassContext(platform=...):`, from pypto.passes" if unknown == "platform" else ""
    )


def _stub(source: Source) -> Callable[..., Any]:
    """A Python function with the kernel's signature that returns its arguments: Python does the binding and the words."""
    a = source.node.args
    names = source.parameters
    parts = [p.arg for p in a.posonlyargs]
    if a.posonlyargs:
        parts.append("/")
    parts += [p.arg for p in a.args]
    if a.kwonlyargs:
        parts.append("*")
    parts += [p.arg for p in a.kwonlyargs]
    space: dict[str, Any] = {}
    # Only identifiers of a parsed signature are put into this text.
    exec(f"def {source.name}({', '.join(parts)}):\n return ({''.join(n + ', ' for n in names)})", space)
    stub = space[source.name]
    assert isinstance(stub, FunctionType)
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    stub.__defaults__ = tuple(source.defaults[n] for n in positional if n in source.defaults) or None
    stub.__kwdefaults__ = {p.arg: source.defaults[p.arg] for p in a.kwonlyargs if p.arg in source.defaults} or None
    return stub
