"""Python's operators on scalars, tensors and tiles.

In: operand values and the syntax node.  Out: a folded number, a scalar node, or the operator's tensor or tile form.
Plain numbers fold by Python's rules and take the dtype of the scalar, tensor or tile beside them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pypto._lazy import later
from pypto.dtypes import DataType, nearest
from pypto.errors import ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto.frontend.constants import INSTEAD, describe, is_number
from pypto.frontend.values import constant_of, is_const_expr, number_expr, retag, scalar_dtype, type_text
from pypto.ir import arith, scalar
from pypto.ir.expr import ConstFloat, ConstInt, Expr
from pypto.ir.shaped import ShapedType, TensorType
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.frontend import instead
    from pypto.frontend.expressions import Expressions
else:
    instead = later("pypto.frontend", "instead")

__all__ = ["binary", "compare", "extremum", "logic", "unary"]

Build = Callable[[Expr, Expr, Span], Expr]

# Python operator -> scalar node, DSL entry of the tensor and tile form
_BINARY: dict[type[ast.operator], tuple[Build, str]] = {
    ast.Add: (scalar.add, "add"),
    ast.Sub: (scalar.sub, "sub"),
    ast.Mult: (scalar.mul, "mul"),
    ast.Div: (scalar.truediv, "div"),
    ast.FloorDiv: (scalar.floordiv, "floordiv"),
    ast.Mod: (scalar.mod, "mod"),
    ast.LShift: (scalar.bit_shift_left, "shl"),
    ast.RShift: (scalar.bit_shift_right, "shr"),
}
# Nodes that only printed programs spell with operators.
_PRINTED: dict[type[ast.operator], Build] = {
    ast.Pow: scalar.pow,
    ast.BitAnd: scalar.bit_and,
    ast.BitOr: scalar.bit_or,
    ast.BitXor: scalar.bit_xor,
}
# What tensors and tiles have instead of these signs.
_BITWISE: dict[type[ast.AST], str] = {
    ast.BitAnd: "pl.and_",
    ast.BitOr: "pl.or_",
    ast.BitXor: "pl.xor",
    ast.And: "pl.and_",
    ast.Or: "pl.or_",
}
_COMMUTES = ("add", "mul")
_COMPARE: dict[type[ast.cmpop], tuple[Build, int, int]] = {  # node, cmp_type, cmp_type with the sides exchanged
    ast.Eq: (scalar.eq, 0, 0),
    ast.NotEq: (scalar.ne, 1, 1),
    ast.Lt: (scalar.lt, 2, 4),
    ast.LtE: (scalar.le, 3, 5),
    ast.Gt: (scalar.gt, 4, 2),
    ast.GtE: (scalar.ge, 5, 3),
}


def is_shaped(value: Any) -> bool:
    return isinstance(value, Expr) and isinstance(value.type, ShapedType)


def binary(x: Expressions, node: ast.BinOp, left: Any, right: Any) -> Any:
    """`left op right` where at least one side is known only at run time (or the program is printed text)."""
    kind = type(node.op)
    build, name = _BINARY.get(kind, (None, ""))
    if build is None and x.frame.raw:
        build = _PRINTED.get(kind)
    if build is None:
        shown = f"Unsupported binary operator: {kind.__name__}"
        if kind in _BITWISE and (is_shaped(left) or is_shaped(right)):
            x.fail(UnsupportedFeatureError, shown, node, _joined(kind, (node.left, left), (node.right, right)))
        x.fail(UnsupportedFeatureError, shown, node, _power(node, left, right) if kind is ast.Pow else INSTEAD[kind])
    if is_shaped(left) or is_shaped(right):
        return _shaped(x, node, name, left, right)
    a, b = _pair(x, node, left, right)
    if kind in (ast.FloorDiv, ast.Mod, ast.Div) and not x.frame.raw and isinstance(b, ConstInt) and b.value == 0:
        x.fail(ParserTypeError, "division by zero", node, "a constant divisor must not be zero")
    if kind in (ast.FloorDiv, ast.Mod) and any((scalar_dtype(e) or DataType.INDEX).is_float() for e in (a, b)):
        what = f"Unsupported binary operator: {kind.__name__} of floats"
        x.fail(UnsupportedFeatureError, what, node, "divide with /; pl.cast(a / b, pl.INT32) drops the fraction of a quotient")
    return _typed(x, node, build, a, b)


def _joined(kind: type[ast.AST], first: tuple[ast.expr, Any], *others: tuple[ast.expr, Any]) -> str:
    """What to write to join tensors or tiles by `&`, `|`, `^`, `and` or `or`; comparisons of float tensors are floats, 0 or 1."""
    values = [first, *others]
    masks = any(isinstance(v, Expr) and isinstance(v.type, TensorType) and v.type.dtype.is_float() for _, v in values)
    text = ast.unparse(first[0])
    for node, _ in others:
        other = ast.unparse(node)
        if not masks:
            text = f"{_BITWISE[kind]}({text}, {other})"
        elif _BITWISE[kind] == "pl.or_":
            text = f"pl.maximum({text}, {other})"
        else:
            text = f"({text}) {'*' if _BITWISE[kind] == 'pl.and_' else '!='} ({other})"
    return f"write {text}" + ("; the comparison of tensors is 1 or 0 for each element" if masks else "")


def _power(node: ast.BinOp, left: Any, right: Any) -> str:
    base, exponent = (
        instead.Operand(ast.unparse(n), v.type if isinstance(v, Expr) and not is_const_expr(v) else None)
        for n, v in ((node.left, left), (node.right, right))
    )
    if is_const_expr(right) or is_number(right):
        exponent = exponent._replace(text=repr(constant_of(right)))
    return instead.power(base, exponent)


def _pair(x: Expressions, node: ast.expr, left: Any, right: Any) -> tuple[Expr, Expr]:
    """Both sides as scalars; a plain number takes the other side's dtype."""
    span = x.frame.span(node)
    if not x.frame.raw:
        a, b = scalar_dtype(left), scalar_dtype(right)
        if is_number(left) and b is not None:
            left = retag(left, b, span)
        elif is_number(right) and a is not None:
            right = retag(right, a, span)
    return _operand(x, node, left), _operand(x, node, right)


def _operand(x: Expressions, node: ast.expr, value: Any) -> Expr:
    if isinstance(value, Expr) and scalar_dtype(value) is None:
        x.fail(
            ParserSyntaxError,
            f"Expression must be ScalarExpr or Var with ScalarType, got {type(value).__name__} with type "
            f"{type(value.type).__name__}",
            node,
            "take one element, with pl.read(x, indices), or use the operators of pypto.language on the whole",
        )
    return x.frame.scalar(value, node)


def _typed(x: Expressions, node: ast.expr, build: Build, a: Expr, b: Expr) -> Expr:
    try:
        return build(a, b, x.frame.span(node))
    except TypeError as e:
        x.fail(ParserSyntaxError, str(e), node, _one_type(node, a, b))


def _one_type(node: ast.expr, a: Expr, b: Expr) -> str:
    """How two numbers get one type: an integer that stands beside a float is written, or begun, as a float."""
    sides: dict[ast.expr, Expr] = {}
    if isinstance(node, ast.BinOp):
        sides = {node.left: a, node.right: b}
    elif isinstance(node, ast.Compare):
        sides = {node.left: a, node.comparators[0]: b}
    floats = any((scalar_dtype(e) or DataType.INDEX).is_float() for e in (a, b))
    for n, e in sides.items():
        if not floats or scalar_dtype(e) is not DataType.INDEX:
            continue
        if isinstance(e, ConstInt):
            where = "" if isinstance(n, ast.Constant) else f" for {ast.unparse(n)}"
            return f"write {float(e.value)}{where}: a whole number is an index, a number with a point a float"
        if isinstance(n, ast.Name):
            return f"begin with a float, {n.id} = 0.0, if '{n.id}' is meant to be one, or convert it: pl.cast({n.id}, pl.FP32)"
    return "convert one side with pl.cast(value, pl.FP32) or another dtype"


def _shaped(x: Expressions, node: ast.expr, name: str, left: Any, right: Any) -> Expr:
    """A tensor or tile on at least one side."""
    if is_shaped(left):
        if name in ("floordiv", "mod") and is_zero(right):
            x.fail(ParserTypeError, "division by zero", node, "a constant divisor must not be zero")
        return x.apply(node, name, left, right)
    if name in _COMMUTES:
        return x.apply(node, name, right, left)
    if name == "sub":  # s - t = (-t) + s, to the bit
        return x.apply(node, "add", x.apply(node, "neg", right), left)
    # s / t and the like: a tile full of s, then the operator on two tiles.
    return x.apply(node, name, x.apply(node, "expands", right, left), right)


def is_zero(value: Any) -> bool:
    if isinstance(value, (ConstInt, ConstFloat)):
        value = value.value
    return is_number(value) and value == 0


def compare(x: Expressions, node: ast.Compare, left: Any, right: Any) -> Any:
    build, kind, exchanged = _COMPARE[type(node.ops[0])]
    if is_shaped(left):
        return x.apply(node, "cmp", left, right, cmp_type=kind)
    if is_shaped(right):
        return x.apply(node, "cmp", right, left, cmp_type=exchanged)
    a, b = _pair(x, node, left, right)
    return _typed(x, node, build, a, b)


def unary(x: Expressions, node: ast.UnaryOp, value: Any) -> Any:
    if isinstance(node.op, ast.USub) and is_shaped(value):
        return x.apply(node, "neg", value)
    if is_shaped(value):
        what = f"Unsupported unary operator: {type(node.op).__name__} on {type_text(value.type)}"
        mask = isinstance(node.op, ast.Not) or (isinstance(node.operand, ast.Compare))
        hint = "compare with the opposite operator" if mask else "use -x - 1 for the complement of integers"
        x.fail(UnsupportedFeatureError, what, node, hint)
    e = _operand(x, node, value)
    build = {ast.USub: scalar.neg, ast.Not: scalar.not_, ast.Invert: scalar.bit_not}[type(node.op)]
    if isinstance(node.op, ast.USub) and is_const_expr(e) and not x.frame.raw and isinstance(e, (ConstInt, ConstFloat)):
        return e.replace(value=arith.wrap(-e.value, e.dtype) if isinstance(e, ConstInt) else -e.value)
    try:
        return build(e, x.frame.span(node))
    except TypeError as error:
        x.fail(ParserSyntaxError, str(error), node, "convert the value with pl.cast first")


def logic(x: Expressions, node: ast.BoolOp, values: list[Any]) -> Any:
    """Left fold; both sides are always evaluated."""
    if all(map(is_shaped, values)):
        what = f"`{type(node.op).__name__.lower()}` joins numbers, not tensors or tiles"
        x.fail(ParserSyntaxError, what, node, _joined(type(node.op), *zip(node.values, values, strict=True)))
    build = scalar.and_ if isinstance(node.op, ast.And) else scalar.or_
    out = _operand(x, node, values[0])
    for v in values[1:]:
        out = _typed(x, node, build, out, _operand(x, node, v))
    return out


def extremum(x: Expressions, node: ast.Call, name: str) -> Any:
    """`pl.min(a, b)` and `pl.max(a, b)` of scalars."""
    if len(node.args) != 2 or node.keywords:
        x.fail(
            ParserSyntaxError,
            f"pl.{name} takes exactly two scalars",
            node,
            f"nest the calls for more: pl.{name}(pl.{name}(x, y), z)",
        )
    left, right = (x.value(a) for a in node.args)
    if is_shaped(left) or is_shaped(right):
        x.fail(ParserTypeError, f"pl.{name} takes scalars, not tensors or tiles", node, f"use pl.{name}imum")
    if is_number(left) and is_number(right) and not x.frame.raw:
        if type(left) is not type(right):
            what = f"pl.{name}: {describe(left)} and {describe(right)} differ in type"
            x.fail(ParserTypeError, what, node, "write both as integers or both as floats")
        if left != left or right != right:
            return math.nan
        return min(left, right) if name == "min" else max(left, right)
    a, b = _pair(x, node, left, right)
    return _typed(x, node, scalar.min_ if name == "min" else scalar.max_, a, b)


def constant(x: Expressions, node: ast.Call) -> Expr:
    """`pl.const(number, dtype)`."""
    if len(node.args) != 2 or node.keywords:
        what = "pl.const takes exactly 2 arguments: a numeric literal and a dtype"
        x.fail(ParserSyntaxError, what, node, "pl.const(1, pl.INT32)")
    value, dtype = x.value(node.args[0]), x.value(node.args[1])
    if not is_number(value):
        what = f"pl.const needs a numeric literal first, got {describe(value)}"
        x.fail(ParserSyntaxError, what, node.args[0], "pl.const(1, pl.INT32); a run-time value is converted by pl.cast")
    if not isinstance(dtype, DataType):
        what = f"pl.const needs a dtype second, got {describe(dtype)}"
        x.fail(ParserTypeError, what, node.args[1], "pl.const(1, pl.INT32)")
    return typed_number(x, node, value, dtype)


def typed_number(x: Expressions, node: ast.expr, value: Any, dtype: DataType) -> Expr:
    """A plain number as a constant of a dtype, if it is a value of it."""
    span = x.frame.span(node)
    if dtype.is_float():
        # Printed programs say what their constants are; a user's is rounded here, so that a cast of it rounds again.
        return ConstFloat(float(value) if x.frame.raw else nearest(float(value), dtype), dtype, span)
    if dtype is DataType.BOOL:
        return number_expr(bool(value), span)
    whole = isinstance(value, int) or value.is_integer()
    made = retag(int(value), dtype, span) if whole else None
    if not isinstance(made, ConstInt) or made.dtype is not dtype:
        hint = f"write a number that {dtype} holds, or another dtype"
        x.fail(ParserSyntaxError, f"{value!r} is not a value of {dtype}", node, hint)
    return made
