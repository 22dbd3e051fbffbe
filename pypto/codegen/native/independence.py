"""Whether the trips of a loop, or the blocks of a launch, may run at the same time.

In: what a body touches, with the window of each access, and the variable that tells trips apart.  Out: None, or why not.
Invariant: nothing is taken on trust: of every tensor that is written, the windows of two different trips are proved apart
along one axis; of on-chip memory, no trip reads what another one wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pypto.codegen.native.access import ArrayOp, Check, ForItem, IfItem, Item, Region, ScalarDef, View, WhileItem
from pypto.codegen.native.emit import Touch
from pypto.codegen.native.flow import Block, Nested, Run, live_in, writes
from pypto.dtypes import DataType
from pypto.ir import arith
from pypto.ir.analyzer import Analyzer
from pypto.ir.expr import ConstInt, Expr, Var, const_index
from pypto.ir.rewrite import sources
from pypto.ir.types import ScalarType
from pypto.ir.verify.ssa import user_name

__all__ = ["coefficient", "defined", "loop_to_share", "steady", "why_blocks_meet", "why_calls_meet", "why_trips_meet"]

Values = dict[Var, Expr]


def loop_to_share(block: Block) -> ForItem | None:
    """The parallel loop that is all a kernel does but for straight-line work before it, if its trips share no on-chip memory.

    What stands before it is repeated by everyone who takes a share, and may write tiles only.
    """
    if not block.parts:
        return None
    *before, last = block.parts
    if not isinstance(last, Nested) or not isinstance(last.item, ForItem) or not last.item.parallel or last.item.carried:
        return None
    if not all(isinstance(p, (Run, ScalarDef, Check)) for p in before):
        return None
    if any(not op.dst.root.on_chip for p in before if isinstance(p, Run) for op in p.ops):
        return None
    read = live_in(last.blocks[0])
    written = writes(last.blocks[0])
    if any(a is b and x < n and y < m for a, x, m in read for b, y, n in written):
        return None
    return last.item


def why_trips_meet(loop: ForItem, touches: Sequence[Touch], values: Values) -> str | None:
    """Why two trips of a loop may touch the same element, one of them writing; None if they cannot."""
    if not isinstance(loop.step, ConstInt) or loop.step.value == 0:
        return "its step is no constant"
    inside = [t for t in touches if loop in t.loops]
    written = {t.root for t in inside if t.write}
    for t in touches:
        if loop not in t.loops and t.root in written:
            return f"'{_named(t)}' is read before the loop that writes it: others may have begun"
    return _why(inside, _Trip(loop.var, loop.step.value, values, defined(loop.body)))


def why_blocks_meet(region: Region, block: Var, touches: Sequence[Touch], values: Values) -> str | None:
    """Why two blocks of a launch may touch the same element, one of them writing; None if they cannot."""
    if all(value is not block for value in values.values()):
        return "every block does the same"
    return _why(touches, _Trip(block, 1, values, defined(region)))


def why_calls_meet(
    touches: Sequence[Touch], values: Values, region: Region, steps: Mapping[Var, int], within: Collection[Var] = ()
) -> str | None:
    """Why two calls of a kernel may touch the same element, one of them writing; None if they cannot.

    `steps`: by how much each of its numbers differs between a trip of a loop and the next; `within`: those that differ, by any
    amount, between the calls of one trip; the others are the same in all calls.
    """
    if not steps:
        return "every trip does the same"
    trip = Var("trip", ScalarType.of(DataType.INDEX))
    opened = dict(values)
    inner = list(defined(region))
    besides = frozenset(within)
    for p in dict.fromkeys((*steps, *within)):
        opened[p] = arith.add(Var(f"{p.name_hint}_first", p.type), arith.mul(const_index(steps.get(p, 0)), trip))
        if p in besides:
            inner.append(Var(f"{p.name_hint}_within", p.type))
            opened[p] = arith.add(opened[p], inner[-1])
    return _why(touches, _Trip(trip, 1, opened, inner))


def _why(touches: Sequence[Touch], trip: _Trip) -> str | None:
    for w in touches:
        if not w.write:
            continue
        for t in touches:
            if t.root is w.root and not trip.tells_apart(w.view, t.view):
                return f"'{_named(w)}' is written where another one may {'write' if t.write else 'read'}"
    return None


def _named(t: Touch) -> str:
    return t.root.name if t.root.var is None else user_name(t.root.var)


class _Trip:
    """What tells one trip from another: a variable, and by how much it moves."""

    def __init__(self, var: Var, step: int, values: Values, inner: Iterable[Var]) -> None:
        self.var, self.step, self.values, self.inner = var, step, values, frozenset(inner)
        self.known = Analyzer()
        for v, value in values.items():
            self.known.bind(v, value)

    def tells_apart(self, a: View, b: View) -> bool:
        """Whether what one trip touches through `a` and another one through `b` are different elements."""
        same_rank = len(a.window) == len(b.window)
        return same_rank and any(self._axis_apart(*x, *y) for x, y in zip(a.window, b.window, strict=True))

    def _axis_apart(self, x: Expr, m: Expr, y: Expr, n: Expr) -> bool:
        """Whether [x, x + m) of one trip and [y, y + n) of another never meet: both move along by the same, and by enough."""
        left, right = arith.linear(x, self.values), arith.linear(y, self.values)
        pace = [sum(c for atom, c in side.terms if atom is self.var) for side in (left, right)]
        if pace[0] != pace[1] or pace[0] == 0:
            return False
        others = [atom for side in (left, right) for atom, _ in side.terms if atom is not self.var]
        gap = left.plus(right, -1)
        if any(c for _, c in gap.terms) or not all(steady(a, self.var, self.values, self.inner) for a in others):
            return False
        most = max(self.known.bounds(m).high, self.known.bounds(n).high)
        return abs(pace[0] * self.step) - abs(gap.constant) >= most


def steady(atom: Expr, var: Var, values: Values, inner: frozenset[Var]) -> bool:
    """Whether an expression has the same value in every trip: it depends on neither `var` nor what is defined inside."""
    return all(v is not var and (v in values or v not in inner) for v in sources(atom, values))


def coefficient(e: Expr, var: Var, values: Values, inner: frozenset[Var]) -> int | None:
    """The constant factor of `var` in a linear expression whose other terms are steady; None where `e` is none."""
    factor = 0
    for atom, c in arith.linear(e, values).terms:
        if atom is var:
            factor = c
        elif not steady(atom, var, values, inner):
            return None
    return factor


def defined(region: Region) -> Iterable[Var]:
    """Variables that get their values inside."""
    for item in region.items:
        yield from _of_item(item)


def _of_item(item: Item) -> Iterable[Var]:
    if isinstance(item, (ScalarDef, ArrayOp)):
        if item.var is not None:
            yield item.var
    elif isinstance(item, ForItem):
        yield from (item.var, *item.carried, *item.results)
        yield from defined(item.body)
    elif isinstance(item, WhileItem):
        yield from (*item.carried, *item.results)
        yield from defined(item.body)
    elif isinstance(item, IfItem):
        yield from item.results
        yield from defined(item.then)
        yield from defined(item.otherwise)
