"""Helpers that become functions of their own, specialized from their call sites.

In: a helper and the values at a call.  Out: a function of the program, one per different combination of argument types
and constants.  Extents that belong to the caller become symbols of the helper; a scalar that the helper needs as a
constant is made one, if the call has a constant there.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pypto.dtypes import DataType
from pypto.enums import FunctionType, ParamDirection
from pypto.errors import ParserTypeError, UnsupportedFeatureError
from pypto.frontend.annotations import parameter_form, type_of
from pypto.frontend.build import Options, finish
from pypto.frontend.builder import Signature
from pypto.frontend.calls import need_constant
from pypto.frontend.constants import describe, is_number
from pypto.frontend.frame import Context, Frame
from pypto.frontend.specialization import StaticParameterNeeded
from pypto.frontend.values import constant_of, contains_expr, retag, type_text
from pypto.ir import arith
from pypto.ir.expr import ConstInt, Expr, Var
from pypto.ir.shaped import TensorType, TensorView, const_dim
from pypto.ir.structural import compare
from pypto.ir.types import ArrayType, ScalarType, Type
from pypto.language.annotations import Annotation
from pypto.language.symbols import DynVar

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions
    from pypto.frontend.invoke import Helper

__all__ = ["Specialized", "specialize"]


class _Constant(Exception):
    """A parameter of the helper being built must be a constant."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


_OPEN = "pass a tensor of the annotated shape and dtype, or annotate the parameter with a bare pl.Tensor, which takes any"
_KINDS = {"incore": FunctionType.InCore, "opaque": FunctionType.Opaque}


class Specialized:
    """One specialization: parameter types, constants, and the function made of them."""

    __slots__ = ("constants", "helper", "signature", "types")

    def __init__(self, helper: Helper, types: dict[str, Type], constants: dict[str, Any], signature: Signature) -> None:
        self.helper, self.types, self.constants, self.signature = helper, types, constants, signature

    def serves(self, helper: Helper, types: dict[str, Type], constants: dict[str, Any]) -> bool:
        return (
            self.helper is helper
            and self.types.keys() == types.keys()
            and all(_same_type(a, types[n]) for n, a in self.types.items())
            and repr(sorted(self.constants.items())) == repr(sorted(constants.items()))
        )


def _same_type(a: Type, b: Type) -> bool:
    return a is b or compare(a, b, auto_map=True) is None


def specialize(x: Expressions, node: ast.AST, helper: Helper, values: Mapping[str, Any]) -> tuple[Signature, tuple[Expr, ...]]:
    """The function that serves these values, and the arguments to call it with."""
    constants = {n: v for n, v in values.items() if not isinstance(v, Expr) and not is_number(v)}
    for name, value in constants.items():
        if contains_expr(value):
            what = f"Function '{helper.source.name}': argument '{name}' is a tuple of run-time values"
            x.fail(ParserTypeError, what, node, "pass each value as an argument of its own")
    while True:
        runtime = {n: v for n, v in values.items() if n not in constants}
        try:
            return _instance(x, node, helper, runtime, constants)
        except _Constant as e:
            what = f"argument '{e.name}' of '{helper.source.name}', which needs it in a shape or an attribute,"
            constants[e.name] = need_constant(x, runtime[e.name], node, what)


def _instance(
    x: Expressions, node: ast.AST, helper: Helper, runtime: Mapping[str, Any], constants: dict[str, Any]
) -> tuple[Signature, tuple[Expr, ...]]:
    program, source = x.frame.context.program, helper.source
    frame = Frame(Context(program, source.name, _KINDS[helper.kind], x.frame.context.read), source, jit=True)
    symbols: list[tuple[Expr, Var]] = []
    types: dict[str, Type] = {}
    args: list[Expr] = []
    for name, value in runtime.items():
        type_, arg = _parameter(x, node, frame, name, value, symbols)
        types[name] = type_
        args.append(arg)
    if any(s is source for s in program.active):
        chain = " -> ".join(s.name for s in (*program.active, source))
        x.fail(UnsupportedFeatureError, f"recursion is not supported: {chain}", node, "write a loop")
    for made in program.specialized:
        if made.serves(helper, types, constants):
            return made.signature, tuple(args)
    samples = {n: constant_of(v) for n, v in runtime.items() if is_number(constant_of(v))}
    signature = _build(frame, helper, types, constants, samples)
    program.specialized.append(Specialized(helper, types, dict(constants), signature))
    return signature, tuple(args)


def _parameter(
    x: Expressions, node: ast.AST, frame: Frame, name: str, value: Any, symbols: list[tuple[Expr, Var]]
) -> tuple[Type, Expr]:
    """Type of a parameter from its annotation and its argument, and the argument as an expression."""
    form, _ = parameter_form(frame.source.annotations.get(name))
    at = frame.source.parameter_nodes[name]
    what = f"Function '{frame.source.name}': parameter '{name}'"
    if isinstance(form, (DataType, Annotation)) and (isinstance(form, DataType) or form.form == "scalar"):
        type_ = type_of(frame, form, at, scalar_shorthand=True)
        assert isinstance(type_, ScalarType)
        arg = retag(value, type_.dtype, x.frame.span(node)) if is_number(value) else x.frame.expr(value, node)
        if is_number(value) and isinstance(arg, ConstInt) and type_.dtype.is_float():
            arg = retag(float(value), type_.dtype, x.frame.span(node))
        if arg.type != type_:
            x.fail(ParserTypeError, f"{what} is {type_text(type_)}, got {type_text(arg.type)}", node, "convert it with pl.cast")
        return type_, arg
    arg = x.frame.expr(value, node)
    if isinstance(arg.type, ArrayType):
        hint = "create it in the kernel, or make the helper @pl.jit.inline"
        x.fail(ParserTypeError, f"{what} takes no array: arrays stay in the function that makes them", node, hint)
    if form is None and not isinstance(arg.type, TensorType):
        return arg.type, arg
    if not isinstance(arg.type, TensorType):
        hint = "pass a tensor, or annotate the parameter with a dtype if it is a scalar"
        x.fail(ParserTypeError, f"{what} takes a tensor, got {type_text(arg.type)}", node, hint)
    return _tensor_type(x, node, frame, form, what, arg.type, symbols), arg


def _tensor_type(
    x: Expressions, node: ast.AST, frame: Frame, form: Any, what: str, actual: TensorType, symbols: list[tuple[Expr, Var]]
) -> Type:
    """The argument's type in the helper's own terms."""
    declared: tuple[Any, ...] | None = None
    if isinstance(form, Annotation) and form.form == "tensor":
        declared = tuple(form.shape) if isinstance(form.shape, (list, tuple)) else None
        if form.dtype is not None and form.dtype is not actual.dtype:
            message = f"{what} has dtype {describe(form.dtype)}, got pl.{actual.dtype.name}"
            x.fail(ParserTypeError, message, node, _OPEN)
    if declared is not None and len(declared) != len(actual.shape):
        x.fail(ParserTypeError, f"{what} has rank {len(declared)}, got {type_text(actual)}", node, _OPEN)
    dims: list[Expr] = []
    for i, d in enumerate(actual.shape):
        want = declared[i] if declared is not None else None
        have = const_dim(d)
        if type(want) is int and have is not None and want != have:
            x.fail(ParserTypeError, f"{what}: dimension {i} is {want}, got {have}", node, _OPEN)
        if isinstance(want, DynVar):
            dims.append(frame.context.program.symbol(want.name))
        else:
            dims.append(d if have is not None else _symbol(frame, d, symbols))
    view = None
    if actual.tensor_view is not None:
        v = actual.tensor_view
        view = TensorView(
            [_own(frame, e, symbols) for e in v.stride], v.layout, [_own(frame, e, symbols) for e in v.valid_shape], v.pad
        )
    return TensorType(dims, actual.dtype, None, view)


def _own(frame: Frame, e: Expr, symbols: list[tuple[Expr, Var]]) -> Expr:
    return e if const_dim(e) is not None else _symbol(frame, e, symbols)


def _symbol(frame: Frame, e: Expr, symbols: list[tuple[Expr, Var]]) -> Var:
    """The helper's symbol for one of the caller's extents; equal extents share one."""
    program = frame.context.program
    if isinstance(e, Var) and any(e is s for s in program.symbols.values()):
        return e
    for known, v in symbols:
        if arith.same(known, e):
            return v
    name = program.fresh_symbol(f"{frame.source.name}_n{len(symbols)}")
    v = program.symbol(name)
    symbols.append((e, v))
    return v


def _build(frame: Frame, helper: Helper, types: dict[str, Type], constants: dict[str, Any], samples: dict[str, Any]) -> Signature:
    program, source = frame.context.program, helper.source
    name = program.fresh_name(source.name)
    params: list[tuple[Var, ParamDirection]] = []
    for parameter in source.parameters:
        at = source.parameter_nodes[parameter]
        if parameter in constants:
            frame.scope.bind(parameter, constants[parameter], frame.span(at))
            continue
        _, direction = parameter_form(source.annotations.get(parameter))
        v = Var(parameter, types[parameter], frame.span(at))
        params.append((v, direction))
        frame.scope.bind(parameter, v, frame.span(at))
        if isinstance(v.type, ScalarType):
            frame.context.parameters[v] = (parameter, samples.get(parameter))
    try:
        return finish(frame, name, params, Options.of(helper.options))
    except StaticParameterNeeded as e:
        if e.owner is frame.context:
            raise _Constant(e.name) from None
        raise
