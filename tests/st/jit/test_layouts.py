"""Arguments that are not dense: right numbers and nothing else touched, or an error that names the argument and a remedy."""

import numpy as np
import pytest
from jit_kit import full, untouched

import pypto.language as pl


def doubling():
    @pl.jit
    def dbl(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)
        return y

    return dbl


def adding():
    @pl.jit
    def accumulate(x: pl.Tensor, z: pl.InOut[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            z[:] = pl.add(z, x)
        return z

    return accumulate


NUMBERS = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


def field_of_a_record():
    rec = np.zeros((64, 64), [("a", np.float32), ("b", np.float32)])
    rec["a"] = NUMBERS
    return rec["a"]


def unaligned():
    return np.frombuffer(bytearray(b"x" + NUMBERS.tobytes()), np.float32, 4096, 1).reshape(64, 64)


INPUTS = {
    "broadcast scalar": lambda: np.broadcast_to(np.float32(3), (64, 64)),
    "broadcast row": lambda: np.broadcast_to(NUMBERS[:1], (64, 64)),
    "reversed rows": lambda: NUMBERS[::-1],
    "reversed columns": lambda: NUMBERS[:, ::-1],
    "transposed": lambda: NUMBERS.T,
    "column-major": lambda: np.asfortranarray(NUMBERS),
    "every second column": lambda: np.repeat(NUMBERS, 2, axis=1)[:, ::2],
    "field of a record": field_of_a_record,
    "unaligned": unaligned,
}
# What to write around the argument, by what is wrong with it.
REMEDY = {name: "copy()" if name == "unaligned" else "numpy.ascontiguousarray(x)" for name in INPUTS}


def check(kernel, x, y, remedy, around=None):
    """Right, with everything outside the output untouched; or refused with names, strides and a remedy, nothing written."""
    before = y.copy()
    outside = None if around is None else around.copy()
    try:
        kernel(x, y)
    except ValueError as e:
        text = str(e)
        assert "'x' has strides" in text or "'y' has strides" in text
        assert remedy in text
        np.testing.assert_array_equal(y, before)
    else:
        np.testing.assert_array_equal(y, x * 2)
    if around is not None:
        np.testing.assert_array_equal(around, outside)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("name", INPUTS)
def test_inputs(launcher, name, warm):
    kernel = doubling()
    if warm:
        kernel(NUMBERS, untouched())
    x = INPUTS[name]()
    assert not (x.flags.c_contiguous and x.flags.aligned)
    check(kernel, x, untouched(), REMEDY[name])
    y = untouched()
    kernel(np.ascontiguousarray(x) if name != "unaligned" else x.copy(), y)  # the remedy works
    np.testing.assert_array_equal(y, x * 2)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_outputs(launcher, warm):
    kernel = doubling()
    if warm:
        kernel(NUMBERS, untouched())
    wide, tall = untouched((64, 128)), untouched((128, 64))
    check(kernel, NUMBERS, wide[:, ::2], "contiguous array", wide[:, 1::2])
    check(kernel, NUMBERS, tall[::2], "contiguous array", tall[1::2])
    check(kernel, NUMBERS, untouched()[::-1], "contiguous array")
    check(kernel, NUMBERS, untouched().T, "contiguous array")
    one_row = np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (64, 64), (0, 4))
    with pytest.raises(ValueError, match="'y' has strides"):
        kernel(NUMBERS, one_row)
    assert not one_row.any()


def test_an_output_is_not_to_be_copied(launcher):
    # The copy would be written, and the caller's array would not.
    with pytest.raises(ValueError, match="'y' has strides") as caught:
        doubling()(NUMBERS, untouched().T)
    assert "ascontiguousarray" not in str(caught.value)
    assert "y[...] = buffer" in str(caught.value)


def test_updated_arguments(launcher):
    kernel = adding()
    z = full(1.0)
    kernel(NUMBERS, z)
    np.testing.assert_array_equal(z, NUMBERS + 1)
    wide = full(1.0, (64, 128))
    with pytest.raises(ValueError, match="'z' has strides"):
        kernel(NUMBERS, wide[:, ::2])
    assert (wide == 1).all()


@pytest.mark.parametrize("shape", [(1, 64), (64, 1)])
def test_strides_of_an_axis_of_one_do_not_matter(launcher, shape):
    kernel = doubling()
    base = np.arange(64 * 64 * 4, dtype=np.float32).reshape(64, 256)
    # What numpy calls contiguous, whatever the strides of single elements say.
    x = np.lib.stride_tricks.as_strided(base, shape, (12345 if shape[0] == 1 else 4, 777 if shape[1] == 1 else 4))
    assert x.flags.c_contiguous
    assert x.strides != np.empty(shape, np.float32).strides
    y = untouched(shape)
    kernel(x, y)
    np.testing.assert_array_equal(y, x * 2)


def test_swapped_bytes(launcher):
    kernel = doubling()
    with pytest.raises(TypeError, match=r"'x'.*>f4"):
        kernel(NUMBERS.astype(">f4"), untouched())
    kernel(NUMBERS, untouched())
    for x, y in ((NUMBERS.astype(">f4"), untouched()), (NUMBERS, untouched().astype(">f4"))):
        with pytest.raises(TypeError, match=">f4"):
            kernel(x, y)
        assert (y == 77).all()


def test_a_first_call_that_is_refused_leaves_the_kernel_usable(launcher):
    kernel = doubling()
    for _ in range(2):
        with pytest.raises(ValueError, match="strides"):
            kernel(NUMBERS.T, untouched())
    y = untouched()
    kernel(NUMBERS, y)
    np.testing.assert_array_equal(y, NUMBERS * 2)


def other_ranks(rank):
    if rank == 1:

        @pl.jit
        def shift(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.add(x, 1.0)
            return y

    else:

        @pl.jit
        def shift(x: pl.Tensor, y: pl.Out[pl.Tensor]):
            rows = pl.reshape(x, [32, 16])
            with pl.at(level=pl.Level.CORE_GROUP):
                y[:] = pl.reshape(pl.add(rows, 1.0), [4, 8, 16])
            return y

    return shift


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(64, np.float32)[::2],
        np.zeros(32, np.float32)[::-1],
        np.zeros((4, 8, 32), np.float32)[:, :, ::2],
        np.zeros((8, 4, 16), np.float32).transpose(1, 0, 2),
        np.zeros((4, 16, 16), np.float32)[:, ::2],
    ],
    ids=["every second", "reversed", "columns", "transposed", "rows"],
)
def test_one_axis_and_three(launcher, x):
    kernel = other_ranks(x.ndim)
    with pytest.raises(ValueError, match="'x' has strides"):
        kernel(x, untouched(x.shape))
    y = untouched(x.shape)
    kernel(np.ascontiguousarray(x), y)
    assert (y == 1).all()


def test_compiling_takes_no_notice_of_strides(launcher):
    """A sample says shape and dtype; what is called must be dense."""
    kernel = doubling()
    made = kernel.compile(NUMBERS.T, NUMBERS.T)
    assert made is kernel.compile(NUMBERS, NUMBERS)
    with pytest.raises(ValueError, match="'x' has strides"):
        made(NUMBERS.T, untouched())
