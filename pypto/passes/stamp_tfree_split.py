"""StampTfreeSplit: a slot is freed as it was filled.

In: functions of one core.  Out: every free of a popped tile's slot has the split and the id of the pop.
"""

from __future__ import annotations

from typing import Any

from pypto.ir.expr import Call, Var
from pypto.ir.node import Attrs
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import AssignStmt, EvalStmt
from pypto.ir.verify.cores import kind_of_call
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass

__all__ = ["stamp_tfree_split"]

_STAMPED = ("split", "id")


class _Stamping(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self.pops: dict[Var, Call] = {}

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        if isinstance(s.value, Call) and kind_of_call(s.value) == "pop":
            self.pops[s.var] = s.value
        return s

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        free = s.expr
        if not isinstance(free, Call) or kind_of_call(free) != "free":
            return s
        source = free.args[0]
        pop = self.pops.get(source) if isinstance(source, Var) else None
        if pop is None:
            return s
        stamp = {k: pop.kwargs[k] for k in _STAMPED if pop.kwargs.get(k)}
        kept = {k: v for k, v in free.kwargs.items() if k not in _STAMPED}
        if {**kept, **stamp} == dict(free.kwargs):
            return s
        return s.replace(expr=free.replace(kwargs=Attrs({**kept, **stamp})))


@function_pass("StampTfreeSplit", requires=(IRProperty.SSAForm,), produces=(IRProperty.SSAForm, IRProperty.VectorKernelSplit))
def stamp_tfree_split(f: Function, options: PassOptions) -> Function:
    return f.replace(body=_Stamping().body(f.body)) if f.is_device else f
