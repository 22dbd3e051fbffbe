"""Pipes between cores, and the functions that run side by side on them.

In: the functions that a group starts.  Out: what their pushes, pops and frees do.  One function runs at a time: each until it
waits for a tile or for a free slot, in the order in which they were started, so that a run is the same every time.
Invariant: a pipe has the slots that its buffer has room for; functions that all wait are an error that says for what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.frame import Value
from pypto.debug.lanes import Array
from pypto.debug.turns import Actor
from pypto.dtypes import DataType
from pypto.errors import KernelBoundsError, KernelError
from pypto.ir.expr import Var
from pypto.ir.ops.pipes import BUFFER, FREE, PIPE, POP, PUSH, axis_of
from pypto.ir.verify.pipe_ends import C2V, V2C, Channel, PipeUse, slots_of
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["PIPES", "Cluster", "Ends"]


class _Parcel(NamedTuple):
    """A tile on its way: its physical extents, what is valid of it, and how the lanes share it."""

    data: Array
    shape: tuple[int, ...]
    dtype: DataType
    split: int


class _Queue:
    """One lane of one direction of a pipe."""

    def __init__(self, slots: int) -> None:
        self.slots, self.taken = slots, 0  # taken from the push until the free
        self.parcels: deque[_Parcel] = deque()
        self.popped = 0


class _Runner(Actor):
    """A function that runs side by side with others."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(work)
        self.name = name
        self.ready: Callable[[], bool] | None = None
        self.waits = ""
        self.span = Span.unknown()
        self.popped: dict[Var, Channel] = {}

    def wait(self, ready: Callable[[], bool], what: str, span: Span) -> None:
        """Called by the function itself: give the turn away until something is so."""
        while not ready():
            self.ready, self.waits, self.span = ready, what, span
            self.pause()
        self.ready = None

    @property
    def able(self) -> bool:
        """Whether it would go on, had it the turn."""
        return not self.ended and (self.ready is None or self.ready())


class Ends(NamedTuple):
    """What one running function has of its group's pipes."""

    cluster: Cluster
    runner: _Runner
    core: str


class Cluster:
    """The functions of one group and their pipes."""

    def __init__(self, members: Iterable[PipeUse]) -> None:
        members = tuple(members)
        self.lanes = max((u.lanes for u in members), default=1)
        self.queues: dict[Channel, list[_Queue]] = {
            channel: [_Queue(n) for _ in range(self.lanes)] for channel, n in slots_of(members).items()
        }
        self.runners: list[_Runner] = []

    def add(self, use: PipeUse, lane: int, work: Callable[[Ends], None]) -> None:
        """A function that is to run; `work` executes it."""
        name = f"'{use.function.name}'" + (f" on lane {lane}" if use.lanes > 1 else "")
        runner = _Runner(name, lambda: work(ends))
        ends = Ends(self, runner, use.core)
        self.runners.append(runner)

    def run(self, span: Span) -> None:
        """All functions to their ends; the first failure is raised here."""
        try:
            while any(not r.ended for r in self.runners):
                if not any(r.able for r in self.runners):
                    raise self._deadlock()
                for r in self.runners:
                    if r.able:
                        r.turn()
                    if r.error is not None:
                        raise r.error
        finally:
            for r in self.runners:
                r.stop()
        self._leftovers(span)

    def _deadlock(self) -> KernelError:
        waiting = [r for r in self.runners if not r.ended]
        text = "; ".join(f"{r.name} waits {r.waits}" for r in waiting)
        remedy = "push before the other side pops, free each popped tile, and reserve as many slots as are filled at a time"
        return KernelError(f"the functions of a group wait for each other: {text}", waiting[0].span, remedy)

    def _leftovers(self, span: Span) -> None:
        for channel, queues in self.queues.items():
            n = max(len(q.parcels) for q in queues)
            if n:
                what = f"{channel.text()}: {n} tiles were pushed and never popped"
                raise KernelError(what, span, "pop as many tiles as the other function pushes")


# -- operators -----------------------------------------------------------------------------------------------------


def _ends(app: Application) -> Ends:
    ends = app.frame.ends
    if ends is None:
        what = f"{app.op.name} in a function that no group started beside the other end of its pipe"
        raise KernelError(what, app.span, "call both functions from one with type=pl.FunctionType.Group")
    assert isinstance(ends, Ends)
    return ends


def _channel(app: Application, forward: tuple[str, ...]) -> Channel:
    return Channel(C2V if app.op.concept in forward else V2C, app.kwargs.get("id", 0))


def _queues(app: Application, ends: Ends, channel: Channel) -> list[tuple[int, _Queue]]:
    """The queues that an operator works on: the lane's own, or on the cube core those of all lanes."""
    known = ends.cluster.queues.get(channel)
    if known is None:
        raise KernelError(f"{channel.text()} is not open", app.span, "open it in both functions with initialize_pipe")
    lane = app.frame.position.lane
    return list(enumerate(known)) if ends.core == "aic" else [(lane, known[lane])]


def _push(app: Application) -> Value:
    ends, tile, split = _ends(app), app.block(0), app.kwargs.get("split", 0)
    channel = _channel(app, ("tpush_to_aiv",))
    queues = _queues(app, ends, channel)
    room = f"to push into {channel.text()}, whose {queues[0][1].slots} slots are taken"
    ends.runner.wait(lambda: all(q.taken < q.slots for _, q in queues), room, app.span)
    axis = axis_of(split) if ends.core == "aic" else None
    whole = tile.read(tile.valid)
    for lane, q in queues:
        data, shape = whole, tile.shape
        if axis is not None:
            half = tile.shape[axis] // 2
            shape = tuple(half if i == axis else n for i, n in enumerate(tile.shape))
            data = np.take(whole, range(min(lane * half, whole.shape[axis]), min((lane + 1) * half, whole.shape[axis])), axis)
        q.parcels.append(_Parcel(data, shape, tile.dtype, split))
        q.taken += 1
    return None


def _pop(app: Application) -> Value:
    ends, split = _ends(app), app.kwargs.get("split", 0)
    channel = _channel(app, ("tpop_from_aic",))
    queues = _queues(app, ends, channel)
    ends.runner.wait(lambda: all(q.parcels for _, q in queues), f"for a tile from {channel.text()}", app.span)
    parcels = []
    for _, q in queues:
        parcels.append(q.parcels.popleft())
        q.popped += 1
    axis = axis_of(split) if ends.core == "aic" else None
    first = parcels[0]
    data, shape = first.data, first.shape
    if axis is not None:
        least = tuple(min(p.data.shape[i] for p in parcels) for i in range(data.ndim))
        alike = [p.data[tuple(slice(0, n if i != axis else None) for i, n in enumerate(least))] for p in parcels]
        data = np.concatenate(alike, axis)
        shape = tuple(sum(p.shape[i] for p in parcels) if i == axis else n for i, n in enumerate(shape))
    if app.var is not None:
        ends.runner.popped[app.var] = channel
    dest = app.destination()
    if (shape, first.dtype, first.split) != (dest.shape, dest.dtype, split):
        what = f"{channel.text()}: the next tile is no tile {list(dest.shape)} of {dest.dtype}, split={split}"
        raise KernelError(what, app.span, "pop tiles in the order in which they are pushed")
    for want, have in zip(dest.valid, data.shape, strict=True):
        if want > have:
            what = f"{app.op.name} takes more of a dimension than the {have} that were pushed"
            raise KernelBoundsError(what, app.span, "push a tile that is valid there, or give valid_shape=")
    dest.poison()
    dest.write(data[tuple(slice(0, n) for n in dest.valid)])
    return dest


def _free(app: Application) -> Value:
    ends, source = _ends(app), app.call.args[0]
    own = ends.runner.popped.get(source) if isinstance(source, Var) else None
    channel = own if own is not None else _channel(app, ("tfree_to_aic",))
    for _, q in _queues(app, ends, channel):
        if q.popped == 0:
            raise KernelError(f"{channel.text()}: a slot is freed that no pop has", app.span, "free each popped tile once")
        q.popped -= 1
        q.taken -= 1
    return None


def _nothing(app: Application) -> Value:
    """Slots are no memory here: a popped tile lies where its variable does."""
    return 0 if app.op.returns else None


PIPES: Mapping[str, Callable[[Application], Value]] = MappingProxyType(
    {PUSH: _push, POP: _pop, FREE: _free, PIPE: _nothing, BUFFER: _nothing}
)
