"""Launches that somebody may wait for, as calls.

In: a function that launches tasks.  Out: the function that calls them one after the other, in program order: each has
ended when the next begins, so that nobody waits, and nothing is left of task ids.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pypto.dtypes import DataType
from pypto.errors import NotSupportedError
from pypto.ir.expr import Call, Submit, TupleGetItemExpr, Var
from pypto.ir.node import Attrs
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator, walk
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, WhileStmt, YieldStmt
from pypto.ir.types import ArrayType, ScalarType, TupleType, Type

__all__ = ["in_program_order"]

V = TypeVar("V", bound=Var)


def in_program_order(f: Function) -> Function:
    """The function without launches of tasks; itself if it has none."""
    if not any(isinstance(n, Submit) or (isinstance(n, Call) and _is_task(n.type)) for n in walk(f.body)):
        return f
    return f.replace(body=_InOrder().body(f.body))


def _is_task(t: Type) -> bool:
    """Whether a value is a task id, or an array of them."""
    return isinstance(t, (ScalarType, ArrayType)) and t.dtype is DataType.TASK_ID


def _kept(variables: tuple[V, ...]) -> tuple[V, ...]:
    return tuple(v for v in variables if not _is_task(v.type))


class _InOrder(Mutator):
    """Each launch becomes a call, whose results are those of the launch but for the task id behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.single: set[Var] = set()  # what stood for the results of a launch, and is the only one now

    def visit_assign_stmt(self, s: AssignStmt) -> Any:
        if _is_task(s.var.type):
            return None
        if not isinstance(s.value, Submit):
            return self.rebuild(s)
        call = self._call(s.value)
        var = Var(s.var.name_hint, call.type, s.var.span)
        self.vars[s.var] = var
        if not isinstance(call.type, TupleType):
            self.single.add(var)
        return s.replace(var=var, value=call)

    def visit_eval_stmt(self, s: EvalStmt) -> Any:
        if _is_task(s.expr.type):
            return None
        return s.replace(expr=self._call(s.expr)) if isinstance(s.expr, Submit) else self.rebuild(s)

    # What control flow hands on.

    def visit_yield_stmt(self, s: YieldStmt) -> Any:
        return self.rebuild(s.replace(value=tuple(v for v in s.value if not _is_task(v.type))))

    def visit_if_stmt(self, s: IfStmt) -> Any:
        return self.rebuild(s.replace(return_vars=_kept(s.return_vars)))

    def visit_for_stmt(self, s: ForStmt) -> Any:
        return self.rebuild(s.replace(return_vars=_kept(s.return_vars), iter_args=_kept(s.iter_args)))

    def visit_while_stmt(self, s: WhileStmt) -> Any:
        return self.rebuild(s.replace(return_vars=_kept(s.return_vars), iter_args=_kept(s.iter_args)))

    def visit_tuple_get_item_expr(self, e: TupleGetItemExpr) -> Any:
        whole = self.visit(e.tuple)
        return whole if whole in self.single else self.rebuild(e)

    def _call(self, s: Submit) -> Call:
        if s.predicate is not None:
            raise NotSupportedError("a launch under a predicate is not executed on the host", s.span, "launch it inside an `if`")
        types = s.type.types[:-1] if isinstance(s.type, TupleType) else ()
        attrs = {**s.attrs, **({} if s.core_num is None else {"core_num": self.visit(s.core_num)})}
        type_ = types[0] if len(types) == 1 else TupleType(types)
        return Call.make(s.op, tuple(self.visit(a) for a in s.args), s.kwargs, Attrs(attrs), type_, s.span)
