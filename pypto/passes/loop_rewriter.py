"""Rewriting that makes loops.

In: what a loop does with its index and the one value that it carries.  Out: the loop, before the statement being visited.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto.dtypes import DataType
from pypto.enums import ForKind
from pypto.ir.expr import Expr, IterArg, Var, const_index
from pypto.ir.stmt import ForStmt, Stmt, YieldStmt, seq
from pypto.ir.types import ScalarType
from pypto.passes.ssa_rewriter import SSARewriter

__all__ = ["LoopRewriter"]


class LoopRewriter(SSARewriter):
    """A rewriter that makes loops."""

    def loop(
        self, name: str, bounds: tuple[int, int, int], start: Expr, body: Callable[[Expr, Expr], Expr], stages: int = 0
    ) -> Var:
        """A loop that carries one value: `body(index, value)` emits its statements and gives the next value.

        `bounds`: start, stop and step.  `stages`: of a pipelined loop; 0 for a plain one.
        """
        index = Var(name, ScalarType.of(DataType.INDEX), self.span)
        hint = getattr(start, "name_hint", "carried")
        carry = IterArg(hint, start.type, start, self.span)
        result: list[Expr] = []
        inside = self.region(lambda: result.append(body(index, carry)))
        inside.append(YieldStmt(result, self.span))
        out = Var(hint, result[0].type, self.span)
        kind, attrs = (ForKind.Pipeline, {"pipeline_stages": stages}) if stages else (ForKind.Sequential, None)
        lo, hi, step = (const_index(n) for n in bounds)
        self.out.append(ForStmt(index, lo, hi, step, (carry,), seq(inside, self.span), (out,), self.span, kind, attrs))
        return out

    def region(self, build: Callable[[], object]) -> list[Stmt]:
        """The statements that `build` emits."""
        outer, self.out = self.out, []
        build()
        made, self.out = self.out, outer
        return made
