"""Stored kernels that are not what was written: the right number each time, said once, and whole again afterwards."""

import os
import shutil
import warnings

import pytest
from jit_kit import SCALE, Box, call, full, scaled, untouched

import pypto
import pypto.language as pl
from pypto.runtime import directories

KINDS = ("delete", "empty", "one", "half", "flip", "longer", "directory", "symlink", "fifo", "unreadable")
HOSTILE = (
    b"\xc1",
    b"\x93\x01\x02\x03",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x91" * 200000,
    b"{}",
    b"[" * 200000,
    b"null",
    b"\xff" * 64,
)


def damage(kind, path):
    data = path.read_bytes()
    path.chmod(0o600)
    if isinstance(kind, bytes):
        path.write_bytes(kind)
    elif kind in ("empty", "one", "half"):
        path.write_bytes(data[: {"empty": 0, "one": 1, "half": len(data) // 2}[kind]])
    elif kind == "flip":
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    elif kind == "longer":
        path.write_bytes(data + b"x")
    elif kind == "unreadable":
        path.chmod(0)
    else:
        path.unlink()
        if kind == "directory":
            path.mkdir()
        elif kind == "symlink":
            path.symlink_to("/etc/passwd")
        elif kind == "fifo":
            os.mkfifo(path)


def entry_of(box, made):
    """The directory of a compiled kernel's artifact, and its files relative to the root."""
    return made.output_dir, sorted(p.name for p in made.output_dir.iterdir())


def attempt(make, want):
    """The number that a fresh kernel gives, and how many warnings and builds that took."""
    builds = pypto.cache_stats().builds
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = call(make())
    assert got == want
    assert all(issubclass(w.category, pypto.PyptoWarning) for w in caught), [str(w.message) for w in caught]
    return len(caught), pypto.cache_stats().builds - builds


# What a call needs nothing of.
UNREAD = ("device.msgpack", "k_incore_0.pto", "kernel.c", "tile.msgpack")


def test_any_file_in_any_way(here):
    """Root reads what has mode 0, so that damage of that kind may be none."""
    artifact, names = entry_of(here, scaled(3.0).compile(full(1), full(1)))
    kept = here.dir / "kept"
    shutil.copytree(artifact, kept)
    assert names == ["device.msgpack", "k_incore_0.pto", "kernel.c", "kernel.so", "manifest", "plan.msgpack", "tile.msgpack"]
    tried = {
        "kernel.so": KINDS,
        "manifest": ("delete", "half", "flip", *HOSTILE),
        "plan.msgpack": ("empty", "flip", *HOSTILE[1:4]),
    }
    for name in names:
        for kind in tried.get(name, ("delete", "half", "flip")):
            shutil.rmtree(artifact)
            shutil.copytree(kept, artifact)
            damage(kind, artifact / name)
            directories._said.clear()
            warned, built = attempt(lambda: scaled(3.0), 3.0)
            # A file that a call does not need, of the right size, is looked at when somebody asks for it.
            assert warned == built or (kind == "unreadable" and not built), (name, kind, warned, built)
            assert built == 1 or kind == "unreadable" or (kind == "flip" and name in UNREAD)
            assert attempt(lambda: scaled(3.0), 3.0) == (0, 0), (name, kind)


def test_the_entry_itself(here):
    artifact, _ = entry_of(here, scaled(3.0).compile(full(1), full(1)))
    other, _ = entry_of(here, scaled(4.0).compile(full(1), full(1)))

    def swap():
        artifact.rename(here.dir / "a")
        other.rename(artifact)
        (here.dir / "a").rename(other)

    def as_file():
        shutil.rmtree(artifact)
        artifact.write_bytes(b"x")

    def as_link():
        artifact.rename(here.dir / "moved")
        artifact.symlink_to(here.dir / "moved")

    def more():
        (artifact / "more.so").write_bytes(b"x")

    def loose():
        artifact.chmod(0o777)

    for harm in (swap, as_file, as_link, more, loose):
        harm()
        directories._said.clear()
        warned, built = attempt(lambda: scaled(3.0), 3.0)
        assert (warned, built) == (1, 1), harm.__name__
        assert attempt(lambda: scaled(3.0), 3.0) == (0, 0), harm.__name__
    assert attempt(lambda: scaled(4.0), 4.0)[1] == 1


def sliced():
    @pl.jit
    def k(x: pl.Tensor, width: pl.INDEX, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [64, width], [0, 0])
            y[0:64, 0:width] = pl.mul(t, 2.0)
        return y

    return k


def test_the_note_that_a_parameter_is_a_constant(here):
    """The artifact of the general request says only which parameter must be a constant."""

    def go():
        y = untouched()
        sliced()(full(1.0), 32, y)
        assert (y[:, :32] == 2).all()
        assert (y[:, 32:] == 77).all()

    go()
    notes = [p for p in here.root.rglob("*/static") if p.read_bytes() == b"width"]
    assert len(notes) == 1
    kept = here.dir / "kept"
    shutil.copytree(notes[0].parent, kept)
    for kind in (*KINDS, b"x", b"y", b"\xff"):
        shutil.rmtree(notes[0].parent)
        shutil.copytree(kept, notes[0].parent)
        damage(kind, notes[0])
        directories._said.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            go()
        assert len(caught) == 1 or kind == "unreadable", kind
        assert notes[0].read_bytes() == b"width", kind


def test_what_is_read_later_is_verified_then(here):
    made = scaled(3.0).compile(full(1), full(1))
    damage("flip", made.output_dir / "kernel.c")
    with pytest.raises(pypto.Error, match=r"kernel\.c: .*other bytes") as caught:
        made.inspect("c")
    assert "verify" in str(caught.value)
    assert call(made) == 3.0


def test_a_program_of_its_own(here):
    """`ir.compile` heals its artifacts like kernels do."""
    program = scaled(3.0).specialize(full(1), full(1))
    artifact = pypto.ir.compile(program).output_dir
    from pypto.jit import programs

    for name in ("kernel.so", "plan.msgpack", "manifest"):
        damage("flip", artifact / name)
        programs._programs.clear()
        directories._said.clear()
        with pytest.warns(pypto.PyptoWarning, match="damaged"):
            again = pypto.ir.compile(program)
        assert call(again) == 3.0


@pytest.mark.parametrize("name", ["kernel.so", "plan.msgpack", "manifest"])
def test_in_a_process_with_little_memory(seed, new_box, name):
    """No byte of it is believed before its hash matched: neither mapped, nor taken for a length."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n" + SCALE.replace("FACTOR", "101.0")
    box: Box = new_box()
    (path,) = box.root.rglob("*/kernel.so")
    damage("half" if name == "kernel.so" else HOSTILE[2], path.parent / name)
    p = box.run(limited)
    assert p.words == ["101.0"]
    assert p.warnings == 1
    assert "Traceback" not in p.err
    assert box.builds() == 1
    p = box.run(limited)
    assert (p.words, p.err) == (["101.0"], "")
    assert box.builds() == 0


def test_damage_to_what_kernels_share(seed, new_box):
    """Launcher, the compiler's identity, the package's identity."""
    kernels = {p.parent for p in seed.root.rglob("kernel.so")}
    shared = [p for p in sorted(seed.root.rglob("*")) if p.is_file() and p.parent not in kernels and p.parent.parent.name != "v1"]
    names = {p.name for p in shared}
    assert {"pypto_launcher.so", "compiler", "digest", "manifest"} <= names
    box = new_box()
    for path in (p for p in shared if p.name in ("pypto_launcher.so", "compiler", "digest")):
        damage("flip", box.root / path.relative_to(seed.root))
    p = box.run(SCALE.replace("FACTOR", "101.0"))
    assert p.words == ["101.0"]
    assert "Traceback" not in p.err
    assert p.warnings >= 3
    assert box.builds() == 0
    assert box.run(SCALE.replace("FACTOR", "101.0")).err == ""
