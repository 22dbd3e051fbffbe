"""Frontend, passes, code generation and toolchain in one line: the only file that joins them.

In: a request.  Out: the files of its artifact.  Invariant: compiling is a pure function of the request; equal requests
give equal bytes (of everything but the shared object, which the C compiler answers for).
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from pypto.codegen.native.unit import NativeUnit, generate
from pypto.enums import MemoryPlanner
from pypto.frontend.kernels import ParsedKernel, parse_kernel
from pypto.frontend.source import Source
from pypto.frontend.specialization import StaticArg
from pypto.ir.program import Program
from pypto.ir.serialization import serialize
from pypto.jit.request import Request
from pypto.passes.framework import Pass
from pypto.passes.pipeline import lower
from pypto.runtime import stats
from pypto.runtime.build import compile_shared
from pypto.runtime.plan import KernelPlan, Param, ScalarParam, Site, TensorParam
from pypto.runtime.toolchain import Toolchain

__all__ = ["FILES", "build", "lower_request", "parse_request"]

FILES = ("plan.msgpack", "kernel.so")  # what a warm call needs
_LAST_TILE_PASS = "MaterializeValidShapeSymbols"
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runtime", "include")


class LoweredRequest(NamedTuple):
    """The final programs of both lanes, and the device's as it was before tiles became buffers."""

    device: Program
    host: Program
    tile: Program
    sources: tuple[Source, ...]


def parse_request(request: Request) -> ParsedKernel:
    """The program before any pass."""
    return parse_kernel(request.source, request.arguments, options=request.decorator)


def lower_request(request: Request) -> LoweredRequest:
    """The program after all passes."""
    stats.count("pipeline_runs")
    parsed = parse_request(request)
    tiles: list[Program] = []

    def watch(_: int, p: Pass, program: Program) -> None:
        if p.name == _LAST_TILE_PASS:
            tiles.append(program)

    lowered = lower(parsed.program, request.options, watch=watch)
    return LoweredRequest(lowered.device, lowered.host, tiles[0] if tiles else lowered.device, parsed.sources)


def build(request: Request, toolchain: Toolchain, directory: str) -> None:
    """Write the artifact of a request into an empty directory."""
    lowered = lower_request(request)
    addressed = request.options.memory_planner is not MemoryPlanner.PTOAS
    unit = generate(lowered.host, request.source.name, addressed=addressed, optimize=request.optimize)
    compile_shared(toolchain, {"kernel.c": unit.source}, directory, "kernel.so", include_dirs=[INCLUDE])
    _write(directory, "plan.msgpack", plan_of(request, unit, lowered.sources).to_bytes())
    _write(directory, "device.msgpack", serialize(lowered.device))
    if lowered.tile is not lowered.device:
        _write(directory, "tile.msgpack", serialize(lowered.tile))


def _write(directory: str, name: str, data: bytes) -> None:
    with open(os.path.join(directory, name), "wb") as f:
        f.write(data)


def plan_of(request: Request, unit: NativeUnit, parsed: tuple[Source, ...]) -> KernelPlan:
    """The unit's facts as the launcher wants them; a static parameter keeps its place and takes one value only."""
    params: list[Param] = []
    position: dict[int, int] = {}
    compiled = list(unit.parameters)
    for name, a in request.arguments.items():
        if isinstance(a, StaticArg):
            params.append(ScalarParam(name, _static_dtype(request, name, a), a.value))
            continue
        p = compiled.pop(0)
        position[len(unit.parameters) - len(compiled) - 1] = len(params)
        params.append(
            ScalarParam(name, p.dtype)
            if p.dims is None
            else TensorParam(name, p.dtype, p.dims, _direction(p.direction), p.hidden)
        )
    for h in compiled:
        position[len(unit.parameters) - len(compiled) + compiled.index(h)] = len(params)
        assert h.dims is not None
        params.append(TensorParam(h.name, h.dtype, h.dims, "out", True))
    return KernelPlan(
        request.source.name,
        tuple(params),
        unit.symbols,
        tuple((position[i], position[j]) for i, j in unit.aliases),
        None if unit.returns is None else tuple(position[i] for i in unit.returns),
        unit.scratch_bytes,
        unit.work,
        tuple(_site(s, parsed, request.sources) for s in unit.sites),
    )


def _site(site: Any, parsed: tuple[Source, ...], sources: tuple[Source, ...]) -> Site:
    """The frontend numbers sources as it meets them; a warm process knows the order of the key only."""
    kind, message, number, ordinal = site
    here = parsed[number] if 0 <= number < len(parsed) else None
    at = next((i for i, s in enumerate(sources) if s is here), -1)
    return Site(kind, message, at, ordinal)


def _direction(text: str) -> Any:
    return text


def _static_dtype(request: Request, name: str, a: StaticArg) -> Any:
    from pypto.jit.parameters import parameters_of

    return next(p.dtype for p in parameters_of(request.source, {}) if p.name == name)
