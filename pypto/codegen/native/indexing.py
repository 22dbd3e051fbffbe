"""Reading and writing by index: a routine over views, or a copy where the columns follow a pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native import windows
from pypto.codegen.native.access import ONE, ZERO, Routine, View
from pypto.codegen.native.rectangles import extents, need, tile_of, valid_rect, whole
from pypto.dtypes import DataType
from pypto.errors import NotSupportedError
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.opdef import FULL, OpDef
from pypto.ir.ops.gathers import COALESCE, pattern_of
from pypto.ir.shaped import TensorType, TileType
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]

_HEADER = "pypto_index.h"
_INDEX = {DataType.INT32: "i32", DataType.INT16: "i16"}
_FAULT = "the index {0} leads to no valid element\ncorrect the index"
_OR = ", or say with gather_oob= what it gives"


def _bits(v: View) -> str:
    return str(8 * v.dtype.get_byte())


def _routine(
    b: TileBuilder,
    function: str,
    dst: View,
    sources: tuple[View, ...],
    numbers: tuple[Expr, ...],
    reads: bool,
    op: OpDef,
    span: Span,
    written: tuple[Expr, Expr] | None = None,
    leaves: bool = False,
) -> None:
    fault = f"{op.concept}: {_FAULT}{_OR if op.concept == 'mgather' else ''}"
    made = Routine(function, _HEADER, dst, sources, numbers, reads, ("bounds", fault), op.concept, span, (), written, leaves)
    b.items.append(made)


def _covered(b: TileBuilder, read: TileType, rect: TileType, span: Span) -> None:
    """An operand must be valid wherever the index is."""
    b.check(windows.operand_check(FULL, read, rect, span))


# -- gather --------------------------------------------------------------------------------------------------------


def _gather(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    source, index = tile_of(call.args[0]), tile_of(call.args[1])
    dst, views = b.view(need(var)), (b.view(call.args[0]), b.view(call.args[1]))
    rect = valid_rect(index)
    height, width = extents(source)
    name = f"{_bits(dst)}_{_INDEX[index.dtype]}"
    if "dim" not in call.kwargs:
        numbers = (*rect, *whole(source), *valid_rect(source))
        _routine(b, f"pp_gather_{name}", dst, views, numbers, False, op, span)
        return
    group, igroup = call.kwargs.get("group", height), call.kwargs.get("index_group", extents(index)[0])
    dim = call.kwargs["dim"] if "group" in call.kwargs else call.kwargs["dim"] + 1
    axes = tuple(const_index(n) for n in (dim, height // group, group, igroup, width))
    _routine(b, f"pp_gather_axis_{name}", dst, views, (*rect, *axes, *valid_rect(source)), False, op, span)


def _pattern_view(v: View, kwargs: Mapping[str, object]) -> View:
    """The columns that a pattern takes."""
    first, step = pattern_of(kwargs)
    at = v.shifted(ZERO, const_index(first))
    return at.replace(col=arith.mul(at.col, const_index(step)))


def _gather_mask(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    dst = b.view(need(var))
    source = _pattern_view(b.view(call.args[0]), call.kwargs).replace(dtype=dst.dtype)
    b.copy(dst, source, *valid_rect(need(var).type), op.concept, span)


def _gatherb(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    source, offset = tile_of(call.args[0]), tile_of(call.args[1])
    dst, views = b.view(need(var)), (b.view(call.args[0]), b.view(call.args[1]))
    numbers = (*valid_rect(offset), *whole(source), *valid_rect(source))
    _routine(b, f"pp_gather_blocks_{_bits(dst)}", dst, views, numbers, False, op, span)


def _tensor_view(b: TileBuilder, e: Expr, span: Span) -> tuple[View, Expr, Expr]:
    """A whole tensor as rows and columns."""
    root, t = b.tensor(e)
    view = windows.window_view(root, t, (ZERO,) * len(t.shape), t.shape)
    if view is None:
        raise NotSupportedError("a tensor whose rows do not follow each other", span, "make it contiguous before the call")
    return view, arith.product(t.shape[:-1]), t.shape[-1]


def _mgather(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    var = need(var)
    mem, height, width = _tensor_view(b, call.args[0], span)
    index = tile_of(call.args[1])
    dst, views = b.view(var), (mem, b.view(call.args[1]))
    rect, oob = valid_rect(var.type), const_index(call.kwargs.get("gather_oob", 0))
    b.check(windows.extent_check(tile_of(var).valid, tile_of(var).shape, span))
    if call.kwargs["coalesce"] == COALESCE.index("row"):
        b.check(windows.rows_check(rect[0], arith.product(index.valid), span))
        numbers = (*rect, height, const_index(extents(index)[1]), oob)
        _routine(b, f"pp_mgather_row_{_bits(dst)}", dst, views, numbers, False, op, span, rect, leaves=True)
        return
    _covered(b, index, tile_of(var), span)
    _routine(b, f"pp_mgather_elem_{_bits(dst)}", dst, views, (*rect, height, width, oob), False, op, span, rect)


# -- scatter -------------------------------------------------------------------------------------------------------


def _in_place(b: TileBuilder, var: Var, call: Call, op: OpDef, span: Span) -> View:
    """The result, holding what operand 0 holds."""
    dst = b.view(var)
    b.copy(dst, b.view(call.args[0]), *whole(var.type), op.concept, span)
    return dst


def _scatter(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    source, index = tile_of(call.args[1]), tile_of(call.args[2])
    dst = _in_place(b, need(var), call, op, span)
    _covered(b, source, index, span)
    if len(call.args) > 3:
        listed = tile_of(call.args[3])
        limits = (valid_rect(listed)[0], whole(need(var).type)[0])
        _routine(b, "pp_rows_within", dst, (b.view(call.args[3]),), limits, True, op, span)
    along = ONE if "dim" in call.kwargs else ZERO
    numbers = (*valid_rect(index), *whole(need(var).type), along)
    views = (b.view(call.args[1]), b.view(call.args[2]))
    _routine(b, f"pp_scatter_{_bits(dst)}_{_INDEX[index.dtype]}", dst, views, numbers, True, op, span)


def _scatter_mask(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    dst = _pattern_view(_in_place(b, need(var), call, op, span), call.kwargs)
    b.copy(dst, b.view(call.args[1]), *valid_rect(call.args[1].type), op.concept, span)


def _mscatter(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    source, index = tile_of(call.args[0]), tile_of(call.args[1])
    target, height, width = _tensor_view(b, call.args[2], span)
    if var is not None:
        assert isinstance(var.type, TensorType)
        b.tensors[var] = b.tensor(call.args[2])[0]
    _covered(b, source, index, span)
    views = (b.view(call.args[0]), b.view(call.args[1]))
    numbers = (*valid_rect(index), height, width, ZERO)
    _routine(b, f"pp_scatter_{_bits(target)}_i32", target, views, numbers, True, op, span)


# -- comparing -----------------------------------------------------------------------------------------------------


def _compare(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    source = tile_of(call.args[0])
    columns = op.concept == "gather_compare"
    mode, most = (const_index(call.kwargs[n]) for n in ("cmp_mode", "out_cols"))
    numbers = (*valid_rect(source), mode, most, *((const_index(call.kwargs.get("offset", 0)),) if columns else ()))
    function = f"pp_compare_{'columns' if columns else 'counts'}_{source.dtype.name.lower()}"
    views = (b.view(call.args[0]), b.view(call.args[1]))
    b.items.append(Routine(function, _HEADER, b.view(need(var)), views, numbers, False, None, op.concept, span))


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        "gather": _gather,
        "gather_mask": _gather_mask,
        "gatherb": _gatherb,
        "mgather": _mgather,
        "scatter": _scatter,
        "scatter_mask": _scatter_mask,
        "mscatter": _mscatter,
        "compare_columns": _compare,
        "compare_counts": _compare,
    }
)
