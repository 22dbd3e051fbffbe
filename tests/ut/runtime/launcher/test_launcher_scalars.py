"""Scalars, results, hidden outputs: the same for the C launcher and for ctypes."""

import sys

import ml_dtypes
import numpy as np
import pytest
from launcher_kit import COUNT, FP32, INDEX, Index, Slow, Sub, echo_plan, f32, tensor

from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime.plan import MISSING, KernelPlan, ScalarParam


class Float:
    def __float__(self):
        return 2.5


def bits(value):
    return int(np.float64(value).view(np.int64))


@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        (FP32, 2.5, bits(2.5)),
        (FP32, -0.0, bits(-0.0)),
        (FP32, float("inf"), bits(np.inf)),
        (FP32, 3, bits(3)),
        (FP32, True, bits(1)),
        (FP32, -1, bits(-1)),
        (FP32, -1.0, bits(-1)),
        (FP32, np.float32(0.1), bits(np.float32(0.1))),
        (FP32, np.float64(0.1), bits(0.1)),
        (FP32, np.array(2.5), bits(2.5)),
        (FP32, Float(), bits(2.5)),
        (FP32, ml_dtypes.bfloat16(1.5), bits(1.5)),
        (DataType.FP16, 1e300, bits(1e300)),
        (FP32, 10**400, None),
        (FP32, "2", None),
        (FP32, None, None),
        (FP32, [2.0], None),
        (FP32, 2j, None),
        (FP32, np.ones(1), None),
        (INDEX, 5, 5),
        (INDEX, -(2**63), -(2**63)),
        (INDEX, 2**63, None),
        (INDEX, -1, -1),
        (INDEX, True, 1),
        (INDEX, np.int8(-3), -3),
        (INDEX, np.array(4), 4),
        (INDEX, Index(), 7),
        (INDEX, 1.0, None),
        (INDEX, np.float32(1), None),
        (INDEX, Float(), None),
        (DataType.UINT64, 2**64 - 1, -1),
        (DataType.UINT64, 2**63, -(2**63)),
        (DataType.UINT64, 2**64, None),
        (DataType.UINT64, -1, None),
        (DataType.INT8, 127, 127),
        (DataType.INT8, -128, -128),
        (DataType.INT8, 128, None),
        (DataType.INT8, -129, None),
        (DataType.UINT8, 255, 255),
        (DataType.UINT8, 256, None),
        (DataType.UINT8, 2**70, None),
        (DataType.BOOL, True, 1),
        (DataType.BOOL, np.bool_(False), 0),
        (DataType.BOOL, 1, 1),
        (DataType.BOOL, 2, None),
        (DataType.BOOL, -1, None),
        (DataType.BOOL, 1.0, None),
    ],
)
def test_scalars(backend, entry, dtype, value, want):
    filler = tuple(ScalarParam(f"f{i}", INDEX) for i in range(3))
    slow, e = Slow(), entry(echo_plan(ScalarParam("v", dtype), *filler), "echo")
    d = backend.Dispatcher(slow, ("y", "v", "f0", "f1", "f2"), (MISSING, MISSING, 1, 2, 3))
    d.add(e)
    y = np.zeros(8, np.int64)
    if want is None:
        assert d(y, value) == "slow"
        with pytest.raises((ArgumentTypeError, ArgumentValueError), match="'v'"):
            e.call((y, value, 1, 2, 3))
        assert not y.any()
        return
    assert d(y, value) is None
    assert y[:4].tolist() == [want, 1, 2, 3]


@pytest.mark.parametrize(
    ("dtype", "static", "fits", "other"),
    [
        (INDEX, 64, (64, np.int16(64)), (65, 64.0)),
        (FP32, 0.0, (0.0, 0), (-0.0,)),
        (FP32, float("nan"), (float("nan"), -float("nan")), (1.0,)),
        (DataType.BOOL, True, (True, 1), (False,)),
        (DataType.UINT64, 2**64 - 1, (2**64 - 1,), (-1, 2**63)),
    ],
)
def test_static_scalars(backend, entry, dtype, static, fits, other):
    filler = tuple(ScalarParam(f"f{i}", INDEX) for i in range(3))
    d = backend.Dispatcher(Slow(), ("y", "v", "f0", "f1", "f2"), (MISSING, MISSING, 1, 2, 3))
    d.add(entry(echo_plan(ScalarParam("v", dtype, static), *filler), "echo"))
    assert all(d(np.zeros(8, np.int64), v) is None for v in fits)
    assert all(d(np.zeros(8, np.int64), v) == "slow" for v in other)


def test_a_tensor_for_a_scalar_and_the_reverse(affine):
    x = f32(3)
    assert affine.call(x, x, 0, x) == "slow"
    assert affine.call(2.0, 2.0, 0, x) == "slow"


# --- results, hidden outputs, entry.call ---------------------------------------------------------------------------


@pytest.mark.parametrize(("returns", "want"), [(None, None), ((0,), 0), ((2,), 2), ((2, 0), (2, 0)), ((0, 0), (0, 0))])
def test_what_a_call_returns(backend, entry, returns, want):
    d = backend.Dispatcher(Slow(), ("x", "n", "y"), (MISSING,) * 3)
    d.add(entry(COUNT._replace(returns=returns), "count"))
    args = (f32(4, 8), 1, f32(4, 8).view(Sub))
    got = d(*args)
    if not isinstance(want, tuple):
        assert got is (None if want is None else args[want])
        return
    assert type(got) is tuple
    assert all(g is args[i] for g, i in zip(got, want, strict=True))


def test_hidden_outputs_are_fresh_zeros(backend, entry):
    p = KernelPlan("twice", (tensor("x", (-1,)), tensor("h", (-1,), "out", hidden=True)), ("N",), returns=(0, 1))
    d = backend.Dispatcher(Slow(), ("x",), (MISSING,))
    d.add(entry(p, "twice"))
    x = np.arange(5, dtype=np.float32)
    first, second = d(x), d(x)
    assert first[0] is x
    for got in (first[1], second[1]):
        assert (got.dtype, got.tolist()) == (np.dtype(np.float32), [0, 2, 4, 6, 8])
    assert not np.shares_memory(first[1], second[1])
    assert sys.getrefcount(first[1]) <= 3
    assert d(f32(0))[1].shape == (0,)
    only = entry(p._replace(returns=(1,)), "twice")
    assert only.call((x,)).tolist() == [0, 2, 4, 6, 8]


def test_entry_call_runs_whatever_guards_say_and_names_what_does_not_fit(entry):
    e = entry(COUNT, "count", guards=(("call", lambda: False),), context_token=object())
    y = f32(4, 8)
    assert e.call((f32(4, 8), 1, y)) is y
    assert y[0, 0] == 1
    with pytest.raises(ArgumentValueError, match=r"count: 'x' expects FP32 \[4, 8\]"):
        e.call((f32(4, 9), 1, y))
    with pytest.raises(ArgumentValueError, match=r"'x' and 'y' are the same array"):
        e.call((y, 1, y))
    with pytest.raises(ArgumentTypeError, match="'n'"):
        e.call((f32(4, 8), 1.5, y))
    assert y[0, 0] == 1


def test_an_entry_shows_what_it_was_made_of(entry, kernels):
    guards, token = (("call", bool),), object()
    e = entry(COUNT, "count", guards=guards, context_token=token)
    assert e.plan is COUNT
    assert e.keepalive.library is kernels
    assert e.guards is guards
    assert e.context_token is token
