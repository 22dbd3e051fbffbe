"""Unrolled loops, written out.

In: loops of kind Unroll with constant bounds.  Out: one copy of the body per iteration, the loop variable a constant.
Invariant: what the body rebinds keeps its name, so that copies hand values on to each other; types follow the constants.
"""

from __future__ import annotations

from pypto.enums import ForKind
from pypto.errors import CompileError
from pypto.ir.expr import ConstInt, Expr
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import ForStmt, Stmt, flatten_to_stmts
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.normalize_stmt_structure import flat
from pypto.passes.retype import Retyper

__all__ = ["MAX_COPIES", "unroll_loops"]

MAX_COPIES = 1 << 14  # of one loop; beyond that the kernel would not compile in reasonable time


@function_pass("UnrollLoops", produces=(IRProperty.UnrollResolved,))
def unroll_loops(f: Function, options: PassOptions) -> Function:
    return flat(f.replace(body=_Unroll().body(f.body)))


class _Unroll(Mutator):
    def visit_expr(self, e: Expr) -> Expr:
        return e

    def visit_for_stmt(self, s: ForStmt) -> Stmt | list[Stmt]:
        s = s.replace(body=self.body(s.body))
        if s.kind is not ForKind.Unroll:
            return s
        if s.iter_args or s.return_vars:
            raise CompileError("an unrolled loop carries no values", s.span, "rebind a name in the body instead of init_values")
        copies: list[Stmt] = []
        for i in _trips(s):
            value = ConstInt(i, s.loop_var.type.dtype, s.loop_var.span)  # type: ignore[attr-defined]
            copies += flatten_to_stmts(Retyper({s.loop_var: value}).body(s.body))
        if copies and s.leading_comments and not copies[0].leading_comments:
            copies[0] = copies[0].replace(leading_comments=s.leading_comments)
        return copies


def _trips(s: ForStmt) -> range:
    bounds = []
    for what, e in (("start", s.start), ("stop", s.stop), ("step", s.step)):
        if not isinstance(e, ConstInt):
            place = e.span if e.span.is_valid() else s.span
            raise CompileError(f"the {what} of an unrolled loop must be a constant", place, "use pl.range for run-time bounds")
        bounds.append(e.value)
    if bounds[2] == 0:
        raise CompileError("the step of a loop must not be zero", s.span, "step 1 visits every index, -1 counts down")
    trips = range(*bounds)
    if len(trips) > MAX_COPIES:
        raise CompileError(f"the loop unrolls to {len(trips)} copies; the limit is {MAX_COPIES}", s.span, "use pl.range")
    return trips
