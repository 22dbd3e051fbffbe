"""A process that compiles for another one: started as a program of its own, ended by the end of its connection.

In: packed work, one piece at a time, over a socket that only the two have.  Out: replies.
Invariant: a worker that is gone is noticed at once, and whatever it was doing is an error; a worker outlives neither its
parent nor its parent's interest, and neither do the compilers that it started.  Nothing of the parent's `__main__` runs here.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from typing import NoReturn

from pypto import config
from pypto.errors import ToolchainError
from pypto.jit.work import Reply, Work, done_elsewhere
from pypto.runtime.build import when_crowded

__all__ = ["NoRoom", "WorkerProcess", "serve"]

_START = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from pypto.jit.worker import serve; serve(int(sys.argv[1]))"
_LENGTH = 8
_PATIENCE = 60.0  # seconds beside those that compilers and locks may take
_GRACE = 5.0  # seconds in which a worker ends its compiler
_NO_ROOM = 75  # the status of a worker that the system gives no thread or compiler (EX_TEMPFAIL of sysexits.h)


class NoRoom(OSError):
    """A worker was started, and the system has no room for what it needs."""


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(_LENGTH, "big") + data)


def _receive(connection: socket.socket) -> bytes | None:
    """One message, or None at the end of the connection."""
    head = _exactly(connection, _LENGTH)
    return None if head is None else _exactly(connection, int.from_bytes(head, "big"))


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(min(size - len(data), 1 << 20))
        if not more:
            return None
        data += more
    return bytes(data)


# -- in the parent ---------------------------------------------------------------------------------------------------


class WorkerProcess:
    """A worker that is running.  OSError if no process can be started, as where the system has no room for one."""

    def __init__(self) -> None:
        if not sys.executable:
            raise FileNotFoundError("this Python does not know its own program")
        here, there = socket.socketpair()
        # As for `multiprocessing`: modules are found where they are found here.
        path = json.dumps([p or os.getcwd() for p in sys.path])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(there.fileno()), path],
                stdin=subprocess.DEVNULL,
                pass_fds=(there.fileno(),),
                start_new_session=True,  # Ctrl-C is for the parent, which ends it
            )
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        self._connection = here
        self._ended = False
        _running.add(self)

    def ask(self, work: Work) -> Reply:
        """What the worker makes of some work.

        ToolchainError T104 if it dies, T105 if it does not answer in time; NoRoom if it could not go on.
        """
        packed = work.packed()
        limit = config.COMPILER_TIMEOUT.get() + config.CACHE_LOCK_TIMEOUT.get() + _PATIENCE
        try:
            self._connection.settimeout(limit)
            _send(self._connection, packed)
            answer = _receive(self._connection)
        except TimeoutError:
            self.end(grace=0)
            raise ToolchainError(
                f"the process that compiled kernel '{work.kernel}' did not answer within {limit:g} s and was ended",
                hint="compile the kernel alone to see what keeps it busy",
                code="T105",
            ) from None
        except OSError:
            answer = None
        if answer is None:
            raise self._dead(work.kernel)
        reply = pickle.loads(answer)
        assert isinstance(reply, Reply)
        return reply

    def _dead(self, kernel: str) -> ToolchainError | NoRoom:
        status = self.end()
        if status == _NO_ROOM:
            return NoRoom("the system has no room for workers")
        how = f"ended with status {status}"
        if status < 0:
            memory = " (out of memory?)" if status == -signal.SIGKILL else ""
            how = f"was ended by signal {-status}{memory}"
        return ToolchainError(
            f"the process that compiled kernel '{kernel}' {how}",
            hint="compile it again; with fewer workers at a time less memory is needed",
            code="T104",
        )

    def end(self, grace: float = _GRACE) -> int:
        """Have the worker end, by force after `grace` seconds; its exit status."""
        _running.discard(self)
        self._ended = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        try:
            return self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._ended

    def forget(self) -> None:
        """In a forked child: the worker is the parent's, and must see the parent end."""
        self._connection.close()
        self._process.returncode = 0


_running: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


def _forget_in_child() -> None:
    for worker in list(_running):
        worker.forget()
    _running.clear()


os.register_at_fork(after_in_child=_forget_in_child)


# -- in the worker ---------------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Answer one piece of work after the other until the connection ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    connection = socket.socket(fileno=descriptor)
    work: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    busy = threading.Event()
    try:
        threading.Thread(target=_listen, args=(connection, work, busy), daemon=True).start()
    except RuntimeError:
        _leave()
    when_crowded.set(_leave)
    with suppress(KeyboardInterrupt, OSError):
        while (packed := work.get()) is not None:
            answer = pickle.dumps(done_elsewhere(packed, with_files=False))
            busy.clear()
            _send(connection, answer)


def _leave() -> NoReturn:
    """The parent compiles it: a process less is room for a compiler."""
    sys.exit(_NO_ROOM)


def _listen(connection: socket.socket, work: queue.SimpleQueue[bytes | None], busy: threading.Event) -> None:
    """Hand on what arrives; at the end of the connection interrupt what is being done, so that compilers end, too."""
    with suppress(OSError):
        while (packed := _receive(connection)) is not None:
            busy.set()
            work.put(packed)
    work.put(None)
    if busy.is_set():
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
