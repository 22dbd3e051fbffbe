"""OutlineHierarchyScopes: scopes above the core group as functions."""

from pass_lab import agree, apply, body, findings, main, outputs

from pypto.enums import FunctionType, Level, ParamDirection, Role
from pypto.ir.verify.properties import IRProperty

K = "n: pl.Scalar[pl.INDEX]"
JUDGES = (IRProperty.SSAForm, IRProperty.TypeChecked, IRProperty.HierarchyOutlined, IRProperty.OrchestrationReferencesResolved)


def outlined(text: str, params: str = K):
    p = body(text, params)
    got = apply(p, "convert_to_ssa", "outline_hierarchy_scopes")
    assert findings(got, *JUDGES) == []
    return p, got


def test_scopes_keep_level_and_role_and_inner_ones_come_first():
    p, got = outlined("""
        with pl.at(level=pl.Level.HOST, role=pl.Role.Orchestrator):
            with pl.at(level=pl.Level.CHIP):
                m = n + 1
            k = m + n
        return k
        """)
    levels = {f.name: (f.level, f.role) for f in got.function_list}
    assert levels["main_host_orch_0"] == (Level.HOST, Role.Orchestrator)
    assert levels["main_chip_0"] == (Level.CHIP, None)
    assert main(got).func_type is FunctionType.Opaque
    outer = got.get_function("main_host_orch_0")
    assert outer.body.stmts[0].value.op.name == "main_chip_0"
    agree(p, got, [3])
    assert outputs(got, [3]) == [3]


def test_what_a_scope_writes_stays_an_input():
    _, got = outlined(
        """
        with pl.at(level=pl.Level.CHIP):
            x = pl.tensor.write(x, [0], n)
        return x
        """,
        f"{K}, x: pl.InOut[pl.Tensor[[8], pl.INDEX]]",
    )
    f = got.get_function("main_chip_0")
    assert set(f.param_directions) == {ParamDirection.In}
    assert f.body.stmts[-1].value[0] not in {*f.params}


def test_programs_without_such_scopes_are_the_same_objects():
    p, _ = outlined("return n")
    assert apply(p, "outline_hierarchy_scopes") is p
