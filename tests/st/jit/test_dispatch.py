"""What stands between a call and its kernel: guards, contexts, threads and tasks, a bound on what is remembered, collection."""

import asyncio
import copy
import gc
import pickle
import sys
import threading
import tracemalloc
import types
import weakref

import numpy as np
import pytest
from jit_kit import HEAD, call, full, scaled, untouched

import pypto
import pypto.language as pl
from pypto.enums import MemoryPlanner
from pypto.jit import driver, function
from pypto.passes import CallbackInstrument
from pypto.passes.context import PassContext


def requests():
    return pypto.cache_stats().requests


# -- guards --

settings = types.ModuleType("settings")
FACTOR = 2.0


@pytest.fixture
def of_globals(launcher, monkeypatch):
    """A kernel that reads a global, a module's attribute and a helper's global."""
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setattr(settings, "SHIFT", 1.0, raising=False)
    monkeypatch.setitem(globals(), "twice", doubling_helper())

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = twice(x)  # noqa: F821
            y[:] = pl.add(pl.mul(t, FACTOR), settings.SHIFT)
        return y

    return k


def doubling_helper(by=2.0):
    @pl.jit.inline
    def twice(t: pl.Tensor):
        return pl.mul(t, by)

    return twice


def test_a_warm_call_asks_nobody(of_globals):
    assert call(of_globals) == 5.0
    before = requests()
    for _ in range(10):
        assert call(of_globals) == 5.0
    assert requests() == before


def test_everything_that_is_read_is_watched(of_globals, monkeypatch):
    assert call(of_globals) == 5.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert call(of_globals) == 7.0
    monkeypatch.setattr(settings, "SHIFT", 0.5)
    assert call(of_globals) == 6.5
    monkeypatch.setitem(globals(), "twice", doubling_helper(5.0))
    assert call(of_globals) == 15.5
    monkeypatch.delitem(globals(), "FACTOR")
    with pytest.raises(pypto.Error, match="'FACTOR'"):
        of_globals(full(1.0), untouched())
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    before = requests()
    assert call(of_globals) == 15.5
    assert requests() - before <= 1  # an equal float is another object
    monkeypatch.delattr(settings, "SHIFT")
    with pytest.raises(pypto.Error, match="SHIFT"):
        of_globals(full(1.0), untouched())


def test_containers_of_modules_and_in_defaults_are_watched(launcher, monkeypatch):
    """What changes in place is seen wherever it is reached from."""
    monkeypatch.setattr(settings, "TABLE", ([2.0], 1), raising=False)
    extra = [1.0]

    @pl.jit.inline
    def plus(t: pl.Tensor, by=extra):
        return pl.add(t, by[0])

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = plus(pl.mul(x, settings.TABLE[0][0]))
        return y

    assert call(k) == 3.0
    settings.TABLE[0][0] = 3.0
    assert call(k) == 4.0
    extra[0] = 10.0
    assert call(k) == 13.0
    settings.TABLE[0][0] = 2.0
    assert call(k) == 12.0


def test_names_that_a_module_computes_are_watched(launcher, monkeypatch):
    values = {"SHARE": 2.0}

    def computed(name):
        try:
            return values[name] * 1.0  # a fresh object at each request
        except KeyError:
            raise AttributeError(name) from None

    monkeypatch.setattr(settings, "__getattr__", computed, raising=False)

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, settings.SHARE)
        return y

    assert call(k) == 2.0
    before = requests()
    assert call(k) == 2.0
    assert requests() == before
    values["SHARE"] = 3.0
    assert call(k) == 3.0
    del values["SHARE"]
    with pytest.raises(pypto.Error, match="SHARE"):
        k(full(1.0), untouched())


def test_a_name_bound_anew_in_the_middle_of_a_compilation(launcher, monkeypatch):
    """What is compiled is what the key says, whatever other threads do meanwhile, there and back again."""
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setattr(settings, "SHIFT", 10.0, raising=False)
    monkeypatch.setattr(settings, "TABLE", [100.0], raising=False)
    cell = 1000.0

    @pl.jit.inline
    def scaled_by(t: pl.Tensor):
        return pl.mul(t, FACTOR)

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.add(pl.add(pl.add(scaled_by(x), settings.SHIFT), settings.TABLE[0]), cell)
        return y

    def disturbed(parse):
        def parsing(*args, **kwargs):
            nonlocal cell
            change(3.0, 30.0, 300.0)
            cell = 3000.0
            try:
                return parse(*args, **kwargs)
            finally:
                change(2.0, 10.0, 100.0)
                cell = 1000.0

        return parsing

    def change(factor, shift, entry):
        globals()["FACTOR"], settings.SHIFT, settings.TABLE[0] = factor, shift, entry

    with monkeypatch.context() as patch:
        patch.setattr(driver, "parse_kernel", disturbed(driver.parse_kernel))
        assert call(k) == 1112.0
        assert "1000.0" in k.specialize(full(1.0), untouched()).as_python()
    compiled = k.compile(full(1.0), untouched())
    text = compiled.inspect("pto")
    cell = 0.0
    settings.SHIFT, settings.TABLE = 0.0, [0.0]
    assert call(k) == 2.0
    assert "1000.0" in compiled.program.as_python()  # of what was compiled, not of what the names stand for now
    assert compiled.inspect("pto") == text != k.inspect("pto")


def test_a_builtin_that_is_hidden_later(launcher, monkeypatch):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, float("inf"))
        return y

    assert call(k) == np.inf
    monkeypatch.setitem(globals(), "float", 3.0)
    with pytest.raises(pypto.Error):
        k(full(1.0), untouched())
    monkeypatch.delitem(globals(), "float")
    assert call(k) == np.inf


def test_names_that_come_back_are_known(launcher):
    """Values that take turns are learned once each."""
    a, b = 2.0, 3.0
    value = a

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, value)
        return y

    assert call(k) == 2.0
    value = b
    assert call(k) == 3.0
    before = requests()
    for _ in range(5):
        value = a
        assert call(k) == 2.0
        value = b
        assert call(k) == 3.0
    assert requests() == before


def test_a_module_that_is_replaced(launcher, monkeypatch):
    monkeypatch.setattr(settings, "deep", types.SimpleNamespace(), raising=False)
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.V, two.V = 2.0, 3.0
    monkeypatch.setattr(settings, "deep", one)

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, settings.deep.V)
        return y

    assert call(k) == 2.0
    monkeypatch.setattr(settings, "deep", two)
    assert call(k) == 3.0
    two.V = 4.0
    assert call(k) == 4.0


def test_the_bound_on_what_is_remembered(launcher, monkeypatch):
    monkeypatch.setattr(function, "_MOST_ENTRIES", 8)
    value = 0.0

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, value)
        return y

    for i in range(40):
        value = float(str(i % 3))  # a new object each time
        assert call(k) == i % 3
        assert len(k._dispatcher) <= 8
    assert len(k.kernels) == 3


def test_many_shapes_and_types_side_by_side(launcher):
    kernel = scaled(2.0)
    shapes = [(8 * n, 32) for n in range(1, 6)]
    for _ in range(3):
        for shape in shapes:
            for dtype in (np.float32, np.float16):
                y = untouched(shape, dtype)
                kernel(full(3.0, shape, dtype), y)
                assert (y == 6).all()
    assert len(kernel.kernels) == 10


# -- contexts --


def test_a_context_entered_after_the_first_call(launcher):
    kernel = scaled(2.0)
    assert call(kernel) == 2.0
    seen = []
    watch = CallbackInstrument(after_pass=lambda p, program: seen.append(p))
    for n in (1, 2):
        with PassContext([watch]):
            assert call(kernel) == 2.0
        assert len(seen) > 5 * n
    before = len(seen)
    assert call(kernel) == 2.0
    assert len(seen) == before
    with PassContext(memory_planner=MemoryPlanner.DSA_RP):
        assert call(kernel) == 2.0
        assert kernel.compile(full(1.0), full(1.0)).record.parts["memory_planner"] is MemoryPlanner.DSA_RP
    assert len(kernel.kernels) == 2


def test_tasks_have_contexts_of_their_own(launcher):
    kernel = scaled(2.0)
    seen = {}

    async def work(planner):
        with PassContext(memory_planner=planner):
            for _ in range(5):
                assert call(kernel) == 2.0
                await asyncio.sleep(0)
                made = kernel.compile(full(1.0), full(1.0))
                seen.setdefault(planner, set()).add(made.record.parts["memory_planner"])
        assert PassContext.current() is None

    async def main():
        await asyncio.gather(*map(work, MemoryPlanner))

    asyncio.run(main())
    assert seen == {p: {p} for p in MemoryPlanner}


def test_a_context_reaches_a_thread_that_takes_it_along(launcher):
    import contextvars

    kernel, got = scaled(2.0), []

    def ask():
        got.append(kernel.compile(full(1.0), full(1.0)).record.parts["enable_buffer_ir"])

    with PassContext(enable_buffer_ir=False):
        taken = contextvars.copy_context()
        for target in (ask, lambda: taken.run(ask)):
            t = threading.Thread(target=target)
            t.start()
            t.join()
    assert got == [True, False]


# -- running in parallel, and inside one another --


@pytest.mark.parametrize("rows", [64, 2048], ids=["light", "heavy"])
def test_threads_run_one_kernel_on_different_arrays(launcher, rows):
    @pl.jit
    def k(x: pl.Tensor, s: pl.FP32, y: pl.Out[pl.Tensor]):
        for i in pl.range(0, rows, 64):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[i : i + 64, :] = pl.mul(pl.add(x[i : i + 64, :], 1.0), s)
        return y

    k(full(1.0, (rows, 64)), 1.0, untouched((rows, 64)))
    wrong, start = [], threading.Barrier(4)

    def work(n):
        x, y = full(float(n), (rows, 64)), untouched((rows, 64))
        start.wait()
        for s in range(1, 40):
            k(x, s, y)
            if not (y == (n + 1) * s).all():
                wrong.append((n, s))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_call_within_a_call(launcher):
    """An argument that calls a kernel while it is looked at."""
    inner = scaled(3.0)

    class Nosy:
        def __init__(self, base):
            self.base = base

        @property
        def __array_interface__(self):
            assert call(inner) == 3.0
            return self.base.__array_interface__

    kernel = scaled(2.0)
    for _ in range(3):
        y = untouched()
        kernel(Nosy(full(1.0)), Nosy(y))
        assert (y == 2).all()


def test_an_argument_that_fails_while_it_is_looked_at(launcher):
    class Failing:
        @property
        def __array_interface__(self):
            raise ZeroDivisionError("inside")

    kernel = scaled(2.0)
    for _ in range(2):
        with pytest.raises(pypto.errors.ArgumentTypeError, match="raises ZeroDivisionError: inside") as e:
            kernel(Failing(), untouched())
        assert isinstance(e.value.__cause__, ZeroDivisionError)
        assert call(kernel) == 2.0


# -- memory --


def test_kernels_are_collected(launcher):
    kernel = scaled(2.0)
    made = kernel.compile(full(1.0), full(1.0))
    assert call(kernel) == 2.0
    died = [weakref.ref(kernel), weakref.ref(made)]
    del kernel, made
    gc.collect()
    assert [r() for r in died] == [None, None]


def test_calls_leave_nothing_behind(launcher):
    kernel = scaled(2.0)
    x, y = full(1.0, (8, 8)), untouched((8, 8))
    rounds = 100_000 if launcher == "native" else 2_000

    def work(n):
        for _ in range(n):
            kernel(x, y)

    work(1000)
    references = [sys.getrefcount(o) for o in (x, y, kernel)]

    def left() -> tuple[int, int]:
        """Bytes and blocks that calls leave."""
        gc.collect()
        tracemalloc.start()
        try:
            work(100)
            before, blocks = tracemalloc.get_traced_memory()[0], sys.getallocatedblocks()
            work(rounds)
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before, sys.getallocatedblocks() - blocks
        finally:
            tracemalloc.stop()

    # Other threads of the process allocate, too, now and then: what calls leave is there each time.
    assert any(size < 4096 and blocks < 200 for size, blocks in (left() for _ in range(3)))
    assert [sys.getrefcount(o) for o in (x, y, kernel)] == references


def test_failing_calls_leave_nothing_behind(launcher):
    kernel = scaled(2.0)
    assert call(kernel) == 2.0
    x, y, bad = full(1.0), untouched(), full(1.0).T

    def work(n):
        for _ in range(n):
            with pytest.raises(ValueError, match="strides"):
                kernel(bad, y)
            with pytest.raises(TypeError, match="missing"):
                kernel(x)

    work(5)
    references = [sys.getrefcount(o) for o in (x, y, bad)]
    work(50)
    gc.collect()
    assert [sys.getrefcount(o) for o in (x, y, bad)] == references
    assert len(kernel.kernels) <= 1
    assert len(kernel._dispatcher) == 1


# -- faults at run time --


def sliding():
    @pl.jit
    def slide(x: pl.Tensor, at: pl.INDEX, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [at, 0], [8, 64])
            y = pl.store(t, [0, 0], y)
        return y

    return slide


def test_a_fault_is_the_callers_error_and_the_next_call_is_not(launcher):
    kernel = sliding()
    x, y = np.arange(4096, dtype=np.float32).reshape(64, 64), untouched((8, 64))
    for _ in range(3):
        kernel(x, 16, y)
        assert (y == x[16:24]).all()
        for at in (57, -1, 2**40):
            y[:] = 77
            with pytest.raises(IndexError) as caught:
                kernel(x, at, y)
            assert "pl.load(x, [at, 0], [8, 64])" in str(caught.value)
            assert "test_dispatch.py:" in str(caught.value)
            assert (y == 77).all()


# -- copies --

of_module = scaled(2.0)
of_module.__qualname__ = "of_module"


class Holder:
    @pl.jit
    def inner(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 3.0)
        return y

    @pl.jit.inline
    def helper(t: pl.Tensor):
        return pl.mul(t, 3.0)


def test_pickles_by_name():
    """Like functions: the other side imports the module."""
    of_module.__module__ = __name__
    for kernel in (of_module, Holder.inner, Holder.helper):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(kernel, protocol)) is kernel
        assert copy.copy(kernel) is kernel
        assert copy.deepcopy({"k": [kernel]})["k"][0] is kernel
    local = scaled(2.0)
    assert copy.deepcopy(local) is local
    with pytest.raises((pickle.PicklingError, AttributeError), match="k"):
        pickle.dumps(local)


def test_a_kernel_sent_to_another_process(box):
    (box.dir / "kernels.py").write_text(
        """
import pypto.language as pl
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, 4.0)
    return y
"""
    )
    code = """
import concurrent.futures as f, multiprocessing as m
import kernels
if __name__ == "__main__":
    with f.ProcessPoolExecutor(2, mp_context=m.get_context("spawn")) as pool:
        print(*pool.map(call, [kernels.k] * 3), call(kernels.k))
"""
    assert box.run(HEAD + code).words == ["4.0"] * 4
    assert box.builds(agree=False) == 1


def test_weak_references_attributes_and_equality():
    kernel = scaled(2.0)
    kernel.note = "mine"
    assert kernel.note == "mine"
    assert weakref.ref(kernel)() is kernel
    assert {kernel: 1}[kernel] == 1
    assert kernel != scaled(2.0)
