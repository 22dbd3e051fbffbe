"""Where artifacts can be kept, and where not: the kernel runs, one warning says what to set, and nothing is left half done."""

import os
import shutil
import subprocess
import sys

import pytest
from jit_kit import HEAD, NO_LAUNCHER, ROOT, SCALE

CODE = SCALE.replace("FACTOR", "2.0")


def in_a_mount(box, script, **env):
    """A shell script that may mount, as root of a namespace of its own."""
    (box.dir / "t.py").write_text(CODE)
    command = ["unshare", "-rm", "sh", "-c", script]
    return subprocess.run(command, env=box.env(**env), cwd=box.dir, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def can_mount(tmp_path_factory):
    place = tmp_path_factory.mktemp("mount")
    try:
        done = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(place)], capture_output=True)
    except OSError:
        done = None
    if done is None or done.returncode:
        pytest.skip("this system does not let its users mount")


HOMES = [
    {"HOME": "a_file"},
    {"HOME": "/proc", "XDG_CACHE_HOME": "/proc/none"},
    {"PYPTO_CACHE_DIR": "/proc/none"},
    {"PYPTO_CACHE_DIR": "a_file/below"},
    {"PYPTO_CACHE_DIR": "x" * 5000},
    {"PYPTO_CACHE": "off"},
]


@pytest.mark.parametrize("env", HOMES, ids=lambda e: " ".join(f"{k}={v[:16]}" for k, v in e.items()))
def test_no_directory_to_keep_kernels_in(box, env):
    (box.dir / "a_file").write_text("not a directory")
    env = {"PYPTO_CACHE_DIR": None, **env}
    if env.get("HOME") == "a_file":
        env["HOME"] = box.dir / "a_file"
    p = box.run(CODE, **NO_LAUNCHER, **env)
    assert p.words == ["2.0"]
    assert p.warnings == (0 if "PYPTO_CACHE" in env else 1)
    assert ("PYPTO_CACHE_DIR" in p.err) == (p.warnings == 1)
    (stats,) = box.stats()
    assert (stats["builds"], stats["private_builds"]) == (1, 1)
    assert sorted(os.listdir(box.dir)) == ["a_file", "cache", "cc.log", "home", "t.py"]
    assert not os.listdir(box.dir / "home")


def test_two_threads_meet_the_trouble_at_once(box):
    code = """
ks = [scaled(float(i)) for i in range(4)]; got = []
ts = [threading.Thread(target=lambda k=k: got.append(call(k))) for k in ks]
[t.start() for t in ts]; [t.join() for t in ts]; print(*sorted(got))
"""
    p = box.run(HEAD + code, PYPTO_CACHE_DIR="/proc/none", **NO_LAUNCHER)
    assert p.words == ["0.0", "1.0", "2.0", "3.0"]
    assert p.warnings == 1


def test_an_unknown_user(box):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user")
    # Not below the test's own directory, which other users cannot enter.
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + CODE
    command = ["setpriv", "--reuid", "4242", "--regid", "4242", "--clear-groups", sys.executable, "-"]
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1", **NO_LAUNCHER}
    if subprocess.run(command, input="", env=env, cwd="/", text=True, capture_output=True).returncode:
        pytest.skip("another user cannot start this Python")
    p = subprocess.run(command, input=code, env=env, cwd="/", capture_output=True, text=True, timeout=60)
    assert p.stdout.split() == ["2.0"], p.stderr
    assert p.stderr.count("PyptoWarning") <= 1


def test_read_only(box):
    """A hit is a hit, a miss is built for the process, and nothing below the root changes."""
    assert box.scale(2.0) == 2.0
    box.builds()

    def state():
        return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_size, p.lstat().st_mode) for p in box.root.rglob("*"))

    before = state()
    for factor, builds in ((2.0, 0), (5.0, 1)):
        assert box.scale(factor, PYPTO_CACHE="readonly") == factor
        assert box.builds() == builds
    assert state() == before


def test_a_root_that_goes_while_the_process_runs(box):
    code = """
import shutil
k = scaled(2.0); print(call(k))
shutil.rmtree(os.environ["PYPTO_CACHE_DIR"])
print(call(k), call(scaled(3.0)), call(scaled(3.0)), k.inspect("c") is None if False else "")
try: k.inspect("c")
except pypto.Error as e: print(type(e).__name__)
"""
    p = box.run(HEAD + code)
    assert p.words == ["2.0", "2.0", "3.0", "3.0", "SerializationError"]
    assert not p.err
    assert box.scale(3.0) == 3.0
    assert box.builds() == 2


def test_a_value_that_is_none(box):
    for env in ({"PYPTO_CACHE": "perhaps"}, {"PYPTO_CACHE_LOCK_TIMEOUT": "-1"}):
        p = box.run(CODE, ok=False, **env)
        assert p.returncode == 1
        name, value = next(iter(env.items()))
        assert f"{name}='{value}'" in p.err.splitlines()[-2] + p.err.splitlines()[-1]


def test_code_may_not_be_mapped_from_the_root(box, can_mount):
    mnt = box.dir / "noexec"
    mnt.mkdir()
    script = f"mount -t tmpfs -o noexec,mode=0700 none {mnt} && {sys.executable} t.py && {sys.executable} t.py"
    p = in_a_mount(box, script, PYPTO_CACHE_DIR=mnt)
    assert p.stdout.split() == ["2.0", "2.0"], p.stderr
    assert p.stderr.count("PyptoWarning") == 2  # once in each process, for launcher and kernel together
    assert "noexec" in p.stderr
    assert "PYPTO_CACHE_DIR" in p.stderr
    assert str(mnt) in p.stderr
    assert box.builds() == 1


def test_the_loader_refuses_paths_below_the_root(box):
    refuse = """
import ctypes, os
real = ctypes.CDLL
def refuse(name, *a, **k):
    if str(name).startswith(os.environ["PYPTO_CACHE_DIR"]):
        raise OSError(f"{name}: failed to map segment from shared object")
    return real(name, *a, **k)
ctypes.CDLL = refuse
"""
    p = box.run(refuse + CODE)
    assert p.words == ["2.0"]
    assert p.warnings == 1
    assert "noexec" in p.err
    assert "PYPTO_CACHE_DIR" in p.err


def test_a_full_disk(box, can_mount):
    mnt = box.dir / "small"
    mnt.mkdir()
    script = f"""
mount -t tmpfs -o size=8k,mode=0700 none {mnt} || exit 77
{sys.executable} t.py; echo rc $?
mount -o remount,size=50m {mnt}
{sys.executable} t.py; echo rc $?
find {mnt} -name '*.tmp' -o -name '*.lock' | wc -l
: > {box.log}
{sys.executable} t.py; echo rc $?; echo builds $(wc -l < {box.log})
"""
    p = in_a_mount(box, script, PYPTO_CACHE_DIR=mnt, **NO_LAUNCHER)
    assert p.stdout.split() == ["2.0", "rc", "0", "2.0", "rc", "0", "0", "2.0", "rc", "0", "builds", "0"], p.stderr
    assert str(mnt) in p.stderr
    assert p.stderr.count("PyptoWarning") == 1


def test_files_may_not_grow(box):
    """Even the compiler meets the limit: an error with the reason, nothing stored, no trace afterwards."""
    limit = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
"""
    p = box.run(limit + SCALE.replace("FACTOR", "6.0"), ok=False, COUNTERS=None)
    assert p.returncode == 1
    assert "ToolchainError" in p.err
    assert "File too large" in p.err
    box.builds(agree=False)
    assert box.scale(6.0) == 6.0
    assert box.builds() == 1
    assert box.scale(6.0) == 6.0
    assert box.builds() == 0


def test_importing_touches_no_directory(box):
    code = """
import builtins, os
touched = []
import sys
sys.addaudithook(lambda event, args: touched.append(args) if event in ("os.mkdir", "os.rename", "os.remove") or
                 (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")) else None)
import pypto, pypto.language as pl
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 2.0)
    return y
print(touched)
"""
    assert box.run(code, PYPTO_CACHE_DIR="/proc/none").words == ["[]"]
