"""Bad source is an error of the language, never a crash: kernels with random pieces exchanged either parse or say why not."""

from __future__ import annotations

import ast
import linecache
import random
import warnings
from typing import Any

import pytest
from frontend_kit import Kernel, arrays, entry, incore, inline, opaque

import pypto.language as pl
from pypto.errors import Error

CORPUS = """
@inline
def gate(t, by=2.0):
    u = pl.mul(t, by)
    return pl.recip(pl.add(pl.exp(pl.neg(u)), 1.0))

@incore
def rows(a: pl.Tensor, o: pl.Out[pl.Tensor], k: pl.Scalar[pl.INDEX], n=8):
    pl.store(pl.load(a, [k * n, 0], [n, 64]), [k * n, 0], o)
    return o

@opaque
def stage(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="s"):
        o[:] = pl.add(a, 1.0)
    return o

@entry
def k(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    m, n = a.shape
    flag = pl.read(c, [0]) > 0
    tmp = pl.create_tensor([16, 64], dtype=pl.FP32)
    tmp[:, 0:32] = a[:, 32:64]
    for i in pl.range(2):
        tmp = rows(a, tmp, i)
    o = stage(tmp, o)
    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.NONE)]) as tid:
        pl.static_assert(m == 16, "rows")
        t: pl.Tile[[8, 64], pl.FP32, pl.Mem.Vec] = pl.load(a, [0, 0], [8, 64], valid_shape=[8, n])
        s = pl.const(0, pl.INDEX)
        if flag:
            r = pl.yield_(gate(t))
        else:
            r = pl.yield_(t)
        for i, (p, q) in pl.range(0, 4, 1, init_values=(r, t)):
            p2, q2 = pl.yield_(q, pl.add(p, 1.0))
        for (z,) in pl.while_(init_values=(0,)):
            pl.cond(z < 4)
            z2 = pl.yield_(z + 1)
        while s < pl.cast(pl.read(c, [1]), pl.INDEX):
            s = s + pl.min(i0(s), 3) // 2
            if s == 5:
                break
            elif not flag and s > 7:
                continue
        x, y = p2, q2 - p2
        o[0:8, :] = (a[0:8, :] + b[8:16, :]) * 2.0
        pl.write(o, [0, s % 16], pl.cast(s, pl.FP32))
        pl.store(x, [z2, 0], o)
    for blk in pl.spmd(2, name_hint="tail"):
        pl.store(pl.load(b, [blk * 8, 0], [8, 64]), [blk * 8, 0], o)
    with pl.manual_scope():
        with pl.spmd(2, deps=[tid]):
            w = pl.tile.get_block_idx()
    return o
"""
HELPERS = """
@inline
def i0(v):
    return pl.max(v, 0)
"""


def build(tree: ast.Module, number: int) -> Any:
    text = ast.unparse(ast.fix_missing_locations(tree)) + HELPERS
    name = f"<mutant-{number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"pl": pl, "entry": entry, "incore": incore, "inline": inline, "opaque": opaque}
    exec(compile(text, name, "exec"), space)
    return space["k"], text


def mutate(r: random.Random) -> ast.Module:
    """Exchange a few expressions or statements for others of the corpus."""
    tree, spare = ast.parse(CORPUS), ast.parse(CORPUS)
    exprs = [n for n in ast.walk(spare) if isinstance(n, ast.expr) and not isinstance(getattr(n, "ctx", None), ast.Store)]
    odd = ("None", "-1", "1.5", "'s'", "(1, a)", "[]", "pl", "pl.tile", "pl.FP32", "True", "o")
    exprs += [ast.parse(t, mode="eval").body for t in odd]
    stmts = [n for n in ast.walk(spare) if isinstance(n, ast.stmt) and not isinstance(n, ast.FunctionDef)]
    for _ in range(r.randrange(1, 4)):
        slots: list[tuple[Any, str, int | None]] = []
        for f in tree.body:
            assert isinstance(f, ast.FunctionDef)
            for n in (x for s in f.body for x in ast.walk(s)):
                for field, value in ast.iter_fields(n):
                    if isinstance(value, ast.expr) and not isinstance(getattr(value, "ctx", None), ast.Store):
                        slots.append((n, field, None))
                    elif isinstance(value, list) and field not in ("targets", "generators"):
                        slots += [(n, field, i) for i, v in enumerate(value) if isinstance(v, (ast.expr, ast.stmt))]
        parent, field, at = r.choice(slots)
        old = getattr(parent, field) if at is None else getattr(parent, field)[at]
        if isinstance(getattr(old, "ctx", None), ast.Store):
            continue
        new = r.choice(stmts if isinstance(old, ast.stmt) else exprs)
        if at is None:
            setattr(parent, field, new)
        elif r.random() < 0.3 and len(getattr(parent, field)) > 1:
            del getattr(parent, field)[at]
        else:
            getattr(parent, field)[at] = new
    return tree


def outcome(k: Kernel) -> Exception | None:
    try:
        k.parse(*arrays())
    except Exception as e:
        return e
    return None


def test_the_corpus_parses() -> None:
    k, _ = build(ast.parse(CORPUS), -1)
    k.parse(*arrays())


@pytest.mark.parametrize("seed", range(6))
def test_mutants(seed: int) -> None:
    r = random.Random(seed)
    refused = 0
    for i in range(40):
        try:
            made, text = build(mutate(r), seed * 100 + i)
        except (SyntaxError, TypeError, Error, IndexError):
            continue  # not a module at all
        assert isinstance(made, Kernel)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            e = outcome(made)
        refused += e is not None
        assert e is None or (isinstance(e, Error) and e.message and e.span is not None), (repr(e), text)
    assert refused > 5
