"""A fused linear layer: gelu(x @ w + b), FP16 in memory, FP32 inside.

The product stays on the chip: bias and activation are applied to it before it is rounded to FP16, once.  The activation
is x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), the tanh form of Hendrycks and Gimpel, 2016.

    python examples/linear.py
"""

import math
import time

import numpy as np

import pypto.language as pl

ROWS, INPUTS, OUTPUTS = 32, 128, 128
TWO_U = 2 * math.sqrt(2 / math.pi)

N = pl.dynamic("N")


@pl.jit
def linear(
    x: pl.Tensor[[N, INPUTS], pl.FP16],
    w: pl.Tensor[[INPUTS, OUTPUTS], pl.FP16],
    b: pl.Tensor[[1, OUTPUTS], pl.FP32],
    y: pl.Out[pl.Tensor[[N, OUTPUTS], pl.FP16]],
):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        weights = pl.load(w, [0, 0], [INPUTS, OUTPUTS], target_memory=pl.Mem.Mat)
        bias = pl.load(b, [0, 0], [1, OUTPUTS])
        for k in pl.range(0, n, ROWS):
            rows = pl.min(ROWS, n - k)
            block = pl.load(x, [k, 0], [ROWS, INPUTS], valid_shape=[rows, INPUTS], target_memory=pl.Mem.Mat)
            t = pl.col_expand_add(pl.matmul(block, weights), bias)
            u = pl.mul(pl.add(t, pl.mul(pl.mul(pl.mul(t, t), t), 0.044715)), -TWO_U)
            pl.store(pl.cast(pl.div(t, pl.add(pl.exp(u), 1.0)), pl.FP16), [k, 0], y)
    return y


def main() -> None:
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((INPUTS, OUTPUTS)) / math.sqrt(INPUTS)).astype(np.float16)
    b = rng.standard_normal((1, OUTPUTS), dtype=np.float32)
    for rows in (1, 100, 4096):
        x = rng.standard_normal((rows, INPUTS)).astype(np.float16)
        y = np.empty((rows, OUTPUTS), np.float16)
        linear(x, w, b, y)
        begin = time.perf_counter()
        linear(x, w, b, y)
        took = time.perf_counter() - begin
        t = x.astype(np.float64) @ w.astype(np.float64) + b
        want = t / (1 + np.exp(-TWO_U * (t + 0.044715 * t**3)))
        error = np.abs(y - want).max()
        bound = np.finfo(np.float16).eps / 2 * np.abs(want).max() + 1e-5
        print(f"{rows} rows: largest error {error:.1e} (bound {bound:.1e}); {took * 1e3:.2f} ms")
        assert error <= bound


if __name__ == "__main__":
    main()
