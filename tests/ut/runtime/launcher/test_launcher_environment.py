"""What surrounds a kernel: faults, memory, float environment, threads, forks, references."""

import ctypes
import gc
import os
import sys
import threading
import weakref

import numpy as np
import pytest
from launcher_kit import AFFINE, COUNT, INDEX, INT64, Index, Interface, Slow, echo_plan, f32, tensor

from pypto.dtypes import DataType
from pypto.errors import ArgumentValueError, InternalError, KernelBoundsError, KernelError
from pypto.runtime.plan import HEAVY_BYTES, MISSING, KernelPlan, ScalarParam, Site
from pypto.span import Span

SITES = (
    Site("bounds", "window {0} to {1} leaves {2}", 0, 4),
    Site("empty", "row_sum of nothing", 0, 5),
    Site("memory", "no memory for {3} bytes", 0, 6),
    Site("value", "no step", 1, 7),
)
FAILS = KernelPlan("fails", (ScalarParam("n", INT64), tensor("h", (3,), "out", hidden=True)), returns=(1,), sites=SITES)


@pytest.mark.parametrize(
    ("site", "kind", "text"),
    [
        (0, KernelBoundsError, "window -10 to -20 leaves -30"),
        (1, KernelError, "row_sum of nothing"),
        (2, KernelError, "no memory for -40 bytes"),
        (3, KernelError, "no step"),
    ],
)
def test_faults_become_errors_at_their_line(backend, entry, site, kind, text):
    where = []

    def place(site):
        where.append(site)
        return Span("kernel.py", 10 + site.ordinal, 5)

    d = backend.Dispatcher(Slow(), ("n",), (MISSING,))
    d.add(entry(FAILS, "fails", place=place))
    with pytest.raises(kind) as caught:
        d(site + 1)
    assert caught.type is kind
    assert caught.value.message == f"fails: {text}"
    assert caught.value.span["line"] == 14 + site
    assert where == [SITES[site]]
    assert d(0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("status", [5, -1, 2**62])
def test_a_fault_that_no_site_stands_for_is_our_mistake(entry, status):
    with pytest.raises(InternalError, match="reported site"):
        entry(FAILS, "fails").call((status,))


def test_a_fault_handler_must_raise(backend, entry):
    backend.configure(fault=lambda *args: None)
    with pytest.raises(SystemError, match="fault"):
        entry(FAILS, "fails").call((1,))


def test_scratch_is_aligned_and_large_enough(entry):
    scalars = tuple(ScalarParam(f"f{i}", INDEX) for i in range(4))
    last = 0
    for scratch in (1000, 100, 1 << 20, 64):
        y = np.full(8, -1)
        entry(echo_plan(*scalars)._replace(scratch_bytes=scratch), "echo").call((y, 1, 2, 3, 4))
        assert y[4] == 0
        assert y[5] >= max(scratch, last)
        assert y[6] == 0
        last = y[5]


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the size of the process where Linux shows it")
def test_a_threads_scratch_ends_with_the_thread(entry):
    size = 32 << 20
    e = entry(echo_plan(*(ScalarParam(f"f{i}", INDEX) for i in range(4)))._replace(scratch_bytes=size), "echo")

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = resident()
    for _ in range(12):
        thread = threading.Thread(target=e.call, args=((np.zeros(8, np.int64), 1, 2, 3, 4),))
        thread.start()
        thread.join()
    assert resident() - before < 3 * size


def test_scratch_that_cannot_be_had_is_an_error(entry):
    scalars = tuple(ScalarParam(f"f{i}", INDEX) for i in range(4))
    y = np.zeros(8, np.int64)
    for scratch in (1 << 62, 1 << 50):
        with pytest.raises(KernelError, match=f"echo: {scratch} bytes of scratch"):
            entry(echo_plan(*scalars)._replace(scratch_bytes=scratch), "echo").call((y, 1, 2, 3, 4))
    assert not y.any()
    entry(echo_plan(*scalars), "echo").call((y, 1, 2, 3, 4))


def test_memory_of_run_time_size(entry):
    plan = KernelPlan("allocates", (tensor("y", (8,), "out", INT64), ScalarParam("n", INDEX)))
    e = entry(plan, "allocates")
    for size in (0, 1, 64, 1000, 1 << 17, 3 << 20, 1000):
        for _ in range(3):
            y = np.zeros(8, np.int64)
            e.call((y, size))
            assert y[:5].tolist() == [1, 0, 50, 1, 0], size
            assert y[5] == 0, "the last call left something behind"
    for size in (-1, 1 << 62):
        y = np.zeros(8, np.int64)
        e.call((y, size))
        assert not y.any()


FLOATS = KernelPlan("floats", (tensor("y", (3,), "out", INT64),))
UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}.get(os.uname().machine)
INEXACT = {"x86_64": 0x20, "aarch64": 0x10}.get(os.uname().machine, 0)


def test_the_callers_rounding_and_flags_stay(entry):
    libm = ctypes.PyDLL(None)
    if UPWARD is None:
        pytest.skip("no rounding mode known for this machine")
    e, y = entry(FLOATS, "floats"), np.zeros(3, np.int64)
    every = libm.fetestexcept(-1) | 0
    libm.feclearexcept(-1)
    libm.fesetround(UPWARD)
    try:
        e.call((y,))
        flags, mode = libm.fetestexcept(-1), libm.fegetround()
        libm.feraiseexcept(8)  # overflow, on both machines close enough: some flag
        raised = libm.fetestexcept(-1)
        e.call((y,))
        after = libm.fetestexcept(-1)
    finally:
        libm.fesetround(0)
        libm.feclearexcept(-1)
        libm.feraiseexcept(every)
    assert y.tolist() == [1, 1, 1]
    assert (flags, mode) == (0, UPWARD)
    assert raised != 0
    # Python's own floating-point work around the call may round.
    assert after & ~INEXACT == raised & ~INEXACT


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="reads the SSE control register")
@pytest.mark.parametrize("state", [0x1F80 | 0x8040, 0x1F80 | 0x6000 | 0x3F, 0x1F80 | 0x4000])
def test_the_control_register_is_restored_to_the_bit(entry, kernels, state):
    get, put = (
        ctypes.PYFUNCTYPE(ctypes.c_uint)(("get_mxcsr", kernels)),
        ctypes.PYFUNCTYPE(None, ctypes.c_uint)(("set_mxcsr", kernels)),
    )
    e, y = entry(FLOATS, "floats"), np.zeros(3, np.int64)
    args, normal = (y,), get()
    put(state)
    try:
        e.call(args)
        after = get()
    finally:
        put(normal)
    assert after == state
    assert y.tolist() == [1, 1, 1]


# --- threads, forks, references ------------------------------------------------------------------------------------


def test_many_threads_call_at_once(backend, entry):
    slow = Slow()
    d = backend.Dispatcher(slow, ("x", "s", "n", "y"), (MISSING,) * 4)
    scratch = AFFINE._replace(scratch_bytes=4096)
    d.add(entry(scratch, "affine"))
    barrier, wrong = threading.Barrier(16), []

    def work(t):
        x, y = f32(100 + t, fill=t), f32(100 + t)
        barrier.wait()
        for i in range(200):
            if d(x, 2.0, i, y) is not y or (y != 2 * t + i).any():
                wrong.append((t, i))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert not slow.calls


@pytest.mark.parametrize("how", ["work", "bytes"])
def test_heavy_kernels_let_other_threads_run(backend, entry, how):
    """The kernel waits until another Python thread has written: it fails if it held the lock."""
    n = HEAVY_BYTES // 4 if how == "bytes" else 2
    plan = KernelPlan(
        "waits", (tensor("y", (n,), "inout", DataType.INT32),), work=HEAVY_BYTES if how == "work" else 0, sites=SITES
    )
    d = backend.Dispatcher(Slow(), ("y",), (MISSING,))
    guards = (("call", Truth()),)
    alive = weakref.ref(guards[0][1])
    d.add(entry(plan, "waits", guards=guards))
    del guards
    flag, kept = np.zeros(n, np.int32), []

    def answer():
        while not flag[0]:
            pass
        # Dropped while it runs: the call holds the entry and all that belongs to it.
        d.clear()
        gc.collect()
        kept.append(alive() is not None)
        flag[1] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    assert d(flag) is None
    thread.join()
    assert kept == [True]
    assert alive() is None


class Truth:
    def __call__(self):
        return True


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_goes_on_calling(affine):
    x, y = f32(50, fill=1), f32(50)
    affine.call(x, 1.0, 0, y)
    child = os.fork()
    if child == 0:
        ok = affine.call(x, 2.0, 1, y) is y and bool((y == 3).all())
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (y == 1).all()


def test_no_reference_is_lost_or_gained(affine):
    x, y, s, n = f32(50), f32(50), 1234.5, 10**10
    foreign, small = Interface(f32(50)), f32(3)
    things = (x, y, s, n, foreign, small, affine.call)
    before = [sys.getrefcount(t) for t in things]
    for _ in range(100):
        affine.call(x, s, n, y)
        affine.call(foreign, s, n, y=y)
        affine.call(x, Index(), n, foreign)
        affine.call(x, s, n, small)
        affine.slow.calls.clear()
    assert [sys.getrefcount(t) for t in things] == before


def test_failing_calls_lose_no_reference(entry):
    e, y = entry(COUNT, "count"), f32(4, 8)
    before = sys.getrefcount(y), sys.getrefcount(e)
    for _ in range(100):
        with pytest.raises(ArgumentValueError):
            e.call((y, 1, y))
    gc.collect()
    assert (sys.getrefcount(y), sys.getrefcount(e)) == before


@pytest.mark.parametrize("entries", [3, 20])
def test_entries_and_dispatchers_are_collected(backend, entry, entries):
    class Owner:
        def __call__(self, args, kwargs):
            return None

    owner = Owner()
    owner.dispatcher = backend.Dispatcher(owner, ("x", "n", "y"), (MISSING,) * 3)
    for i in range(entries):
        p = COUNT._replace(params=(tensor("x", (i,)), *COUNT.params[1:]))
        owner.dispatcher.add(entry(p, "count", guards=(("call", owner),)))
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None
