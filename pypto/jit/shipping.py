"""Artifacts to another machine: out of the cache into one file, and from there into another cache.

In: a file.  Out: what was taken along, or put into the cache.  Only artifacts for this very target are taken over: for its
processor, compiler, Python and version of pypto, as their records say; others would never be found, and are refused with
the reason.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Collection
from typing import Any

from pypto import config
from pypto.errors import ConfigError, SerializationError, ToolchainError
from pypto.jit.explanation import kernel_name
from pypto.jit.identity import code_identity
from pypto.named import NamedTuple
from pypto.runtime.archive import Packed, Written, opened, unpack, write
from pypto.runtime.prune import EntryInfo
from pypto.runtime.record import Record, diff
from pypto.runtime.store import Store, default_store, digest
from pypto.runtime.toolchain import find, processor

__all__ = ["Imported", "Target", "export_cache", "import_cache", "kind_of", "the_target"]


class Target(NamedTuple):
    """What must agree for an artifact to be found here.  Without a compiler, `toolchain` is None, and nothing is asked of it."""

    pypto: str
    toolchain: dict[str, Any] | None
    ptoas: Any
    machine: str
    cpu: tuple[str, ...]
    python: str


class Imported(NamedTuple):
    """Digests of what an archive brought, what was there already, and what was left out, with the reason."""

    added: tuple[str, ...]
    present: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def the_target(store: Store) -> Target:
    """This machine and this process."""
    identity: dict[str, Any] | None = None
    ptoas: Any = None
    try:
        found = find(store)
        identity, ptoas = dict(found.identity), None if found.ptoas is None else found.ptoas.identity
    except ToolchainError as e:
        if e.code != "T100" or config.PYPTO_CC.text() or config.CC.text():
            raise
    python = importlib.machinery.EXTENSION_SUFFIXES[0]
    return Target(code_identity(store), identity, ptoas, os.uname().machine, processor().features, python)


def kind_of(record: Record) -> str:
    """kernel, note (that a parameter is a constant), launcher, routine (that kernels are linked with), compiler (what it is),
    or local: of use to one installation only."""
    parts = record.parts
    kind = parts.get("kind")
    if kind is None and {"kernel", "toolchain", "pypto", "byte_order"} <= parts.keys():
        return "kernel"
    if kind == "static":
        return "note"
    if kind == "launcher" and "sources" in parts:
        return "launcher"
    return str(kind) if kind in ("compiler", "routine") else "local"


def foreign(record: Record, target: Target) -> str:
    """Why an artifact is of no use for a target, or an empty text."""
    kind, parts = kind_of(record), record.parts
    if kind == "local":
        return "of use to one installation only"
    if kind == "note":
        request = parts.get("request")
        return foreign(Record.decode(request), target) if isinstance(request, bytes) else "a note of nothing"
    tools = parts.get("toolchain")
    of_machine = _machine(parts if kind == "compiler" else tools if isinstance(tools, dict) else {}, target)
    if of_machine or kind == "compiler":
        return of_machine
    if kind == "launcher" and parts.get("python") != target.python:
        return f"for another Python: {parts.get('python')}, this one is {target.python}"
    if kind == "kernel" and parts["byte_order"] != sys.byteorder:
        return f"{parts['byte_order']}-endian, this machine is {sys.byteorder}-endian"
    if target.toolchain is not None:
        for d in diff(Record({"toolchain": tools}), Record({"toolchain": target.toolchain})):
            return f"made by another compiler, or with other flags: {d.old}, here {d.new}"
        for d in diff(Record({"ptoas": parts.get("ptoas")}), Record({"ptoas": target.ptoas})) if kind == "kernel" else ():
            return f"checked by another assembler: {d.old}, here {d.new}"
    if kind == "kernel" and parts["pypto"] != target.pypto:
        return "made by another version of pypto"
    return ""


def _machine(tools: Any, target: Target) -> str:
    machine, cpu = tools.get("machine", target.machine), tools.get("cpu")
    if machine != target.machine:
        return f"for another machine: {machine}, this one is {target.machine}"
    if not isinstance(cpu, str):
        return "for an unknown processor"
    needs, has = set(cpu.split()), set(target.cpu)
    if needs - has:
        return f"for a processor with {', '.join(sorted(needs - has))}, which this one has not"
    if has - needs:
        return f"for a processor without {', '.join(sorted(has - needs))}, which this one has"
    return ""


def export_cache(path: str, kernels: Collection[str] = (), *, everything: bool = False) -> Written:
    """Write the artifacts of this target (of the named kernels; with `everything`, of all targets) to the file `path`.

    What kernels share goes with them.  ConfigError (O141) for a name of which there is no artifact; OSError,
    SerializationError (S130) as `archive.write`.
    """
    store = default_store()
    target = the_target(store)
    chosen: list[EntryInfo] = []
    found: set[str] = set()
    for entry in reversed(store.entries()):  # used last, last: so it is in the cache that takes them over
        try:
            record = entry.record()
        except SerializationError:
            continue
        name = _name(record)
        if kind_of(record) == "local" or (not everything and foreign(record, target)) or (kernels and name not in (*kernels, "")):
            continue
        found.add(name)
        chosen.append(entry)
    missing = sorted(set(kernels) - found)
    if missing:
        of = "any target" if everything else "this target"
        raise ConfigError(
            f"the cache {store.root} has no artifact of {', '.join(missing)} for {of}",
            hint="`pypto cache list` says what it has; call or compile the kernel first",
            code="O141",
        )
    return write(path, chosen)


def _name(record: Record) -> str:
    """The kernel that an entry is for; empty for what all share."""
    request = record.parts.get("request")
    if kind_of(record) == "note" and isinstance(request, bytes):
        return kernel_name(Record.decode(request))
    return kernel_name(record) if kind_of(record) == "kernel" else ""


def import_cache(path: str, *, sha256_of_file: str = "", skip_foreign: bool = False) -> Imported:
    """Check an archive from the first byte to the last, then put its artifacts into the cache.

    ConfigError: O140 artifacts for another target (unless they are to be skipped: then they are left out), O142 not the
    file whose SHA-256 was given, O143 the cache cannot be written.  SerializationError (S140): anything that is not as it
    was written.  OSError.  Nothing is stored before all was checked.
    """
    store = default_store()
    target = the_target(store)
    with opened(path) as file:
        if sha256_of_file:
            _check_sum(file, sha256_of_file)
        judged = [(p.digest, *_why_not(p, target)) for p in unpack(file, digest)]
        refused = {name: why for name, why, _ in judged if why}
        grave = {name: why for name, why, matters in judged if matters}
        if grave and not skip_foreign:
            raise _foreign_error(path, grave)
        added: list[str] = []
        present: list[str] = []
        for packed in unpack(file, digest):
            # Not what was checked first, if somebody writes the file meanwhile.
            if packed.digest not in refused and not _why_not(packed, target)[0]:
                (added if _install(store, packed) else present).append(packed.digest)
    return Imported(tuple(added), tuple(present), tuple(refused.items()))


def _check_sum(file: Any, wanted: str) -> None:
    import hashlib

    found = hashlib.sha256()
    for block in iter(lambda: file.read(1 << 20), b""):
        found.update(block)
    if found.hexdigest() != wanted.lower():
        raise ConfigError(
            f"{file.name} has the SHA-256 {found.hexdigest()}", hint=f"it should be {wanted}: fetch the file again", code="O142"
        )


def _why_not(packed: Packed, target: Target) -> tuple[str, bool]:
    """Why an entry is left out (empty: it is not), and whether kernels are lost by that."""
    try:
        record = Record.decode(packed.record)
        why, kind = foreign(record, target), kind_of(record)
    except SerializationError:
        return "of another version of pypto", True
    if kind == "compiler" and target.toolchain is not None:
        return "what the exporter knew of its C compiler, of use only where there is none; no kernel is lost", False
    return why, bool(why) and kind in ("kernel", "note")


def _foreign_error(path: str, refused: dict[str, str]) -> ConfigError:
    reasons: dict[str, int] = {}
    for why in refused.values():
        reasons[why] = reasons.get(why, 0) + 1
    shown = "".join(f"\n  {count} {_artifacts(count)} {why}" for why, count in reasons.items())
    return ConfigError(
        f"{path} has artifacts for another target, and nothing was imported:{shown}",
        hint="export where the target is the same, or leave these out with --skip-foreign",
        code="O140",
    )


def _artifacts(count: int) -> str:
    return "artifact" if count == 1 else "artifacts"


def _install(store: Store, packed: Packed) -> bool:
    """Whether the entry was new."""
    built: list[str] = []

    def build(directory: str) -> None:
        built.append(directory)
        for name, data in packed.files.items():
            with open(os.path.join(directory, name), "xb") as f:
                f.write(data)

    entry = store.build_once(packed.record, build, tuple(packed.files), label="an imported artifact", counted=False)
    if entry.private:
        raise ConfigError(
            f"the artifact cache {store.root} cannot be written",
            hint="set PYPTO_CACHE_DIR to a directory that you own",
            code="O143",
        )
    return bool(built)
