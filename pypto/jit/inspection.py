"""What a request comes to, looked at: its memory map, its text for the assembler, and what its native code does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.config import EMIT_PTO_LOC
from pypto.enums import MemoryPlanner
from pypto.jit.request import ProgramRequest, Request
from pypto.jit.specializing import with_statics

if TYPE_CHECKING:
    from pypto.debug.memory_map import MemoryMap
    from pypto.jit.driver import LoweredRequest

__all__ = ["map_memory", "pto_text", "report_text"]


def map_memory(request: Request | ProgramRequest) -> MemoryMap:
    """The memory map of the program as the device would run it; as the host does where nothing else gives addresses."""
    from pypto.debug.memory_map import memory_map

    lowered = _lowered(request)
    planner = request.options.memory_planner
    program = lowered.host if planner is MemoryPlanner.PTOAS else lowered.device
    return memory_map(program, request.options.platform, planner, lowered.tile)


def pto_text(request: Request | ProgramRequest) -> str:
    """The `.pto` text of a request's kernels, with the user's places unless PYPTO_EMIT_PTO_LOC is 0."""
    from pypto.jit.device_text import device_text

    lowered = _lowered(request)
    return device_text(lowered.host, request.options, EMIT_PTO_LOC.get(), lowered.whole).shown()


def report_text(request: Request | ProgramRequest) -> str:
    """For each kernel, the loops of its native code, what they move and compute, and what keeps them apart."""
    from pypto.codegen.native import report
    from pypto.jit.driver import native_unit

    lowered = _lowered(request)
    return report.report_text(lowered.host, native_unit(request, lowered), lowered.stays, addressed=request.options.addressed)


def _lowered(request: Request | ProgramRequest) -> LoweredRequest:
    from pypto.jit import driver

    if isinstance(request, ProgramRequest):
        return driver.lower_request(request)
    return with_statics(request, driver.lower_request)
