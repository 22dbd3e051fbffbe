"""What each operator of the table gives, said a second time: numpy in binary64, rounded once, and plain loops.

Independent of lane programs: nothing here reads an operator's semantics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.dtypes import DataType

Array = Any


def rounded(dtype: DataType, wide: Callable[..., Array]) -> Callable[..., Array]:
    """A float function computed in binary64 (innocuous for one operation) and rounded; integers in their own width."""

    def f(*xs: Array) -> Array:
        with np.errstate(all="ignore"):
            if dtype.is_float():
                return wide(*(np.asarray(x, np.float64) for x in xs)).astype(dtype.numpy())
            return wide(*xs)

    return f


def truncating(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    return integer(lambda p, q: (abs(p) // abs(q)) * (1 if (p < 0) == (q < 0) else -1) if q else 0)(x, y)


def integer(f: Callable[[int, int], int]) -> Callable[[Array, Array], Array]:
    def g(x: Array, y: Array) -> Array:
        bits = x.dtype.itemsize * 8
        x, y = np.broadcast_arrays(x, y)
        made = [f(int(p), int(q)) & ((1 << bits) - 1) for p, q in zip(x.reshape(-1), y.reshape(-1), strict=True)]
        return np.array(made, f"u{bits // 8}").view(x.dtype).reshape(x.shape)

    return g


def reciprocal_root(dtype: DataType) -> Callable[[Array], Array]:
    def f(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return (np.float32(1) / np.sqrt(x.astype(np.float32))).astype(dtype.numpy())

    return f


def near_exp(x: Array, v: Array) -> Array:
    """exp of the difference rounded to binary32; compared within a tolerance."""
    with np.errstate(all="ignore"):
        return np.exp((x.astype(np.float64) - v.astype(np.float64)).astype(np.float32).astype(np.float64))


def exact_fmod(x: Array, y: Array) -> Array:
    """C's fmod, element by element; Python's function raises where there is no remainder."""
    x, y = np.broadcast_arrays(x, y)
    made = [
        math.fmod(p, q) if q != 0 and not math.isinf(p) else math.nan
        for p, q in zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
    ]
    return np.array(made, np.float32).reshape(x.shape)


def python_remainder(x: Array, y: Array) -> Array:
    """Python's `%`, of floats with the sum rounded to binary32."""
    if x.dtype.kind == "i":
        return integer(lambda p, q: p % q if q else 0)(x, y)
    r, (_, y) = exact_fmod(x, y), np.broadcast_arrays(x, y)
    with np.errstate(all="ignore"):
        r = np.where((r != 0) & (np.signbit(r) != np.signbit(y)), r + y, r)
    return np.where(r == 0, np.copysign(np.float32(0), y), r).astype(np.float32)


def left_to_right(dtype: DataType, f: Callable[..., Array]) -> Callable[..., Array]:
    """Two operations, each rounded to binary32, the result to the dtype."""

    def g(x: Array, y: Array, z: Array) -> Array:
        if not dtype.is_float():
            return f(f(x, y), z)
        with np.errstate(all="ignore"):
            x, y, z = (np.asarray(v, np.float32) for v in (x, y, z))
            return f(f(x, y), z).astype(dtype.numpy())

    return g


def shifted(left: bool) -> Callable[[Array, Array], Array]:
    def g(x: Array, y: Array) -> Array:
        bits = x.dtype.itemsize * 8

        def one(p: int, n: int) -> int:
            if not 0 <= n < bits:
                return -1 if p < 0 and not left else 0
            return p << n if left else p >> n

        return integer(one)(x, y)

    return g


def elementwise(concept: str, dtype: DataType, kwargs: dict[str, Any]) -> Callable[..., Array] | None:
    """The function of an operator's operands (those it reads), on arrays of the valid rectangle; None for a reduction."""
    for prefix in ("row_expand_", "col_expand_"):
        if concept.startswith(prefix):
            concept = {"max": "maximum", "min": "minimum"}.get(concept.removeprefix(prefix), concept.removeprefix(prefix))
    # The scalar form of an operator is its name with an s.
    base = concept[:-1] if concept.endswith("s") and concept not in ("abs", "expands", "cmps", "sels", "cos") else concept
    base = {"addsc": "addc", "subsc": "subc", "prelu": "lrelu"}.get(base, base)
    if base.startswith("part_"):  # of operands that are valid alike
        base = {"max": "maximum", "min": "minimum"}.get(base[5:], base[5:])
    compare = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)[kwargs.get("cmp_type", 0)]
    table: dict[str, Callable[..., Array]] = {
        "add": rounded(dtype, np.add),
        "sub": rounded(dtype, np.subtract),
        "mul": rounded(dtype, np.multiply),
        "div": rounded(dtype, truncating),
        "maximum": np.maximum,
        "minimum": np.minimum,
        "floordiv": integer(lambda p, q: p // q if q else 0),
        "mod": integer(lambda p, q: p % q if q else 0),
        "abs": np.abs,
        "neg": rounded(dtype, np.negative),
        "exp": rounded(dtype, np.exp),
        "log": rounded(dtype, np.log),
        "sqrt": rounded(dtype, np.sqrt),
        "rsqrt": reciprocal_root(dtype),
        "recip": rounded(dtype, lambda x: 1 / x),
        "relu": lambda x: np.where(x < 0, np.array(0, x.dtype), x),
        "lrelu": lambda x, s: np.where(x > 0, x, rounded(dtype, np.multiply)(x, s)),
        "expdif": near_exp,
        "sin": rounded(dtype, np.sin),
        "cos": rounded(dtype, np.cos),
        "fmod": exact_fmod,
        "rem": python_remainder,
        "addc": left_to_right(dtype, np.add),
        "subc": left_to_right(dtype, np.subtract),
        "and": integer(lambda p, q: p & q),
        "or": integer(lambda p, q: p | q),
        "xor": integer(lambda p, q: p ^ q),
        "not": np.invert,
        "shl": shifted(True),
        "shr": shifted(False),
        "cmp": compare,
        "cmps": compare,
        "sel": np.where,
        "sels": np.where,
        "expands": lambda s: s,
        "full": lambda s: s,
        "row_expand": lambda v: v,
        "col_expand": lambda v: v,
    }
    return table.get(base)


def approximate(concept: str, dtype: DataType) -> bool:
    """Whether an operator is compared within an ulp: transcendentals, but for halves, which are correctly rounded."""
    return concept.endswith("expdif") or (dtype is DataType.FP32 and concept in ("exp", "log", "sin", "cos"))


# -- reductions ------------------------------------------------------------------------------------------------------


def reduction(concept: str, x: Array) -> Array:
    """Along the last axis for row_*, the one before for col_*; the axis stays."""
    axis = -1 if concept.startswith("row") else -2
    kind = concept.split("_")[1]
    if kind in ("max", "min"):
        return (np.max if kind == "max" else np.min)(x, axis=axis, keepdims=True)
    if kind in ("argmax", "argmin"):
        # numpy too takes the first NaN, else the first extreme.
        return (np.argmax if kind == "argmax" else np.argmin)(x, axis=axis, keepdims=True).astype(np.int32)
    f, start = (np.add, -0.0) if kind == "sum" else (np.multiply, 1.0)
    wide = np.float32 if x.dtype.kind == "f" else x.dtype
    x = np.moveaxis(x, axis, -1).astype(wide)
    out = np.empty(x.shape[:-1], wide)
    with np.errstate(all="ignore"):
        for at in np.ndindex(*x.shape[:-1]):
            out[at] = _sequential(f, start, x[at]) if axis == -2 else _by_lanes(f, start, x[at])
    return np.expand_dims(out, axis)


def _sequential(f: Any, start: float, values: Array) -> Any:
    total = np.array(start).astype(values.dtype)
    for v in values:
        total = f(total, v, dtype=values.dtype)
    return total


def _by_lanes(f: Any, start: float, values: Array) -> Any:
    lanes = [_sequential(f, start, values[i::64]) for i in range(64)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [f(lanes[i], lanes[i + half], dtype=values.dtype) for i in range(half)]
    return lanes[0]
