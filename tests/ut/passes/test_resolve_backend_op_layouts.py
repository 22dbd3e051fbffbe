"""Elementwise work on column vectors runs on rows."""

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, named, raw_kernel, scope, through
from pass_lab import agree, out, same
from test_back_semantics import executed, placement

from pypto.codegen.pto import module_of
from pypto.debug import Placement
from pypto.enums import MemoryPlanner
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower
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


@pytest.mark.parametrize(("a", "b"), [(16, 16), (16, 5), (5, 16)])
@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_parts_of_columns_are_parts_of_rows(name, a, b):
    head, last = TWO.format(v=a).rsplit(f"[{a}, 1]", 1)
    p = raw_kernel(f"{head}[{b}, 1]{last}s = pl.tile.part_{name}(a, b)", X)
    f = kernel_of(resolve_backend_op_layouts.run(p, PassOptions()))
    assert [[d.value for d in named(f, n).type.valid] for n in ("a_row", "b_row", "s_row", "s")] == [
        [1, a],
        [1, b],
        [1, a],
        [a, 1],
    ]
    assert call_of(f, f"tile.part_{name}").args == (named(f, "a_row"), named(f, "b_row"))


def test_scratch_is_what_it_is():
    """The mask that prelu works with is no column, and needs none."""
    _, made = resolved("m = pl.tile.create([17, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)\ns = pl.tile.prelu(a, b, m)")
    f = kernel_of(made)
    assert call_of(f, "tile.prelu").args == (named(f, "a_row"), named(f, "b_row"), named(f, "m"))


def test_masks_of_columns_stay():
    """A bit for each element, each row's in bytes of its own: no other reading of a mask is that of a row."""
    create = "k = pl.tile.create([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)\n"
    p, made = resolved(create + "m = pl.tile.cmp(a, b, cmp_type=1)\ns = pl.tile.sel(m, a, b, k)")
    assert made is p


COLUMNS = """
a = pl.load(x, [0, 0], [16, 1])
b = pl.load(x, [0, 1], [16, 1], valid_shape=[n, 1])
m = pl.create_tile([17, 32], dtype=pl.UINT8)
pl.store(pl.part_max(a, b), [0, 0], o)
pl.store(pl.part_add(b, a), [0, 1], o)
pl.store(pl.prelu(a, pl.adds(a, 1.0), m), [0, 2], o)
"""


@pytest.mark.parametrize("planner", list(MemoryPlanner))
def test_the_assembler_gets_rows(planner):
    given = X + ", n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"
    # Relabels of run-time extents have no text without addresses.
    p = scope(COLUMNS if planner is not MemoryPlanner.PTOAS else COLUMNS.replace("[n, 1]", "[5, 1]"), given)
    x = np.arange(1024, dtype=np.float32).reshape(16, 64) * 7 % 17 - 8
    made = lower(p, PassOptions(planner)).host
    for n in (1, 5, 16):
        args = [x, n, out(16, 64)]
        assert executed(made, args, placement(planner)) == executed(p, args, Placement.VALUES)
    addressed = planner is not MemoryPlanner.PTOAS
    text = module_of([kernel_of(made)], "a2a3", addressed, True)
    assert [text.count(f"pto.{name} ins(") for name in ("tpartmax", "tpartadd", "tprelu")] == [1, 1, 1]


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
