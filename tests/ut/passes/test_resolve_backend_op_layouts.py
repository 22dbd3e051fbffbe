"""Elementwise work on column vectors runs on rows."""

import numpy as np
from back_lab import applied, kernel_of, named, raw_kernel, scope, through
from pass_lab import agree, out, same

from pypto.passes.context import PassOptions
from pypto.passes.resolve_backend_op_layouts import resolve_backend_op_layouts

X = "x: pl.Tensor[[16, 64], pl.FP32]"
TWO = """
a = pl.tile.load(x, [0, 0], [16, 1], [{v}, 1], target_memory=pl.Mem.Vec)
b = pl.tile.load(x, [0, 1], [16, 1], [{v}, 1], target_memory=pl.Mem.Vec)
"""


def resolved(body: str, v: str = "16"):
    p = raw_kernel(TWO.format(v=v) + body, X)
    made = resolve_backend_op_layouts.run(p, PassOptions())
    assert resolve_backend_op_layouts.run(made, PassOptions()) is made
    return p, made


def test_column_vectors_are_relabelled_around_the_operator():
    _, made = resolved("s = pl.tile.add(a, b)")
    rows = """
ar = pl.tile.reshape(a, [1, 16])
br = pl.tile.reshape(b, [1, 16])
sr = pl.tile.add(ar, br)
s = pl.tile.reshape(sr, [16, 1])
"""
    same(made, raw_kernel(TWO.format(v="16") + rows, X))


def test_valid_extents_follow_the_relabel():
    _, made = resolved("s = pl.tile.add(a, b)", v="5")
    f = kernel_of(made)
    assert [d.value for d in named(f, "s_row").type.valid] == [1, 5]
    assert [d.value for d in named(f, "s").type.valid] == [5, 1]


def test_rows_are_made_once_and_results_stay_rows_for_the_next_operator():
    _, made = resolved("s = pl.tile.add(a, b)\nu = pl.tile.muls(s, 2.0)\nv = pl.tile.add(u, a)")
    assert applied(kernel_of(made)).count("tile.reshape") == 2 + 3  # two operands, three results


def test_other_operators_stay():
    p, made = resolved(
        "s = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\nu = pl.tile.row_expand_add(s, a)"
    )
    assert made is p


def test_numbers_stay():
    body = "m = pl.row_max(x)\no[:] = pl.row_expand_sub(x, pl.add(pl.muls(m, 2.0), pl.row_sum(x)))"
    p = scope(body, "x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]")
    x = np.arange(1024, dtype=np.float32).reshape(16, 64) % 17
    before, after = through(p, "infer_tile_memory_space"), through(p, "resolve_backend_op_layouts")
    assert before is not after
    agree(before, after, [x, out(16, 64)])
