"""Tensors that an entry creates are written before a kernel reads them.

In: a program in SSA form whose kernels are outlined, before they load anything.  Out: nothing; CompileError at the reading
statement where nothing on any path to it has written what it reads.
Invariant: only what is certain is refused.  A kernel that may write first, reads in a branch or in a loop that may make no
trip, or reads what another trip or arm has written, is not.
"""

from __future__ import annotations

from pypto.enums import ArgEffect, FunctionType, ParamDirection
from pypto.errors import CompileError
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, Submit, Var
from pypto.ir.node import Node
from pypto.ir.opdef import Special
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import ShapedType, TensorType, const_dim
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts, value_of
from pypto.ir.verify.roots import Flow, Roots
from pypto.ir.verify.scopes import symbols_of
from pypto.ir.verify.ssa import user_name
from pypto.ir.verify.written import HANDS_ON, read_operands
from pypto.passes.check_written import never_written
from pypto.span import Span

__all__ = ["refuse_unwritten"]

_ENTRIES = (FunctionType.Orchestration, FunctionType.Opaque)
_VIEWS = ("view", "transpose")


def refuse_unwritten(program: Program) -> None:
    """CompileError C062 where a tensor that nothing has written is certain to be read."""
    facts = _Facts(program)
    for f in program.function_list:
        if f.func_type in _ENTRIES and any(_is_created(n) for n in walk(f.body)):
            _Entry(f, facts).body(f.body)


def _is_created(e: Node | None) -> bool:
    return isinstance(e, Call) and e.op.name == "tensor.create" and "init_value" not in e.kwargs


def _kind(e: Call | Submit) -> str:
    op = ops.find(e.op.name)
    return op.semantics.kind if op is not None and isinstance(op.semantics, Special) else ""


def _called(s: Stmt) -> Call | Submit | None:
    value = value_of(s)
    return value if isinstance(value, (Call, Submit)) else None


class _Facts:
    """What the functions of a program do to their parameters, found when asked for."""

    def __init__(self, program: Program) -> None:
        self.program, self.flow = program, Flow(program)
        self.writes: dict[str, frozenset[Var]] = {}
        self.reads: dict[tuple[str, int], Stmt | None] = {}

    def written(self, s: Stmt, roots: Roots) -> frozenset[Var]:
        """The storage that a statement may write."""
        calls = (e for e in walk(s) if isinstance(e, (Call, Submit)))
        return frozenset(r for e in calls for i, a in enumerate(e.args) if self.may_write(e, i) for r in roots.of(a))

    def may_write(self, e: Call | Submit, i: int) -> bool:
        """Whether a call may write its argument."""
        if not isinstance(e.args[i].type, TensorType):
            return False
        op = ops.find(e.op.name)
        if op is not None:
            return op.effect(i, e.kwargs) is not ArgEffect.Read
        f = self.program.get_function(e.op.name)
        if f is None or i >= len(f.params) or f.param_directions[i] is not ParamDirection.In:
            return True
        if f.name not in self.writes:
            self.writes[f.name] = frozenset(f.params)  # of a function that calls itself nothing is known
            self.writes[f.name] = self.written(f.body, self.flow.roots(f))
        return f.params[i] in self.writes[f.name]

    def first_read(self, e: Call | Submit, i: int) -> Stmt | None:
        """The statement that is certain to read an argument of a call before anything in it can have written that."""
        f = self.program.get_function(e.op.name)
        if f is None or i >= len(f.params):
            return None
        if self.may_write(e, i) and (not f.is_device or any(isinstance(n, ScopeStmt) for n in walk(f.body))):
            return None  # what a wrapper calls, and the cores of a kernel, run at the same time
        if (f.name, i) not in self.reads:
            self.reads[f.name, i] = None
            self.reads[f.name, i] = _Kernel(f, i, self).find()
        return self.reads[f.name, i]

    def is_scope(self, e: Call | Submit, span: Span) -> bool:
        """Whether a call stands for a scope of its caller, and not for a call that the user wrote."""
        f = self.program.get_function(e.op.name)
        return f is not None and f.span.to_string() == span.to_string()


# -- kernels -------------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """What comes behind is not certain; `read`: the reading statement, if that is why."""

    def __init__(self, read: Stmt | None = None) -> None:
        self.read = read


class _Kernel:
    """The search for the first thing that becomes of a parameter."""

    def __init__(self, f: Function, index: int, facts: _Facts) -> None:
        self.f, self.facts = f, facts
        self.names: set[Expr] = {f.params[index]}  # what stands for the elements as they were given
        self.extents: set[Expr] = {*symbols_of(f)}  # of the parameters: not 0 where there is anything to do

    def find(self) -> Stmt | None:
        try:
            self.body(self.f.body)
        except _Stop as end:
            return end.read
        return None

    def body(self, body: Stmt | None) -> None:
        for s in flatten_to_stmts(body):
            if isinstance(s, ScopeStmt):
                self.body(s.body)
            elif isinstance(s, ForStmt) and self.runs(s):
                self.loop(s)
            elif self.mentions(s):
                self.step(s)

    def mentions(self, s: Node) -> bool:
        return any(n in self.names for n in walk(s) if isinstance(n, Var))

    def runs(self, s: ForStmt) -> bool:
        """Whether a loop makes a trip."""
        return _makes_trips(s) or (s.stop in self.extents and const_dim(s.start) == 0 and (const_dim(s.step) or 0) > 0)

    def loop(self, s: ForStmt) -> None:
        """The first trip; what is left of it stands for nothing any more."""
        given = [a for a in s.iter_args if a.initValue in self.names]
        self.names.update(given)
        self.body(s.body)
        if given:
            raise _Stop

    def step(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt) and isinstance(s.value, Var):
            self.names.add(s.var)
            return
        e = _called(s)
        if e is None:
            raise _Stop
        op = ops.find(e.op.name)
        if op is None:
            self.call(e)
            return
        given = [i for i, a in enumerate(e.args) if a in self.names]
        kind = _kind(e)
        if kind == "query":
            return
        if kind in (*HANDS_ON, *_VIEWS, "load"):
            if given != [0] or not isinstance(s, AssignStmt) or not self.has_elements(s.var):
                raise _Stop
            self.names.add(s.var)
            return
        reads = read_operands(op, e) if isinstance(e, Call) else []
        raise _Stop(s if given and all(i in reads and self.has_elements(e.args[i]) for i in given) else None)

    def call(self, e: Call | Submit) -> None:
        given = [i for i, a in enumerate(e.args) if a in self.names]
        raise _Stop(self.facts.first_read(e, given[0]) if len(given) == 1 else None)

    def has_elements(self, e: Expr) -> bool:
        """Whether a value has an element that counts, whatever the run."""
        return isinstance(e.type, ShapedType) and all(n in self.extents or const_dim(n) not in (None, 0) for n in e.type.valid)


# -- entries -------------------------------------------------------------------------------------------------------


class _Entry:
    """A walk in program order, through the first trip of every loop."""

    def __init__(self, f: Function, facts: _Facts) -> None:
        self.f, self.facts = f, facts
        self.roots = facts.flow.roots(f)
        self.empty: dict[Expr, Var] = {}  # what holds nothing, and the created tensor that it is (of)
        self.around: list[frozenset[Var]] = []  # of the loops around, what their trips may write

    def body(self, body: Stmt | None) -> None:
        for s in flatten_to_stmts(body):
            if isinstance(s, (AssignStmt, EvalStmt)):
                self.simple(s)
            elif isinstance(s, IfStmt):
                self.branch(s)
            elif isinstance(s, (ForStmt, WhileStmt)):
                self.loop(s)
            elif isinstance(s, ScopeStmt):
                self.body(s.body)

    def simple(self, s: AssignStmt | EvalStmt) -> None:
        e = _called(s)
        if e is not None:
            self.check(e, s.span)
            self.fill(self.facts.written(s, self.roots))
        if not isinstance(s, AssignStmt):
            return
        if isinstance(s.value, Call) and _is_created(s.value):
            self.empty[s.var] = s.var
        elif isinstance(s.value, Call) and _kind(s.value) in _VIEWS and s.value.args[0] in self.empty:
            self.empty[s.var] = self.empty[s.value.args[0]]
        elif s.value in self.empty:
            self.empty[s.var] = self.empty[s.value]

    def fill(self, written: frozenset[Var]) -> None:
        self.empty = {v: root for v, root in self.empty.items() if root not in written}

    def check(self, e: Call | Submit, span: Span) -> None:
        if isinstance(e, Submit) and e.predicate is not None:
            return
        given = [i for i, a in enumerate(e.args) if a in self.empty]
        if ops.find(e.op.name) is not None:
            if given == [0] and e.op.name == "tensor.read":
                raise _refusal(e.args[0], span)
            return
        for i in given:
            root = self.empty[e.args[i]]
            written = any(self.facts.may_write(e, k) for k, a in enumerate(e.args) if k != i and root in self.roots.of(a))
            read = None if written else self.facts.first_read(e, i)
            if read is not None:
                raise _refusal(e.args[i], read.span if self.facts.is_scope(e, span) else span)

    def branch(self, s: IfStmt) -> None:
        before = self.empty
        ends = []
        for body in (s.then_body, s.else_body):
            self.empty = dict(before)
            self.sometimes(body)
            ends.append(self.empty)
        self.empty = {v: root for v, root in before.items() if all(v in e for e in ends)}

    def sometimes(self, body: Stmt | None) -> None:
        """What does not run in every trip may find what an earlier trip has left."""
        if self.around:
            before = frozenset[Var]().union(*self.around)
            self.empty = {v: r for v, r in self.empty.items() if r not in before and self.roots.of(v) == {r}}
        self.body(body)

    def loop(self, s: ForStmt | WhileStmt) -> None:
        before = self.empty
        written = self.facts.written(s.body, self.roots)
        sure = not self.around or (isinstance(s, ForStmt) and _makes_trips(s))
        if sure:
            self.empty = {**before, **{a: before[a.initValue] for a in s.iter_args if a.initValue in before}}
        self.around.append(written)
        (self.body if sure else self.sometimes)(s.body)
        self.around.pop()
        self.empty = {v: root for v, root in before.items() if root not in written}


def _makes_trips(s: ForStmt) -> bool:
    return bool(arith.trips(s.start, s.stop, s.step))


def _refusal(e: Expr, span: Span) -> CompileError:
    return never_written(user_name(e) if isinstance(e, Var) else "a tensor", span, "pl.create_tensor(..., init_value=0) gives")
