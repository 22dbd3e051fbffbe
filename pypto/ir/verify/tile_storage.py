"""Storage of tiles is closed: every tile has a place, and values that control flow joins lie in one.

In: device functions after storage legalization.  Out: tiles without a place, carries and branch results whose values lie
apart, carries of one loop that overlap.  `TileStorageLegalized` compares windows of allocations, `TileStorageAllocated`
byte ranges of memories, and there also looks at moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.enums import MemorySpace
from pypto.ir.expr import Call, ConstInt, Expr, Var
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts, last_yield
from pypto.ir.types import TupleType
from pypto.ir.verify.properties import Diagnostic, Severity
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["check_storage", "tile_storage_allocated", "tile_storage_legalized"]


class Window(NamedTuple):
    """A place: bytes [offset, offset + size) of an allocation (or of a memory), and which slot of it."""

    space: MemorySpace
    base: Var | None
    offset: int | None
    size: int
    slots: tuple[int, str]

    def same(self, other: Window | None) -> bool:
        return other is not None and self.base is other.base and self[2:] == other[2:] and self.space is other.space

    def overlaps(self, other: Window) -> bool:
        if self.space is not other.space or self.base is not other.base or self.slots != other.slots:
            return False
        if self.offset is None or other.offset is None:
            return True
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


def tile_storage_legalized(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        if f.is_device:
            yield from check_storage(f, physical=False)


def tile_storage_allocated(program: Program) -> Iterator[Diagnostic]:
    for f in program.function_list:
        if f.is_device:
            yield from check_storage(f, physical=True)


def check_storage(f: Function, physical: bool) -> list[Diagnostic]:
    """Findings about one device function; `physical`: memrefs hold addresses."""
    return _Judge(f, physical).run()


def _defined(s: Stmt) -> tuple[Var, ...]:
    if isinstance(s, AssignStmt):
        return (s.var,)
    if isinstance(s, (ForStmt, WhileStmt)):
        return (*s.iter_args, *s.return_vars)
    return s.return_vars if isinstance(s, IfStmt) else ()


class _Judge:
    def __init__(self, f: Function, physical: bool) -> None:
        self.f, self.physical = f, physical
        self.found: list[Diagnostic] = []

    def run(self) -> list[Diagnostic]:
        for p in self.f.params:
            self.variable(p)
        self.body(self.f.body)
        return self.found

    def body(self, body: Stmt | None) -> None:
        for s in flatten_to_stmts(body):
            for v in _defined(s):
                self.variable(v)
            if not self.found:
                self.statement(s)
            if isinstance(s, IfStmt):
                self.body(s.then_body)
                self.body(s.else_body)
            elif isinstance(s, (ForStmt, WhileStmt, ScopeStmt)):
                self.body(s.body)

    def report(self, code: int, message: str, span: Span) -> None:
        rule = "TileStorageAllocated" if self.physical else "TileStorageLegalized"
        self.found.append(Diagnostic(Severity.Error, rule, code, f"kernel '{self.f.name}': {message}", span))

    def variable(self, v: Var) -> None:
        t = v.type
        if isinstance(t, TupleType) and any(isinstance(x, TileType) for x in t.types):
            self.report(701, f"tiles of '{v.name_hint}' must be flattened out of their tuple", v.span)
        if not isinstance(t, TileType):
            return
        m = t.memref
        if m is None or t.memory_space is None or m.size_ <= 0:
            self.report(701, f"tile '{v.name_hint}' must have a MemRef and memory space", v.span)
        elif self.physical and isinstance(m.byte_offset_, ConstInt) and m.byte_offset_.value < 0:
            self.report(707, f"tile '{v.name_hint}' has the negative address {m.byte_offset_.value}", v.span)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, (ForStmt, WhileStmt)):
            self.loop(s)
        elif isinstance(s, IfStmt):
            self.branch(s)
        elif self.physical and isinstance(s, AssignStmt) and isinstance(s.value, Call) and s.value.op.name == "tile.move":
            a, b = self.window(s.value.args[0]), self.window(s.var)
            if a is not None and b is not None and not a.same(b) and a.overlaps(b):
                self.report(707, f"the move to '{s.var.name_hint}' overlaps its source in part", s.span)

    def loop(self, s: ForStmt | WhileStmt) -> None:
        y = last_yield(s.body)
        values = y.value if y is not None else ()
        places: list[tuple[Var, Window]] = []
        for a, v, r in zip(s.iter_args, values, s.return_vars, strict=False):
            windows = [self.window(e) for e in (a.initValue, a, v, r)]
            if windows[1] is None:
                continue
            if any(not windows[1].same(w) for w in windows):
                self.report(
                    702, f"initial value, carry, yielded value and result of '{a.name_hint}' must share canonical storage", s.span
                )
            places.append((a, windows[1]))
        self.apart(places, "carries", s.span, identical=False)

    def branch(self, s: IfStmt) -> None:
        arms = [last_yield(b) for b in (s.then_body, s.else_body)]
        places: list[tuple[Var, Window]] = []
        for i, r in enumerate(s.return_vars):
            window = self.window(r)
            if window is None:
                continue
            for y in arms:
                if y is None or not window.same(self.window(y.value[i])):
                    message = f"Every tile branch arm must yield its declared storage: '{r.name_hint}'"
                    self.report(703, message, y.span if y is not None else s.span)
            places.append((r, window))
        self.apart(places, "branch results", s.span, identical=True)

    def apart(self, places: list[tuple[Var, Window]], what: str, span: Span, identical: bool) -> None:
        """Values that live side by side lie side by side."""
        for i, (v, a) in enumerate(places):
            for w, b in places[:i]:
                if not a.overlaps(b) or (identical and a.same(b)):
                    continue
                if a.offset is None or b.offset is None:
                    message = f"unprovable symbolic overlap of {what} '{w.name_hint}' and '{v.name_hint}'"
                    self.report(705, message, span)
                else:
                    self.report(704, f"{what} '{w.name_hint}' and '{v.name_hint}': their windows overlap", span)

    def window(self, e: Expr) -> Window | None:
        t = e.type
        if not isinstance(t, TileType) or t.memref is None or t.memory_space is None:
            return None
        m = t.memref
        offset = m.byte_offset_.value if isinstance(m.byte_offset_, ConstInt) else None
        if self.physical:
            return Window(t.memory_space, None, offset, m.size_, (1, ""))
        index = "" if m.slot_index_ is None else str(getattr(m.slot_index_, "value", id(m.slot_index_)))
        return Window(t.memory_space, m.base_, offset, m.size_, (m.slot_count_, index))
