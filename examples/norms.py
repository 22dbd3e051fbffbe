"""Softmax, layer norm and RMS norm over rows, in FP32 and with FP16 in memory; the last block of rows is ragged.

Each kernel computes in FP32 whatever its arrays hold, and is compared with float64 numpy.  The errors allowed are the
rounding of the result, plus that of a sum of WIDTH products in FP32.

    python examples/norms.py
"""

import numpy as np

import pypto.language as pl

ROWS, WIDTH = 16, 256
EPSILON = 1e-5


@pl.jit
def softmax(x: pl.Tensor, o: pl.Out[pl.Tensor]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, n, ROWS):
            rows = pl.min(ROWS, n - k)
            t = pl.load(x, [k, 0], [ROWS, WIDTH], valid_shape=[rows, WIDTH])
            scratch = pl.create_tile([ROWS, WIDTH], dtype=pl.FP32)
            e = pl.exp(pl.row_expand_sub(t, pl.row_max(t, scratch)))
            pl.store(pl.row_expand_div(e, pl.row_sum(e, scratch)), [k, 0], o)
    return o


@pl.jit
def layer_norm(x: pl.Tensor, gain: pl.Tensor, shift: pl.Tensor, o: pl.Out[pl.Tensor]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        g, b = pl.load(gain, [0, 0], [1, WIDTH]), pl.load(shift, [0, 0], [1, WIDTH])
        for k in pl.range(0, n, ROWS):
            rows = pl.min(ROWS, n - k)
            t = pl.cast(pl.load(x, [k, 0], [ROWS, WIDTH], valid_shape=[rows, WIDTH]), pl.FP32)
            scratch = pl.create_tile([ROWS, WIDTH], dtype=pl.FP32)
            centred = pl.row_expand_sub(t, pl.mul(pl.row_sum(t, scratch), 1 / WIDTH))
            variance = pl.mul(pl.row_sum(pl.mul(centred, centred), scratch), 1 / WIDTH)
            y = pl.row_expand_mul(centred, pl.rsqrt(pl.add(variance, EPSILON)))
            pl.store(pl.cast(pl.col_expand_add(pl.col_expand_mul(y, g), b), pl.FP16), [k, 0], o)
    return o


@pl.jit
def rms_norm(x: pl.Tensor, gain: pl.Tensor, o: pl.Out[pl.Tensor]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        g = pl.load(gain, [0, 0], [1, WIDTH])
        for k in pl.range(0, n, ROWS):
            rows = pl.min(ROWS, n - k)
            t = pl.load(x, [k, 0], [ROWS, WIDTH], valid_shape=[rows, WIDTH])
            scratch = pl.create_tile([ROWS, WIDTH], dtype=pl.FP32)
            mean = pl.mul(pl.row_sum(pl.mul(t, t), scratch), 1 / WIDTH)
            pl.store(pl.col_expand_mul(pl.row_expand_mul(t, pl.rsqrt(pl.add(mean, EPSILON))), g), [k, 0], o)
    return o


def compare(name: str, got: np.ndarray, want: np.ndarray) -> None:
    error = np.abs(got - want).max()
    bound = (np.finfo(got.dtype).eps + WIDTH * np.finfo(np.float32).eps) * np.abs(want).max()
    print(f"{name}: {got.shape[0]} rows of {got.dtype}, largest error {error:.1e} (bound {bound:.1e})")
    assert error <= bound


def main() -> None:
    rng = np.random.default_rng(0)
    gain, shift = (rng.standard_normal((1, WIDTH), dtype=np.float32) for _ in range(2))
    for rows in (1, 16, 421):
        x = rng.standard_normal((rows, WIDTH), dtype=np.float32) * 3
        wide = x.astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        compare("softmax", softmax(x, np.empty_like(x)), e / e.sum(1, keepdims=True))
        rms = np.sqrt((wide**2).mean(1, keepdims=True) + EPSILON)
        compare("RMS norm", rms_norm(x, gain, np.empty_like(x)), wide / rms * gain)
        half = x.astype(np.float16)
        wide = half.astype(np.float64)
        centred = wide - wide.mean(1, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(1, keepdims=True) + EPSILON) * gain + shift
        compare("layer norm", layer_norm(half, gain, shift, np.empty_like(half)), y)


if __name__ == "__main__":
    main()
