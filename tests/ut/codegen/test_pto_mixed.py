"""Kernels of both cores as `.pto` text: a module of two functions that run to the bit as the kernel does in one piece."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from pto_grammar import check
from pto_lab import Ran, run_text, same_bits

import pypto.language as pl
from pypto.codegen.pto import module_of
from pypto.debug import run
from pypto.enums import ForKind, MemoryPlanner
from pypto.errors import CompileError, InternalError, NotSupportedError
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt
from pypto.ir.verify.cores import is_mixed
from pypto.jit.device_text import device_text
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower, split_program
from pypto.target import chip_of

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


def agree(kernel: Any, name: str, args: Sequence[np.ndarray], options: PassOptions) -> tuple[Ran, str]:
    """The kernel in one piece, told apart, and as text, to the bit; the text, which the judge has nothing against."""
    addressed, arch = options.memory_planner is not MemoryPlanner.PTOAS, chip_of(options.platform).name
    low = lower(program(kernel, args), options)
    split = split_program(low.whole, options)
    want, interpreted, got = ([a.copy() for a in args] for _ in range(3))
    run(low.host, name, want)
    run(split, name, interpreted)
    same_bits(interpreted, want, f"{name} told apart, {options}")
    ran = run_text(split, name, got, addressed, arch)
    same_bits(got, want, f"{name} as text, {options}")
    assert not ran.refused
    assert ran.executed["tmatmul"] > 0
    (text,) = device_text(low.host, options, False, low.whole).modules.values()
    check(text, addressed)
    assert text.count("func.func") == 2
    assert text.count("pto.kernel_kind<cube>") == text.count("pto.kernel_kind<vector>") == 1
    assert text == module_of([f for f in split.function_list if f.is_device], arch, addressed, False)
    return ran, text


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("name", "made"),
    [("linear", linear(1)), ("linear", linear(50)), ("attention", attention(1, 1)), ("attention", attention(40, 100))],
)
def test_both_cores_together_give_the_kernels_bits(
    name: str, made: tuple[Any, list[np.ndarray]], planner: MemoryPlanner, platform: str
) -> None:
    _, text = agree(made[0], name, made[1], PassOptions(memory_planner=planner, platform=platform))
    boxed = re.findall(r"pto\.tpush_to_aic.*slayout=(\w+)", text)
    assert set(boxed) == ({"none_box" if platform == "a2a3sim" else "row_major"} if name == "attention" else set())


def round_trip(rows: int, cols: int, mode: pl.SplitMode, explicit: bool) -> tuple[Any, list[np.ndarray]]:
    """A product, something of it for each lane, and the product of that."""
    A, B, C = (pl.Tensor[list(s), pl.FP32] for s in ((rows, rows), (rows, cols), (cols, cols)))

    @pl.jit
    def asked(a: A, b: B, c: C, o: pl.Out[B]):
        with pl.at(level=pl.Level.CORE_GROUP):
            x = pl.matmul(a, b)
            for _ in pl.split_aiv(2, mode=mode):
                y = pl.aic_gather(pl.exp(pl.aiv_shard(x)))
            o[:, :] = pl.matmul(y, c)
        return o

    @pl.jit
    def auto(a: A, b: B, c: C, o: pl.Out[B]):
        with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(mode)]):
            y = pl.exp(pl.matmul(a, b))
            o[:, :] = pl.abs(pl.matmul(y, c))
        return o

    args = [normal(*s, seed=i) / 8 for i, s in enumerate(((rows, rows), (rows, cols), (cols, cols)))]
    return asked if explicit else auto, [*args, np.zeros((rows, cols), F32)]


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("explicit", [True, False], ids=["asked", "auto"])
@pytest.mark.parametrize("mode", [pl.SplitMode.UP_DOWN, pl.SplitMode.LEFT_RIGHT], ids=["up_down", "left_right"])
def test_lanes_share_what_is_passed(mode: pl.SplitMode, explicit: bool, platform: str, planner: MemoryPlanner) -> None:
    kernel, args = round_trip(32, 32, mode, explicit)
    _, text = agree(kernel, kernel.__name__, args, PassOptions(memory_planner=planner, platform=platform))
    code = mode.value
    assert re.findall(r"pto\.(tp\w+).*\{split = (\d)\}", text)[:1] == [("tpush_to_aiv", str(code))]


@pl.jit
def softmax_by_lane(q: pl.Tensor, k: pl.Tensor, bias: pl.Tensor, out: pl.Out[pl.Tensor], largest: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scores = pl.matmul(q, k, b_trans=True)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            s = pl.aiv_shard(scores) + bias[lane * 16 : lane * 16 + 16, :]
            top = pl.row_max(s)
            e = pl.exp(pl.row_expand_sub(s, top))
            p = pl.aic_gather(pl.row_expand_div(e, pl.row_sum(e)))
            largest[lane * 16 : lane * 16 + 16, :] = pl.exp(bias[lane * 16 : lane * 16 + 16, :])
        out[:] = pl.matmul(p, k)
    return out, largest


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
def test_what_regions_say_of_lanes_is_not_halved_again(platform: str, planner: MemoryPlanner) -> None:
    """Scratch tiles, loads and stores of a lane are its own already."""
    args = [normal(32, 16), normal(32, 16, seed=1), normal(32, 32, seed=2), np.zeros((32, 16), F32), np.zeros((32, 32), F32)]
    agree(softmax_by_lane, "softmax_by_lane", args, PassOptions(memory_planner=planner, platform=platform))


@pytest.mark.parametrize("explicit", [True, False], ids=["asked", "auto"])
def test_halves_of_boxes_have_no_text_on_a5(explicit: bool) -> None:
    kernel, args = round_trip(16, 32, pl.SplitMode.UP_DOWN, explicit)
    agree(kernel, kernel.__name__, args, PassOptions(platform="a2a3sim"))
    options = PassOptions(platform="a5sim")
    low = lower(program(kernel, args), options)
    (why,) = device_text(low.host, options, False, low.whole).refused.values()
    assert isinstance(why, NotSupportedError)
    assert "8 x 32 elements of fp32, no whole 16 x 8 boxes" in why.message
    assert why.location is not None
    assert why.location.filename == __file__


# -- products of what the vector core computed --


@pl.jit
def computed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.exp(pl.matmul(pl.exp(a), pl.exp(b), out_dtype=pl.FP32))
    return o


@pl.jit
def computed_first(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(pl.exp(a), b, out_dtype=pl.FP32, a_trans=True, b_trans=True)
    return o


@pl.jit
def computed_second(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, pl.exp(b), out_dtype=pl.FP32, b_trans=True)
    return o


@pl.jit
def of_weights(q: pl.Tensor, k: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        weights = pl.exp(pl.matmul(q, k, b_trans=True, out_dtype=pl.FP32))
        o[:] = pl.matmul(pl.cast(weights, pl.FP16), k, out_dtype=pl.FP32)
    return o


COMPUTED = {
    "batch": (computed, (3, 16, 32), (3, 32, 24), (3, 16, 24), F32),
    "few rows": (computed, (5, 16), (16, 32), (5, 32), F32),
    "few rows of a batch": (computed, (2, 20, 16), (16, 32), (2, 20, 32), F16),
    "turned": (computed_first, (32, 16), (20, 32), (16, 20), F32),
    "turned batch": (computed_first, (2, 32, 16), (1, 20, 32), (2, 16, 20), F16),
    "few columns, turned": (computed_second, (16, 32), (20, 32), (16, 20), F32),
    "batch of batches": (of_weights, (2, 2, 8, 16), (2, 2, 48, 16), (2, 2, 8, 16), F16),
}


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("name", list(COMPUTED))
def test_matrices_of_the_vector_core(name: str, platform: str, planner: MemoryPlanner) -> None:
    """It copies each matrix into whole boxes, and passes one after the other."""
    kernel, a, b, o, dtype = COMPUTED[name]
    args = [normal(*a, dtype=dtype) / 2, normal(*b, dtype=dtype, seed=1) / 2, np.zeros(o, F32)]
    _, text = agree(kernel, kernel.__name__, args, PassOptions(memory_planner=planner, platform=platform))
    pushed = re.findall(r"pto\.tpush_to_aic.*rows=(\d+), cols=(\d+)", text)
    assert pushed
    assert all(int(rows) % 16 == 0 for rows, _ in pushed)


@pl.jit
def with_bias(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
        pl.store(pl.add(pl.matmul(x, y), pl.matmul_bias(x, y, pl.exp(pl.load(c, [0, 0], [1, 32])))), [0, 0], o)
    return o


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_row_of_the_vector_core(planner: MemoryPlanner) -> None:
    """One row is no box: it lies in the cube core's memory as it was loaded there."""
    args = [normal(32, 64), normal(64, 32, seed=1), normal(1, 32, seed=2), np.zeros((32, 32), F32)]
    _, text = agree(with_bias, "with_bias", args, PassOptions(memory_planner=planner))
    assert re.search(r"tpop_from_aiv .*loc=mat, dtype=f32, rows=1, cols=32, .*blayout=row_major, slayout=none_box", text)
    options = PassOptions(memory_planner=planner, platform="a5sim")
    low = lower(program(with_bias, args), options)
    (why,) = device_text(low.host, options, False, low.whole).refused.values()
    assert "is passed as 1 x 32 elements of fp32, no whole 16 x 8 boxes" in why.message
    assert "pl.Mem.Mat" in str(why)
    assert why.location is not None


def test_two_computed_operands_that_are_turned_have_no_text() -> None:
    @pl.jit
    def both(a: pl.Tensor, o: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            x = pl.exp(a)
            o[:] = pl.matmul(x, pl.abs(a), out_dtype=pl.FP32, a_trans=True, b_trans=True)
        return o

    low = lower(program(both, [normal(32, 32), np.zeros((32, 32), F32)]), PassOptions())
    (why,) = device_text(low.host, PassOptions(), False, low.whole).refused.values()
    assert "'x_tile_Mat' comes from the vector core and is needed beyond its slot in the pipe" in why.message
    assert why.location is not None
    assert "pl.matmul(x, pl.abs(a)" in str(why)


# -- pipelined loops --


@pl.jit
def one_way(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
        for i in pl.pipeline(0, 4, stage=3):
            x = pl.load(a, [i * 32, 0], [32, 32], target_memory=pl.Mem.Mat)
            pl.store(pl.exp(pl.matmul(x, w)), [i * 32, 0], o)
    return o


@pl.jit
def there_and_back(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
        for i in pl.pipeline(0, 4, stage=2):
            x = pl.load(a, [i * 32, 0], [32, 32], target_memory=pl.Mem.Mat)
            pl.store(pl.matmul(pl.exp(pl.matmul(x, w)), w), [i * 32, 0], o)
    return o


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("kernel", [one_way, there_and_back])
def test_a_pipelined_loop_goes_trip_by_trip_on_each_core(kernel: Any, planner: MemoryPlanner) -> None:
    args = [normal(128, 32) / 8, normal(32, 32, seed=1) / 8, np.zeros((128, 32), F32)]
    options = PassOptions(memory_planner=planner)
    _, text = agree(kernel, kernel.__name__, args, options)
    assert text.count("pto.tmatmul ") == (1 if kernel is one_way else 2)
    whole = lower(program(kernel, args), options).whole
    kinds = [
        {s.kind for f in p.function_list for s in walk(f.body) if isinstance(s, ForStmt)}
        for p in (whole, split_program(whole, options))
    ]
    assert kinds == [{ForKind.Pipeline}, {ForKind.Sequential}]


# -- launches over blocks --

M = pl.dynamic("M")
ROWS = pl.Tensor[[M, 32], pl.FP32]


@pl.jit
def four_blocks(a: ROWS, o: pl.Out[ROWS]):
    for b in pl.spmd(4):
        o[b * 32 : b * 32 + 32, :] = pl.exp(pl.matmul(a[b * 32 : b * 32 + 32, :], a[0:32, :]))
    return o


@pl.jit
def blocks_as_rows_want(a: ROWS, o: pl.Out[ROWS]):
    for b in pl.spmd(a.shape[0] // 32):
        o[b * 32 : b * 32 + 32, :] = pl.exp(pl.matmul(a[b * 32 : b * 32 + 32, :], a[0:32, :]))
    return o


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("kernel", [four_blocks, blocks_as_rows_want], ids=["constant", "run time"])
def test_each_block_passes_tiles_through_memory_of_its_own(kernel: Any, planner: MemoryPlanner) -> None:
    args = [normal(128, 32) / 8, np.zeros((128, 32), F32)]
    ran, text = agree(kernel, kernel.__name__, args, PassOptions(memory_planner=planner))
    assert text.count("pto.addptr") == 2
    by_block: dict[int, set[tuple[int, int]]] = {}
    for block, _, place in ran.slots:
        by_block.setdefault(block, set()).add(place)
    assert sorted(by_block) == [0, 1, 2, 3]
    places = sorted(place for (place,) in by_block.values())  # both cores and both lanes: one place
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(places))
    assert {end - begin for begin, end in places} == {2 * 32 * 32 * 4}


def test_one_block_asks_for_no_row() -> None:
    kernel, args = linear(50)
    ran, text = agree(kernel, "linear", args, PassOptions())
    assert "addptr" not in text
    assert ran.slots


# -- what breaks --


def test_what_breaks_hurts_who_asks_for_the_text(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Native code comes all the same, with the reason among its files; whoever wants the text gets the error."""

    @pl.jit
    def product(a: pl.Tensor[[32, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:, :] = pl.adds(pl.matmul(a, a), 0.8125)
        return o

    def breaks(*_: Any, **__: Any) -> Any:
        raise InternalError("in pass ExpandMixedKernel: it broke (input in /tmp/somewhere)") from AssertionError("no such tile")

    a = normal(32, 32)
    low = lower(program(product, [a, a.copy()]), PassOptions())
    monkeypatch.setattr("pypto.jit.device_text.split_program", breaks)
    made = device_text(low.host, PassOptions(), True, low.whole)
    (name,) = made.broken
    assert (made.modules, made.refused) == ({}, {})
    assert made.reasons() == {name: "internal error: AssertionError: no such tile"}
    with pytest.raises(InternalError, match=f"no .pto text of '{name}': in pass ExpandMixedKernel: it broke"):
        made.shown()
    with caplog.at_level(logging.ERROR):
        compiled = product.compile(a, a.copy())
    assert "no such tile" in caplog.text
    want, got = ([a, np.zeros((32, 32), F32)] for _ in range(2))
    compiled(*got)
    run(low.host, "product", want)
    same_bits(got, want, "as native code")
    assert f"'{name}' has no .pto text: internal error: AssertionError: no such tile" in compiled.inspect("ptoas")
    with pytest.raises(InternalError, match="it broke"):
        compiled.inspect("pto")


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


# -- a core without work --


@pl.jit
def product_for_nobody(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        _unread = pl.matmul(a, b, out_dtype=pl.FP32)
        o = pl.assemble(o, pl.neg(a), [0, 0])  # not returned: the kernel ends without a return


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
def test_a_core_may_have_nothing_to_do(platform: str) -> None:
    options = PassOptions(platform=platform)
    args = [normal(16, 16), normal(16, 16, seed=1), np.zeros((16, 16), F32)]
    low = lower(program(product_for_nobody, args), options)
    split = split_program(low.whole, options)
    ran = run_text(split, "product_for_nobody", args, True, chip_of(platform).name)
    same_bits(args[2:], [-args[0]], "the other core")
    assert not ran.refused
    assert ran.executed["tmatmul"] == 0
    (text,) = device_text(low.host, options, False, low.whole).modules.values()
    assert text.count("pto.kernel_kind<cube>") == text.count("pto.kernel_kind<vector>") == 1
