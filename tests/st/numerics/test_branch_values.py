"""The value of an if is the value of the arm that ran: arms of every kind, conditions of every kind, whatever follows."""

import numpy as np
import pytest
from numerics_kit import PLACED, agree, scope
from programs_kit import blocks, cfg, out, same, whole

import pypto.language as pl
from pypto.errors import ParserTypeError, UndefinedVariableError

YES, NO = True, False


@pl.jit
def arms(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """What an arm hands out is written to afterwards; its other readers see nothing of that."""
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.read(c, [0])
        r = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [24, 8])
        u = pl.slice(t, [8, 8], [r, 0])
        v = pl.slice(t, [8, 8], [16, 0])
        if k > 0:  # windows of one tile, and the tile of an enclosing branch
            w = u
            if k > 1:
                w = v
                if k > 2:
                    w = pl.add(v, u)
        else:
            w = pl.sub(u, v)
        x = w
        if k % 2 == 1:  # no else
            x = pl.mul(x, 10.0)
        y = pl.assemble(t, x, [8, 0])
        if NO:
            z = x
        elif YES:
            z = pl.add(w, 0.5)
        else:
            z = pl.add(w, 100.0)
        pl.store(w, [0, 0], o)
        pl.store(x, [8, 0], o)
        pl.store(y, [16, 0], o)
        pl.store(z, [40, 0], o)
        pl.store(u, [48, 0], o)
        pl.store(v, [56, 0], o)
        pl.store(t, [64, 0], o)
    return o


def numpy_arms(t, k, r):
    u, v = t[r : r + 8], t[16:]
    w = u - v if k <= 0 else (u, v, v + u)[k - 1]
    x = w * 10 if k % 2 == 1 else w
    return np.vstack([w, x, t[:8], x, t[16:], w + 0.5, u, v, t])


def test_what_arms_hand_out_stays_what_it_was():
    a, configs = whole(24, 8), ((0, 3), (1, 5), (2, 8), (3, 0))
    for c, g in zip(configs, agree(arms, *([a, cfg(*c), out(88, 8)] for c in configs), ways=PLACED), strict=True):
        same(g[2], numpy_arms(a, *c))


@pl.jit
def several(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], m: pl.Out[pl.Tensor]):
    """A chain whose arms yield tiles of two types, a scalar of each type, and a swap; inside of loops of both kinds."""
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.read(c, [0])
        p = pl.load(a, [0, 0], [8, 8])
        q = pl.load(a, [8, 0], [8, 8])
        h = pl.cast(p, pl.INT32)
        s = pl.const(0, pl.INT32)
        f = pl.read(a, [0, 0])
        i = n
        while i > 0:
            if i % 4 == 0:
                p, q, h, s, f = q, p, pl.add(h, 1), s + i, f * 2.0
            elif i % 4 == 1:
                p, q, h, s, f = pl.add(p, q), p, pl.mul(h, 3), s * 2, f + 1.0
            elif i == n:
                s = s + 100
            else:
                q, h, f = p, pl.neg(h), -f
            i = i - 1
        for j in pl.range(n):
            if j == n - 1:  # true once, at the end
                p = pl.add(p, f)
                s = s + 1000
        pl.store(p, [0, 0], o)
        pl.store(q, [8, 0], o)
        pl.store(pl.cast(h, pl.FP32), [16, 0], o)
        pl.write(m, [0], s)
        pl.write(m, [1], pl.cast(f, pl.INT32))
    return o, m


def python_several(n):
    p, q, h, s, f = 1, 2, 1, 0, 1
    for i in range(n, 0, -1):
        if i % 4 == 0:
            p, q, h, s, f = q, p, h + 1, s + i, f * 2
        elif i % 4 == 1:
            p, q, h, s, f = p + q, p, h * 3, s * 2, f + 1
        elif i == n:
            s += 100
        else:
            q, h, f = p, -h, -f
    return ([p + f, q, h], [s + 1000, f]) if n else ([p, q, h], [s, f])


def test_tiles_and_scalars_of_one_chain():
    numbers = (0, 1, 2, 4, 7)
    calls = [[blocks(1, 2), cfg(n), out(24, 8), out(8, dtype=np.int32)] for n in numbers]
    for n, g in zip(numbers, agree(several, *calls, ways=PLACED), strict=True):
        tiles, scalars = python_several(n)
        same(g[2], blocks(*tiles))
        same(g[3][:2], scalars)


@pl.jit
def tensors(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """Branches of the orchestration choose between tensors and write into what they chose."""
    k = pl.read(c, [0])
    t = pl.create_tensor([8, 8], dtype=pl.FP32)
    u = pl.create_tensor([8, 8], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[:] = a[0:8, :]
        u[:] = a[8:16, :]
    if k > 0:
        with pl.at(level=pl.Level.CORE_GROUP):
            t[:] = pl.add(t, 10.0)
            if k > 1:
                u[:] = pl.mul(t, u)
    with pl.at(level=pl.Level.CORE_GROUP):
        o[0:8, :] = t
        o[8:16, :] = u
    return o


def test_branches_that_write_tensors():
    table = {0: (1, 2), 1: (11, 2), 2: (11, 22)}
    for g, want in zip(agree(tensors, *([blocks(1, 2), cfg(k), out(16, 8)] for k in table)), table.values(), strict=True):
        same(g[2], blocks(*want))


ENDS = {
    "yielded": (
        ["if r > n:", "    w = pl.yield_(t)", "else:", "    w = pl.yield_(u)", "pl.store(w, [0, 0], o)"],
        ParserTypeError,
        "yield different types",
        "w = pl.yield_(u)",
    ),
    "rebound": (
        ["w = t", "if r > n:", "    w = u", "pl.store(w, [0, 0], o)"],
        ParserTypeError,
        "different type",
        "w = u",
    ),
    "one of two": (
        ["if r > n:", "    w = t", "else:", "    w = u", "pl.store(w, [0, 0], o)"],
        UndefinedVariableError,
        "different things",
        "pl.store(w, [0, 0], o)",
    ),
}


@pytest.mark.parametrize(("lines", "error", "words", "line"), ENDS.values(), ids=list(ENDS))
def test_arms_that_are_valid_in_different_parts_are_refused_at_their_line(lines, error, words, line, tmp_path):
    """One tile cannot be valid now here, now there: what an arm did not write would be read."""
    head = ["r = pl.cast(pl.read(c, [0]), pl.INDEX)", "n = pl.cast(pl.read(c, [1]), pl.INDEX)"]
    head += ["t = pl.load(a, [0, 0], [8, 16], valid_shape=[r, 16])", "u = pl.load(a, [0, 0], [8, 16], valid_shape=[8, n])"]
    k = scope("a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]", head + lines, tmp_path)
    o = out(8, 16)
    with pytest.raises(error, match=words) as e:
        k(out(8, 16, fill=1), cfg(3, 2), o)
    assert line in e.value.source_lines[0]
    same(o, -777)


@pl.jit
def moving_windows(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """Both values are windows of one tile, each at a run-time row: their places differ though their storage is one."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [16, 64])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        x = pl.slice(t, [8, 64], [n, 0])
        if n > 0:
            x = pl.slice(t, [8, 64], [n + 1, 0])
        for i in pl.range(pl.cast(pl.read(c, [1]), pl.INDEX)):
            x = pl.slice(t, [8, 64], [i, 0])
        pl.store(x, [0, 0], o)
    return o


def test_windows_at_run_time_rows():
    a = np.repeat(np.arange(16, dtype=np.float32), 64).reshape(16, 64)
    calls = [(a, np.int32([n, trips]), out(8, 64)) for n, trips in ((0, 0), (3, 0), (0, 1), (5, 4))]
    for (*_, o), first in zip(agree(moving_windows, *calls), (0, 4, 0, 3), strict=True):
        same(o, a[first : first + 8])


@pl.jit
def one_window(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """Both arms hand out the same window, of run-time and of constant rows."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [24, 64])
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        w = pl.slice(t, [8, 64], [n, 0])
        u = pl.slice(t, [8, 64], [3, 0])
        if n > 2:
            v, z = pl.yield_(w, u)
        else:
            v, z = pl.yield_(w, u)
        pl.store(v, [0, 0], o)
        pl.store(z, [8, 0], o)
    return o


def test_one_window_from_both_arms():
    a = np.repeat(np.arange(24, dtype=np.float32), 64).reshape(24, 64)
    calls = [(a, np.int32([n]), out(16, 64)) for n in (0, 3, 9)]
    for (*_, o), first in zip(agree(one_window, *calls, ways=PLACED), (0, 3, 9), strict=True):
        same(o[:8], a[first : first + 8])
        same(o[8:], a[3:11])
