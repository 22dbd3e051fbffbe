"""The order of reductions is part of the result: 64 lanes by column, then halves; rows one after the other."""

import numpy as np
import oracle
import pytest
from kit import OUT, Kernel

from pypto.debug import interpret
from pypto.dtypes import DataType as D
from pypto.ir import ops


def reduce(name, x, valid=None):
    dtype = {np.dtype(np.float32): D.FP32, np.dtype(np.float16): D.FP16}.get(x.dtype, D.INT16)
    k = Kernel()
    a = k.tensor("a", list(x.shape), dtype)
    t = k.load(a, [0, 0], list(x.shape), valid)
    tmp = (
        [] if all(o.optional for o in ops.get(f"tile.{name}").operands[1:]) else [k.op("tile.create", list(x.shape), dtype=dtype)]
    )
    call = k.call(f"tile.{name}", t, *tmp)
    shape = [d.value for d in call.type.shape]
    o = k.tensor("o", shape, call.type.dtype, OUT)
    return interpret(k.done(k.store(k.let(call), [0, 0], o)), [x, np.zeros(shape, call.type.dtype.numpy())])


@pytest.mark.parametrize("columns", [1, 5, 63, 64, 65, 80, 127, 128, 300])
@pytest.mark.parametrize("name", ["row_sum", "row_prod", "col_sum", "col_prod"])
def test_finite_data_combine_in_the_stated_order(name, columns):
    rng = np.random.default_rng(columns)
    # Numbers of many magnitudes, so that every other order gives other bits somewhere.
    spread = 8.0 if name.endswith("sum") else 0.1
    x = (rng.normal(size=(40, columns)) * 2.0 ** rng.uniform(-spread, spread, (40, columns))).astype(np.float32)
    if name == "col_sum":
        x = np.ascontiguousarray(x[:, :7])
    assert reduce(name, x).tobytes() == oracle.reduction(name, x).tobytes()


@pytest.mark.parametrize("name", ["row_sum", "row_prod", "col_sum", "col_prod"])
def test_halves_accumulate_in_binary32_and_round_once(name):
    x = np.random.default_rng(5).normal(size=(30, 200)).astype(np.float16)
    if name == "col_prod":
        x = x[:12]
    got = reduce(name, x)
    assert got.dtype == np.float16
    assert got.tobytes() == oracle.reduction(name, x).astype(np.float16).tobytes()
    assert reduce("row_sum", np.ones((16, 2560), np.float16)).tolist() == [[2560]] * 16
    assert reduce("col_sum", np.ones((2560, 16), np.float16)).tolist() == [[2560] * 16]


def test_a_sum_of_negative_zeros_is_one():
    x = np.full((8, 16), -0.0, np.float32)
    assert np.signbit(reduce("row_sum", x)).all()
    assert np.signbit(reduce("col_sum", x)).all()
    x[:, 3] = 0.0
    assert not np.signbit(reduce("row_sum", x)).any()


@pytest.mark.parametrize("dead", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize(("row", "want"), [((-5, -3, -7), (-3, -7, -15, -105, 1, 2)), ((5, 3, 7), (7, 3, 15, 105, 2, 1))])
def test_padding_takes_no_part(row, want, dead):
    x = np.full((8, 8), dead, np.float32)
    x[:, :3] = row
    names = ("max", "min", "sum", "prod", "argmax", "argmin")
    for name, value in zip(names, want, strict=True):
        assert reduce(f"row_{name}", x, [8, 3]).tolist() == [[value]] * 8
        columns = reduce(f"col_{name}", np.ascontiguousarray(x.T), [3, 8])
        assert columns.tolist() == [[value] * 8]


def test_ties_take_the_first():
    x = np.float32([[1, 3, 3, -2, -2, 3], [np.nan, 5, np.nan, -9, 5, 0]])
    assert reduce("row_argmax", x).tolist() == [[1], [0]]
    assert reduce("row_argmin", x).tolist() == [[3], [0]]
