"""A tile that is given as scratch and read again keeps its elements, in every way there is."""

import linecache

import numpy as np
import pytest
from lab import everywhere

KERNEL = """import pypto.language as pl

@pl.jit
def k(a: pl.Tensor, n: pl.INDEX, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 32])
        u = pl.load(a, [8, 0], [8, 32])
{body}
        pl.store(t, [0, 0], o)
        pl.store(u, [8, 0], o)
    return o
"""


def most(x):
    return x.max(1, keepdims=True)


BODIES = {
    "read later": ("t = pl.row_expand_sub(t, pl.row_max(t, u))", lambda t, u, n: (t - most(t), u)),
    "read at once": ("t = pl.row_expand_sub(t, pl.row_max(t, t))", lambda t, u, n: (t - most(t), u)),
    "a window of it": (
        "w = pl.slice(u, [8, 32], [0, 0])\nt = pl.row_expand_sub(t, pl.row_max(t, w))",
        lambda t, u, n: (t - most(t), u),
    ),
    "read in the next trip": (
        "v = pl.load(a, [0, 0], [8, 32])\n"
        "for i in pl.range(n):\n    u = pl.add(u, v)\n    t = pl.row_expand_sub(t, pl.row_max(u, v))",
        lambda t, u, n: (t - sum(most(u + i * t) for i in range(1, n + 1)), u + n * t),
    ),
    "carried": (
        "for i in pl.range(n):\n    u = pl.row_expand_sub(u, pl.row_max(u, t))\n    t = pl.add(t, 1.0)",
        lambda t, u, n: (t + n, u - most(u) if n else u),
    ),
    "in one arm": (
        "if n > 1:\n    t = pl.row_expand_sub(t, pl.row_max(t, u))\n    u = pl.tile.full([8, 32], dtype=pl.FP32, value=3.0)\n"
        "else:\n    u = pl.add(u, 1.0)",
        lambda t, u, n: (t - most(t), np.full_like(u, 3)) if n > 1 else (t, u + 1),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_scratch_that_is_read_again(name, tmp_path):
    body, want = BODIES[name]
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    text, path = KERNEL.format(body=lines), str(tmp_path / "kernel.py")
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names = {}
    exec(compile(text, path, "exec"), names)
    a = np.random.default_rng(3).integers(-9, 10, (16, 32)).astype(np.float32)
    for n in (0, 2):
        *_, o = everywhere(names["k"], a, n, np.zeros_like(a))
        np.testing.assert_array_equal(o, np.concatenate(want(a[:8], a[8:], n)))
