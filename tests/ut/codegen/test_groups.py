"""What becomes one loop, and what of it touches memory.  Each case also computes what the interpreter computes."""

from __future__ import annotations

from pathlib import Path

from codegen_kit import PARAMS, agree, formed, kernel, np

LOAD_X = "x: [8, 64] @ 0 = pl.tile.load(a, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)\n"


def test_a_chain_is_one_loop_that_stores_only_its_result(tmp_path: Path) -> None:
    body = LOAD_X + (
        "y: [8, 64] @ 2048 = pl.tile.adds(x, 1.0)\n"
        "z: [8, 64] @ 0 = pl.tile.mul(y, y)\n"  # over x, which nobody reads any more
        "pl.tile.store(z, [0, 0], o)\n"
    )
    (g,) = formed(kernel(body))
    assert g.ops == ("adds", "mul", "store")  # the load is read in place
    assert g.stored == ("store",)
    agree(body, tmp_path)


def test_a_reduction_is_fused_with_what_feeds_and_follows_it(tmp_path: Path) -> None:
    body = LOAD_X + (
        "s: [8, 64] @ 8192 = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
        "y: [8, 64] @ 2048 = pl.tile.adds(x, 1.0)\n"
        "m: [8, 1] @ 4096 = pl.tile.row_sum(y, s)\n"
        "t: [8, 1] @ 4128 = pl.tile.row_prod(y, s)\n"
        "z: [8, 64] @ 2048 = pl.tile.row_expand_sub(y, m)\n"
        "w: [8, 64] @ 2048 = pl.tile.row_expand_mul(z, t)\n"
        "pl.tile.store(w, [0, 0], o)\n"
    )
    (g,) = formed(kernel(body))
    assert g.phases == 2  # both reductions in the pass that computes y
    assert g.stored == ("adds", "store")  # y crosses from the first pass to the second
    assert g.by_row == ("adds",)
    agree(body, tmp_path)


def test_column_vectors_stay_in_registers_under_either_shape(tmp_path: Path) -> None:
    body = LOAD_X + (
        "s: [8, 64] @ 8192 = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
        "m: [8, 1] @ 4096 = pl.tile.row_sum(x, s)\n"
        "r: [1, 8] @ 4096 = pl.tile.reshape(m, [1, 8])\n"
        "k: [1, 8] @ 4128 = pl.tile.muls(r, 0.5)\n"
        "c: [8, 1] @ 4128 = pl.tile.reshape(k, [8, 1])\n"
        "z: [8, 64] @ 2048 = pl.tile.row_expand_sub(x, c)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    (g,) = formed(kernel(body))
    assert g.stored == ("store",)
    agree(body, tmp_path)


def test_a_tile_that_is_read_later_is_stored(tmp_path: Path) -> None:
    body = LOAD_X + (
        "y: [8, 64] @ 2048 = pl.tile.adds(x, 1.0)\n"
        "for i in pl.range(0, n, 1):\n"
        "    z: [8, 64] @ 4096 = pl.tile.muls(y, 2.0)\n"
        "    pl.tile.store(z, [i, 0], o)\n"
    )
    first, second = formed(kernel(body))
    assert first.stored == ("adds",)
    assert first.by_row == ()
    assert second.stored == ("store",)
    agree(body, tmp_path)


# y and z each cross from one pass over a row to the next.
TWO_CROSS = LOAD_X + (
    "s: [8, 64] @ 16384 = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
    "y: [8, 64] @ 2048 = pl.tile.adds(x, 1.0)\n"
    "m: [8, 1] @ 8192 = pl.tile.row_sum(y, s)\n"
    "z: [8, 64] @ {z} = pl.tile.row_expand_sub(y, m)\n"
    "t: [8, 1] @ 8224 = pl.tile.row_sum(z, s)\n"
    "w: [8, 64] @ {w} = pl.tile.row_expand_mul(z, t)\n"
    "pl.tile.store(w, [0, 0], o)\n"
)


def test_what_only_its_own_row_reads_takes_the_bytes_of_a_row(tmp_path: Path) -> None:
    for z in (4096, 2048):  # apart, and in place
        body = TWO_CROSS.format(z=z, w=4096)
        (g,) = formed(kernel(body))
        assert g.stored == ("adds", "row_expand_sub", "store")
        assert g.by_row == ("adds", "row_expand_sub")
        agree(body, tmp_path / str(z))


def test_rows_stay_apart_where_a_result_that_is_kept_lies_over_them(tmp_path: Path) -> None:
    """w takes the place of y, row by row: a later row of y in the first one's place would destroy it."""
    body = TWO_CROSS.format(z=4096, w=2048) + (
        "v: [4, 64] @ 2304 = pl.tile.slice(w, [4, 64], [1, 0])\n"
        "u: [4, 64] @ 4096 = pl.tile.muls(v, 2.0)\n"
        "pl.tile.store(u, [8, 0], o)\n"
    )
    first = formed(kernel(body))[0]
    assert first.stored == ("adds", "row_expand_sub", "row_expand_mul", "store")
    assert first.by_row == ("row_expand_sub",)
    agree(body, tmp_path)


def test_short_rows_do_not_wait_for_values_that_take_long(tmp_path: Path) -> None:
    """A largest element takes long to find at the end of a row, and so does an exponential for each row by itself."""
    body = LOAD_X + (
        "s: [8, 64] @ 8192 = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
        "m: [8, 1] @ 4096 = pl.tile.row_max(x, s)\n"
        "k: [8, 1] @ 4128 = pl.tile.exp(m)\n"
        "z: [8, 64] @ 2048 = pl.tile.row_expand_sub(x, k)\n"
        "t: [8, 1] @ 4160 = pl.tile.row_sum(z, s)\n"
        "w: [8, 64] @ 2048 = pl.tile.row_expand_mul(z, t)\n"
        "pl.tile.store(w, [0, 0], o)\n"
    )
    groups = formed(kernel(body))
    assert [g.ops for g in groups] == [("row_max",), ("exp",), ("row_expand_sub", "row_sum", "row_expand_mul", "store")]
    agree(body, tmp_path)


def test_long_and_few_rows_are_finished_one_by_one() -> None:
    for rows, cols in ((8, 256), (4, 64)):
        tensor = f"pl.Tensor[[{rows}, {cols}], pl.FP32]"
        body = (
            f"x: [{rows}, {cols}] @ 0 = pl.tile.load(a, [0, 0], [{rows}, {cols}], [{rows}, {cols}], target_memory=pl.Mem.Vec)\n"
            f"s: [{rows}, {cols}] @ 8192 = pl.tile.create([{rows}, {cols}], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
            f"m: [{rows}, 1] @ 16384 = pl.tile.row_max(x, s)\n"
            f"z: [{rows}, {cols}] @ 32768 = pl.tile.row_expand_sub(x, m)\n"
            "pl.tile.store(z, [0, 0], o)\n"
        )
        (g,) = formed(kernel(body, f"a: {tensor}, o: pl.Out[{tensor}]"))
        assert g.phases == 2


# A turn is a loop of its own; y stands before it, and what reads y behind it.
ACROSS = LOAD_X + (
    "q: [8, 8] @ 16384 = pl.tile.load(b, [0, 0], [8, 8], [8, 8], target_memory=pl.Mem.Vec)\n"
    "e: [8, 8] @ 16640 = pl.tile.adds(q, 1.0)\n"
    "w: [8, 8] @ 16896 = pl.tile.create([8, 8], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
    "{before}"
    "y: [8, 64] @ 2048 = pl.tile.muls({source}, 2.0)\n"
    "t: [8, 8] @ {turned} = pl.tile.transpose(e, 0, 1, w)\n"
    "z: [8, 64] @ 8192 = pl.tile.adds(y, 3.0)\n"
    "pl.tile.store(z, [0, 0], o)\n"
    "u: [8, 8] @ 20480 = pl.tile.muls(t, 0.5)\n"
    "pl.tile.store(u, [8, 0], o)\n"
)


def test_work_waits_for_its_only_reader_behind_a_loop_of_its_own(tmp_path: Path) -> None:
    body = ACROSS.format(before="", source="x", turned=17152)
    groups = formed(kernel(body))
    assert [g.ops for g in groups] == [("adds",), ("transpose",), ("muls", "adds", "store", "muls", "store")]
    assert groups[2].stored == ("store", "store")
    agree(body, tmp_path)


def test_work_does_not_wait_where_it_would_find_other_bytes(tmp_path: Path) -> None:
    """What is turned lies over the tile that is multiplied."""
    before = "f: [8, 64] @ 0 = pl.tile.adds(x, 1.0)\nfor i in pl.range(0, 1, 1):\n    pl.tile.store(f, [16, 0], o)\n"
    for turned, waits in ((17152, True), (0, False)):
        body = ACROSS.format(before=before, source="f", turned=turned)
        assert ("muls", "adds", "store", "muls", "store") in [g.ops for g in formed(kernel(body))] or not waits
        agree(body, tmp_path / str(turned))


def test_work_does_not_wait_for_two_readers_or_where_it_has_its_operand(tmp_path: Path) -> None:
    twice = ACROSS.format(before="", source="x", turned=17152) + "pl.tile.store(y, [16, 0], o)\n"
    behind = ACROSS.format(before="g: [8, 64] @ 4096 = pl.tile.adds(x, 1.0)\n", source="g", turned=17152)
    for n, body in enumerate((twice, behind)):
        groups = formed(kernel(body))
        assert "muls" in groups[0].ops
        assert groups[1].ops == ("transpose",)
        agree(body, tmp_path / str(n))


def test_a_row_of_results_ends_a_group(tmp_path: Path) -> None:
    """The sum of a column is complete only after the last row."""
    body = LOAD_X + (
        "s: [8, 64] @ 8192 = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
        "t: [1, 64] @ 2048 = pl.tile.col_sum(x, s)\n"
        "z: [8, 64] @ 4096 = pl.tile.col_expand_sub(x, t)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    groups = formed(kernel(body))
    assert [g.ops for g in groups] == [("col_sum",), ("col_expand_sub", "store")]
    assert groups[0].stored == ("col_sum",)
    agree(body, tmp_path)


def test_rows_read_at_another_place_end_a_group(tmp_path: Path) -> None:
    """The window begins one row further down than what was written: every row must be there first."""
    body = (
        "x: [16, 64] @ 0 = pl.tile.load(a, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\n"
        "y: [16, 64] @ 4096 = pl.tile.adds(x, 1.0)\n"
        "v: [8, 64] @ 4352 = pl.tile.slice(y, [8, 64], [1, 0])\n"
        "z: [8, 64] @ 8192 = pl.tile.muls(v, 3.0)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    groups = formed(kernel(body))
    assert [g.ops for g in groups] == [("adds",), ("muls", "store")]
    assert groups[0].stored == ("adds",)
    agree(body, tmp_path)


def test_a_window_on_the_rows_as_they_were_written_is_fused(tmp_path: Path) -> None:
    body = (
        "x: [16, 64] @ 0 = pl.tile.load(a, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\n"
        "y: [16, 64] @ 4096 = pl.tile.adds(x, 1.0)\n"
        "v: [16, 32] @ 4096 = pl.tile.slice(y, [16, 32], [0, 0])\n"
        "z: [16, 32] @ 8192 = pl.tile.muls(v, 3.0)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    groups = formed(kernel(body))
    assert len(groups) == 1
    agree(body, tmp_path)


def test_a_source_that_is_overwritten_is_not_forwarded(tmp_path: Path) -> None:
    body = LOAD_X + (
        "y: [8, 64] @ 2048 = pl.tile.move(x, target_memory=pl.Mem.Vec)\n"
        "x2: [8, 64] @ 0 = pl.tile.load(b, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)\n"
        "z: [8, 64] @ 4096 = pl.tile.sub(y, x2)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    (g,) = formed(kernel(body))
    assert g.ops == ("sub", "store")  # both from the callers' arrays
    agree(body, tmp_path)


def test_a_source_that_the_result_partly_covers_is_not_read_instead(tmp_path: Path) -> None:
    """y is a copy of x; the result over part of x would change elements of it before they are read."""
    body = LOAD_X + (
        "x1: [8, 64] @ 0 = pl.tile.adds(x, 0.5)\n"
        "y: [8, 64] @ 4096 = pl.tile.move(x1, target_memory=pl.Mem.Vec)\n"
        "z: [8, 64] @ 96 = pl.tile.muls(y, 2.0)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    agree(body, tmp_path)


def test_an_output_that_is_read_back_is_not_read_in_place(tmp_path: Path) -> None:
    """The load reads o before the store changes it; the value lives on afterwards."""
    params = PARAMS.replace("pl.Out[", "pl.InOut[")
    body = (
        "x: [8, 64] @ 0 = pl.tile.load(o, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)\n"
        "y: [8, 64] @ 2048 = pl.tile.load(a, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)\n"
        "pl.tile.store(y, [0, 0], o)\n"
        "z: [8, 64] @ 4096 = pl.tile.add(x, y)\n"
        "pl.tile.store(z, [8, 0], o)\n"
    )
    got = agree(body, tmp_path, params=params)
    assert (got[8:16] == got[:8] - 777).all()


def test_partial_tiles_touch_only_their_valid_part(tmp_path: Path) -> None:
    body = (
        "x: [8, 64] valid [n, 64] @ 0 = pl.tile.load(a, [0, 0], [8, 64], [n, 64], target_memory=pl.Mem.Vec)\n"
        "y: [8, 64] valid [n, 64] @ 2048 = pl.tile.adds(x, 1.0)\n"
        "pl.tile.store(y, [0, 0], o)\n"
    )
    assert formed(kernel(body))[0].stored == ("store",)
    for n in (0, 3, 8):
        got = agree(body, tmp_path / str(n), n=n)
        assert (got[n:] == -777).all()


def test_whole_rows_keep_what_a_partial_tile_over_them_left(tmp_path: Path) -> None:
    """A partial write over older bytes: a whole read must see both."""
    body = LOAD_X + (
        "y: [8, 64] valid [n, 64] @ 2048 = pl.tile.load(b, [0, 0], [8, 64], [n, 64], target_memory=pl.Mem.Vec)\n"
        "x1: [8, 64] @ 4096 = pl.tile.adds(x, 0.5)\n"
        "p: [8, 64] valid [n, 64] @ 4096 = pl.tile.set_validshape(x1, n, 64)\n"
        "q: [8, 64] valid [n, 64] @ 2048 = pl.tile.mul(p, y)\n"
        "pl.tile.store(q, [0, 0], o)\n"
        "pl.tile.store(x1, [8, 0], o)\n"
    )
    agree(body, tmp_path, n=3)


def test_masks_read_in_place_are_not_packed(tmp_path: Path) -> None:
    body = LOAD_X + (
        "y: [8, 64] @ 2048 = pl.tile.load(b, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)\n"
        "m: [8, 32] valid [8, 8] of UINT8 @ 4096 = pl.tile.cmp(x, y, cmp_type=2)\n"
        "t: [8, 32] of UINT8 @ 4608 = pl.tile.create([8, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec)\n"
        "z: [8, 64] @ 8192 = pl.tile.sel(m, x, y, t)\n"
        "pl.tile.store(z, [0, 0], o)\n"
    )
    f = kernel(body)
    assert [g.stored for g in formed(f)] == [("store",)]
    got = agree(body, tmp_path)
    assert np.isfinite(got[:8]).all()
