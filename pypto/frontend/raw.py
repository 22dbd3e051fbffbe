"""Printed programs: calls are IR calls, exactly as written.

In: `pl.tile.<op>(operands..., keywords...)` of a text with a program header.  Out: that very call: nothing is defaulted,
retyped or normalized.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from pypto.dtypes import DataType
from pypto.errors import InvalidOperationError, ParserSyntaxError, ParserTypeError, closest
from pypto.frontend.constants import describe
from pypto.frontend.values import constant_of
from pypto.ir import ops, scalar
from pypto.ir.expr import Call, Expr, GlobalVar, MakeTuple, MemRef, Submit
from pypto.ir.node import Attrs
from pypto.ir.opdef import OpRejected
from pypto.ir.shaped import as_dims
from pypto.ir.types import Type, UnknownType
from pypto.language.operations import Operation
from pypto.language.symbols import SymbolicInt

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions

__all__ = ["attributes", "operand", "operation"]


def operation(x: Expressions, node: ast.Call, op: Operation, result: Type | None = None) -> Expr | None:
    """The call, or None where the spelling is not one that printed programs use."""
    if not op.namespace:
        return _cast(x, node) if op.name == "cast" else None
    known = ops.find(f"{op.namespace}.{op.name}") or ops.find(f"{op.namespace}.{op.name.rstrip('_')}")
    if known is None:
        hint = closest(f"{op.namespace}.{op.name}", ops.TABLE) or "operators of printed programs are listed in docs/operators.md"
        x.fail(InvalidOperationError, f"Unknown pl.{op.namespace} operation: {op.name}", node, hint)
    args = tuple(operand(x, a) for a in node.args)
    kwargs: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    for k in node.keywords:
        if k.arg == "attrs":
            attrs = attributes(x, k.value)
        elif k.arg is not None:
            kwargs[k.arg] = x.value(k.value)
    try:
        call = known.call(args, kwargs, x.frame.span(node), result)
    except OpRejected as e:
        raise x.frame.error(InvalidOperationError, f"{known.name}: {e.message}", node, e.hint or known.signature()) from None
    return call.replace(attrs=Attrs(attrs)) if attrs else call


def submit(x: Expressions, node: ast.Call, callee: str) -> Submit:
    """`pl.submit(self.f, operands..., deps=[...], ...)` as an expression; its type is the annotation's."""
    options: dict[str, Any] = {k.arg: x.value(k.value) for k in node.keywords if k.arg is not None}
    args = tuple(operand(x, a) for a in node.args[1:])
    fields = ("deps", "core_num", "sync_start", "allow_early_resolve", "predicate", "attrs")
    kwargs = {k: v for k, v in options.items() if k not in fields}
    optional = (options.get("core_num"), options.get("predicate"))
    core_num, predicate = (None if v is None else x.frame.expr(v, node) for v in optional)
    return Submit(
        GlobalVar(callee),
        args,
        tuple(options.get("deps", ())),
        Attrs(kwargs),
        Attrs(options.get("attrs", {})),
        UnknownType.get(),
        x.frame.span(node),
        core_num,
        bool(options.get("sync_start", False)),
        bool(options.get("allow_early_resolve", False)),
        predicate,
    )


def function_form(x: Expressions, node: ast.Call) -> Expr | None:
    """`abs(a)` and `xor(a, b)`: nodes that have no operator."""
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in ("abs", "xor"):
        return None
    args = [x.frame.scalar(x.value(a), a) for a in node.args]
    dtype = DataType.BOOL if name == "xor" else scalar.dtype_of(args[0])
    span = x.frame.span(node)
    return scalar.Xor(args[0], args[1], dtype, span) if name == "xor" else scalar.Abs(args[0], dtype, span)


def _cast(x: Expressions, node: ast.Call) -> Expr | None:
    value = x.value(node.args[0])
    target = x.value(node.args[1])
    if not isinstance(target, DataType):
        what = f"pl.cast: the target must be a dtype, got {describe(target)}"
        x.fail(ParserTypeError, what, node.args[1], "pl.cast(x, pl.FP32)")
    return scalar.cast(x.frame.scalar(value, node.args[0]), target, x.frame.span(node))


def operand(x: Expressions, node: ast.expr) -> Expr:
    """An operand: lists and tuples are tuples of operands."""
    return as_operand(x, x.value(node), node)


def as_operand(x: Expressions, value: Any, node: ast.expr) -> Expr:
    if isinstance(value, tuple):
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node] * len(value)
        elements = (as_operand(x, v, n) for v, n in zip(value, parts, strict=True))
        return MakeTuple(as_dims(elements), x.frame.span(node))
    if isinstance(value, SymbolicInt):
        return x.frame.context.program.extent(value)
    return x.frame.expr(value, node)


_MEMREF = "pl.MemRef(base, byte_offset, size[, slots=N])"


def memref(x: Expressions, node: ast.Call) -> MemRef:
    """`pl.MemRef(base, byte_offset, size[, slots=N])`; a slot index follows in brackets."""
    base = node.args[0]
    known = x.frame.scope.get(base.id) if isinstance(base, ast.Name) else None
    if known is not None and known.var is not None:
        pointer = known.var
    elif isinstance(base, ast.Name):
        pointer = x.frame.context.allocation(base.id)
    else:
        x.fail(ParserTypeError, "the base of pl.MemRef is the name of an allocation", base, _MEMREF)
    offset, size = x.value(node.args[1]), constant_of(x.value(node.args[2]))
    keywords = {k.arg: constant_of(x.value(k.value)) for k in node.keywords}
    if not isinstance(offset, (int, Expr)) or type(size) is not int or keywords.keys() - {"slots", "is_pinned"}:
        x.fail(ParserTypeError, "pl.MemRef takes a base, an offset and a size in bytes", node, _MEMREF)
    slots, pinned = keywords.get("slots", 1), bool(keywords.get("is_pinned", False))
    return MemRef(pointer, offset, size, x.frame.span(node), pinned, slots)


def slot(x: Expressions, node: ast.Subscript, whole: MemRef) -> MemRef:
    """`memref[k]`."""
    return whole.replace(slot_index_=x.frame.expr(x.value(node.slice), node.slice))


def attributes(x: Expressions, node: ast.expr) -> dict[str, Any]:
    """A dict literal with string keys."""
    if not isinstance(node, ast.Dict):
        what = "attributes are a dict literal with string-literal keys"
        x.fail(ParserSyntaxError, what, node, "write the dict out: {'key': value}")
    found: dict[str, Any] = x.value(node)
    return found


def with_type(call: Expr, type: Type) -> Expr:
    """A call whose result type only the text states."""
    known = not isinstance(call, (Call, Submit)) or not isinstance(call.type, UnknownType)
    return call if known else call.replace(type=type)
