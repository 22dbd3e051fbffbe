"""Native form of operators that combine two tiles where both are valid and hand on the first one elsewhere.

In: the builder of a tile function and a call.  Out: a copy of the first operand, then the operator over the rectangle
that the operands have in common.
Invariant: the result lies apart from the second operand (the operator forbids it), so that the copy cannot change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.codegen.native.access import LaneOp, Operand
from pypto.codegen.native.rectangles import valid_rect
from pypto.errors import InternalError
from pypto.ir import arith
from pypto.ir.expr import Call, Var
from pypto.ir.opdef import FULL, PART, Lanewise, OpDef
from pypto.ir.shaped import TileType
from pypto.span import Span

if TYPE_CHECKING:
    from pypto.codegen.native.from_tile import TileBuilder

__all__ = ["partial"]


def partial(b: TileBuilder, op: OpDef, form: Lanewise, var: Var, call: Call, span: Span) -> None:
    """`form`: the pattern FULL, then the pattern PART."""
    if form.patterns != (FULL, PART):
        raise InternalError(f"{op.name}: an operator in part takes an operand in full and one in part")
    x, y = call.args
    assert isinstance(x.type, TileType)
    assert isinstance(y.type, TileType)
    dst, whole, other = b.view(var), valid_rect(x.type), valid_rect(y.type)
    common = arith.minimum(whole[0], other[0]), arith.minimum(whole[1], other[1])
    if not (arith.same(common[0], whole[0]) and arith.same(common[1], whole[1])):
        b.copy(dst, b.view(x), *whole, op.concept, span)
    operands = tuple(Operand(FULL, b.view(e), None, e.type.dtype) for e in (x, y))  # type: ignore[attr-defined]
    program = form.build((x.type.dtype, y.type.dtype), dst.dtype, call.kwargs)
    b.items.append(LaneOp(program, operands, dst, *common, False, op.concept, span))
