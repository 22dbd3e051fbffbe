"""Programs that random search found, made small; each with what went wrong."""

import numpy as np
from lab import everywhere

import pypto.language as pl


@pl.jit
def loops_of_their_own(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        s = pl.tile.full([8, 16], dtype=pl.FP32, value=0.0)
        for i in pl.range(n):
            s = pl.add(s, pl.load(a, [i * 8, 0], [8, 16]))
        for i in pl.range(0, n, 1):
            pl.store(s, [i * 8, 0], o)
    return o


def test_reads_and_writes_in_different_loops():
    """Whether `a` and `o` may be one array compared the loops as values, and comparing expressions raised a TypeError."""
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    (_, _, o) = everywhere(loops_of_their_own, a, np.array([2], np.int32), np.zeros_like(a))
    np.testing.assert_array_equal(o, np.tile(a[:8] + a[8:], (2, 1)))
