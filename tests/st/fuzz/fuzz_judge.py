"""Runs a program in every way there is, against its twin, in a process of its own.

In: a `Program`.  Out: a verdict: all ways agree with the twin to the bit; or the compiler refused it with an error for
users; or it failed, and how.  A crash of native code, an access behind an array, an endless loop are failures too.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import mmap
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import fuzz_twin
import fuzz_twin_indexing
import fuzz_twin_products
import numpy as np
from fuzz_program import Program
from lab import STAGES, Way, assert_same_bits

from pypto.config import CFLAGS, NATIVE_OPT, TARGET_CPU
from pypto.debug import Placement
from pypto.debug import run as interpret
from pypto.enums import MemoryPlanner
from pypto.errors import ArgumentValueError, Error, KernelBoundsError, KernelError, PyptoWarning
from pypto.jit import JITFunction, driver
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.pipeline import Lowered, lower

Array = Any
AGREED, REFUSED, FAILED = "agreed", "refused", "failed"
_MEANING = {
    MemoryPlanner.PYPTO: Placement.ADDRESSED,
    MemoryPlanner.DSA_RP: Placement.ADDRESSED,
    MemoryPlanner.PTOAS: Placement.PRIVATE,
}
_SECONDS = 300
# What the texts of twins call R.
MEANING = SimpleNamespace(**{k: v for m in (fuzz_twin_products, fuzz_twin_indexing, fuzz_twin) for k, v in vars(m).items()})
_numbers = itertools.count()


class Verdict(NamedTuple):
    kind: str
    text: str = ""


class Build(NamedTuple):
    """A way to native code, more flags of the C compiler, and the level of processors that code is made for."""

    way: Way
    flags: str = ""
    cpu: str = "native"

    def __str__(self) -> str:
        return f"{self.way}" + ("" if self.cpu == "native" else f", {self.cpu}")


# Each choice against the default; what is compared with the first build needs no optimizer.
BRIEF = (
    Build(Way()),
    Build(Way(optimize=False), "-O0"),
    Build(Way(MemoryPlanner.DSA_RP), "-O0"),
    Build(Way(MemoryPlanner.PTOAS, False), "-O0"),
)


def over_widths(levels: Sequence[str]) -> tuple[Build, ...]:
    """With optimizations and without, for this processor and for each of the levels."""
    return tuple(Build(Way(optimize=o), cpu=cpu) for cpu in ("native", *levels) for o in (True, False))


# -- one process for each program ----------------------------------------------------------------------------------------


def apart(f: Callable[[], Verdict]) -> Verdict:
    """What `f` returns in a child process; a child that does not return has failed."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of numpy's idle threads
        child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(_SECONDS)
        with os.fdopen(write, "wb") as out:
            out.write(pickle.dumps(_caught(f)))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    if data:
        verdict: Verdict = pickle.loads(data)
        return verdict
    number = status & 127
    return Verdict(FAILED, f"ended by signal {number} ({signal.Signals(number).name})" if number else f"exit status {status}")


def _caught(f: Callable[[], Verdict]) -> Verdict:
    try:
        return f()
    except BaseException as e:
        return Verdict(FAILED, "".join(traceback.format_exception(type(e), e, e.__traceback__)))


# -- arrays --------------------------------------------------------------------------------------------------------------


def guarded(a: Array) -> Array:
    """A copy whose last byte is the last one before memory that nobody may touch."""
    size = -(-max(a.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    m = mmap.mmap(-1, size + mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(m))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(base + size), mmap.PAGESIZE, 0):
        raise OSError("mprotect")
    raw = np.frombuffer(m, np.uint8, a.nbytes, size - a.nbytes)
    r = raw.view(a.dtype).reshape(a.shape)
    r[...] = a
    return r


def _copies(args: Sequence[Any], copy: Callable[[Array], Array] = np.copy) -> list[Any]:
    return [copy(a) if isinstance(a, np.ndarray) else a for a in args]


def _arrays(args: Sequence[Any]) -> list[Array]:
    return [a for a in args if isinstance(a, np.ndarray)]


# -- the judge -----------------------------------------------------------------------------------------------------------


def module(text: str, directory: Path) -> Any:
    """A module in a file of its own, where source capture finds it."""
    name = f"fuzzed_{os.getpid()}_{next(_numbers)}"
    path = directory / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def judge(p: Program, directory: Path, builds: Sequence[Build] = BRIEF, level: int = 1) -> Verdict:
    """`level`: how much is verified between passes (2: also that programs print and parse, and are written and read)."""
    warnings.simplefilter("ignore", PyptoWarning)
    try:
        _Trial(p, directory, level).run(builds)
    except (KernelError, KernelBoundsError):
        raise
    except Error as e:
        return Verdict(REFUSED, str(e))
    return Verdict(AGREED)


class _Trial:
    def __init__(self, p: Program, directory: Path, level: int) -> None:
        self.p, self.level = p, level
        self.kernel: JITFunction = module(p.kernel, directory).entry
        self.wanted = [self._twin(args) for args in p.calls]
        self.lowered: dict[PassOptions, Lowered] = {}

    def _twin(self, args: Sequence[Any]) -> list[Array]:
        space: dict[str, Any] = {"R": MEANING}
        exec(compile(self.p.twin, "twin", "exec"), space)
        given = _copies(args)
        space["entry"](*(np.float32(a) if isinstance(a, float) else a for a in given))
        return _arrays(given)

    def run(self, builds: Sequence[Build]) -> None:
        program = self.kernel.specialize(*self.p.calls[0])
        entry = program.get_function("entry")
        assert entry is not None
        known = {v.name_hint for v in entry.params}
        kept = [i for i, name in enumerate(self.kernel.source.parameters) if name in known]
        if not self.p.chains:
            self._interpreted("as parsed", program, kept, Placement.VALUES)
        for stage, x, placement in self._stages(program, builds):
            self._interpreted(stage, x, kept, placement)
        with mock.patch.object(driver, "lower", self._lower):
            for build in builds:
                self._native(build)

    def _interpreted(self, stage: str, program: Any, kept: list[int], placement: Placement) -> None:
        for k, (args, want) in enumerate(zip(self.p.calls, self.wanted, strict=True)):
            given = _copies(args)
            interpret(program, "entry", [given[i] for i in kept], placement)
            assert_same_bits(_arrays(given), want, f"interpreted {stage}, call {k}")

    def _lower(self, program: Any, options: PassOptions, **_: Any) -> Lowered:
        if options not in self.lowered:
            self.lowered[options] = lower(program, options, level=self.level)
        return self.lowered[options]

    def _stages(self, program: Any, builds: Sequence[Build]) -> Iterator[tuple[str, Any, Placement]]:
        """After the passes that change a program's form, and as each planner leaves it for the host."""
        kept: list[tuple[str, Any]] = []

        def watch(_: int, done: Any, after: Any) -> None:
            if done.name in STAGES:
                kept.append((f"after {done.name}", after))

        first = PassOptions(memory_planner=builds[0].way.planner, enable_buffer_ir=builds[0].way.buffers)
        self.lowered[first] = lower(program, first, watch=watch, level=self.level)
        for stage, x in kept if not self.p.chains else ():
            yield stage, x, Placement.VALUES
        for planner, buffers in dict.fromkeys((b.way.planner, b.way.buffers) for b in builds):
            host = self._lower(program, PassOptions(memory_planner=planner, enable_buffer_ir=buffers)).host
            yield f"for the host, {Way(planner, buffers)}", host, _MEANING[planner]

    def _native(self, build: Build) -> None:
        way = build.way
        flags = f"{os.environ.get(CFLAGS.name, '')} {build.flags}".strip()
        with (
            _environment(**{NATIVE_OPT.name: str(int(way.optimize)), CFLAGS.name: flags, TARGET_CPU.name: build.cpu}),
            PassContext(memory_planner=way.planner, enable_buffer_ir=way.buffers),
        ):
            compiled = self.kernel.compile(*self.p.calls[0])
        for k, (args, want) in enumerate(zip(self.p.calls, self.wanted, strict=True)):
            given = _copies(args, guarded)
            compiled(*given)
            assert_same_bits(_arrays(given), want, f"native, {build}, call {k}")
        for i, o in self.p.aliases:
            self._aliased(compiled, i, o, f"native, {build}, one array for parameters {i} and {o}")

    def _aliased(self, compiled: Any, i: int, o: int, what: str) -> None:
        """One array for an input and an output: as two that held the same, or refused before anything is written."""
        args = list(self.p.calls[0])
        args[o] = args[i].copy()
        want = self._twin(args)
        given = _copies(args, guarded)
        given[i] = given[o]
        try:
            compiled(*given)
        except ArgumentValueError:
            assert_same_bits(_arrays(given), _arrays(args), f"{what}: refused, but written")
            return
        arrays = [a for n, a in enumerate(args) if isinstance(a, np.ndarray) and n != i]
        kept = [n for n, a in enumerate(args) if isinstance(a, np.ndarray)]
        assert len(arrays) == len(kept) - 1
        got = [given[n] for n in kept if n != i]
        assert_same_bits(got, [w for n, w in zip(kept, want, strict=True) if n != i], what)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, values):
        yield
