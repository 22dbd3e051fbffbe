"""Which names a piece of Python reads, and which a function binds.

In: syntax trees.  Out: dotted chains in source order, and the set of local names, by Python's own scoping rules: a name
assigned anywhere in a function is local everywhere in it; a comprehension's targets are its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["local_names", "reads", "stored_names"]

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def reads(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Dotted chains (`pl.Mem.Vec` -> ("pl", "Mem", "Vec")) that are loaded, comprehension targets left out."""
    yield from _reads(node, frozenset())


def _reads(node: ast.AST, hidden: frozenset[str]) -> Iterator[tuple[str, ...]]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        chain = _chain(node)
        if chain is not None:
            if chain[0] not in hidden:
                yield chain
            return
    if isinstance(node, _COMPREHENSIONS):
        hidden |= {n for g in node.generators for n in stored_names(g.target)}
    for child in ast.iter_child_nodes(node):
        yield from _reads(child, hidden)


def _chain(node: ast.expr) -> tuple[str, ...] | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return None
    return (node.id, *reversed(parts))


def stored_names(node: ast.AST) -> Iterator[str]:
    """Names that a piece of code assigns (loop targets and `as` names too), in order, with repetitions."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
        return
    if isinstance(node, _COMPREHENSIONS):
        return
    for child in ast.iter_child_nodes(node):
        yield from stored_names(child)


def local_names(node: ast.FunctionDef) -> frozenset[str]:
    """Parameters and everything the body assigns."""
    a = node.args
    parameters = (p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))))
    return frozenset(parameters).union(n for s in node.body for n in stored_names(s))
