"""The end of a maximum along a row: quick where every lane is a number, and the same bits where one is not."""

from __future__ import annotations

from pathlib import Path

from codegen_kit import agree, np

from pypto.codegen.native.emit_reduce import of_numbers
from pypto.ir.lanes import Builder, Lane, program
from pypto.ir.ops import lanefns

BODY = (
    "x: [16, 64] @ 0 = pl.tile.load(a, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\n"
    "s: [16, 64] @ 8192 = pl.tile.create([16, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
    "m: [16, 1] @ 16384 = pl.tile.row_max(x, s)\n"
    "n: [16, 1] @ 16448 = pl.tile.row_min(x, s)\n"
    "pl.tile.store(m, [0, 0], o)\n"
    "pl.tile.store(n, [0, 8], o)\n"
)


def _rows() -> np.ndarray:
    x = np.random.default_rng(0).integers(-8, 9, (64, 64)).astype(np.float32)
    x.view(np.uint32)[1, 5] = 0x7FC12345  # of two NaNs, the first one in the order of the fold
    x.view(np.uint32)[1, 40] = 0xFFC54321
    x.view(np.uint32)[2, 63] = 0xFFC00001
    x.view(np.uint32)[3] = 0x7FC00000 + np.arange(64)
    x[4, 7], x[4, 9] = np.inf, -np.inf  # their sum is no number, and both are
    x[5] = np.inf
    x[6] = -np.inf
    x[7] = np.where(np.arange(64) % 3 == 0, 0.0, -0.0)
    x[8] = np.where(np.arange(64) < 32, -0.0, 0.0)
    x[9] = np.finfo(np.float32).max  # their sum is infinite
    return x


def test_rows_with_nan_infinities_and_both_zeros_give_the_same_bits(tmp_path: Path) -> None:
    x = _rows()
    got = agree(BODY, tmp_path, arrays=[x, x, np.full((64, 64), -777, np.float32)])
    assert np.isnan(got[1:4, [0, 8]]).all()
    assert (got[4, [0, 8]] == [np.inf, -np.inf]).all()
    assert (got[10:16, 0] == x[10:16].max(1)).all()


def test_what_asks_for_nan_is_left_out_for_numbers_and_nothing_else() -> None:
    larger = program(lanefns.maximum, ("f32", "f32"), "f32")
    assert [i.op for i in of_numbers(larger).instrs] == ["gt", "select"]

    def told_apart(b: Builder, x: Lane, y: Lane) -> Lane:
        return b.select(x.ne(x) & y.ne(y), x, x + y)

    for kept in (program(lambda b, x, y: x + y, ("f32", "f32"), "f32"), program(told_apart, ("f32", "f32"), "f32")):
        assert of_numbers(kept) is kept
