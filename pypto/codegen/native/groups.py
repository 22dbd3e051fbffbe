"""Which operations of a run become one loop, and what of them touches memory.

In: a run with its def-use facts.  Out: groups.  A group is a loop over rows whose body is a list of steps: a *phase* is
an inner loop over columns, a *row step* computes one value per row (a row reduction's end, or arithmetic on column
vectors).  A value stays in a register if every reader is in reach of it: the same phase, or, for a value per row, any
later step.  Such a value is *virtual*: its bytes are never written.  Of a value that only later phases of its own row read,
one row's bytes are used over and over, so that they stay in the nearest cache.
Fusing reorders work across rows, so it is legal only if no two actual accesses of different rows meet: any two that
may overlap must be the same bytes for the same row, in the order the program had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pypto.codegen.native.access import (
    ONE,
    ZERO,
    Compute,
    Copies,
    LaneOp,
    Outside,
    ReduceOp,
    Routine,
    View,
    disjoint,
    same_mapping,
)
from pypto.codegen.native.flow import Run, overlaps
from pypto.codegen.native.turns import turn_of
from pypto.codegen.native.uses import Read, Use, readers_of, reads, written_rect
from pypto.ir import arith
from pypto.ir.expr import Expr
from pypto.ir.lanes import LaneProgram
from pypto.ir.opdef import COL, FULL, MASK, ROW
from pypto.ir.shaped import const_dim
from pypto.named import NamedTuple

__all__ = ["ELEMENT", "OTHER", "REDUCE_COL", "REDUCE_ROW", "ROW_VALUE", "Group", "Step", "form_groups", "why_apart"]

ELEMENT = "element"  # one value per (row, column)
ROW_VALUE = "row"  # one value per row
REDUCE_ROW = "reduce_row"  # a phase's values of a row to one value per row
REDUCE_COL = "reduce_col"  # a phase's values added into a row of results
OTHER = "other"  # stands alone

_LARGEST = 96  # operations in one group: beyond this, registers spill and the C compiler slows down
# Where a value of a row takes long, the next row had better begin before it is there, if rows are so short that they do not hide
# it: each step then goes over all rows, and what goes from loop to loop has to stay in the nearest cache.
_SHORT_ROW, _FEWEST_ROWS, _NEAR = 128, 8, 1 << 14
_LONG_FOLD, _LONG_VALUE = 2, 8  # instructions: what takes more takes long


class Placed(NamedTuple):
    """An operation inside a group: what it is there, and whether its columns run along the group's rows."""

    at: int
    kind: str
    turned: bool


class Step(NamedTuple):
    """A phase (`cols` given) or a row step (`cols` None)."""

    cols: Expr | None
    ops: tuple[Placed, ...]


class Group(NamedTuple):
    """Operations `first..last` of a run as one loop nest; `stored` are those whose results reach memory.

    `where`: for each operation, its step and what it is there.  `by_row`: those of the stored ones of which every row may lie
    where the first one does; no other access meets their bytes.
    """

    rows: Expr
    steps: tuple[Step, ...]
    stored: frozenset[int]
    where: dict[int, tuple[int, Placed]]
    by_row: frozenset[int] = frozenset()

    @property
    def indices(self) -> list[int]:
        return sorted(p.at for s in self.steps for p in s.ops)

    def register_of(self, run: Run, p: Placed, operand: int) -> int | None:
        """The operation whose register an operand of one of the group's operations reads, if it reads one."""
        writer = self.writer_of(run, p, operand)
        if writer is None:
            return None
        step, w = self.where[writer]
        return writer if _in_register(step, self.where[p.at][0], w.kind) else None

    def writer_of(self, run: Run, p: Placed, operand: int) -> int | None:
        """The operation of the group that alone wrote what an operand reads."""
        for r, u in zip(reads(run.ops[p.at]), run.uses[p.at], strict=True):
            if r.operand == operand and u.writer in self.where:
                return u.writer
        return None

    def accesses(self, run: Run) -> Iterator[GroupAccess]:
        """What of the group touches memory, in order."""
        for n, s in enumerate(self.steps):
            for p in s.ops:
                op = run.ops[p.at]
                lanewise = isinstance(op, LaneOp) and p.kind != OTHER
                for r in reads(op):
                    if self.register_of(run, p, r.operand) is None:
                        yield GroupAccess(n, p, r, False, lanewise and r.pattern == FULL)
                if p.at in self.stored or p.kind == OTHER:
                    rows, cols = written_rect(op) or (ZERO, ZERO)
                    yield GroupAccess(n, p, Read(op.dst, rows, cols, FULL, -1), True, lanewise)


class GroupAccess(NamedTuple):
    """One access of a group: in which step, by which operation, over what (no rows and columns where that is not known)."""

    step: int
    by: Placed
    what: Read
    write: bool
    lanewise: bool

    @property
    def view(self) -> View:
        return self.what.view.transposed() if self.by.turned else self.what.view


def form_groups(run: Run) -> list[Group]:
    """Greedy: each group is the longest legal stretch from where the previous one ended."""
    groups: list[Group] = []
    at = 0
    readers = readers_of(run.uses)
    while at < len(run.ops):
        end = _longest(run, at)
        group = _legal(run, at, end, readers)
        while isinstance(group, str):
            end -= 1
            group = _legal(run, at, end, readers)
        groups.append(group)
        at = end
    return groups


def why_apart(run: Run, group: Group) -> str | None:
    """Why the operation behind a group is not part of it; None where there is none."""
    at, end = group.indices[0], group.indices[-1] + 1
    if end == len(run.ops):
        return None
    if end - at == _LARGEST:
        return f"a loop has at most {_LARGEST} operations"
    for k in (at, end):
        if _options(run.ops[k])[0][1] == OTHER:
            return f"{run.ops[k].name} is a loop of its own"
    found = _legal(run, at, end + 1, readers_of(run.uses))
    return found if isinstance(found, str) else f"a longer loop would have to end before {run.ops[end].name} all the same"


# -- what an operation can be in a group -----------------------------------------------------------------------------


def _options(op: Compute) -> list[tuple[Expr, str, bool]]:
    """(rows of the group, kind, turned), the preferred one first."""
    if isinstance(op, ReduceOp):
        return [(op.rows, REDUCE_ROW if op.spec.axis == 1 else REDUCE_COL, False)]
    if not isinstance(op, LaneOp) or turn_of(op) is not None:
        return [(ONE, OTHER, False)]
    if arith.is_const(op.cols, 1) and not arith.is_const(op.rows, 1):
        return [(op.rows, ROW_VALUE, False)]
    if arith.is_const(op.rows, 1) and not op.mask and all(o.pattern in (FULL, "scalar") for o in op.operands):
        return [(op.rows, ELEMENT, False), (op.cols, ROW_VALUE, True)]
    return [(op.rows, ELEMENT, False)]


def _longest(run: Run, at: int) -> int:
    """How far a group could reach by its rows alone."""
    options = _options(run.ops[at])
    if options[0][1] == OTHER:
        return at + 1
    candidates = [rows for rows, _, _ in options]
    end = at + 1
    while end < len(run.ops) and end - at < _LARGEST:
        here = _options(run.ops[end])
        if here[0][1] == OTHER:
            break
        common = [r for r in candidates if any(arith.same(r, h) for h, _, _ in here)]
        if not common:
            break
        candidates = common
        end += 1
    return end


def _choose(run: Run, at: int, end: int) -> tuple[Expr, list[Placed]] | None:
    """The rows of the group and what each operation is in it."""
    for rows, _, _ in _options(run.ops[at]):
        placed = []
        for k in range(at, end):
            fit = next((o for o in _options(run.ops[k]) if arith.same(o[0], rows)), None)
            if fit is None:
                break
            placed.append(Placed(k, fit[1], fit[2]))
        else:
            return rows, placed
    return None


# -- steps and legality --------------------------------------------------------------------------------------------


def _legal(run: Run, at: int, end: int, readers: Sequence[Sequence[int]]) -> Group | str:
    """The group of operations `at..end`, or why fusing them would change what they compute."""
    chosen = _choose(run, at, end)
    if chosen is None:
        return f"{run.ops[end - 1].name} goes over other rows"
    rows, placed = chosen
    if len(placed) == 1 and placed[0].kind == OTHER:
        return Group(rows, (Step(None, tuple(placed)),), frozenset((at,)), {at: (0, placed[0])})
    # Joining an early phase saves a pass over the row; if that would reorder accesses, program order is kept.
    early = _arranged(run, at, rows, placed, readers, True)
    return _arranged(run, at, rows, placed, readers, False) if isinstance(early, str) else early


def _arranged(
    run: Run, at: int, rows: Expr, placed: Sequence[Placed], readers: Sequence[Sequence[int]], back: bool
) -> Group | str:
    end = at + len(placed)
    steps = _steps(run, at, placed, back, _is_short(run, rows, placed))
    if isinstance(steps, str):
        return steps
    where = {p.at: (n, p) for n, s in enumerate(steps) for p in s.ops}
    stored = frozenset(k for k in range(at, end) if _is_stored(run, k, end, where, readers))
    if len(placed) > 1:
        if any(isinstance(op, LaneOp) and op.mask and k in stored for k, op in _numbered(run, at, end)):
            return "packing the bits of a mask is a loop of its own"
        meet = _disorder(run, at, end, where, stored)
        if meet is not None:
            return meet
    group = Group(rows, tuple(steps), stored, where)
    return group._replace(by_row=_by_row(run, group, readers))


def _numbered(run: Run, at: int, end: int) -> list[tuple[int, Compute]]:
    return [(k, run.ops[k]) for k in range(at, end)]


def _is_short(run: Run, rows: Expr, placed: Sequence[Placed]) -> bool:
    """Whether each step does better to go over all rows before the next one begins."""
    height = const_dim(rows)
    if height is None or height < _FEWEST_ROWS or not any(_takes_long(run.ops[p.at], p.kind) for p in placed):
        return False
    ops = [run.ops[p.at] for p in placed if p.kind != ROW_VALUE]
    widths = [(const_dim(_cols(op)), op.dst.dtype.get_byte()) for op in ops]
    return all(n is not None and n <= _SHORT_ROW and n * height * size <= _NEAR for n, size in widths)


def _takes_long(op: Compute, kind: str) -> bool:
    """Whether the value of a row needs many instructions one after the other."""
    if isinstance(op, ReduceOp):
        return kind == REDUCE_ROW and (bool(op.spec.arg) or _instructions(op.spec.combine(op.src.dtype)) > _LONG_FOLD)
    return kind == ROW_VALUE and isinstance(op, LaneOp) and _instructions(op.program) > _LONG_VALUE


def _instructions(program: LaneProgram) -> int:
    return sum(i.op != "const" for i in program.instrs)


def _steps(run: Run, at: int, placed: Sequence[Placed], back: bool, short: bool) -> list[Step] | str:
    """Each operation goes into a step where its operands are ready, or opens a new one; else why one cannot."""
    steps: list[tuple[Expr | None, list[Placed]]] = []
    ready: dict[int, tuple[int, str]] = {}  # operation -> (step, kind)
    for p in placed:
        op = run.ops[p.at]
        least = 0
        for r, u in zip(reads(op), run.uses[p.at], strict=True):
            for w in (u.writer, *u.others):
                if w is None or w < at:
                    continue
                step, kind = ready[w]
                out_of_reach = _out_of_reach(p, r, u, kind)
                if out_of_reach is not None:
                    return f"{op.name} reads {out_of_reach.format(run.ops[w].name)}"
                if short and kind in (ROW_VALUE, REDUCE_ROW) and not kind == p.kind == ROW_VALUE:
                    return f"{op.name} reads what {run.ops[w].name} makes sooner of all rows than row by row: they are short"
                # A value per row exists when its step is over; an element only within its phase.
                together = (kind == ELEMENT and p.kind != ROW_VALUE) or (kind == ROW_VALUE and p.kind == ROW_VALUE)
                least = max(least, step if together else step + 1)
        cols = None if p.kind == ROW_VALUE else _cols(op)
        n = _place(steps, least, cols, back)
        steps[n][1].append(p)
        ready[p.at] = (n, p.kind)
    return [Step(c, tuple(ops)) for c, ops in steps]


def _cols(op: Compute) -> Expr:
    assert isinstance(op, (LaneOp, ReduceOp))
    return op.cols


def _place(steps: list[tuple[Expr | None, list[Placed]]], least: int, cols: Expr | None, back: bool) -> int:
    """The step of these columns an operation joins: the last one, or the earliest possible with `back`."""
    first = least if back else max(least, len(steps) - 1)
    for n in range(first, len(steps)):
        have = steps[n][0]
        if have is cols or (have is not None and cols is not None and arith.same(have, cols)):
            return n
    steps.append((cols, []))
    return len(steps) - 1


def _out_of_reach(p: Placed, r: Read, u: Use, kind: str) -> str | None:
    """Why an operation may not read, inside the group, what another ({}) of kind `kind` computes there."""
    if u.writer is None:
        return "parts of what {} and others wrote"  # only whole results keep to rows
    if kind == REDUCE_COL or r.pattern == COL:
        return "what {} has only after the last row"
    if kind in (ROW_VALUE, REDUCE_ROW):
        fits = (r.pattern == ROW and p.kind != ROW_VALUE) or (p.kind == ROW_VALUE and r.pattern in (FULL, ROW))
    else:
        fits = p.kind != ROW_VALUE and r.pattern in (FULL, MASK)
    return None if fits else "the result of {} along the other axis"


def _in_register(step: int, writer_step: int, kind: str) -> bool:
    """Whether a read of a result of that kind is a register: the same phase, or a value per row."""
    return kind in (ROW_VALUE, REDUCE_ROW) or step == writer_step


def _is_stored(run: Run, k: int, end: int, where: dict[int, tuple[int, Placed]], readers: Sequence[Sequence[int]]) -> bool:
    """Whether anything reads the result of `k` from memory."""
    op = run.ops[k]
    if not op.dst.root.on_chip or isinstance(op, (Outside, Copies, Routine)):
        return True
    step, placed = where[k]
    for reader in readers[k]:
        if reader not in where or reader >= end:
            return True
        reader_step = where[reader][0]
        for u in run.uses[reader]:
            if k in u.others or (u.writer == k and not _in_register(reader_step, step, placed.kind)):
                return True
    return overlaps(run.live_out, op.dst)


def _by_row(run: Run, group: Group, readers: Sequence[Sequence[int]]) -> frozenset[int]:
    """Stored operations that nobody but the same row of the group reads, and whose bytes nothing else touches meanwhile."""
    kept = set()
    for k in group.stored if not arith.is_const(group.rows, 1) else ():
        op, p = run.ops[k], group.where[k][1]
        inside = all(reader in group.where and all(k not in u.others for u in run.uses[reader]) for reader in readers[k])
        if p.kind == ELEMENT and op.dst.root.on_chip and inside and not overlaps(run.live_out, op.dst):
            kept.add(k)
    accesses = group.accesses(run) if kept else ()
    touched = [(a, a.by.at if a.write else group.writer_of(run, a.by, a.what.operand)) for a in accesses]
    while True:
        met = {k for k in kept for a, writer in touched if not _keeps_to_row(run.ops[k].dst, a, writer in kept)}
        if not met:
            return frozenset(kept)
        kept -= met


def _keeps_to_row(dst: View, a: GroupAccess, by_row: bool) -> bool:
    """Whether an access leaves alone what is written to `dst` row over row, or is one of the same kind to the same place."""
    v = a.what.view
    return disjoint(dst, v) or (by_row and not a.by.turned and a.what.pattern == FULL and same_mapping(dst, v))


class Access(NamedTuple):
    """One actual access to memory: in which step, over what."""

    step: int
    view: View
    per_row: bool  # element (row, 0) only
    across: bool  # not confined to the row at hand
    turned: bool
    write: bool


def _disorder(run: Run, at: int, end: int, where: dict[int, tuple[int, Placed]], stored: frozenset[int]) -> str | None:
    """Two accesses, one of them a write, that may meet in different rows or out of order."""
    seen: list[Access] = []
    for k in range(at, end):
        step, p = where[k]
        op = run.ops[k]
        new: list[Access] = []
        for r, u in zip(reads(op), run.uses[k], strict=True):
            if u.writer is not None and u.writer >= at:
                ws, wp = where[u.writer]
                if _in_register(step, ws, wp.kind):
                    continue
            per_row = p.kind == ROW_VALUE or r.pattern == ROW
            # A byte of a mask has the bits of eight columns.
            new.append(Access(step, r.view, per_row, r.pattern in (COL, MASK), p.turned, False))
        if k in stored:
            per_row = p.kind in (ROW_VALUE, REDUCE_ROW)
            new.append(Access(step, op.dst, per_row, p.kind == REDUCE_COL, p.turned, True))
        for a in new:
            for b in seen:
                if (a.write or b.write) and not _compatible(b, a):
                    now, then = ("write" if x.write else "read" for x in (a, b))
                    return f"{op.name} may {now} bytes that another row {then}s"
        seen += new
    return None


def _compatible(earlier: Access, later: Access) -> bool:
    """Two accesses in program order: apart, or the same bytes in the same row and in the right order."""
    if disjoint(earlier.view, later.view):
        return True
    if earlier.across or later.across or earlier.per_row is not later.per_row:
        return False
    a = earlier.view.transposed() if earlier.turned else earlier.view
    b = later.view.transposed() if later.turned else later.view
    if earlier.step > later.step:
        return False
    if not earlier.per_row:
        return same_mapping(a, b)
    # One element per row: only the row stride matters.
    return (
        a.root is b.root
        and a.address == b.address
        and a.dtype.get_byte() == b.dtype.get_byte()
        and arith.same(a.offset, b.offset)
        and arith.same(a.row, b.row)
    )
