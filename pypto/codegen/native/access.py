"""The access form: what the C generator knows of a kernel.

A kernel is a region of operations that read and write *views*: a root (an on-chip memory or a tensor), a byte address,
an element offset, two strides and, for on-chip memory, the byte range that any access through the view stays within.
Loads, stores and moves are lane copies between views, so that fusion sees one kind of thing.
Invariant: legality is decided on byte ranges and views alone, never on names, and never on trust in a planner.
"""

from __future__ import annotations

from typing import Literal

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir import arith
from pypto.ir.expr import Expr, Var, const_index
from pypto.ir.lanes import LaneProgram
from pypto.ir.opdef import Reduce
from pypto.ir.shaped import const_dim
from pypto.named import NamedTuple
from pypto.span import Span

__all__ = [
    "ArrayOp",
    "Check",
    "Copies",
    "ElementWrite",
    "Exchange",
    "FaultKind",
    "ForItem",
    "IfItem",
    "Item",
    "LaneOp",
    "Meet",
    "Operand",
    "Outside",
    "ReduceOp",
    "Region",
    "Root",
    "Routine",
    "ScalarDef",
    "View",
    "WhileItem",
    "disjoint",
    "same_mapping",
]


FaultKind = Literal["bounds", "empty", "memory", "value"]


class Root:
    """Something addresses are relative to: one of the on-chip memories, or a tensor (`var` is its pointer)."""

    __slots__ = ("name", "space", "var")

    def __init__(self, space: MemorySpace, var: Var | None = None) -> None:
        self.space, self.var = space, var
        self.name = space.name if var is None else var.name_hint

    @property
    def on_chip(self) -> bool:
        return self.var is None

    def __repr__(self) -> str:
        return f"<Root {self.name}>"


class View:
    """Element (r, c) lies at `address` bytes plus `offset + r * row + c * col` elements.

    `low`/`high` bound the bytes an on-chip view can touch.  `window` says, for a tensor, where each axis begins and
    how far it extends, for proofs of disjointness.
    """

    __slots__ = ("address", "col", "dtype", "high", "low", "offset", "root", "row", "window")

    def __init__(
        self,
        root: Root,
        dtype: DataType,
        address: int,
        offset: Expr,
        row: Expr,
        col: Expr,
        low: int = 0,
        high: int = 0,
        window: tuple[tuple[Expr, Expr], ...] = (),
    ) -> None:
        self.root, self.dtype, self.address = root, dtype, address
        self.offset, self.row, self.col = offset, row, col
        self.low, self.high, self.window = low, high, window

    def shifted(self, rows: Expr, cols: Expr) -> View:
        """The view of the same elements counted from (rows, cols)."""
        step = arith.add(arith.mul(rows, self.row), arith.mul(cols, self.col))
        return self.replace(offset=arith.add(self.offset, step))

    def transposed(self) -> View:
        return self.replace(row=self.col, col=self.row)

    def replace(
        self,
        *,
        dtype: DataType | None = None,
        offset: Expr | None = None,
        row: Expr | None = None,
        col: Expr | None = None,
        window: tuple[tuple[Expr, Expr], ...] | None = None,
    ) -> View:
        """Another view within the same bytes; with `window`, of another part of a tensor."""
        return View(
            self.root,
            self.dtype if dtype is None else dtype,
            self.address,
            self.offset if offset is None else offset,
            self.row if row is None else row,
            self.col if col is None else col,
            self.low,
            self.high,
            self.window if window is None else window,
        )

    def __repr__(self) -> str:
        return f"<View {self.root.name}+{self.address}[{self.low}:{self.high}] {self.dtype}>"


def same_mapping(a: View, b: View) -> bool:
    """Whether element (r, c) of both views is the same bytes, for every (r, c)."""
    if a is b:
        return True
    return (
        a.root is b.root
        and a.dtype.get_byte() == b.dtype.get_byte()
        and _same_origin(a, b)
        and arith.same(a.row, b.row)
        and arith.same(a.col, b.col)
    )


def _same_origin(a: View, b: View) -> bool:
    """Whether their first elements are one; a constant distance may be part of the address or of the offset."""
    if a.address == b.address:
        return arith.same(a.offset, b.offset)
    apart = const_dim(arith.sub(b.offset, a.offset))
    return apart is not None and a.address - b.address == apart * a.dtype.get_byte()


def disjoint(a: View, b: View) -> bool:
    """Provably no byte in common.  Different tensors count as disjoint: the call refuses arrays that overlap."""
    if a.root is not b.root:
        return True
    if a.root.on_chip:
        return a.high <= b.low or b.high <= a.low
    for (x, m), (y, n) in zip(a.window, b.window, strict=False):
        gap = const_dim(arith.sub(y, x))
        if gap is None:
            continue
        left, right = const_dim(m), const_dim(n)
        if (gap >= 0 and left is not None and gap >= left) or (gap <= 0 and right is not None and -gap >= right):
            return True
    return False


class Operand(NamedTuple):
    """One input of a lane operation: a view under a pattern, or a scalar."""

    pattern: str
    view: View | None
    scalar: Expr | None
    dtype: DataType


class LaneOp(NamedTuple):
    """`dst[r, c] = program(operands at (r, c))` for (r, c) in the rectangle; `mask` packs bits instead."""

    program: LaneProgram
    operands: tuple[Operand, ...]
    dst: View
    rows: Expr
    cols: Expr
    mask: bool
    name: str
    span: Span


class ReduceOp(NamedTuple):
    """A reduction of the rectangle of `src` into a column (axis 1) or a row (axis 0) of `dst`."""

    spec: Reduce
    src: View
    dst: View
    rows: Expr
    cols: Expr
    name: str
    span: Span


class Outside(NamedTuple):
    """`dst[r, c] = value` where r >= rows or c >= cols, within the physical extents."""

    dst: View
    rows: Expr
    cols: Expr
    height: int
    width: int
    value: Expr
    name: str
    span: Span


class Copies(NamedTuple):
    """A transfer between a tile and a window of more than two strided axes: `extents` with strides on both sides."""

    dst: View
    src: View
    extents: tuple[Expr, ...]
    dst_strides: tuple[Expr, ...]
    src_strides: tuple[Expr, ...]
    name: str
    span: Span


class Routine(NamedTuple):
    """A function of the C headers over views: `function(dst, row, col, source, row, col, ..., numbers...)`.

    Pointers are those of element (0, 0), strides count elements, numbers are `int64_t`.  `reads_dst`: elements of `dst`
    that the function does not write keep their values, or it reads them.  `fault`: a kind and a message; the function then
    returns `PP_FINE`, or the number that the message shows.  `rects`: of each source, the rows and columns that are read, where
    they are known to be a rectangle and the function takes the source by any strides as fast as a copy would be made.
    `written`: the rows and columns of `dst` of which every element is written, where they are known to be a rectangle.
    `leaves`: the function may as well write a tensor: it writes nothing else, nothing where it fails, and takes as its last
    argument whether its stores bypass the caches.
    `alone`: where the sums of a product begin (its last number is 1), nothing that `dst` held counts.
    `packs`: so many of its first sources it may keep in a form of its own; for each it takes, as a last argument, where, or NULL.
    """

    function: str
    header: str
    dst: View
    sources: tuple[View, ...]
    numbers: tuple[Expr, ...]
    reads_dst: bool
    fault: tuple[FaultKind, str] | None
    name: str
    span: Span
    rects: tuple[tuple[Expr, Expr], ...] = ()
    written: tuple[Expr, Expr] | None = None
    leaves: bool = False
    packs: int = 0
    alone: bool = False


class ScalarDef(NamedTuple):
    """A scalar variable: an expression, or one element read from memory."""

    var: Var
    value: Expr | None
    element: View | None
    span: Span


class ElementWrite(NamedTuple):
    """One element written."""

    dst: View
    value: Expr
    span: Span


class Exchange(NamedTuple):
    """A call that deals with functions that run beside this one: nothing moves across it, and it is never left out.

    `function(this run's end, dst, row, col, src, row, col, numbers...)`, without the views that are not there; `fault` as of
    a Routine.
    """

    function: str
    header: str
    dst: View | None
    src: View | None
    numbers: tuple[Expr, ...]
    fault: tuple[FaultKind, str] | None
    name: str
    span: Span


class ArrayOp(NamedTuple):
    """An array of scalars: a new one (no `array`), another name (no `at`), an element read, or an element replaced.

    `in_place`: the result takes the storage of `array`, whose value nobody reads any more.
    """

    var: Var | None
    array: Expr | None
    at: Expr | None
    value: Expr | None
    in_place: bool
    span: Span


class Check(NamedTuple):
    """Run-time conditions: (what must hold, axis, three values to show).

    `what` is "window", "target", "part" or "place" (a window that is read, one that is written, one within a tile, an element;
    values: offset, extent, size), "extent" (extent, limit), "operand" (read, valid), "sum" (valid, valid in
    the product), "element" (index, valid), "cores" (cores, blocks), "written <name>", "step", or the name of a reduction whose
    extent is empty.
    """

    what: str
    conditions: tuple[tuple[Expr, int, tuple[Expr, ...]], ...]
    guard: tuple[Expr, ...]  # checked only if all of these are positive
    span: Span


class Meet(NamedTuple):
    """This block waits for all others of its launch."""

    span: Span


class Region(NamedTuple):
    items: tuple[Item, ...]


class IfItem(NamedTuple):
    """`results` are scalars assigned at the end of each arm from `then_values` / `else_values`."""

    condition: Expr
    then: Region
    otherwise: Region
    results: tuple[Var, ...]
    then_values: tuple[Expr, ...]
    else_values: tuple[Expr, ...]
    span: Span


class ForItem(NamedTuple):
    """A counted loop; `carried` scalars start at `initial`, become `next` at the end of each trip, end in `results`.

    `parallel`: whoever wrote it allows its trips in any order.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    carried: tuple[Var, ...]
    initial: tuple[Expr, ...]
    next: tuple[Expr, ...]
    results: tuple[Var, ...]
    body: Region
    parallel: bool
    span: Span


class WhileItem(NamedTuple):
    """As ForItem, while `condition`, evaluated at the head after `head`, holds."""

    condition: Expr
    carried: tuple[Var, ...]
    initial: tuple[Expr, ...]
    next: tuple[Expr, ...]
    results: tuple[Var, ...]
    body: Region
    span: Span


Compute = LaneOp | ReduceOp | Outside | Copies | Routine
Item = Compute | ScalarDef | ArrayOp | ElementWrite | Exchange | Check | Meet | IfItem | ForItem | WhileItem

ZERO, ONE = const_index(0), const_index(1)
