"""A text under construction: the body of one kernel, and where its arrays and numbers come from.

In: decisions.  Out: lines of the kernel and of its twin.  `Arrays` are the entry's parameters, found or made when a
statement asks for them; `Parameters` stand before them in a function that is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fuzz_choices import Choices
from fuzz_values import Fresh, Global, Lines, Scalar, Scope, Shaped, X, aligned

SLOTS = 64  # of the array that holds run-time numbers


class Region(NamedTuple):
    """A place in an output where a kernel may store."""

    name: str
    row: int
    col: int


class Arrays:
    """The arrays of an entry: inputs, outputs, and numbers of known range."""

    def __init__(self, r: Choices) -> None:
        self.r = r
        self.fresh = Fresh()
        self.inputs: dict[str, Global] = {}
        self.outputs: dict[str, list[Any]] = {}  # name -> dtype, columns, rows used, rows as made
        self.elements: dict[str, list[Any]] = {}  # name -> dtype, elements used
        self.read_outputs: set[str] = set()
        self.slots: list[tuple[int, int]] = []
        self.numbers: dict[str, Scalar] = {}  # scalar parameters
        self.symbols: dict[str, tuple[str, str, str, int, int]] = {}  # extent -> input, output, dtype, columns, rows of a block

    def input(self, dtype: str, rows: int, cols: int, exact: bool = False) -> tuple[str, Global]:
        """A matrix of at least (or exactly) that size."""
        found = [
            (n, g)
            for n, g in self.inputs.items()
            if g.dtype == dtype and len(g.shape) == 2 and self.fits(g.shape, (rows, cols), exact)
        ]
        if found and (len(self.inputs) > 9 or self.r.chance(70)):
            return self.r.pick(found)
        extra = (0, 0) if exact else (self.r.pick([0, 8, 3, 1]), self.r.pick([0, 0, 8, 1, 5]))
        return self.add_input(dtype, (rows + extra[0], cols + extra[1]))

    @staticmethod
    def fits(shape: tuple[int, ...], wanted: tuple[int, ...], exact: bool) -> bool:
        return shape == wanted if exact else all(n >= w for n, w in zip(shape, wanted, strict=True))

    def add_input(self, dtype: str, shape: tuple[int, ...]) -> tuple[str, Global]:
        name = self.fresh("a")
        self.inputs[name] = Global(dtype, shape)
        return name, self.inputs[name]

    def indices(self, dtype: str, limit: int, rows: int, cols: int, exact: bool = False, step: int = 1) -> tuple[str, Global]:
        """A matrix of at least (or exactly) that size, of multiples of a step, fewer than a limit."""
        found = [
            (n, g)
            for n, g in self.inputs.items()
            if (g.dtype, g.step) == (dtype, step)
            and 0 < g.limit <= limit
            and len(g.shape) == 2
            and self.fits(g.shape, (rows, cols), exact)
        ]
        if found and (len(self.inputs) > 12 or self.r.chance(60)):
            return self.r.pick(found)
        extra = 0 if exact else self.r.pick([0, 0, 8])
        name = self.fresh("a")
        self.inputs[name] = Global(dtype, (rows, cols + extra), limit=limit, step=step)
        return name, self.inputs[name]

    def block(self, dtype: str, shape: tuple[int, ...]) -> tuple[str, Global]:
        """An array of exactly that shape, of any rank."""
        found = [(n, g) for n, g in self.inputs.items() if (g.dtype, g.shape, g.limit) == (dtype, shape, 0)]
        return self.r.pick(found) if found else self.add_input(dtype, shape)

    def region(self, dtype: str, rows: int, cols: int, alone: bool = False) -> Region:
        """Rows of an output that no other statement writes; `alone`: whole rows, the first of it."""
        for name, o in self.outputs.items():
            if o[0] == dtype and o[1] >= cols and o[2] < 200 and not alone:
                break
        else:
            name = self.fresh("o")
            o = self.outputs[name] = [dtype, cols + (0 if alone else self.r.pick([0, 8, 3])), 0]
        row = o[2]
        o[2] += rows
        return Region(name, row, self.r.number(0, o[1] - cols))

    def slot(self, dtype: str) -> tuple[str, int]:
        """An element of an output that is written element by element."""
        for name, o in self.elements.items():
            if o[0] == dtype and o[1] < SLOTS:
                break
        else:
            name = self.fresh("e")
            o = self.elements[name] = [dtype, 0]
        o[1] += 1
        return name, o[1] - 1

    def rows(self, dtype: str, rows: int, cols: int) -> tuple[str, str]:
        """An input and an output whose number of rows each call decides."""
        symbol = self.fresh("N")
        x, o = self.fresh("a"), self.fresh("o")
        self.symbols[symbol] = (x, o, dtype, cols + self.r.pick([0, 3]), rows)
        return x, o

    def names(self) -> set[str]:
        return {*self.inputs, *self.outputs, *self.elements}

    def reading(self, name: str) -> str:
        """An output that is read too."""
        self.read_outputs.add(name)
        return name

    def number(self, low: int, high: int) -> X:
        """A run-time INDEX within low..high: read from the array of numbers, or a parameter."""
        of = Scalar("INDEX", low, high)
        if self.r.chance(25) and len(self.numbers) < 8:
            name = self.fresh("s")
            self.numbers[name] = of
            return X(name, name, of)
        if ((low, high) in self.slots and self.r.chance(50)) or len(self.slots) >= SLOTS:
            known = [i for i, bounds in enumerate(self.slots) if low <= bounds[0] and bounds[1] <= high]
            k = self.r.pick(known) if known else 0
        else:
            self.slots.append((low, high))
            k = len(self.slots) - 1
        return X(f"pl.cast(pl.read(c, [{k}]), pl.INDEX)", f"R.read(c, ({k},))", of)

    def scalar(self, dtype: str) -> X:
        """A parameter of a dtype that is not a place."""
        known = [n for n, s in self.numbers.items() if s.dtype == dtype]
        if known and (self.r.chance(50) or len(self.numbers) > 10):
            name = self.r.pick(known)
        else:
            name = self.fresh("s")
            self.numbers[name] = Scalar(dtype)
        return X(name, name, self.numbers[name])


class Body:
    """On a core: statements over tiles (or tensors that become tiles)."""

    def __init__(self, r: Choices, arrays: Any, level: str, lines: Lines, scope: Scope, fresh: Fresh, dtypes: list[str]) -> None:
        self.r, self.arrays, self.level, self.lines, self.fresh = r, arrays, level, lines, fresh
        self.scope = scope
        self.dtypes = dtypes
        self.base: tuple[int, int] = (8, 32)
        self.extents: dict[str, tuple[int, int]] = {}  # scalars that are extents
        self.loops: list[str] = []
        self.counters: set[str] = set()  # variables of loops: numbers, if there is one trip only
        self.helpers: list[Any] = []
        self.functions: list[Any] = []  # texts of helpers and kernels, in order
        self.callable: list[Any] = []  # kernels that can be called again
        self.chains = False
        self.block: X | None = None  # the index of this run of an SPMD kernel
        self.lane: X | None = None  # of the vector lane that this text is for
        self.stored: list[tuple[Region, Shaped]] = []
        self.statements: list[Any] = []  # what `fuzz_flow.statement` picks from, with weights
        self.deepest = lines.depth + 3
        self.may_continue = True
        self.results: list[tuple[str, Any]] = []  # names that the loop just written leaves behind

    # -- where operands come from --

    def source(self, dtype: str, rows: int, cols: int, exact: bool = False) -> tuple[str, Global]:
        """A tensor to read from."""
        own = [
            (n, g)
            for n, g in self.scope.of_kind(Global)
            if g.dtype == dtype and len(g.shape) == 2 and Arrays.fits(g.shape, (rows, cols), exact)
        ]
        if own and self.r.chance(60):
            return self.r.pick(own)
        found: tuple[str, Global] = self.arrays.input(dtype, rows, cols, exact)
        return found

    def indices(self, dtype: str, limit: int, rows: int, cols: int, exact: bool = False, step: int = 1) -> tuple[str, Global]:
        found: tuple[str, Global] = self.arrays.indices(dtype, limit, rows, cols, exact, step)
        return found

    def block_of(self, dtype: str, shape: tuple[int, ...]) -> tuple[str, Global]:
        found: tuple[str, Global] = self.arrays.block(dtype, shape)
        return found

    def number(self, low: int, high: int) -> X:
        made: X = self.arrays.number(low, high)
        return made

    def perhaps_empty(self, shape: Shaped) -> bool:
        """Whether its run-time extents may be 0."""
        return any(self.least(v) == 0 for v in shape.valid)

    def least(self, extent: str) -> int:
        return int(extent) if extent.isdigit() else self.extents.get(extent, (0, 0))[0]

    def most(self, extent: str, size: int) -> int:
        return int(extent) if extent.isdigit() else self.extents.get(extent, (0, size))[1]

    # -- names --

    def define(self, of: Any, kernel: str, twin: str, prefix: str = "v") -> str:
        name = self.fresh(prefix)
        self.lines.put(f"{name} = {kernel}", f"{name} = {twin}")
        self.scope.bind(name, of)
        return name

    def named(self, e: X) -> X:
        """The expression under a name."""
        if e.kernel.isidentifier():
            return e
        name = self.define(e.of, e.kernel, e.twin)
        return X(name, name, e.of)

    def operands(self, of: Shaped) -> list[str]:
        """Names of values of that type, parts of others among them."""
        return [n for n, v in self.scope.of_kind(Shaped) if v._replace(own=True) == of]

    @contextmanager
    def inner(self, loop: str | None = None) -> Iterator[Scope]:
        """A nested block; what it defines ends with it."""
        outer = self.scope
        self.scope = Scope(outer)
        stored = list(self.stored)
        if loop is not None:
            self.loops.append(loop)
        with self.lines.nested():
            yield self.scope
        if loop is not None:
            self.loops.pop()
        self.scope, self.stored = outer, stored

    def shapes(self, dtype: str) -> list[Shaped]:
        """Descriptions of values that this body likes to have, the plainest first."""
        rows, cols = self.base
        out = [Shaped(self.level, dtype, (rows, cols), (str(rows), str(cols)))]
        for m in self.extents:
            high = self.extents[m][1]
            if high <= rows:
                out.append(Shaped(self.level, dtype, (rows, cols), (m, str(cols))))
            if high <= cols and self.level == "tile":
                out.append(Shaped(self.level, dtype, (rows, cols), (str(rows), m)))
        if rows > 1:
            out.append(Shaped(self.level, dtype, (1, cols), ("1", str(cols))))
        out.append(Shaped(self.level, dtype, (rows, 1), (str(rows), "1")))
        if rows % 2 == 0:
            out.append(Shaped(self.level, dtype, (rows // 2, cols), (str(rows // 2), str(cols))))
        return [s for s in out if aligned(dtype, s.shape) and s.shape != (1, 1)]
