"""Functions that only kernels call: `@pl.jit.incore`, `.inline`, `.opaque`."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto.errors import InvalidOperationError
from pypto.frontend.source import Source

__all__ = ["JITHelper"]


class JITHelper:
    """A dependency of kernels: `kind`, captured `source`, decorator `options`.  It cannot be called from Python."""

    def __init__(self, kind: str, source: Source, options: dict[str, Any]) -> None:
        self.kind, self.source, self.options = kind, source, dict(options)
        function = source.function
        self.__name__, self.__qualname__ = source.name, source.qualname
        self.__doc__ = function.__doc__ if function is not None else None
        self.__module__ = function.__module__ if function is not None else ""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise InvalidOperationError(
            f"'{self.__name__}' is a @pl.jit.{self.kind} function: only kernels call it",
            hint="call it from a @pl.jit function",
        )

    def __reduce__(self) -> str:
        """Pickled, and copied, by name like a function."""
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<@pl.jit.{self.kind} {self.__qualname__}>"
