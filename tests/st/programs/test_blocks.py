"""Launches of blocks, and clusters: every block runs once, in order, and knows its number."""

import numpy as np
import pytest
from programs_kit import agree, out, same, whole

import pypto.language as pl
from pypto.debug import interpret
from pypto.errors import KernelError


@pl.jit
def numbers(o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor], count: pl.INDEX):
    """Two launches with the same extents, and one whose number of blocks only the call knows."""
    with pl.spmd(3):
        i = pl.get_block_idx()
        pl.write(o, [i, 0], pl.cast(i * 100 + pl.get_block_num(), pl.INT32))
    with pl.spmd(count):
        i = pl.get_block_idx()
        pl.write(p, [i, 0], pl.cast(i * 100 + pl.get_block_num(), pl.INT32))
    return o, p


def test_every_block_knows_its_number():
    for count in (1, 5):
        ((o, p),) = agree(numbers, [out(8, 1, dtype=np.int32), out(8, 1, dtype=np.int32), count])
        same(o[:, 0], [3, 103, 203, -777, -777, -777, -777, -777])
        same(p[:count, 0], [i * 100 + count for i in range(count)])
        same(p[count:], -777)


@pytest.mark.parametrize("count", [0, -1])
def test_a_launch_of_no_blocks(count):
    args = [out(8, 1, dtype=np.int32), out(8, 1, dtype=np.int32), count]
    with pytest.raises(KernelError, match=f"a launch of {count} blocks") as e:
        numbers(*args)
    assert e.value.span is not None
    with pytest.raises(KernelError, match=f"a launch of {count} blocks"):
        interpret(numbers.lower(*args), args, "numbers")


@pl.jit
def cluster(a: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.cluster():
        with pl.spmd(4):
            b = pl.get_block_idx()
            t = pl.load(a, [b * 16, 0], [16, 64])
            pl.store(pl.sub(t, 1.0), [b * 16, 0], o)
    return o


def test_a_cluster():
    a = whole(64, 64)
    ((_, o),) = agree(cluster, [a, out(64, 64)])
    same(o, a - 1)


@pl.jit
def in_place(a: pl.InOut[pl.Tensor], o: pl.Out[pl.Tensor]):
    """Each block reads what the one before it wrote: blocks run one after the other."""
    for b in pl.spmd(3):
        t = pl.load(a, [b * 8, 0], [8, 32])
        pl.store(pl.add(t, 1.0), [b * 8 + 8, 0], a)
        pl.store(t, [b * 8, 0], o)
    return a, o


def test_arrays_of_a_launch_that_overlap_are_refused():
    a = whole(32, 32)
    ((got, o),) = agree(in_place, [a, out(32, 32)])
    for k in range(4):
        same(got[8 * k : 8 * k + 8], a[:8] + k)
    same(o[:24], got[:24])
    both = a.copy()
    with pytest.raises(ValueError, match="are the same array"):
        in_place(both, both)
    same(both, a)
