"""Calls of the language's operators.

In: a call node and the operator it names.  Out: the IR that the operator's DSL entry builds from the bound arguments.
Arguments bind as in Python; what an operator refuses becomes an InvalidOperationError at the call.  Where the refusal
goes away once a run-time parameter is a constant, that parameter is asked for instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pypto.dtypes import DataType
from pypto.enums import SplitMode
from pypto.errors import Error, InvalidOperationError, NotSupportedError, ParserTypeError, closest
from pypto.frontend import raw
from pypto.frontend.constants import is_number
from pypto.frontend.specialization import StaticParameterNeeded
from pypto.frontend.tasks import task_ids
from pypto.frontend.values import constant_of, fold, is_const_expr, retag, scalar_dtype, value_text
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var
from pypto.ir.opdef import Dsl, OpRejected, Param, Special
from pypto.ir.ops.system import IN_KERNELS, TASK
from pypto.ir.rewrite import walk
from pypto.ir.shaped import ShapedType
from pypto.ir.types import ScalarType, Type
from pypto.language.operations import Operation
from pypto.language.symbols import SymbolicInt
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions

__all__ = ["build", "index", "need_constant", "operation", "shape"]

# What the control plane may do with tensors: metadata, single elements, allocation, window copies.
_CONTROL_PLANE = ("create", "view", "transpose", "read", "write", "query", "insert", "alloc")


class CallSite:
    """What a DSL entry sees of its call (`opdef.DslContext`)."""

    def __init__(self, x: Expressions, node: ast.AST, quiet: bool = False) -> None:
        self.x, self.node, self.quiet = x, node, quiet
        self.span: Span = x.frame.span(node)

    @property
    def region(self) -> tuple[SplitMode, Expr] | None:
        return self.x.frame.context.region

    @property
    def expected(self) -> Type | None:
        node, type_ = self.x.annotated
        return type_ if node is self.node else None

    def op(self, name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None) -> Call:
        known = ops.find(name)
        if known is None:
            raise OpRejected(f"'{name}' is not available in this version", "use the operators that docs/operators.md lists")
        if known.semantics == Special("alloc") and self.x.frame.jit:
            raise OpRejected("allocations stand in printed programs only", "pl.create_tile(shape, dtype): its memory is planned")
        made = known.call(args, kwargs, self.span)
        _check_place(self.x, self.node, made)
        return made

    def warn(self, message: str) -> None:
        if not self.quiet:
            self.x.frame.warn(message, self.node)


def _check_place(x: Expressions, node: ast.AST, call: Call) -> None:
    """On the control plane only bookkeeping is possible; computing belongs to a kernel."""
    known = ops.of(call)
    if known is None or x.frame.raw:
        return
    kind = known.semantics.kind if isinstance(known.semantics, Special) else "compute"
    if kind == TASK and x.frame.context.in_core:
        x.fail(
            InvalidOperationError, f"'{known.name}' inside a kernel", node, "tasks are launched outside: put it around the kernel"
        )
    if not x.frame.context.is_orchestration or (known.level not in ("tensor", "tile") and kind not in IN_KERNELS):
        return
    if kind in _CONTROL_PLANE and (known.level == "tensor" or kind == "query"):
        return
    x.fail(
        InvalidOperationError,
        f"Misplaced {known.level} op '{known.name}' in orchestration function '{x.frame.context.name}': "
        "it should be inside InCore block",
        node,
        f"put {_shown(node)} under `with pl.at(level=pl.Level.CORE_GROUP):`; what stands outside of it only loops, makes tensors "
        "and calls kernels",
    )


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return f"`{text}`" if len(text) <= 60 else "it"


# -- binding -------------------------------------------------------------------------------------------------------


def operation(x: Expressions, node: ast.Call, op: Operation) -> Expr | tuple[Expr, ...]:
    """`pl.add(...)`, `pl.tile.load(...)`."""
    if x.frame.raw:
        printed = raw.operation(x, node, op)
        if printed is not None:
            return printed
    entry = ops.find_dsl(op.namespace, op.name)
    if entry is None:
        near = closest(op.name, (d.name for d in ops.DSL if op.namespace in d.namespaces))
        hint = near or "docs/operators.md lists what a kernel can call"
        x.fail(InvalidOperationError, f"Unknown operation '{op.spelling}'", node, hint)
    values = {p.name: argument(x, p, n, op) if n is not None else p.default for p, n in bind(x, node, entry, op)}
    return results(x, node, op.namespace, op.name, values)


def bind(x: Expressions, node: ast.Call, entry: Dsl, op: Operation) -> list[tuple[Param, ast.expr | None]]:
    """Each parameter with its argument, None where the default holds."""
    given: dict[str, ast.expr] = {}
    form = _form(entry, op.namespace)
    positional = [p for p in entry.params if not p.keyword_only]
    for a in node.args:
        if isinstance(a, ast.Starred):
            _refuse(x, node, op, "`*` in a call is not supported", "write the arguments out", at=a)
    if len(node.args) > len(positional):
        takes = f"takes {len(positional)} positional arguments, got {len(node.args)}"
        keyword = [p.name for p in entry.params if p.keyword_only]
        hint = f"'{keyword[0]}' must be given by keyword: " if keyword else ""
        _refuse(x, node, op, takes, hint + form, at=node.args[len(positional)])
    for p, a in zip(positional, node.args, strict=False):
        given[p.name] = a
    names = [p.name for p in entry.params]
    for k in node.keywords:
        if k.arg is None:
            _refuse(x, node, op, "`**` in a call is not supported", "write the keywords out", at=k)
        if k.arg not in names:
            near = closest(k.arg, names)
            hint = f"{near} {form}" if near else form
            _refuse(x, node, op, f"unexpected keyword argument '{k.arg}'", hint, at=k)
        if k.arg in given:
            _refuse(x, node, op, f"got two values for '{k.arg}'", form, at=k)
        given[k.arg] = k.value
    missing = [p.name for p in entry.params if p.required and p.name not in given]
    if missing:
        names_text = ", ".join(f"'{m}'" for m in missing)
        hint = f"{form}: {entry.doc}" if any(p.kind == "attr" and p.name in missing for p in entry.params) else form
        _refuse(x, node, op, f"missing required argument{'s' if len(missing) > 1 else ''} {names_text}", hint)
    return [(p, given.get(p.name)) for p in entry.params]


def _form(entry: Dsl, namespace: str) -> str:
    """How an operator is called: the remedy for a refusal that has none of its own."""
    return f"call it as pl.{namespace + '.' if namespace else ''}{entry.signature()}"


def _refuse(x: Expressions, node: ast.AST, op: Operation, message: str, hint: str, at: ast.AST | None = None) -> NoReturn:
    space = f"pl.{op.namespace}" if op.namespace else "pl"
    text = message if message.startswith("pl.") else f"{space} operation '{op.name}': {message}"
    x.fail(InvalidOperationError, text, at or node, hint)


def argument(x: Expressions, p: Param, node: ast.expr, op: Operation) -> Any:
    """One argument, as its parameter's kind wants it."""
    if p.kind == "tasks":
        return MakeTuple(task_ids(x, node), x.frame.span(node))
    value = x.frame.surrounding(x.value(node), node)
    if value is None and not p.required:
        return None
    if p.kind == "shape":
        return shape(x, value, node, p.name)
    if p.kind == "index":
        return index(x, value, node)
    if p.kind == "attr":
        return need_constant(x, value, node, f"'{p.name}' of {op.spelling}")
    if isinstance(value, (tuple, list)):
        what = f"'{p.name}' must be a tensor, a tile or a scalar, got a list"
        numbers = all(is_number(v) or scalar_dtype(v) is not None for v in value)
        hint = (
            f"a list is no tensor: pass an array, with a parameter {p.name}: pl.Tensor[[1, {len(value)}], pl.INT32]"
            if numbers
            else "pass the values one by one, without brackets"
        )
        _refuse(x, node, op, what, hint)
    e = x.frame.expr(value, node)
    return x.frame.plain(e, node) if isinstance(e.type, ScalarType) else e


def shape(x: Expressions, value: Any, node: ast.expr, what: str) -> tuple[Any, ...]:
    """Extents or offsets: ints and integer scalars."""
    if not isinstance(value, (tuple, list)):
        x.fail(
            InvalidOperationError,
            f"'{what}' must be a list of extents, got {value_text(value)}",
            node,
            f"write [{ast.unparse(node)}]" if isinstance(value, (int, Expr)) else "write [rows, cols], an integer for each axis",
        )
    parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node] * len(value)
    return tuple(index(x, v, n) for v, n in zip(value, parts, strict=True))


def index(x: Expressions, value: Any, node: ast.AST) -> Any:
    """One extent, offset or index: an int, or an integer scalar."""
    if is_const_expr(value):
        value = constant_of(value)
    if type(value) is int:
        return value
    if isinstance(value, SymbolicInt):
        return x.frame.expr(value, node)
    dtype = scalar_dtype(value)
    if dtype is None or not dtype.is_int():
        hint = "pl.cast(value, pl.INDEX)" if dtype is not None else "use an int or an integer scalar"
        x.fail(InvalidOperationError, f"an extent, offset or index must be an integer, got {value_text(value)}", node, hint)
    return x.frame.plain(value, node)


# -- building ------------------------------------------------------------------------------------------------------


def build(
    x: Expressions, node: ast.AST, namespace: str, name: str, values: dict[str, Any], kind: type[Error] = InvalidOperationError
) -> Expr:
    """The one value that the DSL entry makes of bound values; `kind` is the class of its refusals."""
    made = results(x, node, namespace, name, values, kind)
    assert not isinstance(made, tuple)
    return made


def results(
    x: Expressions, node: ast.AST, namespace: str, name: str, values: dict[str, Any], kind: type[Error] = InvalidOperationError
) -> Expr | tuple[Expr, ...]:
    """What the DSL entry makes of bound values: a value, or a tuple of several."""
    entry = ops.find_dsl(namespace, name)
    if entry is None:
        what = f"pl.{namespace + '.' if namespace else ''}{name} is not available in this version"
        x.fail(NotSupportedError, what, node, "use the operators that docs/operators.md lists")
    full = {p.name: values.get(p.name, p.default) for p in entry.params}
    try:
        made = entry.build(CallSite(x, node), namespace, full)
    except OpRejected as e:
        _retry_static(x, node, entry, namespace, full)
        space = f"pl.{namespace}" if namespace else "pl"
        text = e.message if e.message.startswith("pl.") else f"{space} operation '{name}': {e.message}"
        raise x.frame.error(kind, text, node, e.hint or _form(entry, namespace)) from None
    for value in made if isinstance(made, tuple) else (made,):
        if x.frame.context.in_core and isinstance(value.type, ShapedType):
            ask_for_static(x, *value.type.shape)  # what is computed with on the chip has constant extents
    return made


def _known(x: Expressions, names: Iterable[str] | None = None) -> dict[Var, Expr]:
    """Scalars that can be seen through: single definitions, and parameters (those named) with the value of the call at hand."""
    context = x.frame.context
    chosen = None if names is None else set(names)
    values: dict[Var, Expr] = {
        v: retag(value, scalar_dtype(v) or DataType.INDEX, Span.unknown())
        for v, (name, value) in context.parameters.items()
        if is_number(value) and (chosen is None or name in chosen)
    }
    return {**context.definitions, **values}


def _retry_static(x: Expressions, node: ast.AST, entry: Dsl, namespace: str, values: dict[str, Any]) -> None:
    """Raise StaticParameterNeeded if constants in place of parameters would make the operator accept."""
    if not x.frame.context.parameters:
        return
    known = _known(x)
    used = list(dict.fromkeys(n for v in values.values() for n in _parameters_in(x, v, known)))
    if not used or not _accepts(x, node, entry, namespace, values, used):
        return
    for name in list(used):
        fewer = [n for n in used if n != name]
        if fewer and _accepts(x, node, entry, namespace, values, fewer):
            used = fewer
    raise StaticParameterNeeded(used[0], x.frame.context.name, x.frame.context)


def _accepts(x: Expressions, node: ast.AST, entry: Dsl, namespace: str, values: dict[str, Any], names: list[str]) -> bool:
    """Whether the operator takes the values with these parameters as constants."""
    known = _known(x, names)

    def folded(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(folded, value))
        made = fold(value, known) if scalar_dtype(value) is not None else value
        return made if is_const_expr(made) else value

    try:
        entry.build(CallSite(x, node, quiet=True), namespace, {k: folded(v) for k, v in values.items()})
    except OpRejected:
        return False
    return True


def _parameters_in(x: Expressions, e: Any, known: dict[Var, Expr]) -> list[str]:
    """Names of the parameters that a scalar (or a tuple of them) depends on, through single definitions."""
    if isinstance(e, tuple):
        return [n for v in e for n in _parameters_in(x, v, known)]
    parameters = x.frame.context.parameters
    found: list[str] = []
    if scalar_dtype(e) is None:
        return found
    for n in walk(e):
        if isinstance(n, Var):
            if n in parameters:
                found.append(parameters[n][0])
            elif n in known:
                found += _parameters_in(x, known[n], known)
    return found


def ask_for_static(x: Expressions, *values: Expr) -> None:
    """Raise StaticParameterNeeded if a scalar would be constant, were a run-time parameter one."""
    if not x.frame.context.parameters:
        return
    known = _known(x)
    for value in values:
        if scalar_dtype(value) is None or is_const_expr(value):
            continue
        used = _parameters_in(x, value, known)
        if used and is_const_expr(fold(value, known)):
            raise StaticParameterNeeded(used[0], x.frame.context.name, x.frame.context)


def need_constant(x: Expressions, value: Any, node: ast.AST, what: str) -> Any:
    """A compile-time value; asks for a static parameter where one stands in the way."""
    if isinstance(value, tuple):
        return tuple(need_constant(x, v, node, what) for v in value)
    if not isinstance(value, Expr):
        return value
    if is_const_expr(value):
        return constant_of(value)
    ask_for_static(x, value)
    x.fail(
        ParserTypeError,
        f"{what} must be a compile-time constant",
        node,
        "use a literal, or a name bound to a constant outside the kernel",
    )
