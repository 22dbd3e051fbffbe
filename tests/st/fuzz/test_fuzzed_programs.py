"""Random programs, as users write them: every way of running one gives what plain numpy says, to the bit.

In CI a fixed set of programs; PYPTO_FUZZ=<n> hunts through n programs that differ from run to run, and a failure prints
the smallest program that shows it.  PYPTO_FUZZ_CPUS=x86-64-v3,x86-64 compares code for this processor and for these levels,
optimizations on and off, instead of planners and stages of buffers.
"""

from __future__ import annotations

import os
from pathlib import Path

from fuzz_choices import Choices
from fuzz_judge import AGREED, BRIEF, FAILED, REFUSED, Verdict, apart, judge, over_widths
from fuzz_program import Program, program
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

HUNT = int(os.environ.get("PYPTO_FUZZ", "0"))
PROGRAMS = HUNT or 24
CPUS = os.environ.get("PYPTO_FUZZ_CPUS", "")
BUILDS = over_widths(CPUS.split(",")) if CPUS else BRIEF
STATEMENTS = 4
MOST_REFUSED = 0.1  # a generator of programs that the compiler refuses tests nothing


@st.composite
def programs(draw: st.DrawFn) -> Program:
    return program(Choices(draw), STATEMENTS)


def test_every_way_gives_what_numpy_says(tmp_path: Path) -> None:
    verdicts: list[Verdict] = []

    @settings(
        max_examples=PROGRAMS,
        deadline=None,
        derandomize=not HUNT,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if HUNT else (Phase.generate,),
        report_multiple_bugs=False,
    )
    @given(programs())
    def check(p: Program) -> None:
        verdict = apart(lambda: judge(p, tmp_path, BUILDS))
        verdicts.append(verdict)
        note(p.text())
        assert verdict.kind != FAILED, verdict.text

    check()
    refused = [v.text for v in verdicts if v.kind == REFUSED]
    assert sum(v.kind == AGREED for v in verdicts) + len(refused) == len(verdicts)
    assert len(refused) <= MOST_REFUSED * len(verdicts), "\n\n".join(refused)
