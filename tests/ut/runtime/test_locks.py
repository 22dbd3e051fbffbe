"""Locks: of a living owner's open file, never over a link, never at the cost of what a file holds."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

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
