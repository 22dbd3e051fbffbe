"""Blocks of one launch that wait for each other.

In: what each block does.  Out: what each of them gives.  Blocks take turns: each goes on until it waits or ends, then the next
does, in ascending order, and when all of them wait, they go on as they came.
Invariant: where a block ends and another still waits, nobody goes on: the launch fails at the place of who waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.debug.apply import Application
from pypto.debug.frame import Value
from pypto.debug.turns import Actor
from pypto.errors import KernelError, NotSupportedError
from pypto.ir.expr import Call
from pypto.ir.ops.system import FLAG, MEET, PREFETCH, TASK
from pypto.span import Span

__all__ = ["SYSTEM", "Party", "in_step"]


class Party(Actor):
    """One block among those that meet."""

    def __init__(self, work: Callable[[Party], Any]) -> None:
        super().__init__(lambda: work(self))
        self.at = Span.unknown()  # where it waits

    def meet(self, span: Span) -> None:
        """Wait for all others; called by the block."""
        self.at = span
        self.pause()


def in_step(work: Sequence[Callable[[Party], Any]]) -> list[Any]:
    """What the blocks give, all of them having met whenever one waited; KernelError where not all do."""
    parties = [Party(w) for w in work]
    try:
        while not all(p.ended for p in parties):
            for p in parties:
                p.turn()
                if p.error is not None:
                    raise p.error
            _check(parties)
    finally:
        for p in parties:
            p.stop()
    return [p.result for p in parties]


def _check(parties: Sequence[Party]) -> None:
    waiting = [p for p in parties if not p.ended]
    if waiting and len(waiting) < len(parties):
        gone = next(i for i, p in enumerate(parties) if p.ended)
        what = f"block {gone} has ended while {len(waiting)} blocks wait for it at a syncall"
        raise KernelError(what, waiting[0].at, "let every block reach each syncall, whatever the numbers are")


# -- operators -----------------------------------------------------------------------------------------------------


def _meet(app: Application) -> None:
    position = app.frame.position
    if len(app.args) > 1:
        cores, blocks = int(app.args[1]), position.blocks
        if cores not in _cores(app.call, blocks):
            hint = "leave used_cores out, or give the number of blocks"
            raise KernelError(f"a barrier of {cores} cores in a launch of {blocks} blocks", app.span, hint)
    if position.party is not None:
        position.party.meet(app.span)


def _cores(call: Call, blocks: int) -> tuple[int, ...]:
    """How many cores a launch of so many blocks has: a mixed block has one cube and two vector cores."""
    return (blocks, 3 * blocks) if call.kwargs.get("core_type", "mix") == "mix" else (blocks,)


def _flag(app: Application) -> None:
    if app.kwargs.get("ffts_mode") == 0 and app.frame.position.blocks > 1:
        what = f"{app.op.name}: a flag between blocks is not executed on the host"
        raise NotSupportedError(what, app.span, "let all blocks meet: pl.system.syncall()")


def _nothing(app: Application) -> Value:
    return None


def _task(app: Application) -> Value:
    return 0


SYSTEM = {MEET: _meet, FLAG: _flag, PREFETCH: _nothing, TASK: _task}
