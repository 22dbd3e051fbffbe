"""The launcher without a compiler: Entry, Dispatcher, install and configure with the behaviour of the C module, by ctypes.

In: the same arguments as `pypto_launcher` takes.  Out: the same results, tens of microseconds later.  Invariant: what
fits, what is refused and what the float environment is around a kernel agree with the C module; one test file runs over both.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import CellType
from typing import Any

import numpy as np

from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime.arrays import Array, adapt
from pypto.runtime.plan import HEAVY_BYTES, MISSING, KernelPlan, TensorParam
from pypto.runtime.validate import PreparedCall, bind_check

__all__ = ["Dispatcher", "Entry", "configure", "install"]


class _Hooks:
    """What `configure` sets, as in the C module."""

    context_var: ContextVar[object] | None = None
    fault: Callable[[Any, int, tuple[int, int, int, int]], object]


def configure(**hooks: Any) -> None:
    """`fault(keepalive, site, values)` raises what a kernel reported; `context_var`, or None, holds the token entries ask for."""
    for name, hook in hooks.items():
        setattr(_Hooks, name, hook)


class _Arena(ctypes.Structure):
    _ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    _MARK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    _RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    _fields_ = (
        ("base", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("alloc", _ALLOC),
        ("mark", _MARK),
        ("release", _RELEASE),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("scalars", ctypes.POINTER(ctypes.c_int64)),
        ("arena", ctypes.POINTER(_Arena)),
        ("fault", ctypes.c_int64 * 4),
        ("parallel", ctypes.c_void_p),  # NULL: one thread
    )


_LIGHT = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.POINTER(_Call))
_HEAVY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(_Call))
_ALIGNMENT = 64


def _aligned(size: int) -> tuple[int, Array]:
    """An address that is a multiple of 64 with `size` bytes, and what keeps them alive."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start: int = memory.__array_interface__["data"][0]
    return -(-start // _ALIGNMENT) * _ALIGNMENT, memory


class _ThreadArena(threading.local):
    """One thread's scratch memory: the base never shrinks, the rest ends with each call."""

    def __init__(self) -> None:
        self.base: Array | None = None
        self.blocks: list[Array] = []
        self.record = _Arena(None, 0, _Arena._ALLOC(self._alloc), _Arena._MARK(self._mark), _Arena._RELEASE(self._release))

    def _alloc(self, _: int, size: int) -> int | None:
        # An exception could not pass through the kernel's frames.
        try:
            address, memory = _aligned(size) if size >= 0 else (None, None)
        except (MemoryError, ValueError):
            return None
        if memory is not None:
            self.blocks.append(memory)
        return address

    def _mark(self, _: int) -> int:
        return len(self.blocks)

    def _release(self, _: int, mark: int) -> None:
        del self.blocks[mark:]

    def ready(self, scratch: int) -> _Arena | None:
        """The record to hand to a kernel, None where that much memory cannot be had."""
        if self.record.size < scratch:
            self.record.size = 0
            try:
                self.record.base, self.base = _aligned(scratch)
            except (MemoryError, ValueError):
                return None
            self.record.size = scratch
        return self.record


_arena = _ThreadArena()


class _FloatEnvironment:
    """The C library's view of it.  Around a kernel: round to nearest, nothing flushed, no trap; after it, as it was."""

    def __init__(self) -> None:
        library = ctypes.PyDLL(None)
        self.get, self.set = library.fegetenv, library.fesetenv
        self.get.argtypes = self.set.argtypes = (ctypes.c_void_p,)
        if sys.platform == "darwin":
            self.default = ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
        else:
            self.default = ctypes.c_void_p(-1).value or 0

    def around(self, function: Callable[[Any], int], call: _Call) -> int:
        saved = ctypes.create_string_buffer(512)  # more than any C library's fenv_t
        self.get(saved)
        self.set(self.default)
        try:
            return function(ctypes.byref(call))
        finally:
            self.set(saved)


_floats = _FloatEnvironment()


class Entry:
    """A kernel ready to call; see the C module."""

    __slots__ = ("_function", "context_token", "guards", "keepalive", "plan")

    def __init__(
        self,
        plan: KernelPlan,
        address: int,
        keepalive: Any,
        guards: tuple[tuple[Any, ...], ...] = (),
        context_token: object = None,
    ) -> None:
        if not address:
            raise ValueError("Entry: no address")
        for guard in guards:
            _check_guard(guard)
        self.plan, self.keepalive, self.guards, self.context_token = plan, keepalive, guards, context_token
        self._function = (_LIGHT(address), _HEAVY(address))

    def call(self, args: tuple[Any, ...]) -> object:
        """Run with bound arguments, whatever the guards say; raises where they do not fit."""
        return self.run(bind_check(self.plan, args))

    def run(self, prepared: PreparedCall) -> object:
        arena = _arena.ready(self.plan.scratch_bytes)
        if arena is None:
            self._report(-1, (self.plan.scratch_bytes, 0, 0, 0))
        call = _Call(
            (ctypes.c_void_p * len(prepared.pointers))(*prepared.pointers),
            (ctypes.c_int64 * len(prepared.dims))(*prepared.dims),
            (ctypes.c_int64 * len(prepared.scalars))(*prepared.scalars),
            ctypes.pointer(arena),
        )
        heavy = self.plan.work >= HEAVY_BYTES or sum(a.nbytes for a in prepared.arrays) >= HEAVY_BYTES
        try:
            status = _floats.around(self._function[heavy], call)
        finally:
            _arena.blocks.clear()
        if status:
            self._report(status - 1, tuple(call.fault))
        return prepared.result

    def _report(self, site: int, values: tuple[int, ...]) -> None:
        _Hooks.fault(self.keepalive, site, values)  # type: ignore[arg-type]
        raise SystemError("fault() did not raise")


def _check_guard(guard: tuple[Any, ...]) -> None:
    fits = {
        "global": lambda g: len(g) == 4 and type(g[1]) is dict and type(g[2]) is str,
        "cell": lambda g: len(g) == 3 and isinstance(g[1], CellType),
        "call": lambda g: len(g) == 2 and callable(g[1]),
    }
    if not isinstance(guard, tuple) or not guard or not fits.get(guard[0], lambda g: False)(guard):
        raise TypeError(f"Entry: {guard!r} is no guard")


def _holds(guard: tuple[Any, ...]) -> bool:
    kind, subject, *rest = guard
    if kind == "call":
        return bool(subject())
    if kind == "global":
        return subject.get(rest[0], MISSING) is rest[1]
    try:
        content = subject.cell_contents
    except ValueError:
        content = MISSING
    return content is rest[0]


class Dispatcher:
    """Calls the entry that fits, or `slow(args, kwargs)`; see the C module."""

    def __init__(
        self,
        slow: Callable[[tuple[Any, ...], dict[str, Any]], object],
        names: tuple[str, ...],
        defaults: tuple[Any, ...],
        positional_only: int = 0,
        keyword_only: int = 0,
    ) -> None:
        if len(names) != len(defaults) or min(positional_only, keyword_only) < 0 or positional_only + keyword_only > len(names):
            raise ValueError("Dispatcher: names, defaults and counts do not agree")
        self._slow, self._names, self._defaults = slow, names, defaults
        self._keywords = names[positional_only:]
        self._positional = len(names) - keyword_only
        self._kinds: tuple[bool, ...] | None = None
        # Entries of one set of shapes, and under None those whose shapes vary; the one used last first.
        self._entries: dict[tuple[tuple[int, ...], ...] | None, list[Entry]] = {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> object:
        bound = self._bind(args, kwargs) if self._entries else None
        if bound is not None:
            token = None if _Hooks.context_var is None else _Hooks.context_var.get(None)
            for key, entry in self._candidates(bound):
                if entry.context_token is not token:
                    continue
                prepared = _prepared(entry, bound)
                if prepared is None:
                    continue
                self._to_front(key, entry)
                return entry.run(prepared)
        return self._slow(args, kwargs)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def add(self, entry: Entry) -> None:
        """Try this entry first from now on."""
        if not isinstance(entry, Entry):
            raise TypeError(f"add() takes an Entry, not {entry!r}")
        visible = entry.plan.visible()
        kinds = tuple(isinstance(p, TensorParam) for p in visible)
        if len(kinds) != len(self._names) or self._kinds not in (None, kinds):
            raise ValueError("the entry has other parameters than the dispatcher")
        self._kinds = kinds
        shapes = tuple(p.dims for p in visible if isinstance(p, TensorParam))
        self._entries.setdefault(None if any(d < 0 for s in shapes for d in s) else shapes, []).insert(0, entry)

    def clear(self) -> None:
        """Forget all entries."""
        self._entries = {}

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """The arguments in order, None where Python would have a complaint to make."""
        if len(args) > self._positional or not kwargs.keys() <= set(self._keywords) - set(self._names[: len(args)]):
            return None
        rest = range(len(args), len(self._names))
        bound = (*args, *(kwargs.get(self._names[i], self._defaults[i]) for i in rest))
        return None if any(value is MISSING for value in bound) else bound

    def _candidates(self, bound: tuple[Any, ...]) -> Iterator[tuple[tuple[tuple[int, ...], ...] | None, Entry]]:
        shapes = []
        for value, is_tensor in zip(bound, self._kinds or (), strict=True):
            if is_tensor:
                array = value if type(value) is np.ndarray else adapt(value)
                if array is None:
                    return
                shapes.append(array.shape)
        for key in (tuple(shapes), None):
            for entry in tuple(self._entries.get(key, ())):
                yield key, entry

    def _to_front(self, key: tuple[tuple[int, ...], ...] | None, entry: Entry) -> None:
        chain = self._entries.get(key, [])
        if entry in chain and chain[0] is not entry:
            chain.remove(entry)
            chain.insert(0, entry)


def _prepared(entry: Entry, bound: tuple[Any, ...]) -> PreparedCall | None:
    """The call, None where arguments or guards say no."""
    prepared = _fitting(entry.plan, bound)
    if prepared is None or not all(map(_holds, entry.guards)):
        return None
    # A guard that is called may have moved the memory of an array.
    return _fitting(entry.plan, bound) if any(g[0] == "call" for g in entry.guards) else prepared


def _fitting(plan: KernelPlan, bound: tuple[Any, ...]) -> PreparedCall | None:
    try:
        return bind_check(plan, bound)
    except (ArgumentTypeError, ArgumentValueError):
        return None


def install(cls: type, slot: str, word: str) -> None:
    """Calls of instances go to the Dispatcher in `slot`, or to `_call_slow` where there is none; `word` stays unused."""
    for name in (slot, word):
        if type(cls.__dict__.get(name)).__name__ != "member_descriptor":
            raise TypeError(f"install(): {name!r} is no slot of {cls!r}")

    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> object:
        dispatcher = getattr(self, slot, None)
        if not isinstance(dispatcher, Dispatcher):
            return self._call_slow(*args, **kwargs)
        return dispatcher(*args, **kwargs)

    setattr(cls, "__call__", __call__)  # noqa: B010
