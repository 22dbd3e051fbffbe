"""Products of adjacent parts that are added to the same sums, as one product.

In: a block whose copies are forwarded.  Out: the same, where of products in a row, in the trips of a loop or in the arms of a
branch that only asks whether sums begin, each goes on with the next columns of one matrix and the next rows of another: one
product over all of them.  What trips and arms check is checked before it.
Invariant: sums are formed in ascending k either way, so that not a bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.codegen.native import windows
from pypto.codegen.native.access import (
    ONE,
    ZERO,
    Check,
    Compute,
    ForItem,
    IfItem,
    Item,
    Routine,
    ScalarDef,
    View,
    WhileItem,
    disjoint,
    same_mapping,
)
from pypto.codegen.native.flow import Block, Nested, Part, Run
from pypto.codegen.native.independence import coefficient
from pypto.codegen.native.products import of_extents, product_of
from pypto.dtypes import DataType
from pypto.ir import arith, scalar
from pypto.ir.expr import BinaryExpr, ConstInt, Expr, Var, const_index
from pypto.ir.rewrite import opened, sources, substitute
from pypto.ir.shaped import TensorType, const_dim
from pypto.named import NamedTuple

__all__ = ["deepen"]

Values = dict[Var, Expr]


def deepen(block: Block) -> Block | None:
    """The block with such products joined, at any depth, its facts to be found anew; None where there are none."""
    d = _Deepener()
    made = d.block(block)
    return made if d.changed else None


class _Deepener:
    def __init__(self) -> None:
        self.changed = False

    def block(self, block: Block) -> Block:
        parts: list[Part] = []
        for p in block.parts:
            if isinstance(p, Run):
                self.add(parts, p)
            elif isinstance(p, Nested):
                self.nested(parts, Nested(p.item, tuple(self.block(b) for b in p.blocks)))
            else:
                parts.append(p)
        return Block(parts)

    def nested(self, parts: list[Part], n: Nested) -> None:
        product = _of_arms(n) or _of_trips(n)
        if product is None:
            parts.append(n)
            return
        self.changed = True
        checks = tuple(_without_product(b) for b in n.blocks)
        ops: tuple[Compute, ...] = ()
        if parts and isinstance(parts[-1], Run):  # as one run, for the sake of copies in front of the loop
            before = parts.pop()
            assert isinstance(before, Run)
            ops = before.ops
            parts += [Run(before.prelude, ())] if before.prelude else []
        if any(_checks(b) for b in checks):  # before anything is done
            parts.append(Nested(n.item, checks))
        self.add(parts, Run((), (*ops, product)))

    def add(self, parts: list[Part], run: Run) -> None:
        """Append a run; to the last one, where its first product goes on with what is last there."""
        ops = self.in_a_row(run.ops)
        last = parts[-1] if parts else None
        if isinstance(last, Run) and last.ops and ops and _comes_before(run.prelude):
            joined = self.in_a_row((last.ops[-1], ops[0]))
            if len(joined) == 1:
                parts[-1] = Run((*last.prelude, *run.prelude), (*last.ops[:-1], *joined, *ops[1:]))
                return
        parts.append(run if len(ops) == len(run.ops) else Run(run.prelude, ops))

    def in_a_row(self, ops: tuple[Compute, ...]) -> tuple[Compute, ...]:
        """The operations, adjacent products that follow each other joined."""
        out: list[Compute] = []
        for op in ops:
            before = out[-1] if out else None
            joined = _joined(before, op) if isinstance(before, Routine) and isinstance(op, Routine) else None
            if joined is None:
                out.append(op)
            else:
                out[-1] = joined
                self.changed = True
        return tuple(out)


def _comes_before(prelude: tuple[Item, ...]) -> bool:
    """Whether scalars and checks may come before operations: they read no memory."""
    return all(isinstance(i, Check) or (isinstance(i, ScalarDef) and i.value is not None) for i in prelude)


def _only_product(block: Block) -> tuple[Values, Routine] | None:
    """The product that is all a block does, but for scalars and checks in front of it, with those scalars."""
    last = block.parts[-1] if block.parts else None
    if not isinstance(last, Run) or len(last.ops) != 1:
        return None
    if not all(_only_checks(p) for p in (*block.parts[:-1], Run(last.prelude, ()))):
        return None
    scalars = [i for p in block.parts for i in (p.prelude if isinstance(p, Run) else ()) if isinstance(i, ScalarDef)]
    op = last.ops[0]
    if not isinstance(op, Routine) or product_of(op) is None:
        return None
    return {i.var: i.value for i in scalars if i.value is not None}, op


def _only_checks(p: Part) -> bool:
    """Whether a part of a block does nothing but check, and compute scalars."""
    if isinstance(p, Nested):
        item = p.item
        carried = item.results if isinstance(item, IfItem) else item.carried
        return not carried and not isinstance(item, WhileItem) and all(_only_checks(x) for b in p.blocks for x in b.parts)
    return isinstance(p, Run) and not p.ops and _comes_before(p.prelude)


def _without_product(block: Block) -> Block:
    last = block.parts[-1]
    assert isinstance(last, Run)
    return Block([*block.parts[:-1], Run(last.prelude, ())])


def _checks(block: Block) -> bool:
    """Whether anything is checked."""
    return any(
        any(_checks(b) for b in p.blocks)
        if isinstance(p, Nested)
        else isinstance(p, Run) and any(isinstance(i, Check) for i in p.prelude)
        for p in block.parts
    )


# -- arms ----------------------------------------------------------------------------------------------------------


def _of_arms(n: Nested) -> Routine | None:
    """The product of a branch whose arms differ only in whether its sums begin."""
    if not isinstance(n.item, IfItem) or n.item.results:
        return None
    arms = [_only_product(b) for b in n.blocks]
    if arms[0] is None or arms[1] is None:
        return None
    (scalars, x), (others, y) = arms[0], arms[1]
    begins = [op.numbers[3].value for op in (x, y) if isinstance(op.numbers[3], ConstInt)]
    if len(begins) != 2 or begins[0] == begins[1] or scalars or others:
        return None
    same = [(a, b) for a, b in zip((x.dst, *x.sources), (y.dst, *y.sources), strict=True)]
    extents = zip(x.numbers[:3], y.numbers[:3], strict=True)
    if not (x.function == y.function and all(same_mapping(*v) for v in same) and all(arith.same(*e) for e in extents)):
        return None
    condition = n.item.condition if begins[0] else scalar.not_(n.item.condition)
    keeps = y if begins[0] else x
    return keeps._replace(numbers=(*x.numbers[:3], scalar.cast(condition, DataType.INDEX, keeps.span)))


# -- trips ---------------------------------------------------------------------------------------------------------


def _of_trips(n: Nested) -> Routine | None:
    """The products of all trips of a loop that does nothing else."""
    loop = n.item
    if not isinstance(loop, ForItem) or loop.carried or not isinstance(loop.step, ConstInt) or loop.step.value <= 0:
        return None
    found = _only_product(n.blocks[0])
    if found is None:
        return None
    values, op = found
    extents = product_of(op)
    assert extents is not None
    rows, _, cols = extents
    a, b = op.sources
    steady = (rows, cols, op.dst.offset, op.dst.row, op.dst.col, a.row, a.col, b.row, b.col)
    if any(sources(e, values) & {loop.var, *values} for e in steady) or not (disjoint(op.dst, a) and disjoint(op.dst, b)):
        return None
    fresh, pieces = _begins(op.numbers[3], loop), _pieces(extents[1], loop, values)
    if fresh is None or pieces is None:
        return None
    left, right = _along(a, a.col, pieces, loop, values), _along(b, b.row, pieces, loop, values)
    if left is None or right is None:
        return None
    keeps = not (arith.is_const(fresh, 1) and op.alone)
    whole = op._replace(sources=(left, right), numbers=(*op.numbers[:3], fresh), reads_dst=keeps)
    return of_extents(whole, (rows, pieces.all, cols))


class _Pieces(NamedTuple):
    """The depths of the products of a loop: of a trip whose part is whole, of all whole parts, and of what there is of them."""

    whole: Expr
    window: Expr
    all: Expr


def _pieces(depth: Expr, loop: ForItem, values: Values) -> _Pieces | None:
    """Either every trip has the same depth, or the same as far as something reaches that trips eat up: min(depth, rest)."""
    trips = _trips(loop)
    if not sources(depth, values) & {loop.var, *values}:
        return _Pieces(depth, arith.mul(depth, trips), arith.mul(depth, trips))
    form = opened(depth, values)
    cut = _cut(form)
    if cut is None or not arith.same(cut[0], loop.step) or coefficient(cut[1], loop.var, {}, frozenset()) != -1:
        return None
    rest = arith.maximum(substitute(cut[1], {loop.var: loop.start}), ZERO)
    window = arith.mul(cut[0], trips)
    return _Pieces(cut[0], window, arith.minimum(window, rest))


def _cut(e: Expr) -> tuple[Expr, Expr] | None:
    """A and B of min(A, max(B, 0)): a piece that is whole as far as something reaches."""
    for whole, rest in _sides(e) if isinstance(e, scalar.Min) else ():
        for reach, least in _sides(rest) if isinstance(rest, scalar.Max) else ():
            if arith.is_const(least, 0):
                return whole, reach
    return None


def _sides(e: BinaryExpr) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
    return (e.left, e.right), (e.right, e.left)


def _begins(fresh: Expr, loop: ForItem) -> Expr | None:
    """Whether the sums of all trips begin, where those of one trip do if `fresh`; None where a later trip may begin anew."""
    if arith.is_const(fresh, 0):
        return ZERO
    asked = fresh.operand if isinstance(fresh, scalar.Cast) else fresh
    if not isinstance(asked, scalar.Eq) or not any(x is loop.var and arith.same(y, loop.start) for x, y in _sides(asked)):
        return None
    known = arith.trips(loop.start, loop.stop, loop.step)
    return ONE if known else scalar.cast(scalar.lt(loop.start, loop.stop), DataType.INDEX, fresh.span)


def _trips(loop: ForItem) -> Expr:
    known = arith.trips(loop.start, loop.stop, loop.step)
    if known is not None:
        return const_index(known)
    assert isinstance(loop.step, ConstInt)
    return arith.trip_count(loop.start, loop.stop, loop.step.value, DataType.INDEX)


# -- operands ------------------------------------------------------------------------------------------------------


def _along(v: View, stride: Expr, pieces: _Pieces, loop: ForItem, values: Values) -> View | None:
    """What all trips read of an operand, each trip the next piece in the direction of `stride`."""
    assert isinstance(loop.step, ConstInt)
    if v.root.on_chip:
        pace, apart = coefficient(v.offset, loop.var, values, frozenset(values)), const_dim(arith.mul(pieces.whole, stride))
        if pace is None or pace * loop.step.value != apart:
            return None
        return v.replace(offset=_at_start(v.offset, loop, values))
    axis = _axis(v, stride, pieces.whole)
    if axis is None:
        return None
    for i, (begin, _) in enumerate(v.window):
        pace = coefficient(begin, loop.var, values, frozenset(values))
        if pace is None or not arith.same(const_index(pace * loop.step.value), pieces.whole if i == axis else ZERO):
            return None
    if any(sources(n, values) & {loop.var, *values} for i, (_, n) in enumerate(v.window) if i != axis):
        return None
    lengths = [pieces.window if i == axis else n for i, (_, n) in enumerate(v.window)]
    return _window(v, [_at_start(begin, loop, values) for begin, _ in v.window], lengths)


def _at_start(e: Expr, loop: ForItem, values: Values) -> Expr:
    """The value of an expression in the first trip."""
    return substitute(opened(e, values), {loop.var: loop.start})


def _axis(v: View, stride: Expr, depth: Expr) -> int | None:
    """The axis of a tensor along which an operand's depth lies, of which its window holds as much; None where there is none."""
    t = v.root.var.type if v.root.var is not None else None
    if not isinstance(t, TensorType) or len(v.window) != len(t.shape) or t.dtype is not v.dtype or v.address:
        return None
    if not arith.same(v.offset, windows.offset_of(t, [begin for begin, _ in v.window])):
        return None
    strides = windows.tensor_strides(t)
    here = [
        i for i, (s, (_, n)) in enumerate(zip(strides, v.window, strict=True)) if arith.same(s, stride) and arith.same(n, depth)
    ]
    return here[0] if len(here) == 1 else None


def _window(v: View, starts: list[Expr], lengths: list[Expr]) -> View:
    """The view of another window of the same tensor."""
    assert v.root.var is not None
    t = v.root.var.type
    assert isinstance(t, TensorType)
    return v.replace(offset=windows.offset_of(t, starts), window=tuple(zip(starts, lengths, strict=True)))


# -- one after the other -------------------------------------------------------------------------------------------


def _joined(first: Routine, then: Routine) -> Routine | None:
    """Two products as one, if the second one goes on where the first one ends."""
    one, two = product_of(first), product_of(then)
    if one is None or two is None or first.function != then.function or not same_mapping(first.dst, then.dst):
        return None
    if not (arith.is_const(then.numbers[3], 0) and arith.same(one[0], two[0]) and arith.same(one[2], two[2])):
        return None
    (a, b), (x, y) = first.sources, then.sources
    if not all(disjoint(first.dst, v) for v in (a, b, x, y)):
        return None
    for total, m, n in _both(one[1], two[1]):
        left, right = _next_to(a, x, a.col, m, n), _next_to(b, y, b.row, m, n)
        if left is not None and right is not None:
            return of_extents(first._replace(sources=(left, right)), (one[0], total, one[2]))
    return None


def _both(depth: Expr, more: Expr) -> Iterator[tuple[Expr, Expr, Expr]]:
    """How deep two pieces may be as one, and how deep each is where it is whole."""
    yield arith.add(depth, more), depth, more
    first, then = _cut(depth), _cut(more)
    if first is not None and then is not None and arith.same(arith.sub(first[1], first[0]), then[1]):
        # What does not fill the first piece leaves nothing for the second one.
        yield arith.minimum(arith.add(first[0], then[0]), arith.maximum(first[1], ZERO)), first[0], then[0]


def _next_to(a: View, b: View, stride: Expr, depth: Expr, more: Expr) -> View | None:
    """Two views as one of which the second one begins where the first one ends, in the direction of `stride`."""
    if a.root is not b.root or a.dtype is not b.dtype or not (arith.same(a.row, b.row) and arith.same(a.col, b.col)):
        return None
    if a.root.on_chip:
        ahead = a.address == b.address and arith.same(arith.add(a.offset, arith.mul(depth, stride)), b.offset)
        return a if ahead and (a.low, a.high) == (b.low, b.high) else None
    axis = _axis(a, stride, depth)
    if axis is None or _axis(b, stride, more) != axis:
        return None
    for i, ((x, m), (y, n)) in enumerate(zip(a.window, b.window, strict=True)):
        if not (arith.same(arith.add(x, depth), y) if i == axis else arith.same(x, y) and arith.same(m, n)):
            return None
    total = arith.add(depth, more)
    return _window(a, [x for x, _ in a.window], [total if i == axis else m for i, (_, m) in enumerate(a.window)])
