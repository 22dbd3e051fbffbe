"""How deeply expressions may be nested.

In: a statement's syntax.  Out: the first of its own expressions that is nested too deeply, if there is one.
Invariant: what passes can be walked by recursive functions from any ordinary depth of the caller's stack, and written as C
within the nesting of brackets that every compiler takes.  Nothing here recurses.
"""

from __future__ import annotations

import ast

__all__ = ["DEEPEST", "REMEDY", "too_deep"]

DEEPEST = 100
REMEDY = "give parts of it names in statements of their own"


def too_deep(statement: ast.stmt) -> ast.expr | None:
    """The expression of the statement, not of statements inside it, that has more than `DEEPEST` levels."""
    for whole in _expressions(statement):
        work = [(whole, 1)]
        while work:
            node, level = work.pop()
            if isinstance(node, ast.BoolOp):
                level += len(node.values) - 2  # a chain: each operator joins one more
            if level > DEEPEST:
                return whole
            work += [(e, level + 1) for e in _expressions(node)]
    return None


def _expressions(node: ast.AST) -> list[ast.expr]:
    """The nearest expressions below a node that belong to the same statement."""
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found.append(child)
        elif not isinstance(child, ast.stmt):
            found += _expressions(child)
    return found
