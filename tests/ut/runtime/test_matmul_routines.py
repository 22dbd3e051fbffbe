"""Products against a plain loop in C, to the bit: every type, odd extents, any strides, numbers that instructions treat oddly."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pypto.runtime import stats
from pypto.runtime.linking import compile_kernel
from pypto.runtime.store import Store
from pypto.runtime.toolchain import find

X86 = os.uname().machine == "x86_64"
# What decides the instructions: this machine's own, those of older ones, and no fused instruction at all.
FLAGS = ["", "-mno-avx512f", "-march=x86-64-v2"] if X86 else [""]
TYPES: dict[str, tuple[str, str, str, Any, Any]] = {
    # the type of sums, of elements, an element as a sum, and both for numpy
    "f32": ("float", "float", "", np.float32, np.float32),
    "f16": ("float", "uint16_t", "pp_f16_to_f32", np.float32, np.float16),
    "bf16": ("float", "uint16_t", "pp_bf16_to_f32", np.float32, ml_dtypes.bfloat16),
    "i8": ("int32_t", "int8_t", "", np.int32, np.int8),
}
EXTENTS = [1, 2, 3, 5, 8, 13, 15, 16, 17, 28, 31, 32, 33, 64, 100, 150]


def _source() -> str:
    """For each type `fast_...`, the routine, and `plain_...`, a loop; after `keep(n)`, operands are kept in n bytes."""
    text = """
#include <stdlib.h>
#include "pypto_kernel.h"
#include "pypto_matmul.h"
#include "pypto_packs.h"
int64_t pypto_entry(pypto_call *call) { return call == 0; }
static pp_packs packs, *kept;
static void *fresh(pypto_arena *arena, int64_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }
__attribute__((visibility("default"))) void keep(int64_t bytes) {
    pypto_arena arena = {.alloc = fresh};
    pypto_call call = {.arena = &arena};
    free(packs.list);
    packs = pp_packs_begin(&call, bytes ? 1 << 20 : 0);
    packs.size = bytes < packs.size ? bytes : packs.size;
    kept = bytes ? &packs : 0;
}
"""
    for name, (total, element, convert, _, _) in TYPES.items():
        head = (
            f"({total} *c, int64_t cr, int64_t cc, const {element} *a, int64_t ar, int64_t ac, const {element} *b, int64_t br,"
            " int64_t bc, int64_t m, int64_t k, int64_t n, int64_t fresh)"
        )
        step = "__builtin_fmaf(x, y, s)" if total == "float" else "x * y + s"
        public = '__attribute__((visibility("default"))) void'
        text += f"""
{public} fast_{name}{head} {{ pp_matmul_{name}(c, cr, cc, a, ar, ac, b, br, bc, m, k, n, fresh, kept, kept); }}
{public} plain_{name}{head} {{
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {{
            {total} s = fresh ? 0 : c[i * cr + j * cc];
            for (int64_t l = 0; l < k; ++l) {{
                const {total} x = {convert}(a[i * ar + l * ac]), y = {convert}(b[l * br + j * bc]);
                s = {step};
            }}
            c[i * cr + j * cc] = s;
        }}
}}
"""
    return text


@pytest.fixture(scope="module", params=FLAGS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", request.param)
        directory = tmp_path_factory.mktemp("products")
        store = Store(str(directory / "store"))
        (directory / "work").mkdir()
        compile_kernel(find(store), store, _source(), ("matmul",), str(directory / "work"))
        yield ctypes.CDLL(str(directory / "work" / "kernel.so"))


def _numbers(rng: np.random.Generator, shape: tuple[int, int], dtype: Any, kind: str) -> np.ndarray:
    if not np.issubdtype(dtype, np.floating) and dtype is not ml_dtypes.bfloat16:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, endpoint=True, dtype=dtype)
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "wide":
        x *= np.exp2(rng.integers(-70, 20, shape)).astype(np.float32)
    elif kind == "small":  # products and sums below the least normal number
        x *= np.exp2(rng.integers(-75, -50, shape)).astype(np.float32)
    elif kind == "subnormal":
        x *= np.exp2(rng.integers(-140, -100, shape)).astype(np.float32)
    elif kind == "zeros":
        x[rng.random(shape) < 0.5] = 0
        x[rng.random(shape) < 0.3] = -0.0
    elif kind == "huge":
        x *= np.float32(2.0**63)
    elif kind == "special":
        x[rng.random(shape) < 0.02] = np.inf
        x[rng.random(shape) < 0.02] = np.nan
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def _matrix(rng: np.random.Generator, rows: int, cols: int, dtype: Any, kind: str) -> np.ndarray:
    """Part of a larger array, by rows or by columns; also with lines that lie a multiple of a page apart."""
    pad = int(rng.choice([0, 1, 7, max(0, 1024 - cols)]))
    if rng.random() < 0.3:
        return _numbers(rng, (cols, rows + pad), dtype, kind).T[:rows]
    return _numbers(rng, (rows, cols + pad), dtype, kind)[:, :cols]


def _given(x: np.ndarray) -> list[Any]:
    return [ctypes.c_void_p(x.ctypes.data), *(ctypes.c_int64(s // x.itemsize) for s in x.strides)]


@pytest.mark.parametrize("kind", ["plain", "wide", "small", "subnormal", "zeros", "huge", "special"])
@pytest.mark.parametrize("name", TYPES)
def test_bits_of_the_plain_loop(name: str, kind: str, library: ctypes.CDLL) -> None:
    total, element = TYPES[name][3:]
    rng = np.random.default_rng(len(kind))
    for trial in range(24):
        # Nothing is kept; everything; as much as there is room for.
        library.keep(ctypes.c_int64((0, 1 << 22, 1 << 16)[trial % 3]))
        m, k, n = (int(x) for x in rng.choice(EXTENTS, 3))
        k = k if trial % 6 else int(rng.choice([0, 257, 520, 1030]))
        a, b = _matrix(rng, m, k, element, kind), _matrix(rng, k, n, element, kind)
        start = _matrix(rng, m, n, total, kind)
        numbers = [ctypes.c_int64(v) for v in (m, k, n, trial % 2)]
        found = []
        for form in ("fast", "fast", "plain"):  # made, and found
            whole = start.base.copy() if start.base is not None else start.copy()
            c = np.lib.stride_tricks.as_strided(whole, start.shape, start.strides)
            getattr(library, f"{form}_{name}")(*_given(c), *_given(a), *_given(b), *numbers)
            found.append(whole)  # with what lies beside the product
        *fast, y = found
        for x in fast:
            same = (x.view(np.uint32) == y.view(np.uint32)) | (np.isnan(x) & np.isnan(y))
            assert same.all(), (m, k, n, a.strides, b.strides, start.strides, trial % 2)
    library.keep(ctypes.c_int64(0))


@pytest.mark.parametrize("name", TYPES)
def test_parts_that_begin_at_the_same_element(name: str, library: ctypes.CDLL) -> None:
    """What is kept of one part is not taken for another one: of other extents, turned, or of the other side."""
    total, element = TYPES[name][3:]
    rng = np.random.default_rng(3)
    x = _numbers(rng, (70, 70), element, "plain")
    library.keep(ctypes.c_int64(1 << 22))
    for m, k, n in [(64, 64, 64), (64, 64, 33), (64, 31, 64), (32, 64, 64), (70, 70, 70), (64, 31, 64)]:
        for a in (x, x.T, x[:, ::2])[: 3 if k < 35 else 2]:
            for b in (x, x.T):
                found = []
                for form in ("fast", "plain"):
                    c = np.zeros((m, n), total)
                    numbers = [ctypes.c_int64(v) for v in (m, k, n, 1)]
                    getattr(library, f"{form}_{name}")(*_given(c), *_given(a), *_given(b), *numbers)
                    found.append(c.view(np.uint32))
                assert (found[0] == found[1]).all(), (m, k, n)
    library.keep(ctypes.c_int64(0))


def test_the_same_bytes_as_elements_of_several_types(library: ctypes.CDLL) -> None:
    """What is kept of numbers of one type is not taken for those of another type at the same address."""
    rng = np.random.default_rng(5)
    places = [rng.integers(0, 256, 4 * 64 * 64, dtype=np.uint8) for _ in range(2)]
    library.keep(ctypes.c_int64(1 << 22))
    for name in (*TYPES, *TYPES):
        total, element = TYPES[name][3:]
        a, b = (place.view(element)[: 64 * 64].reshape(64, 64) for place in places)
        found = []
        for form in ("fast", "plain"):
            c = np.zeros((64, 64), total)
            getattr(library, f"{form}_{name}")(*_given(c), *_given(a), *_given(b), *(ctypes.c_int64(n) for n in (64, 64, 64, 1)))
            found.append(c)
        same = (found[0].view(np.uint32) == found[1].view(np.uint32)) | (np.isnan(found[0]) & np.isnan(found[1]))
        assert same.all(), name
    library.keep(ctypes.c_int64(0))


def test_a_sum_that_nearly_vanishes(library: ctypes.CDLL) -> None:
    """Normal operands and a normal start, whose sum is no normal number."""
    a, b = (np.full(shape, 2.0**-56, ml_dtypes.bfloat16) for shape in ((16, 1), (1, 32)))
    c = np.full((16, 32), -(2.0**-112) * (1 + 2.0**-20), np.float32)
    library.fast_bf16(*_given(c), *_given(a), *_given(b), *(ctypes.c_int64(n) for n in (16, 1, 32, 0)))
    assert (c == np.float32(-(2.0**-132))).all()


def test_compiled_once_and_linked_from_the_store(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    toolchain = find(store)
    sizes = []
    for n, routines in enumerate([("matmul",), ("matmul",), ()]):
        (tmp_path / str(n)).mkdir()
        before = stats.cache_stats().compiler_runs
        source = _source() if routines else '#include "pypto_kernel.h"\nint64_t pypto_entry(pypto_call *c) { return c == 0; }\n'
        compile_kernel(toolchain, store, source, routines, str(tmp_path / str(n)))
        sizes.append(stats.cache_stats().compiler_runs - before)
        assert sorted(os.listdir(tmp_path / str(n))) == ["kernel.c", "kernel.so"]
    assert sizes == [2, 1, 1]
