"""`@pl.function`, `@pl.inline`, `@pl.program`: Python definitions become IR at decoration.

In: functions and classes.  Out: `ir.Function`, `InlineFunction`, `ir.Program`.
A function defined in a class body waits for `@pl.program`, which reads all of them together.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from pypto.enums import FunctionType, Level, ParamDirection, Role
from pypto.errors import NotSupportedError, ParserSyntaxError, ParserTypeError, PyptoWarning
from pypto.frontend.annotations import parameter_form, type_of
from pypto.frontend.build import Options, finish
from pypto.frontend.builder import ProgramBuilder, Signature
from pypto.frontend.expressions import Expressions
from pypto.frontend.frame import Context, Frame
from pypto.frontend.invoke import Members
from pypto.frontend.source import Source, capture, enclosing
from pypto.frontend.statements import read_frame
from pypto.ir.expr import Var
from pypto.ir.program import Function, Program
from pypto.ir.types import ScalarType, TupleType, Type
from pypto.language.annotations import Annotation
from pypto.named import NamedTuple

__all__ = [
    "FunctionOptions",
    "InlineFunction",
    "ProgramMethod",
    "build_function",
    "build_program",
    "function",
    "inline",
    "parse_function",
    "program",
]


class FunctionOptions(NamedTuple):
    """The arguments of `@pl.function`."""

    type: FunctionType = FunctionType.Opaque
    level: Level | None = None
    role: Role | None = None
    strict_ssa: bool = False
    auto_scope: bool = True
    attrs: Mapping[str, Any] = {}
    requires_runtime_binding: bool = False


class InlineFunction:
    """A helper that is spliced at each call."""

    kind = "inline"

    def __init__(self, source: Source) -> None:
        self.source = source
        self.options: dict[str, Any] = {}
        self.__name__, self.__qualname__ = source.name, source.qualname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"inline function '{self.source.name}' has a meaning only inside a kernel")

    def __repr__(self) -> str:
        return f"<inline function {self.source.qualname}>"


class ProgramMethod:
    """A function in a class body, read when the class becomes a program."""

    def __init__(self, source: Source, options: FunctionOptions) -> None:
        self.source, self.options = source, options

    def __repr__(self) -> str:
        return f"<function {self.source.qualname} of a program>"


def function(
    func: Callable[..., Any] | None = None,
    *,
    type: FunctionType = FunctionType.Opaque,
    level: Level | None = None,
    role: Role | None = None,
    strict_ssa: bool = False,
    auto_scope: bool = True,
    attrs: Mapping[str, Any] | None = None,
    external_source: Any = None,
) -> Any:
    """An `ir.Function` from a Python function with fully annotated parameters."""
    options = _options(type, level, role, strict_ssa, auto_scope, attrs, external_source)
    if func is not None:
        return _decorate(func, options, sys._getframe(1))

    def decorate(f: Callable[..., Any]) -> Any:
        return _decorate(f, options, sys._getframe(1))

    return decorate


def _options(
    type: Any, level: Any, role: Any, strict_ssa: Any, auto_scope: Any, attrs: Mapping[str, Any] | None, external_source: Any
) -> FunctionOptions:
    if not isinstance(type, FunctionType):
        what = f"type= of pl.function must be a pl.FunctionType, got {type!r}"
        raise ParserSyntaxError(what, hint="type=pl.FunctionType.InCore, or one of its other members")
    if not isinstance(auto_scope, bool):
        what = f"auto_scope= of pl.function must be True or False, got {auto_scope!r}"
        raise ParserSyntaxError(what, hint="leave auto_scope out, or write auto_scope=False")
    if external_source is not None:
        raise NotSupportedError(
            "external_source: device sources are not executed on a host", hint="write the kernel in the language"
        )
    if attrs is not None:
        warnings.warn("attrs= of pl.function is deprecated; begin the body with pl.func_attr({...})", PyptoWarning, stacklevel=3)
    plain = {k: getattr(v, "value", v) for k, v in (attrs or {}).items()}
    return FunctionOptions(type, level, role, bool(strict_ssa), auto_scope, plain)


def _decorate(f: Callable[..., Any], options: FunctionOptions, frame: FrameType) -> Any:
    source = capture(f, outer=enclosing(frame))
    path = source.qualname.split(".")
    if len(path) > 1 and path[-2] != "<locals>":
        return ProgramMethod(source, options)
    return parse_function(source, options)


def parse_function(source: Source, options: FunctionOptions | None = None) -> Function:
    """One fully annotated function as IR."""
    builder = ProgramBuilder(source.name)
    build_function(builder, source, options or FunctionOptions(), member=False)
    return builder.functions[source.name]


def inline(func: Callable[..., Any]) -> InlineFunction:
    """A helper spliced into the functions that call it."""
    return InlineFunction(capture(func, outer=enclosing(sys._getframe(1))))


def program(cls: Any) -> Program:
    """An `ir.Program` from a class whose methods are decorated with `@pl.function`."""
    methods = [v for v in vars(cls).values() if isinstance(v, ProgramMethod)]
    return build_program(cls.__name__, methods)


def build_program(name: str, methods: list[ProgramMethod]) -> Program:
    if not methods:
        raise ParserSyntaxError(f"class '{name}' has no functions", hint="decorate its methods with @pl.function")
    builder = ProgramBuilder(name)
    for m in methods:
        builder.index_of(m.source)

        def build(m: ProgramMethod = m) -> Signature:
            return build_function(builder, m.source, m.options, member=True)

        builder.pending[m.source.name] = build
    return builder.finish()


def build_function(builder: ProgramBuilder, source: Source, options: FunctionOptions, *, member: bool) -> Signature:
    """Read one function into the program."""
    context = Context(builder, source.name, options.type, read_frame)
    frame = Frame(context, source, strict_ssa=options.strict_ssa)
    params = _parameters(frame, member)
    declared = _returns(frame)
    attrs = dict(options.attrs)
    if not options.auto_scope:
        attrs["auto_scope"] = False
    signature = finish(
        frame, source.name, params, Options(options.level, options.role, attrs, options.requires_runtime_binding), declared
    )
    return signature


def _parameters(frame: Frame, member: bool) -> list[tuple[Var, ParamDirection]]:
    source, builder = frame.source, frame.context.program
    params: list[tuple[Var, ParamDirection]] = []
    x = Expressions(frame)
    if member or source.raw:
        frame.scope.bind("self", Members(), frame.span(source.node))
    for i, (name, node) in enumerate(source.parameter_nodes.items()):
        if name == "self" and i == 0 and node.annotation is None:
            continue
        if node.annotation is None:
            frame.fail(ParserTypeError, f"Parameter '{name}' missing type annotation", node, f"{name}: pl.Tensor[[...], dtype]")
        form, direction = parameter_form(_annotation(frame, x, name, node.annotation))
        if form is tuple or (isinstance(form, Annotation) and form.form == "tuple"):
            frame.fail(ParserTypeError, "Parameter type cannot be a tuple", node.annotation, "pass the values one by one")
        type_ = type_of(frame, form, node.annotation)
        if isinstance(type_, ScalarType):
            if direction is ParamDirection.InOut:
                hint = "return the value, or write it into a one-element tensor"
                frame.fail(ParserTypeError, f"Scalar parameter '{name}' cannot be pl.InOut", node.annotation, hint)
            if name in builder.symbols and not source.raw:
                frame.fail(ParserTypeError, f"Parameter '{name}' shadows the dynamic symbol '{name}'", node, "rename one of them")
        v = Var(name, type_, frame.span(node))
        params.append((v, direction))
        frame.scope.bind(name, v, frame.span(node))
    return params


def _annotation(frame: Frame, x: Expressions, name: str, node: ast.expr) -> Any:
    """The annotation as Python evaluated it, or as the text says it."""
    if frame.source.function is not None:
        return frame.source.annotations[name]
    return x.annotation(node)


def _returns(frame: Frame) -> tuple[Type, ...]:
    node = frame.source.node.returns
    if node is None:
        return ()
    value = _annotation(frame, Expressions(frame), "return", node)
    if value is None:
        return ()
    if isinstance(value, tuple) and not isinstance(value, Annotation):
        return tuple(type_of(frame, v, node) for v in value)
    form, _ = parameter_form(_python_tuple(value))
    type_ = type_of(frame, form, node)
    return type_.types if isinstance(type_, TupleType) else (type_,)


def _python_tuple(value: Any) -> Any:
    """`tuple[T0, T1]` is `pl.Tuple[T0, T1]`."""
    if getattr(value, "__origin__", None) is tuple:
        return Annotation("tuple", tuple(value.__args__))
    return value
