"""Names that mean something only inside a kernel: operators, loops, scopes.

In: nothing.  Out: inert objects that the parser recognizes by identity of kind, and that raise one clear error when
Python calls them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pypto.errors import InvalidOperationError, NotSupportedError

__all__ = ["CONTROL", "Construct", "Namespace", "Operation", "Unsupported"]


class _KernelName:
    """Base: a spelling such as `pl.tile.load`."""

    __slots__ = ("name", "namespace")

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name

    @property
    def spelling(self) -> str:
        return f"pl.{self.namespace}.{self.name}" if self.namespace else f"pl.{self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise InvalidOperationError(
            f"{self.spelling} has a meaning only inside a kernel",
            hint="call it in the body of a function decorated with @pl.jit or @pl.function",
        )

    def __iter__(self) -> NoReturn:
        self()

    def __repr__(self) -> str:
        return self.spelling

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.namespace, self.name)


class Operation(_KernelName):
    """An operator of the language: `pl.add`, `pl.tile.load`."""

    __slots__ = ()


class Construct(_KernelName):
    """A loop, scope or directive that the parser itself understands."""

    __slots__ = ()


class Unsupported(_KernelName):
    """A public name that this implementation does not execute; using it raises NotSupportedError with the reason."""

    __slots__ = ("reason",)

    def __init__(self, namespace: str, name: str, reason: str) -> None:
        super().__init__(namespace, name)
        self.reason = reason

    def error(self) -> NotSupportedError:
        hint = "do this step outside the kernel, or with the operators there are: docs/operators.md lists them"
        return NotSupportedError(f"{self.spelling} is not supported: {self.reason}", hint=hint)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self.error()

    def __getitem__(self, item: Any) -> NoReturn:
        raise self.error()

    def __reduce__(self) -> tuple[Any, ...]:
        return Unsupported, (self.namespace, self.name, self.reason)


class Namespace:
    """`pl.tile`, `pl.tensor`, …: attributes are operations."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        self.__dict__.update(members)
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<namespace pl.{self.__name__}>"


CONTROL = (
    "at",
    "cluster",
    "cond",
    "cross_core_slot",
    "dump_tag",
    "func_attr",
    "manual_scope",
    "max",
    "min",
    "no_dep",
    "optimizations",
    "parallel",
    "pipeline",
    "range",
    "scope",
    "spmd",
    "spmd_submit",
    "split",
    "split_aiv",
    "static_assert",
    "static_print",
    "submit",
    "unroll",
    "while_",
    "yield_",
)
