"""Verified machine code into this process.

In: an entry and the name of a file in it.  Out: a library with symbol addresses, or an extension module.  What is
loaded are the bytes whose hash matched: a file that changed since, or that has gone, is loaded from a private copy of
those bytes.  Loaded code stays for the life of the process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from pypto.errors import InternalError, ToolchainError
from pypto.named import NamedTuple
from pypto.runtime.directories import private_bases, private_dir, say_once
from pypto.runtime.entry import Entry, Held, identity

__all__ = ["Library", "extension", "library", "load_verified"]

T = TypeVar("T")
# By the whole record and not by its digest or path: neither says for certain what is behind it.
_libraries: dict[tuple[bytes, str], Library] = {}
_spelled: dict[str, tuple[int, ...]] = {}
_REFUSALS = ("failed to map segment", "cannot enable executable", "Operation not permitted", "Permission denied")


class Library(NamedTuple):
    """A loaded shared object; its symbols are visible through `address` alone."""

    handle: ctypes.CDLL
    path: str

    def address(self, symbol: str) -> int:
        """Where `symbol` is; InternalError if the library does not export it."""
        try:
            found = getattr(self.handle, symbol)
        except AttributeError:
            raise InternalError(f"{self.path} has no symbol {symbol!r}") from None
        return ctypes.cast(found, ctypes.c_void_p).value or 0


def library(entry: Entry, name: str = "kernel.so") -> Library:
    """The shared object `name` of `entry`, loaded once per process and record.

    ToolchainError (T110) if the system's loader refuses it, (T111) if no directory allows execution; SerializationError
    (S130) if the file was not needed at look-up and has changed since.
    """
    key = (entry.record, name)
    found = _libraries.get(key)
    if found is None:
        # Two threads may both come here: the dynamic loader gives them one library.  `CDLL` is looked up at each call.
        found = _libraries.setdefault(key, load_verified(entry, name, lambda path: Library(ctypes.CDLL(path), path)))
        entry.release(name)
    return found


def extension(entry: Entry, name: str, module: str) -> ModuleType:
    """The extension module `module` from the file `name` of `entry`; raises as `library` does."""
    import importlib.machinery
    import importlib.util

    def load(path: str) -> ModuleType:
        loader = importlib.machinery.ExtensionFileLoader(module, path)
        spec = importlib.util.spec_from_file_location(module, path, loader=loader)
        if spec is None:
            raise InternalError(f"no import specification for {path}")
        made = importlib.util.module_from_spec(spec)
        loader.exec_module(made)
        return made

    return load_verified(entry, name, load)


def load_verified(entry: Entry, name: str, load: Callable[[str], T]) -> T:
    """`load(path)` on a file with the verified bytes of `name`; `load` says no by OSError or ImportError.

    Tried from the entry itself, then, if execution is forbidden there, from private directories elsewhere.
    """
    held = entry.held(name)
    path = f"{entry.path}/{name}"
    tried = [path]
    if _unchanged(path, held):
        try:
            loaded = load(_spelling(path, held.identity))
            if _unchanged(path, held):
                return loaded
        except (OSError, ImportError) as e:
            if _unchanged(path, held) and not _forbidden(e):
                raise _refused(path, e) from e
            if _forbidden(e):
                return _load_elsewhere(name, held.data, load, tried, e)
    return _load_elsewhere(name, held.data, load, tried, None)


def _load_elsewhere(name: str, data: bytes, load: Callable[[str], T], tried: list[str], first: Exception | None) -> T:
    """From a private copy, in the first directory that allows it; `first` is the refusal that led here, if one did."""
    problem: Exception | None = first
    for base in private_bases():
        try:
            path = _copy(name, data, base)
        except OSError:
            continue
        try:
            loaded = load(path)
        except (OSError, ImportError) as e:
            if not _forbidden(e):
                raise _refused(path, e) from e
            problem = e
            tried.append(path)
            continue
        if first is not None:
            say_once("execution", _advice(tried[0], os.path.dirname(path)))
        return loaded
    raise ToolchainError(
        "no directory allows compiled code to be loaded; tried " + ", ".join(tried),
        hint="set PYPTO_CACHE_DIR to a directory on a file system that is mounted without noexec",
        code="T111",
    ) from problem


def _advice(path: str, elsewhere: str) -> str:
    return (
        f"the system does not map {path} as code (a file system mounted noexec, or a security policy):"
        f" copies in {elsewhere} are used. Set PYPTO_CACHE_DIR to a directory that allows execution"
    )


def _copy(name: str, data: bytes, base: str) -> str:
    """A new file with these bytes in a new private directory below `base`; OSError."""
    import tempfile

    # A directory of its own for each: the dynamic loader takes a path that it knows for the library that it knows.
    path = os.path.join(tempfile.mkdtemp(prefix="load-", dir=private_dir(base)), name)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
    finally:
        os.close(fd)
    return path


def _unchanged(path: str, held: Held) -> bool:
    try:
        return identity(os.stat(path, follow_symlinks=False)) == held.identity
    except OSError:
        return False


def _spelling(path: str, status: tuple[int, ...]) -> str:
    """A spelling of `path` under which the dynamic loader does not remember another file that was there before."""
    while _spelled.setdefault(path, status) != status:
        directory, name = os.path.split(path)
        path = f"{directory}/./{name}"
    return path


def _forbidden(error: Exception) -> bool:
    return any(words in str(error) for words in _REFUSALS)


def _refused(path: str, error: Exception) -> ToolchainError:
    return ToolchainError(f"the compiled library cannot be loaded: {error}", note=path, code="T110")
