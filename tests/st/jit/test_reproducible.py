"""Key and text depend on the kernel alone: not on the process, the place, the order, or what was compiled before."""

import pytest
from jit_kit import HEAD, NO_LAUNCHER, ROOT

KERNEL = (
    HEAD
    + """
if os.environ.get("FIRST"):                                            # another kernel of the same name, compiled before
    call(scaled(99.0))
A, B, C = 2.0, 3.0, 4.0
@pl.jit.inline
def h1(t):
    return pl.add(t, A)
@pl.jit.inline
def h2(t):
    return pl.mul(h1(t), B)
@pl.jit.incore
def h3(t: pl.Tensor, y: pl.Out[pl.Tensor]):
    p = h1(t)
    q = h2(t)
    y[:] = pl.sub(pl.mul(p, q), C)
    return y
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = h3(x, y)
    return y
if os.environ.get("THREAD"):
    t = threading.Thread(target=lambda: print(call(k))); t.start(); t.join()
else:
    print(call(k))                                                     # (1+2) * ((1+2)*3) - 4
"""
)


def texts(box):
    """Everything that is compared byte by byte; the shared object is the C compiler's."""
    found = {str(p.relative_to(box.root)): p.read_bytes() for p in box.root.rglob("*") if p.suffix in (".c", ".msgpack")}
    assert any(name.endswith("kernel.c") for name in found)
    return found


@pytest.fixture(scope="module")
def first(seed, tmp_path_factory):
    from jit_kit import Box

    box = Box(tmp_path_factory.mktemp("first") / "box", seed.cc, seed.root)
    before = texts(box)
    assert box.run(KERNEL, PYTHONHASHSEED=0).words == ["23.0"]
    assert box.builds() == 1
    box.texts = {name: data for name, data in texts(box).items() if name not in before}
    assert len(box.texts) == 4
    return box


WAYS = {
    "hash seed": {"PYTHONHASHSEED": 1},
    "directory": {"cwd": "other"},
    "file name": {"name": "deeper_name.py"},
    "before": {"FIRST": 1},
    "thread": {"THREAD": 1},
    "locale": {"LC_ALL": "C", "LANG": "C", "TZ": "Asia/Tokyo", "COLUMNS": "20"},
    "optimized": {"PYTHONOPTIMIZE": 2},
}


@pytest.mark.parametrize("way", WAYS)
def test_one_key(first, way):
    given = dict(WAYS[way])
    if "cwd" in given:
        given["cwd"] = first.dir / "other"
        given["cwd"].mkdir()
    assert first.run(KERNEL, **given).words == ["23.0"]
    assert first.builds() == (1 if way == "before" else 0)


@pytest.mark.parametrize("way", ["hash seed", "before", "thread"])
def test_equal_bytes_when_built_again(first, new_box, way):
    own = new_box()
    assert own.run(KERNEL, **WAYS[way]).words == ["23.0"]
    made = texts(own)
    assert {name: made.get(name) for name in first.texts} == first.texts


def test_files_do_not_name_places(first):
    for name, data in first.texts.items():
        for place in (str(first.dir), str(ROOT), "t.py"):
            assert place.encode() not in data, name
    for path in first.root.rglob("kernel.so"):
        assert str(first.dir).encode() not in path.read_bytes()


def test_a_module_imported_under_two_names(box):
    module = """
import pypto.language as pl
FACTOR = 3.0
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, FACTOR)
    return y
"""
    (box.dir / "one.py").write_text(module)
    (box.dir / "two.py").write_text("# moved\n\n" + module)
    (box.dir / "three.py").symlink_to(box.dir / "one.py")
    assert box.run(HEAD + "import one, two, three\nprint(call(one.k), call(two.k), call(three.k))").words == ["3.0"] * 3
    assert box.builds() == 1


COLLIDE = (
    """
import hashlib, sys
import pypto.runtime.store as store
real = store.digest
store.digest = lambda record: real(record)[:1] * 64                    # 16 different digests are left
"""
    + HEAD
    + "print(*[call(scaled(float(i))) for i in range(1, 10)])\n"
)


def test_two_keys_with_one_digest(new_box):
    """A hit is a hit of the whole record: never another kernel's code."""
    box = new_box(empty=True)
    want = [str(float(i)) for i in range(1, 10)]
    for _ in range(2):
        p = box.run(COLLIDE, **NO_LAUNCHER)
        assert p.words == want
        assert not p.err


def test_kernels_of_one_name(box):
    """In the store, among loaded libraries, and among symbols of the process."""
    code = """
ks = [scaled(float(i)) for i in range(3)]
print(*[call(k) for k in ks], *[call(k) for k in reversed(ks)])
import ctypes
try: ctypes.CDLL(None).pypto_entry
except AttributeError: print("unseen")
"""
    assert box.run(HEAD + code).words == ["0.0", "1.0", "2.0", "2.0", "1.0", "0.0", "unseen"]
    assert box.builds() == 3
