"""Whatever is handed to the public functions: what they refuse is an Error with a remedy, of the class that fits."""

import numpy as np
import pytest
from errors_kit import out

import pypto
import pypto.language as pl
from pypto import ir, passes
from pypto.debug import interpret
from pypto.errors import ArgumentTypeError, ArgumentValueError

X = np.ones((8, 16), np.float32)
N = pl.dynamic("N")


@pl.jit
def fixed(a: pl.Tensor[[8, 16], pl.FP32], o: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.mul(a, 2.0)
    return o


@pl.jit
def rows(a: pl.Tensor[[N, 16], pl.FP32], o: pl.Out[pl.Tensor[[N, 16], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(a, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(a, [i, 0], [1, 16]), [i, 0], o)
    return o


def interface(**changes):
    return type("Offers", (), {"owner": X, "__array_interface__": {**X.__array_interface__, **changes}})()


class Raises:
    @property
    def __array_interface__(self):
        raise RuntimeError("boom")


class Exports:
    def __init__(self, device=(1, 0), error=None):
        self.device, self.error = device, error

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        raise self.error


class Anything:
    def __getattr__(self, name):
        if name.startswith("__array") or "dlpack" in name:
            return 3
        raise AttributeError(name)


ARRAYS = {
    "an address beyond all memory": (interface(data=(2**70, False)), "numpy refuses"),
    "strides beyond all memory": (interface(strides=(2**63, 4)), "numpy refuses"),
    "a mask": (interface(mask=np.ones((8, 16), bool)), "mask"),
    "a property that raises": (Raises(), "raises RuntimeError: boom"),
    "no device": (Exports(device=None), "raises TypeError"),
    "an export that raises": (Exports(error=KeyError("q")), "raises KeyError"),
    "attributes of any name": (Anything(), "raises TypeError"),
    "a class": (np.ndarray, "got"),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize("written", [False, True])
def test_arrays_that_are_none(kind, cold, written):
    obj, words = ARRAYS[kind]
    k = pl.jit(fixed.__wrapped__) if cold and hasattr(fixed, "__wrapped__") else fixed
    if not cold:
        k(X, out(8, 16))
    with pytest.raises(ArgumentTypeError, match=words) as e:
        k(out(8, 16), obj) if written else k(obj, out(8, 16))
    assert e.value.hint
    assert (X == 1).all()


def test_compiled_programs():
    c = fixed.compile()
    with pytest.raises(ArgumentTypeError, match=r"by position, got a, o by name") as e:
        c(a=X, o=out(8, 16))
    assert "(a, o)" in e.value.hint
    for stage in ("asm", 3):
        with pytest.raises(ArgumentValueError, match="unknown stage") as e:
            c.inspect(stage)
        assert e.value.hint
    with pytest.raises(ArgumentValueError, match="output 'o' has a dynamic extent") as e:
        rows.compile(X, out(8, 16))(X)
    assert "numpy.empty" in e.value.hint


@pytest.mark.parametrize(
    "make",
    [
        lambda: passes.PassContext([], memory_planner="PYPTO"),
        lambda: passes.PassContext([], memory_planner=None),
        lambda: passes.PassContext([], enable_buffer_ir="no"),
        lambda: passes.PassContext(3),
        lambda: passes.PassContext([3]),
        lambda: ir.compile(3),
        lambda: pl.parse(3),
        lambda: interpret(3, [X], "k"),
        lambda: interpret(fixed.specialize(), [X], "fixed"),
        lambda: interpret(fixed.specialize(), [X.tolist(), out(8, 16)], "fixed"),
        lambda: interpret(fixed.specialize(), [X.astype("f8"), out(8, 16)], "fixed"),
    ],
)
def test_things_of_another_type(make):
    with pytest.raises(ArgumentTypeError) as e:
        make()
    assert e.value.hint


def test_values_that_cannot_be():
    frozen = out(8, 16)
    frozen.flags.writeable = False
    for make in (
        lambda: interpret(fixed.specialize(), [X, frozen], "fixed"),
        lambda: interpret(fixed.specialize(), [X[:4], out(8, 16)], "fixed"),
        lambda: interpret(fixed.specialize(), [X.ravel(), out(8, 16)], "fixed"),
        lambda: pl.parse(""),
        lambda: pl.parse_program("x = 1"),
    ):
        with pytest.raises(ArgumentValueError) as e:
            make()
        assert e.value.hint
    for text in ("def f(", "\0", '"\ud800"'):
        with pytest.raises(SyntaxError, match="Failed to compile code from <string>"):
            pl.parse(text)


def test_all_of_them_are_errors():
    assert issubclass(ArgumentTypeError, pypto.Error)
    assert issubclass(ArgumentValueError, pypto.Error)
