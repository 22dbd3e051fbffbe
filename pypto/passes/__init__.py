"""`from pypto import passes`: contexts, pipelines, instruments, judges, and a factory for each pass.

In: a public name.  Out: the object, loaded when it is first asked for; `passes.convert_to_ssa()` is the pass of that name.
Invariant: importing this package loads no pass; a pass that this version does not have is a NotSupportedError by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pypto._lazy import Facade
from pypto.errors import NotSupportedError

if TYPE_CHECKING:
    from pypto.passes.framework import Pass

_FACADE = Facade(
    __name__,
    (
        ("pypto.enums", "MemoryPlanner RuntimeKind"),
        ("pypto.ir.verify.properties", "Diagnostic IRProperty Severity"),
        ("pypto.ir.verify.property_set", "IRPropertySet"),
        ("pypto.passes.context", "PassContext PassOptions effective"),
        (
            "pypto.passes.custom",
            "PassProperties PropertyVerifierRegistry create_function_pass create_program_pass get_default_verification_level "
            "get_default_verify_properties get_structural_properties get_verified_properties run_verifier "
            "runtime_kind_from_name runtime_kind_to_name verify_properties verify_tensor_view_canonical",
        ),
        (
            "pypto.passes.diagnostics",
            "DiagnosticCheck DiagnosticCheckRegistry DiagnosticCheckSet DiagnosticPhase VerificationLevel "
            "get_default_diagnostic_phase",
        ),
        ("pypto.passes.framework", "Pass"),
        (
            "pypto.passes.instruments",
            "CallbackInstrument DiagnosticInstrument PassInstrument ReportInstrument VerificationInstrument VerificationMode "
            "make_roundtrip_instrument",
        ),
        ("pypto.passes.manager", "PassPipeline Pipeline"),
        ("pypto.passes.pass_manager", "OptimizationStrategy PassDumpLevel PassManager"),
        ("pypto.passes.pipeline", "Lowered default_pipeline lower"),
    ),
    modules="l0_tile_chooser",
)

_DELIVERED = (
    "inline_functions unroll_loops ctrl_flow_transform convert_to_ssa simplify normalize_stmt_structure "
    "flatten_call_expr outline_hierarchy_scopes outline_incore_scopes outline_cluster_scopes "
    "convert_tensor_to_tile_ops optimize_orch_tensors lower_composite_ops flatten_tile_nd_to_2d legalize_tile_cast "
    "auto_tile_matmul_l0 canonicalize_tile_slice infer_tile_memory_space resolve_backend_op_layouts "
    "lower_auto_vector_split normalize_return_order lower_pipeline_loops canonicalize_io_order "
    "materialize_tensor_strides init_mem_ref select_buffer_ir_functions materialize_semantic_aliases memory_reuse "
    "verify_tile_storage allocate_memory_addr fold_no_op_reshape derive_call_directions "
    "materialize_valid_shape_symbols lower_tile_to_buffer "
    "expand_mixed_kernel inject_gm_pipe_buffer split_vector_kernel stamp_tfree_split skew_cross_core_pipeline"
)
# Known names of passes that this version leaves out, by why nothing here needs them.
_LEFT_OUT = {
    "matrix kernels are lowered without it": "insert_mx_scale_addr block_nz_tensor_views "
    "block_mx_scale_tensor_views legalize_wide_gm_to_mat_loads legalize_tile_cast_fragments",
    "launches and graphs are executed as they are written": "legalize_spmd_launches outline_graph_scopes legalize_graph_boundary",
    "copies of a pipelined loop have buffers of their own": "lower_pipeline_to_slots",
    "programs here run on one host, task by task": "fuse_create_assemble_to_slice auto_derive_task_dependencies "
    "expand_manual_phase_fence synthesize_allreduce_signals materialize_comm_domain_scopes lower_host_tensor_collectives "
    "lower_l2_tensor_collectives materialize_dist_tensor_ctx materialize_runtime_scopes classify_iter_arg_carry "
    "insert_comm_fence",
}


def _factory(name: str) -> Callable[[], Pass]:
    def make() -> Pass:
        from pypto.passes.pipeline import find_pass

        return find_pass(name)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The pass `{name}`."
    return make


def _missing(name: str, reason: str) -> Callable[..., Any]:
    def make(*_: Any, **__: Any) -> Any:
        raise NotSupportedError(f"the pass '{name}' is not part of this version", hint=reason)

    make.__name__ = make.__qualname__ = name
    return make


_FACTORIES: dict[str, Callable[..., Any]] = {name: _factory(name) for name in _DELIVERED.split()}
_FACTORIES |= {name: _missing(name, reason) for reason, names in _LEFT_OUT.items() for name in names.split()}


class _Passes(ModuleType):
    """A pass's module is named like its factory: the factory is what the package shows under that name."""

    def __getattribute__(self, name: str) -> Any:
        factory = _FACTORIES.get(name)
        return ModuleType.__getattribute__(self, name) if factory is None else factory


sys.modules[__name__].__class__ = _Passes


def __getattr__(name: str) -> Any:
    found = _FACADE.load(name)
    globals()[name] = found
    return found


def __dir__() -> Iterable[str]:
    return sorted((*_FACADE.names(), *_FACTORIES))
