"""Tiles made out of numbers: each is one `Routine` over the valid rectangle of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native import windows
from pypto.codegen.native.access import ONE, ZERO, Routine
from pypto.codegen.native.rectangles import extents, need, valid_rect
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.opdef import OpDef
from pypto.ir.ops.counter_random import RANDOM, WORDS
from pypto.ir.shaped import TileType
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]


def _sequence(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    """Every row begins with a number and goes up or down by one."""
    step = const_index(-1 if call.kwargs.get("descending") else 1)
    _routine(b, "sequence", op, need(var), (call.args[0], step), span)


def _triangle(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    """Ones on one side of a diagonal and on it, zeros on the other."""
    _routine(b, "triangle", op, need(var), (call.args[0], ONE if call.kwargs.get("upper") else ZERO), span)


def _routine(b: TileBuilder, name: str, op: OpDef, var: Var, numbers: tuple[Expr, ...], span: Span) -> None:
    t = var.type
    assert isinstance(t, TileType)
    b.check(windows.extent_check(t.valid, t.shape, span))
    function, header = f"pp_{name}_{t.dtype.name.lower()}", "pypto_generators.h"
    b.items.append(Routine(function, header, b.view(var), (), (*valid_rect(t), *numbers), False, None, op.concept, span))


def _random(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    """Words of ChaCha blocks; where an element stands in the whole shape decides its word."""
    rounds, width = const_index(call.kwargs.get("rounds", 10)), extents(need(var).type)[1]
    _routine(b, "random", op, need(var), (const_index(width), rounds, *call.args[: len(WORDS)]), span)


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType({"sequence": _sequence, "triangle": _triangle, RANDOM: _random})
