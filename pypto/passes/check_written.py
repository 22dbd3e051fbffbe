"""Storage that was created is written before it is read.

In: a kernel over two-dimensional tiles in SSA form.  Out: the kernel; where only a run can tell whether something was written
(a loop that may make no trip, a branch), the reading statement stands behind an `expect_written`.
Errors, at the reading statement: nothing can have written what it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.dtypes import DataType
from pypto.errors import CompileError
from pypto.ir import scalar
from pypto.ir.analyzer import Analyzer
from pypto.ir.expr import ConstBool, Expr, IterArg, Var
from pypto.ir.fold import fold
from pypto.ir.program import Function
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt
from pypto.ir.types import ScalarType
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.written import Read, Unwritten, handed_on, unwritten_reads
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.span import Span

__all__ = ["check_written", "never_written"]

_TRUE = ConstBool(True)
_BOOL = ScalarType.of(DataType.BOOL)


def check_written(f: Function) -> Function:
    """The kernel with what a run must tell; the same one if everything is known to be written."""
    found = unwritten_reads(f)
    for r in found.reads:
        if r.missing.always:
            raise never_written(user_name(r.tile), r.at.span, "pl.full and pl.tile.full give")
    return _Expecting(found).function(f) if found.reads else f


def never_written(name: str, at: Span, others: str) -> CompileError:
    """The error where created storage is certain to be read unwritten; `others`: which functions give some with a value."""
    hint = f"write it first: what is created holds nothing; {others} storage with a value"
    return CompileError(f"'{name}' is read, and nothing has written it", at, hint, code="C062")


class _Expecting(SSARewriter):
    """Where no condition says whether something was written, loops and branches carry along whether it was."""

    def __init__(self, found: Unwritten) -> None:
        super().__init__()
        self.told: dict[Stmt, list[Read]] = {}
        for r in found.reads:
            self.told.setdefault(r.at, []).append(r)
        self.holders = found.holders if any(r.missing.when is None for r in found.reads) else frozenset()
        self.written: dict[Expr, Expr] = {}  # of the holders, whether they were
        self.joins: list[list[int]] = []  # of the regions around: the numbers of the values that may hold nothing

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        self.expect(s)
        if s.var in self.holders:
            source = handed_on(s.value)
            self.written[s.var] = ConstBool(False) if source is None else self.written.get(source, _TRUE)
        return super().visit_assign_stmt(s)

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        self.expect(s)
        return self.rebuild(s)

    def expect(self, s: Stmt) -> None:
        for r in self.told.get(s, ()):
            when = r.missing.when
            known = self.written.get(r.tile, _TRUE) if when is None else fold(scalar.not_(when), Analyzer())
            if not isinstance(known, ConstBool) or not known.value:
                call = typed_call("tile.expect_written", (self.expr(known),), {"name": user_name(r.tile)}, s.span)
                self.out.append(EvalStmt(call, s.span))

    # -- regions --

    def visit_for_stmt(self, s: ForStmt) -> Any:
        return self.loop(s, super().visit_for_stmt)

    def visit_while_stmt(self, s: WhileStmt) -> Any:
        return self.loop(s, super().visit_while_stmt)

    def loop(self, s: Any, rebuilt: Callable[[Any], Any]) -> Any:
        numbers = [i for i, (a, r) in enumerate(zip(s.iter_args, s.return_vars, strict=True)) if {a, r} & self.holders]
        args = [s.iter_args[i] for i in numbers]
        flags = tuple(IterArg(f"{a.name_hint}_written", _BOOL, self.written.get(a.initValue, _TRUE), a.span) for a in args)
        self.written.update(zip(args, flags, strict=True))
        made, results = self.joined(s, numbers, rebuilt)
        return made.replace(iter_args=(*made.iter_args, *flags), return_vars=(*made.return_vars, *results)) if numbers else made

    def visit_if_stmt(self, s: IfStmt) -> Any:
        numbers = [i for i, r in enumerate(s.return_vars) if r in self.holders]
        made, results = self.joined(s, numbers, super().visit_if_stmt)
        return made.replace(return_vars=(*made.return_vars, *results)) if numbers else made

    def joined(self, s: Any, numbers: list[int], rebuilt: Callable[[Any], Any]) -> tuple[Any, tuple[Var, ...]]:
        """The statement with its regions rebuilt, and variables for what they yield beside their values."""
        self.joins.append(numbers)
        made = rebuilt(s)
        self.joins.pop()
        results = tuple(Var(f"{s.return_vars[i].name_hint}_written", _BOOL, s.span) for i in numbers)
        self.written.update((s.return_vars[i], r) for i, r in zip(numbers, results, strict=True))
        return made, results

    def visit_yield_stmt(self, s: YieldStmt) -> Stmt:
        flags = [self.written.get(s.value[i], _TRUE) for i in self.joins[-1]]
        made = self.rebuild(s)
        return made.replace(value=(*made.value, *flags)) if flags else made
