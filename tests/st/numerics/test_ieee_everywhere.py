"""NaN wins wherever it stands, and nothing is simplified as if numbers were real: every position, type and compiler flag."""

import numpy as np
import pytest
from lab import environment
from numerics_kit import agree, everywhere, scope
from programs_kit import bits, cfg, out, same

import pypto.language as pl
from pypto.errors import ConfigError

NAN, INF = np.nan, np.inf
SIGNALLING = np.array([0x7F800001, 0xFFA00000], np.uint32).view(np.float32)


@pl.jit
def extremes(a: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor], i: pl.Out[pl.Tensor], q: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = pl.cast(pl.read(c, [0]), pl.INDEX)
        w = pl.create_tile([8, 48], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        t = pl.load(a, [0, 0], [8, 48], valid_shape=[8, n])
        pl.store(pl.row_max(t, w), [0, 0], o)
        pl.store(pl.row_min(pl.neg(t), w), [8, 0], o)
        pl.store(pl.row_max(pl.relu(t), w), [16, 0], o)
        pl.store(pl.row_argmax(t, w), [0, 0], i)
        pl.store(pl.row_argmin(t, w), [8, 0], i)
        pl.store(pl.col_max(t), [0, 0], q)
        pl.store(pl.col_min(t), [1, 0], q)
    return o, i, q


def call_of(n, at):
    """A row for each of eight positions of the NaN; behind the data other NaNs, which nobody is to see."""
    a = np.full((8, 48), NAN, np.float32)
    a[:, :n] = np.float32(np.arange(n) * 7 % 11) - 5
    for r in range(7):
        a[r, (at + r) % n] = SIGNALLING[r % 2]
    return [a, cfg(n), out(24, 1), out(16, 1, dtype=np.int32), out(2, 48)]


def test_one_nan_in_every_position_of_every_width():
    calls = [call_of(n, at) for n in range(1, 49) for at in range(0, n, 7)]
    some = [0, 20, 100, len(calls) - 1]
    done = dict(zip(some, agree(extremes, *(calls[j] for j in some)), strict=True))
    for j, call in enumerate(calls):
        if j not in done:
            extremes(*call)
        a, c, o, i, q = done.get(j, call)
        x = a[:, : c[0]]
        same(o[:, 0], np.concatenate([x.max(1), (-x).min(1), np.maximum(x, 0).max(1)]))
        same(i[:, 0], np.concatenate([x.argmax(1), x.argmin(1)]))
        same(q[:, : c[0]], [x.max(0), x.min(0)])
        same(q[:, c[0] :], -777)


FORMS = {
    "pl.sub(x, x)": lambda x: x - x,
    "pl.mul(x, 0.0)": lambda x: x * x.dtype.type(0),
    "pl.mul(x, -0.0)": lambda x: x * x.dtype.type(-0.0),
    "pl.add(x, 0.0)": lambda x: x + x.dtype.type(0),
    "pl.sub(x, 0.0)": lambda x: x,
    "pl.sub(x, -0.0)": lambda x: x + x.dtype.type(0),
    "0.0 - x": lambda x: x.dtype.type(0) - x,
    "pl.div(x, x)": lambda x: x / x,
    "pl.div(x, 3.0)": lambda x: x / x.dtype.type(3),
    "pl.div(pl.add(x, 1.0), pl.mul(x, 0.0))": lambda x: (x + x.dtype.type(1)) / (x * x.dtype.type(0)),
    "pl.neg(pl.neg(x))": lambda x: x,
    "pl.sub(pl.add(x, 1024.0), 1024.0)": lambda x: (x + x.dtype.type(1024)) - x.dtype.type(1024),
    "pl.mul(pl.mul(x, 0.000244140625), 4096.0)": lambda x: (x * x.dtype.type(2.0**-12)) * x.dtype.type(4096),
    "pl.sub(pl.mul(x, x), pl.mul(x, x))": lambda x: x * x - x * x,
    "pl.sqrt(pl.mul(x, x))": lambda x: np.sqrt(x * x),
    "pl.abs(x)": np.abs,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("level", ["tile", "tensor"])
def test_identities_of_real_numbers(dtype, level, tmp_path):
    limits = np.finfo(dtype)
    row = [NAN, INF, -INF, 0.0, -0.0, 1.0, -2.0, 1 / 3, limits.max, -limits.tiny, limits.smallest_subnormal, -1.5, 65519.9, 1e-3]
    with np.errstate(all="ignore"):
        x = np.tile(np.resize(np.array(row).astype(dtype), 16), (16, 1))
        want = [f(x) for f in FORMS.values()]
    if level == "tile":
        lines = ["x = pl.load(a, [0, 0], [16, 16])", *(f"pl.store({f}, [{16 * i}, 0], o)" for i, f in enumerate(FORMS))]
    else:
        lines = ["x = pl.add(a, -0.0)", *(f"o[{16 * i}:{16 * i + 16}, :] = {f}" for i, f in enumerate(FORMS))]
    k = scope("a: pl.Tensor, o: pl.Out[pl.Tensor]", lines, tmp_path)
    o = everywhere(k, x, out(16 * len(FORMS), 16, dtype=dtype))[1]
    for i, (form, w) in enumerate(zip(FORMS, want, strict=True)):
        try:
            bits(o[16 * i : 16 * i + 16], w)
        except AssertionError as e:
            raise AssertionError(f"{form}: {e}") from None


@pl.jit
def rounded(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [8, 64])
        y = pl.load(b, [0, 0], [8, 64])
        pl.store(pl.sub(pl.mul(x, y), pl.load(c, [0, 0], [8, 64])), [0, 0], o)
        pl.store(pl.sub(pl.add(x, 1e8), 1e8), [8, 0], o)
        pl.store(pl.div(x, 3.0), [16, 0], o)
        w = pl.create_tile([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        pl.store(pl.row_expand(x, pl.row_sum(x, w)), [24, 0], o)
        pl.store(
            pl.sel(
                pl.tile.cmps(x, 0.5, cmp_type=1),
                pl.mul(x, 1e-38),
                pl.maximums(x, 0.0),
                pl.create_tile([1, 32], dtype=pl.UINT8, target_memory=pl.Mem.Vec),
            ),
            [32, 0],
            o,
        )
    return o


LEVELS = ["-O0", "-O1", "-O3", "-Os"]
OTHERS = [
    "-O3 -mfma -ffp-contract=fast",
    "-Ofast",
    "-fassociative-math",
    "-ffinite-math-only",
    "-mrecip",
]


@pytest.mark.parametrize("flags", LEVELS + OTHERS)
def test_the_users_flags_change_no_bit(flags):
    """Levels of optimization are the user's; flags that change numbers are refused, or have no effect."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 8, 64), np.float32)
    a[0, :4] = NAN, INF, -0.0, 1e-40
    with np.errstate(all="ignore"):
        product = a * b
    want, got = out(40, 64), out(40, 64)
    with environment(CFLAGS=""):
        rounded.compile(a, b, product, want)(a, b, product, want)
    refused = None
    with environment(CFLAGS=flags):
        try:
            rounded.compile(a, b, product, got)(a, b, product, got)
        except ConfigError as e:
            refused = str(e)
    if refused is not None:
        assert "CFLAGS" in refused
        assert flags not in LEVELS
        return
    bits(got, want)
    with np.errstate(all="ignore"):
        bits(got[:24], np.vstack([product - product, (a + np.float32(1e8)) - np.float32(1e8), a / np.float32(3)]))
