"""Every operator that has an instruction, as text that runs to the bit as the interpreter: for each element type it takes."""

from __future__ import annotations

import numpy as np
import pytest
from pto_lab import WAYS, agree, kernel
from pto_memory import DTYPES
from pto_table_kernels import arrays, table_kernel, taken
from pto_tables import CONVERSIONS

from pypto.enums import MemoryPlanner

_BATCH = 24


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "ui32", "i16", "ui16", "i8", "ui8"])
def test_elementwise_and_reductions(dtype: str) -> None:
    chosen = taken(dtype)
    executed: set[str] = set()
    for first in range(0, len(chosen), _BATCH):
        batch = chosen[first : first + _BATCH]
        for ran in agree(table_kernel(dtype, batch), "k", arrays(dtype, len(batch)), ways=WAYS[1::2]):
            assert not ran.refused, ran.refused
            executed |= ran.executed.keys()
    assert {op.pto for op in chosen} <= executed


def test_buffer_forms() -> None:
    """Where kernels are chosen for Buffer IR, the same instructions are written from buffers."""
    names = "add sub mul div maximum minimum abs exp sqrt neg relu log recip adds subs muls divs maximums minimums lrelu"
    chosen = [op for op in taken("f32") if op.concept in names.split()]
    assert len(chosen) == len(names.split())
    for ran in agree(table_kernel("f32", chosen), "k", arrays("f32", len(chosen)), ways=WAYS[::2]):
        assert not ran.refused
        assert {op.pto for op in chosen} <= ran.executed.keys()


MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")


@pytest.mark.parametrize("source", sorted(CONVERSIONS["a2a3"]))
def test_conversions(source: str) -> None:
    """All pairs of the chip, in every mode and in none."""
    s = DTYPES[source]
    targets = [t for t in CONVERSIONS["a2a3"][source].split() if t != source]
    outs = ", ".join(f"o_{t}: pl.Out[pl.Tensor[[64, 32], pl.{DTYPES[t].name}]]" for t in targets)
    lines = ["t = pl.load(x, [0, 0], [8, 32])"]
    for t in targets:
        for i, mode in enumerate((None, *MODES)):
            given = "" if mode is None else f", mode='{mode}'"
            lines.append(f"pl.store(pl.cast(t, pl.{DTYPES[t].name}{given}), [{i * 8}, 0], o_{t})")
    p = kernel("k", f"x: pl.Tensor[[8, 32], pl.{s.name}], {outs}", "\n".join(lines))
    numbers = np.concatenate([np.arange(128) / 4 - 20, np.arange(128) * 1.0037 - 70]).reshape(8, 32)
    x = numbers.astype(s.numpy()) if s.is_float() else np.arange(-128, 128).reshape(8, 32).astype(s.numpy())
    for ran in agree(p, "k", [x, *(np.zeros((64, 32), DTYPES[t].numpy()) for t in targets)], ways=WAYS[1::2]):
        assert not ran.refused
        assert ran.executed["tcvt"] == 8 * len(targets)


def test_high_precision() -> None:
    x = np.abs(np.random.default_rng(1).standard_normal((16, 32))).astype(np.float32) + 0.5
    body = """
    t = pl.load(x, [0, 0], [16, 32])
    a = pl.div(t, pl.mul(t, 3.0), high_precision=True)
    b = pl.log(a, high_precision=True)
    pl.store(pl.recip(b, high_precision=True), [0, 0], o)
    """
    p = kernel("k", "x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]", body)
    for ran in agree(p, "k", [x, np.zeros_like(x)]):
        for name in ("div", "log", "recip"):
            assert f"{{precisionType = #pto<{name}_precision high_precision>}}" in ran.texts["k"]


def test_rows_known_at_run_time() -> None:
    """Each of several kinds of operators on as many rows as a number says, none included."""
    body = """
    t = pl.load(x, [0, 0], [16, 32], valid_shape=[n, m])
    w = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
    u = pl.exp(pl.add(t, t))
    s = pl.row_max(u, w)
    d = pl.row_expand_sub(u, s)
    pl.store(d, [0, 0], o)
    pl.store(pl.fillpad(t, pad_value=pl.PadValue.max), [16, 0], o)
    """
    params = (
        "x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]], n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX]"
    )
    x = np.random.default_rng(2).standard_normal((16, 32)).astype(np.float32)
    calls = [[x, np.full((32, 32), -777, np.float32), n, m] for n, m in ((16, 32), (5, 20), (1, 1), (0, 32))]
    for ran in agree(kernel("k", params, body), "k", *calls):
        assert not ran.refused


@pytest.mark.parametrize("planner", list(MemoryPlanner), ids=lambda p: p.name)
def test_in_place_and_apart(planner: MemoryPlanner) -> None:
    """Chains in which tiles die one after the other, so that planners let results take the places of operands."""
    body = """
    t = pl.load(x, [0, 0], [16, 32])
    for i in pl.range(3):
        t = pl.recip(pl.adds(pl.abs(t), 1.0))
    pl.store(pl.mul(t, t), [0, 0], o)
    """
    x = np.random.default_rng(3).standard_normal((16, 32)).astype(np.float32)
    p = kernel("k", "x: pl.Tensor[[16, 32], pl.FP32], o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]", body)
    agree(p, "k", [x, np.zeros_like(x)], ways=[(planner, True), (planner, False)])
