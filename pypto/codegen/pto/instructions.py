"""Operands and keywords of operators, as `.pto` instructions take them.

In: an operator and its keywords.  Out: which of its operands are printed, the attributes inside `ins(...)` and behind
`outs(...)`, and what a fill is as a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pypto.codegen.pto.types import matrix_valid
from pypto.dtypes import DataType
from pypto.enums import PadValue
from pypto.ir import arith
from pypto.ir.analyzer import range_of
from pypto.ir.arith import wrap
from pypto.ir.expr import ConstFloat, ConstInt, Expr, const_index
from pypto.ir.opdef import COL, FULL, MASK, ROW, UNUSED, Lanewise, OpDef
from pypto.ir.ops.casts import MODES
from pypto.ir.ops.compare import COMPARISONS
from pypto.ir.scalar import cast
from pypto.ir.shaped import BufferType, TileType

__all__ = ["attributes", "filling", "pad_constant", "parts", "printed"]


def printed(op: OpDef) -> tuple[int, ...]:
    """The operands that an instruction names: all but those that only say what the result looks like."""
    unused = op.semantics.patterns if isinstance(op.semantics, Lanewise) else ()
    dropped = {i for i, p in enumerate(unused) if p == UNUSED} - op.scratch
    return tuple(i for i, o in enumerate(op.operands) if i not in dropped and o.kind != "shape")


def parts(op: OpDef, args: Sequence[Expr], result: TileType) -> Mapping[Expr, tuple[Expr, Expr]]:
    """How far an instruction reads each tile: exactly so far must it be valid, whatever more of it is."""
    first = args[0].type if args else None
    if op.concept == "concat" and isinstance(first, TileType):
        rows = matrix_valid(first)[0]
        return {e: (rows, matrix_valid(e.type)[1]) for e in args if isinstance(e.type, TileType)}
    if not isinstance(op.semantics, Lanewise):
        return {}
    rows, cols = matrix_valid(first if op.semantics.result == MASK and isinstance(first, TileType) else result)
    one, seven = const_index(1), const_index(7)
    bits = arith.floordiv(arith.add(cols, seven), const_index(8))
    read = {FULL: (rows, cols), ROW: (rows, one), COL: (one, cols), MASK: (rows, bits)}
    tiles = ((e, p) for e, p in zip(args, op.semantics.patterns, strict=False) if isinstance(e.type, TileType))
    return {e: read[p] for e, p in tiles if p in read}


def attributes(op: OpDef, kwargs: Mapping[str, Any], source: DataType, result: DataType) -> tuple[str, str]:
    """`{cmpMode = ...}` inside the operands, `{precisionType = ...}` behind the results; empty where there is none."""
    if op.concept in ("cmp", "cmps"):
        return f"{{cmpMode = #pto<cmp {COMPARISONS[kwargs.get('cmp_type', 0)]}>}}", ""
    if op.concept == "cast":
        return f"{{rmode = #pto<round_mode {_rounding(kwargs.get('mode'), source, result)}>}}", ""
    if op.concept == "col_sum":
        return ("{isBinary = true}", "") if len(op.operands) > 1 else ("", "")
    if kwargs.get("high_precision"):
        return "", f"{{precisionType = #pto<{op.concept}_precision high_precision>}}"
    return "", ""


def pad_constant(pad: PadValue, dtype: DataType) -> Expr:
    """What a fill is, as a scalar of the element type."""
    if dtype.is_float():
        return ConstFloat({PadValue.zero: 0.0, PadValue.max: math.inf, PadValue.min: -math.inf}[pad], dtype)
    low, high = range_of(dtype)
    return ConstInt({PadValue.zero: 0, PadValue.max: high, PadValue.min: low}[pad], dtype)


def filling(d: BufferType, value: Expr) -> tuple[BufferType, Expr] | None:
    """A buffer of other elements in the same bytes, and the number with which it holds what `value` fills `d` with."""
    signed = {DataType.UINT32: DataType.INT32, DataType.UINT16: DataType.INT16}.get(d.dtype)
    if signed is not None:
        number: Expr = ConstInt(wrap(value.value, signed), signed) if isinstance(value, ConstInt) else cast(value, signed)
        return d.replace(dtype=signed), number
    rows, cols = d.physical_shape
    if d.dtype not in (DataType.INT8, DataType.UINT8) or not isinstance(value, ConstInt) or d.valid_shape[1] != cols:
        return None
    twice = ConstInt(wrap((value.value & 0xFF) * 0x101, DataType.INT16), DataType.INT16)
    return d.replace(dtype=DataType.INT16, physical_shape=(rows, cols // 2), valid_shape=(d.valid_shape[0], cols // 2)), twice


def _rounding(mode: int | None, source: DataType, result: DataType) -> str:
    """Without a mode, floats round to integers half away from zero, and everything else rounds to nearest even."""
    if mode is not None:
        return MODES[mode].upper()
    return "ROUND" if source.is_float() and not result.is_float() else "RINT"
