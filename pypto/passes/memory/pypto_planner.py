"""Packing of allocations by lifetime.

In: intervals.  Out: which allocation each one moves into.  Per memory, largest first; each joins the first group in which
it may share with every member; a group has the size of its first, largest member.
Invariant: the lifetimes of a group follow one another, so that one is asked only of those that it meets, and of one of each kind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping

from pypto.enums import MemorySpace
from pypto.ir.expr import Var
from pypto.passes.memory.intervals import Interval, Intervals, Relation

__all__ = ["pack"]


class _Group:
    """Allocations that become one, by the beginnings and the ends of their lifetimes."""

    def __init__(self, first: Interval, kind: object) -> None:
        self.first = first
        self.members = [first]
        self.kinds = {kind: first}

    def place_for(self, i: Interval, intervals: Intervals) -> int | None:
        """Where a lifetime belongs among the others, if each that it meets can be there with it."""
        members = self.members
        at = bisect_left(members, (i.start, i.end), key=lambda m: (m.start, m.end))
        before, behind = at - 1, at
        while before >= 0 and members[before].end >= i.start:
            if intervals.relation(i, members[before]) is Relation.APART:
                return None
            before -= 1
        while behind < len(members) and members[behind].start <= i.end:
            if intervals.relation(i, members[behind]) is Relation.APART:
                return None
            behind += 1
        return at


def pack(intervals: Intervals) -> Mapping[Var, Var]:
    """Allocations that become part of another one, and that one."""
    groups: dict[MemorySpace, list[_Group]] = defaultdict(list)
    shared = (i for i in intervals.all if not i.pinned)  # a declared allocation is shared with nothing
    for i in sorted(shared, key=lambda i: (-i.size, i.start, i.order)):
        kind = intervals.kind(i)
        for group in groups[i.space]:
            at = group.place_for(i, intervals) if all(intervals.compatible(i, m) for m in group.kinds.values()) else None
            if at is not None:
                group.members.insert(at, i)
                group.kinds.setdefault(kind, i)
                break
        else:
            groups[i.space].append(_Group(i, kind))
    return {m.base: g.first.base for per_space in groups.values() for g in per_space for m in g.members if m is not g.first}
