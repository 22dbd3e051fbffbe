"""From a call to a kernel: the launcher of this process, the request of a call, the artifact that answers it.

Order: the dispatcher's own table (in C); this process's kernels by record; the store; a build.  A request that wants to
watch the compiler (a context with instruments) goes around all of them.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pypto._lazy import load
from pypto.config import NATIVE_OPT
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.frontend.specialization import Argument, ScalarArg, StaticArg, StaticParameterNeeded
from pypto.jit.dependencies import Dependencies, blame
from pypto.jit.identity import code_identity, has_changed, make_record
from pypto.jit.request import Request
from pypto.named import NamedTuple
from pypto.passes.context import CURRENT, TOKEN, PassOptions
from pypto.runtime import stats
from pypto.runtime.entry import Entry
from pypto.runtime.launch import Launcher, Sources, begin, launcher
from pypto.runtime.record import Record
from pypto.runtime.store import Store, default_store
from pypto.runtime.toolchain import Toolchain, find

if TYPE_CHECKING:
    from pypto.jit.compiled import CompiledProgram
    from pypto.jit.function import JITFunction

__all__ = [
    "NEEDS",
    "WATCHED",
    "Asked",
    "build_shared",
    "entry_of",
    "known",
    "noted",
    "obtain",
    "parameter_needed",
    "resolve",
    "the_launcher",
    "with_static",
]

T = TypeVar("T")
WATCHED = "a PassContext with instruments watches the compilation"
NEEDS = ("plan.msgpack", "kernel.so")  # of an artifact, for a warm call
_STATIC = "static"
_launcher: list[Launcher] = []
_lock = _thread.allocate_lock()


def the_launcher(kernels: type | None = None, at: Here | None = None) -> Launcher:
    """The launcher, loaded (and on a new machine built) once per process; instances of `kernels` call through it.

    `at`: where kernels are compiled, where that has been found already.
    """
    if not _launcher:
        with _lock:
            if not _launcher:
                found = launcher(TOKEN) if at is None else launcher(TOKEN, at.toolchain, _sources(at.code))
                if kernels is not None:
                    found.install(kernels, "_dispatcher", "_entry_point")
                _launcher.append(found)
    return _launcher[0]


def _forget_lock() -> None:
    global _lock
    _lock = _thread.allocate_lock()


os.register_at_fork(after_in_child=_forget_lock)


def entry_of(compiled: CompiledProgram) -> Any:
    """A launcher entry for a kernel, without guards: for calls that have chosen the kernel already."""
    if compiled.entry is None:
        compiled.entry = the_launcher().Entry(compiled.plan, compiled.address, compiled)
    return compiled.entry


class Here(NamedTuple):
    """Where, by what, and by which code of the package kernels are compiled at this moment."""

    store: Store
    toolchain: Toolchain
    code: str


def here() -> Here:
    """By the options of this moment; raises as `default_store` and `find` do."""
    store = default_store()
    # Where the compiler is unknown, there is no kernel either.
    return Here(store, find(store, begin), code_identity(store))


def _sources(code: str) -> Sources | None:
    """The package's identity for the launcher's, if others may have it too."""
    return None if has_changed(code, look=False) else Sources(code, lambda: not has_changed(code))


class Asked(NamedTuple):
    """A request with its identity, and what would answer it."""

    store: Store
    toolchain: Toolchain
    code: str
    record: Record
    request: Request


def obtain(
    kernel: JITFunction,
    dependencies: Dependencies,
    arguments: dict[str, Argument],
    options: PassOptions,
    at: Here,
    check: Callable[[], object],
) -> tuple[CompiledProgram, bool]:
    """The kernel for these arguments, and whether later calls may use it without asking.

    `check` raises what is wrong with the call; it is left to the launcher where that will be asked anyway, and only once.
    """
    stats.count("requests")
    context = CURRENT.get()
    if context is not None and context.is_diagnostic:
        stats.bypass(WATCHED)
        check()
        return resolve(kernel, dependencies, arguments, options, _private, at), False
    return resolve(kernel, dependencies, arguments, options, lambda asked: _shared(kernel, asked, check), at), True


def resolve(
    kernel: JITFunction,
    dependencies: Dependencies,
    arguments: dict[str, Argument],
    options: PassOptions,
    answer: Callable[[Asked], T],
    at: Here | None = None,
) -> T:
    """`answer` of the request, with parameters that the language needs as constants made constants."""
    store, toolchain, code = here() if at is None else at
    optimize = NATIVE_OPT.get() == "1"
    while True:
        request = Request(kernel.source, dependencies.sources, kernel.options, arguments, options, optimize, dependencies.pins)
        record = _record(request, dependencies, code, toolchain)
        static = kernel.static.get(record.encoded)
        if static is None:
            try:
                return answer(Asked(store, toolchain, code, record, request))
            except StaticParameterNeeded as need:
                static = need.name
                kernel.static[record.encoded] = static
        arguments = with_static(arguments, static)


def _record(request: Request, dependencies: Dependencies, code: str, toolchain: Toolchain) -> Record:
    try:
        return make_record(dependencies.parts, request.arguments, request.options, request.optimize, code, toolchain)
    except (ArgumentTypeError, ArgumentValueError):
        # A value that no artifact can be identified by: the parser says where it is read, and why it cannot be.
        from pypto.jit.driver import parse_request

        with suppress(RecursionError):  # of a container in itself
            parse_request(request)
        blame(dependencies)
        raise


def with_static(arguments: dict[str, Argument], name: str) -> dict[str, Argument]:
    """The parameter's value becomes a constant of the specialization."""
    a = arguments[name]
    assert isinstance(a, ScalarArg)
    if a.value is None:
        raise ArgumentTypeError(f"parameter '{name}' is needed as a constant and cannot be pl.RUNTIME", hint="pass its value")
    return {**arguments, name: StaticArg(a.value)}


def _compiled(entry: Entry, record: Record, request: Request) -> CompiledProgram:
    from pypto.jit.compiled import CompiledProgram

    return CompiledProgram(entry, record, request)


def _private(asked: Asked) -> CompiledProgram:
    from pypto.jit import driver

    entry = asked.store.build_private(
        asked.record.encoded, lambda d: driver.build(asked.request, asked.toolchain, asked.store, d), NEEDS
    )
    return _compiled(entry, asked.record, asked.request)


def _shared(kernel: JITFunction, asked: Asked, check: Callable[[], object]) -> CompiledProgram:
    found = known(kernel, asked)
    # A call that does not fit must neither wait for a kernel, nor teach the dispatcher one that it has.
    if not isinstance(found, Entry):
        check()
    if found is None:
        found = _build(asked)
    if isinstance(found, Entry):
        return kernel.kernels.setdefault(asked.record.encoded, _compiled(found, asked.record, asked.request))
    return found


def known(kernel: JITFunction, asked: Asked) -> CompiledProgram | Entry | None:
    """What this process, or the store, has for a request; StaticParameterNeeded if that is all that is known of it."""
    compiled = kernel.kernels.get(asked.record.encoded)
    if compiled is not None:
        stats.count("memory_hits")
        return compiled
    needed = parameter_needed(asked.store, asked.record, asked.request.arguments)
    if needed:
        raise StaticParameterNeeded(needed, asked.request.entry)
    return asked.store.lookup(asked.record.encoded, NEEDS)


def _build(asked: Asked) -> Entry:
    """Built by one of all who want it; a request that needs a constant leaves a note that says which."""

    begin(asked.toolchain, _sources(asked.code))

    def build(directory: str) -> None:
        load("pypto.jit.driver")
        from pypto.jit import driver

        driver.build(asked.request, asked.toolchain, asked.store, directory)

    with noted(asked):
        return build_shared(asked.store, asked.record, build, f"kernel '{asked.request.entry}'")


@contextmanager
def noted(asked: Asked) -> Iterator[None]:
    """Of a request that turns out to need a constant, the store remembers that."""
    try:
        yield
    except StaticParameterNeeded as need:
        name = need.name

        def note(directory: str) -> None:
            with open(os.path.join(directory, _STATIC), "w") as f:
                f.write(name)

        label = f"kernel '{asked.request.entry}'"
        asked.store.build_once(_note(asked.record), note, (_STATIC,), label=label, counted=False)
        raise


class _CodeChanged(Exception):
    """The package's files were replaced while this process compiled."""


def build_shared(store: Store, record: Record, build: Callable[[str], None], label: str) -> Entry:
    """Built by one of all who want it, and published unless this process cannot say any more which code it runs."""
    code = str(record.parts["pypto"])

    def checked(directory: str) -> None:
        build(directory)
        if has_changed(code):
            raise _CodeChanged

    if not has_changed(code, look=False):
        with suppress(_CodeChanged):
            return store.build_once(record.encoded, checked, NEEDS, label=label)
    unpublished = Store(store.root or None, "readonly") if store.mode == "on" else store
    return unpublished.build_once(record.encoded, build, NEEDS, label=label)


def parameter_needed(store: Store, record: Record, arguments: dict[str, Argument]) -> str:
    """The parameter that a request is known to need as a constant, or an empty text."""
    if not any(isinstance(a, ScalarArg) for a in arguments.values()):
        return ""
    entry = store.lookup(_note(record), (_STATIC,), counted=False)
    return "" if entry is None else entry.read(_STATIC).decode()


def _note(record: Record) -> bytes:
    return Record({"kind": _STATIC, "request": record.encoded}).encoded
