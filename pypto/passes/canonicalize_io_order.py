"""CanonicalizeIOOrder: in pipelined loops, loads come before what is computed.

In: loops of kind Pipeline with one stage, whose bodies are several trips.  Out: sequential loops in whose bodies scalars
come first, then loads, then each trip's computation and its store, as far as values and memory allow.
Invariant: a statement stays behind whatever it depends on: the values it reads, the tensors in global memory it touches
after a write (or writes after a touch), and the tiles that are written in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from pypto.enums import ArgEffect, ForKind, MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Var
from pypto.ir.node import Attrs
from pypto.ir.opdef import Special
from pypto.ir.ops.system import FENCES
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts, seq
from pypto.ir.types import ScalarType
from pypto.ir.verify.properties import IRProperty
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.convert_tensor_to_tile_ops.flow import GmFlow, analyze
from pypto.passes.framework import function_pass
from pypto.passes.retype import used_vars
from pypto.passes.statements import calls, definitions, statements

__all__ = ["canonicalize_io_order"]

_SCALAR, _LOAD, _REST = range(3)
_NEAR = (MemorySpace.Left, MemorySpace.Right)


@function_pass(
    "CanonicalizeIOOrder",
    requires=(IRProperty.SSAForm,),
    produces=(IRProperty.SSAForm, IRProperty.NormalizedStmtStructure, IRProperty.PipelineResolved),
)
def canonicalize_io_order(f: Function, options: PassOptions) -> Function:
    if not any(isinstance(n, ForStmt) and n.kind is ForKind.Pipeline for n in statements(f.body)):
        return f
    return f.replace(body=_Order(analyze(f)).visit(f.body))


class _Touch(NamedTuple):
    """What a statement does to memory that has a name: global tensors, and tiles written in place."""

    reads: frozenset[Var]
    writes: frozenset[Var]
    fence: bool = False  # other cores are waited for: nothing changes sides


class _Order(Mutator):
    def __init__(self, flow: GmFlow) -> None:
        super().__init__()
        self.flow = flow
        self.inside = False

    def visit_expr(self, e: Expr) -> Expr:
        return e

    def visit_for_stmt(self, s: ForStmt) -> Stmt:
        outer = self.inside
        pipelined = s.kind is ForKind.Pipeline
        self.inside = outer or pipelined
        body = self.visit(s.body)
        if self.inside:
            body = self._ordered(body)
        self.inside = outer
        if not pipelined:
            return s if body is s.body else s.replace(body=body)
        attrs = Attrs({k: v for k, v in s.attrs.items() if not k.startswith("pipeline_")})
        return s.replace(body=body, kind=ForKind.Sequential, attrs=attrs)

    def visit_if_stmt(self, s: IfStmt) -> Stmt:
        then, other = self.visit(s.then_body), None if s.else_body is None else self.visit(s.else_body)
        if self.inside:
            then, other = self._ordered(then), None if other is None else self._ordered(other)
        return s if then is s.then_body and other is s.else_body else s.replace(then_body=then, else_body=other)

    # -- one sequence --

    def _ordered(self, body: Stmt) -> Stmt:
        stmts = flatten_to_stmts(body)
        end = [stmts.pop()] if stmts and isinstance(stmts[-1], YieldStmt) else []
        order = _stable_sort([_rank(s) for s in stmts], self._dependencies(stmts))
        if order == list(range(len(stmts))):
            return body
        return seq([*(stmts[i] for i in order), *end], body.span)

    def _dependencies(self, stmts: list[Stmt]) -> list[set[int]]:
        """For each statement, the earlier ones that must stay before it."""
        made: dict[Var, int] = {}
        for i, s in enumerate(stmts):
            made.update(dict.fromkeys(definitions(s), i))
        touches = [self._touch(s) for s in stmts]
        found: list[set[int]] = []
        for i, s in enumerate(stmts):
            needs = {made[v] for v in used_vars(s, types=True) if made.get(v, i) < i}
            for k in range(i):
                a, b = touches[k], touches[i]
                if a.fence or b.fence or a.writes & (b.reads | b.writes) or a.reads & b.writes:
                    needs.add(k)
            found.append(needs)
        return found

    def _touch(self, s: Stmt) -> _Touch:
        reads: set[Var] = set()
        writes: set[Var] = set()
        fence = False
        for c in calls(s):
            op = ops.of(c)
            fence = fence or (op is not None and isinstance(op.semantics, Special) and op.semantics.kind in FENCES)
            effects = op.effects(c.kwargs) if op is not None else (ArgEffect.ReadWrite,) * len(c.args)
            for a, effect in zip(c.args, effects, strict=False):
                if not isinstance(a, Var):
                    continue
                roots: Iterable[Var] = self.flow.roots.get(a, (a,) if isinstance(a.type, TileType) else ())
                if effect is not ArgEffect.Write:
                    reads.update(roots)
                if effect is not ArgEffect.Read:
                    writes.update(roots)
        return _Touch(frozenset(reads), frozenset(writes), fence)


def _rank(s: Stmt) -> int:
    if isinstance(s, (ForStmt, WhileStmt, IfStmt)) or not isinstance(s, AssignStmt):
        return _REST
    c = s.value
    op = ops.of(c) if isinstance(c, Call) else None
    if op is None:
        return _SCALAR if isinstance(s.var.type, ScalarType) and not isinstance(c, Call) else _REST
    kind = op.semantics.kind if isinstance(op.semantics, Special) else ""
    near = kind == "extract" and isinstance(s.var.type, TileType) and s.var.type.memory_space in _NEAR
    if kind in ("load", "read") or near:
        return _LOAD
    return _SCALAR if kind == "query" else _REST


def _stable_sort(ranks: list[int], needs: list[set[int]]) -> list[int]:
    """Positions by rank, and in the old order within a rank, each after all that it needs."""
    waiting: Mapping[int, set[int]] = {i: set(n) for i, n in enumerate(needs)}
    users: dict[int, list[int]] = {}
    for i, n in enumerate(needs):
        for k in n:
            users.setdefault(k, []).append(i)
    ready = [(ranks[i], i) for i, n in waiting.items() if not n]
    heapify(ready)
    out: list[int] = []
    while ready:
        _, i = heappop(ready)
        out.append(i)
        for u in users.get(i, ()):
            waiting[u].discard(i)
            if not waiting[u]:
                heappush(ready, (ranks[u], u))
    return out
