"""`PrecompilePool`: kernels compiled by threads, by processes, or by any `concurrent.futures` executor.

In: requests, with the context of whoever submits them.  Out: futures of `Precompiled`, and artifacts in the cache.
Invariant: every future that was handed out comes to an end: with a result, with the error that compiling here would have
raised, or with one that names the kernel and says what became of its worker.  Ctrl-C comes between steps: nothing that
the slots share is left half done.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Literal

from pypto.errors import ArgumentTypeError, ArgumentValueError, ClosedError, ToolchainError
from pypto.jit.batch import as_request, work_of
from pypto.jit.work import Precompiled, Reply, Work, carried_out, done_elsewhere, received
from pypto.jit.worker import NoRoom, WorkerProcess
from pypto.named import NamedTuple
from pypto.runtime.cpus import available_cpus
from pypto.runtime.interrupts import held

__all__ = ["PrecompilePool"]

Kind = Literal["process", "thread"]


class _Job(NamedTuple):
    work: Work
    future: Future[Precompiled]


class PrecompilePool:
    """Compiles ahead.  `with PrecompilePool(workers=4) as pool: pool.submit(kernel, x, y)`.

    workers: how many at a time, by default and at most the CPUs that are available; 0 compiles in `submit` itself.
    kind: "process" for processes that are started as they are needed, or "thread" for threads of this process, whose
    Python parts take turns.  executor: work goes there instead; its workers need the same pypto and C compiler.
    Leaving the block waits for everything that was submitted; an exception, Ctrl-C included, drops what has not begun.
    """

    def __init__(self, workers: int | None = None, *, kind: Kind = "process", executor: Executor | None = None) -> None:
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int)):
            raise ArgumentTypeError(f"workers must be an integer, got {type(workers).__name__}", hint="PrecompilePool(workers=2)")
        if workers is not None and workers < 0:
            raise ArgumentValueError(f"workers must not be negative, got {workers}", hint="0 compiles in the caller itself")
        if kind not in ("process", "thread"):
            raise ArgumentValueError(f"unknown kind {kind!r} of worker", hint='"process" or "thread"')
        if executor is not None and not (callable(getattr(executor, "submit", None))):
            what = f"executor must be a concurrent.futures.Executor, got {type(executor).__name__}"
            raise ArgumentTypeError(what, hint="for a Dask cluster: executor=client.get_executor()")
        if executor is not None and workers is not None:
            raise ArgumentValueError("workers and executor exclude each other", hint="the executor knows how many it has")
        most = available_cpus()
        self.workers = 0 if executor is not None else most if workers is None else min(workers, most)
        self.kind, self._executor, self._owner = kind, executor, os.getpid()
        self._jobs: deque[_Job] = deque()
        self._slots: list[_Slot] = []
        self._change = threading.Condition()
        self._idle = 0
        self._outside: dict[int, Any] = {}  # what an executor has, and its futures
        self._back: SimpleQueue[None] = SimpleQueue()  # a word for each that came back
        self._closed = False
        self._flying: dict[bytes, Future[Precompiled]] = {}
        _pools.add(self)

    # -- submitting --

    def submit(self, kernel: Any, *args: Any, **kwargs: Any) -> Future[Precompiled]:
        """Compile a kernel for arguments, descriptions of them, or what its annotations say; or a request, or a program.

        Everything that goes wrong with the kernel is an error of the future.  ClosedError, a RuntimeError, if the pool is closed.
        """
        if os.getpid() != self._owner:
            raise ClosedError("this PrecompilePool belongs to the process that made it", hint="make another one after a fork")
        if self._closed:
            raise ClosedError("this PrecompilePool is closed", hint="submit inside of its `with` block, or make another pool")
        future: Future[Precompiled] = Future()
        with held():
            try:
                work = work_of(as_request(kernel, args, kwargs))
            except Exception as e:
                future.set_exception(e)
                return future
            if isinstance(work, Precompiled):
                future.set_result(work)
                return future
            if not work.is_diagnostic:
                with self._change:
                    flying = self._flying.setdefault(work.record, future)
                if flying is not future:
                    return flying
                future.add_done_callback(lambda _: self._landed(work.record))
            job = _Job(work, future)
            if self._executor is not None:
                self._hand_over(job, self._executor)
                return future
            if self.workers and self._queue(job):
                return future
        _finish(job, lambda: carried_out(work))
        return future

    def _landed(self, record: bytes) -> None:
        with self._change:
            self._flying.pop(record, None)

    def _queue(self, job: _Job) -> bool:
        """Leave it to a slot; False if there is none and none can be made, as where the system has no room for threads."""
        with self._change:
            if self._closed:
                raise ClosedError("this PrecompilePool is closed", hint="submit inside of its `with` block, or make another pool")
            if self._idle <= len(self._jobs) and len(self._slots) < self.workers:
                slot = _Slot(self)
                try:
                    slot.start()
                    self._slots.append(slot)
                except RuntimeError:
                    if not self._slots:
                        return False
            self._jobs.append(job)
            self._change.notify()
            return True

    def take(self) -> _Job | None:
        """The next job for a slot, when there is one; None at the end."""
        with self._change:
            self._idle += 1
            try:
                self._change.wait_for(lambda: self._jobs or self._closed)
                return self._jobs.popleft() if self._jobs else None
            finally:
                self._idle -= 1

    # -- executors --

    def _hand_over(self, job: _Job, executor: Executor) -> None:
        job.future.set_running_or_notify_cancel()
        try:
            theirs: Any = executor.submit(done_elsewhere, job.work.packed())
        except Exception as e:
            _finish(job, lambda e=e: received(job.work, _reply(job.work, None, e)), begun=True)
            return
        with self._change:
            self._outside[id(job)] = theirs
        theirs.add_done_callback(lambda f: self._came_back(job, f))

    def _came_back(self, job: _Job, theirs: Any) -> None:
        try:
            _finish(job, lambda: received(job.work, _reply(job.work, theirs, None)), begun=True)
        finally:
            with self._change:
                self._outside.pop(id(job), None)
            self._back.put(None)

    # -- the end --

    def close(self, *, cancel: bool = False) -> None:
        """No more submissions; wait for the rest, or with `cancel` drop what has not begun and end the processes."""
        try:
            with held():
                self._shut(cancel)
            if os.getpid() != self._owner:
                return
            for slot in self._slots:
                slot.wait()
            while self._outside and not cancel:
                self._back.get()
            self._back.put(None)  # another thread may wait, too
        except BaseException:
            if not cancel:
                self.close(cancel=True)
            raise

    def _shut(self, cancel: bool) -> None:
        with self._change:
            self._closed = True
            dropped = list(self._jobs) if cancel else []
            if cancel:
                self._jobs.clear()
            self._change.notify_all()
        for job in dropped:
            job.future.cancel()
            job.future.set_running_or_notify_cancel()
        if cancel and os.getpid() == self._owner:
            for slot in self._slots:
                slot.give_up()
            for theirs in list(self._outside.values()):
                theirs.cancel()

    def __enter__(self) -> PrecompilePool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(cancel=error is not None)


class _Slot(threading.Thread):
    """A thread that does one job after the other: by itself, or through a process of its own."""

    def __init__(self, pool: PrecompilePool) -> None:
        super().__init__(name="pypto-precompile", daemon=True)
        self._pool = pool
        self._worker: WorkerProcess | None = None
        self._given_up = self._alone = False
        self._busy = threading.Lock()

    def start(self) -> None:
        self._busy.acquire()
        super().start()

    def run(self) -> None:
        try:
            while (job := self._pool.take()) is not None:
                work = job.work
                _finish(job, lambda work=work: self._done(work))
        finally:
            try:
                if self._worker is not None:
                    self._worker.end()
            finally:
                self._busy.release()

    def wait(self) -> None:
        """Until it has nothing more to do.  Unlike `join`, this survives Ctrl-C: waiting once more does wait."""
        with self._busy:
            pass

    def _done(self, work: Work) -> Precompiled:
        # Instruments are in this process.
        worker = self._process() if self._pool.kind == "process" and not work.is_diagnostic else None
        if worker is None:
            return carried_out(work)
        try:
            return received(work, worker.ask(work))
        except NoRoom:
            self._alone = True
            return carried_out(work)
        except ToolchainError:
            if self._given_up:
                raise CancelledError from None
            raise

    def _process(self) -> WorkerProcess | None:
        """This slot's worker; None where the system has no room for a process: then its work is done here."""
        if self._alone:
            return None
        if self._worker is None or self._worker.has_ended:
            self._worker = None
            with suppress(OSError):
                self._worker = WorkerProcess()
        return self._worker

    def give_up(self) -> None:
        """End what the worker does; a thread cannot be ended, and goes on to the end of its job."""
        self._given_up = True
        if self._worker is not None:
            self._worker.end()


def _finish(job: _Job, done: Any, *, begun: bool = False) -> None:
    """Put what `done()` gives, or raises, into the job's future."""
    if not begun and not job.future.set_running_or_notify_cancel():
        return
    try:
        result = done()
        with held():
            job.future.set_result(result)
    except BaseException as e:
        with held():
            if not job.future.done():
                job.future.set_exception(e)
        if not isinstance(e, (Exception, CancelledError)):
            raise


def _reply(work: Work, theirs: Any, error: BaseException | None) -> Reply:
    """What an executor's worker answered; ToolchainError T104 if the executor lost it."""
    try:
        if error is not None:
            raise error
        reply: Any = theirs.result()
    except CancelledError:
        raise
    except (ArgumentTypeError, ArgumentValueError):
        raise
    except BaseException as e:
        how = "its executor broke down" if isinstance(e, BrokenExecutor) else "its executor failed"
        raise ToolchainError(
            f"the worker that compiled kernel '{work.kernel}' is lost: {how}: {type(e).__name__}: {e}",
            hint="look at the executor's own messages; each worker needs pypto and memory for a C compiler",
            code="T104",
        ) from e
    if not isinstance(reply, Reply):
        raise ToolchainError(
            f"the executor answered for kernel '{work.kernel}' with a {type(reply).__name__}",
            hint="submit(function, argument) must call the function and give what it returns",
            code="T104",
        )
    return reply


_pools: weakref.WeakSet[PrecompilePool] = weakref.WeakSet()


def _close_all() -> None:
    """Pools that nobody closed: their processes end with this one."""
    for pool in list(_pools):
        pool.close(cancel=True)


atexit.register(_close_all)
