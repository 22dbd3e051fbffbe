"""Expressions nested more deeply than can be compiled are errors at their place; long chains of statements are none."""

import importlib.util

import numpy as np
import pytest

import pypto
from pypto.dtypes import DataType
from pypto.errors import CompileError, Error, ParserSyntaxError, UnsupportedFeatureError
from pypto.frontend.depth import DEEPEST
from pypto.ir import scalar
from pypto.ir.expr import ConstInt, Var
from pypto.ir.program import Function, Program
from pypto.ir.stmt import AssignStmt, ReturnStmt, seq
from pypto.ir.types import ScalarType
from pypto.passes.context import PassOptions
from pypto.passes.framework import program_pass
from pypto.passes.manager import Pipeline
from pypto.span import Span


def kernel(tmp_path, *lines):
    text = "import pypto.language as pl\n\n@pl.jit\ndef k(x: pl.Tensor, n: pl.INDEX, f: pl.FP32, o: pl.Out[pl.Tensor]):\n"
    text += "    with pl.at(level=pl.Level.CORE_GROUP):\n" + "".join(f"        {line}\n" for line in lines) + "    return o\n"
    path = tmp_path / "deep.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("deep", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def call(k):
    x, o = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    k(x, 0, 1.0, o)
    return o


CHAINS = {
    "sum of numbers": lambda n: "pl.mul(x, " + " + ".join(["f"] * n) + ")",
    "sum of tensors": lambda n: " + ".join(["x"] * n),
    "signs": lambda n: "pl.mul(x, " + "-" * n + "f)",
    "brackets": lambda n: "pl.mul(x, " + "(f + " * (min(n, 190) // 2) + "-" * (n // 2) + "f" + ")" * (min(n, 190) // 2) + ")",
    "calls": lambda n: "pl.abs(" * min(n, 190) + "x" + ")" * min(n, 190),
    "conditions": lambda n: "pl.mul(x, pl.cast(" + " and ".join(["f > 0.0"] * n) + ", pl.FP32))",
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("levels", [190, 400])
def test_too_many_levels_are_an_error_at_the_expression(tmp_path, chain, levels):
    with pytest.raises(Error) as e:
        call(kernel(tmp_path, "t = pl.neg(x)", f"o[:] = {CHAINS[chain](levels)}"))
    error = e.value
    if isinstance(error, UnsupportedFeatureError):
        assert (error.span["line"], error.span["column"]) == (7, 16)
        assert str(DEEPEST) in error.message
    else:  # Python's own parser gave up, which ends at different depths
        assert isinstance(error, ParserSyntaxError)
    assert "names" in error.hint


@pytest.mark.parametrize("chain", CHAINS)
def test_as_many_as_allowed_compile(tmp_path, chain):
    call(kernel(tmp_path, f"o[:] = {CHAINS[chain](DEEPEST - 10)}"))


def test_thousands_of_levels(tmp_path):
    try:
        k = kernel(tmp_path, f"o[:] = pl.mul(x, {'+'.join(['f'] * 1100)})")
    except RecursionError:
        pytest.skip("Python itself does not read the file")
    except ParserSyntaxError:
        return
    with pytest.raises(pypto.Error):
        call(k)


def test_long_chains_of_statements(tmp_path):
    steps = ["s = f", *["s = s + 1.0"] * 700, "i = n", *["i = i + n"] * 700]
    o = call(kernel(tmp_path, *steps, "pl.store(pl.mul(pl.load(x, [i, 0], [8, 16]), s), [i, 0], o)"))
    assert (o == 701).all()


def test_a_program_that_cannot_be_walked_is_no_internal_error():
    place = Span("here.py", 3, 1)
    n = Var("n", ScalarType.of(DataType.INDEX))
    e = n
    for _ in range(5000):
        e = scalar.Add(e, ConstInt(1, DataType.INDEX), DataType.INDEX, place)
    v = Var("v", ScalarType.of(DataType.INDEX))
    body = seq([AssignStmt(v, e, place), ReturnStmt([v])], Span.unknown())
    program = Program([Function("f", [n], [v.type], body)], "f")

    @program_pass("Walks")
    def walks(p, options):
        def depth(x):
            return 1 + max((depth(c) for c in x.children()), default=0)

        depth(p)
        return p

    with pytest.raises(CompileError, match="nested too deeply") as error:
        Pipeline([walks]).run(program, PassOptions(), level=0)
    assert error.value.span["line"] == 3
