"""Operators whose C indexes memory by itself, under the address and undefined-behaviour sanitizers.

Extents are known at run time only, arrays end where their last window does; shifts and remainders take every hard pair.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
SCRIPT = """
import numpy as np
import pypto.language as pl


@pl.jit
def made(d: pl.Tensor[[8], pl.INT32], o: pl.Out[pl.Tensor[[8, 16], pl.INT32]], a: pl.Out[pl.Tensor[[1, 16], pl.INT16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(d, [0]), pl.INDEX)
        c = pl.cast(pl.read(d, [1]), pl.INDEX)
        o = pl.store(pl.tri(pl.read(d, [2]), [8, 16], valid_shape=[r, c], upper=True), [0, 0], o)
        a = pl.store(pl.tile.ci(32760, [1, 16], dtype=pl.INT16), [0, 0], a)
    return o, a


for r, c in ((8, 16), (3, 5), (0, 16), (8, 0)):
    for diagonal in (0, -3, 2**31 - 1, -(2**31)):
        o, a = np.full((8, 16), 7, np.int32), np.zeros((1, 16), np.int16)
        made(np.array([r, c, diagonal, 0, 0, 0, 0, 0], np.int32), o, a)
        want = np.full((8, 16), 7)
        want[:r, :c] = np.arange(16)[None, :c] >= np.arange(8)[:r, None] + diagonal
        assert (o == want).all()
        assert (a[0] == (32760 + np.arange(16)).astype(np.int16)).all()


@pl.jit
def parts(x: pl.Tensor[[8, 16], pl.FP32], y: pl.Tensor[[8, 16], pl.FP32], d: pl.Tensor[[8], pl.INT32],
          o: pl.Out[pl.Tensor[[8, 16], pl.FP32]], e: pl.Out[pl.Tensor[[24, 40], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.cast(pl.read(d, [0]), pl.INDEX)
        c = pl.cast(pl.read(d, [1]), pl.INDEX)
        a = pl.load(x, [0, 0], [8, 16])
        b = pl.load(y, [0, 0], [8, 16], [r, c])
        o = pl.store(pl.fmod(pl.part_add(a, b), a), [0, 0], o)
        e = pl.store(pl.fillpad_expand(b, [24, 40], pad_value=pl.PadValue.max), [0, 0], e)
    return o, e


x, y = np.random.default_rng(1).normal(size=(2, 8, 16)).astype(np.float32)
x.flat[:8] = [0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 3e38, 1e-38]
for r, c in ((8, 16), (3, 5), (0, 16), (8, 0)):
    o, e = np.zeros((8, 16), np.float32), np.zeros((24, 40), np.float32)
    parts(x, y, np.array([r, c, 0, 0, 0, 0, 0, 0], np.int32), o, e)
    assert (e[:r, :c] == y[:r, :c]).all() and (e[r:] == np.inf).all() and (e[:, c:] == np.inf).all()


@pl.jit
def shifted(x: pl.Tensor[[8, 16], pl.INT16], n: pl.Tensor[[8, 16], pl.INT16], o: pl.Out[pl.Tensor[[16, 16], pl.INT16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [8, 16]), pl.load(n, [0, 0], [8, 16])
        o = pl.store(pl.shl(a, b), [0, 0], o)
        o = pl.store(pl.shr(a, b), [8, 0], o)
    return o


values = np.array([0, 1, -1, 32767, -32768, 12345, -12345, 2], np.int16)
amounts = np.array([0, 1, 15, 16, -1, 32767, -32768, 7, 8, 9, 10, 11, 12, 13, 14, 3], np.int16)
x, n = np.repeat(values, 16).reshape(8, 16), np.tile(amounts, 8).reshape(8, 16)
o = np.zeros((16, 16), np.int16)
shifted(x, n, o)
for i, (v, k) in enumerate(zip(x.flat, n.flat)):
    v, k = int(v), int(k)
    inside = 0 <= k < 16
    assert o[:8].flat[i] == np.int64(v << k if inside else 0).astype(np.int16)
    assert o[8:].flat[i] == (v >> k if inside else -(v < 0))
"""


def _libraries() -> list[str]:
    gcc = shutil.which("gcc")
    names = ("libasan.so", "libubsan.so") if gcc is not None else ()
    found = [subprocess.run([gcc, f"-print-file-name={n}"], capture_output=True, text=True).stdout.strip() for n in names]  # type: ignore[list-item]
    return found if all(os.path.isabs(f) for f in found) else []


@pytest.mark.skipif(not _libraries(), reason="gcc's sanitizer libraries are not installed")
@pytest.mark.parametrize("optimize", ["1", "0"])
def test_nothing_is_out_of_place(optimize: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = os.environ | {
        "LD_PRELOAD": " ".join(_libraries()),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYPTO_CC": "gcc",
        "CFLAGS": FLAGS,
        "PYPTO_CACHE_DIR": str(tmp_path / "cache"),
        "PYPTO_NATIVE_OPT": optimize,
    }
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kernels = list((tmp_path / "cache").rglob("kernel.so"))
    assert len(kernels) == 3
    assert all(b"__asan_report" in k.read_bytes() for k in kernels)
