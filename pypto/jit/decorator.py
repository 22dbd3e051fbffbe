"""`@pl.jit` and its family."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, overload

from pypto._lazy import load
from pypto.errors import ArgumentTypeError, NotSupportedError
from pypto.frontend.source import capture
from pypto.jit.binding import option_hint
from pypto.jit.function import JITFunction
from pypto.jit.helper import JITHelper

# Where arrays are in use already, calls will follow: what each needs that finds its kernel in the cache is loaded here, so
# that the first one waits for the kernel alone.
if "numpy" in sys.modules:
    load(
        *("pypto.jit.compiled", "pypto.jit.dispatch", "pypto.jit.stages", "pypto.runtime.load", "pypto.runtime.validate"),
        "msgpack",
    )

__all__ = ["jit"]


def _refuse(decorator: str, options: dict[str, Any], allowed: tuple[str, ...]) -> None:
    for name in options:
        if name not in allowed:
            takes = ", ".join(f"{a}=" for a in allowed) or "no options"
            hint = option_hint((name,), ()) or f"@{decorator} takes {takes}"
            raise ArgumentTypeError(f"@{decorator} got an unexpected keyword argument '{name}'; it takes {takes}", hint=hint)


class _HelperDecorator:
    """`@pl.jit.incore`, `.inline`, `.opaque`: with or without parentheses."""

    def __init__(self, kind: str, allowed: tuple[str, ...]) -> None:
        self._kind, self._allowed = kind, allowed

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        _refuse(f"pl.jit.{self._kind}", options, self._allowed)
        if function is None:
            return lambda f: JITHelper(self._kind, capture(f, depth=2), options)
        return JITHelper(self._kind, capture(function, depth=2), options)

    def __repr__(self) -> str:
        return f"pl.jit.{self._kind}"


class _NotExecuted:
    """A decorator of the family that has no meaning on one host."""

    def __init__(self, name: str, reason: str, instead: str) -> None:
        self._name, self._reason, self._instead = name, reason, instead

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(f"@pl.jit.{self._name}: {self._reason}", hint=self._instead)


class _JIT:
    """`@pl.jit`: an entry that callers call with arrays."""

    incore = _HelperDecorator("incore", ("level",))
    inline = _HelperDecorator("inline", ("auto_scope",))
    opaque = _HelperDecorator("opaque", ())
    host = _NotExecuted("host", "distributed orchestration needs several devices", "use @pl.jit on one device")
    extern = _NotExecuted("extern", "external C++ kernels are built by the device toolchain", "write the kernel in pl")

    @overload
    def __call__(self, function: Callable[..., Any], /) -> JITFunction: ...

    @overload
    def __call__(self, function: None = ..., /, *, auto_scope: bool = ...) -> Callable[[Callable[..., Any]], JITFunction]: ...

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        _refuse("pl.jit", options, ("auto_scope",))
        if function is None:
            return lambda f: JITFunction(capture(f, depth=2), f, options)
        return JITFunction(capture(function, depth=2), function, options)

    def __repr__(self) -> str:
        return "pl.jit"


jit = _JIT()
