"""SkewCrossCorePipeline: pipelined loops that pass tiles between the cores run trip by trip.

In: functions of one core.  Out: a pipelined loop in which tiles are pushed or popped is a sequential one: it overlaps its trips
by the slots of the pipe, in which one core works ahead of the other, and what goes through a pipe keeps its order.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import ForKind
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import ForStmt
from pypto.ir.verify.cores import kind_of_call
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.statements import calls

__all__ = ["skew_cross_core_pipeline"]


class _Demoting(Mutator):
    def visit_for_stmt(self, s: ForStmt) -> Any:
        made = self.rebuild(s)
        if s.kind is not ForKind.Pipeline or not any(kind_of_call(c) in ("push", "pop") for c in calls(s.body)):
            return made
        return made.replace(kind=ForKind.Sequential, attrs=made.attrs.without("pipeline_stages"))


@function_pass("SkewCrossCorePipeline", requires=(IRProperty.SSAForm,), produces=(IRProperty.SSAForm,))
def skew_cross_core_pipeline(f: Function, options: PassOptions) -> Function:
    return f.replace(body=_Demoting().body(f.body)) if f.is_device else f
