"""Pieces of work that run side by side, one at a time: who has the turn goes on until it pauses or ends.

In: what each does.  Out: what it gave, or how it failed.  Each has a thread of its own, with the context of who first gave it the
turn.  Invariant: nothing depends on how threads are scheduled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

__all__ = ["Actor"]


class _Stopped(BaseException):
    """Unwinds work that is not to go on."""


class Actor:
    """One piece of work; `error` is to be raised where the others stand."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._stopped = False
        self.ended = False
        self.result: Any = None
        self.error: BaseException | None = None

    def turn(self) -> None:
        """Let it go on until it pauses or ends."""
        if self._thread is None:
            context = copy_context()
            self._thread = threading.Thread(target=lambda: context.run(self._run), daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()

    def pause(self) -> None:
        """Called by the work itself: give the turn away, and go on with the next one."""
        self._back.release()
        self._go.acquire()
        if self._stopped:
            raise _Stopped

    def stop(self) -> None:
        """The work ends where it pauses."""
        if self._thread is None:
            return
        if not self.ended:
            self._stopped = True
            self.turn()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except _Stopped:
            pass
        except BaseException as e:
            self.error = e
        self.ended = True
        self._back.release()
