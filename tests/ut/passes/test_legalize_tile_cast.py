"""Conversions become chains of what the chip has."""

import numpy as np
import pytest
from back_lab import kernel_of, raw_kernel, scope, through
from pass_lab import agree, out, same

from pypto.dtypes import DataType as D
from pypto.errors import CompileError
from pypto.passes.context import PassOptions
from pypto.passes.legalize_tile_cast import cast_chain, legalize_tile_cast
from pypto.target import A2A3, A5

# Number of hops on A2/A3; pairs that are not listed have no path.
A2A3_CHAINS = {
    D.BF16: {D.FP32: 1, D.INT32: 1, D.FP16: 2, D.INT16: 2, D.INT4: 3, D.INT8: 3, D.UINT8: 3},
    D.FP16: {D.FP32: 1, D.INT16: 1, D.INT32: 1, D.INT4: 1, D.INT8: 1, D.UINT8: 1, D.BF16: 2},
    D.FP32: {D.BF16: 1, D.FP16: 1, D.INT16: 1, D.INT32: 1, D.INT64: 1, D.INT4: 2, D.INT8: 2, D.UINT8: 2},
    D.INT16: {D.FP16: 1, D.FP32: 1, D.BF16: 2, D.INT4: 2, D.INT8: 2, D.UINT8: 2},
    D.INT32: {D.FP16: 1, D.FP32: 1, D.INT16: 1, D.INT64: 1, D.BF16: 2, D.INT4: 2, D.INT8: 2, D.UINT8: 2},
    D.INT64: {D.FP32: 1, D.INT32: 1, D.BF16: 2, D.FP16: 2, D.INT16: 2, D.INT4: 3, D.INT8: 3, D.UINT8: 3},
    D.INT8: {D.FP16: 1, D.INT4: 2, D.UINT8: 2},
    D.UINT8: {D.FP16: 1, D.INT4: 2, D.INT8: 2},
    D.INT4: {D.FP16: 1, D.INT8: 2, D.UINT8: 2},
}
TYPES = (D.BF16, D.FP16, D.FP32, D.INT4, D.INT8, D.INT16, D.INT32, D.INT64, D.UINT8)


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_chains_of_the_older_chip(source):
    found = {t: cast_chain(A2A3, source, t) for t in TYPES if t is not source}
    assert {t: len(c) for t, c in found.items() if c} == A2A3_CHAINS[source]


def test_a_float_of_the_same_width_comes_first():
    assert cast_chain(A5, D.INT32, D.FP16) == (D.FP32, D.FP16)
    assert cast_chain(A2A3, D.BF16, D.FP16) == (D.FP32, D.FP16)
    assert cast_chain(A2A3, D.FP16, D.BF16) == (D.FP32, D.BF16)


def test_every_hop_takes_the_mode_that_was_given_or_none():
    for mode in ("", ", mode=3"):
        params = "x: pl.Tensor[[8, 32], pl.FP32]"
        load = "t = pl.tile.load(x, [0, 0], [8, 32], [8, 32])\n"
        before = raw_kernel(load + f"y = pl.tile.cast(t, target_type=pl.INT8{mode})", params)
        after = raw_kernel(
            load + f"h = pl.tile.cast(t, target_type=pl.FP16{mode})\ny = pl.tile.cast(h, target_type=pl.INT8{mode})", params
        )
        made = legalize_tile_cast.run(before, PassOptions())
        same(made, after)
        assert legalize_tile_cast.run(made, PassOptions()) is made


def test_native_casts_stay():
    p = raw_kernel(
        "t = pl.tile.load(x, [0, 0], [8, 32], [8, 32])\ny = pl.tile.cast(t, target_type=pl.FP16)",
        "x: pl.Tensor[[8, 32], pl.FP32]",
    )
    assert legalize_tile_cast.run(p, PassOptions()) is p


def test_a_pair_without_a_path_is_refused_at_the_line():
    p = scope("o[:] = pl.cast(x, pl.INT32)", "x: pl.Tensor[[8, 16], pl.INT16], o: pl.Out[pl.Tensor[[8, 16], pl.INT32]]")
    with pytest.raises(CompileError, match="no native cast path from int16 to int32 for arch a2a3") as e:
        through(p, "legalize_tile_cast")
    assert e.value.span["line"] == 5
    assert e.value.code == "C120"


def test_the_chip_decides():
    p = through(
        scope("o[:] = pl.cast(x, pl.INT32)", "x: pl.Tensor[[8, 16], pl.INT16], o: pl.Out[pl.Tensor[[8, 16], pl.INT32]]"),
        "flatten_tile_nd_to_2d",
    )
    assert legalize_tile_cast.run(p, PassOptions(platform="a5sim")) is p


def test_a_chain_rounds_at_each_hop():
    text = "o[:] = pl.cast(pl.cast(x, pl.INT8), pl.FP16)"
    p = scope(text, "x: pl.Tensor[[8, 32], pl.FP32], o: pl.Out[pl.Tensor[[8, 32], pl.FP16]]")
    before, after = through(p, "flatten_tile_nd_to_2d"), through(p, "legalize_tile_cast")
    x = np.linspace(-140, 140, 256, dtype=np.float32).reshape(8, 32)
    agree(before, after, [np.round(x), out(8, 32, dtype=np.float16)])
    assert kernel_of(after) is not kernel_of(before)
