"""Entries in one file: what was written comes back, and nothing else does."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from box import record, writer

from pypto.errors import SerializationError
from pypto.runtime import archive, entry
from pypto.runtime.archive import opened, unpack, write
from pypto.runtime.record import sha256
from pypto.runtime.store import Store, digest

FILES = {"data": "12345", "kernel_so": "x" * 3000}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "cache"), "on")


@pytest.fixture
def good(store: Store, tmp_path: Path) -> Path:
    """An archive of three entries."""
    for n in range(3):
        store.build_once(record(n=n), writer(**FILES))
    write(str(tmp_path / "good.pc"), store.entries())
    return tmp_path / "good.pc"


def read(path: Path) -> list[archive.Packed]:
    with opened(str(path)) as file:
        return list(unpack(file, digest))


def test_there_and_back(store: Store, good: Path) -> None:
    found = read(good)
    assert [p.digest for p in found] == [e.digest for e in store.entries()]
    assert {p.record for p in found} == {record(n=n) for n in range(3)}
    assert {(name, data) for p in found for name, data in p.files.items()} == {("data", b"12345"), ("kernel.so", b"x" * 3000)}
    written = write(str(good), store.entries())
    assert (written.entries, written.size) == (3, good.stat().st_size)
    assert written.sha256 == hashlib.sha256(good.read_bytes()).hexdigest()
    write(str(good), [])
    assert read(good) == []


def test_an_archive_is_made_in_one_step(store: Store, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = good.read_bytes()
    Path(store.entries()[1].path, "data").write_text("other")
    with pytest.raises(SerializationError, match="other bytes") as caught:
        write(str(good), store.entries())
    assert caught.value.code == "S130"
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write(str(good), [])
    assert good.read_bytes() == before
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".part")]


def test_entries_that_go_meanwhile_are_left_out(store: Store, good: Path) -> None:
    found = store.entries()
    store.remove(found[1].digest)
    assert write(str(good), found).entries == 2
    assert [p.digest for p in read(good)] == [found[0].digest, found[2].digest]


def refused(path: Path, data: bytes, bound: int = 3) -> str:
    """The reason why an archive is refused; before, at most `bound` entries came out, all of them as they were written."""
    path.write_bytes(data)
    got: list[archive.Packed] = []
    with opened(str(path)) as file, pytest.raises(SerializationError) as caught:
        got.extend(unpack(file, digest))
    for packed in got:
        assert packed.record in [record(n=n) for n in range(3)]
        assert packed.files.items() <= {"data": b"12345", "kernel.so": b"x" * 3000}.items()
    assert caught.value.code == "S140"
    assert str(path) in str(caught.value)
    assert len(got) <= bound
    return str(caught.value)


def test_any_cut_and_any_changed_byte(good: Path, tmp_path: Path) -> None:
    data = good.read_bytes()
    numbers = random.Random(5)
    places = {0, 1, 13, 14, 15, 90, len(data) - 1, len(data) - 70, *(numbers.randrange(len(data)) for _ in range(300))}
    for at in sorted(places):
        refused(tmp_path / "bad", data[:at])
        refused(tmp_path / "bad", data[:at] + bytes([data[at] ^ (1 << numbers.randrange(8))]) + data[at + 1 :])
        refused(tmp_path / "bad", data[:at] + data[at + 1 :])
        refused(tmp_path / "bad", data[:at] + b"\0" + data[at:])


def resealed(body: bytes, entries: int) -> bytes:
    """A body with an end that fits: what somebody makes who knows the format."""
    return body + f"end {entries} {hashlib.sha256(body).hexdigest()}\n".encode()


def one(
    name: str = "data", content: bytes = b"12345", size: int | None = None, key: bytes | None = None, times: int = 1
) -> bytes:
    """An entry with a manifest whose own checksum is right."""
    key, content = record(n=0) if key is None else key, b"12345"
    line = f"{sha256(content)} {len(content) if size is None else size} {name}\n".encode()
    body = line * times + f"record {len(key)}\n".encode() + key
    manifest = b"pypto-entry 1\n" + sha256(body).encode() + b"\n" + body
    return f"entry {digest(record(n=0))} {len(manifest)}\n".encode() + manifest + content * times


HEAD = b"pypto-cache 1\n"
HOSTILE: dict[str, Callable[[], bytes]] = {
    "climbs": lambda: resealed(HEAD + one("../../evil.so"), 1),
    "absolute": lambda: resealed(HEAD + one("/tmp/evil.so"), 1),
    "hidden": lambda: resealed(HEAD + one(".evil"), 1),
    "directory": lambda: resealed(HEAD + one("a/b"), 1),
    "twice": lambda: resealed(HEAD + one(times=2), 1),
    "endless file": lambda: resealed(HEAD + one(size=9_999_999_999), 1),
    "longer file": lambda: resealed(HEAD + one(size=6), 1),
    "another record": lambda: resealed(HEAD + one(key=record(n=1)), 1),
    "endless manifest": lambda: HEAD + f"entry {'0' * 64} 99999999\n".encode(),
    "endless number": lambda: HEAD + b"entry " + b"0" * 64 + b" " + b"9" * 100_000 + b"\n",
    "endless line": lambda: HEAD + b"e" * 1_000_000,
    "fewer": lambda: resealed(HEAD + one(), 0),
    "more": lambda: resealed(HEAD + one(), 2),
    "behind the end": lambda: resealed(HEAD + one(), 1) + b"x",
    "two archives": lambda: resealed(HEAD, 0) * 2,
    "another end": lambda: HEAD + one() + f"end 1 {'0' * 64}\n".encode(),
    "another version": lambda: resealed(b"pypto-cache 2\n", 0),
    "empty": lambda: b"",
    "a tar": lambda: b"kernel.so" + bytes(503) + b"ustar",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_archives_that_somebody_made(tmp_path: Path, kind: str) -> None:
    assert read_bytes(tmp_path, resealed(HEAD + one(), 1)) == 1  # the maker of these is right
    refused(tmp_path / "bad", HOSTILE[kind](), bound=1)


def read_bytes(tmp_path: Path, data: bytes) -> int:
    (tmp_path / "made").write_bytes(data)
    return len(read(tmp_path / "made"))


def test_no_memory_is_taken_on_the_word_of_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = archive._Reader.take
    monkeypatch.setattr(archive._Reader, "take", lambda self, n: (asked.append(min(n, self.left)), real(self, n))[1])
    for kind in ("endless file", "endless manifest"):
        refused(tmp_path / "bad", HOSTILE[kind]())
    assert max(asked) < 1000


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done: list[str] = []

    def work() -> None:
        for path in (tmp_path / "fifo", Path("/dev/zero"), Path("/dev/null")):
            with pytest.raises(SerializationError, match="not a regular file"), opened(str(path)):
                pass
            done.append(str(path))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(20)
    assert len(done) == 3
    with pytest.raises(OSError, match="directory"), opened(str(tmp_path)):
        pass


def test_a_file_that_shrinks_while_it_is_read(good: Path) -> None:
    with opened(str(good)) as file:
        parts = unpack(file, digest)
        next(parts)
        os.truncate(good, good.stat().st_size // 2)
        with pytest.raises(SerializationError):
            list(parts)


def test_manifests_are_judged_by_one_function() -> None:
    assert archive.parse_manifest is entry.parse_manifest
