"""Pushes, pops and frees of a function that runs beside others: exchanges with its group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native.access import ZERO, Exchange, FaultKind, ScalarDef, View
from pypto.codegen.native.rectangles import extents, need, tile_of, valid_rect, whole
from pypto.dtypes import DataType
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.opdef import OpDef
from pypto.ir.ops.pipes import BUFFER, FREE, PIPE, POP, PUSH
from pypto.ir.shaped import TileType
from pypto.ir.verify.pipe_ends import Channel, pipe_use
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS", "HEADER", "key_of"]

HEADER = "pypto_pipes.h"
_Fault = tuple[FaultKind, str] | None
STUCK = "the functions of a group wait for each other"
STUCK_HINT = "push before the other side pops, free each popped tile, and reserve as many slots as are filled at a time"


def key_of(channel: Channel) -> int:
    """The number of one direction of a pipe."""
    return 2 * channel.id + channel.direction - 1


def _code(dtype: DataType) -> Expr:
    return const_index(dtype.code())


def _channel(b: TileBuilder, call: Call) -> Channel:
    use = pipe_use(b.function)
    assert use is not None
    return next(t.channel for t in use.transfers if t.call is call)


class _To:
    """Appends exchanges over one channel."""

    def __init__(self, b: TileBuilder, op: OpDef, call: Call, span: Span) -> None:
        self.b, self.op, self.span = b, op, span
        self.channel = _channel(b, call)
        self.split = const_index(call.kwargs.get("split", 0))

    def add(
        self,
        name: str,
        numbers: Iterable[Expr],
        fault: tuple[FaultKind, str] | None,
        dst: View | None = None,
        src: View | None = None,
    ) -> None:
        key = const_index(key_of(self.channel))
        self.b.items.append(Exchange(f"pp_{name}", HEADER, dst, src, (key, *numbers), fault, self.op.concept, self.span))


def _push(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    to, t = _To(b, op, call, span), tile_of(call.args[0])
    waits = f"'{b.function.name}' waits to push into {to.channel.text()}, whose {{0}} slots are taken"
    to.add("push_wait", (), ("value", f"{STUCK}: {waits}\n{STUCK_HINT}"))
    numbers = (const_index(t.dtype.get_byte()), _code(t.dtype), *valid_rect(t), *whole(t), to.split)
    to.add("push", numbers, None, src=b.view(call.args[0]))


def _pop(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    to, t = _To(b, op, call, span), call.type
    assert isinstance(t, TileType)
    to.add("pop_wait", (), ("value", f"{STUCK}: '{b.function.name}' waits for a tile from {to.channel.text()}\n{STUCK_HINT}"))
    form = f"{list(extents(t))} of {t.dtype}, split={call.kwargs.get('split', 0)}"
    what = f"{to.channel.text()}: the next tile is no tile {form}"
    to.add(
        "pop_match", (_code(t.dtype), *whole(t), to.split), ("value", f"{what}\npop tiles in the order in which they are pushed")
    )
    rows, cols = valid_rect(need(var).type)
    short = f"{op.name} takes more of a dimension than the {{0}} that were pushed"
    to.add("pop_valid", (rows, cols, to.split), ("bounds", f"{short}\npush a tile that is valid there, or give valid_shape="))
    to.add("pop", (const_index(t.dtype.get_byte()), rows, cols, to.split), None, dst=b.view(need(var)))


def _free(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    to = _To(b, op, call, span)
    what = f"{to.channel.text()}: a slot is freed that no pop has\nfree each popped tile once"
    to.add("free_slot", (), ("value", what))


def _nothing(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    """Slots are the group's: their addresses mean nothing here."""
    if var is not None:
        b.items.append(ScalarDef(var, ZERO, None, span))


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {PUSH: _push, POP: _pop, FREE: _free, PIPE: _nothing, BUFFER: _nothing}
)
