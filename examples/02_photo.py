"""Tone-mapping of two photographs, as a pipeline of tile kernels.

To linear light, luma as a weighted sum, per-row mean and maximum, exposure from the mean of the logarithm, a curve that
brings the brightest point to white (Reinhard et al., "Photographic tone reproduction for digital images", 2002, eq. 4),
gamma, and back to 8 bit.  The rows of the pictures do not divide by any tile: the last block of rows is ragged, and
how ragged is known only when the kernel runs.

    python examples/02_photo.py [output directory]
"""

import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

import pypto
import pypto.language as pl

WIDTH = 640  # columns of a plane
ROWS = 8  # rows of a tile
GAMMA = 2.2
KEY = 0.35  # the grey that the average luma becomes
TINY = 1e-4  # keeps the logarithm of black finite

H = pl.dynamic("H")  # rows of a plane


@pl.jit.inline
def linear(plane: pl.Tensor, row: pl.INDEX, rows: pl.INDEX):
    """A block of rows in linear light: (x / 255) ** GAMMA."""
    byte = pl.load(plane, [row, 0], [ROWS, WIDTH], valid_shape=[rows, WIDTH])
    x = pl.add(pl.mul(pl.cast(pl.cast(byte, pl.FP16), pl.FP32), 1 / 255), TINY)
    return pl.exp(pl.mul(pl.log(x), GAMMA))


@pl.jit.incore
def measure(
    r: pl.Tensor[[H, WIDTH], pl.UINT8],
    g: pl.Tensor[[H, WIDTH], pl.UINT8],
    b: pl.Tensor[[H, WIDTH], pl.UINT8],
    luma: pl.Out[pl.Tensor[[H, WIDTH], pl.FP32]],
    mean: pl.Out[pl.Tensor[[H, 1], pl.FP32]],
    peak: pl.Out[pl.Tensor[[H, 1], pl.FP32]],
    row: pl.INDEX,
    rows: pl.INDEX,
):
    """Luma of a block of rows, the mean of its logarithm and its maximum, row by row."""
    red = linear(r, row, rows)
    green = linear(g, row, rows)
    blue = linear(b, row, rows)
    y = pl.add(pl.add(pl.mul(red, 0.2126), pl.mul(green, 0.7152)), pl.mul(blue, 0.0722))
    luma = pl.store(y, [row, 0], luma)
    scratch = pl.create_tile([ROWS, WIDTH], dtype=pl.FP32)
    mean = pl.store(pl.mul(pl.row_sum(pl.log(pl.add(y, TINY)), scratch), 1 / WIDTH), [row, 0], mean)
    scratch2 = pl.create_tile([ROWS, WIDTH], dtype=pl.FP32)
    peak = pl.store(pl.row_max(y, scratch2), [row, 0], peak)
    return luma, mean, peak


@pl.jit.incore
def meter(average: pl.FP32, scale: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    """What luma is multiplied with, so that its logarithmic average becomes KEY."""
    zero = pl.tile.full([1, 8], dtype=pl.FP32, value=0.0)
    scale = pl.store(pl.mul(pl.exp(pl.sub(zero, average)), KEY), [0, 0], scale)
    return scale


@pl.jit.incore
def expose(
    plane: pl.Tensor[[H, WIDTH], pl.UINT8],
    luma: pl.Tensor[[H, WIDTH], pl.FP32],
    out: pl.Out[pl.Tensor[[H, WIDTH], pl.UINT8]],
    scale: pl.FP32,
    white: pl.FP32,
    row: pl.INDEX,
    rows: pl.INDEX,
):
    """One colour of a block of rows through exposure, curve and gamma, as bytes."""
    light = linear(plane, row, rows)
    y = pl.load(luma, [row, 0], [ROWS, WIDTH], valid_shape=[rows, WIDTH])
    exposed = pl.mul(y, scale)
    curve = pl.div(pl.mul(pl.add(pl.mul(exposed, white), 1.0), scale), pl.add(exposed, 1.0))
    shown = pl.mul(light, curve)
    encoded = pl.mul(pl.exp(pl.mul(pl.log(pl.add(shown, 1e-6)), 1 / GAMMA)), 255.0)
    out = pl.store(pl.cast(pl.cast(encoded, pl.FP16), pl.UINT8), [row, 0], out)
    return out


@pl.jit
def tone_map(
    r: pl.Tensor[[H, WIDTH], pl.UINT8],
    g: pl.Tensor[[H, WIDTH], pl.UINT8],
    b: pl.Tensor[[H, WIDTH], pl.UINT8],
    red: pl.Out[pl.Tensor[[H, WIDTH], pl.UINT8]],
    green: pl.Out[pl.Tensor[[H, WIDTH], pl.UINT8]],
    blue: pl.Out[pl.Tensor[[H, WIDTH], pl.UINT8]],
):
    h = pl.tensor.dim(r, 0)
    luma = pl.create_tensor([H, WIDTH], dtype=pl.FP32)
    mean = pl.create_tensor([H, 1], dtype=pl.FP32)
    peak = pl.create_tensor([H, 1], dtype=pl.FP32)
    for k in pl.range(0, h, ROWS):
        rows = pl.min(ROWS, h - k)
        luma, mean, peak = measure(r, g, b, luma, mean, peak, k, rows)
    total = pl.const(0.0, pl.FP32)
    brightest = pl.const(0.0, pl.FP32)
    for i in pl.range(h):
        total = total + pl.read(mean, [i, 0])
        brightest = pl.max(brightest, pl.read(peak, [i, 0]))
    factor = pl.create_tensor([1, 8], dtype=pl.FP32)
    factor = meter(total / pl.cast(h, pl.FP32), factor)
    scale = pl.read(factor, [0, 0])
    white = 1.0 / (brightest * scale * brightest * scale)
    for k in pl.range(0, h, ROWS):
        rows = pl.min(ROWS, h - k)
        red = expose(r, luma, red, scale, white, k, rows)
        green = expose(g, luma, green, scale, white, k, rows)
        blue = expose(b, luma, blue, scale, white, k, rows)
    return red, green, blue


def reference(picture: np.ndarray) -> np.ndarray:
    """The same in float64."""
    light = (picture / 255 + TINY) ** GAMMA
    y = light @ np.array([0.2126, 0.7152, 0.0722])
    scale = KEY * np.exp(-np.log(y + TINY).mean())
    exposed = scale * y
    curve = scale * (1 + exposed / (scale * y.max()) ** 2) / (1 + exposed)
    shown = light * curve[..., None]
    return np.clip(255 * (shown + 1e-6) ** (1 / GAMMA), 0, 255)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    folder.mkdir(parents=True, exist_ok=True)
    sample = load_sample_images()
    for number, (picture, name) in enumerate(zip(sample.images, sample.filenames, strict=True)):
        planes = [np.ascontiguousarray(picture[:, :, c]) for c in range(3)]
        mapped = [np.empty_like(p) for p in planes]
        times = []
        for _ in range(2):
            begin = time.perf_counter()
            tone_map(*planes, *mapped)
            times.append(1e3 * (time.perf_counter() - begin))
        result = np.dstack(mapped)
        off = np.abs(result - reference(picture)).max()
        if off > 1:
            raise SystemExit(f"{Path(name).name}: {off:.2f} levels away from the float64 reference")
        path = folder / f"{Path(name).stem}_tone_mapped.png"
        Image.fromarray(np.hstack([picture, result])).save(path)
        stats = pypto.cache_stats()
        source = "compiled now" if stats.builds else "from the artifact cache"
        # The launcher, which calls all kernels, is compiled once per machine: a second that is not this kernel's.
        source += ", launcher compiled now" if stats.compiler_runs > stats.builds else ""
        print(f"{path}  {picture.shape[0]}x{picture.shape[1]}, at most {off:.2f} of 255 levels from float64")
        kernel = f"kernel {source}" if number == 0 else "kernel already loaded"
        print(f"  first call {times[0]:.2f} ms ({kernel}), second call {times[1]:.2f} ms")


if __name__ == "__main__":
    main()
