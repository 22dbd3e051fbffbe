"""Which products are the first of their sums.

In: a kernel over tiles in SSA form.  Out: for each product whose accumulator may still be undefined storage, the condition
under which it is: always, in the first trips of loops, or not known.
Invariant: a product that is not listed adds to something that a product has written before.
"""

from __future__ import annotations

from pypto.ir import arith, ops, scalar
from pypto.ir.expr import Call, ConstBool, Expr, Var
from pypto.ir.opdef import Matmul, Special
from pypto.ir.program import Function
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.shaped import const_dim
from pypto.ir.stmt import (
    AssignStmt,
    BreakStmt,
    ContinueStmt,
    ForStmt,
    IfStmt,
    ScopeStmt,
    Stmt,
    WhileStmt,
    flatten_to_stmts,
    last_yield,
)
from pypto.named import NamedTuple

__all__ = ["Undefined", "all_of", "first_products", "product_extents"]


class Undefined(NamedTuple):
    """Storage that holds no sum where all of these conditions are met; `when` is None where that cannot be said."""

    when: tuple[Expr, ...] | None = ()

    def also(self, *conditions: Expr) -> Undefined:
        return self if self.when is None else Undefined((*self.when, *conditions))


_UNKNOWN = Undefined(None)
State = Undefined | None  # None: a product was written


def first_products(f: Function) -> dict[Var, Undefined]:
    """The results of products that may be the first of their sum, and when they are."""
    found = _Walk()
    found.body(f.body)
    return found.first


def product_extents(c: Call, form: Matmul) -> tuple[Expr, Expr]:
    """Rows and columns of the elements that a product of two matrices writes."""
    lhs, rhs = c.args[form.lhs].type, c.args[form.rhs].type
    return lhs.valid[-2], rhs.valid[-1]  # type: ignore[attr-defined]


class _Walk:
    def __init__(self) -> None:
        self.first: dict[Var, Undefined] = {}
        self.state: dict[Expr, State] = {}
        self.scalars: dict[Var, Expr] = {}  # what conditions are assigned
        self.path: list[tuple[Expr, bool]] = []  # the branches around the statement, and which of their arms it is in
        self.steps: dict[Var, int | None] = {}  # of the loops around it

    def of(self, e: Expr) -> State:
        return self.state.get(e)

    def body(self, s: Stmt | None) -> None:
        for x in flatten_to_stmts(s) if s is not None else ():
            if isinstance(x, AssignStmt):
                self.assign(x)
            elif isinstance(x, IfStmt):
                self.branch(x)
            elif isinstance(x, (ForStmt, WhileStmt)):
                self.loop(x)
            elif isinstance(x, ScopeStmt):
                self.body(x.body)

    def assign(self, s: AssignStmt) -> None:
        if not isinstance(s.value, Call):
            self.state[s.var] = self.of(s.value)
            self.scalars[s.var] = s.value
            return
        op = ops.of(s.value)
        form = op.semantics if op is not None else None
        if isinstance(form, Special) and form.kind == "create" and s.value.kwargs.get("init_value") is None:
            self.state[s.var] = Undefined()
        elif op is not None and op.concept == "set_validshape":
            self.state[s.var] = self.of(s.value.args[0])
        elif isinstance(form, Matmul) and form.acc is not None:
            here = self.on_path(self.of(s.value.args[form.acc]))
            if here is not None:
                self.first[s.var] = here

    # -- branches --

    def branch(self, s: IfStmt) -> None:
        condition = s.condition
        while isinstance(condition, Var) and condition in self.scalars:
            condition = self.scalars[condition]
        arms: list[list[State]] = []
        for body, taken in ((s.then_body, True), (s.else_body, False)):
            self.path.append((condition, taken))
            self.body(body)
            self.path.pop()
            y = last_yield(body) if body is not None else None
            arms.append([self.of(v) for v in y.value] if y is not None else [])
        for r, a, b in zip(s.return_vars, *arms, strict=False):
            self.state[r] = a if a == b else _UNKNOWN

    def on_path(self, state: State) -> State:
        """What is left of the conditions in the arms of branches that the statement is in."""
        if state is None or state.when is None:
            return state
        left = []
        for c in state.when:
            met = next((m for m in (self.decided(c, *arm) for arm in self.path) if m is not None), None)
            if met is False:
                return None
            if met is None:
                left.append(c)
        return Undefined(tuple(left))

    def decided(self, c: Expr, branch: Expr, taken: bool) -> bool | None:
        """Whether it is the first trip, in an arm of a branch that asks for the loop's variable; None: it does not."""
        if not isinstance(c, scalar.Eq) or not isinstance(branch, (scalar.Eq, scalar.Ne, scalar.Gt)) or c.left is not branch.left:
            return None
        step = self.steps.get(c.left) if isinstance(c.left, Var) else None
        if not arith.same(c.right, branch.right) or (isinstance(branch, scalar.Gt) and (step is None or step < 0)):
            return None
        return taken is isinstance(branch, scalar.Eq)

    # -- loops --

    def loop(self, s: ForStmt | WhileStmt) -> None:
        """Carries that begin undefined are so in the first trip only, if each trip leaves a sum."""
        begins = [self.of(a.initValue) for a in s.iter_args]
        if isinstance(s, ForStmt):
            self.steps[s.loop_var] = const_dim(s.step)
        # Once through, to see what a trip makes of storage that is undefined.
        known = dict(self.first)
        own = [None if begin is None else Undefined() for begin in begins]
        self.state.update(zip(s.iter_args, own, strict=True))
        self.body(s.body)
        y = last_yield(s.body)
        ends = [self.of(v) for v in y.value] if y is not None else [_UNKNOWN] * len(begins)
        # What a trip leaves undefined may be what another carry began with: nobody can tell which trip adds to it first.
        ends = [_UNKNOWN if e is not None and e.when == () and e is not o else e for e, o in zip(ends, own, strict=False)]
        made = [_through(s, begin, end) for begin, end in zip(begins, ends, strict=False)]
        if any(inside is not None for inside, _ in made):
            self.first = known
            self.state.update((a, inside) for a, (inside, _) in zip(s.iter_args, made, strict=False))
            self.body(s.body)
        self.state.update((r, behind) for r, (_, behind) in zip(s.return_vars, made, strict=False))


def _through(s: ForStmt | WhileStmt, begin: State, end: State) -> tuple[State, State]:
    """What a carry is at the beginning of a trip, and behind the loop, by what it begins with and what a trip leaves."""
    if begin is None:
        state = None if end is None else _UNKNOWN
        return state, state
    if end is not None and end.when == ():
        return begin, begin  # nothing is added to it
    rest = () if end is None else end.when
    inside = set(defined_vars(s))
    if rest is None or any(v in inside for c in rest for v in walk(c)) or not isinstance(s, ForStmt) or _leaves_early(s.body):
        return _UNKNOWN, _UNKNOWN
    first = begin.also(scalar.eq(s.loop_var, s.start, s.span))
    step, runs = const_dim(s.step), bool(arith.trips(s.start, s.stop, s.step))
    if step is None:
        return first, _UNKNOWN
    never = scalar.le(s.stop, s.start, s.span) if step > 0 else scalar.ge(s.stop, s.start, s.span)
    if not rest:
        return first, None if runs else begin.also(never)
    return first, begin.also(*rest) if runs else begin.also(scalar.or_(never, all_of(rest), s.span))


def all_of(conditions: tuple[Expr, ...]) -> Expr:
    """One condition for several."""
    made: Expr = conditions[0] if conditions else ConstBool(True)
    for c in conditions[1:]:
        made = scalar.and_(made, c, c.span)
    return made


def _leaves_early(body: Stmt) -> bool:
    """Whether a trip may end before the last statement."""
    return any(isinstance(n, (BreakStmt, ContinueStmt)) for n in walk(body))
