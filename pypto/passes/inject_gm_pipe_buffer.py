"""InjectGMPipeBuffer: pipes of chips whose cores pass tiles through global memory get that memory.

In: functions of one core that open pipes, and whatever calls them.  Out: each has the parameter `__gm_pipe_buffer`, callers
hand it on, and where no parameter can come from, in orchestration, it is created: with a row for each block of a launch.
Invariant: both ends of a pipe get the same memory, which nobody else touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import FunctionType, ParamDirection
from pypto.ir.expr import Call, Expr, MakeTuple, Submit, Var, const_index
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType
from pypto.ir.types import ScalarType
from pypto.ir.verify.cores import kind_of_call
from pypto.ir.verify.launched_blocks import RUN_TIME, launched_blocks
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import calls
from pypto.span import Span
from pypto.target import chip_of

__all__ = ["inject_gm_pipe_buffer", "with_launches"]

NAME = "__gm_pipe_buffer"
_KINDS = (FunctionType.AIC, FunctionType.AIV, FunctionType.Group, FunctionType.Spmd)
_FP32 = 4  # bytes
# The attribute of a kernel that several blocks run beside each other: how many, or RUN_TIME.
LAUNCHED = "launched_blocks"


@program_pass("InjectGMPipeBuffer")
def inject_gm_pipe_buffer(program: Program, options: PassOptions) -> Program:
    if not chip_of(options.platform).pipes_through_gm:
        return program
    sizes = _sizes(program)
    if not sizes:
        return program
    shapes = _shapes(program, sizes)
    return program.with_functions(_injected(f, shapes) for f in program.function_list)


def with_launches(program: Program) -> Program:
    """The program with the attribute on what its launches reach, so that kernels can leave it."""
    counts = launched_blocks(program)

    def told(f: Function) -> Function:
        return f.replace(attrs=f.attrs.with_(**{LAUNCHED: counts[f.name]})) if f.name in counts else f

    return program.with_functions(map(told, program.function_list)) if counts else program


def _shapes(program: Program, sizes: Mapping[str, int]) -> Mapping[str, tuple[Expr, ...]]:
    """The shape of the parameter, by function."""
    run_time = Var("__gm_pipe_blocks", ScalarType.of(DataType.INDEX), Span.unknown())
    found: dict[str, tuple[Expr, ...]] = {}
    for f in program.function_list:
        if f.name in sizes:
            count = f.attrs.get(LAUNCHED)
            rows = () if count is None else (run_time if count == RUN_TIME else const_index(count),)
            found[f.name] = (*rows, const_index(sizes[f.name] // _FP32))
    return found


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


def _injected(f: Function, shapes: Mapping[str, tuple[Expr, ...]]) -> Function:
    if f.name not in shapes:
        return _Handing(shapes, None).function(f)
    buffer = Var(NAME, TensorType(shapes[f.name], DataType.FP32), f.span)
    made = _Handing(shapes, buffer).function(f)
    return made.replace(params=(*f.params, buffer), param_directions=(*f.param_directions, ParamDirection.Out))


class _Handing(SSARewriter):
    """Hands the buffer to what needs it; one of its own for each call where there is none."""

    def __init__(self, shapes: Mapping[str, tuple[Expr, ...]], buffer: Var | None) -> None:
        super().__init__()
        self.shapes, self.buffer = shapes, buffer

    def visit_call(self, c: Call) -> Expr:
        if _opens(c) and self.buffer is not None:
            return typed_call(c.op.name, (*c.args, self.buffer), c.kwargs, c.span)
        return self._call(c, c.attrs.get("core_num")) if c.op.name in self.shapes else super().visit_call(c)

    def visit_submit(self, c: Submit) -> Expr:
        return self._call(c, c.core_num) if c.op.name in self.shapes else self.rebuild(c)

    def _call(self, c: Any, blocks: Expr | None) -> Expr:
        buffer = self.buffer
        if buffer is None:
            *rows, size = self.shapes[c.op.name]
            if rows and isinstance(rows[0], Var):
                rows = [const_index(1) if blocks is None else self.expr(blocks)]
            shape = MakeTuple((*rows, size))
            buffer = self.let(NAME, typed_call("tensor.create", (shape,), {"dtype": DataType.FP32}, c.span))
        made: Expr = c.replace(args=(*(self.expr(a) for a in c.args), buffer))
        return made
