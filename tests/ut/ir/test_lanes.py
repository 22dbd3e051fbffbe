"""Building lane programs: sharing, dead code, and what the builder refuses."""

import pytest

from pypto.dtypes import ALL_DTYPES, DataType
from pypto.ir.lanes import LANE_OF, WIDTH, Builder, LaneProgram, lane_type, program


def twice(b, x, y):
    unused = x * y  # noqa: F841
    return (x + y) * (x + y)


def test_equal_instructions_are_one_and_dead_ones_go():
    p = program(twice, ("f32", "f32"), "f32")
    assert [(i.op, i.args) for i in p.instrs] == [("add", (0, 1)), ("mul", (2, 2))]
    assert p.result == 3
    assert p.type_of(0) == p.result_type == "f32"


def test_a_program_is_traced_once():
    assert program(twice, ("f32", "f32"), "f32") is program(twice, ("f32", "f32"), "f32")


def test_zeros_of_either_sign_are_two_constants():
    b = Builder(("f32",))
    assert b.const(0.0, "f32").number != b.const(-0.0, "f32").number
    assert b.const(float("nan"), "f32").number == b.const(float("nan"), "f32").number


def test_a_result_of_another_type_is_refused():
    with pytest.raises(TypeError, match="gives mask where f32 is stored"):
        program(lambda b, x: x < 0.0, ("f32",), "f32")


@pytest.mark.parametrize(
    "make",
    [
        lambda b: b.op("add", b.const(1, "f32"), b.const(1, "i32")),
        lambda b: b.op("div", b.const(1, "i32"), b.const(1, "i32")),
        lambda b: b.op("tdiv", b.const(1, "f32"), b.const(1, "f32")),
        lambda b: b.op("fma", *[b.const(1, "f64")] * 3),
        lambda b: b.op("neg", b.const(1, "f32"), b.const(1, "f32")),
        lambda b: b.op("select", b.const(1, "i32"), b.const(1, "f32"), b.const(2, "f32")),
        lambda b: b.op("select", b.const(1, "f32") < 2.0, b.const(1, "f32"), b.const(2, "i32")),
        lambda b: b.op("bits", b.const(1, "f32"), type="i16"),
        lambda b: b.op("band", b.const(1, "i32"), b.const(1, "i32")),
        lambda b: b.op("add", b.const(1, "f16"), b.const(1, "f16")),
    ],
)
def test_ill_typed_instructions_are_refused(make):
    with pytest.raises(TypeError):
        make(Builder(()))


def test_every_dtype_with_a_numpy_counterpart_of_whole_bytes_has_a_lane_type():
    for d in ALL_DTYPES:
        if d in LANE_OF:
            assert WIDTH[lane_type(d)] == max(d.get_bit(), 8)
        else:
            with pytest.raises(TypeError, match="not computed with on the host"):
                lane_type(d)
    assert lane_type(DataType.INDEX) == "i64"


def test_programs_are_values():
    a, b = LaneProgram(("f32",), (), 0), LaneProgram(("f32",), (), 0)
    assert a == b
    assert hash(a) == hash(b)
