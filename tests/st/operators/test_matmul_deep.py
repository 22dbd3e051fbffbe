"""Products of adjacent parts as one product, and operands that are packed once: what is joined, what is not, and the bits."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from lab import agree, everywhere

import pypto.language as pl
from pypto.errors import Error

M, K, N = (pl.dynamic(n) for n in "MKN")


@pl.jit
def begun(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                acc = pl.matmul(a[i : i + 64, 0:32], b[0:32, j : j + 64], out_dtype=out.dtype)
                for k in pl.range(32, a.shape[1], 32):
                    acc = pl.matmul_acc(acc, a[i : i + 64, k : k + 32], b[k : k + 32, j : j + 64])
                out[i : i + 64, j : j + 64] = acc
    return out


@pl.jit
def asked(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                acc = pl.create_tensor([64, 64], dtype=out.dtype)
                for k in pl.range(0, a.shape[1], 32):
                    if k == 0:
                        acc = pl.matmul(a[i : i + 64, k : k + 32], b[k : k + 32, j : j + 64], out_dtype=out.dtype)
                    else:
                        acc = pl.matmul_acc(acc, a[i : i + 64, k : k + 32], b[k : k + 32, j : j + 64])
                out[i : i + 64, j : j + 64] = acc
    return out


@pl.jit
def piped(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                acc = pl.matmul(a[i : i + 64, 0:32], b[0:32, j : j + 64], out_dtype=out.dtype)
                for k in pl.pipeline(32, a.shape[1], 32, stage=2):
                    acc = pl.matmul_acc(acc, a[i : i + 64, k : k + 32], b[k : k + 32, j : j + 64])
                out[i : i + 64, j : j + 64] = acc
    return out


@pl.jit
def turned(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, out.shape[0], 64):
            for j in pl.range(0, out.shape[1], 64):
                acc = pl.create_tensor([64, 64], dtype=out.dtype)
                for k in pl.range(0, a.shape[0], 32):
                    x, y = a[k : k + 32, i : i + 64], b[j : j + 64, k : k + 32]
                    acc = pl.matmul_acc(acc, x, y, a_trans=True, b_trans=True, init_cond=(k == 0))
                out[i : i + 64, j : j + 64] = acc
    return out


@pl.jit
def dynamic(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                acc = pl.matmul(a[i : i + 64, 0:32], b[0:32, j : j + 64], out_dtype=pl.FP32)
                for k in pl.range(32, a.shape[1], 32):
                    acc = pl.matmul_acc(acc, a[i : i + 64, k : k + 32], b[k : k + 32, j : j + 64])
                out[i : i + 64, j : j + 64] = acc
    return out


@pl.jit
def at_once(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """More than fits beside the accumulator at once: split over K for the chip."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                out[i : i + 64, j : j + 64] = pl.matmul(a[i : i + 64, :], b[:, j : j + 64], out_dtype=out.dtype)
    return out


def _calls(kernel, *args):
    """Extents over k, and what keeps the operands, of each product in the C."""
    text = kernel.inspect("c", *args)
    found = [_arguments(call) for call in re.findall(r"pp_matmul_\w+\((.*)\);", text)]
    return [(call[-5], call[-2:]) for call in found]


def _arguments(text):
    """Those of a call, apart."""
    depth, parts = 0, [""]
    for ch in text:
        depth += (ch == "(") - (ch == ")")
        if ch == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += ch
    return [p.strip() for p in parts]


def _data(m, k, n, dtype=np.float32, turn=False):
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if dtype is np.int8:
        a, b = a * 40, b * 40
    a, b = (x.T.copy() if turn else x for x in (a, b))
    return a.astype(dtype), b.astype(dtype), np.full((m, n), 7, np.int32 if dtype is np.int8 else np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("kernel", [begun, asked, piped, turned], ids=lambda k: k.__name__)
def test_one_product_over_all_of_k(kernel, dtype):
    args = _data(128, 160, 192, dtype, kernel is turned)
    assert _calls(kernel, *args) == [("160", ["pp_kept", "pp_kept"])]
    everywhere(kernel, *args)


def test_a_split_that_the_chip_needs():
    args = _data(128, 512, 128)
    assert _calls(at_once, *args) == [("512", ["pp_kept", "pp_kept"])]
    everywhere(at_once, *args)


@pl.jit
def clamped(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                acc = pl.create_tensor([64, 64], dtype=pl.FP32)
                for k in pl.range(0, a.shape[1], 32):
                    x = pl.slice(a, [64, 32], [i, k], clamp=True)
                    y = pl.slice(b, [32, 64], [k, j], clamp=True)
                    acc = pl.matmul_acc(acc, x, y, init_cond=(k == 0))
                out = pl.assemble(out, acc, [i, j])
    return out


@pl.jit
def begun_clamped(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                first, second = pl.slice(a, [64, 32], [i, 0], clamp=True), pl.slice(b, [32, 64], [0, j], clamp=True)
                acc = pl.matmul(first, second, out_dtype=pl.FP32)
                for k in pl.range(32, a.shape[1], 32):
                    x = pl.slice(a, [64, 32], [i, k], clamp=True)
                    y = pl.slice(b, [32, 64], [k, j], clamp=True)
                    acc = pl.matmul_acc(acc, x, y)
                out = pl.assemble(out, acc, [i, j])
    return out


@pl.jit
def piped_clamped(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(0, a.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                acc = pl.create_tensor([64, 64], dtype=pl.FP32)
                for k in pl.pipeline(0, a.shape[1], 32, stage=2):
                    x = pl.slice(a, [64, 32], [i, k], clamp=True)
                    y = pl.slice(b, [32, 64], [k, j], clamp=True)
                    acc = pl.matmul_acc(acc, x, y, init_cond=(k == 0))
                out = pl.assemble(out, acc, [i, j])
    return out


@pytest.mark.parametrize("kernel", [clamped, begun_clamped, piped_clamped], ids=lambda k: k.__name__)
def test_a_last_part_that_is_smaller(kernel):
    calls = [_data(m, k, n) for m, k, n in [(130, 129, 200), (64, 64, 64), (65, 5, 3), (1, 33, 64)]]
    found = _calls(kernel, *calls[0])[-1]
    assert "pp_min" in found[0]
    assert "k_k" not in found[0]
    assert found[1] == ["pp_kept", "pp_kept"]
    for (a, b, _), (_, _, got) in zip(calls, agree(kernel, *calls), strict=True):
        np.testing.assert_allclose(got, a.astype(float) @ b, rtol=0, atol=1e-4)


def test_the_report_says_what_is_packed_once():
    text = begun.inspect("report", *_data(128, 160, 128))
    assert "packs a, b once for the loops around it" in text
    assert "for k in" not in text


@pytest.mark.parametrize("k", [32, 96, 160])
def test_extents_that_only_the_run_knows(k):
    args = _data(128, k, 128)
    (found,) = _calls(dynamic, *args)
    assert "pp_max" in found[0]
    assert found[1] == ["pp_kept", "pp_kept"]
    everywhere(dynamic, *args)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_what_is_kept(threads, tmp_path):
    code = """
import sys, hashlib, numpy as np
sys.path[:0] = sys.argv[1:3]
import test_matmul_deep as t
a, b, out = t._data(512, 512, 512)
for kernel in (t.begun, t.turned):
    out[:] = 0
    kernel(a, b, out)
    print(hashlib.sha256(out.tobytes()).hexdigest())
"""
    here = os.path.dirname(__file__)
    env = {**os.environ, "PYPTO_NUM_THREADS": str(threads)}
    found = subprocess.run(
        [sys.executable, "-c", code, here, os.path.dirname(here)], env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    a, b, _ = _data(512, 512, 512)
    for digest, kernel in zip(found, (begun, turned), strict=True):
        out = np.zeros((512, 512), np.float32)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYPTO_NATIVE_OPT", "0")
            kernel.compile(a, b, out)(a, b, out)
        assert digest == hashlib.sha256(out.tobytes()).hexdigest()


# -- what is not one product -----------------------------------------------------------------------------------------


@pl.jit
def skipping(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:32], b[0:32, :], out_dtype=out.dtype)
        for k in pl.range(64, a.shape[1], 64):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        out[:] = acc
    return out


@pl.jit
def downwards(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 96:128], b[96:128, :], out_dtype=out.dtype)
        for k in pl.range(64, -32, -32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        out[:] = acc
    return out


@pl.jit
def crossed(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:32], b[96:128, :], out_dtype=out.dtype)
        for k in pl.range(32, 128, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[96 - k : 128 - k, :])
        out[:] = acc
    return out


@pl.jit
def begun_late(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor(out.shape, dtype=out.dtype)
        for k in pl.range(0, 128, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == 0 or k == 64))
        out[:] = acc
    return out


@pl.jit
def same_part(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:32], b[0:32, :], out_dtype=out.dtype)
        for k in pl.range(32, 128, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[0:32, :])
        out[:] = acc
    return out


@pytest.mark.parametrize("kernel", [skipping, downwards, crossed, begun_late, same_part], ids=lambda k: k.__name__)
def test_parts_that_are_not_adjacent(kernel):
    args = _data(64, 128, 64)
    assert {depth for depth, _ in _calls(kernel, *args)} == {"32"}
    everywhere(kernel, *args)


@pl.jit
def in_place(a: pl.Tensor, b: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, b.shape[0], 64):
            for j in pl.range(0, b.shape[1], 64):
                b[i : i + 64, j : j + 64] = pl.matmul(a[i : i + 64, 0:64], b[0:64, j : j + 64], out_dtype=pl.FP32)
    return b


def test_what_a_kernel_writes_is_not_kept():
    a, b, _ = _data(192, 64, 192)
    b = np.ascontiguousarray(np.tile(b, (3, 1)))
    assert _calls(in_place, a, b) == [("64", ["pp_kept", "0"])]
    everywhere(in_place, a, b)


@pl.jit
def leaving(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor], stop: pl.INDEX):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a[:, 0:32], b[0:32, :], out_dtype=out.dtype)
        for k in pl.range(32, stop, 32):
            acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])
        out[:] = acc
    return out


def test_a_trip_that_leaves_its_tensor_is_refused_before_anything_is_read():
    a, b, out = _data(64, 128, 64)
    want = out.copy()
    with pytest.raises(Error, match=r"\[128, 128 \+ 32\) leaves axis 1 of extent 128") as raised:
        leaving(a, b, out, 160)
    assert "pl.matmul_acc" in str(raised.value)
    assert (out == want).all()
    for stop in (0, 32, 33, 128):
        everywhere(leaving, a, b, out, stop)
