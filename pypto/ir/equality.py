"""Structural equality and hashing, as users call them.

In: two nodes or types.  Out: a bool, an error that shows where they part, or a hash.
Definitions map one to one; free variables must be the same object unless `enable_auto_mapping` lets them map consistently.
Names, comments and places never count.
"""

from __future__ import annotations

from typing import Any

from pypto.ir import structural
from pypto.ir.node import Node
from pypto.ir.printer import python_print

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]

_LONGEST = 400


def structural_equal(lhs: Node, rhs: Node, enable_auto_mapping: bool = False) -> bool:
    """Whether two nodes or types mean the same; TypeError for anything else."""
    return structural.compare(_node(lhs), _node(rhs), enable_auto_mapping) is None


def assert_structural_equal(lhs: Node, rhs: Node, enable_auto_mapping: bool = False) -> None:
    """ValueError with the path to the first difference and both sides of it, unless the two mean the same."""
    difference = structural.compare(_node(lhs), _node(rhs), enable_auto_mapping)
    if difference is not None:
        left, right = fragment(difference.left), fragment(difference.right)
        if left == right:  # equal texts: what differs is a kind, or which variable a name stands for
            left, right = f"{left}  ({difference.left!r})", f"{right}  ({difference.right!r})"
        raise ValueError(f"Structural equality failed at {difference.where()}:\n  left:  {left}\n  right: {right}")


def structural_hash(node: Node, enable_auto_mapping: bool = False) -> int:
    """Equal for equal nodes under the same flag; stable within this process only."""
    return structural.structural_hash(_node(node), enable_auto_mapping)


def _node(value: object) -> Node:
    if not isinstance(value, Node):
        raise TypeError(f"structural comparison takes IR nodes and types, not {type(value).__name__}")
    return value


def fragment(value: Any) -> str:
    """One side of a difference as text, cut where it gets long."""
    try:
        text = python_print(value) if isinstance(value, Node) else repr(value)
    except (TypeError, RuntimeError):  # half-built nodes are compared too
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} characters)"
