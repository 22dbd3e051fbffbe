"""Shared by the tests of the back half: programs in the operators' own words, and kernels up to a pass."""

from __future__ import annotations

import textwrap

from pass_lab import FRONT, HEAD, apply, program

from pypto.enums import MemoryPlanner
from pypto.frontend import parse
from pypto.ir.expr import Call, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import ORDER, default_pipeline, find_pass


def raw(text: str) -> Program:
    """A program in which every call is the operator it names, as printed programs are."""
    made = parse("# pypto.program: test\n" + HEAD + textwrap.dedent(text))
    assert isinstance(made, Program)
    return made


def raw_kernel(body: str, params: str, result: str = "", attrs: str = "") -> Program:
    """One InCore function `k` in the operators' own words."""
    arrow = f" -> {result}" if result else ""
    lead = f"        pl.func_attr({attrs})\n" if attrs else ""
    head = f"@pl.program\nclass test:\n    @pl.function(type=pl.FunctionType.InCore)\n    def k({params}){arrow}:\n{lead}"
    return raw(head + textwrap.indent(textwrap.dedent(body), "        "))


def scope(body: str, params: str) -> Program:
    """A function `main` whose statements are one kernel scope."""
    inner = textwrap.indent(textwrap.dedent(body), "        ")
    return program(f"@pl.function\ndef main({params}):\n    with pl.at(level=pl.Level.CORE_GROUP):\n{inner}")


def through(p: Program, last: str, planner: MemoryPlanner = MemoryPlanner.PYPTO, buffers: bool = True) -> Program:
    """The program after the passes up to and including `last`."""
    options = PassOptions(memory_planner=planner, enable_buffer_ir=buffers)
    p = apply(p, *FRONT)
    wanted = {find_pass(n).name for n in ORDER[: ORDER.index(last) + 1]}
    for each in default_pipeline(options).passes[len(FRONT) :]:
        if each.name in wanted:
            p = each.run(p, options)
        if each.name == find_pass(last).name:
            break
    return p


def kernel_of(p: Program) -> Function:
    """The one device function."""
    (f,) = [f for f in p.function_list if f.is_device]
    return f


def applied(f: Function) -> list[str]:
    """The operators a function applies, in order, allocations left out."""
    return [n.op.name for n in walk(f.body) if isinstance(n, Call) and n.op.name != "tile.alloc"]


def named(f: Function, name: str) -> Var:
    """The first variable assigned under a name."""
    return next(n.var for n in walk(f.body) if isinstance(n, AssignStmt) and n.var.name_hint == name)


def call_of(f: Function, name: str) -> Call:
    """The first application of an operator."""
    return next(n for n in walk(f.body) if isinstance(n, Call) and n.op.name == name)
