"""Run-time valid extents of parameters become scalars."""

import pytest
from back_lab import raw
from pass_lab import same

from pypto.errors import CompileError
from pypto.passes.context import PassOptions
from pypto.passes.materialize_valid_shape_symbols import materialize_valid_shape_symbols

PLAIN = "pl.Tensor[[16, 64], pl.FP32]"
VIEW = "pl.Tensor[[16, 64], pl.FP32, pl.TensorView(layout=pl.ND, valid_shape=[16, {e}])]"
TEXT = """
V = pl.dynamic("V")
@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
    def k({scalar}x: {x}, y: {y}, o: pl.Out[{plain}]) -> {plain}:
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], a: {a}, b: {b}, o: pl.Out[{plain}]) -> {plain}:
        r: {plain} = self.k({arg}a, b, o)
        return r
"""


def build(x="V", y=None, a="n", b="m", scalar="", arg=""):
    view = lambda e: PLAIN if e is None else VIEW.format(e=e)  # noqa: E731
    return raw(TEXT.format(x=view(x), y=view(y), a=view(a), b=view(b), scalar=scalar, arg=arg, plain=PLAIN))


def test_a_symbol_becomes_a_leading_scalar_that_calls_pass():
    made = materialize_valid_shape_symbols.run(build(), PassOptions())
    k = made.get_function("k")
    assert [p.name_hint for p in k.params] == ["V", "x", "y", "o"]
    assert k.params[1].type.tensor_view.valid_shape[1] is k.params[0]
    same(made, build(scalar="V: pl.Scalar[pl.INDEX], ", arg="n, "))
    assert materialize_valid_shape_symbols.run(made, PassOptions()) is made


def test_a_full_argument_passes_its_extent():
    made = materialize_valid_shape_symbols.run(build(a=None), PassOptions())
    same(made, build(a=None, scalar="V: pl.Scalar[pl.INDEX], ", arg="64, "))


def test_two_parameters_with_one_symbol_must_agree():
    same(
        materialize_valid_shape_symbols.run(build(y="V", a="n", b="n"), PassOptions()),
        build(y="V", a="n", b="n", scalar="V: pl.Scalar[pl.INDEX], ", arg="n, "),
    )
    with pytest.raises(CompileError, match="disagree about the valid extent 'V'"):
        materialize_valid_shape_symbols.run(build(y="V", a="n", b="m"), PassOptions())


def test_an_expression_is_no_symbol():
    with pytest.raises(CompileError, match="is an expression") as e:
        materialize_valid_shape_symbols.run(build(x="V + 1"), PassOptions())
    assert e.value.hint


def test_constants_and_parameters_need_nothing():
    p = build(x="32")
    assert materialize_valid_shape_symbols.run(p, PassOptions()) is p
