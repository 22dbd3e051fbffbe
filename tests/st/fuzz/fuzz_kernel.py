"""Statements of a kernel: definitions, stores, element writes, helpers, loops that carry a tensor.

In: the body of a kernel.  Out: its statements.  Invariant: what is stored lies within rows of an output that this kernel
was given.
"""

from __future__ import annotations

from typing import Any

import fuzz_arrays as arrays
import fuzz_flow as flow
from fuzz_body import Body, Region
from fuzz_scalars import index, integer, of_dtype
from fuzz_shapes import expression
from fuzz_values import Impossible, Lines, Scalar, Scope, Shaped, X, aligned


def define(b: Body) -> None:
    """A new name for a value of a type that the body likes."""
    shapes = b.shapes(b.r.pick(b.dtypes))
    if not shapes:
        return
    of = shapes[0] if b.r.chance(35) else b.r.pick(shapes)
    e = expression(b, of, 2)
    if e.kernel.isidentifier() and b.r.chance(70):
        return
    b.define(e.of if isinstance(e.of, Shaped) else of, e.kernel, e.twin)


def ragged(b: Body) -> None:
    """A value whose extents only the run knows."""
    if b.level != "tile":
        return
    partial = [(n, v) for n, v in b.scope.of_kind(Shaped) if v.level == "tile" and not v.full and v.shape[1] > 1]
    dtype = b.r.pick(b.dtypes)
    rows, cols = b.base
    if partial and b.r.chance(50):
        name, v = b.r.pick(partial)
        rows = max(1, v.shape[0] // 2)
        row = index(b, 0, v.shape[0] - rows)
        shape = [rows, v.shape[1]]
        of = Shaped("tile", v.dtype, (rows, v.shape[1]), (b.fresh("?"), b.fresh("?")), False)
        b.define(of, f"pl.slice({name}, {shape}, [{row.kernel}, 0])", f"R.slice_({name}, {shape}, [{row.twin}, 0])")
        return
    if not aligned(dtype, (rows, cols)):
        return
    name, g = b.source(dtype, 1, 1)
    at = [index(b, 0, n - 1) for n in g.shape]
    of = Shaped("tile", dtype, (rows, cols), (b.fresh("?"), b.fresh("?")))
    kernel, twin = ", ".join(i.kernel for i in at), ", ".join(i.twin for i in at)
    b.define(
        of,
        f"pl.load({name}, [{kernel}], [{rows}, {cols}], clamp=True)",
        f"R.load({name}, [{twin}], [{rows}, {cols}], clamp=True)",
    )


# -- stores ------------------------------------------------------------------------------------------------------------


def _place(b: Body, of: Shaped) -> tuple[Region, X, bool]:
    """Rows for a value, and the offset among them: of the block, of a trip, or anywhere."""
    if b.block is not None:
        blocks = b.block.of.high + 1
        region = b.arrays.region(of.dtype, of.shape[0] * blocks, of.shape[1])
        text = f"{region.row} + {b.block.kernel} * {of.shape[0]}"
        return region, X(text, text), False
    known = [r for r, s in b.stored if s.dtype == of.dtype and s.shape == of.shape]
    if known and b.r.chance(10):
        return known[0], X(str(known[0].row), str(known[0].row)), False
    counters = [(n, s) for n, s in b.scope.of_kind(Scalar) if s.dtype == "INDEX" and s.bounded and s.low >= 0 and s.high <= 4]
    if counters and b.r.chance(40):
        name, s = b.r.pick(counters)
        region = b.arrays.region(of.dtype, of.shape[0] * (s.high + 1), of.shape[1])
        text = f"{name} * {of.shape[0]} + {region.row}" if region.row else f"{name} * {of.shape[0]}"
        return region, X(text, text), False
    extra = b.r.pick([0, 0, 0, 2])
    region = b.arrays.region(of.dtype, of.shape[0] + extra, of.shape[1])
    e = index(b, 0, extra) if extra else X("0", "0")
    if e.kernel.isdigit():
        row = str(region.row + int(e.kernel))
        return region._replace(row=int(row)), X(row, row), True
    return region, X(f"{region.row} + {e.kernel}", f"{region.row} + {e.twin}"), False


def store(b: Body) -> None:
    values = [(n, v) for n, v in b.scope.of_kind(Shaped) if v.level == b.level and len(v.shape) == 2]
    if not values:
        return
    name, of = values[0] if b.r.chance(50) else b.r.pick(values)
    _store(b, name, name, of)


def _store(b: Body, kernel: str, twin: str, of: Shaped) -> None:
    region, row, fixed = _place(b, of)
    o, column = region.name, region.col
    rows, cols = of.shape
    if b.level == "tensor":
        if of.full and b.r.chance(60):
            cut = f"{row.kernel}:{int(row.kernel) + rows}" if row.kernel.isdigit() else _slice(b, row, rows)
            b.lines.put(f"{o}[{cut}, {column}:{column + cols}] = {kernel}", f"R.assemble({o}, {twin}, [{row.twin}, {column}])")
        else:
            b.lines.put(
                f"{o} = pl.assemble({o}, {kernel}, [{row.kernel}, {column}])", f"R.assemble({o}, {twin}, [{row.twin}, {column}])"
            )
    else:
        shapes = ""
        if of.full and rows > 1 and b.r.chance(10):
            shapes = f", [{b.r.number(1, rows)}, {cols}]"
        text = f"pl.store({kernel}, [{row.kernel}, {column}], {o}{shapes})"
        said = f"R.store({twin}, [{row.twin}, {column}], {o}{shapes})"
        b.lines.put(f"{o} = {text}" if b.r.chance(50) else text, said)
        fixed = fixed and not shapes
    if fixed and of.full:
        b.stored.insert(0, (region, of))


def _slice(b: Body, row: X, rows: int) -> str:
    name = b.named(row).kernel
    return f"{name}:{name} + {rows}"


def reload(b: Body) -> None:
    """What this kernel stored, read again."""
    known = [(r, s) for r, s in b.stored if s.shape[1] > 1]
    if not known or b.block is not None:
        return
    region, of = b.r.pick(known)
    name, shape = b.arrays.reading(region.name), list(of.shape)
    at = f"[{region.row}, {region.col}]"
    if b.level == "tile":
        b.define(of._replace(own=True), f"pl.load({name}, {at}, {shape})", f"R.load({name}, {at}, {shape})")
        return
    rows, cols = of.shape
    cut = f"{region.row}:{region.row + rows}, {region.col}:{region.col + cols}"
    b.define(of._replace(own=True), f"{name}[{cut}]", f"R.slice_({name}, {shape}, {at})")


def write_element(b: Body) -> None:
    dtype = b.r.pick(["INT32", "FP32", "INT64"])
    e = integer(b, "INDEX") if dtype == "INT64" else of_dtype(b, dtype)
    if dtype == "INT64":
        e = X(f"pl.cast({e.kernel}, pl.INT64)", e.twin)
    if b.block is not None:
        return
    name, k = b.arrays.slot(dtype)
    b.lines.put(f"pl.write({name}, [{k}], {e.kernel})", f"R.write({name}, [{k}], {e.twin})")


# -- loops that carry a tensor -----------------------------------------------------------------------------------------


def carried_store(b: Body) -> None:
    """A loop whose carried values are a value and the output it is stored to."""
    own = [(n, v) for n, v in b.scope.of_kind(Shaped) if v.level == b.level == "tile" and v.own and not v.nameless]
    if not own or b.block is not None or b.loops:
        return
    name, of = b.r.pick(own)
    trips = b.r.number(0, 3)
    n = index(b, trips, trips) if b.r.chance(50) else b.number(0, trips)
    region = b.arrays.region(of.dtype, of.shape[0] * max(1, trips), of.shape[1])
    i, p, oo, stored, q = b.fresh("i"), b.fresh("p"), b.fresh("p"), b.fresh("v"), b.fresh("q")
    b.lines.put("", f"{p}, {oo} = {name}, {region.name}")
    b.lines.put(
        f"for {i}, ({p}, {oo}) in pl.range({n.kernel}, init_values=({name}, {region.name})):", f"for {i} in range({n.twin}):"
    )
    with b.inner("explicit") as scope:
        scope.bind(p, of, fixed=True)
        scope.bind(i, Scalar("INDEX", 0, max(0, trips - 1)), fixed=True)
        at = f"[{region.row} + {i} * {of.shape[0]}, {region.col}]"
        b.lines.put(f"{stored} = pl.store({p}, {at}, {oo})", f"{stored} = R.store({p}, {at}, {oo})")
        e = expression(b, of, 1)
        b.lines.put(f"{q}, {region.name} = pl.yield_({e.kernel}, {stored})", f"{p}, {oo} = {e.twin}, {stored}")
    b.lines.put("", f"{q} = {p}")
    b.scope.bind(q, of)


# -- helpers -----------------------------------------------------------------------------------------------------------


class Nothing:
    """The arrays of a helper: it has its parameters only."""

    def __getattr__(self, name: str) -> Any:
        raise Impossible


class Helper:
    """A function that is spliced into its callers."""

    def __init__(self, name: str, of: Shaped, count: int, results: list[Any], base: tuple[int, int]) -> None:
        self.name, self.of, self.count, self.results, self.base = name, of, count, results, base


def call_helper(b: Body) -> None:
    own = [v for _, v in b.scope.of_kind(Shaped) if v.level == b.level and not v.nameless and v.own]
    if not own:
        return
    of = b.r.pick(own)
    known = [h for h in b.helpers if h.of == of and h.base == b.base]
    helper = b.r.pick(known) if known and b.r.chance(60) else _helper(b, of)
    args = [b.r.pick(b.operands(of)) for _ in range(helper.count)]
    k = of_dtype(b, "FP32", 1) if b.r.chance(70) else X("0.5", 'R.element("FP32", 0.5)')
    names = [b.fresh() for _ in helper.results]
    given = ", ".join(args)
    target = ", ".join(names)
    b.lines.put(f"{target} = {helper.name}({given}, {k.kernel})", f"{target} = {helper.name}({given}, {k.twin})")
    for name, result in zip(names, helper.results, strict=True):
        b.scope.bind(name, result)


def _helper(b: Body, of: Shaped) -> Helper:
    """A new one, of one or two values and a number."""
    count = b.r.number(1, 2)
    name = b.fresh("h")
    params = [b.fresh("x") for _ in range(count)]
    k = b.fresh("k")
    lines, scope = Lines(1), Scope()
    # Extents are the caller's: a helper cannot name them.
    own = of._replace(valid=tuple(v if v.isdigit() else "?" + v for v in of.valid))
    for p in params:
        scope.bind(p, own)
    scope.bind(k, Scalar("FP32"))
    inner = Body(b.r, Nothing(), b.level, lines, scope, b.fresh, [of.dtype])
    inner.base = b.base
    for _ in range(b.r.number(0, 2)):
        made = _helper_expression(inner, own)
        inner.define(own, made.kernel, made.twin)
    results = [of for _ in range(b.r.number(1, 2))]
    values = [_helper_expression(inner, own) for _ in results]
    returned = ", ".join(v.kernel for v in values), ", ".join(v.twin for v in values)
    lines.put(f"return {returned[0]}", f"return {returned[1]}")
    note = ": pl.Tensor" if b.level == "tensor" and b.r.chance(50) else ""
    head = f"def {name}({', '.join(p + note for p in params)}, {k}"
    b.functions.append((["@pl.jit.inline", f"{head}: pl.FP32):", *lines.kernel], [f"{head}):", *lines.twin]))
    helper = Helper(name, of, count, results, b.base)
    b.helpers.append(helper)
    return helper


def _helper_expression(b: Body, of: Shaped) -> X:
    try:
        return expression(b, of, 1)
    except Impossible:
        name = b.operands(of)[0]
        return X(name, name, of)


KERNEL = [
    (6, define),
    (4, store),
    (2, flow.rebind),
    (2, flow.scalar),
    (1, write_element),
    (1, arrays.make),
    (2, arrays.put),
    (1, flow.swap),
    (1, ragged),
    (1, call_helper),
    (1, reload),
    (1, carried_store),
]
