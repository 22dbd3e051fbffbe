"""Loading: only verified bytes, whatever happens to the files; other directories where execution is forbidden."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from box import HEAD, can_mount, environment, record, run, said

from pypto.errors import InternalError, SerializationError, ToolchainError
from pypto.runtime import directories, load
from pypto.runtime import store as store_module
from pypto.runtime.entry import Entry
from pypto.runtime.store import Store

NEEDS = ("kernel.so",)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """Shared objects whose `answer()` is 1, 2, 3; the last one also writes a file when it is loaded."""
    place = tmp_path_factory.mktemp("libraries")
    found = {}
    for n in (1, 2, 3):
        extra = f'__attribute__((constructor)) void f(void) {{ fclose(fopen("{place}/canary", "w")); }}' if n == 3 else ""
        (place / f"{n}.c").write_text(f"#include <stdio.h>\nint answer(void) {{ return {n}; }}\n{extra}\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", place / f"{n}.so", place / f"{n}.c"], check=True)
        found[n] = (place / f"{n}.so").read_bytes()
    found[0] = str(place / "canary").encode()
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    yield Store(str(tmp_path / "cache"), "on")
    store_module._private.clear()


def build(store: Store, n: int, libraries: dict[int, bytes], key: bytes = b"") -> Entry:
    def builder(directory: str) -> None:
        Path(directory, "kernel.so").write_bytes(libraries[n])

    return store.build_once(key or record(n=n, root=store.root), builder, NEEDS)


def answer(library: load.Library) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(library.address("answer"))()


def test_load_once_per_record(store: Store, libraries: dict[int, bytes]) -> None:
    entry = build(store, 1, libraries)
    library = load.library(entry)
    assert answer(library) == 1
    assert library.path == entry.path + "/kernel.so"
    assert load.library(entry) is library
    assert answer(load.library(build(store, 2, libraries))) == 2
    with pytest.raises(InternalError, match="no symbol 'nothing'"):
        library.address("nothing")


def test_another_file_at_a_known_path(store: Store, libraries: dict[int, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "digest", lambda data: "0" * 64)
    for n in (1, 2, 1, 2):
        entry = build(store, n, libraries, record(n=n, root=store.root))
        assert not entry.private
        assert answer(load.library(entry)) == n
        store.clear()
    # The same, for a record that is not in the table of this process yet.
    entry = build(store, 2, libraries, record(n="new", root=store.root))
    assert answer(load.library(entry)) == 2


@pytest.mark.parametrize("how", ["replaced", "rewritten", "link", "gone"])
def test_what_is_loaded_are_the_verified_bytes(store: Store, libraries: dict[int, bytes], tmp_path: Path, how: str) -> None:
    build(store, 1, libraries)
    entry = store.lookup(record(n=1, root=store.root), NEEDS)
    assert entry is not None
    path, evil, canary = Path(entry.path, "kernel.so"), tmp_path / "evil.so", Path(libraries[0].decode())
    evil.write_bytes(libraries[3])
    ctypes.CDLL(str(evil))
    canary.unlink()
    if how == "replaced":
        evil.replace(path)
    elif how == "rewritten":
        path.write_bytes(libraries[3])
    elif how == "link":
        path.unlink()
        path.symlink_to(evil)
    else:
        shutil.rmtree(entry.path)
    library = load.library(entry)
    assert answer(library) == 1
    assert not library.path.startswith(store.root)
    assert not canary.exists()


def test_a_swap_at_the_last_moment_is_noticed(store: Store, libraries: dict[int, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    entry = build(store, 1, libraries)
    real = ctypes.CDLL

    def swapping(path: str) -> ctypes.CDLL:
        if path.startswith(store.root):
            Path(entry.path, "new").write_bytes(libraries[2])
            os.replace(entry.path + "/new", entry.path + "/kernel.so")
        return real(path)

    monkeypatch.setattr(ctypes, "CDLL", swapping)
    assert answer(load.library(entry)) == 1


def test_a_file_that_was_not_needed_is_verified_when_it_is_loaded(store: Store, libraries: dict[int, bytes]) -> None:
    build(store, 1, libraries)
    entry = store.lookup(record(n=1, root=store.root))
    assert entry is not None
    Path(entry.path, "kernel.so").write_bytes(libraries[3].ljust(len(libraries[1]), b"\0")[: len(libraries[1])])
    with pytest.raises(SerializationError):
        load.library(entry)


def refusing(*places: str) -> Callable[[str], ctypes.CDLL]:
    real = ctypes.CDLL

    def open_it(path: str) -> ctypes.CDLL:
        if path.startswith(places):
            raise OSError(f"{path}: failed to map segment from shared object")
        return real(path)

    return open_it


def test_where_execution_is_forbidden_a_copy_is_loaded(
    store: Store, libraries: dict[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    directories._said.pop("execution", None)
    monkeypatch.setattr(ctypes, "CDLL", refusing(store.root))
    with said("noexec", "PYPTO_CACHE_DIR", store.root):
        assert answer(load.library(build(store, 1, libraries))) == 1
        assert answer(load.library(build(store, 2, libraries))) == 2


def test_where_execution_is_forbidden_everywhere_each_place_is_named(
    store: Store, libraries: dict[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", refusing("/"))
    with pytest.raises(ToolchainError) as caught:
        load.library(build(store, 1, libraries))
    assert caught.value.code == "T111"
    assert all(word in str(caught.value) for word in (store.root, "/dev/shm", "/var/tmp", "PYPTO_CACHE_DIR", "noexec"))


def test_a_library_that_cannot_be_loaded_is_a_typed_error(store: Store, libraries: dict[int, bytes]) -> None:
    entry = build(store, 1, {1: b"\x7fELF nonsense"})
    with pytest.raises(ToolchainError, match="cannot be loaded") as caught:
        load.library(entry)
    assert caught.value.code == "T110"


@pytest.mark.skipif(not can_mount(), reason="no right to mount")
def test_a_file_system_that_forbids_execution(tmp_path: Path, libraries: dict[int, bytes]) -> None:
    (tmp_path / "one.so").write_bytes(libraries[1])
    code = (
        HEAD
        + f"""
import ctypes, shutil
entry = store.default_store().build_once(Record({{"n": 1}}).encoded, lambda d: shutil.copy("{tmp_path}/one.so", d + "/kernel.so"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(load.library(entry).address("answer"))())
"""
    )
    (tmp_path / "t.py").write_text(code)
    command = (
        f"mount -t tmpfs -o noexec,mode=0700 none /mnt && {sys.executable} {tmp_path}/t.py && {sys.executable} {tmp_path}/t.py"
    )
    p = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command], env=environment(PYPTO_CACHE_DIR="/mnt"), capture_output=True, text=True
    )
    assert p.stdout.split() == ["1", "1"], p.stderr
    assert p.stderr.count("noexec") == 2
    assert p.stderr.count("PyptoWarning") == 2
    assert p.stderr.count("PYPTO_CACHE_DIR") == 2


@pytest.mark.skipif(not Path(sysconfig.get_paths()["include"], "Python.h").exists(), reason="no Python headers")
@pytest.mark.parametrize("forbidden", [False, True])
def test_extension_modules(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forbidden: bool) -> None:
    source = tmp_path / "m.c"
    source.write_text(
        '#include <Python.h>\nstatic struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "box_extension", 0, -1, 0};\n'
        "PyMODINIT_FUNC PyInit_box_extension(void) { return PyModule_Create(&d); }\n"
    )
    include = sysconfig.get_paths()["include"]
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{include}", "-o", tmp_path / "m.so", source], check=True)
    entry = store.build_once(record(root=store.root), lambda d: shutil.copy(tmp_path / "m.so", d) and None, ("m.so",))
    if forbidden:
        directories._said.pop("execution", None)
        import importlib.machinery

        real = importlib.machinery.ExtensionFileLoader.create_module

        def create(self: importlib.machinery.ExtensionFileLoader, spec: importlib.machinery.ModuleSpec) -> object:
            if str(spec.origin).startswith(store.root):
                raise ImportError(f"{spec.origin}: failed to map segment from shared object")
            return real(self, spec)

        monkeypatch.setattr(importlib.machinery.ExtensionFileLoader, "create_module", create)
        with said("noexec"):
            module = load.extension(entry, "m.so", "box_extension")
    else:
        module = load.extension(entry, "m.so", "box_extension")
    assert module.__name__ == "box_extension"


def test_symbols_of_one_library_are_invisible_to_another(tmp_path: Path) -> None:
    # Both define `answer`, and each calls its own.
    for n in (1, 2):
        (tmp_path / f"{n}.c").write_text(f"int inner(void) {{ return {n}; }}\nint answer(void) {{ return inner(); }}\n")
    code = (
        HEAD
        + f"""
import ctypes
from pypto.runtime import build, toolchain
s = store.default_store(); tc = toolchain.find(s)
def kernel(n):
    text = open(f"{tmp_path}/{{n}}.c").read()
    make = lambda directory: build.compile_shared(tc, {{"kernel.c": text}}, directory, "kernel.so")
    e = s.build_once(Record({{"n": n}}).encoded, make, ("kernel.so",))
    return ctypes.CFUNCTYPE(ctypes.c_int)(load.library(e).address("answer"))
print(kernel(1)(), kernel(2)(), kernel(1)(), hasattr(ctypes.CDLL(None), "inner"))
"""
    )
    assert run(code, PYPTO_CACHE_DIR=tmp_path / "cache")[0] == "1 2 1 False\n"
