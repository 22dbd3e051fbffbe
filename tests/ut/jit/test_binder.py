"""Arguments to parameters, in Python's words."""

import inspect

import pytest

import pypto.language as pl
from pypto.errors import ArgumentTypeError
from pypto.frontend.source import capture
from pypto.jit.binding import Binder


def kernel(x: pl.Tensor, /, y: pl.Out[pl.Tensor], s: pl.FP32 = 2.0, *, n: pl.INDEX, t: pl.FP32 = 3.0):
    return y


def named_like_builtins(print: pl.Tensor, len: pl.Out[pl.Tensor], kernel: pl.FP32 = 1.0):
    return len


BIND = Binder(capture(kernel))


@pytest.mark.parametrize(
    ("args", "kwargs", "want"),
    [
        ((1, 2), {"n": 4}, (1, 2, 2.0, 4, 3.0)),
        ((1,), {"n": 4, "y": 2}, (1, 2, 2.0, 4, 3.0)),
        ((1, 2, 5), {"t": 6, "n": 4}, (1, 2, 5, 4, 6)),
    ],
)
def test_values_in_the_order_of_parameters(args, kwargs, want):
    assert BIND(args, kwargs) == want


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1,), {}), ((1, 2), {}), ((1, 2, 3, 4), {"n": 1}), ((), {"x": 1, "y": 2, "n": 3}), ((1, 2), {"n": 1, "z": 2})],
)
def test_complaints_are_pythons_own(args, kwargs):
    with pytest.raises(TypeError) as of_python:
        kernel(*args, **kwargs)
    with pytest.raises(ArgumentTypeError) as of_ours:
        BIND(args, kwargs)
    assert of_ours.value.message == f"@pl.jit function 'kernel': {of_python.value}"
    assert of_ours.value.code == "A101"
    assert of_ours.value.__cause__ is None


def test_names_of_parameters_hide_nothing():
    bind = Binder(capture(named_like_builtins))
    assert bind((1,), {"len": 2}) == (1, 2, 1.0)
    assert list(inspect.signature(named_like_builtins).parameters) == ["print", "len", "kernel"]


def test_defaults_are_the_objects_themselves():
    marker = object()

    def k(x: pl.Tensor, y: pl.Tensor = marker):
        return x

    assert Binder(capture(k))((1,), {})[1] is marker


def test_an_argument_that_raises_type_errors_is_not_touched():
    class Touchy:
        def __eq__(self, other):
            raise TypeError("do not compare me")

        __hash__ = None

    touchy = Touchy()
    assert BIND((touchy, 2), {"n": 1})[0] is touchy
