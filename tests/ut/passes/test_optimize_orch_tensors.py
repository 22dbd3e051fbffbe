"""Kernels know how the windows they are given lie."""

import numpy as np
import pytest
from back_lab import through
from pass_lab import FRONT, agree, apply, out, program

from pypto.ir.expr import ConstInt, Var
from pypto.passes.context import PassOptions
from pypto.passes.optimize_orch_tensors import optimize_orch_tensors
from pypto.passes.round_trip import check_round_trip

TEXT = """
@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
    def k(self, a: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
        o[:] = pl.add(a, 1.0)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[32, {n}], pl.FP32], b: pl.Tensor[[16, 32], pl.FP32],
             o: pl.Out[pl.Tensor[[32, 64], pl.FP32]]) -> pl.Tensor[[32, 64], pl.FP32]:
        t = pl.create_tensor([16, 32], dtype=pl.FP32)
        for i in pl.range(2):
            s = x[{window}]
            r = self.k(s, t)
            o[i * 16:i * 16 + 16, 0:32] = r
{more}
        return o
"""
WIDE = "i * 16:i * 16 + 16, 32:64"


def strides(window: str, more: str = "", n: str = "64"):
    """The strides of k's first parameter, and the program before and after."""
    before = through(program(TEXT.format(window=window, more=more, n=n)), "convert_tensor_to_tile_ops")
    after = optimize_orch_tensors.run(before, PassOptions())
    assert optimize_orch_tensors.run(after, PassOptions()) is after
    view = after.get_function("k").params[0].type.tensor_view
    return (None if view is None else view.stride), before, after


def test_a_strided_window_gives_its_constants():
    found, before, after = strides(WIDE)
    assert [e.value for e in found] == [64, 1]
    x = np.arange(2048, dtype=np.float32).reshape(32, 64)
    agree(before, after, [x, np.ones((16, 32), np.float32), out(32, 64)])


def test_calls_that_disagree_give_a_symbol_for_that_axis():
    more = "        u = pl.create_tensor([16, 32], dtype=pl.FP32)\n        q = self.k(b, u)\n        o[0:16, 32:64] = q"
    found, before, after = strides(WIDE, more)
    assert isinstance(found[0], Var)
    assert isinstance(found[1], ConstInt)
    assert found[1].value == 1
    x = np.arange(2048, dtype=np.float32).reshape(32, 64)
    agree(before, after, [x, np.ones((16, 32), np.float32), out(32, 64)])


def test_whole_rows_are_packed():
    found, before, after = strides("i * 16:i * 16 + 16, 0:32", n="32")
    assert found is None
    assert before is after


def test_a_run_time_pitch_is_a_symbol():
    found, _, _ = strides(WIDE, n="pl.dynamic('N')")
    assert isinstance(found[0], Var)


def test_wrappers_hand_strides_on():
    text = """
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(self, a: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
                o[:] = pl.add(a, 1.0)
                return o

            @pl.function(type=pl.FunctionType.Spmd)
            def g(self, a: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]) -> pl.Tensor[[16, 32], pl.FP32]:
                r = self.k(a, o)
                return r

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, x: pl.Tensor[[32, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]):
                s = x[0:16, 32:64]
                r = self.g(s, o)
                return r
        """
    p = apply(program(text), *FRONT, "convert_tensor_to_tile_ops", "optimize_orch_tensors")
    for name in ("k", "g"):
        assert [e.value for e in p.get_function(name).params[0].type.tensor_view.stride] == [64, 1]


@pytest.mark.parametrize("n", ["64", "pl.dynamic('N')"])
def test_a_kernel_that_returns_the_window_it_wrote_can_be_printed(n):
    """The caller says nothing of the window's strides, whether it is read from objects or from text."""
    text = f"""
        @pl.program
        class test:
            @pl.function(type=pl.FunctionType.InCore)
            def k(self, a: pl.Tensor[[8, 16], pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]) -> pl.Tensor[[8, 16], pl.FP32]:
                o[:] = pl.add(a, 1.0)
                return o

            @pl.function(type=pl.FunctionType.Orchestration)
            def main(self, a: pl.Tensor[[8, 16], pl.FP32], o: pl.InOut[pl.Tensor[[16, {n}], pl.FP32]]):
                w = pl.slice(o, [8, 16], [4, 16])
                w = self.k(a, w)
                return o
        """
    p = apply(program(text), *FRONT, "convert_tensor_to_tile_ops", "optimize_orch_tensors")
    assert p.get_function("k").params[1].type.tensor_view is not None
    check_round_trip(p, "OptimizeOrchTensors")
