"""The identity of an artifact: every part named, nothing guessed.

In: a request, the toolchain.  Out: a `Record`.  The package's own code counts by content; which content the files have
is remembered in the store under their sizes and times, so that a warm process reads none of them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pypto.frontend.specialization import Argument, ScalarArg, StaticArg, TensorArg
from pypto.passes.context import BUFFER_SEMANTICS, PassOptions
from pypto.runtime.record import Record, sha256
from pypto.runtime.toolchain import Toolchain

if TYPE_CHECKING:
    from pypto.runtime.store import Store

__all__ = ["code_identity", "make_record", "parameter_part"]

SCHEMA = 1
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SUFFIXES = (".py", ".c", ".h")
_known: dict[tuple[str, str], str] = {}


def code_identity(store: Store) -> str:
    """A digest of the package's own sources and C headers."""
    key = (store.root, store.mode)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _find(store)
    return found


def _find(store: Store) -> str:
    files = sorted(_files(_PACKAGE, ""))
    stamps = Record({"kind": "package", "files": tuple(files)}).encoded

    def build(directory: str) -> None:
        parts = []
        for name, *_ in files:
            with open(os.path.join(_PACKAGE, name), "rb") as f:
                parts.append((name, sha256(f.read())))
        with open(os.path.join(directory, "digest"), "w") as out:
            out.write(sha256(repr(parts).encode()))

    needs = ("digest",)
    entry = store.lookup(stamps, needs, counted=False) or store.build_once(
        stamps, build, needs, label="the identity of pypto's own code", counted=False
    )
    return entry.read("digest").decode()


def _files(folder: str, prefix: str) -> list[tuple[str, int, int, int]]:
    """(name, size, time, inode) of every source file."""
    out: list[tuple[str, int, int, int]] = []
    with os.scandir(folder) as entries:
        for e in entries:
            if e.name.endswith(_SUFFIXES):
                s = e.stat()
                out.append((prefix + e.name, s.st_size, s.st_mtime_ns, s.st_ino))
            elif e.name != "__pycache__" and e.is_dir():
                out += _files(e.path, f"{prefix}{e.name}/")
    return out


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
