"""Windows and other views of an entry's parameters, outside of kernels: nothing is copied, and nothing is mixed up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab import everywhere

import pypto.language as pl
from pypto.errors import Error, NotSupportedError


@pl.jit
def seen_turned(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    w = pl.transpose(x, 0, 1)
    v = pl.slice(w, [32, 16], [64, 8])
    u = pl.transpose(q, 1, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = v + 1.0
    with pl.at(level=pl.Level.CORE_GROUP):
        p[:] = pl.matmul(y, w, out_dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        u[:] = x + 1.0
    return o, p, q


def test_a_tensor_is_seen_turned_outside_of_kernels() -> None:
    """Nothing is copied: what a kernel writes into it lands in the tensor."""
    x, y = ((np.arange(n * 128) % 97).astype(np.float32).reshape(n, 128) for n in (48, 16))
    outputs = [np.zeros(s, np.float32) for s in ((32, 16), (16, 48), (128, 48))]
    o, p, q = everywhere(seen_turned, x, y, *outputs)[2:]
    assert (o == x.T[64:96, 8:24] + 1).all()
    assert (p == y @ x.T).all()
    assert (q == x.T + 1).all()


@pl.jit
def window_returned(x: pl.Tensor):
    return pl.slice(x, [8, 8], [0, 0])


@pl.jit
def turned_returned(x: pl.Tensor):
    return pl.transpose(x, 0, 1)


@pl.jit
def relabel_returned(x: pl.Tensor):
    return pl.reshape(x, [64, 4])


@pytest.mark.parametrize("kernel", [window_returned, turned_returned, relabel_returned])
def test_what_is_returned_is_the_array_or_refused(kernel: Any) -> None:
    with pytest.raises(NotSupportedError, match="window or a view of a parameter"):
        kernel(np.zeros((16, 16), np.float32))


@pl.jit
def shifted(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    w = pl.slice(x, [32, 32], [0, 0])
    v = pl.slice(o, [32, 32], [16, 0])
    with pl.at(level=pl.Level.CORE_GROUP):
        v[:] = w + 1.0
    return o


@pl.jit
def turned_into(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    w = pl.transpose(x, 0, 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = w + 1.0
    return o


@pytest.mark.parametrize("kernel", [shifted, turned_into])
def test_windows_of_one_array_that_is_read_and_written_are_refused(kernel: Any) -> None:
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)[:32] if kernel is turned_into else np.zeros((64, 32), np.float32)
    with pytest.raises(Error, match="the same array"):
        kernel(x, x)


@pl.jit
def turned_onto_itself(x: pl.InOut[pl.Tensor]):
    y = pl.transpose(x, 0, 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, 32, 8):
            x[i : i + 8, :] = y[i : i + 8, :] * 2.0
    return x


@pl.jit
def moved_on(x: pl.InOut[pl.Tensor]):
    a, b = x[0:16, :], x[1:17, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        b[:] = a * 2.0
    return x


@pl.jit.incore
def doubled_block(a: pl.Tensor, b: pl.Out[pl.Tensor]):
    b = pl.store(pl.load(a, [0, 0], [8, 32]) * 2.0, [0, 0], b)
    return b


@pl.jit
def moved_on_by_a_launch(x: pl.InOut[pl.Tensor]):
    b = x[1:9, :]
    for _ in pl.range(2):
        b = doubled_block(x, b)
    return x


@pl.jit.opaque
def passes_on(a: pl.Tensor, b: pl.Out[pl.Tensor]):
    b = doubled_block(a, b)
    return b


@pl.jit
def moved_on_by_a_stage(x: pl.InOut[pl.Tensor]):
    b = x[1:9, :]
    b = passes_on(x, b)
    return x


@pytest.mark.parametrize("kernel", [turned_onto_itself, moved_on, moved_on_by_a_launch, moved_on_by_a_stage])
def test_a_kernel_that_is_given_memory_twice_reads_all_of_a_tile_before_it_writes(kernel: Any) -> None:
    x = np.random.default_rng(1).standard_normal((32, 32), dtype=np.float32)
    want = x.copy()
    if kernel is turned_onto_itself:
        for i in range(0, 32, 8):
            want[i : i + 8] = want.T[i : i + 8].copy() * 2
    elif kernel is moved_on:
        want[1:17] = want[:16].copy() * 2
    else:
        for _ in range(2 if kernel is moved_on_by_a_launch else 1):
            want[1:9] = want[:8].copy() * 2
    (got,) = everywhere(kernel, x)
    np.testing.assert_array_equal(got, want)
