"""Many threads, many processes: one build for each kernel, one error for all, as many compilers at a time as there are CPUs."""

import os
import subprocess
import sys

from jit_kit import HEAD, NO_LAUNCHER, tool

BUILD = (
    HEAD
    + """
def build(c, op="mul"):
    if op == "mul":
        @pl.jit
        def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.mul(x, c)
            return y
    else:
        @pl.jit
        def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.no_such_op(x, c)
            return y
    return k
def together(n, work):
    bar = threading.Barrier(n)
    def run(t):
        bar.wait(); work(t)
    ts = [threading.Thread(target=run, args=(t,)) for t in range(n)]
    [t.start() for t in ts]; [t.join() for t in ts]
"""
)


def test_the_first_call_comes_from_many_threads(box):
    code = """
kernels = [build(float(i + 2)) for i in range(4)]
got = []; objs = [set() for _ in kernels]
def work(t):
    x = ones(); y = np.zeros_like(x)
    for i in [(t + j) % 4 for j in range(4)]:
        got.append((i, call(kernels[i])))
        objs[i].add(id(kernels[i].compile(x, y)))
together(16, work)
assert len(got) == 64 and all(v == i + 2 for i, v in got) and all(len(o) == 1 for o in objs)
bad = build(1.0, "bad"); errors = []
def fail(t):
    try: call(bad)
    except Exception as e: errors.append((type(e).__name__, str(e)))
together(16, fail)
assert len(errors) == 16 and len(set(errors)) == 1 and "no_such_op" in errors[0][1], set(errors)
print("fine")
"""
    for env in ({}, {"PYPTO_LAUNCHER": "ctypes"}):
        assert box.run(BUILD + code, **env).words == ["fine"]
    assert box.builds() == 4


def test_one_kernel_for_different_arguments_at_once(box):
    code = """
k = build(2.0); got = []
def work(t):
    shape = (8 * (1 + t % 4), 64)
    for _ in range(20):
        x = np.full(shape, t, np.float32); y = np.zeros_like(x)
        assert k(x, y) is y
        got.append((y == 2 * t).all())
together(8, work); print(len(got), all(got), len(k.kernels))
"""
    assert box.run(BUILD + code).words == ["160", "True", "4"]
    assert box.builds() == 4


def test_decorating_and_parsing_in_threads(box):
    code = """
got = []
def work(t):
    for i in range(4):
        k = build(float(t))
        got.append(k.lower(ones(), ones()).name)
        got.append(call(k) == t)
together(4, work); print(len(got), set(got) == {"k", True})
"""
    assert box.run(BUILD + code).words == ["32", "True"]
    assert box.builds() == 4


def test_contexts_are_a_threads_own(box):
    code = """
from pypto import passes
k = build(2.0); planners = list(passes.MemoryPlanner); shared = passes.PassContext(enable_buffer_ir=False); seen = []
def work(t):
    for _ in range(10):
        with passes.PassContext(memory_planner=planners[t]):
            assert call(k) == 2.0
            seen.append(k.compile(ones(), ones()).record.parts["memory_planner"] is planners[t])
        seen.append(passes.PassContext.current() is None)
together(3, work); print(len(seen), all(seen))
"""
    assert box.run(BUILD + code).words == ["60", "True"]
    assert box.builds() == 3


def complaints(err):
    """What processes say, but for that they wait: on a busy machine they may."""
    return [line for line in err.splitlines() if not line.startswith("pypto: waiting for ")]


def test_processes_publish_and_read_at_once(box):
    (box.dir / "elsewhere").mkdir(mode=0o700)
    link = box.dir / "link"
    link.symlink_to(box.dir / "elsewhere")
    script = box.dir / "race.py"
    script.write_text(
        BUILD
        + """
for line in sys.stdin:                                                # one line per round: the barrier
    print(*[call(build(float(int(line) * 3 + j + 1))) for j in range(3)], flush=True)
"""
    )
    pipe, count, rounds = subprocess.PIPE, 4, 3
    env = box.env(PYPTO_CACHE_DIR=link)
    procs = [
        subprocess.Popen([sys.executable, script], env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(count)
    ]
    try:
        for r in range(rounds):
            for p in procs:
                p.stdin.write(f"{r}\n")
                p.stdin.flush()
            want = [str(float(r * 3 + j + 1)) for j in range(3)]
            assert all(p.stdout.readline().split() == want for p in procs), [p.stderr.read() for p in procs if p.poll()]
        errors = [p.communicate(timeout=30)[1] for p in procs]
    finally:
        for p in procs:
            p.kill()
    assert not any(map(complaints, errors)), errors
    assert box.builds() == rounds * 3  # one per key
    assert not [p for p in (box.dir / "elsewhere").rglob("*") if "tmp" in p.name or "lock" in p.name]


def test_a_cold_start_in_many_processes(new_box):
    """Not even the root exists, nor what all kernels share."""
    box = new_box(empty=True)
    code = BUILD + "print(call(build(2.0)))\n"
    ps = [box.start(code, name=f"t{i}.py", PYPTO_CACHE_DIR=box.dir / "deep" / "root") for i in range(3)]
    for p in ps:
        out, err = p.communicate(timeout=60)
        assert (out.split(), complaints(err)) == (["2.0"], [])
    assert box.builds() == 1


def test_compilers_at_a_time(box):
    """One CPU: one compiler, over all threads and processes."""
    peak = box.dir / "peak"
    peak.mkdir()
    counted = tool(
        box.dir / "cc-peak",
        f'case " $* " in *" -o kernel.so "*) echo x >> "$CC_LOG"; f={peak}/$$; : > $f; ls {peak} | grep -vc max >> {peak}/max;'
        ' sleep 0.1; "$REAL_CC" "$@"; r=$?; rm -f $f; exit $r;; esac\nexec "$REAL_CC" "$@"',
    )
    pin = f"import os; os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[:1]})\n"
    code = pin + BUILD + "got = []\ntogether(4, lambda t: got.append(call(build(float(t)))))\nprint(*sorted(got))\n"
    ps = [
        box.start(code.replace("float(t)", f"float(t + {4 * i})"), name=f"t{i}.py", PYPTO_CC=counted, **NO_LAUNCHER)
        for i in range(2)
    ]
    for i, p in enumerate(ps):
        out, err = p.communicate(timeout=60)
        assert out.split() == [str(float(4 * i + t)) for t in range(4)], err
    assert max(map(int, (peak / "max").read_text().split())) == 1
    assert box.builds() == 8


def test_forked_children_go_on(box):
    """After the first call, and after none: a child calls, compiles, and counts on from its parent."""
    code = """
import warnings; warnings.simplefilter("error")
k, late = build(2.0), build(3.0)
def child(work):
    pid = os.fork()
    if pid == 0:
        try: ok = work()
        except BaseException as e: print(repr(e), file=sys.stderr); ok = False
        sys.stderr.flush(); os._exit(0 if ok else 1)
    return os.waitpid(pid, 0)[1] == 0
early = [child(lambda: call(build(4.0)) == 4.0)]
before = call(k)
print(*early, before, child(lambda: call(k) == 2.0), child(lambda: call(late) == 3.0), call(late), call(k))
"""
    for env in ({}, {"PYPTO_LAUNCHER": "ctypes"}):
        assert box.run(BUILD + code, **env).words == ["True", "2.0", "True", "True", "3.0", "2.0"]
    assert box.builds(agree=False) == 3  # children leave without writing their counters down


def test_a_parallel_kernel_in_a_child_of_a_process_with_threads(box):
    code = """
import warnings
warnings.simplefilter("ignore")
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    for b in pl.parallel(0, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.store(pl.mul(pl.load(x, [b * 64, 0], [64, 64]), 2.0), [b * 64, 0], y)
    return y
x = np.ones((512, 64), np.float32)
def right(): y = np.zeros_like(x); k(x, y); return bool((y == 2).all())
def in_threads():
    got = []
    ts = [threading.Thread(target=lambda: got.append(right())) for _ in range(4)]
    [t.start() for t in ts]; [t.join() for t in ts]
    return got == [True] * 4
before = right() and in_threads()
pid = os.fork()
if pid == 0: os._exit(0 if right() and in_threads() else 1)
print(before, os.waitpid(pid, 0)[1], right())
"""
    for env in ({}, {"PYPTO_LAUNCHER": "ctypes"}):
        assert box.run(HEAD + code, **env).words == ["True", "0", "True"]


def test_a_fork_while_another_thread_builds(box):
    """The child must not wait for a lock or a build that only exists in its parent.

    Imports are done before: Python's own locks of modules do not survive a fork.
    """
    code = """
import time, warnings
warnings.simplefilter("ignore")
call(build(9.0)); build(1.0).explain(ones(), ones())
stop = []; ended = []
def busy():
    i = 0
    while not stop:
        i += 1; call(build(float(i % 3) + 10)); build(1.0).explain(ones(), ones())
ts = [threading.Thread(target=busy) for _ in range(2)]
[t.start() for t in ts]
for n in range(8):
    time.sleep(0.02)
    pid = os.fork()
    if pid == 0:
        got = call(build(10.0))
        os._exit(0 if got == 10.0 else 1)
    deadline = time.monotonic() + 20
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done: ended.append(status); break
        if time.monotonic() > deadline: os.kill(pid, 9)
        time.sleep(0.005)
stop.append(1); [t.join() for t in ts]; print(*ended)
"""
    assert box.run(BUILD + code).words == ["0"] * 8


def test_calls_while_the_interpreter_ends(box):
    code = """
k = build(2.0); call(k)
class Late:
    def __del__(self): print(call(k))
import atexit; atexit.register(lambda: print(call(k)))
keep = Late()
t = threading.Thread(target=lambda: [call(k) for _ in range(2000)], daemon=True); t.start()
"""
    p = box.run(BUILD + code)
    assert p.words[0] == "2.0"
    assert "Fatal" not in p.err
