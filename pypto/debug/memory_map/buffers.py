"""Buffers of a buffer-stage function as lifetimes.

In: a function of handles and destination writes.  Out: a lifetime per value: from the operation that writes a
destination to the last one that reads it, and through loops that carry it.
Bytes are cut where any window begins or ends; a piece is live if it is read before it is written again.  An operation
that writes all of a window makes a new value, one that writes a part of it or adds to it changes the one that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from pypto.debug.memory_map.lifetimes import Lifetime, Numbers, Unions
from pypto.debug.memory_map.tiles import Names, place_of
from pypto.enums import ArgEffect, MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call, Var
from pypto.ir.node import Node
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.shaped import BufferType
from pypto.ir.stmt import ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts, value_of
from pypto.ir.verify.buffer_storage import Window, handle_windows
from pypto.ir.verify.live_walk import LiveWalk
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple

__all__ = ["buffer_lifetimes"]


class Piece(NamedTuple):
    """Bytes that every window contains or leaves out."""

    space: MemorySpace
    base: Var | None
    low: int
    high: int


_Live = frozenset[Piece]
_METADATA = ("alloc", "view", "query", "set_valid")


class _Access(NamedTuple):
    """One operand of an operation: `whole`, if it is written, every byte of it is."""

    handle: Var
    pieces: tuple[Piece, ...]
    read: bool
    written: bool
    whole: bool


def buffer_lifetimes(f: Function, numbers: Numbers, names: Names) -> list[Lifetime]:
    """The lifetimes of the values that a function's buffers hold, in the order in which they are made."""
    memory = _Memory(f)
    live = _LivePieces(memory)
    live.body(f.body, frozenset())
    values = _Values(memory, live, numbers)
    values.body(f.body, {})
    return sorted(values.lifetimes(names), key=lambda x: (x.made, x.low))


class _Memory:
    """The pieces of each handle, and what statements do with them."""

    def __init__(self, f: Function) -> None:
        self.windows = handle_windows(f)
        cuts: dict[tuple[MemorySpace, Var | None], set[int]] = {}
        for w in self.windows.values():
            base, low, high = w.interval()
            cuts.setdefault((w.space, base), set()).update((low, high))
        self.pieces: dict[Var, tuple[Piece, ...]] = {}
        for v, w in self.windows.items():
            base, low, high = w.interval()
            at = sorted(c for c in cuts[w.space, base] if low <= c <= high)
            self.pieces[v] = tuple(Piece(w.space, base, a, b) for a, b in pairwise(at))

    def accesses(self, s: Stmt) -> Iterator[_Access]:
        """The bytes that a plain statement touches; other words for a buffer touch none."""
        call = value_of(s)
        op = ops.of(call) if isinstance(call, Call) else None
        if op is None or not isinstance(call, Call) or (isinstance(op.semantics, Special) and op.semantics.kind in _METADATA):
            return
        effects = op.effects(call.kwargs)
        for i, a in enumerate(call.args):
            if isinstance(a, Var) and a in self.windows:
                effect = effects[i] if i < len(effects) else ArgEffect.Read
                whole = effect is ArgEffect.Write and _is_dense(a, self.windows[a])
                yield _Access(a, self.pieces[a], effect is not ArgEffect.Write, effect is not ArgEffect.Read, whole)


def _is_dense(v: Var, w: Window) -> bool:
    """Whether a window has no gaps, and its place is known."""
    assert isinstance(v.type, BufferType)
    size = v.type.dtype.get_byte()
    for n in v.type.physical_shape:
        size *= n
    return w.exact and size == w.length


class _LivePieces(LiveWalk[Piece]):
    """What is live around each statement."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.around: dict[Stmt, tuple[_Live, _Live]] = {}
        self.heads: dict[Stmt, _Live] = {}

    def reads(self, n: Node) -> _Live:
        return frozenset()

    def before(self, s: Stmt, behind: _Live) -> _Live:
        accesses = list(self.memory.accesses(s))
        lost = frozenset(p for a in accesses if a.whole for p in a.pieces)
        return (behind - lost).union(p for a in accesses if a.read for p in a.pieces)

    def passed(self, s: Stmt, before: _Live, behind: _Live) -> None:
        self.around[s] = before, behind

    def head(self, s: ForStmt | WhileStmt, live: _Live) -> None:
        self.heads[s] = live


_State = Mapping[Piece, int]


class _Values:
    """A forward walk that gives each write a number; numbers of which a read sees several are one value."""

    def __init__(self, memory: _Memory, live: _LivePieces, numbers: Numbers) -> None:
        self.memory, self.live, self.numbers = memory, live, numbers
        self.unions = Unions()
        self.ids: dict[tuple[Stmt, int], int] = {}
        self.made: list[tuple[Stmt, Var]] = []
        self.points: dict[int, set[int]] = {}
        self.held: dict[int, set[Piece]] = {}

    def body(self, body: Stmt | None, state: _State) -> _State:
        for s in flatten_to_stmts(body):
            state = self.statement(s, state)
        return state

    def statement(self, s: Stmt, state: _State) -> _State:
        before, behind = self.live.around[s]
        if isinstance(s, ScopeStmt):
            return self.body(s.body, state)
        self.there(s, before, state)
        if isinstance(s, IfStmt):
            return self.merged(behind, self.body(s.then_body, state), self.body(s.else_body, state))
        if isinstance(s, (ForStmt, WhileStmt)):
            return self.loop(s, state)
        state = self.written(s, before, state)
        self.there(s, behind, state)
        return state

    def there(self, s: Stmt, live: _Live, state: _State) -> None:
        n = self.numbers.get(s)
        for p in live if n is not None else ():
            if p in state:
                assert n is not None
                self.points[state[p]].add(n)

    def written(self, s: Stmt, before: _Live, state: _State) -> _State:
        out = dict(state)
        for i, a in enumerate(self.memory.accesses(s)):
            if a.read:
                self.join(state[p] for p in a.pieces if p in before and p in state)
            if not a.written:
                continue
            for p in a.pieces:
                if a.whole or p not in before or p not in state:
                    out[p] = self.id_of(s, i, a.handle)
                    self.held[out[p]].add(p)
                self.points[out[p]].add(self.numbers[s])
        return out

    def id_of(self, s: Stmt, i: int, handle: Var) -> int:
        found = self.ids.get((s, i))
        if found is None:
            found = self.ids[s, i] = len(self.made)
            self.made.append((s, handle))
            self.points[found], self.held[found] = set(), set()
        return found

    def loop(self, s: ForStmt | WhileStmt, state: _State) -> _State:
        """What an iteration leaves and the next one reads is one value with what was there before the loop."""
        head = self.live.heads[s]
        while True:
            self.there(s, head, state)
            merged = self.merged(head, state, self.body(s.body, state))
            if not any(p in head and p not in state for p in merged):
                return merged
            state = {**state, **{p: v for p, v in merged.items() if p in head and p not in state}}

    def merged(self, live: _Live, a: _State, b: _State) -> _State:
        for p in live:
            if p in a and p in b:
                self.unions.join(a[p], b[p])
        return {**b, **a}

    def join(self, values: Iterator[int]) -> None:
        first = next(values, None)
        for v in values:
            assert first is not None
            self.unions.join(first, v)

    def lifetimes(self, names: Names) -> Iterator[Lifetime]:
        for group in self.unions.groups(range(len(self.made))):
            s, handle = self.made[group[0]]
            held = frozenset[Piece]().union(*(self.held[g] for g in group))
            low, high = min(p.low for p in held), max(p.high for p in held)
            t, window = handle.type, self.memory.windows[handle]
            if window.interval()[1:] != (low, high):  # written window by window: the tile is the whole
                t = window.root.type
            assert isinstance(t, BufferType)
            call = value_of(s)
            assert isinstance(call, Call)
            by = call.op.name.split(".", 1)[-1]
            known = names.get(place_of(by, s.span))
            yield Lifetime(
                known.name if known is not None else user_name(handle),
                handle.name_hint,
                t.memory_space,
                next(iter(held)).base,
                low,
                high,
                t.dtype.name,
                t.physical_shape,
                self.numbers[s],
                by,
                window.root.name_hint,
                known is not None and known.declared,
                frozenset[int]().union(*(self.points[g] for g in group)),
            )
