"""Launches that return task ids run in program order, whoever waits for whom."""

import numpy as np
import pytest
from programs_kit import same

import pypto.language as pl
from pypto import ir

SHAPE = (64, 64)


@pl.program
class Chain:
    @pl.function(type=pl.FunctionType.InCore)
    def plus(self, x: pl.Tensor[[64, 64], pl.FP32], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        done: pl.Tensor[[64, 64], pl.FP32] = pl.store(pl.adds(pl.load(x, [0, 0], [64, 64]), 1.0), [0, 0], o)
        return done

    @pl.function(type=pl.FunctionType.InCore)
    def blocks(self, x: pl.Tensor[[64, 64], pl.FP32], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        at = pl.tile.get_block_idx() * 16
        done: pl.Tensor[[64, 64], pl.FP32] = pl.store(pl.muls(pl.load(x, [at, 0], [16, 64]), 2.0), [at, 0], o)
        return done

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[64, 64], pl.FP32],
        t: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
        o: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
    ) -> pl.Tensor[[64, 64], pl.FP32]:
        once, first = pl.submit(self.plus, x, t)
        twice, second = pl.spmd_submit(self.blocks, once, o, core_num=4, deps=[first])
        return twice


@pytest.mark.filterwarnings("ignore::pypto.PyptoWarning")
def test_tasks_run_in_program_order(tmp_path):
    compiled = ir.compile(Chain, dump_passes=False, output_dir=str(tmp_path / "out"))
    x, t, o = np.arange(64 * 64, dtype=np.float32).reshape(SHAPE), np.full(SHAPE, -7, np.float32), np.full(SHAPE, -7, np.float32)
    compiled(x, t, o)
    same(t, x + 1)
    same(o, (x + 1) * 2)
