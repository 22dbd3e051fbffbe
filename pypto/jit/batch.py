"""What is to be compiled, before anybody compiles it.

In: a kernel with sample arguments or descriptions of them, or a program; the options in force.  Out: work for a pool, or the
news that there is nothing to do.
Invariant: source, the values it reads, options and context are those of the moment in which the work is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pypto import config
from pypto.errors import ArgumentTypeError
from pypto.ir.program import Program
from pypto.jit import driver
from pypto.jit.dispatch import WATCHED, Asked, known, noted, resolve
from pypto.jit.function import JITFunction
from pypto.jit.programs import Compilation, entry_of
from pypto.jit.work import Precompiled, Work, tools_of
from pypto.named import NamedTuple
from pypto.passes.context import Captured, PassOptions
from pypto.runtime import stats
from pypto.runtime.store import Store, digest

if TYPE_CHECKING:
    from pypto.frontend.specialization import Argument
    from pypto.jit.compiled import CompiledProgram
    from pypto.jit.request import Specialized
    from pypto.runtime.entry import Entry
    from pypto.runtime.record import Record
    from pypto.runtime.toolchain import Toolchain

__all__ = ["PrecompileRequest", "as_request", "work_of"]


class PrecompileRequest(NamedTuple):
    """A kernel for some arguments, or a program, under the options of the place where the request was made.

    `kernel.request(...)` makes one; `pypto.precompile` and pools take them.
    """

    kernel: JITFunction | Program
    arguments: dict[str, Argument] | None
    options: PassOptions
    context: Captured | None

    @property
    def name(self) -> str:
        return self.kernel.name if isinstance(self.kernel, Program) else self.kernel.__name__


def is_entry(value: object) -> bool:
    """Whether it is one entry of a list by itself; a tuple of a kernel and samples is another."""
    return isinstance(value, (JITFunction, PrecompileRequest, Program))


def as_request(kernel: object, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> PrecompileRequest:
    """The request that an entry of a list is: a request, a kernel, a program, or a tuple of a kernel and samples."""
    if isinstance(kernel, tuple) and not isinstance(kernel, PrecompileRequest) and kernel and not args and not kwargs:
        kernel, *args = kernel
    if isinstance(kernel, JITFunction):
        return kernel.request(*args, **(kwargs or {}))
    if not args and not kwargs:
        if isinstance(kernel, PrecompileRequest):
            return kernel
        if isinstance(kernel, Program):
            from pypto.passes.context import capture, effective

            return PrecompileRequest(kernel, None, effective(), capture())
    what = f"a {type(kernel).__name__} with sample arguments" if args or kwargs else f"a {type(kernel).__name__}"
    hint = "pass a @pl.jit kernel, (kernel, sample, ...), kernel.request(...), or a program"
    raise ArgumentTypeError(f"precompilation takes kernels and programs, got {what}", hint=hint)


def work_of(request: PrecompileRequest) -> Work | Precompiled:
    """What is to be done, or that nothing is.  Raises what the frontend raises."""
    if isinstance(request.kernel, Program):
        return _of_program(request, request.kernel)
    return _of_kernel(request, request.kernel)


def _of_kernel(request: PrecompileRequest, kernel: JITFunction) -> Work | Precompiled:
    stats.count("requests")
    watched = _watched(request)

    def answer(asked: Asked) -> Work | Precompiled:
        found = None if watched else known(kernel, asked)
        if found is not None:
            return _cached(request, asked.record, found)
        with nullcontext() if watched else noted(asked):
            specialized = driver.specialize(asked.request)
        return _work(request, asked.record, specialized, asked.store, asked.code, asked.toolchain)

    assert request.arguments is not None
    return resolve(kernel, kernel.dependencies(), request.arguments, request.options, answer)


def _of_program(request: PrecompileRequest, program: Program) -> Work | Precompiled:
    one = Compilation(program, entry_of(program), request.options)
    found = None if _watched(request) else one.known()
    if found is not None:
        return _cached(request, one.record, found)
    return _work(request, one.record, driver.specialize(one.request), one.store, one.code, one.toolchain)


def _watched(request: PrecompileRequest) -> bool:
    """Whether instruments watch; such a compilation really happens."""
    watched = request.context is not None and bool(request.context.instruments)
    if watched:
        stats.bypass(WATCHED)
    return watched


def _cached(request: PrecompileRequest, record: Record, found: CompiledProgram | Entry) -> Precompiled:
    from pypto.runtime.entry import Entry

    stored = not found.private if isinstance(found, Entry) else found.is_stored
    return Precompiled(request.name, digest(record.encoded), "cached", 0.0, stored)


def _work(
    request: PrecompileRequest, record: Record, specialized: Specialized, store: Store, code: str, toolchain: Toolchain
) -> Work:
    settings = config.settings()
    if store.root:
        settings[config.CACHE_DIR.name] = store.root
    return Work(request.name, record.encoded, specialized, request.context, settings, code, tools_of(toolchain))
