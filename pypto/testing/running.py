"""One case: its options, its artifact, its run.

In: a case and what the session asks for.  Out: what was compiled, what the kernel wrote, and whether that is right.
Invariant: the options of a compilation are those of its case.  A context around the test, or none in a worker thread, changes
nothing; what is saved is taken from the artifact that runs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import SkipTest

import numpy as np

from pypto.enums import FunctionIRStage
from pypto.errors import ArgumentValueError, InternalError
from pypto.ir.program import Program
from pypto.jit import JITFunction
from pypto.jit.compiled import CompiledProgram
from pypto.jit.generated import Generated
from pypto.jit.pool import PrecompilePool
from pypto.jit.programs import compile_program, generate_program
from pypto.jit.work import Precompiled
from pypto.named import NamedTuple
from pypto.passes.context import PassContext, PassOptions
from pypto.passes.pass_manager import Dump, PassDumpLevel
from pypto.passes.pipeline import lower
from pypto.runtime.arrays import Array
from pypto.target import runs_here
from pypto.testing.cases import Case
from pypto.testing.comparing import difference, expected_outputs

__all__ = [
    "BUFFER_PROGRAM",
    "CaseRun",
    "Prepared",
    "Resolved",
    "RunResult",
    "begin",
    "check_stages",
    "execute",
    "failure",
    "prepare",
]

BUFFER_PROGRAM = "buffer_ir.msgpack"
_MOST_CHARACTERS = 200  # of a directory's name


class Resolved(NamedTuple):
    """A case with every option decided."""

    case: Case
    options: PassOptions
    planner_given: bool

    @property
    def key(self) -> str:
        """What tells it from all other cases of a session, and the name of its directory."""
        planner = self.options.memory_planner.name if self.planner_given else "default"
        parts = [re.sub(r"[^\w.+-]", "_", self.case.name), self.options.platform, planner]
        key = "@".join([*parts, *(["buffer_ir"] if self.options.enable_buffer_ir else [])])
        if len(key) > _MOST_CHARACTERS:
            key = f"{key[: _MOST_CHARACTERS - 17]}@{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        return key

    def context(self) -> PassContext:
        o = self.options
        return PassContext(
            memory_planner=o.memory_planner,
            enable_buffer_ir=o.enable_buffer_ir,
            enable_pypto_l0c_double_buffer=o.enable_pypto_l0c_double_buffer,
            platform=o.platform,
        )


class Prepared(NamedTuple):
    """A compiled case; `directory` has its files, if they are kept."""

    compiled: CompiledProgram | Generated
    directory: Path | None


class RunResult(NamedTuple):
    """How a case went.  `outputs` are the arrays that the kernel wrote, empty if it did not run."""

    passed: bool
    error: str | None = None
    outputs: Mapping[str, Array] = MappingProxyType({})
    cause: BaseException | None = None


class CaseRun:
    """What the fixture `case_run` gives: the case, and how it went.

    `work_dir`: the directory of the artifacts, None if they are not kept.  `compiled`: what ran (or was
    generated for a device), None if it did not compile.
    """

    def __init__(
        self, case: Case, result: RunResult, work_dir: Path | None, compiled: CompiledProgram | Generated | None
    ) -> None:
        self.case, self.work_dir, self.compiled = case, work_dir, compiled
        self._result, self.asked = result, False

    @property
    def result(self) -> RunResult:
        self.asked = True
        return self._result

    @property
    def passed(self) -> bool:
        return self.result.passed

    @property
    def error(self) -> str | None:
        return self.result.error

    def assert_passed(self) -> None:
        """AssertionError, with the directory of the artifacts if they are kept, unless the case passed."""
        __tracebackhide__ = True
        result = self.result
        if not result.passed:
            kept = "" if self.work_dir is None else f"\nartifacts: {self.work_dir}"
            raise AssertionError(f"{self.case.name} failed: {result.error}{kept}") from result.cause

    @property
    def program(self) -> Program:
        """The final program, as the device would run it, of the artifact that ran."""
        self.assert_passed()
        assert self.compiled is not None
        return self.compiled.lowered

    def dfx(self, relpath: str = "") -> Path:
        """Where a capture would be: none are made on the host, so that a test that reads one is skipped."""
        raise SkipTest(f"dfx_outputs/{relpath}: captures are made on a device, kernels run on the host here")

    def swimlane(self) -> Path:
        return self.dfx("swimlane")


# -- compiling -----------------------------------------------------------------------------------------------------


def prepare(r: Resolved, directory: Path | None, dump_passes: bool = False, codegen_only: bool = False) -> Prepared:
    """Compile a case under its own options, check the stages, and put the artifact's files into `directory`, if any.

    `codegen_only`: for a device, which could not run it here, its texts are generated; elsewhere it is ToolchainError.
    """
    with r.context():
        compiled = _made(r.case, codegen_only and not runs_here(r.options.platform))
        check_stages(compiled.lowered, r.options.enable_buffer_ir)
        if directory is not None:
            _save(compiled, directory, r.options.enable_buffer_ir)
            if dump_passes:
                _dump(compiled.program, r.options, directory / "passes_dump")
    return Prepared(compiled, directory)


def begin(r: Resolved, pool: PrecompilePool) -> Future[Precompiled]:
    """Have a pool compile a case under its own options; `prepare` finds the artifact."""
    with r.context():
        if isinstance(r.case.kernel, JITFunction):
            args, by_name = _samples(r.case)
            return pool.submit(r.case.kernel, *args, **by_name)
        return pool.submit(r.case.kernel)


def _made(case: Case, texts_alone: bool) -> CompiledProgram | Generated:
    if isinstance(case.kernel, JITFunction):
        args, by_name = _samples(case)
        make = case.kernel.generate if texts_alone else case.kernel.compile
        return make(*args, **by_name)
    return generate_program(case.kernel) if texts_alone else compile_program(case.kernel)


def _samples(case: Case) -> tuple[list[Any], dict[str, Any]]:
    """What a kernel is compiled for: tensors are described, so that nothing is allocated."""
    samples = {t.name: t for t in case.tensors} | dict(case.scalars)
    by_name = {n: samples.pop(n) for n in case.keyword_only}
    return [samples[n] for n in case.order if n in samples], by_name


def check_stages(program: Program, enable_buffer_ir: bool) -> None:
    """InternalError unless kernels that were chosen for Buffer IR, and no others, are at that stage."""
    for f in program.function_list:
        chosen = f.is_device and bool(f.attrs.get("buffer_ir_selected"))
        reached = f.ir_stage is FunctionIRStage.Buffer
        if chosen and not reached:
            raise InternalError(f"kernel '{f.name}' was chosen for Buffer IR and is still at stage {f.ir_stage.name}")
        if reached and not enable_buffer_ir:
            raise InternalError(f"kernel '{f.name}' is at stage Buffer, with enable_buffer_ir=False")


def _save(compiled: CompiledProgram | Generated, directory: Path, enable_buffer_ir: bool) -> None:
    """The artifact's files, and beside them the final program in binary form and as text."""
    directory.mkdir(parents=True, exist_ok=True)
    compiled.copy_to(os.fspath(directory))
    if enable_buffer_ir:
        shutil.copyfile(directory / "device.msgpack", directory / BUFFER_PROGRAM)
        (directory / "buffer_ir.txt").write_text(compiled.inspect("buffer_ir"), encoding="utf-8")


def _dump(program: Program, options: PassOptions, directory: Path) -> None:
    """The program after each pass; passes are functions, so that a second run of them shows the first."""
    dump = Dump(directory, PassDumpLevel.CONCISE, "pl")
    dump.before(program)
    lower(program, options, watch=dump.after)


# -- running -------------------------------------------------------------------------------------------------------


def execute(r: Resolved, prepared: Prepared) -> RunResult:
    """Run what was compiled on fresh arrays and compare with golden, which has run before."""
    case = r.case
    if case.golden is None:
        return RunResult(False, "no golden: only --codegen-only goes without one")
    assert isinstance(prepared.compiled, CompiledProgram)
    held = {t.name: t.initial() for t in case.tensors}
    try:
        expected = expected_outputs(case.golden, case.tensors, held)
    except Exception as e:
        return failure("golden failed", e)
    given = {name: a.copy() for name, a in held.items()}
    _keep(prepared.directory, "in", held)
    _keep(prepared.directory, "out", expected)
    try:
        prepared.compiled(*_arguments(case, prepared.compiled.param_names, given))
    except Exception as e:
        return failure("execution failed", e)
    outputs = {name: given[name] for name in expected}
    _keep(prepared.directory, "actual", outputs)
    error = _changed_inputs(case, held, given) or _judged(case, outputs, expected)
    return RunResult(error is None, error, MappingProxyType(outputs))


def _judged(case: Case, outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> str | None:
    return difference(outputs, expected, case.tensors, case.rtol, case.atol, case.compare)


def _arguments(case: Case, names: list[str], arrays: Mapping[str, Array]) -> list[Any]:
    """All arguments in the order of the parameters: by name, or as declared where the names are others."""
    if len(names) != len(case.order):
        what = f"case '{case.name}' has {len(case.order)} arguments, its program {len(names)} parameters: {', '.join(names)}"
        raise ArgumentValueError(what, hint="declare each parameter, in their order")
    order = names if set(names) == set(case.order) else case.order
    values: dict[str, Any] = {**arrays, **case.scalars}
    return [values[n] for n in order]


def _changed_inputs(case: Case, before: Mapping[str, Array], after: Mapping[str, Array]) -> str | None:
    changed = [t.name for t in case.tensors if not t.is_output and before[t.name].tobytes() != after[t.name].tobytes()]
    if changed:
        return f"the kernel wrote its input {', '.join(changed)}: mark what is written pl.Out or pl.InOut"
    return None


def _keep(directory: Path | None, kind: str, arrays: Mapping[str, Array]) -> None:
    if directory is None:
        return
    folder = directory / "data" / kind
    folder.mkdir(parents=True, exist_ok=True)
    for name, a in arrays.items():
        np.save(folder / f"{name}.npy", a)


def failure(what: str, e: BaseException) -> RunResult:
    """An exception as the result of a case; `assert_passed` raises from it, so that its traceback is shown."""
    return RunResult(False, f"{what}: {type(e).__name__}: {e}", cause=e)
