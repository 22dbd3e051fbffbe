"""Who reads what whom wrote: definitions and uses inside a run, copies forwarded, dead operations dropped.

In: regions of items.  Out: regions whose straight-line stretches are `Run`s: scalar work first, then operations with
their def-use facts.  A read is tied to a writer only if that writer wrote every byte of it, element for element, and
nothing overlapping was written in between; everything else counts as a read of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto.codegen.native.access import (
    ArrayOp,
    Check,
    Compute,
    Copies,
    ElementWrite,
    Exchange,
    ForItem,
    IfItem,
    Item,
    LaneOp,
    Meet,
    Operand,
    Outside,
    ReduceOp,
    Region,
    Root,
    Routine,
    ScalarDef,
    View,
    WhileItem,
    disjoint,
    same_mapping,
)
from pypto.codegen.native.direct_stores import stored_directly
from pypto.codegen.native.put_off import put_off
from pypto.codegen.native.turns import is_copy, turn_of
from pypto.codegen.native.uses import Read, Use, Writers, in_place, overwrites, pattern_rect, reads, uses_of
from pypto.ir import arith
from pypto.ir.expr import Expr, Var
from pypto.ir.opdef import FULL, MASK, SCALAR
from pypto.named import NamedTuple

__all__ = [
    "Block",
    "Nested",
    "Part",
    "Run",
    "again",
    "live_in",
    "optimize",
    "overlaps",
    "plain",
    "values_of",
    "writes",
    "written_roots",
]

COMPUTE = (LaneOp, ReduceOp, Outside, Copies, Routine)


class Run(NamedTuple):
    """A straight-line stretch: `prelude` (scalars, checks) runs before all of `ops`."""

    prelude: tuple[Item, ...]
    ops: tuple[Compute, ...]
    uses: tuple[tuple[Use, ...], ...] = ()  # per operation, per view read, in the order of `reads`
    live_out: tuple[tuple[Root, int, int], ...] = ()  # on-chip bytes that later code may read


# -- forwarding copies and fills -----------------------------------------------------------------------------------


def forward(ops: Sequence[Compute]) -> list[Compute]:
    """Reads of a copied or filled tile go to the copy's source, where that still holds the same values."""
    out: list[Compute] = list(ops)
    writers = Writers(out)  # forwarding changes what operations read, never where they write
    for k, op in enumerate(out):
        if isinstance(op, LaneOp):
            operands = tuple(_forwarded(writers, k, op, i) for i in range(len(op.operands)))
            if any(a is not b for a, b in zip(operands, op.operands, strict=True)):
                out[k] = op._replace(operands=operands)
        elif isinstance(op, ReduceOp):
            source = _source(writers, k, Read(op.src, op.rows, op.cols, FULL, 0))
            if source is not None and source.view is not None:
                out[k] = op._replace(src=source.view)
        elif isinstance(op, Routine) and op.rects:
            found = [_source(writers, k, r) for r in reads(op)[: len(op.rects)]]
            views = [v if s is None or s.view is None else s.view for s, v in zip(found, op.sources, strict=False)]
            out[k] = op._replace(sources=(*views, *op.sources[len(views) :]))
    return out


def _forwarded(writers: Writers, k: int, op: LaneOp, i: int) -> Operand:
    o = op.operands[i]
    if o.view is None or o.pattern == MASK:
        return o
    rows, cols = pattern_rect(o.pattern, op.rows, op.cols)
    source = _source(writers, k, Read(o.view, rows, cols, o.pattern, i))
    if source is None:
        return o
    return source if source.view is None else o._replace(view=source.view)


def _source(writers: Writers, k: int, r: Read) -> Operand | None:
    """The operand that the first of the copies behind a read reads, if reading it at `k` gives the same."""
    found = None
    while (before := _copied(writers, k, r)) is not None:
        found = before
        if before.view is None:
            break
        r = r._replace(view=before.view)
    return found


def _copied(writers: Writers, k: int, r: Read) -> Operand | None:
    """The operand that the copy behind a read reads, if reading it at `k` gives the same."""
    use, across = writers.use(k, r), False
    at = writers.ops[k]
    if use.writer is None and is_copy(at):
        # What the copy wrote along the rows is read along the columns.
        r, across = r._replace(view=r.view.transposed(), rows=r.cols, cols=r.rows), True
        use = writers.use(k, r)
    if use.writer is None:
        return None
    w = writers.ops[use.writer]
    if turn_of(w) is not None and isinstance(at, (LaneOp, ReduceOp)) and not is_copy(at):
        return None  # turned once, and then read in order, is quicker
    if not isinstance(w, LaneOp) or w.program.instrs or len(w.operands) != 1 or w.mask:
        return None
    o = w.operands[0]
    if o.pattern == SCALAR:
        return o
    if o.pattern != FULL or o.view is None:
        return None
    if next(writers.before(k, o.view), -1) >= use.writer:
        return None  # changed in between
    view = o.view.transposed() if _turned(w, r) is not across else o.view
    # An operation may write where it reads, element for element; anything else must be apart from what it reads.
    onto = isinstance(at, LaneOp) and not at.mask and r.pattern == FULL and same_mapping(at.dst, view)
    return o._replace(view=view) if onto or disjoint(at.dst, view) else None


def _turned(w: LaneOp, r: Read) -> bool:
    """Whether the read counts along the columns what `w` wrote along the rows, or the other way round."""
    if in_place(w, (w.rows, w.cols), r):
        return False
    return arith.is_const(w.cols, 1) is not arith.is_const(r.cols, 1)


# -- regions into runs ---------------------------------------------------------------------------------------------


def to_runs(region: Region, frozen: frozenset[Root]) -> list[Run | Item]:
    """Straight-line stretches gathered; scalar work moves ahead of operations that cannot affect it.

    `frozen` are the tensors that the function never writes: elements of them can be read at any time.
    """
    out: list[Run | Item] = []
    prelude: list[Item] = []
    ops: list[Compute] = []

    def flush() -> None:
        if prelude or ops:
            out.append(Run(tuple(prelude), tuple(ops)))
            prelude.clear()
            ops.clear()

    for item in region.items:
        if isinstance(item, COMPUTE):
            ops.append(item)
        elif isinstance(item, Check):
            if not any(isinstance(p, Check) and _same_check(p, item) for p in prelude):
                prelude.append(item)
        elif isinstance(item, ArrayOp) or (
            isinstance(item, ScalarDef) and (item.element is None or not ops or item.element.root in frozen)
        ):
            prelude.append(item)
        else:
            flush()
            out.append(item)
    flush()
    return out


def _same_check(a: Check, b: Check) -> bool:
    """Whether `b` cannot fail where `a` passed."""
    left, right = [c[0] for c in a.conditions] + list(a.guard), [c[0] for c in b.conditions] + list(b.guard)
    return (
        len(a.conditions) == len(b.conditions)
        and len(left) == len(right)
        and all(arith.same(x, y) for x, y in zip(left, right, strict=True))
    )


# -- liveness ------------------------------------------------------------------------------------------------------

Ranges = frozenset[tuple[Root, int, int]]
_NOTHING: Ranges = frozenset()


class Nested(NamedTuple):
    """A structured item with its bodies as blocks (both arms of an if, the body of a loop)."""

    item: IfItem | ForItem | WhileItem
    blocks: tuple[Block, ...]


Part = Run | Nested | ScalarDef | ArrayOp | ElementWrite | Exchange | Check | Meet


class Block:
    """A region during optimization."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


def _block(region: Region, frozen: frozenset[Root]) -> Block:
    parts: list[Part] = []
    for p in to_runs(region, frozen):
        if isinstance(p, Run):
            parts.append(p._replace(ops=tuple(forward(p.ops))))
        elif isinstance(p, IfItem):
            parts.append(Nested(p, (_block(p.then, frozen), _block(p.otherwise, frozen))))
        elif isinstance(p, (ForItem, WhileItem)):
            parts.append(Nested(p, (_block(p.body, frozen),)))
        elif not isinstance(p, COMPUTE):
            parts.append(p)
    return Block(parts)


def values_of(block: Block) -> dict[Var, Expr]:
    """What the scalars of a block, each assigned once, are computed from."""
    found: dict[Var, Expr] = {}
    for p in block.parts:
        for b in p.blocks if isinstance(p, Nested) else ():
            found |= values_of(b)
        for item in p.prelude if isinstance(p, Run) else (p,):
            if isinstance(item, ScalarDef) and item.value is not None:
                found[item.var] = item.value
    return found


def live_in(block: Block) -> Ranges:
    """On-chip bytes that a block may read before it has written them."""
    return _live_in(_copy(block), _NOTHING)


def writes(block: Block) -> Ranges:
    """On-chip bytes that a block may write."""
    found: set[tuple[Root, int, int]] = set()
    for p in block.parts:
        if isinstance(p, Run):
            found |= {_range(op.dst) for op in p.ops if op.dst.root.on_chip}
        elif isinstance(p, Nested):
            for b in p.blocks:
                found |= writes(b)
        elif isinstance(p, (ElementWrite, Exchange)) and p.dst is not None and p.dst.root.on_chip:
            found.add(_range(p.dst))
    return frozenset(found)


def _live_in(block: Block, live: Ranges) -> Ranges:
    """Bytes that the block may read before writing them, given what is read after it; dead operations are dropped."""
    for i in range(len(block.parts) - 1, -1, -1):
        p = block.parts[i]
        if isinstance(p, Run):
            block.parts[i], live = _live_run(p, live)
        elif isinstance(p, Nested):
            live = _live_nested(p, live)
        elif isinstance(p, ScalarDef) and p.element is not None and p.element.root.on_chip:
            live = live | {_range(p.element)}
        elif isinstance(p, Exchange) and p.src is not None:
            live = live | {_range(p.src)}
    return live


def _live_nested(p: Nested, live: Ranges) -> Ranges:
    if isinstance(p.item, IfItem):
        return _live_in(p.blocks[0], live) | _live_in(p.blocks[1], live)
    body = p.blocks[0]
    # What the body reads first it may read from its previous trip: nothing is dropped before that is known.
    around = live
    while True:
        needed = around | _live_in(_copy(body), around)
        if needed == around:
            break
        around = needed
    _live_in(body, around)
    return around


def _copy(block: Block) -> Block:
    return Block([Nested(p.item, tuple(_copy(b) for b in p.blocks)) if isinstance(p, Nested) else p for p in block.parts])


def _range(v: View) -> tuple[Root, int, int]:
    return v.root, v.low, v.high


def overlaps(live: Iterable[tuple[Root, int, int]], v: View) -> bool:
    """Whether a view touches any of these bytes."""
    return any(r is v.root and v.low < high and low < v.high for r, low, high in live)


def _live_run(run: Run, live: Ranges) -> tuple[Run, Ranges]:
    ops = stored_directly(run.ops, lambda v: overlaps(live, v))
    uses = uses_of(ops)
    # What can fail is done even if nobody looks at the result.
    needed = [not op.dst.root.on_chip or (isinstance(op, Routine) and op.fault is not None) for op in ops]
    after: Ranges = live
    for k in range(len(ops) - 1, -1, -1):
        if not needed[k] and overlaps(after, ops[k].dst):
            needed[k] = True
        if _kills(ops[k]):
            d = ops[k].dst
            after = frozenset(x for x in after if not (x[0] is d.root and d.low <= x[1] and x[2] <= d.high))
        if needed[k]:
            for u in uses[k]:
                for w in (u.writer, *u.others):
                    if w is not None:
                        needed[w] = True
    kept = tuple(op for op, n in zip(ops, needed, strict=True) if n)
    uses = uses_of(kept) if len(kept) < len(ops) else uses
    ordered = put_off(kept, uses)
    if ordered is not kept:
        kept, uses = ordered, uses_of(ordered)
    exposed = {
        _range(r.view)
        for op, us in zip(kept, uses, strict=True)
        for r, u in zip(reads(op), us, strict=True)
        if u.exposed and r.view.root.on_chip
    }
    through = after | exposed
    for item in run.prelude:
        if isinstance(item, ScalarDef) and item.element is not None and item.element.root.on_chip:
            through = through | {_range(item.element)}
    return Run(run.prelude, kept, uses, tuple(live)), through


def _kills(op: Compute) -> bool:
    return op.dst.root.on_chip and overwrites(op, op.dst)


# -- the whole -----------------------------------------------------------------------------------------------------


def written_roots(region: Region) -> set[Root]:
    """Tensors and memories that the region writes."""
    found: set[Root] = set()
    for item in region.items:
        if isinstance(item, Exchange):
            found |= set() if item.dst is None else {item.dst.root}
        elif isinstance(item, (*COMPUTE, ElementWrite)):
            found.add(item.dst.root)
        elif isinstance(item, IfItem):
            found |= written_roots(item.then) | written_roots(item.otherwise)
        elif isinstance(item, (ForItem, WhileItem)):
            found |= written_roots(item.body)
    return found


def optimize(region: Region, roots: Iterable[Root]) -> Block:
    """Runs with their facts: copies forwarded, operations nobody reads gone."""
    written = written_roots(region)
    block = _block(region, frozenset(r for r in roots if r not in written))
    _live_in(block, _NOTHING)
    return block


def again(block: Block) -> Block:
    """A block whose operations have changed, its copies forwarded and its facts found anew."""
    made = _forwarded_anew(block)
    _live_in(made, _NOTHING)
    return made


def _forwarded_anew(block: Block) -> Block:
    parts: list[Part] = []
    for p in block.parts:
        if isinstance(p, Run):
            parts.append(p._replace(ops=tuple(forward(p.ops))))
        elif isinstance(p, Nested):
            parts.append(Nested(p.item, tuple(_forwarded_anew(b) for b in p.blocks)))
        else:
            parts.append(p)
    return Block(parts)


def plain(region: Region) -> Block:
    """Runs without any optimization: every operation stands alone and touches memory as it is written."""
    parts: list[Part] = []
    for item in region.items:
        if isinstance(item, COMPUTE):
            parts.append(Run((), (item,), uses_of((item,)), ((item.dst.root, 0, 1 << 62),)))
        elif isinstance(item, IfItem):
            parts.append(Nested(item, (plain(item.then), plain(item.otherwise))))
        elif isinstance(item, (ForItem, WhileItem)):
            parts.append(Nested(item, (plain(item.body),)))
        else:
            parts.append(item)
    return Block(parts)
