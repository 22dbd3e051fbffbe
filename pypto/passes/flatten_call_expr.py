"""Three-address form: no call inside another expression.

In: SSA form with flat statements.  Out: each nested call bound to a variable `t__tmp_v<n>` of its own, inner
calls first and from left to right, immediately before the statement that used it; for a branch or loop, before it.
Invariant: evaluation order stays; a scope keeps its temporaries; a call in the condition of a loop stays for a judge to find.
"""

from __future__ import annotations

import re

from pypto.enums import FunctionIRStage
from pypto.ir.expr import Call, Expr, Submit, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import AssignStmt, EvalStmt, ScopeStmt, SeqStmts, Stmt, WhileStmt, flatten_to_stmts
from pypto.ir.types import Type
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import definitions
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.retype import Retyper, rebuilt

__all__ = ["flatten_call_expr"]

_SSA, _NSS = IRProperty.SSAForm, IRProperty.NormalizedStmtStructure
_NAME = re.compile(r"t__tmp_v(\d+)$")


@function_pass("FlattenCallExpr", requires=(_SSA, _NSS), produces=(_SSA, IRProperty.NoNestedCalls, _NSS))
def flatten_call_expr(f: Function, options: PassOptions) -> Function:
    if f.ir_stage is FunctionIRStage.Buffer:
        return f
    taken = [_NAME.match(v.name_hint) for v in definitions(f.body)]
    first = max((int(m.group(1)) + 1 for m in taken if m), default=0)
    return f.replace(body=_Flatten(first).block(f.body))


class _Flatten(Retyper):
    def __init__(self, first: int) -> None:
        super().__init__()
        self.count = first
        # Temporaries of the statement at hand.
        self.pending: list[Stmt] = []

    def block(self, s: Stmt) -> Stmt:
        new: list[Stmt] = []
        for x in flatten_to_stmts(s):
            made = self.statement(x)
            new += self.pending
            self.pending = []
            new.append(made)
        return rebuilt(s, new)

    def body(self, s: Stmt) -> Stmt:
        """A body keeps its own temporaries."""
        outer, self.pending = self.pending, []
        made = self.block(s)
        self.pending = outer
        return made

    def statement(self, s: Stmt) -> Stmt:
        if isinstance(s, ScopeStmt):
            shell = s.replace(body=SeqStmts(()))
            made_shell = self.rebuild(shell)
            return (s if made_shell is shell else made_shell).replace(body=self.body(s.body))
        made: Stmt = self.visit(s)
        return made

    # The outermost call of an assignment or a bare statement stays where it is.

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        value = self.top(s.value)
        return s.replace(value=value, var=self.define_as(s.var, self.type_after(s.var, s.value, value)))

    def visit_eval_stmt(self, s: EvalStmt) -> Stmt:
        return s.replace(expr=self.top(s.expr))

    def top(self, e: Expr) -> Expr:
        if isinstance(e, Call):
            return Retyper.visit_call(self, e)
        return self.rebuild(e) if isinstance(e, Submit) else self.expr(e)

    def visit_while_stmt(self, s: WhileStmt) -> Stmt:
        carried = self.carried(s.iter_args)
        body = self.body(s.body)
        results = self.results(s.return_vars, s.body, body)
        # A call here would have to run once per iteration; a judge reports one that is left.
        condition = Retyper(self.vars).expr(s.condition)
        return s.replace(iter_args=carried, condition=condition, body=body, return_vars=results)

    def visit_call(self, c: Call) -> Expr:
        return self._bind(Retyper.visit_call(self, c))

    def visit_submit(self, c: Submit) -> Expr:
        return self._bind(self.rebuild(c))

    def visit_type(self, t: Type) -> Type:
        # Extents come with the operands; a call that one of them still mentions is not evaluated for its sake.
        made: Type = Mutator(self.vars).visit(t) if self.vars else t
        return made

    def _bind(self, e: Expr) -> Expr:
        v = Var(f"t__tmp_v{self.count}", e.type, e.span)
        self.count += 1
        self.pending.append(AssignStmt(v, e, e.span))
        return v
