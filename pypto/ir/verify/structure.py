"""Judges of NormalizedStmtStructure and NoRedundantBlocks: no sequence inside a sequence, none of one statement."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.ir.program import Program
from pypto.ir.stmt import SeqStmts
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.ir.verify.scopes import statements

__all__ = ["no_redundant_blocks", "normalized_stmt_structure"]


def normalized_stmt_structure(program: Program) -> Iterator[Diagnostic]:
    return _judge(program, "NormalizedStmtStructure")


def no_redundant_blocks(program: Program) -> Iterator[Diagnostic]:
    return _judge(program, "NoRedundantBlocks")


def _judge(program: Program, rule: str) -> Iterator[Diagnostic]:
    for f in program.function_list:
        for s in statements(f.body):
            if not isinstance(s, SeqStmts):
                continue
            if len(s.stmts) == 1:
                yield Diagnostic(Severity.Error, rule, 311, f"'{f.name}': a sequence of one statement", s.span)
            if any(isinstance(x, SeqStmts) for x in s.stmts):
                yield Diagnostic(Severity.Error, rule, 312, f"'{f.name}': a sequence inside a sequence", s.span)
