"""Which values the matrix unit reads, and what their extents are rounded up to.

In: a kernel whose tensor operators say what they round (`OpDef.boxes`).  Out: for each value the box that all of its
consumers ask for, carried backward through aliases, set_validshape and loop carries.
Invariant: a value that anything else reads as it is keeps its extents.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from pypto.enums import MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.shaped import const_dim
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, last_yield
from pypto.passes.statements import calls, statements

__all__ = ["ACCUMULATORS", "Box", "boxed_shape", "demanded_boxes"]

Box = tuple[int, int]
ACCUMULATORS = frozenset((MemorySpace.Acc,))
_PLAIN: Box = (1, 1)


def boxed_shape(shape: Iterable[Expr], box: Box | None) -> tuple[Expr, ...]:
    """The extents with the last two rounded up to whole boxes, if they are all that is not 1; run-time ones stay."""
    dims = tuple(shape)
    if box is None or len(dims) < 2 or any(const_dim(d) != 1 for d in dims[:-2]):
        return dims
    out = list(dims[:-2])
    for d, n in zip(dims[-2:], box, strict=True):
        value = const_dim(d)
        out.append(d if value is None or value % n == 0 else const_index((value + n - 1) // n * n))
    return tuple(out)


def demanded_boxes(body: Stmt) -> dict[Var, Box]:
    """The box of each value that only operators with boxes consume."""
    asked: dict[Var, set[Box]] = {}
    follows: list[tuple[Expr, Expr]] = []  # the first's box is the second's

    def ask(e: Expr, box: Box | None) -> None:
        if isinstance(e, Var):
            asked.setdefault(e, set()).add(box or _PLAIN)

    for c in calls(body):
        op = ops.of(c)
        boxes = op.boxes(c) if op is not None and op.boxes is not None else ()
        for i, a in enumerate(c.args):
            if op is None or op.concept != "set_validshape" or i:
                ask(a, boxes[i] if i < len(boxes) else None)
    for s in statements(body):
        follows += _passed_on(s)
        if isinstance(s, ReturnStmt):
            continue  # stored as far as it is valid
    changed = True
    while changed:
        changed = False
        for result, source in follows:
            if isinstance(result, Var) and isinstance(source, Var) and result in asked:
                before = asked.setdefault(source, set())
                if not asked[result] <= before:
                    before |= asked[result]
                    changed = True
    return {v: _joined(boxes) for v, boxes in asked.items() if _joined(boxes) != _PLAIN}


def _joined(boxes: set[Box]) -> Box:
    """All consumers agree on an axis, or it stays as it is."""
    rows = 1 if any(b[0] == 1 for b in boxes) else lcm(*(b[0] for b in boxes))
    cols = 1 if any(b[1] == 1 for b in boxes) else lcm(*(b[1] for b in boxes))
    return rows, cols


def _passed_on(s: Stmt) -> list[tuple[Expr, Expr]]:
    if isinstance(s, AssignStmt):
        if isinstance(s.value, Var):
            return [(s.var, s.value)]
        op = ops.of(s.value) if isinstance(s.value, Call) else None
        return (
            [(s.var, s.value.args[0])] if isinstance(s.value, Call) and op is not None and op.concept == "set_validshape" else []
        )
    if isinstance(s, (ForStmt, WhileStmt)):
        return [(a, a.initValue) for a in s.iter_args]
    if isinstance(s, IfStmt):
        arms = [last_yield(b) for b in (s.then_body, s.else_body) if b is not None]
        return [(r, v) for y in arms if y is not None for r, v in zip(s.return_vars, y.value, strict=True)]
    return []
