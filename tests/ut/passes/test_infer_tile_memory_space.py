"""Every tile is in a memory, every operand where its operator reads it."""

import pytest
from back_lab import applied, kernel_of, named, raw, raw_kernel
from pass_lab import same

from pypto.enums import MemorySpace
from pypto.errors import CompileError
from pypto.passes.context import PassOptions
from pypto.passes.infer_tile_memory_space import infer_tile_memory_space

X = "x: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"


def infer(body: str, params: str = X):
    made = infer_tile_memory_space.run(raw_kernel(body, params), PassOptions())
    assert infer_tile_memory_space.run(made, PassOptions()) is made
    return made


def test_open_loads_and_creations_take_what_their_consumers_ask_for():
    made = infer(
        "t = pl.tile.load(x, [0, 0], [16, 64], [16, 64])\nw = pl.tile.create([16, 64], dtype=pl.FP32)\nm = pl.tile.row_max(t, w)"
    )
    same(
        made,
        raw_kernel(
            """
            t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
            w = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
            m = pl.tile.row_max(t, w)
            """,
            X,
        ),
    )


def test_without_a_consumer_a_tile_is_in_vector_memory():
    assert named(kernel_of(infer("t = pl.tile.load(x, [0, 0], [16, 64], [16, 64])")), "t").type.memory_space is MemorySpace.Vec


def test_demand_goes_back_through_windows_and_carries():
    f = kernel_of(
        infer(
            """
            t = pl.tile.create([16, 64], dtype=pl.FP32)
            for i, (c,) in pl.range(4, init_values=(t,)):
                w = pl.tile.slice(c, [8, 64], [0, 0])
                v = pl.tile.muls(w, 2.0)
                d = pl.tile.assemble(c, v, [8, 0])
                r = pl.yield_(d)
            s: pl.Tensor[[16, 64], pl.FP32] = pl.tile.store(r, [0, 0], o)
            """
        )
    )
    assert {named(f, n).type.memory_space for n in ("t", "w", "v", "d")} == {MemorySpace.Vec}


def test_a_memory_that_was_named_is_kept_and_the_operand_moved_once():
    f = kernel_of(
        infer(
            """
            t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Mat)
            a = pl.tile.muls(t, 2.0)
            b = pl.tile.add(t, a)
            """
        )
    )
    assert named(f, "t").type.memory_space is MemorySpace.Mat
    assert applied(f) == ["tile.load", "tile.move", "tile.muls", "tile.add"]
    assert named(f, "t_Vec").type.memory_space is MemorySpace.Vec


def test_a_move_inside_a_branch_serves_that_branch_only():
    f = kernel_of(
        infer(
            """
            t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Mat)
            if n > 0:
                a = pl.tile.muls(t, 2.0)
                r = pl.yield_(a)
            else:
                b = pl.tile.muls(t, 3.0)
                r = pl.yield_(b)
            """,
            X + ", n: pl.Scalar[pl.INDEX]",
        )
    )
    assert applied(f).count("tile.move") == 2


def test_branches_agree_on_a_memory():
    f = kernel_of(
        infer(
            """
            t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
            m = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Mat)
            if n > 0:
                r = pl.yield_(t)
            else:
                r = pl.yield_(m)
            """,
            X + ", n: pl.Scalar[pl.INDEX]",
        )
    )
    assert applied(f)[-1] == "tile.move"


def test_tiles_are_no_parameters_of_kernels():
    p = raw(
        "@pl.program\nclass test:\n    @pl.function(type=pl.FunctionType.InCore)\n"
        "    def k(t: pl.Tile[[16, 64], pl.FP32]):\n        a = pl.tile.muls(t, 2.0)\n"
    )
    with pytest.raises(CompileError, match="takes the tile 't'") as e:
        infer_tile_memory_space.run(p, PassOptions())
    assert e.value.hint
