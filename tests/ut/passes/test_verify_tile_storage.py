"""Kernels on their way to buffers have closed storage; the others are not looked at."""

import pytest
from back_lab import raw_kernel

from pypto.errors import VerificationError
from pypto.passes.context import PassOptions
from pypto.passes.verify_tile_storage import verify_tile_storage

T = "pl.Tile[[16, 64], pl.FP32, pl.MemRef({m}, 0, 4096), pl.Mem.Vec]"
BODY = """
m: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
q: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
t: {t} = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
for i, (c,) in pl.range(3, init_values=(t,)):
    d: {d} = pl.tile.muls(c, 2.0)
    r = pl.yield_(d)
"""


def loop(place: str, attrs: str = ""):
    body = BODY.format(t=T.format(m="m"), d=T.format(m=place))
    return raw_kernel(body, "x: pl.Tensor[[16, 64], pl.FP32]", attrs=attrs)


def test_closed_storage_passes():
    p = loop("m")
    assert verify_tile_storage.run(p, PassOptions()) is p


@pytest.mark.parametrize("attrs", ["", '{"buffer_ir_selected": True}'])
def test_a_carry_in_two_places_is_an_error(attrs):
    with pytest.raises(VerificationError, match="must share canonical storage") as e:
        verify_tile_storage.run(loop("q", attrs), PassOptions())
    assert len(e.value.diagnostics) == 1


@pytest.mark.contract("B009")
def test_kernels_left_at_tile_stage_are_not_looked_at():
    p = loop("q", '{"buffer_ir_selected": False}')
    assert verify_tile_storage.run(p, PassOptions()) is p


def test_a_tile_without_a_place_is_an_error():
    p = raw_kernel("t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)", "x: pl.Tensor[[16, 64], pl.FP32]")
    with pytest.raises(VerificationError, match="must have a MemRef and memory space"):
        verify_tile_storage.run(p, PassOptions())
