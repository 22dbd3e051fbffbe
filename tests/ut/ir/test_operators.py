"""Python operators on scalar expressions."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from ir_samples import F32, INDEX, index

from pypto.dtypes import DataType as D
from pypto.ir import operators, scalar
from pypto.ir.expr import ConstBool, ConstFloat, ConstInt, Expr, MakeTuple, Var
from pypto.ir.shaped import TileType
from pypto.ir.types import ScalarType
from pypto.span import Span

BINARY = [
    (operator.add, scalar.Add),
    (operator.sub, scalar.Sub),
    (operator.mul, scalar.Mul),
    (operator.truediv, scalar.FloatDiv),
    (operator.floordiv, scalar.FloorDiv),
    (operator.mod, scalar.FloorMod),
    (operator.pow, scalar.Pow),
    (operator.and_, scalar.BitAnd),
    (operator.or_, scalar.BitOr),
    (operator.xor, scalar.BitXor),
    (operator.lshift, scalar.BitShiftLeft),
    (operator.rshift, scalar.BitShiftRight),
]
COMPARISONS = [
    (operator.eq, scalar.Eq, scalar.Eq),
    (operator.ne, scalar.Ne, scalar.Ne),
    (operator.lt, scalar.Lt, scalar.Gt),
    (operator.le, scalar.Le, scalar.Ge),
    (operator.gt, scalar.Gt, scalar.Lt),
    (operator.ge, scalar.Ge, scalar.Le),
]


@pytest.mark.parametrize(("op", "kind"), BINARY)
def test_binary_operators_and_their_reflections(op: Any, kind: type[Expr]) -> None:
    a, b = index("a"), index("b")
    for e, left, right in ((op(a, b), a, b), (op(a, 3), a, 3), (op(3, a), 3, a)):
        assert type(e) is kind
        for got, want in ((e.left, left), (e.right, right)):
            if isinstance(want, int):
                assert isinstance(got, ConstInt)
                assert (got.value, got.dtype) == (want, D.INDEX)
            else:
                assert got is want
        assert e.type is INDEX


@pytest.mark.parametrize(("op", "kind", "reflected"), COMPARISONS)
def test_comparisons(op: Any, kind: type[Expr], reflected: type[Expr]) -> None:
    a = index("a")
    e, f = op(a, 3), op(3, a)
    assert type(e) is kind
    assert type(f) is reflected
    assert e.left is a
    assert f.left is a
    assert e.type.dtype is D.BOOL


def test_unary_operators() -> None:
    a = index("a")
    assert type(-a) is scalar.Neg  # type: ignore[operator]
    assert type(~a) is scalar.BitNot  # type: ignore[operator]
    for op in (abs, operator.pos):
        with pytest.raises(TypeError):
            op(a)


def test_floats_become_fp32_and_do_not_mix_with_integers() -> None:
    f: Any = Var("f", F32)
    e = f * 2.5
    assert isinstance(e.right, ConstFloat)
    assert (e.right.value, e.right.dtype) == (2.5, D.FP32)
    with pytest.raises(TypeError, match="same numeric dtype category"):
        f + 1
    with pytest.raises(TypeError, match="same numeric dtype category"):
        index("n") + 1.5  # type: ignore[operator]


def test_promotion_takes_the_wider_type_and_the_left_one_at_equal_width() -> None:
    small: Any = Var("s", ScalarType.of(D.INT32))
    wide: Any = Var("w", ScalarType.of(D.UINT64))
    n: Any = index("n")
    assert (small + n).type.dtype is D.INDEX
    assert (wide + n).type.dtype is D.UINT64
    assert (n + wide).type.dtype is D.INDEX


def test_identity_and_hashing_still_work() -> None:
    a, b = index("a"), index("b")
    table = {a: 1, b: 2}
    assert table[a] == 1
    assert a.same_as(a)
    assert not a.same_as(b)
    assert isinstance(a == b, scalar.Eq)
    with pytest.raises(TypeError, match="truth value"):
        bool(a == b)


def test_foreign_operands_are_refused_by_python() -> None:
    a: Any = index("a")
    with pytest.raises(TypeError, match="unsupported operand"):
        a + "x"
    assert (a == "x") is False
    assert (a != None) is True  # noqa: E711
    tile: Any = Var("t", TileType([8, 8], D.FP32))
    with pytest.raises(TypeError, match="ScalarExpr or Var with ScalarType"):
        tile + tile


def test_results_stand_where_the_expression_stands() -> None:
    a: Any = Var("a", INDEX, Span("f.py", 3, 7))
    assert (a + 1).span.begin_line == 3
    assert (1 - a).span.begin_line == 3


def test_installing_twice_changes_nothing_and_conversion_knows_its_limits() -> None:
    operators.install()
    assert isinstance(index("a") + 1, scalar.Add)  # type: ignore[operator]
    assert isinstance(operators.as_expr(True), ConstBool)
    assert operators.as_expr("x") is None
    e = MakeTuple([])
    assert operators.as_expr(e) is e
