"""Statements that act while the kernel is read, and task submission.

In: `pl.static_print`, `pl.static_assert`, `pl.dump_tag`, `pl.submit`, `pl.spmd_submit`.  Out: text, errors, `Submit` nodes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from pypto.dtypes import DataType
from pypto.errors import ParserError, ParserSyntaxError, ParserTypeError, UnsupportedFeatureError
from pypto.frontend.builder import call_type
from pypto.frontend.calls import ask_for_static
from pypto.frontend.constants import describe, is_number
from pypto.frontend.invoke import Callee, parameters_text, signature_of, unknown_function
from pypto.frontend.reads import reads
from pypto.frontend.scopes import Keywords
from pypto.frontend.source import Source
from pypto.frontend.tasks import task_ids
from pypto.frontend.values import constant_of, is_const_expr, type_text
from pypto.ir.expr import Expr, GlobalVar, Submit, TupleGetItemExpr, Var
from pypto.ir.node import EMPTY
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt
from pypto.ir.types import ScalarType, TupleType
from pypto.language.operations import Construct

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions
    from pypto.frontend.statements import Statements

__all__ = ["dump_tag", "static_assert", "static_print", "submit"]


def _text(x: Expressions, node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_piece(x, v) for v in node.values)
    value = x.value(node)
    if isinstance(value, Expr):
        return str(constant_of(value)) if is_const_expr(value) else type_text(value.type)
    return value if isinstance(value, str) else describe(value)


def _piece(x: Expressions, node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if not isinstance(node, ast.FormattedValue) or node.conversion != -1 or node.format_spec is not None:
        x.fail(ParserSyntaxError, "an f-string here takes plain {name} fields", node, "leave conversion and format out")
    return _text(x, node.value)


def static_print(x: Expressions, node: ast.Call) -> None:
    """Print while the kernel is read."""
    if not node.args or node.keywords:
        what = "pl.static_print takes at least one value and no keywords"
        x.fail(ParserSyntaxError, what, node, "pl.static_print('label', value)")
    print(*(_text(x, a) for a in node.args))


def static_assert(x: Expressions, node: ast.Call) -> None:
    """Raise ParserError with the user's message if a compile-time condition is false."""
    if not 1 <= len(node.args) <= 2 or node.keywords:
        what = "pl.static_assert takes a condition and a message"
        x.fail(ParserSyntaxError, what, node, "pl.static_assert(WIDTH % 16 == 0, 'what must hold')")
    message = "static assertion failed: " + ast.unparse(node.args[0])
    if len(node.args) == 2:
        text = node.args[1]
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            what = "the message of pl.static_assert must be a string literal"
            x.fail(ParserSyntaxError, what, text, "write the text itself, without formatting")
        message = text.value
    value = x.value(node.args[0])
    if isinstance(value, Expr):
        ask_for_static(x, value)
    value = constant_of(value)
    if not is_number(value):
        hint = "check run-time values outside the kernel, before it is called"
        x.fail(ParserError, "pl.static_assert: condition must be compile-time evaluable", node.args[0], hint)
    if not value:
        x.fail(ParserError, message, node.args[0], f"`{ast.unparse(node.args[0])}` must hold{_here(x, node.args[0])}")


def _here(x: Expressions, condition: ast.expr) -> str:
    """What the names of a compile-time condition stand for."""
    known = []
    for name in dict.fromkeys(chain[0] for chain in reads(condition)):
        b = x.frame.scope.get(name)
        value = x.source.lookup(name) if b is None else b.value if b.constant is Source.ABSENT else b.constant
        if is_number(constant_of(value)):
            known.append(f"{name} is {constant_of(value)!r}")
    return f", and here {', '.join(known)}" if known else ""


def dump_tag(x: Expressions, node: ast.Call) -> None:
    """`pl.dump_tag(tensor)` marks a tensor for dumping; without effect on a host."""
    value = x.value(node.args[0]) if len(node.args) == 1 and not node.keywords else None
    if not isinstance(value, Expr) or not isinstance(value.type, TensorType) or not isinstance(node.args[0], ast.Name):
        x.fail(ParserSyntaxError, "pl.dump_tag takes one tensor by its plain name", node, "pl.dump_tag(a)")
    if x.frame.context.in_core and not x.frame.raw:
        hint = "it marks what kernels are given: put it in front of the kernel's scope"
        x.fail(ParserSyntaxError, "pl.dump_tag inside a kernel", node, hint)


_SUBMIT = ("deps", "dumps", "allow_early_resolve", "predicate")


def submit(s: Statements, node: ast.Assign, target: ast.expr, construct: Construct, call: ast.Call) -> None:
    """`out, tid = pl.submit(self.k, args..., deps=[...])`."""
    frame, what = s.frame, construct.spelling
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        hint = f"out, tid = {what}(self.kernel, ...)"
        frame.fail(ParserSyntaxError, f"{what} returns a 2-tuple: `out, tid = {what}(...)`", target, hint)
    if not call.args:
        frame.fail(ParserSyntaxError, f"{what} needs a kernel reference first", call, f"{what}(self.kernel, ...)")
    kernel = s.x.value(call.args[0])
    if not isinstance(kernel, Callee):
        frame.fail(
            ParserSyntaxError, f"{what} needs a kernel reference first, not a call", call.args[0], f"{what}(self.kernel, ...)"
        )
    signature = signature_of(s.x, call, kernel.name)
    if signature is None:
        unknown_function(s.x, call.args[0], kernel.name)
    rest = ast.Call(call.func, [], call.keywords)
    spmd = construct.name == "spmd_submit"
    k = Keywords(s, ast.copy_location(rest, call), what, (), (*_SUBMIT, *(("core_num", "sync_start") if spmd else ())))
    if "predicate" in k.nodes:
        frame.fail(
            UnsupportedFeatureError, f"predicate= of {what} is not supported", k.nodes["predicate"], "use an `if` around it"
        )
    args = tuple(frame.plain(frame.expr(s.x.value(a), a), a) for a in call.args[1:])
    if len(args) != len(signature.params):
        message = f"Function '{kernel.name}' expects {len(signature.params)} argument(s), got {len(args)}"
        frame.fail(ParserTypeError, message, call, parameters_text(kernel.name, (p.name_hint for p in signature.params)))
    results = call_type(signature, args)
    task = ScalarType.of(DataType.TASK_ID)
    blocks: Any = s.x.value(k.nodes["core_num"]) if "core_num" in k.nodes else None
    made = Submit(
        GlobalVar(kernel.name),
        args,
        _deps(s, k),
        EMPTY,
        EMPTY,
        TupleType((*results, task)),
        frame.span(call),
        None if blocks is None else frame.scalar(blocks, call),
        k.get("sync_start", bool, False, "True or False"),
        k.get("allow_early_resolve", bool, False, "True or False"),
        None,
    )
    held = Var("submitted", made.type, frame.span(call))
    frame.context.emit(AssignStmt(held, made, frame.span(node)))
    values = [TupleGetItemExpr(held, i, frame.span(call)) for i in range(len(results) + 1)]
    out, tid = target.elts
    outs = list(out.elts) if isinstance(out, ast.Tuple) else [out]
    if len(outs) != len(results):
        message = f"'{kernel.name}' returns {len(results)} values, {len(outs)} names receive them"
        frame.fail(ParserSyntaxError, message, out, f"(r0, r1, ...), tid = {what}(...), with {len(results)} names on the left")
    for t, v in zip([*outs, tid], values, strict=True):
        if not isinstance(t, ast.Name):
            frame.fail(ParserSyntaxError, f"{what} assigns plain names", t, f"out, tid = {what}(self.kernel, ...)")
        frame.assign(t.id, v, call, t)


def _deps(s: Statements, k: Keywords) -> tuple[Expr, ...]:
    node = k.nodes.get("deps")
    if node is None:
        return ()
    return task_ids(s.x, node)
