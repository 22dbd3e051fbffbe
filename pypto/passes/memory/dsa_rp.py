"""Placement of allocations by lifetime, with a preference against reuse across pipes.

In: intervals of one function.  Out: an address per allocation: two share bytes only if their lifetimes allow it, and
memory written by one unit right after another has used it is avoided where there is room.
A first-fit placement is the incumbent; further orders are tried, each allocation taking the lowest address of least
added cost; the best by (cost, total peak, highest peak) wins, the first of equals stays.  Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pypto.enums import MemorySpace, PipeType
from pypto.errors import CompileError, InternalError
from pypto.ir import ops
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.named import NamedTuple
from pypto.passes.memory.intervals import Interval, Intervals, Relation
from pypto.passes.memory.sizes import aligned
from pypto.target import Chip

__all__ = ["solve"]

_SHUFFLES = 4


class _Problem(NamedTuple):
    """Buffers, how each pair may lie, the cost of a pair that shares bytes, and the room there is."""

    buffers: list[Interval]
    relations: dict[tuple[int, int], Relation]
    costs: dict[tuple[int, int], int]
    capacity: Mapping[MemorySpace, int]
    floors: Mapping[MemorySpace, int]  # the first byte that is free


def solve(f: Function, intervals: Intervals, chip: Chip, floors: Mapping[MemorySpace, int]) -> dict[Var, int]:
    """An address for every allocation; CompileError, at the largest tile, if they do not fit."""
    problem = _problem(intervals, chip, floors)
    best: tuple[tuple[int, int, int], list[int]] | None = None
    for place in _placements(problem):
        if place is not None:
            score = _score(problem, place)
            if best is None or score < best[0]:
                best = score, place
    if best is None:
        raise _no_placement(f, intervals, chip, floors)
    _validate(f, problem, best[1])
    return {i.base: at for i, at in zip(problem.buffers, best[1], strict=True)}


def _problem(intervals: Intervals, chip: Chip, floors: Mapping[MemorySpace, int]) -> _Problem:
    buffers = intervals.all
    relations: dict[tuple[int, int], Relation] = {}
    costs: dict[tuple[int, int], int] = {}
    pipes = [_pipes(intervals, i) for i in buffers]
    for a in range(len(buffers)):
        for b in range(a):
            if buffers[a].space is not buffers[b].space:
                continue
            relations[b, a] = intervals.relation(buffers[a], buffers[b])
            if relations[b, a] is not Relation.APART and _crosses_pipes(buffers, pipes, a, b):
                costs[b, a] = 1
    return _Problem(buffers, relations, costs, chip.capacity, floors)


# -- which unit touches a buffer first and last --------------------------------------------------------------------


class _Pipes(NamedTuple):
    """The units of the first write and of the last access; None where they do not lie on one path."""

    first: PipeType | None
    last: PipeType | None


def _pipes(intervals: Intervals, i: Interval) -> _Pipes:
    storage = intervals.storage
    live = storage.live
    members = frozenset(storage.members[i.base])
    touches = [(w.at, w.call) for w in live.writes if w.var in members or any(a in members for a in w.call.args)]
    stores = {at for v in members for at in live.used.get(v, ())}
    one_path = len({live.paths[at] for at in (*stores, *(at for at, _ in touches))}) == 1
    if not touches or not one_path:
        return _Pipes(None, None)
    return _Pipes(_pipe(min(touches, key=lambda t: t[0])[1]), _pipe(max(touches, key=lambda t: t[0])[1]))


def _pipe(c: Call) -> PipeType:
    op = ops.of(c)
    kind = op.semantics.kind if op is not None and isinstance(op.semantics, Special) else ""
    return {"load": PipeType.MTE2, "store": PipeType.MTE3}.get(kind, PipeType.V)


def _crosses_pipes(buffers: Sequence[Interval], pipes: Sequence[_Pipes], a: int, b: int) -> bool:
    """Whether the later of two buffers is first written by another unit than the one that last used the earlier."""
    first, second = (a, b) if buffers[a].start <= buffers[b].start else (b, a)
    before, after = pipes[first].last, pipes[second].first
    return before is not None and after is not None and before is not after


# -- placements ----------------------------------------------------------------------------------------------------


def _placements(p: _Problem) -> Iterable[list[int] | None]:
    n = range(len(p.buffers))
    by_size = sorted(n, key=lambda i: (-p.buffers[i].size, p.buffers[i].start, i))
    weight = [sum(c for pair, c in p.costs.items() if i in pair) for i in n]
    orders = [by_size, sorted(n, key=lambda i: (p.buffers[i].start, i))]
    orders.append(sorted(n, key=lambda i: (-weight[i], -p.buffers[i].size, i)))
    state = 1
    for _ in range(_SHUFFLES):
        order = list(n)
        for i in range(len(order) - 1, 0, -1):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)  # Knuth, MMIX
            j = (state >> 33) % (i + 1)
            order[i], order[j] = order[j], order[i]
        orders.append(order)
    yield _place(p, by_size, weigh=False)
    seen: list[list[int]] = []
    for order in orders:
        if order not in seen:
            seen.append(order)
            yield _place(p, order, weigh=True)


def _place(p: _Problem, order: Sequence[int], weigh: bool) -> list[int] | None:
    """Buffers one by one, each at the candidate of least added cost (if costs are weighed), the lowest of these."""
    at: dict[int, int] = {}
    for i in order:
        b = p.buffers[i]
        neighbours = [j for j in at if p.buffers[j].space is b.space]
        candidates = {
            p.floors.get(b.space, 0),
            *(aligned(at[j] + p.buffers[j].size) for j in neighbours),
            *(at[j] for j in neighbours),
        }
        legal = [
            (_added_cost(p, at, i, c) if weigh else 0, c)
            for c in candidates
            if c + b.size <= p.capacity.get(b.space, 0) and all(_fits(p, i, c, j, at[j]) for j in neighbours)
        ]
        if not legal:
            return None
        at[i] = min(legal)[1]
    return [at[i] for i in range(len(p.buffers))]


def _overlap(p: _Problem, i: int, at: int, j: int, other: int) -> bool:
    return at < other + p.buffers[j].size and other < at + p.buffers[i].size


def _fits(p: _Problem, i: int, at: int, j: int, other: int) -> bool:
    if not _overlap(p, i, at, j, other):
        return True
    relation = p.relations[min(i, j), max(i, j)]
    return relation is Relation.FREE or (relation is Relation.HANDED_OVER and at == other)


def _added_cost(p: _Problem, at: Mapping[int, int], i: int, c: int) -> int:
    shared = (j for j in at if p.buffers[j].space is p.buffers[i].space and _overlap(p, i, c, j, at[j]))
    return sum(p.costs.get((min(i, j), max(i, j)), 0) for j in shared)


def _score(p: _Problem, place: Sequence[int]) -> tuple[int, int, int]:
    cost = sum(c for (i, j), c in p.costs.items() if _overlap(p, i, place[i], j, place[j]))
    peaks: dict[MemorySpace, int] = {}
    for b, at in zip(p.buffers, place, strict=True):
        peaks[b.space] = max(peaks.get(b.space, 0), at + b.size)
    return cost, sum(peaks.values()), max(peaks.values(), default=0)


def _validate(f: Function, p: _Problem, place: Sequence[int]) -> None:
    for (i, j), _ in p.relations.items():
        if not _fits(p, i, place[i], j, place[j]):
            raise InternalError(f"{f.name}: allocations {i} and {j} were placed on bytes they cannot share")


def _no_placement(f: Function, intervals: Intervals, chip: Chip, floors: Mapping[MemorySpace, int]) -> CompileError:
    """What is needed at the same time, at the largest tile."""
    worst = (0, MemorySpace.Vec, 0)
    for space, limit in chip.capacity.items():
        mine = [i for i in intervals.all if i.space is space]
        peak = max((sum(aligned(i.size) for i in mine if i.start <= t <= i.end) for t in {i.start for i in mine}), default=0)
        peak += floors.get(space, 0)
        worst = max(worst, (peak - limit, space, peak), key=lambda w: w[0])
    _, space, peak = worst if worst[2] else (0, MemorySpace.Vec, 0)
    limit = chip.capacity.get(space, 0)
    largest = max((i for i in intervals.all if i.space is space), key=lambda i: i.size)
    tile = min(intervals.storage.members[largest.base], key=lambda v: intervals.storage.live.defined[v])
    return CompileError(
        f"DSA-RP could not find a placement for '{f.name}' within the on-chip memory capacities: "
        f"{space.name} buffer usage ({peak} bytes) exceeds platform limit ({limit} bytes)",
        tile.span,
        "work on smaller tiles in a loop, or finish with a tile before the next one is made",
        code="C061",
    )
