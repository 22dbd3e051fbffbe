"""Arguments and annotations as specializations."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.dtypes import DataType
from pypto.errors import ArgumentTypeError, ArgumentValueError, Error, ParserTypeError
from pypto.frontend.source import capture
from pypto.frontend.specialization import ScalarArg, TensorArg
from pypto.jit.parameters import from_arguments, from_signature, parameters_of

N = pl.dynamic("N")
FP32 = DataType.FP32


def mixed(x: pl.Tensor, a: pl.Tensor[[N, 8], pl.FP32], s: pl.FP32, n: pl.Scalar[pl.INDEX] = 4):
    return x


PARAMETERS = parameters_of(capture(mixed))
A, B = np.zeros((3, 5), np.float16), np.zeros((7, 8), np.float32)


def made(*values):
    return from_arguments("mixed", PARAMETERS, values)


def test_arguments():
    got = made(A, B, 1.5, True)
    assert got["x"] == TensorArg((3, 5), DataType.FP16)
    assert got["a"] == TensorArg(("N", 8), FP32)
    assert got["s"] == ScalarArg(FP32, 1.5)
    assert got["n"] == ScalarArg(DataType.INDEX, 1)
    assert type(got["n"].value) is int


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ((A, np.zeros((7, 9), np.float32), 1, 1), ArgumentValueError, "'a' expects 8 elements on axis 1, got 9"),
        (
            (A, np.zeros((7,), np.float32), 1, 1),
            ArgumentValueError,
            r"'a' expects shape \[N, 8\], got \[7\]: rank 1 instead of 2",
        ),
        ((A, np.zeros((7, 8), np.float16), 1, 1), ArgumentTypeError, "'a' expects dtype"),
        ((A.astype(np.float64), B, 1, 1), ArgumentTypeError, "'x' has dtype float64"),
        ((3, B, 1, 1), ArgumentTypeError, "'x' expects a tensor, got int 3"),
        ((A, B, "1", 1), ArgumentTypeError, "'s' expects a scalar of type FP32"),
        ((A, B, 1, 1.5), ArgumentTypeError, "'n' expects INDEX"),
        ((A, B, 1, 2**63), ArgumentValueError, "'n' expects INDEX"),
        ((A, B, pl.RUNTIME, 1), ArgumentTypeError, r"pl\.RUNTIME for 's'"),
        ((pl.RUNTIME, B, 1, 1), ArgumentTypeError, r"pl\.RUNTIME for 'x'"),
    ],
)
def test_arguments_that_do_not_fit(values, error, words):
    with pytest.raises(error, match=words):
        made(*values)


def annotated(a: pl.Tensor[[N, 8], pl.FP32], s: pl.FP32, n: pl.INDEX = 4):
    return a


def test_signatures_alone():
    parameters, defaults = parameters_of(capture(annotated)), {"n": 4}
    got = from_signature("annotated", parameters, {"s": pl.RUNTIME}, defaults)
    assert got == {"a": TensorArg(("N", 8), FP32), "s": ScalarArg(FP32), "n": ScalarArg(DataType.INDEX, 4)}
    assert from_signature("annotated", parameters, {"s": 2, "n": pl.RUNTIME}, defaults)["s"] == ScalarArg(FP32, 2.0)
    with pytest.raises(ArgumentTypeError, match="scalar 's' has no value") as caught:
        from_signature("annotated", parameters, {}, defaults)
    assert "pl.RUNTIME" in caught.value.hint
    with pytest.raises(ArgumentTypeError, match="unexpected keyword argument 'z'"):
        from_signature("annotated", parameters, {"s": 1, "z": 2}, defaults)
    with pytest.raises(ArgumentTypeError, match="'x' is not fully annotated"):
        from_signature("mixed", PARAMETERS, {"s": 1}, {})


def bound(x: pl.Tensor, y: pl.Tensor[[4, 8], pl.FP32]):
    x.bind_dynamic(1, N)
    y.bind_dynamic(-1, N)
    return x


def test_extents_bound_in_the_body():
    parameters = parameters_of(capture(bound))
    got = from_arguments("bound", parameters, (A, np.zeros((4, 5), np.float32)))
    assert got["x"].dims == (3, "N")
    assert got["y"].dims == (4, "N")


def out_of_range(x: pl.Tensor[[4, 8], pl.FP32]):
    x.bind_dynamic(2, N)
    return x


def from_the_end(x: pl.Tensor):
    x.bind_dynamic(-1, N)
    return x


def test_axes_that_are_not_there():
    with pytest.raises(ArgumentValueError, match=r"'x' has no such axis"):
        parameters_of(capture(out_of_range))
    with pytest.raises(ArgumentValueError, match=r"x.bind_dynamic\(-1, ...\)") as caught:
        parameters_of(capture(from_the_end))
    assert "annotate the rank" in caught.value.hint


def without(x, y: pl.Out[pl.Tensor]):
    return y


def test_a_parameter_without_an_annotation():
    with pytest.raises(ParserTypeError, match="Parameter 'x' missing type annotation") as caught:
        parameters_of(capture(without))
    assert "pl.Tensor" in caught.value.hint
    assert caught.value.source_lines[0].startswith("def without")


def swapped_hint(dtype):
    with pytest.raises(ArgumentTypeError) as caught:
        made(np.zeros((3, 5), dtype), B, 1, 1)
    return caught.value.message, caught.value.hint


def test_what_to_write_for_other_dtypes():
    assert swapped_hint(">f4") == (
        "mixed: 'x' has dtype '>f4', which kernels do not take",
        "its bytes are swapped: pass x.astype('float32')",
    )
    assert "astype('float32')" in swapped_hint("f8")[1]
    assert "bfloat16" in swapped_hint("c8")[1]
    assert issubclass(ArgumentTypeError, Error)
