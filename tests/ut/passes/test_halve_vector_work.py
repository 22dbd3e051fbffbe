"""HalveVectorWork: which tiles the lanes share, where halves lie in tensors, and what has no halves."""

import textwrap

import pytest
from back_lab import applied, call_of, named, through
from pass_lab import apply, program
from test_expand_mixed_kernel import PARAMS, PRODUCT, side

from pypto.errors import NotSupportedError
from pypto.ir.printer import python_print
from pypto.ir.program import Function, Program
from pypto.ir.verify.registry import DEFAULT, STRUCTURAL, verify

SUM = PRODUCT + "pl.store(pl.add(x, pl.load(c, [0, 0], [32, 32])), [0, 0], o)"


def kernel(body: str, mode: str = "UP_DOWN") -> Program:
    """A kernel whose split is left to the compiler, up to memories."""
    inner = textwrap.indent(textwrap.dedent(body), "        ")
    scope = f"with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.{mode})]):"
    return through(program(f"@pl.function\ndef main({PARAMS}):\n    {scope}\n{inner}"), "resolve_backend_op_layouts")


def halved(body: str, mode: str = "UP_DOWN") -> Function:
    made = apply(kernel(body, mode), "halve_vector_work")
    assert not verify({*DEFAULT, *STRUCTURAL}, made)
    (f,) = [f for f in made.function_list if f.is_device]
    return f


def shape(f: Function, name: str) -> list[int]:
    return [d.value for d in named(f, name).type.shape]


@pytest.mark.parametrize(
    ("mode", "half", "at"), [("UP_DOWN", [16, 32], "[lane * 16, 0]"), ("LEFT_RIGHT", [32, 16], "[0, lane * 16]")]
)
def test_loads_and_stores_go_to_this_lanes_part(mode, half, at):
    f = halved(SUM.replace("pl.store(pl.add(", "y = pl.add(").replace(", [0, 0], o)", "\npl.store(y, [0, 0], o)"), mode)
    assert shape(f, "y") == half
    text = python_print(f)
    assert f"pl.tile.load(c, {at}, [{half[0]}, {half[1]}], [{half[0]}, {half[1]}]" in text
    assert f"pl.tile.store(y, {at}, o)" in text
    assert call_of(f, "tile.aiv_shard").kwargs["split"] == (1 if mode == "UP_DOWN" else 2)
    assert (f.split, f.attrs["split_aiv"]) == (None, True)


def test_what_goes_to_the_cube_core_is_put_together():
    f = halved(PRODUCT + "y = pl.exp(x)\npl.store(pl.matmul(y, y), [0, 0], o)")
    assert [n for n in applied(f) if n in ("tile.aiv_shard", "tile.aic_gather")] == ["tile.aiv_shard", *["tile.aic_gather"] * 2]
    p = apply(
        apply(kernel(PRODUCT + "y = pl.exp(x)\npl.store(pl.matmul(y, y), [0, 0], o)"), "halve_vector_work"), "expand_mixed_kernel"
    )
    assert [
        call_of(side(p, kind), name).kwargs["split"]
        for kind, name in (("AIC", "tile.tpop_from_aiv"), ("AIV", "tile.tpush_to_aic"))
    ] == [1, 1]


def test_a_tile_of_one_row_is_all_of_each_lanes():
    f = halved(PRODUCT + "b0 = pl.load(c, [0, 0], [1, 32])\ny = pl.col_expand_add(x, b0)\npl.store(y, [0, 0], o)")
    assert (shape(f, "b0"), shape(f, "y")) == ([1, 32], [16, 32])
    f = halved(PRODUCT + "b0 = pl.load(c, [0, 0], [1, 32])\ny = pl.col_expand_add(x, b0)\npl.store(y, [0, 0], o)", "LEFT_RIGHT")
    assert (shape(f, "b0"), shape(f, "y")) == ([1, 16], [32, 16])


def test_what_is_valid_of_a_half_depends_on_the_lane():
    f = halved(
        PRODUCT
        + "y = pl.load(c, [0, 0], [32, 32], valid_shape=[n, 32])\npl.store(pl.exp(y), [0, 0], o)\npl.store(pl.exp(x), [0, 0], p)"
    )
    assert "valid_shape=[pl.min(16, pl.max(0, n - lane * 16)), 32]" in python_print(f)


def test_columns_of_numbers_are_halved_as_rows_are():
    body = PRODUCT + (
        "m = pl.row_max(x, pl.create_tile([32, 32], dtype=pl.FP32))\n"
        "t = pl.maximum(m, pl.tile.full([32, 1], dtype=pl.FP32, value=0.0))\n"
        "pl.store(pl.row_expand_sub(x, t), [0, 0], o)"
    )
    f = halved(body)
    assert (shape(f, "m"), shape(f, "m_row"), shape(f, "t")) == ([16, 1], [1, 16], [16, 1])


def test_loops_carry_halves():
    f = halved(PRODUCT + "y = pl.exp(x)\nfor i in pl.range(n):\n    y = pl.add(y, y)\npl.store(y, [0, 0], o)")
    text = python_print(f)
    assert "y__iter_v1" in text
    assert "pl.Tile[[32, 32], pl.FP32, pl.Mem.Vec" not in text


def test_other_kernels_stay():
    p = kernel("pl.store(pl.exp(pl.load(c, [0, 0], [32, 32])), [0, 0], o)")
    assert apply(p, "halve_vector_work") is p
    p = kernel(SUM, "NONE")
    assert apply(p, "halve_vector_work") is p


@pytest.mark.parametrize(
    ("mode", "body", "what"),
    [
        (
            "LEFT_RIGHT",
            "m = pl.row_max(pl.exp(x), pl.create_tile([32, 32], dtype=pl.FP32))\npl.store(m, [0, 0], o)",
            "columns that the lanes share",
        ),
        ("UP_DOWN", "pl.store(pl.col_max(pl.exp(x)), [0, 0], o)", "rows that the lanes share"),
        ("UP_DOWN", "pl.store(pl.load(c, [0, 0], [5, 32]), [0, 0], o)\npl.store(pl.exp(x), [0, 0], p)", "5 rows has no halves"),
        ("UP_DOWN", "pl.store(pl.transpose(pl.exp(x), 0, 1), [0, 0], o)", "more than this lane's half"),
        ("UP_DOWN", "pl.store(pl.exp(pl.slice(pl.exp(x), [8, 32], [8, 0])), [0, 0], o)", "more than this lane's half"),
    ],
)
def test_what_has_no_halves_is_an_error_at_its_place(mode, body, what):
    with pytest.raises(NotSupportedError, match=what) as e:
        halved(PRODUCT + body, mode)
    assert "as pl.split asks" in e.value.message
    assert e.value.location.begin_line == 6
