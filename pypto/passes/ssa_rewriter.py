"""Rewriting of functions in SSA form, with a place to put new statements.

In: a function whose definitions are unique.  Out: the same function with some values replaced; types follow values
(`Retyper`), and what a visitor emits stands before the statement being visited.
Invariant: what does not change is returned as the very same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.node import EMPTY, Attrs
from pypto.ir.opdef import OpRejected
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, same_dims
from pypto.ir.stmt import AssignStmt, ScopeStmt, SeqStmts, Stmt, attach_leading_comments, flatten_to_stmts, seq
from pypto.ir.types import Type
from pypto.passes.retype import Retyper, placed_like, rededuce, refused
from pypto.span import Span

__all__ = ["SSARewriter", "keep_comments", "typed_call"]


def typed_call(
    name: str,
    args: Iterable[Expr],
    kwargs: Mapping[str, Any] | None,
    span: Span,
    result: Type | None = None,
    attrs: Attrs = EMPTY,
) -> Call:
    """A typed call of a registered operator; what the operator refuses is a CompileError at `span`."""
    op = ops.get(name)
    try:
        call = op.call(args, kwargs, span, result)
    except OpRejected as e:
        raise refused(op, e, span) from None
    return call.replace(attrs=attrs) if attrs else call


def keep_comments(new: Stmt, old: Stmt) -> Stmt:
    """The new statement with the comments of the one it stands for."""
    if new is not old and old.leading_comments and not new.leading_comments and not isinstance(new, SeqStmts):
        attach_leading_comments(new, old.leading_comments)
    return new


class SSARewriter(Retyper):
    """Subclasses override `visit_call`, `visit_assign_stmt` and the like, and emit statements before the current one."""

    def __init__(self, vars: Mapping[Var, Expr] | None = None) -> None:
        super().__init__(vars)
        self.out: list[Stmt] = []  # the region being rebuilt, up to the statement being visited
        self.span = Span.unknown()

    # -- regions --

    def function(self, f: Function) -> Function:
        return f.replace(body=self.body(f.body))

    def body(self, s: Stmt) -> Stmt:
        """A region, rebuilt statement by statement."""
        old = flatten_to_stmts(s)
        outer, self.out = self.out, []
        for stmt in old:
            self.statement(stmt)
        new, self.out = self.out, outer
        same = len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
        return s if same else seq(new, s.span)

    def statement(self, s: Stmt) -> None:
        """Visit one statement; its replacements follow what it emitted."""
        outer, self.span = self.span, s.span if s.span.is_valid() else self.span
        made = self.visit(s)
        if made is not None:
            items = flatten_to_stmts(made) if isinstance(made, Stmt) else [x for m in made for x in flatten_to_stmts(m)]
            if items:
                keep_comments(items[-1], s)
            self.out.extend(items)
        self.span = outer

    def visit_seq_stmts(self, s: SeqStmts) -> Stmt:
        return self.body(s)

    def visit_scope_stmt(self, s: ScopeStmt) -> Any:
        """A scope keeps what is emitted for its statements, if it has a single one too."""
        shell = s.replace(body=SeqStmts(()))
        made = self.rebuild(shell)
        body = self.body(s.body)
        return s if made is shell and body is s.body else made.replace(body=body)

    # -- values --

    def emit(self, name: str, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None, hint: str = "t") -> Var:
        """Apply an operator before the current statement and bind its result to a fresh variable."""
        return self.let(hint, typed_call(name, args, kwargs, self.span))

    def valid_as(self, tile: Var, valid: tuple[Expr, ...], hint: str = "") -> Var:
        """The tile, valid as told, where the operator that makes it could not know."""
        assert isinstance(tile.type, TileType)
        if same_dims(tile.type.valid, valid):
            return tile
        return self.emit("tile.set_validshape", (tile, *valid), None, hint or tile.name_hint)

    def let(self, hint: str, value: Expr, type: Type | None = None) -> Var:
        var = Var(hint, value.type if type is None else type, self.span)
        self.out.append(AssignStmt(var, value, self.span))
        return var

    def assign(self, s: AssignStmt, value: Expr) -> Stmt:
        """`s` with another value; its variable takes the value's type and keeps its place."""
        if value is s.value:
            return s
        return s.replace(value=value, var=self.define_as(s.var, placed_like(s.var.type, value.type)))

    def recall(self, c: Call, args: Iterable[Expr], kwargs: Mapping[str, Any] | None = None) -> Call:
        """The call with other operands (or keywords), typed anew."""
        return rededuce(c.replace(args=tuple(args), kwargs=c.kwargs if kwargs is None else Attrs(kwargs)))
