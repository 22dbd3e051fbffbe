"""Visitors and mutators with a method for every kind of node, to subclass from outside the compiler.

In: a tree, and overridden `visit_<kind>` methods.  Out: calls of them, parents first; `super().visit_<kind>(node)` goes on below.
A kind without an override goes to its category: `visit_binary_expr`, `visit_unary_expr`, and for visitors `visit_var_like`.
`visit_program`, `visit_function`, `visit_stmt` and `visit_expr` are where a traversal starts, and pass every node on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.ir import expr, scalar, stmt
from pypto.ir.expr import BinaryExpr, Expr, UnaryExpr, Var
from pypto.ir.node import Node
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator, Visitor
from pypto.ir.stmt import ScopeStmt, Stmt
from pypto.ir.types import Type

__all__ = ["IRMutator", "IRVisitor"]

_ABSTRACT = (BinaryExpr, Expr, ScopeStmt, Stmt, UnaryExpr)
_KINDS: dict[str, type[Node]] = {
    c.__hook__: c
    for module in (expr, scalar, stmt)
    for c in vars(module).values()
    if isinstance(c, type) and issubclass(c, (Expr, Stmt)) and c not in _ABSTRACT
}


def _entry(n: Node) -> str | None:
    """The method through which every node of this family passes."""
    for family, name in ((Expr, "visit_expr"), (Stmt, "visit_stmt"), (Function, "visit_function"), (Program, "visit_program")):
        if isinstance(n, family):
            return name
    return None


class IRVisitor(Visitor):
    """Reads a tree."""

    def visit(self, n: Node) -> None:
        entry = _entry(n)
        if entry is None:
            self.walk(n)
        else:
            getattr(self, entry)(n)

    def visit_expr(self, e: Expr) -> None:
        getattr(self, f"visit_{e.__hook__}")(e)

    def visit_stmt(self, s: Stmt) -> None:
        getattr(self, f"visit_{s.__hook__}")(s)

    def visit_function(self, f: Function) -> None:
        self.walk(f)

    def visit_program(self, p: Program) -> None:
        self.walk(p)

    def visit_binary_expr(self, e: BinaryExpr) -> None:
        self.walk(e)

    def visit_unary_expr(self, e: UnaryExpr) -> None:
        self.walk(e)

    def visit_var_like(self, v: Var) -> None:
        self.walk(v)


class IRMutator(Mutator):
    """Rebuilds a tree; what does not change is the same object."""

    def visit(self, n: Node) -> Any:
        if isinstance(n, Type):
            return self.visit_type(n)
        entry = _entry(n)
        return self.rebuild(n) if entry is None else getattr(self, entry)(n)

    def visit_expr(self, e: Expr) -> Any:
        return getattr(self, f"visit_{e.__hook__}")(e)

    def visit_stmt(self, s: Stmt) -> Any:
        return getattr(self, f"visit_{s.__hook__}")(s)

    def visit_function(self, f: Function) -> Any:
        return self.rebuild(f)

    def visit_program(self, p: Program) -> Any:
        return self.rebuild(p)

    def visit_binary_expr(self, e: BinaryExpr) -> Any:
        return self.rebuild(e)

    def visit_unary_expr(self, e: UnaryExpr) -> Any:
        return self.rebuild(e)


def _category(kind: type[Node]) -> str | None:
    for family, name in ((BinaryExpr, "visit_binary_expr"), (UnaryExpr, "visit_unary_expr"), (Var, "visit_var_like")):
        if issubclass(kind, family):
            return name
    return None


def _forward(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, n: getattr(self, name)(n)


for _hook, _kind in _KINDS.items():
    for _class, _default in ((IRVisitor, "walk"), (IRMutator, "rebuild")):
        _name, _next = f"visit_{_hook}", _category(_kind)
        if not hasattr(_class, _name):
            setattr(_class, _name, _forward(_next if _next is not None and hasattr(_class, _next) else _default))
for _name in ("visit_iter_arg", "visit_window_buffer"):
    setattr(IRMutator, _name, _forward("visit_var"))  # uses of variables, replaced like any other
