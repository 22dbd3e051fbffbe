"""`from pypto import ir`: nodes, types, builders, printing, comparison and serialization under one name.

In: a public name.  Out: the object, loaded when it is first asked for; with the first, expressions get their Python operators.
Invariant: importing this package loads nothing, and the compiler's own modules never go through it.
"""

from __future__ import annotations

import importlib
from typing import Any

from pypto._lazy import Facade
from pypto.dtypes import ALL_DTYPES, DataType

_PASSES = "import it from pypto.passes"
_DISTRIBUTED = "programs here run on one host; leave out what moves data between devices"
_FACADE = Facade(
    __name__,
    (
        ("pypto.span", "Span"),
        (
            "pypto.enums",
            "ArgDirection ArgEffect AtomicType CompactMode CoreType ForKind FunctionIRStage FunctionType Level MemorySpace "
            "OpIRStage PadValue ParamDirection PipeType Role ScopeKind SplitMode TensorLayout TileLayout WriteChannel",
        ),
        (
            "pypto.ir.types",
            "ArrayType AsyncEventType AsyncSessionType CommCtxType MemRefType PrefetchAsyncContextType PtrType ScalarType "
            "TupleType Type UnknownType VoidType WindowBufferType",
        ),
        (
            "pypto.ir.expr",
            "BinaryExpr Call ConstBool ConstFloat ConstInt Expr GlobalVar IRNode IterArg MakeTuple MemRef Op Submit "
            "TupleGetItemExpr UnaryExpr Var WindowBuffer",
        ),
        (
            "pypto.ir.scalar",
            "Abs Add And BitAnd BitNot BitOr BitShiftLeft BitShiftRight BitXor Cast Eq FloatDiv FloorDiv FloorMod Ge Gt Le Lt "
            "Max Min Mul Ne Neg Not Or Pow Sub Xor add and_ bit_and bit_not bit_or bit_shift_left bit_shift_right bit_xor cast "
            "eq floordiv ge gt le lt max_ min_ mod mul ne neg not_ or_ pow sub truediv",
        ),
        ("pypto.ir.shaped", "BufferType ShapedType TensorType TensorView TileType TileView"),
        (
            "pypto.ir.stmt",
            "AssignStmt BreakStmt ClusterScopeStmt CommDomainScopeStmt ContinueStmt EvalStmt ForStmt HierarchyScopeStmt IfStmt "
            "InCoreScopeStmt InlineStmt ReturnStmt RuntimeScopeStmt ScopeStmt SeqStmts SplitAivScopeStmt SpmdScopeStmt Stmt "
            "WhileStmt YieldStmt attach_leading_comments flatten_to_stmts",
        ),
        ("pypto.ir.program", "Function Program is_incore_type"),
        ("pypto.ir.rewrite", "deep_clone"),
        ("pypto.ir.visitors", "IRMutator IRVisitor"),
        ("pypto.ir.builder", "IRBuilder"),
        ("pypto.ir.printer", "python_print python_print_type"),
        ("pypto.ir.equality", "assert_structural_equal structural_equal structural_hash"),
        ("pypto.ir.serialization", "deserialize deserialize_from_file serialize serialize_to_file"),
        ("pypto.ir.directions", "inout input no_dep output output_existing scalar_dir"),
        (
            "pypto.ir.registry",
            "BufferAccess BufferResultBehavior create_op_call get_op get_op_arg_effect get_op_buffer_arg_effect "
            "get_op_buffer_result_spec get_op_ir_stage get_op_memory_spec get_op_output_arity get_op_write_channel "
            "is_op_registered make_call op_arg_is_workspace op_has_declared_arg_effect op_has_declared_arg_effects "
            "set_call_attrs",
        ),
    ),
    modules="builder directions op operators printer registry",
    aliases={
        "Mem": ("pypto.enums", "MemorySpace"),
        "_create_internal_op_call": ("pypto.ir.registry", "create_internal_op_call"),
        "collect_def_vars": ("pypto.ir.rewrite", "defined_vars"),
        "find_yield_stmt": ("pypto.ir.stmt", "last_yield"),
        "get_last_yield_stmt": ("pypto.ir.stmt", "last_yield"),
        "substitute_expr": ("pypto.ir.rewrite", "substitute"),
        "substitute_stmt": ("pypto.ir.rewrite", "substitute"),
    },
    optional={
        "CompiledProgram": ("pypto.jit.compiled", "CompiledProgram", "compile a kernel with `kernel.compile(...)`"),
        "compile": ("pypto.jit", "compile_program", "compile a kernel with `kernel.compile(...)`"),
        "pass_manager": ("pypto.ir.pass_manager", "", _PASSES),
        **{name: ("pypto.ir.pass_manager", name, _PASSES) for name in ("OptimizationStrategy", "PassDumpLevel", "PassManager")},
        **{
            name: ("pypto.passes", name, _PASSES)
            for name in (
                "DiagnosticCheck",
                "DiagnosticCheckSet",
                "DiagnosticPhase",
                "PassContext",
                "VerificationLevel",
                "VerificationMode",
                "make_roundtrip_instrument",
            )
        },
    },
    unsupported=(
        (
            _DISTRIBUTED,
            "DistributedTensorType NotifyOp ReduceOp WaitCmp comm_layout level_to_linqu_level InlineLanguage",
        ),
        ("no lowering uses multi-slot buffers; use one BufferType per slot", "MultiBufferType"),
        (
            "a tensor operator's own rule in its OpDef says how it becomes a tile operator",
            "ConversionContext has_op_conversion op_conversion register_op_conversion register_op_conversion_custom",
        ),
        ("printed text is laid out already; run a formatter over it if you want another style", "register_format_callback"),
        ("walk the function with an IRVisitor that keeps its own stack of parents", "ParentStmtAnalysis"),
        ("the parser types calls of program functions", "deduce_call_return_type"),
        ("packed strides follow from the shape; give a TensorView only for others", "tensor_view_semantics"),
    ),
)
DYNAMIC_DIM = -1  # a run-time extent, as a ConstInt
globals().update({d.name: d for d in ALL_DTYPES if d is not DataType.TASK_ID})


def __getattr__(name: str) -> Any:
    found = _FACADE.load(name)
    importlib.import_module("pypto.ir.operators")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*_FACADE.names(), *globals()})
