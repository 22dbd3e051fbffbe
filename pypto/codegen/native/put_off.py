"""Elementwise work that waits for its only reader, where something that is a loop of its own stands between the two.

In: a straight line of operations with their def-use facts.  Out: the same operations, such work right before its reader, so that
one loop does both and what passes between them stays in registers.
Invariant: nothing that the work reads or writes is touched in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.codegen.native.access import Compute, LaneOp, ReduceOp, disjoint
from pypto.codegen.native.turns import turn_of
from pypto.codegen.native.uses import Use, readers_of, reads
from pypto.ir import arith
from pypto.ir.opdef import FULL

__all__ = ["put_off"]


def put_off(ops: tuple[Compute, ...], uses: Sequence[Sequence[Use]]) -> tuple[Compute, ...]:
    """The operations in their new order; the same tuple where nothing waits."""
    if not any(_stands_alone(op) for op in ops):
        return ops
    readers = readers_of(uses)
    waiting: dict[int, list[int]] = {}  # reader -> what waits for it
    for k in range(len(ops)):
        if len(readers[k]) == 1 and _may_wait(ops, uses, k, readers[k][0]):
            waiting.setdefault(readers[k][0], []).append(k)
    if not waiting:
        return ops
    moved = {k for ks in waiting.values() for k in ks}
    order = [i for k in range(len(ops)) if k not in moved for i in (*waiting.get(k, ()), k)]
    return tuple(ops[i] for i in order)


def _stands_alone(op: Compute) -> bool:
    return not isinstance(op, (LaneOp, ReduceOp)) or turn_of(op) is not None


def _may_wait(ops: Sequence[Compute], uses: Sequence[Sequence[Use]], k: int, reader: int) -> bool:
    """Whether the `k`-th operation can be done right before its reader, and its loop there has all that it reads elsewhere."""
    op, at, between = ops[k], ops[reader], ops[k + 1 : reader]
    if not isinstance(op, LaneOp) or op.mask or turn_of(op) is not None or not op.dst.root.on_chip:
        return False
    if arith.is_const(op.rows, 1) or arith.is_const(op.cols, 1) or not any(_stands_alone(b) for b in between):
        return False
    # What was computed just before is in a register here, and would have to be stored instead.
    if any(r.pattern == FULL and not _is_from_before(u) for r, u in zip(reads(op), uses[k], strict=True)):
        return False
    if not isinstance(at, (LaneOp, ReduceOp)) or not (arith.same(at.rows, op.rows) and arith.same(at.cols, op.cols)):
        return False
    if any(
        r.pattern != FULL or k in u.others for r, u in zip(reads(at), uses[reader], strict=True) if k in (u.writer, *u.others)
    ):
        return False
    touched = [r.view for r in reads(op)]
    return all(
        disjoint(b.dst, op.dst) and all(disjoint(b.dst, v) for v in touched) and all(disjoint(r.view, op.dst) for r in reads(b))
        for b in between
    )


def _is_from_before(u: Use) -> bool:
    """Whether what is read was there before this straight line of operations."""
    return u.writer is None and not u.others
