"""The assembler of `.pto` texts: whether there is one, which, and what identifies it.

In: PTOAS_ROOT, PATH, PYPTO_PTOAS.  Out: a `Ptoas`, or None where there is none.  It is asked for its version once per
machine: the answer is an entry of the store, under the path, size, time and inode of its files, so that a process which
finds its kernels stored never runs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto import config
from pypto.errors import ToolchainError
from pypto.named import NamedTuple
from pypto.runtime.record import Record, sha256

if TYPE_CHECKING:
    from pypto.runtime.store import Store

__all__ = ["ABSENT", "Ptoas", "find", "found_at"]

ABSENT = "ptoas was not run: none is in $PTOAS_ROOT or on the PATH, or PYPTO_PTOAS is off"
_PROBE = 1
_ANSWER = "assembler"
_PROBE_SECONDS = 20.0
_BELOW_ROOT = ("ptoas", "ptoas.sh", "bin/ptoas")  # the first may be a script that runs the last
_DO_WITHOUT = "PYPTO_PTOAS=off does without it: kernels run on the host all the same"

# By question and store: what this process has found before.
_found: dict[tuple[bytes, str, str], Ptoas] = {}


class Ptoas(NamedTuple):
    """An assembler.  `identity`: path, version and content, which are part of the key of every artifact that it adds to."""

    path: str
    identity: Mapping[str, object]

    @property
    def version(self) -> str:
        """As it prints it; empty where it prints none."""
        return str(self.identity["version"])


def found_at() -> str:
    """The absolute path of the assembler that would be used, or an empty text.

    ToolchainError T120: PTOAS_ROOT has one that cannot be run.
    """
    if config.PTOAS.get() == "off":
        return ""
    there = _below_root()
    for path in there:
        if os.access(path, os.X_OK):
            return path
    if there:
        hint = f"chmod +x {there[0]}, or unset PTOAS_ROOT; {_DO_WITHOUT}"
        raise ToolchainError(f"{there[0]}, of PTOAS_ROOT, is not executable", hint=hint, code="T120")
    for place in os.get_exec_path():
        path = f"{place}/ptoas"
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.abspath(path)
    return ""


def find(store: Store) -> Ptoas | None:
    """The assembler of this machine, or None; its identity is remembered in `store`.

    ToolchainError T120: it cannot be run.  T122: it does not even say its version.
    """
    path = found_at()
    if not path:
        return None
    files = _files(path)
    question = Record({"kind": _ANSWER, "probe": _PROBE, "path": path, "files": tuple(_stamp(f) for f in files)}).encoded
    key = (question, store.root, store.mode)
    if key not in _found:
        entry = store.lookup(question, (_ANSWER,), counted=False) or store.build_once(
            question,
            lambda directory: _ask(path, files, directory),
            (_ANSWER,),
            label=f"the identity of {path}",
            counted=False,
        )
        content, _, version = entry.read(_ANSWER).decode().partition("\0")
        _found[key] = Ptoas(path, MappingProxyType({"path": path, "version": version, "content": content}))
    return _found[key]


def _files(path: str) -> list[str]:
    """What a run of it executes, as far as can be told: below PTOAS_ROOT, the program that a script beside it runs."""
    there = _below_root()
    return there if path in there else [path]


def _below_root() -> list[str]:
    """The files below PTOAS_ROOT that can be meant, the first choice first."""
    root = config.PTOAS_ROOT.get()
    return [p for p in (os.path.join(root, name) for name in _BELOW_ROOT) if os.path.isfile(p)] if root else []


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        s = os.stat(path)
    except OSError as e:
        raise ToolchainError(f"{path}: {e.strerror or e}", hint=_DO_WITHOUT, code="T120") from e
    return s.st_size, s.st_mtime_ns, s.st_ino


def _ask(path: str, files: list[str], directory: str) -> None:
    """Content and version, into one file of the directory."""
    from pypto.runtime.process import run

    try:
        code, output = run([path, "--version"], directory, _PROBE_SECONDS)
        content = sha256("".join(sha256(_bytes(f)) for f in files).encode())
    except OSError as e:
        raise ToolchainError(f"{path} cannot be run: {e.strerror or e}", hint=_DO_WITHOUT, code="T120") from e
    if code is None:
        what = f"{path} --version did not finish within {_PROBE_SECONDS:g} s"
        raise ToolchainError(what, hint=_DO_WITHOUT, code="T122")
    # One that knows no such option is told from others by its content alone.
    said = "\n".join(line.strip() for line in output.splitlines() if line.strip()) if code == 0 else ""
    with open(os.path.join(directory, _ANSWER), "wb") as answer:
        answer.write(f"{content}\0{printable(said)[:500]}".encode())


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def printable(text: str) -> str:
    """Without what would move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
