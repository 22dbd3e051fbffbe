"""Who reads what whom wrote, inside a straight line of operations.

In: operations in program order.  Out: for each read, where it comes from.
Invariant: a read is tied to a writer only if that writer wrote every byte of it, element for element, and nothing
overlapping was written in between; everything else counts as a read of memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import merge

from pypto.codegen.native.access import Compute, Copies, LaneOp, ReduceOp, Root, Routine, View, disjoint, same_mapping
from pypto.ir import arith
from pypto.ir.expr import Expr, const_index
from pypto.ir.opdef import COL, FULL, MASK, ROW
from pypto.ir.shaped import const_dim
from pypto.named import NamedTuple

__all__ = [
    "Read",
    "Use",
    "Writers",
    "covers",
    "in_place",
    "overwrites",
    "pattern_rect",
    "readers_of",
    "reads",
    "uses_of",
    "written_rect",
]

_ZERO, _ONE = const_index(0), const_index(1)
_ALL = ""  # the pattern of a read of any elements of a view


class Read(NamedTuple):
    """One view an operation reads, over which rectangle and under which pattern; `operand` is its position."""

    view: View
    rows: Expr
    cols: Expr
    pattern: str
    operand: int


def reads(op: Compute) -> list[Read]:
    if isinstance(op, LaneOp):
        out = []
        for i, o in enumerate(op.operands):
            if o.view is not None:
                rows, cols = pattern_rect(o.pattern, op.rows, op.cols)
                out.append(Read(o.view, rows, cols, o.pattern, i))
        return out
    if isinstance(op, ReduceOp):
        return [Read(op.src, op.rows, op.cols, FULL, 0)]
    if isinstance(op, Copies):
        return [Read(op.src, _ZERO, _ZERO, _ALL, 0)]
    if isinstance(op, Routine):
        views = (*op.sources, op.dst) if op.reads_dst else op.sources
        found = [Read(v, _ZERO, _ZERO, _ALL, i) for i, v in enumerate(views)]
        for i, (rows, cols) in enumerate(op.rects):
            found[i] = Read(views[i], rows, cols, FULL, i)
        return found
    return []


def pattern_rect(pattern: str, rows: Expr, cols: Expr) -> tuple[Expr, Expr]:
    if pattern == ROW:
        return rows, _ONE
    if pattern == COL:
        return _ONE, cols
    return rows, cols


def written_rect(op: Compute) -> tuple[Expr, Expr] | None:
    """The rectangle of `dst` an operation writes element by element; None where it is not one."""
    if isinstance(op, LaneOp):
        return None if op.mask else (op.rows, op.cols)
    if isinstance(op, ReduceOp):
        return (op.rows, _ONE) if op.spec.axis == 1 else (_ONE, op.cols)
    return op.written if isinstance(op, Routine) else None


def covers(outer: tuple[Expr, Expr], inner: tuple[Expr, Expr]) -> bool:
    for a, b in zip(outer, inner, strict=True):
        x, y = const_dim(a), const_dim(b)
        if not (arith.same(a, b) or (x is not None and y is not None and y <= x)):
            return False
    return True


class Use(NamedTuple):
    """Where one read of an operation comes from: `writer` alone, or any of `others` and, if exposed, before the run."""

    writer: int | None
    others: tuple[int, ...]
    exposed: bool


class Writers:
    """Where in a straight line of operations bytes are written: found by place, not by looking at every operation."""

    def __init__(self, ops: Sequence[Compute]) -> None:
        self.ops = ops
        self._tensors: dict[Root, list[int]] = {}
        self._ranges: dict[Root, dict[tuple[int, int], list[int]]] = {}
        for k, op in enumerate(ops):
            d = op.dst
            if d.root.on_chip:
                self._ranges.setdefault(d.root, {}).setdefault((d.low, d.high), []).append(k)
            else:
                self._tensors.setdefault(d.root, []).append(k)
        self._sorted = {root: sorted(ranges) for root, ranges in self._ranges.items()}
        self._longest = {root: max(high - low for low, high in ranges) for root, ranges in self._ranges.items()}

    def before(self, k: int, v: View) -> Iterator[int]:
        """The operations before the `k`-th that may write bytes of a view, the last one first."""
        if not v.root.on_chip:
            return (w for w in _backwards(self._tensors.get(v.root, []), k) if not disjoint(self.ops[w].dst, v))
        ordered = self._sorted.get(v.root, [])
        found = []
        if ordered:
            ranges, first = self._ranges[v.root], (v.low - self._longest[v.root], 0)
            for r in ordered[bisect_left(ordered, first) : bisect_left(ordered, (v.high, 0))]:
                if r[1] > v.low:
                    found.append(_backwards(ranges[r], k))
        return found[0] if len(found) == 1 else merge(*found, reverse=True)

    def use(self, k: int, r: Read) -> Use:
        """Where a read by the `k`-th operation comes from."""
        if not r.view.root.on_chip:
            return Use(None, (), True)
        others: list[int] = []
        for w in self.before(k, r.view):
            if not others and _same_elements(self.ops[w], r):
                return Use(w, (), False)
            others.append(w)
            if overwrites(self.ops[w], r.view):
                return Use(None, tuple(others), False)
        return Use(None, tuple(others), True)


def _backwards(places: list[int], k: int) -> Iterator[int]:
    """Those before `k` of an ascending list, from behind."""
    return (places[i] for i in range(bisect_left(places, k) - 1, -1, -1))


def uses_of(ops: Sequence[Compute]) -> tuple[tuple[Use, ...], ...]:
    """For every operation, where each of its on-chip reads comes from."""
    writers = Writers(ops)
    return tuple(tuple(writers.use(k, r) for r in reads(op)) for k, op in enumerate(ops))


def _same_elements(w: Compute, r: Read) -> bool:
    """Whether `w` wrote every element of the read, at the same place and as the same type of element."""
    if w.dst.dtype is not r.view.dtype:
        return False  # the same bytes under another type are another value
    if isinstance(w, LaneOp) and w.mask:
        return r.pattern == MASK and same_mapping(w.dst, r.view) and covers((w.rows, w.cols), (r.rows, r.cols))
    rect = written_rect(w)
    if rect is None or r.pattern == MASK:
        return False
    if r.pattern == _ALL:
        return same_mapping(w.dst, r.view) and overwrites(w, r.view)
    if in_place(w, rect, r):
        return True
    # A column read as a row, or the other way round: the same line of elements under another shape.
    written, read = _line(w.dst, *rect), _line(r.view, r.rows, r.cols)
    return (
        written is not None
        and read is not None
        and same_mapping(written[0], read[0])
        and covers((_ONE, written[1]), (_ONE, read[1]))
    )


def in_place(w: Compute, rect: tuple[Expr, Expr], r: Read) -> bool:
    """Whether each element of a read is one of the rectangle that `w` wrote, of the same row and column."""
    # A read stays within its view: a writer of all of it needs no further proof.
    return same_mapping(w.dst, r.view) and (covers(rect, (r.rows, r.cols)) or overwrites(w, r.view))


def _line(v: View, rows: Expr, cols: Expr) -> tuple[View, Expr] | None:
    """A rectangle of one row or one column as a column: its view with no column stride, and its length."""
    if arith.is_const(cols, 1):
        stride, length = v.row, rows
    elif arith.is_const(rows, 1):
        stride, length = v.col, cols
    else:
        return None
    return v.replace(row=stride, col=_ZERO), length


def overwrites(w: Compute, v: View) -> bool:
    """Whether `w` writes every byte that `v` can touch: a dense, full, constant rectangle around it."""
    rect = written_rect(w)
    if rect is None:
        return False
    rows, cols = const_dim(rect[0]), const_dim(rect[1])
    d = w.dst
    full = rows is not None and cols is not None and rows * cols * d.dtype.get_byte() == d.high - d.low
    return full and arith.is_const(d.offset, 0) and d.low <= v.low and v.high <= d.high


def readers_of(uses: Sequence[Sequence[Use]]) -> list[list[int]]:
    """For each operation, who reads (any byte of) its result, once for each read."""
    out: list[list[int]] = [[] for _ in uses]
    for k, us in enumerate(uses):
        for u in us:
            for w in (u.writer, *u.others):
                if w is not None:
                    out[w].append(k)
    return out
