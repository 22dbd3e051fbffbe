"""Which tensors of a kernel are global memory, and who reads and writes them.

In: a device function whose values are tensors.  Out: for every variable that is a handle of global memory, the tensors
it may be; every other tensor variable is a computed value and becomes a tile.
Invariant: a handle passed on by a write, a carry or a branch stays a handle only if all that reaches it are handles.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto.enums import ArgEffect, ParamDirection, WriteChannel
from pypto.ir import ops
from pypto.ir.expr import Call, Expr, Submit, TupleGetItemExpr, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts, last_yield
from pypto.named import NamedTuple

__all__ = ["Access", "Directions", "GmFlow", "accesses", "analyze"]

Roots = frozenset[Var]
Directions = Callable[[str], tuple[ParamDirection, ...] | None]  # of a program function, by name


class Access(NamedTuple):
    """One operand of global memory at one call."""

    call: Call | Submit
    roots: Roots
    effect: ArgEffect
    channel: WriteChannel | None  # of a write, where the operator says


class GmFlow:
    """The handles of a function: `roots` of each, and whether some call may write what it likes."""

    def __init__(self, roots: dict[Var, Roots], opaque: bool) -> None:
        self.roots, self.opaque = roots, opaque

    def is_gm(self, e: Expr) -> bool:
        return isinstance(e, Var) and e in self.roots


def analyze(f: Function) -> GmFlow:
    """The handles of global memory in a function."""
    a = _Analysis()
    for p in f.params:
        if isinstance(p.type, TensorType):
            a.roots[p] = frozenset((p,))
    a.body(f.body)
    return GmFlow(a.roots, a.opaque)


class _Analysis:
    def __init__(self) -> None:
        self.roots: dict[Var, Roots] = {}
        self.computed: set[Var] = set()  # carries that a computed value reaches
        self.opaque = False

    def body(self, s: Stmt | None) -> None:
        for stmt in flatten_to_stmts(s):
            self.statement(stmt)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt):
            self.bind(s.var, self.value(s.var, s.value))
        elif isinstance(s, (ForStmt, WhileStmt)):
            self.loop(s)
        elif isinstance(s, IfStmt):
            self.body(s.then_body)
            self.body(s.else_body)
            then, other = last_yield(s.then_body), last_yield(s.else_body)
            for i, r in enumerate(s.return_vars):
                if then is not None and other is not None:
                    self.bind(r, self.meet(self.of(then.value[i]), self.of(other.value[i])))
        elif isinstance(s, ScopeStmt):
            self.body(s.body)

    def loop(self, s: ForStmt | WhileStmt) -> None:
        for a in s.iter_args:
            self.bind(a, None if a in self.computed else self.of(a.initValue))
        while True:
            self.body(s.body)
            y = last_yield(s.body)
            values = y.value if y is not None else ()
            changed = False
            for a, v in zip(s.iter_args, values, strict=False):
                before = self.roots.get(a)
                after = self.meet(before, self.of(v))
                if after != before:
                    changed = True
                    self.bind(a, after)
                    if after is None:
                        self.computed.add(a)
            if not changed:
                break
        for a, r in zip(s.iter_args, s.return_vars, strict=False):
            self.bind(r, self.roots.get(a))

    def bind(self, v: Var, roots: Roots | None) -> None:
        if roots is None:
            self.roots.pop(v, None)
        else:
            self.roots[v] = roots

    @staticmethod
    def meet(a: Roots | None, b: Roots | None) -> Roots | None:
        return None if a is None or b is None else a | b

    def of(self, e: Expr) -> Roots | None:
        return self.roots.get(e) if isinstance(e, Var) else None

    def value(self, var: Var, e: Expr) -> Roots | None:
        if isinstance(e, Var):
            return self.of(e)
        if isinstance(e, (Call, Submit)):
            op = ops.find(e.op.name)
            if op is not None:
                return self.of(e.args[op.reuses]) if op.reuses is not None else None
            self.opaque = True
        # What another function hands out lives in global memory.
        is_tensor = isinstance(var.type, TensorType)
        return frozenset((var,)) if is_tensor and isinstance(e, (Call, Submit, TupleGetItemExpr)) else None


def accesses(f: Function, flow: GmFlow, directions: Directions) -> list[Access]:
    """Every touch of global memory, in program order.  Queries of an extent read no element and do not count."""
    found = []
    for n in walk(f.body):
        if not isinstance(n, (Call, Submit)):
            continue
        op = ops.find(n.op.name)
        if op is not None and isinstance(op.semantics, Special) and op.semantics.kind == "query":
            continue
        effects = op.effects(n.kwargs) if op is not None else _effects_of(directions(n.op.name), len(n.args))
        for a, effect in zip(n.args, effects, strict=False):
            if isinstance(a, Var) and a in flow.roots:
                channel = op.channel if op is not None and effect is not ArgEffect.Read else None
                found.append(Access(n, flow.roots[a], effect, channel))
    return found


_EFFECTS = {
    ParamDirection.In: ArgEffect.Read,
    ParamDirection.Out: ArgEffect.Write,
    ParamDirection.InOut: ArgEffect.ReadWrite,
}


def _effects_of(directions: tuple[ParamDirection, ...] | None, count: int) -> tuple[ArgEffect, ...]:
    if directions is None:
        return (ArgEffect.ReadWrite,) * count
    return tuple(_EFFECTS[d] for d in directions)
