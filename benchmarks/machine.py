"""What this machine can do at best, measured in the same run as the kernels.

In: the yardsticks.  Out: bytes and operations a second, and the least time that a piece of work can take.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.case import aligned
from benchmarks.measure import Contender, Watch, batch, measured
from benchmarks.yardsticks import Yardsticks

__all__ = ["Limits", "beat", "limits"]

SIZES = (1 << 20, 8 << 20, 64 << 20)  # bytes of an array; three of them are moved
KINDS = ("f32", "bf16", "i8")


class Limits(NamedTuple):
    """bandwidth: bytes a second, by the bytes that are touched; peak: operations a second, by kind (a sum counts, too)."""

    bandwidth: dict[int, float]
    peak: dict[str, float]

    def least(self, moved: float, operations: float, kind: str) -> float:
        """Seconds that some work takes at least."""
        near = min(self.bandwidth, key=lambda size: max(size, moved) / min(size, moved)) if moved else 0
        seconds = moved / self.bandwidth[near] if moved else 0.0
        return max(seconds, operations / self.peak[kind]) if operations and self.peak.get(kind) else seconds


def beat(yardsticks: Yardsticks) -> Callable[[], None]:
    """As many multiplications and additions as the processor can do in about 50 microseconds."""
    return yardsticks.run("peak_f32", [np.zeros(4, np.float32)], [5000])


def limits(yardsticks: Yardsticks, seconds: float, watch: Watch, threads: int, tiny: bool = False) -> Limits:
    """The best of several ways to move data, and the peak of each kind of instruction, by `threads` at once."""
    bandwidth, peak = {}, {}
    for size in SIZES[:1] if tiny else SIZES:
        bandwidth[3 * size] = _bandwidth(yardsticks, size, seconds, watch, threads)
    rounds = 1000 if tiny else 100_000
    for kind, operations in zip(KINDS, yardsticks.constants("operations", len(KINDS)), strict=True):
        if operations:
            calls = [yardsticks.run(f"peak_{kind}", [np.zeros(4, np.float32)], [rounds]) for _ in range(threads)]
            took = measured([Contender(kind, batch(together(calls)))], seconds, watch).least(kind)
            peak[kind] = operations * rounds * threads / took
    return Limits(bandwidth, peak)


def _bandwidth(yardsticks: Yardsticks, size: int, seconds: float, watch: Watch, threads: int) -> float:
    n = size // 4 // threads
    arrays = [[aligned(np.ones(n, np.float32)) for _ in range(3)] for _ in range(threads)]
    contenders = []
    for name, parts in (("copy", 2), ("triad", 3)):
        for stream in (False, True):
            call = together([yardsticks.run(name, own[:parts], [n], stream) for own in arrays])
            contenders.append(Contender(f"{name} {stream}", batch(call)))
    found = measured(contenders, seconds, watch)
    return max((2 if c.name.startswith("copy") else 3) * n * 4 * threads / found.least(c.name) for c in contenders)


def together(calls: list[Callable[[], None]]) -> Callable[[], None]:
    """Calls that run at the same time; they release the interpreter's lock."""
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        started = [threading.Thread(target=c) for c in calls[1:]]
        for t in started:
            t.start()
        calls[0]()
        for t in started:
            t.join()

    return run
