"""Transpose, scatter_update and gather: what they become, operation by operation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, raw_kernel, scope, through
from convert_kit import both, calls_of, convert, kernel, of_params, raw_converted, values
from pass_lab import agree, out, outputs

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.ir import ops
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.stmt import AssignStmt
from pypto.passes.convert_tensor_to_tile_ops.compact import is_compact

contract = pytest.mark.contract
M = MemorySpace


def t(*dims: int, dtype: str = "FP32") -> str:
    return f"pl.Tensor[{list(dims)}, pl.{dtype}]"


# -- transpose -------------------------------------------------------------------------------------------------------


@contract("T120")
@pytest.mark.parametrize("shape", [(16, 64), (3, 8, 16)])
def test_a_transpose_has_three_operands_and_no_scratch(shape):
    swapped = (*shape[:-2], shape[-1], shape[-2])
    n = len(shape)
    f = raw_converted(f"y = pl.tensor.transpose(x, {n - 2}, {n - 1})\nreturn y", f"x: {t(*shape)}", t(*swapped))
    assert applied(f) == ["tile.load", "tile.transpose", "tile.store"]
    assert [a.value for a in call_of(f, "tile.transpose").args[1:]] == [n - 2, n - 1]


@contract("T121")
@pytest.mark.parametrize(("shape", "pages", "scratch"), [((16, 64), 1, [16, 64]), ((3, 8, 16), 3, [8, 16])])
def test_the_scratch_comes_where_tiles_get_two_dimensions(shape, pages, scratch):
    swapped = (*shape[:-2], shape[-1], shape[-2])
    n = len(shape)
    text = f"o[{', '.join(':' * n)}] = pl.transpose(x, {n - 2}, {n - 1})"
    params = f"x: {t(*shape)}, o: pl.Out[{t(*swapped)}]"
    f = kernel_of(through(scope(text, params), "flatten_tile_nd_to_2d"))
    found = calls_of(f, "tile.transpose")
    assert [len(c.args) for c in found] == [4] * pages
    assert [[d.value for d in c.args[3].type.shape] for c in found] == [scratch] * pages
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    agree(*both(text, params), [x, out(*swapped)])


# -- scatter_update --------------------------------------------------------------------------------------------------

SCATTER = "o[:] = pl.scatter_update(x, n, y)"


def scatter(dtype: str):
    x, y = t(32, 16, dtype=dtype), t(8, 16, dtype=dtype)
    params = f"x: {x}, n: {t(2, 4, dtype='INT32')}, y: {y}, o: pl.Out[{x}]"
    return kernel(SCATTER, params), params


@contract("T122", "T126", "T127", "T128")
@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16", "INT32", "INT16"])
def test_rows_are_scattered_and_selected(dtype):
    f, _ = scatter(dtype)
    narrow = ["tile.cast"] if dtype in ("FP16", "BF16", "INT16") else []
    names = [n for n in applied(f) if n not in ("tile.reshape", "tile.create")]
    assert names == [
        *["tile.load"] * 3,
        *["tile.ci", "tile.full", "tile.col_expand", "tile.muls", "tile.row_expand_add", *narrow],
        *["tile.full", "tile.scatter", "tile.full", "tile.full", "tile.scatter"],
        *["tile.cmps", "tile.sel", "tile.store"],
    ]
    hit, scattered, kept, _ = call_of(f, "tile.sel").args
    assert hit is values(f, "tile.cmps")[0]
    assert scattered is values(f, "tile.scatter")[0]
    assert [of_params(f, c) for c, v in zip(calls_of(f, "tile.load"), values(f, "tile.load"), strict=True) if v is kept] == ["x"]
    # What is scattered into is made for it; nothing of the input passes through the scatter.
    fills = values(f, "tile.full")
    assert all(any(c.args[0] is v for v in fills) for c in calls_of(f, "tile.scatter"))


@contract("T123", "T124")
@pytest.mark.parametrize(("dtype", "last"), [("FP32", "INT32"), ("BF16", "INT16"), ("INT16", "INT16"), ("INT32", "INT32")])
def test_positions_are_computed_in_32_bits_and_narrowed_once(dtype, last):
    f, _ = scatter(dtype)
    for name in ("tile.ci", "tile.col_expand", "tile.muls", "tile.row_expand_add"):
        assert {v.type.dtype for v in values(f, name)} == {DataType.INT32}, name
    assert len(calls_of(f, "tile.cast")) == (last == "INT16")
    assert {c.args[2].type.dtype for c in calls_of(f, "tile.scatter")} == {getattr(DataType, last)}


@contract("T125")
def test_the_index_is_read_as_a_column_through_a_view():
    f, _ = scatter("FP32")
    (view,) = calls_of(f, "tile.reshape")
    assert ops.of(view).semantics.kind == "view"
    assert [d.value for d in view.type.shape] == [8, 1]
    assert call_of(f, "tile.muls").args[0] is values(f, "tile.reshape")[0]


@contract("T122", "T126")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_rows_that_no_index_names_keep_what_they_were(dtype):
    names = {np.float32: "FP32", ml_dtypes.bfloat16: "BF16", np.int32: "INT32"}
    _, params = scatter(names[dtype])
    x, y = np.arange(512).reshape(32, 16).astype(dtype), -np.arange(128).reshape(8, 16).astype(dtype)
    n = np.array([[3, 31, 0, 3], [7, 8, 9, 10]], np.int32)
    agree(*both(SCATTER, params), [x, n, y, np.zeros((32, 16), dtype)])


# -- gather ----------------------------------------------------------------------------------------------------------

INDEX = f"n: {t(2, 8, dtype='INT32')}"


@contract("T129", "T130")
@pytest.mark.parametrize(
    ("call", "dim"), [("pl.gather(x, m)", None), ("pl.gather(x, index=m)", None), ("pl.gather(x, dim=-1, index=m)", 1)]
)
def test_dim_decides_what_an_index_counts(call, dim):
    params = f"x: {t(8, 16)}, m: {t(8, 8, dtype='INT32')}, o: pl.Out[{t(8, 8)}]"
    before, after = both(f"o[:] = {call}", params)
    (gather,) = [c for f in before.function_list if f.is_device for c in calls_of(f, "tensor.gather")]
    assert ("dim" in gather.kwargs) == (dim is not None)
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    m = (np.arange(64, dtype=np.int32).reshape(8, 8) * 5) % 16
    agree(before, after, [x, m, out(8, 8)])
    want = x.reshape(-1)[m] if dim is None else np.take_along_axis(x, m, 1)
    np.testing.assert_array_equal(outputs(after, [x, m, out(8, 8)])[2], want)


@contract("T131", "T134")
@pytest.mark.parametrize("rows", [32, 100000])
def test_from_global_memory_elements_are_gathered_where_they_are(rows):
    f = kernel("o[:] = pl.gather(x, n)", f"x: {t(rows, 16)}, {INDEX}, o: {t(2, 8)}")
    assert applied(f) == ["tile.load", "tile.mgather", "tile.store"]
    gather = call_of(f, "tile.mgather")
    assert of_params(f, gather) == "x"
    assert gather.kwargs["coalesce"] == 1
    assert values(f, "tile.mgather")[0].type.memory_space is M.Vec
    assert [of_params(f, c) for c in calls_of(f, "tile.load")] == ["n"]


@contract("T133", "T136")
@pytest.mark.parametrize("valid", [None, (2, 5)])
def test_from_a_tile_there_is_scratch_of_the_index_s_shape(valid):
    index = "n" if valid is None else f"pl.set_validshape(n[0:2, 0:8], {valid[0]}, {valid[1]})"
    f = kernel(
        f"g = pl.gather(pl.add(x, 1.0), {index})\no[0:2, 0:{valid[1] if valid else 8}] = g",
        f"x: {t(32, 16)}, {INDEX}, o: {t(2, 8)}",
    )
    scratch = call_of(f, "tile.gather").args[2]
    want = list(valid or (2, 8))
    assert scratch.type.dtype is DataType.INT32
    assert [d.value for d in scratch.type.shape] == [2, 8]
    assert [d.value for d in scratch.type.valid] == want
    assert [d.value for d in values(f, "tile.gather")[0].type.valid] == want


@contract("T135")
def test_an_index_that_is_a_plain_tile_is_used_as_it_is():
    f = kernel("i = pl.add(n, 1)\no[:] = pl.gather(pl.add(x, 1.0), i)", f"x: {t(32, 16)}, {INDEX}, o: {t(2, 8)}")
    index = next(v for v in values(f, "tile.adds") if v.type.dtype is DataType.INT32)
    assert call_of(f, "tile.gather").args[1] is index


STRIDED = "g = pl.gather(pl.add(x, {one})[0:16, 0:8], n)\no[:] = g"


@contract("T137", "T138", "T141", "T142")
@pytest.mark.parametrize(
    ("dtype", "copy"), [("FP32", "tile.extract"), ("FP16", "tile.extract"), ("INT32", "tile.adds"), ("INT16", "tile.adds")]
)
def test_a_window_is_copied_before_it_is_gathered_from(dtype, copy):
    one = "1.0" if dtype.startswith("FP") else "1"
    params = f"x: {t(32, 16, dtype=dtype)}, {INDEX}, o: pl.Out[{t(2, 8, dtype=dtype)}]"
    f = kernel(STRIDED.format(one=one), params)
    source = call_of(f, "tile.gather").args[0]
    window = values(f, "tile.slice")[0]
    assert source is not window
    assert source is values(f, copy)[-1]
    assert calls_of(f, copy)[-1].args[0] is window
    if copy == "tile.adds":
        assert calls_of(f, copy)[-1].args[1].value == 0
    kinds = {"FP32": np.float32, "FP16": np.float16, "INT32": np.int32, "INT16": np.int16}
    x = np.arange(512).reshape(32, 16).astype(kinds[dtype])
    n = np.arange(16, dtype=np.int32).reshape(2, 8) * 7
    agree(*both(STRIDED.format(one=one), params), [x, n, np.zeros((2, 8), kinds[dtype])])


@contract("T139", "T140", "T141")
@pytest.mark.parametrize(
    ("source", "copied"),
    [
        ("y = pl.add(x, 1.0)", False),
        ("z = pl.add(x, 1.0)\ny = z", False),
        ("y = pl.set_validshape(pl.add(x, 1.0), 16, 16)", False),
        ("y = pl.add(x, 1.0)[0:32, 0:8]", True),
        ("y = pl.reshape(pl.add(x, 1.0), [16, 32])", True),
        ("y = pl.add(x, 1.0)\nfor i in pl.range(2):\n    y = pl.add(y, 1.0)", True),
        ("if pl.read(n, [0, 0]) > 0:\n    y = pl.add(x, 1.0)\nelse:\n    y = pl.add(x, 2.0)", True),
    ],
)
def test_only_results_with_storage_of_their_own_are_known_to_be_compact(source, copied):
    f = kernel(source + "\no[:] = pl.gather(y, n)", f"x: {t(32, 16)}, {INDEX}, o: {t(2, 8)}")
    assert (call_of(f, "tile.gather").args[0] in set(values(f, "tile.extract"))) is copied


@contract("T139", "T142")
def test_a_tile_says_nothing_about_its_gaps():
    body = "a = pl.tile.load(x, [0, 0], [32, 16], [32, 16])\nw = pl.tile.slice(a, [16, 8], [0, 0])\nb = pl.tile.adds(w, 1.0)"
    f = kernel_of(convert(raw_kernel(body, f"x: {t(32, 16)}")))
    defined = {s.var: s.value for s in walk(f.body) if isinstance(s, AssignStmt)}
    by_name = {v.name_hint: v for v in defined}
    assert all(not v.type.get_effective_tile_view().stride for v in defined)
    assert {n: is_compact(v, defined) for n, v in by_name.items()} == {"a": True, "w": False, "b": True}
    assert not is_compact(f.params[0], defined)
    assert all(isinstance(e, Call) for e in defined.values())
