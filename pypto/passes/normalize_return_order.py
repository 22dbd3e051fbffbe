"""What device functions return, in the order of what they write.

In: device functions whose returns may go by aliases of parameters, in any order.  Out: a returned value that is a
parameter's storage is that parameter; the returns of a kernel follow the order of its Out and InOut parameters, and
callers take the results from their new places.
Invariant: values that a kernel computes itself, and scalars, stay as they are, behind the written parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.enums import FunctionType, ParamDirection
from pypto.ir.expr import Call, Expr, Submit, TupleGetItemExpr, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import AssignStmt, ReturnStmt, Stmt, flatten_to_stmts, seq
from pypto.ir.types import TupleType, Type
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.roots import Flow
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass

__all__ = ["normalize_return_order"]

_KINDS = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV, FunctionType.Group, FunctionType.Spmd)
Order = tuple[int, ...]


@program_pass(
    "NormalizeReturnOrder",
    requires=(IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps),
    produces=(IRProperty.ReturnParamsExplicit,),
)
def normalize_return_order(program: Program, options: PassOptions) -> Program:
    flow = Flow(program)
    orders: dict[str, Order] = {}
    functions = []
    for f in program.function_list:
        if f.func_type in _KINDS:
            f = _explicit(f, flow)
            order = _order(f)
            if order is not None:
                orders[f.name] = order
                f = _returning(f, tuple(_values(f)[i] for i in order))
        functions.append(f)
    if orders:
        functions = [f.replace(body=_Callers(orders).body(f.body)) for f in functions]
    return program.with_functions(functions)


def _values(f: Function) -> tuple[Expr, ...]:
    stmts = flatten_to_stmts(f.body)
    return stmts[-1].value if stmts and isinstance(stmts[-1], ReturnStmt) else ()


def _returning(f: Function, values: tuple[Expr, ...]) -> Function:
    stmts = flatten_to_stmts(f.body)
    last = stmts[-1]
    if all(a is b for a, b in zip(values, _values(f), strict=True)):
        return f
    return f.replace(body=seq([*stmts[:-1], last.replace(value=values)], f.body.span), return_types=tuple(v.type for v in values))


def _explicit(f: Function, flow: Flow) -> Function:
    """Returns that are a parameter's storage name the parameter."""
    roots, params = flow.roots(f), set(f.params)
    values = _values(f)
    found = tuple(root if (root := roots.only(v)) in params and root is not None else v for v in values)
    return _returning(f, found) if values else f


def _order(f: Function) -> Order | None:
    """Positions of the returns such that the i-th is the i-th written parameter; None where they are so already."""
    if f.func_type is not FunctionType.InCore:
        return None
    written = [p for p, d in zip(f.params, f.param_directions, strict=True) if d is not ParamDirection.In]
    at = {v: i for i, v in reversed(list(enumerate(_values(f)))) if isinstance(v, Var)}
    if len(written) > len(_values(f)) or any(p not in at for p in written):
        return None
    first = [at[p] for p in written]
    order = (*first, *(i for i in range(len(_values(f))) if i not in first))
    return None if order == tuple(range(len(order))) else order


class _Callers(Mutator):
    """Results taken from their new places; a launch has its task id behind them."""

    def __init__(self, orders: Mapping[str, Order]) -> None:
        super().__init__()
        self.orders = orders
        self.tuples: dict[Var, Order] = {}

    def visit_type(self, t: Type) -> Type:
        return t

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        order = self._order(s.value)
        if order is None or not isinstance(s.value.type, TupleType):
            return self.rebuild(s)
        types = s.value.type.types
        order = (*order, *range(len(order), len(types)))
        permuted = TupleType(tuple(types[i] for i in order))
        var = Var(s.var.name_hint, permuted, s.var.span)
        self.vars[s.var] = var
        self.tuples[var] = order
        return s.replace(value=s.value.replace(type=permuted), var=var)

    def _order(self, e: Expr) -> Order | None:
        return self.orders.get(e.op.name) if isinstance(e, (Call, Submit)) else None

    def visit_tuple_get_item_expr(self, e: TupleGetItemExpr) -> Expr:
        e = self.rebuild(e)
        order = self.tuples.get(e.tuple) if isinstance(e.tuple, Var) else self._order(e.tuple)
        if order is None:
            return e
        return e.replace(index=order.index(e.index) if e.index < len(order) else e.index)
