"""The text of expressions, constants, attribute values and types."""

from __future__ import annotations

import ast
import math

import pytest
from ir_samples import BOOL, F32, INDEX, VEC, index

from pypto.dtypes import DataType as D
from pypto.enums import CompactMode, MemorySpace, PadValue, TensorLayout, TileLayout
from pypto.ir import scalar
from pypto.ir.expr import (
    Call,
    ConstBool,
    ConstFloat,
    ConstInt,
    Expr,
    GlobalVar,
    MakeTuple,
    MemRef,
    Op,
    TupleGetItemExpr,
    Var,
    const_index,
)
from pypto.ir.node import Node
from pypto.ir.printer import python_print, python_print_type
from pypto.ir.shaped import BufferType, TensorType, TensorView, TileType, TileView
from pypto.ir.types import ArrayType, PtrType, TupleType, UnknownType
from pypto.span import Span

# -- expressions -----------------------------------------------------------------------------------------------------

A, B, C = index("a"), index("b"), index("c")
P, Q = Var("p", BOOL), Var("q", BOOL)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (scalar.add(scalar.add(A, B), C), "a + b + c"),
        (scalar.add(A, scalar.add(B, C)), "a + (b + c)"),
        (scalar.sub(A, scalar.sub(B, C)), "a - (b - c)"),
        (scalar.mul(scalar.add(A, B), C), "(a + b) * c"),
        (scalar.add(A, scalar.mul(B, C)), "a + b * c"),
        (scalar.floordiv(scalar.mod(A, B), scalar.truediv(B, C)), "a % b // (b / c)"),
        (scalar.pow(scalar.pow(A, B), C), "(a ** b) ** c"),
        (scalar.pow(A, scalar.pow(B, C)), "a ** b ** c"),
        (scalar.pow(scalar.neg(A), scalar.neg(B)), "(-a) ** -b"),
        (scalar.neg(scalar.add(A, B)), "-(a + b)"),
        (scalar.neg(scalar.neg(A)), "--a"),
        (scalar.neg(const_index(5)), "-pl.const(5, pl.INDEX)"),
        (scalar.bit_not(const_index(5)), "~pl.const(5, pl.INDEX)"),
        (scalar.pow(const_index(-5), A), "(-5) ** a"),
        (scalar.sub(A, const_index(-5)), "a - -5"),
        (scalar.bit_or(scalar.bit_and(A, B), scalar.bit_xor(B, C)), "a & b | b ^ c"),
        (scalar.bit_and(scalar.bit_or(A, B), C), "(a | b) & c"),
        (scalar.bit_shift_left(A, scalar.add(B, C)), "a << b + c"),
        (scalar.add(scalar.bit_shift_right(A, B), C), "(a >> b) + c"),
        (scalar.lt(scalar.bit_or(A, B), C), "a | b < c"),
        (scalar.eq(scalar.lt(A, B), P), "(a < b) == p"),
        (scalar.eq(P, scalar.lt(A, B)), "p == (a < b)"),
        (scalar.not_(scalar.lt(A, B)), "not a < b"),
        (scalar.and_(scalar.not_(P), Q), "not p and q"),
        (scalar.not_(scalar.and_(P, Q)), "not (p and q)"),
        (scalar.or_(scalar.and_(P, Q), P), "p and q or p"),
        (scalar.and_(scalar.or_(P, Q), P), "(p or q) and p"),
        (scalar.and_(P, scalar.and_(Q, P)), "p and (q and p)"),
        (scalar.and_(scalar.and_(P, Q), P), "p and q and p"),
        (scalar.min_(scalar.add(A, B), scalar.max_(B, C)), "pl.min(a + b, pl.max(b, c))"),
        (scalar.cast(scalar.add(A, B), D.INT32), "pl.cast(a + b, pl.INT32)"),
        (scalar.Abs(A, D.INDEX), "abs(a)"),
        (scalar.Xor(P, Q, D.BOOL), "xor(p, q)"),
        (MakeTuple([]), "[]"),
        (MakeTuple([A, MakeTuple([B])]), "[a, [b]]"),
        (TupleGetItemExpr(MakeTuple([A, B]), 1), "[a, b][1]"),
        (Call(GlobalVar("g"), [scalar.add(A, B)]), "self.g(a + b)"),
        (Call(Op("tensor.and"), [A]), "pl.tensor.and_(a)"),
        (Call(Op("pld.system.rank"), []), "pld.system.rank()"),
    ],
)
def test_expressions(e: Expr, text: str) -> None:
    assert e.as_python() == text
    ast.parse(text)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (7, D.INDEX, "7"),
        (-7, D.INDEX, "-7"),
        (7, D.INT64, "pl.const(7, pl.INT64)"),
        (7, D.INT32, "pl.const(7, pl.INT32)"),
        (1.0, D.FP32, "1.0"),
        (0.1, D.FP32, "0.1"),
        (1e22, D.FP32, "1e+22"),
        (-1.5, D.FP32, "-1.5"),
        (-0.0, D.FP32, "pl.const(-0.0, pl.FP32)"),
        (1.0, D.FP16, "pl.const(1.0, pl.FP16)"),
        (math.nan, D.FP32, 'pl.const(float("nan"), pl.FP32)'),
        (math.inf, D.FP32, 'pl.const(float("inf"), pl.FP32)'),
        (-math.inf, D.BF16, 'pl.const(float("-inf"), pl.BF16)'),
    ],
)
def test_constants(value: float, dtype: D, text: str) -> None:
    e = ConstInt(value, dtype) if isinstance(value, int) else ConstFloat(value, dtype)
    assert e.as_python() == text


def test_keywords_and_attributes() -> None:
    kwargs = {
        "a": True,
        "b": 1,
        "c": 2.5,
        "d": "it's",
        "e": None,
        "f": D.BF16,
        "g": PadValue.zero,
        "h": MemorySpace.Acc,
        "i": (1, (A, const_index(2))),
        "j": math.nan,
        "k": ConstBool(True),
        "l": TileLayout.col_major,
    }
    assert Call(Op("tile.x"), [], kwargs, UnknownType.get(), Span.unknown()).as_python() == (
        'pl.tile.x(a=True, b=1, c=2.5, d="it\'s", e=None, f=pl.BF16, g=pl.PadValue.zero, h=pl.Mem.Acc, '
        'i=[1, [a, pl.const(2, pl.INDEX)]], j=float("nan"), k=pl.const(True, pl.BOOL), l=pl.TileLayout.col_major)'
    )


# -- types -----------------------------------------------------------------------------------------------------------

BASE = Var("m", PtrType.get())
N = index("n")
BOXED = {"blayout": TileLayout.col_major, "slayout": TileLayout.row_major}
BOXED_TEXT = "blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major"
FLAT_TEXT = "blayout=pl.TileLayout.row_major, slayout=pl.TileLayout.none_box, fractal=512"


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (F32, "pl.Scalar[pl.FP32]"),
        (ArrayType(D.INT32, 4), "pl.Array[4, pl.INT32]"),
        (TupleType([F32, INDEX]), "pl.Tuple[pl.Scalar[pl.FP32], pl.Scalar[pl.INDEX]]"),
        (PtrType.get(), "pl.Ptr"),
        (TensorType([], D.FP32), "pl.Tensor[[], pl.FP32]"),
        (TensorType([N, ConstInt(4, D.INT64), -1], D.BF16), "pl.Tensor[[n, 4, -1], pl.BF16]"),
        (TensorType([4], D.FP32, MemRef(BASE, 0, 16)), "pl.Tensor[[4], pl.FP32, pl.MemRef(m, 0, 16)]"),
        (
            TensorType([4, N], D.FP32, None, TensorView([N, 1], TensorLayout.DN, [4, 2], PadValue.max)),
            "pl.Tensor[[4, n], pl.FP32, pl.TensorView(stride=[n, 1], layout=pl.DN, valid_shape=[4, 2], pad=pl.PadValue.max)]",
        ),
        (TileType([8, 8], D.FP32), "pl.Tile[[8, 8], pl.FP32]"),
        (
            TileType([8, 8], D.FP32, MemRef(BASE, 32, 256), None, VEC),
            "pl.Tile[[8, 8], pl.FP32, pl.MemRef(m, 32, 256), pl.Mem.Vec]",
        ),
        (
            TileType([8, 8], D.FP32, MemRef(BASE, scalar.mul(N, const_index(32)), 256, slots=3, slot=N), None, VEC),
            "pl.Tile[[8, 8], pl.FP32, pl.MemRef(m, n * 32, 256, slots=3)[n], pl.Mem.Vec]",
        ),
        (
            TileType([8, 8], D.FP32, MemRef(BASE, 0, 0, is_pinned=True, slots=2, slot=const_index(1)), None, VEC),
            'pl.Tile[[8, 8], pl.FP32, pl.MemRef("m", slots=2)[1], pl.Mem.Vec]',
        ),
        (
            TileType([8, 8], D.FP32, MemRef(BASE, 0, 64, is_pinned=True), None, VEC),
            "pl.Tile[[8, 8], pl.FP32, pl.MemRef(m, 0, 64, is_pinned=True), pl.Mem.Vec]",
        ),
        (
            TileType([8, 8], D.FP32, None, TileView([N, 8], pad=PadValue.min, compact=CompactMode.normal), VEC),
            "pl.Tile[[8, 8], pl.FP32, pl.Mem.Vec, "
            "pl.TileView(valid_shape=[n, 8], pad=pl.PadValue.min, compact=pl.CompactMode.normal)]",
        ),
        # A layout is written where the space implies another one than the view's default.
        (
            TileType([16, 16], D.FP16, None, TileView([4, 16], **BOXED), MemorySpace.Mat),
            f"pl.Tile[[16, 16], pl.FP16, pl.Mem.Mat, pl.TileView(valid_shape=[4, 16], {BOXED_TEXT}, fractal=512)]",
        ),
        (TileType([16, 16], D.FP16, None, TileView(**BOXED), MemorySpace.Mat), "pl.Tile[[16, 16], pl.FP16, pl.Mem.Mat]"),
        (
            TileType([16, 16], D.FP16, None, TileView(), MemorySpace.Mat),
            f"pl.Tile[[16, 16], pl.FP16, pl.Mem.Mat, pl.TileView({FLAT_TEXT})]",
        ),
        (
            TileType([16, 16], D.FP16, None, TileView(stride=[32, 1], start_offset=4, **BOXED), VEC),
            f"pl.Tile[[16, 16], pl.FP16, pl.Mem.Vec, pl.TileView(stride=[32, 1], start_offset=4, {BOXED_TEXT}, fractal=512)]",
        ),
        (BufferType([16, 32], D.FP32, VEC), "pypto.ir.BufferType([16, 32], pl.FP32, pl.Mem.Vec)"),
        (
            BufferType([16, 32], D.FP32, VEC, [-1, 32], pad=PadValue.zero),
            "pypto.ir.BufferType([16, 32], pl.FP32, pl.Mem.Vec, valid_shape=[-1, 32], pad=pl.PadValue.zero)",
        ),
        (UnknownType.get(), "pypto.ir.UnknownType()"),
    ],
)
def test_types(type_: Node, text: str) -> None:
    assert python_print_type(type_) == text  # type: ignore[arg-type]
    assert python_print(type_) == text
    ast.parse(text)


def test_explicit_layouts_are_written_for_every_tile() -> None:
    t = TileType([8, 8], D.FP32, None, None, VEC)
    assert python_print_type(t, explicit_layout=True) == (
        f"pl.Tile[[8, 8], pl.FP32, pl.Mem.Vec, pl.TileView(valid_shape=[8, 8], {FLAT_TEXT})]"
    )
