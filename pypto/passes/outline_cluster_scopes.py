"""Clusters and SPMD regions as Group and Spmd functions.

In: SSA form whose kernels are outlined.  Out: each `pl.cluster` scope as a Group function, each `pl.spmd` scope outside of a
cluster as an Spmd function, and calls in their place that carry the block count.
Invariant: the block count and `sync_start` belong to the launch, never to the function; the type of the parent stays.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import FunctionType
from pypto.errors import CompileError
from pypto.ir.expr import Expr
from pypto.ir.program import Program
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import ClusterScopeStmt, SpmdScopeStmt, Stmt
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import definitions, statements
from pypto.ir.verify.syncalls import launch_findings
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.outlining import Outliner, Region, outline_scopes
from pypto.passes.retype import used_vars
from pypto.target import chip_of

__all__ = ["outline_cluster_scopes"]


@program_pass(
    "OutlineClusterScopes",
    requires=(IRProperty.SSAForm,),
    produces=(IRProperty.SSAForm, IRProperty.ClusterOutlined, IRProperty.HardSyncallOccupancyValid),
)
def outline_cluster_scopes(program: Program, options: PassOptions) -> Program:
    made = outline_scopes(program, _Clusters, (ClusterScopeStmt, SpmdScopeStmt), tuple(FunctionType))
    # Judges know no platform: what fills another chip fails here.
    wrong = next(launch_findings(made, (chip_of(options.platform),)), None)
    if wrong is not None:
        raise CompileError(wrong.message, wrong.span, wrong.hint, code="C130")
    return made


class _Clusters(Outliner):
    def visit_cluster_scope_stmt(self, s: ClusterScopeStmt) -> list[Stmt]:
        outputs = self.outputs(s.body)
        nested = [n for n in statements(s.body) if isinstance(n, SpmdScopeStmt)]
        if len(nested) > 1:
            raise CompileError("a cluster holds at most one pl.spmd region", nested[1].span, "open a cluster for each")
        attrs, launch = dict(s.attrs), {}
        if nested:
            _check_count(nested[0], s)
            attrs["spmd_unwrapped"] = True
            launch = _launch(nested[0])
            s = s.replace(body=_Unwrap().body(s.body))
        name = self.name(s.name_hint, "cluster")
        return self.outlined(Region(s, outputs, name, FunctionType.Group, attrs, launch))

    def visit_spmd_scope_stmt(self, s: SpmdScopeStmt) -> list[Stmt]:
        name = self.name(s.name_hint, "spmd")
        launch = {**s.attrs, **_launch(s)}
        return self.outlined(Region(s, self.outputs(s.body), name, FunctionType.Spmd, call_attrs=launch))


def _launch(s: SpmdScopeStmt) -> dict[str, Any]:
    return {"core_num": s.core_num, **({"sync_start": True} if s.sync_start else {})}


def _check_count(spmd: SpmdScopeStmt, cluster: ClusterScopeStmt) -> None:
    """The block count is read at the launch of the cluster: it cannot depend on what the cluster computes."""
    inside = definitions(cluster.body)
    if any(v in inside for v in used_vars(spmd.core_num)):
        raise CompileError(
            "the block count of pl.spmd depends on a value of its cluster", spmd.span, "compute it before the cluster"
        )


class _Unwrap(Mutator):
    """An SPMD region inside a cluster is the cluster's own body."""

    def visit_expr(self, e: Expr) -> Expr:
        return e

    def visit_spmd_scope_stmt(self, s: SpmdScopeStmt) -> Stmt:
        return s.body
