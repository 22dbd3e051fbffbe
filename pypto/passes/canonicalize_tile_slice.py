"""CanonicalizeTileSlice: windows that an instruction cannot read in place become copies.

In: kernels with windows of tiles.  Out: a window that begins at no provable 32-byte boundary, that is relabelled though
its rows are apart, or that is one column of a wider tile, is an independent copy (`tile.extract`); extracts of windows
read the tile behind them; unused windows are gone, and so are those of tiles in boxes (`boxed_windows`).
Invariant: values do not change; windows with their own valid shape stay as written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto._lazy import later
from pypto.enums import MemorySpace, TileLayout
from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var
from pypto.ir.node import Node
from pypto.ir.opdef import COL, Lanewise, Special
from pypto.ir.program import Function
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType, const_dims, same_dims
from pypto.ir.stmt import AssignStmt, ForStmt, Stmt, WhileStmt, YieldStmt
from pypto.ir.verify.properties import IRProperty
from pypto.named import NamedTuple
from pypto.passes.context import PassOptions
from pypto.passes.framework import function_pass
from pypto.passes.memory.windows import ScalarValues, is_block_aligned, is_dense_window, scalar_values, window_offset
from pypto.passes.retype import used_vars
from pypto.passes.ssa_rewriter import SSARewriter, typed_call
from pypto.passes.statements import applies

if TYPE_CHECKING:
    from pypto.passes import boxed_windows
else:
    boxed_windows = later("pypto.passes", "boxed_windows")

__all__ = ["canonicalize_tile_slice"]


class Window(NamedTuple):
    """A window as an offset into the tile behind it."""

    base: Var
    row: Expr
    col: Expr


def _is_plain_slice(e: Expr) -> bool:
    return isinstance(e, Call) and e.op.name == "tile.slice" and len(e.args) == 3


def _window(c: Call, known: dict[Var, Window]) -> Window | None:
    """The window a slice makes, offsets of slices of slices added up; None for other memories than Vec."""
    source = c.args[0]
    assert isinstance(c.args[2], MakeTuple)
    if not isinstance(source, Var) or not isinstance(source.type, TileType) or len(c.args[2].elements) != 2:
        return None
    if source.type.memory_space not in (None, MemorySpace.Vec) or not source.type.layout.is_flat:
        return None
    row, col = c.args[2].elements
    outer = known.get(source)
    if outer is None:
        return Window(source, row, col)
    return Window(outer.base, arith.index_add(outer.row, row), arith.index_add(outer.col, col))


def _must_copy(f: Function) -> frozenset[Var]:
    """Windows that some use of them cannot read in place."""
    values = scalar_values(f.body)
    windows: dict[Var, Window] = {}
    for n in walk(f.body):
        if isinstance(n, AssignStmt) and isinstance(n.value, Call) and _is_plain_slice(n.value):
            w = _window(n.value, windows)
            if w is not None:
                windows[n.var] = w
    copied: set[Var] = set()
    for n in walk(f.body):
        copied |= {v for v in _readers(n, windows) if _unreadable(v, windows[v], values)}
        if isinstance(n, Call):
            copied |= {v for v in _strict_operands(n, windows, values)}
    return frozenset(copied)


def _readers(n: Node, windows: dict[Var, Window]) -> list[Var]:
    """Windows whose elements a node reads where they are."""
    used: tuple[Expr, ...] = ()
    if isinstance(n, Call):
        op = ops.of(n)
        passes = op is not None and isinstance(op.semantics, Special) and op.semantics.kind in ("extract",)
        used = () if passes or n.op.name == "tile.slice" else n.args
    elif isinstance(n, AssignStmt):
        used = (n.value,)
    elif isinstance(n, YieldStmt):
        used = n.value
    elif isinstance(n, (ForStmt, WhileStmt)):
        used = tuple(a.initValue for a in n.iter_args)
    return [v for v in used if isinstance(v, Var) and v in windows]


def _unreadable(v: Var, w: Window, values: ScalarValues) -> bool:
    whole, window = w.base.type, v.type
    assert isinstance(whole, TileType)
    assert isinstance(window, TileType)
    dims = const_dims(window.shape)
    # A column of a wider tile: what is computed from it would be one element per row of its own.
    column = dims is not None and dims[0] > 1 and dims[1] == 1 and whole.layout.blayout is TileLayout.row_major
    return column or not is_block_aligned(window_offset(whole, w.row, w.col, values))


def _strict_operands(c: Call, windows: dict[Var, Window], values: ScalarValues) -> list[Var]:
    """Windows in places that want more than a boundary: relabels want dense bytes, column vectors a fixed place."""
    op = ops.of(c)
    found: list[Var] = []
    if op is None or not c.args:
        return found
    first = c.args[0]
    if isinstance(op.semantics, Special) and op.concept in ("reshape", "reinterpret_view") and isinstance(first, Var):
        w = windows.get(first)
        if w is not None and isinstance(first.type, TileType) and isinstance(w.base.type, TileType):
            found += [] if is_dense_window(first.type, w.base.type) else [first]
    if isinstance(op.semantics, Lanewise):
        for a, pattern in zip(c.args, op.semantics.patterns, strict=False):
            if pattern == COL and isinstance(a, Var) and a in windows and isinstance(a.type, TileType):
                w = windows[a]
                fixed = not arith.linear(w.row, values).terms and not arith.linear(w.col, values).terms
                found += [] if fixed else [a]
    return found


class _Canonicalizer(SSARewriter):
    def __init__(self, f: Function) -> None:
        super().__init__()
        self.copied = _must_copy(f)
        self.windows: dict[Var, Window] = {}

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        made = super().visit_assign_stmt(s)
        assert isinstance(made, AssignStmt)
        if not isinstance(made.value, Call) or not _is_plain_slice(made.value):
            return made
        w = _window(made.value, self.windows)
        if w is None:
            return made
        if s.var in self.copied:
            return self.assign(made, self._copy(made, made.value, w))
        self.windows[made.var] = w
        return made

    def _copy(self, s: AssignStmt, c: Call, w: Window) -> Expr:
        """The window as a tile of its own, valid where the window is."""
        made = typed_call("tile.extract", (w.base, w.row, w.col, c.args[1]), {"target_memory": MemorySpace.Vec}, c.span)
        copy, window = made.type, s.var.type
        assert isinstance(copy, TileType)
        assert isinstance(window, TileType)
        if same_dims(copy.valid, window.valid):
            return made
        return typed_call("tile.set_validshape", (self.let(s.var.name_hint, made), *window.valid), None, c.span)

    def visit_call(self, c: Call) -> Expr:
        made = super().visit_call(c)
        if not isinstance(made, Call) or made.op.name != "tile.extract" or not isinstance(made.args[0], Var):
            return made
        w = self.windows.get(made.args[0])
        if w is None:
            return made
        row, col = arith.index_add(w.row, made.args[1]), arith.index_add(w.col, made.args[2])
        return self.recall(made, (w.base, row, col, made.args[3]))


class _DeadWindows(SSARewriter):
    """Drops windows that nothing reads."""

    def __init__(self, used: dict[Var, None]) -> None:
        super().__init__()
        self.used = used

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt | None:
        dead = isinstance(s.value, Call) and s.value.op.name == "tile.slice" and s.var not in self.used
        return None if dead else s


def _without_dead(f: Function) -> Function:
    while True:
        made = _DeadWindows(used_vars(f.body)).function(f)
        if made is f:
            return f
        f = made


@function_pass(
    "CanonicalizeTileSlice",
    requires=(IRProperty.SSAForm, IRProperty.SplitIncoreOrch, IRProperty.IncoreTileOps, IRProperty.TileOps2D),
    produces=(IRProperty.SSAForm, IRProperty.NormalizedStmtStructure),
)
def canonicalize_tile_slice(f: Function, options: PassOptions) -> Function:
    if not f.is_device or not applies(f, "tile.slice"):
        return f
    f = boxed_windows.without_boxed_windows(f)
    while True:  # once a window is a copy, windows of it begin elsewhere
        made = _without_dead(_Canonicalizer(f).function(f))
        if made is f:
            return f
        f = made
