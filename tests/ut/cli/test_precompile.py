"""`pypto precompile`: files, modules and lists; exit codes; what is printed."""

from __future__ import annotations

import json
from queue import SimpleQueue

import pytest

import pypto
from pypto.cli.main import main

KERNELS = """
import pypto.language as pl
from pypto.passes import MemoryPlanner, PassContext

@pl.jit
def doubled(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, FACTOR)
    return y

FACTOR = 2.0
also = doubled

@pl.program
class Doubling:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
        t = pl.load(x, [0, 0], [16, 64])
        out = pl.store(pl.add(t, t), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
        out = self.double(x, out)
        return out
"""
BARE = """
import pypto.language as pl

@pl.jit
def bare(x: pl.Tensor, y: pl.Out[pl.Tensor], n: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64], valid_shape=[16, n])
        y = pl.store(t, [0, 0], y)
    return y

X = pl.Tensor[[16, 64], pl.FP32]
WANTED = [(bare, X, X, pl.RUNTIME), bare.request(pl.Tensor[[32, 64], pl.FP32], X, 3)]
WRONG = [bare.request(X, X, 3), 7]
"""
BAD = """
import pypto.language as pl

@pl.jit
def bad(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.no_such_op(x, 2.0)
    return y
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    for name, text in (("kernels.py", KERNELS), ("bare.py", BARE), ("bad.py", BAD)):
        (tmp_path / name).write_text(text)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/inner.py").write_text(KERNELS.replace("2.0", "3.0"))
    (tmp_path / "package/failing.py").write_text("import no_such_module_at_all\n")
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*args):
        code = main(["precompile", "--workers", "0", *args])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_all_that_is_in_a_file(run):
    code, out, err = run("kernels.py")
    assert (code, out) == (0, "2 kernels: 2 compiled, 0 were in the cache, 0 failed\n")
    assert "[2/2]" in err
    before = pypto.cache_stats().builds
    assert run("kernels.py:doubled")[:2] == (0, "1 kernels: 0 compiled, 1 were in the cache, 0 failed\n")
    assert pypto.cache_stats().builds == before
    code, out, _ = run("kernels.py", "--planner", "ptoas", "--no-buffer-ir", "--json")
    found = json.loads(out)
    assert code == 0
    assert [(k["kernel"], k["outcome"], k["stored"]) for k in found["kernels"]] == [
        ("doubled", "built", True),
        ("Doubling", "built", True),
    ]
    assert found["cache"].endswith("/cache")


def test_modules_and_lists(run):
    assert run("package.inner:doubled", "kernels.py:doubled")[1].startswith("2 kernels: 2 compiled")
    assert run("bare.py:WANTED")[1].startswith("2 kernels: 2 compiled")
    assert run("bare.py", "--arg", "x=fp32[16,64]", "--arg", "y=fp32[16,64]", "--arg", "n=5")[1].startswith("1 kernels: 0 comp")


def test_kernels_that_are_wrong(run):
    code, out, err = run("bad.py", "kernels.py:doubled")
    assert (code, out) == (1, "2 kernels: 1 compiled, 0 were in the cache, 1 failed\n")
    assert "bad.py:7:" in err
    assert "^" in err
    code, out, _ = run("bad.py", "--json")
    assert code == 1
    assert "no_such_op" in json.loads(out)["kernels"][0]["error"]
    code, _, err = run("package.failing")
    assert code == 1
    assert "no_such_module_at_all" in err
    assert run("kernels.py:doubled", "--platform", "a5")[0] == 1  # no compiler for the device is here


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["bare.py"], "kernel 'bare' needs an array for 'x'"),
        (["nope.py"], "no such file"),
        (["nope"], "no such module"),
        (["kernels.py:nope"], "there is no 'nope'"),
        (["kernels.py:FACTOR"], "got a float"),
        (["bare.py:WRONG"], "got a int"),
        (["kernels.py", "--arg", "x=fp32[16,64]"], "--arg is for one kernel, and 2 are named"),
        (["kernels.py:Doubling", "--arg", "x=fp32[16,64]"], "--arg is for a @pl.jit kernel"),
        (["kernels.py", "--workers", "-1"], "--workers -1"),
    ],
)
def test_commands_that_are_wrong(run, args, words):
    code, _, err = run(*args)
    assert code == 2
    assert words in err


def test_without_a_cache_nothing_is_filled(run, monkeypatch):
    monkeypatch.setenv("PYPTO_CACHE", "off")
    code, _, err = run("kernels.py:doubled")
    assert code == 1
    assert "no cache keeps what was compiled" in err


def test_ctrl_c(run, monkeypatch):
    class Interrupted(SimpleQueue):
        def get(self):
            raise KeyboardInterrupt

    monkeypatch.setattr("pypto.jit.precompilation.SimpleQueue", Interrupted)
    code, out, err = run("kernels.py")
    assert (code, out) == (130, "")
    assert "interrupted: 0 of 2 kernels are compiled, and stay" in err
