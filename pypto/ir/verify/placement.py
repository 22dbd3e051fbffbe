"""No tile is overwritten while it is needed.

In: device functions whose tiles have places.  Out: every pair of tiles that share bytes although the first is read again
after the second is written, or although the operator that writes the second may not do so over an operand it reads.
Live ranges are recomputed here, backward over the statements, from what operators declare; no planner is consulted.
Places are bytes per memory where the planner gave addresses, else bytes per allocation.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.enums import MemorySpace
from pypto.ir import arith, ops
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var
from pypto.ir.opdef import FULL, SCALAR, UNUSED, Lanewise, OpDef, Special
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import defined_vars
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts, last_yield
from pypto.ir.verify.live_walk import LiveTiles
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.named import NamedTuple

__all__ = ["Overlap", "Range", "allocated_memory_addr", "check_placement", "overlapping_tiles", "tile_range"]

RULE = "TilePlacement"
_Live = frozenset[Var]


class Range(NamedTuple):
    """Bytes [low, high) of one memory, or of one allocation of it."""

    space: MemorySpace
    base: Var | None
    low: int
    high: int

    def meets(self, other: Range) -> bool:
        same = self.space is other.space and self.base is other.base
        return same and self.low < other.high and other.low < self.high

    def same(self, other: Range | None) -> bool:
        return other is not None and self.space is other.space and self.base is other.base and self[2:] == other[2:]

    def text(self) -> str:
        return f"[{self.low}, {self.high})"


class Overlap(NamedTuple):
    """Two tiles on shared bytes: `needed` is lost, or read too late, when `stmt` makes `written`."""

    needed: Var
    written: Var
    needed_range: Range
    written_range: Range
    stmt: Stmt
    while_read: bool

    def text(self) -> str:
        a, b, r = self.needed, self.written, self.needed_range
        when = "is read by the statement that writes" if self.while_read else "is still needed when the statement writes"
        value = self.stmt.value if isinstance(self.stmt, AssignStmt) else None
        what = value.op.name if isinstance(value, Call) else f"{type(self.stmt).__name__.removesuffix('Stmt').lower()} statement"
        return (
            f"tiles '{a.name_hint}' and '{b.name_hint}' share bytes of {r.space.name} memory: '{a.name_hint}' at {r.text()} "
            f"{when} '{b.name_hint}' at {self.written_range.text()} ({b.name_hint} = {what})"
        )


def tile_range(v: Expr, addressed: bool) -> Range | None:
    """The bytes a tile variable covers by its memref; None if it has none."""
    t = v.type
    if not isinstance(t, TileType) or t.memref is None or t.memory_space is None:
        return None
    m = t.memref
    if not isinstance(m.byte_offset_, ConstInt):
        return Range(t.memory_space, None if addressed else m.base_, 0, 1 << 62)
    low = m.byte_offset_.value
    return Range(t.memory_space, None if addressed else m.base_, low, low + m.size_)


def overlapping_tiles(f: Function, addressed: bool) -> list[Overlap]:
    """Every harmful overlap in a device function, in program order."""
    judge = _Judge(f, addressed)
    judge.body(f.body, frozenset())
    return judge.found[::-1]


class _Judge(LiveTiles):
    """Judges every statement with what is read behind it."""

    def __init__(self, f: Function, addressed: bool) -> None:
        self.addressed = addressed
        self.found: list[Overlap] = []
        self.ranges: dict[Var, Range | None] = {}
        self.origin: dict[Var, Var] = {}  # the value whose bytes a view, an alias or a join of one value shows
        self.slices: dict[Var, Call] = {}
        self.windowed: set[Var] = set()  # windows, and other words for them
        self._index(f.body)

    def _index(self, body: Stmt | None) -> None:
        for s in flatten_to_stmts(body):
            if isinstance(s, AssignStmt):
                self._index_assignment(s)
            elif isinstance(s, IfStmt):
                self._index(s.then_body)
                self._index(s.else_body)
                arms = [_yielded(s.then_body), _yielded(s.else_body)]
                for n, r in enumerate(s.return_vars):
                    self._joined(r, [y[n] for y in arms if n < len(y)])
            elif isinstance(s, (ForStmt, WhileStmt)):
                self._index_loop(s)
            elif isinstance(s, ScopeStmt):
                self._index(s.body)

    def _index_assignment(self, s: AssignStmt) -> None:
        source = _shown(s.value)
        self.origin.pop(s.var, None)
        if not isinstance(source, Var) or not isinstance(s.var.type, TileType):
            return
        self.origin[s.var] = self.value_of(source)
        if isinstance(s.value, Call) and s.value.op.name == "tile.slice":
            self.slices[s.var] = s.value
        if s.var in self.slices or source in self.windowed:
            self.windowed.add(s.var)

    def _index_loop(self, s: ForStmt | WhileStmt) -> None:
        """A carry is its initial value as long as every iteration gives it on."""
        for a in s.iter_args:
            self._joined(a, [a.initValue])
        while True:
            self._index(s.body)
            changed = [a for a, y in zip(s.iter_args, _yielded(s.body), strict=False) if self._changes(a, y)]
            if not changed:
                break
            for a in changed:
                del self.origin[a]
        for a, r in zip(s.iter_args, s.return_vars, strict=False):
            self._joined(r, [a])

    def _changes(self, a: Var, y: Expr) -> bool:
        return a in self.origin and (not isinstance(y, Var) or self.value_of(y) is not self.origin[a])

    def _joined(self, v: Var, sources: Iterable[Expr]) -> None:
        """A variable that is one and the same value whichever way control took."""
        self.origin.pop(v, None)
        values = {self.value_of(e) for e in sources if isinstance(e, Var)}
        if isinstance(v.type, TileType) and len(values) == 1:
            self.origin[v] = values.pop()

    def range(self, v: Var) -> Range | None:
        if v not in self.ranges:
            self.ranges[v] = tile_range(v, self.addressed)
        return self.ranges[v]

    def value_of(self, v: Var) -> Var:
        """The value whose bytes a variable is known to show."""
        return self.origin.get(v, v)

    # -- the judgement --

    def passed(self, s: Stmt, before: _Live, behind: _Live) -> None:
        if isinstance(s, AssignStmt) and isinstance(s.var.type, TileType):
            self.judge(s, behind - {s.var})

    def head(self, s: ForStmt | WhileStmt, live: _Live) -> None:
        self.joins(s, s.iter_args, live)

    def joins(self, s: Stmt, joined: Iterable[Var], live: _Live) -> None:
        """Values that control flow joins come into being where it joins; those that nobody reads do no harm."""
        for v in joined:
            r = self.range(v) if v in live else None
            if r is not None:
                for u in sorted(live - {v}, key=lambda x: x.unique_id):
                    self._check(s, u, v, r, False)

    def judge(self, s: AssignStmt, behind: _Live) -> None:
        op = ops.of(s.value) if isinstance(s.value, Call) else None
        if op is None or not isinstance(s.value, Call):
            return
        written = self._written(op, s)
        if written is None:
            return
        read = dict.fromkeys(a for a in s.value.args if isinstance(a, Var) and isinstance(a.type, TileType))
        for v, r in written:
            for u in sorted(behind - {s.var}, key=lambda x: x.unique_id):
                self._check(s, u, v, r, False)
            for u in read:
                if u is not v and not self._may_write_over(op, s, u, v, r):
                    self._check(s, u, v, r, True)

    def _check(self, s: Stmt, u: Var, v: Var, r: Range, while_read: bool) -> None:
        mine = self.range(u)
        if mine is None or not mine.meets(r) or self.value_of(u) is self.value_of(v):
            return
        if self._repeats(s, u, v):
            return
        self.found.append(Overlap(u, v, mine, r, s, while_read))

    def _written(self, op: OpDef, s: AssignStmt) -> list[tuple[Var, Range]] | None:
        """The tiles whose bytes a statement sets: its result, and scratch; a view sets none if it lies in its operand."""
        r = self.range(s.var)
        if r is None:
            return None
        assert isinstance(s.value, Call)
        if isinstance(op.semantics, Special) and op.semantics.kind == "view":
            source = s.value.args[0]
            whole = self.range(source) if isinstance(source, Var) else None
            inside = whole is not None and whole.base is r.base and whole.low <= r.low and r.high <= whole.high
            return None if inside and whole is not None and whole.space is r.space else [(s.var, r)]
        found = [(s.var, _inserted(op, s.value, r))]
        for i in op.scratch:
            if i < len(s.value.args) and isinstance(s.value.args[i], Var):
                scratch = s.value.args[i]
                assert isinstance(scratch, Var)
                at = self.range(scratch)
                if at is not None:
                    found.append((scratch, at))
        return found

    def _may_write_over(self, op: OpDef, s: AssignStmt, u: Var, v: Var, r: Range) -> bool:
        """Whether the operator may set `v` where it reads `u`: its own in-place operand, or exactly element over element."""
        assert isinstance(s.value, Call)
        if v is not s.var:
            return False
        for i, a in enumerate(s.value.args):
            if a is not u or i == op.reuses:
                continue
            if not self._element_over_element(op, s, i, u, r):
                return False
        return True

    def _element_over_element(self, op: OpDef, s: AssignStmt, i: int, u: Var, r: Range) -> bool:
        mine = self.range(u)
        t, result = u.type, s.var.type
        if mine is None or not mine.meets(r):
            return True
        if self._same_window(op, s, i, u):
            return True
        assert isinstance(t, TileType)
        assert isinstance(result, TileType)
        if not op.in_place or i in op.no_alias or i in op.scratch or mine.low != r.low:
            return False
        if u in self.windowed or result.dtype.get_bit() > t.dtype.get_bit():
            return False
        form = op.semantics
        if isinstance(form, Lanewise):
            return form.result == FULL and form.patterns[i] in (FULL, UNUSED, SCALAR)
        return isinstance(form, Special) and form.kind == "pad"

    def _same_window(self, op: OpDef, s: AssignStmt, i: int, u: Var) -> bool:
        """An assemble of exactly the window that is already there."""
        c, cut = s.value, self.slices.get(u)
        if op.concept != "assemble" or i != 1 or cut is None or not isinstance(c, Call):
            return False
        a, b = c.args[2], cut.args[2]
        assert isinstance(a, MakeTuple)
        assert isinstance(b, MakeTuple)
        same = all(arith.same(x, y) for x, y in zip(a.elements, b.elements, strict=True))
        target, whole = c.args[0], cut.args[0]
        mine = self.range(target) if isinstance(target, Var) and isinstance(whole, Var) else None
        return same and mine is not None and isinstance(whole, Var) and mine.same(self.range(whole))

    def _repeats(self, s: Stmt, u: Var, v: Var) -> bool:
        """A copy of a tile onto itself leaves it as it is."""
        c = s.value if isinstance(s, AssignStmt) else None
        mine = self.range(u)
        return (
            isinstance(c, Call) and c.op.name == "tile.move" and c.args[0] is u and mine is not None and mine.same(self.range(v))
        )


def _inserted(op: OpDef, c: Call, whole: Range) -> Range:
    """The part of the result that an in-place operator sets: the window of an assemble at a constant offset."""
    if op.concept != "assemble" or not isinstance(c.args[2], MakeTuple):
        return whole
    source, target = c.args[1].type, c.args[0].type
    if not isinstance(source, TileType) or not isinstance(target, TileType) or not target.layout.is_flat:
        return whole
    return _window_range(source, target, c.args[2].elements, whole)


def _window_range(window: TileType, target: TileType, offset: tuple[Expr, ...], whole: Range) -> Range:
    dims, size = target.dims, window.dims
    if dims is None or size is None or len(dims) != 2 or not all(isinstance(o, ConstInt) for o in offset):
        return whole
    r, c = (o.value for o in offset if isinstance(o, ConstInt))
    element = target.dtype.get_byte()
    if dims[0] * dims[1] * element != whole.high - whole.low:
        return whole  # the target is itself a window: its lines are further apart
    by_row = target.layout.blayout.name == "row_major"
    (line, inner), (lines, length) = ((r, c), size) if by_row else ((c, r), (size[1], size[0]))
    pitch = dims[1] if by_row else dims[0]
    low = whole.low + (line * pitch + inner) * element
    return whole._replace(low=low, high=low + ((lines - 1) * pitch + length) * element)


def _yielded(body: Stmt | None) -> tuple[Expr, ...]:
    y = last_yield(body)
    return y.value if y is not None else ()


def _shown(value: Expr) -> Expr | None:
    """The tile whose bytes an expression shows, if it makes none."""
    if isinstance(value, Var):
        return value
    op = ops.of(value) if isinstance(value, Call) else None
    if op is None or not isinstance(value, Call):
        return None
    return value.args[0] if isinstance(op.semantics, Special) and op.semantics.kind == "view" else None


def check_placement(program: Program, addressed: bool) -> list[Diagnostic]:
    """The judge of property-driven verification."""
    return [
        Diagnostic(Severity.Error, RULE, 1, f"kernel '{f.name}': {o.text()}", o.stmt.span)
        for f in program.function_list
        if f.is_device
        for o in overlapping_tiles(f, addressed)
    ]


def allocated_memory_addr(program: Program) -> list[Diagnostic]:
    """The judge of `AllocatedMemoryAddr`: every tile of a device function has an address in its memory."""
    return [
        Diagnostic(Severity.Error, "AllocatedMemoryAddr", 1, f"kernel '{f.name}': tile '{v.name_hint}' has no address", v.span)
        for f in program.function_list
        if f.is_device
        for v in defined_vars(f.body)
        if isinstance(v.type, TileType) and not _is_addressed(v.type)
    ]


def _is_addressed(t: TileType) -> bool:
    at = t.memref.byte_offset_ if t.memref is not None else None
    return isinstance(at, ConstInt) and at.value >= 0
