"""Expressions, constants, attribute values and types as DSL text.

In: nodes and types of one function.  Out: Python expressions that the parser reads back to equal nodes.
Invariant: operators are parenthesized exactly where Python's grammar would group them otherwise; a constant is bare only
where its bare spelling has its dtype (integers INDEX, floats FP32, True and False BOOL).
"""

from __future__ import annotations

import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import ArgDirection, CompactMode, MemorySpace, PadValue, TileLayout
from pypto.ir import scalar
from pypto.ir.expr import (
    BinaryExpr,
    Call,
    ConstBool,
    ConstFloat,
    ConstInt,
    Expr,
    GlobalVar,
    MakeTuple,
    MemRef,
    Op,
    Submit,
    TupleGetItemExpr,
    UnaryExpr,
    Var,
)
from pypto.ir.layout import BoxLayout
from pypto.ir.node import Attrs
from pypto.ir.shaped import BufferType, TensorType, TensorView, TileType, TileView
from pypto.ir.types import ArrayType, MemRefType, PtrType, ScalarType, TupleType, Type

__all__ = ["FREE", "Expressions", "Names"]

FREE = "__FREE_VAR"
_TAKEN = ("self", "pypto", "pld", "float", "abs", "xor")


class Names:
    """One name per variable: its hint where that is free, else the hint with the first free number."""

    def __init__(self, prefix: str, outer: Names | None = None, mark_free: bool = False) -> None:
        self.prefix, self.outer, self.mark_free = prefix, outer, mark_free
        self.names: dict[Var, str] = {}
        self.taken: set[str] = {prefix, *_TAKEN} if outer is None else set(outer.taken)

    def define(self, v: Var) -> str:
        """The name of a variable that comes into being in this function."""
        known = self.names.get(v)
        return known if known is not None else self._give(v, identifier(v.name_hint))

    def use(self, v: Var) -> str:
        """The name of a variable; one that nothing defines is marked, except a base pointer, which may be declared elsewhere."""
        known = self.names.get(v) or (self.outer.names.get(v) if self.outer is not None else None)
        if known is not None:
            return known
        hint = identifier(v.name_hint).removesuffix(FREE)
        return self._give(v, hint + FREE if self.mark_free and not isinstance(v.type, PtrType) else hint)

    def _give(self, v: Var, wanted: str) -> str:
        name, number = wanted, 0
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        self.names[v] = name
        return name


def identifier(hint: str) -> str:
    """The nearest Python identifier that is no keyword."""
    text = hint if hint.isascii() else unicodedata.normalize("NFKC", hint)
    if not text.isidentifier():
        text = re.sub(r"\W", "_", text) or "v"
        text = text if text.isidentifier() else f"v{text}"
    return f"{text}_" if keyword.iskeyword(text) else text


# -- operators: spelling and binding strength ------------------------------------------------------------------------

_COMPARE, _UNARY, _POWER, _ATOM = 4, 11, 12, 14
_BINARY: dict[type[Expr], tuple[str, int]] = {
    scalar.Or: ("or", 1),
    scalar.And: ("and", 2),
    scalar.Eq: ("==", _COMPARE),
    scalar.Ne: ("!=", _COMPARE),
    scalar.Lt: ("<", _COMPARE),
    scalar.Le: ("<=", _COMPARE),
    scalar.Gt: (">", _COMPARE),
    scalar.Ge: (">=", _COMPARE),
    scalar.BitOr: ("|", 5),
    scalar.BitXor: ("^", 6),
    scalar.BitAnd: ("&", 7),
    scalar.BitShiftLeft: ("<<", 8),
    scalar.BitShiftRight: (">>", 8),
    scalar.Add: ("+", 9),
    scalar.Sub: ("-", 9),
    scalar.Mul: ("*", 10),
    scalar.FloatDiv: ("/", 10),
    scalar.FloorDiv: ("//", 10),
    scalar.FloorMod: ("%", 10),
    scalar.Pow: ("**", _POWER),
}
_PREFIXED: dict[type[Expr], tuple[str, int]] = {
    scalar.Not: ("not ", 3),
    scalar.Neg: ("-", _UNARY),
    scalar.BitNot: ("~", _UNARY),
}
_DIRECTIONS = {
    ArgDirection.Input: "input",
    ArgDirection.Output: "output",
    ArgDirection.InOut: "inout",
    ArgDirection.OutputExisting: "output_existing",
    ArgDirection.NoDep: "no_dep",
    ArgDirection.Scalar: "scalar",
}
_DEFAULT_LAYOUT = BoxLayout(TileLayout.row_major, TileLayout.none_box, 512)


class Expressions:
    """The text of expressions and types under one set of names."""

    def __init__(self, names: Names, explicit_layout: bool = False) -> None:
        self.names, self.explicit_layout, self.pl = names, explicit_layout, names.prefix
        self._types: dict[type[Type], Callable[[Any], str]] = {
            ScalarType: lambda t: f"{self.pl}.Scalar[{self.dtype(t.dtype)}]",
            TupleType: lambda t: f"{self.pl}.Tuple[{', '.join(self.type(x) for x in t.types) or '()'}]",
            ArrayType: lambda t: f"{self.pl}.Array[{t.extent}, {self.dtype(t.dtype)}]",
            PtrType: lambda t: f"{self.pl}.Ptr",
            MemRefType: lambda t: f"{self.pl}.MemRefType",
            TensorType: self.tensor_type,
            TileType: self.tile_type,
            TensorView: self.tensor_view,
            TileView: self.tile_view,
            BufferType: self.buffer_type,
        }

    # -- expressions --

    def expr(self, e: Expr, strength: int = 0) -> str:
        """The text of an expression, in parentheses if it binds less tightly than `strength`."""
        text, own = self._bound(e)
        return f"({text})" if own < strength else text

    def _bound(self, e: Expr) -> tuple[str, int]:
        binary = _BINARY.get(type(e))
        if binary is not None and isinstance(e, BinaryExpr):
            return self._binary(e, *binary), binary[1]
        prefixed = _PREFIXED.get(type(e))
        if prefixed is not None and isinstance(e, UnaryExpr):
            # A minus before a literal is part of the literal.
            literal = isinstance(e.operand, (ConstInt, ConstFloat))
            return prefixed[0] + (self.constant(e.operand) if literal else self.expr(e.operand, prefixed[1])), prefixed[1]
        if isinstance(e, (ConstInt, ConstFloat, ConstBool)):
            text = self.literal(e)
            return text, _UNARY if text.startswith("-") else _ATOM
        return self._atom(e), _ATOM

    def _binary(self, e: BinaryExpr, symbol: str, strength: int) -> str:
        left, right = strength, strength + 1
        if strength == _COMPARE:
            left = right  # comparisons would chain
        elif strength == _POWER:
            left, right = strength + 1, _UNARY
        return f"{self.expr(e.left, left)} {symbol} {self.expr(e.right, right)}"

    def _atom(self, e: Expr) -> str:
        if isinstance(e, MemRef):
            return self.memref(e)
        if isinstance(e, Var):
            return self.names.use(e)
        if isinstance(e, (Call, Submit)):
            return self.call(e)
        if isinstance(e, MakeTuple):
            return self.sequence(e.elements)
        if isinstance(e, TupleGetItemExpr):
            return f"{self.expr(e.tuple, _ATOM)}[{e.index}]"
        if isinstance(e, scalar.Cast):
            return f"{self.pl}.cast({self.expr(e.operand)}, {self.type_dtype(e)})"
        if isinstance(e, (scalar.Min, scalar.Max)):
            name = "min" if isinstance(e, scalar.Min) else "max"
            return f"{self.pl}.{name}({self.expr(e.left)}, {self.expr(e.right)})"
        if isinstance(e, BinaryExpr):
            return f"{type(e).__name__.lower()}({self.expr(e.left)}, {self.expr(e.right)})"
        if isinstance(e, UnaryExpr):
            return f"{type(e).__name__.lower()}({self.expr(e.operand)})"
        return f"<{type(e).__name__}>"

    def sequence(self, elements: Iterable[Expr]) -> str:
        return f"[{', '.join(self.expr(x) for x in elements)}]"

    def type_dtype(self, e: Expr) -> str:
        return self.dtype(scalar.dtype_of(e))

    def literal(self, e: ConstInt | ConstFloat | ConstBool) -> str:
        """A constant as short as its dtype allows."""
        if isinstance(e, ConstBool):
            return str(e.value)
        if isinstance(e, ConstInt):
            return str(e.value) if e.dtype is DataType.INDEX else self.constant(e)
        v = float(e.value)
        plain = e.dtype is DataType.FP32 and math.isfinite(v) and not (v == 0.0 and math.copysign(1.0, v) < 0.0)
        return repr(v) if plain else self.constant(e)

    def constant(self, e: Expr) -> str:
        """A constant that says its dtype; anything else as usual."""
        if isinstance(e, ConstBool):
            return f"{self.pl}.const({e.value}, {self.dtype(DataType.BOOL)})"
        if isinstance(e, ConstInt):
            return f"{self.pl}.const({e.value}, {self.dtype(e.dtype)})"
        if isinstance(e, ConstFloat):
            return f"{self.pl}.const({_float(float(e.value))}, {self.dtype(e.dtype)})"
        return self.expr(e)

    # -- calls --

    def call(self, c: Call | Submit) -> str:
        parts = [self.expr(a) for a in c.args]
        if isinstance(c, Submit):
            parts.insert(0, self.callee(c.op))
            parts += [f"{k}={v}" for k, v in self._submit_options(c)]
        parts += [f"{k}={self.value(v)}" for k, v in c.kwargs.items()]
        if c.attrs:
            parts.append(f"attrs={self.mapping(c.attrs)}")
        head = f"{self.pl}.submit" if isinstance(c, Submit) else self.callee(c.op)
        return f"{head}({', '.join(parts)})"

    def _submit_options(self, c: Submit) -> Iterable[tuple[str, str]]:
        if c.deps:
            yield "deps", self.sequence(c.deps)
        if c.core_num is not None:
            yield "core_num", self.expr(c.core_num)
        for name in ("sync_start", "allow_early_resolve"):
            if getattr(c, name):
                yield name, "True"
        if c.predicate is not None:
            yield "predicate", self.expr(c.predicate)

    def callee(self, op: Op) -> str:
        if isinstance(op, GlobalVar):
            return f"self.{op.name}"
        name = ".".join(f"{word}_" if keyword.iskeyword(word) else word for word in op.name.split("."))
        return name if name.startswith("pld.") else f"{self.pl}.{name}"

    # -- attribute values --

    def mapping(self, attrs: Attrs | dict[str, Any]) -> str:
        return "{" + ", ".join(f"{_string(k)}: {self.value(v)}" for k, v in attrs.items()) + "}"

    def value(self, v: Any) -> str:
        """An attribute or keyword value; expressions keep apart from plain numbers by saying their dtype."""
        if isinstance(v, Enum):
            return self.enum(v)
        if isinstance(v, DataType):
            return self.dtype(v)
        if isinstance(v, Type):
            return self.type(v)
        if isinstance(v, Expr):
            return self.constant(v)
        if isinstance(v, (tuple, list)):
            return f"[{', '.join(self.value(x) for x in v)}]"
        if isinstance(v, dict):
            return self.mapping(v)
        return _float(v) if isinstance(v, float) else _string(v) if isinstance(v, str) else repr(v)

    def enum(self, v: Enum) -> str:
        if isinstance(v, ArgDirection):
            return f"{self.pl}.adir.{_DIRECTIONS[v]}"
        kind = "Mem" if isinstance(v, MemorySpace) else type(v).__name__
        return f"{self.pl}.{kind}.{v.name}"

    def dtype(self, d: DataType) -> str:
        return f"{self.pl}.{d.name}"

    # -- types --

    def type(self, t: Type) -> str:
        known = self._types.get(type(t))
        if known is not None:
            return known(t)
        named = type(t).__name__
        word = named.removesuffix("Type") if named.startswith(("Prefetch", "Async")) else None
        return f"{self.pl}.{word}" if word else f"pypto.ir.{named}()"

    def dims(self, extents: Iterable[Expr]) -> str:
        return f"[{', '.join(self.extent(d) for d in extents)}]"

    def extent(self, d: Expr) -> str:
        """An extent or offset: INT64 constants read the same as INDEX ones."""
        bare = isinstance(d, ConstInt) and d.dtype in (DataType.INDEX, DataType.INT64)
        return str(d.value) if bare and isinstance(d, ConstInt) else self.expr(d)

    def tensor_type(self, t: TensorType) -> str:
        slots = [self.dims(t.shape), self.dtype(t.dtype)]
        if t.memref is not None:
            slots.append(self.memref(t.memref))
        if t.tensor_view is not None:
            slots.append(self.tensor_view(t.tensor_view))
        return f"{self.pl}.Tensor[{', '.join(slots)}]"

    def tensor_view(self, v: TensorView) -> str:
        parts = [f"stride={self.dims(v.stride)}"] if v.stride else []
        parts.append(f"layout={self.pl}.{v.layout.name}")
        if v.valid_shape:
            parts.append(f"valid_shape={self.dims(v.valid_shape)}")
        if v.pad is not PadValue.null:
            parts.append(f"pad={self.enum(v.pad)}")
        return f"{self.pl}.TensorView({', '.join(parts)})"

    def tile_type(self, t: TileType) -> str:
        slots = [self.dims(t.shape), self.dtype(t.dtype)]
        if t.memref is not None:
            slots.append(self.memref(t.memref))
        if t.memory_space is not None:
            slots.append(self.enum(t.memory_space))
        view = t.get_effective_tile_view() if self.explicit_layout else t.tile_view
        if view is not None:
            # A layout is left out only where "not given" can mean nothing but it.
            implied = TileType(t.shape, t.dtype, None, None, t.memory_space).layout
            bare = not self.explicit_layout and view.layout == implied == _DEFAULT_LAYOUT
            slots.append(self.tile_view(view, with_layout=not bare))
        return f"{self.pl}.Tile[{', '.join(slots)}]"

    def tile_view(self, v: TileView, with_layout: bool = True) -> str:
        parts = []
        for name, dims in (("valid_shape", v.valid_shape), ("stride", v.stride)):
            if dims:
                parts.append(f"{name}={self.dims(dims)}")
        if v.start_offset is not None:
            parts.append(f"start_offset={self.extent(v.start_offset)}")
        if with_layout:
            parts += [f"blayout={self.enum(v.blayout)}", f"slayout={self.enum(v.slayout)}", f"fractal={v.fractal}"]
        if v.pad is not PadValue.null:
            parts.append(f"pad={self.enum(v.pad)}")
        if v.compact is not CompactMode.null:
            parts.append(f"compact={self.enum(v.compact)}")
        return f"{self.pl}.TileView({', '.join(parts)})"

    def memref(self, m: MemRef) -> str:
        """A window of an allocation; a declaration whose size is still open names its allocation only."""
        base = self.names.use(m.base_)
        declared = m.is_pinned_ and m.size_ == 0
        parts = [_string(base)] if declared else [base, self.extent(m.byte_offset_), str(m.size_)]
        if m.slot_count_ != 1:
            parts.append(f"slots={m.slot_count_}")
        if m.is_pinned_ and not declared:
            parts.append("is_pinned=True")
        slot = f"[{self.extent(m.slot_index_)}]" if m.slot_index_ is not None else ""
        return f"{self.pl}.MemRef({', '.join(parts)}){slot}"

    def buffer_type(self, t: BufferType) -> str:
        parts = [str(list(t.physical_shape)), self.dtype(t.dtype), self.enum(t.memory_space)]
        if t.valid_shape != t.physical_shape:
            parts.append(f"valid_shape={list(t.valid_shape)}")
        plain = BufferType(t.physical_shape, t.dtype, t.memory_space)
        for name in ("blayout", "slayout", "fractal", "pad", "compact"):
            v = getattr(t, name)
            if v != getattr(plain, name):
                parts.append(f"{name}={self.value(v)}")
        return f"pypto.ir.BufferType({', '.join(parts)})"


def _float(v: float) -> str:
    return repr(v) if math.isfinite(v) else f'float("{v}")'


def _string(v: str) -> str:
    text = repr(v)
    inside = text[1:-1]
    return f'"{inside}"' if text[0] == "'" and '"' not in inside and "\\'" not in inside else text
