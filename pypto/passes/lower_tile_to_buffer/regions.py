"""Control flow of a kernel whose tiles have handles: only scalars pass through it.

In: branches and loops that join tiles lying in one place, and names of one parameter.  Out: the same control flow without
them: results, carries and yields that are scalars stay, in their order.
"""

from __future__ import annotations

from typing import Any

from pypto.errors import CompileError
from pypto.ir.expr import Expr, IterArg, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType, TileType
from pypto.ir.stmt import ForStmt, IfStmt, ReturnStmt, Stmt, WhileStmt, YieldStmt, last_yield
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.span import Span

__all__ = ["Regions"]


class Regions(SSARewriter):
    """Rewrites control flow; subclasses rewrite what it contains."""

    def __init__(self, f: Function) -> None:
        super().__init__()
        self.f = f
        self.gm: dict[Var, Var] = {p: p for p in f.params if isinstance(p.type, TensorType)}
        self.kept: list[tuple[int, ...]] = []  # which yielded values of the enclosing statement stay

    def refuse(self, message: str, span: Span, hint: str | None = None) -> CompileError:
        return CompileError(f"kernel '{self.f.name}': {message}", span, hint, code="C081")

    def tensor(self, e: Expr) -> Var:
        """The parameter that a handle of global memory stands for."""
        known = self.gm.get(e) if isinstance(e, Var) else None
        if known is None:
            raise self.refuse("GM assignments require a normalized tensor parameter alias", self.span)
        return known

    def visit_if_stmt(self, s: IfStmt) -> Any:
        then, other = last_yield(s.then_body), last_yield(s.else_body)
        kept = tuple(i for i, r in enumerate(s.return_vars) if not isinstance(r.type, (TileType, TensorType)))
        condition = self.visit(s.condition)
        self.kept.append(kept)
        then_body, else_body = self.body(s.then_body), None if s.else_body is None else self.body(s.else_body)
        self.kept.pop()
        for i, r in enumerate(s.return_vars):
            if isinstance(r.type, TensorType) and then is not None and other is not None:
                a, b = self.tensor(then.value[i]), self.tensor(other.value[i])
                if a is not b:
                    raise self.refuse("GM branch results must alias the same parameter", s.span)
                self.gm[r] = a
        results = tuple(s.return_vars[i] for i in kept)
        return s.replace(condition=condition, then_body=then_body, else_body=else_body, return_vars=results)

    def visit_for_stmt(self, s: ForStmt) -> Any:
        start, stop, step = self.visit(s.start), self.visit(s.stop), self.visit(s.step)
        carries, body, results = self.loop(s)
        return s.replace(start=start, stop=stop, step=step, iter_args=carries, body=body, return_vars=results)

    def visit_while_stmt(self, s: WhileStmt) -> Any:
        kept = self.enter(s)
        carries = self.carried(tuple(s.iter_args[i] for i in kept))
        condition = self.visit(s.condition)
        body = self.inside(s, kept)
        results = tuple(s.return_vars[i] for i in kept)
        return s.replace(iter_args=carries, condition=condition, body=body, return_vars=results)

    def loop(self, s: ForStmt) -> tuple[tuple[IterArg, ...], Stmt, tuple[Var, ...]]:
        kept = self.enter(s)
        carries = self.carried(tuple(s.iter_args[i] for i in kept))
        return carries, self.inside(s, kept), tuple(s.return_vars[i] for i in kept)

    def enter(self, s: ForStmt | WhileStmt) -> tuple[int, ...]:
        """Carries of tiles and of global memory are checked and go; the numbers of those that stay."""
        kept = []
        for i, a in enumerate(s.iter_args):
            if isinstance(a.type, TensorType):
                self.gm[a] = self.tensor(a.initValue)
            elif not isinstance(a.type, TileType):
                kept.append(i)
        return tuple(kept)

    def inside(self, s: ForStmt | WhileStmt, kept: tuple[int, ...]) -> Stmt:
        self.kept.append(kept)
        body = self.body(s.body)
        self.kept.pop()
        y = last_yield(s.body)
        for a, r, v in zip(s.iter_args, s.return_vars, y.value if y is not None else (), strict=False):
            if isinstance(a.type, TensorType):
                if self.tensor(v) is not self.gm[a]:
                    raise self.refuse("GM loop results must retain their initial parameter alias", s.span)
                self.gm[r] = self.gm[a]
        return body

    def visit_yield_stmt(self, s: YieldStmt) -> Any:
        values = tuple(self.visit(s.value[i]) for i in self.kept[-1])
        # Nothing is handed on: the region just ends, if it does anything at all.
        return None if not values and self.out and not s.leading_comments else s.replace(value=values)

    def visit_return_stmt(self, s: ReturnStmt) -> Any:
        values = tuple(self.tensor(v) if isinstance(v.type, TensorType) else self.visit(v) for v in s.value)
        return s if all(a is b for a, b in zip(values, s.value, strict=True)) else s.replace(value=values)
