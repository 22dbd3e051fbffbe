"""Programs written as classes, as functions and as text: compiled, interpreted, printed and read again."""

import numpy as np
from programs_kit import BRIEF, agree_program, bits, cfg, normal, out, same, whole

import pypto.language as pl
from pypto import ir


@pl.program
class Doubled:
    @pl.function(type=pl.FunctionType.InCore)
    def dbl(self, x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        o[:] = pl.add(x, x)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        o = self.dbl(x, o)
        return o


def test_a_class():
    x = normal(16, 64)
    bits(agree_program(Doubled, "main", [x, out(16, 64)])[0][1], x + x)
    assert sorted(f.name for f in Doubled.function_list) == ["dbl", "main"]


@pl.function(type=pl.FunctionType.InCore)
def scale(x: pl.Tensor[[32, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]) -> pl.Tensor[[32, 32], pl.FP32]:
    t = pl.load(x, [0, 0], [32, 32])
    return pl.store(pl.mul(t, 3.0), [0, 0], o)


@pl.inline
def silu(t):
    return pl.mul(t, pl.recip(pl.add(pl.exp(pl.neg(t)), 1.0)))


@pl.program
class Mixed:
    """A function from outside, an inlined helper called twice, scalars, several results, a temporary."""

    @pl.function(type=pl.FunctionType.InCore)
    def split(
        self,
        x: pl.Tensor[[32, 32], pl.FP32],
        n: pl.Scalar[pl.INDEX],
        lo: pl.Out[pl.Tensor[[32, 32], pl.FP32]],
        hi: pl.Out[pl.Tensor[[32, 32], pl.FP32]],
    ) -> pl.Tuple[pl.Tensor[[32, 32], pl.FP32], pl.Tensor[[32, 32], pl.FP32]]:
        t = pl.load(x, [0, 0], [32, 32])
        u = silu(t)
        v = silu(pl.mul(u, 2.0))
        for _ in pl.range(n):
            v = pl.add(v, 1.0)
        lo = pl.store(u, [0, 0], lo)
        hi = pl.store(v, [0, 0], hi)
        return lo, hi

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[32, 32], pl.FP32],
        c: pl.Tensor[[8], pl.INT32],
        lo: pl.Out[pl.Tensor[[32, 32], pl.FP32]],
        hi: pl.Out[pl.Tensor[[32, 32], pl.FP32]],
    ):
        t = pl.create_tensor([32, 32], dtype=pl.FP32)
        t = scale(x, t)
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        lo, hi = self.split(t, n, lo, hi)
        return lo, hi


def test_functions_helpers_and_results():
    x = normal(32, 32)
    wide = x.astype(np.float64) * 3
    silu64 = lambda t: t / (1 + np.exp(-t))  # noqa: E731
    calls = [[x, cfg(n), out(32, 32), out(32, 32)] for n in (0, 3)]
    for n, (_, _, lo, hi) in zip((0, 3), agree_program(Mixed, "main", *calls), strict=True):
        np.testing.assert_allclose(lo, silu64(wide), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(hi, silu64(2 * silu64(wide)) + n, rtol=1e-5, atol=1e-6)


def test_what_is_printed_means_the_same():
    for program, entry, args in (
        (Doubled, "main", [normal(16, 64), out(16, 64)]),
        (Mixed, "main", [normal(32, 32), cfg(2), out(32, 32), out(32, 32)]),
    ):
        again = pl.parse_program(program.as_python())
        ir.assert_structural_equal(again, program)
        want = agree_program(program, entry, args, ways=BRIEF[:1])[0]
        for got, w in zip(agree_program(again, entry, args, ways=BRIEF[:1])[0], want, strict=True):
            bits(got, w)


TEXT = """
import pypto.language as pl

N = pl.dynamic("N")
ROWS = 8

@pl.program
class Rows:
    @pl.function(type=pl.FunctionType.InCore)
    def step(self, a: pl.Tensor[[N, 32], pl.INT32], row: pl.Scalar[pl.INDEX], rows: pl.Scalar[pl.INDEX],
             o: pl.Out[pl.Tensor[[N, 32], pl.INT32]]) -> pl.Tensor[[N, 32], pl.INT32]:
        t: pl.Tile[[8, 32], pl.INT32, pl.Mem.Vec, pl.TileView(valid_shape=[rows, 32])] = pl.load(
            a, [row, 0], [ROWS, 32], valid_shape=[rows, 32])
        o = pl.store(pl.add(pl.mul(t, 3), 1), [row, 0], o)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[N, 32], pl.INT32], o: pl.Out[pl.Tensor[[N, 32], pl.INT32]]) -> pl.Tensor[[N, 32], pl.INT32]:
        for k in pl.range(0, N, ROWS):
            rows = pl.min(ROWS, N - k)
            o = self.step(a, k, rows, o)
        return o
"""


def test_text_with_run_time_extents():
    program = pl.parse_program(TEXT)
    sizes = (8, 21, 3, 0, 64)
    calls = [[whole(n, 32, dtype=np.int32), out(n, 32, dtype=np.int32)] for n in sizes]
    for (a, _), got in zip(calls, agree_program(program, "main", *calls), strict=True):
        same(got[1], a * 3 + 1)


FUNCTION = """
import pypto.language as pl

@pl.function
def main(a: pl.Tensor[[16, 16], pl.FP32], k: pl.Scalar[pl.FP32], o: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.mul(a, k)
    return o
"""


def test_text_of_a_function():
    f = pl.parse(FUNCTION)
    assert isinstance(f, ir.Function)
    a = normal(16, 16)
    bits(agree_program(ir.Program([f]), "main", [a, 2.5, out(16, 16)])[0][1], a * np.float32(2.5))
