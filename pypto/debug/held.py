"""Calls typed by what their operands hold.

In: a call and its operands' values.  Out: the call; where an accumulator turned out to be valid in less than its variable's
type says, with the type that its operator gives for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.debug.frame import Value
from pypto.debug.memory import Block
from pypto.errors import KernelBoundsError
from pypto.ir.expr import Call, Expr, Var, const_index
from pypto.ir.opdef import OpDef, OpRejected
from pypto.ir.shaped import TensorType, TensorView, TileType

__all__ = ["typed_as_held"]


def typed_as_held(op: OpDef, call: Call, args: Sequence[Value]) -> Call:
    """The call, its result valid in what follows from the operands; KernelBoundsError where the operator refuses them."""
    if op.explicit_result or not any(isinstance(a, Block) and a.narrow for a in args):
        return call
    operands = [_as_held(e, a) if isinstance(a, Block) and a.narrow else e for e, a in zip(call.args, args, strict=True)]
    try:
        made = op.call(operands, call.kwargs, call.span)
    except OpRejected as e:
        raise KernelBoundsError(f"{op.name}: {e.message}", call.span, e.hint) from None
    return call.replace(type=made.type)


def _as_held(e: Expr, held: Block) -> Expr:
    t = e.type
    valid = tuple(const_index(n) for n in held.valid)
    if isinstance(t, TileType):
        return Var("held", t.replace(tile_view=t.get_effective_tile_view().replace(valid_shape=valid)), e.span)
    if isinstance(t, TensorType):
        view = t.tensor_view
        return Var(
            "held", t.replace(tensor_view=TensorView(valid_shape=valid) if view is None else view.replace(valid_shape=valid))
        )
    return e
