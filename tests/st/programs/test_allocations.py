"""Allocations of printed programs: they parse, print and run; a kernel of `@pl.jit` cannot say them."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from pypto import ir
from pypto.errors import InvalidOperationError

TEXT = """
import pypto.language as pl


@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, a: pl.Tensor[[8, 32], pl.FP32], o: pl.Out[pl.Tensor[[8, 32], pl.FP32]]) -> pl.Tensor[[8, 32], pl.FP32]:
        _g: pl.Ptr = pl.tensor.alloc(pl.Mem.DDR, 1024)
        v: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 1024)
        t: pl.Tile[[8, 32], pl.FP32, pl.MemRef(v, 0, 1024), pl.Mem.Vec] = pl.load(a, [0, 0], [8, 32])
        o = pl.store(t, [0, 0], o)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[[8, 32], pl.FP32], o: pl.Out[pl.Tensor[[8, 32], pl.FP32]]) -> pl.Tensor[[8, 32], pl.FP32]:
        _g: pl.Ptr = pl.tensor.alloc(pl.Mem.DDR, 1024)
        o = self.k(a, o)
        return o
"""


def test_they_print_and_run() -> None:
    program = pl.parse(TEXT)
    text = program.as_python()
    assert text.count("pl.tensor.alloc(pl.const(1024, pl.INT64), memory_space=pl.Mem.DDR)") == 2
    ir.assert_structural_equal(pl.parse(text), program)
    a, o = np.ones((8, 32), np.float32), np.zeros((8, 32), np.float32)
    ir.compile(program)(a, o)
    np.testing.assert_array_equal(o, a)


@pl.jit
def said(o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        _m = pl.tensor.alloc(pl.Mem.DDR, 1024)
        pl.write(o, [0, 0], 1.0)
    return o


def test_a_kernel_plans_nothing() -> None:
    with pytest.raises(InvalidOperationError, match="allocations stand in printed programs only") as caught:
        said(np.zeros((8, 32), np.float32))
    assert caught.value.source_lines[0].strip() == "_m = pl.tensor.alloc(pl.Mem.DDR, 1024)"


def test_its_size_is_a_constant() -> None:
    with pytest.raises(ValueError, match="positive constant of bytes"):
        ir.op.tensor.alloc(0, memory_space=pl.Mem.DDR)
