"""LowerPipelineLoops: pipelined loops, several trips at a time.

In: SSA loops of kind Pipeline with `pipeline_stages` = F.  Out: a loop that makes F trips at once, still of kind Pipeline
with one stage, and what is left of the trips behind it: written out where the bounds are constants, chosen at run time
where they are not.  Tiles that copy k makes say so (`pipeline_membership`: "group:k"), so that planners keep them apart.
Invariant: every trip runs once, in order, with the values that the trip before it handed on.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import ForKind
from pypto.errors import CompileError
from pypto.ir import arith, ops, scalar
from pypto.ir.expr import Call, ConstInt, Expr, IterArg, Var
from pypto.ir.node import Attrs
from pypto.ir.opdef import Matmul
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator, deep_clone
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, Stmt, YieldStmt, flatten_to_stmts, seq
from pypto.ir.types import ScalarType
from pypto.ir.verify.properties import IRProperty
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.memory_reuse import MEMBERSHIP
from pypto.passes.retype import Retyper
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import statements

__all__ = ["lower_pipeline_loops"]

STAGES = "pipeline_stages"


@function_pass(
    "LowerPipelineLoops",
    requires=(IRProperty.SSAForm,),
    produces=(IRProperty.SSAForm, IRProperty.NormalizedStmtStructure),
)
def lower_pipeline_loops(f: Function, options: PassOptions) -> Function:
    loops = (n for n in statements(f.body) if isinstance(n, ForStmt))
    return _Lowering().function(f) if any(n.attrs.get(STAGES, 1) > 1 for n in loops) else f


class _Trips(NamedTuple):
    """Copies of a body, one after the other, and what the last one hands on."""

    stmts: list[Stmt]
    values: tuple[Expr, ...]


class _Lowering(SSARewriter):
    def __init__(self) -> None:
        super().__init__()
        self.groups = 0

    def visit_for_stmt(self, s: ForStmt) -> list[Stmt]:
        made = super().visit_for_stmt(s)
        assert isinstance(made, ForStmt)
        stages = made.attrs.get(STAGES, 1)
        if made.kind is not ForKind.Pipeline or stages == 1:
            return [made]
        if not isinstance(made.step, ConstInt) or made.step.value == 0:
            raise CompileError("the step of a pipelined loop must be a constant, and not zero", s.span, "use pl.range")
        trips = arith.trips(made.start, made.stop, made.step)
        if trips is not None:
            return self._static(made, stages, trips)
        if made.step.value < 0:
            raise CompileError(
                "a pipelined loop whose bounds are known at run time only counts upwards", s.span, "use pl.range, or stage=1"
            )
        return self._dynamic(made, stages)

    # -- copies --

    def _copies(self, s: ForStmt, first: Expr, count: int, values: tuple[Expr, ...], group: int | None = None) -> _Trips:
        """`count` trips from loop value `first` on, the first of which starts from `values`."""
        assert isinstance(s.step, ConstInt)
        out: list[Stmt] = []
        for k in range(count):
            at = arith.add(first, arith.const(k * s.step.value, _dtype(s)))
            body = Retyper({s.loop_var: at, **dict(zip(s.iter_args, values, strict=True))}).body(deep_clone(s.body)[0])
            if group is not None:
                body = _Membership(f"{group}:{k}", bool(s.attrs.get("pipeline_double_buffer_c"))).visit(body)
            stmts = flatten_to_stmts(body)
            if stmts and isinstance(stmts[-1], YieldStmt):
                values = stmts.pop().value  # type: ignore[attr-defined]
            out += stmts
        return _Trips(out, values)

    def _main(self, s: ForStmt, stages: int, stop: Expr) -> tuple[list[Stmt], tuple[Expr, ...]]:
        """The loop over whole groups of `stages` trips, and what it hands on."""
        assert isinstance(s.step, ConstInt)
        group, self.groups = self.groups, self.groups + 1
        i = Var(s.loop_var.name_hint, s.loop_var.type, s.loop_var.span)
        args = tuple(IterArg(a.name_hint, a.type, a.initValue, a.span) for a in s.iter_args)
        results = tuple(Var(r.name_hint, r.type, r.span) for r in s.return_vars)
        trips = self._copies(s, i, stages, args, group)
        body = [*trips.stmts, *([YieldStmt(trips.values, s.span)] if args else [])]
        loop = s.replace(
            loop_var=i, stop=stop, step=arith.const(stages * s.step.value, _dtype(s)), iter_args=args, return_vars=results,
            body=seq(body, s.body.span), attrs=Attrs({**s.attrs, STAGES: 1}),
        )  # fmt: skip
        return [loop], results

    def _static(self, s: ForStmt, stages: int, count: int) -> list[Stmt]:
        assert isinstance(s.start, ConstInt)
        assert isinstance(s.step, ConstInt)
        whole = count // stages * stages
        stmts: list[Stmt] = []
        values: tuple[Expr, ...] = tuple(a.initValue for a in s.iter_args)
        end = arith.const(s.start.value + whole * s.step.value, _dtype(s))
        if whole:
            stmts, values = self._main(s, stages, end)
        rest = self._copies(s, end, count - whole, values)
        self.vars.update(zip(s.return_vars, rest.values, strict=True))
        return [*stmts, *rest.stmts]

    def _dynamic(self, s: ForStmt, stages: int) -> list[Stmt]:
        """The whole groups, and a cascade of branches for what is left of them."""
        assert isinstance(s.step, ConstInt)
        step, d = s.step.value, _dtype(s)
        count = arith.trip_count(s.start, s.stop, step, d)
        trips = Var("unroll_trips", ScalarType.of(d), s.span)
        rest = Var("unroll_rem", ScalarType.of(d), s.span)
        end = Var("unroll_main_end", ScalarType.of(d), s.span)
        whole = arith.mul(arith.sub(trips, rest), arith.const(step, d))
        made: list[Stmt] = [
            AssignStmt(trips, count, s.span),
            AssignStmt(rest, scalar.mod(trips, arith.const(stages, d)), s.span),
            AssignStmt(end, arith.add(s.start, whole), s.span),
        ]
        main, values = self._main(s, stages, end)
        made += main
        made.append(self._cascade(s, rest, end, values, 1, stages, s.return_vars))
        return made

    def _cascade(
        self, s: ForStmt, rest: Var, end: Var, values: tuple[Expr, ...], left: int, stages: int, results: tuple[Var, ...]
    ) -> Stmt:
        """`if rest == left: left more trips; else: ...`; none where nothing is left."""
        trips = self._copies(s, end, left, values)
        then = [*trips.stmts, *([YieldStmt(trips.values, s.span)] if results else [])]
        if left + 1 < stages:
            inner = tuple(Var(r.name_hint, r.type, r.span) for r in results)
            other: list[Stmt] = [self._cascade(s, rest, end, values, left + 1, stages, inner)]
            handed: tuple[Expr, ...] = inner
        else:
            other, handed = [], values
        if results:
            other.append(YieldStmt(handed, s.span))
        condition = scalar.eq(rest, arith.const(left, _dtype(s)))
        return IfStmt(condition, seq(then, s.span), seq(other, s.span) if other else None, results, s.span)


class _Membership(Mutator):
    """Marks the tiles that a copy makes; sums of the matrix unit are one for all copies, unless they are buffered twice."""

    def __init__(self, pair: str, sums: bool) -> None:
        super().__init__()
        self.pair, self.sums = pair, sums

    def visit_call(self, c: Call) -> Expr:
        op = ops.of(c)
        if op is None or not isinstance(c.type, TileType) or (isinstance(op.semantics, Matmul) and not self.sums):
            return c
        have = c.attrs.get(MEMBERSHIP)
        return c.replace(attrs=Attrs({**c.attrs, MEMBERSHIP: f"{have},{self.pair}" if have else self.pair}))


def _dtype(s: ForStmt) -> DataType:
    t = s.loop_var.type
    assert isinstance(t, ScalarType)
    return t.dtype
