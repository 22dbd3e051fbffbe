"""Running the compiler: results, errors, limits, and how many at a time."""

from __future__ import annotations

import _ctypes
import ctypes
import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import HEAD, run, start, tool

from pypto.errors import ToolchainError
from pypto.runtime import build, stats
from pypto.runtime.build import compile_objects, compile_shared
from pypto.runtime.cpus import available_cpus
from pypto.runtime.locks import FileLock
from pypto.runtime.store import Store
from pypto.runtime.toolchain import Toolchain, find

LIBRARY = _ctypes.__file__  # what a compiler that only pretends hands out
SOURCE = {"kernel.c": "int answer(void) { return 42; }\n"}


@pytest.fixture(scope="module")
def cc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolchain]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYPTO_CC", "CC", "CFLAGS"):
            patch.delenv(name, raising=False)
        yield find(Store(str(tmp_path_factory.mktemp("cache")), "on"))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sources of failed builds go in this test."""
    import tempfile

    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    return tmp_path / "kept"


def fake(path: Path, body: str) -> Toolchain:
    return Toolchain((str(tool(path, body)),), "other", (), (), {})


def test_a_shared_object(cc: Toolchain, tmp_path: Path) -> None:
    before = stats.cache_stats().compiler_runs
    path = compile_shared(cc, SOURCE, str(tmp_path), "kernel.so")
    assert path == str(tmp_path / "kernel.so")
    assert ctypes.CDLL(path).answer() == 42
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kernel.c", "kernel.so"]
    assert stats.cache_stats().compiler_runs == before + 1


def test_headers_flags_and_odd_paths(cc: Toolchain, tmp_path: Path) -> None:
    headers, work = tmp_path / "head ers", tmp_path / "w\u00f6rk '\"$HOME"
    headers.mkdir()
    work.mkdir()
    (headers / "h.h").write_text("#define BASE 40\n")
    sources = {
        "a.c": b'#include "h.h"\n#include "own.h"\nint answer(void) { return BASE + ADD + OWN; }\n',
        "own.h": "#define OWN 1\n",
    }
    path = compile_shared(cc, sources, str(work), "k.so", ["-DADD=1"], [str(headers)])
    assert ctypes.CDLL(path).answer() == 42


def test_the_lean_way_to_link_and_the_usual_one(cc: Toolchain, tmp_path: Path) -> None:
    text = {
        "k.c": "#include <math.h>\n#include <string.h>\n#include <stdlib.h>\nvoid g(void) {}\n"
        "double answer(double x, char *p) { memset(p, 0, 100); return sin(x) ATEXIT; }\n"
    }
    lib = ctypes.CDLL(compile_shared(cc, text, str(tmp_path), "lean.so", ["-DATEXIT="]))
    lib.answer.restype, lib.answer.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_char_p]
    assert lib.answer(0.5, ctypes.create_string_buffer(100)) == math.sin(0.5)
    assert ctypes.CDLL(compile_shared(cc.hosted(), text, str(tmp_path), "usual.so", ["-DATEXIT=+ atexit(g)"])).answer


def test_bytes_do_not_depend_on_the_place(cc: Toolchain, tmp_path: Path) -> None:
    seen = set()
    for place in ("a", "deeper/and longer"):
        (tmp_path / place).mkdir(parents=True)
        path = compile_shared(cc, SOURCE, str(tmp_path / place), "kernel.so", ["-g"])
        data = Path(path).read_bytes()
        assert str(tmp_path).encode() not in data
        seen.add(data)
    assert len(seen) == 1


def test_arithmetic_is_as_written(cc: Toolchain, tmp_path: Path) -> None:
    text = """
    float fused(float a, float b, float c) { return a * b + c; }
    int wraps(int x) { return x + 1 < x; }
    float sum(const float *x) { float s = 0; for (int i = 0; i < 16; i++) s += x[i]; return s; }
    """
    lib = ctypes.CDLL(compile_shared(cc, {"k.c": text}, str(tmp_path), "k.so"))
    lib.fused.restype = lib.sum.restype = ctypes.c_float
    lib.fused.argtypes = [ctypes.c_float] * 3
    # 1 + 2**-12 squared is 1 + 2**-11 + 2**-24: a separate multiplication loses the last bit.
    assert lib.fused(1 + 2**-12, 1 + 2**-12, -1 - 2**-11) == 0.0
    assert lib.wraps(2**31 - 1) == 1
    values = [1e8, 1.0, -1e8, 1.0] * 4
    assert lib.sum((ctypes.c_float * 16)(*values)) == 1.0


def test_a_compiler_error_says_what_and_where(cc: Toolchain, tmp_path: Path, kept: Path) -> None:
    sources = {"kernel.c": "int f(void) {\n  int unused_one = 1;\n  return nonsense;\n}\n", "h.h": "// header\n"}
    with pytest.raises(ToolchainError) as caught:
        compile_shared(cc, sources, str(tmp_path), "kernel.so")
    assert caught.value.code == "T101"
    text = str(caught.value)
    assert "kernel.c:3:" in text
    assert "nonsense" in text
    assert cc.command[0] in text
    (place,) = kept.glob("pypto-failed-*")
    assert str(place) in text
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "kernel.c").read_text() == sources["kernel.c"]
    assert (place / "h.h").read_text() == sources["h.h"]
    # The command works there, and the same failure again does not make another copy.
    again = subprocess.run(["sh", "command.sh"], cwd=place, capture_output=True, text=True)
    assert "nonsense" in again.stderr
    with pytest.raises(ToolchainError):
        compile_shared(cc, sources, str(tmp_path), "kernel.so")
    assert list(kept.glob("pypto-failed-*")) == [place]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('echo "a warning"; echo "ld: final link failed: No space left on device"; exit 1', ["No space left on device"]),
        ("kill -9 $$", ["signal 9", "out of memory"]),
        ("exit 3", ["status 3"]),
    ],
)
def test_other_failures(tmp_path: Path, kept: Path, body: str, words: list[str]) -> None:
    with pytest.raises(ToolchainError) as caught:
        compile_shared(fake(tmp_path / "cc", body), SOURCE, str(tmp_path), "kernel.so")
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_compiler_that_has_gone(tmp_path: Path, kept: Path) -> None:
    with pytest.raises(ToolchainError, match=r"no/cc.*No such file"):
        compile_shared(Toolchain((str(tmp_path / "no/cc"),), "gcc", (), (), {}), SOURCE, str(tmp_path), "kernel.so")


def test_no_room_to_keep_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    real = tempfile.mkdtemp

    def full(*args: object, **kwargs: object) -> str:
        if "failed" in str(kwargs.get("prefix")):
            raise OSError(28, "No space left on device")
        return str(real(*args, **kwargs))  # type: ignore[call-overload]

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(ToolchainError, match="could not be kept"):
        compile_shared(fake(tmp_path / "cc", "exit 1"), SOURCE, str(tmp_path), "kernel.so")


def dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_a_timeout_ends_the_compiler_and_its_children(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_COMPILER_TIMEOUT", "0.3")
    hanging = fake(tmp_path / "cc", f"sleep 100 &\necho $! > {tmp_path}/pid\nsleep 100")
    with pytest.raises(ToolchainError, match="PYPTO_COMPILER_TIMEOUT") as caught:
        compile_shared(hanging, SOURCE, str(tmp_path), "kernel.so")
    assert caught.value.code == "T102"
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 5
    while not dead(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_interruption_ends_the_compiler(tmp_path: Path) -> None:
    hanging = fake(tmp_path / "cc", f"echo $$ > {tmp_path}/pid\nexec sleep 100")

    def interrupt() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        # The starting of a process is not what is interrupted here.
        time.sleep(0.2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        compile_shared(hanging, SOURCE, str(tmp_path), "kernel.so")
    thread.join()
    assert dead(int((tmp_path / "pid").read_text()))


def test_the_compiler_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPATH", "/secret")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    # A number that no shell uses for itself.
    inherited = os.dup2(os.open("/dev/null", os.O_RDONLY), 77, inheritable=True)
    spy = fake(
        tmp_path / "cc",
        f"ls /proc/$$/fd > {tmp_path}/fds; env > {tmp_path}/env; ps -o pgid= -p $$ > {tmp_path}/pgid; cp {LIBRARY} kernel.so",
    )
    compile_shared(spy, SOURCE, str(tmp_path), "kernel.so")
    os.close(inherited)
    assert "1" in (tmp_path / "fds").read_text().split()
    assert str(inherited) not in (tmp_path / "fds").read_text().split()
    env = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert "CPATH" not in env
    assert env["LC_ALL"] == "C"
    assert env["TMPDIR"].startswith(str(tmp_path))
    assert not Path(env["TMPDIR"]).exists()


def test_no_room_for_processes_means_more_slowly(tmp_path: Path) -> None:
    body = f"n=$(ls {tmp_path} | grep -c try); touch {tmp_path}/try$n; [ $n = 2 ] && cp {LIBRARY} kernel.so && exit 0\n"
    body += 'echo "cc: fatal error: cannot execute cc1: vfork: Resource temporarily unavailable"; exit 1'
    assert compile_shared(fake(tmp_path / "cc", body), SOURCE, str(tmp_path), "kernel.so")
    assert len(list(tmp_path.glob("try*"))) == 3


def test_a_fork_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def flaky(*args: object, meanwhile: object) -> tuple[int, str]:
        calls.append(1)
        if len(calls) < 3:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        shutil.copy(LIBRARY, tmp_path / "kernel.so")
        return 0, ""

    monkeypatch.setattr(build, "run", flaky)
    compile_shared(fake(tmp_path / "cc", ""), SOURCE, str(tmp_path), "kernel.so")
    assert len(calls) == 3


def test_what_is_done_meanwhile(tmp_path: Path) -> None:
    """Once, while the compiler works; whoever interrupts it ends the compiler too."""
    done: list[bool] = []

    def work() -> None:
        deadline = time.monotonic() + 20
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        done.append((tmp_path / "kernel.so").exists())
        (tmp_path / "go").touch()

    waits = f"touch begun; while [ ! -e go ]; do sleep 0.01; done; cp {LIBRARY} kernel.so"
    compile_shared(fake(tmp_path / "cc", waits), SOURCE, str(tmp_path), "kernel.so", meanwhile=work)
    assert done == [False]

    def interrupted() -> None:
        raise KeyboardInterrupt

    hanging = fake(tmp_path / "cc", "echo $$ > pid; exec sleep 60")
    with pytest.raises(KeyboardInterrupt):
        compile_shared(hanging, SOURCE, str(tmp_path), "kernel.so", meanwhile=interrupted)
    pid = (tmp_path / "pid").read_text().strip() if (tmp_path / "pid").exists() else ""
    assert not pid or not Path(f"/proc/{pid}").exists()


UNITS = {
    "a.c": ("int half(void); int answer(void) { return 2 * half(); }\n", ()),
    "b.c": ('#include "half.h"\nint half(void) { return HALF + MORE; }\n', ("-DMORE=1",)),
}


def test_units_of_one_library(cc: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "half.h").write_text("#define HALF 20\n")
    (tmp_path / "out").mkdir()
    out = str(tmp_path / "out")
    made = compile_objects(cc, UNITS, out, [str(tmp_path / "include")])
    assert sorted(made) == ["a.o", "b.o"]
    assert sorted(os.listdir(out)) == ["a.c", "b.c"]
    assert ctypes.CDLL(compile_shared(cc, made, out, "both.so")).answer() == 42


@pytest.mark.skipif(available_cpus() < 2, reason="one compiler at a time")
def test_units_are_compiled_at_the_same_time(tmp_path: Path) -> None:
    body = f"""
    for f in "$@"; do case $f in *.o) o=$f ;; esac; done
    touch begun-$o
    for i in $(seq 1000); do [ -e begun-a.o ] && [ -e begun-b.o ] && break; sleep 0.01; done
    head -c 16 {LIBRARY} > $o; printf '\\001\\000' >> $o; tail -c +19 {LIBRARY} >> $o
    [ -e begun-a.o ] && [ -e begun-b.o ]
    """
    assert sorted(compile_objects(fake(tmp_path / "cc", body), UNITS, str(tmp_path))) == ["a.o", "b.o"]


def test_a_unit_that_fails(cc: Toolchain, tmp_path: Path, kept: Path) -> None:
    """Others end before the error goes on; of several, the first one's."""
    bad = {**UNITS, "b.c": ("nonsense b\n", ()), "c.c": ("nonsense c\n", ())}
    with pytest.raises(ToolchainError, match="nonsense b") as caught:
        compile_objects(cc, bad, str(tmp_path))
    assert caught.value.code == "T101"
    assert not [t for t in threading.enumerate() if not t.name.startswith("MainThread")]
    assert sorted(p.name for d in kept.iterdir() for p in d.iterdir() if p.suffix == ".c") == ["b.c", "c.c"]


def test_units_without_room_for_threads(cc: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    plain = {"a.c": UNITS["a.c"], "b.c": ("int half(void) { return 21; }\n", ())}
    assert sorted(compile_objects(cc, plain, str(tmp_path))) == ["a.o", "b.o"]


# How many at a time.

CROWD = (
    HEAD
    + """
import threading
from pypto.runtime import build, toolchain
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
work, cc = sys.argv[1:]
tc = toolchain.Toolchain((cc,), "other", (), (), {})
def one(n):
    os.mkdir(f"{work}/{os.getpid()}-{n}")
    build.compile_shared(tc, {"k.c": ""}, f"{work}/{os.getpid()}-{n}", "k.so")
threads = [threading.Thread(target=one, args=(n,)) for n in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
)


@pytest.mark.parametrize("shared", [True, False])
def test_one_cpu_one_compiler(tmp_path: Path, shared: bool) -> None:
    peak, temporary = tmp_path / "peak", tmp_path / "tmp"
    peak.mkdir()
    temporary.mkdir()
    cc = tool(
        tmp_path / "cc", f": > {peak}/$$; ls {peak} | grep -vc max >> {peak}/max; sleep 0.05; rm {peak}/$$; cp {LIBRARY} k.so"
    )
    if not shared:
        # Somebody else was there first: then the cap holds within each process.
        (temporary / f"pypto-compilers-{os.geteuid()}").symlink_to("/etc")
    processes = [start(CROWD, tmp_path, cc, TMPDIR=temporary) for _ in range(2 if shared else 1)]
    assert [p.communicate(timeout=30)[1] for p in processes] == [""] * len(processes)
    assert set((peak / "max").read_text().split()) == {"1"}


def test_the_place_for_slots_must_be_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_temporary", lambda: str(tmp_path))
    place = tmp_path / f"pypto-compilers-{os.geteuid()}"
    assert build._slot_directory() == str(place)
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o777)
    assert build._slot_directory() == ""
    place.rmdir()
    place.write_text("")
    assert build._slot_directory() == ""
    place.unlink()
    place.symlink_to(tmp_path)
    assert build._slot_directory() == ""
    if os.geteuid() == 0:
        place.unlink()
        place.mkdir(mode=0o700)
        os.chown(place, 4242, 4242)
        assert build._slot_directory() == ""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(build, "_temporary", lambda: str(tmp_path / "file"))
    assert build._slot_directory() == ""


def test_slots_that_are_no_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_slot_directory", lambda: str(tmp_path))
    monkeypatch.setattr(build, "available_cpus", lambda: 2)
    (tmp_path / "0").symlink_to("/etc/passwd")
    slot = build._take_slot()
    assert isinstance(slot, FileLock)
    assert slot.path == str(tmp_path / "1")
    slot.release()
    (tmp_path / "1").unlink()
    os.mkfifo(tmp_path / "1")
    assert build._take_slot() is None


def test_owners_that_never_give_a_slot_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped in the middle of a compilation does not stop all others."""
    monkeypatch.setattr(build, "_slot_directory", lambda: str(tmp_path))
    monkeypatch.setattr(build, "available_cpus", lambda: 1)
    monkeypatch.setenv("PYPTO_CACHE_LOCK_TIMEOUT", "0.2")
    held = FileLock(str(tmp_path / "0"))
    assert held.try_acquire()
    done: list[None] = []

    def work() -> None:
        with build._compiler_slot():
            done.append(None)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(20)
    assert done
    held.release()


def test_an_error_inside_a_slot_gives_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_slot_directory", lambda: str(tmp_path))
    monkeypatch.setattr(build, "available_cpus", lambda: 1)
    for _ in range(2):
        with pytest.raises(FileExistsError), build._compiler_slot():
            raise FileExistsError


def control_groups(base: Path, **files: str) -> tuple[str, str]:
    """A false /proc and /sys/fs/cgroup."""
    for name, text in files.items():
        path = base / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(base / "proc"), str(base / "sys")


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 8),
        ({"proc__self__cgroup": "0::/a/b\n", "sys__a__b__cpu_dot_max": "max 1000\n", "sys__a__cpu_dot_max": "2500 1000\n"}, 3),
        ({"proc__self__cgroup": "0::/\n", "sys__cpu_dot_max": "50000 100000\n"}, 1),
        ({"proc__self__cgroup": "0::/../x\n", "sys__cpu_dot_max": "200000 100000\n"}, 2),
        ({"proc__self__cgroup": "4:cpu,cpuacct:/a\n", "sys__cpu__a__cpu_dot_cfs_quota_us": "400000\n",
          "sys__cpu__a__cpu_dot_cfs_period_us": "100000\n"}, 4),
        ({"proc__self__cgroup": "4:cpu:/a\n", "sys__cpu__cpu_dot_cfs_quota_us": "-1\n",
          "sys__cpu__cpu_dot_cfs_period_us": "1\n"}, 8),
        ({"proc__self__cgroup": "0::/a\n", "sys__a__cpu_dot_max": "nonsense\n"}, 8),
        ({"proc__self__cgroup": "0::/a\n", "sys__a__cpu_dot_max": "100 0\n"}, 8),
    ],
    ids=range(8),
)  # fmt: skip
def test_cpus_really_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cpus: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert available_cpus(*control_groups(tmp_path, **files)) == cpus


def test_affinity_counts() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from pypto.runtime.cpus import available_cpus; print(available_cpus())"
    assert run(code)[0] == "1\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("exit 0", "made no kernel.so"),
        ("touch kernel.so", "is no shared object"),
        ("echo text > kernel.so", "is no shared object"),
        (f"cp {LIBRARY} kernel.so; printf '\\001' | dd of=kernel.so bs=1 seek=4 conv=notrunc 2> /dev/null", "another word size"),
    ],
)
def test_a_compiler_that_only_says_that_it_succeeded(tmp_path: Path, kept: Path, body: str, problem: str) -> None:
    cc = fake(tmp_path / "cc", body)
    with pytest.raises(ToolchainError, match=problem) as e:
        compile_shared(cc, SOURCE, str(tmp_path), "kernel.so")
    assert e.value.code == "T101"
    assert f"command: {cc.command[0]}" in e.value.message


@pytest.mark.parametrize("flag", ["-c", "-S", "-E", "-fsyntax-only"])
def test_flags_that_stop_the_compiler_half_way(cc: Toolchain, tmp_path: Path, kept: Path, flag: str) -> None:
    with pytest.raises(ToolchainError, match="status 0, but made") as e:
        compile_shared(cc, SOURCE, str(tmp_path), "kernel.so", [flag])
    assert flag in e.value.message
