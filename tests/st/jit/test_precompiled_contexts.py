"""What is compiled ahead is what calls want: the options at submission decide, wherever and whenever the work is done."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from jit_kit import HEAD, call, full, scaled

import pypto
import pypto.language as pl
from pypto import passes
from pypto.jit import Precompiled, PrecompilePool, programs
from pypto.passes import MemoryPlanner

X = pl.Tensor[[64, 64], pl.FP32]
POOL = (
    HEAD
    + """
from pypto import passes
P = passes.MemoryPlanner
def build(c):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.add(pl.mul(x, c), 1.0)
        return y
    return k
def contexts():
    return [dict(memory_planner=p, enable_buffer_ir=b) for p in (P.PYPTO, P.DSA_RP, P.PTOAS) for b in (True, False)]
x = ones()
if sys.argv[1] == "warm":
    with pypto.PrecompilePool(workers=int(sys.argv[2]), kind=sys.argv[3]) as pool:
        futures = []
        for i, c in enumerate(contexts()):
            with passes.PassContext([], **c):
                with passes.PassContext([], **contexts()[-1]): pass
                futures.append(pool.submit(build(float(i + 2)), x, np.empty_like(x)))
        print(*[f.result(timeout=100).outcome for f in futures])
else:
    for i, c in enumerate(contexts()):
        with passes.PassContext([], **c):
            print(call(build(float(i + 2))))
"""
)


def artifacts(box):
    return {str(p.relative_to(box.root)): p.read_bytes() for p in box.root.rglob("*") if p.suffix in (".c", ".pto", ".msgpack")}


def test_every_way_to_compile_makes_the_same_artifacts(new_box):
    made = []
    for workers, kind in ((0, "process"), (1, "thread"), (8, "process")):
        box = new_box()
        # The script has no `if __name__ == "__main__"`: nothing of it runs in a worker.
        assert box.run(POOL, "warm", workers, kind, PYTHONHASHSEED=workers).words == ["built"] * 6
        assert box.builds() == 6
        assert box.run(POOL, "use").words == ["3.0", "4.0", "5.0", "6.0", "7.0", "8.0"]
        assert box.builds() == 0
        made.append(artifacts(box))
    assert len(made[0]) >= 6 * 4
    assert made[0] == made[1] == made[2]


@pytest.fixture(params=["process", "thread", "executor"])
def pool(request, here):
    """A pool of one worker over a cache of its own."""
    if request.param == "executor":
        with ThreadPoolExecutor(1) as executor, PrecompilePool(executor=executor) as pool:
            yield pool
    else:
        with PrecompilePool(workers=1, kind=request.param) as pool:
            yield pool


def parts(done: Precompiled):
    """The key of what was made."""
    from pypto.runtime.store import default_store

    (found,) = [e for e in default_store().entries() if e.digest == done.key]
    return found.record().parts


@pytest.mark.contract("B119")
def test_no_context_reaches_the_next_request(pool):
    with passes.PassContext(memory_planner=MemoryPlanner.PTOAS, enable_buffer_ir=False, platform="a5sim"):
        first = pool.submit(scaled(2.0), X, X)
    second = pool.submit(scaled(2.0), X, X)
    got = [parts(f.result(60)) for f in (first, second)]
    assert [(p["memory_planner"].name, p["enable_buffer_ir"], p["platform"]) for p in got] == [
        ("PTOAS", False, "a5sim"),
        ("PYPTO", True, "a2a3sim"),
    ]
    assert passes.PassContext.current() is None


def test_what_a_request_says_decides_and_not_where_it_is_submitted(pool):
    with passes.PassContext(memory_planner=MemoryPlanner.DSA_RP):
        request = scaled(2.0).request(X, X)
    with passes.PassContext(memory_planner=MemoryPlanner.PTOAS):
        assert parts(pool.submit(request).result(60))["memory_planner"].name == "DSA_RP"


def test_options_of_the_environment_are_those_of_the_submission(pool, monkeypatch):
    pool.submit(scaled(2.0), X, X).result(60)  # the worker is running, with the environment as it was
    monkeypatch.setenv("PYPTO_NATIVE_OPT", "0")
    monkeypatch.setenv("CFLAGS", "-O1")
    last = pool.submit(scaled(2.0), X, X)
    got = parts(last.result(60))
    assert got["native_opt"] is False
    assert "-O1" in got["toolchain"]["flags"]


def test_values_are_those_of_the_submission(pool):
    factor = 2.0

    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, factor)
        return y

    # Work that lies in front of it, so that the value changes before its turn comes.
    futures = [pool.submit(scaled(7.0), X, X), pool.submit(k, X, X)]
    factor = 3.0
    [f.result(60) for f in futures]
    before = pypto.cache_stats().builds
    assert call(k) == 3.0
    assert pypto.cache_stats().builds == before + 1
    factor = 2.0
    assert call(k) == 2.0
    assert pypto.cache_stats().builds == before + 1


def test_calls_use_what_was_precompiled(pool, launcher):
    kernel = scaled(2.0)
    done = pool.submit(kernel, X, X).result(60)
    assert done.outcome == "built"
    assert done.stored
    before = pypto.cache_stats()
    assert call(kernel) == 2.0
    after = pypto.cache_stats()
    assert (after.builds, after.disk_hits) == (before.builds, before.disk_hits + 1)
    assert pool.submit(kernel, X, X).result(60) == done._replace(outcome="cached", seconds=0.0)
    assert pypto.cache_stats().memory_hits == after.memory_hits + 1
    with pytest.raises(ValueError, match="stride"):
        kernel(full(1.0)[:, ::-1], full(0.0))


def test_what_no_cache_keeps_comes_to_the_caller(pool, monkeypatch):
    monkeypatch.setenv("PYPTO_CACHE", "off")
    kernel = scaled(2.0)
    done = pool.submit(kernel, X, X).result(60)
    assert (done.outcome, done.stored) == ("built", False)
    before = pypto.cache_stats()
    assert call(kernel) == 2.0
    assert pypto.cache_stats().builds == before.builds
    assert pypto.cache_stats().private_builds >= 1


def test_equal_requests_are_one_piece_of_work(pool):
    kernel, before = scaled(2.0), pypto.cache_stats()
    futures = [pool.submit(kernel, X, X) for _ in range(4)]
    assert {f.result(60).key for f in futures} == {futures[0].result().key}
    after = pypto.cache_stats()
    assert (after.requests - before.requests, after.builds - before.builds) == (4, 1)


def test_a_parameter_that_must_be_a_constant(pool):
    @pl.jit
    def k(x: pl.Tensor, width: pl.INDEX, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [64, width], [0, 0])
            y[0:64, 0:width] = pl.mul(t, 2.0)
        return y

    before = pypto.cache_stats().builds
    pool.submit(k, X, 32, X).result(60)
    y = full(7.0)
    k(full(1.0), 32, y)
    assert (y[:, :32] == 2).all()
    assert (y[:, 32:] == 7).all()
    assert pypto.cache_stats().builds == before + 1
    with pytest.raises(ValueError, match="'width'"):
        k.compile(X, 32, X)(full(1.0), 16, y)


def test_programs(pool, monkeypatch):
    monkeypatch.setattr(programs, "_programs", {})

    @pl.program
    class Doubling:
        @pl.function(type=pl.FunctionType.InCore)
        def double(self, x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
            t = pl.load(x, [0, 0], [16, 64])
            out = pl.store(pl.add(t, t), [0, 0], out)
            return out

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
            out = self.double(x, out)
            return out

    with passes.PassContext(memory_planner=MemoryPlanner.DSA_RP):
        assert pool.submit(Doubling).result(60).outcome == "built"
        before = pypto.cache_stats().builds
        made = pypto.ir.compile(Doubling)
    assert pypto.cache_stats().builds == before
    assert made.record.parts["memory_planner"] is MemoryPlanner.DSA_RP
    assert (made(full(1.0, (16, 64))) == 2).all()
    assert pool.submit(Doubling).result(60).outcome == "built"  # under other options


def test_instruments_watch_where_they_are(here):
    seen: list[tuple[int, str]] = []
    watch = passes.CallbackInstrument(after_pass=lambda p, _: seen.append((threading.get_ident(), p.get_name())))
    before = pypto.cache_stats()
    for kind in ("thread", "process"):
        with PrecompilePool(workers=1, kind=kind) as pool:
            with passes.PassContext([watch]):
                future = pool.submit(scaled(2.0), X, X)
            assert not future.result(60).stored
        assert len(seen) > 5
        assert os.getpid() != seen[0][0]
        seen.clear()
    after = pypto.cache_stats()
    assert (after.bypasses, after.private_builds) == (before.bypasses + 2, before.private_builds + 2)
    with ThreadPoolExecutor(1) as executor, PrecompilePool(executor=executor) as pool, passes.PassContext([watch]):
        with pytest.raises(ValueError, match="'k' cannot be compiled in another process: the instruments"):
            pool.submit(scaled(2.0), X, X).result(60)
    assert call(scaled(2.0)) == 2.0


def test_nothing_is_allocated_for_descriptions(here):
    N = pl.dynamic("N")

    @pl.jit
    def k(x: pl.Tensor[[N, 64], pl.FP32], y: pl.Out[pl.Tensor[[N, 64], pl.FP32]], s: pl.FP32):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[0:16, :] = pl.mul(x[0:16, :], s)
        return y

    class Described:
        shape, dtype = (1 << 50, 64), np.float32

    first = k.precompile(pl.Tensor[[1 << 50, 64], pl.FP32], Described(), pl.RUNTIME)
    assert first.outcome == "built"
    assert k.precompile(pl.Tensor[[N, 64], pl.FP32], Described(), 2.0) == first._replace(outcome="cached", seconds=0.0)
    assert k.precompile(s=pl.RUNTIME).key == first.key
    y = full(0.0, (32, 64))
    before = pypto.cache_stats().builds
    k(full(1.0, (32, 64)), y, 3.0)
    assert (y[:16] == 3).all()
    assert pypto.cache_stats().builds == before
    for call_of_it in (lambda: k(Described(), y, 3.0), lambda: k(pl.Tensor[[32, 64], pl.FP32], y, 3.0)):
        with pytest.raises(TypeError, match="'x'"):
            call_of_it()
    with pytest.raises(ValueError, match=r"'x' has no extent pl\.dynamic\('M'\) on axis 0"):
        k.request(pl.Tensor[[pl.dynamic("M"), 64], pl.FP32], Described(), 2.0)
    with pytest.raises(ValueError, match="'x' cannot have the extent -1"):
        k.request(pl.Tensor[[-1, 64], pl.FP32], Described(), 2.0)
    with pytest.raises(TypeError, match="does not describe 'x'"):
        k.request(pl.Tensor[[16, 64]], Described(), 2.0)
    with pytest.raises(TypeError, match="compile-time marker"):
        k.request(full(1.0, (32, 64)), Described(), pl.RUNTIME)
