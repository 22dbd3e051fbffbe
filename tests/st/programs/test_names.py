"""Names of a program are free: what they mean in C, to a compiler or to a system's headers does not matter."""

import numpy as np
import pytest
from programs_kit import module

WORDS = (
    # keywords of C and of compilers
    *[
        "auto",
        "int",
        "asm",
        "typeof",
        "inline",
        "register",
        "restrict",
        "_Bool",
        "_Complex",
        "_Float16",
        "__int128",
        "__bf16",
        "typeof_unqual",
        "nullptr",
    ],
    # macros that are there without an include, or by the headers of the runtime
    *["unix", "linux", "i386", "NULL", "EOF", "INT32_MIN", "INT64_C", "__LINE__", "__FILE__", "bool", "true", "errno", "alignas"],
    # types and functions
    *["int32_t", "uint8_t", "size_t", "memcpy", "sqrtf", "isnan", "main", "printf", "u_int", "exp"],
    # what the generated text calls its own
    *[
        "call",
        "mem",
        "failed",
        "i",
        "r",
        "c",
        "v0",
        "t0",
        "s3_1",
        "x_u2",
        "k_x",
        "pp_min_i32",
        "PP_INLINE",
        "pypto_entry",
        "floordiv_i32",
        "kernel_k",
        "next_",
        "stop_",
    ],
    *["größe", "größe_1", "λ", "λs", "π"],
)
TEXT = """import pypto.language as pl

@pl.jit.incore
def {kernel}({x}: pl.Tensor, {s}: pl.INT32, {o}: pl.Out[pl.Tensor]):
    {t} = pl.cast({s}, pl.FP32)
    for {i} in pl.range(2):
        {s} = {s} + 1
    {u} = pl.mul({x}, {t})
    {o}[:] = pl.add({u}, pl.cast({s}, pl.FP32))
    return {o}

@pl.jit
def {entry}({x}: pl.Tensor, {s}: pl.INT32, {o}: pl.Out[pl.Tensor]):
    {o} = {kernel}({x}, {s}, {o})
    return {o}
"""
ROLES = ("kernel", "x", "s", "o", "t", "i", "u", "entry")


@pytest.mark.parametrize("first", range(0, len(WORDS), 3))
def test_any_name_is_a_name(tmp_path, first):
    chosen = {role: WORDS[(first + k) % len(WORDS)] for k, role in enumerate(ROLES)}
    x, o = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    getattr(module(TEXT.format(**chosen), tmp_path), chosen["entry"])(x, 3, o)
    assert (o == 8).all(), chosen


def test_names_that_differ_in_letters_outside_of_ascii_are_two(tmp_path):
    chosen = {"kernel": "é", "x": "à", "s": "è", "o": "ù", "t": "ä", "i": "ö", "u": "ü", "entry": "ê"}
    x, o = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    getattr(module(TEXT.format(**chosen), tmp_path), chosen["entry"])(x, 3, o)
    assert (o == 8).all()
