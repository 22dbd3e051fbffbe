"""Shared by the tests of the store and the compiler: records, builders, and scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pypto.errors import PyptoWarning
from pypto.runtime.record import Record

ROOT = Path(__file__).resolve().parents[3]
# What every script begins with: `make(text)` builds or finds a one-file artifact and says which.
HEAD = """
import os, sys, time
from pypto.runtime import load, stats, store
from pypto.runtime.record import Record

def make(text, builder=None, store_=None):
    def build(directory):
        with open(directory + "/data", "w") as file: file.write(text)
    key = Record({"text": text}).encoded
    s = store_ or store.default_store()
    entry = s.lookup(key, ("data",)) or s.build_once(key, builder or build, ("data",), label="the text " + text)
    assert entry.read("data") == text.encode(), entry.read("data")
    return entry
"""


def record(**parts: object) -> bytes:
    return Record(parts).encoded


def writer(calls: list[str] | None = None, **files: str) -> Callable[[str], None]:
    """A builder that writes `name_ext=text` to `name.ext` and notes each directory that it was given."""

    def build(directory: str) -> None:
        if calls is not None:
            calls.append(directory)
        for name, text in files.items():
            Path(directory, name.replace("_", ".")).write_text(text)

    return build


def environment(**env: object) -> dict[str, str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith(("PYPTO", "CFLAGS")) and k not in ("CC", "TMPDIR")}
    base["PYTHONPATH"] = str(ROOT)
    return base | {k: str(v) for k, v in env.items() if v is not None}


def start(code: str, *args: object, wrap: tuple[str, ...] = (), **env: object) -> subprocess.Popen[str]:
    """A Python script in a process group of its own."""
    command = [*wrap, sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(
        command, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def run(code: str, *args: object, wrap: tuple[str, ...] = (), timeout: float = 60, **env: object) -> tuple[str, str]:
    """Standard output and error of a script that must succeed."""
    process = start(code, *args, wrap=wrap, **env)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out, err


def can_mount() -> bool:
    try:
        script = "mount -t tmpfs none /mnt"
        return subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True).returncode == 0
    except OSError:
        return False


def snapshot(root: Path) -> list[tuple[str, int, int, int]]:
    return sorted(
        (str(p), p.lstat().st_mtime_ns, p.lstat().st_size, p.lstat().st_mode)
        for p in [root, *root.rglob("*")]
        if os.path.lexists(p)
    )


def tool(path: Path, body: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@contextmanager
def said(*words: str, times: int = 1) -> Iterator[None]:
    """What runs inside issues `times` warnings of ours, and their text has these words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(w.message) for w in caught]
    assert len(texts) == times, texts
    assert all(w.category is PyptoWarning for w in caught)
    assert all(word in " ".join(texts) for word in words), texts


def damage(kind: str | bytes, path: Path) -> None:
    """Do to a file what crashes, bad disks and bad people do; bytes become its content."""
    data = path.read_bytes()
    path.chmod(0o600)
    if isinstance(kind, bytes):
        path.write_bytes(kind)
    elif kind in ("empty", "one", "half"):
        path.write_bytes(data[: {"empty": 0, "one": 1, "half": len(data) // 2}[kind]])
    elif kind == "flip":
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    elif kind == "longer":
        path.write_bytes(data + b"x")
    else:
        path.unlink()
        if kind == "directory":
            path.mkdir()
        elif kind == "symlink":
            path.symlink_to("/etc/passwd")
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "fifo":
            os.mkfifo(path)
