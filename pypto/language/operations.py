"""Names that mean something only inside a kernel: operators, loops, scopes.

In: nothing.  Out: inert objects that the parser recognizes by identity of kind, and that raise one clear error when
Python calls them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pypto.errors import InvalidOperationError, NotSupportedError, unknown_name
from pypto.language._lazy import operator

__all__ = ["CONTROL", "Construct", "Namespace", "Operation", "Unsupported"]


class _Asked:
    """An attribute of instances that is made when somebody looks; the class has its own, or none."""

    __slots__ = ("make", "own")

    def __init__(self, make: str, own: str | None = None) -> None:
        self.make, self.own = make, own

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return getattr(instance, self.make)()
        if self.own is None:
            raise AttributeError(owner.__name__)
        return self.own


class _KernelName:
    """Base: a spelling such as `pl.tile.load`."""

    __slots__ = ("name", "namespace")

    __signature__ = _Asked("_make_signature")

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

    def _make_signature(self) -> Any:
        raise AttributeError(f"{self.spelling} has no signature")

    def __repr__(self) -> str:
        return self.spelling

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.namespace, self.name)


class Operation(_KernelName):
    __slots__ = ()

    __doc__ = _Asked("_make_doc", "An operator of the language: `pl.add`, `pl.tile.load`.")

    def _make_doc(self) -> str:
        entry = operator(self.namespace, self.name)
        space = f"pl.{self.namespace}." if self.namespace else "pl."
        return self.spelling if entry is None else f"{space}{entry.signature()}\n\n{entry.doc}"

    def _make_signature(self) -> Any:
        from inspect import Parameter, Signature

        entry = operator(self.namespace, self.name)
        if entry is None:
            raise AttributeError(f"{self.spelling} has no signature")
        parameters = [
            Parameter(
                p.name,
                Parameter.KEYWORD_ONLY if p.keyword_only else Parameter.POSITIONAL_OR_KEYWORD,
                default=Parameter.empty if p.required else p.default,
            )
            for p in entry.params
        ]
        return Signature(parameters)


class Construct(_KernelName):
    __slots__ = ()

    __doc__ = _Asked("_make_doc", "A loop, scope or directive that the parser itself understands.")

    def _make_doc(self) -> str:
        from inspect import cleandoc

        from pypto.language.constructs import TABLE

        return f"{self.spelling}{self._make_signature()}\n\n{cleandoc(TABLE[self.name].__doc__ or '')}"

    def _make_signature(self) -> Any:
        from inspect import Signature, signature

        from pypto.language.constructs import TABLE

        bare = [p.replace(annotation=Signature.empty) for p in signature(TABLE[self.name]).parameters.values()]
        return Signature(bare)


class Unsupported(_KernelName):
    __slots__ = ("reason",)

    __doc__ = _Asked(
        "_make_doc", "A public name that this implementation does not execute; using it raises NotSupportedError with the reason."
    )

    def _make_doc(self) -> str:
        return f"{self.spelling}\n\nNot supported: {self.reason}."

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

    def __getattr__(self, name: str) -> Any:
        raise unknown_name(repr(self), name, vars(self))

    def __repr__(self) -> str:
        return f"<namespace pl.{vars(self).get('__name__')}>"


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
