"""Products of matrices: a routine over views of any strides, whatever boxes the device would keep the tiles in."""

from __future__ import annotations

from pypto.codegen.native import windows
from pypto.codegen.native.access import ONE, ZERO, Check, LaneOp, Operand, Routine, View
from pypto.dtypes import DataType
from pypto.errors import InternalError
from pypto.ir import arith, scalar
from pypto.ir.expr import Call, ConstBool, Expr
from pypto.ir.lanes import LaneProgram, lane_type
from pypto.ir.opdef import COL, Matmul, OpDef
from pypto.ir.shaped import TileType
from pypto.span import Span

__all__ = ["depth_check", "product"]

_SUFFIX = {DataType.FP32: "f32", DataType.FP16: "f16", DataType.BF16: "bf16", DataType.INT8: "i8"}


def product(op: OpDef, form: Matmul, dst: View, operands: list[View], call: Call, span: Span) -> list[Routine | LaneOp]:
    """The operations of one product into `dst`, which holds the accumulator where there is one.

    `operands`: the views of lhs, rhs and the bias, if any.
    """
    a, b, *bias = operands
    x, y = call.args[form.lhs].type, call.args[form.rhs].type
    if not isinstance(x, TileType) or not isinstance(y, TileType) or len(x.shape) != 2 or len(y.shape) != 2:
        raise InternalError(f"{op.name}: operands are no matrices")
    rows, depth = x.valid
    cols = y.valid[1]
    function = f"pp_matmul_{_SUFFIX[x.dtype]}"
    made: list[Routine | LaneOp] = []
    fresh = _fresh(form, call)
    if bias:
        # Sums start at the bias.
        t = dst.dtype
        start = LaneProgram((lane_type(t),), (), 0)
        made.append(LaneOp(start, (Operand(COL, bias[0], None, t),), dst, rows, cols, False, "bias", span))
        fresh = ZERO
    keeps = form.acc is not None or bool(bias)
    # An accumulator that starts afresh does so wherever it is valid, also where no product is added to it.
    whole = call.args[form.acc].type if form.acc is not None else None
    height, width = whole.valid if isinstance(whole, TileType) else (rows, cols)
    numbers = (rows, depth, cols, fresh, height, width)
    return [*made, Routine(function, "pypto_matmul.h", dst, (a, b), numbers, keeps, None, op.concept, span)]


def _fresh(form: Matmul, call: Call) -> Expr:
    """1 where the sums start at 0, 0 where they start at what the accumulator holds."""
    if form.acc is None:
        return ONE
    init = call.args[form.init] if form.init is not None and form.init < len(call.args) else None
    if init is None or isinstance(init, ConstBool):
        return ONE if init is not None and init.value else ZERO
    return scalar.cast(init, DataType.INDEX, call.span)


def depth_check(form: Matmul, call: Call, span: Span) -> Check | None:
    """The right operand must be valid in as many rows as the left one is in columns; None where it is known to be."""
    x, y = call.args[form.lhs].type, call.args[form.rhs].type
    assert isinstance(x, TileType)
    assert isinstance(y, TileType)
    held = y.valid[-2]
    return None if arith.same(held, y.shape[-2]) else windows.rows_check(x.valid[-1], held, span)
