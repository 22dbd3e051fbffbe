"""Kernels beside numpy, in one run: the fastest of many calls of each, taken in turn, single-threaded.

OPENBLAS_NUM_THREADS=1 python benchmarks/kernels.py [--seconds 0.5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import pypto.language as pl

N, M, K = pl.dynamic("N"), pl.dynamic("M"), pl.dynamic("K")


@pl.jit
def add(a: pl.Tensor[[N, 1024], pl.FP32], b: pl.Tensor[[N, 1024], pl.FP32], o: pl.Out[pl.Tensor[[N, 1024], pl.FP32]]):
    n = pl.tensor.dim(a, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, n, 8):
            o[k : k + 8, :] = a[k : k + 8, :] + b[k : k + 8, :]
    return o


@pl.jit
def softmax(x: pl.Tensor[[N, 1024], pl.FP32], o: pl.Out[pl.Tensor[[N, 1024], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, n, 8):
            t = x[k : k + 8, :]
            e = pl.exp(t - pl.row_max(t))
            o[k : k + 8, :] = e / pl.row_sum(e)
    return o


@pl.jit
def rms_norm(x: pl.Tensor[[N, 1024], pl.FP32], o: pl.Out[pl.Tensor[[N, 1024], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, n, 8):
            t = x[k : k + 8, :]
            mean = pl.row_sum(t * t) * (1 / 1024)
            o[k : k + 8, :] = t / pl.sqrt(mean + 1e-5)
    return o


@pl.jit
def product(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    """128 x 128 blocks of the result, the inner extent 64 at a time."""
    m, n = o.shape
    k = a.shape[1]
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, m, 128):
            for j in pl.range(0, n, 128):
                acc = pl.matmul(a[i : i + 128, 0:64], b[0:64, j : j + 128], out_dtype=pl.FP32)
                for p in pl.range(64, k, 64):
                    acc = pl.matmul_acc(acc, a[i : i + 128, p : p + 64], b[p : p + 64, j : j + 128])
                o[i : i + 128, j : j + 128] = acc
    return o


class Row(NamedTuple):
    name: str
    kernel: Callable[[], Any]
    peer: Callable[[], Any]
    work: float  # bytes moved or operations done, in units of 1e9
    unit: str


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((4096, 1024), dtype=np.float32) for _ in range(2))
    o, p = np.empty_like(a), np.empty_like(a)
    made = [
        Row("add 4096x1024", lambda: add(a, b, o), lambda: np.add(a, b, out=p), 3 * a.nbytes / 1e9, "GB/s"),
        Row("softmax 4096x1024", lambda: softmax(a, o), lambda: _softmax(a), 2 * a.nbytes / 1e9, "GB/s"),
        Row("RMS norm 4096x1024", lambda: rms_norm(a, o), lambda: _rms(a), 2 * a.nbytes / 1e9, "GB/s"),
    ]
    for n, dtype in ((512, np.float32), (512, np.float16)):
        x, y = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
        z = np.empty((n, n), np.float32)
        wide = x.astype(np.float32), y.astype(np.float32)
        kernel, peer = partial(product, x, y, z), partial(np.matmul, *wide)
        made.append(Row(f"matmul {n} {x.dtype}", kernel, peer, 2 * n**3 / 1e9, "Gop/s"))
    return made


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _rms(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5)


def fastest(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The shortest time of each, one call of each in turn until the time is over."""
    best = [float("inf")] * len(calls)
    for c in calls:
        c()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, c in enumerate(calls):
            begin = time.perf_counter()
            c()
            best[i] = min(best[i], time.perf_counter() - begin)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    seconds = parser.parse_args().seconds
    print(f"{'':22} {'kernel':>10} {'numpy':>10} {'ratio':>7}")
    for r in rows():
        ours, theirs = fastest([r.kernel, r.peer], seconds)
        rate = f"{r.work / ours:.1f} {r.unit}"
        print(f"{r.name:22} {ours * 1e3:8.2f}ms {theirs * 1e3:8.2f}ms {theirs / ours:6.2f}x   {rate}")


if __name__ == "__main__":
    main()
