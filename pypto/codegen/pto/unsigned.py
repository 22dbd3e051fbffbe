"""Arithmetic on unsigned scalars: `arith` knows signless integers only.

In: values of unsigned types.  Out: the same, computed on the bits by the operations that take them as unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pypto.codegen.pto.text import Value
from pypto.dtypes import DataType
from pypto.errors import NotSupportedError
from pypto.ir import scalar
from pypto.ir.expr import BinaryExpr

if TYPE_CHECKING:
    from pypto.codegen.pto.scalars import Scalars

__all__ = ["from_unsigned", "to_signless", "to_unsigned", "unsigned"]

Let = Callable[[str, str], Value]
_PLAIN = {
    scalar.Add: "addi",
    scalar.Sub: "subi",
    scalar.Mul: "muli",
    scalar.Min: "minui",
    scalar.Max: "maxui",
    scalar.BitAnd: "andi",
    scalar.BitOr: "ori",
    scalar.BitXor: "xori",
}
# a < b as: the greater one of two is not the first; and so on.
_COMPARE = {scalar.Lt: ("ne", 0), scalar.Ge: ("eq", 0), scalar.Gt: ("ne", 1), scalar.Le: ("eq", 1)}


def to_signless(let: Let, v: Value) -> Value:
    """The bits of a value that may be unsigned."""
    if not v.type.startswith("ui"):
        return v
    plain = v.type.removeprefix("u")
    return let(f"builtin.unrealized_conversion_cast {v.name} : {v.type} to {plain}", plain)


def to_unsigned(let: Let, v: Value, type_: str) -> Value:
    """Bits as a value of an unsigned type."""
    return let(f"builtin.unrealized_conversion_cast {v.name} : {v.type} to {type_}", type_)


def from_unsigned(let: Let, v: Value, source: DataType, target: DataType) -> tuple[Value, DataType]:
    """The number as a value of a signed type or a float, on the way to `target`; and that type."""
    plain = to_signless(let, v)
    if target.is_float():
        name = "f32" if target is DataType.FP32 else "bf16" if target is DataType.BF16 else "f16"
        return let(f"arith.uitofp {plain.name} : {plain.type} to {name}", name), target
    if source.get_bit() == 64:
        return plain, DataType.INT64
    return let(f"arith.extui {plain.name} : {plain.type} to i64", "i64"), DataType.INT64


def unsigned(to: Scalars, kind: type[BinaryExpr], left: Value, right: Value, e: BinaryExpr) -> Value:
    """`left kind right` of one unsigned type; a comparison gives i1."""
    a, b = to_signless(to.let, left), to_signless(to.let, right)
    if kind in (scalar.Eq, scalar.Ne):
        return to.let(f"arith.cmpi {'eq' if kind is scalar.Eq else 'ne'}, {a.name}, {b.name} : {a.type}", "i1")
    if kind in _COMPARE:
        greater = to.let(f"arith.maxui {a.name}, {b.name} : {a.type}", a.type).name
        predicate, which = _COMPARE[kind]
        return to.let(f"arith.cmpi {predicate}, {greater}, {(a, b)[which].name} : {a.type}", "i1")
    if kind in (scalar.FloatDiv, scalar.FloorDiv, scalar.FloorMod):
        made = _quotient(to, kind is scalar.FloorMod, a, b)
    elif kind in (scalar.BitShiftLeft, scalar.BitShiftRight):
        made = _shift(to, "shli" if kind is scalar.BitShiftLeft else "shrui", a, b)
    elif kind in _PLAIN:
        made = to.let(f"arith.{_PLAIN[kind]} {a.name}, {b.name} : {a.type}", a.type)
    else:
        raise NotSupportedError(f"{kind.__name__} of unsigned scalars has no .pto form", e.span, "compute in a signed type")
    return to_unsigned(to.let, made, left.type)


def _quotient(to: Scalars, rest: bool, a: Value, b: Value) -> Value:
    """x / 0 and x % 0 are 0."""
    zero, one = (to.text.integer(n, a.type).name for n in (0, 1))
    none = to.let(f"arith.cmpi eq, {b.name}, {zero} : {a.type}", "i1").name
    divisor = to.let(f"arith.select {none}, {one}, {b.name} : {a.type}", a.type).name
    made = to.let(f"arith.divui {a.name}, {divisor} : {a.type}", a.type)
    if rest:
        whole = to.let(f"arith.muli {made.name}, {divisor} : {a.type}", a.type).name
        made = to.let(f"arith.subi {a.name}, {whole} : {a.type}", a.type)
    return to.let(f"arith.select {none}, {zero}, {made.name} : {a.type}", a.type)


def _shift(to: Scalars, name: str, a: Value, b: Value) -> Value:
    """By the width or more, everything goes out."""
    zero, last = to.text.integer(0, a.type).name, to.text.integer(int(a.type[1:]) - 1, a.type).name
    greater = to.let(f"arith.maxui {b.name}, {last} : {a.type}", a.type).name
    inside = to.let(f"arith.cmpi eq, {greater}, {last} : {a.type}", "i1").name
    by = to.let(f"arith.select {inside}, {b.name}, {zero} : {a.type}", a.type).name
    made = to.let(f"arith.{name} {a.name}, {by} : {a.type}", a.type)
    return to.let(f"arith.select {inside}, {made.name}, {zero} : {a.type}", a.type)
