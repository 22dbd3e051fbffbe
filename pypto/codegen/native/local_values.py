"""Operators that touch no memory of the model: arrays of scalars, barriers, and what has no effect on a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native.access import ZERO, Check, Meet
from pypto.codegen.native.local_arrays import array_op
from pypto.errors import NotSupportedError
from pypto.ir import arith, scalar
from pypto.ir.expr import Call, Var, const_index
from pypto.ir.opdef import OpDef
from pypto.ir.ops.system import FLAG, MEET, PREFETCH
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]


def _array(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    b.items.append(array_op(var, call, b.arrays, span))


def _meet(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    if len(call.args) > 1:
        cores = call.args[1]
        fits = scalar.eq(cores, b.blocks)
        if call.kwargs.get("core_type", "mix") == "mix":  # a block has one cube and two vector cores
            fits = scalar.or_(fits, scalar.eq(cores, arith.mul(b.blocks, const_index(3))))
        b.items.append(Check("cores", ((fits, 0, (cores, b.blocks, ZERO)),), (), span))
    b.items.append(Meet(span))


def _flag(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    if call.kwargs.get("ffts_mode") == 0:
        what = f"{op.name}: a flag between blocks is not executed on the host"
        raise NotSupportedError(what, span, "let all blocks meet: pl.system.syncall()")


def _nothing(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    """Changes no number."""


_ARRAYS = ("array_create", "array_get", "array_update")
HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {**dict.fromkeys(_ARRAYS, _array), MEET: _meet, FLAG: _flag, PREFETCH: _nothing}
)
