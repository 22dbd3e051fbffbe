"""The artifact store: records in, verified entries out; each is built once, by one thread of one process.

    <root>/v1/<2 hex>/<digest>/                 an immutable entry (see `entry`)
    <root>/v1/<2 hex>/<digest>.lock             while it is built
    <root>/v1/<2 hex>/<digest>.<random>.tmp/    while it is built or deleted; belongs to whoever has the lock

Trouble with the storage never fails a build: the entry is then built in a private directory, and that is said once.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pypto import config
from pypto.errors import ConfigError, SerializationError
from pypto.runtime import stats
from pypto.runtime.directories import default_root, distrust, make_directory, private_dir, say_once, trust_problem
from pypto.runtime.entry import MANIFEST, Collision, Damaged, Entry, open_entry, seal
from pypto.runtime.record import sha256

if TYPE_CHECKING:
    from pypto.runtime.prune import EntryInfo, Pruned, Usage
    from pypto.runtime.record import Difference, Record

__all__ = ["Builder", "Store", "default_store", "digest"]

Builder = Callable[[str], None]
"""Fills the empty directory it is given with flat, regular files; called again for another one if the first fills up."""

_STAMP_NS = 1_000_000_000
_ROOM = 1 << 18
_private: dict[tuple[str, str, bytes], Entry] = {}
_stores: dict[tuple[str, str], Store] = {}


def digest(record: bytes) -> str:
    """The name of the entry of a record: SHA-256, 64 hexadecimal digits.  Entries compare the whole record besides."""
    return sha256(record)


class _Trouble(Exception):
    """The storage cannot be used for this build; the text says why."""


@contextmanager
def _trouble_at(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise _Trouble(f"{place}: {e.strerror or e}") from e


class Store:
    """The entries below one root.  `mode` is on, readonly (nothing below the root changes) or off (all builds are private)."""

    def __init__(self, root: str | None = None, mode: str | None = None) -> None:
        """Options fill in what is not given.  Nothing is looked at or created yet; a root that is no root is trouble later."""
        self.mode = config.CACHE.get() if mode is None else mode
        self.problem = ""
        chosen = config.CACHE_DIR.get() if root is None else root
        self.origin = "PYPTO_CACHE_DIR" if chosen else "default"
        try:
            # Only a root free of links can be checked once and for all.
            self.root = os.path.realpath(chosen or default_root())
        except (ConfigError, OSError, ValueError) as e:
            self.root, self.problem = "", getattr(e, "message", str(e))
        self._trusted = False

    @property
    def top(self) -> str:
        """Where the entries of this version are."""
        return f"{self.root}/v1"

    def lookup(self, record: bytes, needs: Iterable[str] = (), *, counted: bool = True) -> Entry | None:
        """The entry of `record`, or None.

        The files named in `needs` are verified and held in memory, so that they can be read or loaded whatever happens
        to the entry; others are verified when they are read.  `counted=False` leaves the counters alone (shared units).
        """
        begin = time.perf_counter_ns()
        entry = self._find_private(record, needs)
        if entry is None and self.mode != "off" and not self._refusal():
            try:
                entry = self._find(record, needs)
            except Collision:
                pass
            except Damaged as e:
                self._invalid(record, e, counted)
            except OSError as e:
                self._storage_error(f"{self.root}: {e.strerror or e}", counted)
        if counted:
            stats.count("misses" if entry is None else "memory_hits" if entry.private else "disk_hits")
            stats.count("lookup_ns", time.perf_counter_ns() - begin)
        return entry

    def build_once(
        self, record: bytes, builder: Builder, needs: Iterable[str] = (), *, label: str = "a kernel", counted: bool = True
    ) -> Entry:
        """The entry of `record`, built if there is none: by one of all the threads and processes that want it now.

        `label` is what waiting processes are told.  An exception of the builder reaches every waiting thread unchanged,
        and nothing is stored.  ConfigError (O111) if there is no directory at all to build in.
        """
        from pypto.runtime.locks import single_flight

        begin = time.perf_counter_ns()
        try:
            return single_flight((self.root, self.mode, record), lambda: self._build(record, builder, needs, label, counted))
        finally:
            if counted:
                stats.count("build_ns", time.perf_counter_ns() - begin)

    def build_private(self, record: bytes, builder: Builder, needs: Iterable[str] = (), *, counted: bool = True) -> Entry:
        """A fresh private entry that no look-up will find; for requests that want the build itself. Raises as `build_once`."""
        import tempfile

        try:
            path = tempfile.mkdtemp(prefix="build-", dir=private_dir())
        except OSError as e:
            where = f"the artifact cache {self.root}" if self.root else "no artifact cache"
            raise ConfigError(
                f"there is no directory to build in: {where} is not used, and no temporary directory can be made ({e})",
                hint="set PYPTO_CACHE_DIR to a directory that you own, or TMPDIR to one for temporary files",
                code="O111",
            ) from e
        try:
            builder(path)
            entry = seal(path, record, needs, digest(record))
        except Exception as e:
            self._explain_no_room(path, e)
            raise
        if counted:
            stats.count("builds")
            stats.count("private_builds")
        return entry

    def _explain_no_room(self, path: str, reason: Exception) -> None:
        """ConfigError (O111) if a private build failed because there is no room for it; its directory goes."""
        from pypto.runtime.prune import delete

        try:
            _check_room(path)
        except OSError as full:
            where = f"the artifact cache {self.root}" if self.root else "no artifact cache"
            raise ConfigError(
                f"there is no room to build in: {where} is not used, and {os.path.dirname(path)} cannot take the files "
                f"of a kernel ({full.strerror or full})",
                hint="make room there, or set PYPTO_CACHE_DIR to a directory that you own, or TMPDIR to one for temporary files",
                code="O111",
            ) from reason
        finally:
            delete(path)

    # Maintenance, for the command line; see `prune` for what each returns.

    def why_not(self) -> str:
        """Why the root is not used as it is, or an empty text.  Nothing is made, and nothing is said."""
        if self.mode == "off" or self.problem:
            return self.problem or "PYPTO_CACHE=off"
        place = self.root
        while not os.path.lexists(place) and os.path.dirname(place) != place:
            place = os.path.dirname(place)
        try:
            if place == self.root:
                problem = trust_problem(place)
                if problem:
                    return problem
            elif not os.path.isdir(place):
                return f"{place} is not a directory"
        except OSError as e:
            return f"{place}: {e.strerror or e}"
        writable = self.mode == "readonly" or os.access(place, os.W_OK | os.X_OK)
        return "" if writable else f"{place} cannot be written"

    def entries(self) -> list[EntryInfo]:
        from pypto.runtime import prune

        return prune.entries(self.top)

    def stat(self) -> Usage:
        from pypto.runtime import prune

        return prune.usage(self.top)

    def verify(self) -> list[tuple[str, str]]:
        """Digest and reason of each entry that is not what was written; every byte is read."""
        from pypto.runtime import prune

        return prune.verify(self.top, digest)

    def prune(self, max_size: int) -> Pruned:
        """Delete the entries used longest ago until the rest takes at most `max_size` bytes; ConfigError (O112) if read-only."""
        from pypto.runtime import prune

        self._must_be_writable()
        return prune.prune(self.top, max_size)

    def clear(self) -> Pruned:
        return self.prune(0)

    def remove(self, name: str) -> bool:
        """Delete one entry by its digest; False if there is none."""
        from pypto.runtime import prune

        self._must_be_writable()
        return prune.remove(self.top, name)

    def nearest(
        self, record: bytes, alike: Callable[[Record], bool] | None = None
    ) -> tuple[EntryInfo, tuple[Difference, ...]] | None:
        """The entry that differs from `record` in the fewest parts, and these; None if there is none.  Reads every manifest.

        `alike`: whether a record is worth comparing.
        """
        from pypto.runtime import prune

        return prune.nearest(self.top, record, alike)

    def _must_be_writable(self) -> None:
        if self.mode == "readonly" or (os.path.isdir(self.top) and not os.access(self.top, os.W_OK)):
            hint = "set PYPTO_CACHE=on, as the user who owns it"
            raise ConfigError(f"the artifact cache {self.root} is read-only", hint=hint, code="O112")

    # Looking up.

    def _find(self, record: bytes, needs: Iterable[str]) -> Entry | None:
        """The sound entry of `record`, or None where there is none; Collision; Damaged; OSError."""
        name = digest(record)
        shard = f"{self.top}/{name[:2]}"
        try:
            problem = distrust(os.stat(shard, follow_symlinks=False))
            if problem:
                self._refuse(f"{shard} {problem}")
                return None
            entry, used = open_entry(f"{shard}/{name}", record, needs, name)
        except FileNotFoundError:
            return None
        except Collision as e:
            if digest(e.record) != name:
                raise Damaged("it is another record's") from None
            raise
        # The manifest's own time is the stamp of the last use; it may lie in the future if the clock was set back.
        now = time.time_ns()
        if self.mode == "on" and abs(now - used) > _STAMP_NS:
            with suppress(OSError):
                os.utime(f"{entry.path}/{MANIFEST}", ns=(now, now), follow_symlinks=False)
        return entry

    def _find_private(self, record: bytes, needs: Iterable[str]) -> Entry | None:
        key = (self.root, self.mode, record)
        entry = _private.get(key)
        if entry is not None:
            try:
                entry.hold(needs)
            except SerializationError:
                # Somebody cleaned the temporary directory.
                _private.pop(key, None)
                return None
        return entry

    def _refusal(self) -> bool:
        """Whether the root must not be used; looked at until it was found good once."""
        if self._trusted or self.problem:
            return bool(self.problem)
        try:
            problem = trust_problem(self.root)
            if not problem:
                why = distrust(os.stat(self.top, follow_symlinks=False))
                problem = why and f"{self.top} {why}"
        except OSError:
            # No root yet: nothing to find, and whoever builds will see what is the matter.
            return False
        if problem:
            self._refuse(problem)
        self._trusted = not problem
        return bool(problem)

    # Building.

    def _build(self, record: bytes, builder: Builder, needs: Iterable[str], label: str, counted: bool) -> Entry:
        entry = self._find_private(record, needs)
        if entry is not None:
            return entry
        if self.mode == "on":
            try:
                return self._build_stored(record, builder, needs, label, counted)
            except Collision:
                pass
            except _Trouble as e:
                self._storage_error(str(e), counted)
        entry = self.build_private(record, builder, needs, counted=counted)
        _private[self.root, self.mode, record] = entry
        return entry

    def _build_stored(self, record: bytes, builder: Builder, needs: Iterable[str], label: str, counted: bool) -> Entry:
        """Raises _Trouble, Collision, or what the builder raises."""
        from pypto.runtime.locks import acquire, holder
        from pypto.runtime.prune import account, delete

        name = digest(record)
        shard = f"{self.top}/{name[:2]}"
        # Without the lock first: a store that cannot be written can still be read.
        with suppress(Damaged, OSError):
            entry = None if self._refusal() else self._find(record, needs)
            if entry is not None:
                return _hit(entry, counted)
        timeout = config.CACHE_LOCK_TIMEOUT.get()
        with _trouble_at(self.root):
            self._prepare(shard)
            lock = acquire(f"{shard}/{name}.lock", timeout, label)
        if lock is None:
            raise _Trouble(f"{self.root}: within {timeout:g} s, {label} was not finished by {holder(f'{shard}/{name}.lock')}")
        with lock:
            with _trouble_at(self.root):
                entry = self._find_or_clear(f"{shard}/{name}", record, needs, counted)
                if entry is not None:
                    return _hit(entry, counted)
                staging = f"{shard}/{name}.{os.urandom(6).hex()}.tmp"
                os.mkdir(staging, 0o700)
            try:
                _run_builder(builder, staging)
                if counted:
                    stats.count("builds")
                with _trouble_at(self.root):
                    entry = seal(staging, record, needs, name, f"{shard}/{name}")
                    entry = self._publish(staging, entry, needs, counted)
            finally:
                delete(staging)
        account(self.top, entry, config.CACHE_MAX_SIZE.get())
        return entry

    def _prepare(self, shard: str) -> None:
        """Make what is missing down to the shard; _Trouble if any of it cannot be trusted; OSError."""
        if self.problem:
            raise _Trouble(self.problem)
        make_directory(self.root)
        problem = trust_problem(self.root)
        for path in (self.top, shard):
            make_directory(path)
            why = distrust(os.stat(path, follow_symlinks=False))
            problem = problem or (why and f"{path} {why}")
        if problem:
            self.problem = problem
            raise _Trouble(problem)

    def _find_or_clear(self, path: str, record: bytes, needs: Iterable[str], counted: bool) -> Entry | None:
        """As `_find`, under the lock; a damaged entry is moved out of the way and deleted."""
        try:
            return self._find(record, needs)
        except Damaged as e:
            from pypto.runtime.prune import delete

            self._invalid(record, e, counted)
            trash = f"{path}.{os.urandom(6).hex()}.tmp"
            os.rename(path, trash)
            delete(trash)
            return None

    def _publish(self, staging: str, entry: Entry, needs: Iterable[str], counted: bool) -> Entry:
        """Rename the sealed directory to its place; the entry of somebody who was faster wins.  Collision; OSError."""
        for _ in range(3):
            try:
                os.rename(staging, entry.path)
            except OSError as e:
                # Only where locks do not work, or after somebody deleted them.
                if e.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                winner = self._find_or_clear(entry.path, entry.record, needs, counted)
                if winner is not None:
                    return winner
                continue
            return entry
        raise _Trouble(f"{entry.path} cannot be replaced")

    # Telling.

    def _refuse(self, problem: str) -> None:
        self.problem = problem
        self._storage_error(problem, counted=False)

    def _storage_error(self, problem: str, counted: bool) -> None:
        if counted:
            stats.count("storage_errors")
        say_once(
            f"storage {self.root}",
            f"the artifact cache is not used: {problem}. Kernels are built for this process only;"
            " set PYPTO_CACHE_DIR to a directory that you own to keep them",
        )

    def _invalid(self, record: bytes, reason: Damaged, counted: bool) -> None:
        name = digest(record)
        fate = "built again and replaced" if self.mode == "on" else "built again for this process"
        text = f"damaged cache entry {self.top}/{name[:2]}/{name} ({reason}): {fate}"
        if say_once(f"invalid {self.top} {name}", text) and counted:
            stats.count("invalid_entries")


def _hit(entry: Entry, counted: bool) -> Entry:
    if counted:
        stats.count("disk_hits")
    return entry


def _run_builder(builder: Builder, staging: str) -> None:
    """_Trouble if it failed because there is no room; its own exception otherwise."""
    try:
        builder(staging)
    except Exception as e:
        try:
            _check_room(staging)
        except OSError as full:
            raise _Trouble(f"{os.path.dirname(staging)}: {full.strerror or full}") from e
        raise


def _check_room(directory: str) -> None:
    """OSError unless a file of some size can be written.  A compiler says what happened to it only in words."""
    path = f"{directory}/room"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(bytes(_ROOM))
        while left:
            left = left[os.write(fd, left) :]
    finally:
        os.close(fd)
        os.unlink(path)


def default_store() -> Store:
    """The store that the options of this moment name; one object for equal options.  ConfigError for any wrong option."""
    config.check()
    store = Store()
    return _stores.setdefault((store.root, store.mode), store)


def _forget_in_child() -> None:
    # The parent removes its private directory when it ends.
    _private.clear()


os.register_at_fork(after_in_child=_forget_in_child)
