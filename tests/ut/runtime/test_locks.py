"""Locks: of a living owner's open file, never over a link, never at the cost of what a file holds."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

import pytest

from pypto.runtime import interrupts, locks
from pypto.runtime.interrupts import held
from pypto.runtime.locks import FileLock, acquire, holder, single_flight


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "key.lock"


def test_one_owner_at_a_time(path: Path) -> None:
    first = acquire(str(path), 1, "this")
    assert first is not None
    assert acquire(str(path), 0.05, "that") is None
    assert holder(str(path)).startswith(f"process {os.getpid()} on ")
    assert "builds this since" in holder(str(path))
    first.release()
    second = acquire(str(path), 0, "that")
    assert second is not None
    with second:
        pass
    assert not path.exists()


def test_a_lock_on_a_file_that_was_removed_is_taken_anew(path: Path) -> None:
    lock, late = FileLock(str(path)), FileLock(str(path))
    assert lock.try_acquire()
    real = os.open

    def open_then_lose(*args: object) -> int:
        # Between the open and the lock of `late`, the owner goes and takes the file along.
        fd = real(*args)  # type: ignore[arg-type]
        if path.exists() and lock._fd >= 0:
            lock.release(remove=True)
        return fd

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_then_lose)
        assert late.try_acquire()
    assert path.exists()
    assert not FileLock(str(path)).try_acquire()
    late.release()


def test_links_are_not_followed_and_nothing_is_truncated(path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x" * 1000)
    path.symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        FileLock(str(path)).try_acquire()
    path.unlink()
    os.link(precious, path)
    lock = acquire(str(path), 1, "this")
    assert lock is not None
    lock.release(remove=True)
    assert precious.read_text() == "x" * 1000
    path.write_text("y" * 1000)
    lock = acquire(str(path), 1, "this")
    assert lock is not None
    assert path.stat().st_size == 1000
    assert path.read_text().endswith("y")
    lock.release()


@pytest.mark.parametrize("kind", ["directory", "fifo"])
def test_what_is_no_file_is_no_lock(path: Path, kind: str) -> None:
    if kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(OSError, match=str(path)):
        acquire(str(path), 1, "this")


def test_the_holder_of_a_foreign_file_is_shown_safely(path: Path) -> None:
    path.write_bytes(b"\x1b[31m evil\x07 \xff\n second line")
    assert holder(str(path)) == "[31m evil \ufffd"
    path.write_text("")
    assert holder(str(path)) == f"the owner of {path}"


def test_other_keys_go_on_and_finished_work_is_done_again() -> None:
    begun, go = threading.Event(), threading.Event()
    got: list[int] = []

    def work() -> int:
        begun.set()
        go.wait(10)
        return len(got)

    thread = threading.Thread(target=lambda: got.append(single_flight("key", work)))
    thread.start()
    begun.wait(10)
    assert single_flight("other", lambda: 7) == 7
    go.set()
    thread.join()
    assert single_flight("key", work) == 1


def test_ctrl_c_at_any_moment_of_a_build_leaves_nobody_waiting() -> None:
    """The one that builds is interrupted wherever Python may do so; the one that waits for it builds in its place."""
    files = {locks.__file__, interrupts.__file__, contextlib.__file__, threading.__file__}

    def attempt(moment: int) -> bool:
        left, interrupted = moment, False
        begun: SimpleQueue[None] = SimpleQueue()
        waiting = threading.Thread(target=lambda: (begun.get(), single_flight("a build", lambda: None)), daemon=True)
        waiting.start()

        def trace(frame: FrameType, event: str, arg: object) -> object:
            nonlocal left
            if frame.f_code.co_filename not in files:
                return None
            left -= event == "return"
            if left == 0 and event == "return":
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
            return trace

        before = sys.gettrace()
        try:
            sys.settrace(trace)
            single_flight("a build", lambda: (begun.put(None), time.sleep(0.005)))  # until the other one waits
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(before)
        begun.put(None)
        waiting.join(10)
        assert not waiting.is_alive(), moment
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, moment
        return interrupted

    moments = next(moment for moment in count(1) if not attempt(moment))
    assert moments > 10


def test_interrupts_are_held_until_the_block_ends() -> None:
    done = []

    def interrupted() -> None:
        with held() as block:
            signal.raise_signal(signal.SIGINT)
            done.append("later")
            with pytest.raises(KeyboardInterrupt):
                block.pass_on()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            block.hold()
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            done.append("a second one acts at once")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["later", "a second one acts at once"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_interrupts_that_python_does_not_handle_are_left_alone(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with held():
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
