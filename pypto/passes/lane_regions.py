"""The rules of vector-lane regions, as errors of the user.

In: functions.  Out: nothing; the first finding of the judge `aiv_split_valid` is a CompileError at the user's line.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.errors import CompileError
from pypto.ir.program import Function
from pypto.ir.verify.lane_regions import region_findings

__all__ = ["refuse_wrong_regions"]


def refuse_wrong_regions(functions: Iterable[Function]) -> None:
    for f in functions:
        for d in region_findings(f):
            raise CompileError(d.message, d.span, d.hint, code="C063")
