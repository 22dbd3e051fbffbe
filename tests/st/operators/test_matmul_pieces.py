"""Products that the matrix unit's memories cannot hold at once: made of pieces, without a bit of difference."""

import ml_dtypes
import numpy as np
import pytest
from lab import BRIEF, agree_natively, native
from lab import everywhere as really_everywhere
from test_matmul import a_turned, b_turned, both_turned, halves, mm, mm8, out, product, small

import pypto.language as pl
from pypto.debug.lanes import fma32
from pypto.errors import CompileError

BF16 = ml_dtypes.bfloat16


def normal(rows, cols, dtype=np.float32):
    """Numbers whose sums depend on their order; whole numbers, with exact sums, where there are many."""
    rng = np.random.default_rng(rows * 7 + cols)
    few = rows * cols < 20_000
    return (rng.standard_normal((rows, cols)) if few else rng.integers(-3, 4, (rows, cols))).astype(dtype)


def everywhere(kernel, *args):
    """All ways to native code; interpreting large products would take minutes."""
    a, b = args[:2]
    if a.size * b.size < 3e8:
        return really_everywhere(kernel, *args)
    (made,) = agree_natively(lambda given, way: native(kernel, given, way), [args], BRIEF)
    return made


def ascending(a, b):
    """Fused multiply-adds in ascending k, whatever the pieces."""
    x, y = a.astype(np.float32), b.astype(np.float32)
    if (x == np.rint(x)).all() and (y == np.rint(y)).all():
        return (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32)
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c = fma32(*np.broadcast_arrays(x[:, k, None], y[None, k]), c)
    return c


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype"),
    [
        (128, 512, 256, np.float32),  # the sums fit: slices of K
        (5, 1024, 5, np.float32),  # fewer rows and columns than a box
        (1, 2080, 1, np.float16),  # a last slice shorter than the others
        (16, 1040, 16, np.float32),
        (300, 16, 600, np.float32),  # a grid with pieces cut at both edges
        (140, 2080, 48, np.float16),  # operands that do not fit Mat memory either
        (265, 1040, 271, BF16),
        (16, 16, 3000, np.float16),  # many columns
        (2500, 16, 16, np.float32),  # many rows
    ],
)
def test_any_size(m, k, n, dtype):
    a, b = normal(m, k, dtype), normal(k, n, dtype)
    *_, o = everywhere(mm, a, b, out(m, n))
    np.testing.assert_array_equal(o, ascending(a, b))


# Boxes of bytes are 32 deep, and so are slices of K.
@pytest.mark.parametrize(("m", "k", "n"), [(160, 1056, 300), (40, 1056, 80), (200, 992, 300)])
def test_bytes(m, k, n):
    a, b = small(m, k, np.int8, 3), small(k, n, np.int8, 2)
    *_, o = everywhere(mm8, a, b, out(m, n, dtype=np.int32))
    np.testing.assert_array_equal(o, product(a, b))


@pytest.mark.parametrize(("m", "k", "n"), [(130, 512, 40), (270, 496, 530)])
@pytest.mark.parametrize("kernel", [a_turned, b_turned, both_turned])
def test_transposed_operands(kernel, m, k, n):
    a, b = normal(m, k, np.float16), normal(k, n, np.float16)
    given = a.T.copy() if kernel is not b_turned else a, b.T.copy() if kernel is not a_turned else b
    *_, o = everywhere(kernel, *given, out(m, n))
    np.testing.assert_array_equal(o, ascending(a, b))


def test_results_of_another_type():
    a, b = normal(260, 512, np.float16), normal(512, 300, np.float16)
    *_, o = everywhere(halves, a, b, out(260, 300, dtype=np.float16))
    np.testing.assert_array_equal(o, ascending(a, b).astype(np.float16))


# -- where the operands come from, and the product goes ------------------------------------------------------------


@pl.jit
def returned(a: pl.Tensor, b: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        c = pl.matmul(a, b, out_dtype=pl.FP32)
    return c


@pl.jit
def windows(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            o[i * 240 : i * 240 + 240, 16:400] = pl.matmul(a[:, i * 512 : i * 512 + 512], b, out_dtype=pl.FP32)
    return o


@pl.jit
def two_products(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32)
        q[:] = pl.matmul(a, c, out_dtype=pl.FP32)
    return o, q


@pl.jit
def onto_itself(a: pl.InOut[pl.Tensor], b: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        a[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    return a


def test_a_product_that_is_returned():
    a, b = normal(200, 512), normal(512, 264)
    np.testing.assert_array_equal(returned(a, b), ascending(a, b))


def test_windows_in_a_loop():
    a, b = normal(240, 1024), normal(512, 384)
    *_, o = everywhere(windows, a, b, out(480, 400))
    want = out(480, 400)
    for i in range(2):
        want[i * 240 : i * 240 + 240, 16:400] = ascending(a[:, i * 512 : i * 512 + 512], b)
    np.testing.assert_array_equal(o, want)


def test_two_products_of_one_operand():
    a, b, c = normal(160, 384), normal(384, 320), normal(384, 48)
    *_, o, q = everywhere(two_products, a, b, c, out(160, 320), out(160, 48))
    np.testing.assert_array_equal(o, ascending(a, b))
    np.testing.assert_array_equal(q, ascending(a, c))


def test_a_product_written_over_its_operand():
    a, b = normal(256, 256), normal(256, 256)
    o, _ = everywhere(onto_itself, a, b)
    np.testing.assert_array_equal(o, ascending(a, b))


# -- accumulators --------------------------------------------------------------------------------------------------


@pl.jit
def split_k(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:272], b[0:272, :], out_dtype=pl.FP32)
        for k in pl.range(272, 1088, 272):
            acc = pl.matmul_acc(acc, a[:, k : k + 272], b[k : k + 272, :])
        o[:] = acc
    return o


@pl.jit
def conditional(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([120, 128], dtype=pl.FP32)
        for k in pl.range(0, 1088, 544):
            acc = pl.matmul_acc(acc, a[:, k : k + 544], b[k : k + 544, :], init_cond=(k == 0))
        o[:] = acc
    return o


@pytest.mark.parametrize(("kernel", "m"), [(split_k, 128), (conditional, 120)])
def test_accumulated_slices_that_are_too_deep(kernel, m):
    a, b = normal(m, 1088), normal(1088, 128)
    *_, o = everywhere(kernel, a, b, out(m, 128))
    np.testing.assert_array_equal(o, ascending(a, b))


# -- tiles ---------------------------------------------------------------------------------------------------------


@pl.jit
def of_tiles(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [128, 256])
        y = pl.load(b, [0, 0], [256, 128], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(x, y), [0, 0], o)
    return o


@pl.jit
def computed_rows(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.add(pl.load(a, [0, 0], [64, 512]), 1.0)
        y = pl.load(b, [0, 0], [512, 64], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(x, y), [0, 0], o)
    return o


@pl.jit
def narrow(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        k = pl.cast(pl.read(c, [1]), pl.INDEX)
        n = pl.cast(pl.read(c, [2]), pl.INDEX)
        x = pl.load(a, [0, 0], [256, 304], valid_shape=[m, k], target_memory=pl.Mem.Mat)
        y = pl.load(b, [0, 0], [304, 256], valid_shape=[k, n], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(x, y), [0, 0], o)
    return o


def test_tiles_that_say_no_memory():
    a, b = normal(128, 256), normal(256, 128)
    *_, o = everywhere(of_tiles, a, b, out(128, 128))
    np.testing.assert_array_equal(o, ascending(a, b))


def test_an_operand_of_the_vector_unit():
    a, b = normal(64, 512), normal(512, 64)
    *_, o = everywhere(computed_rows, a, b, out(64, 64))
    np.testing.assert_array_equal(o, ascending(a + np.float32(1), b))


@pytest.mark.parametrize(("m", "k", "n"), [(256, 304, 256), (1, 1, 1), (100, 33, 256), (17, 290, 200), (200, 64, 128)])
def test_extents_known_when_the_kernel_runs(m, k, n):
    a, b = normal(256, 304), normal(304, 256)
    *_, o = everywhere(narrow, a, b, np.array([m, k, n], np.int32), out(256, 256))
    want = out(256, 256)
    want[:m, :n] = ascending(a[:m, :k], b[:k, :n])
    np.testing.assert_array_equal(o, want)


# -- what cannot be made of pieces ---------------------------------------------------------------------------------


@pl.jit
def then_vector(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.add(pl.matmul(a, b, out_dtype=pl.FP32), 1.0)
    return o


@pl.jit
def placed(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.move(pl.load(a, [0, 0], [128, 256], target_memory=pl.Mem.Mat), target_memory=pl.Mem.Left)
        y = pl.load(b, [0, 0], [256, 128], target_memory=pl.Mem.Mat)
        pl.store(pl.matmul(x, y), [0, 0], o)
    return o


@pytest.mark.parametrize(
    ("kernel", "args", "words"),
    [
        (then_vector, ((256, 64), (64, 256)), ("[256, 256]", "262144", "131072", "Acc", "store", "loop", "pl.matmul(a, b, ")),
        (placed, ((128, 256), (256, 128)), ("'x'", "[128, 256]", "131072", "65536", "Left", "Mat", "loop", "pl.matmul(x, y)")),
        (onto_itself, ((512, 512), (512, 512)), ("'a'", "1048576", "524288", "Mat", "loop", "another", "pl.matmul(a, b, ")),
    ],
)
def test_refusals(kernel, args, words):
    arrays = [normal(*s) for s in args]
    given = arrays if kernel is onto_itself else [*arrays, out(args[0][0], args[1][1])]
    with pytest.raises(CompileError) as e:
        kernel(*given)
    assert all(w in str(e.value) for w in words), str(e.value)
