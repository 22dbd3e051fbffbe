"""Flat statement sequences.

In: any program.  Out: the same statements, no sequence inside a sequence, none of length one.
"""

from __future__ import annotations

from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import SeqStmts, Stmt, flatten_to_stmts
from pypto.ir.verify.properties import IRProperty
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass

__all__ = ["flat", "normalize_stmt_structure"]


class _Flatten(Mutator):
    def visit_expr(self, e: object) -> object:
        return e  # sequences stand in statements only

    def visit_seq_stmts(self, s: SeqStmts) -> Stmt:
        old = s.stmts
        new = [flat for x in old for flat in flatten_to_stmts(self.visit(x))]
        if len(new) == 1:
            return new[0]
        same = len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
        return s if same else SeqStmts(new, s.span)


def flat(f: Function) -> Function:
    """The function with flat bodies; itself if they are."""
    return f.replace(body=_Flatten().body(f.body))


@function_pass("NormalizeStmtStructure", produces=(IRProperty.NormalizedStmtStructure,))
def normalize_stmt_structure(f: Function, options: PassOptions) -> Function:
    return flat(f)
