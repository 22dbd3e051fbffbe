"""Calls that do not fit their kernel: parameter, expected and got, before anything is compiled or written.

Every call is made twice where the kernel exists already: once through the slow path, once past the warm dispatcher.
"""

import itertools
import re
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from errors_kit import arrays, out, refused

import pypto.language as pl
from pypto.errors import ArgumentTypeError, ArgumentValueError, InvalidOperationError, ParserTypeError

N, M = pl.dynamic("N"), pl.dynamic("M")
TYPE, VALUE = ArgumentTypeError, ArgumentValueError


_made = itertools.count()


def fresh():
    """Kernels that nothing has compiled before, here or in the cache: a constant of theirs is a new one each time."""
    number = next(_made)

    @pl.jit
    def full(a: pl.Tensor[[16, 64], pl.FP32], n: pl.INT8, k: pl.FP32, o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
        pl.static_assert(number >= 0, "a constant")
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.mul(a, k)
        return o

    @pl.jit
    def bare(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
        pl.static_assert(number >= 0, "a constant")
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.add(a, b)
        return o

    @pl.jit
    def rows(a: pl.Tensor[[N, 64], pl.FP32], b: pl.Tensor[[N, M], pl.FP32], o: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
        pl.static_assert(number >= 0, "a constant")
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(pl.tensor.dim(a, 0)):
                o[i : i + 1, :] = pl.neg(a[i : i + 1, :])
        return o

    return SimpleNamespace(full=full, bare=bare, rows=rows)


@pytest.fixture(scope="module")
def called():
    """Kernels that have been called, so that the dispatcher knows them."""
    kernels = fresh()
    a, _, _, o = arrays()
    kernels.full(a, 1, 2.0, o)
    kernels.bare(a, a, o)
    kernels.rows(a, a, o)
    return kernels


@pytest.fixture(params=["cold", "warm"])
def kernels(request):
    return fresh() if request.param == "cold" else request.getfixturevalue("called")


def test_counts_and_names(kernels):
    a, _, _, o = arrays()
    for args, kwargs, words in (
        ((a, 1, 2.0), {}, ["missing 1 required positional argument: 'o'"]),
        ((a, 1, 2.0, o, o), {}, ["takes 4 positional arguments but 5 were given"]),
        ((a, 1, 2.0, o), {"z": 1}, ["unexpected keyword argument 'z'"]),
        ((a, 1, 2.0, o), {"k": 1}, ["multiple values for argument 'k'"]),
    ):
        for _ in range(2):
            e = refused(
                lambda *x, kwargs=kwargs: kernels.full(*x, **kwargs),
                args,
                TYPE,
                "'full'",
                *words,
                code="A101",
                piece=None,
            )
            assert isinstance(e, TypeError)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"a": np.zeros((16, 64), np.float64)}, TYPE, ["'a'", "float64|<f8", r"pass a.astype\('float32'\)"]),
        ({"a": np.zeros((16, 64), np.int32)}, TYPE, ["'a'", "(?i)fp32", "(?i)int32", r"pass a.astype\('float32'\)"]),
        ({"a": np.zeros((16, 64), ml_dtypes.bfloat16)}, TYPE, ["'a'", "(?i)fp32", "(?i)bfloat16|BF16"]),
        ({"a": np.zeros((16, 64), ">f4")}, TYPE, ["'a'", ">f4"]),
        ({"a": np.zeros((16, 64), complex)}, TYPE, ["'a'", "complex|<c16"]),
        ({"a": np.zeros((16, 64), object)}, TYPE, ["'a'", "object|O"]),
        ({"a": np.zeros((16, 32), np.float32)}, VALUE, ["'a'", "64", "32"]),
        ({"a": np.zeros((17, 64), np.float32)}, VALUE, ["'a'", "16", "17"]),
        ({"a": np.zeros((64,), np.float32)}, VALUE, ["'a'", "rank 1 instead of 2"]),
        ({"a": np.zeros((1, 16, 64), np.float32)}, VALUE, ["'a'", "rank 3 instead of 2"]),
        ({"a": np.float32(3)}, TYPE, ["'a'", "tensor", "float32", "or, for a number, annotate a: pl.FP32"]),
        (
            {"a": np.zeros((), np.float32)},
            VALUE,
            ["'a'", "rank 0 instead of 2", "0-d arrays are passed as scalars: annotate a: pl.FP32"],
        ),
        ({"a": 3.0}, TYPE, ["'a'", "tensor", "float 3.0"]),
        ({"a": None}, TYPE, ["'a'", "NoneType None"]),
        ({"a": [[1.0] * 64] * 16}, TYPE, ["'a'", "a list of length 16\n", r"pass a numpy array: numpy.asarray\(a\)"]),
        ({"a": ((1.0,) * 64,) * 16}, TYPE, ["'a'", "a tuple of length 16\n", r"pass a numpy array: numpy.asarray\(a\)"]),
        ({"a": {k: k for k in range(99)}}, TYPE, ["'a'", "a dict of length 99\n"]),
        ({"o": [[1.0] * 64] * 16}, TYPE, ["'o'", "a list of length 16\n", "pass a numpy array for the output"]),
        ({"o": np.zeros((16, 64), np.float64)}, TYPE, ["'o'", "float64|<f8", "allocate 'o' as float32"]),
        ({"o": np.zeros((16, 64), np.int32)}, TYPE, ["'o'", "(?i)int32", "allocate 'o' as float32"]),
        ({"a": "text"}, TYPE, ["'a'", "str 'text'"]),
        ({"o": np.zeros((16, 64), np.float16)}, TYPE, ["'o'", "(?i)fp16"]),
        ({"n": 128}, VALUE, ["'n'", "INT8", "-128 to 127", "128"]),
        ({"n": -129}, VALUE, ["'n'", "-129"]),
        ({"n": 1.0}, TYPE, ["'n'", "INT8", "float 1.0"]),
        ({"n": "1"}, TYPE, ["'n'", "str '1'"]),
        ({"n": None}, TYPE, ["'n'", "None"]),
        ({"n": np.zeros(2, np.int8)}, TYPE, ["'n'", "INT8", r"\[2\]"]),
        ({"k": 1j}, TYPE, ["'k'", "FP32", "complex 1j"]),
        ({"k": np.zeros((16, 64), np.float32)}, TYPE, ["'k'", "scalar", r"\[16, 64\]"]),
        ({"k": 10**400}, VALUE, ["'k'", "FP32"]),
    ],
    ids=lambda v: None if not isinstance(v, dict) else str(next(iter(v.items())))[:40].replace("\n", " "),
)
def test_arguments_of_a_fully_annotated_kernel(kernels, change, kind, words):
    a, _, _, o = arrays()
    args = {"a": a, "n": 1, "k": 2.0, "o": o, **change}
    for _ in range(2):
        e = refused(kernels.full, tuple(args.values()), kind, "full", piece=None)
        assert all(re.search(w, str(e)) for w in words), str(e)


def test_one_value_for_each_run_time_extent(kernels):
    a, b, _, o = arrays()
    for args, words in (
        ((a, b[:8], o), ["'b'", "N is 8 on axis 0 but 16 on axis 0 of 'a'"]),
        ((a, b, o[:15]), ["'o'", "N is 15 on axis 0 but 16 on axis 0 of 'a'"]),
        ((a, b.reshape(16, 8, 8), o), ["'b'", "rank 3 instead of 2"]),
        ((np.zeros((16, 65), np.float32), b, o), ["'a'", "64", "65"]),
    ):
        for _ in range(2):
            refused(kernels.rows, args, VALUE, *words, piece=None)


def test_a_shape_mismatch_inside_of_a_kernel_without_annotations(kernels):
    """Shapes are the arguments' own: what does not fit is found where it does not."""
    a, b, _, o = arrays()
    refused(kernels.bare, (a, b[:8], o), InvalidOperationError, "[16, 64]", "[8, 64]", piece="pl.add(a, b)", file=__file__)
    refused(kernels.bare, (a, b, o[:8]), ParserTypeError, "expects 8 elements, source has 16", piece="o[:]", file=__file__)


# -- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: np.zeros((16, 128), np.float32)[:, ::2], ["'a'", "strides", "row-major"]),
        (lambda: np.zeros((64, 16), np.float32).T, ["'a'", "strides", "row-major"]),
        (lambda: np.zeros((32, 64), np.float32)[::2], ["'a'", "strides"]),
        (lambda: np.zeros((16, 64), np.float32)[::-1], ["'a'", "strides"]),
        (lambda: np.broadcast_to(np.float32(1), (16, 64)), ["'a'", "strides"]),
        (lambda: np.frombuffer(bytearray(4097), np.float32, 1024, 1).reshape(16, 64), ["'a'", "alignment"]),
    ],
)
def test_arrays_that_are_not_dense(kernels, make, words):
    o = out(16, 64)
    for _ in range(2):
        e = refused(kernels.full, (make(), 1, 2.0, o), VALUE, *words, code="A200", piece=None)
        assert "copy" in e.hint or "ascontiguousarray" in e.hint


def test_outputs_that_cannot_be_written(kernels):
    a, _, _, o = arrays()
    o.flags.writeable = False
    frozen = np.frombuffer(bytes(4096), np.float32).reshape(16, 64)
    for bad in (o, frozen):
        for _ in range(2):
            refused(kernels.full, (a, 1, 2.0, bad), VALUE, "'o'", "read-only", piece=None)
    # As an input, such an array is fine.
    assert kernels.full(frozen, 1, 2.0, out(16, 64))[0, 0] == 0


@pl.jit
def unmarked(a: pl.Tensor, o: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.sub(a, pl.row_max(a))


@pl.jit.incore
def stage(x: pl.Tensor, y: pl.Tensor):
    y[:] = pl.add(x, 1.0)
    return y


@pl.jit
def unmarked_in_a_helper(a: pl.Tensor, o: pl.Tensor):
    o = stage(a, o)
    pl.write(a, [0, 0], 5.0)
    return o


def test_parameters_that_are_written_without_a_mark():
    """What a kernel writes is an output, whatever its annotation says."""
    for kernel, written in ((unmarked, "o"), (unmarked_in_a_helper, "o"), (unmarked_in_a_helper, "a")):
        for _ in range(2):
            args = dict(zip("ao", (np.ones((16, 64), np.float32), out(16, 64)), strict=True))
            kernel(*(x.copy() for x in args.values()))
            args[written].flags.writeable = False
            refused(kernel, tuple(args.values()), VALUE, f"'{written}'", "read-only", piece=None)
    x = np.ones((17, 64), np.float32)
    refused(unmarked, (x[:16], x[1:]), VALUE, "'a' and 'o' overlap in memory", piece=None)


# -- overlap -------------------------------------------------------------------------------------------------------


def test_overlapping_arrays(kernels):
    buf = np.arange(40 * 64, dtype=np.float32).reshape(40, 64)
    a, o = arrays()[0], out(16, 64)
    for args, words in (
        ((buf[:16], a, buf[8:24]), "'a' and 'o' overlap in memory"),
        ((buf[8:24], a, buf[:16]), "'a' and 'o' overlap in memory"),
        ((a, buf[15:31], buf[:16]), "'b' and 'o' overlap in memory"),
    ):
        for _ in range(2):
            refused(kernels.bare, args, VALUE, words, piece=None)
    # Neighbours do not overlap, and two inputs may.
    np.testing.assert_array_equal(kernels.bare(buf[:16], buf[8:24], buf[24:]), buf[:16] + buf[8:24])
    x = a.copy()
    np.testing.assert_array_equal(kernels.bare(x, a, x), 2 * a)
    np.testing.assert_array_equal(kernels.bare(a, a, o), 2 * a)


@pl.jit
def wrong_in_place(lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(16):
            dst[i : i + 1, :] = lhs[15 - i : 16 - i, :]
    return dst


@pl.jit
def two_outputs(lhs: pl.Tensor, dst1: pl.Out[pl.Tensor], dst2: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        dst1[:] = pl.add(lhs, 1.0)
        dst2[:] = pl.add(dst2, lhs)
    return dst1, dst2


@pl.jit
def placed_by_an_element(at: pl.Tensor, lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    """What a trip overwrites, the next one reads: the elements say so."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(16):
            k = pl.read(at, [i])
            dst[i + k : i + k + 1, :] = lhs[i + k : i + k + 1, :] * 2.0
    return dst


@pl.jit
def placed_by_a_carried_number(at: pl.Tensor, lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = 0
        for i in pl.range(16):
            dst[i + k : i + k + 1, :] = lhs[i + k : i + k + 1, :] * 2.0
            k = k - 1
    return dst


@pl.jit
def placed_by_a_branch(at: pl.Tensor, lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(16):
            k = 0
            if i > 3:
                k = -i
            dst[i + k : i + k + 1, :] = lhs[i + k : i + k + 1, :] * 2.0
    return dst


@pl.jit
def placed_by_an_array(at: pl.Tensor, lhs: pl.Tensor, dst: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(16):
            h = pl.array.create(1, pl.INT32)
            h[0] = -pl.cast(i, pl.INT32)
            k = h[0]
            dst[i + k : i + k + 1, :] = lhs[i + k : i + k + 1, :] * 2.0
    return dst


@pytest.mark.parametrize(
    "kernel", [placed_by_an_element, placed_by_a_carried_number, placed_by_a_branch, placed_by_an_array], ids=lambda k: k.__name__
)
def test_one_array_whose_windows_trips_may_share(kernel):
    a, _, _, o = arrays()
    at = -np.arange(16, dtype=np.int32)
    np.testing.assert_array_equal(kernel(at, a, o)[0], 2 * a[0])
    refused(kernel, (at, a, a), VALUE, "'lhs' and 'dst' are the same array", piece=None)


def test_one_array_where_it_would_be_wrong():
    for _ in range(2):
        a, _, _, o = arrays()
        np.testing.assert_array_equal(wrong_in_place(a, o), a[::-1])
        refused(wrong_in_place, (a, a), VALUE, "'lhs' and 'dst' are the same array", piece=None)
        refused(two_outputs, (a, o, o), VALUE, "'dst1' and 'dst2' are the same array", piece=None)


# -- decorators and markers ----------------------------------------------------------------------------------------


def test_run_time_markers_are_for_compiling(kernels):
    a, _, _, o = arrays()
    refused(kernels.full, (a, pl.RUNTIME, 2.0, o), TYPE, "'n'", "pl.RUNTIME", piece=None)
    compiled = kernels.full.compile(n=pl.RUNTIME, k=pl.RUNTIME)
    np.testing.assert_array_equal(compiled(a, 1, 3.0), 3 * a)
    for args, words in (((a, 1), "expects 4 (in-place) or 3 (return) arguments, got 2"), ((a, a, 3.0), "'n'")):
        refused(compiled, args, TYPE, words, piece=None)


def test_signatures_that_are_not_complete(kernels):
    for call, words in (
        (lambda: kernels.bare.compile(), "'a' is not fully annotated"),
        (lambda: kernels.full.compile(k=1.0), "scalar 'n'"),
    ):
        refused(call, (), TYPE, words, piece=None)
