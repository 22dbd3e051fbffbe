"""Judge of UseAfterDef: a variable is set before it is read, on the way that the text goes.  Holds before SSA form too.

Code 401.  A branch with results hides what its arms define; any other branch or loop shows it to what follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.ir.expr import Var
from pypto.ir.program import Function, Program
from pypto.ir.stmt import IfStmt, Stmt
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import ScopedWalk
from pypto.ir.verify.ssa import user_name

__all__ = ["use_after_def"]


def use_after_def(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        walk = _Uses(f)
        walk.run()
        yield from walk.found


class _Uses(ScopedWalk):
    def __init__(self, f: Function) -> None:
        super().__init__(f)
        self.found: list[Diagnostic] = []
        self.set: set[Var] = set(self.visible)

    def _statement(self, s: Stmt) -> None:
        before = set(self.set) if isinstance(s, IfStmt) and s.return_vars else None
        super()._statement(s)
        if before is not None and isinstance(s, IfStmt):
            self.set = before | set(s.return_vars)

    def define(self, v: Var, at: Stmt) -> None:
        self.set.add(v)

    def use(self, v: Var, at: Stmt) -> None:
        if v not in self.set:
            self.set.add(v)
            message = f"Variable '{user_name(v)}' is read before it is set"
            self.found.append(Diagnostic(Severity.Error, "UseAfterDef", 401, message, at.span))
