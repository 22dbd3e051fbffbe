"""Identities of tasks, and the lists of them that others wait for.

In: a list in the kernel's text.  Out: the identities in it that the program keeps; those that `as tid` binds are none of them:
tasks run in program order, which satisfies any `deps`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pypto.dtypes import DataType
from pypto.errors import ParserTypeError
from pypto.ir.expr import Expr
from pypto.ir.types import ArrayType, ScalarType

if TYPE_CHECKING:
    from pypto.frontend.expressions import Expressions

__all__ = ["Task", "identifies", "task_ids"]


class Task:
    """What `as tid` binds: the identity of a dispatched task.  Tasks run in program order, which satisfies any `deps`."""

    __slots__ = ()
    in_a_kernel = "the identity of a task", "list it in the deps=[...] of a later task"


def identifies(e: Expr) -> bool:
    """Whether a value is the identity of a task, or an array of them."""
    return isinstance(e.type, (ScalarType, ArrayType)) and e.type.dtype is DataType.TASK_ID


def task_ids(x: Expressions, node: ast.expr) -> tuple[Expr, ...]:
    """The task ids of `deps=[...]`: names bound by earlier tasks, elements and whole arrays of ids, None."""
    if not isinstance(node, (ast.List, ast.Tuple)):
        hint = "deps=[tid], with the names bound by earlier tasks"
        x.frame.fail(ParserTypeError, "deps must be a list of task ids", node, hint)
    found = []
    for e in node.elts:
        value = x.value(e)
        if value is None or isinstance(value, Task):
            continue
        if not isinstance(value, Expr) or not identifies(value):
            hint = "a name bound by an earlier task, an array of such, or None"
            x.frame.fail(ParserTypeError, f"deps cannot hold {ast.unparse(e)}", e, hint)
        found.append(x.frame.plain(value, e))
    return tuple(found)
