"""What generated programs mean, said with plain numpy: the calls that a program's twin is written in.

A tile or computed tensor is a `V`: never changed, its elements known where something defined them.  A tensor in global
memory is an array, written in place.  Scalars are Python integers, booleans, and numpy floats of their own dtype.
Invariant: whoever reads an element that nothing defined gets `Undefined`: then the program was no valid one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import rounding
from operator_oracle import ELEMENTWISE, REDUCTIONS

from pypto.debug.lanes import run as run_lanes
from pypto.dtypes import DataType
from pypto.ir.lanes import program
from pypto.ir.ops import get, transcendental

Array = Any
Dims = Sequence[int]


class Undefined(Exception):
    """The program computes with an element that has no value."""


class V(NamedTuple):
    data: Array
    known: Array
    valid: tuple[int, ...]


def dtype(name: str) -> Any:
    return rounding.NUMPY[getattr(DataType, name)]


def value(x: Any) -> V:
    """An operand as it is now."""
    return x if isinstance(x, V) else V(x.copy(), np.ones(x.shape, bool), x.shape)


def _rectangle(extents: Dims) -> tuple[slice, ...]:
    return tuple(slice(0, n) for n in extents)


def _inside(x: V, extents: Dims) -> Array:
    """The elements of a rectangle; along an axis of extent 1 a vector repeats."""
    at = _rectangle([min(n, e) if n == 1 else e for n, e in zip(x.data.shape, extents, strict=True)])
    if not x.known[at].all():
        raise Undefined(f"{int((~x.known[at]).sum())} elements of {x.data.dtype}{x.data.shape}, valid {x.valid}")
    return x.data[at]


def _fresh(values: Array, shape: Dims, valid: Dims) -> V:
    data, known = np.zeros(shape, values.dtype), np.zeros(shape, bool)
    at = _rectangle(valid)
    data[at], known[at] = values, True
    return V(data, known, tuple(valid))


# -- elementwise -------------------------------------------------------------------------------------------------------


def _exp32(x: Array) -> Array:
    """Correct to an ulp only, so that its bits are those of the one definition that there is."""
    return run_lanes(program(transcendental.exp, ("f32",), "f32"), [x])


def _log32(x: Array) -> Array:
    return run_lanes(program(transcendental.log, ("f32",), "f32"), [x])


def _angle(name: str) -> Callable[[Array], Array]:
    """Of the one definition too."""
    lanes = get(f"tensor.{name}").semantics.build((DataType.FP32,), DataType.FP32, {})  # type: ignore[union-attr]
    return lambda x: run_lanes(lanes, [x])


def _float(one: Callable[[Array], Array], other: Callable[..., Array]) -> Callable[..., Array]:
    """`one` for binary32, `other` for halves."""
    return lambda x, **keywords: one(x) if x.dtype == np.float32 else other(x, **keywords)


def _expdif(x: Array, v: Array) -> Array:
    return _exp32(np.asarray(x.astype(np.float32) - v.astype(np.float32))).astype(x.dtype)


def _rsqrt(x: Array, high_precision: bool = False) -> Array:
    return (np.float32(1) / np.sqrt(x.astype(np.float32))).astype(x.dtype)


# The sign of a zero maximum or minimum is promised to nobody; this is the choice that is made.
def _maximum(x: Array, y: Array) -> Array:
    return np.where((x > y) | (x != x), x, y)


def _minimum(x: Array, y: Array) -> Array:
    return np.where((x < y) | (x != x), x, y)


_OWN: dict[str, Callable[..., Array]] = {
    "exp": _float(_exp32, ELEMENTWISE["exp"].f),
    "log": _float(_log32, ELEMENTWISE["log"].f),
    "rsqrt": _rsqrt,
    "sin": _angle("sin"),
    "cos": _angle("cos"),
    **{f"{axis}_expand_expdif": _expdif for axis in ("row", "col")},
    **{n: _maximum for n in ("maximum", "maximums", "row_expand_max", "col_expand_max")},
    **{n: _minimum for n in ("minimum", "minimums", "row_expand_min", "col_expand_min")},
}


def lane(name: str, x: Any, *operands: Any, **keywords: Any) -> V:
    """An operator element by element over the valid rectangle of its first operand."""
    x = value(x)
    f = _OWN.get(name) or ELEMENTWISE[name].f
    others = [np.asarray(y) if np.isscalar(y) or isinstance(y, np.generic) else _inside(value(y), x.valid) for y in operands]
    with np.errstate(all="ignore"):
        return _fresh(f(_inside(x, x.valid), *others, **keywords), x.data.shape, x.valid)


def swapped(name: str, x: Any, y: Any) -> V:
    """The vector on the left of a matrix."""
    return lane(name, y, x)


def expand(name: str, x: Any, v: Any) -> V:
    """`row_expand` and `col_expand` use the shape of their first operand only."""
    x, v = value(x), value(v)
    return _fresh(np.broadcast_to(_inside(v, x.valid), x.valid), x.data.shape, x.valid)


def expands(x: Any, scalar: Any) -> V:
    x = value(x)
    return _fresh(np.full(x.valid, scalar), x.data.shape, x.valid)


def sel(mask: V, p: Any, q: Any) -> V:
    p = value(p)
    other = np.asarray(q) if np.isscalar(q) or isinstance(q, np.generic) else _inside(q, p.valid)
    return _fresh(np.where(_inside(mask, p.valid), _inside(p, p.valid), other), p.data.shape, p.valid)


def number(mask: V, name: str) -> V:
    """A comparison of tensors: 1 or 0."""
    return V(mask.data.astype(dtype(name)), mask.known, mask.valid)


def cast(x: Any, source: str, target: str, mode: str | None = None) -> V:
    """One conversion.  Without a mode: float to integer rounds half away from zero, all else to nearest even."""
    x = value(x)
    have, want = getattr(DataType, source), getattr(DataType, target)
    a = _inside(x, x.valid)
    with np.errstate(all="ignore"):
        if have.is_float():
            wide = a.astype(np.float64)
            made = (
                rounding.to_float(wide, want, mode or "rint") if want.is_float() else rounding.to_int(wide, want, mode or "round")
            )
        elif want.is_float():
            made = np.array([rounding.int_to_float(int(n), want) for n in a.reshape(-1)], np.float64).reshape(a.shape)
            made = made.astype(dtype(target))
        else:
            made = (a.astype(np.int64) & ((1 << want.get_bit()) - 1)).astype(f"u{want.get_byte()}").view(dtype(target))
    return _fresh(made.reshape(a.shape), x.data.shape, x.valid)


# -- reductions --------------------------------------------------------------------------------------------------------

_LANES = 64


def _extreme(f: Callable[[Array, Array], Array], sign: int) -> Callable[[Array, bool], Array]:
    def g(x: Array, by_lanes: bool) -> Array:
        float_ = x.dtype.kind not in "iu"
        start = sign * np.inf if float_ else (np.iinfo(x.dtype).max if sign > 0 else np.iinfo(x.dtype).min)
        wide = x.astype(np.float32) if float_ else x
        if not by_lanes:
            total = np.full((1, x.shape[1]), start, wide.dtype)
            for row in wide:
                total = f(total, row)
            return total.astype(x.dtype)
        lanes = np.full((x.shape[0], _LANES), start, wide.dtype)
        for at in range(0, x.shape[1], _LANES):
            part = wide[:, at : at + _LANES]
            lanes[:, : part.shape[1]] = f(lanes[:, : part.shape[1]], part)
        while lanes.shape[1] > 1:
            half = lanes.shape[1] // 2
            lanes = f(lanes[:, :half], lanes[:, half:])
        return lanes.astype(x.dtype)

    return g


_EXTREMES = {"max": _extreme(_maximum, -1), "min": _extreme(_minimum, 1)}


def reduce(name: str, x: Any) -> V:
    """Along a row, or along a column; the axis stays with extent 1."""
    x = value(x)
    a = _inside(x, x.valid)
    if 0 in a.shape:
        raise Undefined("a reduction of nothing")
    rows = name.startswith("row")
    kind = name[4:]
    with np.errstate(all="ignore"):
        made = _EXTREMES[kind](a, rows) if kind in _EXTREMES else REDUCTIONS[name].f(a)
    shape = (x.data.shape[0], 1) if rows else (1, x.data.shape[1])
    return _fresh(made, shape, made.shape)


# -- windows -----------------------------------------------------------------------------------------------------------


def _window(x: Array, offsets: Dims, extents: Dims) -> Array:
    for o, e, n in zip(offsets, extents, x.shape, strict=True):
        if o < 0 or (e and o + e > n):
            raise Undefined(f"a window at {list(offsets)} of {list(extents)} leaves {x.shape}")
    return x[tuple(slice(o, o + e) for o, e in zip(offsets, extents, strict=True))]


def load(x: Array, offsets: Dims, shape: Dims, valid: Dims | None = None, clamp: bool = False) -> V:
    extents = list(shape if valid is None else valid)
    if clamp:
        extents = [max(0, min(e, n - o)) for e, n, o in zip(extents, x.shape, offsets, strict=True)]
    return _fresh(_window(x, offsets, extents), shape, extents)


def store(t: Any, offsets: Dims, x: Array, shapes: Dims | None = None) -> Array:
    """The valid rectangle, or a part of it, into a tensor."""
    t = value(t)
    extents = t.valid if shapes is None else [min(a, b) for a, b in zip(shapes, t.valid, strict=True)]
    if 0 not in extents:
        _window(x, offsets, extents)[...] = _inside(t, extents)
    return x


def slice_(x: Any, shape: Dims, offsets: Dims, valid: Dims | None = None, drop: Dims = ()) -> V:
    """A window of a value; of a tensor in global memory, what it holds now."""
    x = value(x)
    data, known = _window(x.data, offsets, shape), _window(x.known, offsets, shape)
    extents = [max(0, min(n, v - o)) for n, v, o in zip(shape, x.valid, offsets, strict=True)]
    if valid is not None:
        extents = [min(a, b) for a, b in zip(extents, valid, strict=True)]
    keep = [i for i in range(len(shape)) if i not in drop]
    dims = [shape[i] for i in keep]
    return V(data.reshape(dims).copy(), known.reshape(dims).copy(), tuple(extents[i] for i in keep))


def assemble(x: Any, source: Any, offsets: Dims) -> Any:
    """`x` with a window replaced; in place where `x` is in global memory."""
    if not isinstance(x, V):
        return store(source, offsets, x)
    source = value(source)
    data, known = x.data.copy(), x.known.copy()
    _window(data, offsets, source.data.shape)[...] = source.data
    _window(known, offsets, source.data.shape)[...] = source.known
    return V(data, known, x.valid)


def reshape(x: Any, shape: Dims) -> Any:
    if not isinstance(x, V):
        return x.reshape(shape)
    if x.valid != x.data.shape:
        raise Undefined("a reshape of a part")
    return V(x.data.reshape(shape), x.known.reshape(shape), tuple(shape))


def set_valid(x: Any, rows: int, cols: int) -> V:
    x = value(x)
    return V(x.data, x.known, (rows, cols))


def reinterpret(x: Any, name: str) -> V:
    x = value(x)
    return V(x.data.view(dtype(name)), x.known, x.valid)


def fillpad(x: Any, kind: str) -> V:
    x = value(x)
    a = _inside(x, x.valid)
    if a.dtype.kind in "iu":
        info = np.iinfo(a.dtype)
        pad: Any = {"zero": 0, "max": info.max, "min": info.min}[kind]
    else:
        pad = {"zero": 0.0, "max": np.inf, "min": -np.inf}[kind]
    data = np.full(x.data.shape, pad, a.dtype)
    data[_rectangle(x.valid)] = a
    return V(data, np.ones(data.shape, bool), data.shape)


def full(shape: Dims, name: str, number_: Any) -> V:
    return _fresh(np.full(shape, element(name, number_)), shape, shape)


def temporary(shape: Dims, name: str, init: Any = None) -> Array:
    return np.full(shape, element(name, 85 if init is None else init))


def read(x: Any, indices: Dims) -> Any:
    x = x if isinstance(x, V) else V(x, np.ones(x.shape, bool), x.shape)
    if not x.known[tuple(indices)]:
        raise Undefined("an element that is read")
    e = x.data[tuple(indices)]
    return int(e) if e.dtype.kind in "iu" else e


def write(x: Any, indices: Dims, scalar: Any) -> Any:
    if isinstance(x, V):
        data, known = x.data.copy(), x.known.copy()
        data[tuple(indices)], known[tuple(indices)] = scalar, True
        return V(data, known, x.valid)
    x[tuple(indices)] = scalar
    return x


# -- arrays of scalars -------------------------------------------------------------------------------------------------


def put(x: tuple[Any, ...], i: Any, v: Any) -> tuple[Any, ...]:
    return (*x[:i], v, *x[i + 1 :])


# -- scalars -----------------------------------------------------------------------------------------------------------


def element(name: str, v: Any) -> Any:
    """A number as an element of a dtype: integers wrap, floats are rounded once."""
    d = getattr(DataType, name)
    if d.is_float():
        exact = isinstance(v, int) and not isinstance(v, bool)
        wide = rounding.int_to_float(v, d) if exact else float(v)
        return rounding.to_float(np.array([wide]), d)[0]
    return dtype(name).type(rounding.wrap(int(v), d))


def convert(v: Any, target: str) -> Any:
    """`pl.cast` of a scalar: a float becomes an integer by truncation, saturated, NaN 0."""
    if target == "INDEX":
        target = "INT64"
    d = getattr(DataType, target)
    if d.is_float():
        return element(target, v)
    if isinstance(v, np.floating):
        return int(rounding.to_int(np.array([float(v)]), d, "trunc")[0])
    return rounding.wrap(int(v), d)


def _fit(name: str, v: Any) -> Any:
    return rounding.wrap(v, getattr(DataType, "INT64" if name == "INDEX" else name))


def _shift(name: str, x: int, n: int, left: bool) -> int:
    bits = getattr(DataType, "INT64" if name == "INDEX" else name).get_bit()
    if not 0 <= n < bits:
        return 0 if left or x >= 0 else -1
    return x << n if left else x >> n


_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y if y else 0,
    "%": lambda x, y: x % y if y else 0,
    "min": min,
    "max": max,
}
_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "min": lambda x, y: x if x < y or x != x else y,
    "max": lambda x, y: x if x > y or x != x else y,
}


def integer(op: str, name: str, x: int, y: int) -> int:
    """Two integers in a common dtype."""
    x, y = _fit(name, x), _fit(name, y)
    if op in ("<<", ">>"):
        return int(_fit(name, _shift(name, x, y, op == "<<")))
    return int(_fit(name, _INTEGER[op](x, y)))


def real(op: str, x: Any, y: Any) -> Any:
    """Two floats of one dtype."""
    with np.errstate(all="ignore"):
        return _FLOAT[op](x, y)
