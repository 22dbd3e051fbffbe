"""Observers of passes.

In: the hooks that a pass calls before and after it runs, with the pass and the program.  Out: whatever the observer does;
it cannot change the program.  Observers belong to a `PassContext` and see every pass that runs in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import IntEnum

from pypto.ir.program import Program
from pypto.ir.verify.properties import Diagnostic
from pypto.ir.verify.registry import STRUCTURAL, verify_or_throw
from pypto.passes.diagnostics import DiagnosticCheck, DiagnosticCheckRegistry, DiagnosticCheckSet, DiagnosticPhase, show
from pypto.passes.framework import Pass

__all__ = [
    "CallbackInstrument",
    "DiagnosticInstrument",
    "PassInstrument",
    "ReportInstrument",
    "VerificationInstrument",
    "VerificationMode",
    "make_roundtrip_instrument",
]

Callback = Callable[[Pass, Program], None]


class PassInstrument:
    """Base of observers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_name(self) -> str:
        return self._name

    def run_before_pass(self, p: Pass, program: Program) -> None: ...

    def run_after_pass(self, p: Pass, program: Program) -> None: ...


class CallbackInstrument(PassInstrument):
    """Two callables as an observer."""

    def __init__(
        self, before_pass: Callback | None = None, after_pass: Callback | None = None, name: str = "CallbackInstrument"
    ) -> None:
        super().__init__(name)
        self._before, self._after = before_pass, after_pass

    def run_before_pass(self, p: Pass, program: Program) -> None:
        if self._before is not None:
            self._before(p, program)

    def run_after_pass(self, p: Pass, program: Program) -> None:
        if self._after is not None:
            self._after(p, program)


class VerificationMode(IntEnum):
    NONE = 0
    BEFORE = 1
    AFTER = 2
    BEFORE_AND_AFTER = 3


class VerificationInstrument(PassInstrument):
    """Before a pass: what it requires.  After it: what it produced, and the structural properties."""

    def __init__(self, mode: VerificationMode = VerificationMode.AFTER) -> None:
        super().__init__("VerificationInstrument")
        self.mode = mode

    def run_before_pass(self, p: Pass, program: Program) -> None:
        if self.mode & VerificationMode.BEFORE:
            verify_or_throw(p.requires, program, f"before {p.name}")

    def run_after_pass(self, p: Pass, program: Program) -> None:
        if self.mode & VerificationMode.AFTER:
            verify_or_throw(p.produces | STRUCTURAL, program, p.name)


class DiagnosticInstrument(PassInstrument):
    """Runs diagnostic checks after every pass and prints what they find."""

    def __init__(self, checks: Iterable[DiagnosticCheck] | None = None) -> None:
        super().__init__("DiagnosticInstrument")
        self.checks = DiagnosticCheckSet(DiagnosticCheck if checks is None else checks)

    def run_after_pass(self, p: Pass, program: Program) -> None:
        found: list[Diagnostic] = DiagnosticCheckRegistry.run_checks(self.checks, DiagnosticPhase.POST_PASS, program)
        show(found, f"after {p.name}")


class ReportInstrument(PassInstrument):
    """Carries the directory that performance hints are written to."""

    def __init__(self, output_dir: str | os.PathLike[str]) -> None:
        super().__init__("ReportInstrument")
        self._output_dir = os.fspath(output_dir)

    def get_output_dir(self) -> str:
        return self._output_dir


def make_roundtrip_instrument() -> CallbackInstrument:
    """Prints and parses the program after each pass; RuntimeError naming the pass after which the copy differs."""

    def after(p: Pass, program: Program) -> None:
        from pypto.passes.round_trip import check_round_trip

        check_round_trip(program, p.name, binary=False)

    return CallbackInstrument(after_pass=after, name="RoundtripInstrument")
