"""Folding of what every run agrees on.

In: SSA form, at any functional stage.  Out: scalar expressions folded (`ir/fold.py`), constants known at the top of the
function put where they are used, branches and loops decided by bounds lifted or dropped, dead scalar computation removed.
Invariant: the program computes the same bits; applied twice it gives what it gave once; types follow their operands.
"""

from __future__ import annotations

from pypto.dtypes import DataType
from pypto.enums import ForKind, FunctionIRStage
from pypto.errors import CompileError
from pypto.ir import ops, scalar
from pypto.ir.analyzer import Analyzer, Interval, range_of
from pypto.ir.expr import Call, ConstBool, ConstFloat, ConstInt, Expr, MakeTuple, TupleGetItemExpr, Var
from pypto.ir.fold import fold
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.rewrite import substitute
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, Stmt, WhileStmt, YieldStmt, flatten_to_stmts, last_yield
from pypto.ir.types import ScalarType, Type
from pypto.passes.context import PassOptions
from pypto.passes.dead_scalars import without_dead_scalars
from pypto.passes.framework import function_pass
from pypto.passes.normalize_stmt_structure import flat
from pypto.passes.retype import Made, Retyper

__all__ = ["simplify"]

_CONSTANTS = (ConstInt, ConstFloat, ConstBool)


@function_pass("Simplify")
def simplify(f: Function, options: PassOptions) -> Function:
    if f.ir_stage is FunctionIRStage.Buffer:
        return f
    return flat(without_dead_scalars(f.replace(body=_Simplify().body(f.body))))


class _Simplify(Retyper):
    """`self.vars` holds the variables that are constants or other variables under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.known = Analyzer()
        # How many loops and branches are around us.
        self.depth = 0
        self.tuples: dict[Var, MakeTuple] = {}

    # -- expressions --

    def visit_type(self, t: Type) -> Type:
        """Types follow their operands, which are folded; folded by themselves they would not be what an operator deduces."""
        return substitute(t, self.vars) if self.vars else t

    def visit_binary_expr(self, e: Expr) -> Expr:
        return fold(self.rebuild(e), self.known)

    def visit_unary_expr(self, e: Expr) -> Expr:
        return fold(self.rebuild(e), self.known)

    def visit_tuple_get_item_expr(self, e: TupleGetItemExpr) -> Expr:
        e = self.rebuild(e)
        whole = self.tuples.get(e.tuple) if isinstance(e.tuple, Var) else e.tuple
        part = whole.elements[e.index] if isinstance(whole, MakeTuple) else e
        return part if isinstance(part, (Var, *_CONSTANTS)) else e

    # -- definitions --

    def visit_assign_stmt(self, s: AssignStmt) -> Made:
        value = self.expr(s.value)
        var = self.define_as(s.var, self.type_after(s.var, s.value, value))
        if isinstance(value, MakeTuple):
            self.tuples[var] = value
        elif isinstance(var.type, ScalarType):
            self._learn(s.var, var, value)
        return s.replace(value=value, var=var)

    def visit_eval_stmt(self, s: EvalStmt) -> Made:
        made = self.rebuild(s)
        op = ops.of(made.expr) if isinstance(made.expr, Call) else None
        if op is not None and isinstance(op.semantics, Special) and op.semantics.kind == "expect" and isinstance(made.expr, Call):
            holds = self.known.decide(made.expr.args[0])
            return None if holds else made
        return made

    def _learn(self, old: Var, var: Var, value: Expr) -> None:
        if isinstance(value, _CONSTANTS) and self.depth == 0 and value.type == var.type:
            self.vars[old] = value
        self.known.bind(var, value)
        op = ops.of(value) if isinstance(value, Call) else None
        if op is not None and isinstance(op.semantics, Special) and op.semantics.kind == "query":
            # Extents, block numbers and counts are never negative.
            self.known.bound(var, Interval(0, range_of(scalar.dtype_of(var)).high))

    # -- branches --

    def visit_if_stmt(self, s: IfStmt) -> Made:
        condition = self.expr(s.condition)
        holds = self.known.decide(condition)
        if holds is not None:
            arm = s.then_body if holds else s.else_body
            if _same_types(s.return_vars, last_yield(arm)):
                return self._lifted(arm, s.return_vars)
        then = self._region(s.then_body, condition, True)
        other = None if s.else_body is None else self._region(s.else_body, condition, False)
        results = self.results(s.return_vars, s.then_body, then)
        return s.replace(condition=condition, then_body=then, else_body=other, return_vars=results)

    def _region(self, body: Stmt, condition: Expr | None = None, holds: bool = True) -> Stmt:
        """A body that may run any number of times, with what its condition says."""
        with self.known.region():
            self.depth += 1
            if condition is not None:
                self.known.assume(condition, holds)
            made = self.body(body)
            self.depth -= 1
        return made

    def _lifted(self, body: Stmt | None, results: tuple[Var, ...]) -> list[Stmt]:
        """The statements of a body that runs exactly once, its results known by what it yields."""
        out: list[Stmt] = []
        for s in flatten_to_stmts(body):
            if isinstance(s, YieldStmt):
                out += self._bound(results, [self.expr(v) for v in s.value], s)
            else:
                out += flatten_to_stmts(self.body(s))
        return out

    def _bound(self, names: tuple[Var, ...], values: list[Expr], at: Stmt) -> list[Stmt]:
        """Names for values: plain renaming where the value is a variable or a constant."""
        out: list[Stmt] = []
        for v, value in zip(names, values, strict=True):
            if isinstance(value, (Var, *_CONSTANTS)) and value.type == v.type:
                self.vars[v] = value
                continue
            if isinstance(v.type, ScalarType) and value.type != v.type:
                value = fold(scalar.cast(value, v.type.dtype, at.span), self.known)
            var = self.define_as(v, value.type)
            out.append(AssignStmt(var, value, at.span))
            self._learn(v, var, value)
        return out

    # -- loops --

    def visit_for_stmt(self, s: ForStmt) -> Made:
        start, stop, step = self.expr(s.start), self.expr(s.stop), self.expr(s.step)
        if isinstance(step, ConstInt) and step.value == 0:
            raise CompileError("the step of a loop must not be zero", s.span, "step 1 visits every index, -1 counts down")
        if s.kind is ForKind.Sequential and not s.attrs and isinstance(step, ConstInt):
            trips = self._trips(start, stop, step)
            inits = [self.expr(a.initValue) for a in s.iter_args]
            if trips == 0 and _same_types(s.return_vars, YieldStmt(inits)):
                return [AssignStmt(r, e, s.span) for r, e in zip(s.return_vars, inits, strict=True)]
            if trips == 1 and _same_types(s.iter_args, YieldStmt(inits)) and _same_types(s.return_vars, last_yield(s.body)):
                first = self._bound((s.loop_var, *s.iter_args), [start, *inits], s)
                return [*first, *self._lifted(s.body, s.return_vars)]
        carried = self.carried(s.iter_args)
        loop_var = self.define(s.loop_var)
        with self.known.region():
            self._count(loop_var, start, stop, step)
            body = self._region(s.body)
        results = self.results(s.return_vars, s.body, body)
        return s.replace(start=start, stop=stop, step=step, iter_args=carried, loop_var=loop_var, body=body, return_vars=results)

    def _trips(self, start: Expr, stop: Expr, step: ConstInt) -> int | None:
        """0 or 1 where that is certain."""
        up = step.value > 0
        more, done = (scalar.Lt, scalar.Ge) if up else (scalar.Gt, scalar.Le)
        runs = self.known.decide(more(start, stop, DataType.BOOL))
        if not runs:
            return 0 if runs is False else None
        after = fold(scalar.add(start, step), self.known)
        return 1 if self.known.decide(done(after, stop, DataType.BOOL)) else None

    def _count(self, v: Var, start: Expr, stop: Expr, step: Expr) -> None:
        """The loop variable lies between the bounds, on the side the step says."""
        if not isinstance(step, ConstInt):
            return
        up = step.value > 0
        first, last = (scalar.Ge, scalar.Lt) if up else (scalar.Le, scalar.Gt)
        for side, limit in ((first, start), (last, stop)):
            self.known.assume(side(v, limit, DataType.BOOL))

    def visit_while_stmt(self, s: WhileStmt) -> Made:
        inits = [self.expr(a.initValue) for a in s.iter_args]
        carried = self.carried(s.iter_args)
        with self.known.region():
            condition = self.expr(s.condition)
            if self.known.decide(condition) is False and _same_types(s.return_vars, YieldStmt(inits)):
                return [AssignStmt(r, i, s.span) for r, i in zip(s.return_vars, inits, strict=True)]
            body = self._region(s.body, condition)
        results = self.results(s.return_vars, s.body, body)
        return s.replace(iter_args=carried, condition=condition, body=body, return_vars=results)


def _same_types(names: tuple[Var, ...], y: YieldStmt | None) -> bool:
    """Whether each name may stand for its value: a planned place in memory is part of the type."""
    values = () if y is None else y.value
    return len(names) == len(values) and all(v.type == e.type for v, e in zip(names, values, strict=True))
