"""`pl.at(level=CORE_GROUP)` scopes as kernels.

In: SSA form with InCore scopes in orchestration or opaque functions.  Out: one InCore function per scope and a call in its
place; an opaque function with such a call becomes an orchestration function.
Invariant: a captured tensor that the scope only writes is Out, one that it reads and writes InOut; a captured scalar is a
scalar parameter; a value of the scope that is read later is returned.
"""

from __future__ import annotations

from typing import Any

from pypto.enums import FunctionType, SplitMode
from pypto.errors import CompileError
from pypto.ir.expr import Call, ConstInt, Expr, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import ShapedType
from pypto.ir.stmt import AssignStmt, InCoreScopeStmt, SplitAivScopeStmt, SpmdScopeStmt, Stmt
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.roots import Flow
from pypto.ir.verify.scopes import statements
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.lane_regions import refuse_wrong_regions
from pypto.passes.outlining import Names, Outliner, Region, outline_scopes
from pypto.passes.retype import Made, Retyper

__all__ = ["outline_incore_scopes"]


@program_pass(
    "OutlineIncoreScopes",
    requires=(IRProperty.SSAForm,),
    produces=(IRProperty.SSAForm, IRProperty.SplitIncoreOrch, IRProperty.AivSplitValid),
)
def outline_incore_scopes(program: Program, options: PassOptions) -> Program:
    made = outline_scopes(program, _Kernels, (InCoreScopeStmt,), (FunctionType.Opaque, FunctionType.Orchestration))
    refuse_wrong_regions(made.function_list)
    return made


def _promoted(f: Function) -> Function:
    pairs = list(zip(f.params, f.param_directions, strict=True))
    body = _DimSymbols(f).body(f.body)
    return Function(
        f.name,
        pairs,
        f.return_types,
        body,
        f.span,
        FunctionType.Orchestration,
        attrs=f.attrs,
        requires_runtime_binding=f.requires_runtime_binding,
    )


class _DimSymbols(Retyper):
    """Extents of parameters that are symbols, read as what they are."""

    def __init__(self, f: Function) -> None:
        super().__init__()
        self.params = set(f.params)

    def visit_assign_stmt(self, s: AssignStmt) -> Made:
        extent = self._symbol(s.value)
        if extent is None:
            return Retyper.visit_assign_stmt(self, s)
        return s.replace(value=extent)

    def _symbol(self, e: Expr) -> Expr | None:
        if not isinstance(e, Call) or e.op.name != "tensor.dim" or e.args[0] not in self.params:
            return None
        t, axis = e.args[0].type, e.args[1]
        if not isinstance(t, ShapedType) or not isinstance(axis, ConstInt):
            return None
        extent = t.shape[axis.value]
        return extent if isinstance(extent, Var) else None


class _Kernels(Outliner):
    def __init__(self, f: Function, names: Names, flow: Flow) -> None:
        super().__init__(_promoted(f) if f.func_type is FunctionType.Opaque else f, names, flow)

    def visit_in_core_scope_stmt(self, s: InCoreScopeStmt) -> list[Stmt]:
        for n in statements(s.body):
            if isinstance(n, (InCoreScopeStmt, SpmdScopeStmt)):
                what = "a pl.at scope cannot contain another scope that runs on a core"
                raise CompileError(what, n.span, "close the outer scope first")
        name = self.name(s.name_hint, "incore")
        kernel, task = _kernel_attrs(s), _task_attrs(s)
        return self.outlined(Region(s, self.outputs(s.body), name, FunctionType.InCore, kernel, task))


# What a scope says about the launch goes to the call, everything else to the kernel.
_TASK_ATTRS = frozenset(
    ("deps", "task_id_var", "dump_vars", "arg_direction_overrides_vars", "allow_early_resolve", "predicate", "manual_dep_edges")
)


def _kernel_attrs(s: InCoreScopeStmt) -> dict[str, Any]:
    attrs = {k: v for k, v in s.attrs.items() if k not in _TASK_ATTRS}
    regions = [n for n in statements(s.body) if isinstance(n, SplitAivScopeStmt)]
    if regions and s.split is not SplitMode.NONE:
        raise CompileError(
            "a scope with pl.split cannot contain pl.split_aiv regions", regions[0].span, "use one of the two ways to split"
        )
    modes = {r.split for r in regions} or {s.split}
    if regions:
        attrs["split_aiv"] = True
    if len(modes) == 1 and SplitMode.NONE not in modes:
        attrs["split"] = next(iter(modes)).value
    return attrs


def _task_attrs(s: InCoreScopeStmt) -> dict[str, Any]:
    return {k: v for k, v in s.attrs.items() if k in _TASK_ATTRS}
