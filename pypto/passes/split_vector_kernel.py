"""SplitVectorKernel: how the lanes of the vector core share a function of theirs.

In: functions of the vector core, with pipes.  Out: the attribute `split` says which axis of what is passed the lanes share.
Error, at the user's line: a function that shares both axes, or passes some tiles in halves and others whole.
"""

from __future__ import annotations

from pypto.enums import FunctionType
from pypto.errors import NotSupportedError
from pypto.ir.program import Function
from pypto.ir.verify.cores import kind_of_call
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.statements import calls

__all__ = ["split_vector_kernel"]


@function_pass("SplitVectorKernel", requires=(IRProperty.SSAForm,), produces=(IRProperty.SSAForm,))
def split_vector_kernel(f: Function, options: PassOptions) -> Function:
    if f.func_type is not FunctionType.AIV:
        return f
    passed = [c for c in calls(f.body) if kind_of_call(c) in ("push", "pop")]
    splits = {c.kwargs.get("split", 0) for c in passed}
    if len(splits) > 1:
        first = passed[0].kwargs.get("split", 0)
        other = next(c for c in passed if c.kwargs.get("split", 0) != first)
        what = f"'{f.name}' shares what it passes between the lanes in more than one way: that has no .pto form"
        raise NotSupportedError(what, other.span, "let all regions of a kernel have one mode, and pass values in halves only")
    split = next(iter(splits), 0)
    return f.replace(attrs=f.attrs.with_(split=split)) if split else f
