"""Scalar expressions: offsets within bounds, integers of every width, floats, conditions.

In: a text under construction.  Out: expressions of what its scope and its arrays hold.  Invariant: what `index` gives
lies within the bounds asked for, whatever the arguments of a call are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz_values import BITS, Global, Local, Scalar, X

if TYPE_CHECKING:
    from fuzz_body import Body

INTEGERS = ("INDEX", "INT32", "INT16", "INT8", "UINT8")
READABLE = ("INT32", "INT16", "INT8", "UINT8")
_SMALL = 1 << 20  # bounds beyond this are not worth knowing
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
FLOAT_CONSTANTS = (1.0, 0.5, -1.0, 2.0, 0.0, -2.5, 0.1, 3.0, -0.0, 1e-3, 65504.0, 1e30, 1e-42)


def literal(value: float) -> str:
    return f"({value})" if str(value).startswith("-") else str(value)


def index(b: Body, low: int, high: int) -> X:
    """An INDEX expression within low..high."""
    known = [(n, s) for n, s in b.scope.of_kind(Scalar) if s.dtype == "INDEX"]
    inside = [n for n, s in known if s.bounded and low <= s.low and s.high <= high]
    if inside and high > low and b.r.chance(60):
        name = b.r.pick(inside)
        return X(name, name, b.scope.names[name])
    if not known or high <= low or not b.r.chance(40):
        n = b.r.number(low, high)
        return X(str(n), str(n), Scalar("INDEX", n, n))
    return _clamped(b, integer(b, "INDEX", 1), low, high)


def _clamped(b: Body, e: X, low: int, high: int) -> X:
    of = Scalar("INDEX", low, high)
    if b.r.chance(50):
        return X(
            f"pl.min(pl.max({e.kernel}, {low}), {high})",
            f'R.integer("min", "INDEX", R.integer("max", "INDEX", {e.twin}, {low}), {high})',
            of,
        )
    n = high - low + 1
    moved = f'R.integer("%", "INDEX", {e.twin}, {n})'
    if low == 0:
        return X(f"({e.kernel} % {n})", moved, of)
    return X(f"({e.kernel} % {n} + {low})", f'R.integer("+", "INDEX", {moved}, {low})', of)


# -- integers ----------------------------------------------------------------------------------------------------------


def promoted(x: str, y: str) -> str:
    return y if BITS[y] > BITS[x] else x


def integer(b: Body, dtype: str, depth: int = 2) -> X:
    """An expression of an integer dtype that is not constant."""
    forms = [_named, _read, in_array, _arithmetic, _converted, _shifted, _extreme]
    for _ in range(3):
        form = b.r.pick(forms if depth > 0 else forms[:3])
        made = form(b, dtype, depth)
        if made is not None:
            return made
    return _named(b, dtype, depth) or _cast(b.number(0, 3), dtype)


def _named(b: Body, dtype: str, depth: int) -> X | None:
    names = [(n, s) for n, s in b.scope.of_kind(Scalar) if s.dtype == dtype]
    if not names:
        return None
    name, s = b.r.pick(names)
    return X(name, name, s)


def _read(b: Body, dtype: str, depth: int) -> X | None:
    """An element of an array of that dtype."""
    if dtype not in READABLE:
        return None
    name, g = b.source(dtype, 1, 1)
    return element_of(b, name, g)


def element_of(b: Body, name: str, g: Global) -> X:
    at = [index(b, 0, n - 1) for n in g.shape]
    kernel, twin = ", ".join(i.kernel for i in at), ", ".join(i.twin for i in at)
    text = f"{name}[{kernel}]" if b.r.chance(30) else f"pl.read({name}, [{kernel}])"
    low, high = (0, 255) if g.dtype == "UINT8" else (-128, 127) if g.dtype == "INT8" else (None, None)
    return X(text, f"R.read({name}, ({twin},))", Scalar(g.dtype, low, high))


def in_array(b: Body, dtype: str, depth: int) -> X | None:
    """An element of an array on the core."""
    found = [(n, v) for n, v in b.scope.of_kind(Local) if v.dtype == dtype]
    if not found:
        return None
    name, of = b.r.pick(found)
    i = index(b, 0, of.extent - 1)
    text = f"{name}[{i.kernel}]" if b.r.chance(70) else f"pl.array.get_element({name}, {i.kernel})"
    return X(text, f"{name}[{i.twin}]", Scalar(dtype))


def _converted(b: Body, dtype: str, depth: int) -> X | None:
    if b.r.chance(25):
        e = real(b, depth - 1)
    else:
        other = b.r.pick([d for d in INTEGERS if d != dtype])
        e = integer(b, other, depth - 1)
    return _cast(e, dtype)


def _cast(e: X, dtype: str) -> X:
    of = Scalar(dtype)
    bits = BITS[dtype]
    low, high = (0, (1 << bits) - 1) if dtype[0] == "U" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if e.of.bounded and low <= e.of.low and e.of.high <= high:
        of = Scalar(dtype, e.of.low, e.of.high)
    if e.of.dtype == dtype:
        return e
    return X(f"pl.cast({e.kernel}, pl.{dtype})", f'R.convert({e.twin}, "{dtype}")', of)


def _operand(b: Body, dtype: str, depth: int) -> X:
    """Of the dtype, or of a narrower one that is promoted."""
    narrower = [d for d in INTEGERS if BITS[d] < BITS[dtype]]
    if narrower and b.r.chance(20):
        return integer(b, b.r.pick(narrower), depth)
    return integer(b, dtype, depth)


def _constant(b: Body, dtype: str) -> X:
    n = b.r.pick([1, 2, 3, 4, 7, 8, 0, -1, -3, -4, 100])
    if dtype[0] == "U":
        n = abs(n)
    return X(literal(n), str(n), Scalar(dtype, n, n))


def _arithmetic(b: Body, dtype: str, depth: int) -> X | None:
    op = b.r.pick(["+", "-", "*", "//", "%"])
    x = integer(b, dtype, depth - 1)
    y = _constant(b, dtype) if b.r.chance(50) else _operand(b, dtype, depth - 1)
    if op in ("//", "%") and (y.of.low == y.of.high == 0 or y.kernel in b.counters):
        return None
    # A plain number takes the dtype beside it.
    if y.kernel.strip("(-)").isdigit() and b.r.chance(30) and op not in ("//", "%"):
        x, y = y, x
    return X(f"({x.kernel} {op} {y.kernel})", f'R.integer("{op}", "{dtype}", {x.twin}, {y.twin})', _bounds(dtype, op, x.of, y.of))


def _bounds(dtype: str, op: str, x: Scalar, y: Scalar) -> Scalar:
    """Known only where nothing wraps."""
    if op == "%" and y.bounded and y.low > 0:
        return Scalar(dtype, 0, y.high - 1) if y.high <= _SMALL else Scalar(dtype)
    if not (x.bounded and y.bounded):
        return Scalar(dtype)
    a, b, c, d = x.low, x.high, y.low, y.high
    if op == "+":
        low, high = a + c, b + d
    elif op == "-":
        low, high = a - d, b - c
    elif op == "*":
        products = [p * q for p in (a, b) for q in (c, d)]
        low, high = min(products), max(products)
    elif op == "//" and c > 0:
        quotients = [p // q for p in (a, b) for q in (c, d)]
        low, high = min(quotients), max(quotients)
    else:
        return Scalar(dtype)
    limit = min(_SMALL, (1 << (BITS[dtype] - 1)) - 1)
    least = 0 if dtype[0] == "U" else -limit
    return Scalar(dtype, low, high) if least <= low and high <= limit else Scalar(dtype)


def _shifted(b: Body, dtype: str, depth: int) -> X | None:
    op = b.r.pick([">>", "<<"])
    x = integer(b, dtype, depth - 1)
    n = b.r.pick([1, 2, 0, 7, 31, 32, 63, 64, 70]) if b.r.chance(70) else None
    y = integer(b, dtype, depth - 1) if n is None or n > 120 else X(str(n), str(n))
    return X(f"({x.kernel} {op} {y.kernel})", f'R.integer("{op}", "{dtype}", {x.twin}, {y.twin})', Scalar(dtype))


def _extreme(b: Body, dtype: str, depth: int) -> X | None:
    op = b.r.pick(["min", "max"])
    x = integer(b, dtype, depth - 1)
    y = _constant(b, dtype) if b.r.chance(50) else _operand(b, dtype, depth - 1)
    of = Scalar(dtype)
    if x.of.bounded and y.of.bounded:
        pick = min if op == "min" else max
        of = Scalar(dtype, pick(x.of.low, y.of.low), pick(x.of.high, y.of.high))
    return X(f"pl.{op}({x.kernel}, {y.kernel})", f'R.integer("{op}", "{dtype}", {x.twin}, {y.twin})', of)


# -- floats ------------------------------------------------------------------------------------------------------------


def real(b: Body, depth: int = 2) -> X:
    """An FP32 expression that is not constant."""
    names = [n for n, s in b.scope.of_kind(Scalar) if s.dtype == "FP32"]
    choice = b.r.number(0, 5 if depth > 0 else 2)
    if choice <= 1 and names:
        name = b.r.pick(names)
        return X(name, name, Scalar("FP32"))
    if choice <= 2:
        dtype = b.r.pick(["FP32", "FP16"])
        name, g = b.source(dtype, 1, 1)
        e = element_of(b, name, g)
        return e if dtype == "FP32" else X(f"pl.cast({e.kernel}, pl.FP32)", f'R.convert({e.twin}, "FP32")', Scalar("FP32"))
    if choice == 3:
        e = integer(b, b.r.pick(INTEGERS), depth - 1)
        return X(f"pl.cast({e.kernel}, pl.FP32)", f'R.convert({e.twin}, "FP32")', Scalar("FP32"))
    x = real(b, depth - 1)
    if b.r.chance(50):
        v = b.r.pick(FLOAT_CONSTANTS)
        y = X(literal(v), f'R.element("FP32", {v!r})')
    else:
        y = real(b, depth - 1)
    op = b.r.pick(["+", "-", "*", "/", "min", "max"])
    twin = f'R.real("{op}", {x.twin}, {y.twin})'
    return X(f"pl.{op}({x.kernel}, {y.kernel})" if op[0] == "m" else f"({x.kernel} {op} {y.kernel})", twin, Scalar("FP32"))


# -- conditions --------------------------------------------------------------------------------------------------------


def condition(b: Body, depth: int = 2) -> X:
    """A BOOL expression."""
    names = [n for n, s in b.scope.of_kind(Scalar) if s.dtype == "BOOL"]
    choice = b.r.number(0, 9)
    if choice <= 1 and names:
        name = b.r.pick(names)
        return X(name, name, Scalar("BOOL"))
    held = in_array(b, "BOOL", depth) if choice == 2 else None
    if held is not None:
        return held
    if choice == 2 and depth > 0:
        e = condition(b, depth - 1)
        return X(f"(not {e.kernel})", f"(not {e.twin})", Scalar("BOOL"))
    if choice in (3, 4) and depth > 0:
        op = b.r.pick(["and", "or"])
        x, y = condition(b, depth - 1), condition(b, depth - 1)
        return X(f"({x.kernel} {op} {y.kernel})", f"({x.twin} {op} {y.twin})", Scalar("BOOL"))
    op = b.r.pick(COMPARISONS)
    if choice == 5:
        x = real(b, depth - 1)
        v = b.r.pick(FLOAT_CONSTANTS)
        y = real(b, 0) if b.r.chance(50) else X(literal(v), f'R.element("FP32", {v!r})')
        return X(f"({x.kernel} {op} {y.kernel})", f"bool({x.twin} {op} {y.twin})", Scalar("BOOL"))
    dtype = b.r.pick(["INDEX", "INDEX", "INT32", "INT16"])
    x = integer(b, dtype, depth - 1)
    y = _constant(b, dtype) if b.r.chance(70) else integer(b, dtype, depth - 1)
    return X(f"({x.kernel} {op} {y.kernel})", f"({x.twin} {op} {y.twin})", Scalar("BOOL"))


def of_dtype(b: Body, dtype: str, depth: int = 2) -> X:
    """A scalar of any dtype that programs carry."""
    if dtype == "FP32":
        return real(b, depth)
    if dtype == "BOOL":
        return condition(b, depth)
    return integer(b, dtype, depth)
