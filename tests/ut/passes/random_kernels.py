"""Random kernels for the back half of the pipeline: text of a program, and arguments to run it with.

In: a seed.  Out: a program whose one function `main` has a kernel scope; every value is a small integer, so that the bits
of a result do not depend on the order of exact operations.  Values are of a few kinds that combine without error:
whole tiles, tiles with one partial valid rectangle, column vectors, windows.
"""

from __future__ import annotations

import random
import textwrap

import numpy as np
from pass_lab import out, program

from pypto.ir.program import Program

PARAMS = (
    "a: pl.Tensor[[48, 32], pl.FP32], b: pl.Tensor[[48, 32], pl.FP32], c: pl.Tensor[[8], pl.INT32], "
    "o: pl.Out[pl.Tensor[[96, 32], pl.FP32]]"
)
BINARY = ("add", "sub", "maximum", "minimum", "mul")


class _Kernel:
    """Writes statements; `kinds` maps a kind to the names of its values that are visible."""

    def __init__(self, seed: int, partial: str, buffers: bool) -> None:
        self.r = random.Random(seed)
        self.partial, self.buffers = partial, buffers
        self.lines: list[str] = []
        self.count = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, pool: dict[str, list[str]], kind: str) -> str:
        return self.r.choice(pool[kind])

    # -- one statement --

    def step(self, depth: int, pool: dict[str, list[str]], target: str = "", kind: str = "") -> None:
        kind = kind or self.r.choice(["whole"] * 5 + ["part"] * 2 + ["window"] * 2 + ([] if self.buffers else ["column"]))
        value = getattr(self, kind)(pool)
        name = target or self.name()
        self.line(depth, f"{name} = {value}")
        if name not in pool[kind]:
            pool[kind].append(name)

    def whole(self, pool: dict[str, list[str]]) -> str:
        p, q, w = self.pick(pool, "whole"), self.pick(pool, "whole"), self.pick(pool, "window")
        rows = self.r.choice(["0", "4", "8", "m"])
        forms = [
            f"pl.{self.r.choice(BINARY)}({p}, {q})",
            f"pl.{self.r.choice(BINARY)}({p}, {q})",
            f"pl.adds({p}, {float(self.r.randint(-3, 3))})",
            f"pl.minimums(pl.neg({p}), 9.0)",
            f"pl.assemble({p}, {w}, [{rows}, 0])",
            f"pl.assemble({p}, pl.slice({q}, [8, 32], [{self.r.choice(['0', '4', 'm'])}, 0]), [{rows}, 0])",
            f"pl.reshape(pl.adds(pl.reshape({p}, [8, 64]), 1.0), [16, 32])",
        ]
        if not self.buffers:
            col = self.pick(pool, "column")
            forms += [
                f"pl.row_expand_add({p}, {col})",
                f"pl.cast(pl.cast(pl.minimums(pl.maximums({p}, -99.0), 99.0), pl.FP16), pl.FP32)",
                f"pl.write({p}, [{self.r.randrange(16)}, m], {float(self.r.randint(-9, 9))})",
                f"pl.col_expand_sub({p}, pl.col_max({q}))",
                f"pl.sel(pl.tile.cmp({p}, {q}, cmp_type={self.r.randrange(6)}), {p}, {q}, scratch)",
                f"pl.fillpad({self.pick(pool, 'part')}, pl.PadValue.zero)",
            ]
        return self.r.choice(forms)

    def part(self, pool: dict[str, list[str]]) -> str:
        p, q = self.pick(pool, "part"), self.pick(pool, "part")
        forms = [f"pl.{self.r.choice(BINARY)}({p}, {q})", f"pl.adds({p}, 1.0)", f"pl.maximums(pl.abs({p}), 2.0)"]
        if not self.buffers:
            forms += [
                f"pl.set_validshape({self.pick(pool, 'whole')}, {self.partial})",
                f"pl.row_expand_sub({p}, pl.row_min({p}, w0))",
            ]
        return self.r.choice(forms)

    def window(self, pool: dict[str, list[str]]) -> str:
        p, w = self.pick(pool, "whole"), self.pick(pool, "window")
        rows = self.r.choice(["0", "4", "8", "m"])
        return self.r.choice(
            [f"pl.slice({p}, [8, 32], [{rows}, 0])", f"pl.slice({p}, [8, 32], [{rows}, 0])", f"pl.add({w}, {w})"]
        )

    def column(self, pool: dict[str, list[str]]) -> str:
        p, c = self.pick(pool, "whole"), self.pick(pool, "column")
        return self.r.choice([f"pl.row_max({p}, w0)", f"pl.adds({c}, 1.0)", f"pl.maximum({c}, pl.row_min({p}, w0))"])

    # -- control flow --

    def block(self, depth: int, pool: dict[str, list[str]], steps: int) -> None:
        nested = depth < 3
        for _ in range(steps):
            shape = self.r.random()
            if nested and shape < 0.2:
                self.loop(depth, pool)
            elif nested and shape < 0.4:
                self.branch(depth, pool)
            else:
                self.step(depth, pool)

    def rebound(self, pool: dict[str, list[str]]) -> list[tuple[str, str]]:
        """Values of the outer block that an inner one sets anew; a window is no value of its own to carry."""
        kinds = ["whole", "part"] + ([] if self.buffers else ["column"])
        chosen = {(k, self.pick(pool, k)) for k in self.r.choices(kinds, k=self.r.randint(1, 3))}
        return sorted((n, k) for k, n in chosen if n not in ("p0", "p1"))

    def inner(self, depth: int, pool: dict[str, list[str]], targets: list[tuple[str, str]]) -> None:
        local = {k: list(v) for k, v in pool.items()}
        self.block(depth, local, self.r.randint(0, 2))
        swap = [n for n, k in targets if k == "whole"]
        if len(swap) == 2 and self.r.random() < 0.4:
            self.line(depth, f"{swap[0]}, {swap[1]} = {swap[1]}, {swap[0]}")
            return
        for name, kind in targets:
            self.step(depth, local, name, kind)
        if not targets:
            self.step(depth, local)

    def loop(self, depth: int, pool: dict[str, list[str]]) -> None:
        counter = self.name()
        if self.r.random() < 0.7:
            self.line(depth, f"for {counter} in pl.range({self.r.choice(['n', '2', '0', '3'])}):")
            self.inner(depth + 1, pool, self.rebound(pool))
        else:
            self.line(depth, f"{counter} = pl.const(0, pl.INDEX)")
            self.line(depth, f"while {counter} < n:")
            self.line(depth + 1, f"{counter} = {counter} + 1")
            self.inner(depth + 1, pool, self.rebound(pool))

    def branch(self, depth: int, pool: dict[str, list[str]]) -> None:
        targets = self.rebound(pool)
        self.line(depth, self.r.choice(["if m > 3:", "if n == 1:", "if n > 0:"]))
        self.inner(depth + 1, pool, targets)
        if self.r.random() < 0.7:
            self.line(depth, "else:")
            self.inner(depth + 1, pool, targets)

    # -- the whole --

    def text(self) -> str:
        self.line(1, "n = pl.cast(pl.read(c, [0]), pl.INDEX)")
        self.line(1, "m = pl.cast(pl.read(c, [1]), pl.INDEX)")
        self.line(1, "rows = pl.cast(pl.read(c, [2]), pl.INDEX)")
        self.line(1, "cols = pl.cast(pl.read(c, [3]), pl.INDEX)")
        return self.kernel(1)

    def kernel(self, depth: int) -> str:
        for name, source, row in (("x0", "a", 0), ("x1", "b", 16), ("x2", "a", 32)):
            self.line(depth, f"{name} = pl.load({source}, [{row}, 0], [16, 32])")
        for name, source, row in (("p0", "a", 0), ("p1", "b", 16)):
            self.line(depth, f"{name} = pl.load({source}, [{row}, 0], [16, 32], valid_shape=[{self.partial}])")
        self.line(depth, "s0 = pl.slice(x1, [8, 32], [4, 0])")
        pool = {"whole": ["x0", "x1", "x2"], "part": ["p0", "p1"], "window": ["s0"], "column": []}
        if not self.buffers:
            self.line(depth, "w0 = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)")
            self.line(depth, "scratch = pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)")
            self.line(depth, "k0 = pl.row_max(x2, w0)")
            pool["column"] = ["k0"]
        self.block(depth, pool, self.r.randint(3, 7))
        stores = [self.pick(pool, k) for k in ("whole", "whole", "part", "whole", "window")]
        for i, name in enumerate(stores):
            self.line(depth, f"pl.store({name}, [{16 * i}, 0], o)")
        if not self.buffers:
            self.line(depth, f"pl.store({self.pick(pool, 'column')}, [80, 0], o)")
        return "\n".join(self.lines)


def tile_kernel(seed: int, partial: str = "rows, cols") -> Program:
    """A kernel of every kind of value; `partial` is its one partial rectangle, in constants or `rows, cols`."""
    k = _Kernel(seed, partial, buffers=False)
    return program(
        f"@pl.function\ndef main({PARAMS}):\n    with pl.at(level=pl.Level.CORE_GROUP):\n" + textwrap.indent(k.text(), "    ")
    )


def buffer_kernel(seed: int) -> Program:
    """A kernel of what buffers can say, as a function of its own; the partial rectangle is static."""
    k = _Kernel(seed, "11, 20", buffers=True)
    params = PARAMS.replace("c: pl.Tensor[[8], pl.INT32]", "n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX]")
    return program(f"@pl.function(type=pl.FunctionType.InCore)\ndef main({params}):\n{k.kernel(1)}\n    return o\n")


def tile_arguments(*values: int) -> list[object]:
    """Arguments of a tile kernel: trips, window row, valid rows, valid columns."""
    config = np.zeros(8, np.int32)
    config[: len(values)] = values
    return [*_inputs(), config, out(96, 32)]


def buffer_arguments(n: int, m: int) -> list[object]:
    return [*_inputs(), n, m, out(96, 32)]


def _inputs() -> tuple[np.ndarray, np.ndarray]:
    numbers = np.arange(48 * 32, dtype=np.float32).reshape(48, 32)
    return numbers * 7 % 13 - 6, numbers * 5 % 11 - 5
