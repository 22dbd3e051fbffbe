"""Relabels that change nothing are gone."""

from back_lab import applied, kernel_of, raw_kernel

from pypto.passes.context import PassOptions
from pypto.passes.fold_no_op_reshape import fold_no_op_reshape

PLACE = "pl.Tile[[{shape}], pl.FP32, pl.MemRef(m, 0, 4096), pl.Mem.Vec]"
BODY = """
m: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
t: {t} = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
u: {u} = pl.tile.reshape(t, [{shape}])
v: {u} = pl.tile.muls(u, 2.0)
"""


def folded(shape: str):
    body = BODY.format(t=PLACE.format(shape="16, 64"), u=PLACE.format(shape=shape), shape=shape)
    p = raw_kernel(body, "x: pl.Tensor[[16, 64], pl.FP32]")
    made = fold_no_op_reshape.run(p, PassOptions())
    assert fold_no_op_reshape.run(made, PassOptions()) is made
    return p, made


def test_a_relabel_to_the_same_type_and_place_is_its_operand():
    _, made = folded("16, 64")
    assert applied(kernel_of(made)) == ["tile.load", "tile.muls"]


def test_a_relabel_to_another_shape_stays():
    p, made = folded("32, 32")
    assert made is p
