"""Counters of this process: what was asked of the cache, what it answered, what had to be built.

In: `count` and `bypass` calls from the driver, the store and the compiler.  Out: `cache_stats()`, an immutable
snapshot.  Units that all kernels share (launcher, compiler identity) are stored by the same means but not counted.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from pypto.named import NamedTuple

__all__ = ["CacheStats", "add", "bypass", "cache_stats", "count", "recording"]


class CacheStats(NamedTuple):
    """Numbers since the process began (a forked child goes on from its parent's)."""

    requests: int = 0
    """Specializations asked for: calls that the launcher's own table did not answer, `compile()`, precompile requests."""
    memory_hits: int = 0
    """Requests answered by a kernel that this process had already loaded."""
    disk_hits: int = 0
    """Requests answered by a stored artifact, including one that another process published while this one waited."""
    misses: int = 0
    """Look-ups that found no usable artifact."""
    builds: int = 0
    """Kernels compiled by this process or by workers for it, stored or private; failed ones do not count."""
    private_builds: int = 0
    """Those of `builds` that were not stored: cache off or read-only, storage trouble, diagnostics."""
    invalid_entries: int = 0
    """Stored artifacts that were not what had been written: torn, truncated, altered."""
    storage_errors: int = 0
    """Times the storage could not be used: full, read-only, refused, lock not to be had."""
    bypasses: int = 0
    """Requests that neither looked up nor stored, because they asked for diagnostics."""
    last_bypass_reason: str = ""
    """Why the last of them did so; empty if there was none."""
    pipeline_runs: int = 0
    """Runs of the pass pipeline."""
    compiler_runs: int = 0
    """Runs of the C compiler that made a file, for kernels and shared units, failed ones included; probes are not counted."""
    ptoas_runs: int = 0
    """Runs of ptoas that made a file, failed ones included; asking for its version is not counted."""
    lookup_ns: int = 0
    """Nanoseconds spent in look-ups of kernels."""
    build_ns: int = 0
    """Nanoseconds spent in builds of kernels, waiting for locks and compiler slots included."""


_mutex = _thread.allocate_lock()
_counters: dict[str, int] = {name: 0 for name in CacheStats._fields if name != "last_bypass_reason"}
_reason = [""]
_recorded: ContextVar[dict[str, int] | None] = ContextVar("pypto.stats", default=None)


def count(name: str, amount: int = 1) -> None:
    """Add to one counter; KeyError for a name that `CacheStats` does not have."""
    with _mutex:
        _counters[name] += amount
    recorded = _recorded.get()
    if recorded is not None:
        recorded[name] = recorded.get(name, 0) + amount


@contextmanager
def recording() -> Iterator[dict[str, int]]:
    """What this thread or task counts, besides, until the block ends; a block around it sees the same."""
    found: dict[str, int] = {}
    outer = _recorded.get()
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)
        if outer is not None:
            outer.update({name: outer.get(name, 0) + amount for name, amount in found.items()})


def add(counted: Mapping[str, int]) -> None:
    """What another process counted while it worked for this one."""
    for name, amount in counted.items():
        count(name, amount)


def bypass(reason: str) -> None:
    """One request that went around the cache, and why."""
    with _mutex:
        _counters["bypasses"] += 1
        _reason[0] = reason


def cache_stats() -> CacheStats:
    """All counters of one moment."""
    with _mutex:
        return CacheStats(**_counters, last_bypass_reason=_reason[0])


def _unlock_in_child() -> None:
    global _mutex
    _mutex = _thread.allocate_lock()


os.register_at_fork(after_in_child=_unlock_in_child)
