"""Matrix kernels over buffers: which are chosen, what they become under each planner, and the numbers they give."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from back_lab import kernel_of, raw_kernel, scope, through
from buffer_lab import ADDRESSED, PLANNERS, PTOAS, PYPTO, alloc, calls, definition, handles, operations, planned
from pass_lab import out
from test_back_semantics import executed

from pypto.codegen.pto import PTOCodegen
from pypto.debug import Placement, interpret
from pypto.dtypes import DataType as D
from pypto.enums import CompactMode, FunctionIRStage, MemoryPlanner, MemorySpace, TileLayout
from pypto.errors import CompileError, NotSupportedError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import OpRejected
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.shaped import BufferType, TensorType, TileType
from pypto.ir.stmt import EvalStmt, ForStmt, IfStmt, flatten_to_stmts
from pypto.ir.structural import compare
from pypto.ir.types import VoidType
from pypto.ir.verify.buffer_ir import buffer_ir, check_buffer_function
from pypto.passes.context import PassOptions
from pypto.passes.lower_tile_to_buffer import lower_tile_to_buffer
from pypto.passes.materialize_semantic_aliases import materialize_semantic_aliases
from pypto.passes.pipeline import lower
from pypto.passes.select_buffer_ir_functions import why_not_selected
from pypto.passes.statements import statements
from pypto.span import Span

contract = pytest.mark.contract
Mat, Left, Right, Acc = MemorySpace.Mat, MemorySpace.Left, MemorySpace.Right, MemorySpace.Acc
ROW, COL = TileLayout.row_major, TileLayout.col_major
ELEMENTS = (D.FP16, D.BF16, D.FP32, D.INT8)
SUM = {D.FP16: D.FP32, D.BF16: D.FP32, D.FP32: D.FP32, D.INT8: D.INT32}


def params(m: int = 64, k: int = 64, n: int = 64, dtype: D = D.FP16, result: D | None = None, b: str = "", a: str = "") -> str:
    """Parameters a, b and o of a product."""
    made = (result or SUM[dtype]).name
    return (
        f"a: pl.Tensor[{a or [m, k]}, pl.{dtype.name}], b: pl.Tensor[{b or [k, n]}, pl.{dtype.name}], "
        f"n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[{[m, n]}, pl.{made}]]"
    )


LOADS = """
x = pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)
"""
MOVES = LOADS + "l = pl.move(x, target_memory=pl.Mem.Left)\nr = pl.move(y, target_memory=pl.Mem.Right)\n"
STORE = "\npl.store(c, [0, 0], o)"
ONCE = MOVES + "c = pl.matmul(l, r)" + STORE


def create(dtype: D = D.FP32) -> str:
    return f"c = pl.create_tile([64, 64], dtype=pl.{dtype.name}, target_memory=pl.Mem.Acc)\n"


def matrix(rows: int, cols: int, dtype: D = D.FP16, step: int = 3) -> np.ndarray:
    """Small whole numbers: products and their sums are exact in every type."""
    return ((np.arange(rows)[:, None] * step + np.arange(cols) * 5) % 7 - 3).astype(dtype.numpy())


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64)


def arguments(p: Program, trips: int = 2) -> list[object]:
    """Values for `main`: matrices, a number, and an output that nobody has written."""
    made: list[object] = []
    f = p.get_function("main")
    assert f is not None
    for i, v in enumerate(f.params):
        if not isinstance(v.type, TensorType):
            made.append(trips)
            continue
        shape = tuple(d.value for d in v.type.shape if isinstance(d, ConstInt))
        fresh = v.name_hint == "o"
        made.append(out(*shape, dtype=v.type.dtype.numpy(), fill=77) if fresh else matrix(*shape, v.type.dtype, 3 - i))
    return made


def sound(made: Program, source: Program, trips: tuple[int, ...] = (2,)) -> Function:
    """The one kernel of a program in buffer form; it gives to the bit what its source gives."""
    f = kernel_of(made)
    assert f.ir_stage is FunctionIRStage.Buffer, why_not_selected(kernel_of(through(source, "init_mem_ref")), PassOptions())
    assert list(buffer_ir(made)) == []
    assert not any(isinstance(v.type, TileType) for v in defined_vars(f.body))
    for n in trips:
        args = arguments(source, n)
        assert executed(made, args, None) == executed(source, args, Placement.VALUES)
    return f


def lowered(body: str, planner: MemoryPlanner = PYPTO, given: str = "", trips: tuple[int, ...] = (2,)) -> Function:
    """The kernel as the default pipeline converts it."""
    p = scope(body, given or params())
    return sound(lower(p, PassOptions(memory_planner=planner)).device, p, trips)


def result(body: str, given: str = "", planner: MemoryPlanner = PYPTO, trips: int = 2) -> tuple[list[np.ndarray], np.ndarray]:
    """Operands, and what the kernel's buffer form leaves in `o` when it is interpreted."""
    p = scope(body, given or params())
    args = arguments(p, trips)
    interpret(lower(p, PassOptions(memory_planner=planner)).device, args, "main")
    return [x for x in args[:2] if isinstance(x, np.ndarray)], args[-1]  # type: ignore[return-value]


def reason(body: str, given: str = "", options: PassOptions | None = None) -> str | None:
    options = options or PassOptions()
    return why_not_selected(kernel_of(through(scope(body, given or params()), "init_mem_ref", options.memory_planner)), options)


def allocs(f: Function, space: MemorySpace) -> list[Var]:
    """The allocations in a memory."""
    return [v for v in handles(f) if v.type.memory_space is space and definition(f, v).op.name == "buffer.alloc"]  # type: ignore[attr-defined]


def addresses(f: Function, space: MemorySpace) -> list[int]:
    return [definition(f, v).args[1].value for v in allocs(f, space)]  # type: ignore[attr-defined]


# -- one product -------------------------------------------------------------------------------------------------------


@contract("B023", "B099", "B215", "B217", "B241")
@pytest.mark.parametrize("planner", PLANNERS)
def test_from_global_memory_and_back(planner):
    f = lowered(ONCE, planner)
    assert [n for n in operations(f) if n != "alloc"] == ["load", "load", "copy", "copy", "matmul", "store"]
    for c in (n for n in walk(f.body) if isinstance(n, Call)):
        assert isinstance(c.type, BufferType if c.op.name == "buffer.alloc" else VoidType)
    assert [len(allocs(f, s)) for s in (Mat, Left, Right, Acc)] == [2, 1, 1, 1]
    assert {len(c.args) for c in calls(f, "alloc")} == {1 if planner is PTOAS else 2}
    if planner is not PTOAS:
        assert [addresses(f, s) for s in (Mat, Left, Right, Acc)] == [[0, 8192], [0], [0], [0]]
    (x, y), (left, right) = allocs(f, Mat), (*allocs(f, Left), *allocs(f, Right))
    assert [c.args for c in calls(f, "copy")] == [(x, left), (y, right)]
    (mm,), (acc,) = calls(f, "matmul"), allocs(f, Acc)
    assert mm.args == (left, right, acc)


@contract("B214")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_types_say_how_matrices_are_stored(dtype, planner):
    f = lowered(ONCE, planner, params(dtype=dtype))
    for v in handles(f):
        t = v.type
        want = {
            Mat: (dtype, COL, ROW, 512),
            Left: (dtype, COL, ROW, 512),
            Right: (dtype, ROW, COL, 512),
            Acc: (SUM[dtype], COL, ROW, 1024),
        }[t.memory_space]
        assert (t.dtype, t.blayout, t.slayout, t.fractal) == want
        assert t.physical_shape == t.valid_shape == (64, 64)
        assert t.compact is CompactMode.null
    assert "subview" not in operations(f)
    ragged = lowered("o[:] = pl.matmul(a, b, out_dtype=pl.FP32)", planner, params(m=40))
    (acc,) = allocs(ragged, Acc)
    assert (acc.type.physical_shape, acc.type.valid_shape) == ((48, 64), (40, 64))  # type: ignore[attr-defined]


@contract("B100", "B243")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_what_products_are_added_up_in(dtype, planner):
    f = lowered(MOVES + "c = pl.matmul(l, r)\nc = pl.matmul_acc(c, l, r)" + STORE, planner, params(dtype=dtype))
    assert [operations(f).count(n) for n in ("matmul", "matmul_acc")] == [1, 1]
    (acc,) = allocs(f, Acc)
    assert acc.type.dtype is SUM[dtype]  # type: ignore[attr-defined]
    (a, b), o = result(MOVES + "c = pl.matmul(l, r)\nc = pl.matmul_acc(c, l, r)" + STORE, params(dtype=dtype), planner)
    np.testing.assert_array_equal(o, 2 * product(a, b))


@contract("B099", "B217", "B241", "B243")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_products_made_of_pieces(dtype, planner):
    given = params(40, 1024, 80, dtype)
    f = lowered(f"o[:] = pl.matmul(a, b, out_dtype=pl.{SUM[dtype].name})", planner, given)
    found = operations(f)
    assert found.count("extract") >= 4
    assert "copy" not in found
    assert {"matmul", "matmul_acc"} <= set(found)
    assert not {v.type.memory_space for v in handles(f)} - {Mat, Left, Right, Acc}
    for c in calls(f, "extract"):
        assert (c.args[0].type.memory_space, c.args[3].type.memory_space) in ((Mat, Left), (Mat, Right))  # type: ignore[attr-defined]
    # One accumulator, whichever branch or iteration adds to it.
    assert len({t.args[2] for t in (*calls(f, "matmul"), *calls(f, "matmul_acc"))}) == 1


@contract("B241", "B243")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("body", [ONCE, "o[:] = pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True)"])
def test_the_input_stays_and_the_output_is_kept(body, planner):
    p = through(scope(body, params()), "materialize_valid_shape_symbols", planner)
    before = serialize(p)
    made = lower_tile_to_buffer.run(p, PassOptions(memory_planner=planner))
    assert serialize(p) == before
    assert kernel_of(p).ir_stage is FunctionIRStage.Functional
    assert lower_tile_to_buffer.run(made, PassOptions(memory_planner=planner)) is made
    again = deserialize(serialize(made))
    assert compare(made, again, auto_map=True) is None
    assert {len(c.args) for c in calls(kernel_of(again), "alloc")} == {1 if planner is PTOAS else 2}
    sound(again, scope(body, params()))  # type: ignore[arg-type]


@contract("B160")
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_result_carries_no_tables(planner):
    p = through(scope(ONCE, params()), "materialize_valid_shape_symbols", planner)
    f, made = kernel_of(p), kernel_of(lower_tile_to_buffer.run(p, PassOptions(memory_planner=planner)))
    assert dict(made.attrs) == dict(f.attrs)
    assert all(not n.attrs for n in walk(made.body) if isinstance(n, Call))


# -- transposed operands -----------------------------------------------------------------------------------------------


TURNED = "o[:] = pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True)"


@contract("B216", "B221", "B243")
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_transposed_operand_is_another_reading(planner):
    given = params(k=32, b="[64, 32]")
    f = lowered(TURNED, planner, given)
    assert operations(f).count("reshape") == (1 if planner is PTOAS else 0)
    assert [n for n in operations(f) if n not in ("alloc", "reshape")] == ["load", "load", "copy", "copy", "matmul", "store"]
    of_b = calls(f, "load")[1].args[3]
    read = calls(f, "copy")[1].args[0]
    assert (of_b.type.physical_shape, of_b.type.blayout, of_b.type.slayout) == ((64, 32), COL, ROW)  # type: ignore[attr-defined]
    assert (read.type.physical_shape, read.type.blayout, read.type.slayout) == ((32, 64), ROW, COL)  # type: ignore[attr-defined]
    if planner is PTOAS:
        assert len(allocs(f, Mat)) == 2
        assert definition(f, read).args == (of_b,)
    else:
        assert len(allocs(f, Mat)) == 3
        assert len(set(addresses(f, Mat))) == 2
        assert definition(f, read).args[1].value == definition(f, of_b).args[1].value  # type: ignore[attr-defined]


@contract("B105")
@pytest.mark.parametrize("dtype", [D.FP16, D.FP32, D.INT8])
@pytest.mark.parametrize("planner", PLANNERS)
def test_relabels_show_the_boxes_that_are_there(planner, dtype):
    """Two descriptors of one address: only the real addresses of boxes make the second show what the first wrote."""
    made = SUM[dtype].name
    (a, b), o = result(
        f"o[:] = pl.matmul(a, b, out_dtype=pl.{made}, b_trans=True)", params(k=32, b="[64, 32]", dtype=dtype), planner
    )
    np.testing.assert_array_equal(o, product(a, b.T))
    (a, b), o = result(
        f"o[:] = pl.matmul(a, b, out_dtype=pl.{made}, a_trans=True)", params(k=32, a="[32, 64]", dtype=dtype), planner
    )
    np.testing.assert_array_equal(o, product(a.T, b))


# -- accumulators ------------------------------------------------------------------------------------------------------


@contract("B101", "B219", "B243")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("dtype", [D.FP16, D.INT8])
@pytest.mark.parametrize(("init", "first"), [("True", "matmul"), ("False", "matmul_acc"), ("n > 1", "if")])
def test_how_sums_begin(init, first, dtype, planner):
    text = MOVES + f"c = pl.matmul(l, r)\nc = pl.matmul_acc(c, l, r, init_cond={init})" + STORE
    given = params(dtype=dtype)
    f = lowered(text, planner, given, trips=(0, 2))
    branches = [s for s in statements(f.body) if isinstance(s, IfStmt)]
    assert operations(f).count("matmul") == 1 + (first != "matmul_acc")
    assert operations(f).count("matmul_acc") == (first != "matmul")
    assert len(branches) == (first == "if")
    for s in branches:
        assert not s.return_vars
        arms = [flatten_to_stmts(b)[0] for b in (s.then_body, s.else_body)]
        assert all(isinstance(x, EvalStmt) for x in arms)
        new, more = (x.expr for x in arms if isinstance(x, EvalStmt))
        assert (new.op.name, more.op.name) == ("buffer.matmul", "buffer.matmul_acc")  # type: ignore[attr-defined]
        assert new.args == more.args  # type: ignore[attr-defined]
    assert len(allocs(f, Acc)) == 1
    for trips, times in ((0, 1 if init == "True" else 2), (2, 2 if init == "False" else 1)):
        (a, b), o = result(text, given, planner, trips)
        np.testing.assert_array_equal(o, times * product(a, b))


K_LOOP = create() + textwrap.dedent("""
    for k in pl.range(4):
        x = pl.load(a, [0, k * 32], [64, 32], target_memory=pl.Mem.Mat)
        y = pl.load(b, [k * 32, 0], [32, 64], target_memory=pl.Mem.Mat)
        c = pl.matmul_acc(c, x, y, init_cond=(k == 0))
    """)


@contract("B101", "B103", "B218", "B219")
@pytest.mark.parametrize("planner", PLANNERS)
def test_sums_that_a_loop_carries_stay_in_place(planner):
    f = lowered(K_LOOP + STORE, planner, params(k=128))
    (loop,) = (s for s in statements(f.body) if isinstance(s, ForStmt))
    assert not loop.iter_args
    (acc,) = allocs(f, Acc)
    assert {c.args[2] for c in (*calls(f, "matmul"), *calls(f, "matmul_acc"))} == {acc}
    assert calls(f, "store")[0].args[0] is acc
    assert not any(v is acc for v in defined_vars(loop))  # declared in front of the loop that carries it


@contract("B103")
@pytest.mark.parametrize("planner", PLANNERS)
def test_sums_that_branches_begin_and_continue_are_in_one_place(planner):
    text = """
        c = pl.create_tensor([64, 64], dtype=pl.FP32)
        for k in pl.range(0, 128, 32):
            if k == 0:
                c = pl.matmul(a[:, k : k + 32], b[k : k + 32, :], out_dtype=pl.FP32)
            else:
                c = pl.matmul_acc(c, a[:, k : k + 32], b[k : k + 32, :])
        o[:] = c
        """
    f = lowered(text, planner, params(k=128))
    assert len({c.args[2] for c in (*calls(f, "matmul"), *calls(f, "matmul_acc"))}) == 1
    assert {c.args[0].type.memory_space for c in calls(f, "copy")} == {Mat}  # type: ignore[attr-defined]


WIDER = LOADS + textwrap.dedent("""
    c = pl.matmul(x, y)
    z = pl.load(b, [0, 0], [64, 64], valid_shape=[64, {cols}], target_memory=pl.Mem.Mat)
    c = pl.matmul_acc(c, x, z)
    pl.store(c, [0, 0], o)
    """)


@contract("B102", "B105", "B220")
@pytest.mark.parametrize("planner", PLANNERS)
def test_an_accumulator_that_is_valid_in_more_than_the_product(planner):
    f = lowered(WIDER.format(cols=32), planner)
    (whole,), (beside,) = calls(f, "matmul"), calls(f, "matmul_acc")
    acc, narrow = whole.args[2], beside.args[2]
    assert calls(f, "store")[0].args[0] is acc
    assert [(v.type.physical_shape, v.type.valid_shape) for v in (acc, narrow)] == [  # type: ignore[attr-defined]
        ((64, 64), (64, 64)),
        ((64, 64), (64, 32)),
    ]
    if planner is PTOAS:
        assert allocs(f, Acc) == [acc]
        assert definition(f, narrow).op.name == "buffer.reshape"
        assert definition(f, narrow).args == (acc,)
    else:
        assert allocs(f, Acc) == [acc, narrow]
        assert len(set(addresses(f, Acc))) == 1
    (a, b), o = result(WIDER.format(cols=32), planner=planner)
    want = product(a, b)
    want[:, :32] *= 2
    np.testing.assert_array_equal(o, want)


@contract("B106")
@pytest.mark.parametrize("planner", PLANNERS)
def test_only_whole_boxes_beside_a_product_keep_what_they_held(planner):
    """24 columns end in the middle of a box: what else is in it is anybody's guess, and the columns behind it are not."""
    assert reason(WIDER.format(cols=24)) == "a product covers boxes of its accumulator in part"
    p = scope(WIDER.format(cols=24), params())
    planned_ = through(p, "materialize_valid_shape_symbols", planner, buffers=False)
    made = lower_tile_to_buffer.run(planned_, PassOptions(memory_planner=planner))
    assert check_buffer_function(kernel_of(made)) == []
    args = arguments(p)
    interpret(made, args, "main")
    a, b, _, o = args
    want = product(a, b)  # type: ignore[arg-type]
    np.testing.assert_array_equal(o[:, :24], 2 * want[:, :24])  # type: ignore[index]
    assert np.isnan(o[:, 24:32]).all()  # type: ignore[index]
    np.testing.assert_array_equal(o[:, 32:], want[:, 32:])  # type: ignore[index]


@pytest.mark.parametrize(("rows", "kept"), [(32, 32), (24, 32), (64, 64)])
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_product_of_fewer_rows_than_its_accumulator_is_not_chosen(planner, rows, kept):
    """The matrix unit puts its rows closer together than the accumulator's lie: no text says so, though buffers can."""
    text = WIDER.replace("z = pl.load(b", "z = pl.load(a").replace("[64, {cols}]", "[{rows}, 64]").replace("x, z)", "z, y)")
    few = None if rows == 64 else f"a product of {rows} rows is written into an accumulator of 64"
    assert reason(text.format(rows=rows), options=PassOptions(planner)) == few
    p = scope(text.format(rows=rows), params())
    planned_ = through(p, "materialize_valid_shape_symbols", planner, buffers=False)
    made = lower_tile_to_buffer.run(planned_, PassOptions(memory_planner=planner))
    args = arguments(p)
    interpret(made, args, "main")
    a, b, _, o = args
    want = product(a, b)  # type: ignore[arg-type]
    np.testing.assert_array_equal(o[:rows], 2 * want[:rows])  # type: ignore[index]
    np.testing.assert_array_equal(o[kept:], want[kept:])  # type: ignore[index]
    if few:
        with pytest.raises(NotSupportedError, match="lies in Acc otherwise than a tile of 64 rows"):
            PTOCodegen().generate(made, arch="a2a3", emit_tile_addr=planner is not PTOAS)


@contract("B101", "B102", "B219", "B220")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(("init", "added"), [("True", False), ("n > 1", False), ("n < 1", True)])
def test_sums_that_start_afresh_leave_what_lies_beside_the_product(planner, init, added):
    text = WIDER.format(cols=32).replace("(c, x, z)", f"(c, x, z, init_cond={init})")
    f = lowered(text, planner)
    whole, narrow = calls(f, "matmul")
    assert [c.args[2] for c in calls(f, "matmul_acc")] == [narrow.args[2]] * (init != "True")
    assert [c.args[2].type.valid_shape for c in (whole, narrow)] == [(64, 64), (64, 32)]  # type: ignore[attr-defined]
    (a, b), o = result(text, planner=planner)
    want = product(a, b)
    want[:, :32] *= 1 + added
    np.testing.assert_array_equal(o, want)


@contract("B161", "B162")
def test_sums_of_one_region_are_declared_at_their_first_use():
    text = "for k in pl.range(4):\n    x = pl.load(a, [k * 16, 0], [16, 64], target_memory=pl.Mem.Mat)\n" + (
        "    y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\n    pl.store(pl.matmul(x, y), [k * 16, 0], o)"
    )
    for planner in PLANNERS:
        f = lowered(text, planner)
        (loop,) = (s for s in statements(f.body) if isinstance(s, ForStmt))
        inside = [s for s in flatten_to_stmts(loop.body) if not isinstance(s, EvalStmt)]
        assert [s.var.type.memory_space for s in inside] == ([Acc] if planner is PTOAS else [])  # type: ignore[attr-defined]
    f = lowered(K_LOOP + STORE, PTOAS, params(k=128))
    assert [type(s).__name__ for s in flatten_to_stmts(f.body)].index("ForStmt") >= len(calls(f, "alloc"))


# -- stores ------------------------------------------------------------------------------------------------------------


def store(source: D, target: D) -> Call:
    acc = Var("c", BufferType((16, 16), source, Acc, None, COL, ROW, 1024))
    gm = Var("o", TensorType((16, 16), target))
    at, extents = (MakeTuple(const_index(n) for n in (v, v)) for v in (0, 16))
    return ops.get("buffer.store").call((acc, at, extents, gm), None, Span.unknown())


@contract("B222")
@pytest.mark.parametrize("dtype", [D.FP16, D.BF16])
@pytest.mark.parametrize("planner", PLANNERS)
def test_sums_leave_in_the_type_of_the_tensor(dtype, planner):
    given = params(dtype=dtype, result=dtype)
    f = lowered("o[:] = pl.matmul(a, b)", planner, given)
    (s,) = calls(f, "store")
    assert (s.args[0].type.dtype, s.args[3].type.dtype) == (D.FP32, dtype)  # type: ignore[attr-defined]
    (a, b), o = result("o[:] = pl.matmul(a, b)", given, planner)
    np.testing.assert_array_equal(o, product(a, b).astype(np.float32).astype(dtype.numpy()))


@contract("B222")
def test_sums_that_would_need_a_scale_are_refused():
    for source, target in ((D.FP32, D.FP32), (D.FP32, D.FP16), (D.FP32, D.BF16), (D.INT32, D.INT32)):
        assert isinstance(store(source, target).type, VoidType)
    for source, target in ((D.INT32, D.FP16), (D.INT32, D.FP32), (D.FP32, D.INT32), (D.FP32, D.INT8)):
        with pytest.raises(OpRejected, match=f"cannot convert {source} to {target} without a scale"):
            store(source, target)


# -- what stays --------------------------------------------------------------------------------------------------------


CARRIED = LOADS + textwrap.dedent("""
    for k in pl.range(n):
        z = x
        x = y
        y = z
    c = pl.matmul(x, y)
    pl.store(c, [0, 0], o)
    """)
KEPT = MOVES + "c = pl.matmul(l, r)\nd = pl.matmul_acc(c, l, r)\npl.store(d, [0, 0], o)" + STORE


@contract("B103", "B104")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("body", [CARRIED, KEPT])
def test_matrices_that_would_have_to_be_copied(body, planner):
    options = PassOptions(memory_planner=planner)
    found = reason(body, options=options)
    assert found is not None
    assert "copy within matrix memory" in found
    p = scope(body, params())
    low = lower(p, options)
    assert kernel_of(low.device).ir_stage is FunctionIRStage.Functional
    how = Placement.PRIVATE if planner is PTOAS else Placement.ADDRESSED
    args = arguments(p)
    assert executed(low.host, args, how) == executed(p, args, Placement.VALUES)
    f = kernel_of(through(p, "init_mem_ref", planner))
    chosen = Program([f.replace(attrs=f.attrs.with_(buffer_ir_selected=True))])
    with pytest.raises(CompileError, match="would be a move within"):
        materialize_semantic_aliases.run(chosen, options)


@contract("B104")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (LOADS + "v = pl.load(a, [0, 0], [1, 64], target_memory=pl.Mem.Mat)\nc = pl.gemv(v, y)", "whole boxes"),
        (
            "v = pl.load(a, [0, 0], [16, 64], valid_shape=[1, 64], target_memory=pl.Mem.Mat)\n"
            "y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\nc = pl.gemv(v, y)",
            "tile.gemv has no buffer form",
        ),
        (LOADS + "c = pl.add(pl.matmul(x, y), 1.0)", "a move between memories"),
        (LOADS + "c = pl.matmul(x, y)\npl.store(c, [0, 0], o, atomic=pl.AtomicType.Add)", "a policy"),
        (
            "m = pl.MemRef(slots=2)\nx: pl.Tile[[64, 64], pl.FP16, m[0], pl.Mem.Mat] = "
            "pl.load(a, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\n"
            "y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\nc = pl.matmul(x, y)",
            "is made of slots",
        ),
        (
            "x = pl.load(a, [0, 0], [64, 64], valid_shape=[n, 64], target_memory=pl.Mem.Mat)\n"
            "y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\nc = pl.matmul(x, y)",
            "run-time extents",
        ),
    ],
)
def test_forms_that_do_not_qualify(body, words):
    found = reason(body + STORE)
    assert found is not None
    assert words in found
    assert kernel_of(lower(scope(body + STORE, params()), PassOptions()).device).ir_stage is FunctionIRStage.Functional


@contract("B107")
def test_no_matrix_kernel_of_the_other_generation_is_chosen():
    found = reason(ONCE, options=PassOptions(platform="a5sim"))
    assert found is not None
    assert found.endswith("kernels stay at tile stage")


# -- planned kernels as text -------------------------------------------------------------------------------------------


def placed(base: str, space: str, at: int = 0, dtype: str = "FP16", shape: str = "[64, 64]", view: str = "") -> str:
    dims = [int(n) for n in shape.strip("[]").split(",")]
    size = dims[0] * dims[1] * (4 if dtype == "FP32" else 2)
    more = f", pl.TileView({view})" if view else ""
    return f"pl.Tile[{shape}, pl.{dtype}, pl.MemRef({base}, {at}, {size}), pl.Mem.{space}{more}]"


OPERANDS = (
    alloc("m", 8192, "Mat")
    + alloc("q", 8192, "Left")
    + alloc("w", 8192, "Right")
    + f"x: {placed('m', 'Mat')} = pl.tile.load(a, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Mat)\n"
    + f"l: {placed('q', 'Left')} = pl.tile.move(x, target_memory=pl.Mem.Left)\n"
    + f"r: {placed('w', 'Right')} = pl.tile.move(x, target_memory=pl.Mem.Right)\n"
)
SUMS = placed("u", "Acc", dtype="FP32")


@contract("B218")
@pytest.mark.parametrize("planner", PLANNERS)
def test_sums_that_go_on_elsewhere_are_refused(planner):
    text = OPERANDS + alloc("u", 16384, "Acc") + f"c: {SUMS} = pl.tile.matmul(l, r)\n"
    made = planned(text + f"d: {SUMS} = pl.tile.matmul_acc(c, l, r)\n", params(), planner)
    assert operations(made)[-2:] == ["matmul", "matmul_acc"]
    (acc,) = allocs(made, Acc)
    assert all(c.args[2] is acc for c in (*calls(made, "matmul"), *calls(made, "matmul_acc")))
    elsewhere = placed("v", "Acc", 16384 if planner is not PTOAS else 0, "FP32")
    with pytest.raises(CompileError, match="must accumulate in place"):
        planned(text + alloc("v", 16384, "Acc") + f"d: {elsewhere} = pl.tile.matmul_acc(c, l, r)\n", params(), planner)


@contract("B215", "B216")
def test_a_second_window_of_a_matrix_allocation():
    """Windows have addresses of their own; without addresses an allocation has one window."""
    second = placed("m", "Mat", 4096, shape="[32, 64]")
    text = (
        alloc("m", 8192, "Mat")
        + f"x: {placed('m', 'Mat')} = pl.tile.load(a, [0, 0], [64, 64], [64, 64], target_memory=pl.Mem.Mat)\n"
        + f"y: {second} = pl.tile.load(a, [0, 0], [32, 64], [32, 64], target_memory=pl.Mem.Mat)\n"
    )
    for planner in ADDRESSED:
        made = planned(text, params(), planner)
        assert addresses(made, Mat) == [0, 4096]
        assert operations(made) == ["alloc", "alloc", "load", "load"]
    with pytest.raises(CompileError, match="an addressless Mat allocation can hold only one window"):
        planned(text, params(), PTOAS)


@contract("B198")
def test_assembling_sums_in_another_memory_is_refused():
    text = (
        OPERANDS
        + alloc("u", 16384, "Acc")
        + f"c: {SUMS} = pl.tile.matmul(l, r)\n"
        + alloc("v", 16384, "Mat")
        + f"f: {placed('v', 'Mat', 8192, 'FP32')} = pl.tile.create([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Mat)\n"
        + f"d: {placed('v', 'Mat', 8192, 'FP32')} = pl.tile.assemble(f, c, [0, 0])\n"
    )
    with pytest.raises(CompileError, match="assemble across memory spaces"):
        planned(text, params())


@pytest.mark.parametrize("planner", PLANNERS)
def test_extents_known_at_run_time_are_refused(planner):
    text = LOADS.replace("[64, 64], target", "[64, 64], valid_shape=[n, 64], target", 1) + "c = pl.matmul(x, y)" + STORE
    p = through(scope(text, params()), "materialize_valid_shape_symbols", planner, buffers=False)
    with pytest.raises(CompileError, match="a matrix with run-time valid extents has no buffer form"):
        lower_tile_to_buffer.run(p, PassOptions(memory_planner=planner))


def test_products_without_a_recipe_are_refused_by_name():
    text = "v = pl.load(a, [0, 0], [16, 64], valid_shape=[1, 64], target_memory=pl.Mem.Mat)\n" + (
        "y = pl.load(b, [0, 0], [64, 64], target_memory=pl.Mem.Mat)\nc = pl.gemv(v, y)" + STORE
    )
    p = through(scope(text, params()), "allocate_memory_addr", buffers=False)
    with pytest.raises(CompileError, match=r"no conversion recipe for 'tile.gemv'"):
        lower_tile_to_buffer.run(p, PassOptions())


# -- the operators and the judge ---------------------------------------------------------------------------------------


def buffer(space: MemorySpace, shape: tuple[int, ...], dtype: D = D.FP16, valid: tuple[int, ...] | None = None) -> Var:
    outer, inner = (ROW, COL) if space is Right else (COL, ROW)
    return Var(space.name.lower(), BufferType(shape, dtype, space, valid, outer, inner, 1024 if space is Acc else 512))


L64, R64, A64 = buffer(Left, (64, 64)), buffer(Right, (64, 64)), buffer(Acc, (64, 64), D.FP32)


@pytest.mark.parametrize(
    ("name", "operands", "words"),
    [
        ("matmul", (R64, R64, A64), "rank-2 Left buffer"),
        ("matmul", (L64, L64, A64), "rank-2 Right buffer"),
        ("matmul", (L64, R64, L64), "rank-2 Acc buffer"),
        ("matmul", (buffer(Left, (2, 64, 64)), R64, A64), "rank-2 Left buffer"),
        ("matmul", (L64, buffer(Right, (32, 64)), A64), r"\[M, K\] x \[K, N\]"),
        ("matmul", (L64, R64, buffer(Acc, (64, 32), D.FP32)), r"\[M, K\] x \[K, N\]"),
        ("matmul", (L64, buffer(Right, (64, 64), D.BF16), A64), "identical lhs and rhs"),
        ("matmul", (L64, R64, buffer(Acc, (64, 64), D.INT32)), "fp32 accumulator"),
        ("matmul", (buffer(Left, (64, 64), D.INT32), buffer(Right, (64, 64), D.INT32), A64), "does not support int32 Left"),
        ("matmul", (L64, buffer(Right, (64, 64), valid=(32, 64)), A64), "rhs is valid in 32 rows, lhs in 64"),
        ("matmul", (L64, buffer(Right, (64, 64), valid=(64, 24)), A64), "must equal the product valid extent 24"),
        ("matmul", (buffer(Left, (64, 64), valid=(-1, 64)), R64, A64), "must equal the product valid extent of run time"),
        ("matmul_acc", (L64, R64, buffer(Acc, (64, 64), D.FP32, (24, 64))), "must contain the product valid extent 64"),
        (
            "matmul_acc",
            (buffer(Left, (64, 64), valid=(-1, 64)), R64, buffer(Acc, (64, 64), D.FP32, (24, 64))),
            "must contain the product valid extent of run time",
        ),
    ],
)
def test_products_of_buffers_that_do_not_fit(name: str, operands: tuple[Expr, ...], words: str) -> None:
    with pytest.raises(OpRejected, match=words):
        ops.get(f"buffer.{name}").call(operands, None, Span.unknown())


def test_products_of_buffers_that_fit():
    for name in ("matmul", "matmul_acc"):
        op = ops.get(f"buffer.{name}")
        assert isinstance(op.call((L64, R64, A64), None, Span.unknown()).type, VoidType)
    narrow = buffer(Left, (64, 64), valid=(24, 64))
    ops.get("buffer.matmul_acc").call((narrow, R64, A64), None, Span.unknown())
    ops.get("buffer.matmul").call((narrow, R64, buffer(Acc, (64, 64), D.FP32, (24, 64))), None, Span.unknown())
    bytes_ = (buffer(Left, (64, 64), D.INT8), buffer(Right, (64, 64), D.INT8), buffer(Acc, (64, 64), D.INT32))
    ops.get("buffer.matmul").call(bytes_, None, Span.unknown())


def test_matrix_storage_is_whole_boxes():
    p = raw_kernel(
        alloc("m", 4864, "Mat")
        + "x: pl.Tile[[38, 64], pl.FP16, pl.MemRef(m, 0, 4864), pl.Mem.Mat] = "
        + "pl.tile.load(a, [0, 0], [38, 64], [38, 64], target_memory=pl.Mem.Mat)\n",
        params(),
    )
    with pytest.raises(Exception, match=r"matrix storage must be whole boxes of 16 x 16, got \[38, 64\]"):
        lower_tile_to_buffer.run(p, PassOptions())
