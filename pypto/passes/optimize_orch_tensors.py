"""OptimizeOrchTensors: kernels know how the tensors they are given lie in memory.

In: orchestration that passes windows of tensors (`tensor.slice`) to kernels and wrappers whose parameters say nothing
about strides, which means packed.  Out: a parameter that is given a window whose rows are apart says the window's
strides: axis by axis a constant where every call agrees, else a symbol that each call binds.
Invariant: values do not change; a parameter that only ever receives packed tensors keeps its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.dtypes import DataType
from pypto.enums import FunctionType, TensorLayout
from pypto.ir import arith, ops
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Submit, TupleGetItemExpr, Var
from pypto.ir.ops.rearrange import transposed_axes
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TensorView
from pypto.ir.stmt import (
    AssignStmt,
    EvalStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    ScopeStmt,
    Stmt,
    WhileStmt,
    flatten_to_stmts,
    last_yield,
)
from pypto.ir.types import ScalarType, Type
from pypto.ir.verify.properties import IRProperty
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.ssa_rewriter import SSARewriter
from pypto.passes.statements import applies

__all__ = ["optimize_orch_tensors"]

Strides = tuple[Expr, ...]
Place = tuple[str, int]  # a parameter: function and position
_CALLEES = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV, FunctionType.Group, FunctionType.Spmd)


def _packed(shape: tuple[Expr, ...]) -> Strides:
    strides: list[Expr] = [ConstInt(1, DataType.INDEX)] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = arith.mul(strides[i + 1], shape[i + 1])
    return tuple(strides)


def _is_packed(shape: tuple[Expr, ...], strides: Strides) -> bool:
    """Whether strides are those of a packed tensor; the stride of an axis of extent 1 does not matter."""
    return all(arith.is_const(n, 1) or arith.same(a, b) for n, a, b in zip(shape, strides, _packed(shape), strict=True))


def _declared(t: TensorType) -> Strides:
    view = t.tensor_view
    return view.stride if view is not None and view.stride else _packed(t.shape)


class _Site(NamedTuple):
    """What one call gives one parameter; no strides: packed."""

    strides: Strides | None


class _Walk:
    """Strides of the tensors of one function, and what its calls hand on."""

    def __init__(self, f: Function, given: Mapping[Place, Strides], results: Mapping[str, list[int | None]]) -> None:
        self.given, self.results = given, results
        self.strides: dict[Var, Strides] = {}
        self.tuples: dict[Var, Call | Submit] = {}
        self.sites: list[tuple[Place, _Site]] = []
        for i, p in enumerate(f.params):
            if isinstance(p.type, TensorType):
                self.strides[p] = given.get((f.name, i), _declared(p.type))
        self.body(f.body)

    def body(self, s: Stmt | None) -> None:
        for stmt in flatten_to_stmts(s):
            self.statement(stmt)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self.assign(s.var, s.value)
        elif isinstance(s, EvalStmt) and isinstance(s.expr, (Call, Submit)):
            self.call(s.expr)
        elif isinstance(s, (ForStmt, WhileStmt)):
            for a, r in zip(s.iter_args, s.return_vars, strict=False):
                self.alias(a, a.initValue)
                self.alias(r, a.initValue)
            self.body(s.body)
        elif isinstance(s, IfStmt):
            self.body(s.then_body)
            self.body(s.else_body)
            y = last_yield(s.then_body)
            for r, v in zip(s.return_vars, y.value if y is not None else (), strict=False):
                self.alias(r, v)
        elif isinstance(s, ScopeStmt):
            self.body(s.body)

    def alias(self, v: Var, e: Expr) -> None:
        if isinstance(v.type, TensorType):
            self.strides[v] = self.of(e, v.type)

    def of(self, e: Expr, t: TensorType) -> Strides:
        known = self.strides.get(e) if isinstance(e, Var) else None
        return known if known is not None and len(known) == len(t.shape) else _declared(t)

    def assign(self, v: Var, e: Expr) -> None:
        if isinstance(e, (Call, Submit)):
            self.call(e)
        if not isinstance(v.type, TensorType):
            if isinstance(e, (Call, Submit)):
                self.tuples[v] = e
            return
        if isinstance(e, Var):
            self.alias(v, e)
        elif isinstance(e, TupleGetItemExpr) and isinstance(e.tuple, Var) and e.tuple in self.tuples:
            self.result(v, self.tuples[e.tuple], e.index)
        elif isinstance(e, (Call, Submit)):
            self.value(v, v.type, e)

    def value(self, v: Var, t: TensorType, e: Call | Submit) -> None:
        op = ops.find(e.op.name)
        if op is None:
            self.result(v, e, 0)
        elif op.reuses is not None:
            self.alias(v, e.args[op.reuses])
        elif op.name == "tensor.slice" and isinstance(e.args[0].type, TensorType):
            whole = self.of(e.args[0], e.args[0].type)
            dropped = e.args[4] if len(e.args) > 4 else None
            axes = {d.value for d in dropped.elements if isinstance(d, ConstInt)} if isinstance(dropped, MakeTuple) else set()
            self.strides[v] = tuple(s for i, s in enumerate(whole) if i not in axes)
        elif isinstance(e, Call) and e.op.name == "tensor.transpose" and isinstance(e.args[0].type, TensorType):
            a, b = transposed_axes(e)
            turned = list(self.of(e.args[0], e.args[0].type))
            turned[a], turned[b] = turned[b], turned[a]
            self.strides[v] = tuple(turned)
        else:
            self.strides[v] = _declared(t)

    def result(self, v: Var, e: Call | Submit, index: int) -> None:
        """A function's result that is one of its parameters lies as the argument does."""
        positions = self.results.get(e.op.name, [])
        at = positions[index] if index < len(positions) else None
        if at is not None and at < len(e.args):
            self.alias(v, e.args[at])

    def call(self, e: Call | Submit) -> None:
        if ops.find(e.op.name) is not None:
            return
        for i, a in enumerate(e.args):
            if isinstance(a.type, TensorType):
                strides = self.of(a, a.type)
                packed = _is_packed(a.type.shape, strides)
                self.sites.append(((e.op.name, i), _Site(None if packed else strides)))


def _returned_params(f: Function) -> list[int | None]:
    """For each result, the parameter that it is (by what reuses what), or None."""
    source: dict[Var, Var] = {}
    stmts = flatten_to_stmts(f.body)

    def index(body: list[Stmt]) -> None:
        for s in body:
            if isinstance(s, AssignStmt):
                op = ops.of(s.value) if isinstance(s.value, Call) else None
                e = s.value.args[op.reuses] if isinstance(s.value, Call) and op is not None and op.reuses is not None else s.value
                if isinstance(e, Var):
                    source[s.var] = e
            elif isinstance(s, (ForStmt, WhileStmt)):
                for a, r in zip(s.iter_args, s.return_vars, strict=False):
                    if isinstance(a.initValue, Var):
                        source[a] = source[r] = a.initValue
                index(flatten_to_stmts(s.body))

    index(stmts)
    last = stmts[-1] if stmts else None
    found: list[int | None] = []
    for v in last.value if isinstance(last, ReturnStmt) else ():
        while isinstance(v, Var) and v in source:
            v = source[v]
        found.append(next((i for i, p in enumerate(f.params) if p is v), None))
    return found


def _settle(program: Program) -> dict[Place, Strides]:
    """The strides that parameters need, callers before callees, until nothing new comes up."""
    given: dict[Place, Strides] = {}
    results = {f.name: _returned_params(f) for f in program.function_list}
    callees = {f.name: f for f in program.function_list if f.func_type in _CALLEES}
    while True:
        sites: dict[Place, list[_Site]] = {}
        for f in program.function_list:
            for place, site in _Walk(f, given, results).sites:
                sites.setdefault(place, []).append(site)
        open_ = {p: s for p, s in sites.items() if p not in given and p[0] in callees and _is_open(callees[p[0]].params[p[1]])}
        new = {p: s for p, s in open_.items() if any(x.strides for x in s)}
        if not new:
            return given
        for place, found in new.items():
            given[place] = _agreed(callees[place[0]].params[place[1]], found)


def _is_open(param: Var) -> bool:
    """Whether a parameter says nothing about its strides."""
    view = param.type.tensor_view if isinstance(param.type, TensorType) else None
    return view is None or not view.stride


def _agreed(param: Var, sites: list[_Site]) -> Strides:
    """Axis by axis, the constant that every call passes, else a symbol."""
    assert isinstance(param.type, TensorType)
    packed = _packed(param.type.shape)
    strides: list[Expr] = []
    for axis in range(len(packed)):
        found = [packed[axis] if s.strides is None else s.strides[axis] for s in sites]
        same = isinstance(found[0], ConstInt) and all(arith.same(found[0], e) for e in found)
        symbol = Var(f"{param.name_hint}_stride{axis}", ScalarType.of(DataType.INDEX), param.span)
        strides.append(found[0] if same else symbol)
    return tuple(strides)


def _strided(t: Type, strides: Strides) -> Type:
    assert isinstance(t, TensorType)
    view = t.tensor_view or TensorView(layout=TensorLayout.ND)
    return t.replace(tensor_view=view.replace(stride=strides))


def _rewrite(f: Function, given: Mapping[Place, Strides]) -> Function:
    rewriter = SSARewriter()
    params = []
    for i, p in enumerate(f.params):
        strides = given.get((f.name, i))
        params.append(p if strides is None else Var(p.name_hint, _strided(p.type, strides), p.span))
        if params[-1] is not p:
            rewriter.vars[p] = params[-1]
    if not rewriter.vars:
        return f
    made = rewriter.function(f).replace(params=tuple(params))
    last = flatten_to_stmts(made.body)[-1]
    types = tuple(v.type for v in last.value) if isinstance(last, ReturnStmt) else made.return_types
    return made.replace(return_types=types)


@program_pass(
    "OptimizeOrchTensors",
    requires=(IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps),
    produces=(IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps),
)
def optimize_orch_tensors(program: Program, options: PassOptions) -> Program:
    if not any(applies(f, name) for f in program.function_list for name in ("tensor.slice", "tensor.transpose")):
        return program
    given = _settle(program)
    return program.with_functions(_rewrite(f, given) for f in program.function_list) if given else program
