"""Counters: snapshots that do not change, sums that are exact under threads."""

from __future__ import annotations

import threading

import pytest

from pypto.runtime import stats


def test_a_snapshot_stays_what_it_was() -> None:
    before = stats.cache_stats()
    stats.count("requests", 2)
    stats.bypass("a dump was asked for")
    after = stats.cache_stats()
    assert after.requests == before.requests + 2
    assert after.bypasses == before.bypasses + 1
    assert after.last_bypass_reason == "a dump was asked for"
    assert before == before._replace(requests=before.requests)
    with pytest.raises(AttributeError):
        after.requests = 0  # type: ignore[misc]
    with pytest.raises(KeyError):
        stats.count("no such counter")


def test_no_count_is_lost() -> None:
    before = stats.cache_stats().memory_hits
    threads = [threading.Thread(target=lambda: [stats.count("memory_hits") for _ in range(2000)]) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert stats.cache_stats().memory_hits == before + 16000


def test_what_one_thread_counts() -> None:
    before = stats.cache_stats()
    with stats.recording() as outer:
        stats.count("misses")
        with stats.recording() as inner:
            stats.count("builds", 2)
        other = threading.Thread(target=lambda: stats.count("misses", 5))
        other.start()
        other.join()
    stats.count("misses")
    assert (outer, inner) == ({"misses": 1, "builds": 2}, {"builds": 2})
    stats.add(outer)
    after = stats.cache_stats()
    assert (after.misses, after.builds) == (before.misses + 8, before.builds + 4)
