"""Single reasons for which a kernel is, or is not, chosen for buffers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from back_lab import applied, call_of, kernel_of, named, raw_kernel, scope, through
from pass_lab import program
from test_select_buffer_ir_functions import LOADS, STORE, reason

from pypto.dtypes import DataType
from pypto.enums import TensorLayout
from pypto.errors import CompileError, InvalidOperationError
from pypto.ir import ops
from pypto.ir.expr import Call, Var, const_index
from pypto.ir.program import Function
from pypto.ir.rewrite import Mutator, walk
from pypto.ir.shaped import TensorView, TileType
from pypto.ir.stmt import AssignStmt, ForStmt, IfStmt, ReturnStmt, Stmt, seq
from pypto.ir.types import ScalarType
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower
from pypto.passes.select_buffer_ir_functions import why_not_selected
from pypto.passes.statements import statements

contract = pytest.mark.contract
DYNAMIC = "a = pl.load(x, [0, 0], [16, 64], valid_shape=[n, 64])\n"
UNSIGNED = "k = pl.cast(n, pl.UINT32) + pl.cast(m, pl.UINT32)\nr = pl.muls(t, pl.cast(k, pl.FP32))"
EITHER = "if n > 0:\n    p = o\nelse:\n    p = q\npl.store(t, [0, 0], p)\nr = u"
NESTED = "r = pl.adds(pl.slice(pl.slice({}, [8, 64], [0, 0]), [4, 64], [{}, 0]), 1.0)"
SWAPS = "k = pl.const(0, pl.INDEX)\nwhile k < n:\n    k = k + 1\n    t, u = u, t\nr = t"
CONTROLLED = """
a = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 33])
for i in pl.range(n):
    a = pl.add(a, a)
if m > 1:
    b = pl.set_validshape(pl.mul(a, a), 5, 20)
else:
    b = pl.set_validshape(a, 5, 20)
r = b
"""
READ_AS = "v = pl.reinterpret_view({}, pl.INT32)\nr = pl.reinterpret_view(pl.add(v, v), pl.FP32)"
Q = ", q: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("a = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 64])\nr = pl.maximum(a, t)", "", marks=contract("B031")),
        pytest.param(UNSIGNED, "unsigned scalars", marks=contract("B064")),
        pytest.param(EITHER, "chooses a tensor", marks=contract("B057", "B062")),
        pytest.param("for i in pl.range(n):\n    o = q\nr = u", "changing tensor", marks=contract("B058")),
        pytest.param("k = n\nwhile k > 0:\n    k = k - 1\n    o = q\nr = u", "changing tensor", marks=contract("B058", "B062")),
        pytest.param("pl.set_validshape(t, 16, n)\nr = u", "is not used", marks=contract("B123")),
        pytest.param(DYNAMIC + "r = pl.assemble(t, a, [0, 0])", "run-time extents", marks=contract("B131")),
        pytest.param(DYNAMIC + NESTED.format("a", 0), "window of a window", marks=contract("B132")),
    ],
)  # fmt: skip
def test_what_keeps_a_kernel_at_tile_stage(body: str, words: str) -> None:
    why = reason(LOADS + body + "\n" + STORE, more=Q)
    assert why is not None
    assert words in why


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(UNSIGNED.replace("UINT", "INT"), marks=contract("B064")),
        pytest.param("i = pl.get_block_idx()\nr = pl.load(x, [i, 0], [16, 64])", marks=contract("B068")),
        pytest.param("r = pl.adds(pl.slice(pl.slice(t, [8, 32], [0, 8]), [4, 16], [n, 8]), 1.0)", marks=contract("B071")),
        pytest.param("r = pl.adds(pl.reshape(pl.slice(t, [1, 32], [4, 0]), [2, 16]), 1.0)", marks=contract("B074")),
        pytest.param("r = pl.adds(pl.slice(t, [16, 8], [0, n * 8]), 1.0)", marks=contract("B088", "B089")),
        pytest.param(SWAPS, marks=contract("B054", "B055")),
        pytest.param("k = n\nwhile k > 0:\n    k = k - 1\n    pl.store(t, [0, 0], o)\nr = u", marks=contract("B056", "B058")),
        pytest.param("r = pl.adds(pl.slice(t, [4, 64], [n, 0]), 1.0)", marks=contract("B087")),
        pytest.param("r = pl.assemble(t, pl.slice(u, [4, 64], [0, 0]), [n, 0])", marks=contract("B087")),
        pytest.param(CONTROLLED, marks=contract("B133")),
        pytest.param("r = pl.div(t, u, high_precision=True)", marks=contract("B050")),
        pytest.param(READ_AS.format("t"), marks=contract("B073")),
        pytest.param(READ_AS.format("pl.slice(t, [4, 64], [4, 0])"), marks=contract("B073")),
        pytest.param(READ_AS.format("pl.slice(t, [1, 32], [4, 0])"), marks=contract("B073", "B074")),
        pytest.param("r = pl.adds(pl.reshape(t, [32, 32]), 1.0)", marks=contract("B072")),
        pytest.param("r = pl.adds(pl.reshape(pl.slice(t, [4, 64], [4, 0]), [8, 32]), 1.0)", marks=contract("B072")),
    ],
)  # fmt: skip
def test_what_is_chosen(body: str) -> None:
    assert reason(LOADS + body + "\n" + STORE) is None


@contract("B046")
def test_a_fill_of_bf16_is_not_chosen() -> None:
    why = reason("r = pl.tile.full([16, 64], dtype=pl.BF16, value=2.0)\n" + STORE, "BF16")
    assert why == "tile.full of bfloat16 has no buffer form"
    assert reason("r = pl.load(x, [0, 0], [16, 64])\n" + STORE, "BF16") is None


class Changed(Mutator):
    """A kernel in which some statement is another one."""

    def __init__(self, change: Callable[[Stmt], Stmt]) -> None:
        super().__init__()
        self.change = change

    def visit_for_stmt(self, s: ForStmt) -> Stmt:
        return self.change(self.rebuild(s))

    def visit_if_stmt(self, s: IfStmt) -> Stmt:
        return self.change(self.rebuild(s))

    def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
        return self.change(self.rebuild(s))


def placed(text: str, params: str) -> Function:
    return kernel_of(through(scope(text, params), "init_mem_ref"))


def after(f: Function, change: Callable[[Stmt], Stmt]) -> str | None:
    """Why the kernel with that change is not chosen; without it, it is."""
    assert why_not_selected(f, PassOptions()) is None
    return why_not_selected(f.replace(body=Changed(change).body(f.body)), PassOptions())


S = "pl.Tensor[[64, 64], pl.FP32]"
XYO = f"x: {S}, y: {S}, n: pl.Scalar[pl.INDEX], o: pl.Out[{S}]"


@contract("B030", "B031", "B032")
@pytest.mark.parametrize(
    ("shape", "valid"),
    [
        pytest.param("[16, 64]", "[16, 64]", marks=contract("B031")),
        pytest.param("[16, 32]", "[8, 32]", marks=contract("B030", "B032")),  # valid in the same, stored otherwise
        pytest.param("[8, 64]", "[8, 32]", marks=contract("B030", "B032")),
    ],
)
def test_operands_are_stored_and_valid_alike(shape: str, valid: str) -> None:
    text = "a = pl.load(x, [0, 0], [16, 64], valid_shape=[8, 32])\nb = pl.load(y, [0, 0], [16, 64], valid_shape=[8, 32])\n"
    text += f"d = pl.load(y, [0, 0], {shape}, valid_shape={valid})\npl.store(pl.maximum(a, b), [0, 0], o)\npl.store(d, [0, 0], o)"
    f = placed(text, XYO)
    b, d = named(f, "b"), named(f, "d")

    def of_d(s: Stmt) -> Stmt:
        c = s.value if isinstance(s, AssignStmt) else None
        if not isinstance(c, Call) or c.op.name != "tile.maximum":
            return s
        return s.replace(value=c.replace(args=(c.args[0], d)))

    assert call_of(f, "tile.maximum").args[1] is b
    assert "differ in shape or valid extents" in str(after(f, of_d))


@contract("B030", "B032")
def test_operands_that_are_stored_in_other_shapes_are_refused_before() -> None:
    text = "a = pl.load(x, [0, 0], [16, 64], valid_shape=[8, 32])\nb = pl.load(y, [0, 0], [8, 32])\n"
    text += "pl.store(pl.add(a, b), [0, 0], o)"
    with pytest.raises(InvalidOperationError, match="operands differ in shape"):
        placed(text, XYO)


@contract("B045")
@pytest.mark.parametrize("name", ["add", "mul"])
def test_bf16_is_moved_and_not_computed_with(name: str) -> None:
    assert reason("r = pl.load(x, [0, 0], [16, 64])\n" + STORE, "BF16") is None
    with pytest.raises(InvalidOperationError, match="does not take elements of dtype bfloat16"):
        reason(LOADS + f"r = pl.{name}(t, u)\n" + STORE, "BF16")
    assert DataType.BF16 not in ops.get(f"tile.{name}").buffer.dtypes  # type: ignore[union-attr]


@contract("B051", "B052", "B053")
@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        (lambda t: t, ()),
        (lambda t: t.replace(tensor_view=TensorView(stride=[const_index(128), const_index(1)])), ("B052", "B053")),
        (lambda t: t.replace(tensor_view=TensorView(valid_shape=[const_index(8), const_index(64)])), ("B052", "B053")),
        (lambda t: t.replace(tensor_view=TensorView(layout=TensorLayout.DN)), ("B052", "B053")),
        (lambda t: t.replace(shape=(const_index(32), const_index(128))), ("B051",)),
    ],
)
def test_a_returned_tensor_is_a_parameter_of_exactly_the_declared_type(change, numbers) -> None:
    text = "pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], o)"
    f = placed(text, XYO)
    o = next(p for p in f.params if p.name_hint == "o")
    returning = f.replace(body=seq([f.body, ReturnStmt((o,))]), return_types=(change(o.type),))
    why = why_not_selected(returning, PassOptions())
    assert (why is None) == (not numbers)
    assert why is None or "another view" in why


@contract("B051")
def test_a_returned_tensor_is_no_other_than_a_parameter() -> None:
    f = placed("pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], o)", XYO)
    other = Var("z", f.params[0].type)
    made = f.replace(body=seq([f.body, ReturnStmt((other,))]), return_types=(other.type,))
    assert "no alias of one parameter" in str(why_not_selected(made, PassOptions()))


LOOP = "t = pl.load(x, [0, 0], [16, 64])\nfor i in pl.range(n):\n    t = pl.add(t, t)\npl.store(t, [0, 0], o)"


@contract("B059")
def test_loops_count_in_index() -> None:
    def in_int32(s: Stmt) -> Stmt:
        return s.replace(loop_var=Var("i", ScalarType.of(DataType.INT32))) if isinstance(s, ForStmt) else s

    assert "does not count up" in str(after(placed(LOOP, XYO), in_int32))


@contract("B063")
@pytest.mark.parametrize("around", ["if n > 1:", "for i in pl.range(n):"])
def test_a_kernel_that_returns_early_stays(around: str) -> None:
    text = "t = pl.load(x, [0, 0], [16, 64])\n" + around + "\n    pl.store(t, [0, 0], o)\npl.store(t, [0, 0], o)"

    def returning(s: Stmt) -> Stmt:
        if isinstance(s, IfStmt):
            return s.replace(then_body=seq([s.then_body, ReturnStmt(())]))
        return s.replace(body=seq([s.body, ReturnStmt(())])) if isinstance(s, ForStmt) else s

    assert "ReturnStmt" in str(after(placed(text, XYO), returning))


HELPED = f"""
@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
    def h(self, x: {S}, o: pl.Out[{S}]) -> {S}:
        s = pl.store(pl.load(x, [0, 0], [16, 64]), [0, 0], o)
        return s

    @pl.function(type=pl.FunctionType.InCore)
    def k(self, x: {S}, o: pl.Out[{S}]) -> {S}:
        r = self.h(x, o)
        return r

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {S}, o: pl.Out[{S}]) -> {S}:
        r = self.k(x, o)
        return r
"""


@contract("B065", "B111")
def test_a_kernel_that_calls_a_device_function_stays() -> None:
    p = through(program(HELPED), "init_mem_ref")
    chosen = {f.name: why_not_selected(f, PassOptions()) for f in p.function_list if f.is_device}
    assert chosen == {"h": None, "k": "it calls 'h'"}


@contract("B111")
def test_kernels_with_slots_or_shared_resources_stay() -> None:
    f = placed(LOOP, XYO)

    class InSlots(Mutator):
        def visit_assign_stmt(self, s: AssignStmt) -> Stmt:
            t = s.var.type
            if not isinstance(t, TileType) or t.memref is None:
                return s
            return s.replace(var=Var(s.var.name_hint, t.at(t.memref.replace(slot_count_=2, slot_index_=const_index(1)))))

    assert "lies in a slot" in str(why_not_selected(f.replace(body=InSlots().body(f.body)), PassOptions()))
    for name in ("split", "split_aiv", "dual_aiv_dispatch"):
        assert why_not_selected(f.replace(attrs=f.attrs.with_(**{name: True})), PassOptions()) == "the kernel is split over lanes"
    whole = "for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    t = pl.load(x, [lane * 8, 0], [8, 64])\n    "
    assert (
        why_not_selected(placed(whole + "pl.store(t, [lane * 8, 0], o)", XYO), PassOptions()) == "the kernel is split over lanes"
    )


RELABELLED = """
m: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
t: pl.Tile[[16, 64], pl.FP32, pl.MemRef(m, 0, 4096), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
w: pl.Tile[[{rows}], pl.FP32, pl.MemRef(m, 0, 4096), pl.Mem.Vec] = pl.tile.slice(t, [{rows}], [0, 0])
r: pl.Tile[[{shape}], pl.{dtype}, pl.MemRef(m, 0, 4096), pl.Mem.Vec] = {view}
"""  # noqa: E501


@contract("B072", "B073")
@pytest.mark.parametrize("view", ["pl.tile.reshape(w, [{shape}])", "pl.tile.reinterpret_view(w, [{shape}], dtype=pl.INT32)"])
@pytest.mark.parametrize(
    ("rows", "shape", "dense"), [("8, 64", "16, 32", True), ("8, 32", "4, 64", False), ("1, 32", "2, 16", True)]
)
def test_rows_of_what_is_relabelled_have_no_gaps(view: str, rows: str, shape: str, dense: bool) -> None:
    dtype = "INT32" if "reinterpret" in view else "FP32"
    text = RELABELLED.format(rows=rows, shape=shape, dtype=dtype, view=view.format(shape=shape))
    p = raw_kernel(text, "x: pl.Tensor[[16, 64], pl.FP32]")
    assert why_not_selected(p.function_list[0], PassOptions()) == (None if dense else "a strided window is relabelled")


@contract("B072", "B073")
def test_what_is_relabelled_keeps_its_bytes() -> None:
    text = "r = pl.reshape(t, [32, 32])\npl.store(r, [0, 0], o)"
    f = placed("t = pl.load(x, [0, 0], [16, 64])\n" + text, XYO)
    half = Var("r", named(f, "r").type.replace(shape=(const_index(16), const_index(32))))
    whole = named(f, "r")

    def halved(s: Stmt) -> Stmt:
        return s.replace(var=half) if isinstance(s, AssignStmt) and s.var is whole else s

    assert "relabelled" in str(after(f, halved))


@contract("B094")
@pytest.mark.parametrize(("offset", "own"), [("[n, n]", True), ("[n, 4]", True), ("[n, 8]", False)])
def test_plain_slices_may_be_tiles_of_their_own_by_then(offset: str, own: bool) -> None:
    text = f"t = pl.load(x, [0, 0], [16, 64])\npl.store(pl.adds(pl.slice(t, [4, 32], {offset}), 1.0), [0, 0], o)"
    f = placed(text, XYO)
    assert applied(f)[1] == ("tile.extract" if own else "tile.slice")
    bases = {named(f, name).type.memref.base_ for name in ("t", "t__tmp_v0")}  # type: ignore[attr-defined]
    assert len(bases) == (2 if own else 1)
    with_extents = text.replace(f"{offset})", f"{offset}, valid_shape=[4, 8])")
    g = placed(with_extents, XYO)
    assert applied(g)[1] == "tile.slice"
    assert (why_not_selected(g, PassOptions()) is None) == (not own)


@contract("B087")
def test_windows_at_run_time_offsets_are_not_tested_on_the_device() -> None:
    text = "t = pl.load(x, [0, 0], [16, 64])\npl.store(pl.adds(pl.slice(t, [4, 64], [n, 0]), 1.0), [0, 0], o)"
    f = kernel_of(lower(scope(text, XYO), PassOptions()).device)
    found = [type(s).__name__ for s in statements(f.body)]
    assert set(found) == {"AssignStmt", "EvalStmt"}


@contract("B027")
def test_rows_that_are_no_whole_blocks_are_refused_before() -> None:
    with pytest.raises(CompileError, match="blocks of 32 bytes"):
        reason("r = pl.load(x, [0, 0], [16, 12])\n" + STORE)


@contract("B068", "B236")
def test_queries_become_queries_of_the_buffer_stage() -> None:
    t = "pl.Tensor[[64, 64], pl.FP32]"
    text = "i = pl.get_block_idx()\nr = pl.load(x, [i, 0], [16, 64])\npl.store(r, [0, 0], o)"
    f = kernel_of(lower(scope(text, f"x: {t}, o: pl.Out[{t}]"), PassOptions()).device)
    (query,) = [s for s in walk(f.body) if isinstance(s, AssignStmt) and isinstance(s.value, Call) and "block" in s.value.op.name]
    assert isinstance(query.value, Call)
    assert query.value.op.name.startswith("buffer.")
    assert isinstance(query.value.type, ScalarType)
    assert query.value.type.dtype.name == "INDEX"


@contract("B007")
def test_the_choice_is_not_made_again() -> None:
    t = "pl.Tensor[[64, 64], pl.FP32]"
    text = "r = pl.load(x, [0, 0], [16, 64])\nfor i in pl.range(3):\n    r = pl.add(r, r)\npl.store(r, [0, 0], o)"
    p = scope(text, f"x: {t}, o: pl.Out[{t}]")
    for last in ("select_buffer_ir_functions", "materialize_semantic_aliases", "memory_reuse", "allocate_memory_addr"):
        assert kernel_of(through(p, last)).attrs["buffer_ir_selected"] is True
