"""Bounds, decisions and folding of integer scalars, held against machine arithmetic."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto.dtypes import DataType
from pypto.errors import CompileError
from pypto.ir import scalar
from pypto.ir.analyzer import Analyzer, Interval, range_of
from pypto.ir.arith import wrap
from pypto.ir.expr import ConstBool, ConstFloat, ConstInt, UnaryExpr, Var
from pypto.ir.fold import fold
from pypto.ir.rewrite import Mutator
from pypto.ir.types import ScalarType

D = DataType
ARITHMETIC = (scalar.Add, scalar.Sub, scalar.Mul, scalar.FloorDiv, scalar.FloorMod, scalar.Min, scalar.Max)
BITS = (scalar.BitAnd, scalar.BitOr, scalar.BitXor)


def evaluate(e, env):
    """The machine's value: every operation wraps in its dtype, division rounds down, by zero it is 0."""
    if isinstance(e, (ConstInt, ConstBool)):
        return int(e.value)
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, UnaryExpr):
        x, dtype = evaluate(e.operand, env), scalar.dtype_of(e)
        if isinstance(e, scalar.Not):
            return int(not x)
        if isinstance(e, scalar.Cast):
            return int(x != 0) if dtype is D.BOOL else wrap(x, dtype)
        return wrap({scalar.Neg: -x, scalar.Abs: abs(x), scalar.BitNot: ~x}[type(e)], dtype)
    x, y = evaluate(e.left, env), evaluate(e.right, env)
    if isinstance(e, scalar.COMPARISONS):
        names = {"Eq": x == y, "Ne": x != y, "Lt": x < y, "Le": x <= y, "Gt": x > y, "Ge": x >= y}
        return int(names[type(e).__name__])
    if isinstance(e, scalar.LOGICAL):
        return {"And": x & y, "Or": x | y, "Xor": x ^ y}[type(e).__name__]
    dtype = scalar.dtype_of(e)
    x, y = wrap(x, dtype), wrap(y, dtype)
    if isinstance(e, (scalar.FloorDiv, scalar.FloorMod)):
        if y == 0:
            return 0
        return wrap(x // y if isinstance(e, scalar.FloorDiv) else x % y, dtype)
    table = {"Add": x + y, "Sub": x - y, "Mul": x * y, "Min": min(x, y), "Max": max(x, y)}
    table |= {"BitAnd": x & y, "BitOr": x | y, "BitXor": x ^ y}
    return wrap(table[type(e).__name__], dtype)


class Folding(Mutator):
    def __init__(self, known):
        super().__init__()
        self.known = known

    def visit_binary_expr(self, e):
        return fold(self.rebuild(e), self.known)

    def visit_unary_expr(self, e):
        return fold(self.rebuild(e), self.known)


def edges(dtype):
    r = range_of(dtype)
    return st.one_of(
        st.integers(-6, 6).filter(lambda v: r.low <= v <= r.high), st.sampled_from((r.low, r.low + 1, r.high, r.high - 1))
    )


@st.composite
def expression(draw, dtype, names, depth=3):
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.one_of(st.sampled_from(names), edges(dtype).map(lambda v: ConstInt(v, dtype))))
    kind = draw(st.sampled_from((*ARITHMETIC, *BITS, scalar.Neg)))
    left = draw(expression(dtype, names, depth - 1))
    if kind is scalar.Neg:
        return scalar.Neg(left, dtype)
    return kind(left, draw(expression(dtype, names, depth - 1)), dtype)


@st.composite
def condition(draw, dtype, names, depth=2):
    if depth and draw(st.booleans()):
        kind = draw(st.sampled_from((scalar.And, scalar.Or, scalar.Not)))
        left = draw(condition(dtype, names, depth - 1))
        return scalar.Not(left, D.BOOL) if kind is scalar.Not else kind(left, draw(condition(dtype, names, depth - 1)), D.BOOL)
    kind = draw(st.sampled_from(scalar.COMPARISONS))
    return kind(draw(expression(dtype, names, 2)), draw(expression(dtype, names, 2)), D.BOOL)


DTYPES = (D.INDEX, D.INT64, D.INT32, D.INT16, D.UINT32, D.UINT64)


@st.composite
def situation(draw):
    """A dtype, variables with bounds that hold, and their values."""
    dtype = draw(st.sampled_from(DTYPES))
    known, env = Analyzer(), {}
    for name in "xyz":
        v = Var(name, ScalarType.of(dtype))
        a, b = sorted((draw(edges(dtype)), draw(edges(dtype))))
        if draw(st.booleans()):
            known.bound(v, Interval(a, b))
            env[v] = draw(st.integers(a, b))
        else:
            env[v] = draw(edges(dtype))
    return dtype, known, env


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_folding_and_bounds_agree_with_the_machine(data):
    dtype, known, env = data.draw(situation())
    names = list(env)
    given_condition = data.draw(condition(dtype, names, 1))
    known.assume(given_condition, bool(evaluate(given_condition, env)))
    bound_to = data.draw(expression(dtype, names, 1))
    w = Var("w", ScalarType.of(dtype))
    env[w] = evaluate(bound_to, env)
    known.bind(w, bound_to)
    e = data.draw(expression(dtype, [*names, w]))
    want = evaluate(e, env)
    inside = known.bounds(e)
    assert inside.low <= want <= inside.high
    try:
        folded = Folding(known).expr(e)
    except CompileError:
        return
    assert evaluate(folded, env) == want, (e, folded)
    assert folded.type == e.type
    c = data.draw(condition(dtype, [*names, w]))
    decided = known.decide(c)
    assert decided is None or decided == bool(evaluate(c, env))


def index(name):
    return Var(name, ScalarType.of(D.INDEX))


def test_loop_bounds_decide_comparisons():
    known, i, n = Analyzer(), index("i"), index("n")
    known.assume(scalar.ge(i, ConstInt(0, D.INDEX)))
    known.assume(scalar.lt(i, n))
    assert known.decide(scalar.lt(i, n)) is True
    assert known.decide(scalar.gt(n, ConstInt(0, D.INDEX))) is True
    assert known.decide(scalar.le(scalar.add(i, ConstInt(1, D.INDEX)), n)) is True
    assert known.decide(scalar.lt(scalar.add(i, ConstInt(1, D.INDEX)), n)) is None


def test_what_a_region_learned_is_forgotten():
    known, i = Analyzer(), index("i")
    with known.region():
        known.bound(i, Interval(0, 3))
        assert known.bounds(i) == Interval(0, 3)
    assert known.bounds(i) == range_of(D.INDEX)


def test_quotients_of_bounded_values():
    known, i = Analyzer(), index("i")
    known.bound(i, Interval(0, 15))
    sixteen = ConstInt(16, D.INDEX)
    assert fold(scalar.floordiv(i, sixteen), known).value == 0
    assert fold(scalar.mod(i, sixteen), known) is i
    wide = scalar.mul(i, ConstInt(32, D.INDEX))
    assert fold(scalar.mod(wide, sixteen), known).value == 0
    half = fold(scalar.floordiv(wide, sixteen), known)
    assert isinstance(half, scalar.Mul)
    assert half.left is i
    assert half.right.value == 2


def test_a_sum_that_may_wrap_has_every_value():
    known, x = Analyzer(), index("x")
    assert known.bounds(scalar.mul(scalar.neg(x), ConstInt(1, D.INDEX))) == range_of(D.INDEX)
    known.bound(x, Interval(-3, 5))
    assert known.bounds(scalar.mul(scalar.neg(x), ConstInt(2, D.INDEX))) == Interval(-10, 6)


def test_the_smallest_integer_divided_by_minus_one_wraps():
    known, x = Analyzer(), Var("x", ScalarType.of(D.INT32))
    assert known.bounds(scalar.floordiv(x, ConstInt(-1, D.INT32))) == range_of(D.INT32)
    assert known.bounds(scalar.floordiv(x, ConstInt(-2, D.INT32))) == Interval(-(1 << 30), 1 << 30)


def test_constants_that_sum_to_a_whole_turn_vanish():
    x = Var("x", ScalarType.of(D.UINT32))
    inner = scalar.add(x, ConstInt((1 << 32) - 1, D.UINT32))
    assert fold(scalar.add(inner, ConstInt(1, D.UINT32)), Analyzer()) is x


def test_float_constants_compare_as_they_are_rounded():
    known = Analyzer()
    a, b = ConstFloat(0.1, D.FP32), ConstFloat(0.10000000149011612, D.FP32)
    assert known.decide(scalar.eq(a, b)) is True
    nan = ConstFloat(float("nan"), D.FP32)
    assert known.decide(scalar.eq(nan, nan)) is False
    assert known.decide(scalar.eq(ConstFloat(0.1, D.FP16), ConstFloat(0.1, D.FP16))) is None


@pytest.mark.parametrize("e", [scalar.floordiv, scalar.mod])
def test_constant_zero_divisors_are_errors(e):
    with pytest.raises(CompileError, match="division by zero"):
        fold(e(index("x"), ConstInt(0, D.INDEX)), Analyzer())


def test_casts_of_constants():
    known = Analyzer()
    assert fold(scalar.cast(ConstInt(300, D.INDEX), D.UINT8), known).value == 44
    assert fold(scalar.cast(ConstInt(3, D.INDEX), D.FP32), known).value == 3.0
    big = scalar.cast(ConstInt((1 << 60) + 1, D.INDEX), D.FP32)
    assert fold(big, known) is big  # a double does not hold it: the conversion rounds once, at run time
    assert isinstance(fold(scalar.cast(ConstInt(2, D.INDEX), D.BOOL), known), ConstBool)
