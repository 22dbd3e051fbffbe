"""Python and numpy in a kernel: the refusal says what to write, in the names that stand there, and that is accepted.

Rows: the mistake, the remedy that the help names, where the caret stands, and a whole body with the remedy in it, which
runs ("" where the help is no code).
"""

import math

import numpy as np
import pytest
from errors_kit import arrays, kernel, module, out, refused

import pypto.language as pl
from pypto.errors import (
    CompileError,
    InvalidOperationError,
    NotSupportedError,
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
    VerificationError,
)

TILES = "t = pl.load(a, [0, 0], [16, 64])\nu = pl.load(b, [0, 0], [16, 64])\ntmp = pl.create_tile([16, 64], dtype=pl.FP32)\n"
NUMBER = "s = pl.read(a, [1, 2])\n"
STORED = "pl.store(x, [0, 0], o)"
GIVEN = "pl.write(o, [0, 0], x)"
OUTSIDE = "compute it outside of the kernel, and use the result as a global"
ON_A_TILE = "pl.read(pl.exp(pl.expands(pl.create_tile([1, 8], dtype=pl.FP32), s)), [0, 0])"
ROWS = "r = pl.load(c, [0], [8])"
BY_ROW = 'pl.mgather(a, r, "row")'
FLOATS = (
    "h = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)\npl.write(h, [0, 3], 2.0)\nx = pl.read(h, [0, 3])\npl.write(o, [0, 0], x)"
)
FILLED = "o[:] = pl.full([16, 64], dtype=pl.FP32, value=0.0)"
NAMES = {
    "np": np,
    "math": math,
    "image": np.ones((16, 64), np.float32),
    "real": np.float64(2.0),
    "whole": np.int64(3),
    "true": np.bool_(True),
}

FUNCTIONS = [
    ("o[:] = np.exp(a)", "write pl.exp(a)", "np.exp(a)", "o[:] = pl.exp(a)"),
    ("o[:] = np.maximum(a, b)", "write pl.maximum(a, b)", "np.maximum", "o[:] = pl.maximum(a, b)"),
    ("o[:] = np.abs(a)", "write pl.abs(a)", "np.abs(a)", "o[:] = pl.abs(a)"),
    ("o[:] = abs(a - b)", "write pl.abs(a - b)", "abs(a", "o[:] = pl.abs(a - b)"),
    ("o[:] = min(a, b)", "write pl.minimum(a, b)", "min(a, b)", "o[:] = pl.minimum(a, b)"),
    ("o[:] = np.reshape(a, (64, 16))", "write pl.reshape(a, [64, 16])", "np.reshape", "_ = pl.reshape(a, [64, 16])\no[:] = b"),
    ("x = sum(a)", "write pl.row_sum(a) for one value per row, pl.col_sum(a) for one", "sum(a)", "o[:] = b - pl.col_sum(a)"),
    ("x = len(a)", "write a.shape[0]", "len(a)", "x = a.shape[0]\no[:] = a * x"),
    ("o[:] = np.where(a > b, a, b)", "m = a > b, then m * a + (1 - m) * b", "np.where", "m = a > b\no[:] = m * a + (1 - m) * b"),
    (TILES + "x = np.where(t > u, t, u)", "write pl.sel(t > u, t, u, tmp)", "np.where", ""),
    ("o[:] = np.tanh(a)", "1.0 - 2.0 / (pl.exp(a * 2.0) + 1.0)", "np.tanh", "o[:] = 1.0 - 2.0 / (pl.exp(a * 2.0) + 1.0)"),
    ("o[:] = np.tanh(a)", "results near 0 keep fewer digits", "np.tanh", ""),
    ("o[:] = np.expm1(a)", "results near 0 keep fewer digits", "np.expm1", ""),
    ("o[:] = np.square(a + b)", "write (a + b) * (a + b)", "np.square", "o[:] = (a + b) * (a + b)"),
    (
        "o[:] = np.floor(a)",
        "pl.cast(pl.cast(a, pl.INT32, mode='floor'), pl.FP32)",
        "np.floor",
        "o[:] = pl.cast(pl.cast(a, pl.INT32, mode='floor'), pl.FP32)",
    ),
    ("o[:] = np.zeros((16, 64))", "pl.full(shape, dtype=pl.FP32, value=0.0)", "np.zeros", ""),
    ("print(a)", "pl.static_print(...), or remove it", "print(a)", "pl.static_print(a.shape)\no[:] = a"),
    ("print(f'{a}')", "pl.static_print(...), or remove it", "print(f", ""),
    ("x = np.sqrt(2.0)", OUTSIDE, "np.sqrt(2.0)", ""),
    ("o[:] = pl.mul(a, math.sqrt(2.0))", OUTSIDE, "math.sqrt", ""),
    ("x = int(2.5)", "write 2", "int(2.5)", "x = 2\no[:] = a * x"),
    ("o[:] = a * float(3)", "write 3.0", "float(3)", "o[:] = a * 3.0"),
    ("o[:] = max(a, 0.0)", "write pl.maximum(a, 0.0)", "max(a", "o[:] = pl.maximum(a, 0.0)"),
    ("o[:] = max(a, 0)", "pl.col_max(a); pl.maximum(a, 0) compares element by element", "max(a", "o[:] = pl.maximum(a, 0)"),
    (TILES + "x = min(t, 1.0)", "write pl.minimum(t, 1.0)", "min(t", TILES + "x = pl.minimum(t, 1.0)\n" + STORED),
    ("x = range(3)", "write a loop, `for i in pl.range(n):`", "range(3)", ""),
    (
        NUMBER + "x = int(s)",
        "write pl.cast(s, pl.INT32), which truncates toward zero",
        "int(s)",
        NUMBER + "x = pl.cast(s, pl.INT32)",
    ),
    (NUMBER + "x = float(s)", "write pl.cast(s, pl.FP32)", "float(s)", NUMBER + "x = pl.cast(s, pl.FP32)"),
    (NUMBER + "x = round(s)", "write pl.cast(s + 0.5, pl.INT32)", "round(s)", NUMBER + "x = pl.cast(s + 0.5, pl.INT32)"),
    (NUMBER + "x = abs(s)", "write pl.max(s, -s)", "abs(s)", NUMBER + "x = pl.max(s, -s)\n" + GIVEN),
    (
        NUMBER + "x = max(0.0, s, 1.0)",
        "pl.max(pl.max(0.0, s), 1.0)",
        "max(0",
        NUMBER + "x = pl.max(pl.max(0.0, s), 1.0)\n" + GIVEN,
    ),
    (NUMBER + "x = math.exp(s)", ON_A_TILE, "math.exp(s)", NUMBER + f"x = {ON_A_TILE}\n" + GIVEN),
]
METHODS = [
    ("x = a.sum(axis=1)", "write pl.row_sum(a)", "a.sum", "o[:] = a - pl.row_sum(a)"),
    ("x = a.sum(0)", "write pl.col_sum(a)", "a.sum", "o[:] = a - pl.col_sum(a)"),
    (
        TILES + "x = t.max(axis=-1)",
        "write pl.row_max(t, tmp); tmp is a scratch tile like t",
        "t.max",
        TILES + "x = pl.row_max(t, tmp)",
    ),
    (
        "x = a.mean(axis=1)",
        "write pl.row_sum(a) * (1.0 / a.shape[1])",
        "a.mean",
        "o[:] = a - pl.row_sum(a) * (1.0 / a.shape[1])",
    ),
    ("x = a.argmax(axis=0)", "write pl.col_argmax(a)", "a.argmax", ""),
    ("x = a.astype(np.float16)", "write pl.cast(a, pl.FP16)", "a.astype", "x = pl.cast(a, pl.FP16)\no[:] = pl.cast(x, pl.FP32)"),
    ("x = a.astype('int32')", "write pl.cast(a, pl.INT32)", "a.astype", "x = pl.cast(a, pl.INT32)\no[:] = pl.cast(x, pl.FP32)"),
    ("x = a.reshape(64, 16)", "write pl.reshape(a, [64, 16])", "a.reshape", "x = pl.reshape(a, [64, 16])\no[:] = a"),
    ("x = a.copy()", "use a as it is", "a.copy", ""),
    ("x = a.T", "transpose", "a.T", ""),
    ("x = a.item()", "pl.read(a, indices)", "a.item", "x = pl.read(a, [0, 0])\n" + GIVEN),
    ("x = a.size", "write a.shape[0] * a.shape[1]", "a.size", "x = a.shape[0] * a.shape[1]\no[:] = a * x"),
    ("x = a.ndim", "write the number, 2", "a.ndim", ""),
    ("x = a.clip(0.0, 1.0)", "pl.minimum(pl.maximum(a, 0.0), 1.0)", "a.clip", "o[:] = pl.minimum(pl.maximum(a, 0.0), 1.0)"),
    ("x = a.exp()", "write pl.exp(a)", "a.exp", "o[:] = pl.exp(a)"),
    ("x = a.data", "a tensor or tile has .shape and .dtype", "a.data", ""),
    (NUMBER + "x = s.item()", "it is one number: use s as it is", "s.item", NUMBER + "x = s\n" + GIVEN),
    (NUMBER + "x = s.data", "a number has no attributes", "s.data", ""),
]
OPERATORS = [
    (TILES + "x = t ** 0.5", "write pl.sqrt(t)", "t ** 0.5", TILES + "x = pl.sqrt(t)\n" + STORED),
    (TILES + "x = (t + u) ** 2", "(t + u) * (t + u)", "(t + u)", TILES + "x = (t + u) * (t + u)\n" + STORED),
    (TILES + "x = t ** u", "pl.exp(pl.log(t) * u)", "t ** u", TILES + "x = pl.exp(pl.log(t) * u)\n" + STORED),
    (NUMBER + "x = s ** 0.5", ON_A_TILE.replace("pl.exp(", "pl.sqrt("), "s ** 0.5", ""),
    (TILES + "t += u", "write `t = t + u`", "t += u", TILES + "t = t + u\npl.store(t, [0, 0], o)"),
    ("o += a", "write `o[:] = o + a`", "o += a", "o[:] = o + a"),
    ("o[:] = (a > b) & (a < 1.0)", "write (a > b) * (a < 1.0)", "(a > b) &", "o[:] = (a > b) * (a < 1.0)"),
    ("o[:] = (a > b) | (a < 1.0)", "write pl.maximum(a > b, a < 1.0)", "(a > b) |", "o[:] = pl.maximum(a > b, a < 1.0)"),
    ("o[:] = (a > b) ^ (a < 1.0)", "write (a > b) != (a < 1.0)", "(a > b) ^", "o[:] = (a > b) != (a < 1.0)"),
    (TILES + "x = (t > u) & (t < 1.0)", "write pl.and_(t > u, t < 1.0)", "(t > u) &", TILES + "x = pl.and_(t > u, t < 1.0)"),
    ("x = ~(a > b)", "compare with the opposite operator", "~(a", "o[:] = a <= b"),
    ("o[:] += a", "write `o[:] = o + a`", "o[:] += a", "o[:] = o + a"),
    ("o[0:8, :] -= a[0:8, :]", "`o[0:8, :] = o[0:8, :] - a[0:8, :]`", "o[0:8", "o[0:8, :] = o[0:8, :] - a[0:8, :]"),
    ("x = 1\nx *= 2 + x", "write `x = x * (2 + x)`", "x *= ", "x = 1\nx = x * (2 + x)\no[:] = a"),
]
REFUSED = [(UnsupportedFeatureError, r) for r in (*FUNCTIONS, *METHODS, *OPERATORS)] + [
    (ParserSyntaxError, ("x = a > b and a < 1.0", "write (a > b) * (a < 1.0)", "a > b and", "o[:] = (a > b) * (a < 1.0)")),
    (ParserSyntaxError, ("x = a > b or a < b", "write pl.maximum(a > b, a < b)", "a > b or", "o[:] = pl.maximum(a > b, a < b)")),
    (ParserSyntaxError, ("x = 0.0 < a < 1.0", "(a < x) * (x < b)", "0.0 < a <", "o[:] = (0.0 < a) * (a < 1.0)")),
    (
        InvalidOperationError,
        (
            "x = pl.row_mean(a)",
            "write pl.row_sum(a) * (1.0 / a.shape[1])",
            "pl.row_mean",
            "o[:] = b - pl.row_sum(a) * (1.0 / a.shape[1])",
        ),
    ),
    (InvalidOperationError, ("x = pl.mgather(a, c)", 'rows (coalesce="row") or elements ("elem")', "pl.mgather(", "")),
    (
        InvalidOperationError,
        (
            'x = pl.mgather(a, c, "row")',
            't = pl.mgather(mem, pl.load(idx, [0], [8]), "row"), then o = pl.store(t, [0, 0], o)',
            "pl.mgather(",
            't = pl.mgather(a, pl.load(c, [0], [8]), "row")\no = pl.store(t, [0, 0], o)',
        ),
    ),
    (InvalidOperationError, ("x = pl.sum(a)", "pl.row_sum(a) for one value per row", "pl.sum", "")),
    (ParserTypeError, ("x = pl.cast(a, pl.FP64)", "there is no float wider than FP32", "pl.FP64", "")),
    (ParserTypeError, ("x = pl.cast(a, pl.FLOAT16)", "did you mean 'FP16'?", "pl.FLOAT16", "x = pl.cast(a, pl.FP16)\no[:] = a")),
    (InvalidOperationError, ("x = pl.attention(a)", "examples/flash_attention.py", "pl.attention", "")),
    (InvalidOperationError, ("x = pl.topk(a, 4)", "examples/top_k.py", "pl.topk", "")),
    (InvalidOperationError, ("x = pl.ad(a, b)", "did you mean 'add'?", "pl.ad(", "x = pl.add(a, b)\no[:] = x")),
    (InvalidOperationError, ("x = pl.lineage(a, b)", "docs/operators.md", "pl.lineage(", "")),
    (
        InvalidOperationError,
        ("o[:] = pl.gather(a, -1, [0, 1, 2])", "a list is no tensor: pass an array, with a parameter index", "[0, 1, 2]", ""),
    ),
    (InvalidOperationError, ("x = a[c]", 'pl.mgather(a, pl.load(c, [0], [8]), "row")', "c", f"{ROWS}\nx = {BY_ROW}\n{STORED}")),
    (InvalidOperationError, ("x = a[c, :]", 'pl.mgather(a, pl.load(c, [0], [8]), "row")', "c, :", "")),
    (InvalidOperationError, (f"{TILES}{ROWS}\nx = t[r]", "pl.tile.gather(t, indices, tmp)", "r", "")),
    (InvalidOperationError, ('x = pl.mgather(a, c, "row")', "pl.load(idx, [0], [8])", "pl.mgather", "")),
    (InvalidOperationError, ("h = pl.array.create(5, pl.FP32)", "pl.tile.full([1, 8], dtype=pl.FP32", "pl.array", FLOATS)),
    (InvalidOperationError, ("h = pl.array.create(0, pl.INT32)", "pl.array.create(1, pl.INT32)", "pl.array", "")),
    (ParserSyntaxError, ("o[:] = pl.cast(a, pl.FP16)", "o[:] = pl.cast(pl.cast(a, pl.FP16), pl.FP32)", "o[:]", "")),
    (ParserTypeError, (TILES + "o[:] = t", "store the tile: o = pl.store(t, [<offsets>], o)", "t", "")),
    (ParserTypeError, ("o[:] = 0.0", "o[:] = pl.full([<extents>], dtype=pl.FP32, value=0.0)", "0.0", FILLED)),
    (InvalidOperationError, (NUMBER + "x = pl.abs(s)", "for a number, write pl.max(x, -x)", "pl.abs(s)", "")),
    (InvalidOperationError, (NUMBER + "x = pl.maximum(s, s)", "use pl.max", "pl.maximum", NUMBER + "x = pl.max(s, s)\n" + GIVEN)),
    (ParserTypeError, (TILES + "if t > 0:\n    pass", "pl.sel(t > 0, x, y, tmp); or test one element, pl.read(t", "t > 0", "")),
    (ParserTypeError, ("while 0 < a:\n    pass", "m = 0 < a, which is 1 or 0", "0 < a", "m = 0 < a\no[:] = m * a + (1 - m) * b")),
    (ParserSyntaxError, (NUMBER + "x = 0\nx = x + s", "write 0.0 for x", "x + s", NUMBER + "x = 0.0\nx = x + s\n" + GIVEN)),
    (
        ParserSyntaxError,
        (NUMBER + "x = s + 1", "write 1.0: a whole number is an index", "s + 1", NUMBER + "x = s + 1.0\n" + GIVEN),
    ),
    (
        ParserSyntaxError,
        (
            NUMBER + "x = 0\nfor i in pl.range(4):\n    x = x + s",
            "begin with a float, x = 0.0",
            "x + s",
            NUMBER + "x = 0.0\nfor i in pl.range(4):\n    x = x + s\n" + GIVEN,
        ),
    ),
    (ParserTypeError, (NUMBER + "x = 0\nfor i in pl.range(4):\n    x = s", "begin with a float, x = 0.0", "x = s", "")),
    (ParserTypeError, ("o[:] = a + image", "pass the array as a parameter: image: pl.Tensor", "image", "")),
    (ParserTypeError, ("o[:] = a * real", "real = float(real)", "real", "")),
    (ParserTypeError, ("o[:] = pl.mul(a, whole)", "whole = int(whole)", "whole", "")),
    (ParserTypeError, ("if true:\n    pass", "true = bool(true)", "true", "")),
    (InvalidOperationError, ("o[:] = pl.sel(a > b, a, b, a)", "load the tensors with pl.load", "pl.sel(", "")),
    (InvalidOperationError, ("o[:] = pl.sels(a > b, a, a, 0.0)", "load the tensors with pl.load", "pl.sels(", "")),
    (
        InvalidOperationError,
        (
            "o[:] = pl.cmp(a, b, cmp_type='gt')",
            "0 (eq), 1 (ne), 2 (lt), 3 (le), 4 (gt), 5 (ge)",
            "pl.cmp(",
            "o[:] = pl.cmp(a, b, cmp_type=4)",
        ),
    ),
    (
        InvalidOperationError,
        (
            TILES + "v = pl.row_max(t, tmp)\nx = t - v",
            "write pl.row_expand_sub(x, y)",
            "t - v",
            TILES + "v = pl.row_max(t, tmp)\nx = pl.row_expand_sub(t, v)\n" + STORED,
        ),
    ),
    (
        InvalidOperationError,
        (
            TILES + "v = pl.col_max(t)\nx = pl.maximum(t, v)",
            "write pl.col_expand_max(x, y)",
            "pl.maximum",
            TILES + "v = pl.col_max(t)\nx = pl.col_expand_max(t, v)\n" + STORED,
        ),
    ),
]


def name(row):
    return row[1][0].rsplit("\n", 1)[-1]


@pytest.mark.parametrize("row", REFUSED, ids=name)
def test_the_help_says_what_to_write(row, tmp_path):
    kind, (body, remedy, piece, _) = row
    e = refused(kernel(tmp_path, body, **NAMES), arrays(), kind, remedy, piece=piece)
    assert remedy in e.hint
    assert "got ()" not in e.message


@pytest.mark.filterwarnings("ignore:UnusedVariable", "ignore:OutParamWriteDropped")
@pytest.mark.parametrize("row", [r for r in REFUSED if r[1][3]], ids=name)
def test_what_it_says_is_accepted(row, tmp_path):
    """Once for all rows: each remedy is a body that parses and lowers."""
    kernel(tmp_path, row[1][3], **NAMES).lower(*arrays())


def test_a_method_of_a_call(tmp_path):
    """The function of an outer call is not that of the call inside its receiver."""
    k = kernel(tmp_path, "x = pl.exp(a).sum(axis=0)", **NAMES)
    e = refused(k, arrays(), UnsupportedFeatureError, piece="pl.exp(a).sum")
    assert e.hint == "write pl.col_sum(pl.exp(a))"


# -- broadcasting --------------------------------------------------------------------------------------------------

PRODUCT = "x: pl.Tensor, g: pl.Tensor, o: pl.Out[pl.Tensor]"


@pytest.mark.parametrize(
    ("x", "g", "words", "remedy"),
    [
        ((16, 64), (1, 1), "[16, 64] with [1, 1]", "pl.read(x, [0, 0])"),
        ((16, 64), (1,), "[16, 64] with [1]", "pl.read(x, [0])"),
        ((64,), (1,), "[64] with [1]", "pl.read(x, [0])"),
        ((16, 64), (64,), "[16, 64] with [64]", "pl.reshape(x, [1, 64])"),
        ((64,), (16, 64), "[64] with [16, 64]", "pl.reshape(x, [1, 64])"),
        ((16, 1), (1, 64), "[16, 1] with [1, 64]", "a column [M, 1], a row [1, N]"),
    ],
)
def test_shapes_that_the_chip_does_not_broadcast(x, g, words, remedy, tmp_path):
    k = kernel(tmp_path, "o[:] = x * g", PRODUCT)
    args = np.ones(x, np.float32), np.ones(g, np.float32), out(*np.broadcast_shapes(x, g))
    e = refused(k, args, CompileError, f"pl.mul does not broadcast {words}", code="C010", piece="x * g")
    assert remedy in e.hint
    assert "expand" not in str(e)


def test_numbers_and_rows_as_the_help_says(tmp_path):
    x, g, o = np.arange(1024, dtype=np.float32).reshape(16, 64), np.full((1, 1), 3, np.float32), out(16, 64)
    kernel(tmp_path, "o[:] = x * pl.read(g, [0, 0])", PRODUCT)(x, g, o)
    np.testing.assert_array_equal(o, x * 3)
    kernel(tmp_path, "o[:] = x * pl.reshape(g, [1, 64])", PRODUCT)(x, x[1].copy(), o)
    np.testing.assert_array_equal(o, x * x[1])


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("x = pl.row_expand_sub(t, pl.load(a, [0, 0], [1, 8], valid_shape=[1, 1]))", "one value for each row"),
        ("x = pl.row_expand_sub(t, pl.col_max(t))", "with pl.col_expand"),
        ("x = pl.row_expand_sub(t, pl.reshape(pl.load(a, [0, 0], [2, 8]), [2, 8]))", "pl.reshape the vector to [16, 1]"),
    ],
)
def test_vectors_of_another_shape(body, remedy, tmp_path):
    e = refused(
        kernel(tmp_path, TILES + body), arrays(), InvalidOperationError, "must have shape [16, 1]", piece="pl.row_expand_sub"
    )
    assert remedy in e.hint


# -- results -------------------------------------------------------------------------------------------------------

HELPER = """
@pl.jit.incore
def f(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = pl.exp(x)
"""


def test_a_helper_without_return(tmp_path):
    e = refused(kernel(tmp_path, "o = f(a, o)", scoped=False, before=HELPER), arrays(), ParserTypeError, "'f'", piece="f(a, o)")
    assert "end 'f' with `return o`" in e.hint
    e = refused(kernel(tmp_path, "f(a, o)", scoped=False, before=HELPER), arrays(), VerificationError, "'f'", piece="return o")
    assert "o = f(...), and end 'f' with a return" in e.hint
    first, second, *_ = e.message.splitlines()
    assert first == "'o' was handed to 'f' to be written and is read afterwards: read the post-call return value"
    assert "Verification failed after 'pipeline_input'" in second
    kernel(tmp_path, "o = f(a, o)", scoped=False, before=HELPER + "    return y\n").lower(*arrays())


@pytest.mark.parametrize("value", ["s", "3", "2.5", "o, s"])
def test_an_entry_that_returns_a_number(value, tmp_path):
    text = """
    @pl.jit
    def k(a: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = a
            s = pl.read(a, [0, 0])
        return VALUE
    """
    k = module(tmp_path, text.replace("VALUE", value)).k
    a, _, _, o = arrays()
    e = refused(k, (a, o), NotSupportedError, "'k' returns a number", code="N000", piece="return")
    assert "pl.write(o, [0], value)" in e.hint


# -- casts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "remedy"),
    [
        (np.int8, "FP32", "pl.cast(pl.cast(x, pl.FP16), pl.FP32)"),
        (np.uint8, "INT32", "pl.cast(pl.cast(x, pl.FP16), pl.INT32)"),
    ],
)
def test_conversions_in_steps(source, target, remedy, tmp_path):
    """Refused in one, written out in the help, and right when written so."""
    wanted = {"FP32": np.float32, "INT32": np.int32}[target]
    x, o = np.arange(1024).reshape(16, 64).astype(source), out(16, 64, dtype=wanted)
    signature = "x: pl.Tensor, o: pl.Out[pl.Tensor]"
    k = kernel(tmp_path, f"o[:] = pl.cast(x, pl.{target})", signature)
    e = refused(k, (x, o), CompileError, "no native cast path", code="C120", piece="pl.cast(x")
    assert remedy in e.hint
    kernel(tmp_path, f"o[:] = {remedy}", signature)(x, o)
    np.testing.assert_array_equal(o, x.astype(wanted))


def test_a_conversion_that_no_steps_make(tmp_path):
    k = kernel(tmp_path, "o[:] = pl.cast(x, pl.FP32)", "x: pl.Tensor, o: pl.Out[pl.Tensor]")
    e = refused(k, (np.ones((16, 64), np.uint32), out(16, 64)), CompileError, code="C120", piece="pl.cast(x")
    assert "uint32 converts to nothing" in e.hint


# -- arguments that are empty, or single ---------------------------------------------------------------------------


def test_empty_arrays(tmp_path):
    k = kernel(tmp_path, "o[:] = pl.exp(x)", "x: pl.Tensor, o: pl.Out[pl.Tensor]")
    for shape, kind in (((0, 64), ParserSyntaxError), ((16, 0), CompileError)):
        e = refused(k, (np.zeros(shape, np.float32), np.zeros(shape, np.float32)), kind, piece="")
        assert "an empty window has nothing to compute" in e.hint


def test_arrays_of_rank_0(tmp_path):
    k = kernel(tmp_path, "pl.write(o, [0, 0], x[0])", "x: pl.Tensor, o: pl.Out[pl.Tensor]")
    e = refused(k, (np.array(2, np.float32), out(16, 64)), ParserTypeError, "0D", piece="x[0]")
    assert "0-d arrays are passed as scalars: annotate the parameter, x: pl.FP32" in e.hint
    o = out(16, 64)
    kernel(tmp_path, "pl.write(o, [0, 0], x)", "x: pl.FP32, o: pl.Out[pl.Tensor]")(np.array(2, np.float32), o)
    assert o[0, 0] == 2
    number = np.zeros((), np.float32)
    e = refused(
        kernel(tmp_path, "o[:] = x", "x: pl.Tensor, o: pl.Out[pl.Tensor]"), (out(1), number), ParserTypeError, "0D", piece="o[:]"
    )
    assert "pl.write(o, [], value)" in e.hint
    kernel(tmp_path, "pl.write(o, [], pl.read(x, [0]))", "x: pl.Tensor, o: pl.Out[pl.Tensor]")(np.full(1, 3, np.float32), number)
    assert number == 3


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("a: pl.Tensor, o: pl.Out", "write pl.Out[pl.Tensor], or pl.Out[pl.Tensor[[...], dtype]]"),
        ("a: pl.Tensor, o: pl.InOut", "write pl.InOut[pl.Tensor], or"),
        ("a: pl.Tensor[[-1, 64], pl.FP32], o: pl.Out[pl.Tensor]", "must be positive, got -1"),
    ],
)
def test_parameters(tmp_path, signature, words):
    k = kernel(tmp_path, "o[:] = a", signature)
    assert words in str(refused(k, (out(16, 64), out(16, 64)), ParserTypeError, piece=""))


def test_text_of_a_gather_along_an_axis(tmp_path):
    signature = "x: pl.Tensor, index: pl.Tensor, o: pl.Out[pl.Tensor]"
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    n = np.random.default_rng(1).integers(0, 8, (8, 16)).astype(np.int32)
    rows, columns = np.mgrid[0:8, 0:16].astype(np.int32)
    for dim, over_all in ((1, rows * x.shape[1] + n), (0, n * x.shape[1] + columns)):
        along, o = kernel(tmp_path, f"o[:] = pl.gather(x, {dim}, index)", signature), out(8, 16)
        with pytest.raises(NotSupportedError, match="along an axis") as caught:
            along.inspect("pto", x, n, o)
        assert "index * x.shape[1] + j for dim=0" in caught.value.hint
        assert "i * x.shape[1] + index for dim=1" in caught.value.hint
        whole = kernel(tmp_path, "o[:] = pl.gather(x, index=index)", signature)
        np.testing.assert_array_equal(whole(x, over_all, out(8, 16)), along(x, n, o))
        assert whole.inspect("pto", x, over_all, o)


def test_a_return_inside_of_with(tmp_path):
    text = "@pl.jit\ndef k(a: pl.Tensor, o: pl.Out[pl.Tensor]):\n    {}\n        o[:] = a\n        return o\n"
    for head, words in (
        ("with pl.at(level=pl.Level.CORE_GROUP):", "move it out of the `with`"),
        ("for i in pl.range(2):", "assign the result to a name in the branch"),
    ):
        k = module(tmp_path, text.format(head)).k
        assert words in refused(k, (out(16, 64), out(16, 64)), UnsupportedFeatureError, "last statement", piece="return o").hint


def test_generated_code_as_the_help_says():
    import linecache

    body = "    with pl.at(level=pl.Level.CORE_GROUP):\n        o[:] = a\n    return o\n"
    text = "@pl.jit\ndef k(a: pl.Tensor, o: pl.Out[pl.Tensor]):\n" + body
    made, file = {"pl": pl}, "<generated>"
    with pytest.raises(ParserSyntaxError, match="cannot retrieve source code of 'k'") as caught:
        exec(compile(text, file, "exec"), dict(made))
    assert "linecache.cache[name] = (len(text), None, text.splitlines(True), name)" in caught.value.hint
    assert "write it to a file and import it" in caught.value.hint
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), made)
    a, _, _, o = arrays()
    np.testing.assert_array_equal(made["k"](a, o), a)
