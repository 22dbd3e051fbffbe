"""Parallel loops of an entry whose trips threads share.

In: a loop, and the kernels that it may call.  Out: the one call that a trip makes, or a trip of the loops inside it, with how its
numbers move from trip to trip; or why trips are not shared.
Invariant: what two trips touch is proved apart from the windows of the kernel's own accesses, as it is for a kernel's loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pypto.codegen.native.device import DeviceCode
from pypto.codegen.native.independence import coefficient, why_calls_meet
from pypto.dtypes import DataType
from pypto.ir.expr import Call, ConstInt, Expr, IterArg, TupleGetItemExpr, Var
from pypto.ir.rewrite import sources
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, Stmt, YieldStmt, flatten_to_stmts, value_of
from pypto.ir.types import ScalarType
from pypto.ir.verify.roots import Flow
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["LoopCall", "loop_call"]


class LoopCall(NamedTuple):
    """`loops`: that loop, and those of which each is all that a trip of the one around it does.

    For each of them, `scalars`: what a trip computes first; `steps`: by how much each of the kernel's parameters moves per trip.
    `shared`: of so many, from the outermost on, any two trips are apart; those inside turn in order.
    """

    code: DeviceCode
    call: Call
    span: Span
    loops: tuple[ForStmt, ...]
    scalars: tuple[tuple[AssignStmt, ...], ...]
    steps: tuple[tuple[int, ...], ...]
    shared: int


def loop_call(s: ForStmt, devices: Mapping[str, DeviceCode], flow: Flow) -> LoopCall | str:
    """What the trips of a parallel loop do, if threads may share them; else why not."""
    loops = _nest(s)
    scalars = tuple(tuple(x for x in flatten_to_stmts(n.body) if isinstance(x, AssignStmt) and _is_number(x)) for n in loops)
    values = {x.var: x.value for level in scalars for x in level}
    why = _bounds(loops, values)
    if why is not None:
        return why
    last = loops[-1]
    body = flatten_to_stmts(last.body)
    calls = [(x, c) for x in body if (c := _called(x)) is not None]
    if len(calls) != 1:
        return "a trip is not one call of a kernel"
    at, call = calls[0]
    code = devices.get(call.op.name)
    if code is None or "core_num" in call.attrs:
        return "a trip launches blocks, or several kernels"
    if any(isinstance(x, AssignStmt) and x not in scalars[-1] and x is not at and not _is_item(x, at) for x in body):
        return "a trip does more than to call a kernel"
    given = [None if i is None else call.args[i] for i in flow.returned(call.op.name)]
    if not _hands_on(last, body, at, given) or not all(_passes_on(*pair) for pair in pairwise(loops)):
        return "a trip hands something on to the next one"
    if code.waits:
        return "the kernel waits for others"
    if not code.proved:
        return "optimizations are off, or the kernel is given one memory twice"
    steps = []
    for loop in loops:
        found = _steps(loop, code, call, values)
        if isinstance(found, str):
            return found
        steps.append(found)
    apart = [_why_meet(code, steps[level:]) for level in range(len(loops))]
    shared = next((level for level, why in enumerate(apart) if why is not None), len(loops))
    return apart[0] or LoopCall(code, call, at.span, loops, scalars, tuple(steps), shared)


def _nest(s: ForStmt) -> tuple[ForStmt, ...]:
    """The loop, and those inside it of which each is all that a trip does but for numbers."""
    loops = [s]
    while True:
        work = [x for x in flatten_to_stmts(loops[-1].body) if not (isinstance(x, YieldStmt) or _is_number(x))]
        if len(work) != 1 or not isinstance(work[0], ForStmt):
            return tuple(loops)
        loops.append(work[0])


def _bounds(loops: Sequence[ForStmt], values: Mapping[Var, Expr]) -> str | None:
    """Why the trips of a nest cannot be counted in front of it; None if they can."""
    if any(not isinstance(n.step, ConstInt) or n.step.value == 0 for n in loops):
        return "its step is no constant"
    around = {n.loop_var for n in loops}
    if any(sources(e, values) & around for n in loops for e in (n.start, n.stop)):
        return "how often the loop inside it turns differs from trip to trip"
    return None


def _steps(loop: ForStmt, code: DeviceCode, call: Call, values: dict[Var, Expr]) -> tuple[int, ...] | str:
    """By how much each of the kernel's parameters moves per trip of a loop; else what does not."""
    assert isinstance(loop.step, ConstInt)
    steps = []
    for p, a in zip(code.function.params, call.args, strict=True):
        step = 0 if isinstance(p.type, TensorType) else coefficient(a, loop.loop_var, values, frozenset())
        if step is None or (step and p.type != ScalarType.of(DataType.INDEX)):
            return f"'{user_name(p)}' does not move by the same from trip to trip"
        steps.append(step * loop.step.value)
    return tuple(steps)


def _why_meet(code: DeviceCode, steps: Sequence[Sequence[int]]) -> str | None:
    """Why calls in two trips of the first of these loops may touch the same element, whatever the loops inside it do."""
    moved = {p: step for p, step in zip(code.function.params, steps[0], strict=True) if step}
    within = [p for p, *deeper in zip(code.function.params, *steps[1:], strict=True) if any(deeper)]
    return why_calls_meet([t for _, t in code.touches], code.values, code.region, moved, within)


def _is_number(s: Stmt) -> bool:
    return isinstance(s, AssignStmt) and isinstance(s.var.type, ScalarType) and not isinstance(s.value, (Call, TupleGetItemExpr))


def _called(s: Stmt) -> Call | None:
    value = value_of(s)
    return value if isinstance(value, Call) else None


def _is_item(s: AssignStmt, at: Stmt) -> bool:
    return isinstance(s.value, TupleGetItemExpr) and isinstance(at, AssignStmt) and s.value.tuple is at.var


def _hands_on(s: ForStmt, body: list[Stmt], at: Stmt, given: list[Expr | None]) -> bool:
    """Whether each carried value is a tensor that the kernel was given in its place, and nothing else is in the loop.

    `given`: the arguments that the call's results are.
    """
    last = body[-1] if body and isinstance(body[-1], YieldStmt) else None
    rest = body if last is None else body[:-1]
    if not all(isinstance(x, (AssignStmt, EvalStmt)) for x in rest):
        return False
    results: dict[Var, Expr | None] = {}
    for x in rest:
        if isinstance(x, AssignStmt) and x is at and len(given) == 1:
            results[x.var] = given[0]
        if isinstance(x, AssignStmt) and _is_item(x, at) and isinstance(x.value, TupleGetItemExpr):
            results[x.var] = given[x.value.index]
    yielded = () if last is None else last.value
    return len(yielded) == len(s.iter_args) and all(_stays(a, y, results) for a, y in zip(s.iter_args, yielded, strict=True))


def _passes_on(outer: ForStmt, inner: ForStmt) -> bool:
    """Whether each carried value of a loop is a tensor that the loop inside it was given in its place, and gives back."""
    last = flatten_to_stmts(outer.body)[-1]
    yielded = last.value if isinstance(last, YieldStmt) else ()
    back = {r: a.initValue for r, a in zip(inner.return_vars, inner.iter_args, strict=True)}
    return len(yielded) == len(outer.iter_args) and all(_stays(a, y, back) for a, y in zip(outer.iter_args, yielded, strict=True))


def _stays(a: IterArg, y: Expr, results: Mapping[Var, Expr | None]) -> bool:
    return isinstance(a.type, TensorType) and (y is a or (isinstance(y, Var) and results.get(y) is a))
