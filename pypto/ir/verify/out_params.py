"""Judges of what may stand in a signature and a scope.

Codes: 511 an Out or InOut parameter rebound to a new tensor, 512 a core scope inside another, 513 an array in a signature,
514 a plain call with manual dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import ParamDirection
from pypto.ir import ops
from pypto.ir.expr import Call
from pypto.ir.node import Node
from pypto.ir.opdef import Special
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt, InCoreScopeStmt, Stmt
from pypto.ir.types import ArrayType
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements
from pypto.ir.verify.ssa import user_name

__all__ = ["array_not_escaped", "manual_deps_on_submit_only", "no_nested_incore", "out_param_not_shadowed"]


def out_param_not_shadowed(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        written = {p for p, d in zip(f.params, f.param_directions, strict=True) if d is not ParamDirection.In}
        for s in statements(f.body):
            if not isinstance(s, AssignStmt) or s.var not in written or not isinstance(s.value, Call):
                continue
            op = ops.of(s.value)
            if op is not None and isinstance(op.semantics, Special) and op.semantics.kind in ("create", "fill"):
                message = f"the output parameter '{user_name(s.var)}' is rebound to a new tensor: what is written to it is lost"
                yield Diagnostic(Severity.Error, "OutParamNotShadowed", 511, message, s.span)


def no_nested_incore(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        yield from _nested(f.body, False)


def _nested(n: Node, inside: bool) -> Iterator[Diagnostic]:
    if isinstance(n, InCoreScopeStmt):
        if inside:
            yield Diagnostic(Severity.Error, "NoNestedInCore", 512, "a core scope inside another core scope", n.span)
        inside = True
    for child in n.children():
        if isinstance(child, Stmt):
            yield from _nested(child, inside)


def array_not_escaped(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for t in (*(p.type for p in f.params), *f.return_types):
            if isinstance(t, ArrayType):
                message = f"'{f.name}' has an array in its signature: arrays stay in the function that makes them"
                yield Diagnostic(Severity.Error, "ArrayNotEscaped", 513, message, f.span)


def manual_deps_on_submit_only(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for n in walk(f.body):
            if isinstance(n, Call) and ops.of(n) is None and "manual_dep_edges" in n.attrs:
                message = f"the call of '{n.op.name}' has manual dependencies, which only a launch can have"
                yield Diagnostic(Severity.Error, "ManualDepsOnSubmitOnly", 514, message, n.span)
