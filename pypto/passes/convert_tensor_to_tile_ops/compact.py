"""Which tiles are known to lie in memory without gaps, in row-major order.

In: what defines the variables met so far.  Out: whether a tile is the result of an operator with storage of its own, under
whatever name and valid extents.  Windows keep their parent's pitch without saying so; of parameters and results of control
flow nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.opdef import Special

__all__ = ["is_compact"]


def is_compact(e: Expr, defined: Mapping[Var, Expr]) -> bool:
    """Whether a tile provably has no gaps between its rows."""
    value = defined.get(e) if isinstance(e, Var) else None
    if isinstance(value, Var):
        return is_compact(value, defined)
    op = ops.of(value) if isinstance(value, Call) else None
    if op is None or op.level != "tile":
        return False
    assert isinstance(value, Call)
    if op.concept == "set_validshape":
        return is_compact(value.args[0], defined)
    is_view = isinstance(op.semantics, Special) and op.semantics.kind == "view"
    return not is_view and op.reuses is None
