"""Products of matrices, as `Matmul` of `pypto.ir.opdef` defines them: one k after the other."""

from __future__ import annotations

import numpy as np

from pypto.debug.apply import Application
from pypto.debug.lanes import Array, fma32, run
from pypto.debug.memory import Block
from pypto.debug.moves import writable
from pypto.dtypes import DataType
from pypto.errors import KernelBoundsError
from pypto.ir.opdef import Matmul
from pypto.ir.ops.casts import cast_lanes

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
    if form.acc is not None and not _starts_afresh(app, form):
        c[...] = app.block(form.acc).read(shape)
    if form.bias is not None:
        c[...] = app.block(form.bias).read((1, shape[-1]))
    with np.errstate(all="ignore"):
        for k in range(depth):
            x, y = np.broadcast_arrays(a[..., :, k, None], b[..., None, k, :])
            c = fma32(x, y, c) if sums is np.float32 else c + x * y
    dest = writable(app) if form.acc is not None else app.destination()
    if form.acc is not None and _starts_afresh(app, form):
        dest.write(np.zeros(app.block(form.acc).valid, dest.dtype.numpy()))  # also where no product is added
    dest.write(_stored(c, dest.dtype))
    return dest


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
