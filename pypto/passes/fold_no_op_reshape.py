"""FoldNoOpReshape: a relabel that changes neither type nor place is the value it relabels."""

from __future__ import annotations

from typing import Any

from pypto.ir.expr import Call
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import applies

__all__ = ["fold_no_op_reshape"]


class _Folder(SSARewriter):
    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        value = self.visit(s.value)
        if isinstance(value, Call) and value.op.name == "tile.reshape" and value.args[0].type == s.var.type:
            self.vars[s.var] = value.args[0]
            return None
        return self.assign(s, value)


@function_pass("FoldNoOpReshape")
def fold_no_op_reshape(f: Function, options: PassOptions) -> Function:
    return _Folder().function(f) if f.is_device and applies(f, "tile.reshape") else f
