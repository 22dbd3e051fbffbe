"""All right-hand sides of a loop's yield are read before any carry changes, whatever the loop and whatever is permuted.

Each update is written once, as text: it is the kernel's statement, and Python says what it gives.
"""

import numpy as np
import pytest
from numerics_kit import PLACED, TWO, agree, scope
from programs_kit import blocks, cfg, out, same, whole

import pypto.language as pl
from pypto.errors import ParserTypeError

SEEDS = (1.0, 2.0, 4.0, 7.0)
NAMES = "pqrs"
UPDATES = [
    text.split(", ")
    for text in (
        # permutations: of two, of three either way round, of four, two pairs
        "q, p",
        "q, r, p",
        "r, p, q",
        "s, p, q, r",
        "r, s, q, p",
        "q, p, s, r",
        # and others
        "q, p + q",
        "p + q, p",
        "p - q, p + q",
        "q, q, p",
        "p + r, p, q - r",
        "s, p + s, q, r",
        "q, p, s, r + p",
        "r, s, p, p",
    )
]
ROWS = np.float32(SEEDS)[:, None] * np.ones((1, 8), np.float32)


def _for(names, update, bound):
    return [f"for _ in pl.range({bound}):", f"    {', '.join(names)} = {', '.join(update)}"]


def _yielded(names, update, bound):
    news = [f"{n}_" for n in names]
    return [
        f"for _, ({', '.join(names)}) in pl.range(0, {bound}, 1, init_values=({', '.join(names)})):",
        f"    {', '.join(news)} = pl.yield_({', '.join(update)})",
        f"{', '.join(names)} = {', '.join(news)}",
    ]


def _while(names, update, bound):
    return ["k = 0", f"while k < {bound}:", f"    {', '.join(names)} = {', '.join(update)}", "    k = k + 1"]


def _pl_while(names, update, bound):
    news = [f"{n}_" for n in names]
    return [
        f"for k, {', '.join(names)} in pl.while_(init_values=(0, {', '.join(names)})):",
        f"    pl.cond(k < {bound})",
        f"    k_, {', '.join(news)} = pl.yield_(k + 1, {', '.join(update)})",
        f"{', '.join(names)} = {', '.join(news)}",
    ]


LOOPS = (_for, _yielded, _while, _pl_while)


def kernel(turn, bound, folder):
    """For each update: a loop over fresh seeds, then a row for each carry; the kinds of loops take turns.  Then the seeds."""
    lines = ["n = pl.cast(pl.read(c, [0]), pl.INDEX)", *(f"seed{i} = pl.load(a, [{i}, 0], [1, 8])" for i in range(4))]
    row = 0
    for number, update in enumerate(UPDATES):
        names = NAMES[: len(update)]
        loop = LOOPS[(number + turn) % len(LOOPS)]
        lines += [f"{n} = seed{i}" for i, n in enumerate(names)] + loop(names, update, bound)
        lines += [f"pl.store({n}, [{row + i}, 0], o)" for i, n in enumerate(names)]
        row += len(names)
    lines += [f"pl.store(seed{i}, [{row + i} + n - n, 0], o)" for i in range(4)]
    return scope("a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]", lines, folder), row + 4


def python(trips):
    rows = []
    for update in UPDATES:
        names = NAMES[: len(update)]
        values = SEEDS[: len(update)]
        for _ in range(trips):
            scope = dict(zip(names, values, strict=True))
            values = [eval(text, scope) for text in update]
        rows += values
    return np.float32([*rows, *SEEDS])[:, None]


@pytest.mark.parametrize("turn", range(len(LOOPS)))
def test_every_update_in_every_kind_of_loop(turn, tmp_path):
    static = turn % 2 == 1
    k, rows = kernel(turn, "3" if static else "n", tmp_path)
    trips = (3,) if static else (0, 1, 2, 5)
    calls = [[ROWS, cfg(n), out(rows, 8)] for n in trips]
    for n, got in zip(trips, agree(k, *calls, ways=PLACED if turn == 0 else TWO), strict=True):
        same(got[2], python(n))


@pl.jit
def views(a: pl.Tensor, h: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """Carries that begin as windows of one tile, and as parts that are not valid everywhere."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        t = pl.load(a, [0, 0], [16, 8])
        u = pl.slice(t, [8, 8], [0, 0])
        v = pl.slice(t, [8, 8], [8, 0])
        for _, (x, y) in pl.range(0, n, 1, init_values=(u, v)):
            x2, y2 = pl.yield_(y, x)
        for _, (w, z) in pl.range(0, 3, 1, init_values=(x2, u)):
            w2, z2 = pl.yield_(z, pl.sub(w, z))
        pl.store(x2, [0, 0], o)
        pl.store(y2, [8, 0], o)
        pl.store(w2, [16, 0], o)
        pl.store(z2, [24, 0], o)
        pl.store(t, [32, 0], o)
        e = pl.load(h, [0, 0], [8, 16], valid_shape=[8, 5 + n])
        f = pl.load(h, [8, 0], [8, 16], valid_shape=[8, 5 + n])
        for _ in pl.range(n):
            e, f = f, pl.add(e, f)
        pl.store(e, [0, 0], p)
        pl.store(f, [8, 0], p)
    return o, p


def test_carries_that_begin_as_windows_or_partly_valid():
    a, h = blocks(1, 2), whole(16, 16, dtype=np.float16)
    trips = (0, 1, 2, 5)
    got = agree(views, *([a, h, cfg(n), out(48, 8), out(16, 16, dtype=np.float16)] for n in trips), ways=PLACED)
    for n, (*_, o, p) in zip(trips, got, strict=True):
        x, y = (1, 2) if n % 2 == 0 else (2, 1)
        w, z = x, 1
        for _ in range(3):
            w, z = z, w - z
        same(o, blocks(x, y, w, z, 1, 2))
        e, f = h[:8], h[8:]
        for _ in range(n):
            e, f = f, e + f
        want = out(16, 16)
        want[:8, : 5 + n], want[8:, : 5 + n] = e[:, : 5 + n], f[:, : 5 + n]
        same(p, want)


@pl.jit
def unequal(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        p = pl.load(a, [0, 0], [8, 8])
        q = pl.load(a, [0, 0], [16, 8])
        for _ in pl.range(3):
            p, q = q, p
        pl.store(p, [0, 0], o)
    return o


def test_a_swap_of_different_types_is_an_error_at_its_line():
    o = out(16, 8)
    with pytest.raises(ParserTypeError) as e:
        unequal(blocks(1, 2), o)
    assert "p, q = q, p" in e.value.source_lines[0]
    same(o, -777)


@pl.jit.inline
def rebinds_its_parameter(x: pl.Tile):
    t = x
    t = pl.add(t, 1.0)
    x = t
    return pl.mul(x, 2.0)


@pl.jit.inline
def turns_its_parameters(x: pl.Tile, y: pl.Tile, n: pl.INDEX):
    z = pl.add(x, y)
    for _ in pl.range(n):
        x = y
        y = z
        z = pl.add(z, 1.0)
    return pl.mul(x, 10.0)


@pl.jit
def callers(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 8])
        u = pl.load(a, [8, 0], [8, 8])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        pl.store(rebinds_its_parameter(t), [0, 0], o)
        pl.store(turns_its_parameters(t, u, n), [8, 0], o)
        pl.store(t, [16, 0], o)
        pl.store(u, [24, 0], o)
    return o


def test_names_of_a_helper_are_its_own():
    """What a helper rebinds, its caller keeps."""
    trips = (0, 1, 2, 3)
    for n, got in zip(trips, agree(callers, *([blocks(1, 2), cfg(n), out(32, 8)] for n in trips)), strict=True):
        same(got[2], blocks(4, 10 * (1, 2, 3, 4)[n], 1, 2))
