"""Which statements read storage that was created and that nothing has written.

In: a kernel over tiles in SSA form.  Out: for each read that may find such storage, the condition under which it does: always,
a condition on the kernel's scalars (a loop that makes no trip, the other arm of a branch), or not known.
Invariant: a read that is not listed finds what an operator has written, some of it at least.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.enums import ArgEffect
from pypto.ir import arith, ops, scalar
from pypto.ir.expr import Call, ConstBool, Expr, Var
from pypto.ir.opdef import UNUSED, Lanewise, Matmul, OpDef, Special
from pypto.ir.program import Function
from pypto.ir.rewrite import defined_vars, substitute, walk
from pypto.ir.shaped import ShapedType, const_dim
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts, last_yield
from pypto.named import NamedTuple

__all__ = ["HANDS_ON", "Missing", "Read", "Unwritten", "handed_on", "is_created", "read_operands", "unwritten_reads"]

ALWAYS = ConstBool(True)
HANDS_ON = ("view", "copy", "extract", "lane_shard", "lane_gather")  # kinds whose result is as undefined as their operand


class Missing(NamedTuple):
    """Storage that nothing has written where the condition holds; None: nobody can tell."""

    when: Expr | None

    @property
    def always(self) -> bool:
        return isinstance(self.when, ConstBool) and self.when.value

    def also(self, condition: Expr) -> Missing:
        """Only where another condition holds, too."""
        if self.when is None or self.always:
            return Missing(None if self.when is None else condition)
        return Missing(scalar.and_(self.when, condition))


State = Missing | None  # None: written
_UNKNOWN = Missing(None)


class Read(NamedTuple):
    """A statement that reads a tile, and when it finds nothing there."""

    at: Stmt
    tile: Var
    missing: Missing


class Unwritten(NamedTuple):
    """The reads that may find nothing, in order, and the variables that may hold nothing."""

    reads: tuple[Read, ...]
    holders: frozenset[Expr]


def unwritten_reads(f: Function) -> Unwritten:
    """What is to be known of storage that nothing may have written."""
    if not any(is_created(n) for n in walk(f.body)):
        return Unwritten((), frozenset())
    found = _Walk()
    found.body(f.body)
    return Unwritten(tuple(found.reads.values()), frozenset(v for v, state in found.state.items() if state is not None))


def is_created(e: object) -> bool:
    op = ops.of(e) if isinstance(e, Call) else None
    return op is not None and isinstance(op.semantics, Special) and op.semantics.kind == "create" and op.level == "tile"


def handed_on(e: Expr) -> Expr | None:
    """The value that another one is a view or a copy of."""
    op = ops.of(e) if isinstance(e, Call) else None
    if op is not None and isinstance(e, Call) and isinstance(op.semantics, Special) and op.semantics.kind in HANDS_ON:
        return e.args[0]
    return e if isinstance(e, Var) else None


def read_operands(op: OpDef, c: Call) -> list[int]:
    """The values that an operator takes elements from: not scratch, what it writes into or adds to, what has none."""
    form = op.semantics
    patterns: tuple[str, ...] = form.patterns if isinstance(form, Lanewise) else ()
    own = {op.reuses, *op.scratch, *((form.acc,) if isinstance(form, Matmul) else ())}
    return [
        i
        for i, a in enumerate(c.args)
        if isinstance(a.type, ShapedType)
        and not any(const_dim(n) == 0 for n in a.type.valid)
        and op.effect(i, c.kwargs) is ArgEffect.Read
        and i not in own
        and not (i < len(patterns) and patterns[i] == UNUSED)
    ]


class _Walk:
    def __init__(self) -> None:
        self.reads: dict[tuple[Stmt, Var], Read] = {}
        self.state: dict[Expr, State] = {}

    def of(self, e: Expr) -> State:
        return self.state.get(e)

    def body(self, s: Stmt | None) -> None:
        for x in flatten_to_stmts(s) if s is not None else ():
            if isinstance(x, (AssignStmt, EvalStmt)):
                self.simple(x)
            elif isinstance(x, IfStmt):
                self.branch(x)
            elif isinstance(x, (ForStmt, WhileStmt)):
                self.loop(x)
            elif isinstance(x, ScopeStmt):
                self.body(x.body)

    def simple(self, s: AssignStmt | EvalStmt) -> None:
        value = s.value if isinstance(s, AssignStmt) else s.expr
        made: State = None
        if isinstance(value, Call):
            made = self.call(s, value)
        elif isinstance(value, Var):
            made = self.of(value)
        if isinstance(s, AssignStmt):
            self.state[s.var] = made

    def call(self, s: Stmt, c: Call) -> State:
        """What the result is, after noting what is read."""
        op = ops.of(c)
        if is_created(c):
            return Missing(ALWAYS)
        if op is None:
            return None
        source = handed_on(c)
        if source is not None:
            return self.of(source)
        if isinstance(op.semantics, Special) and op.semantics.kind == "query":
            return None
        for i in read_operands(op, c):
            tile, state = c.args[i], self.of(c.args[i])
            if state is not None and isinstance(tile, Var):
                self.reads[s, tile] = Read(s, tile, state)
        return None

    def branch(self, s: IfStmt) -> None:
        arms: list[list[State]] = []
        for body in (s.then_body, s.else_body):
            self.body(body)
            y = last_yield(body) if body is not None else None
            arms.append([self.of(v) for v in y.value] if y is not None else [])
        inside = set(defined_vars(s.then_body)) | set(defined_vars(s.else_body) if s.else_body is not None else ())
        for r, then, other in zip(s.return_vars, *arms, strict=False):
            self.state[r] = _joined(s.condition, _outside(then, inside), _outside(other, inside))

    def loop(self, s: ForStmt | WhileStmt) -> None:
        begins = [self.of(a.initValue) for a in s.iter_args]
        known = dict(self.reads)
        # Once through, to see what a trip makes of storage that is undefined.
        self.state.update((a, Missing(ALWAYS) if b is not None else None) for a, b in zip(s.iter_args, begins, strict=True))
        self.body(s.body)
        y = last_yield(s.body)
        yielded = y.value if y is not None else ()
        inside = {*defined_vars(s.body), *s.iter_args, *((s.loop_var,) if isinstance(s, ForStmt) else ())}
        ends = [_outside(self.of(v), inside) for v in yielded]
        own = [v is a for v, a in zip(yielded, s.iter_args, strict=False)]
        made = [_through(s, b, e, o) for b, e, o in zip(begins, ends, own, strict=False)]
        # What a trip leaves in one carry may be what it found in another, which a later trip finds written.
        several = sum(b is not None for b in begins) > 1
        made = [(_UNKNOWN, _UNKNOWN) if several and _depends(e) else m for m, e in zip(made, ends, strict=True)]
        lasting = [e is not None and e.always and not o for e, o in zip(ends, own, strict=True)]
        while any(within is not None for within, _ in made):
            self.reads = dict(known)
            self.state.update((a, within) for a, (within, _) in zip(s.iter_args, made, strict=False))
            self.body(s.body)
            left = [self.of(v) for v in yielded]
            broken = [c and (e is None or not e.always) for c, e in zip(lasting, left, strict=True)]
            if not any(broken):
                break
            made = [(_UNKNOWN, _UNKNOWN) if b else m for m, b in zip(made, broken, strict=True)]
            lasting = [c and not b for c, b in zip(lasting, broken, strict=True)]
        self.state.update((r, behind) for r, (_, behind) in zip(s.return_vars, made, strict=False))


def _outside(state: State, inside: set[Var]) -> State:
    """The state as it can be told outside of a region."""
    if state is None or state.when is None or not any(v in inside for v in walk(state.when)):
        return state
    return _UNKNOWN


def _depends(state: State) -> bool:
    """Whether storage is undefined under a condition only."""
    return state is not None and not state.always


def _joined(condition: Expr, then: State, other: State) -> State:
    if then is other:
        return then
    if other is None and then is not None:
        return then.also(condition)
    if then is None and other is not None:
        return other.also(scalar.not_(condition))
    assert then is not None
    assert other is not None
    if then.always and other.always:
        return then
    if then.when is None or other.when is None:
        return _UNKNOWN
    return Missing(scalar.or_(scalar.and_(condition, then.when), scalar.and_(scalar.not_(condition), other.when)))


def _through(s: ForStmt | WhileStmt, begin: State, end: State, own: bool) -> tuple[State, State]:
    """What a carry is at the beginning of a trip, and behind the loop, by what it begins with and what a trip leaves."""
    if begin is None:
        return (None, None) if end is None else (_UNKNOWN, _UNKNOWN)
    if own or (end is not None and end.always):
        return begin, begin
    never = _never(s)
    first = scalar.eq(s.loop_var, s.start) if isinstance(s, ForStmt) else None
    if end is not None and end.when is None:
        return _UNKNOWN, _UNKNOWN
    within = _UNKNOWN if first is None else begin.also(first if end is None else scalar.or_(first, _when(end)))
    if end is None:
        return within, None if isinstance(never, ConstBool) and not never.value else begin.also(never)
    return within, begin.also(_when(end) if isinstance(never, ConstBool) and not never.value else scalar.or_(never, _when(end)))


def _when(m: Missing) -> Expr:
    assert m.when is not None
    return m.when


def _never(s: ForStmt | WhileStmt) -> Expr:
    """That a loop makes no trip."""
    if isinstance(s, WhileStmt):
        begins: Mapping[Var, Expr] = {a: a.initValue for a in s.iter_args}
        return scalar.not_(substitute(s.condition, begins))
    step = const_dim(s.step)
    if step is None:
        zero = arith.const(0, scalar.dtype_of(s.step))
        up, down = scalar.ge(s.start, s.stop), scalar.le(s.start, s.stop)
        return scalar.and_(scalar.or_(scalar.gt(s.step, zero), down), scalar.or_(scalar.lt(s.step, zero), up))
    trips = arith.trips(s.start, s.stop, s.step)
    if trips is not None:
        return ConstBool(not trips)
    return scalar.ge(s.start, s.stop) if step > 0 else scalar.le(s.start, s.stop)
