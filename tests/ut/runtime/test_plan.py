"""Launch plans: their bytes, and that nothing inconsistent gets through."""

import random

import msgpack
import pytest

from pypto.dtypes import DataType
from pypto.errors import InternalError, SerializationError
from pypto.runtime.plan import KernelPlan, ScalarParam, Site, TensorParam, check, limits

X = TensorParam("x", DataType.FP32, (-1, 64), "in")
Y = TensorParam("y", DataType.FP32, (-1, 64), "out")
S = ScalarParam("s", DataType.FP32)
FULL = KernelPlan(
    "scale",
    (X, S, ScalarParam("n", DataType.INDEX, 64), Y, TensorParam("t", DataType.BF16, (-1,), "out", hidden=True)),
    ("N",),
    ((0, 3),),
    (3, 4),
    4096,
    1 << 20,
    (Site("bounds", "rows {0} to {1} of {2}", 0, 7), Site("memory", "no memory", 1, 2)),
)


def test_round_trip_is_exact():
    data = FULL.to_bytes()
    again = KernelPlan.from_bytes(data)
    assert again == FULL
    assert again.to_bytes() == data
    assert [type(p) for p in again.params] == [type(p) for p in FULL.params]
    assert all(isinstance(s, Site) for s in again.sites)


@pytest.mark.parametrize("value", [-0.0, float("inf"), 2.5])
def test_static_floats_keep_their_bits(value):
    plan = KernelPlan("k", (ScalarParam("s", DataType.FP32, value),))
    (p,) = KernelPlan.from_bytes(plan.to_bytes()).params
    assert repr(p.static) == repr(value)


def test_visible_parameters_are_those_a_caller_passes():
    assert [p.name for p in FULL.visible()] == ["x", "s", "n", "y"]


def test_pairs_name_what_may_not_overlap():
    a, b = (TensorParam(n, DataType.FP32, (8,), "in") for n in "ab")
    c, d = (TensorParam(n, DataType.FP32, (8,), "out") for n in "cd")
    half = TensorParam("h", DataType.FP16, (8,), "in")
    plan = KernelPlan("k", (a, b, c, S, d, half), aliases=((0, 2), (2, 4), (2, 5)))
    # Two inputs never meet; two outputs and arrays of different types never may be the same.
    assert set(plan.pairs()) == {
        (0, 2, True),
        (0, 4, False),
        (1, 2, False),
        (1, 4, False),
        (2, 4, False),
        (2, 5, False),
        (4, 5, False),
    }


def test_an_inout_counts_as_written():
    io = TensorParam("z", DataType.FP32, (8,), "inout")
    assert KernelPlan("k", (io, TensorParam("x", DataType.FP32, (8,), "in"))).pairs() == ((0, 1, False),)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(DataType.INT4, -8, 7), (DataType.UINT8, 0, 255), (DataType.INDEX, -(2**63), 2**63 - 1), (DataType.UINT64, 0, 2**64 - 1)],
)
def test_limits(dtype, low, high):
    assert limits(dtype) == (low, high)


T8 = TensorParam("x", DataType.FP32, (8,), "in")
HIDDEN = TensorParam("h", DataType.FP32, (8,), "out", True)
BROKEN = {
    "name": KernelPlan(3, ()),
    "twice": KernelPlan("k", (T8, T8)),
    "symbol nobody has": KernelPlan("k", (T8,), ("N",)),
    "symbol only a hidden one has": KernelPlan("k", (T8, TensorParam("h", DataType.FP32, (-1,), "out", True)), ("N",)),
    "unknown symbol": KernelPlan("k", (X,), ()),
    "extent that is a bool": KernelPlan("k", (TensorParam("x", DataType.FP32, (True,), "in"),)),
    "extent beyond 64 bits": KernelPlan("k", (TensorParam("x", DataType.FP32, (2**63,), "in"),)),
    "rank": KernelPlan("k", (TensorParam("x", DataType.FP32, (1,) * 33, "in"),)),
    "direction": KernelPlan("k", (TensorParam("x", DataType.FP32, (8,), "sideways"),)),
    "hidden input": KernelPlan("k", (TensorParam("x", DataType.FP32, (8,), "in", True),)),
    "hidden not last": KernelPlan("k", (HIDDEN, T8)),
    "scalar type": KernelPlan("k", (ScalarParam("s", DataType.TASK_ID),)),
    "static type": KernelPlan("k", (ScalarParam("n", DataType.INT8, 1.0),)),
    "static bool for int": KernelPlan("k", (ScalarParam("n", DataType.INT8, True),)),
    "static range": KernelPlan("k", (ScalarParam("n", DataType.INT8, 128),)),
    "alias order": KernelPlan("k", (T8, Y._replace(dims=(8,))), (), ((1, 0),)),
    "alias of a scalar": KernelPlan("k", (T8, S), (), ((0, 1),)),
    "alias of nothing": KernelPlan("k", (T8,), (), ((0, 1),)),
    "returns a scalar": KernelPlan("k", (T8, S), returns=(1,)),
    "returns nothing": KernelPlan("k", (T8,), returns=()),
    "scratch": KernelPlan("k", (), scratch_bytes=-1),
    "work": KernelPlan("k", (), work=1.5),
    "site kind": KernelPlan("k", (), sites=(Site("weather", "", 0, 0),)),
    "site place": KernelPlan("k", (), sites=(Site("empty", "", 0, None),)),
    "template reaches out": KernelPlan("k", (), sites=(Site("empty", "{0.__class__}", 0, 0),)),
    "template index": KernelPlan("k", (), sites=(Site("empty", "{4}", 0, 0),)),
    "template format": KernelPlan("k", (), sites=(Site("empty", "{0:>999999999}", 0, 0),)),
    "template syntax": KernelPlan("k", (), sites=(Site("empty", "{", 0, 0),)),
}


@pytest.mark.parametrize("plan", BROKEN.values(), ids=BROKEN)
def test_broken_plans_are_internal_errors_when_made_and_serialization_errors_when_read(plan):
    with pytest.raises(InternalError, match="launch plan"):
        check(plan)
    params = [
        ("t", p.name, p.dtype.code(), p.dims, p.direction, p.hidden)
        if isinstance(p, TensorParam)
        else ("s", p.name, p.dtype.code(), p.static)
        for p in plan.params
    ]
    data = msgpack.packb([1, plan.name, params, *plan[2:7], [tuple(s) for s in plan.sites]])
    with pytest.raises(SerializationError):
        KernelPlan.from_bytes(data)


def test_every_truncation_and_other_versions_are_one_typed_error():
    data = FULL.to_bytes()
    for n in range(len(data)):
        with pytest.raises(SerializationError):
            KernelPlan.from_bytes(data[:n])
    for other in (b"", data + b"x", msgpack.packb([2, *msgpack.unpackb(data)[1:]]), msgpack.packb({"a": 1}), msgpack.packb(None)):
        with pytest.raises(SerializationError):
            KernelPlan.from_bytes(other)


def test_damaged_bytes_give_a_plan_or_the_typed_error():
    data, draw = FULL.to_bytes(), random.Random(1)
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(data))] = draw.randrange(256)
        try:
            check(KernelPlan.from_bytes(bytes(damaged)))
        except SerializationError:
            continue


def test_announced_sizes_are_not_believed():
    for hostile in (b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 5000):
        with pytest.raises(SerializationError):
            KernelPlan.from_bytes(hostile)
