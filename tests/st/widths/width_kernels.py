"""A few kernels that stand for all native code: every vector tail, every routine, every kind of loop.

Out: `CASES`, by name a kernel and the calls of it, all of one specialization.  Operands have the values at which operators
go wrong among ordinary ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import operator_data as data
from operator_kit import import_text

import pypto.language as pl
from pypto.dtypes import DataType as D
from pypto.jit import JITFunction

__all__ = ["CASES", "Case"]

ROWS, COLUMNS = 32, 144
# Whole vectors, one less and one more than some, a single element.
EXTENTS = ((32, 144), (7, 65), (13, 31), (1, 1), (31, 129))


class Case(NamedTuple):
    kernel: JITFunction
    calls: Sequence[Sequence[Any]]  # arrays and numbers; outputs, which come last, hold what a kernel does not write
    outputs: int = 1


REALS = {
    "arithmetic": ("pl.add(x, y)", "pl.sub(x, y)", "pl.mul(x, y)", "pl.div(x, y)", "pl.maximum(x, y)", "pl.minimum(x, y)"),
    "functions": ("pl.exp(x)", "pl.log(x)", "pl.sqrt(x)", "pl.rsqrt(x)", "pl.recip(y)", "pl.lrelu(x, 0.01)"),
    "chain": (
        "pl.mul(pl.exp(pl.sub(x, pl.abs(y))), pl.recip(pl.add(pl.exp(pl.neg(pl.abs(x))), 1.0)))",
        "pl.sub(pl.mul(x, y), x)",
    ),
    "expanded": ("pl.row_expand_sub(x, pl.row_max(x, w))", "pl.row_expand_div(pl.exp(x), pl.row_sum(pl.exp(x), w))"),
    "columns": ("pl.col_expand_mul(x, pl.col_sum(y))", "pl.col_expand_add(x, pl.col_max(y))"),
    "selected": ("pl.sel(pl.cmp(x, y, cmp_type=2), x, y, m)", "pl.sel(pl.cmps(x, 0.5, cmp_type=1), pl.mul(y, 1e-3), x, m)"),
}
SINGLES = {"only singles": ("pl.sin(x)", "pl.cos(x)", "pl.fmod(x, y)", "pl.rem(x, y, w)", "pl.addc(x, y, x)")}
INTEGERS = {
    "arithmetic": ("pl.add(x, y)", "pl.sub(x, y)", "pl.mul(x, y)", "pl.div(x, y)", "pl.floordiv(x, y)", "pl.mod(x, y)"),
    "bits": ("pl.and_(x, y)", "pl.xor(x, y, w)", "pl.or_(x, y)", "pl.shl(x, y)", "pl.shr(x, y)"),
    "selected": ("pl.sel(pl.cmp(x, y, cmp_type=3), x, y, m)", "pl.maximum(x, y)", "pl.minimum(x, 7)"),
    "reduced": ("pl.row_expand_add(x, pl.row_sum(x, w))", "pl.col_expand_add(x, pl.col_min(y))"),
}
REDUCTIONS = (
    ("row_sum", "row_max", "row_min", "row_prod"),
    ("row_argmax", "row_argmin"),
    ("col_sum", "col_max", "col_min", "col_prod"),
)
CONVERSIONS = {
    D.INT32: ("round", "rint", "floor", "ceil", "trunc"),
    D.INT16: ("rint", "floor"),
    D.FP16: ("rint", "floor", "trunc"),
    D.BF16: ("rint", "round", "ceil"),
    D.INT64: ("rint",),
}


def _text(name: str, dtype: D, kernels: dict[str, Sequence[str]]) -> str:
    """Each result has rows of its own in `o`."""
    tensor = f"pl.Tensor[[{ROWS}, {COLUMNS}], pl.{dtype.name}]"
    count = sum(map(len, kernels.values()))
    outputs = f"pl.Out[pl.Tensor[[{ROWS * count}, {COLUMNS}], pl.{dtype.name}]]"
    lines = [f"def {name}(a: {tensor}, b: {tensor}, r: pl.INDEX, c: pl.INDEX, o: {outputs}):"]
    row = 0
    for expressions in kernels.values():
        lines.append("    with pl.at(level=pl.Level.CORE_GROUP):")
        lines += [
            f"        {n} = pl.load({t}, [0, 0], [{ROWS}, {COLUMNS}], valid_shape=[r, c])" for n, t in (("x", "a"), ("y", "b"))
        ]
        lines.append(f"        w = pl.create_tile([{ROWS}, {COLUMNS}], dtype=pl.{dtype.name})")
        lines.append("        m = pl.create_tile([1, 32], dtype=pl.UINT8)")
        for e in expressions:
            lines.append(f"        o = pl.store({e}, [{row}, 0], o)")
            row += ROWS
    return "\n".join(["import pypto.language as pl", "", "", "@pl.jit", *lines, "    return o", ""])


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pypto-widths-")


def _kernel(name: str, text: str) -> JITFunction:
    return import_text(name, text, Path(_folder().name))


def _lanewise(name: str, dtype: D, kernels: dict[str, Sequence[str]]) -> Case:
    x, y = data.pair(dtype, (ROWS, COLUMNS), 3)
    out = np.full((ROWS * sum(map(len, kernels.values())), COLUMNS), 77, dtype.numpy())
    return Case(_kernel(name, _text(name, dtype, kernels)), [(x, y, r, c, out) for r, c in EXTENTS])


def _reductions(dtype: D) -> Case:
    name = f"reductions_{dtype.name.lower()}"
    by_row, of_index, by_column = REDUCTIONS
    shape, element = f"[{ROWS}, {COLUMNS}]", f"pl.{dtype.name}"
    shapes = [(ROWS * len(by_row), 1), (ROWS * len(of_index), 1), (len(by_column), COLUMNS)]
    made = [dtype, D.INT32, dtype]
    params = [f"{n}: pl.Out[pl.Tensor[{list(t)}, pl.{d.name}]]" for n, t, d in zip("piq", shapes, made, strict=True)]
    lines = [f"def {name}(a: pl.Tensor[{shape}, {element}], r: pl.INDEX, c: pl.INDEX, {', '.join(params)}):"]
    for operators, o, rows in ((by_row, "p", ROWS), (of_index, "i", ROWS), (by_column, "q", 1)):
        lines.append("    with pl.at(level=pl.Level.CORE_GROUP):")
        lines.append(f"        x = pl.load(a, [0, 0], {shape}, valid_shape=[r, c])")
        lines.append(f"        w = pl.create_tile({shape}, dtype={element})")
        for n, f in enumerate(operators):
            given = "x" if f.startswith("col") else "x, w"
            lines.append(f"        {o} = pl.store(pl.{f}({given}), [{n * rows}, 0], {o})")
    text = "\n".join(["import pypto.language as pl", "", "", "@pl.jit", *lines, "    return p, i, q", ""])
    x = data.for_sums(dtype, (ROWS, COLUMNS), 4)
    if dtype.is_float():
        x[3, 17], x[5, 100] = np.nan, -0.0
    outs = [np.full(t, 77, d.numpy()) for t, d in zip(shapes, made, strict=True)]
    return Case(_kernel(name, text), [(x, r, c, *outs) for r, c in EXTENTS], len(outs))


def _conversions() -> Case:
    outs = {d: np.full((ROWS * len(modes), COLUMNS), 77, d.numpy()) for d, modes in CONVERSIONS.items()}
    params = [f"{d.name.lower()}: pl.Out[pl.Tensor[{list(o.shape)}, pl.{d.name}]]" for d, o in outs.items()]
    lines = [f"def conversions(a: pl.Tensor[[{ROWS}, {COLUMNS}], pl.FP32], r: pl.INDEX, c: pl.INDEX, {', '.join(params)}):"]
    for d, modes in CONVERSIONS.items():
        lines.append("    with pl.at(level=pl.Level.CORE_GROUP):")
        lines.append(f"        x = pl.load(a, [0, 0], [{ROWS}, {COLUMNS}], valid_shape=[r, c])")
        for n, mode in enumerate(modes):
            o = d.name.lower()
            lines.append(f"        {o} = pl.store(pl.cast(x, pl.{d.name}, mode='{mode}'), [{n * ROWS}, 0], {o})")
    returned = ", ".join(d.name.lower() for d in outs)
    text = "\n".join(["import pypto.language as pl", "", "", "@pl.jit", *lines, f"    return {returned}", ""])
    x, y = data.pair(D.FP32, (ROWS, COLUMNS), 5)
    x[::2] = y[::2]
    return Case(_kernel("conversions", text), [(x, r, c, *outs.values()) for r, c in EXTENTS], len(outs))


@pl.jit
def products(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor], p: pl.Out[pl.Tensor]):
    """A ragged product, and one whose sum is cut into pieces."""
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([48, 48], dtype=pl.FP32)
        for k in pl.range(0, 192, 64):
            acc = pl.matmul_acc(acc, a[:, k : k + 64], b[k : k + 64, 0:48])
        p = pl.assemble(p, acc, [0, 0])
    return o, p


@pl.jit
def products_of_bytes(a: pl.Tensor, b: pl.Tensor, o: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        o[:] = pl.matmul(a, b, out_dtype=pl.INT32)
    return o


N = pl.dynamic("N")


@pl.jit.incore
def softmax(x: pl.Tensor[[N, 200], pl.FP32], o: pl.Out[pl.Tensor[[N, 200], pl.FP32]], row: pl.INDEX, rows: pl.INDEX):
    t = pl.load(x, [row, 0], [16, 200], valid_shape=[rows, 200])
    scratch = pl.create_tile([16, 200], dtype=pl.FP32)
    e = pl.exp(pl.row_expand_sub(t, pl.row_max(t, scratch)))
    o = pl.store(pl.row_expand_div(e, pl.row_sum(e, scratch)), [row, 0], o)
    return o


@pl.jit
def threads(x: pl.Tensor[[N, 200], pl.FP32], o: pl.Out[pl.Tensor[[N, 200], pl.FP32]]):
    """Trips that share threads, in a call that moves enough for them to pay."""
    n = pl.tensor.dim(x, 0)
    for k in pl.parallel(0, n, 16):
        o = softmax(x, o, k, pl.min(16, n - k))
    return o


@pl.jit
def moves(a: pl.Tensor, idx: pl.Tensor, at: pl.Tensor, t: pl.Out[pl.Tensor], s: pl.Out[pl.Tensor], g: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        x = pl.load(a, [0, 0], [32, 64])
        t = pl.store(pl.transpose(x, 0, 1), [0, 0], t)
        s = pl.store(pl.sort32(x, pl.load(idx, [0, 0], [32, 64])), [0, 0], s)
    with pl.at(level=pl.Level.CORE_GROUP):
        g[:] = pl.gather(a, dim=-1, index=at)
    return t, s, g


def _products(dtype: Any) -> Case:
    rng = np.random.default_rng(11)
    if dtype is np.int8:
        made = [rng.integers(-128, 127, s, dtype=np.int8, endpoint=True) for s in ((37, 192), (192, 49))]
        return Case(products_of_bytes, [(*made, np.full((37, 49), 77, np.int32))])
    calls = []
    for exponents in (4, 60):  # with the large one there are subnormal products
        a, b = (
            (rng.standard_normal(s) * 2.0 ** rng.integers(-exponents, 5, s)).astype(np.float32).astype(dtype)
            for s in ((48, 192), (192, 49))
        )
        calls.append((a, b, *(np.full((48, n), 77, np.float32) for n in (49, 48))))
    return Case(products, calls, 2)


def _threads() -> Case:
    x = np.random.default_rng(12).standard_normal((2003, 200), dtype=np.float32)
    return Case(threads, [(x, np.full_like(x, 77))])


def _moves() -> Case:
    x, _ = data.pair(D.FP32, (32, 64), 6)
    idx = np.random.default_rng(13).permutation(32 * 64).astype(np.uint32).reshape(32, 64) % 64
    outs = [np.full(shape, 77, np.float32) for shape in ((64, 32), (32, 128), (32, 64))]
    return Case(moves, [(x, idx, idx.astype(np.int32), *outs)], 3)


CASES: dict[str, Callable[[], Case]] = {
    "reals_fp32": lambda: _lanewise("reals_fp32", D.FP32, {**REALS, **SINGLES}),
    "reals_fp16": lambda: _lanewise("reals_fp16", D.FP16, REALS),
    "integers_int32": lambda: _lanewise("integers_int32", D.INT32, INTEGERS),
    "integers_int16": lambda: _lanewise("integers_int16", D.INT16, INTEGERS),
    "conversions": _conversions,
    "reductions_fp32": lambda: _reductions(D.FP32),
    "reductions_fp16": lambda: _reductions(D.FP16),
    "reductions_int32": lambda: _reductions(D.INT32),
    "products_fp32": lambda: _products(np.float32),
    "products_fp16": lambda: _products(np.float16),
    "products_bf16": lambda: _products(ml_dtypes.bfloat16),
    "products_int8": lambda: _products(np.int8),
    "threads": _threads,
    "moves": _moves,
}
