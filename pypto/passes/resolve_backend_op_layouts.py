"""ResolveBackendOpLayouts: elementwise operators on column vectors work on the same bytes as a row.

In: kernels whose column vectors ([N, 1], stored along the column) may meet elementwise operators.  Out: operands are
relabelled to [1, N] (no data moves), the operator runs on rows, its result is relabelled back.
Invariant: types outside the operator do not change; an operator that mixes layouts stays as it is.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import TileLayout
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import FULL, PART, SCALAR, UNUSED, Lanewise
from pypto.ir.program import Function
from pypto.ir.shaped import TileType, const_dims
from pypto.ir.stmt import AssignStmt, Stmt
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import definitions

__all__ = ["resolve_backend_op_layouts"]

_DATA = frozenset((FULL, PART))  # the patterns of operands that are read element by element


class _Resolver(SSARewriter):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[Var, Var]] = []  # column vectors and the rows they are relabels of, by region

    def body(self, s: Stmt) -> Stmt:
        self.rows.append({})
        made = super().body(s)
        self.rows.pop()
        return made

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        value = self.visit(s.value)
        if not isinstance(value, Call) or not _works_on_columns(value):
            return self.assign(s, value)
        args = [self._row(a) if _is_column(a) else a for a in value.args]
        row = self.let(f"{s.var.name_hint}_row", typed_call(value.op.name, args, value.kwargs, value.span, attrs=value.attrs))
        back = typed_call("tile.reshape", (row, MakeTuple(_shape(value))), None, value.span)
        if back.type != value.type:
            self.out.pop()
            return self.assign(s, value)
        made = self.assign(s, back)
        assert isinstance(made, AssignStmt)
        self.rows[-1][made.var] = row
        return made

    def _row(self, e: Expr) -> Expr:
        for known in reversed(self.rows):
            if isinstance(e, Var) and e in known:
                return known[e]
        row = self.emit("tile.reshape", (e, MakeTuple((const_index(1), _shape(e)[0]))), None, f"{_hint(e)}_row")
        if isinstance(e, Var):
            self.rows[-1][e] = row
        return row


def _works_on_columns(c: Call) -> bool:
    """Whether an elementwise operator is applied to column vectors only; its scratch may be anything."""
    op = ops.of(c)
    if op is None or op.level != "tile" or not isinstance(op.semantics, Lanewise):
        return False
    s = op.semantics
    data = [a for a, pattern in zip(c.args, s.patterns, strict=False) if pattern in _DATA]
    elementwise = s.result == FULL and set(s.patterns) <= _DATA | {SCALAR, UNUSED}
    return elementwise and bool(data) and all(_is_column(a) for a in data)


def _is_column(e: Expr) -> bool:
    t = e.type
    dims = const_dims(t.shape) if isinstance(t, TileType) else None
    if dims is None or not isinstance(t, TileType):
        return False
    return len(dims) == 2 and dims[1] == 1 and dims[0] > 1 and t.layout.is_flat and t.layout.blayout is TileLayout.col_major


def _shape(e: Expr) -> tuple[Expr, ...]:
    assert isinstance(e.type, TileType)
    return e.type.shape


def _hint(e: Expr) -> str:
    return e.name_hint if isinstance(e, Var) else "t"


@function_pass(
    "ResolveBackendOpLayouts",
    requires=(IRProperty.SSAForm, IRProperty.IncoreTileOps, IRProperty.SplitIncoreOrch, IRProperty.TileOps2D),
    produces=(IRProperty.NormalizedStmtStructure,),
)
def resolve_backend_op_layouts(f: Function, options: PassOptions) -> Function:
    return _Resolver().function(f) if f.is_device and any(_is_column(v) for v in definitions(f.body)) else f
