"""Who builds: one thread of one process for each key.

In: a path to lock, or a key and the work to do.  Out: an OS lock that dies with its owner, or the one result (or the
one error) of work that several threads asked for.  A lock is a property of an open file of a living process; lock
files without an owner mean nothing, and what they say is information for people only.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

from pypto.errors import InternalError
from pypto.runtime.interrupts import Interrupts, held

__all__ = ["FileLock", "acquire", "single_flight"]

T = TypeVar("T")
_INFO_SIZE = 256
_FIRST_WORD = 2.0  # seconds of silent waiting
_held: set[FileLock] = set()
_forking = threading.RLock()


class FileLock:
    """An exclusive lock on the file `path`, which is made if missing, never truncated, and never reached over a link.

    Not inherited: neither by programs that are started (the descriptor is closed) nor by forked children.
    """

    __slots__ = ("_fd", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def try_acquire(self) -> bool:
        """Take the lock if nobody has it; OSError if `path` cannot be a lock."""
        # The mutex keeps a fork from copying a descriptor that is not on the list yet.
        with _forking:
            return self._try()

    def _try(self) -> bool:
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(f"{self.path} is not a regular file")
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The last owner may have removed the file between our open and our lock.
                if _is_at(fd, self.path):
                    self._fd, fd = fd, -1
                    _held.add(self)
                    return True
            except BlockingIOError:
                return False
            finally:
                if fd >= 0:
                    os.close(fd)

    def tell(self, text: str) -> None:
        """Leave word for those who wait; failures do not matter.  A file that has a second name is not written."""
        try:
            if os.fstat(self._fd).st_nlink == 1:
                os.pwrite(self._fd, f"{text}\n".encode(errors="replace").ljust(_INFO_SIZE, b" ")[:_INFO_SIZE], 0)
        except OSError:
            pass

    def release(self, *, remove: bool = False) -> None:
        """Give the lock up; with `remove` the file goes too, which is safe because owners check that it is still there."""
        fd, self._fd = self._fd, -1
        _held.discard(self)
        if fd < 0:
            return
        try:
            if remove:
                os.unlink(self.path)
        except OSError:
            pass
        finally:
            # Also a close that fails has closed it.
            with suppress(OSError):
                os.close(fd)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release(remove=True)


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def acquire(path: str, timeout: float, what: str) -> FileLock | None:
    """The lock on `path`, or None if somebody else keeps it for `timeout` seconds; OSError.

    After two seconds one line on standard error says who has it.
    """
    lock = FileLock(path)
    begin = time.monotonic()
    pause, said = 0.002, False
    while not lock.try_acquire():
        waited = time.monotonic() - begin
        if waited >= timeout:
            return None
        if waited >= _FIRST_WORD and not said:
            said = True
            limit = f"at most {timeout:g} s (PYPTO_CACHE_LOCK_TIMEOUT)"
            print(f"pypto: waiting for {holder(path)}, {limit}", file=sys.stderr, flush=True)
        time.sleep(min(pause, timeout - waited))
        pause = min(pause * 1.5, 0.05)
    lock.tell(f"process {os.getpid()} on {os.uname().nodename}, which builds {what} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
    return lock


def holder(path: str) -> str:
    """What the owner of a lock told about itself."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            text = os.read(fd, _INFO_SIZE).decode(errors="replace")
        finally:
            os.close(fd)
    except OSError:
        text = ""
    line = "".join(c for c in text.partition("\n")[0] if c.isprintable()).strip()
    return line or f"the owner of {path}"


class _Flight(Generic[T]):
    """Work under way, and how it ended."""

    def __init__(self) -> None:
        self.owner = threading.get_ident()
        self.under_way = threading.Lock()
        self.under_way.acquire()
        self.results: list[T] = []
        self.error: Exception | None = None
        self.trace: TracebackType | None = None


_mutex = threading.Lock()
_flights: dict[Hashable, _Flight[object]] = {}


def single_flight(key: Hashable, work: Callable[[], T]) -> T:
    """`work()`, done once for all threads that ask for `key` at the same time: they get its result or its error.

    A leader that is interrupted (KeyboardInterrupt, SystemExit) fails alone; the next thread in line starts anew.
    InternalError if work asks for its own key.
    """
    while True:
        with held() as interrupts:
            with _mutex:
                flight = _flights.get(key)
                leads = flight is None
                if flight is None:
                    flight = _flights[key] = _Flight()
            if leads:
                return _fly(key, flight, work, interrupts)
        if flight.owner == threading.get_ident():
            raise InternalError(f"a build waits for itself: {key!r}")
        with flight.under_way:
            pass
        if flight.error is not None:
            raise flight.error.with_traceback(flight.trace)
        if flight.results:
            result: T = flight.results[0]  # type: ignore[assignment]
            return result


def _fly(key: Hashable, flight: _Flight[object], work: Callable[[], T], interrupts: Interrupts) -> T:
    try:
        interrupts.pass_on()
        result = work()
        interrupts.hold()
        flight.results.append(result)
        return result
    except Exception as e:
        flight.error, flight.trace = e, e.__traceback__
        raise
    finally:
        try:
            interrupts.hold()
        finally:
            with _mutex:
                if _flights.get(key) is flight:
                    del _flights[key]
            flight.under_way.release()


def _forget_in_child() -> None:
    """A forked child builds nothing that its parent builds, and must not keep the parent's locks alive."""
    global _mutex
    _mutex = threading.Lock()
    _flights.clear()
    for lock in list(_held):
        fd, lock._fd = lock._fd, -1
        os.close(fd)
    _held.clear()
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forget_in_child)
