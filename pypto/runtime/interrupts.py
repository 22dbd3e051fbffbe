"""Ctrl-C between two steps instead of in the middle of one.

In: a block that changes what threads share.  Out: the same block, at whose end a SIGINT that came meanwhile takes effect.
Invariant: outside of such blocks nothing is different.  Python handles signals in the main thread at any call, also just
after a lock was taken and before the `with` statement knows of it: a lock that is left that way keeps every other thread
waiting for ever.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupts", "held"]


class Interrupts:
    """The handler of SIGINT meanwhile.  A second one acts at once: the block may be one that takes long."""

    def __init__(self) -> None:
        here = threading.current_thread() is threading.main_thread()
        self._before = signal.getsignal(signal.SIGINT) if here else None
        self._owner, self._came = os.getpid(), False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if callable(self._before) and (self._came or os.getpid() != self._owner):
            self._before(number, frame)
        self._came = True

    def hold(self) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self)

    def pass_on(self) -> None:
        """As before; what came while they were held acts now, and may raise."""
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
            if self._came:
                self._came = False
                self._before(signal.SIGINT, None)


@contextmanager
def held() -> Iterator[Interrupts]:
    """Keep the first SIGINT of a block until its end, in the thread where Python handles it; nothing happens in others.

    The block may `pass_on()` and `hold()` again around what takes long and shares nothing.
    """
    interrupts = Interrupts()
    interrupts.hold()
    try:
        yield interrupts
    finally:
        interrupts.pass_on()
