"""A final program as one C translation unit.

In: the program that the host executes, its entry, and the options that decide the code.  Out: the text, and everything
a caller has to know: parameters, extents, scratch, which arrays may coincide, what can fail where.
Invariant: the text is a function of the program alone; nothing of files, lines, time or order of compilation is in it.
"""

from __future__ import annotations

from typing import Literal

from pypto.codegen.native.alias import exact_alias_is_safe
from pypto.codegen.native.device import DeviceCode, emit_device, symbols_of
from pypto.codegen.native.emit import Site, Sites
from pypto.codegen.native.functions import LaneFunctions
from pypto.codegen.native.local_arrays import definitions
from pypto.codegen.native.orchestration import Entry, EntryLoop, emit_entry
from pypto.codegen.native.overlap import given_memory_twice
from pypto.codegen.native.products import LINKED
from pypto.codegen.native.tasks import in_program_order
from pypto.dtypes import DataType
from pypto.enums import FunctionIRStage, FunctionType, ParamDirection
from pypto.errors import InternalError, NotSupportedError
from pypto.ir.expr import Call, ConstInt, Expr, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import ReturnStmt, flatten_to_stmts, seq
from pypto.ir.types import ScalarType
from pypto.ir.verify.roots import Access, Flow, accesses, merged_direction
from pypto.named import NamedTuple

__all__ = ["NativeUnit", "Parameter", "Site", "generate"]


Direction = Literal["in", "out", "inout"]
# What launches kernels and is called by what does: it is written in place.
_EXPANDED = (FunctionType.Spmd, FunctionType.Group, FunctionType.Opaque, FunctionType.Orchestration)


class Parameter(NamedTuple):
    """A parameter of the entry: a tensor with dims (static, or -1-k for symbol k), or a scalar (dims None)."""

    name: str
    dtype: DataType
    dims: tuple[int, ...] | None
    direction: Direction
    hidden: bool = False


class NativeUnit(NamedTuple):
    """C text, what is linked with it, and the facts of its call.

    `loops`: the parallel loops of the entry.  `fused`: the kernels whose operations may share loops.
    `sharing`: for each kernel, why its trips and the blocks of a launch of it are not shared by threads; None where they are.
    """

    source: str
    routines: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    symbols: tuple[str, ...]
    aliases: tuple[tuple[int, int], ...]
    returns: tuple[int, ...] | None
    scratch_bytes: int
    work: int
    sites: tuple[Site, ...]
    stages: dict[str, str]
    sharing: dict[str, tuple[str | None, str | None]]
    fused: frozenset[str]
    loops: tuple[EntryLoop, ...]


_DIRECTIONS: dict[ParamDirection, Direction] = {ParamDirection.In: "in", ParamDirection.Out: "out", ParamDirection.InOut: "inout"}


def generate(program: Program, entry: str, *, addressed: bool = True, optimize: bool = True) -> NativeUnit:
    """The unit whose `pypto_entry` runs `entry`.

    addressed: tiles have final addresses (False: allocations are identities, placed here).  optimize: False keeps
    every operation apart and every tile in memory.
    """
    program = program.with_functions(f if f.is_device else in_program_order(f) for f in program.function_list)
    main = program.get_function(entry)
    if main is None:
        raise InternalError(f"the program has no function '{entry}'")
    if main.func_type not in (FunctionType.Orchestration, FunctionType.Opaque):
        raise NotSupportedError(
            f"'{entry}' is a {main.func_type.name} function; an entry is an orchestration function", main.span
        )
    sites, functions = Sites(), LaneFunctions()
    devices: dict[str, DeviceCode] = {}
    flow = Flow(program)
    wrappers: dict[str, Function] = {}
    twice = given_memory_twice(program, main, flow)  # for these, the proofs would take one memory for two
    for name in _reachable(program, main):
        f = program.get_function(name)
        if f is not None and f.is_device:
            devices[name] = emit_device(f, addressed, optimize and name not in twice, sites, functions)
        elif f is not None and f.func_type in _EXPANDED:
            wrappers[name] = _by_parameters(f, flow)
    arena = max((d.scratch for d in devices.values()), default=0)
    e = emit_entry(main, devices, wrappers, sites, (arena + 63) // 64 * 64, flow.roots(main))
    headers = [f'#include "{h}"' for h in ("pypto_kernel.h", *functions.headers)]
    parts = [
        *headers,
        "",
        *definitions((main, *wrappers.values(), *(d.function for d in devices.values()))),
        *functions.definitions,
        *(d.text for d in devices.values()),
        e.text,
    ]
    symbols = symbols_of(main)
    return NativeUnit(
        "\n".join(parts),
        tuple(LINKED[h] for h in functions.headers if h in LINKED),
        _parameters(main, _directions(main, flow), e, symbols),
        tuple(s.name_hint for s in symbols),
        _aliases(main, e, devices),
        e.returns,
        e.scratch,
        0,
        tuple(sites.list),
        {n: ("buffer" if d.stage is FunctionIRStage.Buffer else "tile") for n, d in devices.items()},
        {n: (d.trips, d.blocks) for n, d in devices.items()},
        frozenset(devices) - twice if optimize else frozenset(),
        e.loops,
    )


def _by_parameters(f: Function, flow: Flow) -> Function:
    """The function, returning its parameters where it returns what became of them."""
    *stmts, last = flatten_to_stmts(f.body) or [f.body]
    if not isinstance(last, ReturnStmt):
        return f
    roots = flow.roots(f)
    sources = [roots.only(v) if isinstance(v, Var) and isinstance(v.type, TensorType) else None for v in last.value]
    params = set(map(id, f.params))
    values = [v if s is None or id(s) not in params else s for s, v in zip(sources, last.value, strict=True)]
    return f.replace(body=seq([*stmts, last.replace(value=tuple(values))], f.body.span))


def _reachable(program: Program, main: Function) -> list[str]:
    """Functions that the entry calls, in the program's order."""
    called, work = {main.name}, [main]
    while work:
        for n in walk(work.pop().body):
            if isinstance(n, Call):
                f = program.get_function(n.op.name)
                if f is not None and f.name not in called:
                    called.add(f.name)
                    work.append(f)
    return [f.name for f in program.function_list if f.name in called and f is not main]


def _directions(main: Function, flow: Flow) -> tuple[ParamDirection, ...]:
    """What callers must grant: a parameter without a mark counts as written if anything writes it."""
    found = accesses(main.body, flow.roots(main))
    return tuple(
        merged_direction(found.get(p, Access())) if d is ParamDirection.In else d
        for p, d in zip(main.params, main.param_directions, strict=True)
    )


def _parameters(
    main: Function, directions: tuple[ParamDirection, ...], e: Entry, symbols: tuple[Var, ...]
) -> tuple[Parameter, ...]:
    number = {s: i for i, s in enumerate(symbols)}
    out = []
    for p, d in zip(main.params, directions, strict=True):
        out.append(_parameter(p, number, _DIRECTIONS[d], False))
    out += [_parameter(h, number, "out", True) for h in e.hidden]
    return tuple(out)


def _parameter(p: Var, number: dict[Var, int], direction: Direction, hidden: bool) -> Parameter:
    t = p.type
    if isinstance(t, ScalarType):
        return Parameter(p.name_hint, t.dtype, None, "in")
    assert isinstance(t, TensorType)
    return Parameter(p.name_hint, t.dtype, tuple(_dim(d, number, p) for d in t.shape), direction, hidden)


def _dim(d: Expr, number: dict[Var, int], p: Var) -> int:
    if isinstance(d, ConstInt):
        return d.value
    if isinstance(d, Var) and d in number:
        return -1 - number[d]
    raise NotSupportedError(
        f"'{p.name_hint}': an extent that is an expression", p.span, "give the extent a pl.dynamic name of its own"
    )


def _aliases(main: Function, e: Entry, devices: dict[str, DeviceCode]) -> tuple[tuple[int, int], ...]:
    """Pairs of tensor parameters, lower index first, that may be exactly the same array."""
    pairs = []
    tensors = [i for i, p in enumerate(main.params) if isinstance(p.type, TensorType)]
    for n, i in enumerate(tensors):
        for j in tensors[n + 1 :]:
            if _safe(i, j, e, devices):
                pairs.append((i, j))
    return tuple(pairs)


def _safe(i: int, j: int, e: Entry, devices: dict[str, DeviceCode]) -> bool:
    """One launch touches both, outside any loop, and its kernel reads the one before it writes the other."""
    users = [c for c in e.launches if i in c.arguments or j in c.arguments]
    if len(users) != 1 or users[0].in_loop or {i, j} & e.direct:
        return False
    launch = users[0]
    if launch.arguments.count(i) != 1 or launch.arguments.count(j) != 1:
        return False
    code = devices[launch.callee]
    touches = code.touches
    a = [t for k, t in touches if launch.arguments[k] == i]
    b = [t for k, t in touches if launch.arguments[k] == j]
    return exact_alias_is_safe(a, b, code.values) or exact_alias_is_safe(b, a, code.values)
