"""Products of matrices: a routine over views of any strides, whatever boxes the device would keep the tiles in."""

from __future__ import annotations

from types import MappingProxyType

from pypto.codegen.native import windows
from pypto.codegen.native.access import ONE, ZERO, Check, LaneOp, Operand, Routine, View
from pypto.dtypes import DataType
from pypto.errors import InternalError
from pypto.ir import arith, scalar
from pypto.ir.expr import Call, ConstBool, Expr
from pypto.ir.lanes import LaneProgram, lane_type
from pypto.ir.opdef import COL, Matmul, OpDef
from pypto.ir.shaped import TileType, is_less
from pypto.ir.verify.sums import Undefined, all_of, product_extents
from pypto.span import Span

__all__ = ["LINKED", "depth_check", "matmul", "of_extents", "product", "product_of", "sum_checks"]

_HEADER = "pypto_matmul.h"
LINKED = MappingProxyType({_HEADER: "matmul"})  # headers that only declare, and the runtime's routines behind them
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
    made: list[Routine | LaneOp] = []
    fresh = _fresh(form, call)
    if bias:
        # Sums start at the bias.
        t = dst.dtype
        start = LaneProgram((lane_type(t),), (), 0)
        made.append(LaneOp(start, (Operand(COL, bias[0], None, t),), dst, rows, cols, False, "bias", span))
        fresh = ZERO
    keeps = form.acc is not None or bool(bias)
    return [*made, matmul(dst, a, b, (rows, depth, cols), fresh, keeps, span, op.concept, alone=True)]


def matmul(
    dst: View,
    a: View,
    b: View,
    extents: tuple[Expr, Expr, Expr],
    fresh: Expr,
    keeps: bool,
    span: Span,
    name: str,
    *,
    alone: bool,
) -> Routine:
    """The routine that adds a product to `dst`.

    `extents`: M, K, N.  `fresh`: 1 where the sums start at 0.  `keeps`: elements of `dst` beside the product, or what it is
    added to, count.  `alone`: those beside it do not.
    """
    function = f"pp_matmul_{_SUFFIX[a.dtype]}"
    return of_extents(
        Routine(function, _HEADER, dst, (a, b), (*extents, fresh), keeps, None, name, span, packs=2, alone=alone), extents
    )


def of_extents(op: Routine, extents: tuple[Expr, Expr, Expr]) -> Routine:
    """The same product over other extents."""
    rows, depth, cols = extents
    return op._replace(numbers=(*extents, op.numbers[3]), rects=((rows, depth), (depth, cols)), written=(rows, cols))


def product_of(op: Routine) -> tuple[Expr, Expr, Expr] | None:
    """M, K, N of a routine that is a product; None of another one."""
    return op.numbers[:3] if op.header == _HEADER else None  # type: ignore[return-value]


def _fresh(form: Matmul, call: Call) -> Expr:
    """1 where the sums start at 0, 0 where they start at what the accumulator holds."""
    if form.acc is None:
        return ONE
    init = call.args[form.init] if form.init is not None and form.init < len(call.args) else None
    if init is None or isinstance(init, ConstBool):
        return ONE if init is not None and init.value else ZERO
    return scalar.cast(init, DataType.INDEX, call.span)


def sum_checks(form: Matmul, call: Call, undefined: Undefined | None, span: Span) -> list[Check]:
    """A product lies within the sum that it is added to; the first one (`undefined`: when it is) makes all that is valid.

    What is known is not checked.
    """
    assert form.acc is not None
    acc = call.args[form.acc].type
    assert isinstance(acc, TileType)
    unequal = [(n, held, i) for i, (n, held) in enumerate(zip(product_extents(call, form), acc.valid, strict=True))]
    unequal = [x for x in unequal if not arith.same(*x[:2])]
    beyond = tuple(
        (scalar.le(n, held), i, (held, n, ZERO))
        for n, held, i in unequal
        if not is_less(n, held) and not arith.same(held, acc.shape[i])
    )
    made = [Check("sum", beyond, (), span)] if beyond else []
    if undefined is not None and unequal:
        first = _fresh(form, call) if undefined.when is None else scalar.cast(all_of(undefined.when), DataType.INDEX, span)
        whole = tuple((scalar.eq(n, held), i, (held, n, ZERO)) for n, held, i in unequal)
        made.append(Check("sum", whole, (first,) if undefined.when != () else (), span))
    return made


def depth_check(form: Matmul, call: Call, span: Span) -> Check | None:
    """The right operand must be valid in as many rows as the left one is in columns; None where it is known to be."""
    x, y = call.args[form.lhs].type, call.args[form.rhs].type
    assert isinstance(x, TileType)
    assert isinstance(y, TileType)
    held = y.valid[-2]
    return None if arith.same(held, y.shape[-2]) else windows.rows_check(x.valid[-1], held, span)
