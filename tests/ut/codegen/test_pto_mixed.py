"""Kernels of both cores as `.pto` text: a module of two functions that run to the bit as the kernel does in one piece."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from pto_grammar import check
from pto_lab import run_text, same_bits

from pypto.debug import run
from pypto.enums import MemoryPlanner
from pypto.errors import CompileError, NotSupportedError
from pypto.ir.program import Program
from pypto.ir.verify.cores import is_mixed
from pypto.jit.device_text import device_text
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower, split_program

ROOT = Path(__file__).resolve().parents[3]
F16, F32 = np.float16, np.float32
PLANNERS = [pytest.param(p, id=p.name) for p in MemoryPlanner]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def normal(*shape: int, dtype: Any = F32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def linear(rows: int) -> tuple[Any, list[np.ndarray]]:
    args = [normal(rows, 128, dtype=F16), normal(128, 128, dtype=F16, seed=1), normal(1, 128), np.zeros((rows, 128), F16)]
    return example("linear").linear, args


def attention(queries: int, keys: int) -> tuple[Any, list[np.ndarray]]:
    args = [normal(queries, 64), normal(keys, 64, seed=1), normal(keys, 64, seed=2), np.zeros((queries, 64), F32)]
    return example("flash_attention").attention, args


def program(kernel: Any, args: Sequence[np.ndarray]) -> Program:
    made = kernel.specialize(*args)
    assert isinstance(made, Program)
    return made


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("name", "made"),
    [("linear", linear(1)), ("linear", linear(50)), ("attention", attention(1, 1)), ("attention", attention(40, 100))],
)
def test_both_cores_together_give_the_kernels_bits(name: str, made: tuple[Any, list[np.ndarray]], planner: MemoryPlanner) -> None:
    kernel, args = made
    options, addressed = PassOptions(memory_planner=planner), planner is not MemoryPlanner.PTOAS
    low = lower(program(kernel, args), options)
    split = split_program(low.whole, options)
    want, interpreted, got = ([a.copy() for a in args] for _ in range(3))
    run(low.host, name, want)
    run(split, name, interpreted)
    same_bits(interpreted, want, f"{name} told apart, {planner.name}")
    ran = run_text(split, name, got, addressed)
    same_bits(got, want, f"{name} as text, {planner.name}")
    assert not ran.refused
    assert ran.executed["tmatmul"] > 0
    (text,) = device_text(low.host, options, False, low.whole).modules.values()
    check(text, addressed)
    assert text.count("func.func") == 2
    assert text.count("pto.kernel_kind<cube>") == text.count("pto.kernel_kind<vector>") == 1
    assert text == device_text(low.host, options, False, low.whole).modules[next(iter(ran.texts)).removesuffix("_aic")]


def test_tiles_of_which_nothing_may_be_valid_are_counted_all_the_same() -> None:
    """Something is passed always; what is less than that is cut from the slot where it is used."""
    kernel, args = attention(40, 100)
    options = PassOptions()
    low = lower(program(kernel, args), options)
    (text,) = device_text(low.host, options, False, low.whole).modules.values()
    pushed = [line for line in text.split("\n") if "pto.tpush_to_aiv" in line]
    popped = [line for line in text.split("\n") if "pto.tpop_from_aic" in line]
    assert (len(pushed), len(popped)) == (2, 4)  # lane 1 takes what lane 0 takes
    assert "pto.tpop_from_aic(" in popped[0]
    assert any("pto.subview" in line and "scores" not in line for line in text.split("\n"))


def test_equal_text_in_every_process() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_pto_mixed import *\n"
        "made = [lower(program(*linear(50)), PassOptions(memory_planner=p)) for p in MemoryPlanner]\n"
        "print([device_text(m.host, PassOptions(memory_planner=p), True, m.whole).shown() for m, p in zip(made, MemoryPlanner)])"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(texts) == 1
    assert texts.pop().count("func.func") == 2 * len(MemoryPlanner)


@pytest.mark.parametrize("planner", PLANNERS)
def test_what_cannot_be_told_apart_has_no_text_and_runs(planner: MemoryPlanner) -> None:
    import pypto.language as pl

    @pl.jit
    def both(a: pl.Tensor[[32, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            x = pl.matmul(a, a)
            o[:] = x
            o[:] = pl.exp(x)
        return o

    options = PassOptions(memory_planner=planner)
    low = lower(both.specialize(np.zeros((32, 32), F32), np.zeros((32, 32), F32)), options)
    (kernel,) = [f for f in low.whole.function_list if f.is_device]
    assert is_mixed(kernel)
    made = device_text(low.host, options, True, low.whole)
    assert not made.modules
    (why,) = made.refused.values()
    assert isinstance(why, (NotSupportedError, CompileError))
    assert why.location is not None
    with pytest.raises(type(why)):
        made.shown()
