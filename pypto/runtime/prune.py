"""Keeping the store small and sound: sizes, recency, deletion, verification.

In: the directory of the store's entries.  Out: what is there, and less of it.  Readers are never disturbed: an entry
is renamed away before its files go, and a reader that finds it gone looks again or has its bytes already.  Sizes are
allocated blocks; recency is the manifest's time, which look-ups set.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from pypto.errors import SerializationError
from pypto.named import NamedTuple
from pypto.runtime.directories import remove_tree
from pypto.runtime.entry import MANIFEST, Damaged, Entry, check_listing, read_manifest
from pypto.runtime.locks import FileLock
from pypto.runtime.record import Difference, Record, diff

__all__ = [
    *("EntryInfo", "Pruned", "Usage", "account", "delete", "entries", "nearest", "prune", "prune_some", "remove", "usage"),
    "verify",
]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LEFTOVER = re.compile(r"([0-9a-f]{64})\.(?:[0-9a-f]{12}\.tmp|lock)")
_TOTAL = "usage"
_TOTAL_SIZE = 24
# A pruning that runs by itself frees a fifth of the bound, so that the next one is far away.
_KEEP = 0.8
_AT_ONCE = 8
# Entries that it looks at, at least: beyond, the oldest of some shards stand for the oldest of all.
_SAMPLE = 512
_PATIENCE = 0.25  # seconds for the lock of the total, which is held for microseconds


class EntryInfo(NamedTuple):
    """An entry as it lies there; `size` in bytes of allocated blocks, `last_used` in nanoseconds of the Unix epoch."""

    digest: str
    path: str
    size: int
    last_used: int

    def record(self) -> Record:
        """What the entry is for; SerializationError (S130, S120) if that cannot be read."""
        try:
            directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                return Record.decode(read_manifest(directory)[1])
            finally:
                os.close(directory)
        except (OSError, Damaged) as e:
            raise SerializationError(f"{self.path}: {e}", code="S130") from e


class Usage(NamedTuple):
    """Numbers of the whole store; `leftovers` counts directories and locks of builds that are under way or were killed."""

    entries: int
    size: int
    leftovers: int


class Pruned(NamedTuple):
    """What a pruning deleted, and what is left; sizes in bytes of allocated blocks."""

    removed: int
    freed: int
    entries: int
    size: int


def entries(top: str) -> list[EntryInfo]:
    """All entries, the one used last first; damaged ones too."""
    return _measured(_items(top))


def _measured(items: Iterable[os.DirEntry[str]]) -> list[EntryInfo]:
    found = []
    for item in items:
        if _DIGEST.fullmatch(item.name) and item.is_dir(follow_symlinks=False):
            size, used = _measure(item.path)
            found.append(EntryInfo(item.name, item.path, size, used))
    found.sort(key=lambda e: (-e.last_used, e.digest))
    return found


def usage(top: str) -> Usage:
    found = entries(top)
    leftovers = sum(1 for item in _items(top) if _LEFTOVER.fullmatch(item.name))
    return Usage(len(found), sum(e.size for e in found), leftovers)


def verify(top: str, digest: Callable[[bytes], str]) -> list[tuple[str, str]]:
    """Digest and reason of each entry that is not what was written; every byte is read."""
    bad = []
    for found in entries(top):
        try:
            directory = os.open(found.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                files, record, _ = read_manifest(directory)
                if digest(record) != found.digest:
                    raise Damaged("the record is another entry's")
                check_listing(directory, files, content=True)
            finally:
                os.close(directory)
        except FileNotFoundError:
            if os.path.isdir(found.path):
                bad.append((found.digest, "files are missing"))
        except (OSError, Damaged) as e:
            bad.append((found.digest, str(e)))
    return bad


def nearest(
    top: str, record: bytes, alike: Callable[[Record], bool] | None = None
) -> tuple[EntryInfo, tuple[Difference, ...]] | None:
    """The entry whose record differs from `record` in the fewest parts (the one used last, among equals), and these parts.

    Only records with the same parts are compared: others are of other kinds of units.
    """
    wanted = Record.decode(record)
    best: tuple[EntryInfo, tuple[Difference, ...]] | None = None
    for found in entries(top):
        try:
            other = found.record()
        except SerializationError:
            continue
        if other.parts.keys() != wanted.parts.keys() or (alike is not None and not alike(other)):
            continue
        differences = diff(other, wanted)
        if best is None or len(differences) < len(best[1]):
            best = found, differences
    return best


def prune(top: str, max_size: int, keep: str = "") -> Pruned:
    """Delete the entries used longest ago until all take at most `max_size` bytes; `keep` names a digest to spare.

    Remains of killed builds go too; builds under way are left alone.
    """
    _clean_leftovers(_items(top))
    found = entries(top)
    size = sum(e.size for e in found)
    removed, freed = _remove_oldest(found, size - max_size, keep)
    _write_total(top, size - freed)
    return Pruned(removed, freed, len(found) - removed, size - freed)


def prune_some(top: str, total: int, max_size: int, keep: str) -> None:
    """As `prune`, in bounded time: a few of the oldest entries go, of a store of thousands the oldest of some shards.

    `total` is what is thought to be the size of all; it is set right where all is seen.
    """
    import random

    shards = random.sample(_SHARDS, len(_SHARDS))
    items: list[os.DirEntry[str]] = []
    seen = 0
    for shard in shards:
        if len(items) >= _SAMPLE:
            break
        items += _items(top, (shard,))
        seen += 1
    _clean_leftovers(items, _AT_ONCE)
    found = _measured(items)
    if seen == len(shards):
        total = sum(e.size for e in found)
    _, freed = _remove_oldest(found, total - max_size, keep, _AT_ONCE)
    _write_total(top, total - freed)


def _remove_oldest(found: list[EntryInfo], excess: int, keep: str, most: int | None = None) -> tuple[int, int]:
    """How many went, and their bytes: until `excess` bytes are freed, or `most` entries."""
    removed = freed = 0
    for old in reversed(found):
        if freed >= excess or removed == most:
            break
        if old.digest != keep and _remove(old.path):
            removed += 1
            freed += old.size
    return removed, freed


def _clean_leftovers(items: Iterable[os.DirEntry[str]], most: int | None = None) -> None:
    left = {(os.path.dirname(item.path), m[1]) for item in items for m in (_LEFTOVER.fullmatch(item.name),) if m}
    for shard, digest in sorted(left)[:most]:
        _clean(shard, digest)


def remove(top: str, digest: str) -> bool:
    """Delete one entry; False if there is none of that name."""
    return _DIGEST.fullmatch(digest) is not None and _remove(f"{top}/{digest[:2]}/{digest}")


def delete(path: str) -> None:
    """Delete a directory that nobody else looks at, whatever its modes; what resists stays for the next pruning."""
    if os.path.islink(path) or not os.path.isdir(path):
        with suppress(OSError):
            os.unlink(path)
        return
    remove_tree(path)
    for directory, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(directory, 0o700)
    remove_tree(path)


def account(top: str, entry: Entry, max_size: int) -> None:
    """Add a fresh entry to the running total; prune if that exceeds the bound.  Never fails, never deletes `entry`.

    A call of a kernel waits for this: a few entries go, and more with the entries that come after.
    One small read and write for each publication: the store is walked only when the total is unknown or too large.
    """
    with suppress(OSError):
        total = _added(top, _measure(entry.path)[0])
        if total is None:
            total = usage(top).size
            _write_total(top, total)
        if total > max_size:
            prune_some(top, total, int(max_size * _KEEP), entry.digest)


def _added(top: str, size: int) -> int | None:
    """The running total with `size` more, or None if it is unknown; OSError."""
    fd = _open_total(top)
    try:
        if not _lock_shortly(fd):
            # Its owner was stopped, and must not stop others: whoever comes next counts anew.
            os.ftruncate(fd, 0)
            return 0
        text = os.pread(fd, _TOTAL_SIZE + 1, 0)
        if len(text) != _TOTAL_SIZE or not text[:-1].isdigit():
            return None
        total = int(text) + size
        os.pwrite(fd, _total(total), 0)
        # Closing alone would leave the lock with a child forked meanwhile.
        fcntl.flock(fd, fcntl.LOCK_UN)
        return total
    finally:
        os.close(fd)


def _lock_shortly(fd: int) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)


def _total(size: int) -> bytes:
    return f"{size:0{_TOTAL_SIZE - 1}d}\n".encode()


def _open_total(top: str) -> int:
    path = f"{top}/{_TOTAL}"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
    except OSError:
        pass
    delete(path)
    return os.open(path, flags | os.O_EXCL, 0o600)


def _write_total(top: str, size: int) -> None:
    with suppress(OSError):
        fd = _open_total(top)
        try:
            os.ftruncate(fd, _TOTAL_SIZE)
            os.pwrite(fd, _total(size), 0)
        finally:
            os.close(fd)


_SHARDS = tuple(f"{number:02x}" for number in range(256))


def _items(top: str, shards: Iterable[str] = _SHARDS) -> Iterator[os.DirEntry[str]]:
    """Whatever lies in the shards; what vanishes meanwhile is left out."""
    for shard in shards:
        try:
            with os.scandir(f"{top}/{shard}") as items:
                yield from items
        except OSError:
            continue


def _measure(path: str) -> tuple[int, int]:
    """Bytes of the blocks of a flat directory and its files, and the time of its manifest (of itself, if it has none)."""
    size = used = 0
    with suppress(OSError):
        own = os.stat(path, follow_symlinks=False)
        size, used = own.st_blocks * 512, own.st_mtime_ns
        with os.scandir(path) as items:
            for item in items:
                with suppress(FileNotFoundError):
                    status = item.stat(follow_symlinks=False)
                    size += status.st_blocks * 512
                    if item.name == MANIFEST:
                        used = status.st_mtime_ns
    return size, used


def _remove(path: str) -> bool:
    trash = f"{path}.{os.urandom(6).hex()}.tmp"
    try:
        os.rename(path, trash)
    except OSError:
        return False
    delete(trash)
    return True


def _clean(shard: str, digest: str) -> None:
    """Delete what killed builds of one key left, unless a living process has its lock."""
    lock = FileLock(f"{shard}/{digest}.lock")
    if os.path.islink(lock.path) or (os.path.lexists(lock.path) and not os.path.isfile(lock.path)):
        delete(lock.path)
    with suppress(OSError):
        if lock.try_acquire():
            with lock:
                for name in os.listdir(shard):
                    if name.startswith(f"{digest}.") and name.endswith(".tmp"):
                        delete(f"{shard}/{name}")
