"""Random kernels: no planner lets two live tiles share bytes, and all ways give numpy's bits."""

import random

import numpy as np
import pytest
from programs_kit import ALL, agree, bits, cfg, module, out

import pypto.language as pl  # noqa: F401

NUMBERS = range(12)
# More of the same, for a long run: `NUMBERS = range(200)`.

NUMPY = {"add": "np.add", "sub": "np.subtract", "maximum": "np.maximum", "minimum": "np.minimum"}


class _Twin:
    """Writes the same kernel twice: in the language, and as numpy."""

    def __init__(self, number: int) -> None:
        self.r = random.Random(number)
        self.kernel: list[str] = []
        self.reference: list[str] = []

    def line(self, depth: int, kernel: str, reference: str) -> None:
        self.kernel.append("    " * (depth + 2) + kernel)
        self.reference.append("    " * (depth + 1) + reference)

    def step(self, depth: int, target: str, pool: list[str]) -> None:
        name = self.r.choice(list(NUMPY))
        p, q = self.r.choice(pool), self.r.choice(pool)
        self.line(depth, f"{target} = pl.{name}({p}, {q})", f"{target} = {NUMPY[name]}({p}, {q})")

    def loop(self, name: str, names: list[str]) -> None:
        start = self.r.choice(names)
        self.line(0, f"{name} = pl.add({start}, 1.0)", f"{name} = {start} + np.float32(1)")
        self.line(0, "for i in pl.range(3):", "for i in range(3):")
        self.step(1, "y", [*names, name])
        self.step(1, name, [*names, name, "y"])

    def branch(self, name: str, names: list[str]) -> None:
        arm = self.r.randrange(2)
        self.line(0, f"if k == {arm}:", f"if k == {arm}:")
        self.step(1, name, names)
        self.line(0, "else:", "else:")
        self.step(1, name, names)

    def write(self) -> tuple[str, str]:
        names = ["x0", "x1"]
        for k in range(2, 12):
            kind, name = self.r.choice("sslb"), f"x{k}"
            if kind == "s":
                self.step(0, name, names)
            elif kind == "l":
                self.loop(name, names)
            else:
                self.branch(name, names)
            names.append(name)
        live = self.r.sample(names, 4)
        stores = "".join(f"        pl.store({n}, [{16 * i}, 0], o)\n" for i, n in enumerate(live))
        kernel = "\n".join([HEAD, *self.kernel]) + "\n" + stores + "    return o\n"
        body = "\n".join(self.reference)
        return kernel, f"def reference(x0, x1, k):\n{body}\n    return np.vstack([{', '.join(live)}])\n"


HEAD = """import pypto.language as pl

@pl.jit
def kern(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.read(c, [0])
        x0 = pl.load(a, [0, 0], [16, 16])
        x1 = pl.load(b, [0, 0], [16, 16])"""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_random_kernel(number, tmp_path):
    kernel, reference = _Twin(number).write()
    space = {"np": np}
    exec(reference, space)
    a = (np.arange(256, dtype=np.float32).reshape(16, 16) * 7) % 31 - 15
    b = (np.arange(256, dtype=np.float32).reshape(16, 16) * 5) % 23 - 11
    got = agree(module(kernel, tmp_path).kern, *([a, b, cfg(k), out(64, 16)] for k in (0, 1)), ways=ALL)
    for k in (0, 1):
        bits(got[k][3], space["reference"](a, b, k))
