"""The launcher that this process uses: the C module, built once per machine and Python, or its double in ctypes.

In: the artifact store and toolchain, the context variable of the caller.  Out: one `Launcher`.  Invariant: which of
the two it is changes the time of a call and nothing else; a C module that misreads numpy's arrays is never used.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from pypto.config import LAUNCHER, NUM_THREADS
from pypto.dtypes import DataType
from pypto.errors import InternalError, KernelBoundsError, KernelError, SerializationError, ToolchainError
from pypto.named import NamedTuple
from pypto.runtime.arrays import adapt, is_torch, type_numbers
from pypto.runtime.directories import say_once
from pypto.runtime.plan import HEAVY_BYTES, MISSING, KernelPlan, ScalarParam, Site, TensorParam, limits, slot
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.runtime.entry import Entry
    from pypto.runtime.store import Store
    from pypto.runtime.toolchain import Toolchain

__all__ = ["Kernel", "Launcher", "Sources", "begin", "launcher", "native_launcher", "prepare", "raise_fault"]


class Sources(NamedTuple):
    """What identifies the content of the package's files, the launcher's own among them, and whether they still have it."""

    identity: object
    hold: Callable[[], bool]


class Launcher(NamedTuple):
    """What a dispatcher is made of, with the same meaning in C and in ctypes.

    Entry(plan, address, keepalive, guards=(), context_token=None): a kernel ready to call.  `keepalive` has what
    `Kernel` has.  Guards are ("global", dict, name, expected) and ("cell", cell, expected), by identity, with `missing`
    for what is not there, and ("call", callable), by truth.  The token is compared by identity with the context
    variable's value.  `entry.call(args)` runs with bound arguments regardless of guards and token.
    Dispatcher(slow, names, defaults, positional_only=0, keyword_only=0): binds as Python does (`defaults` has
    `missing` where a parameter has none), runs the entry that fits, or calls slow(args, kwargs).  add(entry), clear(), len().
    install(cls, slot, word): makes instances of `cls` call the Dispatcher in their slot, else `_call_slow(*args, **kwargs)`;
    the slot `word`, which nobody ever sets, becomes a word of the launcher's own.
    """

    native: bool
    Entry: Any
    Dispatcher: Any
    install: Callable[[type, str, str], None]
    missing: object


class Kept(Protocol):
    """What an entry keeps alive: it holds the kernel's code in memory and says where a failed site stands."""

    @property
    def plan(self) -> KernelPlan: ...

    def locate(self, site: Site) -> Span | None: ...


class Kernel(NamedTuple):
    """A loaded kernel: the simplest thing an entry can keep."""

    plan: KernelPlan
    library: object
    place: Callable[[Site], Span | None] = lambda site: None

    def locate(self, site: Site) -> Span | None:
        return self.place(site)


def launcher(
    context_var: ContextVar[Any] | None = None, tools: Toolchain | None = None, sources: Sources | None = None
) -> Launcher:
    """The launcher of this process; entries compare their token with the value of `context_var`.

    `tools`, `sources`: the toolchain of this machine, and the identity of the package, where they have been found already.
    """
    native = native_launcher(tools, sources)
    if native is None:
        from pypto.runtime import fallback

        fallback.configure(context_var=context_var, fault=raise_fault)
        return Launcher(False, fallback.Entry, fallback.Dispatcher, fallback.install, MISSING)
    native.configure(context_var=context_var)
    return Launcher(True, native.Entry, native.Dispatcher, native.install, MISSING)


# The C module once it is loaded, None where it cannot be had; empty until somebody asks.
_native: list[ModuleType | None] = []
_loading = _thread.allocate_lock()
_MODULE = "pypto_launcher"
_FILE = "pypto_launcher.so"
# The longest first.  What calls run is worth all optimizations; the rest is not worth the time that these take.
_UNITS: dict[str, tuple[str, ...]] = {"calls.c": (), "launcher.c": ("-Og",), "made.c": ()}
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def native_launcher(tools: Toolchain | None = None, sources: Sources | None = None) -> ModuleType | None:
    """The C launcher, built where this machine has none yet; None with PYPTO_LAUNCHER=ctypes, or where it cannot be had.

    The reason is said once, as a PyptoWarning.  ConfigError passes: what is wrong with the compiler's options is for the user.
    """
    if LAUNCHER.get() == "ctypes":
        return None
    if not _native:
        with _loading:
            if not _native:
                _native.append(_load_native(tools, sources))
    return _native[0]


def _forget_in_child() -> None:
    # A lock that another thread of the parent held would never be given back.
    global _loading
    _loading = _thread.allocate_lock()


os.register_at_fork(after_in_child=_forget_in_child)


def _load_native(tools: Toolchain | None, sources: Sources | None) -> ModuleType | None:
    reason = "numpy's arrays are not laid out as the C launcher assumes"
    try:
        module = _find_native(tools, sources)
        if configure_native(module):
            return module
    except (ToolchainError, SerializationError, ImportError, OSError) as e:
        reason = getattr(e, "message", str(e))
    say_once(
        "launcher",
        f"kernels are called by ctypes, which takes tens of microseconds a call; the C launcher is not there: {reason}",
    )
    return None


def begin(tools: Toolchain, sources: Sources | None = None) -> None:
    """Start to build the C launcher where this machine has none: that takes longer than any kernel, and neither needs the other.

    Whoever then asks for the launcher waits for this build, or does it again and says what is wrong with it.
    """
    if _native or LAUNCHER.get() == "ctypes":
        return
    import threading
    from contextvars import copy_context

    from pypto.runtime import store

    place = store.default_store()
    parts, here = _asked(tools, sources or _own_sources())
    if place.lookup(here, (_FILE,), counted=False) is not None:
        return

    def build() -> None:
        with suppress(Exception):
            _built(place, parts)

    threading.Thread(target=copy_context().run, args=(build,), name="pypto-launcher", daemon=True).start()


def _find_native(tools: Toolchain | None, sources: Sources | None) -> ModuleType:
    """The module from the store.  A warm process reads no sources; their content decides about building."""
    from pypto.runtime import load, store, toolchain

    place = store.default_store()
    sources = sources or _own_sources()
    parts, here = _asked(tools or toolchain.find_compiler(place), sources)
    entry = place.lookup(here, (_FILE,), counted=False)
    if entry is None:
        built = entry = _built(place, parts)
        if sources.hold():

            def copy(staging: str) -> None:
                with open(f"{staging}/{_FILE}", "wb") as file:
                    file.write(built.read(_FILE))

            entry = place.build_once(here, copy, (_FILE,), label="the launcher", counted=False)
    return load.load_verified(entry, _FILE, _import)


def _asked(tools: Toolchain, sources: Sources) -> tuple[dict[str, object], bytes]:
    """What decides about the launcher beside its sources, and the record of the one of this installation."""
    import importlib.machinery

    from pypto.runtime.record import Record

    parts: dict[str, object] = {
        "kind": "launcher",
        "units": _UNITS,
        "python": importlib.machinery.EXTENSION_SUFFIXES[0],
        "toolchain": dict(tools.identity),
    }
    return parts, Record({**parts, "installation": sources.identity}).encoded


def _import(path: str) -> ModuleType:
    import importlib.machinery

    loader = importlib.machinery.ExtensionFileLoader(_MODULE, path)
    module = loader.create_module(importlib.machinery.ModuleSpec(_MODULE, loader, origin=path))
    loader.exec_module(module)
    return module


def _stamps() -> tuple[tuple[str, int, int, int], ...]:
    """Path, size, time and inode of each source."""
    sources = [f"{_PACKAGE}/csrc/{name}" for name in sorted(os.listdir(f"{_PACKAGE}/csrc"))]
    found = []
    for path in (*sources, f"{_PACKAGE}/include/pypto_abi.h"):
        status = os.stat(path)
        found.append((path, status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(found)


def _own_sources() -> Sources:
    stamps = _stamps()
    return Sources(stamps, lambda: _stamps() == stamps)


def _built(place: Store, parts: dict[str, object]) -> Entry:
    """The module that these very sources give, which another installation may have built already."""
    from pypto.runtime import build, toolchain
    from pypto.runtime.record import Record, sha256

    headers = _python_headers()
    sources = {}
    for path, *_ in _stamps():
        with open(path, "rb") as file:
            sources[os.path.relpath(path, _PACKAGE)] = file.read()
    content = {name: sha256(text) for name, text in sources.items()}
    record = Record({**parts, "sources": content}).encoded

    def compile_into(staging: str) -> None:
        tools, folders = toolchain.find_compiler(place), (f"{_PACKAGE}/csrc", f"{_PACKAGE}/include", *headers)
        # Compilers that nobody knows get no flags of their own.
        units = {n: (sources[f"csrc/{n}"], () if tools.family == "other" else flags) for n, flags in _UNITS.items()}
        objects = build.compile_objects(tools, units, staging, folders)
        build.compile_shared(tools, objects, staging, _FILE)
        for name in objects:
            os.unlink(f"{staging}/{name}")

    return place.lookup(record, (_FILE,), counted=False) or place.build_once(
        record, compile_into, (_FILE,), label="the launcher", counted=False
    )


def _python_headers() -> tuple[str, ...]:
    """The folders with Python.h and pyconfig.h; ToolchainError where Python came without."""
    import sysconfig

    paths = sysconfig.get_paths()
    folders = tuple(dict.fromkeys((paths["include"], paths["platinclude"])))
    if not any(os.path.isfile(f"{folder}/Python.h") for folder in folders):
        raise ToolchainError(f"Python.h is not in {folders[0]}", hint="install the headers of this Python (Debian: python3-dev)")
    return folders


def configure_native(module: ModuleType) -> bool:
    """Gives a freshly loaded C launcher its hooks; False where numpy's arrays are not what it assumes."""
    if not module.self_test(_probes()):
        return False
    module.configure(
        ndarray=np.ndarray,
        adapt=_adapt,
        direct=None,
        numpy="numpy",
        exchange=None,
        plain=_plain,
        prepare=prepare,
        zeros=np.zeros,
        reject=_reject,
        fault=raise_fault,
        missing=MISSING,
        threads=_threads,
        context_var=None,
    )
    return True


def _adapt(obj: object) -> Any:
    """As `adapt`; torch's tensors are left to the launcher from the second one on, as their own method does the same."""
    found = adapt(obj)
    cls = type(obj)
    if found is not None and _native and _native[0] is not None and is_torch(cls):
        _native[0].configure(direct=cls, exchange=_exchange(cls))
    return found


def _exchange(cls: type) -> tuple[Any, tuple[tuple[int, int, Any], ...]] | None:
    """The C functions by which a class's library describes its tensors, and the dtypes in DLPack's numbers; None without."""
    table = getattr(cls, "__dlpack_c_exchange_api__", None)
    if table is None:
        return None
    from pypto.runtime.dlpack import loaded_dtypes

    return table, tuple((code, bits, dtype) for (code, bits), dtype in loaded_dtypes().items())


def prepare(plan: KernelPlan) -> tuple[Any, ...]:
    """The plan as entry_read.c takes it apart: numbers, numpy type numbers and dtype objects only."""
    visible = plan.visible()
    arrays = [i for i, p in enumerate(plan.params) if isinstance(p, TensorParam)]
    place = {i: n for n, i in enumerate(arrays)}
    tensors, scalars = [], []
    for i, p in enumerate(plan.params):
        if isinstance(p, TensorParam):
            dtype = p.dtype.numpy()
            index = -1 if p.hidden else i
            tensors.append((index, p.direction != "in", dtype.itemsize, dtype, type_numbers(p.dtype), p.dims))
        else:
            scalars.append(_prepare_scalar(i, p))
    scalars.sort(key=lambda s: s[-1] is not None)  # as `bind_check`: the kernel knows nothing of those with one value
    returns = None if plan.returns is None else tuple(i if i < len(visible) else len(visible) - 1 - i for i in plan.returns)
    return (
        len(visible),
        len(plan.symbols),
        tuple(tensors),
        tuple(scalars),
        tuple((place[a], place[b], same) for a, b, same in plan.pairs()),
        returns,
        plan.scratch_bytes,
        plan.work >= HEAVY_BYTES,
        HEAVY_BYTES,
    )


def _prepare_scalar(index: int, p: ScalarParam) -> tuple[Any, ...]:
    is_integer = p.dtype.is_int()
    low, high = limits(p.dtype) if is_integer else (0, 1)
    return index, p.dtype.is_float(), low, high, None if p.static is None else slot(p.static)


def raise_fault(kept: Kept, index: int, values: tuple[int, int, int, int]) -> NoReturn:
    """Raises what a kernel reported: site `index` of its plan with the values that explain it; -1 is missing scratch memory."""
    plan = kept.plan
    if index == -1:
        what = f"{plan.name}: {values[0]} bytes of scratch memory cannot be had"
        raise KernelError(what, hint="work on smaller tensors, or free memory")
    if not 0 <= index < len(plan.sites):
        raise InternalError(f"{plan.name}: the kernel reported site {index} of {len(plan.sites)}")
    site = plan.sites[index]
    kind = KernelBoundsError if site.kind == "bounds" else KernelError
    what, _, remedy = site.message.format(*values).partition("\n")
    raise kind(f"{plan.name}: {what}", kept.locate(site), remedy or None)


def _threads() -> int:
    asked = NUM_THREADS.get()
    if asked:
        return asked
    from pypto.runtime.cpus import available_cpus

    return available_cpus()


# `validate` is for what the C module does not understand: it loads when there is such a thing.


def _plain(obj: object) -> bool | int | float | None:
    from pypto.runtime.validate import plain_scalar

    return plain_scalar(obj)


def _reject(plan: KernelPlan, args: tuple[Any, ...]) -> NoReturn:
    from pypto.runtime.validate import bind_check

    bind_check(plan, args)
    raise InternalError(f"{plan.name}: the launcher refuses arguments that validation accepts")


def _probes() -> list[tuple[Any, ...]]:
    """Real arrays with what numpy itself says of them: what can differ in the part that is read differs among them."""
    arrays: list[Any] = [np.zeros((3, 5), t) for t in "?qe"]
    if "ml_dtypes" in sys.modules:  # not worth its import: an array's layout does not depend on its elements
        arrays.append(np.zeros((2, 3), DataType.BF16.numpy()))
    base = np.zeros((4, 6), np.float32)
    arrays += [base[:, ::2], base.T, np.zeros(4, ">f4"), np.zeros((0, 7), np.int32), np.zeros((), np.float64)]
    arrays.append(np.frombuffer(bytes(17), np.float32, 4, 1))
    found = []
    for a in arrays:
        address = a.__array_interface__["data"][0]
        flags = a.flags
        dtype = a.dtype
        row = (a, address, a.shape, dtype, dtype.num, not dtype.isnative, flags.c_contiguous, flags.aligned, flags.writeable)
        found.append(row)
    return found
