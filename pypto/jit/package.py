"""The package's own files as this process found them: which code it is that compiles here.

In: the folder of the package.  Out: stamps of its sources and C headers, taken when kernels are first defined, and whether
the files are still those.  Invariant: an artifact is published only by a process whose code is what the files said all
along; modules that load late would otherwise be of another version than the key.
"""

from __future__ import annotations

import marshal
import os

from pypto.runtime.record import sha256

__all__ = ["PACKAGE", "STAMPS", "Stamps", "digest_of", "digest_of_stamps", "stamps"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SUFFIXES = (".py", ".c", ".h")

Stamps = tuple[tuple[str, int, int, int, int], ...]
"""Name, size, time of the last writing, time of the last change of any kind, inode."""


def stamps(folder: str) -> Stamps:
    """Of every source file of a package."""
    return tuple(sorted(_files(folder, "")))


def _files(folder: str, prefix: str) -> list[tuple[str, int, int, int, int]]:
    out: list[tuple[str, int, int, int, int]] = []
    with os.scandir(folder) as entries:
        for e in entries:
            if e.name.endswith(_SUFFIXES):
                s = e.stat()
                out.append((prefix + e.name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino))
            elif e.name != "__pycache__" and e.is_dir():
                out += _files(e.path, f"{prefix}{e.name}/")
    return out


def digest_of_stamps(files: Stamps) -> str:
    """SHA-256 of the stamps themselves; no file is read."""
    return sha256(marshal.dumps(files, 2))  # the last version in which equal values are equal bytes


def digest_of(folder: str, files: Stamps) -> str:
    """SHA-256 over the names and contents of these files; OSError if one has gone."""
    parts = []
    for name, *_ in files:
        with open(os.path.join(folder, name), "rb") as f:
            parts.append((name, sha256(f.read())))
    return sha256(repr(parts).encode())


STAMPS = stamps(PACKAGE)
