"""Expressions of tiles and tensors: for a description, an operator application that gives it.

In: a text under construction and what is wanted.  Out: an expression of exactly that type, or None where a form does not
apply; `expression` always gives one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz_scalars import integer, literal, real
from fuzz_values import ARITHMETIC, BYTES, CASTS, CHAINS, FLOATS, SELECTED, Impossible, Shaped, X, aligned

if TYPE_CHECKING:
    from fuzz_body import Body

Form = Callable[["Body", Shaped, int], "X | None"]

_UNARY = {"neg": ARITHMETIC, "abs": FLOATS, "exp": FLOATS, "log": FLOATS, "sqrt": FLOATS, "rsqrt": FLOATS, "recip": FLOATS}
_UNARY |= {"relu": ("FP32", "FP16", "INT32")}
_BINARY = {"add": ARITHMETIC, "sub": ARITHMETIC, "mul": ARITHMETIC, "maximum": ARITHMETIC, "minimum": ARITHMETIC}
_BINARY |= {"div": ARITHMETIC, "floordiv": ("INT32", "INT16"), "mod": ("INT32", "INT16")}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}
_EXPAND = {"add": ARITHMETIC, "sub": ARITHMETIC, "mul": ARITHMETIC, "div": FLOATS, "max": ARITHMETIC, "min": ARITHMETIC}
_EXPAND |= {"expdif": FLOATS, "": tuple(BYTES)}
_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
_CONSTANTS = {"FP32": (1.0, 2.0, -1.5, 0.5, 0.0, 0.1, 3, -0.0, 1e-42, 3e38), "INT32": (1, 2, -3, 7, 100, -1, 2147483647)}
_CONSTANTS |= {"FP16": (1.0, 2.0, -1.5, 0.5, 0.0, 0.1, 3, 1e-6, 65504.0), "INT16": (1, 2, -3, 7, 100, -1, 32767)}
_CONSTANTS |= {"BF16": (1.0, 0.1, -3.0), "INT8": (1, -2, 100), "UINT8": (1, 2, 200), "UINT16": (1, 2, 60000)}


def op(b: Body, name: str) -> str:
    """A spelling of an operator: promoted, or in its level's namespace."""
    return f"pl.{b.level}.{name}" if b.r.chance(15) else f"pl.{name}"


def operand(b: Body, of: Shaped, depth: int) -> X:
    names = b.operands(of)
    if names and (depth <= 0 or b.r.chance(75)):
        name = names[0] if b.r.chance(40) else b.r.pick(names)
        return X(name, name, of)
    return expression(b, of, depth - 1)


def element(b: Body, dtype: str, nonzero: bool = False) -> X:
    """A scalar that meets elements of a dtype: a constant, or a number known at run time."""
    if b.r.chance(40):
        e = _run_time_element(b, dtype)
        if e is not None:
            return e
    v = b.r.pick([c for c in _CONSTANTS[dtype] if c or not nonzero])
    if dtype[0] in "FB" and b.r.chance(10):
        v = int(v) if v in (1.0, 2.0, 0.0) and str(v) != "-0.0" else v
    return X(literal(v), f'R.element("{dtype}", {v!r})')


def _run_time_element(b: Body, dtype: str) -> X | None:
    if dtype in ("FP32", "FP16", "BF16"):
        e = real(b, 1) if b.r.chance(70) else integer(b, "INT32", 1)
        return X(e.kernel, f'R.element("{dtype}", {e.twin})')
    if dtype not in ("INT32", "INT16"):
        return None
    e = integer(b, b.r.pick(["INT32", "INT16"]), 1)
    return X(e.kernel, f'R.element("{dtype}", {e.twin})')


# -- elementwise -------------------------------------------------------------------------------------------------------


def unary(b: Body, of: Shaped, depth: int) -> X | None:
    names = [n for n, d in _UNARY.items() if of.dtype in d]
    if not names:
        return None
    name = b.r.pick(names)
    x = operand(b, of, depth)
    if name == "neg" and b.r.chance(50):
        return X(f"(-{x.kernel})", f'R.lane("neg", {x.twin})', of)
    return X(f"{op(b, name)}({x.kernel})", f'R.lane("{name}", {x.twin})', of)


def binary(b: Body, of: Shaped, depth: int) -> X | None:
    names = [n for n, d in _BINARY.items() if of.dtype in d]
    if not names:
        return None
    name = b.r.pick(names)
    x = operand(b, of, depth)
    full = of._replace(valid=tuple(map(str, of.shape)))
    # A tile may be valid beyond the first operand's rectangle.
    wider = b.level == "tile" and not of.full and b.r.chance(30) and b.operands(full)
    y = operand(b, full if wider else of, 0 if wider else depth)
    return _binary_text(b, name, x, y, f'R.lane("{name}", {x.twin}, {y.twin})', of)


def _binary_text(b: Body, name: str, x: X, y: X, twin: str, of: Shaped) -> X:
    if name in _OPERATORS and b.r.chance(40):
        return X(f"({x.kernel} {_OPERATORS[name]} {y.kernel})", twin, of)
    return X(f"{op(b, name)}({x.kernel}, {y.kernel})", twin, of)


def with_scalar(b: Body, of: Shaped, depth: int) -> X | None:
    names = [n for n, d in _BINARY.items() if of.dtype in d]
    if of.dtype in FLOATS and b.r.chance(10):
        x, s = operand(b, of, depth), element(b, of.dtype)
        return X(f"{op(b, 'lrelu')}({x.kernel}, {s.kernel})", f'R.lane("lrelu", {x.twin}, {s.twin})', of)
    if not names:
        return None
    name = b.r.pick(names)
    whole = of.dtype in ("INT32", "INT16")
    x, s = operand(b, of, depth), element(b, of.dtype, nonzero=whole and name in ("div", "floordiv", "mod"))
    twin = f'R.lane("{name}s", {x.twin}, {s.twin})'
    if name in _OPERATORS and b.r.chance(20):
        reverse = f"({s.kernel} {_OPERATORS[name]} {x.kernel})"
        if name in ("add", "mul"):
            return X(reverse, twin, of)
        left = f"R.expands({x.twin}, {s.twin})"
        return X(reverse, f'R.lane("{name}", {left}, {x.twin})', of)
    if b.r.chance(30):
        return X(f"{op(b, name + 's')}({x.kernel}, {s.kernel})", twin, of)
    return _binary_text(b, name, x, s, twin, of)


def filled(b: Body, of: Shaped, depth: int) -> X | None:
    """Every element one number."""
    if of.dtype not in _CONSTANTS:
        return None
    if of.full and b.r.chance(60):
        v = b.r.pick(_CONSTANTS[of.dtype])
        shape = list(of.shape)
        place = f"dtype=pl.{of.dtype}" if b.r.chance(50) else f"pl.{of.dtype}"
        name = "pl.tile.full" if b.level == "tile" else b.r.pick(["pl.full", "pl.tensor.full"])
        return X(f"{name}({shape}, {place}, value={v})", f'R.full({shape}, "{of.dtype}", {v!r})', of)
    x, s = operand(b, of, depth), element(b, of.dtype)
    return X(f"{op(b, 'expands')}({x.kernel}, {s.kernel})", f"R.expands({x.twin}, {s.twin})", of)


# -- conversions -------------------------------------------------------------------------------------------------------


def cast(b: Body, of: Shaped, depth: int) -> X | None:
    sources = [s for s, targets in CASTS.items() if of.dtype in targets and aligned(s, of.shape)]
    if b.chains and b.r.chance(30):
        chains = [s for s, targets in CHAINS.items() if of.dtype in targets and _chain_fits(s, of)]
        sources = chains or sources
    liked = [s for s in sources if s in b.dtypes or b.operands(of._replace(dtype=s))]
    if not sources:
        return None
    source = b.r.pick(liked if liked and b.r.chance(80) else sources)
    x = operand(b, of._replace(dtype=source), depth)
    mode = b.r.pick([None, None, *_MODES])
    given, said = "", ""
    if mode is not None:
        given = f", mode={mode!r}" if b.r.chance(50) else f", mode={_MODES.index(mode)}"
        said = f", {mode!r}"
    twin, at = x.twin, source
    for hop in (*CHAINS.get(source, {}).get(of.dtype, ()), of.dtype):
        twin = f'R.cast({twin}, "{at}", "{hop}"{said})'
        at = hop
    return X(f"{op(b, 'cast')}({x.kernel}, pl.{of.dtype}{given})", twin, of)


def _chain_fits(source: str, of: Shaped) -> bool:
    return all(aligned(d, of.shape) for d in (source, *CHAINS[source][of.dtype]))


def select(b: Body, of: Shaped, depth: int) -> X | None:
    """Tiles are chosen from by a mask; tensors compare to numbers."""
    if b.level == "tensor":
        return _as_number(b, of, depth)
    if of.dtype not in SELECTED or of.shape[-1] == 1:
        return None
    dtype = b.r.pick([d for d in b.dtypes if d in SELECTED and aligned(d, of.shape)] or [of.dtype])
    mask = comparison(b, of._replace(dtype=dtype), depth)
    scratch = "pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)"
    p = operand(b, of, depth)
    if b.r.chance(30):
        s = element(b, of.dtype)
        return X(f"pl.sels({mask.kernel}, {p.kernel}, {scratch}, {s.kernel})", f"R.sel({mask.twin}, {p.twin}, {s.twin})", of)
    q = operand(b, of, depth)
    return X(f"pl.sel({mask.kernel}, {p.kernel}, {q.kernel}, {scratch})", f"R.sel({mask.twin}, {p.twin}, {q.twin})", of)


def comparison(b: Body, of: Shaped, depth: int) -> X:
    kind = b.r.number(0, 5)
    x = operand(b, of, depth)
    scalar = b.r.chance(40)
    y = element(b, of.dtype) if scalar else operand(b, of, depth)
    name = "cmps" if scalar else "cmp"
    twin = f'R.lane("{name}", {x.twin}, {y.twin}, cmp_type={kind})'
    if b.r.chance(30):
        return X(f"({x.kernel} {('==', '!=', '<', '<=', '>', '>=')[kind]} {y.kernel})", twin)
    if b.r.chance(50):
        name = "cmp"
    return X(f"{op(b, name)}({x.kernel}, {y.kernel}, cmp_type={kind})", twin)


def _as_number(b: Body, of: Shaped, depth: int) -> X | None:
    if of.dtype not in ("FP32", "FP16", "INT32") or not of.full or of.shape[-1] == 1:
        return None
    mask = comparison(b, of, depth)
    return X(mask.kernel, f'R.number({mask.twin}, "{of.dtype}")', of)


# -- vectors -----------------------------------------------------------------------------------------------------------


def reduction(b: Body, of: Shaped, depth: int) -> X | None:
    """A column from rows, or a row from columns."""
    if len(of.shape) != 2 or 1 not in of.shape:
        return None
    rows, cols = b.base
    axis = "row" if of.shape[1] == 1 else "col"
    if of.shape != ((rows, 1) if axis == "row" else (1, cols)):
        return None
    kinds = ["sum", "max", "min", "prod"]
    sources = [of.dtype] if of.dtype in ARITHMETIC else []
    if of.dtype == "INT32" and b.r.chance(50):
        kinds = ["argmax", "argmin"]
        sources = [d for d in b.dtypes if d in (ARITHMETIC if axis == "row" else FLOATS)]
    sources = [d for d in sources if aligned(d, b.base)]
    if not sources:
        return None
    dtype, kind = b.r.pick(sources), b.r.pick(kinds)
    wanted = [s for s in b.shapes(dtype) if s.shape == b.base and s.valid[1 - (axis == "col")] and not b.perhaps_empty(s)]
    keep = 0 if axis == "row" else 1
    wanted = [s for s in wanted if s.valid[keep] == of.valid[keep]]
    if not wanted:
        return None
    name = f"{axis}_{kind}"
    x = operand(b, b.r.pick(wanted), depth)
    twin = f'R.reduce("{name}", {x.twin})'
    scratch = axis == "row" or kind.startswith("arg")
    if b.level == "tile" and (scratch or (name == "col_sum" and b.r.chance(50))):
        return X(f"{op(b, name)}({x.kernel}, {_scratch(b, dtype)})", twin, of)
    return X(f"{op(b, name)}({x.kernel})", twin, of)


def _scratch(b: Body, dtype: str) -> str:
    """A tile of the base's shape: the one there is, or another."""
    made = f"pl.create_tile({list(b.base)}, dtype=pl.{dtype}, target_memory=pl.Mem.Vec)"
    known = b.scope.like(("scratch", dtype, b.base))
    if known and b.r.chance(60):
        return b.r.pick(known)
    if b.r.chance(40):
        return made
    name = b.fresh("w")
    b.lines.put(f"{name} = {made}", "")
    b.scope.bind(name, ("scratch", dtype, b.base))
    return name


def expanded(b: Body, of: Shaped, depth: int) -> X | None:
    """A vector over a matrix."""
    if of.shape != b.base or 1 in of.shape:
        return None
    axis = b.r.pick(["row", "col"])
    shape = (of.shape[0], 1) if axis == "row" else (1, of.shape[1])
    valid = (of.valid[0], "1") if axis == "row" else ("1", of.valid[1])
    names = [n for n, d in _EXPAND.items() if of.dtype in d]
    v = of._replace(shape=shape, valid=valid)
    if not aligned(of.dtype, shape) or any(e.startswith("?") for e in valid):
        return None
    x, y = operand(b, of, depth), operand(b, v, depth)
    name = b.r.pick(names)
    full = f"{axis}_expand_{name}" if name else f"{axis}_expand"
    twin = f'R.lane("{full}", {x.twin}, {y.twin})' if name else f'R.expand("{full}", {x.twin}, {y.twin})'
    if b.level == "tensor" and of.full and name in ("add", "sub", "mul", "div") and b.r.chance(50):
        return _binary_text(b, name, x, y, twin, of)
    return X(f"{op(b, full)}({x.kernel}, {y.kernel})", twin, of)


# -- the whole ---------------------------------------------------------------------------------------------------------


def expression(b: Body, of: Shaped, depth: int) -> X:
    from fuzz_forms import FORMS as ALL
    from fuzz_moves import origin

    if depth >= 0:
        for _ in range(3):
            form = b.r.weighted(ALL)
            try:
                made = form(b, of, depth - 1)
            except Impossible:
                continue
            if made is not None:
                return made
    names = b.operands(of)
    if names:
        name = b.r.pick(names)
        return X(name, name, of)
    return origin(b, of)


FORMS: list[tuple[int, Form]] = [
    (8, binary),
    (4, unary),
    (6, with_scalar),
    (4, cast),
    (8, reduction),
    (7, expanded),
    (2, select),
    (1, filled),
]
