"""The identity of artifacts: the package's own code, and the parts of a record."""

import os
import shutil

import pytest

import pypto
from pypto.dtypes import DataType
from pypto.errors import PyptoWarning
from pypto.frontend.specialization import ScalarArg, StaticArg, TensorArg
from pypto.jit import identity
from pypto.jit import package as package_files
from pypto.jit.identity import code_identity, has_changed, make_record, parameter_part
from pypto.passes.context import PassOptions
from pypto.runtime import directories
from pypto.runtime.record import diff, encode
from pypto.runtime.store import Store

FP32 = DataType.FP32


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package in the place of pypto's own, and its identity in a store of its own."""
    root = tmp_path / "package"
    (root / "sub").mkdir(parents=True)
    for name, text in (("a.py", "x = 1\n"), ("sub/b.py", "y = 2\n"), ("sub/c.h", "int z;\n"), ("notes.txt", "not code")):
        (root / name).write_text(text)
    monkeypatch.setattr(package_files, "PACKAGE", str(root))
    monkeypatch.setattr(identity, "_changed", [])
    monkeypatch.setattr(directories, "_said", {})
    numbers = iter(range(100))

    def now(store=None):
        """Of a process that begins now."""
        monkeypatch.setattr(package_files, "STAMPS", package_files.stamps(package_files.PACKAGE))
        monkeypatch.setattr(identity, "_known", {})
        return code_identity(store or Store(str(tmp_path / f"store{next(numbers)}"), "on"))

    return root, now


def touched(path, text):
    path.write_text(text)
    os.utime(path, ns=(1, next(_times)))


_times = iter(range(10**9, 10**9 + 1000))


def test_content_counts_and_nothing_else(package, tmp_path):
    root, now = package
    first = now()
    assert now() == first
    touched(root / "a.py", "x = 1\n")  # another time, the same text
    assert now() == first
    touched(root / "notes.txt", "still not code")
    assert now() == first
    seen = {first}
    for name, text in (("a.py", "x = 2\n"), ("sub/c.h", "int w;\n"), ("sub/new.py", "")):
        touched(root / name, text)
        seen.add(now())
    (root / "sub" / "new.py").rename(root / "sub" / "other.py")
    seen.add(now())
    assert len(seen) == 5
    (root / "sub" / "other.py").unlink()
    touched(root / "a.py", "x = 1\n")
    touched(root / "sub" / "c.h", "int z;\n")
    assert now() == first


def test_a_moved_package_is_the_same(package, tmp_path, monkeypatch):
    root, now = package
    first = now()
    shutil.copytree(root, tmp_path / "elsewhere")
    monkeypatch.setattr(package_files, "PACKAGE", str(tmp_path / "elsewhere"))
    assert now() == first


def test_a_warm_process_reads_no_file(package, tmp_path, monkeypatch):
    root, now = package
    store = Store(str(tmp_path / "store"), "on")
    first = now(store)
    monkeypatch.setattr(package_files, "digest_of", lambda folder, files: pytest.fail("a file was hashed"))
    assert now(store) == first


def test_the_time_that_a_copy_kept_does_not_hide_an_edit(package, tmp_path):
    """Same size, same inode, the old time of writing: as some tools copy."""
    root, now = package
    first, status = now(), (root / "a.py").stat()
    (root / "a.py").write_text("x = 7\n")
    os.utime(root / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert now() != first


def test_files_that_change_under_a_running_process(package, tmp_path):
    root, now = package
    first = now()
    assert not has_changed(first)
    touched(root / "a.py", "x = 1\n")  # another time, the same content
    assert not has_changed(first)
    touched(root / "a.py", "x = 2\n")
    with pytest.warns(PyptoWarning, match="have changed since this process loaded them"):
        assert has_changed(first)
    touched(root / "a.py", "x = 1\n")
    assert has_changed(first)  # who knows what was loaded meanwhile; and it is said once


def test_files_that_change_before_the_identity_is_asked_for(package, tmp_path, monkeypatch):
    root, _ = package
    monkeypatch.setattr(package_files, "STAMPS", package_files.stamps(str(root)))
    store = Store(str(tmp_path / "store"), "on")
    touched(root / "a.py", "x = 2\n")
    monkeypatch.setattr(identity, "_known", {})
    mixed = code_identity(store)
    monkeypatch.setattr(package_files, "STAMPS", package_files.stamps(str(root)))
    monkeypatch.setattr(identity, "_known", {})
    assert code_identity(store) != mixed
    with pytest.warns(PyptoWarning):
        assert has_changed(mixed)


def test_files_of_the_package_that_count():
    names = {name for name, *_ in package_files.STAMPS}
    assert {"jit/identity.py", "codegen/native/emit.py", "runtime/include/pypto_kernel.h", "runtime/csrc/launcher.c"} <= names
    assert not any("__pycache__" in n or n.endswith(".pyc") for n in names)
    assert os.path.samefile(package_files.PACKAGE, os.path.dirname(pypto.__file__))


def test_parts_of_parameters():
    parts = [
        {"x": TensorArg((4, 8), FP32)},
        {"x": TensorArg((8, 4), FP32)},
        {"x": TensorArg(("N", 8), FP32)},
        {"x": TensorArg(("M", 8), FP32)},
        {"x": TensorArg((32,), FP32)},
        {"x": TensorArg((4, 8), DataType.FP16)},
        {"y": TensorArg((4, 8), FP32)},
        {"x": ScalarArg(FP32)},
        {"x": ScalarArg(DataType.INDEX)},
        *({"x": StaticArg(v)} for v in (1, True, 1.0, 0.0, -0.0, 2)),
        {"x": ScalarArg(FP32), "y": ScalarArg(FP32)},
        {"y": ScalarArg(FP32), "x": ScalarArg(FP32)},
    ]
    assert len({encode(parameter_part(p)) for p in parts}) == len(parts)
    assert parameter_part({"x": ScalarArg(FP32, 1.0)}) == parameter_part({"x": ScalarArg(FP32, 2.0)})


class Tools:
    def __init__(self, ptoas=None, **identity):
        self.identity, self.ptoas = identity, ptoas


def test_records_differ_where_they_should():
    parts = {"kernel": "k", "values": (), "helpers": ()}

    def record(options=None, optimize=True, code="c", version="1", ptoas=None, **changed):
        of_what = {**parts, **changed}, {"x": ScalarArg(FP32)}
        return make_record(*of_what, options or PassOptions(), optimize, code, Tools(ptoas, version=version))

    one = record()
    for name, other in (
        ("kernel", record(kernel="j")),
        ("values", record(values=((0, "A", 1),))),
        ("helpers", record(helpers=("h",))),
        ("enable_buffer_ir", record(PassOptions(enable_buffer_ir=False))),
        ("l0c_double_buffer", record(PassOptions(enable_pypto_l0c_double_buffer=True))),
        ("platform", record(PassOptions(platform="a5"))),
        ("native_opt", record(optimize=False)),
        ("pypto", record(code="d")),
        ("toolchain", record(version="2")),
        ("ptoas", record(ptoas=Tools(path="/ptoas"))),
    ):
        assert [d.name for d in diff(one, other)] == [name]
    assert record().encoded == one.encoded
