"""Copies whose rows become columns: what they are, and the routine that does them by blocks.

In: an operation.  Out: its two sides with the rows of both contiguous, or None; the call in C.  Such a copy is a loop of its own:
element by element inside another loop, it would read a cache line for each element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.codegen.native.access import Compute, LaneOp, View, disjoint
from pypto.ir import arith
from pypto.ir.expr import Expr
from pypto.ir.opdef import FULL
from pypto.named import NamedTuple

if TYPE_CHECKING:
    from pypto.codegen.native.emit_group import GroupEmitter

__all__ = ["Turn", "emit_turn", "is_copy", "turn_of"]

_HEADER = "pypto_turn.h"
_WIDE = 4  # bytes of an element from which on a block's rows can be whole lines


class Turn(NamedTuple):
    """`dst[r, c] = src[r, c]` for `rows` and `cols`, where `dst` is contiguous along c and `src` along r."""

    dst: View
    src: View
    rows: Expr
    cols: Expr


def is_copy(op: Compute) -> bool:
    """Whether an operation moves elements as they are, from a rectangle to a rectangle."""
    plain = isinstance(op, LaneOp) and not op.mask and not op.program.instrs and len(op.operands) == 1
    return plain and isinstance(op, LaneOp) and op.operands[0].pattern == FULL


def turn_of(op: Compute) -> Turn | None:
    """The turn that an operation is."""
    if not isinstance(op, LaneOp) or not is_copy(op):
        return None
    dst, src = op.dst, op.operands[0].view
    if src is None or arith.is_const(op.rows, 1) or arith.is_const(op.cols, 1) or not disjoint(dst, src):
        return None
    found = Turn(dst, src, op.rows, op.cols)
    if arith.is_const(dst.row, 1):
        found = Turn(dst.transposed(), src.transposed(), op.cols, op.rows)
    contiguous = arith.is_const(found.dst.col, 1) and arith.is_const(found.src.row, 1)
    return found if contiguous and not arith.is_const(found.src.col, 1) and not arith.is_const(found.dst.row, 1) else None


def emit_turn(e: GroupEmitter, t: Turn) -> None:
    """The call of the routine."""
    e.functions.headers.setdefault(_HEADER)
    size = t.dst.dtype.get_byte()
    past = e.past(t.dst, t.rows, t.cols) if size >= _WIDE else None
    sides = [f"{e.base(v)} + {e.expr(v.offset)}, {e.expr(stride)}" for v, stride in ((t.dst, t.dst.row), (t.src, t.src.col))]
    e.w.line(f"pp_turn_{8 * size}({', '.join([*sides, e.expr(t.rows), e.expr(t.cols), past or 'false'])});")
