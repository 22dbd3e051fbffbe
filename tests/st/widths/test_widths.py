"""Native code for older processors gives the bits of the code for this one: every operator's loops, products, tails, threads.

Each kernel is compiled for this processor and for levels that it reaches: AVX2, and what every processor of the kind has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from lab import arrays, assert_same_bits, copies, environment
from width_kernels import CASES, Case

from pypto.config import TARGET_CPU
from pypto.errors import ConfigError
from pypto.jit.compiled import CompiledProgram
from pypto.runtime.processor import cpu_features, made_for

LEVELS = ("x86-64-v3", "x86-64") if os.uname().machine == "x86_64" else ("armv8-a",)


def reached(level: str) -> bool:
    with environment(**{TARGET_CPU.name: level}):
        try:
            made_for(cpu_features())
        except ConfigError:
            return False
    return True


def built(cases: Sequence[Case], level: str) -> list[CompiledProgram]:
    """By as many compilers as there is room for."""
    with environment(**{TARGET_CPU.name: level}), ThreadPoolExecutor() as pool:
        return list(pool.map(lambda case: case.kernel.compile(*case.calls[0]), cases))


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: make() for name, make in CASES.items()}


@pytest.fixture(scope="module")
def wanted(cases: dict[str, Case]) -> dict[str, list[list[np.ndarray]]]:
    """What code for this processor gives."""
    return {n: results(k, cases[n]) for n, k in zip(cases, built([*cases.values()], "native"), strict=True)}


@pytest.fixture(scope="module", params=[pytest.param(v, marks=() if reached(v) else pytest.mark.skip(f"no {v}")) for v in LEVELS])
def kernels(request: pytest.FixtureRequest, cases: dict[str, Case]) -> dict[str, CompiledProgram]:
    return dict(zip(cases, built([*cases.values()], request.param), strict=True))


def results(kernel: CompiledProgram, case: Case) -> list[list[np.ndarray]]:
    found = []
    for call in case.calls:
        given: list[Any] = copies(call)
        kernel(*given)
        found.append(arrays(given))
    return found


@pytest.mark.parametrize("name", CASES)
def test_bits_of_another_width(
    name: str, cases: dict[str, Case], wanted: dict[str, list[list[np.ndarray]]], kernels: dict[str, CompiledProgram]
) -> None:
    for n, (got, want) in enumerate(zip(results(kernels[name], cases[name]), wanted[name], strict=True)):
        assert_same_bits(got, want, f"call {n}")


def test_every_call_writes_every_output(cases: dict[str, Case], wanted: dict[str, list[list[np.ndarray]]]) -> None:
    for name, case in cases.items():
        for call, after in zip(case.calls, wanted[name], strict=True):
            pairs = [*zip(arrays(call), after, strict=True)]
            changed = [before.tobytes() != got.tobytes() for before, got in pairs]
            assert changed == [n >= len(pairs) - case.outputs for n in range(len(pairs))], name
