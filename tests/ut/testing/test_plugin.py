"""The plugin in runs of pytest of its own: options, platforms, what is compiled ahead, exit states, what is reported."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from pypto.testing import st

pytest_plugins = ["pytester"]

KERNELS = """
import numpy as np
import pytest
import pypto.language as pl
from pypto.passes import MemoryPlanner
from pypto.testing import st

@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        out = pl.store(pl.muls(t, 2.0), [0, 0], out)
    return out

X = np.ones((16, 32), np.float32)

def doubled(name, factor=2, **options):
    return st.case(scaled, X, X, name=name, golden=lambda t: t["x"] * factor, **options)
"""


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Runs a test file below the kernels; a torch that must not be imported is within reach."""
    pytester.makepyfile(torch="raise AssertionError('torch was imported')")

    def run(body: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_kernels=KERNELS + body)
        return pytester.runpytest_subprocess("-p", "pypto.testing.plugin", "-p", "no:cacheprovider", *options)

    return run


def test_a_test_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_kernels=KERNELS + '@st.cases(doubled("good"))\ndef test_one(case_run): ...\n')
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.stdout.fnmatch_lines(["@st.cases needs the plugin*pytest_plugins = *pypto.testing.plugin*"])
    done.stdout.no_fnmatch_line("*Traceback*")
    assert done.ret == pytest.ExitCode.INTERRUPTED


def test_without_pytest(pytester: pytest.Pytester) -> None:
    script = pytester.makepyfile(
        "import sys; sys.modules['pytest'] = None\nfrom pypto.testing import st\n"
        "try: st.cases(1)\nexcept ImportError as e: print(type(e).__name__, e.hint)"
    )
    pytester.runpython(script).stdout.fnmatch_lines(["MissingPackageError pip install pytest"])


GOOD_AND_BAD = """
@st.cases(doubled("good"), pytest.param(doubled("wrong", 3), marks=pytest.mark.slow))
def test_asked(case_run):
    case_run.assert_passed()

@st.cases(doubled("never asked", 3))
def test_not_asked(case_run):
    pass

@st.cases(doubled("other chip", platform="a5"))
def test_other_chip(case_run):
    case_run.assert_passed()

@pytest.mark.platforms("a5sim", "a5", reason="needs its memories")
@st.cases(doubled("marked"))
def test_marked(case_run):
    case_run.assert_passed()

@st.cases(doubled("capture"))
def test_capture(case_run):
    case_run.dfx("pmu.json")

def test_no_cases(case_run):
    pass

@st.cases(doubled("good", 3))
def test_one_name_twice(case_run):
    pass
"""


@pytest.mark.parametrize("ahead", [(), ("--precompile-workers=2",)], ids=["inline", "in workers"])
def test_what_a_run_reports(run, ahead) -> None:
    done = run(GOOD_AND_BAD, "-rs", "--enable-pmu=2", "--execute-via-task-submit", "--task-max-time=5", *ahead)
    done.assert_outcomes(passed=2, failed=1, errors=3, skipped=3)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    text = done.stdout.str()
    for words in (
        "wrong failed: golden validation failed (rtol=1e-05, atol=1e-05): output 'out': 512 of 512 elements differ",
        "never asked failed: golden validation failed",
        "a case for a5: pytest --platform=a5",
        "for a5sim, a5, not a2a3sim: needs its memories",
        "dfx_outputs/pmu.json: captures are made on a device, kernels run on the host here",
        "case_run needs cases: put @st.cases",
        "two cases of this session have the key good@a2a3sim@default@buffer_ir",
        "--execute-via-task-submit: no device queue here: kernels run on the host, in this process",
        "--task-max-time: no device queue here: no kernel is stopped after that time",
        "--enable-pmu: captures are made on a device: none is written",
    ):
        assert words in text, words
    assert "--device" not in text


def test_options_of_the_session_reach_workers_and_copies_for_platforms(run, pytester: pytest.Pytester) -> None:
    body = """
@st.cases(doubled("free"), doubled("own", memory_planner=MemoryPlanner.DSA_RP, enable_buffer_ir=False))
def test_all(case_run):
    case_run.assert_passed()
    parts = case_run.compiled.record.parts
    print("WITH", case_run.case.name, parts["platform"], parts["memory_planner"].name, parts["enable_buffer_ir"])
"""
    options = ("--platform=a2a3sim,a5sim", "--memory-planner=ptoas", "--precompile-workers=2", "--save-kernels", "--dump-passes")
    done = run(body, "-s", "-v", *options)
    done.assert_outcomes(passed=4)
    text = done.stdout.str()
    found = set(re.findall(r"WITH (.*)", text))
    assert found == {f"{c} {p} {o}" for c, o in (("free", "PTOAS True"), ("own", "DSA_RP False")) for p in ("a2a3sim", "a5sim")}
    assert "test_all[free-a5sim]" in text
    (root,) = (pytester.path / "build_output").iterdir()
    assert f"artifacts: {root}" in text
    assert {p.name for p in root.iterdir()} == {
        *(f"free@{p}@PTOAS@buffer_ir" for p in ("a2a3sim", "a5sim")),
        *(f"own@{p}@DSA_RP" for p in ("a2a3sim", "a5sim")),
    }
    assert all((p / "passes_dump" / "00_frontend.py").exists() for p in root.iterdir())


ONE = """
@st.cases(st.case(scaled, X, X, name="a"))
def test_one(case_run):
    case_run.assert_passed()
"""


def test_generating_alone_says_that_it_shows_nothing(run) -> None:
    done = run(ONE, "--codegen-only", "--pypto-log-level=debug")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["--codegen-only: cases were compiled and not run; no numbers were compared"])


@pytest.mark.parametrize("ahead", [(), ("--precompile-workers=2",)], ids=["inline", "in workers"])
def test_a_device_that_is_not_here(run, pytester: pytest.Pytester, ahead) -> None:
    """Its cases fail with what is missing and what to do, and are never run on the host under its name."""
    body = (
        ONE
        + """
    raise AssertionError("it ran")

def test_not_of_a_kernel():
    pass
"""
    )
    done = run(body, "--platform=a2a3", "--device=0", "--execute-via-task-submit", *ahead)
    done.assert_outcomes(passed=1, failed=1)
    text = done.stdout.str()
    assert "a failed: " in text
    assert "error[T130]: platform 'a2a3' is a device, and there is no toolchain for it here" in text
    assert "it ran" not in text.replace('raise AssertionError("it ran")', "")
    done.stdout.fnmatch_lines(["--platform=a2a3: needs a device and its toolchain*--platform=a2a3sim runs the same cases*"])
    done.stdout.fnmatch_lines(["--execute-via-task-submit: no device queue here*"])


@pytest.mark.parametrize("ahead", [(), ("--precompile-workers=2",)], ids=["inline", "in workers"])
def test_texts_for_a_device_that_is_not_here(run, pytester: pytest.Pytester, ahead) -> None:
    kept = pytester.path / "kernels"
    body = """
@st.cases(doubled("a"), doubled("b", memory_planner=MemoryPlanner.PTOAS))
def test_one(case_run):
    case_run.assert_passed()
    assert any(f.is_device for f in case_run.program.function_list)
    assert "pto.tmuls" in case_run.compiled.inspect("pto")
"""
    done = run(body, "--platform=a2a3,a5", "--codegen-only", f"--kernels-dir={kept}", "--dump-passes", *ahead)
    done.assert_outcomes(passed=4)
    assert "needs a device" not in done.stdout.str()
    for platform in ("a2a3", "a5"):
        made = kept / f"a@{platform}@default@buffer_ir"
        assert f'pto.target_arch = "{platform}"' in (made / "ptoas" / "scaled_incore_0.pto").read_text()
        assert {p.name for p in made.iterdir()} >= {"device.msgpack", "buffer_ir.msgpack", "buffer_ir.txt", "passes_dump"}
        assert not list(made.rglob("*.so"))
        assert " addr = " not in (kept / f"b@{platform}@PTOAS@buffer_ir" / "ptoas" / "scaled_incore_0.pto").read_text()


def test_a_test_class_runs_by_the_runner(run) -> None:
    body = """
@pl.program
class Doubling:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        return pl.store(pl.muls(pl.load(x, [0, 0], [16, 32]), 2.0), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        out = self.double(x, out)
        return out

class Case(st.PTOTestCase):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
    def get_name(self):
        return "legacy"
    def define_tensors(self):
        shape = [16, 32]
        return [st.TensorSpec("x", shape, st.DataType.FP32, 3.0), st.TensorSpec("out", shape, st.DataType.FP32, is_output=True)]
    def get_program(self):
        return Doubling
    def compute_expected(self, tensors, params=None):
        tensors["out"][:] = tensors["x"] * self.factor

def test_both(test_runner):
    assert test_runner.run(Case(2)).passed
    result = test_runner.run(Case(3))
    assert not result.passed
    assert "512 of 512" in result.error
"""
    run(body).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--platform=a2a3,a9", "a9 given, expected some of"),
        ("--platform=,", "no name given"),
        ("--device=one", "expected numbers and ranges"),
        ("--task-submit-device=", "expected auto"),
        ("--precompile-workers=-1", "expected a number of threads"),
        ("--memory-planner=best", "invalid choice"),
        ("--strategy=Fast", "invalid choice"),
        ("--pypto-log-level=loud", "expected one of"),
    ],
)
def test_options_that_make_no_sense(pytester: pytest.Pytester, option: str, words: str) -> None:
    with pytest.raises(pytest.UsageError, match=words):
        pytester.parseconfigure("-p", "pypto.testing.plugin", option)


def test_left_out_tests_are_not_compiled_ahead(run, pytester: pytest.Pytester) -> None:
    body = """
@pytest.mark.skip(reason="not now")
@st.cases(doubled("skipped"))
def test_skipped(case_run): ...

@st.cases(doubled("kept"), pytest.param(doubled("left out"), marks=pytest.mark.skipif(True, reason="not here")))
def test_kept(case_run):
    case_run.assert_passed()
"""
    kept = pytester.path / "kernels"
    run(body, "--precompile-workers=1", f"--kernels-dir={kept}", "--collect-only")
    assert not kept.exists()
    run(body, "--precompile-workers=1", f"--kernels-dir={kept}").assert_outcomes(passed=1, skipped=2)
    assert [p.name for p in kept.iterdir()] == ["kept@a2a3sim@default@buffer_ir"]


def test_older_paths_name_the_same_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "st"))
    harness, old = (importlib.import_module(name) for name in ("harness", "harness.st"))
    case, core = (importlib.import_module(f"harness.core.{name}") for name in ("case", "harness"))
    assert old.cases is st.cases
    assert harness.st.case is st.case
    assert (case.Case, case.from_legacy) == (st.Case, st.from_legacy)
    assert (core.PTOTestCase, core.TensorSpec, core.DataType) == (st.PTOTestCase, st.TensorSpec, st.DataType)
