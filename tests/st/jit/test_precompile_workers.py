"""What becomes of a pool whose workers, parent or machine give out: errors that name the kernel, an end, and no orphan."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import pytest
from jit_kit import HEAD, NO_LAUNCHER, call, scaled, tool

import pypto
import pypto.language as pl
from pypto.errors import ToolchainError
from pypto.jit import PrecompilePool, pool, worker

X = pl.Tensor[[64, 64], pl.FP32]
SUBMIT = (
    HEAD
    + """
X = pl.Tensor[[64, 64], pl.FP32]
def submit(pool, n, name="doomed"):
    return [pool.submit(scaled(float(i + 2), name), X, X) for i in range(n)]
"""
)
# Strikes whoever runs the compiler, the first time.
STRIKE = (
    'case " $* " in *" -o kernel.so "*) if mkdir "{0}/struck" 2>/dev/null; then kill -{1} $PPID; sleep 1; exit 1; fi;; esac\n'
)
COUNTED = 'case " $* " in *" -o kernel.so "*) echo x >> "$CC_LOG";; esac\nexec "$REAL_CC" "$@"'


def struck(box, how):
    """The box's compiler, which ends its parent once; its identity is that of any other wrapper."""
    return tool(box.dir / f"cc-{how}", STRIKE.format(box.dir, how) + COUNTED)


@pytest.mark.parametrize("how", ["KILL", "SEGV", "TERM"])
def test_a_worker_that_is_killed_is_an_error_and_the_pool_goes_on(box, how):
    script = """
with pypto.PrecompilePool(workers=2) as pool:
    failed = []
    for f in submit(pool, 4):
        try: f.result(timeout=60)
        except Exception as e: failed.append(e)
    print(len(failed), type(failed[0]).__name__, failed[0].code, "'doomed'" in str(failed[0]), sep="|")
    print(failed[0].message)
    print(submit(pool, 5)[-1].result(timeout=60).outcome)
print(call(scaled(2.0, "doomed")))
"""
    ran = box.run(SUBMIT + script, PYPTO_CC=struck(box, how), **{"PYPTO_LAUNCHER": "ctypes"})
    lines = ran.out.splitlines()
    assert lines[0] == "1|ToolchainError|T104|True"
    word = {"KILL": "was ended by signal 9 (out of memory?)", "SEGV": "was ended by signal 11", "TERM": "ended with status 143"}
    assert word[how] in lines[1]
    assert lines[2:] == ["built", "2.0"]


def test_a_compiler_that_is_killed_is_no_dead_worker(box):
    cc = tool(box.dir / "cc-dies", 'case " $* " in *" -o kernel.so "*) kill -9 $$;; esac\nexec "$REAL_CC" "$@"')
    script = """
with pypto.PrecompilePool(workers=1) as pool:
    (f,) = submit(pool, 1)
    e = f.exception(timeout=60)
    print(e.code, "ended by signal 9" in str(e))
"""
    assert box.run(SUBMIT + script, PYPTO_CC=cc, PYPTO_LAUNCHER="ctypes").words == ["T101", "True"]


def test_a_worker_that_does_not_answer(here, monkeypatch):
    monkeypatch.setattr(worker, "_PATIENCE", 0.5)
    with PrecompilePool(workers=1) as one:
        one.submit(scaled(2.0), X, X).result(60)
        monkeypatch.setenv("PYPTO_COMPILER_TIMEOUT", "0.2")
        monkeypatch.setenv("PYPTO_CACHE_LOCK_TIMEOUT", "0.2")
        (slot,) = one._slots
        os.kill(slot._worker._process.pid, signal.SIGSTOP)
        error = one.submit(scaled(3.0), X, X).exception(60)
        monkeypatch.undo()
        assert isinstance(error, ToolchainError)
        assert error.code == "T105"
        assert "'k' did not answer within 0.9 s" in str(error)


SLOW = 'case " $* " in *" -o kernel.so "*) touch {0}/began; sleep 30;; esac\nexec "$REAL_CC" "$@"'


def processes(words: str) -> list[str]:
    """Command lines of running processes that contain `words`."""
    lines = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if words in line and not line.startswith("Z")]


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_ctrl_c(box, kind):
    """The end comes at once; what is in the cache stays; neither worker nor compiler is left."""
    script = """
print(pypto.precompile([(scaled(9.0), X, X)], workers=0)[0].outcome, flush=True)
os.environ["PYPTO_CC"] = sys.argv[1]
try:
    pypto.precompile([(scaled(float(i)), X, X) for i in range(2, 8)], workers=2, kind=sys.argv[2], progress=True)
except KeyboardInterrupt:
    print("interrupted")
"""
    # A thread cannot be ended, so its compiler is one that does not take long.
    slow = SLOW.format(box.dir).replace("30", "1") if kind == "thread" else SLOW.format(box.dir)
    p = box.start(SUBMIT + script, tool(box.dir / "cc-slow", slow), kind, PYPTO_LAUNCHER="ctypes")
    wait_for((box.dir / "began").exists)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    assert out.split() == ["built", "interrupted"]
    assert "interrupted: 0 of 6 kernels are compiled, and stay" in err
    assert "Traceback" not in err
    wait_for(lambda: not processes(str(box.dir)))
    assert box.scale(9.0, PYPTO_LAUNCHER="ctypes") == 9.0
    box.log.unlink()
    assert box.stats()[-1]["builds"] == 0


def test_ctrl_c_at_any_moment(box):
    """Also where the main thread has just taken a lock that the threads need: no thread waits for it afterwards."""
    script = """
import concurrent.futures._base, contextlib, signal, time
from pypto.jit import pool, precompilation, work
from pypto.runtime import interrupts
modules = threading, concurrent.futures._base, contextlib, pool, precompilation, interrupts
files = {m.__file__ for m in modules}
def compiled(it):
    time.sleep(0.001)
    return work.Precompiled(it.kernel, "key", "built", 0.0, True)
pool.carried_out = compiled
kernels = [(scaled(float(i)), X, X) for i in range(2, 5)]
def attempt(moment):
    left = moment
    def trace(frame, event, arg):
        nonlocal left
        if frame.f_code.co_filename not in files: return None
        if event == "return":
            left -= 1
            if left == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace
    try:
        sys.settrace(trace)
        pypto.precompile(kernels, workers=2, kind="thread")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    assert left > 0, "lost"
    return False
pypto.precompile(kernels, workers=0)
moment = 1
while attempt(moment): moment += 1
print(moment, threading.active_count(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    moments, threads, restored = box.run(SUBMIT + script, timeout=50).words
    assert int(moments) > 100
    assert (threads, restored) == ("1", "True")


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_workers_end_with_their_parent(box, how):
    end = {"kill": "os.kill(os.getpid(), 9)", "exit": "print('out')"}[how]
    script = f"""
import time
pool = pypto.PrecompilePool(workers=1)
futures = submit(pool, 3)
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
{end}
"""
    cc = tool(box.dir / "cc-slow", SLOW.format(box.dir))
    ran = box.run(SUBMIT + script, cc, box.dir / "began", ok=False, PYPTO_CC=cc, PYPTO_LAUNCHER="ctypes", timeout=30)
    assert ran.out.split() == ([] if how == "kill" else ["out"])
    assert ran.err == ""
    wait_for(lambda: not processes(str(box.dir)))


def test_a_daemonic_process_may_have_a_pool(box):
    script = """
import multiprocessing
def inside(queue):
    with pypto.PrecompilePool(workers=2) as pool:
        queue.put([f.result(timeout=60).outcome for f in submit(pool, 2)])
if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    p = fork.Process(target=inside, args=(queue,), daemon=True)
    p.start()
    print(*queue.get(timeout=60))
    p.join(timeout=60)
    print(p.exitcode)
"""
    assert box.run(SUBMIT + script).words == ["built", "built", "0"]


def test_a_pool_belongs_to_one_process(box):
    script = """
pool = pypto.PrecompilePool(workers=1)
print(submit(pool, 1)[0].result(60).outcome, flush=True)
child = os.fork()
if child == 0:
    try: submit(pool, 2)
    except RuntimeError as e: print("process that made it" in str(e), flush=True)
    pool.close()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(submit(pool, 2)[1].result(60).outcome)
pool.close()
"""
    assert box.run(SUBMIT + script).words == ["built", "True", "7", "built"]


@pytest.mark.parametrize("what", ["process", "thread"])
def test_without_room_for_workers_the_work_is_done_here(here, monkeypatch, what):
    def no_room(*args, **kwargs):
        raise BlockingIOError("fork: Resource temporarily unavailable") if what == "process" else RuntimeError("no threads")

    monkeypatch.setattr(*((worker.subprocess, "Popen") if what == "process" else (pool._Slot, "start")), no_room)
    with PrecompilePool(workers=2) as crowded:
        future = crowded.submit(scaled(2.0), X, X)
        if what == "process":
            # The compiler cannot start either, until there is room again.
            time.sleep(0.3)
            assert not future.done()
        monkeypatch.undo()
        for name in ("PYPTO_CACHE_DIR", "PYPTO_CC", "CC_LOG", "REAL_CC"):
            monkeypatch.setenv(name, here.env()[name])
        assert future.result(60).outcome == "built"
    assert call(scaled(2.0)) == 2.0


def test_a_worker_without_room_for_a_compiler_makes_room(box):
    only = '[ "$PPID" = "$ROOM" ] || { echo cc: vfork: Resource temporarily unavailable; exit 1; }'
    body = f'case " $* " in *" -o kernel.so "*) {only};; esac\n'
    script = """
os.environ["ROOM"] = str(os.getpid())
done = pypto.precompile([(scaled(float(i)), X, X) for i in range(4)], workers=2)
print(*[d.outcome for d in done], call(scaled(3.0)))
"""
    ran = box.run(SUBMIT + script, PYPTO_CC=tool(box.dir / "cc-crowded", body + COUNTED), **NO_LAUNCHER)
    assert ran.words == ["built"] * 4 + ["3.0"]
    assert ran.err == ""


def test_a_limit_on_processes_means_more_slowly(box):
    user = 20000 + os.getpid() % 20000
    # Who is no root, and yet can read what the tests wrote.
    wrap = f"setpriv --reuid={user} --regid={user} --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override".split()
    if os.getuid() != 0 or subprocess.run([*wrap, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the limit does not hold for root, and this user cannot become another one")
    # This process with two slots, two workers of two threads each; one less makes room for a compiler.
    script = """
import resource
resource.setrlimit(resource.RLIMIT_NPROC, (7, 7))
done = pypto.precompile([(scaled(float(i)), X, X) for i in range(3)], workers=2)
print(*[d.outcome for d in done], call(scaled(2.0)))
"""
    with tempfile.TemporaryDirectory() as own:
        os.chown(own, user, user)
        places = dict.fromkeys(("HOME", "TMPDIR", "PYPTO_CACHE_DIR"), own)
        ran = box.run(SUBMIT + script, wrap=wrap, PYPTO_CC=None, PYPTO_COMPILER_TIMEOUT=40, **places, **NO_LAUNCHER)
    assert ran.words == ["built"] * 3 + ["2.0"]
    assert ran.err == ""


def test_no_more_compilers_than_processors(box):
    peak = box.dir / "peak"
    peak.mkdir()
    body = f"""case " $* " in *" -o kernel.so "*)
f={peak}/$$; : > $f; ls {peak} | grep -vc max >> {peak}/max; sleep 0.1; "$REAL_CC" "$@"; r=$?; rm -f $f; exit $r;; esac
exec "$REAL_CC" "$@\""""
    script = """
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
with pypto.PrecompilePool(workers=8) as one, pypto.PrecompilePool(workers=8, kind="thread") as other:
    print(one.workers, other.workers)
    futures = [p.submit(scaled(float(i), p.kind), X, X) for i in range(4) for p in (one, other)]
    print(sum(f.result(timeout=60).outcome == "built" for f in futures))
"""
    ran = box.run(SUBMIT + script, PYPTO_CC=tool(box.dir / "cc-peak", body), PYPTO_LAUNCHER="ctypes")
    assert ran.words == ["1", "1", "8"]
    assert max(map(int, (peak / "max").read_text().split())) <= 2  # two while one hands over


def test_two_processes_compile_each_kernel_once(box):
    script = """
kernels = [scaled(float(i + 2)) for i in range(32)]
if sys.argv[1] == "1": kernels.reverse()
done = pypto.precompile([(k, X, X) for k in kernels], workers=1)
print(len({d.key for d in done}))
"""
    first, second = (box.start(SUBMIT + script, i, name=f"t{i}.py", CFLAGS="-O0") for i in (0, 1))
    assert [p.communicate(timeout=100)[0].split() for p in (first, second)] == [["32"], ["32"]]
    assert box.builds() == 32


# -- executors ---------------------------------------------------------------------------------------------------------


def test_any_executor(here):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor, PrecompilePool(executor=executor) as pool:
        done = pool.submit(scaled(2.0), X, X).result(60)
        assert (done.outcome, done.stored) == ("built", True)
        os.kill(next(iter(executor._processes)), signal.SIGKILL)
        error = pool.submit(scaled(3.0), X, X).exception(60)
        assert isinstance(error, ToolchainError)
        assert isinstance(error.__cause__, BrokenProcessPool)
        assert "the worker that compiled kernel 'k' is lost: its executor broke down" in str(error)
        assert isinstance(pool.submit(scaled(4.0), X, X).exception(60), ToolchainError)
    assert call(scaled(2.0)) == 2.0
    assert call(scaled(4.0)) == 4.0


class Odd(Executor):
    """Answers something else, or nothing at all."""

    def __init__(self, answers: bool) -> None:
        self.answers = answers

    def submit(self, f, /, *args, **kwargs):
        future: Future[object] = Future()
        if self.answers:
            future.set_result("done")
        return future


def test_executors_that_answer_oddly(here):
    with PrecompilePool(executor=Odd(True)) as pool:
        assert "answered for kernel 'k' with a str" in str(pool.submit(scaled(2.0), X, X).exception(5))
    pool = PrecompilePool(executor=Odd(False))
    future = pool.submit(scaled(2.0), X, X)
    pool.close(cancel=True)
    with pytest.raises(CancelledError):
        future.result(5)


def test_workers_elsewhere_send_the_artifact(here, monkeypatch, tmp_path):
    """A worker that writes into a cache of its own, as on another machine."""
    from pypto.jit import work

    class Elsewhere(Executor):
        def submit(self, f, /, packed):
            future: Future[object] = Future()
            there = work._unpacked(packed)
            moved = there._replace(settings={**there.settings, "PYPTO_CACHE_DIR": str(tmp_path / "there")})
            reply = f(moved.packed())
            future.set_result(reply._replace(process=("elsewhere", 1)))
            return future

    before = pypto.cache_stats().builds
    with PrecompilePool(executor=Elsewhere()) as pool:
        assert pool.submit(scaled(2.0), X, X).result(60).stored
    assert (tmp_path / "there/v1").is_dir()
    built = pypto.cache_stats().builds
    assert call(scaled(2.0)) == 2.0
    assert pypto.cache_stats().builds == built > before


def test_workers_that_would_compile_something_else(here, monkeypatch):
    from pypto.jit import work

    for name, value, words in (("code", "0" * 64, "another version of pypto"), ("tools", {}, "another C compiler")):

        class Other(Executor):
            def submit(self, f, /, packed, name=name, value=value):
                future: Future[object] = Future()
                future.set_result(f(work._unpacked(packed)._replace(**{name: value}).packed()))
                return future

        with PrecompilePool(executor=Other()) as pool:
            error = pool.submit(scaled(2.0), X, X).exception(60)
        assert words in str(error)
        assert "'k'" in str(error)


def test_a_dask_cluster(box):
    pytest.importorskip("distributed", reason="dask is not installed: pip install 'pypto[test]'")
    script = """
if __name__ == "__main__":
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        done = pypto.precompile([(scaled(float(i)), X, X) for i in range(6)], executor=client.get_executor())
        print(*sorted({d.outcome for d in done}), all(d.stored for d in done))
        from pypto import passes
        with pypto.PrecompilePool(executor=client.get_executor()) as pool:
            with passes.PassContext([], memory_planner=passes.MemoryPlanner.PTOAS, enable_buffer_ir=False):
                future = pool.submit(scaled(3.0), X, X)
            future.result(60)
    with passes.PassContext([], memory_planner=passes.MemoryPlanner.PTOAS, enable_buffer_ir=False):
        print(call(scaled(3.0)))
    print(call(scaled(3.0)), pypto.cache_stats().builds)
"""
    assert box.run(SUBMIT + script, timeout=120).words == ["built", "True", "3.0", "3.0", "7"]
    assert box.builds(agree=False) == 7
