"""What lies below a path: its file system, whether code may be loaded from it, how much room is left.

In: a path, which need not exist.  Out: facts of the nearest directory that does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from pypto.named import NamedTuple

__all__ = ["Place", "look"]


class Place(NamedTuple):
    """`there`: the nearest existing directory.  `free` in bytes; `kind` (ext4, tmpfs, nfs ...) is empty where nobody says."""

    there: str
    kind: str
    free: int
    writable: bool
    executable: bool


def look(path: str, mounts: str = "/proc/self/mountinfo") -> Place:
    """OSError if not even the root can be looked at.  `mounts`: the kernel's table, for tests."""
    there, blocked = path, False
    while not os.path.isdir(there):
        blocked = blocked or os.path.lexists(there)  # a file where a directory would have to be
        there = os.path.dirname(there)
    status = os.statvfs(there)
    writable = os.access(there, os.W_OK | os.X_OK) and not status.f_flag & os.ST_RDONLY and not blocked
    return Place(
        there, _kind(there, _lines(mounts)), status.f_bavail * status.f_frsize, writable, not status.f_flag & os.ST_NOEXEC
    )


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _kind(path: str, lines: Iterable[str]) -> str:
    """The type of the last mount at the longest prefix of the path: it hides those before."""
    best, kind = "", ""
    for line in lines:
        # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
        left, _, right = line.partition(" - ")
        words = left.split()
        if len(words) < 5 or not right:
            continue
        point = words[4].encode("utf-8", "surrogateescape").decode("unicode_escape") if "\\" in words[4] else words[4]
        if len(point) >= len(best) and os.path.join(path, "").startswith(os.path.join(point, "")):
            best, kind = point, right.split()[0]
    return kind
