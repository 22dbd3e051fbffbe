"""Random kernels under every planner: no two tiles that are needed at one time share a byte, so all numbers agree.

One text is both sides: the kernel, and the Python that says what it gives, where `pl` is a few lines of numpy.
"""

import random
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numerics_kit import PLACED, Way, agree
from programs_kit import bits, cfg, module, out, whole

from pypto.enums import MemoryPlanner

KERNELS, UNITS, STATEMENTS, KEPT = 5, 2, 8, 4
WAYS = (*PLACED, Way(MemoryPlanner.DSA_RP, False), Way(MemoryPlanner.PTOAS, True, False))
HEAD = """import pypto.language as pl


@pl.jit.inline
def mixed(x, y):
    z = pl.sub(x, y)
    for _ in pl.range(2):
        z = pl.maximum(pl.add(z, x), y)
    return z


@pl.jit
def k(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
"""


class Body:
    """The statements of one kernel: each makes one more tile, or changes one, from those there are."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines = ["k = pl.read(c, [0])", "x0 = pl.load(a, [0, 0], [16, 16])", "x1 = pl.load(b, [0, 0], [16, 16])"]
        self.names = ["x0", "x1"]

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def value(self, *more: str) -> str:
        pool = [*self.names, *more]
        op = self.r.choice(["add", "sub", "maximum", "minimum", "sub"])
        return f"pl.{op}({self.r.choice(pool)}, {self.r.choice(pool)})"

    def statement(self, new: str) -> None:
        kind = self.r.choice(["plain", "loop", "branch", "branch in loop", "window", "reshape", "helper", "change"])
        old = self.r.choice(self.names)
        if kind == "plain":
            self.put(0, f"{new} = {self.value()}")
        elif kind == "loop":  # what it reads is needed to the end of the last trip
            self.put(0, f"{new} = pl.add({old}, 1.0)")
            self.put(0, "for _ in pl.range(3):")
            self.put(1, f"y = {self.value(new)}")
            self.put(1, f"{new} = {self.value(new, 'y')}")
        elif kind == "branch":
            self.put(0, f"if k == {self.r.randrange(2)}:")
            self.put(1, f"{new} = {self.value()}")
            self.put(0, "else:")
            self.put(1, f"{new} = {self.r.choice([self.value(), old])}")
        elif kind == "branch in loop":
            self.put(0, f"{new} = pl.muls({old}, 0.5)")
            self.put(0, "for i in pl.range(k + 2):")
            self.put(1, f"z = {self.value(new)}")
            self.put(1, f"if i == {self.r.randrange(3)}:")
            self.put(2, f"{new} = {self.value(new, 'z')}")
        elif kind == "window":  # a view keeps what it looks into
            at = self.r.choice([0, 4, 8])
            self.put(0, f"s = pl.slice({old}, [8, 16], [{at}, 0])")
            self.put(0, f"{new} = pl.assemble({self.value()}, s, [{8 - at}, 0])")
            self.put(0, f"{new} = pl.assemble({new}, pl.add(s, s), [{at}, 0])")
        elif kind == "reshape":
            self.put(0, f"s = pl.reshape({old}, [8, 32])")
            self.put(0, f"{new} = pl.reshape(pl.sub(pl.add(s, s), 1.0), [16, 16])")
        elif kind == "helper":
            self.put(0, f"{new} = mixed({old}, {self.r.choice(self.names)})")
        else:
            self.put(0, f"{new} = {old}")
            self.put(0, f"{old} = {self.value()}")
        self.names.append(new)

    def text(self, row: int) -> list[str]:
        for n in range(STATEMENTS):
            self.statement(f"x{n + 2}")
        for i, name in enumerate(self.r.sample(self.names, KEPT)):
            self.put(0, f"pl.store({name}, [{row + 16 * i}, 0], o)")
        return self.lines


def unit(number: int) -> str:
    lines = []
    for i in range(KERNELS):
        lines.append("    with pl.at(level=pl.Level.CORE_GROUP):")
        lines += [f"        {line}" for line in Body(KERNELS * number + i).text(16 * KEPT * i)]
    return "\n".join([*lines, "    return o", ""])


def _window(x, shape, at):
    return x[at[0] : at[0] + shape[0], at[1] : at[1] + shape[1]].copy()


def _assembled(x, y, at):
    made = x.copy()
    made[at[0] : at[0] + y.shape[0], at[1] : at[1] + y.shape[1]] = y
    return made


def _store(x, at, o):
    o[at[0] : at[0] + x.shape[0], : x.shape[1]] = x


JIT = lambda f: f  # noqa: E731
JIT.inline = JIT
ANY = SimpleNamespace(CORE_GROUP=None)
NUMPY = SimpleNamespace(
    jit=JIT,
    Level=ANY,
    Tensor=None,
    Out={None: None},
    at=lambda level: nullcontext(),
    read=lambda c, at: int(c[at[0]]),
    load=lambda x, at, shape: _window(x, shape, at),
    store=_store,
    range=range,
    add=lambda x, y: x + np.float32(y),
    sub=lambda x, y: x - np.float32(y),
    muls=lambda x, y: x * np.float32(y),
    maximum=np.maximum,
    minimum=np.minimum,
    slice=_window,
    assemble=_assembled,
    reshape=np.reshape,
)


@pytest.mark.filterwarnings("ignore:UnusedVariable")
@pytest.mark.parametrize("number", range(UNITS))
def test_random_kernels(number, tmp_path):
    body = unit(number)
    k = module(HEAD + body, tmp_path).k
    a, b = whole(16, 16), whole(16, 16, low=-20, high=21)
    scope: dict = {"pl": NUMPY}
    exec((HEAD + body).partition("\n")[2], scope)
    calls = [[a, b, cfg(n), out(16 * KEPT * KERNELS, 16)] for n in (0, 1)]
    for n, got in zip((0, 1), agree(k, *calls, ways=WAYS), strict=True):
        want = out(16 * KEPT * KERNELS, 16)
        scope["k"](a, b, cfg(n), want)
        bits(got[3] + 0.0, want + 0.0)  # the sign of a zero maximum is not promised
