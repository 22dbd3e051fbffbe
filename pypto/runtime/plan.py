"""The launch plan of a compiled kernel: what a caller must check and pass before it may jump to the entry point.

In: what the compiler knows of a kernel's parameters.  Out: one immutable value, stored beside the kernel as bytes,
from which every dispatcher works.  Invariant: a plan that `from_bytes` returns, or that `check` accepts, is complete
and consistent, so that no dispatcher has to doubt an index, a symbol or a message template.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Literal

from pypto.dtypes import DataType
from pypto.errors import InternalError, SerializationError
from pypto.named import NamedTuple

__all__ = [
    "HEAVY_BYTES",
    "MISSING",
    "KernelPlan",
    "Param",
    "ScalarParam",
    "Site",
    "TensorParam",
    "check",
    "limits",
    "problem",
    "slot",
]

SCHEMA = 1
# A call that touches as much memory releases the interpreter's lock while its kernel runs: some 20 microseconds of
# work, against the tenth of one that giving the lock back and forth costs where nobody else wants it.
HEAVY_BYTES = 1 << 18


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


# Stands for the default of a parameter that has none, and for a global or cell content that a guard wants absent.
MISSING = _Missing()

_DIRECTIONS = ("in", "out", "inout")
_SITE_KINDS = ("bounds", "empty", "memory", "value")
_MAX_RANK = 32  # numpy's own limit before version 2
_INT64 = 1 << 63


class TensorParam(NamedTuple):
    """An array: its element type, and per axis a static extent (>= 0) or -1-k for symbol k of the plan.

    A hidden one is no argument: the caller makes it, zero-filled, for a result that no parameter stands for.
    """

    name: str
    dtype: DataType
    dims: tuple[int, ...]
    direction: Literal["in", "out", "inout"]
    hidden: bool = False


class ScalarParam(NamedTuple):
    """A number.  With `static`, the kernel was built for exactly this value and fits no other; its slot follows all others."""

    name: str
    dtype: DataType
    static: int | float | None = None


Param = TensorParam | ScalarParam
Number = bool | int | float


class Site(NamedTuple):
    """A place that can fail while the kernel runs: what to say, and the statement of the kernel's source it stands for.

    `message` is a format template over `{0}` to `{3}`, the values that the kernel left to explain the failure; a second
    line of it is the remedy.
    """

    kind: Literal["bounds", "empty", "memory", "value"]
    message: str
    source: int
    ordinal: int


class KernelPlan(NamedTuple):
    """Everything needed to call one kernel.

    name: what errors call it.  params: in the order of the signature, hidden outputs last.  symbols: names of the
    run-time extents.  aliases: pairs of parameter indices (lower first) that may be exactly the same array.  returns:
    the parameters a call hands back; one index is that array itself, several a tuple, None is None.
    scratch_bytes: what the arena must hold at entry.  work: static estimate of bytes touched.  sites: what can fail.
    """

    name: str
    params: tuple[Param, ...]
    symbols: tuple[str, ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()
    returns: tuple[int, ...] | None = None
    scratch_bytes: int = 0
    work: int = 0
    sites: tuple[Site, ...] = ()

    def visible(self) -> tuple[Param, ...]:
        """The parameters that a caller passes."""
        return tuple(p for p in self.params if not (isinstance(p, TensorParam) and p.hidden))

    def pairs(self) -> tuple[tuple[int, int, bool], ...]:
        """The arguments whose memory must not overlap, and whether each pair may be exactly the same array."""
        arrays = [(i, p) for i, p in enumerate(self.visible()) if isinstance(p, TensorParam)]
        found = []
        for n, (i, p) in enumerate(arrays):
            for j, q in arrays[n + 1 :]:
                inputs = (p.direction == "in") + (q.direction == "in")
                if inputs < 2:
                    same = inputs == 1 and p.dtype is q.dtype and (i, j) in self.aliases
                    found.append((i, j, same))
        return tuple(found)

    def to_bytes(self) -> bytes:
        """The stored form; equal plans give equal bytes."""
        import msgpack  # type: ignore[import-untyped]

        check(self)
        params = [_pack_param(p) for p in self.params]
        packed: bytes = msgpack.packb([SCHEMA, self.name, params, *self[2:7], [tuple(s) for s in self.sites]])
        return packed

    @staticmethod
    def from_bytes(data: bytes) -> KernelPlan:
        """The plan these bytes stand for; SerializationError for anything that `to_bytes` cannot have written."""
        import msgpack

        try:
            record = msgpack.unpackb(data, use_list=False, strict_map_key=True)
        # msgpack documents no common base of what it raises for bad input, hence the wide net.
        except Exception as e:
            raise SerializationError(f"a launch plan that cannot be read: {e}") from None
        if not _is(record, tuple) or not record or not _is(record[0], int) or record[0] != SCHEMA:
            raise SerializationError(f"a launch plan of another version (this one reads version {SCHEMA})")
        try:
            plan = _unpack(record)
        except (TypeError, ValueError, KeyError, IndexError) as e:
            raise SerializationError(f"a launch plan that is not well formed: {e}") from None
        fault = problem(plan)
        if fault is not None:
            raise SerializationError(f"a launch plan that is not consistent: {fault}")
        return plan


def _pack_param(p: Param) -> tuple[object, ...]:
    if isinstance(p, TensorParam):
        return ("t", p.name, p.dtype.code(), p.dims, p.direction, p.hidden)
    return ("s", p.name, p.dtype.code(), p.static)


def _unpack(record: tuple[Any, ...]) -> KernelPlan:
    _, name, params, symbols, aliases, returns, scratch, work, sites = record
    return KernelPlan(
        name, tuple(map(_unpack_param, params)), symbols, aliases, returns, scratch, work, tuple(Site(*s) for s in sites)
    )


def _unpack_param(record: tuple[Any, ...]) -> Param:
    tag, name, code, *rest = record
    if not _is(code, int):
        raise ValueError(f"element type {code!r}")
    if tag not in ("t", "s"):
        raise ValueError(f"parameter tag {tag!r}")
    dtype = DataType.from_code(code)
    return TensorParam(name, dtype, *rest) if tag == "t" else ScalarParam(name, dtype, *rest)


def check(plan: KernelPlan) -> None:
    """InternalError where the plan breaks its own rules."""
    fault = problem(plan)
    if fault is not None:
        raise InternalError(f"launch plan of {plan.name!r}: {fault}")


def problem(plan: KernelPlan) -> str | None:
    """What is wrong with a plan whose fields may hold anything at all; None where nothing is."""
    if not _is(plan.name, str):
        return "the name is not text"
    if not _tuple_of(plan.symbols, str):
        return "a symbol is not text"
    if not (_count(plan.scratch_bytes) and _count(plan.work)):
        return "a size is not a count"
    return _params_problem(plan) or _pairs_problem(plan) or _sites_problem(plan)


def _params_problem(plan: KernelPlan) -> str | None:
    seen: set[str] = set()
    known: set[int] = set()
    hidden = False
    for p in plan.params:
        if not _is(p.name, str) or p.name in seen:
            return f"parameter name {p.name!r} is no name or not unique"
        seen.add(p.name)
        fault = _tensor_problem(p, len(plan.symbols)) if isinstance(p, TensorParam) else _scalar_problem(p)
        if fault is not None:
            return f"parameter {p.name!r}: {fault}"
        if isinstance(p, TensorParam) and p.hidden:
            hidden = True
        elif hidden:
            return f"parameter {p.name!r} follows a hidden one"
        elif isinstance(p, TensorParam):
            known.update(-1 - d for d in p.dims if d < 0)
    return None if len(known) == len(plan.symbols) else "a symbol that no argument determines"


def _tensor_problem(p: TensorParam, symbols: int) -> str | None:
    if not _tuple_of(p.dims, int) or len(p.dims) > _MAX_RANK or not all(-symbols <= d < _INT64 for d in p.dims):
        return f"extents {p.dims!r}"
    if p.direction not in _DIRECTIONS or not _is(p.hidden, bool) or (p.hidden and p.direction != "out"):
        return f"direction {p.direction!r}, hidden {p.hidden!r}"
    return None


def _scalar_problem(p: ScalarParam) -> str | None:
    if not (p.dtype.is_float() or p.dtype.is_int() or p.dtype is DataType.BOOL):
        return f"no scalar can be {p.dtype.name}"
    if p.static is None:
        return None
    wanted = float if p.dtype.is_float() else bool if p.dtype is DataType.BOOL else int
    if not _is(p.static, wanted) or (wanted is int and not limits(p.dtype)[0] <= p.static <= limits(p.dtype)[1]):
        return f"static value {p.static!r} of a {p.dtype.name}"
    return None


def limits(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = dtype.get_bit()
    return (0, (1 << bits) - 1) if dtype.is_unsigned_int() else (-(1 << bits - 1), (1 << bits - 1) - 1)


def slot(value: Number) -> int:
    """The 8 bytes that carry a scalar into a kernel, as a signed integer: a float's bits as a double, an integer's own."""
    form = "<d" if type(value) is float else "<Q" if value > 0 else "<q"
    number: int = struct.unpack("<q", struct.pack(form, value))[0]
    return number


def _pairs_problem(plan: KernelPlan) -> str | None:
    tensors = {i for i, p in enumerate(plan.params) if isinstance(p, TensorParam)}
    if not _is(plan.aliases, tuple) or not all(_tuple_of(a, int) and len(a) == 2 for a in plan.aliases):
        return "an alias that is no pair"
    if not all(a < b and {a, b} <= tensors for a, b in plan.aliases):
        return "an alias of what are not two arrays"
    if plan.returns is not None and not (_tuple_of(plan.returns, int) and plan.returns and set(plan.returns) <= tensors):
        return f"returns {plan.returns!r}"
    return None


def _sites_problem(plan: KernelPlan) -> str | None:
    for s in plan.sites:
        if s.kind not in _SITE_KINDS or not _is(s.message, str) or not (_is(s.source, int) and _is(s.ordinal, int)):
            return f"site {tuple(s)!r}"
        if not _plain_template(s.message):
            return f"message {s.message!r} asks for more than the values 0 to 3"
    return None


def _plain_template(message: str) -> bool:
    """Only `{0}` to `{3}`: a template that reached into its values could not be trusted to a file."""
    import string

    try:
        fields = [(name, spec, convert) for _, name, spec, convert in string.Formatter().parse(message) if name is not None]
    except ValueError:
        return False
    return all(name in ("0", "1", "2", "3") and not spec and not convert for name, spec, convert in fields)


def _is(value: object, kind: type) -> bool:
    # Exact, because True must not pass for 1: they are different bytes.
    return type(value) is kind


def _tuple_of(values: Iterable[object], kind: type) -> bool:
    return _is(values, tuple) and all(_is(v, kind) for v in values)


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < _INT64
