"""Rotary position embedding: pairs of features turned by an angle that grows with the position.

Feature i and feature i + WIDTH / 2 of position p are turned by p * BASE ** (-2 i / WIDTH) (Su et al., "RoFormer", 2021,
equation 34, in the layout of two halves).

    python examples/rope.py
"""

import numpy as np

import pypto.language as pl

ROWS, WIDTH, BASE = 16, 128, 10000.0
HALF = WIDTH // 2

S = pl.dynamic("S")


@pl.jit
def rope(
    x: pl.Tensor[[S, WIDTH], pl.FP32],
    cosine: pl.Tensor[[S, HALF], pl.FP32],
    sine: pl.Tensor[[S, HALF], pl.FP32],
    o: pl.Out[pl.Tensor[[S, WIDTH], pl.FP32]],
):
    s = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, s, ROWS):
            n = pl.min(ROWS, s - k)
            left = pl.load(x, [k, 0], [ROWS, HALF], valid_shape=[n, HALF])
            right = pl.load(x, [k, HALF], [ROWS, HALF], valid_shape=[n, HALF])
            c = pl.load(cosine, [k, 0], [ROWS, HALF], valid_shape=[n, HALF])
            d = pl.load(sine, [k, 0], [ROWS, HALF], valid_shape=[n, HALF])
            pl.store(left * c - right * d, [k, 0], o)
            pl.store(right * c + left * d, [k, HALF], o)
    return o


def main() -> None:
    rng = np.random.default_rng(0)
    for positions in (1, 100, 2048):
        x = rng.standard_normal((positions, WIDTH), dtype=np.float32)
        angle = np.arange(positions)[:, None] * BASE ** (-2 * np.arange(HALF) / WIDTH)
        c, d = np.cos(angle), np.sin(angle)
        got = rope(x, c.astype(np.float32), d.astype(np.float32), np.empty_like(x))
        left, right = x[:, :HALF].astype(np.float64), x[:, HALF:].astype(np.float64)
        want = np.concatenate([left * c - right * d, right * c + left * d], 1)
        error = np.abs(got - want).max()
        bound = 4 * np.finfo(np.float32).eps * np.abs(x).max()
        print(f"{positions} positions: largest error {error:.1e} (bound {bound:.1e})")
        assert error <= bound


if __name__ == "__main__":
    main()
