"""Entries: kernels in scopes, kernels that are called, launches of blocks, temporaries, control flow around them.

In: decisions.  Out: the two texts of a program with its parameters.  Invariant: a temporary is written whole before
anything reads it, and the blocks of one launch write rows of their own.
"""

from __future__ import annotations

from typing import Any

import fuzz_flow as flow
from fuzz_body import Arrays, Body, Region
from fuzz_choices import Choices
from fuzz_kernel import KERNEL, define, store
from fuzz_products import LANES
from fuzz_products import STATEMENTS as PRODUCTS
from fuzz_scalars import index, of_dtype
from fuzz_shapes import expression
from fuzz_storage import STATEMENTS as STORAGE
from fuzz_storage import clones
from fuzz_values import BYTES, Global, Lines, Scalar, Scope, Shaped, X, aligned, whole

BASES = ((8, 32), (8, 16), (16, 16), (4, 64), (1, 32), (16, 8), (3, 32), (16, 32), (2, 128), (5, 16), (8, 72))
PALETTES = (
    ["FP32"],
    ["FP32", "INT32"],
    ["FP32", "FP16"],
    ["INT32", "INT16"],
    ["FP32", "BF16"],
    ["FP16", "INT8", "UINT8"],
    ["FP32", "INT32", "FP16", "INT16"],
)


class Parameters:
    """The arrays of a function that is called: parameters of its own for those of the entry."""

    def __init__(self, r: Choices, b: Body) -> None:
        self.r, self.b = r, b
        self.tensors: dict[str, tuple[str, Global | None, str]] = {}  # parameter -> actual, what it is, direction
        self.numbers: dict[str, tuple[X, Scalar]] = {}
        self.configured = False

    def _for(self, actual: str, g: Global | None, direction: str) -> str:
        for name, (a, _, d) in self.tensors.items():
            if a == actual and (d == "") == (direction == ""):
                return name
        name = self.b.fresh("t")
        self.tensors[name] = (actual, g, direction)
        return name

    def input(self, dtype: str, rows: int, cols: int, exact: bool = False) -> tuple[str, Global]:
        actual, g = self.b.source(dtype, rows, cols, exact)
        return self._for(actual, g, ""), g

    def indices(self, dtype: str, limit: int, rows: int, cols: int, exact: bool = False, step: int = 1) -> tuple[str, Global]:
        actual, g = self.b.indices(dtype, limit, rows, cols, exact, step)
        return self._for(actual, g, ""), g

    def block(self, dtype: str, shape: tuple[int, ...]) -> tuple[str, Global]:
        actual, g = self.b.block_of(dtype, shape)
        return self._for(actual, g, ""), g

    def region(self, dtype: str, rows: int, cols: int, alone: bool = False) -> Region:
        made: Region = self.b.arrays.region(dtype, rows, cols, alone)
        return made._replace(name=self._for(made.name, None, "Out"))

    def slot(self, dtype: str) -> tuple[str, int]:
        actual, k = self.b.arrays.slot(dtype)
        return self._for(actual, None, "Out"), k

    def reading(self, name: str) -> str:
        actual, g, _ = self.tensors[name]
        self.b.arrays.reading(actual)
        self.tensors[name] = (actual, g, "InOut")
        return name

    def number(self, low: int, high: int) -> X:
        if self.r.chance(60):
            name = self.b.fresh("n")
            self.numbers[name] = (index(self.b, low, high), Scalar("INDEX", low, high))
            return X(name, name, self.numbers[name][1])
        self.configured = True
        made = self.b.arrays.number(low, high)
        if made.kernel.isidentifier():  # a parameter of the entry
            self.numbers[made.kernel] = (made, made.of)
        return made

    def scalar(self, dtype: str) -> X:
        name = self.b.fresh("n")
        self.numbers[name] = (of_dtype(self.b, dtype), Scalar(dtype))
        return X(name, name, self.numbers[name][1])


# -- bodies of kernels ---------------------------------------------------------------------------------------------------


def kernel_body(b: Body, arrays: Any, level: str, lines: Lines, scope: Scope) -> Body:
    """Ready to be filled with statements."""
    made = Body(b.r, arrays, level, lines, scope, b.fresh, list(b.r.pick(PALETTES)))
    fitting = [s for s in BASES if aligned(made.dtypes[0], s)]
    made.base = b.r.pick(fitting)
    made.helpers, made.functions, made.chains = b.helpers, b.functions, b.chains
    made.counters |= b.counters
    made.statements = [*KERNEL, *PRODUCTS, *STORAGE]
    return made


def _preamble(k: Body) -> None:
    """Extents known at run time, numbers, a first value."""
    rows, cols = k.base
    for most in (rows, cols):
        if k.r.chance(35) and most > 1:
            least = 0 if k.r.chance(20) else 1
            name = k.define(Scalar("INDEX", least, most), *_number(k, least, most), prefix="m")
            k.scope.fixed.add(name)
            k.extents[name] = (least, most)
    if k.r.chance(30):
        name = k.arrays.scalar(k.r.pick(["FP32", "INT32", "BOOL"]))
        if name.kernel not in k.scope.names:
            k.scope.bind(name.kernel, name.of, fixed=True)
    for _ in range(k.r.number(1, 2)):
        define(k)


def _number(k: Body, low: int, high: int) -> tuple[str, str]:
    e = k.number(low, high)
    return e.kernel, e.twin


def fill(k: Body, most: int) -> None:
    _preamble(k)
    if not k.scope.of_kind(Shaped):
        e = expression(k, whole(k.level, k.dtypes[0], *k.base), 1)
        k.define(whole(k.level, k.dtypes[0], *k.base), e.kernel, e.twin)
    flow.block(k, most)
    store(k)


def _inherited(b: Body) -> Scope:
    """What a scope sees of the entry; it binds none of it anew."""
    scope = Scope(b.scope)
    scope.fixed |= set(scope.names)
    return scope


# -- statements of an entry ----------------------------------------------------------------------------------------------


def scope_kernel(b: Body) -> None:
    """`with pl.at(...)`: tiles, or tensors of which one may be used afterwards."""
    level = b.r.weighted([(3, "tile"), (2, "tensor")])
    hint = f', name_hint="{b.fresh("stage")}"' if b.r.chance(20) else ""
    b.lines.put(f"with pl.at(level=pl.Level.CORE_GROUP{hint}):", "if True:")
    k = kernel_body(b, b.arrays, level, b.lines, _inherited(b))
    with b.lines.nested():
        fill(k, 6)
    left = [(n, k.scope.names[n]) for n in sorted(k.scope.own)]
    values = [(n, v) for n, v in left if isinstance(v, Shaped) and v.level == "tensor" and v.full and v.own]
    if values and not b.loops and b.r.chance(30):
        name, of = b.r.pick(values)
        b.scope.bind(name, of, fixed=True)


def call_kernel(b: Body) -> None:
    """A function of its own, perhaps called again."""
    known = [f for f in b.callable if all(a in b.scope.names or a in b.arrays.names() for a in f[1])]
    if known and b.r.chance(30):
        _call(b, b.r.pick(known)[0])
        return
    level = b.r.weighted([(3, "tile"), (1, "tensor")])
    parameters = Parameters(b.r, b)
    lines = Lines(1)
    k = kernel_body(b, parameters, level, lines, Scope())
    fill(k, 6)
    name = b.fresh("kernel")
    outs = [p for p, (_, _, d) in parameters.tensors.items() if d]
    lines.put(f"return {', '.join(outs)}")
    kernel, twin = [], []
    for p, (_, g, direction) in parameters.tensors.items():
        note = "pl.Tensor"
        if g is not None and b.r.chance(30):
            note = f"pl.Tensor[{list(g.shape)}, pl.{g.dtype}]"
        kernel.append(f"{p}: pl.{direction}[{note}]" if direction else f"{p}: {note}")
        twin.append(p)
    for n, (_, s) in parameters.numbers.items():
        kernel.append(f"{n}: pl.{s.dtype}")
        twin.append(n)
    if parameters.configured:
        kernel.append("c: pl.Tensor")
        twin.append("c")
    b.functions.append(
        (
            ["@pl.jit.incore", f"def {name}({', '.join(kernel)}):", *lines.kernel],
            [f"def {name}({', '.join(twin)}):", *lines.twin],
        )
    )
    actuals = [a for a, _, _ in parameters.tensors.values()]
    b.callable.append(((name, parameters, outs), actuals))
    _call(b, (name, parameters, outs))


def _call(b: Body, f: tuple[str, Parameters, list[str]]) -> None:
    """The tensors are the same ones each time, the numbers are not."""
    name, parameters, outs = f
    tensors = [a for a, _, _ in parameters.tensors.values()]
    first = [e for e, _ in parameters.numbers.values()]
    visible = all(not e.kernel.isidentifier() or e.kernel in b.scope.names or e.kernel in b.arrays.numbers for e in first)
    numbers = []
    for e, s in parameters.numbers.values():
        again = not visible or not _usable(b, e) or b.r.chance(50)
        numbers.append(e if not again else index(b, s.low, s.high) if s.bounded else of_dtype(b, s.dtype))
    rest = ["c"] if parameters.configured else []
    kernel = ", ".join([*tensors, *(n.kernel for n in numbers), *rest])
    twin = ", ".join([*tensors, *(n.twin for n in numbers), *rest])
    target = ", ".join(parameters.tensors[o][0] for o in outs)
    b.lines.put(f"{target} = {name}({kernel})", f"{name}({twin})")


def _usable(b: Body, e: X) -> bool:
    return e.kernel.isdigit() or e.kernel.isidentifier()


def launch(b: Body) -> None:
    """Blocks that run in any order."""
    n = b.r.number(1, 3)
    i, kind = b.fresh("b"), b.r.pick(["parallel", "for", "with", "cluster"])
    of = Scalar("INDEX", 0, n - 1)
    scope = _inherited(b)
    scope.bind(i, of, fixed=True)
    k = kernel_body(b, b.arrays, "tile" if kind == "parallel" else b.r.pick(["tile", "tensor"]), b.lines, scope)
    k.block = X(i, i, of)
    if kind in ("parallel", "for"):
        b.lines.put(f"for {i} in pl.{'spmd' if kind == 'for' else kind}({n}):", f"for {i} in range({n}):")
        with b.lines.nested():
            if kind == "parallel":
                b.lines.put("with pl.at(level=pl.Level.CORE_GROUP):", "if True:")
                b.lines.depth += 1
            fill(k, 4)
            b.lines.depth -= kind == "parallel"
        return
    if kind == "cluster":
        b.lines.put("with pl.cluster():", "if True:")
        b.lines.depth += 1
    b.lines.put(f"with pl.spmd({n}):", f"for {i} in range({n}):")
    with b.lines.nested():
        b.lines.put(f"{i} = pl.get_block_idx()", "")
        total = k.define(Scalar("INDEX", n, n), "pl.get_block_num()", str(n), "n")
        k.scope.fixed.add(total)
        fill(k, 4)
    b.lines.depth -= kind == "cluster"


def lanes(b: Body) -> None:
    """Products, and regions of two vector lanes between them."""
    b.lines.put("with pl.at(level=pl.Level.CORE_GROUP):", "if True:")
    k = kernel_body(b, b.arrays, "tensor", b.lines, _inherited(b))
    with b.lines.nested():
        for _ in range(b.r.number(1, 2)):
            b.r.weighted(LANES)(k)


def temporary(b: Body) -> None:
    """A tensor of the entry's own, written whole by a kernel."""
    dtype = b.r.pick(["FP32", "INT32", "FP16"])
    rows, cols = b.r.pick([s for s in BASES if s[1] * BYTES[dtype] % 32 == 0])
    name = b.fresh("u")
    g = Global(dtype, (rows, cols), True)
    init = b.r.pick([None, None, 0, 1, -2])
    said = "" if init is None else f", init_value={init}"
    b.lines.put(
        f"{name} = pl.create_tensor([{rows}, {cols}], dtype=pl.{dtype}{said})",
        f'{name} = R.temporary([{rows}, {cols}], "{dtype}", {init})',
    )
    if init is None or b.r.chance(50):
        _write_whole(b, name, dtype, (rows, cols))
    b.scope.bind(name, g)


def _write_whole(b: Body, name: str, dtype: str, shape: tuple[int, int]) -> None:
    level = b.r.pick(["tensor", "tile"])
    b.lines.put("with pl.at(level=pl.Level.CORE_GROUP):", "if True:")
    k = kernel_body(b, b.arrays, level, b.lines, _inherited(b))
    k.base, k.dtypes = shape, [dtype, *[d for d in k.dtypes if d != dtype]]
    with b.lines.nested():
        e = expression(k, whole(level, dtype, *shape), 2)
        if level == "tensor":
            b.lines.put(f"{name}[:] = {e.kernel}", f"R.assemble({name}, {e.twin}, [0, 0])")
        else:
            text = f"pl.store({e.kernel}, [0, 0], {name})"
            b.lines.put(f"{name} = {text}" if b.r.chance(50) else text, f"R.store({e.twin}, [0, 0], {name})")


def rewrite(b: Body) -> None:
    """A temporary written again, from itself among others."""
    known = [(n, g) for n, g in b.scope.of_kind(Global) if g.writable]
    if known:
        name, g = b.r.pick(known)
        _write_whole(b, name, g.dtype, (g.shape[0], g.shape[1]))


def exchange(b: Body) -> None:
    """Two temporaries change their names."""
    known = [(n, g) for n, g in b.scope.of_kind(Global) if g.writable]
    for n, g in known:
        others = [m for m, h in known if h == g and m != n]
        if others:
            other = b.r.pick(others)
            b.lines.put(f"{n}, {other} = {other}, {n}")
            return


def view(b: Body) -> None:
    """A part of an input, or another shape of it, without moving anything."""
    dtype = b.r.pick(["FP32", "INT32"])
    rows, cols = b.r.pick(BASES)
    source, g = b.arrays.input(dtype, rows, cols)
    name = b.fresh("w")
    if b.r.chance(60) or g.shape[0] * g.shape[1] % 32 or g.shape[0] % 2:
        row = index(b, 0, g.shape[0] - rows)
        row = b.named(row) if not row.kernel.isdigit() else row
        text = f"{source}[{row.kernel} : {row.kernel} + {rows}, :]"
        b.lines.put(f"{name} = {text}", f"{name} = {source}[{row.twin} : {row.twin} + {rows}, :]")
        b.scope.bind(name, Global(dtype, (rows, g.shape[1])))
        return
    shape = (g.shape[0] // 2, g.shape[1] * 2)
    b.lines.put(f"{name} = pl.reshape({source}, {list(shape)})", f"{name} = R.reshape({source}, {list(shape)})")
    b.scope.bind(name, Global(dtype, shape))


def rows_at_run_time(b: Body) -> None:
    """Blocks of the rows of arrays whose number of rows a call decides; the last block is rarely full."""
    k = kernel_body(b, b.arrays, "tile", b.lines, _inherited(b))
    rows, cols = k.base
    dtype = k.dtypes[0]
    x, o = b.arrays.rows(dtype, rows, cols)
    n = b.define(Scalar("INDEX"), f"pl.tensor.dim({x}, 0)", f"{x}.shape[0]", "n")
    i, m = b.fresh("i"), b.fresh("m")
    b.lines.put(f"for {i} in pl.range(0, {n}, {rows}):", f"for {i} in range(0, {n}, {rows}):")
    with b.lines.nested():
        b.lines.put(f"{m} = pl.min({rows}, {n} - {i})", f"{m} = min({rows}, {n} - {i})")
        k.scope.bind(m, Scalar("INDEX", 1, rows), fixed=True)
        k.scope.bind(i, Scalar("INDEX"), fixed=True)
        k.extents[m] = (1, rows)
        b.lines.put("with pl.at(level=pl.Level.CORE_GROUP):", "if True:")
        with b.lines.nested():
            of = Shaped("tile", dtype, (rows, cols), (m, str(cols)))
            valid = f"[{m}, {cols}]"
            k.define(
                of,
                f"pl.load({x}, [{i}, 0], [{rows}, {cols}], valid_shape={valid})",
                f"R.load({x}, [{i}, 0], [{rows}, {cols}], {valid})",
            )
            flow.block(k, 3)
            e = expression(k, of, 2)
            b.lines.put(f"pl.store({e.kernel}, [{i}, 0], {o})", f"R.store({e.twin}, [{i}, 0], {o})")


def element(b: Body) -> None:
    """An element written by the entry."""
    dtype = b.r.pick(["INT32", "FP32"])
    e = of_dtype(b, dtype)
    name, k = b.arrays.slot("FP32" if dtype == "FP32" else "INT32")
    b.lines.put(f"pl.write({name}, [{k}], {e.kernel})", f"R.write({name}, [{k}], {e.twin})")


ENTRY = [
    (5, scope_kernel),
    (4, call_kernel),
    (2, launch),
    (1, lanes),
    (1, clones),
    (1, rows_at_run_time),
    (2, temporary),
    (1, rewrite),
    (1, exchange),
    (1, view),
    (2, flow.scalar),
    (1, flow.rebind),
    (1, flow.swap),
    (1, element),
]


def entry_body(r: Choices) -> Body:
    arrays = Arrays(r)
    b = Body(r, arrays, "entry", Lines(1), Scope(), arrays.fresh, ["FP32"])
    b.deepest = 3
    b.statements = ENTRY
    return b
