"""When two values may use the same bytes.

In: a placed function in SSA form.  Out: whether the result of an operator may lie exactly on an operand that it reads,
and whether two allocations could be one without a value being overwritten while it is needed.
Decided by what operators declare (`in_place`, `no_alias`, `scratch`, element sizes) and by liveness of values; nothing
here looks at addresses.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.ir import ops
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import FULL, SCALAR, UNUSED, Lanewise, OpDef, Special
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.passes.memory.liveness import Liveness, Write

__all__ = ["Storage", "is_view", "may_lie_on", "storage_operand"]

_FLAT_READS = frozenset((FULL, UNUSED, SCALAR))


def is_view(op: OpDef) -> bool:
    """Whether the result is other words for operand 0's bytes; nothing is written."""
    return isinstance(op.semantics, Special) and op.semantics.kind == "view"


def storage_operand(op: OpDef) -> int | None:
    """The operand in whose storage the result lies, if it has none of its own."""
    if op.reuses is not None:
        return op.reuses
    return 0 if is_view(op) else None


def may_lie_on(c: Call, i: int, result: TileType, windowed: bool) -> bool:
    """Whether the result of a call may lie exactly where operand `i` does, which the call reads for the last time.

    Only operators that read element (r, c) no later than they write it qualify; `windowed`: the operand is a window of
    something larger.  A wider element would overwrite what is still to be read.
    """
    op = ops.of(c)
    if op is None or not op.in_place or i in op.no_alias or i in op.scratch or windowed:
        return False
    t = c.args[i].type
    if not isinstance(t, TileType) or result.dtype.get_bit() > t.dtype.get_bit():
        return False
    if isinstance(op.semantics, Lanewise):
        return op.semantics.result == FULL and op.semantics.patterns[i] in _FLAT_READS
    return isinstance(op.semantics, Special) and op.semantics.kind == "pad"


class Storage:
    """The allocations of a placed function: which values lie in each, and what may become one."""

    def __init__(self, f: Function) -> None:
        self.live = Liveness(f)
        self.members: dict[Var, list[Var]] = {}
        self.windows: set[Var] = set()
        for v in self.live.defined:
            if isinstance(v.type, TileType) and v.type.memref is not None:
                self.members.setdefault(v.type.memref.base_, []).append(v)
        for w in self.live.writes:
            op = ops.of(w.call)
            k = storage_operand(op) if op is not None else None
            if op is not None and k is not None and (op.concept == "slice" or w.call.args[k] in self.windows):
                self.windows.add(w.var)

    def write(self, v: Var) -> Write | None:
        """The operator that writes a value's bytes; None for views, carries and results."""
        w = self.live.write_of.get(v)
        op = ops.of(w.call) if w is not None else None
        return None if w is None or op is None or is_view(op) else w

    def conflict(self, xs: Iterable[Var], ws: Iterable[Var]) -> bool:
        """Whether values of one set are written while values of the other are needed."""
        first, second = list(xs), list(ws)
        return any(self._overwrites(a, b) or self._overwrites(b, a) for a in first for b in second)

    def _overwrites(self, a: Var, b: Var) -> bool:
        w = self.write(a)
        if w is None:
            return False
        if self.live.reads_at(b, w.at) and not self._may_share(w, b):
            return True
        return self.live.live_after(b, w.at) and not self._copies(w, b)

    def _may_share(self, w: Write, b: Var) -> bool:
        assert isinstance(w.var.type, TileType)
        places = [i for i, e in enumerate(w.call.args) if e is b]
        return self._copies(w, b) or all(may_lie_on(w.call, i, w.var.type, b in self.windows) for i in places)

    def _copies(self, w: Write, b: Var) -> bool:
        """Whether the write leaves in its result exactly what `b` holds: then both may be one."""
        if w.call.op.name != "tile.move" or w.call.args[0] is not b or b in self.windows:
            return False
        s, t = b.type, w.var.type
        return isinstance(s, TileType) and isinstance(t, TileType) and s.in_space(t.memory_space).layout == t.layout
