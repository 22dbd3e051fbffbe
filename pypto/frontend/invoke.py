"""Calls of functions: members of the program, helpers that are inlined, helpers that become kernels of their own.

In: a call node and what its function expression stands for.  Out: the value of the call.
A helper is any object with `kind` ("inline", "incore", "opaque", "extern" or "entry") and `source`; it is specialized
from its call site.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pypto._lazy import later
from pypto.errors import NotSupportedError, ParserTypeError, UndefinedVariableError, UnsupportedFeatureError, closest
from pypto.frontend import raw
from pypto.frontend.builder import Signature, call_type, joined
from pypto.frontend.constants import describe, is_constant
from pypto.frontend.frame import Frame
from pypto.frontend.source import Source
from pypto.frontend.values import contains_expr
from pypto.ir.expr import Call, Expr, GlobalVar
from pypto.ir.node import Attrs
from pypto.ir.program import Function
from pypto.ir.types import ArrayType, Type, UnknownType

if TYPE_CHECKING:
    from pypto.frontend import helpers
    from pypto.frontend.expressions import Expressions
else:
    helpers = later("pypto.frontend", "helpers")

__all__ = ["NOT_A_FUNCTION", "Callee", "Helper", "Members", "function"]

NOT_A_FUNCTION = object()


class Helper(Protocol):
    """What the decorators of helpers make."""

    @property
    def kind(self) -> str: ...

    @property
    def source(self) -> Source: ...

    @property
    def options(self) -> dict[str, Any]: ...


class Members:
    """What `self` stands for in the methods of a program."""

    __slots__ = ()


class Callee:
    """A function of the program, by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def is_helper(value: Any) -> bool:
    return isinstance(getattr(value, "kind", None), str) and isinstance(getattr(value, "source", None), Source)


def function(x: Expressions, node: ast.Call, f: Any) -> Any:
    """The value of a call of `f`; NOT_A_FUNCTION if `f` is nothing that this module knows."""
    if isinstance(f, Callee):
        return call_member(x, node, f.name)
    if isinstance(f, Function):
        return call_member(x, node, adopt(x, f))
    if not is_helper(f):
        return NOT_A_FUNCTION
    if f.kind == "inline":
        return inline(x, node, f)
    if f.kind in ("incore", "opaque"):
        return call_helper(x, node, f)
    if f.kind == "extern":
        what = f"external kernel '{f.source.name}': device sources are not executed on a host"
        x.fail(NotSupportedError, what, node, f"write '{f.source.name}' in the language, as a @pl.jit.incore helper")
    x.fail(
        UnsupportedFeatureError,
        f"Unsupported function call: {ast.unparse(node)}",
        node,
        f"'{f.source.name}' is a kernel entry; mark a helper with @pl.jit.inline, @pl.jit.incore or @pl.jit.opaque",
    )


def adopt(x: Expressions, f: Function) -> str:
    """A function defined elsewhere, called by its bare name, joins the program."""
    program = x.frame.context.program
    if program.functions.get(f.name) is not f:
        program.add(f, f.return_types)
    return f.name


# -- functions of the program --------------------------------------------------------------------------------------


def signature_of(x: Expressions, node: ast.AST, name: str) -> Signature | None:
    """The signature of a function of the program, called or launched at `node`; None for a name that it does not have."""
    program = x.frame.context.program
    if name in program.building and name not in program.signatures:
        _recursive(x, node, [*program.building[program.building.index(name) :], name])
    return program.signature(name)


def unknown_function(x: Expressions, node: ast.AST, name: str) -> NoReturn:
    program = x.frame.context.program
    known = {*program.functions, *program.pending}
    x.fail(UndefinedVariableError, f"Function '{name}' not defined in program", node, known_functions(name, known))


def call_member(x: Expressions, node: ast.Call, name: str) -> Expr:
    signature = signature_of(x, node, name)
    if x.frame.raw:
        return _printed_call(x, node, name, signature)
    if signature is None:
        unknown_function(x, node, name)
    attrs: dict[str, Any] = {}
    for k in node.keywords:
        if k.arg == "attrs":
            attrs = raw.attributes(x, k.value)
        else:
            x.fail(
                ParserTypeError,
                f"Function '{name}' does not accept keyword argument '{k.arg}'",
                k,
                "kernels of a program are called with positional arguments",
            )
    if len(node.args) != len(signature.params):
        _arity(x, node, "Function", name, [p.name_hint for p in signature.params])
    args = tuple(x.frame.plain(x.frame.expr(x.value(a), a), a) for a in node.args)
    return _call(x, node, signature, args, attrs)


def _call(
    x: Expressions, node: ast.AST, signature: Signature, args: tuple[Expr, ...], attrs: dict[str, Any] | None = None
) -> Call:
    type_ = joined(call_type(signature, args))
    return Call(GlobalVar(signature.name), args, {}, Attrs(attrs or {}), type_, x.frame.span(node))


def _printed_call(x: Expressions, node: ast.Call, name: str, signature: Signature | None) -> Call:
    """A call as written; a function that the text does not define says its result in the annotation."""
    args = tuple(raw.operand(x, a) for a in node.args)
    kwargs: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    for k in node.keywords:
        if k.arg == "attrs":
            attrs = raw.attributes(x, k.value)
        elif k.arg is not None:
            kwargs[k.arg] = x.value(k.value)
    type_: Type = UnknownType.get()
    if signature is not None:
        same = len(args) == len(signature.params)
        type_ = joined(call_type(signature, args) if same else signature.results)
    return Call(GlobalVar(name), args, kwargs, Attrs(attrs), type_, x.frame.span(node))


def _arity(x: Expressions, node: ast.Call, what: str, name: str, parameters: Sequence[str]) -> NoReturn:
    got = len(node.args) + len(node.keywords)
    message = f"{what} '{name}' expects {len(parameters)} argument(s), got {got}"
    x.fail(ParserTypeError, message, node, parameters_text(name, parameters))


def parameters_text(name: str, parameters: Iterable[str]) -> str:
    """How a function of the program is called."""
    return f"call it as {name}({', '.join(parameters)})"


def known_functions(name: str, known: Iterable[str]) -> str:
    """A hint for a function that the program does not have."""
    names = sorted(known)
    return closest(name, names) or (f"known functions: {', '.join(names)}" if names else f"define '{name}' with @pl.function")


def _recursive(x: Expressions, node: ast.AST, names: list[str]) -> NoReturn:
    x.fail(UnsupportedFeatureError, f"recursion is not supported: {' -> '.join(names)}", node, "write a loop")


# -- helpers -------------------------------------------------------------------------------------------------------


def bind(x: Expressions, node: ast.Call, f: Helper, what: str) -> dict[str, Any]:
    """Arguments of a helper by parameter name, bound as in Python; defaults of the definition fill the rest."""
    source = f.source
    a = source.node.args
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    only_positional = {p.arg for p in a.posonlyargs}
    if len(node.args) > len(positional):
        _arity(x, node, what, source.name, positional)
    given: dict[str, tuple[Any, ast.AST]] = {}
    for name, arg in zip(positional, node.args, strict=False):
        given[name] = (x.value(arg), arg)
    for k in node.keywords:
        if k.arg is None or k.arg not in source.parameters or k.arg in only_positional:
            hint = closest(k.arg or "", source.parameters) or parameters_text(source.name, source.parameters)
            x.fail(ParserTypeError, f"{what} '{source.name}' does not accept keyword argument '{k.arg}'", k, hint)
        if k.arg in given:
            message = f"{what} '{source.name}' got two values for '{k.arg}'"
            x.fail(ParserTypeError, message, k, parameters_text(source.name, source.parameters))
        given[k.arg] = (x.value(k.value), k.value)
    values: dict[str, Any] = {}
    for name in source.parameters:
        if name in given:
            value, at = given[name]
            values[name] = _argument(x, value, at, what, source.name, name)
        elif name in source.defaults:
            values[name] = source.defaults[name]
        else:
            _arity(x, node, what, source.name, source.parameters)
    return values


def _argument(x: Expressions, value: Any, at: ast.AST, what: str, function: str, name: str) -> Any:
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, Expr):
        return x.frame.plain(value, at)
    if not contains_expr(value) and not is_constant(value) and not is_helper(value):
        hint = "helpers take tensors, tiles, scalars, plain constants and other helpers"
        x.fail(ParserTypeError, f"{what} '{function}': argument '{name}' is {describe(value)}", at, hint)
    return value


def inline(x: Expressions, node: ast.Call, f: Helper) -> Any:
    """The body of an inlined helper, read here with its parameters standing for the arguments."""
    caller, source = x.frame, f.source
    if source is caller.source or any(s is source for s in caller.callers):
        chain = [s.name for s in (*caller.callers, caller.source)]
        _recursive(x, node, [*chain[chain.index(source.name) :], source.name] if source.name in chain else [source.name])
    values = bind(x, node, f, "Inline function")
    frame = Frame(caller.context, source, jit=True)
    frame.callers = (*caller.callers, caller.source)
    frame.inlined = True
    span = caller.span(node)
    for name, value in values.items():
        values[name] = caller.held(value, name, node)  # an argument is evaluated once
        frame.scope.bind(name, values[name], span, assignable=False)
    caller.context.read(frame)
    _pass_writes(x, node, frame, values)
    if frame.result is None:
        x.fail(
            ParserTypeError,
            f"Inline function '{source.name}' has no return value",
            node,
            f"end '{source.name}' with a return statement",
        )
    return frame.result[0] if len(frame.result) == 1 else frame.result


def _pass_writes(x: Expressions, node: ast.Call, frame: Frame, values: dict[str, Any]) -> None:
    """A tensor that the helper wrote is, for a caller who passed it by name, the written tensor; arrays are values."""
    context, names = x.frame.context, frame.source.parameters
    nodes: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
    nodes.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    for name, arg in nodes.items():
        b = frame.scope.get(name)
        new = b.var if b is not None and b.poison is None else None
        old = values[name]
        if new is not None and isinstance(new.type, ArrayType):
            continue
        if isinstance(arg, ast.Name) and new is not None and new is not old and context.is_version(new, old):
            x.frame.assign(arg.id, new, node, arg)


def call_helper(x: Expressions, node: ast.Call, f: Helper) -> Expr:
    """A call of a helper that is a function of its own, made from this call site."""
    if x.frame.context.in_core:
        x.fail(
            UnsupportedFeatureError,
            f"'{f.source.name}' is a kernel: it cannot be called inside a kernel",
            node,
            "call it from the orchestration level, or make it @pl.jit.inline",
        )
    values = bind(x, node, f, "Function")
    signature, args = helpers.specialize(x, node, f, values)
    return _call(x, node, signature, args)
