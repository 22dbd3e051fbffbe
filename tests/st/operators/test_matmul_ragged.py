"""Sums whose last block of rows is not whole: what is added up is valid as its products are, in every way there is."""

from __future__ import annotations

import linecache
import re

import ml_dtypes
import numpy as np
import pytest
from lab import DEFAULT, Way, agree, everywhere
from test_matmul import product, small

from pypto.debug import Placement, interpret
from pypto.errors import CompileError, KernelBoundsError

contract = pytest.mark.contract
BF16 = ml_dtypes.bfloat16
ROWS, K, N, STEP = 64, 128, 32, 32
WAYS = (DEFAULT, Way(buffers=False, optimize=False))
TYPES = {np.float16: ("FP16", "FP32"), BF16: ("BF16", "FP32"), np.float32: ("FP32", "FP32"), np.int8: ("INT8", "INT32")}

HEAD = """
import pypto.language as pl
R = pl.dynamic("R")

@pl.jit
def f({params}):
    with pl.at(level=pl.Level.CORE_GROUP):
{body}    return o
"""
BLOCKS = """
import pypto.language as pl
R = pl.dynamic("R")

@pl.jit
def f(x: pl.Tensor[{x}, pl.{dtype}], w: pl.Tensor[{w}, pl.{dtype}], o: pl.Out[pl.Tensor[[R, 32], pl.{sums}]]):
    for m0 in pl.range(0, o.shape[0], {m}):
        with pl.at(level=pl.Level.CORE_GROUP):
            v = pl.min({m}, o.shape[0] - m0)
            acc = pl.create_tensor([{m}, 32], dtype=pl.{sums})
            for k0 in pl.pipeline(0, 128, 32, stage=2):
                xk = pl.slice(x, {xk}, valid_shape={valid})
                wk = pl.slice(w, {wk})
                acc = pl.matmul_acc(acc, xk, wk{flags}{init})
            o = pl.assemble(o, acc, [m0, 0])
    return o
"""


def made(text: str, tmp_path):
    """The kernel of a text, which has a file for its errors to show."""
    path = str(tmp_path / "kernel.py")
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names: dict[str, object] = {}
    exec(compile(text, path, "exec"), names)
    return names["f"]


def kernel(body: str, tmp_path):
    params = "a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]"
    reads = [f"{v} = pl.cast(pl.read(c, [{i}]), pl.INDEX)" for i, v in enumerate("nm") if re.search(rf"\b{v}\b", body)]
    lines = "".join(f"        {line}\n" for line in (*reads, *body.strip().splitlines()))
    return made(HEAD.format(params=params, body=lines), tmp_path)


def blocks(dtype, a_trans: bool, b_trans: bool, m: int, init: bool, tmp_path):
    name, sums = TYPES[dtype]
    fields = {
        "x": "[128, R]" if a_trans else "[R, 128]",
        "w": "[32, 128]" if b_trans else "[128, 32]",
        "xk": f"[32, {m}], [k0, m0]" if a_trans else f"[{m}, 32], [m0, k0]",
        "valid": "[32, v]" if a_trans else "[v, 32]",
        "wk": "[32, 32], [0, k0]" if b_trans else "[32, 32], [k0, 0]",
        "flags": (", a_trans=True" if a_trans else "") + (", b_trans=True" if b_trans else ""),
    }
    begins = ", init_cond=(k0 == 0)" if init else ""
    return made(BLOCKS.format(dtype=name, sums=sums, m=m, init=begins, **fields), tmp_path)


def unwritten(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.full(shape, -7, dtype)


@contract("T173", "T174", "T175")
@pytest.mark.parametrize(
    ("dtype", "a_trans", "b_trans"),
    [(np.float16, False, True), (BF16, True, False), (np.int8, True, True), (np.float32, False, False)],
)
def test_the_last_block_of_rows(dtype, a_trans, b_trans, tmp_path):
    f = blocks(dtype, a_trans, b_trans, ROWS, True, tmp_path)
    calls, sums = [], np.int32 if dtype is np.int8 else np.float32
    for rows in (1, 17, 50, 64, 100, 128):
        x, w = small(rows, K, dtype, 3), small(K, N, dtype, 2)
        calls.append((x.T.copy() if a_trans else x, w.T.copy() if b_trans else w, unwritten(rows, N, dtype=sums)))
    for (x, w, _), (*_, o) in zip(calls, agree(f, *calls, ways=WAYS), strict=True):
        np.testing.assert_array_equal(o, product(x.T if a_trans else x, w.T if b_trans else w))


@pytest.mark.parametrize("init", [True, False])
def test_the_last_block_of_one_box(init, tmp_path):
    f = blocks(np.float16, False, True, 16, init, tmp_path)
    calls = [(small(rows, K, np.float16, 3), small(N, K, np.float16, 2), unwritten(rows, N)) for rows in (16, 21, 1)]
    for (x, w, _), (*_, o) in zip(calls, agree(f, *calls, ways=WAYS), strict=True):
        np.testing.assert_array_equal(o, product(x, w.T))


# Terms: rows, where the operands' inner axes begin, and their length.  What the first one has is what is stored.
SUMS = {
    "one after the other": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, 0], valid_shape=[50, 32]), b[0:32, :], init_cond=True)
acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, 32], valid_shape=[n, 32]), b[32:64, :])
o[:] = acc""",
        lambda n, m: [(50, 0, 0, 32), (n, 32, 32, 32)],
    ),
    "never told": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for i in pl.range(2):
    for k in pl.range(0, 64, 32):
        acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), b[k : k + 32, :])
o[:] = acc""",
        lambda n, m: [(n, 0, 0, 64)] * 2,
    ),
    "told too late": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for k in pl.range(0, 64, 32):
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), b[k : k + 32, :], init_cond=(k > 900))
o[:] = acc""",
        lambda n, m: [(n, 0, 0, 64)],
    ),
    "smaller ones in the loop": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for k in pl.range(0, 64, 32):
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), b[k : k + 32, :], init_cond=(k == 0))
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[5, 32]), b[k : k + 32, :])
o[:] = acc""",
        lambda n, m: [(n, 0, 0, 64), (5, 0, 0, 64)],
    ),
    "after a loop that may not run": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for k in pl.range(0, m, 32):
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), b[k : k + 32, :], init_cond=(k == 0))
acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, 32], valid_shape=[n, 32]), b[32:64, :])
o[:] = acc""",
        lambda n, m: [(n, 0, 0, m), (n, 32, 32, 32)],
    ),
    "in either branch": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
x = pl.slice(a, [64, 32], [0, 0], valid_shape=[n, 32])
if n > 20:
    acc = pl.matmul_acc(acc, x, b[0:32, :], init_cond=True)
else:
    acc = pl.matmul_acc(acc, x, b[32:64, :], init_cond=True)
o[:] = acc""",
        lambda n, m: [(n, 0, 0 if n > 20 else 32, 32)],
    ),
    "in a while loop": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
k = 0
while k < 64:
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), b[k : k + 32, :], init_cond=(k == 0))
    k = k + 32
o[:] = acc""",
        lambda n, m: [(n, 0, 0, 64)],
    ),
    "computed with": (
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for k in pl.range(0, 64, 32):
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), b[k : k + 32, :], init_cond=(k == 0))
o[:] = pl.minimum(pl.add(acc, 0.0), 1000.0)""",
        lambda n, m: [(n, 0, 0, 64)],
    ),
}


def numbers(n: int, m: int, k: int = 64, cols: int = 32):
    a, b = small(64, k, np.float32, 3), small(k, cols, np.float32, 2)
    return a, b, np.array([n, m] + [0] * 6, np.int32), unwritten(64, cols)


def stored(a, b, terms) -> np.ndarray:
    o = unwritten(64, b.shape[1])
    o[: terms[0][0]] = 0
    for rows, i, j, length in terms:
        o[:rows] += product(a[:rows, i : i + length], b[j : j + length])
    return o


@contract("T173", "T174", "T175")
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_valid_as_their_first_product(name, tmp_path):
    body, terms = SUMS[name]
    f = kernel(body, tmp_path)
    given = [(50, 32), (17, 0), (40, 64)]
    calls = [numbers(n, m) for n, m in given]
    for (n, m), (a, b, *_), (*_, o) in zip(given, calls, agree(f, *calls, ways=WAYS), strict=True):
        np.testing.assert_array_equal(o, stored(a, b, terms(n, m)))


def test_columns_that_a_product_does_not_have_are_not_stored(tmp_path):
    f = kernel(
        """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for k in pl.range(0, 64, 32):
    y = pl.slice(b, [32, 32], [k, 0], valid_shape=[32, 20])
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[n, 32]), y, init_cond=(k == 0))
o[:] = acc""",
        tmp_path,
    )
    a, b, c, o = numbers(50, 0)
    *_, got = everywhere(f, a, b, c, o, ways=WAYS)
    o[:50, :20] = product(a, b)[:50, :20]
    np.testing.assert_array_equal(got, o)


CHANGING_PLACES = {
    "swapped": "    c = pl.matmul_acc(c, {more})\n    c, d = d, c",
    "in a cycle": "    c, d, e = d, e, c",
    "one for two": "    d = c\n    c = pl.matmul_acc(e, {more})",
    "in a branch": "    if i > 1:\n        c, d = d, c",
}


@pytest.mark.parametrize(("rows", "dtype"), [("20", np.float32), ("n", np.int8)])
@pytest.mark.parametrize("name", CHANGING_PLACES)
def test_narrow_products_change_places(name, rows, dtype, tmp_path):
    """Their copies lie as they do: at the distance of the valid rows."""
    sums = TYPES[dtype][1]
    terms = "\n".join(
        f"{v} = pl.matmul(pl.slice(a, [64, 32], [0, {k}], valid_shape=[{rows}, 32]), b[{k} : {k + 32}, :], out_dtype=pl.{sums})"
        for v, k in (("c", 0), ("d", 32), ("e", 64))
    )
    more = f"pl.slice(a, [64, 32], [0, 96], valid_shape=[{rows}, 32]), b[96:128, :]"
    loop = f"for i in pl.range(m):\n{CHANGING_PLACES[name].format(more=more)}"
    f = kernel(f"{terms}\n{loop}\no[0:64, :] = c\no[64:128, :] = d\no[128:192, :] = e", tmp_path)
    a, b = small(64, 128, dtype, 3), small(128, 32, dtype, 2)
    o = unwritten(192, 32, dtype=np.int32 if dtype is np.int8 else np.float32)
    calls = [(a, b, np.array([20, m] + [0] * 6, np.int32), o) for m in range(4)]
    for m, (*_, got) in enumerate(agree(f, *calls, ways=WAYS)):
        c, d, e, p = (product(a[:20, k : k + 32], b[k : k + 32]) for k in (0, 32, 64, 96))
        for i in range(m):
            if name == "swapped":
                c, d = d, c + p
            elif name == "in a cycle":
                c, d, e = d, e, c
            elif name == "one for two":
                c, d = e + p, c
            elif i > 1:
                c, d = d, c
        want = o.copy()
        want[0:20], want[64:84], want[128:148] = c, d, e
        np.testing.assert_array_equal(got, want)


# -- accumulators that hold more ---------------------------------------------------------------------------------------

WIDE = """
y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
acc = pl.matmul(pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat), y)
x = pl.load(a, [0, 0], [64, {k}], valid_shape=[{rows}, {k}], target_memory=pl.Mem.Mat)
acc = pl.matmul_acc(acc, x, pl.load(b, [0, 0], [{k}, 64], target_memory=pl.Mem.Mat), init_cond=(m == 1))
pl.store(acc, [0, 0], o)
"""


@pytest.mark.parametrize(("rows", "k"), [("32", 64), ("n", 64), ("n", 1088)])
def test_what_lies_beside_a_product_stays(rows, k, tmp_path):
    """In buffers, in tiles, and where the product is made of pieces."""
    f = kernel(WIDE.format(rows=rows, k=k), tmp_path)
    given = [(32, 0), (32, 1)] + [(17, 1), (64, 0)] * (rows == "n")
    calls = [numbers(*g, k=k, cols=64) for g in given]
    for (n, m), (a, b, *_), (*_, o) in zip(given, calls, agree(f, *calls, ways=WAYS), strict=True):
        want = product(a[:, :64], b[:64]).astype(np.float32)
        want[:n] = product(a, b)[:n] + (0 if m == 1 else want[:n])
        np.testing.assert_array_equal(o, want)


# -- what nobody can know ----------------------------------------------------------------------------------------------

INSIDE = """
acc = pl.create_tensor([64, 32], dtype=pl.FP32)
for k in pl.range(0, 64, 32):
    v = pl.cast(pl.read(c, [k // 32]), pl.INDEX)
    acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, k], valid_shape=[v, 32]), b[k : k + 32, :], init_cond=(k == 0))
o[:] = acc
"""


@contract("T177")
def test_extents_of_the_inside_of_the_loop(tmp_path):
    f = kernel(INSIDE, tmp_path)
    given = [(64, 64), (64, 30)]
    calls = [numbers(n, m) for n, m in given]
    for (n, m), (a, b, *_), (*_, o) in zip(given, calls, agree(f, *calls, ways=WAYS), strict=True):
        np.testing.assert_array_equal(o, stored(a, b, [(n, 0, 0, 32), (m, 32, 32, 32)]))
    with pytest.raises(KernelBoundsError, match="a product of 30 rows is added to a sum that is valid in 64") as e:
        f(*numbers(30, 30))
    assert e.value.code == "K100"
    assert "in front of the loop" in e.value.hint


def test_a_product_that_leaves_its_sum(tmp_path):
    text = "acc = pl.create_tensor([64, 32], dtype=pl.FP32)\nacc = pl.matmul_acc(acc, {}, b[0:32, :], init_cond=True)\n"
    text = text.format("pl.slice(a, [64, 32], [0, 0], valid_shape=[{x}, 32])")
    text += "acc = pl.matmul_acc(acc, pl.slice(a, [64, 32], [0, 32], valid_shape=[{y}, 32]), b[32:64, :])\no[:] = acc"
    f = kernel(text.format(x="n", y="m"), tmp_path)
    assert (f(*numbers(40, 30))[40:] == -7).all()
    program = f.specialize(*numbers(40, 50))
    for run in (lambda: f(*numbers(40, 50)), lambda: interpret(program, numbers(40, 50), "f", Placement.VALUES)):
        with pytest.raises(KernelBoundsError, match="product of"):
            run()
    with pytest.raises(CompileError, match=r"valid in \[40, 32\], and is itself valid in \[64, 32\]") as e:
        kernel(text.format(x="40", y="50"), tmp_path)(*numbers(1, 1))
    assert e.value.code == "C059"
    assert "pl.set_validshape(acc, rows, cols)" in e.value.hint


@pytest.mark.parametrize(
    "body",
    [
        "k = 0\nwhile k < n:\n    acc = pl.matmul_acc(acc, a[:, 0:32], b[0:32, :])\n    k = k + 1",
        "for k in pl.range(n):\n    if k != m:\n        acc = pl.matmul_acc(acc, a[:, 0:32], b[0:32, :])",
        "if n > m:\n    acc = pl.matmul_acc(acc, a[:, 0:32], b[0:32, :])\nacc = pl.matmul_acc(acc, a[:, 0:32], b[0:32, :])",
    ],
)
def test_the_first_product_that_nobody_can_tell(body, tmp_path):
    f = kernel(f"acc = pl.create_tensor([64, 32], dtype=pl.FP32)\n{body}\no[:] = acc", tmp_path)
    with pytest.raises(CompileError, match="is the first of 'acc'") as e:
        f(*numbers(2, 1))
    assert e.value.code == "C058"
    assert "init_cond=(k == 0)" in e.value.hint
    assert "pl.matmul_acc(acc" in str(e.value)
