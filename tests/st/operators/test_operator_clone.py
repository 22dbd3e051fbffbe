"""expand_clone: a tensor repeated along one axis, into all of another tensor, whichever axis it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import operator_data as data
import pytest
from lab import BRIEF, DEFAULT, agree, everywhere
from operator_kit import import_text

from pypto.dtypes import DataType
from pypto.errors import Error
from pypto.ir.ops.rules import MOVABLE

Array = Any
D = DataType
SHAPE = (4, 32, 64)  # columns of it are whole blocks for every dtype
KERNEL = """import pypto.language as pl


@pl.jit
def clones(
    x: pl.Tensor[[1, 32, 64], pl.{0}],
    y: pl.Tensor[[4, 1, 64], pl.{0}],
    z: pl.Tensor[[4, 32, 1], pl.{0}],
    a: pl.Out[pl.Tensor[[4, 32, 64], pl.{0}]],
    b: pl.Out[pl.Tensor[[4, 32, 64], pl.{0}]],
    c: pl.Out[pl.Tensor[[4, 32, 64], pl.{0}]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.expand_clone(x, a)
        pl.expand_clone(y, b)
        c = pl.tensor.expand_clone(z, c)
    return a, b, c
"""


def operands(dtype: DataType) -> list[Array]:
    x, y = data.pair(dtype, (4, 32 * 64), 61)
    x, y = x.reshape(SHAPE), y.reshape(SHAPE)
    return [np.ascontiguousarray(v) for v in (x[:1], x[:, :1], y[:, :, :1])]


@pytest.mark.parametrize("dtype", MOVABLE, ids=lambda d: d.name)
def test_every_axis(dtype: DataType, tmp_path: Path) -> None:
    kernel = import_text("clones", KERNEL.format(dtype.name), tmp_path)
    given = operands(dtype)
    want = [np.ascontiguousarray(np.broadcast_to(v, SHAPE)) for v in given]
    ways = BRIEF if dtype is D.FP32 else (DEFAULT,)
    made = everywhere(kernel, *given, *(np.zeros(SHAPE, dtype.numpy()) for _ in want), ways=ways)
    for got, wanted in zip(made[3:], want, strict=True):
        assert got.tobytes() == wanted.tobytes()


COMPUTED = """import pypto.language as pl

N = pl.dynamic("N")


@pl.jit
def computed(x: pl.Tensor[[1, 8, 64], pl.FP32], o: pl.Out[pl.Tensor[[N, 8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o = pl.expand_clone(pl.mul(x, 2.0), o)
    return o
"""


def test_a_computed_source_and_an_extent_of_run_time(tmp_path: Path) -> None:
    kernel = import_text("computed", COMPUTED, tmp_path)
    x = data.ordinary(D.FP32, (1, 8, 64), np.random.default_rng(62))
    calls = [(x, np.full((n, 8, 64), 7, np.float32)) for n in (3, 2, 0, 5)]
    for (_, o), (_, got) in zip(calls, agree(kernel, *calls), strict=True):
        assert got.tobytes() == np.repeat(x * 2, len(o), axis=0).tobytes()


REFUSED = """import pypto.language as pl


@pl.jit
def refused(x: pl.Tensor[[1, 8, 64], pl.FP32], y: pl.Tensor[[8, 64], pl.FP32], o: pl.Out[pl.Tensor[[4, 8, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o = {}
    return o
"""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("pl.expand_clone(y, o)", ("rank 3", "pl.reshape")),
        ("pl.expand_clone(pl.slice(x, [1, 4, 64], [0, 0, 0]), o)", ("[1, 4, 64]", "[4, 8, 64]", "one axis")),
        ("pl.expand_clone(pl.slice(x, [1, 1, 64], [0, 0, 0]), o)", ("one axis",)),
        ("pl.expand_clone(pl.cast(x, pl.FP16), o)", ("dtype", "pl.cast")),
        ("pl.assemble(o, pl.expand_clone(x, pl.create_tensor([4, 8, 64], pl.FP32)), [0, 0, 0])", ("global memory", "parameter")),
        ("pl.expand_clone(pl.load(y, [0, 0], [8, 64]), o)", ("mix",)),
    ],
)
def test_refusals(call: str, words: tuple[str, ...], tmp_path: Path) -> None:
    x, y = np.zeros((1, 8, 64), np.float32), np.zeros((8, 64), np.float32)
    with pytest.raises(Error) as e:
        import_text("refused", REFUSED.format(call), tmp_path)(x, y, np.zeros((4, 8, 64), np.float32))
    for word in words:
        assert word in str(e.value), str(e.value)
