"""InjectGMPipeBuffer: pipes of chips whose cores pass tiles through global memory get that memory.

In: functions of one core that open pipes, and whatever calls them.  Out: each has the parameter `__gm_pipe_buffer`, callers
hand it on, and where no parameter can come from, in orchestration, it is created.
Invariant: both ends of a pipe get the same memory, which nobody else touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import FunctionType, ParamDirection
from pypto.ir.expr import Call, Expr, MakeTuple, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, as_dims
from pypto.ir.verify.cores import kind_of_call
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import calls
from pypto.target import chip_of

__all__ = ["inject_gm_pipe_buffer"]

NAME = "__gm_pipe_buffer"
_KINDS = (FunctionType.AIC, FunctionType.AIV, FunctionType.Group, FunctionType.Spmd)
_FP32 = 4  # bytes


@program_pass("InjectGMPipeBuffer")
def inject_gm_pipe_buffer(program: Program, options: PassOptions) -> Program:
    if not chip_of(options.platform).pipes_through_gm:
        return program
    sizes = _sizes(program)
    return program.with_functions(_injected(f, sizes) for f in program.function_list) if sizes else program


def _sizes(program: Program) -> Mapping[str, int]:
    """Bytes of global memory by function, for those that open pipes or call such a function."""
    reserved = {
        c.kwargs["name"]: c.kwargs["size"] for f in program.function_list for c in calls(f.body) if _is(c, "reserve_buffer")
    }
    found: dict[str, int] = {}
    for f in program.function_list:
        inside = list(calls(f.body))
        if any(_opens(c) for c in inside):
            ends = (c for c in inside if _is(c, "reserve_buffer") or _is(c, "import_peer_buffer"))
            found[f.name] = sum(reserved.get(c.kwargs["name"], 0) for c in ends)
    before = -1
    while before != len(found):
        before = len(found)
        for f in (f for f in program.function_list if f.func_type in _KINDS and f.name not in found):
            below = [found[name] for name in _called(f) if name in found]
            if below:
                found[f.name] = max(below)
    return found


def _is(c: Call, concept: str) -> bool:
    return c.op.name == f"system.{concept}"


def _opens(c: Call) -> bool:
    """Whether a pipe is opened that has no global memory yet."""
    return kind_of_call(c) == "initialize_pipe" and len(c.args) == 2


def _called(f: Function) -> list[str]:
    return [c.op.name for c in calls(f.body)]


def _injected(f: Function, sizes: Mapping[str, int]) -> Function:
    if f.name not in sizes:
        return _Handing(sizes, None).function(f)
    buffer = Var(NAME, _type(sizes[f.name]), f.span)
    made = _Handing(sizes, buffer).function(f)
    return made.replace(params=(*f.params, buffer), param_directions=(*f.param_directions, ParamDirection.Out))


def _type(size: int) -> TensorType:
    return TensorType((size // _FP32,), DataType.FP32)


class _Handing(SSARewriter):
    """Hands the buffer to what needs it; one of its own for each call where there is none."""

    def __init__(self, sizes: Mapping[str, int], buffer: Var | None) -> None:
        super().__init__()
        self.sizes, self.buffer = sizes, buffer

    def visit_call(self, c: Call) -> Expr:
        if _opens(c) and self.buffer is not None:
            return typed_call(c.op.name, (*c.args, self.buffer), c.kwargs, c.span)
        return self._call(c) if c.op.name in self.sizes else super().visit_call(c)

    def visit_submit(self, c: Submit) -> Expr:
        return self._call(c) if c.op.name in self.sizes else self.rebuild(c)

    def _call(self, c: Any) -> Expr:
        size = self.sizes[c.op.name]
        buffer = self.buffer
        if buffer is None:
            shape = MakeTuple(as_dims((size // _FP32,)))
            buffer = self.let(NAME, typed_call("tensor.create", (shape,), {"dtype": DataType.FP32}, c.span))
        made: Expr = c.replace(args=(*(self.expr(a) for a in c.args), buffer))
        return made
