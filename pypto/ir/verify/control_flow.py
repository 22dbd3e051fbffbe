"""Judges of control flow: what may leave a loop, and which constructs a pass has removed for good.

Codes: 301 break or continue outside of a sequential loop, 302 a break or continue left, 303 an unrolled loop left,
304 pipeline stages and loop kind disagree, 305 a pipeline loop left, 306 an inline function or a call of one left.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import ForKind, FunctionType
from pypto.ir.expr import Call, Submit
from pypto.ir.node import Node
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import BreakStmt, ContinueStmt, ForStmt, SplitAivScopeStmt, Stmt, WhileStmt
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements
from pypto.span import Span

__all__ = [
    "break_continue_valid",
    "inline_functions_eliminated",
    "pipeline_loop_valid",
    "pipeline_resolved",
    "structured_ctrl_flow",
    "unroll_resolved",
]


def _finding(rule: str, code: int, message: str, span: Span) -> Diagnostic:
    return Diagnostic(Severity.Error, rule, code, message, span)


def _statements(program: Program) -> Iterator[Stmt]:
    for f in program.function_list:
        yield from statements(f.body)


def break_continue_valid(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        yield from _exits(f.body, None)


def _exits(n: Node, around: Stmt | None) -> Iterator[Diagnostic]:
    if isinstance(n, (BreakStmt, ContinueStmt)):
        word = "break" if isinstance(n, BreakStmt) else "continue"
        if around is None:
            yield _finding("BreakContinueCheck", 301, f"'{word}' outside of a loop", n.span)
        elif isinstance(around, ForStmt) and around.kind is not ForKind.Sequential:
            message = f"'{word}' is not supported in {around.kind.name.lower()} loops"
            yield _finding("BreakContinueCheck", 301, message, n.span)
        elif isinstance(around, SplitAivScopeStmt):
            yield _finding("BreakContinueCheck", 301, f"'{word}' inside a pl.split_aiv region", n.span)
        return
    if isinstance(n, (ForStmt, WhileStmt, SplitAivScopeStmt)):
        around = n
    for child in n.children():
        if isinstance(child, Stmt):
            yield from _exits(child, around)


def structured_ctrl_flow(program: Program) -> Iterator[Diagnostic]:
    for n in _statements(program):
        if isinstance(n, (BreakStmt, ContinueStmt)):
            yield _finding("StructuredCtrlFlow", 302, "a break or continue is left", n.span)


def unroll_resolved(program: Program) -> Iterator[Diagnostic]:
    for n in _statements(program):
        if isinstance(n, ForStmt) and n.kind is ForKind.Unroll:
            yield _finding("UnrollResolved", 303, "an unrolled loop is left", n.span)


def pipeline_loop_valid(program: Program) -> Iterator[Diagnostic]:
    for n in _statements(program):
        if isinstance(n, ForStmt) and (n.kind is ForKind.Pipeline) != ("pipeline_stages" in n.attrs):
            yield _finding("PipelineLoopValid", 304, "a pipeline loop, and no other, has pipeline_stages", n.span)


def pipeline_resolved(program: Program) -> Iterator[Diagnostic]:
    for n in _statements(program):
        if isinstance(n, ForStmt) and n.kind is ForKind.Pipeline:
            yield _finding("PipelineResolved", 305, "a pipeline loop is left", n.span)


def inline_functions_eliminated(program: Program) -> Iterator[Diagnostic]:
    inline = {f.name for f in program.function_list if f.func_type is FunctionType.Inline}
    for name in sorted(inline):
        yield _finding("InlineFunctionsEliminated", 306, f"the inline function '{name}' is left", program.span)
    for n in (n for f in program.function_list for n in walk(f.body)):
        if isinstance(n, (Call, Submit)) and n.op.name in inline:
            message = f"the call of the inline function '{n.op.name}' stands inside an expression: assign its result to a name"
            yield _finding("InlineFunctionsEliminated", 306, message, n.span)
