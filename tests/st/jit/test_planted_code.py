"""Code that somebody else put where ours is looked for: it never runs."""

import os
import shutil
import subprocess
import sys
import warnings

import pytest
from jit_kit import NO_LAUNCHER, SCALE, call, scaled

import pypto
from pypto.runtime import directories, store

CODE = SCALE.replace("FACTOR", "101.0")  # in the seed's cache


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A library whose loading leaves a file, and that file's path."""
    folder = tmp_path_factory.mktemp("evil")
    canary = folder / "canary"
    text = f'#include <stdio.h>\n__attribute__((constructor)) void f(void) {{ fclose(fopen("{canary}", "w")); }}\n'
    (folder / "evil.c").write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "evil.so", folder / "evil.c"], check=True)
    subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(folder / 'evil.so')!r})"], check=True)
    assert canary.exists()  # it does work
    canary.unlink()
    return folder / "evil.so", canary


def libraries(box):
    return list(box.root.rglob("*.so"))


def replaced(box, evil):
    for path in libraries(box):
        path.chmod(0o600)
        shutil.copy(evil, path)


def linked(box, evil):
    for path in libraries(box):
        path.unlink()
        path.symlink_to(evil)


def same_size(box, evil):
    data = evil.read_bytes()
    for path in libraries(box):
        size = path.stat().st_size
        path.chmod(0o600)
        path.write_bytes(data[:size].ljust(size, b"\0"))


def climbing(box, evil):
    """Names that lead out of the entry."""
    shutil.copy(evil, box.dir / "evil.so")
    for path in box.root.rglob("*"):
        if path.is_file() and path.suffix != ".so":
            path.chmod(0o600)
            path.write_bytes(path.read_bytes().replace(b"kernel.so", b"../../../../evil.so"))


@pytest.mark.parametrize("attack", [replaced, linked, same_size, climbing])
def test_bytes_links_and_names(box, evil, attack):
    assert libraries(box)
    library, canary = evil
    attack(box, library)
    p = box.run(CODE)
    assert p.words == ["101.0"]
    assert 1 <= p.warnings <= len(libraries(box))  # each entry is named
    assert p.err.count("damaged cache entry") == p.warnings
    assert not canary.exists()
    assert box.run(CODE).err == ""


def test_a_hash_that_matches_in_a_root_that_others_write(box, evil):
    """Everything fits, but the root is not ours alone: it is not used at all."""
    library, canary = evil
    replaced(box, library)
    (path,) = box.root.rglob("kernel.so")
    from pypto.runtime.entry import FileInfo, _manifest, read_manifest
    from pypto.runtime.record import sha256

    directory = os.open(path.parent, os.O_RDONLY)
    files, record, _ = read_manifest(directory)
    os.close(directory)
    files["kernel.so"] = FileInfo(sha256(path.read_bytes()), path.stat().st_size)
    (path.parent / "manifest").write_bytes(_manifest(files, record))
    box.root.chmod(0o777)
    p = box.run(CODE, **NO_LAUNCHER)
    assert p.words == ["101.0"]
    assert not canary.exists()
    assert str(box.root) in p.err
    assert p.warnings == 1


def group(box):
    box.root.chmod(0o770)


def inside(box):
    for path in (box.root / "v1").iterdir():
        if path.is_dir():
            path.chmod(0o777)


def owner(box):
    if os.getuid() != 0:
        pytest.skip("only root can give directories away")
    os.chown(box.root, 4242, 4242)


def parent(box):
    box.dir.chmod(0o777)


@pytest.mark.parametrize("loosen", [group, inside, owner, parent])
def test_directories_that_others_can_write(here, loosen):
    assert call(scaled(3.0)) == 3.0
    loosen(here)
    store._stores.clear()
    builds = pypto.cache_stats().private_builds
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert call(scaled(3.0)) == 3.0
        assert [str(here.root) in str(w.message) for w in caught] == [True] * len(caught)
        assert len(caught) == (1 if directories._said.pop(f"storage {here.root}", None) else 0)
    assert pypto.cache_stats().private_builds == builds + 1


def test_a_parent_with_the_sticky_bit_is_like_a_temporary_directory(box):
    box.dir.chmod(0o1777)
    p = box.run(CODE)
    assert (p.words, p.err) == (["101.0"], "")
    assert box.builds() == 0


def test_what_we_make_is_ours_alone(new_box):
    box = new_box(empty=True)
    old = os.umask(0)
    try:
        box.scale(2.0)
    finally:
        os.umask(old)
    made = [box.root, *box.root.rglob("*")]
    assert all(p.stat().st_mode & 0o077 == 0 for p in made if p.is_dir())
    assert not list(box.root.rglob("*.pkl"))
