"""LowerCompositeOps: operators without an instruction of their own become sequences of those that have one.

In: kernels over tiles.  Out: the same; every operator of the table is an instruction, and the pass is the place where
one that is not (trigonometric functions, collectives) will be expanded.
"""

from __future__ import annotations

from pypto.ir.program import Function
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass

__all__ = ["lower_composite_ops"]


@function_pass("LowerCompositeOps")
def lower_composite_ops(f: Function, options: PassOptions) -> Function:
    return f
