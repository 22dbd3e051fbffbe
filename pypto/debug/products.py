"""Products of matrices, as `Matmul` of `pypto.ir.opdef` defines them: one k after the other.

A product writes the elements of its own extents.  One that is added to storage that nothing wrote is the first of its sum:
it starts at 0, and the sum is valid in its extents.

The matrix unit writes whole boxes of Acc memory: in a buffer, what lies in a box beside the product is undefined afterwards,
and only boxes that the product does not touch keep what they held.
"""

from __future__ import annotations

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.lanes import Array, fma32, run
from pypto.debug.memory import Block, everything, poisoned
from pypto.debug.moves import writable
from pypto.dtypes import DataType
from pypto.errors import InternalError, KernelBoundsError
from pypto.ir.layout import box_of
from pypto.ir.opdef import Matmul
from pypto.ir.ops.casts import cast_lanes
from pypto.ir.shaped import BufferType

__all__ = ["matmul"]


def matmul(app: Application, form: Matmul) -> Block:
    """The product written over the accumulator, or into the result's own storage."""
    lhs = _matrix(app, form.lhs, "a_trans")
    depth = lhs.shape[-1]
    rhs = _matrix(app, form.rhs, "b_trans")
    if rhs.shape[-2] < depth:
        raise KernelBoundsError(
            f"{app.op.name}: {depth} rows of the right operand are read, of which {rhs.shape[-2]} are valid",
            app.span,
            "narrow the left operand with pl.set_validshape, or pl.fillpad the right one",
        )
    sums = np.int32 if app.block(form.lhs).dtype is DataType.INT8 else np.float32
    a, b = lhs.astype(sums), rhs.astype(sums)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    c = np.zeros(shape, sums)
    acc = app.block(form.acc) if form.acc is not None else None
    if acc is not None and not acc.undefined:
        _check_within(app, acc, shape)
    if acc is not None and not acc.undefined and not _starts_afresh(app, form):
        c[...] = acc.read(shape)
    if form.bias is not None:
        c[...] = app.block(form.bias).read((1, shape[-1]))
    with np.errstate(all="ignore"):
        for k in range(depth):
            x, y = np.broadcast_arrays(a[..., :, k, None], b[..., None, k, :])
            c = fma32(x, y, c) if sums is np.float32 else c + x * y
    if app.op.level == "buffer":
        dest = app.destination()
        _touch_boxes(app, dest, shape)
    else:
        dest = writable(app) if acc is not None else app.destination()
    dest.write(_stored(c, dest.dtype))
    return _valid_in(shape, dest) if acc is not None and acc.undefined else dest


def _check_within(app: Application, acc: Block, product: tuple[int, ...]) -> None:
    if any(n > held for n, held in zip(product, acc.valid, strict=True)):
        raise KernelBoundsError(
            f"{app.op.name}: a product of {list(product)} is added to a sum that is valid in {list(acc.valid)}",
            app.span,
            "begin with the widest product, or say what is valid: acc = pl.set_validshape(acc, rows, cols)",
        )


def _valid_in(product: tuple[int, ...], dest: Block) -> Block:
    """The first product of a sum makes it as wide as it is itself."""
    made = Block(dest.place, dest.dtype, dest.shape, product, dest.gm)
    made.narrow = product != tuple(dest.valid)
    return made


def _touch_boxes(app: Application, dest: Block, product: tuple[int, ...]) -> None:
    """All boxes that a product of these extents is written into lose what they held."""
    t = app.call.args[len(app.args) - 1].type
    if not isinstance(t, BufferType):
        raise InternalError(f"{app.op.name} is applied to no buffer")
    boxes = zip(product, box_of(t.layout, t.dtype), dest.shape, strict=True)
    touched = tuple(min((n + box - 1) // box * box, size) for n, box, size in boxes)
    if 0 not in touched:
        dest.place.put(everything(touched), poisoned(touched, dest.dtype))


def _matrix(app: Application, i: int, turned: str) -> Array:
    """The valid elements of an operand, its last two axes swapped where the operator says so."""
    block = app.block(i)
    values = block.read(block.valid)
    return values.swapaxes(-1, -2) if app.kwargs.get(turned) else values


def _starts_afresh(app: Application, form: Matmul) -> bool:
    return form.init is not None and form.init < len(app.args) and bool(app.args[form.init])


def _stored(c: Array, dtype: DataType) -> Array:
    source = DataType.INT32 if c.dtype == np.int32 else DataType.FP32
    return c if source is dtype else run(cast_lanes(source, dtype, None), [c])
