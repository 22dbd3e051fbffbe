"""`from pypto import passes`: every public name resolves or says why not; importing it loads no pass."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pass_lab import body, outputs

from pypto import passes
from pypto.errors import ConfigError, NotSupportedError, VerificationError
from pypto.ir.verify.properties import IRProperty
from pypto.passes.framework import Pass
from pypto.passes.pipeline import ORDER

ROOT = Path(__file__).resolve().parents[3]
NAMES = """
    CallbackInstrument DiagnosticCheck DiagnosticCheckRegistry DiagnosticCheckSet DiagnosticInstrument DiagnosticPhase IRProperty
    IRPropertySet MemoryPlanner OptimizationStrategy Pass PassContext PassDumpLevel PassInstrument PassManager PassPipeline
    PassProperties PropertyVerifierRegistry ReportInstrument RuntimeKind VerificationInstrument VerificationLevel VerificationMode
    create_function_pass create_program_pass get_default_diagnostic_phase get_default_verification_level
    get_default_verify_properties get_structural_properties get_verified_properties make_roundtrip_instrument run_verifier
    runtime_kind_from_name runtime_kind_to_name verify_properties verify_tensor_view_canonical
""".split()  # noqa: SIM905
FACTORIES = """
    inline_functions unroll_loops ctrl_flow_transform convert_to_ssa simplify normalize_stmt_structure flatten_call_expr
    outline_hierarchy_scopes outline_incore_scopes outline_cluster_scopes normalize_return_order derive_call_directions
    expand_mixed_kernel inject_gm_pipe_buffer split_vector_kernel stamp_tfree_split skew_cross_core_pipeline
""".split()  # noqa: SIM905
LEFT_OUT = (
    "legalize_spmd_launches",
    "lower_pipeline_to_slots",
    "auto_derive_task_dependencies",
    "insert_comm_fence",
)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_resolve(name):
    assert getattr(passes, name) is not None
    assert name in dir(passes)


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_give_the_pass_whose_module_has_their_name(name):
    made = getattr(passes, name)()
    assert isinstance(made, Pass)
    assert made.get_name().lower() == name.replace("_", "")
    module = __import__(f"pypto.passes.{name}", fromlist=[name])
    assert getattr(module, name) is made
    assert getattr(passes, name)() is made  # still the factory, now that the module is loaded


@pytest.mark.parametrize("name", LEFT_OUT)
def test_passes_that_are_left_out_say_so(name):
    with pytest.raises(NotSupportedError, match=name):
        getattr(passes, name)()


def test_the_default_order_has_a_factory_for_every_pass():
    assert set(ORDER) <= set(dir(passes))


def test_importing_the_package_loads_no_pass():
    code = "import sys; from pypto import passes; print([m for m in sys.modules if m.startswith('pypto.passes.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError):
        _ = passes.no_such_pass


def test_passes_of_ones_own():
    p = body("k = k + 1\nreturn k", "k: pl.Scalar[pl.INDEX], o: pl.Tensor[[8], pl.INT32]")
    seen = []
    named = passes.create_function_pass(
        lambda f: seen.append(f.name) or f, "Look", passes.PassProperties(produced=(IRProperty.SSAForm,))
    )
    whole = passes.create_program_pass(lambda q: seen.append(len(q.function_list)) or q)
    assert named(p) is p
    assert whole(p) is p
    assert seen == ["main", 1]
    assert named.produces == {IRProperty.SSAForm}
    assert outputs(p, [3, np.zeros(8, np.int32)])[0] == 3


def test_the_verifying_pass():
    p = body("k = k + 1\nreturn k", "k: pl.Scalar[pl.INDEX]")
    assert passes.run_verifier((IRProperty.TypeChecked,))(p) is p
    with pytest.raises(VerificationError):
        passes.run_verifier((IRProperty.SSAForm,))(p)
    with pytest.raises(VerificationError, match="'There'"):
        passes.verify_properties((IRProperty.SSAForm,), p, "There")
    found = passes.PropertyVerifierRegistry.verify((IRProperty.SSAForm,), p)
    assert [d.error_code for d in found] == [1]
    assert "1 finding" in passes.PropertyVerifierRegistry.generate_report(found)


def test_property_sets():
    P = IRProperty
    s = passes.IRPropertySet([P.TypeChecked])
    s.insert(P.SSAForm)
    assert s.to_list() == [P.SSAForm, P.TypeChecked]
    assert s.contains_all(passes.IRPropertySet([P.SSAForm]))
    assert str(s) == "{SSAForm, TypeChecked}"
    assert s.difference(passes.IRPropertySet([P.SSAForm])) == passes.IRPropertySet([P.TypeChecked])
    assert s.intersection([P.SSAForm]).union_with([P.HasMemRefs]).to_list() == [P.SSAForm, P.HasMemRefs]
    s.remove(P.SSAForm)
    s.remove(P.SSAForm)
    assert not s.contains(P.SSAForm)
    assert passes.IRPropertySet().empty()
    with pytest.raises(TypeError):
        hash(s)
    assert P.BufferIR not in passes.get_verified_properties()


def test_levels_kinds_and_phases(monkeypatch):
    assert [m.name for m in passes.VerificationLevel] == ["NONE", "BASIC", "ROUNDTRIP"]
    assert passes.runtime_kind_from_name(passes.runtime_kind_to_name(passes.RuntimeKind.HOST_BUILD_GRAPH)).value == 1
    with pytest.raises(ValueError, match="unknown runtime"):
        passes.runtime_kind_from_name("other")
    monkeypatch.setenv("PYPTO_VERIFY_LEVEL", "roundtrip")
    monkeypatch.setenv("PYPTO_WARNING_LEVEL", "post_pass")
    assert passes.get_default_verification_level() is passes.VerificationLevel.ROUNDTRIP
    assert passes.get_default_diagnostic_phase() is passes.DiagnosticPhase.POST_PASS
    monkeypatch.setenv("PYPTO_WARNING_LEVEL", "None")
    assert passes.get_default_diagnostic_phase() is passes.DiagnosticPhase.NONE
    for name, ask in (
        ("PYPTO_WARNING_LEVEL", passes.get_default_diagnostic_phase),
        ("PYPTO_VERIFY_LEVEL", passes.get_default_verification_level),
    ):
        monkeypatch.setenv(name, "whatever")
        with pytest.raises(ConfigError, match=f"{name}='whatever': expected one of none, "):
            ask()
