"""Rows that are measured in this process: kernels beside peers and C, and what a call costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from benchmarks.case import Case, aligned, check
from benchmarks.cases import CASES
from benchmarks.inspection import facts
from benchmarks.kernels.elementwise import small, small_guarded
from benchmarks.measure import Contender, batch, measured
from benchmarks.result import Result
from benchmarks.setting import Setting

__all__ = ["SECTIONS", "rows"]

SECTIONS = (*dict.fromkeys(c.section for c in CASES), "calls")


def rows(section: str, s: Setting) -> Iterator[Result]:
    """The section's rows, each measured as it is asked for.  AssertionError if a result is wrong."""
    if section == "calls":
        yield from _calls(s)
    for case in CASES:
        if case.section == section:
            yield _kernel(case, s)


def _kernel(case: Case, s: Setting) -> Result:
    data = case.make(np.random.default_rng(0), s.tiny)
    want = case.reference(*data.inputs, *data.numbers)
    arguments = (*data.inputs, data.out, *data.numbers)
    errors = {"pypto": check(case, "pypto", case.kernel(*arguments), want)}
    contenders = [Contender("pypto", batch(partial(case.kernel, *arguments)))]
    hand = []
    for stream in (False, True):
        name = "C past the caches" if stream else "C"
        out = aligned(np.zeros_like(data.out))
        call = s.yardsticks.run(case.function, [*data.inputs, out], data.extents, stream)
        call()
        errors[name] = check(case, name, out, want)
        contenders.append(Contender(name, batch(call)))
        hand.append(name)
    peers = []
    for name, module in s.peers.items():
        call = module.prepare(case.function, data)
        if call is not None:
            errors[name] = check(case, name, module.as_numpy(call()), want)
            contenders.append(Contender(name, batch(call)))
            peers.append(name)
    del want
    rounds = measured(contenders, s.seconds, s.watch)
    found = facts(case.kernel, *arguments)
    known = {"stage": found.stage, "stages": found.stages, "sharing": found.sharing, "shared": found.shared, "errors": errors}
    known["cpus"] = {c.name: _cpus(c) for c in contenders}
    limit = s.limits.least(data.moved, data.operations, case.kind)
    return Result(case.section, case.name, rounds, "pypto", tuple(hand), tuple(peers), limit, known)


def _cpus(contender: Contender) -> float:
    """Processors that a contender keeps busy."""
    begin, cpu = time.perf_counter(), time.process_time()
    contender.batch(1)
    return round((time.process_time() - cpu) / (time.perf_counter() - begin), 2)


# -- calls -----------------------------------------------------------------------------------------------------------


def _counted(f: Callable[..., Any], *args: Any) -> Callable[[int], float]:
    """Calls with nothing around them but the loop."""
    if len(args) == 3:
        a, b, c = args

        def three(times: int) -> float:
            begin = time.perf_counter()
            for _ in repeat(None, times):
                f(a, b, c)
            return time.perf_counter() - begin

        return three
    return batch(partial(f, *args))


def _by_keyword(f: Callable[..., Any], x: Any, y: Any, o: Any) -> Callable[[int], float]:
    def named(times: int) -> float:
        begin = time.perf_counter()
        for _ in repeat(None, times):
            f(a=x, b=y, out=o)
        return time.perf_counter() - begin

    return named


def _calls(s: Setting) -> Iterator[Result]:
    """a + b of three 16 x 32 arrays: one call, arrays at hand, out given where the tool takes one."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((16, 32), dtype=np.float32) for _ in range(2))
    out = np.empty_like(a)
    contenders = [Contender("numpy", batch(partial(np.add, a, b, out=out)))] if "numpy" in s.peers else []
    extension = s.yardsticks.extension()
    hand: tuple[str, ...] = ()
    if extension is not None:
        assert (extension.add(a, b, out) == a + b).all()
        contenders.append(Contender("C", _counted(extension.add, a, b, out)))
        hand = ("C",)
    contenders += _called_peers(s, a, b)
    peers = tuple(c.name for c in contenders if c.name != "C")
    ours = {
        "three arrays": _counted(small, a, b, out),
        "a global is looked at": _counted(small_guarded, a, b, out),
        "by keyword": _by_keyword(small, a, b, out),
    }
    if "torch" in s.peers:
        import torch

        given = [torch.from_numpy(x) for x in (a, b, out)]
        ours["torch tensors"] = _counted(small, *given)
    for name, run in ours.items():
        out[...] = 0
        run(1)
        assert (out == a + b).all(), name
        rounds = measured([Contender("pypto", run), *contenders], s.seconds, s.watch)
        known = facts(small, a, b, out)
        yield Result("calls", name, rounds, "pypto", hand, peers, None, {"stage": known.stage, "sharing": known.sharing})


def _called_peers(s: Setting, a: np.ndarray, b: np.ndarray) -> list[Contender]:
    made, out = [], np.empty_like(a)
    if "numba" in s.peers:
        import numba

        @numba.njit
        def add(a, b, out):
            for i in range(16):
                for j in range(32):
                    out[i, j] = a[i, j] + b[i, j]
            return out

        made.append(Contender("numba", _counted(add, a, b, out)))
    if "jax" in s.peers:
        import jax

        jitted, x, y = jax.jit(lambda x, y: x + y), jax.device_put(a), jax.device_put(b)
        made.append(Contender("jax", batch(lambda: jitted(x, y).block_until_ready())))
    if "torch" in s.peers:
        import torch

        made.append(
            Contender("torch", batch(partial(torch.add, torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))))
        )
    return made
