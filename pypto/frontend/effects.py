"""Statements that are only an expression.

In: the expression and the value it has.  Out: a write to a plain name, which then stands for what was written, or the
call as it is.  Invariant: what a kernel would compute for nobody is refused; nothing is dropped.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NoReturn

from pypto.enums import ArgEffect
from pypto.errors import UnsupportedFeatureError
from pypto.ir import ops
from pypto.ir.expr import Call, Expr
from pypto.ir.shaped import ShapedType, same_dims
from pypto.ir.types import Type
from pypto.language.annotations import const
from pypto.language.operations import Construct, Operation

if TYPE_CHECKING:
    from pypto.frontend.statements import Statements

__all__ = ["bare_value", "refuse_idle"]


def refuse_idle(s: Statements, node: ast.expr, name: str = "x") -> NoReturn:
    """The error for a statement that only computes; `name`: what would naturally be given its value."""
    text = ast.unparse(node)
    hint = f"write `{name} = {text}` if the value is needed, or leave the statement out"
    s.frame.fail(UnsupportedFeatureError, f"this statement has no effect: {text}", node, hint)


def bare_value(s: Statements, node: ast.expr, made: Expr) -> None:
    """The statement `node`, whose value is `made`."""
    frame = s.frame
    written = _written_operand(made)
    if written is None or frame.raw or not isinstance(node, ast.Call):
        if not frame.raw:
            _refuse_idle(s, node, made)
        if frame.raw or isinstance(made, Call):  # what a helper returns may be a mere name: its effects are there already
            frame.evaluate(made, node)
        return
    for a in (*node.args, *(k.value for k in node.keywords)):
        b = frame.scope.get(a.id) if isinstance(a, ast.Name) else None
        if isinstance(a, ast.Name) and b is not None and b.var is written:
            frame.assign(a.id, made, node, a)
            return
    what = "what is written must be a tensor or tile bound to a plain name"
    frame.fail(UnsupportedFeatureError, what, node, "write to the tensor itself, with offsets")


def _written_operand(made: Expr) -> Expr | None:
    """What a call writes and returns; None for a call that writes nothing."""
    known = ops.of(made) if isinstance(made, Call) else None
    if known is None or not isinstance(made, Call) or known.reuses is None:
        return None
    return None if known.effect(known.reuses, made.kwargs) is ArgEffect.Read else made.args[known.reuses]


def _refuse_idle(s: Statements, node: ast.expr, made: Expr) -> None:
    """A value for nobody.  `@pl.function` keeps bare calls, with a warning: its programs are written and compared by tools."""
    known = ops.of(made) if isinstance(made, Call) else None
    if known is not None and known.ordered:
        return
    if isinstance(node, ast.Call):
        called = s.peek(node.func)
        if called is not const and not isinstance(called, (Operation, Construct)):
            return  # a helper has effects of its own
        if not s.frame.jit and not _writes_as_tile(made):
            return
    target = node.args[0] if isinstance(node, ast.Call) and node.args else None
    first = made.args[0] if isinstance(made, Call) and made.args else None
    same = isinstance(target, ast.Name) and first is not None and _alike(first.type, made.type)
    refuse_idle(s, node, target.id if same and isinstance(target, ast.Name) else "x")


def _writes_as_tile(made: Expr) -> bool:
    """Whether a tensor operator that returns a new value works in place on the chip, where its statement would be a write."""
    known = ops.of(made) if isinstance(made, Call) else None
    tile = ops.find(f"tile.{known.concept}") if known is not None and known.level == "tensor" else None
    return tile is not None and tile.reuses is not None and tile.effect(tile.reuses) is not ArgEffect.Read


def _alike(t: Type, u: Type) -> bool:
    """Whether a value of type `u` can take the name of one of type `t`."""
    if not isinstance(t, ShapedType) or not isinstance(u, ShapedType):
        return False
    return type(t) is type(u) and t.dtype is u.dtype and same_dims(t.shape, u.shape)
