"""Random kernels of what buffers can say, as the text of programs.

In: a seed.  Out: kernels over a, b (FP32 matrices) or x, y (FP16 ones), scalars n and m, and an output: straight lines with
run-time extents, branches and loops with windows, views of windows and values that change places, and sums of products in loops.
Every read is of elements that were written; windows begin at whole blocks for every value of the scalars.
"""

from __future__ import annotations

import random

__all__ = ["HEAD", "MATRIX_HEAD", "Body", "Runtime", "Sums", "kernel"]

PARAMETERS = "n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor]"
HEAD = f"import pypto.language as pl\n\n\n@pl.jit\ndef k(a: pl.Tensor, b: pl.Tensor, {PARAMETERS}):\n"
MATRIX_HEAD = HEAD.replace("a: pl.Tensor, b", "x: pl.Tensor, y")
BINARY = ("add", "sub", "mul", "maximum", "minimum")
UNARY = ("abs", "neg", "relu", "exp")
SHAPES = {"whole": "[16, 32]", "part": "[16, 32]", "upper": "[8, 32]", "narrow": "[16, 8]", "small": "[4, 32]"}


class Text:
    """Lines, and names that nobody has."""

    def __init__(self, seed: int) -> None:
        self.r, self.own = random.Random(seed), seed
        self.lines: list[str] = []
        self.count = 0

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.own}_{self.count}"


class Body(Text):
    """Tiles by kind: whole, valid in part, and windows of whole ones and what is computed of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for i, (source, row) in enumerate((("a", 0), ("b", 16), ("a", 32))):
            self.put(0, f"w{i} = pl.load({source}, [{row}, 0], [16, 32])")
        for i, source in enumerate("ab"):
            self.put(0, f"p{i} = pl.load({source}, [{16 * i}, 0], [16, 32], valid_shape=[11, 20])")
        self.put(0, "u0 = pl.slice(w1, [8, 32], [4, 0])")
        self.put(0, "c0 = pl.adds(pl.slice(w2, [16, 8], [0, 8]), 1.0)")
        self.put(0, "s0 = pl.slice(u0, [4, 32], [2, 0])")
        self.pool = {"whole": ["w0", "w1", "w2"], "part": ["p0", "p1"], "upper": ["u0"], "narrow": ["c0"], "small": ["s0"]}
        # Windows are no values of their own that control flow may hand on.
        self.views = {"u0", "s0"}

    def pick(self, kind: str) -> str:
        return self.r.choice(self.pool[kind])

    def computed(self, kind: str) -> str:
        x, y = self.pick(kind), self.pick(kind)
        forms = [f"pl.{self.r.choice(BINARY)}({x}, {y})"] * 3
        forms += [f"pl.{self.r.choice(UNARY)}({x})", f"pl.{self.r.choice(('adds', 'muls', 'maximums'))}({x}, {self.number()})"]
        return self.r.choice(forms)

    def number(self) -> str:
        return self.r.choice([f"{self.r.randint(-3, 3)}.5", "pl.cast(n, pl.FP32)"])

    def row(self) -> str:
        return self.r.choice(["0", "4", "8", "m"])

    def value(self, kind: str) -> tuple[str, bool]:
        """An expression of a kind, and whether it is a view."""
        r = self.r.random()
        if kind == "whole" and r < 0.45:
            p, q, u, c, s = (self.pick(k) for k in ("whole", "whole", "upper", "narrow", "small"))
            forms = [
                f"pl.assemble({p}, {u}, [{self.row()}, 0])",
                f"pl.assemble({p}, pl.slice({q}, [8, 32], [{self.row()}, 0]), [{self.row()}, 0])",
                f"pl.assemble({p}, pl.slice({p}, [8, 32], [{self.row()}, 0]), [{self.row()}, 0])",
                f"pl.assemble({p}, {s}, [{self.row()}, 0])",
                f"pl.reshape(pl.adds(pl.reshape({p}, [8, 64]), 1.0), [16, 32])",
                f"pl.reshape(pl.mul(pl.reshape({p}, [8, 64]), pl.reshape({q}, [8, 64])), [16, 32])",
            ]
            return self.r.choice(forms), False
        if kind in ("upper", "narrow", "small") and r < 0.5:
            at = {
                "upper": f"[{self.row()}, 0]",
                "narrow": f"[0, {self.r.choice(['0', '8', '24', 'n * 8'])}]",
                "small": f"[{self.r.choice(['0', '4', 'n'])}, 0]",
            }[kind]
            source = self.pick("upper" if kind == "small" else "whole")
            return f"pl.slice({source}, {SHAPES[kind]}, {at})", True
        return self.computed(kind), False

    def step(self, depth: int, target: str = "", kind: str = "") -> None:
        kind = kind or self.r.choice(["whole"] * 4 + ["part"] * 2 + ["upper", "narrow", "small"])
        text, view = self.value(kind)
        while target and view:
            text, view = self.value(kind)
        made = target or self.name()
        self.put(depth, f"{made} = {text}")
        if not target:
            self.pool[kind] = [*self.pool[kind], made]
            self.views |= {made} if view else set()

    def block(self, depth: int, steps: int) -> None:
        for _ in range(steps):
            r = self.r.random()
            if depth < 3 and r < 0.25:
                self.loop(depth)
            elif depth < 3 and r < 0.45:
                self.branch(depth)
            else:
                self.step(depth)

    def rebound(self) -> list[tuple[str, str]]:
        """What an inner block sets anew."""
        found = {(k, self.pick(k)) for k in self.r.choices(["whole", "whole", "part", "upper", "narrow"], k=self.r.randint(1, 3))}
        return sorted((name, kind) for kind, name in found if name not in self.views)

    def inner(self, depth: int, targets: list[tuple[str, str]]) -> None:
        before, views = dict(self.pool), set(self.views)
        self.block(depth, self.r.randint(0, 2))
        whole = [name for name, kind in targets if kind == "whole"]
        if len(whole) == 2 and self.r.random() < 0.5:
            self.put(depth, f"{whole[0]}, {whole[1]} = {whole[1]}, {whole[0]}")
        else:
            for name, kind in targets:
                self.step(depth, name, kind)
        if not targets:
            self.step(depth)
        self.pool, self.views = before, views

    def loop(self, depth: int) -> None:
        i = self.name("i")
        if self.r.random() < 0.7:
            self.put(depth, f"for {i} in pl.range({self.r.choice(['n', '2', '0', '3', 'm'])}):")
        else:
            self.put(depth, f"{i} = pl.const(0, pl.INDEX)")
            self.put(depth, f"while {i} < n:")
            self.put(depth + 1, f"{i} = {i} + 1")
        self.inner(depth + 1, self.rebound())

    def branch(self, depth: int) -> None:
        targets = self.rebound()
        self.put(depth, self.r.choice(["if m > 3:", "if n == 1:", "if n > 0:"]))
        self.inner(depth + 1, targets)
        if self.r.random() < 0.7:
            self.put(depth, "else:")
            self.inner(depth + 1, targets)

    def written(self, row: int) -> list[str]:
        self.block(0, self.r.randint(3, 7))
        at = 0
        for kind in ("whole", "part", "whole", "upper", "narrow", "small"):
            self.put(0, f"pl.store({self.pick(kind)}, [{row + at}, 0], o)")
            at += int(SHAPES[kind].split(",")[0][1:])
        return self.lines


class Runtime(Text):
    """Run-time extents, set once and anew; a straight line, as kernels of buffers with such extents are."""

    EXTENTS = ("n, m", "16, m", "n, 32", "n + 1, m", "n + 1, 32")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.pool: dict[str, list[str]] = {}

    def load(self) -> None:
        extents, name = self.r.choice(self.EXTENTS), self.name()
        row, source = self.r.choice(["0", "16", "n"]), self.r.choice("ab")
        self.put(0, f"{name} = pl.load({source}, [{row}, 0], [16, 32], valid_shape=[{extents}])")
        self.pool.setdefault(extents, []).append(name)

    def step(self, row: int) -> None:
        extents = self.r.choice(sorted(self.pool))
        x, y = (self.r.choice(self.pool[extents]) for _ in range(2))
        r, name = self.r.random(), self.name()
        if r < 0.55:
            op = self.r.choice([f"pl.{self.r.choice(BINARY)}({x}, {y})", f"pl.adds({x}, 1.5)", f"pl.{self.r.choice(UNARY)}({x})"])
            self.put(0, f"{name} = {op}")
            self.pool[extents].append(name)
        elif r < 0.75:
            self.put(0, f"pl.store({x}, [{row}, 0], o)")
        elif r < 0.9:
            self.put(0, f"{name} = pl.slice({x}, [8, 32], [{self.r.choice(['0', '4', 'n'])}, 0])")
            self.put(0, f"pl.store(pl.{self.r.choice(UNARY)}({name}), [{row}, 0], o)")
        else:
            self.put(0, f"{name} = pl.load(b, [{row % 32}, 0], [16, 32])")
            self.put(0, f"{name} = pl.set_validshape(pl.muls({name}, 2.0), {extents})")
            self.pool[extents].append(name)

    def written(self, row: int) -> list[str]:
        for _ in range(3):
            self.load()
        for i in range(7):
            self.step(row + 16 * i)
        return self.lines


class Sums(Text):
    """Products added up in one place each: in turn, in loops, in branches, begun in several ways."""

    def operand(self, name: str, at: str) -> str:
        return f"pl.load({name}, {at}, [32, 32], target_memory=pl.Mem.Mat)"

    def place(self, i: str = "") -> str:
        return f"[{self.r.choice(['0', '32', *([f'({i} % 2) * 32'] if i else [])])}, {self.r.choice(['0', '32'])}]"

    def product(self, depth: int, c: str, i: str = "") -> None:
        p, q = self.operand("x", self.place(i)), self.operand("y", self.place(i))
        init = self.r.choice(["", "", f", init_cond=({i} == 0)" if i else "", ", init_cond=(n > 1)", ", init_cond=True"])
        self.put(depth, f"{c} = pl.matmul_acc({c}, {p}, {q}{init})")

    def written(self, row: int) -> list[str]:
        names = ["c0", "c1"][: self.r.randint(1, 2)]
        for c in names:
            self.put(0, f"{c} = pl.matmul({self.operand('x', self.place())}, {self.operand('y', self.place())})")
        for at in range(self.r.randint(2, 4)):
            c, kind = self.r.choice(names), self.r.choice(["plain", "loop", "branch", "nested", "store"])
            i, j = self.name("i"), self.name("j")
            if kind == "plain":
                self.product(0, c)
            elif kind == "loop":
                self.put(0, f"for {i} in pl.range({self.r.choice(['n', '2', 'm'])}):")
                self.product(1, c, i)
            elif kind == "branch":
                self.put(0, "if m > 3:")
                self.product(1, c)
            elif kind == "nested":
                self.put(0, f"for {i} in pl.range(n):")
                self.put(1, f"if {i} != 1:")
                self.put(2, f"for {j} in pl.range(2):")
                self.product(3, c, j)
            else:
                self.put(0, f"pl.store({c}, [{row + 32 * (at % 2)}, 0], o)")
        for i, c in enumerate(names):
            self.put(0, f"pl.store({c}, [{row + 64 + 32 * i}, 0], o)")
        return self.lines


def kernel(kinds: list[type[Body] | type[Runtime] | type[Sums]], seed: int) -> str:
    """The text of a program with a kernel of each kind; each writes 128 rows of `o`."""
    head = MATRIX_HEAD if kinds[0] is Sums else HEAD
    lines = []
    for i, kind in enumerate(kinds):
        lines.append("    with pl.at(level=pl.Level.CORE_GROUP):")
        lines += [f"        {line}" for line in kind(seed * 16 + i).written(128 * i)]
    return "\n".join([head.rstrip("\n"), *lines, "    return o", ""])
