"""Which tiles are windows: cut from another tile, at offsets that exist only where the slice is written.

In: a function over placed tiles.  Out: the slice (or the relabel of a window) that each window stands for, and the tiles
that windows are cut from or assembled into.
"""

from __future__ import annotations

from pypto.ir import arith, ops
from pypto.ir.expr import Call, Expr, MakeTuple, Var
from pypto.ir.opdef import Special
from pypto.ir.program import Function
from pypto.ir.shaped import TileType
from pypto.ir.stmt import AssignStmt
from pypto.ir.structural import compare
from pypto.passes.statements import statements

__all__ = ["Windows", "find_windows", "same_window"]


class Windows:
    """The windows of one function."""

    def __init__(self) -> None:
        self.cuts: dict[Var, Call] = {}
        self.parents: set[Var] = set()

    def is_window_of(self, source: Expr, target: Expr, offset: Expr) -> bool:
        """Whether a tile is exactly the window of the target's storage at an offset."""
        cut = self.cuts.get(source) if isinstance(source, Var) else None
        if cut is None or cut.op.name != "tile.slice" or not _same_place(cut.args[0], target):
            return False
        a, b = cut.args[2], offset
        assert isinstance(a, MakeTuple)
        assert isinstance(b, MakeTuple)
        return all(arith.same(x, y) for x, y in zip(a.elements, b.elements, strict=True))


def _same_place(a: Expr, b: Expr) -> bool:
    return isinstance(a.type, TileType) and isinstance(b.type, TileType) and same_window(a.type, b.type)


def same_window(a: TileType, b: TileType) -> bool:
    """Whether two tiles lie on exactly the same bytes in the same shape."""
    same_bytes = a.memref is not None and b.memref is not None and compare(a.memref, b.memref) is None
    return same_bytes and a.dims == b.dims and a.dtype is b.dtype and a.memory_space is b.memory_space


def find_windows(f: Function) -> Windows:
    """The windows of a function, in program order."""
    found = Windows()
    for n in statements(f.body):
        if not isinstance(n, AssignStmt) or not isinstance(n.var.type, TileType):
            continue
        value = n.value
        if isinstance(value, Var):
            if value in found.cuts:
                found.cuts[n.var] = found.cuts[value]
            continue
        op = ops.of(value) if isinstance(value, Call) else None
        if op is None or not isinstance(value, Call):
            continue
        source = value.args[0] if value.args else None
        if op.concept == "slice":
            found.cuts[n.var] = value
            if isinstance(source, Var) and source not in found.cuts:
                found.parents.add(source)
        elif isinstance(op.semantics, Special) and op.semantics.kind == "view" and source in found.cuts:
            found.cuts[n.var] = value
        elif op.concept == "assemble":
            found.parents.add(n.var)
    return found
