"""Shared by the tests of ConvertTensorToTileOps: kernels before and after it, and what is in them."""

from __future__ import annotations

from back_lab import kernel_of, raw_kernel, scope, through
from pass_lab import FRONT, apply

from pypto.enums import ParamDirection
from pypto.ir.expr import Call, Var
from pypto.ir.node import Node
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt
from pypto.passes.context import PassOptions
from pypto.passes.convert_tensor_to_tile_ops import convert_tensor_to_tile_ops

T = "pl.Tensor[[16, 64], pl.FP32]"
C = "pl.Tensor[[8], pl.INT32]"
IN, OUT, INOUT = ParamDirection.In, ParamDirection.Out, ParamDirection.InOut


def convert(p: Program) -> Program:
    """The program after the pass, which does nothing when applied again."""
    made = convert_tensor_to_tile_ops.run(p, PassOptions())
    assert convert_tensor_to_tile_ops.run(made, PassOptions()) is made
    return made


def kernel(body: str, params: str) -> Function:
    """The converted kernel of a function whose statements are one scope."""
    return kernel_of(through(scope(body, params), "convert_tensor_to_tile_ops"))


def both(body: str, params: str) -> tuple[Program, Program]:
    """The program in front of the pass and behind it."""
    before = apply(scope(body, params), *FRONT)
    return before, convert(before)


def raw_converted(body: str, params: str, result: str = "", attrs: str = "") -> Function:
    """One kernel in the operators' own words, converted."""
    return kernel_of(convert(raw_kernel(body, params, result, attrs)))


def directions(f: Function) -> dict[str, ParamDirection]:
    return {p.name_hint: d for p, d in zip(f.params, f.param_directions, strict=True)}


def param(f: Function, name: str) -> Var:
    return next(p for p in f.params if p.name_hint == name)


def calls_of(n: Function | Node, name: str) -> list[Call]:
    """The applications of an operator, in order."""
    return [c for c in walk(getattr(n, "body", n)) if isinstance(c, Call) and c.op.name == name]


def values(f: Function, name: str) -> list[Var]:
    """The variables bound to applications of an operator, in order."""
    return [s.var for s in walk(f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == name]


def of_params(f: Function, c: Call, i: int = 0) -> str:
    """The parameter that operand i is, or an empty text."""
    return next((p.name_hint for p in f.params if p is c.args[i]), "")
