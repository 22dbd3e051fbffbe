"""Tensors that an entry creates: reading one that nothing has written is refused, and nothing that may be right is."""

import numpy as np
import pytest
from programs_kit import module

from pypto.errors import CompileError

HEAD = """
import pypto.language as pl


@pl.jit.incore
def added(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor]):
    o = pl.assemble(o, pl.add(x, y), [0, 0])
    return o


@pl.jit.incore
def first_or_added(x: pl.Tensor, y: pl.InOut[pl.Tensor], i: pl.INDEX):
    if i == 0:
        y = pl.assemble(y, pl.mul(x, 1.0), [0, 0])
    else:
        y = pl.assemble(y, pl.add(x, y), [0, 0])
    return y


@pl.jit.incore
def sum_of_rows(x: pl.Tensor, y: pl.Tensor, o: pl.Out[pl.Tensor], n: pl.INDEX):
    s = pl.mul(x, 1.0)
    for j in pl.range(n):
        s = pl.add(s, y)
    o = pl.assemble(o, s, [0, 0])
    return o


@pl.jit
def k(a: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
    t = pl.create_tensor([16, 64], dtype=pl.FP32)
"""
SCOPE = "with pl.at(level=pl.Level.CORE_GROUP):"
# Each body, and the line of it that reads what nothing has written.
WRONG = {
    "a scope": (f"{SCOPE}\n    u = a * 2.0\n    out = pl.assemble(out, t + u, [0, 0])", 3),
    "a kernel": ("out = added(t, a, out)", 1),
    "a window": (f"w = t[0:8]\n{SCOPE}\n    out = pl.assemble(out, w + a[0:8], [0, 0])", 3),
    "an element": (f"x = pl.read(t, [0, 0])\n{SCOPE}\n    out = pl.assemble(out, a + x, [0, 0])", 1),
    "written behind": (
        f"{SCOPE}\n    out = pl.assemble(out, t + a, [0, 0])\n{SCOPE}\n    t = pl.assemble(t, a * 2.0, [0, 0])",
        2,
    ),
    "a loop": (f"for i in pl.range(n):\n    {SCOPE}\n        out = pl.assemble(out, t + a, [0, 0])", 3),
    "the first trip": (
        f"for i in pl.range(4):\n    {SCOPE}\n        t = t + a\n{SCOPE}\n    out = pl.assemble(out, t + a, [0, 0])",
        3,
    ),
    "a branch": (f"if n > 1:\n    {SCOPE}\n        out = pl.assemble(out, t + a, [0, 0])", 3),
    "a loop in the kernel": (
        f"{SCOPE}\n    for i in pl.range(4):\n        out = pl.assemble(out, t[4 * i : 4 * i + 4] + a[0:4], [4 * i, 0])",
        3,
    ),
}
RIGHT = {
    "written before": (f"{SCOPE}\n    t = pl.assemble(t, a * 2.0, [0, 0])\nout = added(t, a, out)", lambda a: a * 3),
    "written in part": (
        f"{SCOPE}\n    t = pl.assemble(t, a[0:8] * 2.0, [0, 0])\n{SCOPE}\n    out = pl.assemble(out, t[0:8] + a[0:8], [0, 0])",
        lambda a: np.concatenate([a[:8] * 3, a[8:] * 0]),
    ),
    "an element written": (
        f"pl.write(t, [0, 0], 1.0)\nx = pl.read(t, [0, 0])\n{SCOPE}\n    out = pl.assemble(out, a + x, [0, 0])",
        lambda a: a + 1,
    ),
    "a value": (
        "v = pl.create_tensor([16, 64], dtype=pl.FP32, init_value=1.0)\nt = added(v, a, t)\nout = added(v, t, out)",
        lambda a: a + 2,
    ),
    "the kernel writes first": (
        f"{SCOPE}\n    t = pl.assemble(t, a * 2.0, [0, 0])\n    out = pl.assemble(out, t + a, [0, 0])",
        lambda a: a * 3,
    ),
    "the kernel decides": (
        f"t = first_or_added(a, t, 0)\nt = first_or_added(a, t, 1)\n{SCOPE}\n    out = pl.assemble(out, t * 1.0, [0, 0])",
        lambda a: a * 2,
    ),
    "no trip in the kernel": (
        "u = pl.create_tensor([16, 64], dtype=pl.FP32)\nu = sum_of_rows(a, t, u, 0)\nout = sum_of_rows(a, u, out, 1)",
        lambda a: a * 2,
    ),
    "an earlier trip": (
        f"for i in pl.range(4):\n    if i > 0:\n        out = added(t, a, out)\n    {SCOPE}\n"
        "        t = pl.assemble(t, a * 2.0, [0, 0])",
        lambda a: a * 3,
    ),
    "a window written": (
        f"w = t[0:8]\n{SCOPE}\n    t = pl.assemble(t, a * 2.0, [0, 0])\n{SCOPE}\n    out = pl.assemble(out, w + a[0:8], [0, 0])",
        lambda a: np.concatenate([a[:8] * 3, a[8:] * 0]),
    ),
    "one arm": (
        f"if n > 0:\n    {SCOPE}\n        t = pl.assemble(t, a * 2.0, [0, 0])\nif n > 0:\n    out = added(t, a, out)",
        lambda a: a * 3,
    ),
    "an inner loop without a trip": (
        f"for i in pl.range(3):\n    for j in pl.range(i):\n        out = added(t, a, out)\n    {SCOPE}\n"
        "        t = pl.assemble(t, a * 2.0, [0, 0])",
        lambda a: a * 3,
    ),
}


def kernel_of(body, tmp_path):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return module(f"{HEAD}{lines}\n    return out\n", tmp_path).k


def given():
    a = np.arange(1024, dtype=np.float32).reshape(16, 64)
    return a, 1, np.zeros((16, 64), np.float32)


@pytest.mark.parametrize("name", WRONG)
def test_what_nothing_has_written_is_refused_at_its_line(name, tmp_path):
    body, line = WRONG[name]
    args = given()
    with pytest.raises(CompileError, match=r"'[tw]' is read, and nothing has written it") as e:
        kernel_of(body, tmp_path)(*args)
    assert e.value.code == "C062"
    assert e.value.span["line"] == len(HEAD.splitlines()) + line
    assert "init_value" in e.value.hint
    assert not args[-1].any()


@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_right_is_not_refused(name, tmp_path):
    body, wanted = RIGHT[name]
    a, n, out = given()
    kernel_of(body, tmp_path)(a, n, out)
    assert np.array_equal(out, wanted(a))
