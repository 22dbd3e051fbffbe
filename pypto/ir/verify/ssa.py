"""Judge of SSAForm: every variable defined once and read where it is visible; yields where they belong.

Codes: 1 multiple assignment, 3 missing yield, 4 carries and results differ in number, 5 wrong number of yielded
values, 6 read outside of the defining scope, 7 misplaced yield.  (2, shadowed names, cannot happen: names are cosmetic.)
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.ir.expr import Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import ForStmt, IfStmt, ReturnStmt, ScopeStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts, last_yield
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import ScopedWalk
from pypto.span import Span

__all__ = ["ssa_form"]

_MULTIPLE, _MISSING, _CARRIES, _COUNT, _SCOPE, _MISPLACED = 1, 3, 4, 5, 6, 7


def ssa_form(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        walk = _Definitions(f)
        walk.run()
        yield from walk.found
        yield from _Yields(f).found


def _finding(code: int, message: str, span: Span) -> Diagnostic:
    return Diagnostic(Severity.Error, "SSAVerify", code, message, span)


def user_name(v: Var) -> str:
    """A variable's name as the user wrote it; a tile that was loaded from a tensor of the user's has the name of that."""
    name, *more = v.name_hint.split("__", 1)
    if not more and isinstance(v.type, TileType):
        name = name.removesuffix("_tile")
    return name or v.name_hint


class _Definitions(ScopedWalk):
    def __init__(self, f: Function) -> None:
        super().__init__(f)
        self.found: list[Diagnostic] = []
        self.defined: set[Var] = set(f.params)
        self.reported: set[Var] = set()

    def define(self, v: Var, at: Stmt) -> None:
        if v in self.defined:
            self.found.append(_finding(_MULTIPLE, f"Variable '{user_name(v)}' is assigned more than once", at.span))
        self.defined.add(v)

    def use(self, v: Var, at: Stmt) -> None:
        if v in self.visible or v in self.reported:
            return
        self.reported.add(v)
        name = user_name(v)
        inner = f" at line {v.span.begin_line}" if v.span.is_valid() else ""
        hint = f"'{name}' gets its value in a branch or loop{inner} that may not run: give it a value before, or in the other arm"
        found = _finding(_SCOPE, f"Variable '{name}' used outside its defining scope", at.span)
        self.found.append(found._replace(hint=hint))


class _Yields:
    """Yields end the arms of branches with results and the bodies of loops with carries, and stand nowhere else."""

    def __init__(self, f: Function) -> None:
        self.found: list[Diagnostic] = []
        self._body(f.body, may_yield=False)

    def _report(self, code: int, message: str, at: Stmt) -> None:
        self.found.append(_finding(code, message, at.span))

    def _body(self, s: Stmt | None, may_yield: bool) -> None:
        stmts = flatten_to_stmts(s)
        for i, x in enumerate(stmts):
            if isinstance(x, YieldStmt):
                if not may_yield or i + 1 < len(stmts):
                    self._report(_MISPLACED, "a yield must be the last statement of a loop body or a branch", x)
            elif isinstance(x, ReturnStmt):
                continue
            elif isinstance(x, IfStmt):
                self._branch(x)
            elif isinstance(x, (ForStmt, WhileStmt)):
                self._loop(x)
            elif isinstance(x, ScopeStmt):
                self._body(x.body, may_yield=False)

    def _branch(self, s: IfStmt) -> None:
        for which, arm in (("if", s.then_body), ("else", s.else_body)):
            self._body(arm, may_yield=True)
            if s.return_vars or last_yield(arm) is not None:
                self._count(s, arm, len(s.return_vars), f"the {which} branch")

    def _loop(self, s: ForStmt | WhileStmt) -> None:
        self._body(s.body, may_yield=True)
        if len(s.iter_args) != len(s.return_vars):
            self._report(_CARRIES, f"the loop carries {len(s.iter_args)} values but has {len(s.return_vars)} results", s)
        if s.iter_args or last_yield(s.body) is not None:
            self._count(s, s.body, len(s.iter_args), "the loop body")

    def _count(self, s: Stmt, body: Stmt | None, wanted: int, what: str) -> None:
        last = last_yield(body)
        if last is None:
            self._report(_MISSING, f"{what} must end with a yield of {wanted} value(s)", s)
        elif len(last.value) != wanted:
            self._report(_COUNT, f"{what} yields {len(last.value)} value(s), expected {wanted}", last)
