"""`PassManager`: the default pipeline as existing programs run it, with dumps and diagnostics.

In: a program and, for dumps, a directory.  Out: the program of the device lane; `00_frontend.py`, `NN_after_<Pass>.py`.
Invariant: the passes are fixed when the manager is made; running it under other options is an error.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from pypto.ir.printer import python_print
from pypto.ir.program import Program
from pypto.passes.context import CURRENT, PassOptions, effective
from pypto.passes.diagnostics import DiagnosticPhase, chosen_phase, findings, show
from pypto.passes.framework import Pass
from pypto.passes.instruments import ReportInstrument
from pypto.passes.manager import Watcher
from pypto.passes.pipeline import default_pipeline

__all__ = ["Dump", "OptimizationStrategy", "PassDumpLevel", "PassManager", "dump_level"]


class OptimizationStrategy(Enum):
    Default = 0


class PassDumpLevel(Enum):
    """Nothing, text without what can be inferred, text with every layout written out."""

    NONE = 0
    CONCISE = 1
    EXPLICIT = 2


class PassManager:
    """The default pipeline for the options in force where it is made."""

    def __init__(
        self,
        strategy: OptimizationStrategy = OptimizationStrategy.Default,
        *,
        analyze_auto_scopes_for_deps: bool = False,
    ) -> None:
        if strategy is not OptimizationStrategy.Default:
            raise ValueError(f"Unsupported optimization strategy: {strategy!r}")
        self._options: PassOptions = effective()
        self._pipeline = default_pipeline(self._options)

    @classmethod
    def get_strategy(
        cls, strategy: OptimizationStrategy = OptimizationStrategy.Default, *, analyze_auto_scopes_for_deps: bool = False
    ) -> PassManager:
        return cls(strategy, analyze_auto_scopes_for_deps=analyze_auto_scopes_for_deps)

    @property
    def passes(self) -> tuple[Pass, ...]:
        return self._pipeline.passes

    @property
    def pass_names(self) -> list[str]:
        return self._pipeline.names

    def get_pass_names(self) -> list[str]:
        return self._pipeline.names

    def run_passes(
        self,
        input_ir: Program,
        dump_ir: bool | PassDumpLevel = False,
        output_dir: str | os.PathLike[str] | None = None,
        prefix: str = "pl",
    ) -> Program:
        """The program after all passes.  ValueError for a dump without a directory or of something else than a program."""
        self._check_options()
        dump = dump_level(dump_ir)
        watch: Watcher | None = None
        if dump is not PassDumpLevel.NONE:
            if output_dir is None:
                raise ValueError("dump_ir needs output_dir: a directory for the dumps")
            if not isinstance(input_ir, Program):
                raise ValueError(f"dump_ir needs a Program, got {type(input_ir).__name__}")
            dumps = Dump(Path(output_dir), dump, prefix)
            dumps.before(input_ir)
            watch = dumps.after
        _diagnose(DiagnosticPhase.PRE_PIPELINE, input_ir)
        result = self._pipeline.run(input_ir, self._options, watch=_with_diagnostics(watch))
        _diagnose(DiagnosticPhase.POST_PIPELINE, result)
        return result

    def _check_options(self) -> None:
        now = effective()
        for what in ("memory_planner", "enable_buffer_ir"):
            made, running = getattr(self._options, what), getattr(now, what)
            if made != running:
                raise RuntimeError(f"the PassManager was made with {what}={made} and runs with {what}={running}")


def dump_level(dump_ir: bool | PassDumpLevel) -> PassDumpLevel:
    if isinstance(dump_ir, PassDumpLevel):
        return dump_ir
    return PassDumpLevel.CONCISE if dump_ir else PassDumpLevel.NONE


class Dump:
    """A directory that receives the program before and after each pass."""

    def __init__(self, directory: Path, level: PassDumpLevel, prefix: str) -> None:
        self.directory, self.level, self.prefix = directory, level, prefix

    def write(self, name: str, program: Program) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        explicit = self.level is PassDumpLevel.EXPLICIT
        text = python_print(program, self.prefix, concise=not explicit, explicit_layout=explicit)
        (self.directory / f"{name}.py").write_text(text, encoding="utf-8")

    def before(self, program: Program) -> None:
        self.write("00_frontend", program)

    def after(self, number: int, p: Pass, program: Program) -> None:
        self.write(f"{number:02d}_after_{p.name}", program)


def _diagnose(now: DiagnosticPhase, program: Program) -> None:
    context = CURRENT.get()
    reports = [i for i in (context.instruments if context is not None else ()) if isinstance(i, ReportInstrument)]
    show(findings(now, program), now.name.lower(), reports[0].get_output_dir() if reports else None)


def _with_diagnostics(watch: Watcher | None) -> Watcher | None:
    if chosen_phase() is not DiagnosticPhase.POST_PASS:
        return watch

    def both(number: int, p: Pass, program: Program) -> None:
        if watch is not None:
            watch(number, p, program)
        _diagnose(DiagnosticPhase.POST_PASS, program)

    return both
