"""OptimizeOrchTensors: temporaries and windows between orchestration and kernels."""

from __future__ import annotations

from pypto.ir.program import Program
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass

__all__ = ["optimize_orch_tensors"]


@program_pass(
    "OptimizeOrchTensors",
    requires=(IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps),
    produces=(IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps),
)
def optimize_orch_tensors(program: Program, options: PassOptions) -> Program:
    return program
