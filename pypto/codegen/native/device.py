"""A device function as a static C function.

In: a planned tile function or a Buffer-stage function.  Out: its C text and what callers and the alias proof need.
The parameters of the C function are the call record, the arena, the number of this block and of all blocks of the launch, this
run's end of its group's pipes where it has any, then every parameter in order (tensors as pointers), then the run-time extents
that appear in tensor types, in order of first appearance, and, where threads can share a loop of it, the number of this share
and of all.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.codegen.native import flow, from_buffer, from_tile
from pypto.codegen.native.access import Region
from pypto.codegen.native.deep_products import deepen
from pypto.codegen.native.emit import Emitter, Names, Sites, Touch, c_name
from pypto.codegen.native.emit_group import element_type
from pypto.codegen.native.functions import LaneFunctions
from pypto.codegen.native.independence import loop_to_share, why_blocks_meet, why_trips_meet
from pypto.codegen.native.kept import KEPT, Kept
from pypto.codegen.native.pipes import HEADER
from pypto.codegen.native.scalars import C_TYPES
from pypto.codegen.native.streaming import Streams
from pypto.codegen.native.structure import Base
from pypto.codegen.native.writer import Writer
from pypto.enums import FunctionIRStage, MemorySpace
from pypto.errors import InternalError
from pypto.ir.expr import Expr, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import free_vars
from pypto.ir.shaped import TensorType
from pypto.ir.types import ScalarType
from pypto.ir.verify.pipe_ends import PipeUse
from pypto.named import NamedTuple

__all__ = ["DeviceCode", "block_of", "build_access", "emit_device", "kept_of", "stage_of", "symbols_of"]


class DeviceCode(NamedTuple):
    """`touches` are by parameter index: who reads and writes which tensor, in emitted order; `values` opens its scalars.

    `fields`: C types and names of the parameters that a launch passes.  `shares`: the function does one share of a loop.
    `proved`: what it touches is known well enough for proofs; `region`: what it does.
    `trips`, `blocks`: why its trips, or the blocks of a launch, cannot run at the same time; None if they can.
    """

    function: Function
    text: str
    symbols: tuple[Var, ...]
    scratch: int
    touches: tuple[tuple[int, Touch], ...]
    values: dict[Var, Expr]
    stage: FunctionIRStage
    meets: bool  # whether its blocks wait for each other: it has a parameter more, and `blocks_…` runs one of them
    fields: tuple[tuple[str, str], ...]
    shares: bool
    trips: str | None
    blocks: str | None
    pipes: PipeUse | None
    proved: bool
    region: Region
    turns: bool  # whether it is told how often the loops around it call it: behind its own arguments
    kept: tuple[int, ...]  # tensors of which products keep what they packed while a launch lasts: the last of `fields` says where

    @property
    def waits(self) -> bool:
        """Whether it reads and writes in no order of its own: it waits for what runs at the same time."""
        return self.meets or self.pipes is not None


def symbols_of(function: Function) -> tuple[Var, ...]:
    """Run-time extents and strides in the types of tensor parameters that are not parameters themselves."""
    found: dict[Var, None] = {}
    params = frozenset(function.params)
    for p in function.params:
        if isinstance(p.type, TensorType):
            for v in free_vars(p.type, types=True):
                if v not in params:
                    found[v] = None
    return tuple(found)


def build_access(function: Function, addressed: bool) -> Base:
    """The access form of a device function, whatever its stage."""
    if function.ir_stage is FunctionIRStage.Buffer:
        return from_buffer.build(function)
    return from_tile.build(function, addressed)


def block_of(b: Base, optimize: bool) -> flow.Block:
    """What a device function does: runs with their facts, or every operation by itself."""
    if not optimize:
        return flow.plain(b.body)
    block = flow.optimize(b.body, b.tensors.values())
    deep = deepen(block)
    return block if deep is None else flow.again(deep)


def kept_of(b: Base, block: flow.Block, optimize: bool) -> Kept | None:
    """What products of a device function keep packed; None where nothing is: others that it waits for may write anything."""
    return Kept(b.body, block, b.block) if optimize and not b.waits else None


def stage_of(function: Function) -> str:
    """What a device function is made of, in words."""
    return "Buffer" if function.ir_stage is FunctionIRStage.Buffer else "Tile"


def emit_device(function: Function, addressed: bool, optimize: bool, sites: Sites, functions: LaneFunctions) -> DeviceCode:
    """One device function as C."""
    b = build_access(function, addressed)
    block = block_of(b, optimize)
    offsets, total = _offsets(b)
    names, w = Names(), Writer()
    symbols = symbols_of(function)
    parameters = ["pypto_call *const call", "unsigned char *const mem"]
    for v in (b.block, b.blocks):
        names.of[v] = f"pp_{v.name_hint}"
        parameters.append(f"const int64_t {names.of[v]}")
    if b.pipes is not None:
        parameters.append("unsigned char *const pp_side")
    shared = loop_to_share(block) if optimize and not b.waits else None
    if b.meets:
        functions.headers.setdefault("pypto_meet.h")
        parameters.append("pp_party *const pp_party_")
    kept = kept_of(b, block, optimize)
    streams = Streams(block, function.params, symbols, b.block, b.blocks) if optimize and not b.waits else None
    fields = _fields(function, names, symbols)
    fields += _turns(names, streams) + ([KEPT] if kept is not None and kept.roots else [])
    parameters += [f"{t}const {n}" for t, n in fields]
    if shared is not None:
        parameters += ["const int64_t pp_share", "const int64_t pp_shares"]
    e = Emitter(w, names, sites, offsets, total, functions)
    e.shared, e.kept, e.streams = shared, kept, streams
    w.line(f"/* {function.name}: {stage_of(function)} stage */")
    with w.block(f"static int64_t kernel_{c_name(function.name)}({', '.join(parameters)})"):
        _body(e, b, block)
    apart = why_blocks_meet(b.body, b.block, e.touches, e.values) if optimize else "optimizations are off"
    apart = "they wait for each other" if b.waits else apart
    if shared is not None or b.waits or apart is None:
        _launch(w, c_name(function.name), fields)
    if b.waits:
        (_one_block if b.meets else _beside)(w, c_name(function.name), fields)
    index = {p: i for i, p in enumerate(function.params)}
    touches = tuple((index[t.root.var], t) for t in e.touches if t.root.var is not None and t.root.var in index)
    alone = "it has no parallel loop around all that it does"
    return DeviceCode(
        function,
        w.text(),
        symbols,
        e.scratch_high,
        touches,
        e.values,
        function.ir_stage,
        b.meets,
        tuple(fields),
        shared is not None,
        alone if shared is None else why_trips_meet(shared, e.touches, e.values),
        apart,
        b.pipes,
        optimize,
        b.body,
        streams is not None and streams.calls is not None,
        () if kept is None else tuple(index[r.var] for r in kept.roots if r.var is not None),
    )


def _offsets(b: Base) -> tuple[dict[MemorySpace, int], int]:
    """Where each memory lies in the arena, and the bytes of all."""
    offsets: dict[MemorySpace, int] = {}
    total = 0
    for space in sorted(b.used, key=lambda s: s.value):
        offsets[space] = total
        total += (b.used[space] + 63) // 64 * 64
    return offsets, total


def _body(e: Emitter, b: Base, block: flow.Block) -> None:
    """What the function does, between the flags of stores past the caches and the wait for them."""
    e.w.line("(void)call, (void)mem, (void)pp_block, (void)pp_blocks;")
    _lane(b, e.names, e.w, e.functions)
    begin = len(e.w.lines)
    e.block(block)
    if e.streams is not None:
        e.w.insert(begin, e.streams.begin(e.expr, e.values))
        e.w.all(e.streams.end())
    e.w.line("return 0;")


def _lane(b: Base, names: Names, w: Writer, functions: LaneFunctions) -> None:
    """The vector lane of a function that runs once for each."""
    if isinstance(b.lane, Var):
        names.of[b.lane] = "pp_lane"
        functions.headers.setdefault(HEADER)
        w.line("const int64_t pp_lane = pp_lane_of(pp_side);")
        w.line("(void)pp_lane;")


def _fields(function: Function, names: Names, symbols: Sequence[Var]) -> list[tuple[str, str]]:
    """C types and names of what a launch passes."""
    fields: list[tuple[str, str]] = []
    for p in function.params:
        name = names.bind(p)
        if isinstance(p.type, TensorType):
            fields.append((f"{element_type(p.type.dtype)} *", name))
        elif isinstance(p.type, ScalarType):
            fields.append((f"{C_TYPES[p.type.dtype]} ", name))
        else:
            raise InternalError(f"{function.name}: parameter '{p.name_hint}' has no native form")
    return fields + [("int64_t ", names.bind(s)) for s in symbols]


def _turns(names: Names, streams: Streams | None) -> list[tuple[str, str]]:
    """The field that says how often loops call the function, where its stores ask."""
    if streams is None or streams.calls is None:
        return []
    names.of[streams.calls] = "pp_calls"
    return [("int64_t ", "pp_calls")]


def _launch(w: Writer, name: str, fields: Sequence[tuple[str, str]]) -> None:
    """The arguments of a launch as a structure."""
    with w.block("typedef struct", tail=f"}} launch_{name};"):
        w.all(f"{t}{n};" for t, n in fields or [("char ", "none")])


def _one_block(w: Writer, name: str, fields: list[tuple[str, str]]) -> None:
    """The function that runs one of the blocks of a launch."""
    head = "pypto_call *call, unsigned char *mem, int64_t block, int64_t blocks, pp_party *party, const void *arguments"
    with w.block(f"static int64_t blocks_{name}({head})"):
        w.line(f"const launch_{name} *const a = arguments;")
        given = ", ".join(["call", "mem", "block", "blocks", "party", *(f"a->{n}" for _, n in fields)])
        w.line(f"return kernel_{name}({given});")


def _beside(w: Writer, name: str, fields: list[tuple[str, str]]) -> None:
    """The function that runs beside others of its group."""
    with w.block(f"static int64_t beside_{name}(pp_runner *side)"):
        w.line(f"const launch_{name} *const a = side->arguments;")
        w.line("(void)a;")
        given = ["side->call", "side->mem", "side->block", "side->blocks", "(unsigned char *)side"]
        w.line(f"return kernel_{name}({', '.join([*given, *(f'a->{n}' for _, n in fields)])});")
