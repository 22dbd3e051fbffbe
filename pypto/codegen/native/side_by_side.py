"""A group's functions that run side by side on pipes, as C.

In: the functions that a group starts, with the texts of their arguments.  Out: statements that make the pipes, run the functions
and hand on what failed.
Invariant: every function has scratch memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from pypto.codegen.native.access import FaultKind
from pypto.codegen.native.device import DeviceCode
from pypto.codegen.native.emit import Sites, c_name
from pypto.codegen.native.pipes import key_of
from pypto.codegen.native.rectangles import dtype_of, extents
from pypto.codegen.native.writer import Writer
from pypto.enums import FunctionType
from pypto.errors import CompileError, NotSupportedError
from pypto.ir.ops.pipes import POP, PUSH
from pypto.ir.program import Function
from pypto.ir.types import Type
from pypto.ir.verify.pipe_ends import Channel, PipeUse, slots_of
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Groups"]

_MEMORY = "there is no memory, or no thread, for the functions of a group\nlet fewer of them run at the same time"
_OPEN = "open it in both functions with initialize_pipe"
_LEFT = "{0} tiles were pushed and never popped\npop as many tiles as the other function pushes"


class _Entry(Protocol):
    w: Writer
    sites: Sites


class _Start(NamedTuple):
    code: DeviceCode
    number: int
    position: tuple[str, ...]


class Groups:
    """The groups that an entry starts."""

    def __init__(self, entry: _Entry) -> None:
        self.entry = entry
        self.current: _SideBySide | None = None
        self.started = 0

    def start(self, code: DeviceCode, position: Sequence[str], arguments: Sequence[str], span: Span) -> None:
        """A function with pipes, among those that run side by side."""
        name = code.function.name
        if code.meets:
            what = f"'{name}' waits for other blocks and passes tiles through pipes: that is not executed on the host"
            raise NotSupportedError(what, span, "let blocks meet in a kernel of its own")
        if self.current is None:
            what = f"'{name}' is one end of a pipe, and the other end does not run beside it"
            raise NotSupportedError(what, span, "call both from a function with type=pl.FunctionType.Group")
        self.current.add(code, position, arguments)

    @contextmanager
    def around(self, callee: Function, span: Span) -> Iterator[None]:
        """The body of a function that starts others: of a group's, those with pipes run when all of them are started."""
        outside, self.current = self.current, None
        if callee.func_type is FunctionType.Group:
            self.current = _SideBySide(self.entry, self.started)
        yield
        if self.current is not None and self.current.starts:
            self.current.run(span)
            self.started += len(self.current.starts)
        self.current = outside


class _SideBySide:
    """The functions of one group, in the order in which they are started; `first` numbers them within the unit."""

    def __init__(self, entry: _Entry, first: int) -> None:
        self.entry, self.first = entry, first
        self.starts: list[_Start] = []

    def add(self, code: DeviceCode, position: Sequence[str], arguments: Sequence[str]) -> None:
        """A function that is to run with these arguments, in this place of the launch."""
        n = self.first + len(self.starts)
        given = ", ".join(arguments) or "0"
        self.entry.w.line(f"const launch_{c_name(code.function.name)} given_{n} = {{{given}}};")
        self.starts.append(_Start(code, n, tuple(position)))

    def run(self, span: Span) -> None:
        """Everything that was added, to its end."""
        w, n = self.entry.w, self.first
        uses = [s.code.pipes for s in self.starts if s.code.pipes is not None]
        lanes, slots = max(u.lanes for u in uses), slots_of(uses)
        for t in (t for u in uses for t in u.transfers if t.channel not in slots):
            raise CompileError(f"{t.channel.text()} is not open", t.call.span, _OPEN, code="C064")
        runners = []
        for s, use in zip(self.starts, uses, strict=True):
            cube = "true" if use.core == "aic" else "false"
            for lane in range(use.lanes):
                name = c_name(s.code.function.name)
                parts = ("call", f"beside_{name}", f"&given_{s.number}", *s.position, str(s.code.scratch), str(lane), cube)
                runners.append("{" + ", ".join(parts) + "}")
        channels = [f"{{{key_of(c)}, {n_slots}, {_slot_bytes(uses, c)}}}" for c, n_slots in slots.items()]
        w.line(f"pp_runner runners_{n}[] = {{{', '.join(runners)}}};")
        w.line(f"pp_channel channels_{n}[] = {{{', '.join(channels)}}};")
        w.line(f"pp_group group_{n} = {{runners_{n}, {len(runners)}, channels_{n}, {len(channels)}, {lanes}}};")
        w.line(f"const int64_t failed_{n} = pp_group_run(&group_{n});")
        ends: list[tuple[str, FaultKind, str, str]] = [("PP_NO_MEMORY", "memory", _MEMORY, "0")]
        for i, c in enumerate(slots):
            ends.append((f"PP_LEFT_OVER({i})", "value", f"{c.text()}: {_LEFT}", f"group_{n}.left"))
        for value, kind, message, shown in ends:
            site = self.entry.sites.add(kind, message, span)
            with w.block(f"if (failed_{n} == {value})"):
                w.line(f"return pp_fault(call, {site}, {shown}, 0, 0);")
        with w.block(f"if (failed_{n})"):
            w.line(f"return failed_{n};")


def _slot_bytes(uses: Sequence[PipeUse], channel: Channel) -> int:
    """Room for the largest tile that anybody pushes or pops."""
    passed = [t for u in uses for t in u.transfers if t.channel == channel and t.kind in (PUSH, POP)]
    return max((_bytes(t.call.args[0].type if t.kind == PUSH else t.call.type) for t in passed), default=1)


def _bytes(t: Type) -> int:
    rows, cols = extents(t)
    return rows * cols * dtype_of(t).get_byte()
