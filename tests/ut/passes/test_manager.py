"""Pipelines: order, verification, instruments, failures, reproducers."""

import tempfile

import pytest
from pass_lab import body, main, program

from pypto import passes
from pypto.enums import FunctionIRStage
from pypto.errors import CompileError, Error, InternalError, VerificationError
from pypto.ir.program import Program
from pypto.ir.serialization import deserialize_from_file
from pypto.ir.stmt import SeqStmts, seq
from pypto.ir.structural import compare
from pypto.ir.verify.properties import IRProperty as P
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.framework import Pass, function_pass, program_pass
from pypto.passes.manager import PassPipeline, Pipeline
from pypto.passes.round_trip import is_functional

K = "n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INDEX]"
NONE, BASIC, ROUNDTRIP = 0, 1, 2


def named(name: str, requires=(), produces=(), invalidates=(), run=None) -> Pass:
    return Pass(name, run or (lambda p, options: p), requires, produces, invalidates)


def small() -> Program:
    return body("k = k + n\nreturn k", K)


def doubled(p: Program, options: PassOptions) -> Program:
    """Breaks SSA form: the first statement twice."""
    f = main(p)
    return p.with_functions([f.replace(body=seq([f.body.stmts[0], *f.body.stmts]))])


# -- order ---------------------------------------------------------------------------------------------------------


def test_what_nobody_gave_or_produced_is_missing():
    with pytest.raises(ValueError, match="'b' requires SSAForm, not held here"):
        Pipeline([named("a"), named("b", requires=(P.SSAForm,))], given=())
    Pipeline([named("b", requires=(P.SSAForm,))], given=(P.SSAForm,))
    Pipeline([named("a", produces=(P.SSAForm,)), named("b", requires=(P.SSAForm,))], given=())


def test_what_was_invalidated_is_missing_until_produced_again():
    bad = [named("a", invalidates=(P.SSAForm,)), named("b", requires=(P.SSAForm,))]
    with pytest.raises(ValueError, match="'b' requires SSAForm, which 'a' invalidated"):
        Pipeline(bad)
    Pipeline([bad[0], named("c", produces=(P.SSAForm,)), bad[1]])


def test_a_pass_may_invalidate_what_it_produces_anew():
    both = named("a", produces=(P.AivSplitValid,), invalidates=(P.AivSplitValid,))
    Pipeline([both, named("b", requires=(P.AivSplitValid,))], given=())


def test_pipelines_built_pass_by_pass_check_each():
    p = PassPipeline()
    p.add_pass(passes.convert_to_ssa())
    with pytest.raises(ValueError, match="NormalizedStmtStructure"):
        p.add_pass(passes.flatten_call_expr())
    p.add_pass(passes.normalize_stmt_structure())
    p.add_pass(passes.flatten_call_expr())
    assert p.get_pass_names() == ["ConvertToSSA", "NormalizeStmtStructure", "FlattenCallExpr"]
    assert main(p.run(small())).body.stmts


# -- verification --------------------------------------------------------------------------------------------------


def test_a_pass_that_does_not_hold_its_promise_is_named():
    liar = named("Liar", produces=(P.SSAForm,), run=doubled)
    with pytest.raises(VerificationError, match=r"Verification failed after 'Liar' for properties \{SSAForm\}") as e:
        Pipeline([liar]).run(small(), level=BASIC)
    assert "assigned more than once" in str(e.value)
    assert isinstance(e.value, Error)
    assert len(e.value.diagnostics) == 2
    Pipeline([liar]).run(small(), level=NONE)


def test_the_input_is_verified_too():
    p = body("if n > 2:\n    k = n\nreturn k", K)
    f = main(p)
    broken = p.with_functions([f.replace(body=seq([f.body.stmts[0].replace(condition=f.params[0]), f.body.stmts[1]]))])
    with pytest.raises(VerificationError, match=r"(?s)pipeline_input.*TypeCheck.*must be BOOL"):
        Pipeline([named("a")]).run(broken, level=BASIC)


def test_properties_are_verified_once_and_again_after_they_were_invalidated():
    asked = []
    once = Pipeline(
        [
            named("a", produces=(P.SSAForm,), run=lambda p, o: asked.append(1) or p),
            named("b", produces=(P.SSAForm,), run=doubled),
        ]
    )
    once.run(body("m = k + n\nreturn m", K), level=BASIC)  # 'b' is believed: SSAForm is verified already
    again = Pipeline([once.passes[0], named("c", invalidates=(P.SSAForm,)), once.passes[1]])
    with pytest.raises(VerificationError, match="'b'"):
        again.run(body("m = k + n\nreturn m", K), level=BASIC)


def test_the_round_trip_is_checked_after_each_pass():
    def unprintable(p, options):
        f = main(p)
        return p.with_functions([f.replace(body=SeqStmts((SeqStmts(f.body.stmts[:1]), *f.body.stmts[1:])))])

    Pipeline([named("Nested", run=unprintable)]).run(small(), level=BASIC)
    with pytest.raises(InternalError, match="after Nested: the program printed and parsed back differs"):
        Pipeline([named("Nested", run=unprintable)]).run(small(), level=ROUNDTRIP)
    Pipeline([passes.convert_to_ssa()]).run(small(), level=ROUNDTRIP)


def test_levels_come_from_the_context():
    liar = Pipeline([named("Liar", produces=(P.SSAForm,), run=doubled)])
    with PassContext([], passes.VerificationLevel.NONE):
        liar.run(small())
    with PassContext([]), pytest.raises(VerificationError):
        liar.run(small())


# -- failures ------------------------------------------------------------------------------------------------------


def test_an_unexpected_exception_names_the_pass_and_keeps_its_input(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(p, options):
        raise KeyError("lost")

    p = small()
    with pytest.raises(InternalError, match="in pass Broken: KeyError: 'lost'") as e:
        Pipeline([named("Broken", run=fail)]).run(p)
    (saved,) = tmp_path.iterdir()
    assert str(saved) in str(e.value)
    assert compare(deserialize_from_file(saved), p, auto_map=True) is None
    assert isinstance(e.value.__cause__, KeyError)


def test_an_internal_error_gets_the_name_and_a_user_error_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @function_pass("Inner")
    def inner(f, options):
        raise InternalError("impossible")

    @program_pass("User")
    def user(p, options):
        raise CompileError("wrong extent", main(p).span, "make it 8")

    with pytest.raises(InternalError, match="in pass Inner: impossible"):
        Pipeline([inner]).run(small())
    with pytest.raises(CompileError, match="wrong extent") as e:
        Pipeline([user]).run(small())
    assert e.value.hint == "make it 8"
    assert len(list(tmp_path.iterdir())) == 1


# -- instruments ---------------------------------------------------------------------------------------------------


def test_instruments_see_every_pass_in_order():
    seen = []
    watcher = passes.CallbackInstrument(
        lambda p, program: seen.append(("before", p.get_name())), lambda p, program: seen.append(("after", p.get_name()))
    )
    with PassContext([watcher]):
        Pipeline([named("a"), named("b")]).run(small())
        passes.simplify()(small())
    assert seen == [(w, n) for n in ("a", "b", "Simplify") for w in ("before", "after")]
    assert watcher.get_name() == "CallbackInstrument"


def test_the_verification_instrument_checks_contracts():
    liar = named("Liar", requires=(P.SSAForm,), produces=(P.SSAForm,), run=doubled)
    mode = passes.VerificationMode
    plain = body("m = k + n\nreturn m", K)
    with PassContext([passes.VerificationInstrument(mode.AFTER)]), pytest.raises(VerificationError, match="'Liar'"):
        liar(plain)
    with PassContext([passes.VerificationInstrument(mode.BEFORE)]):
        liar(plain)
        with pytest.raises(VerificationError, match="before Liar"):
            liar(doubled(plain, PassOptions()))


def test_the_round_trip_instrument():
    instrument = passes.make_roundtrip_instrument()
    assert instrument.get_name() == "RoundtripInstrument"
    with PassContext([instrument]):
        passes.convert_to_ssa()(small())


# -- cost ----------------------------------------------------------------------------------------------------------


def test_identity_passes_look_at_nothing(monkeypatch):
    """Passes that change nothing and promise nothing cost no walk over the program."""
    p = small()
    monkeypatch.setattr("pypto.passes.manager.verify_or_throw", lambda wanted, program, where: asked.append(where))
    asked: list[str] = []
    many = Pipeline([named(f"p{i}") for i in range(60)])
    assert many.run(p, level=BASIC) is p
    assert asked == ["pipeline_input"]


def test_the_watcher_sees_numbers_from_one():
    seen = []
    Pipeline([named("a"), named("b")]).run(small(), watch=lambda n, p, x: seen.append((n, p.name)))
    assert seen == [(1, "a"), (2, "b")]


def test_programs_with_functions_of_both_stages_are_not_parsed_back():
    p = program("@pl.function(type=pl.FunctionType.InCore)\ndef main(n: pl.Scalar[pl.INDEX]):\n    return n")
    assert is_functional(p)
    assert not is_functional(p.with_functions([main(p).replace(ir_stage=FunctionIRStage.Buffer)]))
