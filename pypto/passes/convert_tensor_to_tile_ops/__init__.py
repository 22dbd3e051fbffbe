"""ConvertTensorToTileOps: kernels over tensors become kernels over tiles.

In: SSA, kernels outlined.  Out: in every InCore function, computed values are tiles, operands in global memory are
loaded where they are used, results are stored into parameters that callers provide; written parameters say so.
Invariant: what a kernel reads and writes of global memory, and in which order, does not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto._lazy import later
from pypto.enums import ArgEffect, FunctionType, ParamDirection
from pypto.ir.expr import Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType
from pypto.ir.verify.properties import IRProperty
from pypto.passes.check_created import refuse_unwritten
from pypto.passes.context import PassOptions
from pypto.passes.convert_tensor_to_tile_ops.body import BodyConverter
from pypto.passes.convert_tensor_to_tile_ops.carries import narrow_acc_carries
from pypto.passes.convert_tensor_to_tile_ops.coherence import mixed_writes, reject_mixed_writes
from pypto.passes.convert_tensor_to_tile_ops.fills import fill_loops_to_bulk
from pypto.passes.convert_tensor_to_tile_ops.flow import Access, Directions, GmFlow, accesses, analyze
from pypto.passes.convert_tensor_to_tile_ops.joins import check_joins, refuse_loose_accumulators
from pypto.passes.convert_tensor_to_tile_ops.outputs import AddedOutput, append_outputs, created_results_to_outputs
from pypto.passes.framework import program_pass
from pypto.passes.lane_regions import refuse_wrong_regions
from pypto.target import Chip, chip_of

if TYPE_CHECKING:
    from pypto.passes.convert_tensor_to_tile_ops import callers as _callers
    from pypto.passes.convert_tensor_to_tile_ops import staging as _staging
else:
    _callers, _staging = later("pypto.passes.convert_tensor_to_tile_ops", "callers staging")

__all__ = ["convert_tensor_to_tile_ops"]


@program_pass(
    "ConvertTensorToTileOps",
    requires=(IRProperty.SSAForm, IRProperty.SplitIncoreOrch, IRProperty.NormalizedStmtStructure),
    produces=(
        IRProperty.SSAForm,
        IRProperty.IncoreTileOps,
        IRProperty.NormalizedStmtStructure,
        IRProperty.AivSplitValid,
    ),
    invalidates=(IRProperty.AivSplitValid,),
)
def convert_tensor_to_tile_ops(program: Program, options: PassOptions) -> Program:
    refuse_unwritten(program)
    chip = chip_of(options.platform)

    def directions(name: str) -> tuple[ParamDirection, ...] | None:
        f = program.get_function(name)
        return f.param_directions if f is not None else None

    functions: list[Function] = []
    added: dict[str, list[AddedOutput]] = {}
    for f in program.function_list:
        if f.func_type is FunctionType.InCore:
            f, outputs = _convert(f, chip, directions)
            if outputs:
                added[f.name] = outputs
        functions.append(f)
    refuse_wrong_regions(functions)
    return program.with_functions(_callers.update_callers(functions, added) if added else functions)


def _convert(f: Function, chip: Chip, directions: Directions) -> tuple[Function, list[AddedOutput]]:
    """One kernel, and the Out parameters it gained."""
    original = f
    f = fill_loops_to_bulk(f)
    f, outputs = created_results_to_outputs(f)
    f = append_outputs(f, outputs)
    flow = analyze(f)
    found = accesses(f, flow, directions)
    conflicts = mixed_writes(found)
    if conflicts:
        f = _staging.stage_element_writes(f, flow, conflicts)
        flow = analyze(f)
        found = accesses(f, flow, directions)
        reject_mixed_writes(found)
    cache = {f.params[i]: int(policy) for i, policy in f.attrs.get("cache_policy", ())}
    converter = BodyConverter(f, flow, _shareable(f, flow, found), chip, cache)
    made = narrow_acc_carries(converter.function(f))
    check_joins(made)
    refuse_loose_accumulators(made)
    if made is f and f is original and not cache:
        return _upgrade_directions(f, found), []
    outputs += converter.added
    made = append_outputs(made, converter.added)
    made = made.replace(attrs=made.attrs.without("cache_policy")) if "cache_policy" in made.attrs else made
    return _upgrade_directions(made, found), outputs


def _shareable(f: Function, flow: GmFlow, found: list[Access]) -> frozenset[Var]:
    """Tensor parameters that nothing in the kernel writes: one load serves every use as a whole."""
    if flow.opaque:
        return frozenset()
    written = frozenset(r for a in found if a.effect is not ArgEffect.Read for r in a.roots)
    return frozenset(p for p in f.params if isinstance(p.type, TensorType) and p not in written)


def _upgrade_directions(f: Function, found: list[Access]) -> Function:
    """Parameters declared In that the kernel writes become Out, or InOut where it reads them too."""
    reads: set[Var] = set()
    writes: set[Var] = set()
    for a in found:
        if a.effect is not ArgEffect.Write:
            reads |= a.roots
        if a.effect is not ArgEffect.Read:
            writes |= a.roots
    new = tuple(
        (ParamDirection.InOut if p in reads else ParamDirection.Out) if d is ParamDirection.In and p in writes else d
        for p, d in zip(f.params, f.param_directions, strict=True)
    )
    return f if new == f.param_directions else f.replace(param_directions=new)
