"""Memory that slots of pipes take before any tile is placed.

In: a function that reserves slot buffers, with addresses or without.  Out: the function with an address for every one of them,
and the first byte of each memory that tiles may take.
Invariant: buffers do not overlap, and lie below all tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from pypto.enums import FunctionType, MemorySpace
from pypto.errors import CompileError
from pypto.ir.expr import Call
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import AssignStmt
from pypto.passes.memory.sizes import aligned
from pypto.passes.statements import applies, calls

__all__ = ["slot_space", "with_slot_addresses"]

_RESERVE = "system.reserve_buffer"
_AUTO = -1


def slot_space(f: Function) -> MemorySpace:
    """The memory of the core that a function pops on."""
    return MemorySpace.Mat if f.func_type is FunctionType.AIC else MemorySpace.Vec


def with_slot_addresses(f: Function) -> tuple[Function, Mapping[MemorySpace, int]]:
    """Buffers that have no address follow those that have one."""
    if not applies(f, _RESERVE):
        return f, {}
    taken = sorted((c for c in calls(f.body) if c.op.name == _RESERVE and not _is_open(c)), key=lambda c: c.kwargs["base"])
    for a, b in pairwise(taken):
        if b.kwargs["base"] < _end(a):
            what = f"slot buffer '{b.kwargs['name']}' begins at {b.kwargs['base']}, and '{a.kwargs['name']}' ends at {_end(a)}"
            raise CompileError(what, b.span, "leave 'base' out: the compiler finds a place", code="C060")
    placing = _Placing(aligned(max((_end(c) for c in taken), default=0)))
    made = f.replace(body=placing.body(f.body))
    return made, {slot_space(f): placing.end}


def _end(c: Call) -> int:
    end: int = c.kwargs["base"] + c.kwargs["size"]
    return end


def _is_open(c: Call) -> bool:
    return bool(c.kwargs.get("base", _AUTO) == _AUTO)


class _Placing(Mutator):
    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        call = s.value
        if not isinstance(call, Call) or call.op.name != _RESERVE or not _is_open(call):
            return s
        placed = s.replace(value=call.replace(kwargs=call.kwargs.with_(base=self.end)))
        self.end = aligned(self.end + call.kwargs["size"])
        return placed
