"""Judges of the call graph after outlining: references resolve, scopes are gone, calls say how they use arguments.

Codes: 521 call of an unknown function, 522 wrong number of arguments, 523 an InCore scope left, 524 a cluster or SPMD scope
left, 525 a hierarchy scope left, 526 a call without argument directions, 527 a wrapper that promises less than it does.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import FunctionType, ParamDirection
from pypto.ir import ops
from pypto.ir.expr import Call, Submit
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ClusterScopeStmt, HierarchyScopeStmt, InCoreScopeStmt, ScopeStmt, SpmdScopeStmt
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.roots import Flow, accesses
from pypto.ir.verify.scopes import statements
from pypto.span import Span

__all__ = [
    "call_directions_resolved",
    "cluster_outlined",
    "hierarchy_outlined",
    "orchestration_references_resolved",
    "split_incore_orch",
]

_ORCHESTRATION = (FunctionType.Orchestration, FunctionType.Opaque)
_WRAPPERS = (FunctionType.Group, FunctionType.Spmd)


def _finding(rule: str, code: int, message: str, span: Span) -> Diagnostic:
    return Diagnostic(Severity.Error, rule, code, message, span)


def _calls(f: Function) -> Iterator[Call | Submit]:
    for n in walk(f.body):
        if isinstance(n, (Call, Submit)) and ops.find(n.op.name) is None:
            yield n


def orchestration_references_resolved(program: Program) -> Iterator[Diagnostic]:
    rule = "OrchestrationReferencesResolved"
    for f in program.function_list:
        for call in _calls(f) if f.func_type in _ORCHESTRATION else ():
            callee = program.get_function(call.op.name)
            if callee is None:
                yield _finding(rule, 521, f"'{f.name}' calls '{call.op.name}', which is no function of the program", call.span)
            elif isinstance(call, Call) and len(call.args) != len(callee.params):
                message = f"'{callee.name}' expects {len(callee.params)} argument(s), got {len(call.args)}"
                yield _finding(rule, 522, message, call.span)


def _left(program: Program, rule: str, code: int, kinds: tuple[type[ScopeStmt], ...], what: str) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for n in statements(f.body) if f.func_type in _ORCHESTRATION else ():
            if isinstance(n, kinds):
                yield _finding(rule, code, f"'{f.name}' still holds {what}", n.span)


def split_incore_orch(program: Program) -> Iterator[Diagnostic]:
    return _left(program, "SplitIncoreOrch", 523, (InCoreScopeStmt,), "a core scope")


def cluster_outlined(program: Program) -> Iterator[Diagnostic]:
    return _left(program, "ClusterOutlined", 524, (ClusterScopeStmt, SpmdScopeStmt), "a cluster or SPMD scope")


def hierarchy_outlined(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for n in statements(f.body) if f.func_type is FunctionType.Opaque else ():
            if isinstance(n, HierarchyScopeStmt):
                yield _finding("HierarchyOutlined", 525, f"'{f.name}' still holds a hierarchy scope", n.span)


def call_directions_resolved(program: Program) -> Iterator[Diagnostic]:
    rule, flow = "CallDirectionsResolved", Flow(program)
    for f in program.function_list:
        for call in _calls(f):
            if call.args and len(call.attrs.get("arg_directions", ())) != len(call.args):
                yield _finding(rule, 526, f"the call of '{call.op.name}' does not say how it uses its arguments", call.span)
        if f.func_type in _WRAPPERS:
            found = accesses(f.body, flow.roots(f))
            for p, d in zip(f.params, f.param_directions, strict=True):
                if p in found and found[p].written and d is ParamDirection.In:
                    yield _finding(rule, 527, f"'{f.name}' hands '{p.name_hint}' on to be written but takes it as In", f.span)
