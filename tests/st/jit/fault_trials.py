"""Faults, tried many times: what happens to the store when a process dies, a call fails, or bytes change.

`python tests/st/jit/fault_trials.py [--trials N] [--only NAME]` prints the table of docs/reliability.md; the tests run the
same functions with few trials.  A trial that ends in anything but what is promised raises.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from pypto.runtime import directories, entry, locks, prune, store  # noqa: E402
from pypto.runtime.record import Record  # noqa: E402
from pypto.runtime.store import Store  # noqa: E402

Outcomes = Counter[str]
FILES = {"kernel.c": 5000, "kernel.so": 20000, "plan.msgpack": 300}
NEEDS = ("plan.msgpack", "kernel.so")
# Every call by which the store changes the file system, or waits for it.
CALLS = ("open", "mkdir", "write", "rename", "unlink", "close", "utime", "listdir", "stat", "fstat")
PLACES = (store, entry, locks, prune, directories)


def key(n: int) -> bytes:
    return Record({"kind": "trial", "n": n}).encoded


def content(n: int, name: str) -> bytes:
    return (f"{name} {n} ".encode() * FILES[name])[: FILES[name]]


def build(n: int, directory: str) -> None:
    for name in FILES:
        with open(f"{directory}/{name}", "wb") as f:
            f.write(content(n, name))


def have(place: Store, n: int) -> bool:
    """Whether the store has an entry, which must then be what was written."""
    found = place.lookup(key(n), NEEDS)
    if found is None:
        return False
    for name in FILES:
        assert found.read(name) == content(n, name), f"{name} of {n} is not what was written"
    return True


def get(place: Store, n: int, names: Iterable[str] = tuple(FILES)) -> entry.Entry:
    found = place.lookup(key(n), NEEDS) or place.build_once(key(n), lambda d: build(n, d), NEEDS)
    for name in names:
        assert found.read(name) == content(n, name), f"{name} of {n} is not what was written"
    return found


def fresh(root: Path) -> Store:
    """As a new process would see it."""
    store._private.clear()
    directories._said.clear()
    return Store(str(root), "on")


def whole(root: Path) -> None:
    """Nothing in the store is torn; the next pruning leaves no remains."""
    place = fresh(root)
    assert place.verify() == []
    place.prune(1 << 40)
    left = [p.name for p in root.rglob("*") if p.name.endswith((".tmp", ".lock"))]
    assert left == [], left


@contextmanager
def at_call(number: int, act: Callable[[str], None]) -> Iterator[list[int]]:
    """`act` in the place of the `number`th call that the store makes of the operating system."""
    made = [0]
    real = {name: getattr(os, name) for name in CALLS}

    def counted(name: str) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            if sys._getframe(1).f_globals.get("__name__", "").startswith("pypto.runtime"):
                made[0] += 1
                if made[0] == number:
                    if name == "close":  # what fails to close is closed
                        real[name](*args, **kwargs)
                    act(name)
            return real[name](*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, counted(name))
    try:
        yield made
    finally:
        for name, call in real.items():
            setattr(os, name, call)


def in_child(work: Callable[[], None]) -> int:
    """How a forked child that does this ends: its exit code, or minus the signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            warnings.simplefilter("ignore")
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# -- the trials --------------------------------------------------------------------------------------------------------


def killed_at_each_call(root: Path, trials: int) -> Outcomes:
    """A writer is killed instead of its first, second, third ... call of the operating system; then somebody else builds."""
    outcomes: Outcomes = Counter()
    base = root
    for n in range(trials):
        at, root = n + 1, base / str(n)

        def work(at: int = at, n: int = n, root: Path = root) -> None:
            with at_call(at, lambda name: os.kill(os.getpid(), signal.SIGKILL)):
                get(fresh(root), n)

        ended = in_child(work)
        published = have(fresh(root), n)
        if ended == 0:
            outcomes["(calls of one build)"] = n
            assert published
            break
        assert ended == -signal.SIGKILL
        outcomes["published whole" if published else "nothing there"] += 1
        assert not get(fresh(root), n).private
        whole(root)
        shutil.rmtree(root)
    return outcomes


def killed_at_any_time(root: Path, trials: int) -> Outcomes:
    """Two writers that build without end are killed at a random moment; all that is there must be whole."""
    outcomes: Outcomes = Counter()
    for trial in range(trials):

        def work(seed: int = trial) -> None:
            chosen = random.Random(seed)
            while True:
                get(fresh(root), chosen.randrange(40))
                if chosen.random() < 0.1:
                    fresh(root).prune(200_000)

        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                try:
                    warnings.simplefilter("error")
                    work()
                finally:
                    os._exit(1)
            children.append(child)
        time.sleep(random.Random(trial).random() * 0.05)
        for child in children:
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "a writer failed by itself"
        place = fresh(root)
        there = [n for n in range(40) if have(place, n)]
        outcomes["entries found whole"] += len(there)
        whole(root)
        assert not get(fresh(root), trial % 40).private
    return outcomes


def failing_at_each_call(root: Path, trials: int) -> Outcomes:
    """A call fails (disk full or broken, too many files, no right ...): who builds gets the entry all the same."""
    outcomes: Outcomes = Counter()
    errors = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EDQUOT, errno.EROFS, errno.ENOENT)
    base = root
    for trial in range(trials):
        root = base / str(trial)
        number, code = 1 + trial // len(errors), errors[trial % len(errors)]

        def fail(name: str, code: int = code) -> None:
            raise OSError(code, os.strerror(code))

        with at_call(number, fail) as made, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get(fresh(root), trial, NEEDS)
        if made[0] < number:
            outcomes["(calls of one build)"] = number - 1
            break
        outcomes["kept for this process" if found.private else "published"] += 1
        whole(root)
        assert not get(fresh(root), trial).private, "trouble that has passed is remembered"
        whole(root)
        shutil.rmtree(root)
    return outcomes


def damaged(root: Path, trials: int) -> Outcomes:
    """One file of an entry is changed in one of ten ways: nothing but what was written is handed out, and the entry heals."""
    outcomes: Outcomes = Counter()
    numbers = random.Random(11)
    for _ in range(trials):
        n = numbers.randrange(5)
        get(fresh(root), n)
        made = next(e for e in fresh(root).entries() if e.record().parts["n"] == n)
        path = Path(made.path, numbers.choice([*FILES, "manifest"]))
        kind = numbers.choice(("bit", "cut", "grow", "empty", "delete", "symlink", "fifo", "directory", "noise", "mode"))
        _damage(path, kind, numbers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            noticed = not _readable(fresh(root), n)
            get(fresh(root), n)
        outcomes[f"{kind}: {'noticed, healed' if noticed else 'still readable'}"] += 1
        assert noticed or kind == "mode", kind  # a mode stops nobody who is root
        if not noticed:
            path.chmod(0o600)
        assert have(fresh(root), n)
        whole(root)
    return outcomes


def _readable(place: Store, n: int) -> bool:
    try:
        return have(place, n)
    except store.SerializationError:
        prune.remove(place.top, store.digest(key(n)))  # a file that is read later; `pypto cache verify --remove` does this
        return False


def _damage(path: Path, kind: str, numbers: random.Random) -> None:
    data = path.read_bytes()
    at = numbers.randrange(len(data))
    if kind in ("delete", "symlink", "fifo", "directory"):
        path.unlink()
    if kind == "symlink":
        copy = path.parent.parent / f"copy-{numbers.random()}"
        copy.write_bytes(data)  # the same bytes, but not here
        path.symlink_to(copy)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "mode":
        path.chmod(0)
    elif kind != "delete":
        made = {"bit": data[:at] + bytes([data[at] ^ 1 << numbers.randrange(8)]) + data[at + 1 :], "cut": data[:at]}
        made |= {"grow": data + b"\0", "empty": b"", "noise": numbers.randbytes(len(data))}
        path.write_bytes(made[kind])


def built_once(root: Path, trials: int) -> Outcomes:
    """Eight processes want the same keys, each in an order of its own: each key is built once."""
    log = root.parent / "builds"

    def work(process: int) -> None:
        order = list(range(trials))
        random.Random(process).shuffle(order)
        place = fresh(root)

        def noted(n: int, directory: str) -> None:
            with open(log, "a") as f:
                f.write(f"{n}\n")
            build(n, directory)

        for n in order:
            found = place.lookup(key(n), NEEDS) or place.build_once(key(n), lambda d, n=n: noted(n, d), NEEDS)
            assert not found.private
            assert found.read("kernel.so") == content(n, "kernel.so")

    children = []
    for process in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                warnings.simplefilter("error")
                work(process)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children] == [0] * 8
    built = Counter(log.read_text().split())
    assert set(built.values()) == {1}
    assert len(built) == trials
    whole(root)
    return Counter({"keys built once": len(built)})


def kernels_killed(root: Path, trials: int) -> Outcomes:
    """A process that compiles a kernel is killed at a random moment, with its compiler or without; the next one calls it."""
    from jit_kit import COUNTING, SCALE, Box, tool

    root.parent.mkdir(exist_ok=True)
    box = Box(root.parent / "box", tool(root.parent / "cc", COUNTING))
    assert box.scale(101.0) == 101.0
    begin = time.monotonic()
    assert box.scale(102.0) == 102.0
    usual = time.monotonic() - begin
    outcomes: Outcomes = Counter()
    for trial in range(trials):
        factor = float(trial + 1)
        p = box.start(SCALE.replace("FACTOR", repr(factor)), name="killed.py")
        time.sleep(random.Random(trial).uniform(0.1, 1.1) * usual)
        ended = p.poll() is not None
        if not ended:
            os.killpg(p.pid, signal.SIGKILL) if trial % 2 else p.kill()
        p.communicate()
        box.builds(agree=False)
        ran = box.run(SCALE.replace("FACTOR", repr(factor)))
        assert (ran.words, ran.err) == ([str(factor)], ""), (ran.words, ran.err)
        built = box.builds(agree=False)
        outcomes["ended before" if ended else "killed, then built" if built else "killed, then found whole"] += 1
    place = fresh(box.root)
    assert place.verify() == []
    return outcomes


def many_entries(root: Path, trials: int) -> Outcomes:
    """A look-up among as many entries as there are trials makes the same calls as one among ten."""
    outcomes: Outcomes = Counter()
    for n in range(10):
        get(fresh(root), n)
    few = _look_up(root, outcomes, "10")
    for n in range(10, trials):
        _write_entry(root, n)
    assert len(fresh(root).entries()) == trials
    assert _look_up(root, outcomes, str(trials)) == few
    outcomes["calls of a look-up"] = few
    return outcomes


def _look_up(root: Path, outcomes: Outcomes, among: str) -> int:
    spent = []
    for i in range(500):
        place = fresh(root)
        assert place.lookup(key(i % 10), NEEDS) is not None
        begin = time.perf_counter_ns()
        place.lookup(key(i % 10), NEEDS)
        spent.append(time.perf_counter_ns() - begin)
    outcomes[f"us for a look-up among {among}"] = sorted(spent)[len(spent) // 2] // 1000
    place = fresh(root)
    with at_call(0, lambda name: None) as made:
        assert place.lookup(key(3), NEEDS) is not None
    return made[0]


def _write_entry(root: Path, n: int) -> None:
    """As the store does, without waiting for the disk."""
    name = store.digest(key(n))
    place = root / "v1" / name[:2]
    place.mkdir(mode=0o700, exist_ok=True)
    directory = place / name
    directory.mkdir(mode=0o700)
    (directory / "data").write_bytes(b"x")
    files = {"data": entry.FileInfo(entry.sha256(b"x"), 1)}
    (directory / "manifest").write_bytes(entry._manifest(files, key(n)))


TRIALS = (
    killed_at_each_call,
    killed_at_any_time,
    failing_at_each_call,
    damaged,
    built_once,
    kernels_killed,
    many_entries,
)


def run(trial: Callable[[Path, int], Outcomes], trials: int) -> Outcomes:
    base = Path(tempfile.mkdtemp(prefix="pypto-trials-"))
    before = {name: os.environ.get(name) for name in ("TMPDIR", "PYPTO_CACHE_LOCK_TIMEOUT")}
    os.environ["PYPTO_CACHE_LOCK_TIMEOUT"] = "20"
    try:
        return trial(base / "cache", trials)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        shutil.rmtree(base, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--only", choices=[t.__name__ for t in TRIALS])
    given = parser.parse_args()
    for trial in TRIALS:
        if given.only in (None, trial.__name__):
            begin = time.monotonic()
            outcomes = run(trial, given.trials)
            shown = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
            print(f"{trial.__name__}: {shown} ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
