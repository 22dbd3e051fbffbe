"""Processes and compilers that die in the middle of a build: nobody waits for them, and nothing of theirs is believed."""

import os
import signal
import time

import pytest
from jit_kit import HEAD, NO_LAUNCHER, SCALE, tool

from pypto.runtime.store import Store

# Stops in the compiler while SLOW is set, and says so by a file.
SLOW = """case " $* " in *" -o kernel.so "*) echo x >> "$CC_LOG"
  if [ -n "$SLOW" ]; then touch "$INSIDE"; exec sleep 300; fi;; esac
exec "$REAL_CC" "$@\""""


@pytest.fixture
def slow(box):
    """A compiler that can be made to stop, known to the cache of the box, and the file by which it says that it does."""
    cc, inside = tool(box.dir / "cc-slow", SLOW), box.dir / "inside"
    assert box.scale(0.5, PYPTO_CC=cc, INSIDE=inside, **NO_LAUNCHER) == 0.5
    box.builds()
    return {"PYPTO_CC": cc, "INSIDE": inside, **NO_LAUNCHER}


def start_and_stop(box, slow, factor):
    """A process that has been in the compiler for a while."""
    slow["INSIDE"].unlink(missing_ok=True)
    p = box.start(SCALE.replace("FACTOR", repr(factor)), SLOW=1, **slow)
    deadline = time.monotonic() + 30
    while not slow["INSIDE"].exists():
        assert p.poll() is None, p.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return p


def sleepers(p):
    """The compilers that a process started: they are in sessions of their own."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/environ", "rb") as f:
                    environment = f.read()
                with open(f"/proc/{entry}/cmdline", "rb") as f:
                    command = f.read()
            except OSError:
                continue
            if f"INSIDE={p}".encode() in environment and b"sleep" in command:
                found.append(int(entry))
    return found


def end(box, slow):
    for pid in sleepers(slow["INSIDE"]):
        os.kill(pid, signal.SIGKILL)


def test_a_killed_process_leaves_no_lock(box, slow):
    for n, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
        p = start_and_stop(box, slow, 3.0 + n)
        try:
            p.send_signal(how)
            out, err = p.communicate(timeout=30)
            assert p.returncode != 0
            assert not out
            if how is signal.SIGINT:
                assert "KeyboardInterrupt" in err
                assert not sleepers(slow["INSIDE"])  # it took its compiler with it
            if how is signal.SIGKILL:
                # A lock file proves nothing, whatever it says.
                locks = list(box.root.rglob("*.lock"))
                assert locks
                for lock in locks:
                    lock.write_text("pid 1 host elsewhere\n")
            begin = time.monotonic()
            assert box.scale(3.0 + n, **slow) == 3.0 + n
            assert time.monotonic() - begin < 20
            assert box.builds(agree=False) == 2
        finally:
            end(box, slow)
    assert box.scale(3.0, **slow) == 3.0
    assert box.builds() == 0
    Store(str(box.root), "on").prune(1 << 40)
    assert not list(box.root.rglob("*.tmp"))  # what was left takes room, and goes with the next cleaning


def test_a_stuck_owner_is_named_and_left_alone(box, slow):
    p = start_and_stop(box, slow, 3.0)
    try:
        code = SCALE.replace("FACTOR", "3.0")
        q = box.run(code, PYPTO_CACHE_LOCK_TIMEOUT=2.5, **slow)
        assert q.words == ["3.0"]
        assert str(p.pid) in q.err
        assert "kernel 'k'" in q.err
        assert q.warnings == 1
    finally:
        p.kill()
        p.communicate()
        end(box, slow)


def test_the_compiler_alone_is_killed(box):
    """An error that says so, no waiting; the next call tries again."""
    once = tool(
        box.dir / "cc-once",
        f'case " $* " in *" -o kernel.so "*) if mkdir {box.dir}/struck 2>/dev/null; then kill -9 $$; fi;; esac\n'
        'exec "$REAL_CC" "$@"',
    )
    code = """
k = scaled(3.0)
try: call(k)
except pypto.Error as e: print(type(e).__name__, "signal 9" in str(e))
print(call(k))
"""
    assert box.run(HEAD + code, PYPTO_CC=once, **NO_LAUNCHER).words == ["ToolchainError", "True", "3.0"]


def test_a_compiler_that_never_ends(box):
    stuck = tool(box.dir / "cc-stuck", 'case " $* " in *" -o kernel.so "*) exec sleep 300;; esac\nexec "$REAL_CC" "$@"')
    code = """
import time
k = scaled(3.0); begin = time.monotonic()
try: call(k)
except pypto.Error as e: print(type(e).__name__, "PYPTO_COMPILER_TIMEOUT" in str(e), time.monotonic() - begin < 20)
"""
    assert box.run(HEAD + code, PYPTO_CC=stuck, PYPTO_COMPILER_TIMEOUT=1.0, **NO_LAUNCHER).words == [
        "ToolchainError",
        "True",
        "True",
    ]


def test_an_interruption_while_other_threads_wait_for_the_build(box):
    """The main thread is interrupted; a thread that waited for its build goes on with a build of its own."""
    gate = box.dir / "gate"
    cc = tool(
        box.dir / "cc-gate",
        f'case " $* " in *" -o kernel.so "*) if mkdir {gate} 2>/dev/null; then sleep 300; fi;; esac\nexec "$REAL_CC" "$@"',
    )
    code = """
import signal, time
k = scaled(3.0)
got = []
def wait():
    while not os.path.isdir(sys.argv[1]): time.sleep(0.01)
    got.append(call(k))
t = threading.Thread(target=wait); t.start()
def interrupt():
    while not os.path.isdir(sys.argv[1]): time.sleep(0.01)
    time.sleep(0.3); os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try: call(k)
except KeyboardInterrupt: print("interrupted")
t.join(30); print(*got, call(k))
"""
    assert box.run(HEAD + code, gate, PYPTO_CC=cc, **NO_LAUNCHER).words == ["interrupted", "3.0", "3.0"]
