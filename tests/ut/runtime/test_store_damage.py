"""Entries that are not what was written: noticed, said once, healed, never served."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from box import damage, record, said, writer

from pypto.errors import SerializationError
from pypto.runtime import stats
from pypto.runtime import store as store_module
from pypto.runtime.store import Store

KEY = record(kernel="k", n=1)
NEEDS = ("kernel.so",)
FILES = {"kernel_so": "code", "kernel_c": "text"}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    store_module._private.clear()


@pytest.fixture
def store(root: Path) -> Store:
    return Store(str(root), "on")


def build(store: Store, key: bytes = KEY, calls: list[str] | None = None, **files: str) -> store_module.Entry:
    return store.build_once(key, writer(calls, **(files or FILES)), NEEDS)


def count(name: str) -> int:
    value: int = getattr(stats.cache_stats(), name)
    return value


DAMAGES = ["delete", "empty", "one", "half", "flip", "longer", "directory", "symlink", "loop", "fifo"]
HOSTILE = [
    b"\xc1",
    b"\x80", b"\xdf\xff\xff\xff\xff", b"\x91" * 200000, b"{}", b"[" * 200000, b'{"schema": 1e999}', b"null", b"\xff" * 64,
    b"pypto-entry 1\n", b"pypto-entry 2\n" + b"0" * 64 + b"\n",
]  # fmt: skip


@pytest.mark.parametrize("name", ["manifest", "kernel.so"])
@pytest.mark.parametrize("kind", DAMAGES + HOSTILE, ids=lambda kind: kind if isinstance(kind, str) else kind[:14].hex())
def test_damage_is_noticed_said_once_and_healed(store: Store, root: Path, name: str, kind: str | bytes) -> None:
    path = Path(build(store).path, name)
    damage(kind, path)
    before = count("invalid_entries")
    with said(path.parent.name):
        assert store.lookup(KEY, NEEDS) is None
        healed = build(store)
    assert count("invalid_entries") == before + 1
    assert healed.read("kernel.so") == b"code"
    found = Store(str(root), "on").lookup(KEY, NEEDS)
    assert found is not None
    assert found.read("kernel.c") == b"text"
    assert not [p for p in root.rglob("*") if "tmp" in p.name]


@pytest.mark.parametrize("kind", ["delete", "half", "longer", "directory", "symlink", "fifo"])
def test_files_that_are_not_needed_now_must_have_their_sizes(store: Store, kind: str) -> None:
    damage(kind, Path(build(store).path, "kernel.c"))
    with said():
        assert store.lookup(KEY, NEEDS) is None


def test_a_file_read_later_is_verified_then(store: Store) -> None:
    build(store)
    found = store.lookup(KEY, NEEDS)
    assert found is not None
    damage("flip", Path(found.path, "kernel.c"))
    with pytest.raises(SerializationError, match=r"kernel\.c.*other bytes"):
        found.read("kernel.c")
    # Who needs that file now has the entry replaced.
    with said():
        again = store.build_once(KEY, writer(**FILES), ("kernel.c",))
    assert again.read("kernel.c") == b"text"


def test_a_link_to_the_same_bytes_is_no_file(store: Store, tmp_path: Path) -> None:
    found = build(store)
    (tmp_path / "same").write_text("text")
    Path(found.path, "kernel.c").unlink()
    Path(found.path, "kernel.c").symlink_to(tmp_path / "same")
    with pytest.raises(SerializationError, match="symbolic link"):
        found.read("kernel.c")


@pytest.mark.parametrize("when", ["before the listing", "before the file", "replaced"])
def test_an_entry_that_goes_while_it_is_read_is_a_miss(store: Store, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    build(store)
    real = {"listdir": os.listdir, "open": os.open}
    done: list[int] = []

    def lose() -> None:
        if not done:
            done.append(1)
            store.clear()
            if when == "replaced":
                build(store)

    def listing(*args: object) -> object:
        if when == "before the listing":
            lose()
        return real["listdir"](*args)  # type: ignore[operator]

    def opening(path: object, *args: object, **kwargs: object) -> object:
        if path == "kernel.so" and when != "before the listing":
            lose()
        return real["open"](path, *args, **kwargs)  # type: ignore[operator]

    monkeypatch.setattr(os, "listdir", listing)
    monkeypatch.setattr(os, "open", opening)
    found = store.lookup(KEY, NEEDS)
    assert done
    assert (found is not None) == (when == "replaced")


def manifest_of(path: Path, body: bytes) -> None:
    (path / "manifest").write_bytes(b"pypto-entry 1\n" + store_module.sha256(body).encode() + b"\n" + body)


def line(text: bytes, name: str) -> bytes:
    return f"{store_module.sha256(text)} {len(text)} {name}\n".encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda good, tail: good.replace(b"kernel.so", b"../../evil.so"),
        lambda good, tail: good.replace(b"kernel.so", b"/tmp/evil.so"),
        lambda good, tail: good.replace(b"kernel.so", b".."),
        lambda good, tail: line(b"code", "kernel.so") + good,
        lambda good, tail: line(b"more", "more") + good,
        lambda good, tail: good.replace(line(b"text", "kernel.c"), b""),
        lambda good, tail: good.replace(b" 4 kernel.so", b" -4 kernel.so"),
        lambda good, tail: good.replace(b" 4 kernel.so", b" 99999999999999999999 kernel.so"),
        lambda good, tail: good.replace(b" 4 kernel.so", "\u00b2 kernel.so".encode()),
        lambda good, tail: good.replace(tail, b""),
        lambda good, tail: good + b"x",
        lambda good, tail: good.replace(b"record ", b"record 1"),
    ],
    ids=range(12),
)
def test_a_manifest_with_a_right_checksum_is_not_believed_either(store: Store, change: Callable[[bytes, bytes], bytes]) -> None:
    path = Path(build(store).path)
    good = line(b"text", "kernel.c") + line(b"code", "kernel.so") + f"record {len(KEY)}\n".encode() + KEY
    manifest_of(path, good)
    assert store.lookup(KEY, NEEDS) is not None
    manifest_of(path, change(good, KEY))
    with said():
        assert store.lookup(KEY, NEEDS) is None


def test_extra_files_and_swapped_entries(store: Store) -> None:
    other = record(kernel="other")
    a, b = Path(build(store).path), Path(build(store, other, kernel_so="CODE").path)
    a.rename(a.with_name("aside"))
    b.rename(a)
    a.with_name("aside").rename(b)
    with said("another record's", times=2):
        assert store.lookup(KEY, NEEDS) is None
        assert store.lookup(other, NEEDS) is None
    assert build(store).read("kernel.so") == b"code"
    (a / "surplus").write_text("")
    assert store.lookup(KEY, NEEDS) is None


def test_an_entry_without_permissions_is_replaced(store: Store, root: Path) -> None:
    path = Path(build(store).path)
    path.chmod(0o777)
    with said("written by other users"):
        assert store.lookup(KEY, NEEDS) is None
        assert not build(store).private
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
