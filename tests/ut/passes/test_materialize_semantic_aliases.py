"""Storage that gives the values: entry copies, simultaneous yields, branch results, operators that work in place."""

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, named, raw_kernel, scope, through
from pass_lab import out
from test_back_semantics import executed

from pypto.debug import Placement
from pypto.enums import MemoryPlanner
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType
from pypto.ir.stmt import ForStmt, IfStmt, last_yield
from pypto.passes.context import PassOptions
from pypto.passes.init_mem_ref import init_mem_ref
from pypto.passes.materialize_semantic_aliases import (
    gives_its_values,
    materialize_all_semantic_aliases,
    materialize_semantic_aliases,
)

X = "x: pl.Tensor[[32, 32], pl.FP32], c: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[64, 32], pl.FP32]]"
LOADS = "a = pl.load(x, [0, 0], [16, 32])\nb = pl.load(x, [16, 0], [16, 32])\nn = pl.cast(pl.read(c, [0]), pl.INDEX)\n"


def legal(body: str, *trips: int):
    """The legalized kernel; run on its storage it gives what its values were."""
    placed = through(scope(LOADS + body, X), "init_mem_ref")
    made = materialize_all_semantic_aliases.run(placed, PassOptions())
    f = kernel_of(made)
    assert gives_its_values(f)
    assert materialize_all_semantic_aliases.run(made, PassOptions()) is made
    numbers = np.arange(1024, dtype=np.float32).reshape(32, 32) % 23 - 11
    for n in trips or (0, 1, 2, 3):
        config = np.zeros(8, np.int32)
        config[0] = n
        args = [numbers, config, out(64, 32)]
        assert executed(made, args, Placement.PRIVATE) == executed(placed, args, Placement.VALUES)
    return f


def moves(f) -> int:
    return applied(f).count("tile.move")


def bases(*variables) -> list[object]:
    return [v.type.memref.base_ for v in variables]


def test_straight_lines_stay_as_they_are():
    placed = through(scope(LOADS + "pl.store(pl.add(a, b), [0, 0], o)", X), "init_mem_ref")
    assert materialize_all_semantic_aliases.run(placed, PassOptions()) is placed


def test_a_carry_is_produced_in_its_place():
    f = legal("for i in pl.range(n):\n    a = pl.add(a, b)\npl.store(a, [0, 0], o)")
    (loop,) = [s for s in walk(f.body) if isinstance(s, ForStmt)]
    carry, result, value = loop.iter_args[0], loop.return_vars[0], last_yield(loop.body).value[0]
    assert len(set(bases(carry, result, value, carry.initValue))) == 1
    assert moves(f) == 0


def test_an_initial_value_that_is_read_later_is_copied_before_the_loop():
    f = legal("e = a\nfor i in pl.range(n):\n    e = pl.add(e, b)\npl.store(e, [0, 0], o)\npl.store(a, [16, 0], o)")
    assert moves(f) == 1
    assert named(f, "carry_input_e__iter_v1").type.memref.base_ is not named(f, "a").type.memref.base_


def test_what_both_arms_hand_on_stays_where_it_is():
    f = legal(
        "if n > 1:\n    d = b\n    pl.store(a, [32, 0], o)\nelse:\n    d = b\npl.store(d, [0, 0], o)\npl.store(b, [16, 0], o)"
    )
    assert moves(f) == 0


@pytest.mark.contract("B066")
def test_a_swap_saves_what_it_would_overwrite():
    f = legal("for i in pl.range(n):\n    a, b = b, a\npl.store(a, [0, 0], o)\npl.store(b, [16, 0], o)")
    assert 3 <= moves(f) <= 4


def test_a_shift_needs_no_scratch():
    f = legal(
        "d = pl.add(a, b)\nfor i in pl.range(n):\n    a, b, d = b, d, pl.add(a, d)\npl.store(pl.add(a, pl.sub(b, d)), [0, 0], o)"
    )
    saved = [v for v in walk(f.body) if isinstance(v, Call) and v.op.name == "tile.move"]
    assert len(saved) <= 3


def test_fan_out_of_one_value():
    loop = "for i in pl.range(n):\n    t = pl.add(a, b)\n    a = t\n    b = t\n"
    legal(loop + "pl.store(a, [0, 0], o)\npl.store(pl.adds(b, 1.0), [16, 0], o)")


def test_two_inputs_swapped_by_a_branch_take_four_moves_into_places_of_their_own():
    f = legal("if n > 1:\n    a, b = b, a\npl.store(a, [0, 0], o)\npl.store(b, [16, 0], o)")
    (branch,) = [s for s in walk(f.body) if isinstance(s, IfStmt)]
    tiles = [r for r in branch.return_vars if isinstance(r.type, TileType)]
    assert moves(f) == 4
    assert len({*bases(*tiles), *bases(named(f, "a__ssa_v0"), named(f, "b__ssa_v0"))}) == 4


def test_a_value_made_in_an_arm_is_made_in_the_results_place():
    f = legal("e = a\nif n > 1:\n    e = pl.mul(a, b)\npl.store(e, [0, 0], o)\npl.store(a, [16, 0], o)")
    assert moves(f) == 1  # the other arm copies its input
    assert call_of(f, "tile.mul") is not None


def test_the_same_value_from_both_arms_needs_no_move():
    f = legal("e = a\nif n > 1:\n    e = b\nelse:\n    e = b\npl.store(e, [0, 0], o)")
    assert moves(f) == 0


def test_a_branch_in_a_loop_works_in_the_carrys_place():
    f = legal("for i in pl.range(n):\n    a = pl.add(a, b)\n    if i > 1:\n        a = pl.mul(a, b)\npl.store(a, [0, 0], o)")
    assert moves(f) == 0


@pytest.mark.parametrize(
    "body",
    [
        "t = pl.write(a, [0, 0], 5.0)\npl.store(pl.add(t, a), [0, 0], o)",
        "w = a[0:8, :]\nt = pl.assemble(a, b[0:8, :], [4, 0])\npl.store(t, [0, 0], o)\npl.store(w, [16, 0], o)",
        "for i in pl.range(n):\n    pl.store(pl.assemble(a, b[0:8, :], [i, 0]), [i * 16, 0], o)",
    ],
)
def test_an_operator_that_would_overwrite_what_is_needed_works_on_a_copy(body):
    assert moves(legal(body)) == 1


@pytest.mark.contract("B077", "B078")
def test_an_assemble_of_an_overlapping_window_reads_a_copy_of_the_whole():
    f = legal("w = pl.slice(a, [8, 32], [2, 0])\nt = pl.assemble(a, w, [4, 0])\npl.store(t, [0, 0], o)")
    assert applied(f).count("tile.slice") == 2
    assert call_of(f, "tile.move").args[0] is named(f, "a")


@pytest.mark.contract("B079", "B080")
@pytest.mark.parametrize("offset", ["8", "0"])
def test_an_exact_or_disjoint_window_needs_no_copy(offset):
    f = legal(f"w = pl.slice(a, [8, 32], [0, 0])\nt = pl.assemble(a, w, [{offset}, 0])\npl.store(t, [0, 0], o)")
    assert moves(f) == 0


@pytest.mark.contract("B077")
def test_an_overlapping_window_at_a_run_time_offset_is_copied():
    f = legal("w = pl.slice(a, [8, 32], [n, 0])\nt = pl.assemble(a, w, [n + 1, 0])\npl.store(t, [0, 0], o)")
    assert moves(f) == 1


def test_declared_memory_keeps_its_tile():
    p = raw_kernel(
        """
        t: pl.Tile[[16, 32], pl.FP32, pl.MemRef("buf"), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 32], [16, 32], target_memory=pl.Mem.Vec)
        if n > 0:
            u: pl.Tile[[16, 32], pl.FP32, pl.MemRef("other"), pl.Mem.Vec] = pl.tile.muls(t, 2.0)
            r: pl.Tile[[16, 32], pl.FP32, pl.Mem.Vec]
            r = pl.yield_(u)
        else:
            v = pl.tile.muls(t, 3.0)
            r = pl.yield_(v)
        s: pl.Tensor[[64, 32], pl.FP32] = pl.tile.store(r, [0, 0], o)
        """,  # noqa: E501
        "x: pl.Tensor[[32, 32], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[64, 32], pl.FP32]]",
    )
    f = kernel_of(materialize_all_semantic_aliases.run(init_mem_ref.run(p, PassOptions()), PassOptions()))
    assert gives_its_values(f)
    assert moves(f) == 1
    assert [v.type.memref.base_.name_hint for v in (named(f, "t"), named(f, "u"))] == ["buf", "other"]


@pytest.mark.contract("B008")
def test_functions_that_are_not_selected_only_share_what_must_be_shared():
    body = "for i in pl.range(n):\n    a, b = b, a\npl.store(pl.row_expand_add(a, pl.row_max(b, a)), [0, 0], o)"
    p = through(scope(LOADS + body, X), "select_buffer_ir_functions", MemoryPlanner.PTOAS)
    f = kernel_of(materialize_semantic_aliases.run(p, PassOptions(memory_planner=MemoryPlanner.PTOAS)))
    assert moves(f) == 0
    assert not gives_its_values(f)
