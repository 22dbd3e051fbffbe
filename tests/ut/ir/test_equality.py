"""Structural comparison as users call it: what counts, what does not, and the message."""

from __future__ import annotations

from typing import Any

import ir_samples
import pytest
from ir_samples import F32, INDEX, VEC, index

from pypto.dtypes import DataType as D
from pypto.ir import scalar
from pypto.ir.equality import assert_structural_equal, structural_equal, structural_hash
from pypto.ir.expr import Call, ConstFloat, ConstInt, Expr, IterArg, Op, Var, const_index
from pypto.ir.program import Function, Program
from pypto.ir.shaped import TensorType, TileType, TileView
from pypto.ir.stmt import AssignStmt, EvalStmt, ForStmt, ReturnStmt, SeqStmts, YieldStmt, attach_leading_comments
from pypto.ir.types import ScalarType
from pypto.span import Span


def loop(name: str, step: int = 1) -> Function:
    """Sums 0..n; every variable is fresh at each call."""
    n, i = index("n"), index(name)
    total, r = IterArg(name, INDEX, const_index(0)), index(name)
    body = YieldStmt([scalar.add(total, scalar.mul(i, const_index(step)))])
    carried = ForStmt(i, const_index(0), n, const_index(1), [total], body, [r])
    return Function("f", [n], [INDEX], SeqStmts([carried, ReturnStmt([r])], Span(name, 1, 1)))


def test_names_places_and_comments_do_not_count() -> None:
    a, b = loop("a"), loop("b")
    attach_leading_comments(b.body.stmts[0], ["note"])  # type: ignore[attr-defined]
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)
    assert structural_equal(Program([a], "one"), Program([b], "other"))
    assert_structural_equal(a, b)


def test_values_do_count() -> None:
    assert not structural_equal(loop("a"), loop("a", 2))
    assert structural_hash(loop("a")) != structural_hash(loop("a", 2))


@pytest.mark.parametrize("make", [ir_samples.kernel, ir_samples.control, ir_samples.orchestration, ir_samples.buffer_function])
def test_two_builds_are_equal_and_hash_equal(make: Any) -> None:
    assert structural_equal(make(), make(), enable_auto_mapping=True)
    assert structural_hash(make(), True) == structural_hash(make(), True)


def test_free_variables_need_identity_or_the_flag() -> None:
    x, y = index("x"), index("y")
    a, b = scalar.add(x, x), scalar.add(y, y)
    assert structural_equal(a, scalar.add(x, x))
    assert not structural_equal(a, b)
    assert structural_equal(a, b, enable_auto_mapping=True)
    assert structural_hash(a, True) == structural_hash(b, True)


def test_the_mapping_is_one_to_one_and_keeps_types() -> None:
    x, y, z = index("x"), index("y"), Var("z", ScalarType.of(D.INT32))
    assert not structural_equal(scalar.add(x, x), scalar.add(x, y), True)
    assert not structural_equal(scalar.add(x, y), scalar.add(x, x), True)
    assert not structural_equal(x, z, True)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (ConstInt(4, D.INDEX), ConstInt(4, D.INT64), True),
        (ConstInt(4, D.INDEX), ConstInt(4, D.INT32), False),
        (ConstFloat(1.0, D.FP32), ConstFloat(1.0, D.FP16), False),
        (ConstFloat(0.0, D.FP32), ConstFloat(-0.0, D.FP32), False),
        (ConstFloat(float("nan"), D.FP32), ConstFloat(float("nan"), D.FP32), True),
        (INDEX, ScalarType.of(D.INT64), False),
        (F32, ScalarType(D.FP32), True),
        (TensorType([4], D.FP32), TensorType([4], D.FP32), True),
        (TensorType([4], D.FP32), TensorType([5], D.FP32), False),
        (TileType([8, 8], D.FP32), TileType([8, 8], D.FP32, None, None, VEC), False),
        (TileType([8, 8], D.FP32, None, TileView([8, 8]), VEC), TileType([8, 8], D.FP32, None, None, VEC), True),
    ],
)
def test_constants_and_types(a: Any, b: Any, same: bool) -> None:
    assert structural_equal(a, b) is same
    assert structural_equal(b, a) is same
    if same:
        assert structural_hash(a) == structural_hash(b)


def test_attributes_count_by_key_and_by_type() -> None:
    def call(**kwargs: Any) -> Expr:
        return Call(Op("tile.x"), [], kwargs, F32, Span.unknown())

    assert structural_equal(call(a=1, b=2), call(b=2, a=1))
    assert structural_hash(call(a=1, b=2)) == structural_hash(call(b=2, a=1))
    assert not structural_equal(call(a=1), call(a=1.0))
    assert not structural_equal(call(a=1), call(a=True))
    assert not structural_equal(call(a=1), call())


def test_the_message_shows_the_path_and_both_sides() -> None:
    with pytest.raises(ValueError, match="Structural equality failed") as e:
        assert_structural_equal(loop("a"), loop("a", 2))
    text = str(e.value)
    assert "at body.stmts[0].body.value[0].right.right:" in text
    assert "left:  1\n" in text
    assert text.endswith("right: 2")


def test_sides_that_print_alike_say_which_objects_they_are() -> None:
    x, y = index("x"), index("x")
    with pytest.raises(ValueError, match=rf"x#{x.unique_id}.*\n.*x#{y.unique_id}"):
        assert_structural_equal(x, y)


def test_long_sides_are_cut() -> None:
    body = SeqStmts([AssignStmt(index(f"v{i}"), const_index(i)) for i in range(200)])
    with pytest.raises(ValueError, match="characters") as e:
        assert_structural_equal(body, EvalStmt(const_index(1)))
    assert len(str(e.value)) < 2000


def test_only_nodes_and_types_are_compared() -> None:
    for call in (structural_equal, assert_structural_equal):
        with pytest.raises(TypeError, match="not int"):
            call(1, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not str"):
        structural_hash("x")  # type: ignore[arg-type]
