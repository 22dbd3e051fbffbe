"""Storage of buffer-stage functions: what each handle covers, and that no operation destroys what it reads.

In: a function of the buffer stage.  Out: operands of one operation that overlap though one is written, windows whose
place cannot be proved, extents changed through a view, and windows used after their buffer's extents changed.
Addresses and offsets are folded through scalar definitions; a window at a run-time offset, and every window of it,
stands for the whole it is cut from; gaps between rows count as covered.  Run-time extents of what one operation transfers
or combines are equal as expressions, where one path says them: two unknown numbers are no proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pypto.enums import ArgEffect, MemorySpace
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var, const_index
from pypto.ir.layout import box_of
from pypto.ir.opdef import Lanewise, OpDef
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import BufferType
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, IfStmt, ScopeStmt, Stmt, WhileStmt, flatten_to_stmts
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = ["Window", "check_buffer_storage", "handle_windows"]

Report = Callable[[str, Span], None]


class Window(NamedTuple):
    """What a handle covers: `length` bytes from `offset` of its root; lines `pitch` bytes apart."""

    space: MemorySpace
    root: Var
    address: int | None  # of the root; None: the planner chooses
    offset: int
    length: int
    pitch: int
    exact: bool  # the place is known; otherwise this is the whole it lies in
    is_view: bool
    version: int  # of the root's extents when the handle came into being

    def same_place(self, other: Window) -> bool:
        (a, *mine), (b, *theirs) = self.interval(), other.interval()
        return self.exact and other.exact and a is b and mine == theirs and self.pitch == other.pitch

    def interval(self) -> tuple[Var | None, int, int]:
        base = None if self.address is not None else self.root
        low = (self.address or 0) + self.offset
        return base, low, low + self.length

    def disjoint(self, other: Window) -> bool | None:
        """Whether two windows share no byte; None where that cannot be known."""
        if self.space is not other.space:
            return True
        (a, low, high), (b, low2, high2) = self.interval(), other.interval()
        if a is b:
            return high <= low2 or high2 <= low
        if a is not None and b is not None:
            return True  # allocations without addresses never overlap one another
        return None


def check_buffer_storage(f: Function, report: Report) -> None:
    """Report every finding about a buffer-stage function."""
    _Storage(f, report).body(f.body)


def handle_windows(f: Function) -> Mapping[Var, Window]:
    """Where each handle of a buffer-stage function lies."""
    storage = _Storage(f, lambda message, span: None)
    storage.body(f.body)
    return storage.windows


class _Storage:
    def __init__(self, f: Function, report: Report) -> None:
        self.report = report
        self.windows: dict[Var, Window] = {}
        self.versions: dict[Var, int] = {}
        self.told: dict[Var, tuple[Expr, ...]] = {}  # the run-time extents of handles, where they are known
        self.values = {n.var: n.value for n in walk(f.body) if isinstance(n, AssignStmt) and not isinstance(n.value, Call)}
        for p in f.params:
            if isinstance(p.type, BufferType):
                self.windows[p] = self._whole(p, p.type, None)

    def body(self, s: Stmt | None) -> None:
        for stmt in flatten_to_stmts(s):
            self.statement(stmt)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, AssignStmt) and isinstance(s.value, Call) and isinstance(s.var.type, BufferType):
            self.define(s.var, s.var.type, s.value)
        elif isinstance(s, EvalStmt) and isinstance(s.expr, Call):
            self.operation(s.expr)
        elif isinstance(s, IfStmt):
            self._branch(s)
        elif isinstance(s, (ForStmt, WhileStmt)):
            self._enter_loop(s)
            before = dict(self.told)
            self.body(s.body)
            self.told = before
        elif isinstance(s, ScopeStmt):
            self.body(s.body)

    def _branch(self, s: IfStmt) -> None:
        before = dict(self.told)
        self.body(s.then_body)
        then, self.told = self.told, before
        self.body(s.else_body)
        self.told = {h: e for h, e in self.told.items() if h in then and self._same(e, then[h])}

    def _same(self, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
        apart = [arith.linear(x, self.values).plus(arith.linear(y, self.values), -1) for x, y in zip(a, b, strict=True)]
        return not any(d.terms or d.constant for d in apart)

    def _enter_loop(self, s: ForStmt | WhileStmt) -> None:
        """Extents set anywhere in a loop have changed by its second iteration."""
        for n in walk(s.body):
            if isinstance(n, Call) and n.op.name == "buffer.set_validshape" and isinstance(n.args[0], Var):
                w = self.windows.get(n.args[0])
                self.told.pop(n.args[0], None)
                if w is not None:
                    self.versions[w.root] = self.versions.get(w.root, 0) + 1

    # -- where handles lie --

    def constant(self, e: Expr) -> int | None:
        form = arith.linear(e, self.values)
        return None if form.terms else form.constant

    def _whole(self, v: Var, t: BufferType, address: int | None) -> Window:
        return Window(t.memory_space, v, address, 0, _bytes(t), _line(t), True, False, 0)

    def define(self, v: Var, t: BufferType, c: Call) -> None:
        boxes = box_of(t.layout, t.dtype)
        if not t.layout.is_flat and any(n % box for n, box in zip(t.physical_shape[-2:], boxes, strict=False)):
            what = f"matrix storage must be whole boxes of {boxes[0]} x {boxes[1]}, got {list(t.physical_shape)}"
            self.report(f"'{v.name_hint}': {what}", c.span)
        if c.op.name == "buffer.alloc":
            address = self.constant(c.args[1]) if len(c.args) > 1 else None
            if len(c.args) > 1 and address is None:
                self.report(f"'{v.name_hint}': Buffer allocation requires a constant effective address", c.span)
            if address is not None and address < 0:
                self.report(f"'{v.name_hint}': the effective address must be nonnegative, got {address}", c.span)
            self.windows[v] = self._whole(v, t, address)
            if isinstance(c.args[0], MakeTuple) and any(n < 0 for n in t.valid_shape):
                given = iter(c.args[0].elements)
                self.told[v] = tuple(const_index(n) if n >= 0 else next(given) for n in t.valid_shape)
            return
        source = c.args[0]
        w = self.windows.get(source) if isinstance(source, Var) else None
        if w is None:
            self.report(f"'{v.name_hint}': Buffer view requires proven source-window provenance", c.span)
            return
        self._use(source, c)
        version = self.versions.get(w.root, 0)
        if c.op.name == "buffer.reshape":
            self.windows[v] = w._replace(pitch=_line(t), is_view=True, version=version)
        else:
            self.windows[v] = self._cut(t, w, c)._replace(is_view=True, version=version)
            if any(n < 0 for n in t.valid_shape) and len(c.args) > 2 and isinstance(c.args[2], MakeTuple):
                self.told[v] = c.args[2].elements

    def _cut(self, t: BufferType, w: Window, c: Call) -> Window:
        assert isinstance(c.args[1], MakeTuple)
        row, col = (self.constant(e) for e in c.args[1].elements)
        if row is None or col is None or not w.exact:
            return w._replace(exact=False)
        element = t.dtype.get_byte()
        rows, cols = t.physical_shape
        offset = w.offset + row * w.pitch + col * element
        return w._replace(offset=offset, length=(rows - 1) * w.pitch + cols * element)

    # -- operations --

    def operation(self, c: Call) -> None:
        op = ops.of(c)
        if op is None:
            return
        if c.op.name == "buffer.set_validshape":
            self._set_extents(c)
            return
        effects = op.effects(c.kwargs)
        handles = [(i, a, self.windows[a]) for i, a in enumerate(c.args) if isinstance(a, Var) and a in self.windows]
        for _, a, _ in handles:
            self._use(a, c)
        self._extents(op, [a for _, a, _ in handles], c)
        for i, a, r in handles:
            for k, b, w in handles:
                if i != k and effects[k] is not ArgEffect.Read and effects[i] is not ArgEffect.Write:
                    self._pair(c, op.in_place and i not in op.no_alias, (a, r), (b, w))

    def _pair(self, c: Call, in_place: bool, read: tuple[Var, Window], written: tuple[Var, Window]) -> None:
        (a, r), (b, w) = read, written
        apart = r.disjoint(w)
        names = f"{c.op.name}: '{a.name_hint}' and '{b.name_hint}'"
        if apart:
            return
        if apart is None:
            self.report(f"{names}: requires provably disjoint constant addresses or addressless allocations", c.span)
        elif not in_place:
            self.report(f"{names}: requires disjoint placed source and destination ranges", c.span)
        elif a is not b and not r.same_place(w):
            self.report(f"{names}: rejects partially overlapping placed source and destination ranges", c.span)

    def _set_extents(self, c: Call) -> None:
        handle = c.args[0]
        w = self.windows.get(handle) if isinstance(handle, Var) else None
        if w is None:
            return
        if w.is_view:
            self.report("cannot mutate static view metadata", c.span)
        self.versions[w.root] = self.versions.get(w.root, 0) + 1
        assert isinstance(handle, Var)
        assert isinstance(c.args[1], MakeTuple)
        self.told[handle] = c.args[1].elements

    def _extents(self, op: OpDef, handles: Sequence[Var], c: Call) -> None:
        """What is transferred is what the handle was told; what is combined was told the same."""
        told = [(h, self.told[h]) for h in handles if h in self.told]
        if op.concept in ("load", "store"):
            stated = next(a for a in c.args[2:] if isinstance(a, MakeTuple)).elements
        elif told and (isinstance(op.semantics, Lanewise) or op.concept == "copy"):
            stated = told[-1][1]
        else:
            return
        for h, extents in told:
            if not self._same(extents, stated):
                self.report(f"{c.op.name}: other extents than those that '{h.name_hint}' was told", c.span)

    def _use(self, e: Expr, c: Call) -> None:
        """A view shows the extents its buffer had when it was made."""
        assert isinstance(e, Var)
        w = self.windows[e]
        if w.is_view and w.version != self.versions.get(w.root, 0):
            self.report(f"{c.op.name}: '{e.name_hint}' was cut before the extents of its buffer changed", c.span)


def _bytes(t: BufferType) -> int:
    count = 1
    for n in t.physical_shape:
        count *= n
    return count * t.dtype.get_byte()


def _line(t: BufferType) -> int:
    """Bytes from one line to the next of a dense buffer."""
    return t.physical_shape[-1] * t.dtype.get_byte()
