"""Keeping the store small: what goes, what stays, and that nobody notices."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from box import HEAD, record, run, start, writer

from pypto.errors import ConfigError
from pypto.runtime import directories
from pypto.runtime import prune as prune_module
from pypto.runtime.entry import Entry
from pypto.runtime.store import Store

HOUR = 3600 * 10**9


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(root: Path) -> Store:
    return Store(str(root), "on")


def build(store: Store, n: int, size: int = 10, age: float = 0) -> Entry:
    entry = store.build_once(record(n=n), writer(data="x" * size), ("data",))
    if age:
        then = time.time_ns() - int(age * HOUR)
        os.utime(entry.path + "/manifest", ns=(then, then))
    return entry


def blocks(root: Path) -> int:
    return sum(p.lstat().st_blocks * 512 for p in root.rglob("*"))


def present(store: Store) -> set[str]:
    return {e.digest for e in store.entries()}


def test_oldest_first_until_it_fits(store: Store, root: Path) -> None:
    built = [build(store, n, age=10 - n) for n in range(8)]
    # A look-up is a use.
    assert store.lookup(record(n=0), ("data",)) is not None
    total = sum(e.size for e in store.entries())
    done = store.prune(total // 2)
    assert present(store) == {built[n].digest for n in (0, 5, 6, 7)}
    assert (done.removed, done.entries, done.size, done.freed) == (4, 4, total // 2, total // 2)
    assert blocks(root / "v1") <= total
    assert store.stat() == (4, total // 2, 0)


def test_sizes_are_blocks_and_not_lengths(store: Store) -> None:
    build(store, 1, size=1)
    assert store.stat().size >= 3 * 4096 or store.stat().size % 512 == 0
    small = store.stat().size
    build(store, 2, size=100_000)
    assert store.stat().size >= small + 100_000


def test_prune_to_nothing_and_again(store: Store, root: Path) -> None:
    for n in range(3):
        build(store, n)
    assert store.clear().removed == 3
    assert store.clear().removed == 0
    assert store.stat() == (0, 0, 0)
    assert store.lookup(record(n=1)) is None
    assert not build(store, 1).private


def test_an_empty_or_missing_root(root: Path) -> None:
    store = Store(str(root), "on")
    assert store.entries() == []
    assert store.verify() == []
    assert store.nearest(record(n=1)) is None
    assert store.prune(0).removed == 0
    assert not store.remove("0" * 64)


def test_remove_one(store: Store) -> None:
    a, b = build(store, 1), build(store, 2)
    assert store.remove(a.digest)
    assert not store.remove(a.digest)
    assert not store.remove("../../" + b.digest)
    assert present(store) == {b.digest}


def test_a_clock_that_was_set_back(store: Store) -> None:
    entry = build(store, 1, age=-100)
    assert store.lookup(record(n=1)) is not None
    assert abs(store.entries()[0].last_used - time.time_ns()) < HOUR
    assert entry.digest in present(store)


def test_a_use_is_noted_once_in_a_while(store: Store) -> None:
    build(store, 1)
    first = store.entries()[0].last_used
    store.lookup(record(n=1))
    assert store.entries()[0].last_used == first


def test_leftovers_go_and_live_ones_stay(store: Store, root: Path) -> None:
    entry = build(store, 1)
    shard = Path(entry.path).parent
    for name in ("0123456789ab.tmp", "ba9876543210.tmp"):
        (shard / f"{entry.digest}.{name}").mkdir()
        (shard / f"{entry.digest}.{name}" / "half").write_text("x")
    (shard / f"{entry.digest}.lock").write_text("process 1")
    (shard / "something else").write_text("not ours")
    assert store.stat().leftovers == 3
    assert store.prune(1 << 30).removed == 0
    assert store.stat().leftovers == 0
    assert (shard / "something else").exists()

    def builder(directory: str) -> None:
        Store(str(root), "on").prune(0)
        Path(directory, "data").write_text("x")

    assert not store.build_once(record(n=2), builder, ("data",)).private


def test_a_lock_that_is_no_file_does_not_stay(store: Store) -> None:
    entry = build(store, 1)
    lock = Path(entry.path + ".lock")
    lock.symlink_to("/etc/passwd")
    store.prune(1 << 30)
    assert not lock.is_symlink()
    lock.mkdir()
    store.prune(1 << 30)
    assert not lock.exists()


def test_deleting_never_follows_links(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o755)
    (precious / "file").write_text("x")
    entry = build(store, 1)
    shutil.rmtree(entry.path)
    os.symlink(precious, entry.path)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert build(store, 1).read("data")
    os.symlink(precious, f"{entry.path}.0123456789ab.tmp")
    store.clear()
    assert (precious / "file").read_text() == "x"
    assert precious.stat().st_mode & 0o777 == 0o755


def test_what_cannot_be_entered_is_deleted_too(store: Store) -> None:
    entry = build(store, 1)
    os.mkdir(entry.path + "/sub")
    os.chmod(entry.path + "/sub", 0)
    os.chmod(entry.path, 0)
    store.clear()
    assert store.stat() == (0, 0, 0)


def test_the_bound_holds_by_itself_and_costs_little(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(store, 0)
    one = store.stat().size
    monkeypatch.setenv("PYPTO_CACHE_MAX_SIZE", str(20 * one))
    walks: list[int] = []
    real = prune_module.prune_some
    monkeypatch.setattr(prune_module, "prune_some", lambda *a, **k: (walks.append(1), real(*a, **k))[1])
    for n in range(1, 100):
        entry = build(store, n)
        assert os.path.isdir(entry.path)
        assert store.stat().size <= 20 * one
    assert 10 <= len(walks) <= 25
    assert store.stat().entries >= 16


def test_a_bound_that_was_lowered_is_reached_call_by_call(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever happens to build something does not pay for all that others left."""
    for n in range(60):
        build(store, n)
    one = store.stat().size // 60
    monkeypatch.setenv("PYPTO_CACHE_MAX_SIZE", str(10 * one))
    have = 60
    for n in range(60, 70):
        entry = build(store, n)
        assert entry.digest in present(store)
        before, have = have, store.stat().entries
        assert have >= before + 1 - 8
    assert have <= 10


def test_of_many_entries_some_are_looked_at(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds in a store of any size, and what was used of late stays."""
    monkeypatch.setattr(prune_module, "_SAMPLE", 48)
    for n in range(120):
        build(store, n, age=200 - n)
    one = store.stat().size // 120
    measured: list[int] = []
    real = prune_module._measured
    monkeypatch.setattr(prune_module, "_measured", lambda items: (measured.append(len(items)), real(items))[1])
    monkeypatch.setenv("PYPTO_CACHE_MAX_SIZE", str(80 * one))
    monkeypatch.setattr(Store, "stat", lambda self: pytest.fail("everything was counted"))
    fresh = [build(store, n).digest for n in range(120, 160)]
    assert measured
    assert max(measured) <= 56
    assert int((root / "v1" / "usage").read_text()) <= 80 * one
    monkeypatch.undo()
    left = store.entries()
    assert sum(e.size for e in left) == int((root / "v1" / "usage").read_text())
    assert set(fresh) <= {e.digest for e in left}


def test_a_process_that_was_stopped_while_it_counted(store: Store, root: Path) -> None:
    """Nobody waits for it; the next one counts anew."""
    build(store, 0)
    with open(root / "v1" / "usage") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        worker = threading.Thread(target=build, args=(store, 1), daemon=True)
        worker.start()
        worker.join(20)
        assert not worker.is_alive()
    build(store, 2)
    assert int((root / "v1" / "usage").read_text()) == store.stat().size


def test_an_entry_larger_than_the_bound_is_usable(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    build(store, 1)
    monkeypatch.setenv("PYPTO_CACHE_MAX_SIZE", "4096")
    entry = build(store, 2, size=50_000)
    assert present(store) == {entry.digest}


@pytest.mark.parametrize("kind", ["text", "short", "directory", "full directory", "symlink", "fifo", "missing"])
def test_the_running_total_may_be_anything(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for n in range(4):
        build(store, n)
    one = store.stat().size // 4
    total = root / "v1" / "usage"
    assert int(total.read_text()) == 4 * one
    total.unlink()
    if kind in ("text", "short"):
        total.write_text("x" * 24 if kind == "text" else "1")
    elif "directory" in kind:
        total.mkdir()
        if kind.startswith("full"):
            (total / "x").write_text("")
    elif kind == "symlink":
        total.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(total)
    monkeypatch.setenv("PYPTO_CACHE_MAX_SIZE", str(3 * one))
    build(store, 9)
    assert store.stat().size <= 3 * one
    assert int(total.read_text()) == store.stat().size


def test_a_readonly_store_is_not_pruned(store: Store, root: Path) -> None:
    build(store, 1)
    for refused in (Store(str(root), "readonly").prune, Store(str(root), "readonly").remove):
        with pytest.raises(ConfigError, match="read-only"):
            refused(0)  # type: ignore[operator]
    assert store.stat().entries == 1


def test_verify_reads_every_byte(store: Store) -> None:
    entries = [build(store, n) for n in range(5)]
    assert store.verify() == []
    Path(entries[0].path, "data").write_text("y" * 10)
    Path(entries[1].path, "manifest").unlink()
    Path(entries[2].path, "more").write_text("")
    aside = Path(entries[3].path).with_name("aside")
    shutil.copytree(entries[3].path, aside)
    shutil.rmtree(entries[4].path)
    aside.rename(entries[4].path)
    assert {digest for digest, _ in store.verify()} == {entries[n].digest for n in (0, 1, 2, 4)}


def test_nearest_names_what_differs(store: Store) -> None:
    store.build_once(record(source="a", planner="P", dtype="f"), writer(data=""))
    store.build_once(record(source="a", planner="Q", dtype="g"), writer(data=""))
    found = store.nearest(record(source="a", planner="Q", dtype="f2"))
    assert found is not None
    assert found[0].record().parts["planner"] == "Q"
    assert found[1] == (("dtype", "'g'", "'f2'"),)


def test_pruning_under_readers_and_builders(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
for round in range(3):
    for i in range(60): make(str(i))
print("done")
"""
    )
    p = start(code, PYPTO_CACHE_DIR=tmp_path / "cache")
    q = start(code, PYPTO_CACHE_DIR=tmp_path / "cache")
    store = Store(str(tmp_path / "cache"), "on")
    while p.poll() is None or q.poll() is None:
        store.prune(0)
        time.sleep(0.005)
    assert p.communicate() == ("done\n", "")
    assert q.communicate() == ("done\n", "")


def test_two_prunings_at_once(tmp_path: Path) -> None:
    fill = HEAD + "for i in range(200): make(str(i))"
    run(fill, PYPTO_CACHE_DIR=tmp_path / "cache")
    code = HEAD + "print(store.default_store().prune(0).removed)"
    processes = [start(code, PYPTO_CACHE_DIR=tmp_path / "cache") for _ in range(3)]
    outputs = [p.communicate(timeout=30) for p in processes]
    assert sum(int(out) for out, _ in outputs) == 200
    assert all(err == "" for _, err in outputs)


def test_a_tree_goes_and_what_its_links_lead_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = Path(directories.fresh_directory(str(tmp_path), "t-"))
    assert (tree.stat().st_mode & 0o777, tree.name[:2]) == (0o700, "t-")
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    (tree / "a" / "link").symlink_to(outside)
    (tree / "broken").symlink_to(tmp_path / "nowhere")
    directories.remove_tree(str(tree))
    assert not tree.exists()
    assert (outside / "kept").exists()
    directories.remove_tree(str(tree))
    link = tmp_path / "link"
    link.symlink_to(outside)
    directories.remove_tree(str(link))
    assert (outside / "kept").exists()
