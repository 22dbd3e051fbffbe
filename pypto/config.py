"""Every environment variable, declared once, typed and documented.

In: the process environment, read when a value is asked for (that is: when a kernel is specialized or built, never
on the path of a warm call).  Out: values of the declared type, or one ConfigError naming variable, value and domain.
No other module touches `os.environ`; `tests/ut/test_layers.py` holds that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from pypto.errors import ConfigError

__all__ = ["ALL", "Option", "check", "environment", "settings", "size_in_bytes", "under", "unknown"]

T = TypeVar("T")
N = TypeVar("N", int, float)
# The options that another process sent along with its work; None: those of this process.
_sent: ContextVar[Mapping[str, str] | None] = ContextVar("pypto.settings", default=None)


class Option(Generic[T]):
    """One variable: how its text becomes a value, and whether the value can change the bytes of an artifact."""

    def __init__(self, name: str, parse: Callable[[str], T], default: T, doc: str, *, affects_code: bool = False) -> None:
        self.name, self.default, self.doc, self.affects_code = name, default, doc, affects_code
        self._parse = parse

    def text(self) -> str | None:
        """The raw text, or None where the variable is unset or empty."""
        sent = _sent.get()
        return (os.environ if sent is None else sent).get(self.name) or None

    def get(self) -> T:
        text = self.text()
        if text is None:
            return self.default
        try:
            return self._parse(text)
        except ValueError as e:
            raise ConfigError(f"{self.name}={text!r}: {e}", hint=f"{self.name}: {self.doc}") from None


def environment() -> Mapping[str, str]:
    """The environment to hand to child processes."""
    return os.environ


def _choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError("expected one of " + ", ".join(words))
        return text

    return parse


def _word(*words: str) -> Callable[[str], str]:
    """One of the words, in letters of either case."""
    parse = _choice(*words)
    return lambda text: parse(text.lower())


# What relative paths have become: a process that changes its directory keeps its cache.
_absolute: dict[str, str] = {}


def _directory(text: str) -> str:
    """An absolute path; `~` is the home directory of this user, `~name` that of another."""
    path = os.path.expanduser(text)
    if path.startswith("~"):
        raise ValueError(f"there is no home directory {text.partition('/')[0]}")
    return path if os.path.isabs(path) else _absolute.setdefault(path, os.path.abspath(path))


def _positive(kind: Callable[[str], N]) -> Callable[[str], N]:
    def parse(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            value = kind("0")
        if not value > 0:
            raise ValueError("expected a positive number")
        return value

    return parse


def size_in_bytes(text: str) -> int:
    """Bytes, with an optional K, M or G (powers of 1024)."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    try:
        value = int(text[:-1] if scale > 1 else text) * scale
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError("expected a size in bytes, optionally with K, M or G, such as 500M")
    return value


CACHE = Option("PYPTO_CACHE", _choice("on", "readonly", "off"), "on", "on, readonly or off: how the artifact cache is used")
CACHE_DIR = Option("PYPTO_CACHE_DIR", _directory, "", "directory of the artifact cache; default: the user's cache directory")
CACHE_LOCK_TIMEOUT = Option(
    "PYPTO_CACHE_LOCK_TIMEOUT", _positive(float), 300.0, "seconds to wait for another process that builds the same kernel"
)
CACHE_MAX_SIZE = Option("PYPTO_CACHE_MAX_SIZE", size_in_bytes, 4 << 30, "bytes the cache may hold before old entries are pruned")
PYPTO_CC = Option("PYPTO_CC", str, "", "C compiler command, before $CC and the compilers on PATH")
CC = Option("CC", str, "", "C compiler command")
CFLAGS = Option("CFLAGS", str, "", "further flags for the C compiler", affects_code=True)
TARGET_CPU = Option(
    "PYPTO_TARGET_CPU",
    _choice("native", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a"),
    "native",
    "the processor that code is made for: native, this one; or a level that it reaches, and all that reach it: x86-64 (SSE2),"
    " x86-64-v2 (SSE4.2), x86-64-v3 (AVX2, FMA), x86-64-v4 (AVX-512), armv8-a",
    affects_code=True,
)
COMPILER_TIMEOUT = Option("PYPTO_COMPILER_TIMEOUT", _positive(float), 900.0, "seconds one C compiler run may take")
PTOAS = Option(
    "PYPTO_PTOAS", _choice("on", "off"), "on", "off: ptoas is not run on .pto texts, though there is one", affects_code=True
)
PTOAS_ROOT = Option("PTOAS_ROOT", _directory, "", "directory of ptoas or bin/ptoas, before the PATH", affects_code=True)
LAUNCHER = Option(
    "PYPTO_LAUNCHER", _choice("native", "ctypes"), "native", "native, or ctypes to call kernels without the C launcher"
)
NUM_THREADS = Option(
    "PYPTO_NUM_THREADS",
    _positive(int),
    0,
    "threads that one call may use for its parallel loops and blocks; default: the CPUs at hand",
)
NATIVE_OPT = Option(
    "PYPTO_NATIVE_OPT", _choice("0", "1"), "1", "0 keeps every tile in memory: no fusion, no elided transfer", affects_code=True
)
DUMP = Option(
    "PYPTO_DUMP", _directory, "", "directory in which each compilation leaves its passes, C, .pto texts and report; default: none"
)
EMIT_PTO_LOC = Option(
    "PYPTO_EMIT_PTO_LOC",
    lambda text: _choice("0", "1")(text) == "1",
    True,
    "0 shows .pto text without the user's files and lines",
)
VERIFY_LEVEL = Option(
    "PYPTO_VERIFY_LEVEL",
    _word("none", "basic", "roundtrip"),
    "basic",
    "none, basic or roundtrip: verification between passes",
)
WARNING_LEVEL = Option(
    "PYPTO_WARNING_LEVEL",
    _word("none", "pre_pipeline", "post_pass", "post_pipeline"),
    "pre_pipeline",
    "none, pre_pipeline, post_pass or post_pipeline: when diagnostics run",
)

ALL: tuple[Option[object], ...] = tuple(v for v in list(globals().values()) if isinstance(v, Option))


def unknown() -> list[str]:
    """Variables of the environment that are named as options of pypto are, and are none."""
    return sorted(name for name in os.environ if name.startswith("PYPTO_") and all(o.name != name for o in ALL))


def check() -> None:
    """ConfigError for an option that is set to what it cannot be, whether or not anything has asked for it yet."""
    for option in ALL:
        option.get()


def settings() -> dict[str, str]:
    """The texts of all options that are set now: what work that is done elsewhere needs to know of them."""
    return {o.name: text for o in ALL if (text := o.text()) is not None}


@contextmanager
def under(sent: Mapping[str, str]) -> Iterator[None]:
    """Options are `sent` instead of those in the environment, in this thread or task."""
    token = _sent.set(sent)
    try:
        yield
    finally:
        _sent.reset(token)
