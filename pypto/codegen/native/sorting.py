"""Sorting and merging: routines over views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native import windows
from pypto.codegen.native.access import ZERO, Routine, View
from pypto.codegen.native.rectangles import need, tile_of, valid_rect
from pypto.dtypes import DataType
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.opdef import FULL, OpDef
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]

_SUFFIX = {DataType.FP32: "f32", DataType.FP16: "f16"}


def _routine(
    b: TileBuilder, name: str, dst: View, sources: tuple[View, ...], numbers: tuple[Expr, ...], what: str, op: OpDef, span: Span
) -> None:
    function = f"pp_{name}_{_SUFFIX[dst.dtype]}"
    fault = f"{op.concept}: {{0}} valid columns are no whole number of {what}\nfill the rest of the row first, pl.fillpad"
    b.items.append(Routine(function, "pypto_sort.h", dst, sources, numbers, False, ("bounds", fault), op.concept, span))


def _sort32(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    source, index = tile_of(call.args[0]), tile_of(call.args[1])
    b.check(windows.operand_check(FULL, index, source, span))
    views = (b.view(call.args[0]), b.view(call.args[1]))
    _routine(b, "sort32", b.view(need(var)), views, valid_rect(source), "blocks of 32", op, span)


def _merge_runs(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    numbers = (*valid_rect(call.args[0].type), const_index(call.kwargs["block_len"]))
    _routine(b, "merge_runs", b.view(need(var)), (b.view(call.args[0]),), numbers, "pairs", op, span)


def _merge_lists(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    lists = [a for i, a in enumerate(call.args) if i != 2]
    rows = valid_rect(lists[0].type)[0]
    for e in lists[1:]:
        b.check(windows.rows_check(rows, valid_rect(e.type)[0], span))
    # Lists that are not there are the first one, of which nothing is taken.
    views = [b.view(e) for e in lists] + [b.view(lists[0])] * (4 - len(lists))
    columns = [valid_rect(e.type)[1] for e in lists] + [ZERO] * (4 - len(lists))
    numbers = (rows, *columns, const_index(len(lists)), const_index(int(bool(call.kwargs.get("exhausted")))))
    _routine(b, "merge_lists", b.view(need(var)), tuple(views), numbers, "pairs", op, span)


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {"sort32": _sort32, "merge_runs": _merge_runs, "merge_lists": _merge_lists}
)
