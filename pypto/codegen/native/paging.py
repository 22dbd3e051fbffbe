"""Windows of global memory copied into an accumulator on chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native import windows
from pypto.codegen.native.rectangles import elements, need, tile_of, whole
from pypto.errors import InternalError
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import OpDef
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]


def _gather_row(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    acc, dst = tile_of(call.args[0]), b.view(need(var))
    b.copy(dst, b.view(call.args[0]), *whole(acc), op.concept, span)
    root, t = b.tensor(call.args[1])
    to, at, shape = (elements(a) for a in call.args[2:5])
    extents = elements(call.args[5]) if len(call.args) > 5 and elements(call.args[5]) else shape
    turned = bool(call.kwargs.get("transpose"))
    b.check(windows.extent_check(extents, shape, span))
    b.check(windows.transfer_check(at, extents, t.shape, span))
    b.check(windows.transfer_check(to, extents[::-1] if turned else extents, acc.shape, span, "part"))
    source = windows.window_view(root, t, at, extents)
    if source is None:
        raise InternalError(f"{op.name}: a window of a matrix is no rows and columns")
    rows, cols = extents
    target = dst.shifted(*to)
    b.copy(target.transposed() if turned else target, source, rows, cols, op.concept, span)


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType({"gather_row": _gather_row})
