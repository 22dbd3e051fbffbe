"""Windows of tensors as views, and the run-time conditions under which a transfer stays inside its tensor.

In: a tensor type, offsets and extents.  Out: a two-stride view where the window's leading axes merge, explicit strides
where they do not, and one `Check` item for what is not known before the kernel runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pypto.codegen.native.access import ONE, ZERO, Check, Root, View
from pypto.ir import arith, scalar
from pypto.ir.analyzer import Analyzer
from pypto.ir.expr import Expr, const_index
from pypto.ir.opdef import COL, MASK, ROW
from pypto.ir.shaped import TensorType, TileType, const_dim
from pypto.span import Span

__all__ = [
    "are_first_rows",
    "element_check",
    "extent_check",
    "offset_of",
    "operand_check",
    "rows_check",
    "tensor_strides",
    "transfer_check",
    "window_strides",
    "window_view",
]

Condition = tuple[Expr, int, tuple[Expr, ...]]  # of a `Check`: what must hold, axis, values to show


def tensor_strides(t: TensorType) -> tuple[Expr, ...]:
    """Strides in elements: those of the view, else packed row-major."""
    view = t.tensor_view
    if view is not None and view.stride:
        return view.stride
    strides: list[Expr] = [ONE] * len(t.shape)
    for i in range(len(t.shape) - 2, -1, -1):
        strides[i] = arith.mul(strides[i + 1], t.shape[i + 1])
    return tuple(strides)


def window_view(root: Root, t: TensorType, offsets: Sequence[Expr], extents: Sequence[Expr]) -> View | None:
    """The window as rows and columns, or None where its leading axes do not merge into one stride."""
    strides = tensor_strides(t)
    row = _row_stride(t, strides, extents)
    if row is None:
        return None
    window = tuple(zip(offsets, extents, strict=True))
    return View(root, t.dtype, 0, offset_of(t, offsets), row, strides[-1] if strides else ONE, window=window)


def offset_of(t: TensorType, place: Sequence[Expr]) -> Expr:
    """Where an element lies, counted in elements from the first one."""
    offset: Expr = ZERO
    for o, s in zip(place, tensor_strides(t), strict=True):
        offset = arith.add(offset, arith.mul(o, s))
    return offset


def _row_stride(t: TensorType, strides: Sequence[Expr], extents: Sequence[Expr]) -> Expr | None:
    """The stride from one row of the window to the next, all axes but the last merged."""
    leading = [i for i in range(len(extents) - 1) if not arith.is_const(extents[i], 1)]
    if not leading:
        return strides[-2] if len(strides) > 1 else ZERO
    # Each axis must continue where the one after it ends.
    for outer, inner in pairwise(leading):
        if not arith.same(strides[outer], arith.mul(extents[inner], strides[inner])):
            return None
    return strides[leading[-1]]


def are_first_rows(valid: Sequence[Expr], extents: Sequence[Expr]) -> bool:
    """Whether the valid part of a window is its first rows, all axes but the last taken as rows."""
    leading = [(v, e) for v, e in zip(valid[:-1], extents[:-1], strict=True)]
    partial = next((i for i, (v, _) in enumerate(leading) if not arith.is_const(v, 1)), len(leading))
    return all(arith.same(v, e) for v, e in leading[partial + 1 :])


def window_strides(width: int, extents: Sequence[Expr]) -> tuple[Expr, ...]:
    """Strides of a row-major tile of `width` columns that holds a window of these extents, axis by axis."""
    strides: list[Expr] = [ONE] * len(extents)
    for i in range(len(extents) - 2, -1, -1):
        inner = const_index(width) if i == len(extents) - 2 else extents[i + 1]
        strides[i] = arith.mul(strides[i + 1], inner) if i < len(extents) - 2 else inner
    return tuple(strides)


def transfer_check(
    offsets: Sequence[Expr], extents: Sequence[Expr], limits: Sequence[Expr], span: Span, what: str = "window"
) -> Check | None:
    """What must hold for a window to lie inside its tensor or tile; None where it is known.

    An empty window transfers nothing and may begin anywhere.  what: of `Check`, a kind of window.
    """
    conditions: list[Condition] = []
    for axis, (o, e, n) in enumerate(zip(offsets, extents, limits, strict=True)):
        a, b, c = const_dim(o), const_dim(e), const_dim(n)
        if (a is not None and b is not None and c is not None and a >= 0 and a + b <= c) or b == 0:
            continue
        end = arith.add(o, e)
        # Never `o + e`, which a hostile offset makes wrap: with 0 < e and 0 <= n, `n - e` cannot.
        inside = scalar.le(e, n) if a == 0 else scalar.le(o, arith.sub(n, e))
        if a is None or a < 0:
            inside = scalar.and_(scalar.ge(o, ZERO), inside)
        if not (arith.same(end, n) and a is not None and a >= 0):
            conditions.append((inside, axis, (o, e, n)))
    if not conditions:
        return None
    return Check(what, tuple(conditions), tuple(e for e in extents if not const_dim(e)), span)


def extent_check(extents: Sequence[Expr], shape: Sequence[Expr], span: Span) -> Check | None:
    """Run-time valid extents must lie within the tile; None where they are known to."""
    conditions: list[Condition] = []
    for axis, (e, n) in enumerate(zip(extents, shape, strict=True)):
        if const_dim(e) is None and not arith.same(e, n):
            within = scalar.and_(scalar.ge(e, ZERO), scalar.le(e, n))
            if Analyzer().decide(within) is not True:
                conditions.append((within, axis, (e, n, ZERO)))
    return Check("extent", tuple(conditions), (), span) if conditions else None


def operand_check(pattern: str, t: TileType, rect: TileType, span: Span) -> Check | None:
    """An operand must be valid wherever the operation reads it; None where it is known to be.

    pattern: of `Lanewise`.  rect: the tile whose valid rectangle the operation runs over.
    """
    rows, cols = rect.valid[-2:]
    if pattern == MASK:
        cols = arith.floordiv(arith.add(cols, const_index(7)), const_index(8))  # a bit for each element
    reads = (rows, cols) if pattern not in (ROW, COL) else (rows, ONE) if pattern == ROW else (ONE, cols)
    found = [
        _reads_valid(read, held, axis)
        for axis, (read, held, have) in enumerate(zip(reads, t.valid[-2:], t.shape[-2:], strict=True))
        if not (const_dim(have) == 1 or arith.same(held, have))
    ]
    conditions = tuple(c for c in found if c is not None)
    return Check("operand", conditions, (), span) if conditions else None


def rows_check(read: Expr, held: Expr, span: Span) -> Check | None:
    """An operand of which `held` rows are valid must be so in the `read` first ones; None where it is known to be."""
    condition = _reads_valid(read, held, 0)
    return Check("operand", (condition,), (), span) if condition is not None else None


def _reads_valid(read: Expr, held: Expr, axis: int) -> Condition | None:
    """That no more is read along an axis than is valid; None where it is known."""
    m, n = const_dim(read), const_dim(held)
    if arith.same(read, held) or (m is not None and n is not None and m <= n):
        return None
    return scalar.le(read, held), axis, (read, held, ZERO)


def element_check(indices: Sequence[Expr], t: TileType | TensorType, span: Span) -> Check | None:
    """The element that is read must be a valid one; None where that is known, or the shape says it all."""
    conditions: list[Condition] = []
    for axis, (i, held, have) in enumerate(zip(indices, t.valid, t.shape, strict=True)):
        a, n = const_dim(i), const_dim(held)
        if arith.same(held, have) or (a is not None and n is not None and a < n):
            continue
        conditions.append((scalar.lt(i, held), axis, (i, held, ZERO)))
    return Check("element", tuple(conditions), (), span) if conditions else None
