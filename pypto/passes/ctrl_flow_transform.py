"""Loops without `break` and `continue`.

In: structured statements, variables freely rebound.  Out: the same computation in which a loop ends where its condition
or range says.  What a `continue` skips moves into the other arm; a `break` sets a flag that the loop's condition reads.
Invariant: loops that need none of this are the same objects; explicit carries of loops that do become plain rebindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import cast

from pypto.dtypes import DataType
from pypto.enums import ForKind, FunctionIRStage
from pypto.errors import CompileError
from pypto.ir import scalar
from pypto.ir.expr import ConstBool, ConstInt, Expr, Var
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator, substitute
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ContinueStmt,
    ForStmt,
    IfStmt,
    RuntimeScopeStmt,
    ScopeStmt,
    SeqStmts,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    seq,
)
from pypto.ir.types import ScalarType
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import definitions, statements
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.normalize_stmt_structure import flat
from pypto.passes.retype import Retyper, used_vars
from pypto.span import Span

__all__ = ["ctrl_flow_transform", "structure_loops"]

Loop = ForStmt | WhileStmt
_BOOL = ScalarType.of(DataType.BOOL)


class _Ends(Enum):
    """Whether control leaves a piece of a loop body at its end."""

    ALWAYS = 0
    MAYBE = 1
    NEVER = 2


@function_pass("CtrlFlowTransform", produces=(IRProperty.StructuredCtrlFlow,))
def ctrl_flow_transform(f: Function, options: PassOptions) -> Function:
    return structure_loops(f)


def structure_loops(f: Function) -> Function:
    """The function with structured loops only; itself if they are."""
    if f.ir_stage is FunctionIRStage.Buffer:
        return f
    return flat(f.replace(body=_Functionwide().body(f.body)))


class _Functionwide(Mutator):
    """Finds the loops of a function, innermost first."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def visit_expr(self, e: Expr) -> Expr:
        return e

    def visit_for_stmt(self, s: ForStmt) -> Stmt | list[Stmt]:
        s = s.replace(body=self.body(s.body))
        if not _has_exit(s.body):
            return s
        if s.kind is not ForKind.Sequential:
            raise CompileError(
                f"break and continue are not possible in a {s.kind.name.lower()} loop",
                s.span,
                "make it a sequential pl.range loop",
            )
        return self._restructured(s)

    def visit_while_stmt(self, s: WhileStmt) -> Stmt | list[Stmt]:
        s = s.replace(body=self.body(s.body))
        return self._restructured(s) if _has_exit(s.body) else s

    def _restructured(self, s: Loop) -> list[Stmt]:
        number, self.count = self.count, self.count + 1
        before, s, after = _plain_carries(s)
        loop = _LoopBody(number, s.span)
        body, _ = loop.block(flatten_to_stmts(s.body))
        made = _finish_for(s, body, loop) if isinstance(s, ForStmt) else _finish_while(s, body, loop)
        return [*before, *made, *after]


def _has_exit(s: Stmt | None) -> bool:
    """A break or continue of the loop around `s` in `s`."""
    if isinstance(s, (BreakStmt, ContinueStmt)):
        return True
    if isinstance(s, SeqStmts):
        return any(_has_exit(x) for x in s.stmts)
    if isinstance(s, IfStmt):
        return _has_exit(s.then_body) or _has_exit(s.else_body)
    return isinstance(s, ScopeStmt) and _has_exit(s.body)


def _assign(v: Var, value: Expr, span: Span) -> AssignStmt:
    return AssignStmt(v, value, span)


def _flag(name: str, span: Span) -> Var:
    return Var(name, _BOOL, span)


def _both(a: Expr, b: Expr) -> Expr:
    return scalar.and_(a, b, a.span)


# -- exits ---------------------------------------------------------------------------------------------------------


class _LoopBody:
    """Rewrites the body of one loop; `broke` is the flag its breaks set, if there are any."""

    def __init__(self, number: int, span: Span) -> None:
        self.number, self.span = number, span
        self.broke: Var | None = None
        # Flags that every exit inside the branch at hand has to set, besides `broke`.
        self.skips: list[Var] = []
        self.skip_count = 0

    def block(self, stmts: list[Stmt]) -> tuple[list[Stmt], _Ends]:
        """The statements without exits, and whether control reaches their end."""
        out: list[Stmt] = []
        for i, s in enumerate(stmts):
            if isinstance(s, (BreakStmt, ContinueStmt)):
                return [*out, *self._leave(s)], _Ends.NEVER
            if not _has_exit(s):
                out.append(s)
                continue
            rest = stmts[i + 1 :]
            if isinstance(s, IfStmt):
                made, ends = self._branch(s, rest)
                return [*out, *made], ends
            assert isinstance(s, ScopeStmt)
            if not isinstance(s, RuntimeScopeStmt):
                at = next(x for x in statements(s.body) if isinstance(x, (BreakStmt, ContinueStmt)))
                raise CompileError(
                    "break and continue cannot leave the scope that a loop around it opened",
                    at.span,
                    "compute the condition in the scope, store it in a tensor, and leave the loop outside of the scope",
                )
            made, ends = self._scope(s, rest)
            return [*out, *made], ends
        return out, _Ends.ALWAYS

    def _leave(self, s: Stmt) -> list[Stmt]:
        out: list[Stmt] = []
        if isinstance(s, BreakStmt):
            if self.broke is None:
                self.broke = _flag(f"__break_{self.number}", self.span)
            out.append(_assign(self.broke, ConstBool(True, s.span), s.span))
        return out + [_assign(v, ConstBool(True, s.span), s.span) for v in self.skips]

    def _branch(self, s: IfStmt, rest: list[Stmt]) -> tuple[list[Stmt], _Ends]:
        s = _plain_results(s)
        then, other = flatten_to_stmts(s.then_body), flatten_to_stmts(s.else_body)
        then_end, other_end = _ends(then), _ends(other)
        if _Ends.MAYBE in (then_end, other_end):
            return self._flagged(rest, [s], lambda: self._arms(s, then, other))
        made_then, _ = self.block(then)
        made_other, _ = self.block(other)
        if then_end is other_end:  # both arms leave: what follows is never reached
            return [_if(s, made_then, made_other)], _Ends.NEVER
        made_rest, rest_end = self.block(rest)
        if then_end is _Ends.NEVER:
            made_other += made_rest
        else:
            made_then += made_rest
        return [_if(s, made_then, made_other)], _Ends.NEVER if rest_end is _Ends.NEVER else _Ends.MAYBE

    def _arms(self, s: IfStmt, then: list[Stmt], other: list[Stmt]) -> Stmt:
        return _if(s, self.block(then)[0], self.block(other)[0])

    def _scope(self, s: ScopeStmt, rest: list[Stmt]) -> tuple[list[Stmt], _Ends]:
        body = flatten_to_stmts(s.body)
        if _ends(body) is _Ends.NEVER:
            return [s.replace(body=seq(self.block(body)[0], s.span))], _Ends.NEVER
        return self._flagged(rest, body, lambda: s.replace(body=seq(self.block(body)[0], s.span)))

    def _flagged(self, rest: list[Stmt], inner: list[Stmt], make: Callable[[], Stmt]) -> tuple[list[Stmt], _Ends]:
        """A statement that may leave the loop somewhere inside, and what follows it under a flag."""
        if not rest:
            return [make()], _Ends.MAYBE
        if all(isinstance(x, BreakStmt) for x in _exits_of(inner)):
            made = make()
            assert self.broke is not None
            skip, before = self.broke, []
        else:
            skip = _flag(f"__skip_{self.number}_{self.skip_count}", self.span)
            self.skip_count += 1
            before = [_assign(skip, ConstBool(False, self.span), self.span)]
            self.skips.append(skip)
            made = make()
            self.skips.pop()
        made_rest, ends = self.block(rest)
        after = IfStmt(scalar.not_(skip), seq(made_rest, self.span), None, (), rest[0].span)
        return [*before, made, after], _Ends.NEVER if ends is _Ends.NEVER else _Ends.MAYBE


def _ends(stmts: list[Stmt]) -> _Ends:
    for i, s in enumerate(stmts):
        if isinstance(s, (BreakStmt, ContinueStmt)):
            return _Ends.NEVER
        if not _has_exit(s):
            continue
        if isinstance(s, IfStmt):
            arms = {_ends(flatten_to_stmts(s.then_body)), _ends(flatten_to_stmts(s.else_body))}
        else:
            assert isinstance(s, ScopeStmt)
            arms = {_ends(flatten_to_stmts(s.body))}
        if arms == {_Ends.NEVER} or _ends(stmts[i + 1 :]) is _Ends.NEVER:
            return _Ends.NEVER
        return _Ends.MAYBE
    return _Ends.ALWAYS


def _exits_of(stmts: Iterable[Stmt]) -> Iterable[Stmt]:
    for s in stmts:
        if isinstance(s, (BreakStmt, ContinueStmt)):
            yield s
        elif isinstance(s, SeqStmts):
            yield from _exits_of(s.stmts)
        elif isinstance(s, IfStmt):
            yield from _exits_of([s.then_body, *flatten_to_stmts(s.else_body)])
        elif isinstance(s, ScopeStmt):
            yield from _exits_of([s.body])


def _if(s: IfStmt, then: list[Stmt], other: list[Stmt]) -> Stmt:
    """A branch whose first arm is not empty."""
    if not then and other:
        negated = scalar.not_(s.condition, s.condition.span)
        return s.replace(condition=negated, then_body=seq(other, s.span), else_body=None)
    return s.replace(then_body=seq(then, s.span), else_body=seq(other, s.span) if other else None)


# -- loops ---------------------------------------------------------------------------------------------------------


def _finish_for(s: ForStmt, body: list[Stmt], loop: _LoopBody) -> list[Stmt]:
    step = s.step.value if isinstance(s.step, ConstInt) else None
    if step == 0:
        raise CompileError("the step of a loop must not be zero", s.span, "step 1 visits every index, -1 counts down")
    if loop.broke is None:
        return [s.replace(body=seq(body, s.span))]
    started = _assign(loop.broke, ConstBool(False, s.span), s.span)
    running = scalar.not_(loop.broke)
    if step is None:
        # The direction is unknown until the loop runs: keep its own counting, and pass over what is left.
        return [started, s.replace(body=IfStmt(running, seq(body, s.span), None, (), s.span))]
    counter, first, body = _counter(s, body)
    limit, held = _invariant(_widened(s.stop, counter), body, f"__stop_{loop.number}", s.span)
    more = scalar.lt(counter, limit) if step > 0 else scalar.gt(counter, limit)
    advance = _assign(counter, scalar.add(counter, _widened(s.step, counter)), s.span)
    guarded = IfStmt(running, advance, None, (), s.span)
    made = WhileStmt(_both(more, running), (), seq([*body, guarded], s.span), (), s.span)
    return [*held, first, started, made.replace(leading_comments=s.leading_comments)]


def _counter(s: ForStmt, body: list[Stmt]) -> tuple[Var, Stmt, list[Stmt]]:
    """A variable that counts, its start, and the body reading it: wide enough that the last step cannot wrap."""
    narrow = scalar.dtype_of(s.loop_var).get_bit() < 64
    type_ = ScalarType.of(DataType.INDEX) if narrow else s.loop_var.type
    counter = Var(s.loop_var.name_hint, type_, s.loop_var.span)
    first = _assign(counter, _widened(s.start, counter), s.span)
    rebound = any(s.loop_var in definitions(b) for b in body)
    if not narrow and not rebound:
        return counter, first, [substitute(b, {s.loop_var: counter}) for b in body]
    value = scalar.cast(counter, scalar.dtype_of(s.loop_var)) if narrow else counter
    return counter, first, [_assign(s.loop_var, value, s.span), *body]


def _widened(e: Expr, like: Var) -> Expr:
    dtype = scalar.dtype_of(like)
    if scalar.dtype_of(e).get_bit() == dtype.get_bit():
        return e
    return ConstInt(e.value, dtype, e.span) if isinstance(e, ConstInt) else scalar.cast(e, dtype, e.span)


def _invariant(e: Expr, body: list[Stmt], name: str, span: Span) -> tuple[Expr, list[Stmt]]:
    """The expression as something that keeps its value while the body runs."""
    if isinstance(e, ConstInt):
        return e, []
    if isinstance(e, Var) and not any(e in definitions(b) for b in body):
        return e, []
    held = Var(name, e.type, span)
    return held, [_assign(held, e, span)]


def _finish_while(s: WhileStmt, body: list[Stmt], loop: _LoopBody) -> list[Stmt]:
    s = s.replace(body=seq(body, s.span))
    if loop.broke is None:
        return [s]
    started = _assign(loop.broke, ConstBool(False, s.span), s.span)
    return [started, s.replace(condition=_both(s.condition, scalar.not_(loop.broke)))]


# -- explicit carries and results ----------------------------------------------------------------------------------


def _plain_carries(s: Loop) -> tuple[list[Stmt], Loop, list[Stmt]]:
    """What stands before the loop, the loop with its carries as rebound variables, what stands after it."""
    if not s.iter_args:
        return [], s, []
    stmts = flatten_to_stmts(s.body)
    last = stmts[-1] if stmts and isinstance(stmts[-1], YieldStmt) else None
    if last is None or len(last.value) != len(s.iter_args):
        if s.return_vars or (last is not None and last.value):
            raise CompileError(
                f"the loop carries {len(s.iter_args)} values but its body does not end by yielding as many",
                s.span,
                "end the body with pl.yield_ of one value for each of init_values",
            )
        # Without a yield nothing is carried: every iteration starts from the initial values.
        fixed: dict[Var, Expr] = {a: a.initValue for a in s.iter_args}
        return [], cast(Loop, Retyper(fixed).body(s.replace(iter_args=()))), []
    carried, after = _carriers(s)
    starts = zip(carried, s.iter_args, strict=True)
    before: list[Stmt] = [_assign(v, a.initValue, s.span) for v, a in starts if a.initValue is not v]
    renamed = Mutator(dict(zip(s.iter_args, carried, strict=True)))
    body = [renamed.body(x) for x in stmts[:-1]]
    values = [renamed.expr(v) for v in last.value]
    body += _assign_together(carried, values, last.span)
    changes: dict[str, object] = {"iter_args": (), "return_vars": (), "body": seq(body, s.span)}
    if isinstance(s, WhileStmt):
        changes["condition"] = renamed.expr(s.condition)
    return before, s.replace(**changes), after


def _carriers(s: Loop) -> tuple[list[Var], list[Stmt]]:
    """One variable per carry: the loop's own result where the loop does not read what it held before."""
    read = used_vars(s.body)
    if isinstance(s, WhileStmt):
        read |= used_vars(s.condition)
    carried: list[Var] = []
    after: list[Stmt] = []
    for i, a in enumerate(s.iter_args):
        result = s.return_vars[i] if i < len(s.return_vars) else None
        others = (used_vars(b.initValue) for b in s.iter_args if b is not a)
        if result is not None and result not in read and not any(result in o for o in others):
            carried.append(result)
            continue
        v = Var(a.name_hint, a.type, a.span)
        carried.append(v)
        if result is not None:
            after.append(_assign(result, v, s.span))
    return carried, after


def _assign_together(targets: Iterable[Var], values: list[Expr], span: Span) -> list[Stmt]:
    """`targets = values`, every value read before any target changes."""
    pairs = list(zip(targets, values, strict=True))
    written = {v for v, _ in pairs}
    if len(pairs) == 1 or not any(written & used_vars(e).keys() for _, e in pairs):
        return [_assign(v, e, span) for v, e in pairs]
    held = [(v, Var(f"{v.name_hint}__next", e.type, span), e) for v, e in pairs]
    return [*(_assign(t, e, span) for _, t, e in held), *(_assign(v, t, span) for v, t, _ in held)]


def _plain_results(s: IfStmt) -> IfStmt:
    """A branch that assigns its results instead of yielding them."""
    if not s.return_vars:
        return s

    def arm(body: Stmt | None) -> Stmt | None:
        stmts = flatten_to_stmts(body)
        if stmts and isinstance(stmts[-1], YieldStmt):
            last = stmts[-1]
            stmts[-1:] = _assign_together(s.return_vars, list(last.value), last.span)
        return None if body is None else seq(stmts, s.span)

    return s.replace(then_body=arm(s.then_body), else_body=arm(s.else_body), return_vars=())
