"""Frontend, passes, code generation and toolchain in one line: the only file that joins them.

In: a request.  Out: the files of its artifact.  Invariant: compiling is a pure function of the request; equal requests
give equal bytes (of everything but the shared object, which the C compiler answers for).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from pypto.codegen.native.unit import NativeUnit, Parameter, generate
from pypto.codegen.native.unit import Site as CodeSite
from pypto.config import DUMP
from pypto.dtypes import DataType
from pypto.frontend.kernels import ParsedKernel, parse_kernel
from pypto.frontend.signatures import signature
from pypto.frontend.source import pinned
from pypto.frontend.specialization import Argument, StaticArg
from pypto.ir.program import Program
from pypto.jit.request import Constant, ProgramRequest, Request, Specialized
from pypto.jit.stages import STAYS, TEXTLESS
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.diagnostics import DiagnosticPhase, warn
from pypto.passes.framework import Pass
from pypto.passes.manager import Watcher, nested_too_deeply
from pypto.passes.pipeline import lower
from pypto.passes.select_buffer_ir_functions import why_not_selected
from pypto.runtime import stats
from pypto.runtime.linking import compile_kernel
from pypto.runtime.plan import KernelPlan, Param, ScalarParam, Site, TensorParam
from pypto.runtime.ptoas import ABSENT, Ptoas
from pypto.runtime.record import Record
from pypto.runtime.store import Store
from pypto.runtime.toolchain import Toolchain
from pypto.target import require_host

if TYPE_CHECKING:
    from pypto.jit.dumping import Dumping

__all__ = ["build", "build_specialized", "device_files", "lower_request", "native_unit", "parse_request", "specialize"]

_LAST_TILE_PASS = "MaterializeValidShapeSymbols"
_SELECTION = "SelectBufferIRFunctions"


class LoweredRequest(NamedTuple):
    """The final programs of both lanes, and the device's as it was before tiles became buffers.

    `whole`: while mixed kernels could be told apart.
    `stays`: for each kernel that was not chosen for buffers, the selector's reason.
    """

    device: Program
    host: Program
    whole: Program
    tile: Program
    stays: dict[str, str]


def parse_request(request: Request) -> ParsedKernel:
    """The program before any pass."""
    with pinned(request.pins):
        return parse_kernel(request.source, request.arguments, options=request.decorator)


def specialize(request: Request | ProgramRequest) -> Specialized:
    """What of a request is left to do without its source and its values."""
    if isinstance(request, ProgramRequest):
        return Specialized(request.program, request.entry, None, None, request.options, request.optimize)
    parsed = parse_request(request)
    dtypes = {p.name: p.dtype for p in signature(request.source)}
    parameters = tuple((n, _constant(dtypes[n], a)) for n, a in request.arguments.items())
    numbers = {id(s): i for i, s in reversed(list(enumerate(request.sources)))}
    # The frontend numbers sources as it meets them; a warm process knows the order of the key only.
    sources = tuple(numbers.get(id(s), -1) for s in parsed.sources)
    return Specialized(parsed.program, request.entry, parameters, sources, request.options, request.optimize)


def _constant(dtype: DataType | None, argument: Argument) -> Constant | None:
    if not isinstance(argument, StaticArg):
        return None
    assert dtype is not None
    return Constant(dtype, argument.value)


def lower_request(request: Request | ProgramRequest, watch: Watcher | None = None) -> LoweredRequest:
    """The program after all passes; `watch` sees those of the device lane."""
    return lower_specialized(specialize(request), watch)


def lower_specialized(request: Specialized, watch: Watcher | None = None) -> LoweredRequest:
    stats.count("pipeline_runs")
    tiles: list[Program] = []
    chosen: list[Program] = []

    def keep(number: int, p: Pass, program: Program) -> None:
        if p.name == _LAST_TILE_PASS:
            tiles.append(program)
        if p.name == _SELECTION:
            chosen.append(program)
        if watch is not None:
            watch(number, p, program)

    warn(request.program, DiagnosticPhase.PRE_PIPELINE)
    lowered = lower(request.program, request.options, watch=keep)
    warn(lowered.device, DiagnosticPhase.POST_PIPELINE)
    stays = _stays(chosen[0] if chosen else lowered.device, request.options)
    return LoweredRequest(*lowered, tiles[0] if tiles else lowered.device, stays)


def _stays(program: Program, options: PassOptions) -> dict[str, str]:
    """Why kernels stay at tile stage; the program is the one that the selection saw, or any where it does not run."""
    found = {}
    for f in program.function_list:
        if f.is_device and not f.attrs.get("buffer_ir_selected"):
            found[f.name] = why_not_selected(f, options) or "its attribute buffer_ir_selected says so"
    return found


def build(
    request: Request | ProgramRequest, toolchain: Toolchain, store: Store, directory: str, watch: Watcher | None = None
) -> None:
    """Write the artifact of a request into an empty directory; what kernels share is in `store`.

    ToolchainError T130: it is for a device; it is no artifact that could be called.
    """
    require_host(request.options.platform)
    build_specialized(specialize(request), toolchain, store, directory, watch)


def build_specialized(
    request: Specialized, toolchain: Toolchain, store: Store, directory: str, watch: Watcher | None = None
) -> None:
    """As `build`, of a request that the frontend is done with."""
    require_host(request.options.platform)
    dump = _dumping(request)
    lowered = lower_specialized(request, watch if dump is None else _both(watch, dump.after))
    unit = native_unit(request, lowered)

    def other_files() -> dict[str, bytes]:
        files = device_files(lowered, request.options, toolchain.ptoas, directory)
        return {**files, "plan.msgpack": plan_of(request, unit).to_bytes()}

    others = _Once(other_files)
    if toolchain.ptoas is not None:
        others.result()  # What the assembler refuses costs no run of the C compiler.
    compile_kernel(toolchain, store, unit.source, unit.routines, directory, others.attempt)
    files = others.result()
    for name, data in files.items():
        with open(os.path.join(directory, name), "wb") as f:
            f.write(data)
    if dump is not None:
        dump.finish(lowered, unit, files)


class _Once:
    """Work that may be done while the C compiler works, so that nobody waits for both; its errors come with its result."""

    def __init__(self, work: Callable[[], dict[str, bytes]]) -> None:
        self._work = work
        self._done: dict[str, bytes] | None = None
        self._error: Exception | None = None

    def attempt(self) -> None:
        if self._done is None and self._error is None:
            try:
                self._done = self._work()
            except Exception as e:
                self._error = e

    def result(self) -> dict[str, bytes]:
        self.attempt()
        if self._error is not None:
            raise self._error
        assert self._done is not None
        return self._done


def native_unit(request: Request | ProgramRequest | Specialized, lowered: LoweredRequest) -> NativeUnit:
    """The C of a request, and its facts; CompileError for expressions that are nested too deeply."""
    try:
        return generate(lowered.host, request.entry, addressed=request.options.addressed, optimize=request.optimize)
    except RecursionError:
        raise nested_too_deeply(lowered.host) from None


def _dumping(request: Specialized) -> Dumping | None:
    root = DUMP.get()
    if not root:
        return None
    from pypto.jit.dumping import Dumping

    return Dumping(request, root)


def _both(first: Watcher | None, second: Watcher) -> Watcher:
    def watch(number: int, p: Pass, program: Program) -> None:
        if first is not None:
            first(number, p, program)
        second(number, p, program)

    return watch


def device_files(lowered: LoweredRequest, options: PassOptions, ptoas: Ptoas | None, directory: str) -> dict[str, bytes]:
    """What an artifact says of the device: the final program and its tile stage, and the texts, assembled if `ptoas` is there.

    `directory`: where the assembler may work; nothing is left there.
    """
    # Loaded while the C compiler works.
    from pypto.ir.serialization import serialize
    from pypto.jit.device_text import assembled, device_text, file_name

    files = {"device.msgpack": serialize(lowered.device)}
    if lowered.tile is not lowered.device:
        files["tile.msgpack"] = serialize(lowered.tile)
    if lowered.stays:
        files[STAYS] = Record(lowered.stays).encoded
    texts = device_text(lowered.host, options, False, lowered.whole)
    files |= {file_name(name): text.encode() for name, text in texts.modules.items()}
    if reasons := texts.reasons():
        files[TEXTLESS] = Record(reasons).encoded
    if texts.broken and "logging" in sys.modules:
        sys.modules["logging"].getLogger("pypto.jit.driver").error("no .pto text: %s", reasons)
    if ptoas is not None:
        files |= assembled(texts, lowered.host, lowered.whole, options, ptoas, directory)
    elif texts.modules and "logging" in sys.modules:  # where nobody imported it, nobody listens
        sys.modules["logging"].getLogger("pypto.jit.driver").info("%s", ABSENT)
    return files


def plan_of(request: Specialized, unit: NativeUnit) -> KernelPlan:
    """The unit's facts as the launcher wants them; a constant parameter keeps its place and takes one value only."""
    params: list[Param] = []
    position: list[int] = []  # of the unit's parameters among all
    compiled = iter(unit.parameters)
    for name, constant in request.parameters or ():
        if constant is not None:
            params.append(ScalarParam(name, constant.dtype, constant.value))
        else:
            position.append(len(params))
            params.append(_param(name, next(compiled)))
    for p in compiled:
        position.append(len(params))
        params.append(_param(_unique(p.name, params) if p.hidden else p.name, p))
    return KernelPlan(
        request.entry,
        tuple(params),
        unit.symbols,
        tuple((position[i], position[j]) for i, j in unit.aliases),
        None if unit.returns is None else tuple(position[i] for i in unit.returns),
        unit.scratch_bytes,
        unit.work,
        tuple(_site(s, request.sources) for s in unit.sites),
    )


def _unique(name: str, params: Sequence[Param]) -> str:
    """The name of an output that no caller passes: temporaries of several kernels, and parameters, may have one name."""
    taken = {p.name for p in params}
    return name if name not in taken else next(n for i in count(1) if (n := f"{name}_{i}") not in taken)


def _param(name: str, p: Parameter) -> Param:
    if p.dims is None:
        return ScalarParam(name, p.dtype)
    return TensorParam(name, p.dtype, p.dims, p.direction, p.hidden)


def _site(site: CodeSite, sources: tuple[int, ...] | None) -> Site:
    number = site.source
    if sources is not None:
        number = sources[number] if 0 <= number < len(sources) else -1
    return Site(site.kind, site.message, number, site.ordinal)
