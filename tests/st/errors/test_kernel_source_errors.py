"""Mistakes in the source of a kernel, met by a call: one complete error each, before anything is compiled or written."""

import numpy as np
import pytest
from errors_kit import SIGNATURE, arrays, kernel, module, refused

import pypto.language as pl
from pypto.errors import (
    InvalidOperationError,
    NotSupportedError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    UndefinedVariableError,
    UnsupportedFeatureError,
    VerificationError,
)

TILE = "t = pl.load(a, [0, 0], [16, 64])\n"

# (body, class, code, words of the message, what the caret stands under)
NAMES = [
    ("o[:] = pl.add(a, y)", UndefinedVariableError, "P300", ["'y'"], "y)"),
    ("o[:] = pl.ad(a, b)", InvalidOperationError, "P600", ["Unknown operation 'pl.ad'", "'add'"], "pl.ad"),
    ("o[:] = pl.tile.loda(a)", InvalidOperationError, "P600", ["pl.tile", "loda", "load"], "pl.tile.loda"),
    ("t = pl.full([8, 8], dtype=pl.FP99, value=0.0)", ParserTypeError, "P200", ["pl.FP99"], "pl.FP99"),
    ("t = pl.load(a, [0, 0], [8, 64], target_memory=pl.Mem.Vex)", ParserTypeError, "P200", ["pl.Mem.Vex", "Vec"], "pl.Mem.Vex"),
    ("o[:] = nmupy.abs(a)", UndefinedVariableError, "P300", ["'nmupy'"], "nmupy"),
    ("o[:] = np.abs(a)", UnsupportedFeatureError, "P500", ["np.abs"], "np.abs"),
    ("o[:] = abs(a)", UnsupportedFeatureError, "P500", ["abs(a)", "pl."], "abs(a)"),
    ("o[:] = a.sum()", UnsupportedFeatureError, "P500", ["a.sum"], "a.sum"),
    ("o[:] = pl.allreduce(a)", NotSupportedError, "N000", ["pl.allreduce", "one host"], "pl.allreduce(a)"),
]
CALLS = [
    ("o[:] = pl.add(a)", InvalidOperationError, "P600", ["missing required argument 'rhs'"], "pl.add(a)"),
    ("o[:] = pl.add(a, b, c)", InvalidOperationError, "P600", ["takes 2 positional arguments, got 3"], "c)"),
    ("o[:] = pl.add(a, rsh=b)", InvalidOperationError, "P600", ["unexpected keyword argument 'rsh'", "'rhs'"], "rsh=b)"),
    ("o[:] = pl.exp(*a)", InvalidOperationError, "P600", ["`*` in a call"], "*a"),
    ("o[:] = pl.exp(**a)", InvalidOperationError, "P600", ["`**` in a call"], "**a)"),
    (
        "o[:] = pl.exp([a])",
        InvalidOperationError,
        "P600",
        ["pl operation 'exp'", "'x' must be a tensor, a tile or a scalar, got a list"],
        "[a]",
    ),
    (TILE + "t = pl.add(t, a)", InvalidOperationError, "P600", ["cannot mix Tensor and Tile"], "pl.add(t, a)"),
    (TILE + "t = pl.row_sum(t)", InvalidOperationError, "P600", ["pl.row_sum", "tmp_tile"], "pl.row_sum(t)"),
    ("o[:] = pl.cast(a, pl.FP32)", InvalidOperationError, "P600", ["same-dtype cast"], "pl.cast(a, pl.FP32)"),
    ("t = pl.load(a, [0], [8, 64])", InvalidOperationError, "P600", ["rank"], "pl.load("),
    ("pl.store(a, [0, 0], o)", InvalidOperationError, "P600", ["must be a tile, got a tensor"], "pl.store("),
]
TYPES = [
    ("o[:] = pl.add(a[0:8, :], b)", InvalidOperationError, "P600", ["[8, 64]", "[16, 64]"], "pl.add("),
    (TILE + "u = pl.add(t, pl.load(a, [0, 0], [8, 64]))", InvalidOperationError, "P600", ["[16, 64]", "[8, 64]"], "pl.add("),
    (TILE + "u = pl.add(t, pl.cast(t, pl.FP16))", InvalidOperationError, "P600", ["fp32", "fp16"], "pl.add("),
    ("o[:] = pl.add(a, c)", InvalidOperationError, "P600", ["differ in dtype: fp32 and int32"], "pl.add("),
    ("o[:] = pl.sqrt(c)", InvalidOperationError, "P600", ["int32"], "pl.sqrt(c)"),
    (
        "pl.store(pl.cast(pl.load(a, [0, 0], [8, 64]), pl.FP16), [0, 0], o)",
        InvalidOperationError,
        "P600",
        ["fp16", "fp32"],
        "pl.st",
    ),
    ("o[0:8, :] = a", ParserTypeError, "P200", ["expects 8 elements, source has 16"], "o[0:8, :]"),
    ("o[:] = pl.row_max(a)", ParserTypeError, "P200", ["source axis 1", "64"], "o[:]"),
    ("x = 1\nfor i in pl.range(3):\n    x = a", ParserTypeError, "P200", ["Cannot reassign 'x'"], "x = a"),
    ("x: pl.Tile[[8, 64], pl.FP32] = pl.load(a, [0, 0], [16, 64])", ParserTypeError, "P200", ["'x'", "8", "16"], "x: "),
    ("x: pl.Scalar[pl.FP32] = pl.read(c, [0])", ParserTypeError, "P200", ["fp32", "int32"], "x: "),
    ("if a:\n    pass", ParserTypeError, "P200", ["if condition must be a Bool-typed scalar"], "a:"),
    ("while pl.read(c, [0]):\n    pass", ParserTypeError, "P200", ["while condition must be a Bool-typed"], "pl.read("),
    ("x = pl.read(c, [0]) + 1.5", ParserSyntaxError, "P100", ["same numeric dtype category"], "pl.read("),
    ("o[:] = pl.mul(a, pl.get_block_idx())", InvalidOperationError, "P600", ["index", "pl.cast"], "pl.mul("),
    ("pl.write(c, [0], 1.5)", InvalidOperationError, "P600", ["1.5", "int32"], "pl.write("),
]
PYTHON = [
    ("try:\n    pass\nfinally:\n    pass", UnsupportedFeatureError, "P500", ["Try"], "try:"),
    ("x = lambda: a", UnsupportedFeatureError, "P500", ["Lambda"], "lambda: a"),
    ("def f(): pass", UnsupportedFeatureError, "P500", ["FunctionDef", "inline"], "def f()"),
    ("class C: pass", UnsupportedFeatureError, "P500", ["ClassDef"], "class C"),
    ("x = [q for q in a]", UnsupportedFeatureError, "P500", ["ListComp"], "[q for"),
    ("x = {q: 1 for q in a}", UnsupportedFeatureError, "P500", ["DictComp"], "{q"),
    ("x = (q for q in a)", UnsupportedFeatureError, "P500", ["GeneratorExp"], "(q for"),
    ("x = {1, 2}", UnsupportedFeatureError, "P500", ["Set"], "{1"),
    ("with open('f'):\n    pass", UnsupportedFeatureError, "P500", ["Unsupported context manager"], "open('f')"),
    ("global q\nq = 1", UnsupportedFeatureError, "P500", ["Global"], "global q"),
    ("yield a", UnsupportedFeatureError, "P500", ["Yield"], "yield a"),
    ("assert a", UnsupportedFeatureError, "P500", ["Assert", "pl.static_assert"], "assert a"),
    ("del a", UnsupportedFeatureError, "P500", ["Delete"], "del a"),
    ("raise ValueError", UnsupportedFeatureError, "P500", ["Raise"], "raise"),
    ("import os", UnsupportedFeatureError, "P500", ["Import"], "import os"),
    ("a += b", UnsupportedFeatureError, "P500", ["AugAssign", "a = a + b"], "a += b"),
    ("o[0:8, :] += a[0:8, :]", UnsupportedFeatureError, "P500", ["AugAssign"], "o[0:8"),
    ("match a:\n    case 1:\n        pass", UnsupportedFeatureError, "P500", ["Match"], "match a"),
    ("x = a if b else c", UnsupportedFeatureError, "P500", ["IfExp"], "a if b"),
    ("x = f'{a}'", UnsupportedFeatureError, "P500", ["JoinedStr"], "f'"),
    ("(x := a)", UnsupportedFeatureError, "P500", ["NamedExpr"], "x := a"),
    ("x = a[...]", ParserTypeError, "P200", ["`...`"], "..."),
    ("x = y = a", ParserSyntaxError, "P100", ["Unsupported assignment"], "x = y = a"),
    ("a.x = b", ParserSyntaxError, "P100", ["Unsupported assignment target: a.x"], "a.x"),
    ("for i in range(4):\n    pass", ParserSyntaxError, "P100", ["pl.range"], "range(4)"),
    ("for i in pl.range(4):\n    pass\nelse:\n    pass", UnsupportedFeatureError, "P500", ["else"], "pass"),
    ("if pl.read(c, [0]) > 0:\n    return a", UnsupportedFeatureError, "P500", ["last statement"], "return a"),
    ("x = 1 < pl.read(c, [0]) < 3", ParserSyntaxError, "P100", ["Only simple comparisons"], "1 < "),
    ("x = pl.read(c, [0]) ** 2", UnsupportedFeatureError, "P500", ["Pow"], "pl.read("),
]
CARRIES = [
    (
        "for i, (x,) in pl.range(4, init_values=(1,)):\n    z = pl.yield_(x + 1)\ny = x + 1",
        UndefinedVariableError,
        "P300",
        ["'x'", "after the loop", "'z'"],
        "x + 1",
    ),
    ("for i in pl.range(4):\n    x = i\ny = i + 1", UndefinedVariableError, "P300", ["'i'", "loop variable"], "i + 1"),
    (
        "for i, (x,) in pl.range(4, init_values=(1,)):\n    pl.yield_(x)",
        ParserSyntaxError,
        "P100",
        ["x = pl.yield_"],
        "pl.yield_(x)",
    ),
    (
        "for i, (x, y) in pl.range(4, init_values=(a,)):\n    pass",
        ParserSyntaxError,
        "P100",
        ["2 iter_args but 1 init_values"],
        "(x, y)",
    ),
    ("for i in pl.range(0, 4, 0):\n    pass", ParserSyntaxError, "P100", ["step", "zero"], "0):"),
    ("for i in pl.parallel(4):\n    break", InvalidOperationError, "P600", ["'break'", "parallel"], "break"),
    (
        "if pl.read(c, [0]) > 0:\n    x = a\no[:] = x",
        VerificationError,
        "V000",
        ["Variable 'x' used outside its defining scope"],
        "o[:] = x",
    ),
    ("z = pl.yield_(1)", ParserSyntaxError, "P100", ["last statement"], "pl.yield_(1)"),
]
SUBSCRIPTS = [
    ("x = a[0, 0, 0]", ParserTypeError, "P200", ["3 indices", "2D"], "a[0, 0, 0]"),
    ("x = a[0:8:2, :]", UnsupportedFeatureError, "P500", ["step"], "2"),
    ("x = a[-1, 0]", ParserSyntaxError, "P100", ["provably negative"], "-1"),
    ("x = a[4:4, :]", ParserSyntaxError, "P100", ["extent 0"], ""),
    ("x = a[0:17, :]", ParserSyntaxError, "P100", ["reads past the end of dimension 0"], "a[0:17, :]"),
    ("o[8:24, :] = a", ParserSyntaxError, "P100", ["past the end"], "o[8:24"),
    ("o[0, 0] = 1.0", UnsupportedFeatureError, "P500", ["pl.write(o, [0, 0], value)"], "o[0, 0]"),
    ("t = pl.load(a, [8, 0], [16, 64])", InvalidOperationError, "P600", ["past the end of dimension 0"], "pl.load("),
    ("pl.store(pl.load(a, [0, 0], [16, 64]), [8, 0], o)", InvalidOperationError, "P600", ["past the end"], "pl.store("),
    ("x = pl.read(c, [8])", InvalidOperationError, "P600", ["8"], "pl.read("),
]
PLANES = [
    ("x = pl.exp(a)", InvalidOperationError, "P600", ["should be inside InCore block", "pl.at"], "pl.exp(a)"),
    ("o[:] = a + b", InvalidOperationError, "P600", ["Misplaced tensor op"], "a + b"),
    ("x = pl.load(a, [0, 0], [8, 64])", InvalidOperationError, "P600", ["Misplaced tile op"], "pl.load("),
    (
        "with pl.at(level=pl.Level.CORE_GROUP):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        pass",
        ParserSyntaxError,
        "P100",
        ["inside a kernel"],
        "pl.at(",
    ),
    ("with pl.at(level=pl.Level.CORE_GROUP, color=1):\n    pass", ParserSyntaxError, "P100", ["'color'"], "color=1"),
    ("with pl.at():\n    pass", ParserSyntaxError, "P100", ["level"], "pl.at()"),
]


def check(folder, row, scoped):
    body, kind, code, words, piece = row
    k = kernel(folder, body, scoped=scoped)
    # Twice: a mistake is a mistake on the second call too.
    for _ in range(2):
        e = refused(k, arrays(), kind, *words, code=code, piece=piece, file=k.source.filename)
    return e


def name(row):
    return row[0].replace("\n", "; ")[:60]


@pytest.mark.parametrize("row", [*NAMES, *CALLS, *TYPES, *PYTHON, *CARRIES, *SUBSCRIPTS], ids=name)
def test_in_a_kernel(row, tmp_path):
    check(tmp_path, row, True)


@pytest.mark.parametrize("row", PLANES, ids=name)
def test_at_the_control_plane(row, tmp_path):
    check(tmp_path, row, False)


def test_the_kernels_around_the_mistakes_are_fine(tmp_path):
    a, b, c, o = arrays()
    kernel(tmp_path, TILE + "pl.store(t, [0, 0], o)")(a, b, c, o)
    np.testing.assert_array_equal(o, a)


def test_the_place_is_that_of_the_call_in_a_helper(tmp_path):
    made = module(
        tmp_path,
        f"""
        @pl.jit.inline
        def helper(x: pl.Tensor):
            y = pl.exp(x, x)
            return y

        @pl.jit.incore
        def stage(x: pl.Tensor, o: pl.Out[pl.Tensor]):
            o[:] = pl.add(x, nothing)
            return o

        @pl.jit
        def k({SIGNATURE}):
            with pl.at(level=pl.Level.CORE_GROUP):
                z = helper(a)
                o[:] = z
            return o

        @pl.jit
        def m({SIGNATURE}):
            o = stage(a, o)
            return o
        """,
    )
    e = refused(made.k, arrays(), InvalidOperationError, "takes 1 positional argument", piece="x)")
    assert e.span["line"] == 4
    e = refused(made.m, arrays(), UndefinedVariableError, "'nothing'", piece="nothing")
    assert e.span["line"] == 9


HELPERS = """
@pl.jit.incore
def core(x: pl.Tensor, n: pl.INT32, y: pl.Out[pl.Tensor]):
    y[:] = pl.add(x, x)
    return y

@pl.jit.inline
def endless(x: pl.Tensor):
    y = endless(x)
    return y

@pl.jit
def entry(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    return y
"""


@pytest.mark.parametrize(
    ("body", "kind", "words", "piece"),
    [
        ("o = core(a, o)", ParserTypeError, ["Function 'core' expects 3 argument(s), got 2"], "core(a, o)"),
        ("o = core(a, 1, z=o)", ParserTypeError, ["does not accept keyword argument 'z'"], "z=o)"),
        ("o = core(a, 1.5, o)", ParserTypeError, ["parameter 'n'", "INT32", "FP32"], "core("),
        ("o = core(3, 1, o)", ParserTypeError, ["parameter 'x'", "tensor"], "core("),
        ("x = endless(a)", UnsupportedFeatureError, ["recursion", "endless -> endless"], "endless(x)"),
        ("o = entry(a, o)", UnsupportedFeatureError, ["Unsupported function call", "kernel entry"], "entry("),
        (
            "with pl.at(level=pl.Level.CORE_GROUP):\n    o = core(a, 1, o)",
            UnsupportedFeatureError,
            ["cannot be called inside"],
            "core(",
        ),
    ],
)
def test_calls_of_helpers(body, kind, words, piece, tmp_path):
    refused(kernel(tmp_path, body, scoped=False, before=HELPERS), arrays(), kind, *words, piece=piece)


@pytest.mark.parametrize(
    ("signature", "kind", "words", "piece"),
    [
        ("a, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]", ParserTypeError, ["'a' missing type annotation"], "a,"),
        (SIGNATURE.replace("c: pl.Tensor", "c: int"), ParserTypeError, ["'c'", "int"], "int"),
        (SIGNATURE.replace("c: pl.Tensor", "c: pl.InOut[pl.INDEX]"), ParserTypeError, ["pl.InOut"], "pl.InOut"),
        (SIGNATURE.replace("c: pl.Tensor", "*c"), UnsupportedFeatureError, ["parameter '*c' is not supported"], "c,"),
        (SIGNATURE + ", **d", UnsupportedFeatureError, ["parameter '**d' is not supported"], "d)"),
    ],
)
def test_signatures(signature, kind, words, piece, tmp_path):
    """At decoration, or at the first call."""
    refused(lambda: kernel(tmp_path, "o[:] = a", signature)(*arrays()), (), kind, *words, piece=piece)


def test_static_assertions(tmp_path):
    k = kernel(tmp_path, "pl.static_assert(WIDTH % 16 == 0, 'the width must be a multiple of 16')\no[:] = a", WIDTH=17)
    refused(k, arrays(), ParserError, "the width must be a multiple of 16", piece="WIDTH % 16")


def test_wide_characters_and_tabs_before_the_mistake(tmp_path):
    body = "ä = 'ßµ'; o[:] = pl.add(a, nichts)"
    refused(kernel(tmp_path, body), arrays(), UndefinedVariableError, "'nichts'", piece="nichts")
    text = "@pl.jit\ndef k(a: pl.Tensor, o: pl.Out[pl.Tensor]):\n\twith pl.at(level=pl.Level.CORE_GROUP):\n\t\to[:] = pl.exp(y)\n"
    a, _, _, o = arrays()
    e = refused(module(tmp_path, text).k, (a, o), UndefinedVariableError, "'y'", piece="y)")
    assert "\n   | \t\t" in str(e)  # tabs stay tabs, so that the caret stands below


def test_operators_outside_of_kernels():
    for f in (pl.add, pl.tile.load, pl.range):
        with pytest.raises(InvalidOperationError, match=r"@pl\.jit"):
            f(1, 2)
