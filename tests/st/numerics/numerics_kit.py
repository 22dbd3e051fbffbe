"""What the numerical tests share: the ways to run a kernel that cost little, and kernels made from statements.

In: a kernel and argument lists of one specialization.  Out: the arrays after each call, on which native code with and
without optimizations, planners, Buffer IR on and off, and the interpreter before and after the passes agree to the bit.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lab import Way, agree_natively, arrays, assert_same_bits, copies, native
from programs_kit import module

from pypto.debug import Placement, interpret
from pypto.enums import MemoryPlanner
from pypto.jit import JITFunction
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

__all__ = ["PLACED", "TWO", "Way", "agree", "everywhere", "scope"]

# Everything differs at once: enough where the choice of storage is not what a test is about.
TWO = (Way(), Way(MemoryPlanner.PTOAS, False, False))
# Each planner, and Buffer IR on and off for the one that shares storage most.
PLACED = (
    Way(),
    Way(MemoryPlanner.DSA_RP, True, False),
    Way(MemoryPlanner.PTOAS, False, False),
    Way(buffers=False, optimize=False),
)


def agree(kernel: JITFunction, *calls: Sequence[Any], ways: Iterable[Way] = TWO, early: bool = True) -> list[list[np.ndarray]]:
    """The arrays after each call.  `early` off: only the lowered program means the same."""
    ways = tuple(ways)
    wanted = agree_natively(lambda args, way: native(kernel, args, way), calls, ways)
    program = kernel.specialize(*calls[0])
    entry = program.get_function(kernel.__name__)
    assert entry is not None
    known = {p.name_hint for p in entry.params}
    kept = [i for i, name in enumerate(kernel.source.parameters) if name in known]
    stages = [("as parsed", program, Placement.VALUES)] if early else []
    for planner, buffers in dict.fromkeys((w.planner, w.buffers) for w in ways[1:]):
        place = Placement.PRIVATE if planner is MemoryPlanner.PTOAS else Placement.ADDRESSED
        host = lower(program, PassOptions(memory_planner=planner, enable_buffer_ir=buffers)).host
        stages.append((f"for the host, {Way(planner, buffers)}", host, place))
    for stage, p, placement in stages:
        for args, want in zip(calls, wanted, strict=True):
            given = copies(args)
            interpret(p, [given[i] for i in kept], kernel.__name__, placement)
            assert_same_bits(arrays(given), want, f"interpreted, {stage}")
    return wanted


def everywhere(kernel: JITFunction, *args: Any, ways: Iterable[Way] = TWO, early: bool = True) -> list[np.ndarray]:
    """The arrays among `args` after one call."""
    return agree(kernel, args, ways=ways, early=early)[0]


def scope(parameters: str, lines: Iterable[str], folder: Path) -> JITFunction:
    """A kernel `k` that is one scope of these statements; what is written is the parameter `o`."""
    head = ["import pypto.language as pl", "@pl.jit", f"def k({parameters}):", "    with pl.at(level=pl.Level.CORE_GROUP):"]
    made: JITFunction = module("\n".join([*head, *(f"        {line}" for line in lines), "    return o", ""]), folder).k
    return made
