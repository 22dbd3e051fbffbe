"""Requests that are not calls: lowering with constants found on the way, and explanations of hits and misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pypto.config import NATIVE_OPT
from pypto.frontend.specialization import Argument, StaticParameterNeeded
from pypto.jit.dependencies import Dependencies
from pypto.jit.dispatch import parameter_needed, with_static
from pypto.jit.identity import code_identity, make_record
from pypto.jit.request import Request
from pypto.passes.context import PassOptions
from pypto.runtime.store import default_store
from pypto.runtime.toolchain import find

if TYPE_CHECKING:
    from pypto.jit.function import JITFunction

__all__ = ["explain", "with_statics"]

T = TypeVar("T")


def with_statics(request: Request, step: Callable[[Request], T]) -> T:
    """`step(request)`, with parameters that the language needs as constants made constants."""
    while True:
        try:
            return step(request)
        except StaticParameterNeeded as need:
            request = request._replace(arguments=with_static(request.arguments, need.name))


def explain(kernel: JITFunction, arguments: dict[str, Argument], options: PassOptions, dependencies: Dependencies) -> str:
    """One line for a hit; for a miss, the parts in which the nearest stored artifact of this kernel differs."""
    store = default_store()
    optimize, code, toolchain = NATIVE_OPT.get() == "1", code_identity(store), find(store)
    while True:
        record = make_record(dependencies.parts, arguments, options, optimize, code, toolchain)
        needed = kernel.static.get(record.encoded) or parameter_needed(store, record, arguments)
        if not needed:
            break
        arguments = with_static(arguments, needed)
    if record.encoded in kernel.kernels:
        return f"'{kernel.source.name}': loaded in this process"
    if store.lookup(record.encoded, counted=False) is not None:
        return f"'{kernel.source.name}': stored in {store.root}"
    nearest = store.nearest(record.encoded)
    if nearest is None:
        return f"'{kernel.source.name}': not stored; the cache has no artifact to compare with"
    lines = [f"'{kernel.source.name}': not stored; the nearest artifact differs in"]
    lines += [f"  {d.name}: {d.old} -> {d.new}" for d in nearest[1]]
    return "\n".join(lines)
