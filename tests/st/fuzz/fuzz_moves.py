"""Values that come from memory or from other values' storage: loads, windows, relabels, padding, copies, element writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz_scalars import index
from fuzz_shapes import element, op, operand
from fuzz_values import BYTES, Global, Impossible, Shaped, X, aligned

if TYPE_CHECKING:
    from fuzz_body import Body

Form = Callable[["Body", Shaped, int], "X | None"]


def _list(parts: list[str]) -> str:
    return "[" + ", ".join(parts) + "]"


def _texts(parts: list[X]) -> tuple[str, str]:
    return _list([p.kernel for p in parts]), _list([p.twin for p in parts])


def _extents(valid: tuple[str, ...]) -> str:
    return _list(list(valid))


# -- from global memory ------------------------------------------------------------------------------------------------


def origin(b: Body, of: Shaped) -> X:
    """A value that needs no other: read from a tensor in global memory."""
    if of.nameless:
        raise Impossible
    if b.level == "tile":
        return loaded(b, of)
    return _tensor_window(b, of)


def _placed(b: Body, of: Shaped, g: Global, sizes: list[int]) -> list[X]:
    return [index(b, 0, n - s) for n, s in zip(g.shape, sizes, strict=True)]


def loaded(b: Body, of: Shaped) -> X:
    sizes = [b.most(v, n) for v, n in zip(of.valid, of.shape, strict=True)]
    name, g = b.source(of.dtype, *sizes)
    kernel, twin = _texts(_placed(b, of, g, sizes))
    shape = list(of.shape)
    text = f"{b.r.pick(['pl.load', 'pl.load', 'pl.tile.load'])}({name}, {kernel}, {shape}"
    if of.full and b.r.chance(80):
        return X(f"{text})", f"R.load({name}, {twin}, {shape})", of)
    valid = _extents(of.valid)
    said = f", valid_shape={valid}" if b.r.chance(60) else f", {valid}"
    return X(f"{text}{said})", f"R.load({name}, {twin}, {shape}, {valid})", of)


def _tensor_window(b: Body, of: Shaped) -> X:
    """A tensor itself, or a window of one."""
    if of.full and b.r.chance(30):
        name, _ = b.source(of.dtype, *of.shape, exact=True)
        return X(name, name, of)
    sizes = [b.most(v, n) for v, n in zip(of.valid, of.shape, strict=True)] if not of.full else list(of.shape)
    if not of.full or b.r.chance(30):
        # The window itself lies within the tensor, whatever part of it is valid.
        sizes = list(of.shape)
        name, g = b.source(of.dtype, *sizes)
        kernel, twin = _texts(_placed(b, of, g, sizes))
        valid = "" if of.full else f", valid_shape={_extents(of.valid)}"
        said = "" if of.full else f", {_extents(of.valid)}"
        shape = list(of.shape)
        return X(f"{op(b, 'slice')}({name}, {shape}, {kernel}{valid})", f"R.slice_({name}, {shape}, {twin}{said})", of)
    name, g = b.source(of.dtype, *sizes)
    at = [b.named(i) if not i.kernel.isdigit() else i for i in _placed(b, of, g, sizes)]
    cuts = [_cut(i, n, full) for i, n, full in zip(at, of.shape, g.shape, strict=True)]
    return X(f"{name}[{', '.join(cuts)}]", f"R.slice_({name}, {list(of.shape)}, {_list([i.twin for i in at])})", of)


def _cut(at: X, extent: int, size: int) -> str:
    if at.kernel.isdigit():
        start = int(at.kernel)
        return ":" if (start, extent) == (0, size) else f"{start}:{start + extent}"
    return f"{at.kernel}:{at.kernel} + {extent}"


# -- windows of values -------------------------------------------------------------------------------------------------


def window(b: Body, of: Shaped, depth: int) -> X | None:
    """A part of a larger value."""
    if not of.full or not of.own:
        return None
    rows, cols = of.shape
    larger = [
        (n, v)
        for n, v in b.scope.of_kind(Shaped)
        if (v.level, v.dtype) == (of.level, of.dtype)
        and v.full
        and v.shape != of.shape
        and v.shape[0] >= rows
        and v.shape[1] >= cols
    ]
    larger = [(n, v) for n, v in larger if v.shape[1] > 1]
    if not larger:
        return None
    name, v = b.r.pick(larger)
    step = max(1, 32 // BYTES[of.dtype])
    column = b.r.number(0, (v.shape[1] - cols) // step) * step if b.r.chance(90) else b.r.number(0, v.shape[1] - cols)
    row = index(b, 0, v.shape[0] - rows)
    shape = list(of.shape)
    twin, part = f"R.slice_({name}, {shape}, [{row.twin}, {column}])", of._replace(own=b.level == "tensor")
    if row.kernel.isdigit() and b.r.chance(50):
        first = int(row.kernel)
        return X(f"{name}[{first}:{first + rows}, {column}:{column + cols}]", twin, part)
    if b.level == "tile" and b.r.chance(20):
        return X(f"pl.tile.extract({name}, {row.kernel}, {column}, {shape}, target_memory=pl.Mem.Vec)", twin, of)
    return X(f"{op(b, 'slice')}({name}, {shape}, [{row.kernel}, {column}])", twin, part)


def assembled(b: Body, of: Shaped, depth: int) -> X | None:
    """A value with a window replaced."""
    rows, cols = of.shape
    if not of.full or rows < 2:
        return None
    part = (rows // 2, cols) if b.r.chance(70) or cols % 2 else (rows, cols // 2)
    if not aligned(of.dtype, part) or cols == 1:
        return None
    x = operand(b, of, depth)
    w = operand(b, of._replace(shape=part, valid=tuple(map(str, part))), depth)
    row = index(b, 0, rows - part[0])
    column = b.r.pick([0, cols - part[1]])
    twin = f"R.assemble({x.twin}, {w.twin}, [{row.twin}, {column}])"
    return X(f"{op(b, 'assemble')}({x.kernel}, {w.kernel}, [{row.kernel}, {column}])", twin, of)


# -- relabels and padding ----------------------------------------------------------------------------------------------


def reshaped(b: Body, of: Shaped, depth: int) -> X | None:
    if not of.full:
        return None
    count = of.shape[0] * of.shape[1]
    others = [
        (n, v)
        for n, v in b.scope.of_kind(Shaped)
        if (v.level, v.dtype) == (of.level, of.dtype)
        and v.full
        and v.own
        and v.shape != of.shape
        and v.shape[0] * v.shape[1] == count
    ]
    shape = list(of.shape)
    if others and b.r.chance(70):
        name, _ = b.r.pick(others)
        return X(f"{op(b, 'reshape')}({name}, {shape})", f"R.reshape({name}, {shape})", of)
    rows, cols = of.shape
    if rows % 2 or not aligned(of.dtype, (rows // 2, cols * 2)) or cols == 1:
        return None
    there = [rows // 2, cols * 2]
    x = operand(b, of, depth)
    if not x.kernel.isidentifier() or not b.scope.owns(x.kernel):
        return None
    return X(f"pl.reshape(pl.reshape({x.kernel}, {there}), {shape})", f"R.reshape(R.reshape({x.twin}, {there}), {shape})", of)


def narrowed(b: Body, of: Shaped, depth: int) -> X | None:
    """Another valid rectangle."""
    if of.full or len(of.shape) != 2 or of.nameless:
        return None
    x = operand(b, of._replace(valid=tuple(map(str, of.shape))), depth)
    if x.kernel.isidentifier() and not b.scope.owns(x.kernel):
        return None
    rows, cols = of.valid
    return X(f"{op(b, 'set_validshape')}({x.kernel}, {rows}, {cols})", f"R.set_valid({x.twin}, {rows}, {cols})", of)


def padded(b: Body, of: Shaped, depth: int) -> X | None:
    if not of.full:
        return None
    partial = [
        v
        for _, v in b.scope.of_kind(Shaped)
        if (v.level, v.dtype, v.shape) == (of.level, of.dtype, of.shape) and not v.full and v.own
    ]
    liked = [s for s in b.shapes(of.dtype) if s.shape == of.shape and not s.full]
    if not partial and not liked:
        return None
    x = operand(b, b.r.pick(partial or liked), depth)
    kind = b.r.pick(["zero", "max", "min"])
    spelled = f"pl.PadValue.{kind}"
    if kind == "zero" and b.r.chance(30):
        return X(f"{op(b, 'fillpad')}({x.kernel})", f'R.fillpad({x.twin}, "{kind}")', of)
    said = f"pad_value={spelled}" if b.r.chance(50) else spelled
    return X(f"{op(b, 'fillpad')}({x.kernel}, {said})", f'R.fillpad({x.twin}, "{kind}")', of)


def reinterpreted(b: Body, of: Shaped, depth: int) -> X | None:
    """Integers as floats: bits that are numbers, whatever they are."""
    if (of.dtype, of.full) not in (("FP32", True), ("FP16", True)) or of.shape[-1] == 1:
        return None
    source = {"FP32": "INT32", "FP16": "INT16"}[of.dtype]
    x = operand(b, of._replace(dtype=source), depth)
    return X(f"{op(b, 'reinterpret_view')}({x.kernel}, pl.{of.dtype})", f'R.reinterpret({x.twin}, "{of.dtype}")', of)


def copied(b: Body, of: Shaped, depth: int) -> X | None:
    if b.level != "tile":
        return None
    x = operand(b, of, depth)
    if of.full and b.r.chance(40):
        shape = list(of.shape)
        return X(f"pl.tile.extract({x.kernel}, 0, 0, {shape}, target_memory=pl.Mem.Vec)", f"R.value({x.twin})", of)
    return X(f"pl.move({x.kernel}, target_memory=pl.Mem.Vec)", f"R.value({x.twin})", of)


def written(b: Body, of: Shaped, depth: int) -> X | None:
    """One element replaced."""
    if not of.full or of.dtype not in ("FP32", "INT32") or b.level != "tile":
        return None
    x = operand(b, of, depth)
    s = element(b, of.dtype)
    if not x.kernel.isidentifier() or (s.kernel in b.scope.names and b.scope.names[s.kernel].dtype != of.dtype):
        return None
    if not s.twin.startswith("R.element") or s.kernel.strip("(-)")[:1].isalpha():
        return None
    row, column = index(b, 0, of.shape[0] - 1), index(b, 0, of.shape[1] - 1)
    kernel = f"{op(b, 'write')}({x.kernel}, [{row.kernel}, {column.kernel}], {s.kernel})"
    return X(kernel, f"R.write({x.twin}, [{row.twin}, {column.twin}], {s.twin})", of)


def from_memory(b: Body, of: Shaped, depth: int) -> X | None:
    return origin(b, of)


FORMS: list[tuple[int, Form]] = [
    (3, from_memory),
    (2, window),
    (2, assembled),
    (2, reshaped),
    (2, narrowed),
    (2, padded),
    (1, reinterpreted),
    (1, copied),
    (1, written),
]
