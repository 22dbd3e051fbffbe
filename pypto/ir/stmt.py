"""Statements: assignment, structured control flow, scopes.

Invariant: a body is one statement; `SeqStmts` is transparent and, in normalized IR, neither nested nor of length one.
Every variable is introduced by exactly one `definition` field once a function is in SSA form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pypto.enums import ForKind, Level, Role, ScopeKind, SplitMode
from pypto.ir.expr import Expr, IRNode, IterArg, Var, WindowBuffer, const_index
from pypto.ir.node import EMPTY, Attrs, definition, ignored, node, variant
from pypto.ir.types import VoidType
from pypto.span import Span

__all__ = [
    "AssignStmt",
    "BreakStmt",
    "ClusterScopeStmt",
    "CommDomainScopeStmt",
    "ContinueStmt",
    "EvalStmt",
    "ForStmt",
    "HierarchyScopeStmt",
    "IfStmt",
    "InCoreScopeStmt",
    "InlineStmt",
    "ReturnStmt",
    "RuntimeScopeStmt",
    "ScopeStmt",
    "SeqStmts",
    "SplitAivScopeStmt",
    "SpmdScopeStmt",
    "Stmt",
    "WhileStmt",
    "YieldStmt",
    "attach_leading_comments",
    "flatten_to_stmts",
    "last_yield",
    "seq",
    "value_of",
]

_put = object.__setattr__
_UNKNOWN = Span.unknown()


@node
class Stmt(IRNode):
    """Base of statements; comments above it in the source travel with it and never count."""

    span: Span = ignored()
    leading_comments: tuple[str, ...] = ignored()

    def __init__(self, span: Span = _UNKNOWN) -> None:
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class AssignStmt(Stmt):
    """`var = value`; the variable comes into being here."""

    value: Expr
    var: Var = definition()

    def __init__(self, var: Var, value: Expr, span: Span = _UNKNOWN) -> None:
        if isinstance(value.type, VoidType):
            raise ValueError(f"{var.name_hint}: a void call has no value to assign")
        _put(self, "var", var)
        _put(self, "value", value)
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class EvalStmt(Stmt):
    """An expression evaluated for its effect."""

    expr: Expr

    def __init__(self, expr: Expr, span: Span = _UNKNOWN) -> None:
        _put(self, "expr", expr)
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class IfStmt(Stmt):
    """With `return_vars`, both arms end in a yield of as many values."""

    condition: Expr
    then_body: Stmt
    else_body: Stmt | None
    return_vars: tuple[Var, ...] = definition()

    def __init__(
        self, condition: Expr, then_body: Stmt, else_body: Stmt | None, return_vars: Iterable[Var] = (), span: Span = _UNKNOWN
    ) -> None:
        _put(self, "condition", condition)
        _put(self, "then_body", then_body)
        _put(self, "else_body", else_body)
        _put(self, "return_vars", tuple(return_vars))
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class ForStmt(Stmt):
    """`for loop_var in [start, stop) by step`, carrying `iter_args`; their final values are `return_vars`."""

    start: Expr
    stop: Expr
    step: Expr
    iter_args: tuple[IterArg, ...] = definition()
    loop_var: Var = definition()
    body: Stmt
    return_vars: tuple[Var, ...] = definition()
    kind: ForKind
    attrs: Attrs

    def __init__(
        self,
        loop_var: Var,
        start: Expr,
        stop: Expr,
        step: Expr,
        iter_args: Iterable[IterArg],
        body: Stmt,
        return_vars: Iterable[Var],
        span: Span = _UNKNOWN,
        kind: ForKind = ForKind.Sequential,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        _put(self, "start", start)
        _put(self, "stop", stop)
        _put(self, "step", step)
        _put(self, "iter_args", tuple(iter_args))
        _put(self, "loop_var", loop_var)
        _put(self, "body", body)
        _put(self, "return_vars", tuple(return_vars))
        _put(self, "kind", kind)
        _put(self, "attrs", Attrs(attrs) if attrs else EMPTY)
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class WhileStmt(Stmt):
    """Runs while `condition`, which may read the iter_args, holds; the arguments are as for ForStmt."""

    iter_args: tuple[IterArg, ...] = definition()
    condition: Expr
    body: Stmt
    return_vars: tuple[Var, ...] = definition()

    def __init__(
        self, condition: Expr, iter_args: Iterable[IterArg], body: Stmt, return_vars: Iterable[Var], span: Span = _UNKNOWN
    ) -> None:
        _put(self, "iter_args", tuple(iter_args))
        _put(self, "condition", condition)
        _put(self, "body", body)
        _put(self, "return_vars", tuple(return_vars))
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class YieldStmt(Stmt):
    """Ends a loop body or a branch that hands on values; all values are read before any is assigned."""

    value: tuple[Expr, ...]

    def __init__(self, value: Iterable[Expr] = (), span: Span = _UNKNOWN) -> None:
        _put(self, "value", tuple(value))
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class ReturnStmt(Stmt):
    value: tuple[Expr, ...]

    def __init__(self, value: Iterable[Expr] = (), span: Span = _UNKNOWN) -> None:
        _put(self, "value", tuple(value))
        _put(self, "span", span)
        _put(self, "leading_comments", ())


@node
class SeqStmts(Stmt):
    stmts: tuple[Stmt, ...]

    def __init__(self, stmts: Iterable[Stmt], span: Span = _UNKNOWN) -> None:
        _put(self, "stmts", tuple(stmts))
        _put(self, "span", span)
        _put(self, "leading_comments", ())

    def __getitem__(self, index: int) -> Stmt:
        return self.stmts[index]

    def __len__(self) -> int:
        return len(self.stmts)

    def __iter__(self) -> Iterator[Stmt]:
        return iter(self.stmts)


@variant
class BreakStmt(Stmt):
    """Leaves the innermost sequential loop."""


@variant
class ContinueStmt(Stmt):
    """Goes on with the next iteration of the innermost sequential loop."""


@node
class InlineStmt(Stmt):
    """Opaque source text for a host worker."""

    body: str
    language: int

    def __init__(self, body: str, language: int = 0, span: Span = _UNKNOWN) -> None:
        _put(self, "body", body)
        _put(self, "language", language)
        _put(self, "span", span)
        _put(self, "leading_comments", ())


# -- scopes ----------------------------------------------------------------------------------------------------


@node
class ScopeStmt(Stmt):
    """Base of scopes: a body executed once, transparent to SSA."""

    name_hint: str
    body: Stmt
    attrs: Attrs

    @property
    def scope_kind(self) -> ScopeKind:
        return _SCOPE_KINDS[type(self).__name__]


def _fill(scope: ScopeStmt, name_hint: str, body: Stmt, span: Span, attrs: dict[str, Any] | None, **own: Any) -> None:
    values = {"name_hint": name_hint, "body": body, "attrs": Attrs(attrs) if attrs else EMPTY, "span": span}
    for name, value in {**values, "leading_comments": (), **own}.items():
        _put(scope, name, value)


@node
class InCoreScopeStmt(ScopeStmt):
    """`pl.at(level=CORE_GROUP)`: becomes a kernel."""

    split: SplitMode

    def __init__(
        self,
        split: SplitMode = SplitMode.NONE,
        name_hint: str = "",
        *,
        body: Stmt,
        span: Span = _UNKNOWN,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        _fill(self, name_hint, body, span, attrs, split=split)


@node
class ClusterScopeStmt(ScopeStmt):
    """`pl.cluster()`: groups cube and vector work into one task."""

    def __init__(self, name_hint: str = "", *, body: Stmt, span: Span = _UNKNOWN, attrs: dict[str, Any] | None = None) -> None:
        _fill(self, name_hint, body, span, attrs)


@node
class HierarchyScopeStmt(ScopeStmt):
    """`pl.at` at any other level."""

    level: Level
    role: Role | None

    def __init__(
        self,
        level: Level,
        role: Role | None = None,
        name_hint: str = "",
        *,
        body: Stmt,
        span: Span = _UNKNOWN,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        _fill(self, name_hint, body, span, attrs, level=level, role=role)


@node
class SpmdScopeStmt(ScopeStmt):
    """`pl.spmd(core_num)`: the body runs once per block."""

    core_num: Expr
    sync_start: bool

    def __init__(
        self,
        core_num: int | Expr,
        sync_start: bool = False,
        name_hint: str = "",
        *,
        body: Stmt,
        span: Span = _UNKNOWN,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        blocks = const_index(core_num) if isinstance(core_num, int) else core_num
        _fill(self, name_hint, body, span, attrs, core_num=blocks, sync_start=sync_start)


@node
class SplitAivScopeStmt(ScopeStmt):
    """`pl.split_aiv`: the body runs once per vector lane."""

    split: SplitMode
    count: int

    def __init__(
        self,
        split: SplitMode,
        count: int = 2,
        name_hint: str = "",
        *,
        body: Stmt,
        span: Span = _UNKNOWN,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        _fill(self, name_hint, body, span, attrs, split=split, count=count)


@node
class RuntimeScopeStmt(ScopeStmt):
    """`pl.scope()` and `pl.manual_scope()`: where task order comes from."""

    manual: bool

    def __init__(
        self,
        manual: bool = False,
        name_hint: str = "",
        *,
        body: Stmt,
        span: Span = _UNKNOWN,
        attrs: dict[str, Any] | None = None,
    ) -> None:
        _fill(self, name_hint, body, span, attrs, manual=manual)


@node
class CommDomainScopeStmt(ScopeStmt):
    """Host windows shared by a set of devices."""

    devices: tuple[int, ...]
    slots: tuple[WindowBuffer, ...]


_SCOPE_KINDS = {
    "InCoreScopeStmt": ScopeKind.InCore,
    "ClusterScopeStmt": ScopeKind.Cluster,
    "HierarchyScopeStmt": ScopeKind.Hierarchy,
    "SpmdScopeStmt": ScopeKind.Spmd,
    "SplitAivScopeStmt": ScopeKind.SplitAiv,
    "RuntimeScopeStmt": ScopeKind.Runtime,
    "CommDomainScopeStmt": ScopeKind.CommDomain,
}


# -- helpers ---------------------------------------------------------------------------------------------------


def value_of(s: Stmt) -> Expr | None:
    """What a statement assigns or evaluates; None of any other statement."""
    return s.value if isinstance(s, AssignStmt) else s.expr if isinstance(s, EvalStmt) else None


def flatten_to_stmts(stmt: Stmt | None) -> list[Stmt]:
    """The statements of a body, nested sequences opened."""
    if stmt is None:
        return []
    if not isinstance(stmt, SeqStmts):
        return [stmt]
    return [s for inner in stmt.stmts for s in flatten_to_stmts(inner)]


def seq(stmts: Iterable[Stmt], span: Span = _UNKNOWN) -> Stmt:
    """A normalized body: nested sequences opened, a single statement bare."""
    flat = [s for stmt in stmts for s in flatten_to_stmts(stmt)]
    return flat[0] if len(flat) == 1 else SeqStmts(flat, span if span.is_valid() or not flat else flat[0].span)


def last_yield(body: Stmt | None) -> YieldStmt | None:
    """The yield that ends a body, or None."""
    while isinstance(body, SeqStmts):
        if not body.stmts:
            return None
        body = body.stmts[-1]
    return body if isinstance(body, YieldStmt) else None


def attach_leading_comments(stmt: Stmt, comments: Iterable[str]) -> Stmt:
    """Set the comments of a statement, in place: they are the one thing about a node that is not part of its value."""
    if isinstance(stmt, SeqStmts):
        raise ValueError("comments belong to a statement, not to a sequence")
    _put(stmt, "leading_comments", tuple(comments))
    return stmt
