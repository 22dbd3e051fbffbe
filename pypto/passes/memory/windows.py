"""Where windows of tiles begin, as far as scalar arithmetic proves it.

In: slices at constant or run-time offsets.  Out: linear forms of byte offsets, so that alignment and distance can be
decided for every value of the variables; definitions of scalars are opened, loop variables are atoms.
"""

from __future__ import annotations

from pypto.enums import TileLayout
from pypto.ir import arith
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.shaped import TileType, const_dims
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.ir.types import ScalarType
from pypto.passes.statements import statements
from pypto.target.chip import BLOCK_BYTES

__all__ = ["ScalarValues", "is_block_aligned", "is_dense_window", "scalar_values", "window_offset"]

ScalarValues = dict[Var, Expr]


def scalar_values(body: Stmt) -> ScalarValues:
    """What each scalar variable that is assigned once stands for; results of calls stay atoms."""
    found: ScalarValues = {}
    for n in statements(body):
        if isinstance(n, AssignStmt) and isinstance(n.var.type, ScalarType) and not isinstance(n.value, Call):
            found[n.var] = n.value
    return found


def window_offset(whole: TileType, row: Expr, col: Expr, values: ScalarValues, pitch: int | None = None) -> arith.Linear:
    """Bytes from the first element of a flat tile to element (row, col); `pitch` replaces the tile's own."""
    dims = const_dims(whole.shape)
    assert dims is not None
    rows, cols = (1, dims[0]) if len(dims) == 1 else (dims[-2], dims[-1])
    by_row = whole.layout.blayout is TileLayout.row_major
    step = pitch if pitch is not None else cols if by_row else rows
    outer, inner = (row, col) if by_row else (col, row)
    at = arith.linear(outer, values).scaled(step).plus(arith.linear(inner, values))
    return at.scaled(whole.dtype.get_byte())


def is_block_aligned(offset: arith.Linear) -> bool:
    """Whether a byte offset is a multiple of 32 whatever its variables are."""
    return offset.divisor() % BLOCK_BYTES == 0


def is_dense_window(window: TileType, whole: TileType) -> bool:
    """Whether the elements of a window lie side by side: it has one row, or the rows of the whole."""
    a, b = const_dims(window.shape), const_dims(whole.shape)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return False
    by_row = whole.layout.blayout is TileLayout.row_major
    return (a[0] == 1 or a[1] == b[1]) if by_row else (a[1] == 1 or a[0] == b[0])
