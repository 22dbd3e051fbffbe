"""Judge of hard barriers: a core that has no block never comes, and one that begins late keeps all others waiting.

Codes: 640 a launch that leaves cores of the barrier's type without a block, or has more blocks than there are cores, 641 one
whose blocks need not begin together.  `launch_findings` judges for given chips; the property holds if some chip is filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pypto.enums import FunctionType
from pypto.ir.expr import Call, ConstInt, Submit
from pypto.ir.ops.system import HARD
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.named import NamedTuple
from pypto.span import Span
from pypto.target.chip import CHIPS, Chip

__all__ = ["hard_syncall_occupancy_valid", "launch_findings"]

_WRAPPERS = (FunctionType.Spmd, FunctionType.Group)
_SOFT = 'mode="soft" with a workspace meets without filling the chip'


def hard_syncall_occupancy_valid(program: Program) -> Iterator[Diagnostic]:
    return launch_findings(program, CHIPS.values())


def launch_findings(program: Program, chips: Iterable[Chip]) -> Iterator[Diagnostic]:
    """What is wrong with the launches of kernels that hold hard barriers, on each of these chips."""
    chips, meeting = tuple(chips), _Meeting(program)
    for f in program.function_list:
        for n in walk(f.body):
            if not isinstance(n, (Call, Submit)):
                continue
            cores = meeting.cores(n.op.name)
            launch = _launch(n)
            if cores and not (launch.blocks is None and f.func_type in _WRAPPERS):
                yield from _judged(launch, cores, chips)


class _Launch(NamedTuple):
    """`blocks`: an expression, or None for a call that is one block."""

    blocks: Any
    together: bool
    span: Span


def _launch(n: Call | Submit) -> _Launch:
    if isinstance(n, Submit):
        return _Launch(n.core_num, n.sync_start, n.span)
    return _Launch(n.attrs.get("core_num"), bool(n.attrs.get("sync_start")), n.span)


class _Meeting:
    """The types of cores that meet in the functions of a program."""

    def __init__(self, program: Program) -> None:
        self.functions = {f.name: f for f in program.function_list}
        self.known: dict[str, frozenset[str]] = {}

    def cores(self, name: str) -> frozenset[str]:
        f = self.functions.get(name)
        if f is None:
            return frozenset()
        if name not in self.known:
            self.known[name] = frozenset()
            self.known[name] = self._found(f)
        return self.known[name]

    def _found(self, f: Function) -> frozenset[str]:
        calls = [n for n in walk(f.body) if isinstance(n, Call)]
        own = (
            c.kwargs.get("core_type", "mix")
            for c in calls
            if c.op.name == "system.syncall" and c.kwargs.get("mode", HARD) == HARD
        )
        # A function that launches blocks of its own is judged where it does.
        inner = (self.cores(c.op.name) for c in calls if "core_num" not in c.attrs)
        return frozenset(own).union(*inner)


def _judged(launch: _Launch, cores: frozenset[str], chips: tuple[Chip, ...]) -> Iterator[Diagnostic]:
    blocks = 1 if launch.blocks is None else launch.blocks.value if isinstance(launch.blocks, ConstInt) else None
    for core in sorted(cores):
        want = sorted({c.cores(core) for c in chips})
        if blocks not in want:
            has = "a number of blocks that only a run knows" if blocks is None else f"{blocks} block{'s' if blocks != 1 else ''}"
            counts = " or ".join(map(str, want))
            what = f"a hard syncall ({core}) in a launch of {has}: it waits for every core, and there are {counts}"
            yield _finding(640, what, launch.span, f"pl.spmd({want[0]}, sync_start=True); {_SOFT}")
        elif not launch.together:
            what = f"a hard syncall ({core}) in a launch whose blocks need not begin together"
            yield _finding(641, what, launch.span, f"pl.spmd({blocks}, sync_start=True); {_SOFT}")


def _finding(code: int, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(Severity.Error, "HardSyncallOccupancyValid", code, message, span, hint=hint)
