"""Every mistake is one error of the right class: it says what is wrong, points at the piece, and says what to write."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from frontend_kit import arrays, entry, error, f32, incore, inline, kernel, module, pointed

import pypto.language as pl
from pypto.errors import (
    Error,
    InvalidOperationError,
    NotSupportedError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    SSAViolationError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)

Row = tuple[str, type[Error], tuple[str, ...], str]
LOAD = "t = pl.load(a, [0, 0], [16, 64])\n"

NAMES: tuple[Row, ...] = (
    ("o[:] = pl.add(a, y)", UndefinedVariableError, ("'y'",), "y"),
    ("o[:] = pl.ad(a, b)", InvalidOperationError, ("Unknown operation 'pl.ad'", "'add'"), "pl.ad"),
    ("o[:] = pl.tile.loda(a)", InvalidOperationError, ("Unknown pl.tile operation: loda", "load"), "pl.tile.loda"),
    ("t = pl.full([8, 8], dtype=pl.FP99, value=0.0)", ParserTypeError, ("pl.FP99",), "pl.FP99"),
    ("t = pl.load(a, [0, 0], [8, 64], target_memory=pl.Mem.Vex)", ParserTypeError, ("pl.Mem.Vex", "Vec"), "pl.Mem.Vex"),
    ("x = cfg\no[:] = a", ParserTypeError, ("Unsupported closure variable type: dict",), "cfg"),
    ("o[:] = pl.mul(a, big)", ParserTypeError, ("Unsupported closure variable type: float64",), "big"),
    ("o[:] = pl.mul(a, cfg.K)", UnsupportedFeatureError, ("Standalone attribute access not supported",), "cfg.K"),
    ("o[:] = later\nlater = a", UndefinedVariableError, ("'later'", "assigned later"), "later"),
    ("o[:] = pl.allreduce(a)", NotSupportedError, ("pl.allreduce", "devices"), "pl.allreduce(a)"),
    ("o[:] = min(a, b)", UnsupportedFeatureError, ("Unsupported function call", "pl.min"), "min(a, b)"),
    ("o[:] = plain(a)", UnsupportedFeatureError, ("Unsupported function call: plain(a)", "@pl.jit.inline"), "plain(a)"),
    ("o[:] = whole(a)", UnsupportedFeatureError, ("Unsupported function call", "kernel entry"), "whole(a)"),
    ("x = 1 << 70\no[:] = a", ParserTypeError, ("64 bits",), "1 << 70"),
)
CALLS: tuple[Row, ...] = (
    ("o[:] = pl.add(a)", InvalidOperationError, ("missing required argument 'rhs'", "lhs, rhs"), "pl.add(a)"),
    ("o[:] = pl.add(a, b, c)", InvalidOperationError, ("takes 2 positional arguments, got 3",), "c"),
    ("o[:] = pl.add(a, rsh=b)", InvalidOperationError, ("unexpected keyword argument 'rsh'", "'rhs'"), "rsh=b"),
    ("o[:] = pl.add(a, b, lhs=b)", InvalidOperationError, ("two values for 'lhs'",), "lhs=b"),
    ("o[:] = pl.add(*a)", InvalidOperationError, ("`*` in a call",), "*a"),
    ("o[:] = pl.add(a, **b)", InvalidOperationError, ("`**` in a call",), "**b"),
    ("o[:] = pl.add(a, [1])", InvalidOperationError, ("'rhs' must be a tensor, a tile or a scalar",), "[1]"),
    ("t = pl.load(a, 0, [8, 64])", InvalidOperationError, ("'offsets' must be a list", "[0]"), "0"),
    ("t = pl.load(a, [0, 1.5], [8, 64])", InvalidOperationError, ("must be an integer, got 1.5",), "1.5"),
    (LOAD + "t = pl.add(t, a)", InvalidOperationError, ("pl.add: cannot mix Tensor and Tile",), "pl.add(t, a)"),
    (LOAD + "t = pl.row_sum(t)", InvalidOperationError, ("pl.row_sum", "tmp_tile"), "pl.row_sum(t)"),
    ("o[:] = pl.cast(a, pl.FP32)", InvalidOperationError, ("same-dtype cast",), "pl.cast(a, pl.FP32)"),
    (LOAD + "t = pl.cast(t, pl.FP16, mode='near')", InvalidOperationError, ("near", "rint"), "pl.cast(t, pl.FP16, mode='near')"),
    ("o[:] = pl.mul(a, pl.get_block_idx())", InvalidOperationError, ("index", "pl.cast"), "pl.mul(a, pl.get_block_idx())"),
    ("n = pl.cast(pl.read(c, [0]), pl.INDEX)\nt = pl.load(a, [0, 0], [n, 64])", InvalidOperationError, ("static",), "pl.load("),
    ("t = pl.load(a, [0, 0], [8, 64], clamp=pl.read(c, [0]) > 0)", ParserTypeError, ("compile-time constant",), "pl.read("),
    ("x = pl.const(1)", ParserSyntaxError, ("exactly 2 arguments",), "pl.const(1)"),
    ("x = pl.const(a, pl.INT32)", ParserSyntaxError, ("numeric literal",), "a"),
    ("x = pl.const(300, pl.INT8)", ParserSyntaxError, ("300 is not a value of int8",), "pl.const(300, pl.INT8)"),
    ("pl.store(pl.load(a, [0, 0], [8, 64]), [0, 0], o[0:8, :])", UnsupportedFeatureError, ("plain name",), "pl.store("),
)
OPERATORS: tuple[Row, ...] = (
    ("x = pl.read(c, [0]) + 1.5", ParserSyntaxError, ("same numeric dtype category", "int32"), "pl.read(c, [0]) + 1.5"),
    ("x = 1 < pl.read(c, [0]) < 3", ParserSyntaxError, ("Only simple comparisons",), "1 < pl.read(c, [0]) < 3"),
    ("x = pl.read(c, [0]) ** 2", UnsupportedFeatureError, ("Unsupported binary operator: Pow",), "pl.read(c, [0]) ** 2"),
    ("x = pl.read(c, [0]) & 2", UnsupportedFeatureError, ("Unsupported binary operator: BitAnd",), "pl.read(c, [0]) & 2"),
    ("x = +pl.read(c, [0])", UnsupportedFeatureError, ("Unsupported unary operator: UAdd",), "+pl.read(c, [0])"),
    ("x = a is b", UnsupportedFeatureError, ("Unsupported comparison: Is",), "a is b"),
    ("x = 1 in c", UnsupportedFeatureError, ("Unsupported comparison: In",), "1 in c"),
    ("x = pl.read(c, [0]) // 0", ParserTypeError, ("division by zero",), "pl.read(c, [0]) // 0"),
    ("x = pl.read(c, [0]) % 0", ParserTypeError, ("division by zero",), "pl.read(c, [0]) % 0"),
    ("x = 7 // (3 - 3)", ParserTypeError, ("division by zero",), "7 // (3 - 3)"),
    ("x = c[0:8] // 0", ParserTypeError, ("division by zero",), "c[0:8] // 0"),
    ("x = a @ b", UnsupportedFeatureError, ("Unsupported binary operator: MatMult", "pl.matmul"), "a @ b"),
    ("x = pl.min(a, b)", ParserTypeError, ("pl.min takes scalars", "pl.minimum"), "pl.min(a, b)"),
    ("x = not a", UnsupportedFeatureError, ("Not",), "not a"),
    ("x = 'text' + a", ParserTypeError, ("expected a tensor, a tile or a scalar, got 'text'",), "'text'"),
)
STATEMENTS: tuple[Row, ...] = (
    ("a += b", UnsupportedFeatureError, ("Unsupported statement type: AugAssign", "a = a + b"), "a += b"),
    ("try:\n    pass\nfinally:\n    pass", UnsupportedFeatureError, ("Unsupported statement type: Try",), "try:"),
    ("def f(): pass", UnsupportedFeatureError, ("FunctionDef", "inline"), "def f(): pass"),
    ("import os", UnsupportedFeatureError, ("Import",), "import os"),
    ("del a", UnsupportedFeatureError, ("Delete",), "del a"),
    ("assert a", UnsupportedFeatureError, ("Assert", "pl.static_assert"), "assert a"),
    ("x = lambda: a", UnsupportedFeatureError, ("Unsupported expression type: Lambda",), "lambda: a"),
    ("x = [q for q in a]", UnsupportedFeatureError, ("ListComp",), "[q for q in a]"),
    ("x = a if b else c", UnsupportedFeatureError, ("IfExp",), "a if b else c"),
    ("x = y = a", ParserSyntaxError, ("Unsupported assignment",), "x = y = a"),
    ("x, y = a", ParserTypeError, ("cannot unpack",), "a"),
    ("x, y = 1, 2, 3", ParserTypeError, ("cannot unpack 3 values into 2 names",), "x, y"),
    ("1 + 2", UnsupportedFeatureError, ("no effect", "write `x = 1 + 2` if the value is needed"), "1 + 2"),
    ("x: pl.INT32", UnsupportedFeatureError, ("declared without a value",), "x: pl.INT32"),
    ("if pl.read(c, [0]) > 0:\n    return a", UnsupportedFeatureError, ("last statement",), "return a"),
    ("pl.static_assert(1 > 2, 'one is small')", ParserError, ("one is small",), "1 > 2"),
    ("pl.static_assert(pl.read(c, [0]) > 0, 'no')", ParserError, ("condition must be compile-time evaluable",), "pl.read("),
    ("pl.static_assert(True, a)", ParserSyntaxError, ("string literal",), "a"),
    ("pl.static_print(f'{1:3}')", ParserSyntaxError, ("f-string",), None),  # type: ignore[arg-type]
    ("a.bind_dynamic(5, pl.dynamic('N'))", ParserTypeError, ("axis 5",), "a.bind_dynamic"),
)
TYPES: tuple[Row, ...] = (
    ("x = 1\nfor i in pl.range(3):\n    x = a", ParserTypeError, ("Cannot reassign 'x'", "pl.Scalar", "pl.Tensor"), "x"),
    (
        "x = pl.full([16, 64], dtype=pl.FP32, value=0.0)\nfor i in pl.range(3):\n"
        "    x = pl.slice(a, [16, 64], [0, 0], valid_shape=[16, 8]) + x",
        ParserTypeError,
        ("Cannot reassign 'x'", "valid [16, 8]", "pl.fillpad(x) fills the rest", "pl.set_validshape(x, rows, cols)"),
        "x",
    ),
    (
        "x: pl.Tile[[8, 64], pl.FP32] = pl.load(a, [0, 0], [16, 64])",
        ParserTypeError,
        ("'x'", "8", "16", "Change annotation"),
        "x: ",
    ),
    ("x: pl.Tile[[16, 64], pl.FP16] = pl.load(a, [0, 0], [16, 64])", ParserTypeError, ("dtype fp16", "fp32"), "x: "),
    ("x: pl.Tile[[16], pl.FP32] = pl.load(a, [0, 0], [16, 64])", ParserTypeError, ("rank 1",), "x: "),
    ("x: pl.Scalar[pl.FP32] = pl.read(c, [0])", ParserTypeError, ("dtype fp32", "int32"), "x: "),
    ("x: pl.Tensor[[16, QQ], pl.FP32] = a", UndefinedVariableError, ("QQ",), "QQ"),
    ("x: pl.Tensor[[16.5], pl.FP32] = a", ParserTypeError, ("'16.5' must be int or pl.dynamic(), got float",), "pl.Tensor"),
    ("x: pl.Tensor[[16, 64]] = a", ParserTypeError, ("Incomplete type annotation",), "pl.Tensor[[16, 64]]"),
    ("x: pl.Tensor = a", ParserTypeError, ("Incomplete type annotation: pl.Tensor",), "pl.Tensor"),
    ("x: int = a", ParserTypeError, ("Unsupported type annotation: int",), "int"),
    (
        "x: pl.Tensor[[16, 64], pl.FP32, pl.DN] = a",
        ParserTypeError,
        ("DN", "transpose", "slice", "no layout marker"),
        "pl.Tensor",
    ),
    (
        "x: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec, pl.Mem.Mat] = pl.load(a, [0, 0], [16, 64])",
        ParserTypeError,
        ("at most one memory space",),
        "pl.Tile",
    ),
    ("x: pl.Tile[[16, 64], pl.FP32, pl.NZ] = a", ParserTypeError, ("Tile does not accept layouts",), "pl.Tile"),
    ("x: pl.Tile[[16, 64], pl.FP32, buf] = a", ParserTypeError, ("explicit memory space",), "pl.Tile"),
    ("x: pl.Tile[[16, 64], pl.FP32, pl.TileView(vs=[1])] = a", ParserTypeError, ("vs",), "pl.TileView(vs=[1])"),
    ("if a:\n    pass", ParserTypeError, ("if condition must be a Bool-typed scalar expression", "pl.Tensor"), "a"),
    ("if pl.read(c, [0]):\n    pass", ParserTypeError, ("Bool-typed", "INT32"), "pl.read(c, [0])"),
    ("if 1:\n    pass", ParserTypeError, ("Bool-typed", "1"), "1"),
    ("while 1.0:\n    pass", ParserTypeError, ("while condition must be a Bool-typed",), "1.0"),
)
SUBSCRIPTS: tuple[Row, ...] = (
    ("x = a[0, 0, 0]", ParserTypeError, ("Tensor subscript has 3 indices but the tensor is 2D",), "a[0, 0, 0]"),
    ("x = a[0:8:2, :]", UnsupportedFeatureError, ("step",), "2"),
    ("x = a[-1, 0]", ParserSyntaxError, ("provably negative",), "-1"),
    ("x = a[0:-1, :]", ParserSyntaxError, ("provably negative",), "-1"),
    ("x = a[4:4, :]", ParserSyntaxError, ("extent 0",), None),  # type: ignore[arg-type]
    ("x = a[8:4, :]", ParserSyntaxError, ("extent -4",), None),  # type: ignore[arg-type]
    ("x = a[0:17, :]", ParserSyntaxError, ("reads past the end of dimension 0", "clamp=True"), "a[0:17, :]"),
    ("x = a[16, 0]", ParserSyntaxError, ("reads past the end of dimension 0",), "16"),
    ("x = a[...]", ParserTypeError, ("`...`",), "..."),
    ("x = a[None]", ParserSyntaxError, ("None",), "None"),
    (LOAD + "x = t[:, pl.read(c, [0]):64]", UnsupportedFeatureError, ("Dynamic lower bounds", "pl.tile.slice"), "t[:, pl.read"),
    ("o[0, 0] = 1.0", UnsupportedFeatureError, ("element", "pl.write(o, [0, 0], value)"), "o[0, 0]"),
    ("o[:] = 1.0", ParserTypeError, ("source must also be a tensor, got ScalarType",), "1.0"),
    (LOAD + "o[:] = t", ParserTypeError, ("source must also be a tensor, got TileType", "pl.store"), "t"),
    ("o[0:8, :] = a", ParserTypeError, ("source axis 0", "window expects 8 elements, source has 16"), "o[0:8, :]"),
    ("o[0, :] = a", ParserTypeError, ("rank mismatch",), "o[0, :]"),
    ("o[0:4, :][0:2, :] = a", ParserSyntaxError, ("plain name",), "o[0:4, :][0:2, :]"),
    ("o[8:24, :] = a", ParserSyntaxError, ("past the end",), "o[8:24, :]"),
    ("x = pl.FP32[0]", ParserTypeError, ("cannot be subscripted",), "pl.FP32[0]"),
)
LOOPS: tuple[Row, ...] = (
    ("for i in range(4):\n    pass", ParserSyntaxError, ("pl.range",), "range(4)"),
    ("for i in a:\n    pass", ParserSyntaxError, ("iterate over pl.range",), "a"),
    ("for i in pl.range(0, 4, 0):\n    pass", ParserSyntaxError, ("step", "zero"), "0"),
    ("for i in pl.range(1.5):\n    pass", ParserTypeError, ("integers, got 1.5",), "1.5"),
    ("for i in pl.range():\n    pass", ParserSyntaxError, ("1 to 3 bounds",), "pl.range()"),
    (
        "for i in pl.range(4, chunk=2):\n    pass",
        ParserSyntaxError,
        ("Unknown keyword argument 'chunk' in pl.range()",),
        "chunk=2",
    ),
    (
        "with pl.at(levl=pl.Level.CORE_GROUP):\n    pass",
        ParserSyntaxError,
        ("Unknown keyword argument 'levl'", "'level'"),
        "levl=",
    ),
    ("for i in pl.range(4, stage=2):\n    pass", ParserSyntaxError, ("pl.pipeline",), "stage=2"),
    ("for i in pl.pipeline(4):\n    pass", ParserSyntaxError, ("stage=",), "pl.pipeline(4)"),
    ("for i in pl.pipeline(4, stage=0):\n    pass", ParserSyntaxError, ("positive integer",), "0"),
    ("for i in pl.unroll(pl.read(c, [0])):\n    pass", ParserTypeError, ("pl.unroll", "compile-time"), "pl.read(c, [0])"),
    ("for i in pl.unroll(4, init_values=(a,)):\n    pass", ParserSyntaxError, ("pl.unroll takes no init_values",), "(a,)"),
    ("for i, (x,) in pl.range(4):\n    pass", ParserSyntaxError, ("one target",), "i, (x,)"),
    ("for i in pl.range(4, init_values=(a,)):\n    pass", ParserSyntaxError, ("must be a tuple when init_values",), "i"),
    (
        "for i, (x, y) in pl.range(4, init_values=(a,)):\n    pass",
        ParserSyntaxError,
        ("2 iter_args but 1 init_values",),
        "(x, y)",
    ),
    ("for i, (x,) in pl.range(4, init_values=a):\n    pass", ParserSyntaxError, ("tuple or a list",), "a"),
    ("for i, (x,) in pl.range(4, init_values=(1,)):\n    pass", ParserSyntaxError, ("must end in pl.yield_",), None),  # type: ignore[arg-type]
    ("for i, (x,) in pl.range(4, init_values=(1,)):\n    pl.yield_(x)", ParserSyntaxError, ("x = pl.yield_",), "pl.yield_(x)"),
    (
        "for i, (x, y) in pl.range(4, init_values=(1, 2)):\n    z = pl.yield_(x, y)",
        ParserSyntaxError,
        ("2 values but 1 names",),
        "z = pl.yield_(x, y)",
    ),
    (
        "for i, (x, y) in pl.range(4, init_values=(1, 2)):\n    z = pl.yield_(x)",
        ParserSyntaxError,
        ("For loop has 2 iteration arguments but 1 return variables",),
        "z = pl.yield_(x)",
    ),
    (
        "for i, (x,) in pl.range(4, init_values=(1,)):\n    z = pl.yield_(a)",
        ParserTypeError,
        ("carries 'x'", "pl.Scalar[pl.INDEX]", "pl.Tensor"),
        "z = pl.yield_(a)",
    ),
    (
        "for i, (x,) in pl.range(4, init_values=(1,)):\n    z = pl.yield_(x + 1)\ny = x + 1",
        UndefinedVariableError,
        ("'x'", "after the loop", "'z'"),
        "x",
    ),
    ("for i in pl.range(4):\n    x = i\ny = i + 1", UndefinedVariableError, ("'i'", "loop variable"), "i"),
    ("for i in pl.range(4):\n    z = pl.yield_(1)", ParserSyntaxError, ("without init_values",), "z = pl.yield_(1)"),
    ("z = pl.yield_(1)", ParserSyntaxError, ("last statement",), "pl.yield_(1)"),
    ("for i in pl.range(4):\n    pass\nelse:\n    pass", UnsupportedFeatureError, ("else",), "pass"),
    ("for x in pl.while_(init_values=(1,)):\n    pl.cond(x < 2)", ParserSyntaxError, ("tuple of names",), "x"),
    ("for (x,) in pl.while_(3):\n    pl.cond(x < 2)", ParserSyntaxError, ("init_values= and nothing else",), "pl.while_(3)"),
    (
        "for (x,) in pl.while_(init_values=(1,)):\n    y = pl.yield_(x)",
        ParserSyntaxError,
        ("first statement", "pl.cond"),
        "y = pl",
    ),
    ("pl.cond(True)", InvalidOperationError, ("Unknown operation 'pl.cond'",), "pl.cond(True)"),
    ("for i in pl.parallel(4):\n    break", InvalidOperationError, ("'break' not supported in parallel loops",), "break"),
    ("for i in pl.unroll(4):\n    continue", InvalidOperationError, ("'continue' not supported in unrolled loops",), "continue"),
    (
        "if pl.read(c, [0]) > 0:\n    y = pl.yield_(a)\nelse:\n    y = pl.yield_(a, b)",
        ParserSyntaxError,
        ("2 values but 1 names",),
        "y = pl.yield_(a, b)",
    ),
    ("if pl.read(c, [0]) > 0:\n    y = pl.yield_(a)", ParserSyntaxError, ("both arms", "else"), "y = pl.yield_(a)"),
    (
        "if pl.read(c, [0]) > 0:\n    y = pl.yield_(a)\nelse:\n    y = pl.yield_(c)",
        ParserTypeError,
        ("different types for 'y'",),
        "y = pl.yield_(c)",
    ),
    (
        "if pl.read(c, [0]) > 0:\n    y = pl.yield_(a)\nelse:\n    z = pl.yield_(a)",
        ParserSyntaxError,
        ("different names", "'y' and 'z'"),
        "z",
    ),
    (
        "if pl.read(c, [0]) > 0:\n    x = pl.load(a, [0, 0], [8, 64])\nelse:\n    x = pl.load(a, [0, 0], [4, 64])\ny = x",
        UndefinedVariableError,
        ("'x' stands for different things",),
        "x",
    ),
)
SCOPES: tuple[Row, ...] = (
    ("with pl.at():\n    pass", ParserSyntaxError, ("level",), "pl.at()"),
    ("with pl.at(level=3):\n    pass", ParserSyntaxError, ("pl.Level, got 3",), "3"),
    ("with pl.at(level=pl.Level.CORE_GROUP, color=1):\n    pass", ParserSyntaxError, ("'color' in pl.at()",), "color=1"),
    ("with pl.at(pl.Level.CORE_GROUP, level=pl.Level.HOST):\n    pass", ParserSyntaxError, ("given twice",), "level="),
    ("with pl.at(level=pl.Level.CORE_GROUP, name_hint='a b'):\n    pass", ParserSyntaxError, ("identifier",), "'a b'"),
    (
        "with pl.at(level=pl.Level.CORE_GROUP, role=pl.Role.Orchestrator):\n    pass",
        ParserSyntaxError,
        ("role=",),
        "pl.Role.Orchestrator",
    ),
    (
        "with pl.at(level=pl.Level.HOST, optimizations=[pl.split()]):\n    pass",
        ParserSyntaxError,
        ("optimizations=",),
        "[pl.split()]",
    ),
    (
        "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(), pl.split()]):\n    pass",
        ParserSyntaxError,
        ("given twice",),
        "pl.split()",
    ),
    (
        "with pl.at(level=pl.Level.CORE_GROUP, deps=[None, 3]):\n    pass",
        ParserTypeError,
        ("'deps'", "3"),
        "3",
    ),
    (
        "with pl.at(level=pl.Level.CORE_GROUP):\n    with pl.at(level=pl.Level.CORE_GROUP):\n        pass",
        ParserSyntaxError,
        ("inside a kernel",),
        "pl.at(level=pl.Level.CORE_GROUP)",
    ),
    ("with pl.spmd(0):\n    pass", ParserSyntaxError, ("positive, got 0",), "0"),
    ("with pl.spmd(1.5):\n    pass", ParserSyntaxError, ("must be an integer",), "1.5"),
    ("for b in pl.spmd(2, deps=[]):\n    pass", ParserSyntaxError, ("deps=",), "[]"),
    ("for b in pl.spmd(2):\n    break", InvalidOperationError, ("'for ... in pl.spmd(...)' body",), "break"),
    ("with pl.cluster(3):\n    pass", ParserSyntaxError, ("pl.cluster takes 0",), "3"),
    ("with pl.cluster() as t:\n    pass", ParserSyntaxError, ("binds no task",), "t"),
    (
        "with pl.manual_scope():\n    with pl.manual_scope():\n        pass",
        ParserSyntaxError,
        ("manual scope inside",),
        "pl.manual_scope()",
    ),
    ("with open('f'):\n    pass", UnsupportedFeatureError, ("Unsupported context manager",), "open('f')"),
    ("with pl.cluster(), pl.cluster():\n    pass", UnsupportedFeatureError, ("one context manager",), "with pl.cluster"),
    ("for l in pl.split_aiv(3, mode=pl.SplitMode.NONE):\n    pass", ParserSyntaxError, ("literal 2",), "3"),
    ("for l in pl.split_aiv(2):\n    pass", ParserSyntaxError, ("mode=",), "pl.split_aiv(2)"),
    ("for l in pl.split_aiv(2, mode=pl.SplitMode.NONE):\n    pass", ParserSyntaxError, ("inside a kernel",), "pl.split_aiv("),
    ("x = pl.exp(a)", InvalidOperationError, ("Misplaced tensor op", "should be inside InCore block", "pl.at"), "pl.exp(a)"),
    ("x = pl.load(a, [0, 0], [8, 64])", InvalidOperationError, ("Misplaced tile op", "InCore block"), "pl.load("),
    ("x = a + b", InvalidOperationError, ("Misplaced tensor op",), "a + b"),
    ("x = pl.submit(a)", ParserSyntaxError, ("2-tuple",), "x"),
    ("x, t = pl.submit(a)", ParserSyntaxError, ("kernel reference",), "a"),
)


@incore
def core(x: pl.Tensor, n: pl.INT32, y: pl.Out[pl.Tensor]):  # type: ignore[no-untyped-def]
    y[:] = pl.add(x, x)
    return y


@inline
def no_result(x):  # type: ignore[no-untyped-def]
    pl.tensor.dim(x, 0)


@inline
def endless(x):  # type: ignore[no-untyped-def]
    y = endless(x)
    return y


@entry
def whole(x: pl.Tensor):  # type: ignore[no-untyped-def]
    return x


def plain(x: Any) -> Any:
    return x


HELPERS: tuple[Row, ...] = (
    ("o = core(a, o)", ParserTypeError, ("Function 'core' expects 3 argument(s), got 2",), "core(a, o)"),
    ("o = core(a, 1, o, 2)", ParserTypeError, ("expects 3 argument(s), got 4",), "core("),
    ("o = core(a, 1, z=o)", ParserTypeError, ("does not accept keyword argument 'z'",), "z=o"),
    ("o = core(a, 1.5, o)", ParserTypeError, ("parameter 'n'", "INT32", "FP32"), "core("),
    (
        "s = a.shape\nx = pl.read(c, [0])\no = core((x, x), 1, o)",
        ParserTypeError,
        ("'x' is a tuple of run-time values",),
        "core(",
    ),
    ("o = core(3, 1, o)", ParserTypeError, ("parameter 'x'", "tensor"), "core("),
    (
        "with pl.at(level=pl.Level.CORE_GROUP):\n    o = core(a, 1, o)",
        UnsupportedFeatureError,
        ("cannot be called inside",),
        "core(",
    ),
    ("x = no_result(a)", ParserTypeError, ("Inline function 'no_result' has no return value",), "no_result(a)"),
    ("x = no_result(a, b)", ParserTypeError, ("Inline function 'no_result' expects 1 argument(s), got 2",), "no_result(a, b)"),
    ("x = endless(a)", UnsupportedFeatureError, ("recursion", "endless -> endless"), "endless(x)"),
)


class Config:
    K = 3


OUTSIDE: dict[str, Any] = {
    "cfg": {"K": 1},
    "big": np.float64(2.0),
    "buf": pl.MemRef(),
    "plain": plain,
    "whole": whole,
    "core": core,
    "no_result": no_result,
    "endless": endless,
}


def check(row: Row, scoped: bool) -> None:
    text, kind, words, piece = row
    e = error(lambda: kernel(text, scoped=scoped, **OUTSIDE).parse(*arrays()))
    assert type(e) is kind, repr(e)
    rendered = str(e)
    for w in words:
        assert w in rendered, rendered
    assert e.span is not None
    assert e.code
    assert f"error[{e.code}]" in rendered
    if piece is not None:
        assert pointed(e).startswith(piece), rendered
    again = pickle.loads(pickle.dumps(e))
    assert str(again) == rendered


INSIDE = (*NAMES, *CALLS, *OPERATORS, *STATEMENTS, *TYPES, *SUBSCRIPTS, *LOOPS)


@pytest.mark.parametrize("row", INSIDE, ids=lambda r: r[0].replace("\n", "; ")[:60])
def test_inside_a_kernel(row: Row) -> None:
    check(row, scoped=True)


@pytest.mark.parametrize("row", [*SCOPES, *HELPERS], ids=lambda r: r[0].replace("\n", "; ")[:60])
def test_at_the_control_plane(row: Row) -> None:
    check(row, scoped=False)


def test_every_row_breaks_for_its_own_reason() -> None:
    """The bodies around the mistakes are fine: without them the kernel parses."""
    kernel(LOAD + "o[:] = a").parse(*arrays())
    kernel("o = core(a, 1, o)", scoped=False, **OUTSIDE).parse(*arrays())


# -- @pl.function ----------------------------------------------------------------------------------------------------

T = "pl.Tensor[[16, 64], pl.FP32]"
FUNCTIONS: tuple[tuple[str, type[Error], tuple[str, ...], str | None], ...] = (
    ("def f(x): return x", ParserTypeError, ("Parameter 'x' missing type annotation",), "x"),
    ("def f(x: pl.Tensor): return x", ParserTypeError, ("Incomplete type annotation: pl.Tensor",), "pl.Tensor"),
    ("def f(x: pl.INDEX): return x", ParserTypeError, ("Incomplete type annotation: pl.INDEX", "pl.Scalar"), "pl.INDEX"),
    ("def f(x: pl.InOut[pl.Scalar[pl.INDEX]]): return x", ParserTypeError, ("cannot be pl.InOut",), None),
    ("def f(x: pl.Tuple[pl.Scalar[pl.INDEX]]): return x", ParserTypeError, ("Parameter type cannot be a tuple",), None),
    ("def f(x: 'pl.Tensor[[N], pl.FP32]', N: pl.Scalar[pl.INDEX]): return x", ParserTypeError, ("shadows", "'N'"), "N"),
    (f"def f(x: {T}) -> pl.Tuple[pl.Tuple[{T}]]: return x", ParserTypeError, ("Nested tuple",), None),
    (
        f"def f(x: {T}):\n    y = x\n    y = 3\n    return y",
        ParserTypeError,
        ("Cannot reassign 'y'", "pl.Tensor", "pl.Scalar"),
        "y",
    ),
    (f"def f(x: {T}):\n    pl.func_attr(3)\n    return x", ParserSyntaxError, ("dict literal",), "3"),
    (f"def f(x: {T}):\n    y = x\n    pl.func_attr({{}})\n    return x", ParserSyntaxError, ("first statement",), "pl.func_attr"),
    (
        f"def f(x: {T}):\n    pl.func_attr({{'auto_scope': True}})\n    return x",
        ParserSyntaxError,
        ("decorator",),
        "pl.func_attr",
    ),
    (f"def f(x: {T}):\n    return self.g(x)", UndefinedVariableError, ("self",), "self"),
)


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda r: r[0][:50])
def test_functions(row: Any) -> None:
    text, kind, words, piece = row
    e = error(lambda: module(f"N = pl.dynamic('N')\n@pl.function\n{text}\n"))
    assert type(e) is kind, repr(e)
    assert all(w in str(e) for w in words), str(e)
    if piece is not None:
        assert pointed(e).startswith(piece), str(e)


def test_strict_ssa_names_the_first_definition() -> None:
    text = f"@pl.function(strict_ssa=True)\ndef f(x: {T}):\n    y = x\n    y = x\n    return y\n"
    e = error(lambda: module(text))
    assert type(e) is SSAViolationError
    assert "'y' is already defined" in e.message
    assert ":3:5" in str(e.note)
    e = error(lambda: module(text.replace("    y = x\n    y = x", "    x[0:16, :] = x")))
    assert "strict_ssa" in e.message


PROGRAM = """
@pl.program
class P:
    @pl.function
    def f(self, x: pl.Tensor[[4], pl.FP32]):
        {}
"""


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("return self.g(x)", UndefinedVariableError, ("Function 'g' not defined in program", "f")),
        ("return self.f(x, x)", UnsupportedFeatureError, ("recursion", "f -> f")),
        ("y, t = pl.submit(self.f, x, x)\nreturn y", UnsupportedFeatureError, ("recursion", "f -> f")),
    ],
)
def test_program_calls(body: str, kind: type[Error], words: tuple[str, ...]) -> None:
    e = error(lambda: module(PROGRAM.format(body.replace("\n", "\n        "))))
    assert type(e) is kind
    assert all(w in str(e) for w in words), str(e)


def test_member_arity_and_keywords() -> None:
    two = (
        PROGRAM.format("return x") + "    @pl.function\n    def g(self, x: pl.Tensor[[4], pl.FP32]):\n        return self.f({})\n"
    )
    e = error(lambda: module(two.format("x, x")))
    assert type(e) is ParserTypeError
    assert "Function 'f' expects 1 argument(s), got 2" in e.message
    e = error(lambda: module(two.format("x=x")))
    assert "does not accept keyword argument 'x'" in e.message


def test_a_class_without_functions() -> None:
    e = error(lambda: module("@pl.program\nclass Empty:\n    def f(self): pass\n"))
    assert type(e) is ParserSyntaxError
    assert "'Empty' has no functions" in e.message


def test_operators_outside_a_kernel() -> None:
    for f in (pl.add, pl.tile.load, pl.range, pl.at):
        e = error(lambda f=f: f(1, 2))
        assert isinstance(e, InvalidOperationError)
        assert repr(f) in str(e)
        assert "@pl.jit" in str(e)


def test_the_line_is_that_of_the_capture() -> None:
    import linecache

    k = kernel("o[:] = pl.add(a, y)")
    linecache.cache[k.source.filename] = (1, None, ["something else\n"] * 9, k.source.filename)
    assert "o[:] = pl.add(a, y)" in str(error(lambda: k.parse(*arrays())))


def test_specialized_arguments_are_checked() -> None:
    k = module("@entry\ndef k(a: pl.Tensor, n: pl.InOut[pl.INDEX], o: pl.Out[pl.Tensor]):\n    return o\n")["k"]
    e = error(lambda: k.parse(f32(4, 4), 3, f32(4, 4)))
    assert "cannot be pl.InOut" in str(e)
    view = "pl.TensorView(stride=[1, 2], layout=pl.ND)"
    k = module(f"@entry\ndef k(a: pl.Tensor[[4, 4], pl.FP32, {view}]):\n    return a\n")["k"]
    with pytest.raises(TypeError, match=r"'k': parameter 'a'"):
        k.parse(f32(4, 4))
