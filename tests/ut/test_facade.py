"""Public names: they resolve or say what to use instead, and importing a package loads nothing."""

from __future__ import annotations

import contextlib
import gc
import importlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pypto
from pypto import ir
from pypto._lazy import Facade, later, load
from pypto.dtypes import DataType
from pypto.errors import NotSupportedError

ROOT = Path(__file__).parents[2]
# Every name that programs may import from pypto.ir.
NAMES = """
Abs Add And ArgDirection ArgEffect ArrayType AssignStmt AsyncEventType AsyncSessionType AtomicType BF16 BOOL BinaryExpr
BitAnd BitNot BitOr BitShiftLeft BitShiftRight BitXor BreakStmt BufferType Call Cast ClusterScopeStmt CommCtxType
CommDomainScopeStmt CompactMode CompiledProgram ConstBool ConstFloat ConstInt ContinueStmt ConversionContext CoreType
DYNAMIC_DIM DataType DiagnosticCheck DiagnosticCheckSet DiagnosticPhase DistributedTensorType Eq EvalStmt Expr FP16 FP32
FP4 FP8E4M3FN FP8E5M2 FP8E8M0 FloatDiv FloorDiv FloorMod ForKind ForStmt Function FunctionIRStage FunctionType Ge
GlobalVar Gt HF4 HF8 HierarchyScopeStmt INDEX INT16 INT32 INT4 INT64 INT8 IRBuilder IRMutator IRNode IRVisitor IfStmt
InCoreScopeStmt InlineLanguage InlineStmt IterArg Le Level Lt MakeTuple Max Mem MemRef MemorySpace Min Mul
MultiBufferType Ne Neg Not NotifyOp Op OpIRStage OptimizationStrategy Or PadValue ParamDirection ParentStmtAnalysis
PassContext PassDumpLevel PassManager PipeType Pow PrefetchAsyncContextType Program PtrType ReduceOp ReturnStmt Role
RuntimeScopeStmt ScalarType ScopeKind ScopeStmt SeqStmts ShapedType Span SplitAivScopeStmt SplitMode SpmdScopeStmt Stmt
Sub Submit TensorLayout TensorType TensorView TileLayout TileType TileView TupleGetItemExpr TupleType Type UINT16 UINT32
UINT4 UINT64 UINT8 UnaryExpr UnknownType Var VerificationLevel VerificationMode VoidType WaitCmp WhileStmt WindowBuffer
WindowBufferType WriteChannel Xor YieldStmt _create_internal_op_call add and_ assert_structural_equal
attach_leading_comments bit_and bit_not bit_or bit_shift_left bit_shift_right bit_xor cast collect_def_vars comm_layout
compile create_op_call deduce_call_return_type deep_clone deserialize deserialize_from_file directions eq
find_yield_stmt flatten_to_stmts floordiv ge get_last_yield_stmt get_op get_op_arg_effect get_op_buffer_arg_effect
get_op_buffer_result_spec get_op_ir_stage get_op_memory_spec get_op_output_arity get_op_write_channel gt
has_op_conversion inout input is_incore_type is_op_registered le level_to_linqu_level lt make_call
make_roundtrip_instrument max_ min_ mod mul ne neg no_dep not_ op op_arg_is_workspace op_conversion
op_has_declared_arg_effect op_has_declared_arg_effects operators or_ output output_existing pow python_print
python_print_type register_format_callback register_op_conversion register_op_conversion_custom scalar_dir serialize
serialize_to_file set_call_attrs structural_equal structural_hash sub substitute_expr substitute_stmt
tensor_view_semantics truediv
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_public_name_of_ir_resolves_or_says_why_not(name: str) -> None:
    with contextlib.suppress(NotSupportedError):
        assert getattr(ir, name) is not None


def test_what_the_facade_lists_resolves() -> None:
    for name in dir(ir):
        assert getattr(ir, name) is not None, name
    for name in pypto.__all__:
        assert getattr(pypto, name) is not None


def test_unknown_names_are_attribute_errors() -> None:
    for module in (pypto, ir, importlib.import_module("pypto.backend"), importlib.import_module("pypto.pypto_core")):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nonsense'"):
            _ = module.nonsense


def test_names_are_the_same_objects_everywhere() -> None:
    from pypto import pypto_core
    from pypto.backend import get_buffer_elementwise_recipe_names
    from pypto.ir.expr import Var
    from pypto.ir.registry import get_buffer_elementwise_recipe_names as original
    from pypto.pypto_core import ir as core

    assert ir.Var is core.Var is pypto_core.ir.Var is Var
    assert get_buffer_elementwise_recipe_names is original
    assert pypto.DT_FP32 is ir.FP32 is DataType.FP32
    assert pypto.DataType is pypto_core.DataType is DataType
    assert issubclass(pypto.InternalError, RuntimeError)
    assert not issubclass(pypto.InternalError, pypto.Error)
    assert issubclass(ValueError, pypto_core.ValueError)


def test_the_first_public_name_gives_expressions_their_operators() -> None:
    n = ir.Var("n", ir.ScalarType(ir.INDEX), ir.Span.unknown())
    assert isinstance(n + 1, ir.Add)
    assert ir.Mem is ir.MemorySpace
    assert ir.TensorType([4, n], ir.FP32).shape[1] is n


def test_names_of_this_version_that_do_nothing_here_say_what_to_use() -> None:
    for module, name, instead in (
        (pypto, "log_info", "logging"),
        (pypto, "compile_profiling", "cache_stats"),
        (ir, "NotifyOp", "one host"),
        (ir, "MultiBufferType", "BufferType"),
    ):
        with pytest.raises(NotSupportedError, match=instead):
            getattr(module, name)


def test_optional_names_need_their_module_and_hide_no_other_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "facade_home.py").write_text("here = 1\n")
    (tmp_path / "facade_broken.py").write_text("import facade_missing_dependency\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    facade = Facade(
        "package",
        optional={
            "here": ("facade_home", "here", "nothing"),
            "away": ("facade_home", "away", "use here"),
            "absent": ("facade_absent.part", "", "use here"),
            "broken": ("facade_broken", "", "use here"),
        },
    )
    assert facade.load("here") == 1
    for name in ("away", "absent"):
        with pytest.raises(NotSupportedError, match="use here"):
            facade.load(name)
    with pytest.raises(ModuleNotFoundError, match="facade_missing_dependency"):
        facade.load("broken")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_the_language_or_the_packages_loads_no_ir() -> None:
    for statement in ("import pypto.language", "import pypto, pypto.ir, pypto.backend, pypto.pypto_core"):
        modules = loaded_by(statement)
        assert not {m for m in modules if m.startswith("pypto.ir.")}, statement
        assert not modules & {"numpy", "msgpack"}, statement


def test_the_compilers_own_imports_do_not_install_operators() -> None:
    modules = loaded_by("import pypto.ir.ops, pypto.ir.program; from pypto.ir import arith, rewrite")
    assert "pypto.ir.ops" in modules
    assert "pypto.ir.operators" not in modules


def test_what_stands_for_a_module_loads_it_when_something_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "__init__.py").touch()
    (tmp_path / "few" / "one.py").write_text("answer = 42\n")
    (tmp_path / "few" / "two.py").write_text("raise RuntimeError('loaded')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    one, two = later("few", "one two")
    assert not [name for name in sys.modules if name.startswith("few")]
    assert one.answer == 42
    monkeypatch.setattr(sys.modules["few.one"], "answer", 43)
    assert one.answer == 43
    with pytest.raises(AttributeError):
        _ = later("few", "one").question
    with pytest.raises(RuntimeError, match="loaded"):
        _ = two.answer
    for name in ("few", "few.one"):
        monkeypatch.delitem(sys.modules, name)


def test_loading_leaves_the_collector_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in (gc.enable, gc.disable):
        wanted()
        before, seen = gc.isenabled(), []
        monkeypatch.setattr(importlib, "import_module", lambda name, seen=seen: seen.append((name, gc.isenabled())))
        load("sys", "pypto.no_such_module")
        monkeypatch.undo()
        now, frozen = gc.isenabled(), gc.get_freeze_count()
        gc.enable()
        assert (now, frozen, seen) == (before, 0, [("sys", False), ("pypto.no_such_module", False)])


# A module is known before it has its names.
_SLOWLY = "import threading, time\nthreading.current_thread().begun.set()\ntime.sleep(0.1)\nname = 42\n"


def test_a_module_that_another_thread_loads_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slowly_loaded").mkdir()
    (tmp_path / "slowly_loaded" / "__init__.py").touch()
    (tmp_path / "slowly_loaded" / "part.py").write_text(_SLOWLY)
    monkeypatch.syspath_prepend(tmp_path)
    part, found = later("slowly_loaded", "part"), []
    thread = threading.Thread(target=lambda: found.append(part.name))
    thread.begun = threading.Event()  # type: ignore[attr-defined]
    thread.start()
    thread.begun.wait()  # type: ignore[attr-defined]
    found.append(part.name)
    thread.join()
    assert found == [42, 42]
    for name in ("slowly_loaded", "slowly_loaded.part"):
        del sys.modules[name]
