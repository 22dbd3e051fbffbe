"""How long each allocation is needed, and which allocations may follow one another on the same bytes.

In: a placed function whose storage gives its values.  Out: one interval per allocation (positions of statements, the
loops its values live through included) and the rule that decides sharing.
Invariant: two allocations share only if one's last read comes before the other's first write, or in the same statement
where the operator may write over what it reads; declared allocations share with nothing.
"""

from __future__ import annotations

from enum import Enum

from pypto.enums import MemorySpace
from pypto.ir.expr import Call, ConstInt, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, flatten_to_stmts
from pypto.named import NamedTuple
from pypto.passes.memory.sharing import Storage, may_lie_on
from pypto.passes.memory.sizes import is_dynamic

__all__ = ["Interval", "Intervals", "Relation"]


class Interval(NamedTuple):
    """One allocation: its bytes, and from its first definition to its last use."""

    base: Var
    space: MemorySpace
    size: int
    start: int
    end: int
    pinned: bool
    order: int


class Relation(Enum):
    """FREE: any bytes; HANDED_OVER: exactly the same bytes, or none of them; APART: none."""

    FREE = 0
    HANDED_OVER = 1
    APART = 2


class Intervals:
    """The allocations of one function."""

    def __init__(self, f: Function) -> None:
        self.storage = Storage(f)
        live = self.storage.live
        self.selected = bool(f.attrs.get("buffer_ir_selected"))
        self._kinds: dict[Var, tuple[bool, int, frozenset[object]]] = {}
        self.all: list[Interval] = []
        for s in flatten_to_stmts(f.body):
            if not isinstance(s, AssignStmt) or not isinstance(s.value, Call) or s.value.op.name != "tile.alloc":
                continue
            members = self.storage.members.get(s.var)
            size = s.value.args[0]
            if members and isinstance(size, ConstInt):
                start = min(live.defined[v] for v in members)
                end = max(live.last_use(v) for v in members)
                pinned = bool(s.value.kwargs.get("pinned"))
                space: MemorySpace = s.value.kwargs["memory_space"]
                self.all.append(Interval(s.var, space, size.value, start, end, pinned, len(self.all)))

    def relation(self, a: Interval, b: Interval) -> Relation:
        """How two allocations may lie to each other."""
        if a.space is not b.space:
            return Relation.FREE
        if a.pinned or b.pinned:
            return Relation.APART
        first, second = (a, b) if a.start <= b.start else (b, a)
        if first.end < second.start:
            return Relation.FREE
        handed = first.end == second.start and self._hands_over(first, second)
        return Relation.HANDED_OVER if handed else Relation.APART

    def _hands_over(self, first: Interval, second: Interval) -> bool:
        """Whether the statement that reads the first for the last time may write the second in its place."""
        live = self.storage.live
        writes = [
            live.write_of[v] for v in self.storage.members[second.base] if live.defined[v] == second.start and v in live.write_of
        ]
        for w in writes:
            for v in self.storage.members[first.base]:
                places = [i for i, e in enumerate(w.call.args) if e is v]
                assert isinstance(w.var.type, TileType)
                if any(not may_lie_on(w.call, i, w.var.type, v in self.storage.windows) for i in places):
                    return False
        return bool(writes)

    def compatible(self, a: Interval, b: Interval) -> bool:
        """A buffer whose valid extents change at run time has one descriptor: it becomes one only with its like."""
        if not self.selected:
            return True
        (changes, size, forms), (also, other_size, others) = self.kind(a), self.kind(b)
        return not (changes or also) or (size == other_size and len(forms | others) == 1)

    def kind(self, a: Interval) -> tuple[bool, int, frozenset[object]]:
        """All that `compatible` asks of an allocation: whether extents of its tiles can change, its size, its tiles' forms."""
        known = self._kinds.get(a.base)
        if known is None:
            tiles = [v.type for v in self.storage.members[a.base] if isinstance(v.type, TileType)]
            known = any(is_dynamic(t) for t in tiles), a.size, frozenset((t.dims, t.dtype, t.layout) for t in tiles)
            self._kinds[a.base] = known
        return known
