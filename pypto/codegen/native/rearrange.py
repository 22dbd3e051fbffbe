"""Whole tiles in another order: transpose and concat are copies between views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native import windows
from pypto.codegen.native.access import ZERO
from pypto.codegen.native.rectangles import need, valid_rect
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import OpDef
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]


def _transpose(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    var = need(var)
    rows, cols = valid_rect(var.type)
    b.copy(b.view(var), b.view(call.args[0]).transposed(), rows, cols, op.concept, span)


def _concat(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    var = need(var)
    left, right = call.args
    rows, middle = valid_rect(left.type)
    held, cols = valid_rect(right.type)
    b.check(windows.rows_check(rows, held, span))
    dst = b.view(var)
    b.copy(dst, b.view(left), rows, middle, op.concept, span)
    b.copy(dst.shifted(ZERO, middle), b.view(right), rows, cols, op.concept, span)


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType({"transpose": _transpose, "concat": _concat})
