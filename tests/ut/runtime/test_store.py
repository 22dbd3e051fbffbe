"""The store in one process: what is found, what is refused, what is never served."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from box import HEAD, damage, record, run, said, snapshot, writer

from pypto.errors import ConfigError, InternalError, SerializationError
from pypto.runtime import directories, stats
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


def test_miss_build_hit(store: Store, root: Path) -> None:
    assert store.lookup(KEY, NEEDS) is None
    built = build(store)
    found = Store(str(root), "on").lookup(KEY, NEEDS)
    assert found is not None
    assert not found.private
    assert found.path == built.path
    assert found.read("kernel.so") == b"code"
    assert found.read("kernel.c") == b"text"
    assert sorted(found.files) == ["kernel.c", "kernel.so"]
    assert found.record == KEY
    assert store.lookup(record(kernel="k", n=True), NEEDS) is None


def test_a_second_build_is_the_first_one(store: Store, root: Path) -> None:
    calls: list[str] = []
    first = build(store, calls=calls)
    assert build(Store(str(root), "on"), calls=calls).path == first.path
    assert len(calls) == 1


def test_directories_are_private_and_nothing_is_left_over(store: Store, root: Path) -> None:
    build(store)
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o700 for p in [root, *root.rglob("*")] if p.is_dir())
    assert not [p for p in root.rglob("*") if "tmp" in p.name or "lock" in p.name]


def test_counters(store: Store) -> None:
    before = stats.cache_stats()
    store.lookup(KEY, NEEDS)
    build(store)
    store.lookup(KEY, NEEDS)
    store.build_once(record(unit=1), writer(a="b"), counted=False)
    store.lookup(record(unit=1), counted=False)
    after = stats.cache_stats()
    changed = {n: getattr(after, n) - getattr(before, n) for n in after._fields if n != "last_bypass_reason"}
    assert changed.pop("lookup_ns") > 0
    assert changed.pop("build_ns") > 0
    assert {n: v for n, v in changed.items() if v} == {"misses": 1, "disk_hits": 1, "builds": 1}


# Digests.


def test_a_digest_collision_is_a_miss(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = store_module.digest
    monkeypatch.setattr(store_module, "digest", lambda data: real(data)[:1] * 64)
    keys = [record(n=i) for i in range(40)]
    for _ in range(3):
        store_module._private.clear()
        for i, key in enumerate(keys):
            entry = store.lookup(key, NEEDS) or build(store, key, kernel_so=f"code {i}")
            assert entry.read("kernel.so") == f"code {i}".encode()
    assert 1 < len(list(root.glob("v1/*/*"))) <= 16


# Failing builders.


def fails(error: BaseException) -> Callable[[str], None]:
    def builder(directory: str) -> None:
        Path(directory, "half").write_text("")
        raise error

    return builder


@pytest.mark.parametrize("error", [ValueError("no"), OSError(5, "I/O"), KeyboardInterrupt(), MemoryError()])
def test_a_failed_build_leaves_nothing_and_its_error_is_unchanged(store: Store, root: Path, error: BaseException) -> None:
    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            store.build_once(KEY, fails(error), NEEDS)
        assert caught.value is error
    assert not [p for p in root.rglob("*") if p.is_file() or p.name.endswith("tmp")]
    assert build(store).read("kernel.so") == b"code"


def test_what_a_builder_must_not_make(store: Store) -> None:
    def link(directory: str) -> None:
        os.symlink("/etc/passwd", directory + "/kernel.so")

    def deep(directory: str) -> None:
        os.mkdir(directory + "/sub")

    for builder in (link, deep, writer(other=""), writer(manifest="")):
        with pytest.raises(InternalError):
            store.build_once(KEY, builder, NEEDS)


def test_threads_share_one_build(store: Store) -> None:
    calls: list[str] = []
    barrier = threading.Barrier(12)
    got: list[object] = []

    def slow(directory: str) -> None:
        time.sleep(0.2)
        writer(calls, **FILES)(directory)

    def work() -> None:
        barrier.wait()
        got.append(store.build_once(KEY, slow, NEEDS))

    threads = [threading.Thread(target=work) for _ in range(12)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(calls) == 1
    assert len({id(e) for e in got}) == 1


def test_threads_share_one_error_but_not_an_interruption(store: Store) -> None:
    barrier = threading.Barrier(6)
    tries: list[int] = []
    got: list[BaseException] = []

    def builder(directory: str) -> None:
        time.sleep(0.1)
        tries.append(1)
        raise KeyboardInterrupt if len(tries) == 1 else ValueError("really")

    def work() -> None:
        barrier.wait()
        try:
            store.build_once(KEY, builder, NEEDS)
        except BaseException as e:
            got.append(e)

    threads = [threading.Thread(target=work) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(type(e).__name__ for e in got) == ["KeyboardInterrupt"] + ["ValueError"] * 5
    assert len({id(e) for e in got}) == 2
    assert len(tries) == 2


def test_a_build_that_asks_for_itself_is_an_error(store: Store) -> None:
    with pytest.raises(InternalError, match="waits for itself"):
        store.build_once(KEY, lambda directory: build(store) and None, NEEDS)


# Modes and refused roots.


def test_readonly_changes_nothing(store: Store, root: Path) -> None:
    os.utime(build(store).path + "/manifest", (1, 1))
    before = snapshot(root)
    reader = Store(str(root), "readonly")
    assert reader.lookup(KEY, NEEDS) is not None
    other = record(n=2)
    assert reader.lookup(other, NEEDS) is None
    assert build(reader, other).private
    assert reader.lookup(other, NEEDS) is not None
    with pytest.raises(ConfigError):
        reader.prune(0)
    assert snapshot(root) == before
    damage("flip", Path(store.entries()[0].path, "kernel.so"))
    before = snapshot(root)
    with said():
        assert reader.lookup(KEY, NEEDS) is None
        assert build(reader).read("kernel.so") == b"code"
    assert snapshot(root) == before


def test_readonly_with_no_root_makes_none(root: Path) -> None:
    reader = Store(str(root), "readonly")
    assert reader.lookup(KEY) is None
    assert build(reader).private
    assert not root.exists()


def test_off_is_always_private(root: Path) -> None:
    off = Store(str(root), "off")
    calls: list[str] = []
    assert build(off, calls=calls) is build(off, calls=calls)
    assert len(calls) == 1
    assert stat.S_IMODE(os.stat(calls[0]).st_mode) == 0o700
    assert not root.exists()


def test_a_private_build_that_was_cleaned_away_is_built_again(root: Path) -> None:
    off = Store(str(root), "off")
    shutil.rmtree(build(off).path)
    entry = off.lookup(KEY, ("kernel.c",))
    assert entry is None
    assert off.build_once(KEY, writer(**FILES), ("kernel.c",)).read("kernel.c") == b"text"


def test_fresh_private_builds_are_not_found_again(store: Store) -> None:
    calls: list[str] = []
    for _ in range(2):
        store.build_private(KEY, writer(calls, **FILES), NEEDS)
    assert len(calls) == 2
    assert store.lookup(KEY, NEEDS) is None


@pytest.mark.parametrize("where", ["", "v1", "shard"])
@pytest.mark.parametrize("what", ["mode", "owner"])
def test_a_place_that_others_can_write_or_own_is_refused(store: Store, root: Path, where: str, what: str) -> None:
    if what == "owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    loose = {"": root, "v1": root / "v1", "shard": Path(build(store).path).parent}[where]
    if what == "mode":
        loose.chmod(0o777)
    else:
        os.chown(loose, 4242, 4242)
    fresh = Store(str(root), "on")
    with said(str(loose), "PYPTO_CACHE_DIR"):
        assert fresh.lookup(KEY, NEEDS) is None
        assert build(fresh).private


def test_a_parent_that_everyone_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "mine").mkdir(mode=0o700)
    with said("every user can write"):
        assert build(Store(str(tmp_path / "open" / "mine"), "on")).private
    (tmp_path / "open").chmod(0o1777)
    assert not build(Store(str(tmp_path / "open" / "mine"), "on"), record(n=2)).private


@pytest.mark.parametrize("root_text", ["/proc/none", "{file}", "{file}/below", "\0", "/dev/null/x"])
def test_a_root_that_cannot_be_is_said_once(tmp_path: Path, root_text: str) -> None:
    (tmp_path / "file").write_text("")
    store = Store(root_text.format(file=tmp_path / "file"), "on")
    directories._said.pop("storage ", None)
    before = count("storage_errors")
    with said("PYPTO_CACHE_DIR"):
        assert store.lookup(KEY, NEEDS) is None
        assert build(store).private
        assert build(store, record(n=2)).private
    assert count("storage_errors") >= before + 2


def test_a_root_over_a_link_is_used_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("there")
    entry = build(Store(str(tmp_path / "link"), "on"))
    assert entry.path.startswith(str(tmp_path / "there"))
    assert Store(str(tmp_path / "there"), "on").lookup(KEY, NEEDS) is not None


def test_a_root_that_vanishes_is_made_again(store: Store, root: Path) -> None:
    build(store)
    shutil.rmtree(root)
    assert store.lookup(KEY, NEEDS) is None
    assert not build(store).private
    assert store.lookup(KEY, NEEDS) is not None


def test_the_root_vanishes_during_a_build(store: Store, root: Path) -> None:
    def builder(directory: str) -> None:
        if directory.startswith(str(root)):
            shutil.rmtree(root)
        Path(directory, "kernel.so").write_text("code")

    with said():
        assert store.build_once(KEY, builder, NEEDS).read("kernel.so") == b"code"


def test_needed_bytes_survive_the_entry(store: Store) -> None:
    build(store)
    found = store.lookup(KEY, NEEDS)
    assert found is not None
    shutil.rmtree(found.path)
    assert found.read("kernel.so") == b"code"
    with pytest.raises(SerializationError):
        found.read("kernel.c")


@pytest.mark.parametrize("call", ["mkdir", "rename", "utime", "write", "listdir", "fstat"])
def test_any_failing_call_ends_in_a_private_build(store: Store, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    build(store, record(n="other"))

    real = getattr(os, call)

    def refuse(place: object, *args: object, **kwargs: object) -> object:
        # Whatever is outside of the root still works: its paths and the descriptors that lead there.
        path = os.readlink(f"/proc/self/fd/{place}") if isinstance(place, int) else os.fspath(place)  # type: ignore[arg-type]
        if str(path).startswith(store.root):
            raise OSError(28, "No space left on device")
        return real(place, *args, **kwargs)

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(os, call, refuse)
        entry = build(store)
    assert entry.read("kernel.so") == b"code"
    assert entry.private == (call != "utime")
    assert not build(store, record(n="again")).private
    store.prune(1 << 30)
    assert not [p for p in Path(store.root).rglob("*") if p.name.endswith(("tmp", "lock"))]


def test_default_roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    platformdirs = pytest.importorskip("platformdirs")
    for home, xdg in ((str(tmp_path), ""), (str(tmp_path), str(tmp_path / "xdg")), (str(tmp_path), "relative")):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
        expected = f"{tmp_path}/.cache/pypto" if xdg == "relative" else platformdirs.user_cache_dir("pypto")
        assert directories.default_root() == expected
    monkeypatch.delenv("XDG_CACHE_HOME")
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        assert directories.default_root().startswith("/")


def test_options_choose_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(tmp_path / "a"))
    monkeypatch.setenv("PYPTO_CACHE", "readonly")
    first = store_module.default_store()
    assert (first.root, first.mode, first.origin) == (str(tmp_path / "a"), "readonly", "PYPTO_CACHE_DIR")
    assert store_module.default_store() is first
    monkeypatch.setenv("PYPTO_CACHE", "sometimes")
    with pytest.raises(ConfigError, match="on, readonly, off"):
        store_module.default_store()


def test_a_root_is_absolute_once_and_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYPTO_CACHE_DIR", "~/a/b")
    assert store_module.default_store().root == f"{tmp_path}/home/a/b"
    name = f"relative-{tmp_path.name}"
    monkeypatch.setenv("PYPTO_CACHE_DIR", name)
    monkeypatch.chdir(tmp_path)
    first = store_module.default_store()
    assert first.root == f"{tmp_path}/{name}"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert store_module.default_store() is first
    monkeypatch.setenv("PYPTO_CACHE_DIR", "~nobody-of-this-name/x")
    with pytest.raises(ConfigError, match=r"PYPTO_CACHE_DIR='~nobody-of-this-name/x': there is no home"):
        store_module.default_store()


def test_a_warm_look_up_imports_little(store: Store, root: Path) -> None:
    run(HEAD + "make('x')", PYPTO_CACHE_DIR=root)
    code = (
        HEAD
        + """
def build(directory): raise AssertionError("built")
make('x', build)
heavy = "filelock msgpack subprocess tempfile shutil platformdirs hashlib json threading fcntl shlex numpy pypto.runtime.prune"
print([m for m in heavy.split() if m in sys.modules])
"""
    )
    assert run(code, PYPTO_CACHE_DIR=root)[0] == "[]\n"


def test_a_look_up_does_not_read_the_store(store: Store, root: Path) -> None:
    path = Path(build(store).path)
    for i in range(2000):
        path.with_name(f"{i:064x}").mkdir()
    opened: list[object] = []
    listed: list[object] = []
    real_open, real_list = os.open, os.listdir
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", lambda *a, **k: (opened.append(a), real_open(*a, **k))[1])
        patch.setattr(os, "listdir", lambda *a: (listed.append(a), real_list(*a))[1])
        assert store.lookup(KEY, NEEDS) is not None
    assert len(opened) == 3
    assert len(listed) == 1
