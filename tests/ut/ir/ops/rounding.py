"""Independent, exact rounding for the tests: numbers as binary64 or Python integers, no code shared with the package."""

import ml_dtypes
import numpy as np

from pypto.dtypes import DataType as D

MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
NUMPY = {
    D.FP32: np.dtype(np.float32),
    D.FP16: np.dtype(np.float16),
    D.BF16: np.dtype(ml_dtypes.bfloat16),
    D.BOOL: np.dtype(np.bool_),
    **{getattr(D, f"{s}INT{n}"): np.dtype(f"{k}{n // 8}") for s, k in (("", "i"), ("U", "u")) for n in (8, 16, 32, 64)},
}
# precision in bits, exponent of the smallest step, largest finite value
FORMATS = {
    D.FP32: (24, -149, float(np.finfo(np.float32).max)),
    D.FP16: (11, -24, 65504.0),
    D.BF16: (8, -133, 3.3895313892515355e38),
}


def integral(v: np.ndarray, mode: str) -> np.ndarray:
    """binary64 numbers rounded to integers; exact while |v| < 2**52, and above that v is one already."""
    finite = np.where(np.isfinite(v), v, 0.0)
    f = np.floor(finite)
    part = finite - f
    up = {
        "floor": np.zeros(v.shape, bool),
        "ceil": part > 0,
        "trunc": (part > 0) & (v < 0),
        "none": (part > 0) & (v < 0),
        "rint": (part > 0.5) | ((part == 0.5) & (np.mod(f, 2) == 1)),
        "odd": (part > 0.5) | ((part == 0.5) & (np.mod(f, 2) == 0)),
        "round": (part > 0.5) | ((part == 0.5) & (v > 0)),
    }[mode]
    return np.where(np.isfinite(v), f + up, v)


def to_float(v: np.ndarray, target: D, mode: str = "rint") -> np.ndarray:
    """binary64 numbers rounded to a float format, one rounding."""
    precision, least, largest = FORMATS[target]
    with np.errstate(all="ignore"):
        _, e = np.frexp(np.where(np.isfinite(v), v, 1.0))
        q = np.maximum(e - precision, least)
        n = integral(np.ldexp(np.where(np.isfinite(v), v, 0.0), -q), "rint" if mode == "none" else mode)
        r = np.ldexp(n, q)
        if mode in ("trunc", "floor", "ceil"):
            stays = {"trunc": np.ones(v.shape, bool), "floor": v > 0, "ceil": v < 0}[mode]
            beyond = np.where(stays, np.copysign(largest, v), np.copysign(np.inf, v))
        else:
            beyond = np.copysign(np.inf, v)
        r = np.where(np.abs(r) > largest, beyond, r)
        r = np.where(r == 0, np.copysign(0.0, v), r)
        return np.where(np.isfinite(v), r, v).astype(NUMPY[target])


def to_int(v: np.ndarray, target: D, mode: str = "round") -> np.ndarray:
    """binary64 numbers rounded, saturated; NaN gives 0."""
    low, high = limits(target)
    r = integral(v, mode)
    over, under = r >= float(high), r <= float(low)
    inside = np.where(over | under | np.isnan(r), 0.0, r)
    # float(high) is high + 1 for the widest types, so that what is below it converts exactly.
    out = inside.astype(NUMPY[target])
    out[over], out[under] = high, low
    return out


def limits(dtype: D) -> tuple[int, int]:
    bits = dtype.get_bit()
    return (0, (1 << bits) - 1) if dtype.is_unsigned_int() else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def wrap(value: int, dtype: D) -> int:
    bits = dtype.get_bit()
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_signed_int() and value >> (bits - 1) else value


def int_to_float(value: int, target: D) -> float:
    """A Python integer rounded to nearest even."""
    precision, _, largest = FORMATS[target]
    magnitude = abs(value)
    shift = max(magnitude.bit_length() - precision, 0)
    n, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
    half = (1 << shift) >> 1
    n += shift > 0 and (rest > half or (rest == half and n & 1))
    r = float(n << shift)
    return float("inf" if r > largest else r) * (-1.0 if value < 0 else 1.0)


def same_bits(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal dtype, shape and bits; any NaN equals any NaN."""
    return not different(got, want).any()


def different(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if got.dtype.kind in "iub":
        return got != want
    bits = f"u{got.dtype.itemsize}"
    equal = np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(want).view(bits)
    return ~(equal | (np.isnan(got) & np.isnan(want)))
