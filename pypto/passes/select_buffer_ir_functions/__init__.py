"""SelectBufferIRFunctions: which kernels go to buffers as a whole.

In: kernels with places, before their storage is legalized.  Out: each says in `buffer_ir_selected` whether it was chosen;
what is there already stays.  One operation that the rules do not cover keeps the whole kernel at tile stage.
Invariant: the decision is made once, here; whatever is chosen must lower, or compilation fails.
"""

from __future__ import annotations

from pypto.ir.program import Function
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.select_buffer_ir_functions.rules import reason_against

__all__ = ["select_buffer_ir_functions", "why_not_selected"]


def why_not_selected(f: Function, options: PassOptions) -> str | None:
    """Why a placed kernel stays at tile stage, in a sentence; None if it is chosen."""
    return reason_against(f, options)


@function_pass("SelectBufferIRFunctions")
def select_buffer_ir_functions(f: Function, options: PassOptions) -> Function:
    if not f.is_device or "buffer_ir_selected" in f.attrs:
        return f
    return f.replace(attrs=f.attrs.with_(buffer_ir_selected=reason_against(f, options) is None))
