"""Elementwise operators and reductions, from their declared semantics.

In: an application of an operator to run-time values.  Out: its result, written where the result's type lies.
Invariant: no operator is known by name here; `Lanewise` and `Reduce` of `pypto.ir.opdef` say everything.  An operator that
may not run in place finds its destination overwritten before it reads, so that an illegal placement shows in the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pypto.debug.frame import Frame, Value
from pypto.debug.lanes import Array, rounded_constant, run
from pypto.debug.memory import ArenaPlace, Block, overlap
from pypto.dtypes import DataType
from pypto.errors import InternalError, KernelBoundsError, KernelError
from pypto.ir.expr import Call, Var
from pypto.ir.lanes import lane_type
from pypto.ir.opdef import MASK, PART, SCALAR, UNUSED, Lanewise, OpDef, Reduce
from pypto.ir.scalar import dtype_of
from pypto.ir.shaped import ShapedType, TileType
from pypto.span import Span

__all__ = ["Application", "lanewise", "read_around", "reduce", "require_valid", "scalar_lane"]

_LANES = 64


class Application:
    """One operator applied to values; `var` is the variable that takes the result, where there is one."""

    __slots__ = ("args", "call", "frame", "op", "var")

    def __init__(self, frame: Frame, op: OpDef, call: Call, args: Sequence[Value], var: Var | None) -> None:
        self.frame, self.op, self.call, self.args, self.var = frame, op, call, tuple(args), var

    @property
    def span(self) -> Span:
        return self.call.span

    @property
    def kwargs(self) -> Mapping[str, Any]:
        return self.call.kwargs

    def block(self, i: int) -> Block:
        value = self.args[i]
        if not isinstance(value, Block):
            raise InternalError(f"{self.op.name}: operand {i} is no tensor, tile or buffer but {type(value).__name__}")
        return value

    def result_place(self) -> ArenaPlace | None:
        """Where the variable that takes the result lies, if it lies in a modelled memory."""
        t = self.var.type if self.var is not None else None
        return self.frame.storage.place(t, self.frame.integer) if isinstance(t, TileType) else None

    def check_window(self, offsets: Sequence[int], extents: Sequence[int], limits: Sequence[int], verb: str) -> None:
        """Refuse a window that leaves its tensor or tile; one without elements is never wrong."""
        if any(e <= 0 for e in extents):
            return
        for axis, (o, e, n) in enumerate(zip(offsets, extents, limits, strict=True)):
            if o < 0 or o + e > n:
                raise KernelBoundsError(
                    f"{self.op.name} {verb} elements {o}..{o + e - 1} of dimension {axis}, which has {n}",
                    self.span,
                    "narrow the window, or the valid extents, to what is there",
                )

    def destination(self) -> Block:
        """The block the result is written to: the last operand of a buffer operator, else storage of the result's own."""
        if self.op.level == "buffer":
            return self.block(len(self.args) - 1)
        t = self.call.type
        if not isinstance(t, ShapedType):
            raise InternalError(f"{self.op.name} has a result of type {type(t).__name__}")
        shape = self.frame.extents(t.shape)
        valid = self.frame.valid(t.valid, shape, self.span)
        place = self.result_place()
        if place is not None:
            return Block(place, t.dtype, shape, valid)
        on_chip = isinstance(t, TileType) or self.frame.on_core
        return Block.fresh(t.dtype, shape, valid, gm=not on_chip)


# -- reading operands ------------------------------------------------------------------------------------------------


def read_around(app: Application, dest: Block, reads: Sequence[tuple[int, Any]]) -> dict[int, Array]:
    """Operands by index, each read by its function; those that the result must not overwrite are read after it was."""
    for i in app.op.scratch:
        if i < len(app.args) and isinstance(app.block(i).place, ArenaPlace):
            app.block(i).poison()
    late = [(i, read) for i, read in reads if _must_be_apart(app, dest, i)]
    found = {i: read() for i, read in reads if all(i != j for j, _ in late)}
    if late:
        dest.poison()
    found.update((i, read()) for i, read in late)
    return found


def _must_be_apart(app: Application, dest: Block, i: int) -> bool:
    """Whether operand i overlaps the result in a way that element-by-element execution would not survive."""
    value = app.args[i]
    if not isinstance(value, Block) or not isinstance(dest.place, ArenaPlace):
        return False
    may_share = app.op.in_place and i not in app.op.no_alias
    if may_share and dest.place.coincides(value.place):
        return False
    if not isinstance(value.place, ArenaPlace) or not overlap(value.place, dest.place):
        return False
    # A narrower result that begins where the operand does stays behind the elements still to be read.
    trails = value.place.start == dest.place.start and value.dtype.get_byte() > dest.dtype.get_byte()
    return not (may_share and trails)


def _covering(block: Block, rect: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """What of an operand meets a rectangle of the result: axes of extent 1 repeat, missing leading axes too."""
    n = len(block.shape)
    axes = zip(block.shape, rect[-n:], shape[-n:], strict=True)
    return tuple(min(r, 1) if have == 1 and full != 1 else r for have, r, full in axes)


def scalar_lane(value: Value, dtype: DataType) -> Array:
    """A scalar as an array without axes."""
    return rounded_constant(value, lane_type(dtype)).reshape(())


def _bits(block: Block, rect: tuple[int, ...]) -> Array:
    """A packed mask as booleans."""
    packed = block.read((*rect[:-1], (rect[-1] + 7) // 8))
    return np.unpackbits(packed, axis=-1, bitorder="little")[..., : rect[-1]].astype(np.bool_)


# -- elementwise -----------------------------------------------------------------------------------------------------


def lanewise(app: Application, form: Lanewise) -> Block:
    """Element (r, c) of the result from one element of each operand."""
    dest = app.destination()
    if PART in form.patterns:
        return _in_part(app, form, dest)
    used = [(i, p) for i, p in enumerate(form.patterns) if p != UNUSED]
    dtypes = tuple(_element_type(app, i) for i, _ in used)
    program = form.build(dtypes, dest.dtype, app.kwargs)
    masked = form.result == MASK
    frame = app.block(0) if masked else dest
    rect = frame.valid
    reads = [(i, _reader(app, i, pattern, rect, frame.shape, dtype)) for (i, pattern), dtype in zip(used, dtypes, strict=True)]
    found = read_around(app, dest, reads)
    if 0 in rect:
        return dest
    out = run(program, [found[i] for i, _ in used])
    out = np.broadcast_to(out, rect)
    dest.write(np.packbits(out, axis=-1, bitorder="little") if masked else out)
    return dest


def _in_part(app: Application, form: Lanewise, dest: Block) -> Block:
    """The operator where all operands are valid, the first operand elsewhere."""
    blocks = [app.block(i) for i in range(len(form.patterns))]
    rect = dest.valid
    if app.op.level == "tile":
        require_valid(app, 0, blocks[0], rect)
    common = tuple(min(extents) for extents in zip(rect, *(b.valid for b in blocks[1:]), strict=True))
    inner = tuple(slice(0, n) for n in common)
    reads: list[tuple[int, Any]] = [(0, lambda: blocks[0].read(rect))]
    reads += [(i, lambda b=b: b.read(common)) for i, b in enumerate(blocks[1:], 1)]
    found = read_around(app, dest, reads)
    out = np.array(found[0])
    program = form.build(tuple(b.dtype for b in blocks), dest.dtype, app.kwargs)
    out[inner] = run(program, [out[inner], *(found[i] for i in range(1, len(blocks)))])
    dest.write(out)
    return dest


def _element_type(app: Application, i: int) -> DataType:
    value = app.args[i]
    return value.dtype if isinstance(value, Block) else dtype_of(app.call.args[i])


def _reader(app: Application, i: int, pattern: str, rect: tuple[int, ...], shape: tuple[int, ...], dtype: DataType) -> Any:
    if pattern == SCALAR:
        return lambda: scalar_lane(app.args[i], dtype)
    block = app.block(i)
    if app.op.level == "tile":
        read = (*rect[:-1], (rect[-1] + 7) // 8) if pattern == MASK else rect[-len(block.shape) :]
        require_valid(app, i, block, read)
    if pattern == MASK:
        return lambda: _bits(block, rect)
    return lambda: block.read(_covering(block, rect, shape))


def require_valid(app: Application, i: int, block: Block, read: tuple[int, ...]) -> None:
    """Refuse to read elements of a tile that are not valid: they are whatever memory held."""
    for axis, (want, held, have) in enumerate(zip(read, block.valid, block.shape, strict=True)):
        if held < want and have != 1:
            raise KernelBoundsError(
                f"{app.op.name}: {want} elements of operand {i} along dimension {axis} are read, of which {held} are valid",
                app.span,
                "fill the rest of it with pl.fillpad, or narrow the first operand with pl.set_validshape",
            )


# -- reductions ------------------------------------------------------------------------------------------------------


def reduce(app: Application, form: Reduce) -> Block:
    """A row or column reduction of the valid rectangle, in the order that `Reduce` prescribes."""
    source, dest = app.block(0), app.destination()
    axis = len(source.valid) - (1 if form.axis == 1 else 2)
    if source.valid[axis] == 0:
        raise KernelError(
            f"{app.op.concept}: the valid region is empty along dimension {axis}: a reduction of nothing has no value",
            app.span,
            "guard it with `if`, or make sure that the valid extent is positive",
        )
    x = read_around(app, dest, [(0, lambda: source.read(source.valid))])[0]
    if not x.size:
        return dest
    # The reduced axis last: lanes and rows alike.
    x = np.moveaxis(run(form.enter(source.dtype), [x]), axis, -1)
    whole = (_in_lanes if form.axis == 1 else _in_rows)(form, source.dtype, x)
    out = _first(x, whole) if form.arg else run(form.leave(source.dtype), [whole])
    dest.write(np.expand_dims(out, axis))
    return dest


def _start(form: Reduce, dtype: DataType, shape: tuple[int, ...]) -> Array:
    return np.array(np.broadcast_to(rounded_constant(form.identity(dtype), form.accumulator(dtype)), shape))


def _in_lanes(form: Reduce, dtype: DataType, x: Array) -> Array:
    """Element c to lane c % 64, then halves of the lanes onto each other."""
    combine = form.combine(dtype)
    lanes = _start(form, dtype, (*x.shape[:-1], _LANES))
    for first in range(0, x.shape[-1], _LANES):
        chunk = x[..., first : first + _LANES]
        n = chunk.shape[-1]
        lanes[..., :n] = run(combine, [lanes[..., :n], chunk])
    step = _LANES // 2
    while step:
        lanes[..., :step] = run(combine, [lanes[..., :step], lanes[..., step : 2 * step]])
        step //= 2
    return lanes[..., 0]


def _in_rows(form: Reduce, dtype: DataType, x: Array) -> Array:
    combine = form.combine(dtype)
    total = _start(form, dtype, x.shape[:-1])
    for k in range(x.shape[-1]):
        total = run(combine, [total, x[..., k]])
    return total


def _first(x: Array, kept: Array) -> Array:
    """Index of the first element equal to the one kept; NaN equals NaN."""
    hit = x == kept[..., None]
    if x.dtype.kind == "f":
        hit |= np.isnan(x) & np.isnan(kept)[..., None]
    return np.asarray(np.argmax(hit, axis=-1).astype(np.int32))
