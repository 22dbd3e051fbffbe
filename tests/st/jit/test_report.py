"""The report of a kernel's loops says what its C does: bytes, operations, what is one loop and why the rest is not."""

import re

import numpy as np
import pytest

import pypto.language as pl
from pypto.codegen.native.report import report
from pypto.codegen.native.unit import generate
from pypto.errors import ConfigError
from pypto.jit.driver import lower_request

ROWS, COLS = 16, 64
SIZE = ROWS * COLS * 4


@pl.jit
def chain(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = (a + b) * b + a
    return out


@pl.jit
def centered(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sub(a, pl.col_expand(a, pl.col_sum(a)))
    return out


@pl.jit
def linear(a: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.relu(pl.matmul(a, w))
    return out


@pl.jit
def walked(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(a, [4 * i, 0], [4, COLS])
            pl.store(pl.exp(t), [4 * i, 0], out)
    return out


def arrays(n, shape=(ROWS, COLS)):
    return [np.full(shape, 0.5, np.float32) for _ in range(n)]


def of(kernel, *args):
    request = kernel._request(kernel._arguments(args, {}), None)
    lowered = lower_request(request)
    return report(lowered.host, generate(lowered.host, request.entry), lowered.stays)


def test_one_loop_reads_every_operand_once_and_writes_in_place():
    (k,) = of(chain, *arrays(3))
    assert k.stage == "Buffer"
    assert [loop.phases for loop in k.loops] == [(("add", "mul", "add", "store"),)]
    assert k.left_out == (("load", 2),)
    assert (k.total(False), k.total(True)) == (2 * SIZE, SIZE)
    assert (k.total(False, on_chip=True), k.total(True, on_chip=True)) == (0, 0)
    assert k.operations == 3 * ROWS * COLS


def test_a_result_of_the_last_row_ends_a_loop_and_the_report_says_which():
    (k,) = of(centered, *arrays(2))
    assert len(k.loops) == 2
    assert re.fullmatch(r"(\w+) reads what col_sum has only after the last row", k.loops[0].apart)
    assert k.loops[1].apart is None
    assert k.total(False) == 2 * SIZE


def test_products_count_twice_their_three_extents():
    a, w, out = np.ones((32, 64), np.float32), np.ones((64, 16), np.float32), np.zeros((32, 16), np.float32)
    (k,) = of(linear, a, w, out)
    first = next(loop for loop in k.loops if ("matmul",) in loop.phases)
    assert first.operations.value == 2 * 32 * 64 * 16
    assert first.apart == "matmul is a loop of its own"


def test_totals_count_the_trips_of_loops():
    reports = of(walked, *arrays(2))
    assert [k.total(True) for k in reports] == [SIZE // 4]


def test_the_text_is_a_stage_and_needs_no_compilation(tmp_path, monkeypatch):
    monkeypatch.setenv("PYPTO_CC", "/nonexistent/cc")
    text = chain.inspect("report", *arrays(3))
    assert "add, mul, add, store" in text
    assert f"a call reads {2 * SIZE:,} bytes, writes {SIZE:,} bytes, on chip 0 bytes" in text


def test_without_optimizations_every_operation_is_a_loop(monkeypatch):
    monkeypatch.setenv("PYPTO_NATIVE_OPT", "0")
    text = chain.inspect("report", *arrays(3))
    assert "line" in text
    assert "add, mul" not in text


@pl.jit
def blocks(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    for b in pl.spmd(4):
        out = pl.store(pl.load(a, [4 * b, 0], [4, COLS]), [4 * b, 0], out)
    return out


@pl.jit
def overlapping(a: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.parallel(0, 12, 4):
            out[k : k + 5, :] = a[k : k + 5, :] * 2.0
    return out


def test_only_what_could_be_shared_is_told_about(monkeypatch):
    """Whether it is depends on the kernel; a kernel without parallel loops and blocks is not blamed for it."""
    assert "threads" not in chain.inspect("report", *arrays(3))
    assert "threads share blocks of a launch" in blocks.inspect("report", *arrays(2))
    why = "threads share no trips of its loop: 'out' is written where another one may write"
    assert why in overlapping.inspect("report", *arrays(2))
    monkeypatch.setenv("PYPTO_NATIVE_OPT", "0")
    assert "threads share no blocks of a launch: optimizations are off" in blocks.inspect("report", *arrays(2))


def test_a_compilation_leaves_all_it_came_to(tmp_path, monkeypatch):
    monkeypatch.setenv("PYPTO_DUMP", str(tmp_path / "dump"))
    monkeypatch.setenv("PYPTO_CACHE", "off")
    compiled = chain.compile(*arrays(3))
    (folder,) = (tmp_path / "dump").iterdir()
    assert folder.name.startswith("chain-")
    assert (folder / "kernel.c").read_text() == compiled.inspect("c")
    assert (folder / "report.txt").read_text() == compiled.inspect("report")
    assert (folder / "chain_incore_0.pto").read_text().startswith("module")
    passes = sorted(p.name for p in (folder / "passes").iterdir())
    assert passes[0] == "00_frontend.py"
    assert passes[-1].endswith("LowerTileToBuffer.py")


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYPTO_DUMP", str(tmp_path / "file"))
    monkeypatch.setenv("PYPTO_CACHE", "off")
    with pytest.raises(ConfigError, match="PYPTO_DUMP"):
        centered.compile(*arrays(2))
