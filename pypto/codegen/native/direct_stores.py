"""Routines that write a tensor themselves, where a tile would only carry their result to a store.

In: a straight line of operations, and the on-chip bytes that are read after it.  Out: the same, such stores gone.
Invariant: the routine's tile has no other reader; between routine and store nothing can fail, and nothing touches what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto.codegen.native.access import Compute, LaneOp, Routine, View, disjoint, same_mapping
from pypto.codegen.native.turns import is_copy
from pypto.codegen.native.uses import Use, readers_of, reads, uses_of
from pypto.ir import arith

__all__ = ["stored_directly"]


def stored_directly(ops: tuple[Compute, ...], is_live: Callable[[View], bool]) -> tuple[Compute, ...]:
    """The operations with routines that store; `is_live`: whether bytes of a view are read later."""
    if not any(isinstance(op, Routine) and op.leaves for op in ops):
        return ops
    uses = uses_of(ops)
    readers = readers_of(uses)
    out: list[Compute | None] = list(ops)
    for k, op in enumerate(ops):
        found = _routine_behind(ops, uses, k)
        if found is None or len(readers[found]) != 1:
            continue
        routine = out[found]
        assert isinstance(routine, Routine)
        if not is_live(routine.dst) and _can_move(ops, found, k):
            out[found], out[k] = routine._replace(dst=op.dst), None
    return tuple(op for op in out if op is not None)


def _routine_behind(ops: Sequence[Compute], uses: Sequence[Sequence[Use]], k: int) -> int | None:
    """The routine all of whose result, and nothing else, is copied to a tensor by the `k`-th operation."""
    op = ops[k]
    if not isinstance(op, LaneOp) or not is_copy(op) or op.dst.root.on_chip:
        return None
    found, source = uses[k][0].writer, op.operands[0].view
    if found is None or source is None:
        return None
    w = ops[found]
    if not isinstance(w, Routine) or not w.leaves or w.reads_dst or w.written is None:
        return None
    whole = all(arith.same(a, b) for a, b in zip(w.written, (op.rows, op.cols), strict=True))
    return found if whole and same_mapping(w.dst, source) else None


def _can_move(ops: Sequence[Compute], first: int, k: int) -> bool:
    """Whether what the `k`-th operation stores can be stored by the one at `first`."""
    target = ops[k].dst
    if any(not disjoint(r.view, target) for r in reads(ops[first])):
        return False
    between = ops[first + 1 : k]
    return not any(
        (isinstance(op, Routine) and op.fault is not None)
        or not disjoint(op.dst, target)
        or any(not disjoint(r.view, target) for r in reads(op))
        for op in between
    )
