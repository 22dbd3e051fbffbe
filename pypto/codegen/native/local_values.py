"""Operators on values that lie in no memory of the model: arrays of scalars, each one `ArrayOp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.codegen.native.local_arrays import array_op
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import OpDef
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["HANDLERS"]


def _array(b: TileBuilder, op: OpDef, var: Var | None, call: Call, span: Span) -> None:
    b.items.append(array_op(var, call, b.arrays, span))


HANDLERS: Mapping[str, Callable[..., None]] = MappingProxyType(
    dict.fromkeys(("array_create", "array_get", "array_update"), _array)
)
