"""Options reach compilations inline and in workers, what is saved is what ran, and what goes wrong is said."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from test_cases import SPECS, Doubling, Legacy
from testing_kit import ZEROS, X, doubled, kept, scaled

import pypto.language as pl
from pypto import cache_stats, ir
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import InternalError
from pypto.ir.program import Program
from pypto.jit.compiled import CompiledProgram
from pypto.passes import PassContext
from pypto.testing import running, st
from pypto.testing.session import Session, SessionOptions

contract = pytest.mark.contract
CHOICES = tuple(itertools.product(MemoryPlanner, (True, False)))
WAYS = pytest.mark.parametrize("ahead", [False, True], ids=["inline", "in workers"])


@pytest.fixture
def kept_dir(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


def run(*cases, ahead=False, platform="a2a3sim", **options) -> list[st.CaseRun]:
    """The runs of cases in a session of their own."""
    with closing(Session(SessionOptions(precompile_workers=2 if ahead else 0, **options))) as session:
        if ahead:
            session.precompile((c, platform) for c in cases)
        return [session.run(session.resolve(c, platform)) for c in cases]


def chosen(case_run) -> tuple[MemoryPlanner, bool]:
    """What a case was compiled with: as its key says, and as its program shows."""
    parts = case_run.compiled.record.parts
    (kernel,) = [f for f in case_run.program.function_list if f.is_device]
    assert (kernel.ir_stage is FunctionIRStage.Buffer) == parts["enable_buffer_ir"]
    return parts["memory_planner"], parts["enable_buffer_ir"]


def with_options(kernel_name: str = "") -> list[st.Case]:
    return [doubled(name=f"doubled{n}", memory_planner=p, enable_buffer_ir=b) for n, (p, b) in enumerate(CHOICES)]


@WAYS
@contract("B244")
def test_a_case_is_compiled_with_its_options(ahead: bool) -> None:
    runs = run(*with_options(), doubled(enable_pypto_l0c_double_buffer=True), doubled(name="plain"), ahead=ahead)
    for r in runs:
        r.assert_passed()
    assert [chosen(r) for r in runs] == [*CHOICES, (MemoryPlanner.PYPTO, True), (MemoryPlanner.PYPTO, True)]
    assert [r.compiled.record.parts["l0c_double_buffer"] for r in runs[-2:]] == [True, False]


@WAYS
@contract("B245")
def test_a_context_around_the_test_decides_nothing(ahead: bool) -> None:
    with PassContext(memory_planner=MemoryPlanner.DSA_RP, enable_buffer_ir=False):
        runs = run(doubled(), doubled(name="ptoas", memory_planner=MemoryPlanner.PTOAS), ahead=ahead)
    assert [chosen(r) for r in runs] == [(MemoryPlanner.PYPTO, True), (MemoryPlanner.PTOAS, True)]


@contract("B246")
def test_cases_with_different_options_have_different_keys(kept_dir: Path) -> None:
    # One name for all: the options alone tell them apart.
    with closing(Session(SessionOptions(kernels_dir=kept_dir))) as session:
        cases = [doubled(memory_planner=p, enable_buffer_ir=b) for p, b in CHOICES]
        resolved = [session.decide(c, platform) for c in cases for platform in ("a2a3sim", "a5sim")]
        assert len({r.key for r in resolved}) == len(resolved)
        runs = [session.run(session.resolve(c, "a2a3sim")) for c in cases]
    assert len({r.compiled.record.encoded for r in runs}) == len(cases)
    assert len({r.work_dir for r in runs}) == len(cases)
    assert resolved[0].key == "doubled@a2a3sim@PYPTO@buffer_ir"
    assert session.decide(doubled(enable_buffer_ir=False), "a5").key == "doubled@a5@default"


def test_names_that_are_no_names_of_directories() -> None:
    with closing(Session(SessionOptions())) as session:
        assert session.decide(doubled(name="a/b c"), "a5").key == "a_b_c@a5@default@buffer_ir"
        long = [session.decide(doubled(name="x" * 300 + end), "a5").key for end in "ab"]
    assert [len(k) for k in long] == [200, 200]
    assert long[0] != long[1]


def test_a_key_belongs_to_one_case() -> None:
    one = doubled()
    with closing(Session(SessionOptions())) as session:
        assert session.resolve(one, "a2a3sim") == session.resolve(one, "a2a3sim")
        with pytest.raises(AssertionError, match="doubled@a2a3sim@default@buffer_ir: give one of them another name="):
            session.resolve(doubled(rtol=0), "a2a3sim")
        session.resolve(doubled(enable_buffer_ir=False), "a2a3sim")


def test_the_session_s_planner_is_for_cases_that_name_none() -> None:
    for r, planner in zip(
        run(doubled(), doubled(name="own", memory_planner=MemoryPlanner.PTOAS), memory_planner=MemoryPlanner.DSA_RP),
        (MemoryPlanner.DSA_RP, MemoryPlanner.PTOAS),
        strict=True,
    ):
        assert chosen(r) == (planner, True)


# -- what is saved -----------------------------------------------------------------------------------------------------


@WAYS
@contract("B247", "B250")
def test_what_is_saved_is_of_the_artifact_that_ran(ahead: bool, kept_dir: Path) -> None:
    for r in run(*with_options(), ahead=ahead, kernels_dir=kept_dir, dump_passes=True):
        r.assert_passed()
        planner, buffers = chosen(r)
        assert r.work_dir == kept_dir / f"{r.case.name}@a2a3sim@{planner.name}{'@buffer_ir' if buffers else ''}"
        stored = Path(r.compiled.output_dir)
        assert stored != r.work_dir
        for name in ("kernel.so", "kernel.c", "plan.msgpack"):
            assert (r.work_dir / name).read_bytes() == (stored / name).read_bytes()
        assert (r.work_dir / running.BUFFER_PROGRAM).exists() == buffers
        if buffers:
            saved = (r.work_dir / running.BUFFER_PROGRAM).read_bytes()
            assert saved == (stored / "device.msgpack").read_bytes()
            program = ir.deserialize(saved)
            assert [f.ir_stage for f in program.function_list if f.is_device] == [FunctionIRStage.Buffer]
            assert "buffer.muls" in (r.work_dir / "buffer_ir.txt").read_text()
        data = {f"{p.parent.name}/{p.stem}": np.load(p) for p in (r.work_dir / "data").rglob("*.npy")}
        assert data.keys() == {"in/x", "in/out", "out/out", "actual/out"}
        assert (data["actual/out"] == 2 * X).all()
        dumps = sorted(p.name for p in (r.work_dir / "passes_dump").iterdir())
        assert dumps[0] == "00_frontend.py"
        assert ("LowerTileToBuffer" in dumps[-1]) == buffers


@WAYS
def test_nothing_is_left_where_nothing_is_kept(ahead: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (r,) = run(doubled(), ahead=ahead)
    r.assert_passed()
    assert (r.work_dir is None) == (not ahead)
    assert list(tmp_path.iterdir()) == []


def changed(program: Program, **changes) -> Program:
    return Program([f.replace(**changes) if f.is_device else f for f in program.function_list], program.name)


@contract("B247")
def test_kernels_that_were_chosen_must_be_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    program = run(doubled())[0].program
    running.check_stages(program, True)
    stuck = changed(program, ir_stage=FunctionIRStage.Functional)
    with pytest.raises(InternalError, match="'scaled_incore_0' was chosen for Buffer IR and is still at stage Functional"):
        running.check_stages(stuck, True)
    with pytest.raises(InternalError, match="at stage Buffer, with enable_buffer_ir=False"):
        running.check_stages(program, False)
    running.check_stages(changed(stuck, attrs=stuck.function_list[0].attrs.with_(buffer_ir_selected=False)), True)
    monkeypatch.setattr(CompiledProgram, "lowered", property(lambda self: stuck))
    (r,) = run(doubled())
    assert not r.passed
    assert "compilation failed: InternalError: kernel 'scaled_incore_0' was chosen" in r.error


# -- how it goes -------------------------------------------------------------------------------------------------------


def test_outputs_are_compared_where_they_were_not_written_too() -> None:
    full = np.full((32, 32), -777, np.float32)

    def golden(t):
        upper = np.vstack([t["x"] + 1, t["keep"][16:]])
        return {"keep": upper, "out": np.vstack([t["x"] + 2, np.zeros_like(X)])}

    (r,) = run(st.case(kept, X, full, full, golden=golden, name="kept"))
    r.assert_passed()
    assert (r.result.outputs["keep"][16:] == -777).all()
    (r,) = run(st.case(kept, X, full, full, golden=lambda t: {**golden(t), "keep": t["keep"]}, name="kept"))
    assert "output 'keep': 512 of 1024 elements differ" in r.error


@WAYS
def test_a_program_is_a_case_as_well(ahead: bool) -> None:
    held = [st.TensorSpec("x", [16, 32], st.DataType.FP32, X), SPECS[1]]
    renamed = [st.TensorSpec(n, t.shape, t.dtype, t.init_value, t.is_output) for n, t in zip("ab", held, strict=True)]
    by_name = st.case(Doubling, name="named", tensors=held[::-1], golden=lambda t: 2 * t["x"])
    by_order = st.case(Doubling, name="ordered", tensors=renamed, golden=lambda t: 2 * t["a"])
    wrong = st.case(Doubling, name="wrong", tensors=[*renamed, SPECS[0]], golden=lambda t: 2 * t["a"])
    named, ordered, failed, legacy = run(by_name, by_order, wrong, st.from_legacy(Legacy()), ahead=ahead)
    named.assert_passed()
    ordered.assert_passed()
    legacy.assert_passed()
    assert "has 3 arguments, its program 2 parameters: x, out" in failed.error


@pl.jit
def by_keyword(x: pl.Tensor, *, out: pl.Out[pl.Tensor], n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [n, 0], [8, 32])
        out = pl.store(t, [0, 0], out)
    return out


def test_parameters_that_go_by_keyword() -> None:
    for n in (0, 3):
        (r,) = run(st.case(by_keyword, X, out=ZEROS[:8], n=n, golden=lambda t, n=n: t["x"][n : n + 8]))
        r.assert_passed()


@pl.jit
def unmarked(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        x = pl.store(pl.adds(t, 1.0), [0, 0], x)
        out = pl.store(t, [0, 0], out)
    return out


def test_a_kernel_that_writes_its_input() -> None:
    (r,) = run(st.case(unmarked, X, ZEROS, golden=lambda t: t["x"]))
    assert r.error == "the kernel wrote its input x: mark what is written pl.Out or pl.InOut"


def boom(tensors):
    raise KeyError("boom")


@WAYS
def test_what_goes_wrong_is_said(ahead: bool, kept_dir: Path) -> None:
    def wrong(actual, expected):
        assert (actual["out"] == expected["out"] + 1).all(), "by one"

    tall = np.zeros((4096, 64), np.float32)
    cases = {
        "golden validation failed (rtol=1e-05, atol=1e-05): output 'out': 511 of 512": doubled(name="a", golden=lambda t: t["x"]),
        "golden validation failed (custom compare): by one": doubled(name="b", compare=wrong),
        "golden failed: KeyError: 'boom'": doubled(name="c", golden=boom),
        "no golden": doubled(name="d", golden=None),
        "execution failed: KernelBoundsError:": st.case(by_keyword, X, out=ZEROS[:8], n=9, name="e", golden=lambda t: t["x"][:8]),
        f"{'Pre-' if ahead else ''}compilation failed: CompileError:": st.case(too_large, tall, tall, name="f", golden=boom),
    }
    for (words, case), r in zip(cases.items(), run(*cases.values(), ahead=ahead, kernels_dir=kept_dir), strict=True):
        assert not r.passed
        assert words in r.error
        with pytest.raises(AssertionError, match=f"^{case.name} failed: ") as caught:
            r.assert_passed()
        assert r.error in str(caught.value)
        assert (f"artifacts: {r.work_dir}" in str(caught.value)) == (case.name != "f")
        assert (caught.value.__cause__ is not None) == (case.name in "cef")


@pl.jit
def too_large(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4096, 64])
        out = pl.store(t, [0, 0], out)
    return out


def test_a_comparison_replaces_the_tolerances() -> None:
    off = {"golden": lambda t: t["x"] * 2.001, "rtol": 0, "atol": 0}
    exact, close = run(doubled(name="exact", **off), doubled(name="close", compare=st.rel_err_under(0.01), **off))
    assert not exact.passed
    close.assert_passed()


def test_a_worker_that_is_torn_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cc = tmp_path / "cc"
    cc.write_text(f'#!/bin/sh\ncase " $* " in *" -o kernel.so "*) kill -9 $PPID;; esac\nexec {shutil.which("cc")} "$@"\n')
    cc.chmod(0o755)
    monkeypatch.setenv("PYPTO_CC", str(cc))
    (r,) = run(doubled(), ahead=True)
    assert r.error.startswith("Pre-compilation failed: ToolchainError: error[T104]: the process that compiled kernel 'scaled'")


def test_workers_compile_and_tests_find_it() -> None:
    """Cases of one name that differ in one option are two artifacts, and nothing is compiled twice."""

    def case(planner: MemoryPlanner, buffers: bool) -> st.Case:
        return st.case(offset, X, ZEROS, memory_planner=planner, enable_buffer_ir=buffers, golden=lambda t: t["x"] + 12345.0)

    before = cache_stats()
    for r in run(*(case(p, b) for p, b in CHOICES), ahead=True):
        r.assert_passed()
    after = cache_stats()
    assert after.builds - before.builds == len(CHOICES)
    assert after.disk_hits - before.disk_hits >= len(CHOICES)


@pl.jit
def offset(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        out = pl.store(pl.adds(t, 12345.0), [0, 0], out)
    return out


def test_cases_that_nobody_waits_for() -> None:
    with closing(Session(SessionOptions(precompile_workers=1))) as session:
        cases = [st.case(scaled, X, ZEROS, float(n), name=f"c{n}", enable_buffer_ir=n % 2 == 0, golden=None) for n in range(2)]
        session.precompile((c, "a5sim") for c in cases)
        session._pool.close(cancel=True)
        errors = [session.run(session.resolve(c, "a5sim")).error for c in cases]
    assert "compile task crashed: it was cancelled" in errors


@contract("B250")
def test_generating_alone_shows_no_numbers(kept_dir: Path) -> None:
    (r,) = run(doubled(golden=None), codegen_only=True, kernels_dir=kept_dir)
    r.assert_passed()
    assert r.result.outputs == {}
    assert r.compiled is not None
    assert not (r.work_dir / "data").exists()


def test_captures_are_a_matter_of_devices() -> None:
    (r,) = run(doubled())
    for read in (lambda: r.dfx("pmu.json"), r.swimlane):
        with pytest.raises(Exception, match="captures are made on a device") as caught:
            read()
        assert type(caught.value).__name__ == "SkipTest"


@pytest.fixture(autouse=True)
def _no_context() -> Iterator[None]:
    assert PassContext.current() is None
    yield
    assert PassContext.current() is None
