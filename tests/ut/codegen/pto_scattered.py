"""What instructions that read or write by index, and those that sort, do; for `pto_instructions`.

In: an instruction and the handles and parts of arrays that it names.  Out: nothing; destinations are changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pto_memory import Array, Handle, MachineError
from pto_syntax import Op

from pypto.debug import sorting
from pypto.debug.memory import everything

__all__ = ["SCATTERED"]

# First column and step.
_PATTERNS = {
    "P0101": (0, 2),
    "P1010": (1, 2),
    "P0001": (0, 4),
    "P0010": (1, 4),
    "P0100": (2, 4),
    "P1000": (3, 4),
    "P1111": (0, 1),
}


def _apart(sources: Sequence[Any], out: Any) -> None:
    for s in sources:
        if isinstance(s, Handle) and isinstance(out, Handle) and s.overlaps(out):
            raise MachineError(f"{s.name} and the destination {out.name} overlap")


def _whole(source: Handle) -> Array:
    """All elements, what is valid and what is not."""
    return source.place.get(everything(source.tile.shape))


def _gather(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    out = outs[0]
    _apart(args, out)
    if len(args) == 1:
        first, step = _PATTERNS[op.attrs["maskPattern"].removeprefix("#pto.mask_pattern<").removesuffix(">")]
        found = args[0].read(args[0].valid)[:, first::step]
    else:
        _apart(args[:2], args[2])
        args[2].poison()
        index = args[1].read(args[1].valid).astype(np.int64)
        flat = _whole(args[0]).reshape(-1)
        inside = (index >= 0) & (index < flat.size)
        found = np.where(inside, flat[np.where(inside, index, 0)], np.zeros((), flat.dtype)).astype(flat.dtype)
    if found.shape != out.valid:
        raise MachineError(f"{found.shape} elements for {out.valid}")
    out.write(np.ascontiguousarray(found).view(out.dtype.numpy()))


def _gather_blocks(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    source, offset = args
    _apart(args, outs[0])
    size = source.tile.size
    at = offset.read(offset.valid).astype(np.int64)
    if (at % 32).any() or (at < 0).any() or (at >= source.tile.bytes).any():
        raise MachineError("an offset of no block")
    flat = _whole(source).reshape(-1)
    found = flat[(at[..., None] // size + np.arange(32 // size)).reshape(at.shape[0], -1)]
    if found.shape != outs[0].valid:
        raise MachineError(f"{found.shape} elements for {outs[0].valid}")
    outs[0].write(found)


def _scatter(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    source, index, out = args[0], args[1], outs[0]
    _apart(args, out)
    at = index.read(index.valid).astype(np.int64).reshape(-1)
    values = source.read(index.valid).reshape(-1)
    if (at < 0).any() or (at >= math.prod(out.tile.shape)).any():
        raise MachineError("an index of no element")
    for k, v in zip(at, values, strict=True):
        r, c = divmod(int(k), out.tile.cols)
        out.place.put((slice(r, r + 1), slice(c, c + 1)), v)


def _gather_global(op: Op, args: Sequence[Any], outs: Sequence[Handle]) -> None:
    memory, index, out = args[0], args[1], outs[0]
    _apart([index], out)
    rows = "row" in op.attrs["coalesce"]
    at = _whole(index).astype(np.int64)
    at = at.reshape(-1)[: out.valid[0]] if rows else at[everything(out.valid)]
    count = memory.shape[0] if rows else memory.size
    mode = op.attrs.get("gatherOob", "#pto<gather_oob undefined>").removeprefix("#pto<gather_oob ").removesuffix(">")
    unsigned = at & 0xFFFFFFFF
    inside = unsigned < count
    if mode == "undefined" and not inside.all():
        raise MachineError("an index of nothing")
    at = {"clamp": np.minimum(unsigned, count - 1), "wrap": unsigned % count}.get(mode, np.where(inside, unsigned, 0))
    found = memory.reshape(memory.shape[0], -1)[at][:, : out.valid[1]] if rows else memory.reshape(-1)[at]
    if mode == "zero":
        found = np.where(inside[:, None] if rows else inside, found, np.zeros((), found.dtype))
    out.write(np.ascontiguousarray(found))


def _scatter_global(op: Op, args: Sequence[Handle], outs: Sequence[Array]) -> None:
    source, index = args
    at = index.read(index.valid).astype(np.int64)
    values, memory = source.read(index.valid), outs[0]
    if (at < 0).any() or (at >= memory.size).any():
        raise MachineError("an index of no element")
    for k, v in zip(at.reshape(-1), values.reshape(-1), strict=True):
        memory[np.unravel_index(int(k), memory.shape)] = v


def _sort(op: Op, args: Sequence[Handle], outs: Sequence[Handle]) -> None:
    source, index, out = args[0], args[1], outs[0]
    _apart(args, out)
    rows, cols = source.valid
    values, at = (h.read(source.valid).reshape(-1, 32) for h in (source, index))
    wide = values.astype(np.float64)
    order = np.lexsort((at, -wide, ~np.isnan(wide)), axis=-1)
    pairs = sorting._pairs(np.take_along_axis(values, order, 1), np.take_along_axis(at, order, 1))
    out.write(pairs.reshape(rows, -1))


def _merge(op: Op, args: Sequence[Any], outs: Sequence[Any]) -> None:
    out = outs[0]
    width = 8 // out.tile.size
    if "exhausted" in op.attrs:
        *sources, scratch = args
        _apart(sources, scratch)
        _apart([*sources, scratch], out)
        scratch.poison()
        lists = [s.read(s.valid) for s in sources]
        until = op.attrs["exhausted"] == "true"
        made = [sorting._merged([x[r] for x in lists], width, until) for r in range(out.valid[0])]
        out.write(np.stack(made))
        return
    source, length = args
    _apart([source], out)
    if length % 64 or source.valid[0] != 1:
        raise MachineError(f"runs of {length} in {source.valid}")
    x = source.read(source.valid)
    merged = np.zeros_like(x)
    for at in range(0, x.shape[1], 4 * length):
        group = x[0, at : at + 4 * length]
        merged[0, at : at + len(group)] = sorting._merged([group[k : k + length] for k in range(0, len(group), length)], width)
    out.write(merged)


SCATTERED: dict[str, Callable[[Op, Sequence[Any], Sequence[Any]], Any]] = {
    "tgather": _gather,
    "tgatherb": _gather_blocks,
    "tscatter": _scatter,
    "mgather": _gather_global,
    "mscatter": _scatter_global,
    "tsort32": _sort,
    "tmrgsort": _merge,
}
