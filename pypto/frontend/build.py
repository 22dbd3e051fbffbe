"""From a frame with bound parameters to a finished IR function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pypto.enums import Level, ParamDirection, Role
from pypto.frontend.builder import Signature
from pypto.frontend.frame import Frame
from pypto.ir.expr import Var
from pypto.ir.program import Function
from pypto.ir.stmt import seq
from pypto.ir.types import Type
from pypto.named import NamedTuple

__all__ = ["Options", "finish"]


class Options(NamedTuple):
    """What a decorator says about a function beside its type."""

    level: Level | None = None
    role: Role | None = None
    attrs: Mapping[str, Any] = {}
    requires_runtime_binding: bool = False

    @staticmethod
    def of(options: Mapping[str, Any]) -> Options:
        """From a helper's decorator options; a level other than the one its kind implies is not kept."""
        attrs = {"auto_scope": False} if options.get("auto_scope") is False else {}
        return Options(None, None, attrs)


def finish(
    frame: Frame,
    name: str,
    params: Iterable[tuple[Var, ParamDirection]],
    options: Options,
    declared: tuple[Type, ...] | None = None,
) -> Signature:
    """Read the body and add the function to the program.  `declared`: the return annotation, where it decides."""
    context, program = frame.context, frame.context.program
    context.auto_scope = options.attrs.get("auto_scope") is not False
    program.building.append(name)
    program.active.append(frame.source)
    try:
        with context.body() as statements:
            context.read(frame)
    finally:
        program.building.pop()
        program.active.pop()
    returned = tuple(v.type for v in frame.result or ())
    attrs = {**options.attrs, **context.attrs}
    span = frame.source.span(frame.source.node, frame.index, 0)
    function = Function(
        name,
        params,
        returned if declared is None else declared,
        seq(statements, span),
        span,
        context.func_type,
        options.level,
        options.role,
        attrs,
        options.requires_runtime_binding,
    )
    return program.add(function, declared or returned)
