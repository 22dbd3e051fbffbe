"""How many CPUs this process may use: what compilers and threads are counted by.

In: the affinity of the process and the quotas of its control groups.  Out: a number, at least 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

__all__ = ["available_cpus"]


def available_cpus(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> int:
    """CPUs that this process may really use, at least 1: its affinity, cut by the CPU quotas of its control groups.

    A quota of a part of a CPU counts as a whole one.  `proc` and `cgroup` are the mount points, for tests.
    """
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    for quota in _quotas(proc, cgroup):
        count = min(count, max(1, -int(-quota // 1)))
    return max(1, count)


def _quotas(proc: str, cgroup: str) -> Iterator[float]:
    """CPUs allowed by each control group from this process's own up to the root."""
    for line in _text(f"{proc}/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            bases, v2 = (cgroup, f"{cgroup}/unified"), True
        elif "cpu" in controllers.split(","):
            bases, v2 = (f"{cgroup}/{controllers}", f"{cgroup}/cpu"), False
        else:
            continue
        for base in bases:
            parts = [part for part in path.split("/") if part and part != ".."]
            for depth in range(len(parts), -1, -1):
                yield from _quota("/".join([base, *parts[:depth]]), v2)


def _quota(directory: str, v2: bool) -> Iterator[float]:
    if v2:
        words = _text(f"{directory}/cpu.max").split()
    else:
        words = [_text(f"{directory}/cpu.cfs_quota_us").strip(), _text(f"{directory}/cpu.cfs_period_us").strip()]
    with suppress(ValueError, IndexError, ZeroDivisionError):
        if int(words[0]) > 0:
            yield int(words[0]) / int(words[1])


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""
