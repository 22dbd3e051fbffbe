"""What moves between memories in ways of its own: padding, blocks by their bytes, copies along an axis, elements written by
index, sums in global memory.

In: a text under construction and, for expressions, what is wanted.  Out: an expression of exactly that type or None; statements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz_indexing import indices
from fuzz_scalars import index
from fuzz_shapes import op, operand
from fuzz_values import BYTES, Global, Shaped, X, aligned, whole

if TYPE_CHECKING:
    from fuzz_body import Body

Form = Callable[["Body", Shaped, int], "X | None"]
_SUMMED = ("FP32", "FP16", "BF16", "INT32", "INT16", "INT8")


def enlarged(b: Body, of: Shaped, depth: int) -> X | None:
    """A smaller value, what is around it filled; a value filled where it lies."""
    if not of.full or of.shape[1] == 1:
        return None
    kind = b.r.pick(["zero", "max", "min"])
    if b.level == "tile" and b.r.chance(40):
        partial = [s for s in b.shapes(of.dtype) if s.shape == of.shape and not s.full]
        if not partial:
            return None
        x = b.named(operand(b, b.r.pick(partial), depth))
        if not b.scope.owns(x.kernel):
            return None
        return X(f"pl.tile.fillpad_inplace({x.kernel}, pl.PadValue.{kind})", f'R.fillpad({x.twin}, "{kind}")', of)
    rows, cols = of.shape
    step = 32 // BYTES[of.dtype]
    small = (b.r.number(1, rows), step * b.r.number(1, max(1, cols // step)))
    if small[1] > cols or not aligned(of.dtype, of.shape):
        return None
    x = operand(b, whole(b.level, of.dtype, *small), depth)
    text = f"{op(b, 'fillpad_expand')}({x.kernel}, {[rows, cols]}, pl.PadValue.{kind})"
    return X(text, f'R.fillpad_expand({x.twin}, {[rows, cols]}, "{kind}")', of)


def blocks(b: Body, of: Shaped, depth: int) -> X | None:
    """Blocks of 32 bytes by their offsets."""
    rows, cols = of.shape
    size = cols * BYTES[of.dtype]
    if b.level != "tile" or not of.full or size % 256 or not aligned(of.dtype, b.base):
        return None
    bytes_ = b.base[0] * b.base[1] * BYTES[of.dtype]
    x = operand(b, whole("tile", of.dtype, *b.base), depth)
    i = indices(b, "UINT32", bytes_ // 32, rows, size // 32, step=32)
    return X(f"{op(b, 'gatherb')}({x.kernel}, {i.kernel})", f"R.gatherb({x.twin}, {i.twin})", of)


def viewed(b: Body, of: Shaped, depth: int) -> X | None:
    """A tensor under another shape."""
    if b.level != "tensor" or not of.full or of.shape[1] == 1:
        return None
    rows, cols = of.shape
    there = (rows * 2, cols // 2) if cols % 2 == 0 and b.r.chance(50) else (1, rows * cols)
    if not aligned(of.dtype, there):
        return None
    name, _ = b.source(of.dtype, *there, exact=True)
    return X(f"pl.tensor.view({name}, {[rows, cols]})", f"R.reshape(R.value({name}), {[rows, cols]})", of)


def made(b: Body, of: Shaped, depth: int) -> X | None:
    """A new tile, filled from memory row by row."""
    if b.level != "tile" or not of.full or of.shape[1] == 1:
        return None
    name, g = b.source(of.dtype, *of.shape)
    shape, at = list(of.shape), index(b, 0, g.shape[0] - of.shape[0])
    spelled = b.r.pick(["pl.create_tile", "pl.tile.create"])
    text = f"pl.gather_row({spelled}({shape}, dtype=pl.{of.dtype}), {name}, [0, 0], [{at.kernel}, 0], {shape})"
    return X(text, f"R.load({name}, [{at.twin}, 0], {shape})", of)


# -- statements ----------------------------------------------------------------------------------------------------------


def by_index(b: Body) -> None:
    """Elements of a tensor of their own replaced."""
    values = [(n, v) for n, v in b.scope.of_kind(Shaped) if v.level == "tile" and v.full and v.shape[1] > 1]
    values = [(n, v) for n, v in values if aligned("INT32", v.shape)]
    if not values or b.level != "tile" or b.block is not None:
        return
    name, of = b.r.pick(values)
    region = b.arrays.region(of.dtype, *of.shape, alone=True)
    i = indices(b, "INT32", of.shape[0] * of.shape[1], *of.shape)
    text = f"{op(b, 'mscatter')}({name}, {i.kernel}, {region.name})"
    b.lines.put(f"{region.name} = {text}", f"R.mscatter({name}, {i.twin}, {region.name})")


def summed_up(b: Body) -> None:
    """Added to what an output holds."""
    values = [(n, v) for n, v in b.scope.of_kind(Shaped) if v.level == b.level and v.dtype in _SUMMED and v.full]
    if not values or b.block is not None:
        return
    name, of = b.r.pick(values)
    region = b.arrays.region(of.dtype, *of.shape)
    o = b.arrays.reading(region.name)
    where = f"[{region.row}, {region.col}]"
    text = f"pl.store({name}, {where}, {o}" if b.level == "tile" else f"pl.assemble({o}, {name}, {where}"
    b.lines.put(f"{o} = {text}, atomic=pl.AtomicType.Add)", f"R.add_to({name}, {where}, {o})")


def clones(b: Body) -> None:
    """A tensor of the entry's own: another one repeated along an axis."""
    dtype = b.r.pick(["FP32", "INT32", "FP16"])
    shape = [b.r.number(1, 3), b.r.pick([4, 8]), b.r.pick([16, 32])]
    axis = b.r.number(0, 1)
    if shape[axis] == 1 or sum(n == 1 for n in shape) > 0:
        shape[0] = 2
    source = tuple(1 if i == axis else n for i, n in enumerate(shape))
    x, _ = b.block_of(dtype, source)
    name, flat = b.fresh("u"), b.fresh("w")
    create = b.r.pick(["pl.create_tensor", "pl.tensor.create"])
    b.lines.put(f"{name} = {create}({shape}, dtype=pl.{dtype})", f'{name} = R.temporary({shape}, "{dtype}")')
    b.lines.put("with pl.at(level=pl.Level.CORE_GROUP):", "if True:")
    with b.lines.nested():
        b.lines.put(f"{name} = pl.expand_clone({x}, {name})", f"{name}[...] = {x}")
    rows = [shape[0] * shape[1], shape[2]]
    b.lines.put(f"{flat} = pl.reshape({name}, {rows})", f"{flat} = R.reshape({name}, {rows})")
    b.scope.bind(flat, Global(dtype, (rows[0], rows[1])))


FORMS: list[tuple[int, Form]] = [(2, enlarged), (1, blocks), (1, viewed), (1, made)]
STATEMENTS: list[tuple[int, Callable[[Body], None]]] = [(1, by_index), (1, summed_up)]
