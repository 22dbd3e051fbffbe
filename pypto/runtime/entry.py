"""One stored artifact: a directory with files and a manifest that vouches for them.

In: a directory that a builder filled (`seal`), or one found in the store (`open_entry`).  Out: an `Entry` whose
bytes are handed out only after their size and SHA-256 matched the manifest.  Manifest, as text up to the record:

    pypto-entry 1
    <SHA-256 of all that follows>
    <SHA-256> <size> <name>          for each file, by name
    record <size>
    <the record's bytes>
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pypto.errors import InternalError, SerializationError
from pypto.runtime.directories import distrust
from pypto.runtime.record import sha256

__all__ = [
    *("MANIFEST", "Collision", "Damaged", "Entry", "FileInfo", "Held", "open_entry", "parse_manifest", "read_manifest"),
    *("read_sealed", "seal"),
]

MANIFEST = "manifest"
_HEAD = b"pypto-entry 1\n"
_MAX_MANIFEST = 16 << 20
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Troubles of the process or the machine; every other error while an entry is read is the entry's own.
_NOT_ITS_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.EINTR})


class Damaged(Exception):
    """An entry that is not what was written; never leaves the store."""


class Collision(Exception):
    """A sound entry of another record under the same digest; never leaves the store."""

    def __init__(self, record: bytes) -> None:
        super().__init__("another record")
        self.record = record


class FileInfo:
    """What the manifest says of a file: SHA-256 in hexadecimal, and the number of bytes."""

    __slots__ = ("sha256", "size")

    def __init__(self, sha256: str, size: int) -> None:
        self.sha256, self.size = sha256, size


class Held:
    """The verified bytes of a file, and the status (see `identity`) that the file had when they were read."""

    __slots__ = ("data", "identity")

    def __init__(self, data: bytes, identity: tuple[int, int, int, int, int]) -> None:
        self.data, self.identity = data, identity


class Entry:
    """A stored or private artifact.  `files` names what it has; `read` gives verified bytes."""

    __slots__ = ("_held", "digest", "files", "path", "private", "record")

    def __init__(self, path: str, digest: str, record: bytes, files: Mapping[str, FileInfo], private: bool) -> None:
        self.path, self.digest, self.record, self.private = path, digest, record, private
        self.files = MappingProxyType(dict(files))
        self._held: dict[str, Held] = {}

    def read(self, name: str) -> bytes:
        """The bytes of one file; KeyError for a name not in `files`, SerializationError (S130) if they have changed."""
        return self.held(name).data

    def held(self, name: str) -> Held:
        """Bytes and file status, read now unless they were needed at look-up; raises as `read` does."""
        held = self._held.get(name)
        return self._read(name) if held is None else held

    def hold(self, names: Iterable[str]) -> None:
        """Read some files now, so that they stay readable whatever happens to the directory; raises as `read` does."""
        for name in names:
            if name not in self._held:
                self._held[name] = self._read(name)

    def release(self, name: str) -> None:
        """Forget the bytes of a file that will not be needed again."""
        self._held.pop(name, None)

    def _read(self, name: str) -> Held:
        info = self.files[name]
        try:
            directory = os.open(self.path, _DIRECTORY)
            try:
                return _read_file(directory, name, info)
            finally:
                os.close(directory)
        except (Damaged, OSError) as e:
            raise SerializationError(
                f"{self.path}/{name}: {_reason(e)}", hint="`pypto cache verify --remove` drops damaged entries", code="S130"
            ) from e


def _reason(e: Exception) -> str:
    return str(e.strerror) if isinstance(e, OSError) else str(e)


def _read_bytes(directory: int, name: str, limit: int) -> Held:
    """A whole regular file of at most `limit` bytes; Damaged for anything else, OSError."""
    fd = os.open(name, _FILE, dir_fd=directory)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Damaged(f"{name} is not a regular file")
        if status.st_size > limit:
            raise Damaged(f"{name} is longer than recorded")
        data = os.read(fd, status.st_size + 1)
        while 0 < len(data) < status.st_size:
            more = os.read(fd, status.st_size + 1 - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(fd)
    return Held(data, identity(status))


def identity(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What changes when a file is replaced or written."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_file(directory: int, name: str, info: FileInfo) -> Held:
    held = _read_bytes(directory, name, info.size)
    if len(held.data) != info.size:
        raise Damaged(f"{name} has {len(held.data)} bytes instead of {info.size}")
    if sha256(held.data) != info.sha256:
        raise Damaged(f"{name} has other bytes than recorded")
    return held


def read_manifest(directory: int) -> tuple[dict[str, FileInfo], bytes, int]:
    """Files, record and time of last use (ns) of the entry open as `directory`; Damaged, OSError."""
    held = _read_bytes(directory, MANIFEST, _MAX_MANIFEST)
    files, record = parse_manifest(held.data)
    return files, record, held.identity[3]


def parse_manifest(data: bytes) -> tuple[dict[str, FileInfo], bytes]:
    """Files and record that the bytes of a manifest name; Damaged."""
    body = len(_HEAD) + 65
    if not data.startswith(_HEAD) or data[len(_HEAD) : body] != sha256(data[body:]).encode() + b"\n":
        raise Damaged("the manifest is not of this version or has been altered")
    head, mark, record = data[body:].partition(b"record ")
    size, _, record = record.partition(b"\n")
    files: dict[str, FileInfo] = {}
    for line in head.decode("ascii", "replace").split("\n")[:-1]:
        words = line.split(" ")
        # Longer numbers would be sizes that no file here has.
        if len(words) != 3 or not words[1].isdigit() or len(words[1]) > 10 or not _is_name(words[2]) or words[2] in files:
            raise Damaged("the manifest has a line that is not a file")
        files[words[2]] = FileInfo(words[0], int(words[1]))
    if not mark or not size.isdigit() or size != str(len(record)).encode() or (head and not head.endswith(b"\n")):
        raise Damaged("the manifest has no record")
    return files, record


def read_sealed(path: str) -> tuple[bytes, list[bytes]]:
    """The manifest of the entry at `path` and its files in the manifest's order, all verified; Damaged, OSError."""
    directory = os.open(path, _DIRECTORY)
    try:
        manifest = _read_bytes(directory, MANIFEST, _MAX_MANIFEST).data
        files, _ = parse_manifest(manifest)
        check_listing(directory, files)
        return manifest, [_read_file(directory, name, info).data for name, info in files.items()]
    finally:
        os.close(directory)


def _is_name(name: str) -> bool:
    """Whether an entry can have a file of this name: no directory, nothing hidden, nothing odd."""
    return 0 < len(name) <= 200 and name[0] not in ".+-" and _NAME_CHARACTERS.issuperset(name)


def _manifest(files: Mapping[str, FileInfo], record: bytes) -> bytes:
    lines = [f"{info.sha256} {info.size} {name}\n" for name, info in sorted(files.items())]
    body = "".join([*lines, f"record {len(record)}\n"]).encode() + record
    return _HEAD + sha256(body).encode() + b"\n" + body


def open_entry(path: str, record: bytes, needs: Iterable[str], digest: str) -> tuple[Entry, int]:
    """The entry at `path` and the time of its last use (ns), with the files of `needs` verified and held.

    Checks the manifest, that the directory holds exactly its files, and their sizes.  FileNotFoundError where there
    is no entry; Damaged; Collision if it is another record's; OSError for troubles that are not the entry's.
    """
    for _ in range(8):
        try:
            directory = os.open(path, _DIRECTORY)
        except FileNotFoundError:
            raise
        except OSError as e:
            if e.errno in _NOT_ITS_FAULT:
                raise
            raise Damaged(_reason(e)) from None
        try:
            return _checked(directory, path, record, needs, digest)
        except (Damaged, OSError) as e:
            if isinstance(e, OSError) and e.errno in _NOT_ITS_FAULT:
                raise
            # An entry that was pruned or replaced while it was read is not damaged: look again.
            if _is_still_at(directory, path):
                raise Damaged(_reason(e)) from None
        finally:
            os.close(directory)
    raise FileNotFoundError(path)


def _is_still_at(directory: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(directory), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _checked(directory: int, path: str, record: bytes, needs: Iterable[str], digest: str) -> tuple[Entry, int]:
    problem = distrust(os.fstat(directory))
    if problem:
        raise Damaged(problem)
    files, stored, used = read_manifest(directory)
    if stored != record:
        raise Collision(stored)
    check_listing(directory, files)
    entry = Entry(path, digest, record, files, private=False)
    for name in needs:
        if name not in files:
            raise Damaged(f"{name} is missing")
        entry._held[name] = _read_file(directory, name, files[name])
    return entry, used


def check_listing(directory: int, files: Mapping[str, FileInfo], *, content: bool = False) -> None:
    """Damaged unless the directory holds exactly these files with these sizes (with `content`: and bytes)."""
    present = set(os.listdir(directory))
    present.discard(MANIFEST)
    if present != files.keys():
        raise Damaged("files are missing or too many: " + ", ".join(sorted(present ^ files.keys())))
    for name, info in files.items():
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size != info.size:
            raise Damaged(f"{name} is not a regular file of {info.size} bytes")
        if content:
            _read_file(directory, name, info)


def seal(path: str, record: bytes, needs: Iterable[str], digest: str, final: str = "") -> Entry:
    """Make an entry of the files that a builder left in `path`: a private one, or one that will be renamed to `final`.

    For the latter the manifest is written last.  OSError;
    InternalError for names that an entry cannot have, links, subdirectories, or a file of `needs` that is not there.
    """
    directory = os.open(path, _DIRECTORY)
    try:
        files: dict[str, FileInfo] = {}
        held: dict[str, Held] = {}
        for name in sorted(os.listdir(directory)):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or name == MANIFEST or not _is_name(name):
                raise InternalError(f"an entry cannot have a file {name!r} of mode {status.st_mode:o}")
            held[name] = _read_bytes(directory, name, status.st_size)
            files[name] = FileInfo(sha256(held[name].data), len(held[name].data))
        missing = [name for name in needs if name not in files]
        if missing:
            raise InternalError(f"the builder did not make {', '.join(missing)}")
        if final:
            _write(directory, _manifest(files, record))
    finally:
        os.close(directory)
    entry = Entry(final or path, digest, record, files, private=not final)
    entry._held.update({name: held[name] for name in needs})
    return entry


def _write(directory: int, manifest: bytes) -> None:
    # Nothing waits for the disk: what a loss of power takes from an entry, the hashes notice, and it is built again.
    fd = os.open(MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        view = memoryview(manifest)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
