"""Judge of ReturnParamsExplicit: what a device function returns of its parameters' storage is the parameter itself.

Code 531.  The storage of a returned value is followed through writes, branches, loops and calls; only a certain root counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import FunctionType
from pypto.ir.program import Program
from pypto.ir.stmt import ReturnStmt
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.roots import Flow
from pypto.ir.verify.scopes import statements

__all__ = ["return_params_explicit"]

_KINDS = (FunctionType.InCore, FunctionType.Group, FunctionType.Spmd)


def return_params_explicit(program: Program) -> Iterator[Diagnostic]:
    flow = Flow(program)
    for f in program.function_list:
        if f.func_type not in _KINDS:
            continue
        params, roots = set(f.params), flow.roots(f)
        for s in (n for n in statements(f.body) if isinstance(n, ReturnStmt)):
            for i, v in enumerate(s.value):
                root = roots.only(v)
                if root is not None and root in params and root is not v:
                    message = f"'{f.name}' returns '{root.name_hint}' under another name as its result {i}"
                    yield Diagnostic(Severity.Error, "ReturnParamsExplicit", 531, message, s.span)
