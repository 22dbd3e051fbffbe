"""One compilation as work that another thread, process or machine can do, and what it answers.

In: a request that the frontend is done with, everything around it that decides its artifact, and the options of whoever
asks.  Out: the artifact in the store, and a `Reply` of plain data.
Invariant: a worker compiles what it is given under the key it is given, or says why it cannot; it takes nothing from its
own surroundings but the compiler, whose identity must be the one in the key.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from pypto import config
from pypto.errors import ArgumentValueError, Caution, ConfigError, Error, InternalError, SerializationError, cautions_held
from pypto.ir.program import Program
from pypto.ir.serialization import deserialize, serialize
from pypto.jit import driver
from pypto.jit.dispatch import NEEDS, build_shared
from pypto.jit.identity import code_identity
from pypto.jit.request import Specialized
from pypto.named import NamedTuple
from pypto.passes.context import Captured
from pypto.runtime import stats
from pypto.runtime.entry import Entry
from pypto.runtime.record import Record
from pypto.runtime.store import Store, default_store, digest
from pypto.runtime.toolchain import Toolchain, find

__all__ = ["Precompiled", "Reply", "Work", "carried_out", "done_elsewhere", "received", "tools_of"]


class Precompiled(NamedTuple):
    """What became of one request.  `outcome`: "built", or "cached" if an artifact was there.

    `key` names the artifact (`pypto cache list`), `seconds` is what the work took; `stored`: whether other processes
    find the artifact, which they do not without a usable cache.
    """

    kernel: str
    key: str
    outcome: str
    seconds: float
    stored: bool


class Work(NamedTuple):
    """A request, as far as the frontend can take it.

    `settings`: the texts of the options; `code` and `tools`: what must be the same where it is compiled.
    """

    kernel: str
    record: bytes
    specialized: Specialized
    context: Captured | None
    settings: Mapping[str, str]
    code: str
    tools: Mapping[str, object]

    @property
    def is_diagnostic(self) -> bool:
        """Whether the compilation itself is what is asked for, and not its artifact."""
        return self.context is not None and bool(self.context.instruments)

    def packed(self) -> bytes:
        """Bytes for `done_elsewhere`; ArgumentValueError for what only this process has."""
        if self.is_diagnostic:
            raise ArgumentValueError(
                f"kernel '{self.kernel}' cannot be compiled in another process: the instruments of its PassContext are here",
                hint='precompile it with kind="thread", or outside of the context',
            )
        try:
            program = serialize(self.specialized.program, positions=True)
            travelling: Any = self.specialized._replace(program=program)  # type: ignore[arg-type]
            return pickle.dumps(self._replace(specialized=travelling))
        except (SerializationError, pickle.PicklingError, TypeError, AttributeError) as e:
            raise ArgumentValueError(
                f"kernel '{self.kernel}' cannot be compiled in another process: {e}", hint='precompile it with kind="thread"'
            ) from e


class Reply(NamedTuple):
    """How a worker got on: the artifact's files where the asking process may not find them, or what went wrong.

    `process`: host and process id of the worker; `counters`: what it counted.
    """

    process: tuple[str, int]
    built: bool
    seconds: float
    private: bool
    files: Mapping[str, bytes]
    counters: Mapping[str, int]
    warnings: tuple[Caution, ...] = ()
    error: BaseException | None = None


# -- where the work is done ------------------------------------------------------------------------------------------


def carried_out(work: Work) -> Precompiled:
    """Compile here, in this thread; raises what compiling raises."""
    return _compiled(work)[0]


def _compiled(work: Work) -> tuple[Precompiled, Entry]:
    begin = time.perf_counter()
    with ExitStack() as stack:
        stack.enter_context(config.under(work.settings))
        if work.context is not None:
            stack.enter_context(work.context.context())
        counted = stack.enter_context(stats.recording())
        store = default_store()
        toolchain = _same(work, store)

        def build(directory: str) -> None:
            driver.build_specialized(work.specialized, toolchain, store, directory)

        if work.is_diagnostic:
            entry = store.build_private(work.record, build, NEEDS)
        else:
            entry = build_shared(store, Record.decode(work.record), build, f"kernel '{work.kernel}'")
        outcome = "built" if counted.get("builds", 0) else "cached"
    seconds = time.perf_counter() - begin
    return Precompiled(work.kernel, digest(work.record), outcome, seconds, not entry.private), entry


def done_elsewhere(packed: bytes, with_files: bool = True) -> Reply:
    """What a worker does with packed work.  Errors are part of the reply, so that counters and warnings come with them.

    `with_files`: send the artifact along; private ones always are.
    """
    error: BaseException | None = None
    done: Precompiled | None = None
    files: dict[str, bytes] = {}
    with cautions_held() as warnings, stats.recording() as counted:
        try:
            done, entry = _compiled(_unpacked(packed))
            if with_files or not done.stored:
                files = {name: entry.read(name) for name in entry.files}
        except Exception as e:
            error = _portable(e)
    process = os.uname().nodename, os.getpid()
    if done is None:
        return Reply(process, False, 0.0, False, {}, counted, tuple(warnings), error)
    return Reply(process, done.outcome == "built", done.seconds, not done.stored, files, counted, tuple(warnings))


def tools_of(toolchain: Toolchain) -> dict[str, object]:
    """What of the tools is in the key."""
    return {**toolchain.identity, "ptoas": None if toolchain.ptoas is None else dict(toolchain.ptoas.identity)}


def _unpacked(packed: bytes) -> Work:
    work: Work = pickle.loads(packed)
    sent: Any = work.specialized.program
    program = deserialize(sent)
    assert isinstance(program, Program)
    return work._replace(specialized=work.specialized._replace(program=program))


def _same(work: Work, store: Store) -> Toolchain:
    """The compiler of this process; ConfigError if the artifact would not be the one that its key promises."""
    toolchain = find(store)
    own, theirs = tools_of(toolchain), work.tools
    where = f"process {os.getpid()} on {os.uname().nodename}, which was to compile kernel '{work.kernel}',"
    if code_identity(store) != work.code:
        raise ConfigError(
            f"{where} has another version of pypto",
            hint="install the same one, and start workers anew after an edit",
            code="O130",
        )
    if own != theirs:
        parts = ", ".join(sorted(k for k in own.keys() | theirs.keys() if own.get(k) != theirs.get(k)))
        raise ConfigError(
            f"{where} has another C compiler, processor or assembler ({parts})",
            hint="precompile on machines like the one that runs the kernels",
            code="O131",
        )
    return toolchain


def _portable(e: Exception) -> Exception:
    """The exception, if it survives pickling, else an InternalError with its text."""
    try:
        copy = pickle.loads(pickle.dumps(e))
        if type(copy) is type(e) and str(copy) == str(e):
            return e
    except Exception:
        pass
    return InternalError(f"{type(e).__name__}: {e}")


# -- where it was asked for ------------------------------------------------------------------------------------------


def received(work: Work, reply: Reply) -> Precompiled:
    """What came of work that was done elsewhere; raises what the worker raised.  The artifact is in this process's store."""
    if reply.process != (os.uname().nodename, os.getpid()):
        stats.add(reply.counters)
    for w in reply.warnings:
        w.issue()
    if reply.error is not None:
        raise _located(reply.error)
    stored = not reply.private
    if reply.files:
        with config.under(work.settings):
            store = default_store()
            entry = store.lookup(work.record, NEEDS, counted=False)
            if entry is None:
                entry = store.build_once(work.record, lambda d: _write(d, reply.files), NEEDS, counted=False)
        stored = not entry.private
    return Precompiled(work.kernel, digest(work.record), "built" if reply.built else "cached", reply.seconds, stored)


def _write(directory: str, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        with open(os.path.join(directory, name), "wb") as f:
            f.write(data)


def _located(e: BaseException) -> BaseException:
    """With the user's line, which a worker has not where the text is in a notebook, or on another machine."""
    if isinstance(e, Error) and e.location is not None and e.location.is_valid():
        lines: Any = e.location.lines()
        e.source_lines = lines or e.source_lines
    return e
