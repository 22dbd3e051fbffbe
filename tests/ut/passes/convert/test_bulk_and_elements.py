"""Bulk stores and element writes: what is refused, which fills become bulk, what is staged on the chip."""

from __future__ import annotations

import numpy as np
import pytest
from back_lab import applied, kernel_of
from convert_kit import OUT, both, calls_of, directions, kernel, of_params, raw_converted
from pass_lab import agree, ints, out

from pypto.errors import CompileError
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt, WhileStmt, flatten_to_stmts
from pypto.passes.convert_tensor_to_tile_ops.fills import fill_loops_to_bulk

contract = pytest.mark.contract
M = "pl.Tensor[[4, 32], pl.INT32]"
C = "pl.Tensor[[8], pl.INT32]"
PARAMS = f"c: {C}, o: pl.Out[{M}], q: pl.Out[{M}]"
BULK = "{o}[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)\n"
ELEMENT = "pl.write({o}, [3, 1], v)\n"
ALIAS = "p = o\n"


def mixed(body: str) -> CompileError:
    with pytest.raises(CompileError, match="'o' is written both in bulk") as e:
        kernel("v = pl.read(c, [0])\n" + body, PARAMS)
    assert e.value.code == "C023"
    assert e.value.hint
    return e.value


# -- what is refused -------------------------------------------------------------------------------------------------


@contract("T045")
@pytest.mark.parametrize("parts", [BULK + ELEMENT, ELEMENT + BULK])
def test_both_kinds_of_write_in_any_order(parts):
    assert mixed(parts.format(o="o")).span["line"] == 7


@contract("T046")
@pytest.mark.parametrize(
    "body", [ALIAS + BULK.format(o="p") + ELEMENT.format(o="p"), ALIAS + ELEMENT.format(o="o") + BULK.format(o="p")]
)
def test_other_names_do_not_hide_it(body):
    mixed(body)


@contract("T047")
@pytest.mark.parametrize(
    "body",
    [
        "for i in pl.range(4):\n    pl.write(o, [i, 0], v)\n" + BULK.format(o="o"),
        BULK.format(o="o") + "if v > 0:\n    pl.write(o, [3, 0], v)\n",
        "i = 0\nwhile i < 4:\n    pl.write(o, [i, 0], v)\n    i = i + 1\n" + BULK.format(o="o"),
        "if v > 0:\n    p = o\nelse:\n    p = q\n" + ELEMENT.format(o="p") + BULK.format(o="o"),
        "if v > 0:\n    p = q\nelse:\n    p = o\n" + ELEMENT.format(o="p") + BULK.format(o="o"),
        "for i in pl.range(4):\n    if v > 0:\n        pl.write(o, [i, 0], v)\n    else:\n        " + BULK.format(o="o"),
    ],
)
def test_loops_and_branches_do_not_hide_it(body):
    mixed(body)


@contract("T048")
def test_offsets_that_are_apart_do_not_help():
    mixed("o[0:1, :] = pl.full([1, 32], dtype=pl.INT32, value=-1)\npl.write(o, [3, 31], v)")


@contract("T049")
def test_different_tensors_in_different_ways():
    f = kernel("v = pl.read(c, [0])\n" + BULK.format(o="o") + ELEMENT.format(o="q"), PARAMS)
    assert applied(f) == ["tensor.read", "tile.full", "tile.store", "tensor.write"]
    assert directions(f)["o"] is directions(f)["q"] is OUT


# -- fills -----------------------------------------------------------------------------------------------------------

CONSTANT = "pl.const(7, pl.INT32)"


def fill(at: str, n: int = 32, value: str = CONSTANT, loop: str = "pl.range({n})", more: str = "", o: str = "o") -> str:
    return f"for i in {loop.format(n=n)}:\n    pl.write({o}, [{at}], {value})\n{more}"


def is_bulk(body: str, params: str = PARAMS) -> bool:
    f = kernel(body, params)
    assert {"tile.full", "tile.store"} <= set(applied(f)) or {"tensor.write"} <= set(applied(f))
    return "tensor.write" not in applied(f)


@contract("T050")
def test_a_fill_is_one_bulk_write():
    f = kernel(fill("2, i"), PARAMS)
    assert applied(f) == ["tile.full", "tile.store"]
    assert not [n for n in walk(f.body) if isinstance(n, ForStmt)]
    (full,), (store,) = calls_of(f, "tile.full"), calls_of(f, "tile.store")
    assert [e.value for e in full.args[0].elements] == [1, 32]
    assert full.args[1].value == 7
    assert [e.value for e in store.args[1].elements] == [2, 0]
    assert of_params(f, store, 2) == "o"


@contract("T050")
def test_a_fill_is_full_and_assemble_before_it_is_tiles():
    before, _ = both(fill("2, i"), PARAMS)
    assert applied(fill_loops_to_bulk(kernel_of(before))) == ["tensor.full", "tensor.assemble"]


@contract("T051")
@pytest.mark.parametrize(
    ("body", "bulk"),
    [
        (fill("1, i", 32), True),
        (fill("1, i - 8", loop="pl.range(8, 24)"), False),
        (fill("1, i", loop="pl.range(0, 32, 8)"), False),
        (fill("1, i", loop="pl.parallel({n})"), False),
        (fill("1, i", more="    pl.write(q, [0, i], v)\n").replace("for i", "v = pl.read(c, [0])\nfor i"), False),
        ("i = 0\nwhile i < 32:\n    pl.write(o, [1, i], pl.const(7, pl.INT32))\n    i = i + 1\n", False),
    ],
)
def test_the_loop_counts_from_zero_by_one_in_sequence_and_only_fills(body, bulk):
    assert is_bulk(body) is bulk


@contract("T051")
def test_several_fills_in_one_loop():
    f = kernel(fill("1, i", more="    pl.write(q, [0, i], pl.const(2, pl.INT32))\n"), PARAMS)
    assert applied(f) == ["tile.full", "tile.store"] * 2


@contract("T052", "T054")
@pytest.mark.parametrize(
    ("at", "value", "bulk"),
    [
        ("1, i", CONSTANT, True),
        ("1, i", "pl.cast(i, pl.INT32)", False),
        ("1, i", "v", False),
        ("1, i // 2", CONSTANT, False),
        ("i // 8, i % 8", CONSTANT, False),
        ("1, 31 - i", CONSTANT, False),
    ],
)
def test_one_constant_over_a_contiguous_region(at, value, bulk):
    assert is_bulk("v = pl.read(c, [0])\n" + fill(at, 32, value)) is bulk


@contract("T053", "T054")
@pytest.mark.parametrize(
    ("at", "n", "bulk"),
    [
        ("1, i", 32, True),
        ("1, i + 8", 8, True),
        ("1, i + 8", 16, True),
        ("1, i", 6, False),
        ("1, i + 4", 8, False),
        ("1, i + 4", 28, False),
    ],
)
def test_regions_are_whole_blocks(at, n, bulk):
    assert is_bulk(fill(at, n)) is bulk


@contract("T053", "T054")
@pytest.mark.parametrize(("row", "bulk"), [(0, True), (1, False), (2, True)])
def test_where_a_region_begins_is_counted_over_the_whole_tensor(row, bulk):
    # Rows of 12 elements are 48 bytes: only every other one begins at a multiple of 32.
    assert is_bulk(fill(f"{row}, i", 8), "o: pl.Out[pl.Tensor[[8, 12], pl.INT32]]") is bulk


@contract("T054")
@pytest.mark.parametrize(
    ("at", "n"), [("i, 0", 4), ("1, i * 2", 16), ("1, i + n", 8)], ids=["strided rows", "every other", "run-time place"]
)
def test_strided_and_run_time_regions_stay_element_writes(at, n):
    assert not is_bulk("n = pl.cast(pl.read(c, [0]), pl.INDEX)\n" + fill(at, n))


@contract("T050", "T054")
@pytest.mark.parametrize("body", [fill("2, i"), fill("1, i + 8", 8), fill("1, i", 6), fill("i, 0", 4), fill("1, i // 2", 32)])
def test_fills_keep_the_numbers(body):
    agree(*both(body, PARAMS), [ints(3), out(4, 32, dtype=np.int32), out(4, 32, dtype=np.int32)])


@contract("T050", "T054")
@pytest.mark.parametrize("names", ["p = o", "if v > 0:\n    p = o\nelse:\n    p = q"])
def test_fills_of_one_tensor_under_two_names_keep_the_numbers(names):
    body = f"v = pl.read(c, [0])\n{names}\n" + fill("0, i", 16, more="    pl.write(p, [0, i + 8], pl.const(2, pl.INT32))\n")
    assert not is_bulk(body)
    agree(*both(body, PARAMS), *([ints(n), out(4, 32, dtype=np.int32), out(4, 32, dtype=np.int32)] for n in (-1, 1)))
    apart = body.replace("i + 8", "i + 16")
    assert is_bulk(apart)


# -- staging ---------------------------------------------------------------------------------------------------------

WHOLE = "o[:] = pl.full([4, 32], dtype=pl.INT32, value=-1)\n"


@contract("T055")
@pytest.mark.parametrize(
    "writes",
    [
        "pl.write(o, [1, 2], v)",
        "for i in pl.range(4):\n    pl.write(o, [i, 0], v)",
        "if v > 0:\n    pl.write(o, [1, 2], v)\n    pl.write(o, [1, 3], v)",
        "for i in pl.range(4):\n    pl.write(o, [i, 0], pl.read(o, [i, 1]) + v)",
        "if v > 0:\n    pl.write(o, [1, 2], v)\nelse:\n    pl.write(o, [1, 3], v)\n    pl.write(o, [1, 4], v)",
        "for i in pl.range(4):\n    if v > 0:\n        pl.write(o, [i, 0], v)",
        "if v > 0:\n    for i in pl.range(4):\n        if i > 1:\n            pl.write(o, [i, 0], v)\npl.write(o, [0, 1], v)",
        "if v > 0:\n    if v > 7:\n        pl.write(o, [1, 2], v)\n    else:\n        pl.write(o, [1, 3], v)",
    ],
)
def test_a_whole_fill_and_element_writes_are_done_on_chip(writes):
    body = "v = pl.read(c, [0])\n" + WHOLE + writes
    f = kernel(body, PARAMS)
    assert "tensor.write" not in applied(f)
    assert "tile.write" in applied(f)
    assert applied(f).count("tile.store") == 1
    assert applied(f)[-1] == "tile.store"
    store = calls_of(f, "tile.store")[0]
    assert of_params(f, store, 2) == "o"
    assert [e.value for e in store.args[1].elements] == [0, 0]
    agree(*both(body, PARAMS), *([ints(n), out(4, 32, dtype=np.int32), out(4, 32, dtype=np.int32)] for n in (5, -5, 9)))


@contract("T055")
def test_a_staged_result_is_returned_as_it_is_stored():
    body = (
        "t0 = pl.tensor.full([4, 32], pl.const(-1, pl.INT32), dtype=pl.INT32)\n"
        "o1 = pl.tensor.assemble(o, t0, [0, 0])\no2 = pl.tensor.write(o1, [1, 1], pl.const(3, pl.INT32))\nreturn o2"
    )
    f = raw_converted(body, f"o: pl.Out[{M}]", M)
    assert applied(f) == ["tile.full", "tile.write", "tile.store"]
    assert len(flatten_to_stmts(f.body)[-1].value) == 1
    assert len(f.params) == 1


@contract("T056")
@pytest.mark.parametrize("window", ["0:3, :", "0:4, 0:24", "1:4, :"])
def test_a_partial_fill_is_refused(window):
    rows, cols = {"0:3, :": (3, 32), "0:4, 0:24": (4, 24), "1:4, :": (3, 32)}[window]
    mixed(f"o[{window}] = pl.full([{rows}, {cols}], dtype=pl.INT32, value=-1)\npl.write(o, [3, 1], v)")


@contract("T057")
@pytest.mark.parametrize(
    "body",
    [
        WHOLE + "p = o\npl.write(o, [1, 2], v)\npl.write(p, [1, 3], v)",
        WHOLE + "pl.write(o, [1, 2], v)\no[2:3, :] = pl.full([1, 32], dtype=pl.INT32, value=4)",
        "f = pl.full([4, 32], dtype=pl.INT32, value=-1)\no[:] = f\nq[:] = f\npl.write(o, [1, 2], v)",
        WHOLE + "pl.write(o, [1, 2], v)\nq[:] = pl.add(o, 1)",
        "if v > 0:\n    o[:] = pl.full([4, 32], dtype=pl.INT32, value=-1)\npl.write(o, [1, 2], v)",
    ],
    ids=["second name", "second store", "shared fill", "other use", "conditional fill"],
)
def test_whatever_else_is_done_with_the_tensor_is_refused(body):
    mixed(body)


def test_loops_of_the_samples_are_what_they_seem():
    f = kernel("i = 0\nwhile i < 32:\n    pl.write(o, [1, i], pl.const(7, pl.INT32))\n    i = i + 1\n", PARAMS)
    assert [n for n in walk(f.body) if isinstance(n, WhileStmt)]
