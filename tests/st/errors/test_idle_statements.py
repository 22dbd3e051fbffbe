"""What a kernel says is done, refused or warned of: no statement is dropped in silence."""

import re

import numpy as np
import pytest
from errors_kit import arrays, kernel, module, out, refused

from pypto import ir
from pypto.errors import NotSupportedError, PyptoWarning, UnsupportedFeatureError

TILES = "t = pl.load(a, [0, 0], [16, 64])\nu = pl.load(b, [0, 0], [16, 64])\n"

# (statements in front, the statement, the name that the help assigns to)
IDLE = [
    ("", "pl.add(a, b)", "a"),
    ("", "a + b", "x"),
    ("", "a[0:8, :]", "x"),
    ("", "a", "x"),
    ("", "pl.read(c, [0])", "x"),
    ("", "pl.read(c, [0]) > 1", "x"),
    ("", "pl.cast(pl.read(c, [0]), pl.FP32)", "x"),
    ("", "pl.load(a, [0, 0], [16, 64])", "x"),
    ("", "pl.full([16, 64], dtype=pl.FP32, value=1.0)", "x"),
    ("", "pl.get_block_idx()", "x"),
    ("", "pl.const(1, pl.INT32)", "x"),
    ("", "pl.transpose(a, 0, 1)", "x"),
    ("", "pl.scatter_update(a, -2, c, b)", "a"),
    (TILES, "pl.add(t, u)", "t"),
    (TILES, "pl.exp(t)", "t"),
    (TILES, "t[0:8, 0:8]", "x"),
    (TILES, "pl.set_validshape(t, 8, 64)", "t"),
    (TILES, "pl.reshape(t, [8, 128])", "x"),
    (TILES, "pl.move(t, pl.Mem.Vec)", "t"),
    (TILES, "pl.fillpad(t)", "t"),
    ("acc = pl.create_tensor([16, 16], dtype=pl.FP32)\n", "pl.matmul_acc(acc, a, b, b_trans=True)", "acc"),
]


def last(row):
    return row[1]


@pytest.mark.parametrize("row", IDLE, ids=last)
def test_a_value_for_nobody(row, tmp_path):
    before, statement, name = row
    args = list(arrays())
    if "scatter_update" in statement:
        args[2] = np.arange(16, dtype=np.int32).reshape(1, 16)
    k = kernel(tmp_path, f"{before}{statement}\no[:] = a")
    e = refused(k, args, UnsupportedFeatureError, f"this statement has no effect: {statement}", code="P500", piece=statement)
    assert f"write `{name} = {statement}` if the value is needed" in e.hint


def test_on_the_control_plane_too(tmp_path):
    k = kernel(tmp_path, "pl.slice(a, [8, 64], [0, 0])", scoped=False)
    refused(k, arrays(), UnsupportedFeatureError, "this statement has no effect", code="P500", piece="pl.slice(")


# Operators that write in place: (statements, what o must hold afterwards)
DONE = [
    ("pl.assemble(o, a, [0, 0])", lambda a, b: a),
    ("pl.assemble(o, a, [0, 0], atomic=pl.AtomicType.Add)", lambda a, b: a - 777),
    ("pl.store(pl.load(a, [0, 0], [16, 64]), [0, 0], o)", lambda a, b: a),
    (TILES + "pl.assemble(t, u, [0, 0])\npl.store(t, [0, 0], o)", lambda a, b: b),
    (
        TILES + "pl.write(t, [0, 0], 5.0)\npl.store(pl.add(t, u), [0, 0], o)",
        lambda a, b: np.where(np.arange(1024) == 0, 5, a.ravel()).reshape(16, 64) + b,
    ),
    (
        "t = pl.load(a, [0, 0], [16, 64], valid_shape=[8, 64])\n"
        "pl.tile.fillpad_inplace(t, pl.PadValue.zero)\npl.store(t, [0, 0], o)",
        lambda a, b: np.concatenate((a[:8], 0 * a[8:])),
    ),
    (
        "k = pl.create_l1([16, 64], pl.FP32)\npl.gather_row(k, b, [0, 0], [0, 0], [16, 64])\n"
        "o[:, 0:16] = pl.matmul(a, k, b_trans=True)",
        lambda a, b: np.concatenate((a @ b.T, np.full((16, 48), -777)), 1),
    ),
]


@pytest.mark.parametrize("row", DONE, ids=lambda r: r[0].rsplit("\n", 1)[-1])
def test_a_statement_that_writes_in_place_is_done(row, tmp_path):
    a, b, c, o = arrays()
    kernel(tmp_path, row[0])(a, b, c, o)
    np.testing.assert_allclose(o, row[1](a, b).astype(np.float32), rtol=1e-5)


FUNCTION = """
@pl.function
def k(a: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [16, 64])
        {statement}
        o = pl.store(t, [0, 0], o)
    return o
"""


@pytest.mark.parametrize(
    "statement",
    [
        "pl.add(t, t)",
        "pl.load(a, [0, 0], [16, 64])",
        "pl.slice(t, [8, 64], [0, 0])",
        "pl.set_validshape(t, 8, 64)",
        "pl.full([16, 64], dtype=pl.FP32, value=1.0)",
        "pl.transpose(t, 0, 1)",
        "pl.row_sum(t, t)",
        "pl.matmul(a, a, b_trans=True)",
        "pl.add(a, a)",
    ],
)
@pytest.mark.parametrize("buffers", [True, False])
def test_programs_of_functions_keep_it_with_a_warning(statement, buffers, tmp_path):
    """It computes nothing that shows, in tile form and where the kernel would have become buffers."""
    made = module(tmp_path, FUNCTION.format(statement=statement)).k
    name = statement.partition("(")[0]
    with pytest.warns(PyptoWarning, match=re.escape(f"this statement has no effect: nothing uses what {name} returns")):
        compiled = ir.compile(ir.Program([made], "k"), enable_buffer_ir=buffers)
    a, o = arrays()[0], out(16, 64)
    compiled(a, o)
    np.testing.assert_array_equal(o, a)


def test_there_a_write_in_place_is_refused(tmp_path):
    """The tensor form returns a new value, the tile form writes: as a statement it would be one or the other."""
    text = FUNCTION.format(statement="pl.matmul_acc(a, a, a, b_trans=True)").replace("64]", "16]")
    with pytest.raises(UnsupportedFeatureError, match="no effect") as e:
        _ = module(tmp_path, text).k
    assert "write `a = pl.matmul_acc(" in e.value.hint


# (body, scoped, words of the warning, where it points)
WARNED = [
    ("x = o[0:8, :]\nx[:] = a[0:8, :]", True, "'x' is changed but never read: it is a copy", "x[:]"),
    ("x = pl.reshape(o, [64, 16])\nx[0:4, :] = a[0:4, 0:16]", True, "'x' is changed but never read", "x[0:4"),
    ("t = pl.load(a, [0, 0], [16, 64])\npl.write(t, [0, 0], 1.0)\no[:] = a", True, "'t' is changed but never read", "pl.write("),
    ("o = pl.add(a, b)", True, "'o = …' names a new value and writes nothing to the output 'o'", "pl.add(a, b)"),
    ("o = fresh(a)", False, "'o = …' names a new value and writes nothing to the output 'o'", "fresh(a)"),
    ("x = pl.add(a, b)\no[0:8, :] = a[0:8, :]", True, "'x' is assigned but never read", "pl.add(a, b)"),
    ("pass", True, "nothing writes the output 'o'; write 'o[:] = …'", "o: pl.Out"),
    ("o = keeps(a, o)", False, "nothing writes the output 'y'", "y: pl.Out"),
]
HELPERS = """
@pl.jit.incore
def fresh(x: pl.Tensor):
    return pl.add(x, 1.0)

@pl.jit.incore
def keeps(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    return y
"""


@pytest.mark.parametrize("row", WARNED, ids=lambda r: r[0].replace("\n", "; "))
def test_what_is_computed_or_written_for_nobody(row, tmp_path):
    body, scoped, words, piece = row
    k = kernel(tmp_path, body, scoped=scoped, before=HELPERS)
    with pytest.warns(PyptoWarning) as found:
        k.lower(*arrays())
    texts = [str(w.message) for w in found]
    (text,) = [t for t in texts if words in t]
    line, column = map(int, re.search(r":(\d+):(\d+)$", text).groups())
    with open(k.source.filename, encoding="utf-8") as f:
        assert f.read().splitlines()[line - 1][column - 1 :].startswith(piece)


@pytest.mark.parametrize(
    ("body", "scoped"),
    [
        ("x = o\nx[:] = a", True),
        ("x = o[0:8, :]\nx[0:8, :] = a[0:8, :]\no[8:16, :] = x", True),
        ("x = o[0:8, :]\nwith pl.at(level=pl.Level.CORE_GROUP):\n    x[:] = a[0:8, :]", False),
        ("pl.write(o, [0, 0], 1.0)", True),
        ("o = stage(a, o)", False),
    ],
)
def test_what_is_written_for_somebody_is_not_warned_of(body, scoped, tmp_path):
    stage = "@pl.jit.incore\ndef stage(x: pl.Tensor, y: pl.Out[pl.Tensor]):\n    y[:] = x\n    return y\n"
    a, b, c, o = arrays()
    kernel(tmp_path, body, scoped=scoped, before=stage)(a, b, c, o)
    assert (o != -777).any()


@pytest.mark.filterwarnings("ignore:UnusedVariable")
@pytest.mark.parametrize("result", ["y", "x", "pl.add(x, 1.0)", "3"])
def test_a_helper_that_is_called_for_what_it_writes(result, tmp_path):
    helper = f"@pl.jit.inline\ndef copy(x: pl.Tensor, y: pl.Tensor):\n    y[:] = x\n    return {result}\n"
    a, b, c, o = arrays()
    kernel(tmp_path, "copy(a, o)", before=helper)(a, b, c, o)
    np.testing.assert_array_equal(o, a)


# -- numbers that leave a kernel -----------------------------------------------------------------------------------


SCOPE = "with pl.at(level=pl.Level.CORE_GROUP):\n    n = pl.read(c, [3])\n    o[:] = a\n"
BLOCKS = "for q in pl.spmd(2):\n    n = q * 8\n    o[n : n + 8, :] = a[n : n + 8, :]\n"


@pytest.mark.parametrize(
    ("body", "piece"),
    [(SCOPE + "pl.write(c, [0], n)", "n = pl.read"), (BLOCKS + "pl.write(c, [0], pl.cast(n, pl.INT32))", "n = q")],
)
def test_a_number_that_is_used_behind_the_kernel(body, piece, tmp_path):
    k = kernel(tmp_path, body, scoped=False)
    e = refused(k, arrays(), NotSupportedError, "the number 'n' is used outside of the kernel that computes it", piece=piece)
    assert "pl.write(t, [0], n)" in e.hint


def test_a_helper_kernel_that_returns_a_number(tmp_path):
    helper = "@pl.jit.incore\ndef count(x: pl.Tensor):\n    n = pl.read(x, [0])\n    return n\n"
    k = kernel(tmp_path, "n = count(c)\nfor i in pl.range(n):\n    pl.write(o, [i, 0], 1.0)", scoped=False, before=helper)
    refused(k, arrays(), NotSupportedError, "'count' returns a number: a kernel returns tensors", code="N000", piece="return n")


def test_windows_at_numbers_that_are_no_indices(tmp_path):
    """The extent of a window is the distance of its ends, whatever integers they are."""
    a, b, c, o = arrays()
    rows = "n = pl.read(c, [4])\nfor i in pl.range(n):\n    o[i * 4 : i * 4 + 4, :] = a[i * 4 : i * 4 + 4, :]"
    kernel(tmp_path, rows)(a, b, c, o)
    np.testing.assert_array_equal(o, a)
    o[:] = -777
    kernel(tmp_path, "n = pl.cast(pl.read(c, [4]), pl.INT16)\no[n : n + 4, :] = a[n : n + 4, :]")(a, b, c, o)
    np.testing.assert_array_equal(o[4:8], a[4:8])
    assert (o[8:] == -777).all()
