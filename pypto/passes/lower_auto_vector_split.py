"""LowerAutoVectorSplit: vector-lane regions as loops over the lanes.

In: kernels over tiles, with `pl.split_aiv` regions that keep the rules of `AivSplitValid`.  Out: each region is a sequential
loop over lanes 0 and 1: `aiv_shard` is an extract of the lane's half, `aic_gather` a window write into a tile that the loop
carries; tensors that the region writes are carried too.  A kernel split as a whole (`pl.split`) runs as a whole.
Invariant: lane 1 sees of lane 0 what lies in global memory, and nothing else but its halves of what is gathered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.dtypes import DataType
from pypto.enums import ForKind, MemorySpace
from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, IterArg, MakeTuple, Var, const_index
from pypto.ir.ops.lanes import GATHER, SHARD
from pypto.ir.program import Function
from pypto.ir.shaped import ShapedType, TensorType, TileType
from pypto.ir.stmt import (
    AssignStmt,
    ForStmt,
    IfStmt,
    SplitAivScopeStmt,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    last_yield,
    seq,
)
from pypto.ir.types import ScalarType
from pypto.ir.verify.lane_regions import kind_of, leaving
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import defined_by, uses_in
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.lane_regions import refuse_wrong_regions
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import statements

__all__ = ["lower_auto_vector_split"]


@function_pass(
    "LowerAutoVectorSplit",
    requires=(IRProperty.SSAForm, IRProperty.IncoreTileOps, IRProperty.SplitIncoreOrch, IRProperty.TileOps2D),
    produces=(IRProperty.SSAForm, IRProperty.NormalizedStmtStructure),
    invalidates=(IRProperty.AivSplitValid,),
)
def lower_auto_vector_split(f: Function, options: PassOptions) -> Function:
    if not f.is_device:
        return f
    refuse_wrong_regions((f,))
    if not any(isinstance(s, SplitAivScopeStmt) for s in statements(f.body)):
        return f
    return _Lowering(f).function(f)


class _Lanes(NamedTuple):
    """The region being rewritten."""

    lane: Var
    gathers: dict[Var, Var]  # a gathered value -> the carry that it is written into


class _Lowering(SSARewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.f = f
        self.own = frozenset(v for r in statements(f.body) if isinstance(r, SplitAivScopeStmt) for v in _defined(r))
        self.inside: _Lanes | None = None

    # -- the region --

    def visit_split_aiv_scope_stmt(self, s: SplitAivScopeStmt) -> Stmt:
        values = {d.var: d for d in statements(s.body) if isinstance(d, AssignStmt)}
        lane = Var(_lane_name(s), ScalarType.of(DataType.INDEX), s.span)
        starts = self._carries(s)
        inits = [self._whole(values[v]) if start is None else self.expr(start) for v, start in starts.items()]
        carried = [IterArg(v.name_hint, init.type, init, v.span) for v, init in zip(starts, inits, strict=True)]
        pairs = list(zip(starts.items(), carried, strict=True))
        before = dict(self.vars)
        self.inside = _Lanes(lane, {v: a for (v, start), a in pairs if start is None})
        self.vars.update((start, a) for (_, start), a in pairs if start is not None)
        body = self.body(s.body)
        yielded = [self.expr(v) for v in starts]
        self.inside, self.vars = None, before
        results = [Var(a.name_hint, a.type, a.span) for a in carried]
        self.vars.update(zip(starts, results, strict=True))
        stmts = [*flatten_to_stmts(body), *([YieldStmt(yielded, s.span)] if starts else [])]
        bounds = (const_index(0), const_index(s.count), const_index(1))
        return ForStmt(lane, *bounds, carried, seq(stmts, s.body.span), results, s.span, ForKind.Sequential, None)

    def _carries(self, s: SplitAivScopeStmt) -> dict[Var, Var | None]:
        """What the loop carries, and the tensor that each begins as; None for a gathered value.

        Those are the values that leave the region, and the last version of each tensor that it writes: the next lane reads it.
        """
        leaves = leaving(self.f, s)
        sources = _sources(s.body)
        own = set(_defined(s))
        last: dict[Var, Var] = {}
        for v in (v for x in flatten_to_stmts(s.body) for v in defined_by(x) if isinstance(v.type, TensorType)):
            ends = _outside(v, sources)
            if len(ends) == 1 and ends[0] not in own:
                last[ends[0]] = v
            elif v in leaves:
                what = f"'{user_name(v)}' may be one of several tensors behind the region"
                raise CompileError(what, v.span, "choose or make the tensor outside of the pl.split_aiv region", code="C063")
        starts: dict[Var, Var | None] = {v: origin for origin, v in last.items()}
        for v in leaves:
            if v not in starts:
                starts[v] = _outside(v, sources)[0] if v in sources else None
        return starts

    def _whole(self, s: AssignStmt) -> Var:
        """Storage for a gathered value, made before the loop."""
        t = s.var.type
        assert isinstance(t, TileType)
        if any(u in self.own for d in t.valid for u in uses_in(d)):
            raise CompileError(
                f"how much of '{user_name(s.var)}' is valid is known inside of the region only",
                s.span,
                "fill the rest of the half with pl.fillpad before it is gathered",
                code="C063",
            )
        space = {"dtype": t.dtype, "target_memory": t.memory_space or MemorySpace.Mat}
        outer, self.span = self.span, s.span
        made = self.emit("tile.create", (MakeTuple(t.shape),), space, s.var.name_hint)
        made = self.valid_as(made, tuple(self.expr(d) for d in t.valid))
        self.span = outer
        return made

    # -- inside --

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        call, lanes = s.value, self.inside
        op = ops.of(call) if isinstance(call, Call) else None
        if lanes is None or op is None:
            return super().visit_assign_stmt(s)
        assert isinstance(call, Call)
        if op.concept == "get_subblock_idx":
            self.vars[s.var] = lanes.lane
            return None
        if kind_of(op) == SHARD:
            return self.assign(s, self._half(call, lanes.lane))
        if kind_of(op) == GATHER:
            target = lanes.gathers.get(s.var)
            if target is None:
                return None  # nobody reads it
            source = self.expr(call.args[0])
            at = self._offset(call, source, lanes.lane)
            self.vars[s.var] = self.let(
                s.var.name_hint, typed_call("tile.assemble", (target, source, MakeTuple(at)), None, call.span)
            )
            return None
        return super().visit_assign_stmt(s)

    def _half(self, call: Call, lane: Var) -> Expr:
        t = call.type
        assert isinstance(t, TileType)
        at = self._at(call, t, lane)
        space = {"target_memory": t.memory_space or MemorySpace.Vec}
        return typed_call("tile.extract", (self.expr(call.args[0]), *at, MakeTuple(t.shape)), space, call.span)

    def _offset(self, call: Call, half: Expr, lane: Var) -> tuple[Expr, ...]:
        assert isinstance(half.type, ShapedType)
        return self._at(call, half.type, lane)

    @staticmethod
    def _at(call: Call, half: ShapedType, lane: Var) -> tuple[Expr, ...]:
        """Where the lane's half begins in the whole."""
        axis = call.kwargs["split"] - 1
        return tuple(arith.mul(lane, n) if i == axis else const_index(0) for i, n in enumerate(half.shape))


def _lane_name(s: SplitAivScopeStmt) -> str:
    first = next(iter(flatten_to_stmts(s.body)), None)
    named = isinstance(first, AssignStmt) and isinstance(first.value, Call) and first.value.op.name == "tile.get_subblock_idx"
    return first.var.name_hint if named and isinstance(first, AssignStmt) else "lane"


def _defined(r: SplitAivScopeStmt) -> Iterable[Var]:
    return (v for s in statements(r.body) for v in defined_by(s))


def _outside(v: Var, sources: dict[Var, tuple[Expr, ...]]) -> list[Var]:
    """The tensors from before the region that `v` may be a later version of."""
    ends: dict[Var, None] = {}
    seen: set[Var] = set()
    stack = [v]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        if x in sources:
            stack += [e for e in sources[x] if isinstance(e, Var)]
        else:
            ends[x] = None
    return list(ends)


def _sources(body: Stmt) -> dict[Var, tuple[Expr, ...]]:
    """For each tensor that a region defines: what it is a later version of."""
    found: dict[Var, tuple[Expr, ...]] = {}
    for s in statements(body):
        if isinstance(s, AssignStmt) and isinstance(s.var.type, TensorType):
            op = ops.of(s.value) if isinstance(s.value, Call) else None
            if not isinstance(s.value, Call):
                found[s.var] = (s.value,)
            elif op is not None and op.reuses is not None:
                found[s.var] = (s.value.args[op.reuses],)
        elif isinstance(s, (ForStmt, WhileStmt)):
            y = last_yield(s.body)
            for a, r, v in zip(s.iter_args, s.return_vars, y.value if y is not None else (), strict=False):
                if isinstance(a.type, TensorType):
                    found[a] = found[r] = (a.initValue, v)
        elif isinstance(s, IfStmt):
            arms = [y.value for y in (last_yield(s.then_body), last_yield(s.else_body)) if y is not None]
            found |= {r: tuple(y[i] for y in arms) for i, r in enumerate(s.return_vars) if isinstance(r.type, TensorType)}
    return found
