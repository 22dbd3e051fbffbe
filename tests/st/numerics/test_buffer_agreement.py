"""Random kernels of what buffers can say: three planners, buffers on and off, native optimizations on and off, equal bits."""

import numpy as np
import pytest
from buffer_kernels import Body, Runtime, Sums, kernel
from lab import ALL, agree
from programs_kit import module, out

TRIPS = ((0, 0), (1, 4), (3, 8), (2, 5))
FLOATS = [(np.arange(64 * 64, dtype=np.float32).reshape(64, 64) * step % 17 - 8) / 4 for step in (7, 5)]
HALVES = [(a * 2 % 7 - 3).astype(np.float16) for a in FLOATS]


@pytest.mark.filterwarnings("ignore:UnusedVariable")
@pytest.mark.parametrize(
    ("kinds", "given", "seed"),
    [([Body, Runtime, Body], FLOATS, 0), ([Body, Runtime, Body], FLOATS, 1), ([Sums, Sums], HALVES, 0)],
    ids=["vector-0", "vector-1", "matrix"],
)
def test_every_way_gives_the_same(kinds, given, seed, tmp_path):
    k = module(kernel(kinds, seed), tmp_path).k
    calls = [(*given, n, m, out(128 * len(kinds), 64)) for n, m in TRIPS]
    assert list(k.compile(*calls[0]).stages.values()) == ["buffer"] * len(kinds)
    results = agree(k, *calls, ways=ALL)
    assert len({made[-1].tobytes() for made in results}) >= 3
