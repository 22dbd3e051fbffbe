"""What the help says for functions that other array languages have: run, and held against numpy in double precision."""

import re
import warnings

import numpy as np
import pytest
from errors_kit import arrays, kernel, module, out, refused

from pypto.errors import (
    CompileError,
    InvalidOperationError,
    KernelBoundsError,
    NotSupportedError,
    PyptoWarning,
    VerificationError,
)

UNARY = "a: pl.Tensor, o: pl.Out[pl.Tensor]"


def x():
    return np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32) * 3


def centred(a):
    return a - a.mean(1, keepdims=True)


WANTED = {
    "softmax": lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True),
    "log_softmax": lambda a: a - np.log(np.exp(a).sum(1, keepdims=True)),
    "gelu": lambda a: 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))),
    "silu": lambda a: a / (1 + np.exp(-a)),
    "swish": lambda a: a / (1 + np.exp(-a)),
    "softplus": lambda a: np.log1p(np.exp(a)),
    "relu6": lambda a: np.clip(a, 0, 6),
    "rms_norm": lambda a: a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6),
    "layer_norm": lambda a: centred(a) / np.sqrt(a.var(1, keepdims=True) + 1e-5),
    "var": lambda a: a.var(1, keepdims=True),
    "std": lambda a: a.std(1, keepdims=True),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", WANTED)
def test_a_recipe_gives_the_numbers(name, tmp_path):
    """The help as code: `write d = X, then Y` is an assignment and a value."""
    a = x()
    want = WANTED[name](a.astype(np.float64))
    o = out(*want.shape)
    e = refused(kernel(tmp_path, f"o[:] = pl.{name}(a)", UNARY), (a, o), InvalidOperationError, piece=f"pl.{name}")
    help_ = re.split(r", on tensors|; examples|, the form|; it is right", e.hint.removeprefix("write "))[0]
    *before, value = help_.split(", then ")
    kernel(tmp_path, "\n".join([*before, f"o[:] = {value}"]), UNARY)(a, o)
    np.testing.assert_allclose(o, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("condition", "arms", "want"),
    [
        ("a > 0.0", ("pl.log(a)", "0.0"), lambda a: np.log(a)),
        ("a > 0.0", ("a", "pl.exp(a * 100.0)"), lambda a: a),
        ("a > 0.0", ("1.0 / (a + 2.0)", "pl.sqrt(-a)"), lambda a: 1 / (a + 2)),
        ("a > 0.0", ("pl.log(pl.sqrt(a))", "a"), lambda a: np.log(np.sqrt(a))),
    ],
)
def test_a_choice_has_no_nan_from_what_is_not_chosen(condition, arms, want, tmp_path):
    a = np.abs(x())
    a[::2] *= -1
    a[0] = -2
    o = out(16, 64)
    k = kernel(tmp_path, f"o[:] = pl.where({condition}, {', '.join(arms)})", UNARY)
    e = refused(k, (a, o), InvalidOperationError, "0 * NaN is NaN", piece="pl.where")
    mask, value = re.search(r"(m = .*), then (.*); what", e.hint).groups()
    kernel(tmp_path, f"{mask}\no[:] = {value}", UNARY)(a, o)
    assert np.isfinite(o).all()
    np.testing.assert_allclose(o[1::2], want(a[1::2].astype(np.float64)), rtol=1e-5)


# -- shapes that are not whole blocks ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(13, 17), (13,), (1, 3)])
def test_a_tensor_program_with_odd_rows(shape, tmp_path):
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    o = out(*shape)
    e = refused(kernel(tmp_path, "o[:] = a * 2.0", UNARY), (a, o), CompileError, code="C051", piece="a * 2.0")
    taken, written = re.search(r"(y = pl\.slice.*clamp=True\)).* and out = (.*) writes it", e.hint).groups()
    body = f"{taken}\ny = y * 2.0\no = {written.replace('(out,', '(o,')}"
    kernel(tmp_path, body, UNARY)(a, o)
    np.testing.assert_array_equal(o, 2 * a)


SCATTER = "a: pl.Tensor, i: pl.Tensor, src: pl.Tensor, o: pl.InOut[pl.Tensor]"


def test_thirteen_rows_to_scatter(tmp_path):
    a, i = np.zeros((64, 32), np.float32), np.arange(13, dtype=np.int32)[None, ::-1].copy()
    src, o = np.arange(13 * 32, dtype=np.float32).reshape(13, 32), np.zeros((64, 32), np.float32)
    k = kernel(tmp_path, "o[:] = pl.scatter_update(a, -2, i, src)", SCATTER)
    e = refused(k, (a, i, src, o), CompileError, "repeat the last one", code="C051", piece="pl.scatter_update")
    line = re.search(r"x = (pl\.assemble\(x, .*) in a loop over j", e.hint)[1].replace("(x,", "(o,")
    kernel(tmp_path, f"for j in pl.range(13):\n    o = {line}", SCATTER)(a, i, src, o)
    np.testing.assert_array_equal(o[i[0]], src)
    assert (o[13:] == 0).all()
    whole, rows, got = np.append(i, i[:, [-1] * 3], 1), np.append(src, src[[-1] * 3], 0), out(64, 32)
    k(a, whole, rows, got)
    np.testing.assert_array_equal(got, o)


def test_a_row_that_there_is_not(tmp_path):
    a, i, src = np.zeros((64, 32), np.float32), np.full((1, 8), 99, np.int32), np.ones((8, 32), np.float32)
    with pytest.raises(KernelBoundsError, match="99") as caught:
        kernel(tmp_path, "o[:] = pl.scatter_update(a, -2, i, src)", SCATTER)(a, i, src, np.zeros((64, 32), np.float32))
    assert caught.value.hint == "correct the index"
    with pytest.raises(KernelBoundsError, match="99") as caught:
        kernel(tmp_path, 'pl.store(pl.mgather(a, pl.load(i, [0, 0], [1, 8]), "row"), [0, 0], o)', SCATTER)(a, i, src, a.copy())
    assert "gather_oob=" in caught.value.hint


# -- names that are not what they seem -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        ("c = a * 2.0", True),
        ("c = a * 2.0\nc = c + 1.0", True),
        ("c[:] = a * 2.0", False),
        ("c = a + c", False),
        ("x = c + 1.0\nc = a + x", False),
        ("pl.store(pl.load(a, [0, 0], [16, 64]), [0, 0], c)\nc = a * 2.0", False),
    ],
)
def test_a_parameter_whose_array_nobody_sees(body, warned, tmp_path):
    """Neither marked as an output, nor read, nor written: what is passed does not matter, and stays as it is."""
    text = "a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]"
    a, _, _, o = arrays()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel(tmp_path, f"{body}\no[:] = c", text).lower(a, a.copy(), o)
    texts = [str(w.message) for w in found if issubclass(w.category, PyptoWarning)]
    assert any("the array that is passed as 'c' is neither read nor written" in t for t in texts) is warned
    assert not warned or "write 'c[:] = …'" in texts[0]


@pytest.mark.parametrize("opening", ["if n > 3:", "for i in pl.range(n):"])
def test_a_name_that_may_have_no_value(opening, tmp_path):
    text = "a: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor]"
    a, _, _, o = arrays()
    k = kernel(tmp_path, f"{opening}\n    y = a * 2.0\no[:] = y", text)
    e = refused(k, (a, 4, o), VerificationError, "Variable 'y' used outside its defining scope", piece="o[:] = y")
    assert "'y' gets its value in a branch or loop at line 6 that may not run" in e.hint


# -- a text for the assembler --------------------------------------------------------------------------------------

OPEN = """
K = pl.dynamic("K")

@pl.jit
def k(a: pl.Tensor[[32, K], pl.FP32], b: pl.Tensor[[K, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    n = a.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([32, 32], dtype=pl.FP32)
        for p in pl.range(0, END, 32):
            x, y = pl.slice(a, [32, 32], [0, p], clamp=True), pl.slice(b, [32, 32], [p, 0], clamp=True)
            acc = pl.matmul_acc(acc, x, y, init_cond=(p == 0))
        o[:] = acc
    return o
"""


def test_a_loop_to_an_open_extent(tmp_path):
    """What is handed into the kernel is any number; the extent that it asks for is the tensor's."""
    args = np.ones((32, 48), np.float32), np.ones((48, 32), np.float32), out(32, 32)
    with pytest.raises(NotSupportedError, match="of which nothing may be valid") as caught:
        module(tmp_path, OPEN.replace("END", "n")).k.inspect("pto", *args)
    assert "pl.range(0, x.shape[1], n)" in caught.value.hint
    k = module(tmp_path, OPEN.replace("END", "a.shape[1]")).k
    assert "pto.tmatmul" in k.inspect("pto", *args)
    assert (k(*args) == 48).all()
