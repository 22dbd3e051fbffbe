"""Parallel loops of an entry whose trips threads share.

In: a loop, and the kernels that it may call.  Out: the one call that a trip makes, with how its numbers move from trip to
trip; or why trips are not shared.
Invariant: what two trips touch is proved apart from the windows of the kernel's own accesses, as it is for a kernel's loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.codegen.native.device import DeviceCode
from pypto.codegen.native.independence import coefficient, why_calls_meet
from pypto.dtypes import DataType
from pypto.ir.expr import Call, ConstInt, Expr, IterArg, TupleGetItemExpr, Var
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, Stmt, YieldStmt, flatten_to_stmts, value_of
from pypto.ir.types import ScalarType
from pypto.ir.verify.roots import Flow
from pypto.ir.verify.ssa import user_name
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["LoopCall", "loop_call"]


class LoopCall(NamedTuple):
    """`scalars`: what a trip computes before the call.  `steps`: by how much each of the kernel's parameters moves per trip."""

    code: DeviceCode
    call: Call
    span: Span
    scalars: tuple[AssignStmt, ...]
    steps: tuple[int, ...]


def loop_call(s: ForStmt, devices: Mapping[str, DeviceCode], flow: Flow) -> LoopCall | str:
    """What the trips of a parallel loop do, if threads may share them; else why not."""
    if not isinstance(s.step, ConstInt) or s.step.value == 0:
        return "its step is no constant"
    body = flatten_to_stmts(s.body)
    scalars = tuple(x for x in body if isinstance(x, AssignStmt) and _is_number(x))
    calls = [(x, c) for x in body if (c := _called(x)) is not None]
    if len(calls) != 1:
        return "a trip is not one call of a kernel"
    (at, call), values = calls[0], {x.var: x.value for x in scalars}
    code = devices.get(call.op.name)
    if code is None or "core_num" in call.attrs:
        return "a trip launches blocks, or several kernels"
    if any(isinstance(x, AssignStmt) and x not in scalars and x is not at and not _is_item(x, at) for x in body):
        return "a trip does more than to call a kernel"
    given = [None if i is None else call.args[i] for i in flow.returned(call.op.name)]
    if not _hands_on(s, body, at, given):
        return "a trip hands something on to the next one"
    if code.waits:
        return "the kernel waits for others"
    if not code.proved:
        return "optimizations are off, or the kernel is given one memory twice"
    steps = []
    for p, a in zip(code.function.params, call.args, strict=True):
        step = 0 if isinstance(p.type, TensorType) else coefficient(a, s.loop_var, values, frozenset())
        if step is None or (step and p.type != ScalarType.of(DataType.INDEX)):
            return f"'{user_name(p)}' does not move by the same from trip to trip"
        steps.append(step * s.step.value)
    moved = {p: step for p, step in zip(code.function.params, steps, strict=True) if step}
    why = why_calls_meet([t for _, t in code.touches], code.values, code.region, moved)
    return why or LoopCall(code, call, at.span, scalars, tuple(steps))


def _is_number(s: AssignStmt) -> bool:
    return isinstance(s.var.type, ScalarType) and not isinstance(s.value, (Call, TupleGetItemExpr))


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


def _stays(a: IterArg, y: Expr, results: Mapping[Var, Expr | None]) -> bool:
    return isinstance(a.type, TensorType) and (y is a or (isinstance(y, Var) and results.get(y) is a))
