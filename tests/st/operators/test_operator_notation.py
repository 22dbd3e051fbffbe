"""Ways of writing an operator that the other tables do not use: arguments by place, names of other levels, what converts.

Each is one kernel of a unit; numpy, the interpreter and native code agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from operator_kit import ASSEMBLE, OPTIMIZED, PLAIN, STORE, WITHOUT_BUFFERS, Result, Unit, check

from pypto.dtypes import DataType
from pypto.errors import Error

Array = Any
D = DataType
SHAPE = (8, 64)
_LOADED, _CUT = "pl.load(x, [0, 0], [8, 64])", "pl.slice(x, [8, 64], [0, 0])"
_NARROW = "u = pl.cast({0}, pl.{1})"


def _inserted(a: Any, numpy: Any) -> Array:
    """A window of numbers that both kinds of halves round, some beyond FP16."""
    with np.errstate(over="ignore"):
        made = a["x"].astype(numpy)
        made[2:6, 16:48] = a["y"][1:5, 0:32].astype(numpy)
    return made


# name, lines, value, dtype, shape, what numpy gives, how it is stored
CASES: list[tuple[tuple[str, ...], str, DataType, tuple[int, int], Callable[[Any], Array], str]] = [
    ((), "pl.full([8, 64], pl.FP16, 1.5)", D.FP16, SHAPE, lambda a: np.full(SHAPE, 1.5, np.float16), ASSEMBLE),
    ((), "pl.tensor.full([8, 64], pl.INT32, -7)", D.INT32, SHAPE, lambda a: np.full(SHAPE, -7, np.int32), ASSEMBLE),
    ((), "pl.tile.full([8, 64], pl.INT32, 7)", D.INT32, SHAPE, lambda a: np.full(SHAPE, 7, np.int32), STORE),
    ((), "pl.tensor.arange(5, [1, 64])", D.INT32, (1, 64), lambda a: np.arange(5, 69, dtype=np.int32)[None], ASSEMBLE),
    (
        ("d = pl.cast(pl.cast(pl.dim(x, -1) * 10 + pl.dim(x, 0), pl.INT32), pl.FP32)",),
        f"pl.expands({_LOADED}, d)",
        D.FP32,
        SHAPE,
        lambda a: np.full(SHAPE, 648, np.float32),
        STORE,
    ),
    *(
        (
            (_NARROW.format(_LOADED, dtype.name), "w = pl.load(y, [1, 0], [4, 32])"),
            f"pl{space}.assemble(u, w, [2, 16])",
            dtype,
            SHAPE,
            lambda a, numpy=numpy: _inserted(a, numpy),
            STORE,
        )
        for dtype, numpy in ((D.BF16, ml_dtypes.bfloat16), (D.FP16, np.float16))
        for space in ("", ".tile")
    ),
]


def test_notation(tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    x, y = (rng.normal(0, 300, SHAPE).astype(np.float32) for _ in range(2))
    y[2, :6] = 65519.0, 65520.0, 1e38, np.nan, -np.inf, 1.00390625
    kernels = [[Result(value, lines, value, d, shape, want, store=store)] for lines, value, d, shape, want, store in CASES]
    inputs = {n: (SHAPE, D.FP32) for n in ("x", "y")}
    check(Unit("notation", inputs, kernels), tmp_path, [{"x": x, "y": y}], ways=(OPTIMIZED, PLAIN, *WITHOUT_BUFFERS))


def test_a_tensor_of_halves_takes_no_singles(tmp_path: Path) -> None:
    """Only a tile of halves rounds what is put into it."""
    result = Result(
        "",
        (f"u = pl.cast({_CUT}, pl.BF16)",),
        "pl.assemble(u, pl.slice(x, [4, 32], [0, 0]), [0, 0])",
        D.BF16,
        SHAPE,
        None,
        store=ASSEMBLE,
    )
    kernel = Unit("refused", {"x": (SHAPE, D.FP32)}, [[result]]).load(tmp_path)
    with pytest.raises(Error, match="cannot assemble fp32") as e:
        kernel(np.zeros(SHAPE, np.float32), np.zeros((8, 96), ml_dtypes.bfloat16))
    assert "pl.cast" in e.value.hint
