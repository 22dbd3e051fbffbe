"""`pl.at` scopes above the core group as functions.

In: SSA form with Hierarchy scopes in opaque functions.  Out: one opaque function per scope, carrying its level and role,
and a call in its place; inner scopes first.
Invariant: the type of the parent stays; captured tensors that the scope writes stay `In`, values are returned as they are.
"""

from __future__ import annotations

from pypto.enums import FunctionType, Role
from pypto.ir.program import Program
from pypto.ir.stmt import HierarchyScopeStmt, Stmt
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.outlining import Outliner, Region, outline_scopes

__all__ = ["outline_hierarchy_scopes"]

_ROLES = {Role.Orchestrator: "_orch", Role.SubWorker: "_worker", None: ""}


@program_pass(
    "OutlineHierarchyScopes",
    requires=(IRProperty.SSAForm,),
    produces=(IRProperty.SSAForm, IRProperty.HierarchyOutlined, IRProperty.OrchestrationReferencesResolved),
)
def outline_hierarchy_scopes(program: Program, options: PassOptions) -> Program:
    return outline_scopes(program, _Hierarchy, (HierarchyScopeStmt,), (FunctionType.Opaque,))


class _Hierarchy(Outliner):
    def visit_hierarchy_scope_stmt(self, s: HierarchyScopeStmt) -> list[Stmt]:
        outputs = self.outputs(s.body)
        level = s.level.name.lower().replace("cluster_", "cluster")
        inner = s.replace(body=self.body(s.body))
        name = self.name(s.name_hint, level + _ROLES[s.role])
        return self.outlined(
            Region(inner, outputs, name, FunctionType.Opaque, s.attrs, level=s.level, role=s.role, exports_writes=False)
        )
