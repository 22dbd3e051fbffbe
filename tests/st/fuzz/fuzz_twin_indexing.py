"""What the operators mean that rearrange, and that read and write by index, said with plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fuzz_twin import V, dtype, fillpad, load, set_valid, value
from fuzz_twin import _fresh as fresh
from fuzz_twin import _inside as inside

Array = Any
Dims = Sequence[int]
_COMPARE = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}


def _all(x: Any) -> Array:
    """The valid elements."""
    x = value(x)
    return inside(x, x.valid)


# -- rearranging -------------------------------------------------------------------------------------------------------


def transpose(x: Any, i: int = 0, j: int = 1) -> V:
    x = value(x)
    valid = list(x.valid)
    valid[i], valid[j] = valid[j], valid[i]
    return V(np.swapaxes(x.data, i, j).copy(), np.swapaxes(x.known, i, j).copy(), tuple(valid))


def concat(x: Any, y: Any) -> V:
    x, y = value(x), value(y)
    a, b = inside(x, x.valid), inside(y, y.valid)
    return fresh(
        np.concatenate([a, b], 1), (x.data.shape[0], x.data.shape[1] + y.data.shape[1]), (len(a), a.shape[1] + b.shape[1])
    )


def gather_mask(x: Any, pattern: int) -> V:
    first, step = PATTERNS[pattern]
    x = value(x)
    return fresh(_all(x)[:, first::step], (x.data.shape[0], x.data.shape[1] // step), _all(x)[:, first::step].shape)


def scatter_mask(dst: Any, x: Any, pattern: int) -> V:
    first, step = PATTERNS[pattern]
    made, a = _all(dst).copy(), _all(x)
    made[: len(a), first : first + step * a.shape[1] : step] = a
    return fresh(made, made.shape, made.shape)


# -- reading by index --------------------------------------------------------------------------------------------------


def gather(x: Any, index: Any, axis: int | None = None) -> V:
    """Counted over all of x, or along an axis."""
    at, a = _all(index).astype(np.int64), _all(x)
    if axis is None:
        return fresh(a.reshape(-1)[at], value(index).data.shape, at.shape)
    cut = tuple(slice(0, n) if i != axis % a.ndim else slice(None) for i, n in enumerate(at.shape))
    return fresh(np.take_along_axis(a[cut], at, axis), value(index).data.shape, at.shape)


def mgather(x: Array, index: Any, rows: bool, oob: str = "undefined") -> V:
    """Rows or elements of a tensor; what leads out of it is counted without a sign."""
    a = x if rows else x.reshape(-1)
    at = _all(index).astype(np.int64)
    at = at.reshape(-1) if rows else at
    n = len(a)
    unsigned = at & 0xFFFFFFFF
    if oob == "undefined":
        made = a[at]
    else:
        made = a[np.minimum(unsigned, n - 1) if oob == "clamp" else unsigned % n].copy()
        if oob == "zero":
            made[unsigned >= n] = 0
    return fresh(made, made.shape, made.shape)


def gather_row(acc: Any, x: Array, to: Dims, at: Dims, valid: Dims) -> V:
    """A window of a tensor put into an accumulator; what of it was not defined is afterwards."""
    acc = value(acc)
    data, known = acc.data.copy(), acc.known.copy()
    window = load(x, at, valid, valid)
    cut = tuple(slice(o, o + n) for o, n in zip(to, valid, strict=True))
    if any(o < 0 or o + n > e for o, n, e in zip(to, valid, data.shape, strict=True)):
        raise IndexError("a window leaves the accumulator")
    data[cut], known[cut] = window.data, True
    return V(data, known, acc.valid)


def gatherb(x: Any, offsets: Any) -> V:
    """Blocks of 32 bytes."""
    a = _all(x)
    blocks = np.ascontiguousarray(a).view(np.uint8).reshape(-1, 32)
    made = blocks[_all(offsets).astype(np.int64) // 32].reshape(len(_all(offsets)), -1).view(a.dtype)
    return fresh(made, made.shape, made.shape)


def paged_gather(x: Array, index: Array, table: Array, block: int, size: int, most: int, first: int = 0) -> V:
    at = index.reshape(-1).astype(np.int64)
    rows = table.reshape(-1)[at // block].astype(np.int64) * block + at % block
    return fresh(x[rows, first : first + size], (most, size), (len(at), size))


# -- writing by index --------------------------------------------------------------------------------------------------


def scatter(x: Any, src: Any, index: Any, along_rows: bool) -> V:
    """Where an index occurs more than once, the last one counts."""
    made, at, a = _all(x).copy(), _all(index).astype(np.int64), _all(src)
    flat = made.reshape(-1)
    for r, k in np.ndindex(*at.shape):
        flat[at[r, k] + (r * made.shape[1] if along_rows else 0)] = a[r, k]
    return fresh(made, value(x).data.shape, made.shape)


def scatter_update(x: Any, index: Any, src: Any) -> V:
    made, a = _all(x).copy(), _all(src)
    for k, row in enumerate(_all(index).reshape(-1)):
        made[row] = a[k]
    return fresh(made, made.shape, made.shape)


def mscatter(src: Any, index: Any, x: Array) -> Array:
    """In place, by elements counted over the tensor."""
    at, a = _all(index).astype(np.int64), _all(src)
    flat = x.reshape(-1)
    for place in np.ndindex(*at.shape):
        flat[at[place]] = a[place]
    return x


def add_to(t: Any, at: Dims, x: Array) -> Array:
    """Added to a window of a tensor; halves in binary32, rounded once."""
    a = _all(t)
    window = x[tuple(slice(o, o + n) for o, n in zip(at, a.shape, strict=True))]
    with np.errstate(all="ignore"):
        window[...] = window + a if a.dtype.kind in "iu" else (window.astype(np.float32) + a.astype(np.float32)).astype(a.dtype)
    return x


def fillpad_expand(x: Any, shape: Dims, kind: str) -> V:
    x = value(x)
    data = np.zeros(shape, x.data.dtype)
    data[tuple(slice(0, n) for n in x.data.shape)] = x.data
    known = np.zeros(shape, bool)
    known[tuple(slice(0, n) for n in x.valid)] = True
    return fillpad(V(data, known, x.valid), kind)


# -- sorting -----------------------------------------------------------------------------------------------------------


def _before(x: Any, y: Any) -> bool:
    """NaN before numbers, larger ones before smaller ones."""
    return bool(x != x and y == y) or bool(x > y)


def _merged(lists: list[list[tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
    lists, made = [list(x) for x in lists], []
    while any(lists):
        best = next(x for x in lists if x)
        for x in lists:
            if x and _before(x[0][0], best[0][0]):
                best = x
        made.append(best.pop(0))
    return made


def sort32(x: Any, index: Any) -> V:
    """Blocks of 32 in descending order, of equal ones the lower index first, as pairs of a value and its index' bits."""
    a, at = _all(x), _all(index)
    made = np.zeros((a.shape[0], 2 * a.shape[1]), np.float32)
    for r in range(a.shape[0]):
        for c in range(0, a.shape[1], 32):
            pairs = _merged(
                [[(v, i)] for i, v in sorted(zip(at[r, c : c + 32], a[r, c : c + 32], strict=True), key=lambda p: int(p[0]))]
            )
            made[r, 2 * c : 2 * c + 64 : 2] = [v for v, _ in pairs]
            made[r, 2 * c + 1 : 2 * c + 64 : 2] = np.array([i for _, i in pairs], np.uint32).view(np.float32)
    return fresh(made, made.shape, made.shape)


def merge(*lists: Any) -> V:
    """Lists of pairs of 8 bytes, each sorted."""
    rows = []
    parts = [_all(x) for x in lists]
    for r in range(len(parts[0])):
        bits = [[(p[0], p) for p in np.ascontiguousarray(x[r]).reshape(-1, 2)] for x in parts]
        rows.append(np.concatenate([p for _, p in _merged(bits)]))
    made = np.stack(rows)
    return fresh(made, made.shape, made.shape)


def merge_runs(x: Any, length: int) -> V:
    a = _all(x)
    made = []
    for at in range(0, a.shape[1], 4 * length):
        group = a[:, at : at + 4 * length]
        made.append(merge(*(group[:, k : k + length] for k in range(0, group.shape[1], length))).data)
    return fresh(np.concatenate(made, 1), a.shape, a.shape)


# -- made of numbers, counted, combined where both are -----------------------------------------------------------------


def arange(start: int, shape: Dims, name: str, descending: bool) -> V:
    steps = np.arange(shape[-1], dtype=np.int64) * (-1 if descending else 1)
    return fresh((start + steps).astype(dtype(name)).reshape(shape), shape, shape)


def tri(diagonal: int, shape: Dims, name: str, upper: bool) -> V:
    r, c = np.indices(shape)
    return fresh((c >= r + diagonal if upper else c <= r + diagonal).astype(dtype(name)), shape, shape)


def columns(x: Any, kvalue: Any, mode: int, most: int, offset: int) -> tuple[V, V]:
    """Numbers of the columns that compare with a value, the first `most` of each row, and how many they are."""
    a = _all(x)
    found, counts = np.zeros((len(a), most), np.int32), np.zeros((1, len(a)), np.int32)
    for r, row in enumerate(a):
        hit = np.flatnonzero(_COMPARE[mode](row, kvalue))[:most]
        found[r, : len(hit)], counts[0, r] = hit + offset, len(hit)
    return fresh(found, found.shape, found.shape), fresh(counts, counts.shape, counts.shape)


def part(f: Any, x: Any, y: Any) -> V:
    """`f` where both are valid, the first operand's element elsewhere."""
    x, y = value(x), value(y)
    made = inside(x, x.valid).copy()
    both = tuple(min(a, b) for a, b in zip(x.valid, y.valid, strict=True))
    cut = tuple(slice(0, n) for n in both)
    made[cut] = f(set_valid(V(x.data, x.known, both), *both), set_valid(y, *both)).data[cut]
    return fresh(made, x.data.shape, x.valid)
