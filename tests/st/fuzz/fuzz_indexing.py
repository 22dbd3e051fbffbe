"""Expressions that rearrange, and that read and write by index; indices lie where the operators may look.

In: a text under construction and what is wanted.  Out: an expression of exactly that type, or None where a form does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz_scalars import index
from fuzz_shapes import op, operand
from fuzz_values import BYTES, Shaped, X, aligned, whole

if TYPE_CHECKING:
    from fuzz_body import Body

Form = Callable[["Body", Shaped, int], "X | None"]

_GATHERED = ("FP32", "FP16", "INT32", "INT16")
_SCATTERED = (*_GATHERED, "UINT32", "BF16", "UINT16", "INT8", "UINT8")


def indices(b: Body, dtype: str, limit: int, rows: int, cols: int, step: int = 1) -> X:
    """A value of that level whose elements are multiples of a step, fewer than a limit."""
    name, g = b.indices(dtype, limit, rows, cols, step=step)
    shape = [rows, cols]
    at = [index(b, 0, n - s) for n, s in zip(g.shape, shape, strict=True)]
    kernel, twin = f"[{at[0].kernel}, {at[1].kernel}]", f"[{at[0].twin}, {at[1].twin}]"
    if b.level == "tile":
        return X(f"pl.load({name}, {kernel}, {shape})", f"R.load({name}, {twin}, {shape})")
    if g.shape == (rows, cols) and b.r.chance(60):
        return X(name, name)
    return X(f"pl.slice({name}, {shape}, {kernel})", f"R.slice_({name}, {shape}, {twin})")


def _column(of: Shaped) -> bool:
    return of.shape[1] == 1


# -- rearranging -------------------------------------------------------------------------------------------------------


def transposed(b: Body, of: Shaped, depth: int) -> X | None:
    if of.nameless or (b.level == "tensor" and not of.full):
        return None
    turned = of._replace(shape=of.shape[::-1], valid=of.valid[::-1])
    if not aligned(of.dtype, turned.shape) or 1 in of.shape:
        return None
    x = operand(b, turned, depth)
    axes = b.r.pick(["0, 1", "1, 0", "-1, -2", "0, -1"])
    if of.full:
        return X(f"{op(b, 'transpose')}({x.kernel}, {axes})", f"R.transpose({x.twin})", of)
    # A turned tile may claim more than was computed: it is narrowed.
    text = f"pl.set_validshape(pl.transpose({x.kernel}, {axes}), {of.valid[0]}, {of.valid[1]})"
    return X(text, f"R.set_valid(R.transpose({x.twin}), {of.valid[0]}, {of.valid[1]})", of)


def joined(b: Body, of: Shaped, depth: int) -> X | None:
    rows, cols = of.shape
    step = 32 // BYTES[of.dtype]
    if not of.full or _column(of) or cols < 2 * step or not aligned(of.dtype, of.shape):
        return None
    first = step * b.r.number(1, cols // step - 1)
    x = operand(b, whole(b.level, of.dtype, rows, first), depth)
    y = operand(b, whole(b.level, of.dtype, rows, cols - first), depth)
    return X(f"{op(b, 'concat')}({x.kernel}, {y.kernel})", f"R.concat({x.twin}, {y.twin})", of)


def some_columns(b: Body, of: Shaped, depth: int) -> X | None:
    """The columns that a pattern takes; columns of another value replaced by a pattern."""
    if not of.full or _column(of):
        return None
    rows, cols = of.shape
    pattern = b.r.number(1, 7)
    step = {1: 2, 2: 2, 7: 1}.get(pattern, 4)
    if b.r.chance(50):
        x = operand(b, whole(b.level, of.dtype, rows, cols * step), depth)
        name = f"pl.{b.level}.gather_mask" if b.level == "tile" or b.r.chance(30) else "pl.gather"
        return X(f"{name}({x.kernel}, mask_pattern={pattern})", f"R.gather_mask({x.twin}, {pattern})", of)
    if cols % step or not aligned(of.dtype, (rows, cols // step)) or cols == step:
        return None
    dst, x = operand(b, of, depth), operand(b, whole(b.level, of.dtype, rows, cols // step), depth)
    twin = f"R.scatter_mask({dst.twin}, {x.twin}, {pattern})"
    if b.level == "tile":
        return X(f"pl.tile.scatter_mask({dst.kernel}, {x.kernel}, mask_pattern={pattern})", twin, of)
    return X(f"pl.scatter({x.kernel}, mask_pattern={pattern}, dst={dst.kernel})", twin, of)


# -- reading by index --------------------------------------------------------------------------------------------------


def gathered(b: Body, of: Shaped, depth: int) -> X | None:
    """Counted over all of a value, or along an axis of it."""
    if not of.full or of.dtype not in _GATHERED or _column(of):
        return None
    if b.level == "tile":
        return _from_tile(b, of, depth)
    if b.r.chance(50):
        return _along(b, of)
    if not aligned("INT32", of.shape):
        return None
    if b.r.chance(50):
        name, g = b.source(of.dtype, 2, 8)
        x, count = X(name, name), g.shape[0] * g.shape[1]
    else:
        source = whole("tensor", of.dtype, *b.base)
        if not aligned(of.dtype, b.base):
            return None
        x, count = operand(b, source, depth), b.base[0] * b.base[1]
    i = indices(b, "INT32", count, *of.shape)
    text = f"{op(b, 'gather')}({x.kernel}, {i.kernel})" if b.r.chance(60) else f"pl.gather({x.kernel}, index={i.kernel})"
    return X(text, f"R.gather({x.twin}, {i.twin})", of)


def _from_tile(b: Body, of: Shaped, depth: int) -> X | None:
    if not aligned("INT32", of.shape) or not aligned(of.dtype, b.base):
        return None
    x = operand(b, whole("tile", of.dtype, *b.base), depth)
    i = indices(b, "INT32", b.base[0] * b.base[1], *of.shape)
    tmp = f"pl.create_tile({list(of.shape)}, dtype=pl.INT32)"
    return X(f"pl.tile.gather({x.kernel}, {i.kernel}, {tmp})", f"R.gather({x.twin}, {i.twin})", of)


def _along(b: Body, of: Shaped) -> X | None:
    rows, cols = of.shape
    axis = b.r.pick([-1, 1, 0])
    size = (rows + b.r.pick([0, 3]), cols) if axis == 0 else (rows, cols + b.r.pick([0, 8, 64]))
    if not aligned(of.dtype, size) or not aligned("INT32", of.shape):
        return None
    name, g = b.source(of.dtype, *size)
    if g.shape[1 - axis % 2] < size[1 - axis % 2] or not aligned(of.dtype, g.shape):
        return None
    short = BYTES[of.dtype] == 2 and axis != 0 and b.r.chance(40)
    i = indices(b, "INT16" if short else "INT32", g.shape[axis], *of.shape)
    said = f"dim={axis}, index={i.kernel}" if b.r.chance(50) else f"{axis}, {i.kernel}"
    return X(f"{op(b, 'gather')}({name}, {said})", f"R.gather({name}, {i.twin}, {axis})", of)


def from_memory_by_index(b: Body, of: Shaped, depth: int) -> X | None:
    """Rows or elements of a tensor in global memory."""
    if b.level != "tile" or not of.full or _column(of):
        return None
    rows, cols = of.shape
    oob = b.r.pick(["", "", "clamp", "wrap", "zero"])
    said = f', gather_oob="{oob}"' if oob else ""
    twin = f', "{oob}"' if oob else ""
    if b.r.chance(50) and aligned("INT32", (1, rows)):
        name, g = b.source(of.dtype, 4, cols, exact=False)
        if g.shape[1] != cols:
            return None
        i = indices(b, "INT32", 3 * g.shape[0] if oob else g.shape[0], 1, rows)
        return X(f'pl.mgather({name}, {i.kernel}, "row"{said})', f"R.mgather({name}, {i.twin}, True{twin})", of)
    if not aligned("INT32", of.shape):
        return None
    name, g = b.source(of.dtype, 4, 8)
    count = g.shape[0] * g.shape[1]
    i = indices(b, "INT32", 2 * count if oob else count, *of.shape)
    return X(f"pl.tile.mgather({name}, {i.kernel}, 1{said})", f"R.mgather({name}, {i.twin}, False{twin})", of)


def rows_put_together(b: Body, of: Shaped, depth: int) -> X | None:
    """An accumulator with a window of a tensor, as long as the run says."""
    if b.level != "tile" or not of.full or _column(of):
        return None
    rows, cols = of.shape
    acc = operand(b, of, depth)
    name, g = b.source(of.dtype, rows, cols)
    n = index(b, 0, rows) if b.r.chance(60) else X(str(rows), str(rows))
    to = b.r.number(0, min(rows - 1, rows - int(n.kernel))) if n.kernel.isdigit() else 0
    at = [index(b, 0, g.shape[0] - rows), index(b, 0, g.shape[1] - cols)]
    window = [rows - to if n.kernel.isdigit() and b.r.chance(50) else rows, cols]
    n = n if int(n.kernel.isdigit() and n.kernel) <= window[0] else X(str(window[0]), str(window[0]))
    where, said = f"[{at[0].kernel}, {at[1].kernel}]", f"[{at[0].twin}, {at[1].twin}]"
    text = f"{op(b, 'gather_row')}({acc.kernel}, {name}, [{to}, 0], {where}, {window}, valid_shape=[{n.kernel}, {cols}])"
    return X(text, f"R.gather_row({acc.twin}, {name}, [{to}, 0], {said}, [{n.twin}, {cols}])", of)


def from_pages(b: Body, of: Shaped, depth: int) -> X | None:
    if b.level != "tensor" or not of.full or _column(of):
        return None
    rows, cols = of.shape
    block = b.r.pick([2, 4])
    name, g = b.source(of.dtype, 2 * block, cols)
    pages = g.shape[0] // block
    table, t = b.indices("INT32", pages, 1, 6, exact=True)
    at, _ = b.indices("INT32", block * t.shape[0] * t.shape[1], 1, rows, exact=True)
    first = b.r.number(0, g.shape[1] - cols)
    more = f", col_off={first}" if first or b.r.chance(30) else ""
    text = f"pl.paged_gather({name}, {at}, {table}, {block}, {cols}, {rows}, space=pl.Mem.Vec{more})"
    return X(text, f"R.paged_gather({name}, {at}, {table}, {block}, {cols}, {rows}, {first})", of)


# -- writing by index --------------------------------------------------------------------------------------------------


def scattered(b: Body, of: Shaped, depth: int) -> X | None:
    """Elements of each row, elements counted over the whole tile, or whole rows replaced."""
    if not of.full or of.dtype not in _SCATTERED or _column(of):
        return None
    if b.r.chance(40):
        return _rows_updated(b, of, depth)
    rows, cols = of.shape
    kind = "INT32" if BYTES[of.dtype] == 4 else "INT16"
    part = (b.r.number(1, rows), b.r.pick([cols, cols, max(32, cols // 2)]))
    if part[1] > cols or not aligned(kind, part) or not aligned(of.dtype, part):
        return None
    x = operand(b, of, depth)
    src = operand(b, whole(b.level, of.dtype, *part), depth)
    if b.level == "tile":
        if b.scope.names.get(x.kernel) is None:
            x = b.named(x)
        i = indices(b, kind, min(rows * cols, 1 << 15), *part)
        return X(
            f"pl.tile.scatter({x.kernel}, {src.kernel}, {i.kernel})", f"R.scatter({x.twin}, {src.twin}, {i.twin}, False)", of
        )
    i = indices(b, kind, cols, *part)
    said = f"dim=-1, index={i.kernel}, src={src.kernel}" if b.r.chance(50) else f"1, {i.kernel}, {src.kernel}"
    return X(f"{op(b, 'scatter')}({x.kernel}, {said})", f"R.scatter({x.twin}, {src.twin}, {i.twin}, True)", of)


def _rows_updated(b: Body, of: Shaped, depth: int) -> X | None:
    rows, cols = of.shape
    n = b.r.pick([1, 2])
    if not aligned(of.dtype, (8 * n, cols)) or not aligned("INT32", (8 * n, cols)) or rows * cols > 1 << 15:
        return None
    x = operand(b, of, depth)
    src = operand(b, whole(b.level, of.dtype, 8 * n, cols), depth)
    i = indices(b, "INT32", rows, n, 8)
    twin = f"R.scatter_update({x.twin}, {i.twin}, {src.twin})"
    forms = (
        f"{x.kernel}, {i.kernel}, {src.kernel}",
        f"{x.kernel}, -2, {i.kernel}, {src.kernel}",
        f"{x.kernel}, {i.kernel}, {src.kernel}, dim=-2",
    )
    return X(f"{op(b, 'scatter_update')}({b.r.pick(forms)})", twin, of)


# -- sorting -----------------------------------------------------------------------------------------------------------


def in_order(b: Body, of: Shaped, depth: int) -> X | None:
    """Pairs of values and indices in descending order, and runs of them merged."""
    rows, cols = of.shape
    if of.dtype != "FP32" or not of.full or cols % 64:
        return None
    if cols % 128 == 0 and b.r.chance(60):
        if b.r.chance(40):
            x = in_order_of(b, of, depth)
            name = f"pl.{b.level}.mrgsort_format1" if b.r.chance(50) else op(b, "mrgsort")
            return X(f"{name}({x.kernel}, block_len=64)", f"R.merge_runs({x.twin}, 64)", of)
        half = whole(b.level, "FP32", rows, cols // 2)
        x, y = in_order_of(b, half, depth), in_order_of(b, half, depth)
        tmp = f", tmp=pl.create_tile({list(of.shape)}, dtype=pl.FP32)" if b.level == "tile" else ""
        name = f"pl.{b.level}.mrgsort_format2" if b.r.chance(50) else op(b, "mrgsort")
        return X(f"{name}({x.kernel}, {y.kernel}{tmp})", f"R.merge({x.twin}, {y.twin})", of)
    return in_order_of(b, of, depth)


def in_order_of(b: Body, of: Shaped, depth: int) -> X:
    rows, cols = of.shape
    x = operand(b, whole(b.level, "FP32", rows, cols // 2), depth)
    i = indices(b, "UINT32", 1 << 20, rows, cols // 2)
    return b.named(X(f"{op(b, 'sort32')}({x.kernel}, {i.kernel})", f"R.sort32({x.twin}, {i.twin})", of))


FORMS: list[tuple[int, Form]] = [
    (3, transposed),
    (2, joined),
    (2, some_columns),
    (3, gathered),
    (2, from_memory_by_index),
    (1, rows_put_together),
    (1, from_pages),
    (3, scattered),
    (6, in_order),
]
