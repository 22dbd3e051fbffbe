"""`pypto doctor`: what of this machine kernels depend on, what is wrong with it, and how to mend it.

In: the environment, as a kernel would find it.  Out: one finding for each thing, as text or JSON; exit code 1 if kernels
cannot be compiled or run.  Invariant: a check that fails is a finding; nothing that it meets ends the command.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import platform
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pypto import config
from pypto.errors import Error, InternalError
from pypto.named import NamedTuple

__all__ = ["Finding", "add_doctor", "examine"]

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"
_LEAST_ROOM = 256 << 20
_PROBE = 'int pypto_probe(int x);\n__attribute__((visibility("default"))) int pypto_probe(int x) { return x + 1; }\n'
_NEEDED = ("numpy", "ml_dtypes", "msgpack", "platformdirs")
_OPTIONAL = {
    "ziglang": "a C compiler where there is none: pip install 'pypto[toolchain]'",
    "torch": "tensors of torch as arguments",
    "pytest": "numerical tests of kernels: pypto.testing",
    "scikit-learn": "some of the examples",
    "pillow": "some of the examples",
}


class Finding(NamedTuple):
    """`state`: ok, note (fine, and worth knowing), warning (kernels run, but ...), error (they do not)."""

    name: str
    state: str
    summary: str
    facts: dict[str, Any]
    problem: str = ""
    remedy: str = ""


def add_doctor(commands: Any) -> None:
    p = commands.add_parser("doctor", help="say what of this machine kernels depend on, what is wrong, and how to mend it")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    p.set_defaults(run=_doctor)


def _doctor(a: argparse.Namespace) -> int:
    found = examine()
    well = all(f.state != ERROR for f in found)
    if a.json:
        print(json.dumps({"ok": well, "checks": [f._asdict() for f in found]}, indent=1), file=a.out)
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        print("\n".join(line for f in found for line in _shown(f, width)))
        print("\n" + _VERDICTS[max(_RANKS.index(f.state) for f in found)])
    return 0 if well else 1


_RANKS = (OK, NOTE, WARNING, ERROR)
_VERDICTS = (
    "Kernels compile and run here.",
    "Kernels compile and run here.",
    "Kernels compile and run here; look at the warnings.",
    "Kernels do not compile or run here: look at the errors.",
)


def _shown(f: Finding, width: int) -> Iterator[str]:
    indent = " " * 18
    wrap = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    yield f"{f.state:8}{f.name:10}" + "\n".join(wrap.wrap(f.summary)).lstrip()
    for text in (f.problem, f.remedy and f"to mend it: {f.remedy}"):
        for line in text.splitlines():
            yield from wrap.wrap(line)


# -- checks ------------------------------------------------------------------------------------------------------------


def examine() -> list[Finding]:
    """All findings, in the order in which a first call would meet their subjects."""
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", _python),
        ("packages", _packages),
        ("options", _options),
        ("cpu", _cpu),
        ("cache", _cache),
        ("compiler", _compiler),
        ("launcher", _launcher),
        ("ptoas", _ptoas),
        ("devices", _devices),
    )
    return [_safely(name, check) for name, check in checks]


def _safely(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say is what is being found out here
            return check()
    except Error as e:
        first, *rest = e.message.splitlines()
        more = "\n".join([*rest, *([e.note] if e.note else [])])
        return Finding(name, ERROR, first, {"code": e.code}, more, e.hint or "")
    except (OSError, InternalError) as e:
        return Finding(name, ERROR, f"{type(e).__name__}: {e}", {})


def _python() -> Finding:
    import pypto

    place = os.path.dirname(os.path.abspath(pypto.__file__))
    facts = {
        "pypto": _version("pypto") or "(not installed)",
        "package": place,
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "system": platform.system(),
        "machine": platform.machine(),
    }
    summary = f"pypto {facts['pypto']} in {place}; Python {facts['python']}, {facts['system']} {facts['machine']}"
    if sys.implementation.name != "cpython":
        return Finding("python", ERROR, summary, facts, "kernels are called by an extension of CPython", "run CPython")
    if sys.platform != "linux":
        return Finding("python", WARNING, summary, facts, "only Linux is tested", "")
    return Finding("python", OK, summary, facts)


def _packages() -> Finding:
    found: dict[str, str | None] = {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)}
    there = ", ".join(f"{n} {v}" for n, v in found.items() if v)
    missing = [n for n in _NEEDED if found[n] is None]
    facts = {"versions": found}
    if missing:
        needed = " ".join(missing)
        return Finding("packages", ERROR, there, facts, f"missing: {', '.join(missing)}", f"pip install {needed}")
    absent = [f"{n} is not installed: {why}" for n, why in _OPTIONAL.items() if found[n] is None]
    return Finding("packages", NOTE if absent else OK, there, facts, "\n".join(absent))


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _options() -> Finding:
    """Each variable that is set, with a value that it can have."""
    given = {o.name: o.text() for o in config.ALL if o.text() is not None}
    summary = ", ".join(f"{n}={v}" for n, v in given.items()) or "none is set"
    problems, remedies = [], []
    for o in config.ALL:
        try:
            o.get()
        except Error as e:
            problems.append(e.message)
            remedies.append(e.hint or "")
    state = ERROR if problems else OK
    for name in config.unknown():
        state = state if problems else WARNING
        near = difflib.get_close_matches(name, [o.name for o in config.ALL], n=1, cutoff=0.8)
        problems.append(f"{name} is no option of this version: it changes nothing")
        remedies.append(f"did you mean {near[0]}?" if near else f"unset {name}")
    return Finding("options", state, summary, {"set": given}, "\n".join(problems), "\n".join(remedies))


def _cpu() -> Finding:
    from pypto.runtime.cpus import available_cpus
    from pypto.runtime.processor import cpu_features, made_for

    features, count = cpu_features(), available_cpus()
    made = made_for(features)
    facts = {"machine": os.uname().machine, "usable_cpus": count, "cpus": os.cpu_count(), "features": list(features)}
    facts |= {"target": made.name}
    target = "" if made.name == "native" else f"; code is made for {made.name}"
    return Finding("cpu", OK, f"{facts['machine']}, {count} of {os.cpu_count()} CPUs usable; {' '.join(features)}{target}", facts)


def _cache() -> Finding:
    from pypto.runtime.directories import trust_problem
    from pypto.runtime.mounts import look
    from pypto.runtime.store import Store

    store = Store()
    if store.problem:
        return Finding("cache", WARNING, "there is no cache", {"root": None}, store.problem, _CACHE_REMEDY)
    place, usage, limit = look(store.root), store.stat(), config.CACHE_MAX_SIZE.get()
    facts = {
        "root": store.root,
        "mode": store.mode,
        "chosen_by": store.origin,
        "exists": os.path.isdir(store.root),
        "entries": usage.entries,
        "bytes": usage.size,
        "limit": limit,
        "free": place.free,
        "file_system": place.kind,
        "writable": place.writable,
        "noexec": not place.executable,
    }
    summary = (
        f"{store.root} ({store.mode}; {place.kind or 'unknown file system'}): {usage.entries} entries, {_size(usage.size)} of"
        f" {_size(limit)}, {_size(place.free)} free"
    )
    trouble = trust_problem(store.root) if os.path.exists(store.root) else ""
    problems = [
        (trouble, _CACHE_REMEDY),
        ("" if place.writable or store.mode != "on" else f"{place.there} cannot be written", _CACHE_REMEDY),
        ("" if place.executable else "mounted noexec: code is loaded from private copies", _EXEC_REMEDY),
        ("" if place.free >= _LEAST_ROOM else f"only {_size(place.free)} are free", "make room, or set PYPTO_CACHE_DIR"),
        ("" if store.mode != "off" else "off: each process compiles for itself", "unset PYPTO_CACHE"),
    ]
    wrong = [(what, how) for what, how in problems if what]
    remedies = "\n".join(dict.fromkeys(how for _, how in wrong))
    return Finding("cache", WARNING if wrong else OK, summary, facts, "\n".join(what for what, _ in wrong), remedies)


_CACHE_REMEDY = (
    "set PYPTO_CACHE_DIR to a directory that you own and others cannot write; until then each process compiles for itself"
)
_EXEC_REMEDY = "set PYPTO_CACHE_DIR to a directory on a file system that is mounted without noexec"


def _size(n: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.1f} {unit}"
    return f"{n} bytes"


def _compiler() -> Finding:
    """It is found, makes a library, and the library runs."""
    from pypto.runtime.build import compile_shared
    from pypto.runtime.load import library
    from pypto.runtime.record import Record
    from pypto.runtime.store import Store
    from pypto.runtime.toolchain import find_compiler

    tools = find_compiler(Store())
    flags = [*tools.compile_flags, *tools.link_flags]
    version = str(tools.identity["version"]).split("\n")[0]
    facts: dict[str, Any] = {"command": list(tools.command), "family": tools.family, "version": version, "flags": flags}
    if not tools.command:
        return Finding("compiler", ERROR, tools.problem, facts, "kernels that are stored can still be loaded", tools.hint)

    def build(directory: str) -> None:
        compile_shared(tools, {"probe.c": _PROBE}, directory, "probe.so")

    begin = time.perf_counter()
    # Under a name of its own, so that it is not the library of an earlier examination.
    record = Record({"kind": "probe", "at": time.time_ns()}).encoded
    entry = Store(mode="off").build_private(record, build, ("probe.so",), counted=False)
    facts["seconds"] = round(time.perf_counter() - begin, 3)
    import ctypes

    probe = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(library(entry, "probe.so").address("pypto_probe"))
    if probe(41) != 42:
        return Finding("compiler", ERROR, version, facts, "the code that it made gives wrong results", "try another PYPTO_CC")
    summary = f"{' '.join(tools.command)}: {version} ({tools.family}); a test took {facts['seconds']:.2f} s; {' '.join(flags)}"
    return Finding("compiler", OK, summary, facts)


def _launcher() -> Finding:
    from pypto.runtime.launch import native_launcher

    if config.LAUNCHER.get() == "ctypes":
        return Finding("launcher", NOTE, "ctypes, as PYPTO_LAUNCHER says: a call takes tens of microseconds", {"native": False})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        native = native_launcher() is not None
    if native:
        return Finding("launcher", OK, "the C launcher is there", {"native": True})
    why = "\n".join(str(w.message) for w in said)
    remedy = "install Python's headers (Debian, Ubuntu: `apt install python3-dev`), if they are what is missing"
    if not _compiles():
        why, remedy = "it is compiled when it is first needed, and the compiler does not work", "mend the compiler"
    return Finding("launcher", WARNING, "kernels are called by ctypes, which takes longer", {"native": False}, why, remedy)


def _compiles() -> bool:
    from pypto.runtime.store import Store
    from pypto.runtime.toolchain import find_compiler

    try:
        return bool(find_compiler(Store()).command)
    except Error:
        return False


def _ptoas() -> Finding:
    from pypto.runtime import ptoas
    from pypto.runtime.store import Store

    found, root = ptoas.find(Store()), config.PTOAS_ROOT.get()
    if found is None:
        off = config.PTOAS.get() == "off"
        summary = "off, as PYPTO_PTOAS says" if off else "not found: texts for the accelerator are not assembled"
        wrong = f"PTOAS_ROOT={root} has no ptoas, ptoas.sh or bin/ptoas" if root and not off else ""
        remedy = "correct PTOAS_ROOT, or unset it" if wrong else ""
        return Finding("ptoas", WARNING if wrong else NOTE, summary, {"path": None, "root": root or None}, wrong, remedy)
    facts = {**found.identity, "root": root or None}
    return Finding(
        "ptoas", OK, f"{found.path}: {found.version.splitlines()[0] if found.version else 'of unknown version'}", facts
    )


def _devices() -> Finding:
    from pypto.target import PLATFORMS, runs_here

    here = [p for p in PLATFORMS if runs_here(p)]
    rest = [p for p in PLATFORMS if p not in here]
    summary = f"{', '.join(here)} run on this host; for {', '.join(rest)} programs and texts can be generated"
    return Finding("devices", NOTE, summary, {"run_here": here, "generated": rest})
