"""The store between processes: races, killed owners, stuck owners, full and odd file systems."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from box import HEAD, can_mount, environment, run, snapshot, start, tool

MOUNTS = can_mount()
SLOW = (
    HEAD
    + """
def slow(directory):
    open(sys.argv[1], "w").close()
    time.sleep(float(sys.argv[2]))
    with open(directory + "/data", "w") as file: file.write("x")
make("x", slow)
print(stats.cache_stats().builds)
"""
)
# All that will be needed is imported first: this Python may lie where only its owner can read it.
UNKNOWN_USER = (
    HEAD
    + """
import pwd, random, shutil, tempfile
import pypto.runtime.locks, pypto.runtime.prune
os.setgid(4242); os.setuid(4242)
"""
)


def wait_for(path: Path, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_processes_build_each_key_once(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
for line in sys.stdin:
    for i in range(20): make(f"{line.strip()} {i}")
    print(stats.cache_stats().builds, flush=True)
"""
    )
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("there")
    roots = [tmp_path / "link", tmp_path / "there"] * 2
    processes = []
    for root in roots:
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment(PYPTO_CACHE_DIR=root),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for number in range(5):
        for p in processes:
            assert p.stdin is not None
            p.stdin.write(f"{number}\n")
            p.stdin.flush()
        totals = [int(p.stdout.readline()) for p in processes if p.stdout is not None]
        assert sum(totals) == (number + 1) * 20
    errors = [p.communicate()[1] for p in processes]
    assert errors == [""] * 4
    assert not [p for p in (tmp_path / "there").rglob("*") if p.name.endswith(("tmp", "lock"))]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_killed_owner_leaves_no_lock_behind(tmp_path: Path, how: signal.Signals) -> None:
    p = start(SLOW, tmp_path / "inside", 300, PYPTO_CACHE_DIR=tmp_path / "cache")
    wait_for(tmp_path / "inside")
    p.send_signal(how)
    p.communicate(timeout=20)
    for lock in (tmp_path / "cache").rglob("*.lock"):
        lock.write_text("process 1 on elsewhere\n")
    out, err = run(SLOW, tmp_path / "inside", 0, PYPTO_CACHE_DIR=tmp_path / "cache")
    assert (out, err) == ("1\n", "")
    # Whatever the dead one left, the next pruning takes away; the entry stays.
    run(HEAD + "store.default_store().prune(1 << 30)", PYPTO_CACHE_DIR=tmp_path / "cache")
    assert not [f for f in (tmp_path / "cache").rglob("*") if f.name.endswith(("tmp", "lock"))]
    assert run(SLOW, tmp_path / "inside", 0, PYPTO_CACHE_DIR=tmp_path / "cache")[0] == "0\n"


def test_a_stuck_owner_is_named_and_then_left_alone(tmp_path: Path) -> None:
    p = start(SLOW, tmp_path / "inside", 300, PYPTO_CACHE_DIR=tmp_path / "cache")
    wait_for(tmp_path / "inside")
    out, err = run(SLOW, tmp_path / "second", 0, PYPTO_CACHE_DIR=tmp_path / "cache", PYPTO_CACHE_LOCK_TIMEOUT=2.5)
    assert out == "1\n"
    said, *warned = err.splitlines()
    assert said.startswith(f"pypto: waiting for process {p.pid} on ")
    assert "which builds the text x since" in said
    assert sum("PyptoWarning" in line for line in warned) == 1
    # A pruning does not touch what a living process builds.
    run(HEAD + "store.default_store().prune(0)", PYPTO_CACHE_DIR=tmp_path / "cache")
    assert list((tmp_path / "cache").rglob("*.tmp"))
    os.killpg(p.pid, signal.SIGKILL)
    p.communicate()


def test_who_waits_uses_what_the_owner_built(tmp_path: Path) -> None:
    p = start(SLOW, tmp_path / "inside", 0.5, PYPTO_CACHE_DIR=tmp_path / "cache")
    wait_for(tmp_path / "inside")
    assert run(SLOW, tmp_path / "second", 0, PYPTO_CACHE_DIR=tmp_path / "cache") == ("0\n", "")
    assert p.communicate(timeout=20)[0] == "1\n"
    assert not (tmp_path / "second").exists()


def test_neither_children_nor_forks_keep_the_lock(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
import subprocess
def build(directory):
    subprocess.Popen(["sleep", "60"], close_fds=False)
    if os.fork() == 0:
        time.sleep(60); os._exit(0)
    open(sys.argv[1], "w").close()
    time.sleep(60)
make("x", build)
"""
    )
    p = start(code, tmp_path / "inside", PYPTO_CACHE_DIR=tmp_path / "cache")
    wait_for(tmp_path / "inside")
    p.kill()
    p.wait(20)
    begin = time.monotonic()
    assert run(SLOW, tmp_path / "second", 0, PYPTO_CACHE_DIR=tmp_path / "cache") == ("1\n", "")
    assert time.monotonic() - begin < 10
    os.killpg(p.pid, signal.SIGKILL)
    p.communicate()


def test_a_fork_in_the_middle_of_a_build_can_build_the_same(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
import threading
inside, go = threading.Event(), threading.Event()
def build(directory):
    inside.set(); go.wait()
    with open(directory + "/data", "w") as file: file.write("x")
thread = threading.Thread(target=make, args=("x", build)); thread.start(); inside.wait()
import warnings; warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    os.environ["PYPTO_CACHE_LOCK_TIMEOUT"] = "0.5"
    make("x"); os._exit(7)
status = os.waitpid(child, 0)[1]
go.set(); thread.join()
print(os.waitstatus_to_exitcode(status))
"""
    )
    assert run(code, PYPTO_CACHE_DIR=tmp_path / "cache")[0] == "7\n"


def test_no_home_no_user(tmp_path: Path) -> None:
    code = HEAD + "print(make('x').private)"
    for env in ({"HOME": "/proc"}, {"HOME": "/proc", "TMPDIR": "/proc/none"}, {"XDG_CACHE_HOME": "/proc/none"}):
        out, err = run(code, PYPTO_CACHE_DIR=None, **env)
        assert out == "True\n"
        assert err.count("Warning") == 1
        assert "PYPTO_CACHE_DIR" in err
    if os.geteuid() == 0:
        for env in ({"HOME": "/nonexistent"}, {"HOME": "/"}, {"HOME": ""}):
            out, err = run(UNKNOWN_USER + "print(make('x').private)", PYPTO_CACHE_DIR=None, **env)
            assert out == "True\n"
            assert err.count("Warning") == 1


def test_no_directory_at_all_is_one_error_with_both_names(tmp_path: Path) -> None:
    code = (
        "import tempfile\n"
        + HEAD
        + """
def none(*args, **kwargs): raise FileNotFoundError(2, "no usable temporary directory")
tempfile.mkdtemp = none
try: make("x")
except Exception as e: print(type(e).__name__, "/proc/none" in str(e), "PYPTO_CACHE_DIR" in str(e), "TMPDIR" in str(e))
"""
    )
    assert run(code, PYPTO_CACHE_DIR="/proc/none")[0] == "ConfigError True True True\n"


def test_private_directories_go_when_the_process_ends(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
import warnings; warnings.simplefilter("ignore")
print(make("x").path)
child = os.fork()
if child == 0:
    # Its parent's private directory may go at any time.
    print(make("x").path)
    sys.exit(0)
os.waitpid(child, 0)
assert make("x").path
assert os.path.exists(make("x").path)
"""
    )
    out, _ = run(code, PYPTO_CACHE="off", TMPDIR=tmp_path)
    assert all(line.startswith(str(tmp_path)) for line in out.split())
    assert len(set(out.split())) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not MOUNTS, reason="no right to mount")
def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        HEAD
        + """
def build(directory):
    with open(directory + "/data", "wb") as file: file.write(b"x" * 100000)
key = Record({"n": 1}).encoded
entry = store.default_store().build_once(key, build, ("data",))
print(entry.private, len(entry.read("data")), stats.cache_stats().storage_errors)
"""
    )
    script = f"""
mount -t tmpfs -o size=8k,mode=0700 none /mnt || exit 77
$PY {tmp_path}/t.py; echo rc $?
mount -o remount,size=50m /mnt
$PY {tmp_path}/t.py; find /mnt -name '*tmp*' -o -name '*lock' | wc -l
mount -o remount,ro /mnt
$PY {tmp_path}/t.py
"""
    env = environment(PYPTO_CACHE_DIR="/mnt", PY=sys.executable)
    p = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=env, capture_output=True, text=True, timeout=60)
    assert p.stdout.split() == ["True", "100000", "1", "rc", "0", *["False", "100000", "0", "0"], *["False", "100000", "0"]], (
        p.stdout,
        p.stderr,
    )
    assert p.stderr.count("PyptoWarning") == 1
    assert "/mnt" in p.stderr


def test_a_file_size_limit(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    code = (
        HEAD
        + """
def build(directory):
    with open(directory + "/data", "wb") as file: file.write(b"x" * 100000)
try: print(store.default_store().build_once(Record({"n": 1}).encoded, build).private)
except Exception as e: print(type(e).__name__, e.code, *(w in str(e) for w in ("File too large", "/cache is not used", "TMPDIR")))
"""
    )
    (tmp_path / "private").mkdir()
    out, err = run(limit + code, PYPTO_CACHE_DIR=tmp_path / "cache", TMPDIR=tmp_path / "private")
    assert out == "ConfigError O111 True True True\n"
    assert "PyptoWarning" in err
    assert list((tmp_path / "private").iterdir()) == []
    assert run(code, PYPTO_CACHE_DIR=tmp_path / "cache") == ("False\n", "")


def test_a_readonly_file_system_and_an_ordinary_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    root = place / "cache"
    code = UNKNOWN_USER + "make('x'); print(make('y').private)"
    run(HEAD + "make('x')", PYPTO_CACHE_DIR=root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = snapshot(root)
    out, err = run(code, PYPTO_CACHE_DIR=root)
    assert out == "True\n"
    assert err.count("PyptoWarning") == 1
    assert snapshot(root) == before
    assert run(code, PYPTO_CACHE_DIR=root, PYPTO_CACHE="readonly") == ("True\n", "")
    shutil.rmtree(place)


def test_the_helper_scripts_work(tmp_path: Path) -> None:
    assert subprocess.run([tool(tmp_path / "t", "exit 3")]).returncode == 3
