"""Whose storage a tensor value is, and who reads and writes it.

In: functions in SSA form, or (`Flow(program, rebinds=True)`) before it.  Out: for each tensor variable the set of variables
that first stood for that piece of global memory: parameters, allocations, computed values.  An operator or function that
returns what it wrote hands the storage on.
Invariant: sets only grow where control flow may choose; a set of one is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto.enums import ArgEffect, FunctionType, ParamDirection
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, MakeTuple, Submit, TupleGetItemExpr, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import (
    AssignStmt,
    ForStmt,
    IfStmt,
    ReturnStmt,
    ScopeStmt,
    SeqStmts,
    Stmt,
    WhileStmt,
    YieldStmt,
    last_yield,
)
from pypto.ir.verify.scopes import statements
from pypto.named import NamedTuple

__all__ = ["Access", "Flow", "Roots", "accesses", "argument_effects", "merged_direction"]

RootSet = frozenset[Var]
_NONE: RootSet = frozenset()
_ORCHESTRATION = (FunctionType.Orchestration, FunctionType.Opaque, FunctionType.Graph)
_READ, _WRITE, _BOTH = ArgEffect.Read, ArgEffect.Write, ArgEffect.ReadWrite


class Flow:
    """Facts about the functions of one program, found when asked for.

    `rebinds`: names may be assigned more than once; one stands for all that it is anywhere in its function.
    """

    def __init__(self, program: Program | None = None, rebinds: bool = False) -> None:
        self.program, self.rebinds = program, rebinds
        self._returned: dict[str, tuple[int | None, ...]] = {}
        self._roots: dict[str, Roots] = {}

    def function(self, name: str) -> Function | None:
        return None if self.program is None else self.program.get_function(name)

    def roots(self, f: Function) -> Roots:
        known = self._roots.get(f.name)
        if known is None:
            # Entered before it is filled: a recursive call sees what is known so far.
            # Above the kernels a slice or reshape is a view; in a kernel it makes a value on the chip.
            known = self._roots[f.name] = Roots(self, f.params, views=f.func_type in _ORCHESTRATION)
            known.follow_all(f.body)
        return known

    def returned(self, name: str) -> tuple[int | None, ...]:
        """For each value that a function returns: the index of the parameter it is, or None."""
        if name not in self._returned:
            f = self.function(name)
            if f is None:
                return ()
            self._returned[name] = ()
            roots = self.roots(f)
            values = next((n.value for n in statements(f.body) if isinstance(n, ReturnStmt)), ())
            index = {p: i for i, p in enumerate(f.params)}
            self._returned[name] = tuple(index.get(only) if (only := roots.only(v)) is not None else None for v in values)
        return self._returned[name]


class Roots:
    """The roots of the tensor values of one function or body.

    `outside` are its parameters or captured variables; `views`: whether a window of a tensor is a piece of its storage.
    """

    def __init__(self, flow: Flow, outside: Iterable[Var], views: bool = False) -> None:
        self.flow, self.views = flow, views
        self._of: dict[Var, tuple[RootSet, ...]] = {v: (frozenset((v,)),) for v in outside if isinstance(v.type, TensorType)}

    def of(self, e: Expr) -> RootSet:
        """The roots of a tensor value; empty for anything else."""
        parts = self._parts(e)
        return parts[0] if len(parts) == 1 else _NONE

    def only(self, e: Expr) -> Var | None:
        """The one certain root, or None."""
        roots = self.of(e)
        return next(iter(roots)) if len(roots) == 1 else None

    def _parts(self, e: Expr) -> tuple[RootSet, ...]:
        if isinstance(e, Var):
            return self._of.get(e, ())
        if isinstance(e, TupleGetItemExpr):
            whole = self._parts(e.tuple)
            return (whole[e.index],) if e.index < len(whole) and len(whole) > 1 else ()
        if isinstance(e, MakeTuple):
            return tuple(self.of(x) for x in e.elements)
        return self._made(e, _NONE) if isinstance(e, (Call, Submit)) else ()

    def follow_all(self, body: Stmt) -> None:
        """Enter the definitions of a function; where names are rebound, what stands behind counts in front too."""
        before = None
        while before != self._of:
            before = dict(self._of) if self.flow.rebinds else self._of
            self.follow(body)

    def follow(self, s: Stmt | None) -> None:
        """Enter the definitions of a body, in order."""
        if isinstance(s, SeqStmts):
            for x in s.stmts:
                self.follow(x)
        elif isinstance(s, AssignStmt):
            made = self._value(s)
            self._of[s.var] = _joined(self._of.get(s.var, ()), made) if self.flow.rebinds else made
        elif isinstance(s, IfStmt):
            self.follow(s.then_body)
            self.follow(s.else_body)
            for body in (s.then_body, s.else_body):
                self._merge(s.return_vars, last_yield(body))
        elif isinstance(s, (ForStmt, WhileStmt)):
            self._loop(s)
        elif isinstance(s, ScopeStmt):
            self.follow(s.body)

    def _loop(self, s: ForStmt | WhileStmt) -> None:
        for a in s.iter_args:
            self._of[a] = self._parts(a.initValue)
        while True:
            before = [self._of[a] for a in s.iter_args]
            self.follow(s.body)
            self._merge(s.iter_args, last_yield(s.body))
            if [self._of[a] for a in s.iter_args] == before:
                break
        for r, a in zip(s.return_vars, s.iter_args, strict=False):
            self._of[r] = self._of[a]

    def _merge(self, targets: tuple[Var, ...], y: YieldStmt | None) -> None:
        for v, e in zip(targets, y.value if y is not None else (), strict=False):
            self._of[v] = _joined(self._of.get(v, ()), self._parts(e))

    def _value(self, s: AssignStmt) -> tuple[RootSet, ...]:
        own = frozenset((s.var,))
        if isinstance(s.value, (Call, Submit)):
            return self._made(s.value, own)
        return self._parts(s.value) or ((own,) if isinstance(s.var.type, TensorType) else ())

    def _made(self, e: Call | Submit, own: RootSet) -> tuple[RootSet, ...]:
        """The roots of what a call gives; `own`: of what it makes itself."""
        op = ops.find(e.op.name)
        if op is not None:
            if not isinstance(e.type, TensorType):
                return ()
            is_view = self.views and isinstance(op.semantics, Special) and op.semantics.kind in ("view", "transpose")
            handed_on = 0 if is_view else op.reuses
            return ((self.of(e.args[handed_on]) if handed_on is not None else _NONE) or own,)
        returned = self.flow.returned(e.op.name)
        parts = tuple((self.of(e.args[i]) if i is not None and i < len(e.args) else _NONE) or own for i in returned)
        # A launch yields the results and a task id.
        return parts if not isinstance(e, Submit) else (*parts, _NONE)


def _joined(old: tuple[RootSet, ...], new: tuple[RootSet, ...]) -> tuple[RootSet, ...]:
    """What either may be."""
    return tuple(a | b for a, b in zip(old, new, strict=True)) if len(old) == len(new) else old or new


# -- reads and writes ----------------------------------------------------------------------------------------------


class Access(NamedTuple):
    """Whether something is read, and whether it is written."""

    read: bool = False
    written: bool = False

    def joined(self, effect: ArgEffect) -> Access:
        return Access(self.read or effect is not _WRITE, self.written or effect is not _READ)


_DIRECTION = {Access(): ParamDirection.In, Access(True): ParamDirection.In, Access(False, True): ParamDirection.Out}
_EFFECT = {ParamDirection.In: _READ, ParamDirection.Out: _WRITE, ParamDirection.InOut: _BOTH}


def merged_direction(a: Access) -> ParamDirection:
    """Only read: In; only written: Out; both: InOut."""
    return _DIRECTION.get(a, ParamDirection.InOut)


def argument_effects(e: Call | Submit, flow: Flow) -> Iterator[tuple[Expr, ArgEffect]]:
    """What a call does to each of its arguments; asking for an extent touches no data."""
    op = ops.find(e.op.name)
    if op is not None:
        if not (isinstance(op.semantics, Special) and op.semantics.kind == "query"):
            for i, a in enumerate(e.args):
                yield a, op.effect(i, e.kwargs)
        return
    f = flow.function(e.op.name)
    for i, a in enumerate(e.args):
        known = f is not None and i < len(f.param_directions)
        yield a, _EFFECT[f.param_directions[i]] if f is not None and known else _BOTH


def accesses(s: Stmt, roots: Roots) -> dict[Var, Access]:
    """Reads and writes of each root in a body."""
    found: dict[Var, Access] = {}
    for e in walk(s):
        if not isinstance(e, (Call, Submit)):
            continue
        for argument, effect in argument_effects(e, roots.flow):
            for r in roots.of(argument):
                found[r] = found.get(r, Access()).joined(effect)
    return found
