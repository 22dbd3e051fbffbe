"""Which judge answers for which property.

In: properties and a program.  Out: findings.  A judge is a function `(program) -> findings` named like its property, in the
module the table gives; it is imported when it is first asked, and it sees no pass.
Invariant: a property without a judge is never verified, and says so when it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType

from pypto.errors import VerificationError
from pypto.ir.program import Program
from pypto.ir.verify.properties import Diagnostic, IRProperty, Severity

__all__ = ["DEFAULT", "STRUCTURAL", "VERIFIED", "has_judge", "judge_of", "report", "verify", "verify_or_throw"]

Judge = Callable[[Program], Iterable[Diagnostic]]
P = IRProperty

_JUDGES: Mapping[IRProperty, str] = MappingProxyType(
    {
        P.SSAForm: "ssa.ssa_form",
        P.TypeChecked: "types.type_checked",
        P.NoNestedCalls: "nested_calls.no_nested_calls",
        P.NormalizedStmtStructure: "structure.normalized_stmt_structure",
        P.NoRedundantBlocks: "structure.no_redundant_blocks",
        P.UseAfterDef: "use_after_def.use_after_def",
        P.BreakContinueValid: "control_flow.break_continue_valid",
        P.OutParamNotShadowed: "out_params.out_param_not_shadowed",
        P.NoNestedInCore: "out_params.no_nested_incore",
        P.ArrayNotEscaped: "out_params.array_not_escaped",
        P.ManualDepsOnSubmitOnly: "out_params.manual_deps_on_submit_only",
        P.InOutUseValid: "inout_use.inout_use_valid",
        P.PipelineLoopValid: "control_flow.pipeline_loop_valid",
        P.PipelineResolved: "control_flow.pipeline_resolved",
        P.InlineFunctionsEliminated: "control_flow.inline_functions_eliminated",
        P.UnrollResolved: "control_flow.unroll_resolved",
        P.StructuredCtrlFlow: "control_flow.structured_ctrl_flow",
        P.SplitIncoreOrch: "references.split_incore_orch",
        P.ClusterOutlined: "references.cluster_outlined",
        P.HierarchyOutlined: "references.hierarchy_outlined",
        P.OrchestrationReferencesResolved: "references.orchestration_references_resolved",
        P.CallDirectionsResolved: "references.call_directions_resolved",
        P.ReturnParamsExplicit: "returns.return_params_explicit",
        P.IncoreTileOps: "tile_ops.incore_tile_ops",
        P.TileOps2D: "tile_ops.tile_ops_2d",
        P.TileMemoryInferred: "tile_ops.tile_memory_inferred",
        P.TileTypeCoherence: "tile_ops.tile_type_coherence",
        P.HasMemRefs: "tile_ops.has_mem_refs",
        P.AccToGmStoreValid: "tile_ops.acc_to_gm_store_valid",
        P.AccCompactValid: "accumulators.acc_compact_valid",
        P.AtomicAddDtypeValid: "tile_ops.atomic_add_dtype_valid",
        P.MixedKernelExpanded: "cores.mixed_kernel_expanded",
        P.VectorKernelSplit: "cores.vector_kernel_split",
        P.AivSplitValid: "lane_regions.aiv_split_valid",
        P.HardSyncallOccupancyValid: "syncalls.hard_syncall_occupancy_valid",
        P.TensorViewCanonical: "tensor_views.tensor_view_canonical",
        P.AssignTypeSymmetry: "types.assign_type_symmetry",
        P.TileStorageLegalized: "tile_storage.tile_storage_legalized",
        P.TileStorageAllocated: "tile_storage.tile_storage_allocated",
        P.AllocatedMemoryAddr: "placement.allocated_memory_addr",
        P.BufferIR: "buffer_ir.buffer_ir",
        P.PipesValid: "pipes.pipes_valid",
    }
)

# Properties of every program a pipeline may start from.
STRUCTURAL: frozenset[IRProperty] = frozenset(
    (
        P.TypeChecked,
        P.BreakContinueValid,
        P.NoRedundantBlocks,
        P.UseAfterDef,
        P.OutParamNotShadowed,
        P.NoNestedInCore,
        P.InOutUseValid,
        P.PipelineLoopValid,
        P.ArrayNotEscaped,
        P.ManualDepsOnSubmitOnly,
        P.AtomicAddDtypeValid,
        P.PipesValid,
    )
)
# Properties a pipeline checks when a pass says that it produced them.
VERIFIED: frozenset[IRProperty] = frozenset(
    (
        P.SSAForm,
        P.TypeChecked,
        P.MixedKernelExpanded,
        P.AllocatedMemoryAddr,
        P.BreakContinueValid,
        P.NoRedundantBlocks,
        P.InOutUseValid,
        P.CallDirectionsResolved,
        P.ManualDepsOnSubmitOnly,
        P.ReturnParamsExplicit,
        P.AivSplitValid,
        P.HardSyncallOccupancyValid,
        P.IterArgCarryClassified,
        P.RuntimeScopesMaterialized,
        P.AccToGmStoreValid,
        P.AtomicAddDtypeValid,
        P.PipesValid,
        P.TileMemoryInferred,
        P.DistTensorCtxMaterialized,
    )
)
# Properties `run_verifier()` checks when it is given none.
DEFAULT: frozenset[IRProperty] = frozenset(
    (
        P.SSAForm,
        P.TypeChecked,
        P.NoNestedCalls,
        P.BreakContinueValid,
        P.NoRedundantBlocks,
        P.UseAfterDef,
        P.OutParamNotShadowed,
        P.NoNestedInCore,
        P.TileTypeCoherence,
        P.ArrayNotEscaped,
    )
)


def has_judge(p: IRProperty) -> bool:
    return p in _JUDGES


def judge_of(p: IRProperty) -> Judge:
    """The judge of a property; KeyError where there is none."""
    module, name = _JUDGES[p].rsplit(".", 1)
    judge: Judge = getattr(import_module(f"{__package__}.{module}"), name)
    return judge


def verify(properties: Iterable[IRProperty], program: Program) -> list[Diagnostic]:
    """What the judges of these properties find, in the order of the properties' numbers."""
    found: list[Diagnostic] = []
    for p in sorted(set(properties), key=lambda p: p.value):
        if p in _JUDGES:
            found += judge_of(p)(program)
    return found


def verify_or_throw(properties: Iterable[IRProperty], program: Program, where: str = "") -> None:
    """VerificationError with every finding, at the place of the first error."""
    wanted = list(properties)
    errors = [d for d in verify(wanted, program) if d.severity is Severity.Error]
    if not errors:
        return
    names = ", ".join(sorted(p.name for p in wanted))
    after = f" after '{where}'" if where else ""
    first = next((d.span for d in errors if d.span.is_valid()), None)
    texts = tuple(d.text() for d in errors)
    advised = next((d for d in errors if d.hint), None)
    what = f"Verification failed{after} for properties {{{names}}}: {report(errors)}"
    if advised is None:
        raise VerificationError(what, first, diagnostics=texts)
    # The user's own mistake, for which there is a remedy, comes before what the compiler calls it.
    raise VerificationError(f"{advised.message}\n{what}", first, advised.hint, diagnostics=texts)


def report(diagnostics: Iterable[Diagnostic]) -> str:
    """Findings as text, one a line."""
    found = list(diagnostics)
    return f"IR Verification Report ({len(found)} finding(s))" + "".join(f"\n  {d.text()}" for d in found)
