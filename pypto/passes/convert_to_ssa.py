"""Static single assignment.

In: structured statements in which names are rebound.  Out: every variable defined once; what a loop or branch rebinds
and something later reads becomes an explicit carry or result, handed on by yields.
Invariant: only live values are carried (see `liveness`); statements that rebind nothing are the same objects; carries
and yields that were written out stay as they are, with the implicit ones after them.
"""

from __future__ import annotations

import re
from collections import Counter

from pypto.enums import FunctionIRStage
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, IterArg, Var
from pypto.ir.program import Function
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ContinueStmt,
    ForStmt,
    IfStmt,
    ScopeStmt,
    SeqStmts,
    Stmt,
    WhileStmt,
    YieldStmt,
    flatten_to_stmts,
    last_yield,
    seq,
)
from pypto.ir.types import Type
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.scopes import defined_by, statements
from pypto.passes.context import PassOptions
from pypto.passes.ctrl_flow_transform import structure_loops
from pypto.passes.framework import function_pass
from pypto.passes.liveness import Live, Liveness
from pypto.passes.retype import Retyper, placed_like, rebuilt
from pypto.span import Span

__all__ = ["base_name", "convert_to_ssa"]

Env = dict[Var, Expr]


@function_pass(
    "ConvertToSSA",
    produces=(IRProperty.SSAForm,),
    invalidates=(IRProperty.NormalizedStmtStructure,),
)
def convert_to_ssa(f: Function, options: PassOptions) -> Function:
    if f.ir_stage is FunctionIRStage.Buffer:
        return f
    if any(isinstance(n, (BreakStmt, ContinueStmt)) for n in statements(f.body)):
        f = structure_loops(f)  # values that a break hands on have no place in a yield
    return f.replace(body=_Convert(f).block(f.body, frozenset()))


_VERSION = re.compile(r"__(ssa|iter|rv|phi)_v\d+$")


def base_name(name: str) -> str:
    """The user's part of a versioned name."""
    return _VERSION.sub("", name)


class _Convert(Retyper):
    """`self.vars` is the environment: what each variable stands for at this place."""

    def __init__(self, f: Function) -> None:
        super().__init__({p: p for p in f.params})
        self.liveness = Liveness()
        self.definitions = Counter(f.params)
        for n in statements(f.body):
            self.definitions.update(defined_by(n))
        self.versions: Counter[str] = Counter()

    # -- names and definitions --

    def version(self, v: Var, kind: str) -> str:
        base = base_name(v.name_hint)
        if not self.versions[base] and self.definitions[v] > 1 and self.vars.get(v) is v:
            self.versions[base] = 1  # a rebound parameter is version 0
        number = self.versions[base]
        self.versions[base] += 1
        return f"{base}__{kind}_v{number}"

    def define_as(self, v: Var, type_: Type) -> Var:
        rebound = self.definitions[v] > 1
        if not rebound and (type_ is v.type or type_ == v.type):
            self.vars[v] = v
            return v
        new = Var(self.version(v, "ssa") if rebound else v.name_hint, type_, v.span)
        self.vars[v] = new
        return new

    def type_after(self, v: Var, old: Expr, new: Expr) -> Type:
        # What an extent is called now says nothing about what it was called when the value was typed.
        deduced = placed_like(v.type, old.type) == v.type
        made: Type = placed_like(v.type, new.type) if deduced else self.visit(v.type)
        return made

    def carried(self, iter_args: tuple[IterArg, ...]) -> tuple[IterArg, ...]:
        inits = [self.expr(a.initValue) for a in iter_args]
        made = []
        for a, init in zip(iter_args, inits, strict=True):
            type_ = self.type_after(a, a.initValue, init)
            rebound = self.definitions[a] > 1
            new = a
            if rebound or init is not a.initValue or not (type_ is a.type or type_ == a.type):
                new = IterArg(self.version(a, "iter") if rebound else a.name_hint, type_, init, a.span)
            self.vars[a] = new
            made.append(new)
        return iter_args if all(x is y for x, y in zip(made, iter_args, strict=True)) else tuple(made)

    # -- statements --

    def block(self, s: Stmt, live: Live) -> Stmt:
        """A body after which the variables `live` are read."""
        old = flatten_to_stmts(s)
        after: list[Live] = []
        for x in reversed(old):
            after.append(live)
            live = self.liveness.before(x, live)
        new = [self.statement(x, a) for x, a in zip(old, reversed(after), strict=True)]
        return rebuilt(s, [x for made in new for x in flatten_to_stmts(made)])

    def statement(self, s: Stmt, live: Live) -> Stmt:
        if isinstance(s, IfStmt):
            return self.branch(s, live)
        if isinstance(s, (ForStmt, WhileStmt)):
            return self.loop(s, live)
        if isinstance(s, ScopeStmt):
            shell = s.replace(body=SeqStmts(()))
            made_shell = self.rebuild(shell)
            return (s if made_shell is shell else made_shell).replace(body=self.block(s.body, live))
        made: Stmt = self.visit(s)
        return made

    def branch(self, s: IfStmt, live: Live) -> Stmt:
        condition = self.expr(s.condition)
        outer = self.vars
        live -= set(s.return_vars)
        then, then_env = self._arm(s.then_body, live, outer)
        other, other_env = self._arm(SeqStmts((), s.span) if s.else_body is None else s.else_body, live, outer)
        self.vars = outer
        merged: list[Var] = []
        for v in self.liveness.assigned(s.then_body) | self.liveness.assigned(s.else_body):
            if v not in live:
                continue
            if v in then_env and v in other_env:
                if then_env[v] is not other_env[v]:
                    merged.append(v)
            else:
                outer[v] = then_env.get(v, other_env.get(v, v))  # read where it may not exist: a judge says so
        then = _handing_on(then, [then_env[v] for v in merged], s.span)
        other = _handing_on(other, [other_env[v] for v in merged], s.span)
        results = [*self.results(s.return_vars, s.then_body, then)]
        for v in merged:
            results.append(self._result(v, then_env[v].type, "phi"))
        made = None if s.else_body is None and not merged and not flatten_to_stmts(other) else other
        same = made is s.else_body and all(a is b for a, b in zip(results, s.return_vars, strict=False))
        kept = s.return_vars if same and len(results) == len(s.return_vars) else tuple(results)
        return s.replace(condition=condition, then_body=then, else_body=made, return_vars=kept)

    def _arm(self, body: Stmt, live: Live, outer: Env) -> tuple[Stmt, Env]:
        self.vars = dict(outer)
        return self.block(body, live), self.vars

    def _result(self, v: Var, type_: Type, kind: str) -> Var:
        new = Var(self.version(v, kind), type_, v.span)
        self.vars[v] = new
        return new

    def loop(self, s: ForStmt | WhileStmt, live: Live) -> Stmt:
        changes: dict[str, object] = {}
        if isinstance(s, ForStmt):
            changes = {"start": self.expr(s.start), "stop": self.expr(s.stop), "step": self.expr(s.step)}
        live -= set(s.return_vars)
        implicit = self._implicit(s, live)
        outer = self.vars
        self.vars = dict(outer)
        carries = self.carried(s.iter_args)
        if s.iter_args and last_yield(s.body) is None and not s.return_vars:
            # Without a yield nothing is carried: every iteration starts from the initial values.
            self.vars.update({a: c.initValue for a, c in zip(s.iter_args, carries, strict=True)})
            carries = ()
        for v, init in implicit.items():
            new = IterArg(self.version(v, "iter"), init.type, init, v.span)
            self.vars[v] = new
            carries = (*carries, new)
        if isinstance(s, ForStmt):
            changes["loop_var"] = self.define(s.loop_var)
        else:
            changes["condition"] = self.expr(s.condition)
        body = self.block(s.body, frozenset(implicit))
        body = _handing_on(body, [self.vars[v] for v in implicit], s.span)
        inner, self.vars = self.vars, outer
        results = self.results(s.return_vars, s.body, body)
        own = {*s.iter_args, s.loop_var} if isinstance(s, ForStmt) else {*s.iter_args}
        for v in (*self.liveness.assigned(s.body), *own):
            if v in own or v not in outer:
                outer[v] = inner.get(v, v)  # reading it behind the loop is an error that a judge reports
        results = (*results, *(self._result(v, init.type, "rv") for v, init in implicit.items()))
        kept = s.return_vars if not implicit and all(a is b for a, b in zip(results, s.return_vars, strict=True)) else results
        return s.replace(**changes, iter_args=carries, body=body, return_vars=kept)

    def _implicit(self, s: ForStmt | WhileStmt, live: Live) -> dict[Var, Expr]:
        """Variables that the loop has to carry, with what they start from."""
        read = self.liveness.read_first(s.body)
        if isinstance(s, WhileStmt):
            read |= self.liveness.read_first(s.condition)
        own = {*s.iter_args, *((s.loop_var,) if isinstance(s, ForStmt) else ())}
        found: dict[Var, Expr] = {}
        for v in self.liveness.assigned(s.body):
            if v in own or not (v in read or v in live):
                continue
            init = self.vars.get(v)
            if init is None and v in live:
                init = self._written_tensor(v, s.body)
            if init is not None:
                found[v] = init
        return found

    def _written_tensor(self, v: Var, body: Stmt) -> Expr | None:
        """The tensor outside of `body` that is written where `v` first comes into being in it, if it is one."""
        values = {n.var: n.value for n in statements(body) if isinstance(n, AssignStmt)}
        seen: set[Var] = set()
        while isinstance(v.type, TensorType) and v in values and v not in seen:
            seen.add(v)
            value = values[v]
            op = ops.of(value) if isinstance(value, Call) else None
            if isinstance(value, Call) and op is not None and op.reuses is not None:
                value = value.args[op.reuses]
            if not isinstance(value, Var):
                return None
            v = value
            if v in self.vars:
                return self.vars[v]
        return None


def _handing_on(body: Stmt, values: list[Expr], span: Span) -> Stmt:
    """The body with further values in the yield at its end."""
    if not values:
        return body
    stmts = flatten_to_stmts(body)
    last = stmts[-1] if stmts else None
    if isinstance(last, YieldStmt):
        stmts[-1] = last.replace(value=(*last.value, *values))
    else:
        stmts.append(YieldStmt(values, span))
    return seq(stmts, body.span)
