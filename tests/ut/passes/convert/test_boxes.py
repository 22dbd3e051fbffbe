"""Matrix operands: loaded into Mat as they lie, stored in whole boxes, valid as far as the user's extents go."""

from __future__ import annotations

import numpy as np
import pytest
from back_lab import applied, call_of, kernel_of, scope, through
from convert_kit import both, calls_of, kernel, of_params, values
from pass_lab import agree, out

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError, Error
from pypto.ir import ops
from pypto.ir.expr import Call, Var, const_index
from pypto.ir.ops import matmul
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TensorType
from pypto.ir.stmt import ForStmt
from pypto.ir.types import ScalarType
from pypto.passes.context import PassOptions
from pypto.passes.convert_tensor_to_tile_ops import convert_tensor_to_tile_ops
from pypto.passes.convert_tensor_to_tile_ops.boxing import boxed_shape
from pypto.span import Span

contract = pytest.mark.contract
BYTES = {"FP32": 4, "FP16": 2, "BF16": 2, "INT8": 1}
DTYPES = list(BYTES)
SUM = {"INT8": "INT32"}
M = MemorySpace


def t(*dims: int, dtype: str = "FP32") -> str:
    return f"pl.Tensor[{list(dims)}, pl.{dtype}]"


def up(n: int, box: int) -> int:
    return -(-n // box) * box


def product(m: int, k: int, n: int, dtype: str = "FP32", flags: str = "", body: str = "pl.matmul(a, b{})"):
    """The kernel of one product, and the stored and valid extents of the left load, the right load and the result."""
    a = (k, m) if "a_trans" in flags else (m, k)
    b = (n, k) if "b_trans" in flags else (k, n)
    result = SUM.get(dtype, "FP32")
    f = kernel(
        "o[:] = " + body.format(f", out_dtype=pl.{result}{flags}"),
        f"a: {t(*a, dtype=dtype)}, b: {t(*b, dtype=dtype)}, o: {t(m, n, dtype=result)}",
    )
    loads = {of_params(f, c): v for c, v in zip(calls_of(f, "tile.load"), values(f, "tile.load"), strict=True)}
    return f, extents(loads["a"]), extents(loads["b"]), extents(values(f, "tile.matmul")[0])


def boxes_of(c: Call) -> tuple[tuple[int, int] | None, ...]:
    return ops.get(c.op.name).boxes(c)


def extents(v: Var) -> tuple[list[int], list[int]]:
    """What a tile is stored in, and how much of it is valid."""
    return [d.value for d in v.type.shape], [d.value for d in v.type.valid]


# -- where operands are loaded ---------------------------------------------------------------------------------------


@contract("T008", "T015")
@pytest.mark.parametrize("flags", ["", ", a_trans=True", ", b_trans=True", ", a_trans=True, b_trans=True"])
@pytest.mark.parametrize("where", ["a", "s"])
def test_operands_are_loaded_into_mat_as_they_lie(flags, where):
    a = t(32, 48) if "a_trans" in flags else t(48, 32)
    b = t(64, 32) if "b_trans" in flags else t(32, 64)
    cut = "" if where == "a" else "s = a[0:32, 0:48]\n" if "a_trans" in flags else "s = a[0:48, 0:32]\n"
    f = kernel(cut + f"o[:] = pl.matmul({where}, b{flags})", f"a: {a}, b: {b}, o: {t(48, 64)}")
    loads = calls_of(f, "tile.load")
    assert {of_params(f, c): c.kwargs["target_memory"] for c in loads} == {"a": M.Mat, "b": M.Mat}
    assert {of_params(f, c): c.type.shape[0].value for c in loads} == {
        "a": 32 if "a_trans" in flags else 48,
        "b": 64 if "b_trans" in flags else 32,
    }
    assert applied(f).count("tile.transpose_view") == flags.count("True")
    assert "tile.move" not in applied(f)


@contract("T090", "T091")
@pytest.mark.parametrize(
    "between",
    [
        "v = a[0:64, 0:64]",
        "v = pl.set_validshape(a[0:64, 0:64], r, 64)",
        "w = a[0:64, 0:64]\nv = w",
        "v = pl.reshape(c, [64, 64])",
        "v = pl.reshape(pl.set_validshape(a[0:64, 0:64], 64, 64), [64, 64])",
        "v = a[0:64, 0:128][0:64, 64:128]",
        "v = pl.tensor.view(a[0:64, 0:64], [64, 64])",
        "v = pl.tensor.view(c, [64, 64])",
        "v = pl.reinterpret_view(n[0:64, :], pl.FP32)",
    ],
)
def test_what_is_needed_of_a_view_is_needed_of_what_it_looks_at(between):
    text = between + "\no[:] = pl.matmul(v, b)"
    params = (
        f"a: {t(128, 128)}, c: {t(1, 64, 64)}, n: {t(128, 64, dtype='INT32')}, "
        f"b: {t(64, 64)}, o: {t(64, 64)}, r: pl.Scalar[pl.INDEX]"
    )
    assert {c.kwargs["target_memory"] for c in calls_of(kernel(text, params), "tile.load")} == {M.Mat}
    placed = kernel_of(through(scope(text, params), "infer_tile_memory_space"))
    assert {c.args[0].type.memory_space for c in calls_of(placed, "tile.move")} == {M.Mat}


@contract("T090")
@pytest.mark.parametrize("between", ["v = pl.reshape(d, [64, 64])", "v = pl.tensor.view(d, [64, 64])"])
def test_where_rows_do_not_stay_rows_nothing_is_needed_of_the_operand(between):
    f = kernel(between + "\no[:] = pl.matmul(v, b)", f"d: {t(4096)}, b: {t(64, 64)}, o: {t(64, 64)}")
    assert {of_params(f, c): c.kwargs.get("target_memory") for c in calls_of(f, "tile.load")} == {"d": None, "b": M.Mat}


@contract("T006", "T008")
@pytest.mark.parametrize(
    "body",
    [
        "if pl.read(c, [0]) > 0:\n    v = a[0:64, 0:64]\nelse:\n    v = a[64:128, 0:64]\no[:] = pl.matmul(v, b)",
        "v = a[0:64, 0:64]\nfor i in pl.range(2):\n    o[:] = pl.matmul(v, b)\n    v = a[64:128, 0:64]",
        "v = a[0:64, 0:64]\nk = 0\nwhile k < 2:\n    v = a[64:128, 0:64]\n    k = k + 1\no[:] = pl.matmul(v, b)",
    ],
    ids=["branch", "loop", "while"],
)
def test_what_is_needed_of_a_result_is_needed_of_what_it_may_be(body):
    f = kernel(body, f"a: {t(128, 128)}, b: {t(64, 64)}, c: {t(8, dtype='INT32')}, o: {t(64, 64)}")
    assert [c.kwargs.get("target_memory") for c in calls_of(f, "tile.load")] == [M.Mat] * 3
    assert "tile.move" not in applied(f)


# -- M ---------------------------------------------------------------------------------------------------------------


@contract("T092", "T093", "T094", "T098", "T101", "T103")
@pytest.mark.parametrize("m", [1, 5, 16, 17, 100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_whole_boxes_of_16_and_valid_as_far_as_they_go(m, dtype):
    _, a, _, o = product(m, 64, 32, dtype)
    assert a == ([up(m, 16), 64], [m, 64])
    assert o[0][0] == up(m, 16)
    assert o[1][0] == m


@contract("T093")
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_boxes_are_the_same_on_every_generation(platform, dtype):
    params = f"a: {t(17, 64, dtype=dtype)}, b: {t(64, 17, dtype=dtype)}, o: {t(17, 17, dtype=SUM.get(dtype, 'FP32'))}"
    before, _ = both(f"o[:] = pl.matmul(a, b, out_dtype=pl.{SUM.get(dtype, 'FP32')})", params)
    f = kernel_of(convert_tensor_to_tile_ops.run(before, PassOptions(platform=platform)))
    loads = {of_params(f, c): extents(v) for c, v in zip(calls_of(f, "tile.load"), values(f, "tile.load"), strict=True)}
    assert loads == {"a": ([32, 64], [17, 64]), "b": ([64, 32], [64, 17])}
    assert extents(values(f, "tile.matmul")[0]) == ([32, 32], [17, 17])


@contract("T097", "T098", "T099", "T100", "T103")
@pytest.mark.parametrize("m", [8, 17, 33, 100])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_transposed_operand_are_columns_of_its_load(m, dtype):
    f, a, _, o = product(m, 64, 32, dtype, ", a_trans=True")
    box = max(32 // BYTES[dtype], 16)
    assert a == ([64, up(m, box)], [64, m])
    assert o[0][0] == up(m, box)
    assert extents(values(f, "tile.transpose_view")[0]) == ([up(m, box), 64], [m, 64])


@contract("T092")
@pytest.mark.parametrize(("m", "k", "n"), [(1, 16, 1), (13, 16, 4095), (4095, 16, 16), (16, 4080, 1)])
def test_extents_up_to_the_largest(m, k, n):
    _, a, b, o = product(m, k, n)
    assert a == ([up(m, 16), k], [m, k])
    assert b == ([k, up(n, 16)], [k, n])
    assert o[1] == [m, n]


@contract("T095")
def test_rounding_moves_nothing_more_and_multiplies_once():
    f, *_ = product(100, 64, 50)
    assert applied(f) == ["tile.load", "tile.load", "tile.matmul", "tile.store"]
    assert [[e.value for e in c.args[3].elements] for c in calls_of(f, "tile.load")] == [[100, 64], [64, 50]]


@contract("T096")
@pytest.mark.parametrize("flags", ["", ", a_trans=True", ", b_trans=True"])
def test_stores_write_valid_rows_only(flags):
    a = t(16, 21) if "a_trans" in flags else t(21, 16)
    b = t(19, 16) if "b_trans" in flags else t(16, 19)
    params = f"a: {a}, b: {b}, o: pl.Out[{t(40, 40)}]"
    before, after = both(f"o[3:24, 5:24] = pl.matmul(a, b{flags})", params)
    x, y = np.arange(336, dtype=np.float32), np.arange(304, dtype=np.float32) % 7
    args = [x.reshape((16, 21) if "a_trans" in flags else (21, 16)), y.reshape((19, 16) if "b_trans" in flags else (16, 19))]
    agree(before, after, [*args, out(40, 40)])


@contract("T102")
def test_a_load_that_comes_from_a_slice_is_rounded():
    f = kernel("s = a[4:104, :]\no[:] = pl.matmul(s, b)", f"a: {t(200, 64)}, b: {t(64, 64)}, o: {t(100, 64)}")
    (load,) = [c for c in calls_of(f, "tile.load") if of_params(f, c) == "a"]
    assert [e.value for e in load.args[2].elements] == [112, 64]
    assert [e.value for e in load.args[3].elements] == [100, 64]


@contract("T101")
def test_a_load_made_at_the_call_is_rounded():
    f = kernel(
        "pl.write(a, [0, 0], pl.const(1.0, pl.FP32))\no[:] = pl.matmul(a, b)", f"a: {t(100, 64)}, b: {t(64, 64)}, o: {t(100, 64)}"
    )
    written = values(f, "tensor.write")[0]
    (load,) = [c for c in calls_of(f, "tile.load") if c.args[0] is written]
    assert [e.value for e in load.args[2].elements] == [112, 64]


@contract("T105")
def test_a_value_is_rounded_only_if_all_its_consumers_ask():
    params = f"a: {t(64, 64)}, o: {t(40, 64)}, q: {t(40, 64)}"
    load = {}
    for more in ("", "\nq[:] = pl.add(s, 1.0)"):
        f = kernel("s = a[0:40, :]\no[:] = pl.matmul(s, a)" + more, params)
        (cut,) = [
            c for c in calls_of(f, "tile.load") if [e.value for e in c.args[3].elements] == [40, 64] and of_params(f, c) == "a"
        ]
        load[more] = [e.value for e in cut.args[2].elements]
    assert list(load.values()) == [[48, 64], [40, 64]]


# -- accumulators ----------------------------------------------------------------------------------------------------

SUMMED = """
acc = pl.create_tensor([{m}, 64], dtype=pl.{sum})
for i in pl.range(4):
    acc = pl.matmul_acc(acc, {a}, b[i * 32:i * 32 + 32, :]{flags}, init_cond=(i == 0))
o[:] = acc
"""


def summed(m: int, dtype: str = "FP32", trans: bool = False):
    flags, cut = (", a_trans=True", "a[i * 32:i * 32 + 32, :]") if trans else ("", "a[:, i * 32:i * 32 + 32]")
    result = SUM.get(dtype, "FP32")
    a = t(128, m, dtype=dtype) if trans else t(m, 128, dtype=dtype)
    return kernel(
        SUMMED.format(m=m, sum=result, a=cut, flags=flags), f"a: {a}, b: {t(128, 64, dtype=dtype)}, o: {t(m, 64, dtype=result)}"
    )


@contract("T099", "T100", "T104", "T106", "T107", "T108", "T109", "T110")
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [17, 64, 100])
def test_an_accumulator_has_the_rows_of_the_product(m, dtype, trans):
    f = summed(m, dtype, trans)
    box = max(32 // BYTES[dtype], 16) if trans else 16
    create, valid = call_of(f, "tile.create"), call_of(f, "tile.set_validshape")
    assert [e.value for e in create.args[0].elements] == [up(m, box), 64]
    assert create.kwargs["target_memory"] is M.Acc
    assert create.kwargs["compact"] is True
    assert valid.args[0] is values(f, "tile.create")[0]
    assert [e.value for e in valid.args[1:]] == [m, 64]
    (loop,) = [n for n in walk(f.body) if isinstance(n, ForStmt)]
    carry = loop.iter_args[0]
    assert carry.initValue is values(f, "tile.set_validshape")[0]
    left = next(v for c, v in zip(calls_of(f, "tile.load"), values(f, "tile.load"), strict=True) if of_params(f, c) == "a")
    assert extents(carry)[0][0] == extents(left)[0][1 if trans else 0] == up(m, box)


LOOPS = {
    "while": "k = 0\nwhile k < 64:\n"
    "    acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=(k == 0))\n    k = k + 32\n",
    "branch": (
        "for k in pl.range(0, 64, 32):\n    if k > 0:\n        acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :])\n"
        "    else:\n        acc = pl.matmul_acc(acc, a[:, k : k + 32], b[k : k + 32, :], init_cond=True)\n"
    ),
    "choice": "if pl.read(a, [0, 0]) > 0.0:\n    s = acc\nelse:\n    s = pl.matmul(a, b)\n"
    "acc = pl.matmul_acc(s, a, b, init_cond=True)\n",
}


@contract("T104", "T106", "T109")
@pytest.mark.parametrize("form", LOOPS)
def test_what_is_asked_of_a_carry_is_asked_through_every_statement(form):
    text = "acc = pl.create_tensor([20, 32], dtype=pl.FP32)\n" + LOOPS[form] + "o[:] = acc"
    f = kernel(text, f"a: {t(20, 64)}, b: {t(64, 32)}, o: {t(20, 32)}")
    assert extents(values(f, "tile.set_validshape")[0]) == ([32, 32], [20, 32])
    assert {tuple(map(tuple, extents(v))) for v in values(f, "tile.matmul_acc")} == {((32, 32), (20, 32))}


@contract("T096", "T107")
@pytest.mark.parametrize("m", [17, 20])
def test_sums_over_k_keep_the_numbers(m):
    params = f"a: {t(m, 128)}, b: {t(128, 64)}, o: pl.Out[{t(m + 3, 64)}]"
    text = SUMMED.format(m=m, sum="FP32", a="a[:, i * 32:i * 32 + 32]", flags="").replace("o[:]", f"o[2:{m + 2}, :]")
    before, after = both(text, params)
    a = (np.arange(m * 128, dtype=np.float32) % 11).reshape(m, 128)
    agree(before, after, [a, (np.arange(8192, dtype=np.float32) % 5).reshape(128, 64), out(m + 3, 64)])


# -- N and K ---------------------------------------------------------------------------------------------------------


@contract("T092", "T112", "T114")
@pytest.mark.parametrize("n", [1, 15, 17, 50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_of_the_right_operand_are_whole_boxes_of_all_three_memories(n, dtype):
    _, _, b, o = product(16, 64, n, dtype)
    box = max(32 // BYTES[dtype], 16)
    assert b == ([64, up(n, box)], [64, n])
    assert o == ([16, up(n, box)], [16, n])


@contract("T113")
@pytest.mark.parametrize("n", [1, 15, 17, 50])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_of_a_transposed_right_operand_are_rows_of_its_load(n, dtype):
    f, _, b, o = product(16, 64, n, dtype, ", b_trans=True")
    assert b[0][0] % 16 == 0
    assert b[0][0] < n + 32
    assert b == ([o[0][1], 64], [n, 64])
    assert extents(values(f, "tile.transpose_view")[0])[1] == [64, n]


@contract("T114")
def test_the_boxes_of_the_memories():
    got = {(d, s): matmul._box(getattr(DataType, d), s) for d in ("FP32", "FP16") for s in (M.Mat, M.Right)}
    assert got == {
        ("FP32", M.Mat): (16, 8),
        ("FP16", M.Mat): (16, 16),
        ("FP32", M.Right): (8, 16),
        ("FP16", M.Right): (16, 16),
    }


@contract("T115")
def test_columns_of_an_accumulation_are_not_rounded():
    f = kernel(
        "acc = pl.matmul(a[:, 0:32], b[0:32, :])\nacc = pl.matmul_acc(acc, a[:, 32:64], b[32:64, :])\no[:] = acc",
        f"a: {t(20, 64)}, b: {t(64, 32)}, o: {t(20, 32)}",
    )
    assert [c.type.shape[1].value for c in calls_of(f, "tile.load") if of_params(f, c) == "b"] == [32, 32]
    acc, lhs, rhs = (
        Var(n, TensorType(d, DataType.FP32), Span.unknown()) for n, d in (("c", (20, 24)), ("a", (20, 64)), ("b", (64, 24)))
    )
    assert boxes_of(ops.create_op_call("tensor.matmul_acc", (acc, lhs, rhs), {}, Span.unknown())) == ((16, 1), (16, 1), None)


@contract("T116")
@pytest.mark.parametrize("flags", ["", ", a_trans=True", ", b_trans=True"])
@pytest.mark.parametrize("k", [16, 48, 80])
def test_k_is_never_rounded(k, flags):
    _, a, b, _ = product(20, k, 20, "FP32", flags)
    assert a[0]["a_trans" not in flags] == k
    assert b[0]["b_trans" in flags] == k


@contract("T116", "T119")
@pytest.mark.parametrize(("k", "dtype", "box"), [(20, "FP32", 16), (12, "FP16", 16), (48, "INT8", 32)])
def test_a_depth_that_is_no_whole_boxes_is_reported_with_a_remedy(k, dtype, box):
    with pytest.raises(CompileError, match=f"K = {k} is not a multiple of") as e:
        product(16, k, 16, dtype)
    assert str(up(k, box)) in e.value.hint
    assert "valid_shape=" in e.value.hint


@pytest.mark.parametrize(("flags", "window", "data"), [("", "[16, 32]", "[13, 20]"), (", a_trans=True", "[32, 16]", "[20, 13]")])
def test_the_remedy_for_a_depth_has_whole_boxes_of_rows_too(flags, window, data):
    with pytest.raises(CompileError, match="K = 20 is not a multiple of") as e:
        product(13, 20, 16, "FP32", flags)
    assert f"pl.slice(x, {window}, offsets, clamp=True)" in e.value.hint
    assert f"pl.load(x, offsets, {window}, valid_shape={data}, target_memory=pl.Mem.Mat)" in e.value.hint


@contract("T117")
def test_more_than_two_dimensions_are_not_rounded():
    a, b = (Var(n, TensorType(d, DataType.FP32), Span.unknown()) for n, d in (("a", (2, 20, 64)), ("b", (2, 64, 20))))
    assert boxes_of(ops.create_op_call("tensor.matmul", (a, b), {}, Span.unknown())) == (None, None)
    assert [d.value for d in boxed_shape((const_index(2), const_index(20), const_index(20)), (16, 16))] == [2, 20, 20]


@contract("T118")
def test_run_time_extents_are_not_rounded():
    n = Var("n", ScalarType.of(DataType.INDEX), Span.unknown())
    rows, cols = boxed_shape((n, const_index(20)), (16, 16))
    assert rows is n
    assert cols.value == 32


@contract("T119")
def test_a_value_that_is_rounded_for_nobody_is_reported_at_its_line():
    text = "s = a[0:40, 0:40]\no[:] = pl.matmul(s, b)\nq[:] = pl.add(s, 1.0)"
    with pytest.raises(Error) as e:
        through(scope(text, f"a: {t(64, 64)}, b: {t(40, 64)}, o: {t(40, 64)}, q: {t(40, 40)}"), "lower_tile_to_buffer")
    assert e.value.hint
