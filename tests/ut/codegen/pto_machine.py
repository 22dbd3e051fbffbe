"""Runs `.pto` text: functions on numpy arrays and numbers, with one memory of bytes for each place on the chip.

In: a parsed function and its arguments.  Out: nothing; arrays are changed in place.  Written from the description of the
text alone: it shares nothing with what prints it.
Invariant: an allocation with an address lies there, and one without in a memory of its own; what the description does
not define (empty operations, extents that differ, overlaps) is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pto_instructions import execute
from pto_memory import DTYPES, Handle, MachineError, Pointer, handle_at, strided
from pto_pipes import PipeMachine
from pto_syntax import Func, Op, Region
from pto_types import array_of, tile_of

from pypto.debug.memory import Arena
from pypto.debug.scalars import cast, fit
from pypto.span import Span

__all__ = ["Machine"]

HIDDEN = ("%__pypto_spmd_block_idx", "%__pypto_spmd_block_num", "%__pypto_spmd_subblock_idx")
_TRIPS = 1 << 20


def _truncated(x: int, y: int) -> int:
    if y == 0:
        return 0
    q = abs(x) // abs(y)
    return -q if (x < 0) != (y < 0) else q


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "divsi": _truncated,
    "remsi": lambda x, y: x - _truncated(x, y) * y,
    "minsi": min,
    "maxsi": max,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "shli": lambda x, y: x << y,
    "shrsi": lambda x, y: x >> y,
}


def _divided(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


_FLOAT: dict[str, Callable[[float, float], float]] = {
    "addf": lambda x, y: x + y,
    "subf": lambda x, y: x - y,
    "mulf": lambda x, y: x * y,
    "divf": _divided,
    "maximumf": lambda x, y: x if x > y or math.isnan(x) else y,
    "minimumf": lambda x, y: x if x < y or math.isnan(x) else y,
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": lambda x, y: x // y if y else 0,
    "minui": min,
    "maxui": max,
    "shrui": lambda x, y: x >> y,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
_SIGNED = {"sitofp", "fptosi", "extsi", "trunci", "extf", "truncf", "index_cast", "unrealized_conversion_cast"}
_BITS = {8: "u1", 16: "u2", 32: "u4"}


class Machine(PipeMachine):
    """One execution of a function; `ends`: what it has of its group's pipes."""

    def __init__(self, f: Func, args: Sequence[Any], launch: Mapping[str, int], party: Any = None, ends: Any = None) -> None:
        self.f, self.party, self.ends = f, party, ends
        self.lane, self.opened, self.taken, self.slots = launch.get(HIDDEN[2], 0), {}, {}, []
        given = iter(args)
        self.values: dict[str, Any] = {n: launch[n] if n in HIDDEN else next(given) for n, _ in f.arguments}
        for name, value in list(self.values.items()):
            if isinstance(value, np.ndarray):
                self.values[name] = Pointer(value)
        self.arenas: dict[str, Arena] = {}
        self.executed: dict[str, int] = {}

    def run(self) -> None:
        self.region(self.f.body)

    def fail(self, op: Op, what: str) -> MachineError:
        return MachineError(f"{self.f.name}, line {op.line}: {op.name}: {what}")

    def region(self, region: Region, given: Sequence[Any] = ()) -> list[Any]:
        """Execute a region; what it yields."""
        for (name, _), value in zip(region.arguments, given, strict=False):
            self.values[name] = value
        for op in region.ops:
            if op.name in ("scf.yield", "scf.condition"):
                return [self.values[v] for v in op.operands]
            try:
                self.operation(op)
            except MachineError as e:
                raise e if f"{self.f.name}, line" in str(e) else self.fail(op, str(e)) from None
        return []

    def operation(self, op: Op) -> None:
        family, _, name = op.name.partition(".")
        method: Callable[[Op], Any] | None = getattr(self, f"on_{op.name.replace('.', '_')}", None)
        if method is not None:
            made = method(op)
        elif family == "pto":
            made = execute(op, [self.values[v] for v in op.operands], [self.values[v] for v in op.outs])
            self.executed[name] = self.executed.get(name, 0) + 1
        else:
            made = self.scalar(op, name, [self.values[v] for v in op.operands])
        if len(op.results) == 1:
            self.values[op.results[0]] = made
        elif op.results:
            self.values.update(zip(op.results, made, strict=True))

    # -- scalars --

    def on_arith_constant(self, op: Op) -> Any:
        text, type_ = op.attrs["value"], op.result_types[0]
        if type_.startswith("vector"):
            return None
        if type_ not in ("f32", "f16", "bf16"):
            return fit(int(text), DTYPES[type_])
        if text.startswith("0x"):
            dtype = DTYPES[type_]
            return float(np.array([int(text, 16)], _BITS[dtype.get_bit()]).view(dtype.numpy())[0])
        return fit(float(text), DTYPES[type_])

    def scalar(self, op: Op, name: str, args: list[Any]) -> Any:
        dtype = DTYPES[op.result_types[0]]
        if name in ("cmpi", "cmpf"):
            predicate = op.attrs["predicate"]
            return _COMPARE[predicate if predicate in _COMPARE else predicate[1:]](*args)
        if name in _INTEGER:
            if name.startswith("sh") and not 0 <= args[1] < dtype.get_bit():
                raise MachineError(f"a shift by {args[1]}")
            return fit(_INTEGER[name](*args), dtype)
        if name in _UNSIGNED:
            return fit(_UNSIGNED[name](*(x % (1 << dtype.get_bit()) for x in args)), dtype)
        if name in _FLOAT:
            return fit(_FLOAT[name](*args), dtype)
        if name in _SIGNED:
            source = DTYPES[op.types[0]]
            return cast(-args[0] if source.name == "BOOL" and name == "extsi" else args[0], source, dtype)
        if name in ("extui", "uitofp", "fptoui"):
            source = DTYPES[op.types[0]]
            if name == "fptoui":
                return fit(cast(args[0], source, DTYPES["u" + op.result_types[0]]), dtype)
            bits = int(args[0]) % (1 << source.get_bit()) if source.name != "BOOL" else int(args[0])
            return cast(bits, DTYPES[f"ui{max(source.get_bit(), 8)}"], dtype)
        if name in ("negf", "absf", "absi"):
            return fit(-args[0] if name == "negf" else abs(args[0]), dtype)
        if name == "select":
            return args[1] if args[0] else args[2]
        raise MachineError("unknown operation")

    # -- control flow --

    def on_scf_if(self, op: Op) -> Any:
        if not self.values[op.operands[0]] and len(op.regions) == 1:
            return []
        made = self.region(op.regions[0 if self.values[op.operands[0]] else 1])
        return made[0] if len(op.results) == 1 else made

    def on_scf_for(self, op: Op) -> Any:
        low, high, step, *carried = (self.values[v] for v in op.operands)
        for i in range(low, high, step):
            carried = self.region(op.regions[0], [i, *carried]) or carried
        return carried[0] if len(op.results) == 1 else carried

    def on_scf_while(self, op: Op) -> Any:
        carried = [self.values[v] for v in op.operands]
        for _ in range(_TRIPS):
            goes_on, *carried = self.region(op.regions[0], carried)
            if not goes_on:
                return carried[0] if len(op.results) == 1 else carried
            carried = self.region(op.regions[1], carried)
        raise MachineError(f"a loop of more than {_TRIPS} trips")

    # -- storage --

    def on_pto_alloc_tile(self, op: Op) -> Handle:
        t = tile_of(op.result_types[0])
        assert t is not None
        named = {k: self.values[v[0]] for k, v in op.groups.items()}
        valid = (named.get("valid_row", t.v_row), named.get("valid_col", t.v_col))
        if "addr" in named:
            return handle_at(op.results[0], t, self.arenas.setdefault(t.loc, Arena(t.loc)), named["addr"], valid)
        return handle_at(op.results[0], t, Arena(op.results[0]), 0, valid)

    def on_pto_set_validshape(self, op: Op) -> None:
        handle, rows, cols = (self.values[v] for v in op.operands)
        if not handle.own:
            raise MachineError("the extents of a window are set")
        handle.set_valid((rows, cols))

    def on_pto_subview(self, op: Op) -> Handle:
        source: Handle = self.values[op.operands[0]]
        t = tile_of(op.result_types[0])
        assert t is not None
        r, c = (self.values[v] for v in op.groups["offsets"])
        at = source.place.at
        if not (0 <= r <= at.shape[0] - t.rows and 0 <= c <= at.shape[1] - t.cols) or r % t.box[0] or c % t.box[1]:
            raise MachineError(f"the window of {t.shape} at {(r, c)} leaves {source.name}, which has {at.shape}")
        valid = [self.values[v] for v in op.groups["valid"]] or [t.v_row, t.v_col]
        if not all(0 < v <= n for v, n in zip(valid, t.shape, strict=True)):
            raise MachineError(f"a window of which {valid} are valid")
        cut = at[r : r + t.rows, c : c + t.cols]
        return Handle(op.results[0], t, source.arena, int(cut.min()), (valid[0], valid[1]), cut, own=False)

    def on_pto_treshape(self, op: Op) -> Handle:
        source: Handle = self.values[op.operands[0]]
        t = tile_of(op.result_types[0])
        assert t is not None
        base, size = source.base, source.tile.bytes
        if source.window is not None:
            size = int(source.window.max()) + source.tile.size - base
        if t.bytes != size or source.tile.bytes != size:
            raise MachineError(f"{source.name}, {size} bytes, is no {t.bytes} bytes without gaps")
        return handle_at(op.results[0], t, source.arena, base, (t.v_row or 0, t.v_col or 0))

    # -- between cores --

    def on_pto_syncall(self, op: Op) -> None:
        if self.party is not None:
            self.party.meet(Span.unknown())

    def on_pto_sync_set(self, op: Op) -> None:
        """Cores run one after the other."""

    on_pto_sync_wait = on_pto_set_ffts = on_pto_sync_set

    # -- arrays of scalars --

    def on_pto_declare_local_array(self, op: Op) -> list[Any]:
        t = array_of(op.result_types[0])
        assert t is not None
        return [None] * t[0]

    def on_pto_local_array_get(self, op: Op) -> Any:
        array, at = self._within(op)
        if array[at] is None:
            raise MachineError(f"element {at} is read before it is written")
        return array[at]

    def on_pto_local_array_set(self, op: Op) -> None:
        array, at = self._within(op)
        array[at] = fit(self.values[op.operands[2]], DTYPES[op.types[2]])

    def _within(self, op: Op) -> tuple[list[Any], int]:
        array, at = (self.values[v] for v in op.operands[:2])
        if not 0 <= at < len(array):
            raise MachineError(f"element {at} of {len(array)}")
        return array, at

    # -- global memory --

    def on_pto_make_tensor_view(self, op: Op) -> Any:
        shape, strides = (tuple(self.values[v] for v in op.groups[k]) for k in ("shape", "strides"))
        return strided(self.values[op.operands[0]], shape, strides)

    def on_pto_partition_view(self, op: Op) -> Any:
        whole = self.values[op.operands[0]]
        at, sizes = ([self.values[v] for v in op.groups[k]] for k in ("offsets", "sizes"))
        for o, n, m in zip(at, sizes, whole.shape, strict=True):
            if o < 0 or n <= 0 or o + n > m:
                raise MachineError(f"the part {at} of {sizes} leaves a tensor of {whole.shape}")
        return whole[tuple(slice(o, o + n) for o, n in zip(at, sizes, strict=True))]

    def on_pto_addptr(self, op: Op) -> Pointer:
        pointer, at = (self.values[v] for v in op.operands)
        return Pointer(pointer.array.reshape(-1)[at:])

    def on_pto_load_scalar(self, op: Op) -> Any:
        array, at = self._element(op.operands)
        return fit(array[np.unravel_index(at, array.shape)], DTYPES[op.result_types[0]])

    def on_pto_store_scalar(self, op: Op) -> None:
        array, at = self._element(op.operands[1:])
        array[np.unravel_index(at, array.shape)] = self.values[op.operands[0]]

    def _element(self, names: Sequence[str]) -> tuple[Any, int]:
        pointer, at = (self.values[v] for v in names)
        if not 0 <= at < pointer.array.size:
            raise MachineError(f"element {at} of {pointer.array.size}")
        return pointer.array, at
