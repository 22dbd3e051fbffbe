"""Entries of the store in one file, to be taken elsewhere.

In: entries, or a file that may hold anything.  Out: the file, or its entries one by one, each checked against its hashes.
Nothing is believed that was not hashed: lengths are compared with what is there before anything is read.

    pypto-cache 1
    entry <digest of the record> <bytes of the manifest>     for each entry; then the manifest, then the files in its order
    end <entries> <SHA-256 of all that comes before this line>
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

from pypto.errors import SerializationError
from pypto.named import NamedTuple
from pypto.runtime.entry import Damaged, parse_manifest, read_sealed
from pypto.runtime.prune import EntryInfo
from pypto.runtime.record import sha256

__all__ = ["Packed", "Written", "opened", "unpack", "write"]

_HEAD = b"pypto-cache 1\n"
_ENTRY = re.compile(rb"entry ([0-9a-f]{64}) ([0-9]{1,8})\n")
_END = re.compile(rb"end ([0-9]{1,12}) ([0-9a-f]{64})\n")
_LONGEST_LINE = 128


class Packed(NamedTuple):
    """One entry of an archive, verified."""

    digest: str
    record: bytes
    files: Mapping[str, bytes]


class Written(NamedTuple):
    """What an archive was made of; `size` in bytes, `sha256` of the whole file."""

    entries: int
    size: int
    sha256: str


class _Hashing:
    """A file that is written, and the hash of what was."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.hash.update(data)
        self.size += len(data)


def write(path: str, entries: Iterable[EntryInfo]) -> Written:
    """Make the archive `path` in one step, in the place of a file that may be there.

    OSError if it cannot be written; SerializationError (S130) for an entry that is damaged.  Entries that went meanwhile
    are left out.
    """
    path = os.path.abspath(path)
    fd, made = tempfile.mkstemp(prefix=".pypto-", suffix=".part", dir=os.path.dirname(path))
    try:
        with open(fd, "wb") as file:
            written = _write(_Hashing(file), entries)
            file.flush()
            os.fsync(fd)
        os.chmod(made, 0o666 & ~_umask())
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
    return written


def _write(out: _Hashing, entries: Iterable[EntryInfo]) -> Written:
    out.write(_HEAD)
    count = 0
    for entry in entries:
        try:
            manifest, files = read_sealed(entry.path)
        except FileNotFoundError:
            continue
        except (Damaged, OSError) as e:
            hint = "`pypto cache verify --remove` drops damaged entries"
            raise SerializationError(f"{entry.path}: {getattr(e, 'strerror', None) or e}", hint=hint, code="S130") from e
        out.write(f"entry {entry.digest} {len(manifest)}\n".encode())
        out.write(manifest)
        for data in files:
            out.write(data)
        count += 1
    out.write(f"end {count} {out.hash.hexdigest()}\n".encode())
    return Written(count, out.size, out.hash.hexdigest())


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class _Reader:
    """What is left of a file of known size."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.left, self.hash = file, size, hashlib.sha256()

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Damaged("it ends early")
        data = self.file.read(size)
        if len(data) != size:
            raise Damaged("it became shorter while it was read")
        self.left -= size
        self.hash.update(data)
        return data

    def line(self) -> tuple[bytes, str]:
        """A line, and the hash of all before it."""
        before = self.hash.hexdigest()
        line = self.file.readline(min(_LONGEST_LINE, self.left))
        self.left -= len(line)
        self.hash.update(line)
        return line, before


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The archive, open for `unpack`; OSError, SerializationError (S140) for what is no regular file."""
    # O_NONBLOCK: opening a FIFO must not wait for a writer.  An opener: the file keeps its name, which errors show.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _refused(path, "it is not a regular file")
        yield file


def _refused(path: str, reason: object) -> SerializationError:
    return SerializationError(
        f"{path} is no archive of a cache: {reason}", hint="make one with `pypto cache export`", code="S140"
    )


def unpack(file: BinaryIO, digest: Callable[[bytes], str]) -> Iterator[Packed]:
    """The entries of an archive from its beginning on; SerializationError (S140) as soon as anything is not as it was written.

    Only when the last one was taken, the archive as a whole is known to be complete.
    """
    file.seek(0)
    reader = _Reader(file, os.fstat(file.fileno()).st_size)
    try:
        if reader.take(min(len(_HEAD), reader.left)) != _HEAD:
            raise Damaged("it does not begin like one")
        count = 0
        while True:
            line, before = reader.line()
            end = _END.fullmatch(line)
            if end is not None:
                break
            yield _entry(line, reader, digest)
            count += 1
        if int(end[1]) != count or end[2].decode() != before:
            raise Damaged("its last line is another archive's")
        if reader.left:
            raise Damaged("something follows its last line")
    except Damaged as e:
        raise _refused(file.name, e) from None


def _entry(line: bytes, reader: _Reader, digest: Callable[[bytes], str]) -> Packed:
    head = _ENTRY.fullmatch(line)
    if head is None:
        raise Damaged("a line is neither an entry nor the end" if line else "it ends early")
    files, record = parse_manifest(reader.take(int(head[2])))
    name = head[1].decode()
    if digest(record) != name:
        raise Damaged(f"the record of {name} is another entry's")
    if sum(info.size for info in files.values()) > reader.left:
        raise Damaged("it ends early")
    found = {}
    for file, info in files.items():
        found[file] = reader.take(info.size)
        if sha256(found[file]) != info.sha256:
            raise Damaged(f"{file} of {name} has other bytes than recorded")
    return Packed(name, record, found)
