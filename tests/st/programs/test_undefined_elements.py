"""Elements outside a tile's valid rectangle are never taken for values."""

import numpy as np
import pytest
from programs_kit import BRIEF, agree, cfg, module, on_the_way, out, same, whole

import pypto.language as pl
from pypto.debug import interpret
from pypto.errors import Error, KernelBoundsError


@pl.jit
def element(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[r, n])
        pl.write(o, [0], pl.read(t, [pl.cast(pl.read(c, [2]), pl.INDEX), pl.cast(pl.read(c, [3]), pl.INDEX)]))
    return o


@pl.jit
def window(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(c, [0]), pl.INDEX)
        n = pl.cast(pl.read(c, [1]), pl.INDEX)
        at = pl.cast(pl.read(c, [2]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32])
        pl.store(pl.assemble(t, pl.load(a, [8, 0], [4, 32], valid_shape=[r, n]), [at, 0]), [0, 0], o)
    return o


@pl.jit
def beyond(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    """The target is valid in its first rows only, and what is written beyond them is not valid afterwards either."""
    with pl.at(level=pl.Level.CORE_GROUP):
        m = pl.cast(pl.read(c, [0]), pl.INDEX)
        at = pl.cast(pl.read(c, [1]), pl.INDEX)
        t = pl.load(a, [0, 0], [8, 32], valid_shape=[m, 32])
        pl.store(pl.assemble(t, pl.load(a, [8, 0], [4, 32], valid_shape=[2, 32]), [at, 0]), [0, 0], o)
    return o


def refused(kernel, args, words, on_tiles):
    given = [*args]
    for way in BRIEF:
        with on_the_way(way), pytest.raises(KernelBoundsError, match=words) as e:
            kernel.compile(*given)(*given)
        assert e.value.span
        assert "pl.fillpad" in str(e.value)
    with pytest.raises(KernelBoundsError, match=on_tiles):
        interpret(kernel.lower(*given), given, kernel.__name__)
    same(args[-1], -777)


@pytest.mark.parametrize(
    ("valid", "at", "words"), [((3, 32), (3, 0), "element 3 of axis 0"), ((8, 5), (7, 31), "element 31 of axis 1")]
)
def test_an_element_that_is_not_valid_is_not_read(valid, at, words):
    refused(element, [whole(8, 32), cfg(*valid, *at), out(1)], words, "of which . are valid")


def test_valid_elements_are_read():
    a = whole(8, 32)
    calls = [[a, cfg(3, 5, 2, 4), out(1)], [a, cfg(8, 32, 7, 31), out(1)]]
    first, last = agree(element, *calls)
    same(first[2], a[2, 4])
    same(last[2], a[7, 31])


@pytest.mark.parametrize("valid", [(3, 32), (4, 31), (0, 32), (4, 32)])
def test_a_window_brings_its_valid_elements(valid):
    """The rest of the window keeps what the target held: it is no more undefined than before."""
    a = whole(12, 32)
    (got,) = agree(window, [a, cfg(*valid, 2), out(8, 32)])
    want = a[:8].copy()
    want[2 : 2 + valid[0], : valid[1]] = a[8 : 8 + valid[0], : valid[1]]
    same(got[2], want)


def test_undefined_elements_may_lie_beyond_what_the_result_counts_as_valid():
    a = whole(12, 32)
    calls = [[a, cfg(4, 2), out(8, 32)], [a, cfg(3, 4), out(8, 32)], [a, cfg(6, 2), out(8, 32)]]
    inside, outside, within = agree(beyond, *calls)
    want = out(8, 32)
    want[:4] = a[:4]
    want[2:4] = a[8:10]
    same(inside[2], want)
    want = out(8, 32)
    want[:3] = a[:3]
    same(outside[2], want)
    want = out(8, 32)
    want[:6] = a[:6]
    want[2:4] = a[8:10]
    same(within[2], want)


def test_what_is_known_is_refused_at_its_line(tmp_path):
    text = """import pypto.language as pl

@pl.jit
def k(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(a, [0, 0], [8, 32])
        u = pl.load(a, [8, 0], [4, 32], valid_shape=[2, 32])
        pl.store(pl.add(t, pl.read(u, [2, 0])), [0, 0], o)
    return o
"""
    with pytest.raises(Error, match="reads element 2 of dimension 0, of which 2 are valid") as e:
        module(text, tmp_path).k(np.zeros((12, 32), np.float32), np.zeros((8, 32), np.float32))
    assert e.value.span["line"] == 8
    assert e.value.hint
