"""Every argument that does not fit is refused by an error that names function, parameter, expected and got."""

import decimal
import enum
import fractions
import math
import struct

import ml_dtypes
import numpy as np
import pytest

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError, InternalError
from pypto.runtime.plan import KernelPlan, ScalarParam, TensorParam, slot
from pypto.runtime.validate import bind_check, plain_scalar, scalar_value

FP32, BF16 = DataType.FP32, DataType.BF16


def tensor(name, dims=(4, 8), direction="in", dtype=FP32, hidden=False):
    return TensorParam(name, dtype, dims, direction, hidden)


def plan(*params, symbols=(), aliases=(), returns=None):
    return KernelPlan("scale", params, symbols, aliases, returns)


XY = plan(tensor("x"), tensor("y", direction="out"))


def f32(*shape):
    return np.zeros(shape or (4, 8), np.float32)


def address(a):
    return a.__array_interface__["data"][0]


def test_a_call_that_fits_is_prepared():
    p = plan(
        tensor("x", (-1, 8)),
        ScalarParam("s", FP32),
        ScalarParam("n", DataType.UINT64),
        tensor("y", (-1, -2), "out"),
        tensor("h", (-2,), "out", DataType.INT32, True),
        symbols=("N", "M"),
        returns=(3, 4),
    )
    x, y = f32(), f32(4, 3)
    call = bind_check(p, (x, 2.5, 2**64 - 1, y))
    assert call.dims == (4, 3)
    assert call.scalars == (struct.unpack("<q", struct.pack("<d", 2.5))[0], -1)
    hidden = call.arrays[2]
    assert call.pointers == (address(x), address(y), address(hidden))
    assert (hidden.dtype, hidden.tolist()) == (np.dtype(np.int32), [0, 0, 0])
    assert call.result[0] is y
    assert call.result[1] is hidden


@pytest.mark.parametrize(("returns", "want"), [(None, None), ((1,), 1), ((1, 0), (1, 0)), ((0, 0), (0, 0))])
def test_what_a_call_returns(returns, want):
    args = (f32(), f32())
    got = bind_check(XY._replace(returns=returns), args).result
    want = args[want] if isinstance(want, int) else want and tuple(args[i] for i in want)
    assert got is want or all(g is w for g, w in zip(got, want, strict=True))


def refused(error, p, *args):
    with pytest.raises(error) as caught:
        bind_check(p, args)
    assert caught.type is error
    return str(caught.value)


SWAPPED = f32().astype(">f4")


@pytest.mark.parametrize(
    ("error", "x", "words"),
    [
        (ArgumentTypeError, f32().astype(np.float64), ["scale", "'x'", "FP32 [4, 8]", "float64 [4, 8]"]),
        (ArgumentTypeError, f32().astype(np.float16), ["'x'", "FP32", "FP16 [4, 8]"]),
        (ArgumentTypeError, SWAPPED, ["'x'", "'>f4'", "swapped", "astype"]),
        (ArgumentTypeError, 3.0, ["'x'", "FP32 [4, 8]", "float 3.0", "numpy"]),
        (ArgumentTypeError, np.float32(3), ["'x'", "float32"]),
        (ArgumentTypeError, [[1.0] * 8] * 4, ["'x'", "list"]),
        (ArgumentTypeError, None, ["'x'", "NoneType"]),
        (ArgumentTypeError, np.ma.masked_array(f32()), ["scale", "'x'", "mask"]),
        (ArgumentValueError, f32(4, 8, 1), ["'x'", "FP32 [4, 8]", "[4, 8, 1]", "rank 3 instead of 2"]),
        (ArgumentValueError, f32(4, 9), ["'x'", "[4, 9]", "axis 1 has 9 elements instead of 8"]),
        (ArgumentValueError, f32(8, 4).T, ["'x'", "strides (4, 16)", "ascontiguousarray(x)"]),
        (ArgumentValueError, f32(4, 16)[:, ::2], ["'x'", "strides (64, 8)"]),
        (ArgumentValueError, f32()[::-1], ["'x'", "strides (-32, 4)"]),
        (ArgumentValueError, np.broadcast_to(np.float32(1), (4, 8)), ["'x'", "strides (0, 0)"]),
        (ArgumentValueError, np.frombuffer(bytes(129), np.float32, 32, 1).reshape(4, 8), ["'x'", "stride", "alignment", "copy"]),
    ],
)
def test_arrays_that_do_not_fit(error, x, words):
    text = refused(error, XY, x, f32())
    assert all(w in text for w in words), text


@pytest.mark.parametrize(
    "x",
    [
        np.lib.stride_tricks.as_strided(f32(1, 8), (1, 8), (1000, 4)),
        np.lib.stride_tricks.as_strided(f32(0, 8), (0, 8), (-4, 12)),
        np.zeros((1, 8), np.float32, order="F"),
    ],
)
def test_strides_of_axes_without_a_second_element_do_not_matter(x):
    assert bind_check(plan(tensor("x", x.shape)), (x,)).pointers == (address(x),)


def test_a_symbol_is_one_number_and_the_error_says_where_both_came_from():
    p = plan(tensor("x", (-1, 8)), tensor("y", (8, -1), "out"), symbols=("N",))
    assert bind_check(p, (f32(0, 8), f32(8, 0))).dims == (0,)
    text = refused(ArgumentValueError, p, f32(4, 8), f32(8, 5))
    assert all(w in text for w in ("'y'", "FP32 [8, N]", "N is 5 on axis 1", "4 on axis 0 of 'x'")), text


def test_integers_of_one_width_are_one_type():
    p = plan(tensor("x", (3,), dtype=DataType.INT64))
    for t in (np.longlong, np.int64):
        bind_check(p, (np.zeros(3, t),))
    refused(ArgumentTypeError, p, np.zeros(3, np.uint64))


def test_bf16_takes_its_own_dtype_and_uint16():
    p = plan(tensor("x", (3,), dtype=BF16))
    for t in (ml_dtypes.bfloat16, np.uint16):
        bind_check(p, (np.zeros(3, t),))
    for t in (np.int16, np.float16):
        refused(ArgumentTypeError, p, np.zeros(3, t))


@pytest.mark.parametrize("direction", ["out", "inout"])
def test_read_only_outputs(direction):
    locked = f32()
    locked.flags.writeable = False
    p = plan(tensor("x"), tensor("y", direction=direction))
    text = refused(ArgumentValueError, p, f32(), locked)
    assert "'y'" in text
    assert "read-only" in text
    bind_check(p, (locked, f32()))
    text = refused(ArgumentValueError, plan(tensor("y", (4,), direction, DataType.UINT8)), b"abcd")
    assert "its buffer is read-only" in text


BUFFER = np.zeros(256, np.float32)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (BUFFER[:32], BUFFER[31:63]),
        (BUFFER[31:63], BUFFER[:32]),
        (BUFFER[:32], BUFFER[:32]),
        (BUFFER[:32], BUFFER[8:16].repeat(4).view()[:0]),  # an empty array meets nothing
    ],
)
def test_overlap_of_input_and_output(x, y):
    x, y = x.reshape(-1, 8), y.reshape(-1, 8)
    p = plan(tensor("x", x.shape), tensor("y", y.shape, "out"))
    if y.size == 0:
        bind_check(p, (x, y))
        return
    text = refused(ArgumentValueError, p, x, y)
    assert "'x'" in text
    assert "'y'" in text


def test_only_the_same_array_of_a_listed_pair_may_be_passed_twice():
    p = plan(tensor("x"), tensor("y", direction="out"), aliases=((0, 1),))
    same = BUFFER[:32].reshape(4, 8)
    bind_check(p, (same, BUFFER[:32].reshape(4, 8)))
    refused(ArgumentValueError, p, same, BUFFER[1:33].reshape(4, 8))
    other = plan(tensor("x", (-1, -2)), tensor("y", (-2, -1), "out"), symbols=("N", "M"), aliases=((0, 1),))
    refused(ArgumentValueError, other, same, same.reshape(8, 4))


def test_two_outputs_never_share_a_byte():
    p = plan(tensor("a", direction="out"), tensor("b", direction="out"), aliases=((0, 1),))
    text = refused(ArgumentValueError, p, BUFFER[:32].reshape(4, 8), BUFFER[:32].reshape(4, 8))
    assert "'a'" in text
    assert "'b'" in text
    refused(ArgumentValueError, p, BUFFER[:32].reshape(4, 8), BUFFER[31:63].reshape(4, 8))
    bind_check(p, (BUFFER[:32].reshape(4, 8), BUFFER[32:64].reshape(4, 8)))


def test_inputs_may_overlap():
    bind_check(
        plan(tensor("a"), tensor("b"), tensor("y", direction="out")),
        (BUFFER[:32].reshape(4, 8), BUFFER[1:33].reshape(4, 8), f32()),
    )


def test_overlap_across_types():
    p = plan(tensor("x", (4,), dtype=DataType.INT8), tensor("y", (1,), "out"), aliases=((0, 1),))
    raw = np.zeros(4, np.int8)
    refused(ArgumentValueError, p, raw, raw.view(np.float32))


# --- scalars ----------------------------------------------------------------------------------------------------


class Index:
    def __index__(self):
        return 7


class Float:
    def __float__(self):
        return 2.5


class Angry:
    def __float__(self):
        raise ValueError("no")


Color = enum.IntEnum("Color", {"RED": 3})


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (True, True),
        (3, 3),
        (2.5, 2.5),
        (Color.RED, 3),
        (np.float32(3), 3.0),
        (np.float64(3), 3.0),
        (np.float16(0.5), 0.5),
        (np.longdouble(1), 1.0),
        (np.int64(-3), -3),
        (np.uint8(3), 3),
        (np.bool_(True), True),
        (np.array(3), 3),
        (np.array(3.0, np.float32), 3.0),
        (np.array(True), True),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array(1.5, ml_dtypes.bfloat16), 1.5),
        (ml_dtypes.int4(-3), -3),
        (Index(), 7),
        (Float(), 2.5),
        (fractions.Fraction(1, 4), 0.25),
        (decimal.Decimal("0.5"), 0.5),
    ],
)
def test_what_is_a_number(obj, want):
    got = plain_scalar(obj)
    assert (type(got), got) == (type(want), want)


@pytest.mark.parametrize(
    "obj",
    [
        "3",
        b"3",
        None,
        [3.0],
        (3,),
        {},
        3j,
        np.complex64(1),
        np.array([1.0]),
        np.ones((1, 1)),
        np.datetime64(3, "ns"),
        np.str_("3"),
        Angry(),
        object,
    ],
)
def test_what_is_none(obj):
    assert plain_scalar(obj) is None
    with pytest.raises(ArgumentTypeError, match=r"f: 's' expects a scalar of type FP32, got"):
        scalar_value("f", "s", FP32, obj)


def test_integers_are_held_or_refused():
    for dtype, low, high in ((DataType.INT8, -128, 127), (DataType.UINT16, 0, 65535), (DataType.INDEX, -(2**63), 2**63 - 1)):
        for value in (low, high):
            assert scalar_value("f", "n", dtype, value) == value
        for value in (low - 1, high + 1, 10**30, -(10**30)):
            with pytest.raises(ArgumentValueError) as caught:
                scalar_value("f", "n", dtype, value)
            assert all(w in str(caught.value) for w in ("f:", "'n'", dtype.name, str(low), str(high)))
    for value in (1.5, 1.0, np.float32(2)):
        with pytest.raises(ArgumentTypeError, match="'n' expects INDEX, got float"):
            scalar_value("f", "n", DataType.INDEX, value)


def test_bool_takes_bools_and_zero_and_one():
    for value in (True, False, 0, 1, np.bool_(True), np.int8(0)):
        got = scalar_value("f", "b", DataType.BOOL, value)
        assert got is bool(value)
    with pytest.raises(ArgumentValueError, match="'b' expects BOOL"):
        scalar_value("f", "b", DataType.BOOL, 2)
    with pytest.raises(ArgumentTypeError, match="'b' expects BOOL"):
        scalar_value("f", "b", DataType.BOOL, 1.0)


def test_floats_take_integers_and_keep_every_bit():
    assert scalar_value("f", "s", FP32, 3) == 3.0
    assert math.copysign(1, scalar_value("f", "s", FP32, -0.0)) == -1
    assert scalar_value("f", "s", FP32, 1e300) == 1e300
    with pytest.raises(ArgumentValueError, match="'s' expects FP32"):
        scalar_value("f", "s", FP32, 10**400)


@pytest.mark.parametrize(("value", "form"), [(-0.0, "<d"), (1e300, "<d"), (-5, "<q"), (2**64 - 1, "<Q"), (True, "<Q"), (0, "<q")])
def test_slots_carry_the_bits(value, form):
    assert struct.pack("<q", slot(value)) == struct.pack(form, value)


def test_tensors_for_scalars():
    p = plan(ScalarParam("s", FP32))
    text = refused(ArgumentTypeError, p, f32(2, 3))
    assert "'s'" in text
    assert "array of FP32 [2, 3]" in text
    assert "'s'" in refused(ArgumentTypeError, p, bytearray(3))


@pytest.mark.parametrize(
    ("dtype", "static", "fits", "other"), [(DataType.INDEX, 64, np.int8(64), 65), (FP32, math.nan, math.nan, 1.0)]
)
def test_static_scalars_fit_one_value(dtype, static, fits, other):
    p = plan(ScalarParam("n", dtype, static))
    bind_check(p, (fits,))
    assert "'n' was compiled for" in refused(ArgumentValueError, p, other)


def test_the_wrong_number_of_bound_arguments_is_our_mistake():
    with pytest.raises(InternalError):
        bind_check(XY, (f32(),))
