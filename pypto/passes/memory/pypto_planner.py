"""Packing of allocations by lifetime.

In: intervals.  Out: which allocation each one moves into.  Per memory, largest first; each joins the first group in which
it may share with every member; a group has the size of its first, largest member.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.ir.expr import Var
from pypto.passes.memory.intervals import Interval, Intervals

__all__ = ["pack"]


def pack(intervals: Intervals) -> Mapping[Var, Var]:
    """Allocations that become part of another one, and that one."""
    groups: list[list[Interval]] = []
    for i in sorted(intervals.all, key=lambda i: (-i.size, i.start, i.order)):
        for group in groups:
            if all(intervals.may_merge(i, member) for member in group):
                group.append(i)
                break
        else:
            groups.append([i])
    return {member.base: group[0].base for group in groups for member in group[1:]}
