"""Conditionals, and the values that blocks hand on with `pl.yield_`.

In: `if` statements.  Out: `IfStmt`; with yields, both arms end in one and the names after it are its results.
Without yields, arms assign variables: a name that both assign is one variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pypto._lazy import later
from pypto.dtypes import DataType
from pypto.errors import ParserSyntaxError, ParserTypeError
from pypto.frontend.constants import describe, is_number
from pypto.frontend.frame import Frame
from pypto.frontend.invoke import is_helper
from pypto.frontend.reads import stored_names
from pypto.frontend.values import number_expr, retag, scalar_dtype, type_text
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.shaped import ShapedType
from pypto.ir.stmt import IfStmt, Stmt, YieldStmt
from pypto.ir.types import ScalarType, Type
from pypto.named import NamedTuple

if TYPE_CHECKING:
    from pypto.frontend import instead
    from pypto.frontend.statements import Statements
else:
    instead = later("pypto.frontend", "instead")

__all__ = ["Yield", "assigned", "condition", "conditional", "misplaced_yield", "split_yield"]


class Yield(NamedTuple):
    """A trailing `names = pl.yield_(values)`; `types` are those a printed program states."""

    names: list[ast.Name]
    values: list[Any]
    nodes: list[ast.expr]
    types: dict[str, Type]
    node: ast.stmt

    def exprs(self, frame: Frame, like: Sequence[Any]) -> list[Expr]:
        """The values as expressions; plain numbers take the dtype of what they meet."""
        out = []
        for v, n, other in zip(self.values, self.nodes, like, strict=True):
            dtype = other.dtype if isinstance(other, ScalarType) else scalar_dtype(other)
            out.append(
                retag(v, dtype, frame.span(n)) if is_number(v) and dtype is not None and not frame.raw else frame.expr(v, n)
            )
        return out


def assigned(s: Statements, body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements may assign: targets, windows that are written, names handed to bare calls and to helpers."""
    for stmt in body:
        yield from stored_names(stmt)
        for n in ast.walk(stmt):
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name):
                yield n.value.id
            call = n.value if isinstance(n, ast.Expr) else n
            # An inlined helper may write a tensor that is passed to it by name.
            if isinstance(call, ast.Call) and (call is not n or is_helper(s.peek(call.func))):
                operands = (*call.args, *(k.value for k in call.keywords))
                yield from (a.id for a in operands if isinstance(a, ast.Name))


def condition(s: Statements, node: ast.expr, word: str) -> Expr:
    """A Bool-typed scalar."""
    value = s.x.value(node)
    if type(value) is bool:
        return number_expr(value, s.frame.span(node))
    if not isinstance(value, Expr):
        value = s.frame.surrounding(value, node)
    if scalar_dtype(value) is not DataType.BOOL:
        got = type_text(value.type) if isinstance(value, Expr) else describe(value)
        hint = "compare the value, e.g. `x != 0`"
        if isinstance(value, Expr) and isinstance(value.type, ShapedType):
            got, hint = _by_element(value, node)
        s.frame.fail(ParserTypeError, f"{word} condition must be a Bool-typed scalar expression, got {got}", node, hint)
    return s.frame.scalar(value, node)


def _by_element(value: Expr, node: ast.expr) -> tuple[str, str]:
    """A test with many answers: what it is, and what to write."""
    known = ops.of(value) if isinstance(value, Call) else None
    if known is None or known.concept not in ("cmp", "cmps") or not isinstance(value, Call) or not isinstance(node, ast.Compare):
        return type_text(value.type), "compare one element: `pl.read(x, indices) != 0`"
    of, sides = value.args[0], (node.left, node.comparators[0])
    left = next((n for n in sides if not isinstance(n, ast.Constant)), node.left)
    operand = instead.Operand(ast.unparse(left), of.type)
    return f"an answer for each element of {type_text(of.type)}", instead.choice(operand, ast.unparse(node))


def conditional(s: Statements, node: ast.If) -> None:
    frame, context = s.frame, s.frame.context
    span = frame.span(node)
    test = condition(s, node.test, "if")
    frame.prepare(assigned(s, [*node.body, *node.orelse]), node)
    arms = frame.scope.branches()
    bodies: list[list[Stmt]] = []
    yields: list[Yield | None] = []
    for part in (node.body, node.orelse):
        with arms.arm(), context.body() as statements:
            rest, yielded = split_yield(s, part)
            s.block(rest)
            yields.append(read_yield(s, yielded) if yielded is not None else None)
        bodies.append(statements)
    arms.join()
    results = _results(s, node, yields, bodies)
    else_body = frame.sequence(bodies[1], node) if node.orelse else None
    context.emit(IfStmt(test, frame.sequence(bodies[0], node), else_body, [v for v, _ in results], span))
    for v, target in results:
        frame.define(v.name_hint, v, target)


def _results(s: Statements, node: ast.If, yields: list[Yield | None], bodies: list[list[Stmt]]) -> list[tuple[Var, ast.Name]]:
    """Close both arms with their yields; the variables that receive them."""
    frame = s.frame
    first, second = yields
    if first is None and second is None:
        return []
    if first is None or second is None:
        present = first or second
        assert present is not None
        frame.fail(
            ParserSyntaxError,
            "both arms of an `if` must end in pl.yield_, or neither",
            present.node,
            "add an else arm that yields"
            if not node.orelse
            else "an `elif` is an `if` inside the else arm: yield its result there too",
        )
    if len(first.values) != len(second.values):
        what = f"the arms yield {len(first.values)} and {len(second.values)} values"
        names = ", ".join(n.id for n in first.names)
        frame.fail(ParserSyntaxError, what, second.node, f"yield the same names in both arms: {names} = pl.yield_(...)")
    for a, b in zip(first.names, second.names, strict=True):
        if a.id != b.id:
            frame.fail(ParserSyntaxError, f"the arms yield to different names: '{a.id}' and '{b.id}'", b, f"use '{a.id}' in both")
    left, right = first.exprs(frame, second.values), second.exprs(frame, first.values)
    results = []
    for a, x, y in zip(first.names, left, right, strict=False):
        declared = first.types.get(a.id)
        if x.type != y.type and declared is None and not frame.raw:
            frame.fail(
                ParserTypeError,
                f"the arms yield different types for '{a.id}': {type_text(x.type)} and {type_text(y.type)}",
                second.node,
                "make both arms yield the same shape, dtype and valid extents",
            )
        results.append((Var(a.id, declared or x.type, frame.span(a)), a))
        for e in (x, y):
            frame.context.originate(results[-1][0], e)
    for arm, values, body in ((first, left, bodies[0]), (second, right, bodies[1])):
        body.append(YieldStmt(values, frame.span(arm.node)))
    return results


# -- yields --------------------------------------------------------------------------------------------------------


def split_yield(s: Statements, body: Sequence[ast.stmt]) -> tuple[Sequence[ast.stmt], ast.stmt | None]:
    """A block without its trailing yield, and the yield."""
    if body and is_yield(s, body[-1]):
        return body[:-1], body[-1]
    return body, None


def is_yield(s: Statements, node: ast.stmt) -> bool:
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)) else None
    construct = s.construct_call(value)
    return construct is not None and construct[0].name == "yield_"


def read_yield(s: Statements, node: ast.stmt) -> Yield:
    frame = s.frame
    frame.ordinal = frame.source.ordinal(node)
    assert isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr))
    call = node.value
    assert isinstance(call, ast.Call)
    if call.keywords:
        hint = "hand the values on by position: x, y = pl.yield_(a, b)"
        frame.fail(ParserSyntaxError, "pl.yield_ takes no keyword arguments", call, hint)
    if isinstance(node, ast.Expr):
        if not frame.raw:
            frame.fail(ParserSyntaxError, "a bare pl.yield_ hands its values to no one", call, "use x = pl.yield_(...)")
        return Yield([], [s.x.value(a) for a in call.args], list(call.args), {}, node)
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    parts = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    names = []
    for t in parts:
        if not isinstance(t, ast.Name):
            what = f"pl.yield_ assigns plain names, not {ast.unparse(t)}"
            frame.fail(ParserSyntaxError, what, t, "yield to a plain name, and use that name after the block")
        names.append(t)
    values = [s.x.value(a) for a in call.args]
    if len(values) == 1 and isinstance(values[0], tuple):
        values, nodes = list(values[0]), [call.args[0]] * len(values[0])
    else:
        nodes = list(call.args)
    values = [frame.plain(v, n) if isinstance(v, Expr) else v for v, n in zip(values, nodes, strict=True)]
    if len(names) != len(values):
        frame.fail(
            ParserSyntaxError,
            f"pl.yield_ hands on {len(values)} values but {len(names)} names receive them",
            node,
            "unpack them: `a, b = pl.yield_(x, y)`",
        )
    types = {names[0].id: s.annotation(node.annotation)} if isinstance(node, ast.AnnAssign) else {}
    return Yield(names, values, nodes, {**s.declared(), **types}, node)


def misplaced_yield(frame: Frame, node: ast.AST) -> NoReturn:
    frame.fail(
        ParserSyntaxError,
        "pl.yield_ must be the last statement of a loop body with init_values or of an `if` arm",
        node,
        "use x = pl.yield_(...) as the last statement of the block",
    )
