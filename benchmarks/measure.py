"""Times of contenders that take turns, and what is done about noise.

In: contenders for the same work.  Out: their times, round by round.  Invariant: a round counts for all contenders or for none;
a round in which the machine was disturbed counts for none, unless there is no other.
"""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

__all__ = ["Contender", "Rounds", "Watch", "batch", "measured"]

ENOUGH = 21  # undisturbed rounds: the median is then steady
LEAST_BATCH = 2e-3  # seconds that a batch of calls should take, against the grain of the clock
PATIENCE = 3.0  # times the seconds asked for are spent, at most, to find undisturbed rounds
FEWEST = 3  # undisturbed rounds; with less, disturbed ones count and the row is marked
SLOWER = 1.04  # beat beyond which the processor was slowed down or shared


class Contender(NamedTuple):
    """`batch(n)`: seconds that n calls take.  is_process: a call is a process of its own, and never one of many."""

    name: str
    batch: Callable[[int], float]
    is_process: bool = False


def batch(call: Callable[[], object]) -> Callable[[int], float]:
    def run(times: int) -> float:
        begin = time.perf_counter()
        for _ in repeat(None, times):
            call()
        return time.perf_counter() - begin

    return run


class Rounds(NamedTuple):
    """Seconds of one call, by contender and round."""

    times: dict[str, list[float]]
    kept: int
    discarded: int
    is_disturbed: bool

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])

    def least(self, name: str) -> float:
        return min(self.times[name])

    def ratio(self, name: str, other: str) -> float:
        """How many times as long as the other one a contender takes: the median over rounds, each compared within itself."""
        return statistics.median(a / b for a, b in zip(self.times[name], self.times[other], strict=True))


class Watch:
    """Knows whether the machine was at our disposal since it was last asked.

    beat: a call that keeps the arithmetic units busy for a fixed number of cycles, so that it takes longer where the processor
    is slowed down, or where somebody else uses its other thread.  alone: nothing should take this process off its processor.
    """

    def __init__(self, beat: Callable[[], object], alone: bool = True) -> None:
        self.beat, self.alone = batch(beat), alone
        self.best = min(self.beat(1) for _ in range(20))
        self.since = self._now()

    def _now(self) -> tuple[int, int]:
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw if self.alone else 0, _stolen()

    def was_quiet(self) -> bool:
        now, before = self._now(), self.since
        beat = min(self.beat(1) for _ in range(2))
        self.best = min(self.best, beat)
        self.since = self._now()
        return now == before and beat <= SLOWER * self.best


def _stolen() -> int:
    """Ticks that a hypervisor gave to others; 0 where nobody says."""
    try:
        with open("/proc/stat") as f:
            return int(f.readline().split()[8])
    except (OSError, IndexError, ValueError):
        return 0


def measured(contenders: Sequence[Contender], seconds: float, watch: Watch | None) -> Rounds:
    """Rounds in which each contender has its turn, beginning with another one each time.

    seconds: of one row, warm-up apart; up to PATIENCE times as much where the machine is disturbed.  0: a single round.
    """
    counts = [1 if c.is_process and not seconds else _count(c) for c in contenders]
    kept: list[list[float]] = []
    lost: list[list[float]] = []
    begin, number, is_on = time.perf_counter(), 0, gc.isenabled()
    gc.disable()
    try:
        if watch is not None:
            watch.was_quiet()
        while not _is_enough(kept, lost, time.perf_counter() - begin, seconds):
            times, quiet = [0.0] * len(contenders), True
            for k in range(len(contenders)):
                i = (k + number) % len(contenders)
                times[i] = contenders[i].batch(counts[i]) / counts[i]
                quiet = (watch is None or watch.was_quiet()) and quiet
            (kept if quiet else lost).append(times)
            number += 1
    finally:
        if is_on:
            gc.enable()
    is_disturbed = len(kept) < min(FEWEST, len(kept) + len(lost))
    rounds = kept + lost if is_disturbed else kept
    columns = {c.name: [r[i] for r in rounds] for i, c in enumerate(contenders)}
    return Rounds(columns, len(kept), len(lost), is_disturbed)


def _count(contender: Contender) -> int:
    """Calls of a batch; the first call of all, which warms up, is not looked at."""
    contender.batch(1)
    if contender.is_process:
        return 1
    once = contender.batch(1)
    return max(1, round(LEAST_BATCH / max(once, 1e-8)))


def _is_enough(kept: list[list[float]], lost: list[list[float]], spent: float, seconds: float) -> bool:
    if not kept and not lost:
        return False
    if spent >= PATIENCE * seconds:
        return True
    return len(kept) >= ENOUGH or (spent >= seconds and len(kept) >= FEWEST)
