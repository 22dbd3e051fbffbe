"""The identity of an artifact: every part named, nothing guessed.

In: a request, the toolchain.  Out: a `Record`.  The package's own code counts by content; which content the files have
is remembered in the store under their sizes and times, so that a warm process reads none of them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pypto.frontend.specialization import Argument, ScalarArg, StaticArg, TensorArg
from pypto.jit import package
from pypto.passes.context import BUFFER_SEMANTICS, PassOptions
from pypto.runtime.directories import say_once
from pypto.runtime.record import Record
from pypto.runtime.toolchain import Toolchain

if TYPE_CHECKING:
    from pypto.runtime.store import Store

__all__ = ["code_identity", "has_changed", "make_record", "parameter_part"]

SCHEMA = 1
_known: dict[tuple[str, str], str] = {}
_changed: list[bool] = []


def code_identity(store: Store) -> str:
    """A digest of the package's own sources and C headers, as they were when this process began to define kernels."""
    key = (store.root, store.mode)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _find(store)
    return found


def _find(store: Store) -> str:
    # As a digest: hundreds of values of their own would take a millisecond of every process's first call.
    record = Record({"kind": "package", "files": package.digest_of_stamps(package.STAMPS)}).encoded

    def build(directory: str) -> None:
        with open(os.path.join(directory, "digest"), "w") as out:
            out.write(package.digest_of(package.PACKAGE, package.STAMPS))
        if package.stamps(package.PACKAGE) != package.STAMPS:
            raise _Moved

    needs = ("digest",)
    try:
        entry = store.lookup(record, needs, counted=False) or store.build_once(
            record, build, needs, label="the identity of pypto's own code", counted=False
        )
    except (_Moved, FileNotFoundError):
        # What this process has loaded cannot be told any more: an identity that no other process has.
        _changed[:] = [True]
        return f"{os.getpid()} {os.urandom(16).hex()}"
    return entry.read("digest").decode()


class _Moved(Exception):
    """The files are not those of the beginning."""


def has_changed(code: str, *, look: bool = True) -> bool:
    """Whether the package's files are other ones than when this process loaded them, `code` being their identity then.

    Modules load when they are needed: such a process may run a mixture, which must not be published as either version's.
    Without `look`, by what is known of them already.
    """
    if not _changed:
        if not look:
            return False
        now = package.stamps(package.PACKAGE)
        if now == package.STAMPS:
            return False
        try:
            if package.digest_of(package.PACKAGE, now) == code:
                return False
        except FileNotFoundError:
            pass
        _changed.append(True)
    say_once(
        "package",
        "pypto's own files have changed since this process loaded them: kernels are built for this process only;"
        " start it anew to use the new version",
    )
    return True


def parameter_part(arguments: dict[str, Argument]) -> tuple[Any, ...]:
    """Kinds, dtypes, ranks and static extents; values only of parameters that the language needs as constants."""
    out: list[tuple[Any, ...]] = []
    for name, a in arguments.items():
        if isinstance(a, TensorArg):
            out.append((name, "tensor", a.dims, a.dtype, a.layout))
        elif isinstance(a, ScalarArg):
            out.append((name, "scalar", a.dtype))
        else:
            assert isinstance(a, StaticArg)
            out.append((name, "static", a.value))
    return tuple(out)


def make_record(
    parts: dict[str, Any],
    arguments: dict[str, Argument],
    options: PassOptions,
    optimize: bool,
    code: str,
    toolchain: Toolchain,
) -> Record:
    """The whole key of one artifact."""
    return Record(
        {
            "schema": SCHEMA,
            "kernel": parts["kernel"],
            "parameters": parameter_part(arguments),
            "values": parts["values"],
            "helpers": parts["helpers"],
            "memory_planner": options.memory_planner,
            "enable_buffer_ir": options.enable_buffer_ir,
            "buffer_semantics": BUFFER_SEMANTICS,
            "l0c_double_buffer": options.enable_pypto_l0c_double_buffer,
            "runtime": options.runtime,
            "platform": options.platform,
            "native_opt": optimize,
            "pypto": code,
            "toolchain": toolchain.identity,
            "ptoas": None if toolchain.ptoas is None else toolchain.ptoas.identity,
            "byte_order": sys.byteorder,
        }
    )
