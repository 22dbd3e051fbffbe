"""MemoryReuse: allocations whose values are never needed at the same time become one.

In: kernels with a place per value (planner PYPTO).  Out: fewer allocations; carries and branch results that still lie
apart are joined first; copies within one allocation and membership marks of pipelined loops are gone.
"""

from __future__ import annotations

from pypto.ir.expr import Call, Expr
from pypto.ir.program import Function
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.materialize_semantic_aliases import legalized
from pypto.passes.materialize_semantic_aliases.coalesce import merge_allocations
from pypto.passes.memory.intervals import Intervals
from pypto.passes.memory.pypto_planner import pack
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import calls
from pypto.target import chip_of

__all__ = ["memory_reuse", "without_pipeline_marks"]

MEMBERSHIP = "pipeline_membership"


class _Unmarked(SSARewriter):
    def visit_call(self, c: Call) -> Expr:
        made = super().visit_call(c)
        if isinstance(made, Call) and MEMBERSHIP in made.attrs:
            return made.replace(attrs=made.attrs.without(MEMBERSHIP))
        return made


def without_pipeline_marks(f: Function) -> Function:
    """The function without the marks that only constrain where tiles of pipelined loops are put."""
    marked = any(MEMBERSHIP in c.attrs for c in calls(f.body))
    return _Unmarked().function(f) if marked else f


@function_pass(
    "MemoryReuse",
    requires=(
        IRProperty.SplitIncoreOrch,
        IRProperty.IncoreTileOps,
        IRProperty.HasMemRefs,
        IRProperty.TileOps2D,
        IRProperty.NormalizedStmtStructure,
    ),
    produces=(IRProperty.NormalizedStmtStructure,),
)
def memory_reuse(f: Function, options: PassOptions) -> Function:
    if not f.is_device:
        return f
    f = legalized(f, chip_of(options.platform))
    into = pack(Intervals(f))
    return without_pipeline_marks(merge_allocations(f, into) if into else f)
