"""create_l1, gather_row and paged_gather: accumulators on chip, filled where they are from tensors that stay where they are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from back_lab import applied, call_of, raw_kernel, scope, through
from convert_kit import both, calls_of, convert, kernel, of_params, param, raw_converted, values
from pass_lab import agree, out, outputs

from pypto.codegen.pto import PTOCodegen
from pypto.enums import ArgEffect, MemorySpace, TileLayout
from pypto.errors import CompileError, Error
from pypto.ir import ops
from pypto.ir.expr import ConstInt
from pypto.ir.ops.paging import row_place
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt, flatten_to_stmts

contract = pytest.mark.contract
M = MemorySpace


def t(*dims: int, dtype: str = "FP32") -> str:
    return f"pl.Tensor[{list(dims)}, pl.{dtype}]"


# -- paged_gather ----------------------------------------------------------------------------------------------------

PAGED = (
    f"x: {t(64, 64)}, n: {t(5, dtype='INT32')}, b: {t(6, dtype='INT32')}, q: {t(16, 32)}, "
    f"o: pl.Out[{t(5, 32)}], p: pl.Out[{t(16, 5)}]"
)
VEC = "o[:] = pl.paged_gather(x, n, b, 4, 32, 16, space=pl.Mem.Vec, col_off=8)[0:5, :]"
MAT = "k = pl.paged_gather(x, n, b, 4, 32, 16{})\np[:] = pl.matmul(q, k, b_trans={})[:, 0:5]"


def paged(form: str = "Vec"):
    text = {"Vec": VEC, "Mat": MAT.format("", True), "turned": MAT.format(", is_trans=True", False)}[form]
    return kernel(text, PAGED)


@contract("T143", "T144")
@pytest.mark.parametrize("form", ["Vec", "Mat", "turned"])
def test_it_is_a_loop_over_rows_that_reads_where_it_gathers(form):
    f = paged(form)
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    assert applied(f).count("tile.gather_row") == 1
    assert [c.op.name for c in calls_of(loop, "tile.gather_row")] == ["tile.gather_row"]
    assert [of_params(f, c) for c in calls_of(loop, "tensor.read")] == ["n", "b"]
    assert of_params(f, call_of(f, "tile.gather_row"), 1) == "x"
    assert {of_params(f, c) for c in calls_of(f, "tile.load")} <= {"q"}


@contract("T145")
@pytest.mark.parametrize("form", ["Vec", "Mat"])
def test_the_loop_ends_with_the_indices_and_the_tile_has_all_rows(form):
    f = paged(form)
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    (count,) = calls_of(f, "tensor.dim")
    assert of_params(f, count) == "n"
    assert count.args[1].value == 0
    assert loop.stop is values(f, "tensor.dim")[0]
    assert [d.value for d in loop.iter_args[0].type.shape] == [16, 32]


@contract("T145")
def test_the_indices_may_be_one_row():
    f = kernel(VEC, PAGED.replace("n: pl.Tensor[[5], ", "n: pl.Tensor[[1, 5], "))
    assert call_of(f, "tensor.dim").args[1].value == 1


@contract("T146")
@pytest.mark.parametrize("block", [1, 4, 8])
def test_the_row_is_found_through_the_table(block):
    before, after = both(VEC.replace("b, 4,", f"b, {block},"), PAGED)
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    n, b = np.array([0, 3, 5, 1, 4], np.int32), np.array([5, 2, 7, 0, 6, 1], np.int32)
    args = [x, n, b, out(16, 32), out(5, 32), out(16, 5)]
    agree(before, after, args)
    rows = b[n // block] * block + n % block
    np.testing.assert_array_equal(outputs(after, args)[4], x[rows, 8:40])


@contract("T147")
@pytest.mark.parametrize("form", ["Vec", "Mat", "turned"])
def test_rows_are_written_into_the_tile_that_is_carried(form):
    f = paged(form)
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    row = call_of(f, "tile.gather_row")
    assert row.args[0] is loop.iter_args[0]
    assert flatten_to_stmts(loop.body)[-1].value == (values(f, "tile.gather_row")[0],)
    assert loop.iter_args[0].initValue in values(f, "tile.create")
    at = row.args[2].elements
    assert at[form == "turned"] is loop.loop_var
    assert isinstance(at[form != "turned"], ConstInt)


@contract("T148")
@pytest.mark.parametrize(("form", "space"), [("Vec", M.Vec), ("Mat", M.Mat), ("turned", M.Mat)])
def test_the_tile_is_for_the_matrix_unit_unless_asked_otherwise(form, space):
    f = paged(form)
    row = values(f, "tile.gather_row")[0]
    assert row.type.memory_space is space


@contract("T149")
def test_turned_rows_are_columns_of_a_right_operand():
    f = paged("turned")
    row = call_of(f, "tile.gather_row")
    assert row.kwargs.get("transpose") is True
    assert [d.value for d in row.args[0].type.shape] == [32, 16]
    assert "transpose" not in call_of(paged("Mat"), "tile.gather_row").kwargs
    with pytest.raises(Error, match="is_trans=True fills Mat tiles"):
        kernel(VEC.replace("col_off=8", "is_trans=True"), PAGED)


@contract("T151")
def test_a_row_of_a_vector_tile_is_moved_as_it_is():
    f = paged("Vec")
    assert [e.value for e in call_of(f, "tile.gather_row").args[4].elements] == [1, 32]


BOXED = "a = pl.create_l1([48, 64], pl.{dtype})\na = pl.gather_row(a, x, [16, 0], [3, 5], [{rows}, {cols}]{valid})\n"


@contract("T150")
@pytest.mark.parametrize(
    ("dtype", "window", "valid", "place"),
    [
        ("FP32", (1, 32), None, (16, 32)),
        ("FP32", (1, 20), None, (16, 24)),  # boxes of 8 columns
        ("FP16", (1, 20), None, (16, 32)),
        ("INT8", (1, 20), None, (16, 32)),
        ("FP16", (17, 64), None, (32, 64)),
        ("FP16", (17, 64), "s", (32, 64)),
    ],
)
def test_a_row_lies_in_whole_boxes_of_which_it_is_valid(dtype, window, valid, place):
    args = {"dtype": dtype, "rows": window[0], "cols": window[1], "valid": f", valid_shape=[s, {window[1]}]" if valid else ""}
    sums = "INT32" if dtype == "INT8" else "FP32"
    text = BOXED.format(**args) + f"o[:] = pl.matmul(y, a, b_trans=True, out_dtype=pl.{sums})"
    params = (
        f"x: {t(64, 128, dtype=dtype)}, y: {t(16, 64, dtype=dtype)}, r: pl.Scalar[pl.INDEX], s: pl.Scalar[pl.INDEX], "
        f"o: pl.Out[{t(16, 48, dtype=sums)}]"
    )
    p = through(scope(text, params), "allocate_memory_addr")
    (made,) = re.findall(r"pto\.subview .*", PTOCodegen().generate(p, emit_source_loc=False))
    assert f"sizes [{place[0]}, {place[1]}]" in made
    rows = r"%arg\d" if valid else f"%c{window[0]}_index"
    assert re.search(rf"valid \[{rows}, %c{window[1]}_index\]", made)
    assert (
        made.split("->")[1].count(f"rows={place[0]}, cols={place[1]}, v_row={'?' if valid else window[0]}, v_col={window[1]},")
        == 1
    )


@contract("T150", "T151")
@pytest.mark.parametrize(("form", "place"), [("Vec", (1, 32)), ("Mat", (16, 32))])
def test_the_place_of_a_row_follows_the_boxes_of_its_memory(form, place):
    (c,) = calls_of(paged(form), "tile.gather_row")
    window = c.args[4].elements
    made = row_place(c.args[0].type, window, window)
    assert tuple(d.value for d in made.shape) == place
    assert [d.value for d in made.valid] == [1, 32]
    assert made.memory_space is c.args[0].type.memory_space
    assert made.layout == c.args[0].type.layout


# -- create_l1 and gather_row ----------------------------------------------------------------------------------------

ROW = f"x: {t(64, 64)}, y: {t(64, 64)}, r: pl.Scalar[pl.INDEX], o: pl.Out[{t(16, 32)}]"
CREATE = "a = pl.create_l1([32, 64], pl.FP32{})\n"


def row(form: str, create: str = CREATE.format(""), more: str = "\no[:] = pl.matmul(y[0:16, :], a, b_trans=True)"):
    return kernel(create + form + more, ROW)


@contract("T152", "T160")
@pytest.mark.parametrize(
    ("flag", "layout"),
    [("", (TileLayout.col_major, TileLayout.row_major)), (", transpose=True", (TileLayout.row_major, TileLayout.col_major))],
)
def test_an_accumulator_is_a_tile_in_mat(flag, layout):
    f = raw_converted(f"a = pl.tensor.create_l1([32, 64], dtype=pl.FP32{flag})", f"x: {t(64, 64)}")
    create = call_of(f, "tile.create")
    assert applied(f) == ["tile.create"]
    assert create.kwargs["target_memory"] is M.Mat
    assert bool(create.kwargs.get("transpose")) is bool(flag)
    made = create.type.layout
    assert (made.blayout, made.slayout) == layout


@contract("T153")
def test_a_window_is_written_in_place():
    f = row("a = pl.gather_row(a, x, [0, 0], [r, 0], [32, 64])")
    made = call_of(f, "tile.gather_row")
    assert made.args[0] is values(f, "tile.create")[0]
    assert made.args[1] is param(f, "x")
    op = ops.of(made)
    assert op.reuses == 0
    assert op.effect(0) is ArgEffect.ReadWrite
    assert "tensor.gather_row" not in applied(f)


@contract("T154")
def test_the_window_has_constant_extents():
    with pytest.raises(Error, match="shapes must be constant") as e:
        row("a = pl.gather_row(a, x, [0, 0], [0, 0], [r, 64])")
    assert "valid_shape" in str(e.value)


@contract("T155")
def test_valid_shape_is_a_keyword_that_may_be_known_at_run_time():
    f = row("a = pl.gather_row(a, x, [0, 0], [0, 0], [32, 64], valid_shape=[r, 64])")
    made = call_of(f, "tile.gather_row")
    assert "valid_shape" not in made.kwargs
    assert made.args[5].elements[0] is param(f, "r")
    with pytest.raises(Error):
        row("a = pl.gather_row(a, x, [0, 0], [0, 0], [32, 64], False, [8, 64])")


@contract("T156")
def test_without_it_the_whole_window_is_moved():
    f = row("a = pl.gather_row(a, x, [0, 0], [0, 0], [32, 64])")
    moved = call_of(f, "tile.gather_row")
    assert len(moved.args) == 5
    assert [e.value for e in moved.args[4].elements] == [32, 64]
    text = "a = pl.create_tile([8, 32], dtype=pl.FP32)\na = pl.gather_row(a, x, [0, 0], [3, 5], [8, 32])\npl.store(a, [0, 0], o)"
    params = f"x: {t(64, 64)}, o: pl.Out[{t(16, 32)}]"
    before, after = both(text, params)
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    np.testing.assert_array_equal(outputs(after, [x, out(16, 32)])[1][:8], x[3:11, 5:37])
    agree(before, after, [x, out(16, 32)])


@contract("T157")
def test_a_part_of_a_turned_window_is_refused():
    with pytest.raises(Error, match="transpose=True moves whole windows"):
        row("a = pl.gather_row(a, x, [0, 0], [0, 0], [32, 32], True, valid_shape=[8, 32])", CREATE.format(", transpose=True"))


@contract("T158")
@pytest.mark.parametrize(
    ("valid", "fits"), [("[33, 64]", False), ("[-1, 64]", False), ("[0, 64]", True), ("[r, 64]", True), ("[r + 40, 64]", True)]
)
def test_what_provably_leaves_the_window_is_refused(valid, fits):
    form = f"a = pl.gather_row(a, x, [0, 0], [0, 0], [32, 64], valid_shape={valid})"
    if fits:
        assert "tile.gather_row" in applied(row(form))
    else:
        with pytest.raises(Error, match="is not within 0"):
            row(form)


@contract("T159")
@pytest.mark.parametrize(("at", "valid", "fits"), [(24, 8, True), (24, 9, False), (0, 32, True), (31, 1, True), (32, 1, False)])
def test_only_what_is_valid_must_fit_the_destination(at, valid, fits):
    form = f"a = pl.gather_row(a, x, [{at}, 0], [0, 0], [32, 64], valid_shape=[{valid}, 64])"
    if fits:
        assert "tile.gather_row" in applied(row(form))
    else:
        with pytest.raises(Error, match="past the end"):
            row(form)


@contract("T161")
def test_rows_become_columns():
    text = (
        "a = pl.create_l1([64, 32], pl.FP32, transpose=True)\na = pl.gather_row(a, x, [0, 16], [r, 0], [16, 64], True)\n"
        "a = pl.gather_row(a, x, [0, 0], [0, 0], [16, 64], True)\no[:] = pl.matmul(y[0:16, :], a)"
    )
    before, after = both(text, ROW)
    x = (np.arange(4096, dtype=np.float32) % 11).reshape(64, 64)
    y = (np.arange(4096, dtype=np.float32) % 7).reshape(64, 64)
    args = [x, y, 20, out(16, 32)]
    agree(before, after, args)
    np.testing.assert_array_equal(outputs(after, args)[3], y[:16] @ np.concatenate([x[:16], x[20:36]]).T)


def test_accumulators_begin_on_chip():
    with pytest.raises(CompileError, match="create_l1"):
        convert(raw_kernel("r = pl.tensor.gather_row(o, x, [0, 0], [0, 0], [8, 32])", f"x: {t(64, 64)}, o: {t(16, 32)}"))
