"""Judge of InOutUseValid: a variable that a call writes is not read under its old name afterwards.

Code 501.  `o = f(a, o)` names the written tensor anew; after a bare `f(a, o)`, or `p = f(a, o)`, reading `o` again is the
mistake.  Bodies of Group functions are exempt.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import FunctionType, ParamDirection
from pypto.ir import ops
from pypto.ir.expr import Call, Submit, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, IfStmt, Stmt, value_of
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import ScopedWalk
from pypto.ir.verify.ssa import user_name

__all__ = ["inout_use_valid"]


def inout_use_valid(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        if f.func_type is not FunctionType.Group:
            walk = _Uses(f, program)
            walk.run()
            yield from walk.found


class _Uses(ScopedWalk):
    """`spent` maps a written variable to the function that wrote it."""

    def __init__(self, f: Function, program: Program) -> None:
        super().__init__(f)
        self.program = program
        self.found: list[Diagnostic] = []
        self.spent: dict[Var, str] = {}

    def _statement(self, s: Stmt) -> None:
        if isinstance(s, IfStmt):
            self._branch(s)
            return
        super()._statement(s)
        call = value_of(s)
        if isinstance(call, (Call, Submit)) and ops.find(call.op.name) is None:
            self._spend(call, s.var if isinstance(s, AssignStmt) else None)

    def _branch(self, s: IfStmt) -> None:
        """What one arm writes, the other may still read."""
        self._read(s.condition, s)
        before = dict(self.spent)
        self._closed(s.then_body)
        after, self.spent = self.spent, before
        self._closed(s.else_body)
        self.spent = {**after, **self.spent}
        self._define(s.return_vars, s)

    def _spend(self, call: Call | Submit, result: Var | None) -> None:
        f = self.program.get_function(call.op.name)
        directions = f.param_directions if f is not None else ()
        for a, d in zip(call.args, directions, strict=False):
            written = isinstance(a, Var) and isinstance(a.type, TensorType) and d is not ParamDirection.In
            if isinstance(a, Var) and written and a is not result:
                self.spent[a] = call.op.name

    def define(self, v: Var, at: Stmt) -> None:
        self.spent.pop(v, None)

    def use(self, v: Var, at: Stmt) -> None:
        writer = self.spent.pop(v, None)
        if writer is not None:
            message = (
                f"'{user_name(v)}' was handed to '{writer}' to be written and is read afterwards: read the post-call return value"
            )
            after = "the value after the call is the one that it returns"
            hint = f"{user_name(v)} = {writer}(...), and end '{writer}' with a return: {after}"
            self.found.append(Diagnostic(Severity.Error, "InOutUseDiscipline", 501, message, at.span, hint=hint))
