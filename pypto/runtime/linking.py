"""Routines that never change: compiled once for a machine, and linked into the kernels that call them.

In: the name of one of the files of `routines/`, a toolchain, a store.  Out: the bytes of its object file, out of the store or
compiled now.  Invariant: what is linked has been hash-checked, and every source and flag that decided it is in its record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from pypto.runtime.build import compile_object, compile_shared
from pypto.runtime.record import Record, sha256
from pypto.runtime.store import Store
from pypto.runtime.toolchain import Toolchain

__all__ = ["INCLUDE", "compile_kernel"]

_HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(_HERE, "include")
_ROUTINES = os.path.join(_HERE, "routines")


def compile_kernel(
    toolchain: Toolchain,
    store: Store,
    source: str,
    routines: Sequence[str],
    directory: str,
    meanwhile: Callable[[], object] | None = None,
) -> None:
    """Write `kernel.c` and `kernel.so`, which holds the routines too, to `directory`; raises as `compile_shared` does."""
    objects = {f"{name}.o": _object(toolchain, store, name) for name in routines}
    try:
        texts: dict[str, str | bytes] = {"kernel.c": source, **objects}
        compile_shared(toolchain, texts, directory, "kernel.so", include_dirs=[INCLUDE], meanwhile=meanwhile)
    finally:
        for name in objects:
            os.unlink(os.path.join(directory, name))


def _object(toolchain: Toolchain, store: Store, name: str) -> bytes:
    """The object file of `routines/<name>.c`."""
    sources = {}
    for folder in (INCLUDE, _ROUTINES):
        for file in sorted(os.listdir(folder)):
            if file.endswith(".h") or file == f"{name}.c":
                with open(os.path.join(folder, file), "rb") as f:
                    sources[file] = f.read()
    content = {file: sha256(text) for file, text in sources.items()}
    record = Record({"kind": "routine", "name": name, "sources": content, "toolchain": toolchain.identity}).encoded
    file = f"{name}.o"

    def build(directory: str) -> None:
        compile_object(toolchain, f"{name}.c", sources, directory, file)

    found = store.lookup(record, (file,), counted=False) or store.build_once(
        record, build, (file,), label=f"the routines of {name}", counted=False
    )
    return found.read(file)
