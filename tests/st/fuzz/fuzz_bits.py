"""More expressions of elements: bits and shifts, remainders, three operands, angles, parts, numbers in rows, counted columns.

In: a text under construction and what is wanted.  Out: an expression of exactly that type, or None where a form does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz_scalars import integer, literal
from fuzz_shapes import element, op, operand
from fuzz_values import ARITHMETIC, BITS, FLOATS, Shaped, X, aligned

if TYPE_CHECKING:
    from fuzz_body import Body

Form = Callable[["Body", Shaped, int], "X | None"]

INTEGERS = ("INT32", "INT16", "INT8", "UINT8", "UINT16", "UINT32")
_BITWISE = ("and", "or", "xor", "shl", "shr")
_SHIFTED = ("INT32", "INT16", "UINT32", "UINT16")
_MODES = ("eq", "ne", "lt", "le", "gt", "ge")
_SPELLED = {"and": "and_", "or": "or_", "not": "not_"}


def scratch(b: Body, of: Shaped, dtype: str = "") -> str:
    """A tile of that shape, for nothing but the operator's own use."""
    return f"pl.create_tile({list(of.shape)}, dtype=pl.{dtype or of.dtype})"


def _with_scratch(b: Body, of: Shaped, name: str) -> str:
    """Tiles need scratch for some operators, tensors have none."""
    return f", {scratch(b, of)}" if b.level == "tile" and name == "xor" else ""


def bitwise(b: Body, of: Shaped, depth: int) -> X | None:
    if of.dtype not in INTEGERS:
        return None
    if of.dtype in ("INT16", "UINT16") and b.r.chance(20):
        x = operand(b, of, depth)
        return X(f"{op(b, 'not_')}({x.kernel})", f'R.lane("not", {x.twin})', of)
    # Of a part of a tensor, xor gives what claims to be valid everywhere.
    name = b.r.pick([n for n in _BITWISE if n != "xor" or of.full or b.level == "tile"])
    spelled = op(b, _SPELLED.get(name, name))
    x = operand(b, of, depth)
    if b.r.chance(40) and (name[:2] != "sh" or of.dtype in _SHIFTED):
        return _by_number(b, of, name, spelled, x)
    y = operand(b, of, depth)
    if name in ("shl", "shr") and b.r.chance(30):
        return X(f"({x.kernel} {'<<' if name == 'shl' else '>>'} {y.kernel})", f'R.lane("{name}", {x.twin}, {y.twin})', of)
    more = _with_scratch(b, of, name)
    return X(f"{spelled}({x.kernel}, {y.kernel}{more})", f'R.lane("{name}", {x.twin}, {y.twin})', of)


def _by_number(b: Body, of: Shaped, name: str, spelled: str, x: X) -> X:
    if of.dtype in ("INT32", "INT16") and b.r.chance(40):
        n = integer(b, of.dtype, 1)
        s = X(n.kernel, f'R.element("{of.dtype}", {n.twin})')
    else:
        v = b.r.pick((1, 3, 0, 7, BITS[of.dtype] - 1) if name[:2] == "sh" else (1, 3, 0, 85, 127))
        s = X(literal(v), f'R.element("{of.dtype}", {v})')
    if b.r.chance(50):
        spelled = f"pl.{name}s" if b.r.chance(60) else f"pl.{b.level}.{name}s"
    elif spelled.count(".") == 2:
        spelled = f"pl.{spelled.rpartition('.')[2]}"  # the level's own name takes two tiles or tensors
    return X(f"{spelled}({x.kernel}, {s.kernel}{_with_scratch(b, of, name)})", f'R.lane("{name}s", {x.twin}, {s.twin})', of)


def remainder(b: Body, of: Shaped, depth: int) -> X | None:
    """fmod; Python's remainder of tiles."""
    tile = b.level == "tile"
    if of.dtype != "FP32" and not (tile and of.dtype == "INT32"):
        return None
    x = operand(b, of, depth)
    if tile and (of.dtype == "INT32" or b.r.chance(50)):
        tmp = scratch(b, of)
        if b.r.chance(40):
            s = element(b, of.dtype, nonzero=of.dtype == "INT32")
            return X(f"pl.rems({x.kernel}, {s.kernel}, {tmp})", f'R.lane("rems", {x.twin}, {s.twin})', of)
        y = operand(b, of, depth)
        return X(f"pl.rem({x.kernel}, {y.kernel}, {tmp})", f'R.lane("rem", {x.twin}, {y.twin})', of)
    if b.r.chance(40):
        s = element(b, of.dtype)
        return X(f"{op(b, 'fmods')}({x.kernel}, {s.kernel})", f'R.lane("fmods", {x.twin}, {s.twin})', of)
    y = operand(b, of, depth)
    return X(f"{op(b, 'fmod')}({x.kernel}, {y.kernel})", f'R.lane("fmod", {x.twin}, {y.twin})', of)


def three(b: Body, of: Shaped, depth: int) -> X | None:
    """Sums and differences of three; slopes of their own."""
    if b.level != "tile" or of.dtype not in ARITHMETIC:
        return None
    x, z = operand(b, of, depth), operand(b, of, depth)
    if of.dtype in FLOATS and b.r.chance(30):
        tmp = scratch(b, of._replace(shape=(of.shape[0] + 8, of.shape[1])), "UINT8")
        if not aligned("UINT8", of.shape) or of.shape[1] == 1:
            return None
        return X(f"pl.prelu({x.kernel}, {z.kernel}, {tmp})", f'R.lane("prelu", {x.twin}, {z.twin})', of)
    name = b.r.pick(["addc", "subc"])
    if b.r.chance(40):
        s = element(b, of.dtype)
        return X(
            f"pl.{name[:3]}sc({x.kernel}, {s.kernel}, {z.kernel})", f'R.lane("{name[:3]}sc", {x.twin}, {s.twin}, {z.twin})', of
        )
    y = operand(b, of, depth)
    return X(f"pl.{name}({x.kernel}, {y.kernel}, {z.kernel})", f'R.lane("{name}", {x.twin}, {y.twin}, {z.twin})', of)


def angle(b: Body, of: Shaped, depth: int) -> X | None:
    if of.dtype != "FP32":
        return None
    name, x = b.r.pick(["sin", "cos"]), operand(b, of, depth)
    return X(f"{op(b, name)}({x.kernel})", f'R.lane("{name}", {x.twin})', of)


def parts(b: Body, of: Shaped, depth: int) -> X | None:
    """The second operand is valid in any part of the first one's rectangle, or beyond it."""
    if of.dtype not in ARITHMETIC or of.nameless or (b.level == "tensor" and not of.full):
        return None
    kind = b.r.pick(["add", "mul", "max", "min"])
    x = operand(b, of, depth)
    others = [s for s in b.shapes(of.dtype) if s.shape == of.shape] if b.level == "tile" else [of]
    y = operand(b, b.r.pick(others), depth) if others else x
    meaning = {"max": "maximum", "min": "minimum"}.get(kind, kind)
    twin = f'R.part(lambda p, q: R.lane("{meaning}", p, q), {x.twin}, {y.twin})'
    return X(f"{op(b, f'part_{kind}')}({x.kernel}, {y.kernel})", twin, of)


# -- made of numbers ---------------------------------------------------------------------------------------------------


def counted(b: Body, of: Shaped, depth: int) -> X | None:
    """Numbers one after the other, and triangles of ones."""
    if not of.full:
        return None
    if of.shape[0] == 1 and of.dtype in _SHIFTED and of.shape[1] > 1:
        start = b.r.pick([0, 3, 100] if of.dtype[0] == "U" else [0, 3, -5, 32760])
        down = b.r.chance(40)
        name = "pl.tile.ci" if b.level == "tile" else b.r.pick(["pl.arange", "pl.tensor.ci"])
        text = f"{name}({literal(start)}, {list(of.shape)}, dtype=pl.{of.dtype}{', descending=True' if down else ''})"
        return X(text, f'R.arange({start}, {list(of.shape)}, "{of.dtype}", {down})', of)
    if b.level != "tile" or of.shape[1] == 1:
        return None
    d = integer(b, "INT32", 1) if b.r.chance(40) else X(literal(n := b.r.number(-2, 5)), str(n))
    upper, name = b.r.chance(40), b.r.pick(["pl.tri", "pl.tile.tri"])
    text = f"{name}({d.kernel}, {list(of.shape)}, dtype=pl.{of.dtype}{', upper=True' if upper else ''})"
    return X(text, f'R.tri({d.twin}, {list(of.shape)}, "{of.dtype}", {upper})', of)


def compared_columns(b: Body, of: Shaped, depth: int) -> X | None:
    """Numbers of the columns that compare with a value; how many they are is a name of its own."""
    if of.dtype != "INT32" or not of.full or of.shape[1] == 1:
        return None
    rows, most = of.shape
    dtype = b.r.pick([d for d in b.dtypes if d in ARITHMETIC] or ["INT32"])
    cols = b.r.pick([most, 2 * most, 64])
    if not aligned(dtype, (rows, cols)) or not aligned("INT32", (1, rows)) or cols < most:
        return None
    x, mode, offset = (
        operand(b, Shaped(b.level, dtype, (rows, cols), (str(rows), str(cols))), depth),
        b.r.number(0, 5),
        b.r.pick([0, 5]),
    )
    v = b.r.pick([0, 1, -2])
    spelled = str(mode) if b.r.chance(50) else f'"{_MODES[mode]}"'
    name, count = b.fresh("v"), b.fresh("v")
    tail = f"cmp_mode={spelled}, out_cols={most}, offset={offset}"
    value = literal(float(v) if dtype in FLOATS else v)
    if b.level == "tile":
        tmp = f"pl.create_tile([{rows}, {cols}], dtype=pl.{dtype})"
        text = f"pl.tile.gather_compare({x.kernel}, {value}, {tmp}, {tail})"
    else:
        text = f"pl.gather({x.kernel}, kvalue={value}, {tail})"
    b.lines.put(
        f"{name}, {count} = {text}", f'{name}, {count} = R.columns({x.twin}, R.element("{dtype}", {v}), {mode}, {most}, {offset})'
    )
    b.scope.bind(count, Shaped(b.level, "INT32", (1, rows), ("1", str(rows))))
    b.scope.bind(name, of)
    return X(name, name, of)


FORMS: list[tuple[int, Form]] = [
    (3, bitwise),
    (2, remainder),
    (2, three),
    (1, angle),
    (2, parts),
    (3, counted),
    (2, compared_columns),
]
