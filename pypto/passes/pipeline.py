"""The default pipeline: the one list of passes, and the two lanes that a program takes through it.

In: a parsed program and the options.  Out: the program for the device (Buffer IR where it was selected) and the program
that the host executes.  Both are one until storage is legalized; there the host lane also prepares the kernels that stay
at tile stage, so that each planner's placement can be executed to the bit.
Invariant: functions that the lanes do not treat differently are the same objects in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module

from pypto.enums import MemoryPlanner
from pypto.ir.program import Function, Program
from pypto.ir.structural import compare
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import STRUCTURAL
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions, effective
from pypto.passes.framework import Pass
from pypto.passes.manager import Pipeline, Watcher

__all__ = ["ORDER", "SPLIT", "Lowered", "default_pipeline", "find_pass", "lower", "split_program"]

# The order, by the passes' names, which are their modules' and their factories' names too.
ORDER: tuple[str, ...] = (
    "inline_functions",
    "unroll_loops",
    "ctrl_flow_transform",
    "convert_to_ssa",
    "simplify",
    "normalize_stmt_structure",
    "flatten_call_expr",
    "outline_hierarchy_scopes",
    "outline_incore_scopes",
    "outline_cluster_scopes",
    "convert_tensor_to_tile_ops",
    "optimize_orch_tensors",
    "lower_composite_ops",
    "flatten_tile_nd_to_2d",
    "legalize_tile_cast",
    "auto_tile_matmul_l0",
    "canonicalize_tile_slice",
    "infer_tile_memory_space",
    "resolve_backend_op_layouts",
    "lower_auto_vector_split",
    "normalize_return_order",
    "lower_pipeline_loops",
    "canonicalize_io_order",
    "materialize_tensor_strides",
    "init_mem_ref",
    "select_buffer_ir_functions",
    "materialize_semantic_aliases",
    "memory_reuse",
    "verify_tile_storage",
    "allocate_memory_addr",
    "fold_no_op_reshape",
    "derive_call_directions",
    "simplify",
    "materialize_valid_shape_symbols",
    "lower_tile_to_buffer",
)
# What is checked of the whole program in the end, whatever forms its kernels have: structure, SSA, types, calls.
_CLOSING = (
    IRProperty.NoNestedCalls,
    IRProperty.SSAForm,
    IRProperty.UseAfterDef,
    IRProperty.TypeChecked,
    IRProperty.CallDirectionsResolved,
)
# Kernels that keep both cores busy are one kernel in both lanes.  For the assembler they are two: after this pass they take
# the first of these instead, and then what follows in the order.
_LAST_WHOLE = "resolve_backend_op_layouts"
_INSTEAD_OF = "lower_auto_vector_split"
SPLIT: tuple[str, ...] = (
    "halve_vector_work",
    "expand_mixed_kernel",
    "inject_gm_pipe_buffer",
    "split_vector_kernel",
    "stamp_tfree_split",
    "normalize_return_order",
    "skew_cross_core_pipeline",
)
# The pass at which the lanes part.
_LEGALIZE = "materialize_semantic_aliases"
_BUFFER_ONLY = frozenset(("select_buffer_ir_functions", "verify_tile_storage", "lower_tile_to_buffer"))
_NOT_FOR = {
    MemoryPlanner.PYPTO: frozenset[str](),
    MemoryPlanner.DSA_RP: frozenset(("memory_reuse",)),
    MemoryPlanner.PTOAS: frozenset(("memory_reuse", "allocate_memory_addr")),
}


class Lowered(NamedTuple):
    """`device` is what is shown and kept; `host` is what runs here, and is emitted as text.

    `whole` is the program as it was before mixed kernels could be told apart: `split_kernel` makes two of one.
    """

    device: Program
    host: Program
    whole: Program


def find_pass(name: str) -> Pass:
    """The pass of a snake-case name."""
    found: Pass = getattr(import_module(f"pypto.passes.{name}"), name)
    return found


def _names(options: PassOptions) -> list[str]:
    dropped = _NOT_FOR[options.memory_planner] | (frozenset() if options.enable_buffer_ir else _BUFFER_ONLY)
    return [n for n in ORDER if n not in dropped]


@lru_cache(maxsize=8)
def default_pipeline(options: PassOptions) -> Pipeline:
    """The checked pipeline for programs as the parser gives them."""
    return Pipeline((find_pass(n) for n in _names(options)), given=(), closing=_CLOSING)


@lru_cache(maxsize=8)
def _stages(options: PassOptions) -> tuple[Pipeline, Pipeline, Pipeline]:
    """What both lanes share, the rest of the device lane, the rest of the host lane."""
    names = _names(options)
    fork = names.index(_LEGALIZE)
    shared = [find_pass(n) for n in names[:fork]]
    device = [find_pass(n) for n in names[fork:]]
    host = [_host_legalize(), *device[1:]]
    return Pipeline(shared, given=()), Pipeline(device, closing=_CLOSING), Pipeline(host, closing=_CLOSING)


def lower(
    program: Program, options: PassOptions | None = None, *, level: int | None = None, watch: Watcher | None = None
) -> Lowered:
    """Both lanes of the default pipeline; `watch` sees the passes of the device lane.

    CompileError (or another Error) at the user's line for a program that cannot be compiled, VerificationError for one
    that breaks a rule between passes.
    """
    options = effective() if options is None else options
    shared, device, host = _stages(options)
    wholes: list[Program] = []

    def keep(n: int, p: Pass, x: Program) -> None:
        if p is find_pass(_LAST_WHOLE):
            wholes.append(x)
        if watch is not None:
            watch(n, p, x)

    common = shared.run(program, options, level=level, watch=keep)
    after = len(shared.passes)
    later = None if watch is None else lambda n, p, x: watch(after + n, p, x)
    on_device = device.run(common, options, level=level, verified=STRUCTURAL, watch=later)
    if not _differs(common.function_list):
        return Lowered(on_device, on_device, wholes[0])
    on_host = host.run(common, options, level=level, verified=STRUCTURAL)
    return Lowered(on_device, _sharing(on_host, on_device), wholes[0])


def split_program(
    whole: Program, options: PassOptions | None = None, *, kernel: str | None = None, level: int | None = None
) -> Program:
    """`Lowered.whole`, or one of its kernels, with each mixed kernel as a group of two; all passes behind that, as on the host.

    NotSupportedError, at the user's line, for a kernel that cannot be told apart; CompileError for one that then does not fit.
    """
    options = effective() if options is None else options
    taken = import_module("pypto.passes.inject_gm_pipe_buffer").with_launches(whole)
    if kernel is not None:
        alone = taken.get_function(kernel)
        assert alone is not None
        taken = Program((alone,))
    made: Program = _split_stages(options).run(taken, options, level=level, verified=STRUCTURAL)
    return made


@lru_cache(maxsize=8)
def _split_stages(options: PassOptions) -> Pipeline:
    names = _names(options)
    rest = [n for n in names[names.index(_INSTEAD_OF) + 1 :] if n not in SPLIT]
    passes = [_host_legalize() if n == _LEGALIZE else find_pass(n) for n in (*SPLIT, *rest)]
    return Pipeline(passes, closing=_CLOSING)


def _host_legalize() -> Pass:
    found: Pass = import_module(f"pypto.passes.{_LEGALIZE}").materialize_all_semantic_aliases
    return found


def _differs(functions: Iterable[Function]) -> bool:
    """Whether a kernel stays at tile stage: only those are legalized by the host lane alone."""
    return any(f.is_device and not f.attrs.get("buffer_ir_selected") for f in functions)


def _sharing(host: Program, device: Program) -> Program:
    """The host's program, with the device's functions where they are equal."""
    known = {f.name: f for f in device.function_list}

    def shared(f: Function) -> Function:
        other = known.get(f.name)
        return other if other is not None and compare(other, f, auto_map=True) is None else f

    return host.with_functions(shared(f) for f in host.function_list)
