"""The two ends of the pipes between the cores of one kernel.

In: what each core pushes.  Out: directions, the size of a slot, and the statements that open the pipe on a core: the core that
pops reserves the slots in its memory, the other one names them.
Invariant: both cores describe the same pipe.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.ir.expr import Expr, Var, const_index
from pypto.ir.program import Function
from pypto.ir.scalar import cast
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, EvalStmt, Stmt, seq
from pypto.ir.types import ScalarType
from pypto.ir.verify.cores import Core, kind_of_call
from pypto.named import NamedTuple
from pypto.passes.memory.sizes import aligned, tile_bytes
from pypto.passes.ssa_rewriter import typed_call
from pypto.passes.statements import calls

__all__ = ["Pipe", "pipe_of", "with_setup"]

_SLOTS = 2  # of a pipe whose kernel does not say how many
_C2V, _V2C = 1, 2
_BITS = {Core.CUBE: _C2V, Core.VECTOR: _V2C}  # by the core that pushes
_NAMES = {Core.CUBE: "aic", Core.VECTOR: "aiv"}


class Pipe(NamedTuple):
    """`directions`: 1 from cube to vector, 2 back, 3 both; a slot holds the largest tile that is passed."""

    directions: int
    slot_bytes: int
    slots: int

    @property
    def bytes(self) -> int:
        """Of the slots of one direction."""
        return self.slot_bytes * self.slots


def pipe_of(f: Function, cube: Stmt) -> Pipe | None:
    """The pipe of a kernel; None where nothing crosses."""
    directions, largest = 0, 0
    # The cube core's end passes whole tiles, whichever halves of them the lanes take and give.
    for c in calls(cube):
        whole = {"push": c.args[0].type if c.args else None, "pop": c.type}.get(kind_of_call(c))
        if isinstance(whole, TileType):
            directions |= _C2V if kind_of_call(c) == "push" else _V2C
            largest = max(largest, aligned(tile_bytes(whole)))
    return Pipe(directions, largest, f.attrs.get("slot_num", _SLOTS)) if directions else None


def with_setup(f: Function, core: Core, body: Stmt, pipe: Pipe) -> Stmt:
    """The statements of one core behind those that open its end of the pipe."""
    head: list[Stmt] = []
    ends: list[Expr] = []
    for pushing, way in ((Core.CUBE, "c2v"), (Core.VECTOR, "v2c")):
        if not pipe.directions & _BITS[pushing]:
            ends.append(cast(const_index(0), DataType.INT32))
            continue
        name = f"{f.name}_{way}_slot_buffer"
        if pushing is core:
            peer = "aiv" if core is Core.CUBE else "aic"
            call = typed_call("system.import_peer_buffer", (), {"name": name, "peer_func": f"{f.name}_{peer}"}, f.span)
        else:
            call = typed_call("system.reserve_buffer", (), {"name": name, "size": pipe.bytes}, f.span)
        end = Var(f"{way}_slots", ScalarType.of(DataType.INT32), f.span)
        head.append(AssignStmt(end, call, f.span))
        ends.append(end)
    facts = {"dir_mask": pipe.directions, "slot_size": pipe.slot_bytes}
    opened = typed_call(f"system.{_NAMES[core]}_initialize_pipe", ends, facts, f.span)
    return seq((*head, EvalStmt(opened, f.span), body), body.span)
