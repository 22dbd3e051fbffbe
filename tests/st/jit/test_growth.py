"""A cache stays within its bound, drops what was used longest ago, and disturbs nobody who uses it."""

import time

from jit_kit import HEAD

from pypto.runtime.store import Store

MANY = (
    HEAD
    + """
lo, hi = map(int, sys.argv[1:3])
for i in range(lo, hi): assert call(scaled(float(i))) == i
if len(sys.argv) > 3:                                                  # stay alive, then use everything again
    print("ready", flush=True); sys.stdin.readline()
    for i in range(lo, hi): assert call(scaled(float(i))) == i
"""
)


def size(box):
    return sum(p.stat().st_blocks * 512 for p in box.root.rglob("*") if p.is_file())


def test_what_was_used_last_stays(box):
    box.run(MANY, 1, 11)
    assert box.builds() == 10
    time.sleep(1.1)  # of the stamps of use
    box.run(MANY, 1, 5)
    assert box.builds() == 0
    store = Store(str(box.root), "on")
    limit = size(box) // 2
    pruned = store.prune(limit)
    assert pruned.removed > 0
    assert size(box) <= limit
    box.run(MANY, 1, 5)
    assert box.builds() == 0
    box.run(MANY, 5, 7)
    assert box.builds() == 2


def test_a_bound_is_kept_by_builds_themselves(box):
    before = size(box)
    box.run(MANY, 1, 11, PYPTO_CACHE_MAX_SIZE=before + 100_000)
    assert box.builds() == 10
    assert size(box) <= before + 140_000  # the last entry is never dropped for itself
    assert 0 < len(list(box.root.rglob("kernel.so"))) < 10


def test_under_readers_and_builders(box):
    store = Store(str(box.root), "on")
    reader = box.start(MANY, 1, 4, "stay")
    assert reader.stdout.readline() == "ready\n"
    store.prune(0)
    assert not list(box.root.rglob("kernel.so"))
    out, err = reader.communicate("\n", timeout=60)
    assert (reader.returncode, err) == (0, "")
    builder = box.start(MANY, 10, 15, name="b.py")
    while builder.poll() is None:
        store.prune(0)
        time.sleep(0.02)
    out, err = builder.communicate()
    assert (builder.returncode, err) == (0, "")
    assert box.builds() == 3 + 3 + 5  # each round of the reader is of kernels made anew


def test_kernels_in_use_do_not_need_their_entries(box):
    """A kernel that is loaded is called, whatever becomes of its files."""
    code = """
k = scaled(2.0)
assert call(k) == 2.0
import shutil; shutil.rmtree(os.environ["PYPTO_CACHE_DIR"])
assert call(k) == 2.0 and call(k) == 2.0
print(pypto.cache_stats().requests, pypto.cache_stats().builds)
"""
    assert box.run(HEAD + code).words == ["1", "1"]
