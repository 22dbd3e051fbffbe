"""Packing finds the groups that asking every member would find: random lifetimes, compared pair by pair."""

from __future__ import annotations

import random

import pytest

from pypto.enums import MemorySpace
from pypto.ir.expr import Var
from pypto.ir.types import PtrType
from pypto.passes.memory.intervals import Interval, Intervals, Relation
from pypto.passes.memory.pypto_planner import pack


class Lifetimes(Intervals):
    """Random allocations of a kernel of buffers, which share by the rules of real ones."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.selected = True
        self.all: list[Interval] = []
        for order in range(rng.randrange(1, 14)):
            start = rng.randrange(12)
            space = rng.choice((MemorySpace.Vec, MemorySpace.Mat))
            size, end = rng.choice((1, 2, 2, 4)), start + rng.choice((0, 0, 1, 2, 3, 5))
            self.all.append(Interval(Var(f"b{order}", PtrType()), space, size, start, end, rng.random() < 0.1, order))
        self._kinds = {i.base: (rng.random() < 0.3, i.size, frozenset(rng.sample("pq", rng.choice((1, 1, 2))))) for i in self.all}
        self.hands_over = {(a.base, b.base): rng.random() < 0.6 for a in self.all for b in self.all}

    def _hands_over(self, first: Interval, second: Interval) -> bool:
        return self.hands_over[first.base, second.base]


def groups(of: Lifetimes) -> dict[Var, Var]:
    found: list[list[Interval]] = []
    for i in sorted(of.all, key=lambda i: (-i.size, i.start, i.order)):
        for group in found:
            if all(i.space is m.space and of.relation(i, m) is not Relation.APART and of.compatible(i, m) for m in group):
                group.append(i)
                break
        else:
            found.append([i])
    return {m.base: g[0].base for g in found for m in g[1:]}


@pytest.mark.parametrize("block", range(4))
def test_as_if_every_member_were_asked(block):
    shared = 0
    for seed in range(500 * block, 500 * (block + 1)):
        lifetimes = Lifetimes(seed)
        want = groups(lifetimes)
        assert dict(pack(lifetimes)) == want
        shared += len(want)
    assert shared > 500
