"""A call returns whatever its function returns: temporaries too, several of one kernel, whatever their names are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto.language as pl

M = pl.dynamic("M")


@pl.jit
def of_two_kernels(a: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = a * 2.0
    with pl.at(level=pl.Level.CORE_GROUP):
        c = a + 1.0
    return b, c


@pl.jit
def of_one_kernel(a: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = a * 2.0
        c = a + 1.0
    return b, c


@pl.jit
def used_and_returned(a: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = a * 2.0
        c = a + 1.0
    with pl.at(level=pl.Level.CORE_GROUP):
        d = b + c
    return b, c, d, b


@pl.jit
def of_blocks(a: pl.Tensor[[M, 64], pl.FP32]):
    b = pl.create_tensor([M, 64], dtype=pl.FP32)
    c = pl.create_tensor([M, 64], dtype=pl.FP32)
    for i in pl.parallel(0, M, 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.slice(a, [4, 64], [i, 0])
            b = pl.assemble(b, rows * 2.0, [i, 0])
            c = pl.assemble(c, rows + 1.0, [i, 0])
    return b, c


@pl.jit
def of_names_that_are_taken(ret0_out: pl.Tensor, ret0_out_1: pl.FP32):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = ret0_out * 2.0
    with pl.at(level=pl.Level.CORE_GROUP):
        c = ret0_out + 1.0
    return b, c


@pl.jit
def beside_a_parameter(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.create_tensor([16, 64], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.assemble(t, a * 2.0, [0, 0])
        out = pl.assemble(out, a + 1.0, [0, 0])
    return t, out


@pl.jit
def carried_by_a_loop(a: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = a * 1.0
    for _ in pl.range(3):
        with pl.at(level=pl.Level.CORE_GROUP):
            b = b + a
    return b


@pl.jit
def carried_by_no_trip(a: pl.Tensor, n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        b = a * 1.0
    for _ in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            b = b + a
    return b


@pl.jit
def of_a_branch(a: pl.Tensor, n: pl.INDEX):
    if n > 0:
        with pl.at(level=pl.Level.CORE_GROUP):
            b = a * 2.0
    else:
        with pl.at(level=pl.Level.CORE_GROUP):
            b = a + 1.0
    return b


@pl.jit
def a_window(a: pl.Tensor):
    t = pl.create_tensor([16, 64], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.assemble(t, a * 2.0, [0, 0])
    return t[4:8, 16:48], t


@pytest.fixture
def a() -> Any:
    return np.arange(1024, dtype=np.float32).reshape(16, 64)


@pytest.mark.parametrize("kernel", [of_two_kernels, of_one_kernel, of_blocks], ids=lambda k: k.__name__)
def test_made_values_are_returned(kernel: Any, a: Any) -> None:
    b, c = kernel(a)
    assert np.array_equal(b, a * 2)
    assert np.array_equal(c, a + 1)


def test_a_value_that_is_also_used_and_returned_twice(a: Any) -> None:
    b, c, d, again = used_and_returned(a)
    assert np.array_equal(b, a * 2)
    assert np.array_equal(c, a + 1)
    assert np.array_equal(d, a * 3 + 1)
    assert np.array_equal(again, b)


def test_names_of_results_are_nobodys_business(a: Any) -> None:
    b, c = of_names_that_are_taken(a, 3)
    assert np.array_equal(b, a * 2)
    assert np.array_equal(c, a + 1)


def test_a_temporary_beside_a_parameter(a: Any) -> None:
    out = np.zeros_like(a)
    t, same = beside_a_parameter(a, out)
    assert np.array_equal(t, a * 2)
    assert np.array_equal(out, a + 1)
    assert np.shares_memory(same, out)


def test_what_control_flow_chooses(a: Any) -> None:
    assert np.array_equal(carried_by_a_loop(a), a * 4)
    for n in range(3):
        assert np.array_equal(carried_by_no_trip(a, n), a * (n + 1))
    assert np.array_equal(of_a_branch(a, 1), a * 2)
    assert np.array_equal(of_a_branch(a, 0), a + 1)


def test_a_window_of_a_temporary_is_an_array_of_its_own(a: Any) -> None:
    window, whole = a_window(a)
    assert np.array_equal(window, a[4:8, 16:48] * 2)
    assert np.array_equal(whole, a * 2)
    assert not np.shares_memory(window, whole)
