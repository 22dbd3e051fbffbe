"""What each operator gives, said with plain numpy from its documented meaning; nothing here reads the operator table.

In: the operands' valid rectangles (vectors with extent 1 along the axis they repeat over, scalars as 0-d arrays).
Out: the result's rectangle in its dtype.  Floats are computed in binary64 and rounded once, which for one + - * / or
square root of binary32 or binary16 numbers is the correctly rounded result (53 >= 2 * 24 + 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Array = Any


class Meaning(NamedTuple):
    """f(*operands, **keywords).  ulps: the distance allowed from f for binary32, and for binary16."""

    f: Callable[..., Array]
    ulps: tuple[int, int] = (0, 0)
    any_zero: bool = False  # the sign of a zero is not promised


# -- elementwise ---------------------------------------------------------------------------------------------------------


def _rounded(f: Callable[..., Array]) -> Callable[..., Array]:
    """Floats in binary64, rounded to their own type."""

    def g(x: Array, *rest: Array) -> Array:
        with np.errstate(all="ignore"):
            return f(*(np.asarray(a, np.float64) for a in (x, *rest))).astype(x.dtype)

    return g


def _arithmetic(f: Callable[..., Array]) -> Callable[..., Array]:
    """Floats rounded once; integers modulo 2**width."""
    rounded = _rounded(f)

    def g(x: Array, *rest: Array) -> Array:
        return f(x, *rest) if x.dtype.kind in "iu" else rounded(x, *rest)

    return g


def _integer(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integers of up to 32 bits in 64, where no quotient overflows; anything by zero is 0."""

    def g(x: Array, y: Array) -> Array:
        p, q = np.broadcast_arrays(x.astype(np.int64), y.astype(np.int64))
        return np.where(q == 0, 0, f(p, np.where(q == 0, 1, q))).astype(x.dtype)

    return g


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "i":
        return _integer(lambda p, q: np.sign(p) * np.sign(q) * (np.abs(p) // np.abs(q)))(x, y)
    return _rounded(np.divide)(x, y)


def _float_or_integer(f: Callable[..., Array]) -> Callable[..., Array]:
    """Exact in 64 bits of either kind, and rounded once."""
    whole, rounded = _integer(f), _rounded(f)
    return lambda x, y: whole(x, y) if x.dtype.kind == "i" else rounded(x, y)


def _twice(f: Callable[..., Array]) -> Callable[..., Array]:
    """From left to right; floats are rounded to binary32 after each, halves once more at the end."""

    def g(x: Array, y: Array, z: Array) -> Array:
        if x.dtype.kind in "iu":
            return f(f(x, y), z)
        with np.errstate(all="ignore"):
            first = f(np.asarray(x, np.float64), np.asarray(y, np.float64)).astype(np.float32)
            return f(first.astype(np.float64), np.asarray(z, np.float64)).astype(np.float32).astype(x.dtype)

    return g


def _shift(left: bool) -> Callable[[Array, Array], Array]:
    """In 64 bits; what is shifted by less than nothing, or by its width or more, is shifted out."""

    def g(x: Array, n: Array) -> Array:
        wide, by = x.astype(np.int64), n.astype(np.int64)
        out = (by < 0) | (by >= 8 * x.dtype.itemsize)
        by = np.where(out, 0, by)
        made = np.where(out, 0, wide << by) if left else np.where(out, np.where(wide < 0, -1, 0), wide >> by)
        return made.astype(x.dtype)

    return g


def _angle(f: Callable[..., Array]) -> Callable[..., Array]:
    """Angles of which no digit is left after the reduction have no sine."""
    rounded = _rounded(f)
    return lambda x: np.where(np.abs(x) < 2.0**24, rounded(x), np.float32(np.nan))


def _compare(x: Array, y: Array, cmp_type: int = 0) -> Array:
    f = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)[cmp_type]
    return f(x, y)


def _expdif(x: Array, v: Array) -> Array:
    """The difference is rounded to binary32."""
    with np.errstate(all="ignore"):
        return _rounded(np.exp)(x.astype(np.float32) - v.astype(np.float32)).astype(x.dtype)


def _precise(f: Callable[..., Array]) -> Callable[..., Array]:
    """Operators that take high_precision: it promises no other number."""
    return lambda *xs, high_precision=False: f(*xs)


def _like(x: Array, value: Array) -> Array:
    return np.broadcast_to(value, x.shape)


_ADD, _SUB, _MUL = Meaning(_arithmetic(np.add)), Meaning(_arithmetic(np.subtract)), Meaning(_arithmetic(np.multiply))
_DIV = Meaning(_precise(_divide))
_MAX, _MIN = Meaning(np.maximum, any_zero=True), Meaning(np.minimum, any_zero=True)
_FLOORDIV, _MOD = Meaning(_integer(np.floor_divide)), Meaning(_integer(np.mod))
_FMOD, _REM = Meaning(_rounded(np.fmod)), Meaning(_float_or_integer(np.mod))
_PRELU = Meaning(lambda x, slope: np.where(x > 0, x, _rounded(np.multiply)(x, slope)))
_ADDC, _SUBC = Meaning(_twice(np.add)), Meaning(_twice(np.subtract))
_AND, _OR, _XOR = Meaning(np.bitwise_and), Meaning(np.bitwise_or), Meaning(np.bitwise_xor)
_SHL, _SHR = Meaning(_shift(True)), Meaning(_shift(False))
_CMP, _SEL, _FILL = Meaning(_compare), Meaning(np.where), Meaning(_like)
_EXPDIF = Meaning(_expdif, (2, 1))

# By the operator's name without its level.  `tile.sels` is given its scalar last, as it is called.
ELEMENTWISE: Mapping[str, Meaning] = MappingProxyType(
    {
        "add": _ADD,
        "adds": _ADD,
        "sub": _SUB,
        "subs": _SUB,
        "mul": _MUL,
        "muls": _MUL,
        "div": _DIV,
        "divs": _DIV,
        "maximum": _MAX,
        "maximums": _MAX,
        "minimum": _MIN,
        "minimums": _MIN,
        "floordiv": _FLOORDIV,
        "floordivs": _FLOORDIV,
        "mod": _MOD,
        "mods": _MOD,
        "abs": Meaning(np.abs),
        "neg": Meaning(np.negative),
        "exp": Meaning(_rounded(np.exp), (2, 0)),
        "log": Meaning(_precise(_rounded(np.log)), (2, 0)),
        "sqrt": Meaning(_rounded(np.sqrt)),
        "rsqrt": Meaning(_precise(_rounded(lambda x: 1 / np.sqrt(x))), (2, 0)),
        "recip": Meaning(_precise(_rounded(lambda x: 1 / x))),
        "relu": Meaning(lambda x: np.where(x < 0, np.zeros_like(x), x), any_zero=True),
        "lrelu": _PRELU,
        "prelu": _PRELU,
        # Near their zeros sine and cosine are as exact as elsewhere in absolute terms only.
        "sin": Meaning(_angle(np.sin), (1024, 0)),
        "cos": Meaning(_angle(np.cos), (1024, 0)),
        "fmod": _FMOD,
        "fmods": _FMOD,
        "rem": _REM,
        "rems": _REM,
        "addc": _ADDC,
        "addsc": _ADDC,
        "subc": _SUBC,
        "subsc": _SUBC,
        # Over operands that are valid alike; `test_operator_parts` has the others.
        "part_add": _ADD,
        "part_mul": _MUL,
        "part_max": _MAX,
        "part_min": _MIN,
        "and": _AND,
        "ands": _AND,
        "or": _OR,
        "ors": _OR,
        "xor": _XOR,
        "xors": _XOR,
        "not": Meaning(np.invert),
        "shl": _SHL,
        "shls": _SHL,
        "shr": _SHR,
        "shrs": _SHR,
        "cmp": _CMP,
        "cmps": _CMP,
        "sel": _SEL,
        "sels": _SEL,
        "row_expand": _FILL,
        "row_expand_add": _ADD,
        "row_expand_sub": _SUB,
        "row_expand_mul": _MUL,
        "row_expand_div": _DIV,
        "row_expand_max": _MAX,
        "row_expand_min": _MIN,
        "row_expand_expdif": _EXPDIF,
        "col_expand": _FILL,
        "col_expand_add": _ADD,
        "col_expand_sub": _SUB,
        "col_expand_mul": _MUL,
        "col_expand_div": _DIV,
        "col_expand_max": _MAX,
        "col_expand_min": _MIN,
        "col_expand_expdif": _EXPDIF,
        "expands": _FILL,
    }
)


def packed(bits: Array) -> Array:
    """A comparison's mask: element 8k + j of a row is bit j of byte k; the rest of the last byte is 0."""
    return np.packbits(bits, axis=-1, bitorder="little")


# -- reductions ----------------------------------------------------------------------------------------------------------

_LANES = 64


def _fold_columns(f: Callable[[Array, Array], Array], start: float, x: Array) -> Array:
    """Over the last axis: column c goes to lane c % 64, in order; then lane i takes lane i + 32, + 16, ... + 1."""
    lanes = np.full((x.shape[0], _LANES), start, x.dtype)
    for at in range(0, x.shape[1], _LANES):
        part = x[:, at : at + _LANES]
        lanes[:, : part.shape[1]] = f(lanes[:, : part.shape[1]], part)
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = f(lanes[:, :half], lanes[:, half:])
    return lanes


def _fold_rows(f: Callable[[Array, Array], Array], start: float, x: Array) -> Array:
    """Over the rows, one after the other."""
    total = np.full((1, x.shape[1]), start, x.dtype)
    for row in x:
        total = f(total, row)
    return total


def _fold(f: Callable[[Array, Array], Array], start: float, axis: int) -> Callable[[Array], Array]:
    """Halves accumulate in binary32 and are rounded once; integers wrap."""

    def g(x: Array) -> Array:
        wide = x.astype(np.float32) if x.dtype.kind == "f" else x
        with np.errstate(all="ignore"):
            return (_fold_columns if axis else _fold_rows)(f, start, wide).astype(x.dtype)

    return g


def _pick(f: Callable[..., Array], axis: int) -> Meaning:
    return Meaning(lambda x: f(x, axis=axis, keepdims=True), any_zero=True)


def _where(f: Callable[..., Array], axis: int) -> Meaning:
    """numpy too takes the first extreme, and the first NaN before any number."""
    return Meaning(lambda x: f(x, axis=axis, keepdims=True).astype(np.int32))


REDUCTIONS: Mapping[str, Meaning] = MappingProxyType(
    {
        f"{name}_{kind}": meaning(axis)
        for name, axis in (("row", 1), ("col", 0))
        for kind, meaning in (
            ("sum", lambda axis: Meaning(_fold(np.add, -0.0, axis))),
            ("prod", lambda axis: Meaning(_fold(np.multiply, 1, axis))),
            ("max", lambda axis: _pick(np.max, axis)),
            ("min", lambda axis: _pick(np.min, axis)),
            ("argmax", lambda axis: _where(np.argmax, axis)),
            ("argmin", lambda axis: _where(np.argmin, axis)),
        )
    }
)
