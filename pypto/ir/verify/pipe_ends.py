"""What the functions of one core do with pipes.

In: a function.  Out: the ends of pipes that it opens, what it pushes, pops and frees, on how many vector lanes it runs, and, with
the functions that run beside it, how many slots each pipe has.
Invariant: only what the program's text says is here; whether it makes sense is for the judge of pipes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pypto.enums import FunctionType, SplitMode
from pypto.errors import CompileError
from pypto.ir import ops
from pypto.ir.expr import Call, Submit, Var
from pypto.ir.opdef import Special
from pypto.ir.ops.pipes import BUFFER, FREE, PIPE, POP, PUSH
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt, Stmt, value_of
from pypto.ir.verify.scopes import statements
from pypto.named import NamedTuple

__all__ = ["C2V", "CORES", "V2C", "Channel", "PipeUse", "Transfer", "kind_of_pipe", "pipe_use", "pipes_started", "slots_of"]

C2V, V2C = 1, 2  # directions, as bits of `dir_mask`
CORES: Mapping[FunctionType, str] = {FunctionType.AIC: "aic", FunctionType.AIV: "aiv"}
_KINDS = (PUSH, POP, FREE, PIPE, BUFFER)


class Channel(NamedTuple):
    """One direction of one pipe."""

    direction: int
    id: int

    def text(self) -> str:
        way = "cube to vector" if self.direction == C2V else "vector to cube"
        return f"pipe {self.id} from {way}"


class Transfer(NamedTuple):
    """A push, pop or free; `var` is what a pop gives."""

    kind: str
    channel: Channel
    call: Call
    stmt: Stmt
    var: Var | None

    @property
    def split(self) -> int:
        split: int = self.call.kwargs.get("split", 0)
        return split


class PipeUse(NamedTuple):
    """A function's pipes: its `initialize_pipe` calls by id, its transfers in program order, its buffers by variable."""

    function: Function
    core: str
    ends: dict[int, Call]
    transfers: tuple[Transfer, ...]
    buffers: dict[Var, Call]
    calls: tuple[tuple[str, Call], ...]  # every operator of a pipe with its kind

    @property
    def lanes(self) -> int:
        """On how many vector lanes the function runs at the same time."""
        if self.core == "aic":
            return 1
        attrs = self.function.attrs
        both = attrs.get("dual_aiv_dispatch") or attrs.get("split") not in (None, 0, SplitMode.NONE)
        return 2 if both or any(t.split for t in self.transfers) else 1

    def consumes(self, direction: int) -> bool:
        return (direction == C2V) == (self.core == "aiv")

    def buffer(self, channel: Channel) -> Call | None:
        """The reservation or import that this end names for a direction; None for an address of another kind."""
        end = self.ends.get(channel.id)
        if end is None or not end.kwargs["dir_mask"] & channel.direction:
            return None
        operand = end.args[0 if channel.direction == C2V else 1]
        return self.buffers.get(operand) if isinstance(operand, Var) else None

    def channels(self) -> Iterator[Channel]:
        """What this function's ends open."""
        for i, end in self.ends.items():
            for direction in (C2V, V2C):
                if end.kwargs["dir_mask"] & direction:
                    yield Channel(direction, i)


def kind_of_pipe(c: Call) -> str:
    """push, pop, free, initialize_pipe or slot_buffer; empty for any other call."""
    op = ops.of(c)
    kind = op.semantics.kind if op is not None and isinstance(op.semantics, Special) else ""
    return kind if kind in _KINDS else ""


def pipe_use(f: Function) -> PipeUse | None:
    """What a function does with pipes; None if nothing, unless it says that it runs on both lanes of the vector core."""
    use = PipeUse(f, CORES.get(f.func_type, ""), {}, (), {}, ())
    transfers: list[Transfer] = []
    calls: list[tuple[str, Call]] = []
    popped: dict[Var, Call] = {}
    for s in statements(f.body):
        call = value_of(s)
        kind = kind_of_pipe(call) if isinstance(call, Call) else ""
        if not isinstance(call, Call) or not kind:
            continue
        calls.append((kind, call))
        var = s.var if isinstance(s, AssignStmt) else None
        if kind == PIPE:
            use.ends.setdefault(call.kwargs.get("id", 0), call)
        elif kind == BUFFER and var is not None:
            use.buffers[var] = call
        elif kind in (PUSH, POP, FREE):
            if kind == POP and var is not None:
                popped[var] = call
            transfers.append(Transfer(kind, _channel(call, kind, popped), call, s, var))
    both = use.core == "aiv" and f.attrs.get("dual_aiv_dispatch")
    return use._replace(transfers=tuple(transfers), calls=tuple(calls)) if calls or both else None


def _channel(call: Call, kind: str, popped: Mapping[Var, Call]) -> Channel:
    concept = call.op.name.split(".", 1)[1]
    # Slots of what came from the cube core are freed "to" it.
    forward = concept in ("tpush_to_aiv", "tpop_from_aic", "tfree_to_aic")
    source = call.args[0] if kind == FREE else None
    pop = popped.get(source) if isinstance(source, Var) else None
    own = call.kwargs.get("id", 0) or (pop.kwargs.get("id", 0) if pop is not None else 0)
    return Channel(C2V if forward else V2C, own)


def pipes_started(program: Program, f: Function) -> dict[str, PipeUse]:
    """The functions with pipes that `f` calls itself."""
    found: dict[str, PipeUse] = {}
    for n in walk(f.body):
        if isinstance(n, (Call, Submit)) and ops.find(n.op.name) is None and n.op.name not in found:
            callee = program.get_function(n.op.name)
            use = pipe_use(callee) if callee is not None else None
            if use is not None:
                found[n.op.name] = use
    return found


def slots_of(members: Iterable[PipeUse]) -> dict[Channel, int]:
    """Slots by channel, from the buffers of those that pop; CompileError, at the end, where there is none."""
    found: dict[Channel, int] = {}
    for use in members:
        for channel in use.channels():
            if not use.consumes(channel.direction):
                continue
            reserved = use.buffer(channel)
            if reserved is None or "size" not in reserved.kwargs:
                what = f"{channel.text()}: '{use.function.name}' pops from it and reserves no buffer for it"
                raise CompileError(what, use.ends[channel.id].span, RESERVE, code="C064")
            found[channel] = max(1, reserved.kwargs["size"] // use.ends[channel.id].kwargs["slot_size"])
    return found


RESERVE = 'buf = pl.reserve_buffer(name="slots", size=<slot_size times the number of slots>), given to initialize_pipe'
