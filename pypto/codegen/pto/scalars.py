"""Scalar expressions as `arith` operations.

In: IR scalar expressions.  Out: the SSA value of each, computed where it is used, of the expression's own type.
Invariant: the text computes what the expression means, where the instructions that exist alone would not: `//` and `%`
round down, x / 0 is 0, a shift by the width or more shifts everything out.  Where operands are known to need none of
this, the plain instruction stands.  Floats that no integer holds are the device's when they are converted.
"""

from __future__ import annotations

from pypto.codegen.pto.text import Text, Value
from pypto.codegen.pto.types import scalar_type
from pypto.codegen.pto.unsigned import from_unsigned, to_signless, to_unsigned, unsigned
from pypto.dtypes import DataType
from pypto.errors import InternalError, NotSupportedError
from pypto.ir import scalar
from pypto.ir.analyzer import Analyzer
from pypto.ir.expr import BinaryExpr, ConstBool, ConstFloat, ConstInt, Expr, UnaryExpr, Var
from pypto.ir.scalar import dtype_of

__all__ = ["Scalars"]

_INTEGERS = {
    scalar.Add: "addi",
    scalar.Sub: "subi",
    scalar.Mul: "muli",
    scalar.Min: "minsi",
    scalar.Max: "maxsi",
    scalar.BitAnd: "andi",
    scalar.BitOr: "ori",
    scalar.BitXor: "xori",
}
_FLOATS = {
    scalar.Add: "addf",
    scalar.Sub: "subf",
    scalar.Mul: "mulf",
    scalar.FloatDiv: "divf",
    scalar.Min: "minimumf",
    scalar.Max: "maximumf",
}
_QUOTIENTS = (scalar.FloatDiv, scalar.FloorDiv, scalar.FloorMod)
_SHIFTS = (scalar.BitShiftLeft, scalar.BitShiftRight)
_LOGIC = {scalar.And: "andi", scalar.Or: "ori", scalar.Xor: "xori"}
_SIGNED = {scalar.Eq: "eq", scalar.Ne: "ne", scalar.Lt: "slt", scalar.Le: "sle", scalar.Gt: "sgt", scalar.Ge: "sge"}
_ORDERED = {scalar.Eq: "oeq", scalar.Ne: "une", scalar.Lt: "olt", scalar.Le: "ole", scalar.Gt: "ogt", scalar.Ge: "oge"}


class Scalars:
    """Values of scalar expressions; `values` knows the variables, `known` what is known of their numbers."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.values: dict[Var, Value] = {}
        self.known = Analyzer()

    def value(self, e: Expr) -> Value:
        """An expression as an SSA value."""
        if isinstance(e, ConstInt):
            return self.integer(e.value, e.dtype)
        if isinstance(e, ConstFloat):
            return self.text.float(e.value, scalar_type(e.dtype))
        if isinstance(e, ConstBool):
            return self.let(f"arith.constant {int(e.value)} : i1", "i1")
        if isinstance(e, Var):
            known = self.values.get(e)
            if known is None:
                raise InternalError(f"scalar {e!r} has no value in the text")
            return known
        if isinstance(e, BinaryExpr):
            return self._binary(e)
        if isinstance(e, UnaryExpr):
            return self._unary(e)
        raise InternalError(f"no .pto form of the scalar expression {type(e).__name__}")

    def index(self, e: Expr) -> str:
        """An integer expression as an index."""
        if isinstance(e, ConstInt):
            return self.text.index(e.value)
        return self.cast(self.value(e), dtype_of(e), DataType.INDEX, e).name

    def integer(self, value: int, dtype: DataType) -> Value:
        """An integer constant."""
        if dtype.is_unsigned_int():
            plain = self.text.integer(value, f"i{dtype.get_bit()}")
            return to_unsigned(self.let, plain, scalar_type(dtype))
        return self.text.integer(value, scalar_type(dtype))

    def let(self, text: str, type_: str) -> Value:
        """The result of an operation, under a number."""
        name = self.text.number()
        self.text.op(f"{name} = {text}")
        return Value(name, type_)

    # -- operations --

    def _binary(self, e: BinaryExpr) -> Value:
        kind = type(e)
        if kind in _LOGIC:
            both = ", ".join(self.truth(x) for x in (e.left, e.right))
            return self.let(f"arith.{_LOGIC[kind]} {both} : i1", "i1")
        left, right = dtype_of(e.left), dtype_of(e.right)
        common = left if left is right else scalar.promote(left, right)
        a, b = (self.cast(self.value(x), dtype_of(x), common, e) for x in (e.left, e.right))
        made = unsigned(self, kind, a, b, e) if common.is_unsigned_int() else self._signed(e, common, a, b)
        return made if kind in scalar.COMPARISONS else self.cast(made, common, dtype_of(e), e)

    def _signed(self, e: BinaryExpr, common: DataType, a: Value, b: Value) -> Value:
        kind, type_ = type(e), a.type
        if kind in scalar.COMPARISONS:
            compare = f"cmpf {_ORDERED[kind]}" if common.is_float() else f"cmpi {_SIGNED[kind]}"
            return self.let(f"arith.{compare}, {a.name}, {b.name} : {type_}", "i1")
        if not common.is_float() and kind in _QUOTIENTS:
            return self._quotient(e, a, b)
        if kind in _SHIFTS:
            return self.shift("shli" if kind is scalar.BitShiftLeft else "shrsi", a, b, e, common.get_bit())
        name = (_FLOATS if common.is_float() else _INTEGERS).get(kind)
        if name is None:
            raise NotSupportedError(
                f"{kind.__name__} of {common} scalars has no .pto form", e.span, "compute it in the caller, and pass it"
            )
        return self.let(f"arith.{name} {a.name}, {b.name} : {type_}", type_)

    def _quotient(self, e: BinaryExpr, a: Value, b: Value) -> Value:
        """A quotient or a remainder: the truncated one, corrected where it is not known to be what is wanted."""
        kind, type_ = type(e), a.type
        over, under = self.known.bounds(e.left), self.known.bounds(e.right)
        zero = self.text.integer(0, type_).name
        divisor = b.name
        if under.low <= 0 <= under.high:
            none = self.let(f"arith.cmpi eq, {b.name}, {zero} : {type_}", "i1").name
            divisor = self.let(f"arith.select {none}, {self.text.integer(1, type_).name}, {b.name} : {type_}", type_).name
        rest = kind is scalar.FloorMod
        if kind is scalar.FloatDiv or (over.low >= 0 and under.low >= 0):
            made = self.let(f"arith.{'remsi' if rest else 'divsi'} {a.name}, {divisor} : {type_}", type_)
        else:
            made = self._floored(rest, a.name, divisor, type_)
        if divisor == b.name:
            return made
        return self.let(f"arith.select {none}, {zero}, {made.name} : {type_}", type_)

    def _floored(self, rest: bool, a: str, b: str, type_: str) -> Value:
        """Quotient or remainder rounded down: where the remainder has the other sign, one less, or a divisor more."""
        zero = self.text.integer(0, type_).name
        remainder = self.let(f"arith.remsi {a}, {b} : {type_}", type_).name
        inexact = self.let(f"arith.cmpi ne, {remainder}, {zero} : {type_}", "i1").name
        signs = self.let(f"arith.xori {remainder}, {b} : {type_}", type_).name
        apart = self.let(f"arith.cmpi slt, {signs}, {zero} : {type_}", "i1").name
        down = self.let(f"arith.andi {inexact}, {apart} : i1", "i1").name
        if rest:
            whole, less = remainder, self.let(f"arith.addi {remainder}, {b} : {type_}", type_).name
        else:
            whole = self.let(f"arith.divsi {a}, {b} : {type_}", type_).name
            less = self.let(f"arith.subi {whole}, {self.text.integer(1, type_).name} : {type_}", type_).name
        return self.let(f"arith.select {down}, {less}, {whole} : {type_}", type_)

    def shift(self, name: str, a: Value, b: Value, e: BinaryExpr, bits: int) -> Value:
        """A shift; by less than 0 or by the width and more everything goes out, the sign stays in arithmetic ones."""
        type_, amount = a.type, self.known.bounds(e.right)
        if amount.low >= 0 and amount.high < bits:
            return self.let(f"arith.{name} {a.name}, {b.name} : {type_}", type_)
        zero, last = self.text.integer(0, type_).name, self.text.integer(bits - 1, type_).name
        below = self.let(f"arith.cmpi slt, {b.name}, {zero} : {type_}", "i1").name
        above = self.let(f"arith.cmpi sgt, {b.name}, {last} : {type_}", "i1").name
        out = self.let(f"arith.ori {below}, {above} : i1", "i1").name
        by = self.let(f"arith.select {out}, {last if name == 'shrsi' else zero}, {b.name} : {type_}", type_).name
        made = self.let(f"arith.{name} {a.name}, {by} : {type_}", type_)
        return made if name == "shrsi" else self.let(f"arith.select {out}, {zero}, {made.name} : {type_}", type_)

    def _unary(self, e: UnaryExpr) -> Value:
        source, dtype = dtype_of(e.operand), dtype_of(e)
        if isinstance(e, scalar.Not):
            false = self.let("arith.constant 0 : i1", "i1").name
            return self.let(f"arith.cmpi eq, {self.truth(e.operand)}, {false} : i1", "i1")
        a = self.cast(self.value(e.operand), source, dtype, e)
        if isinstance(e, scalar.Cast):
            return a
        if dtype.is_unsigned_int():
            if isinstance(e, scalar.Abs):
                return a
            plain = to_signless(self.let, a)
            return to_unsigned(self.let, self._signless(e, plain, False), a.type)
        return self._signless(e, a, dtype.is_float())

    def _signless(self, e: UnaryExpr, a: Value, is_float: bool) -> Value:
        if isinstance(e, scalar.Neg):
            if is_float:
                return self.let(f"arith.negf {a.name} : {a.type}", a.type)
            return self.let(f"arith.subi {self.text.integer(0, a.type).name}, {a.name} : {a.type}", a.type)
        if isinstance(e, scalar.BitNot):
            return self.let(f"arith.xori {a.name}, {self.text.integer(-1, a.type).name} : {a.type}", a.type)
        if isinstance(e, scalar.Abs):
            return self.let(f"math.{'absf' if is_float else 'absi'} {a.name} : {a.type}", a.type)
        raise InternalError(f"no .pto form of {type(e).__name__}")

    def truth(self, e: Expr) -> str:
        """A condition, as i1."""
        v = self.value(e)
        return v.name if v.type == "i1" else self._is_not_zero(v, dtype_of(e)).name

    def _is_not_zero(self, v: Value, dtype: DataType) -> Value:
        if dtype.is_float():
            return self.let(f"arith.cmpf une, {v.name}, {self.text.float(0.0, v.type).name} : {v.type}", "i1")
        v = to_signless(self.let, v)
        return self.let(f"arith.cmpi ne, {v.name}, {self.text.integer(0, v.type).name} : {v.type}", "i1")

    # -- conversions --

    def cast(self, v: Value, source: DataType, target: DataType, at: Expr) -> Value:
        """A value in another scalar type: integers wrap, floats round to nearest even, float to integer truncates."""
        if source is target:
            return v
        if target is DataType.BOOL:
            return self._is_not_zero(v, source)
        if source.is_unsigned_int():
            return self.cast(*from_unsigned(self.let, v, source, target), target, at)
        if target.is_unsigned_int() and not source.is_float():
            plain = self.cast(v, source, _signed_of(target), at)
            return to_unsigned(self.let, plain, scalar_type(target))
        step = _between(source, target)
        if step is not None:
            return self.cast(self.cast(v, source, step, at), step, target, at)
        to = scalar_type(target)
        if target.is_unsigned_int():
            plain = self.let(f"arith.fptoui {v.name} : {v.type} to i{target.get_bit()}", f"i{target.get_bit()}")
            return to_unsigned(self.let, plain, to)
        return self.let(f"arith.{_conversion(source, target, at)} {v.name} : {v.type} to {to}", to)


def _signed_of(dtype: DataType) -> DataType:
    return {8: DataType.INT8, 16: DataType.INT16, 32: DataType.INT32, 64: DataType.INT64}[dtype.get_bit()]


def _between(source: DataType, target: DataType) -> DataType | None:
    """The type by way of which a conversion goes that no instruction does at once, without another rounding."""
    if DataType.INDEX in (source, target):
        other = target if source is DataType.INDEX else source
        return DataType.INT64 if other is DataType.BOOL or (source is DataType.INDEX and other.is_float()) else None
    halves = source.is_float() and target.is_float() and source.get_bit() == target.get_bit()
    return DataType.FP32 if halves else None


def _conversion(source: DataType, target: DataType, at: Expr) -> str:
    if source.is_float() and target.is_float():
        return "extf" if target.get_bit() > source.get_bit() else "truncf"
    if source.is_float():
        if target is DataType.INDEX:
            hint = "go by way of INT32 or INT64"
            raise NotSupportedError(f"a cast of {source} to {target} scalars has no .pto form", at.span, hint)
        return "fptosi"
    if target.is_float():
        return "uitofp" if source is DataType.BOOL else "sitofp"
    if source is DataType.BOOL:
        return "extui"
    if DataType.INDEX in (source, target):
        return "index_cast"
    return "extsi" if target.get_bit() > source.get_bit() else "trunci"
