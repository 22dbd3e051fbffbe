"""Accumulators that begin wider than what a loop makes of them, in programs in the operators' own words, in all ways."""

import numpy as np
import pytest
from programs_kit import agree_program

from pypto.frontend import parse

READ = "        n = pl.cast(pl.tensor.read(c, [0]), pl.INDEX)\n"
contract = pytest.mark.contract
TEXT = """# pypto.program: test
import pypto.language as pl

@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
    def k(a: pl.Tensor[[64, 96], pl.FP32], b: pl.Tensor[[96, 32], pl.FP32], c: pl.Tensor[[8], pl.INT32],
          o: pl.Out[pl.Tensor[[64, 32], pl.FP32]]):
{read}        acc = pl.tensor.create([64, 32], dtype=pl.FP32)
        for k, (carry,) in pl.range(0, 96, 32, init_values=(acc,)):
            x = pl.tensor.slice(a, [64, 32], [0, k], [{rows}, 32])
            y = pl.tensor.slice(b, [32, 32], [k, 0])
            if k == 0:
                first = pl.tensor.matmul(x, y, out_dtype=pl.FP32)
                sum = pl.yield_(first)
            else:
                old = pl.tensor.set_validshape(carry, {rows}, 32)
                more = pl.tensor.matmul_acc(old, x, y)
                sum = pl.yield_(more)
            total = pl.yield_(sum)
        done = pl.tensor.assemble(o, total, [0, 0])

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[64, 96], pl.FP32], b: pl.Tensor[[96, 32], pl.FP32], c: pl.Tensor[[8], pl.INT32],
             o: pl.Out[pl.Tensor[[64, 32], pl.FP32]]):
        self.k(a, b, c, o)
"""


@contract("T173", "T174", "T175")
@pytest.mark.parametrize("rows", [64, 50, 17, 1])
@pytest.mark.parametrize("known", [True, False])
def test_rows_beyond_what_the_loop_makes_are_not_stored(rows, known):
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((64, 96), dtype=np.float32), rng.standard_normal((96, 32), dtype=np.float32)
    o = np.full((64, 32), 77, np.float32)
    p = parse(TEXT.format(rows=rows, read="") if known else TEXT.format(rows="n", read=READ))
    ((*_, got),) = agree_program(p, "main", (a, b, np.array([rows] * 8, np.int32), o))
    np.testing.assert_allclose(got[:rows], (a @ b)[:rows], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got[rows:], 77)
