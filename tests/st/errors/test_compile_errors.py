"""Kernels that parse but cannot be compiled: refused before any C is made, with the numbers and the user's line."""

import ml_dtypes
import numpy as np
import pytest
from errors_kit import arrays, cfg, kernel, out, refused

from pypto.errors import CompileError, InvalidOperationError, NotSupportedError, ParserSyntaxError, VerificationError

VEC = 184 * 1024  # bytes


def like(shape, dtype=np.float32):
    return np.zeros(shape, dtype), np.zeros(shape, dtype), cfg(), np.zeros(shape, dtype)


# -- memory --------------------------------------------------------------------------------------------------------


def test_one_tile_larger_than_its_memory(tmp_path):
    k = kernel(tmp_path, "t = pl.load(a, [0, 0], [512, 512])\npl.store(t, [0, 0], o)")
    e = refused(k, like((512, 512)), CompileError, "'t'", "[512, 512]", "1048576 bytes", f"{VEC} bytes", "Vec", piece="t = pl")
    assert "smaller tiles" in e.hint


def test_a_tensor_that_does_not_fit_as_a_whole(tmp_path):
    k = kernel(tmp_path, "o[:] = pl.add(a, b)")
    e = refused(k, like((512, 512)), CompileError, "'a'", "1048576 bytes", f"{VEC} bytes", code="C020", piece="pl.add(a, b)")
    assert "pl.slice(a," in e.hint


SUMS = """
acc = pl.create_tensor([32, {columns}], dtype=pl.FP32)
for k in pl.range(0, 32, 16):
    acc = pl.matmul_acc(acc, a[:, k : k + 16], pl.slice(b, [16, {columns}], [k, 0], valid_shape=[16, 20]))
o = pl.assemble(o, acc, [0, 0])
"""


def test_a_sum_of_columns_that_are_no_whole_boxes(tmp_path):
    """Created storage has no valid_shape=; what its remedy says is accepted."""
    given = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32), cfg(), np.zeros((32, 32), np.float32)
    e = refused(kernel(tmp_path, SUMS.format(columns=20)), given, CompileError, "[32, 20]", "Acc", code="C051", piece="pl.create")
    assert "the next legal shape is [32, 32]; create it so" in e.hint
    kernel(tmp_path, SUMS.format(columns=32))(*given)
    np.testing.assert_array_equal(given[-1], np.where(np.arange(32) < 20, 32, 0) * np.ones((32, 1)))


def test_a_product_of_halves_into_floats(tmp_path):
    given = np.ones((32, 32), np.float16), np.ones((32, 32), np.float16), cfg(), np.zeros((32, 32), np.float32)
    e = refused(kernel(tmp_path, "o[:] = pl.matmul(a, b)"), given, ParserSyntaxError, "fp16", "fp32", piece="o[:]")
    assert "out_dtype=pl.FP32" in e.hint
    kernel(tmp_path, "o[:] = pl.matmul(a, b, out_dtype=pl.FP32)")(*given)
    assert (given[-1] == 32).all()


def test_tiles_that_together_exceed_the_memory(tmp_path):
    body = """
    t = pl.load(a, [0, 0], [140, 256])
    u = pl.load(b, [0, 0], [140, 256])
    pl.store(pl.add(t, u), [0, 0], o)
    pl.store(pl.sub(t, u), [0, 0], o)
    """
    e = refused(kernel(tmp_path, body), like((140, 256)), CompileError, "430080 bytes", f"{VEC} bytes", code="C060", piece="t = ")
    assert e.note is not None
    assert "'t' [140, 256] of fp32 143360 bytes" in e.note


def test_the_largest_tile_that_fits(tmp_path):
    """One that fills the memory is fine, one row more is not."""
    k = kernel(tmp_path, "t = pl.load(a, [0, 0], [184, 256])\npl.store(t, [0, 0], o)")
    a = np.random.default_rng(0).standard_normal((184, 256), dtype=np.float32)
    o = out(184, 256)
    k(a, a, cfg(), o)
    np.testing.assert_array_equal(o, a)
    k = kernel(tmp_path, "t = pl.load(a, [0, 0], [185, 256])\npl.store(t, [0, 0], o)")
    refused(k, like((185, 256)), CompileError, f"{185 * 1024} bytes", f"{VEC} bytes", piece="t = pl")


# -- rows of 32 bytes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "shape", "dtype", "words", "piece", "legal"),
    [
        ("pl.store(pl.load(a, [0, 0], [16, 7]), [0, 0], o)", (16, 7), np.float32, ["[16, 7]", "28 bytes"], "pl.load(", "[16, 8]"),
        ("pl.store(pl.load(a, [0, 0], [5, 1]), [0, 0], o)", (5, 1), np.float32, ["[5, 1]", "20 bytes"], "pl.load(", "[8, 1]"),
        ("o[:] = pl.neg(a)", (16, 24), np.float16, ["[16, 24]", "fp16", "48 bytes"], "", "[16, 32]"),
        ("o[:] = pl.cast(pl.cast(a, pl.FP16), pl.FP32)", (16, 8), np.float32, ["fp16", "16 bytes"], "pl.cast(a,", "[16, 16]"),
    ],
)
def test_rows_that_are_no_multiple_of_32_bytes(body, shape, dtype, words, piece, legal, tmp_path):
    e = refused(kernel(tmp_path, body), like(shape, dtype), CompileError, *words, "blocks of 32 bytes", code="C051", piece=piece)
    assert legal in e.hint
    assert "valid_shape" in e.hint


# -- elements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "dtype", "words"),
    [
        ("o[:] = pl.add(a, b)", ml_dtypes.bfloat16, ["bfloat16", "fp32, fp16, int32, int16"]),
        ("o[:] = pl.add(a, b)", np.int8, ["int8"]),
        ("o[:] = pl.exp(a)", np.int32, ["int32", "fp32, fp16"]),
    ],
)
def test_element_types_that_an_operator_does_not_take(body, dtype, words, tmp_path):
    e = refused(kernel(tmp_path, body), like((16, 64), dtype), InvalidOperationError, *words, piece=body[7:])
    assert "pl.cast" in e.hint


def test_a_conversion_without_a_path(tmp_path):
    k = kernel(tmp_path, "t = pl.load(a, [0, 0], [16, 64])\n_ = pl.cast(pl.cast(t, pl.INT16), pl.INT32)\npl.store(t, [0, 0], o)")
    e = refused(k, arrays(), CompileError, "no native cast path from int16 to int32", code="C120", piece="pl.cast(pl.cast(t")
    assert "pl.cast(pl.cast(x, pl.FP32), pl.INT32)" in e.hint


# -- windows -------------------------------------------------------------------------------------------------------

TILE = "t = pl.load(a, [0, 0], [16, 64])\n"


@pytest.mark.parametrize(
    ("body", "words", "piece"),
    [
        ("t = pl.load(a, [1, 0], [16, 64])", ["past the end of dimension 0: offset 1 + extent 16 > 16"], "pl.load("),
        ("t = pl.load(a, [0, 60], [16, 8])", ["past the end of dimension 1: offset 60 + extent 8 > 64"], "pl.load("),
        ("t = pl.load(a, [-1, 0], [8, 64])", ["negative"], ""),
        ("t = pl.load(a, [0, 0], [16, 64], valid_shape=[17, 64])", ["valid extent 17 of dimension 0", "0..16"], "pl.load("),
        (TILE + "u = pl.set_validshape(t, 16, 65)", ["valid extent 65 of dimension 1", "0..64"], "pl.set_validshape("),
        (TILE + "u = pl.slice(t, [8, 64], [9, 0])", ["past the end of dimension 0: offset 9 + extent 8 > 16"], "pl.slice("),
        (TILE + "u = pl.assemble(t, t, [0, 1])", ["past the end of dimension 1: offset 1 + extent 64 > 64"], "pl.assemble("),
        (TILE + "u = pl.reshape(t, [16, 32])", ["[16, 64]", "[16, 32]", "element counts differ"], "pl.reshape("),
        (TILE + "pl.store(t, [0, 32], o)", ["past the end of dimension 1: offset 32 + extent 64 > 64"], "pl.store("),
        ("x = pl.read(a, [16, 0])", ["past the end of dimension 0"], "pl.read("),
        ("pl.write(c, [8], 1)", ["past the end of dimension 0"], "pl.write("),
        ("w = pl.create_tile([16, 64], dtype=pl.FP32)\nt = pl.row_sum(pl.load(a, [0, 0], [16, 64], valid_shape=[16, 0]), w)",
         ["valid extent on axis 1 is 0", "empty"], "pl.row_sum("),
    ],
)  # fmt: skip
def test_windows_that_are_known_to_be_outside(body, words, piece, tmp_path):
    refused(kernel(tmp_path, body), arrays(), InvalidOperationError, *words, code="P600", piece=piece)


# -- writes --------------------------------------------------------------------------------------------------------


def test_bulk_and_element_writes_of_one_tensor(tmp_path):
    k = kernel(tmp_path, "o[0:8, :] = a[0:8, :]\npl.write(o, [12, 0], 1.0)")
    e = refused(k, arrays(), CompileError, "'o'", "in bulk", "element by element", code="C023", piece="pl.write(")
    assert "pl.full" in e.hint


CORE = """
@pl.jit.incore
def core(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y[:] = pl.add(x, x)
    return y
"""


def test_an_output_that_is_read_under_its_old_name(tmp_path):
    k = kernel(tmp_path, "core(a, o)\no = core(o, b)", scoped=False, before=CORE)
    refused(k, arrays(), VerificationError, "'o'", "read the post-call return value", code="V000", piece="core(o, b)")


# -- what is not there ---------------------------------------------------------------------------------------------


def test_names_that_will_never_run_on_one_host(tmp_path):
    for body, word in (("o[:] = pl.allreduce(a)", "pl.allreduce"), ("o[:] = pl.matmul_mx(a, b)", "pl.matmul_mx")):
        refused(kernel(tmp_path, body), arrays(), NotSupportedError, word, code="N000", piece=word)
