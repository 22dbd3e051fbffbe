"""Composites become instructions, and no bit changes."""

import numpy as np
import pytest
from back_lab import applied, kernel_of, raw_kernel, scope, through
from pass_lab import agree, out

from pypto.errors import Error
from pypto.ir.expr import Call
from pypto.ir.stmt import AssignStmt
from pypto.passes.context import PassOptions
from pypto.passes.lower_composite_ops import lower_composite_ops
from pypto.passes.statements import statements

PARAMS = "x: pl.Tensor[[8, 64], pl.FP32], o: pl.Out[pl.Tensor[[8, 64], pl.FP32]]"
# What the chip has; a composite is made of nothing else.
INSTRUCTIONS = {"add", "adds", "sub", "mul", "muls", "maximums", "minimums", "cast"}


def values() -> np.ndarray:
    x = np.random.default_rng(41).uniform(-1000, 1000, (8, 64)).astype(np.float32)
    x[0, :12] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 2.0**24, -(2.0**24), 1e6, 3.4e38, np.pi, 2.0**23]
    return x


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_every_stage_gives_the_same_bits(name):
    p = scope(f"o[:] = pl.{name}(x)", PARAMS)
    before, after = through(p, "optimize_orch_tensors"), through(p, "lower_composite_ops")
    assert f"tile.{name}" in applied(kernel_of(before))
    agree(p, before, [values(), out(8, 64)])
    agree(before, after, [values(), out(8, 64)])


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_only_instructions_are_left_and_the_last_one_has_the_name(name):
    p = raw_kernel(f"t = pl.tile.load(x, [0, 0], [8, 64], [8, 64])\ny = pl.tile.{name}(t)\nz = pl.tile.neg(y)", PARAMS)
    made = lower_composite_ops.run(p, PassOptions())
    steps = [s for s in statements(kernel_of(made).body) if isinstance(s, AssignStmt) and isinstance(s.value, Call)]
    names = [s.value.op.name.removeprefix("tile.") for s in steps]
    assert set(names[1:-1]) <= INSTRUCTIONS
    assert steps[-2].var.name_hint == "y"
    assert names[-2] == "mul"
    assert steps[-1].value.args[0] is steps[-2].var
    assert lower_composite_ops.run(made, PassOptions()) is made


def test_what_has_no_composites_stays():
    p = raw_kernel("t = pl.tile.load(x, [0, 0], [8, 64], [8, 64])\ny = pl.tile.exp(t)", PARAMS)
    assert lower_composite_ops.run(p, PassOptions()) is p


def test_the_valid_rectangle_is_kept():
    p = raw_kernel("t = pl.tile.load(x, [0, 0], [8, 64], [3, 5])\ny = pl.tile.sin(t)\nr = pl.tile.store(y, [0, 0], o)", PARAMS)
    f = kernel_of(lower_composite_ops.run(p, PassOptions()))
    tiles = [s.var.type for s in statements(f.body) if isinstance(s, AssignStmt) and s.var.name_hint != "r"]
    assert all([v.value for v in t.valid] == [3, 5] for t in tiles)


def test_other_floats_are_refused_where_they_are_written():
    with pytest.raises(Error, match="fp16") as e:
        scope("o[:] = pl.cast(pl.sin(pl.cast(x, pl.FP16)), pl.FP32)", PARAMS)
    assert "pl.cast" in str(e.value)
