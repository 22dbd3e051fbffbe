"""Which kernels go to buffers."""

import pytest
from back_lab import kernel_of, scope, through

from pypto.enums import MemoryPlanner
from pypto.ir.rewrite import Mutator
from pypto.ir.stmt import ForStmt
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import default_pipeline
from pypto.passes.select_buffer_ir_functions import select_buffer_ir_functions, why_not_selected

PYPTO, PTOAS, DSA_RP = MemoryPlanner.PYPTO, MemoryPlanner.PTOAS, MemoryPlanner.DSA_RP
LOADS = "t = pl.load(x, [0, 0], [16, 64])\nu = pl.load(y, [0, 0], [16, 64])\n"
STORE = "pl.store(r, [0, 0], o)"


def reason(
    body: str, dtype: str = "FP32", planner: MemoryPlanner = PYPTO, platform: str = "a2a3sim", more: str = ""
) -> str | None:
    """Why a kernel over x, y, o and scalars n, m is not chosen; the pass says the same."""
    t = f"pl.Tensor[[64, 64], pl.{dtype}]"
    params = f"x: {t}, y: {t}, n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], o: pl.Out[{t}]{more}"
    p = through(scope(body, params), "init_mem_ref", planner)
    options = PassOptions(memory_planner=planner, platform=platform)
    why = why_not_selected(kernel_of(p), options)
    made = select_buffer_ir_functions.run(p, options)
    assert kernel_of(made).attrs["buffer_ir_selected"] == (why is None)
    assert select_buffer_ir_functions.run(made, options) is made
    return why


@pytest.mark.contract("B006", "B021", "B022", "B024", "B025", "B026")
@pytest.mark.parametrize("planner", [PYPTO, PTOAS, DSA_RP])
def test_ordinary_kernels_are_chosen_under_every_planner(planner):
    assert reason(LOADS + "r = pl.mul(pl.add(t, u), t)\n" + STORE, planner=planner) is None


@pytest.mark.contract("B108", "B115")
def test_one_reduction_keeps_the_whole_kernel_at_tile_stage():
    why = reason(LOADS + "r = pl.row_expand_add(pl.add(t, u), pl.row_max(t, u))\n" + STORE)
    assert why is not None


ELEMENTWISE = {
    "FP32": [
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "abs",
        "exp",
        "sqrt",
        "neg",
        "relu",
        "log",
        "recip",
        "adds",
        "subs",
        "muls",
        "divs",
        "maximums",
        "minimums",
        "lrelu",
    ],
    "FP16": ["add", "mul"],
    "INT32": ["add", "mul"],
}
UNARY = {"abs", "exp", "sqrt", "neg", "relu", "log", "recip"}


@pytest.mark.contract("B037", "B038", "B039", "B040", "B041")
@pytest.mark.parametrize("dtype", list(ELEMENTWISE))
@pytest.mark.parametrize("name", ELEMENTWISE["FP32"])
def test_element_types_of_operators(name, dtype):
    scalar = "2.0" if dtype.startswith("FP") else "2"
    if dtype == "INT32" and name in UNARY - {"neg", "relu"} | {"lrelu"}:
        pytest.skip("the operator does not take integers")
    second = "" if name in UNARY else f", {scalar}" if (name.endswith("s") and name != "abs") or name == "lrelu" else ", u"
    why = reason(LOADS + f"r = pl.{name}(t{second})\n" + STORE, dtype)
    assert (why is None) == (name in ELEMENTWISE[dtype])


@pytest.mark.contract("B033", "B034", "B035", "B036")
@pytest.mark.parametrize(("dtype", "chosen"), [("FP16", True), ("BF16", True), ("FP32", True), ("INT32", True), ("INT16", False)])
def test_transfers(dtype, chosen):
    assert (reason(f"r = pl.load(x, [0, 0], [16, 64])\n{STORE}", dtype) is None) == chosen


@pytest.mark.contract("B041", "B044")
def test_fills():
    assert reason("r = pl.tile.full([16, 64], dtype=pl.FP32, value=2.0)\n" + STORE) is None
    assert reason("r = pl.tile.full([16, 64], dtype=pl.FP16, value=2.0)\n" + STORE, "FP16") is not None


@pytest.mark.contract("B027", "B031", "B075", "B076", "B089", "B090", "B091", "B092", "B093", "B109", "B110", "B113")
@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        # windows: alignment is proved from scalar arithmetic and the rows of the whole
        ("r = pl.add(pl.slice(t, [8, 32], [4, 8]), pl.slice(u, [8, 32], [n, m * 8]))", True),
        ("r = pl.slice(pl.slice(t, [8, 32], [4, 8]), [4, 16], [n, 8])", True),
        ("r = pl.slice(t, [8, 32], [4, n], valid_shape=[4, 8])", False),
        ("r = pl.slice(t, [8, 32], [4, 8], valid_shape=[4, 8])", True),
        # relabels
        ("r = pl.adds(pl.reshape(t, [32, 32]), 1.0)", True),
        ("r = pl.adds(pl.reshape(pl.slice(t, [4, 64], [4, 0]), [8, 32]), 1.0)", True),
        ("r = pl.adds(pl.reshape(pl.slice(t, [4, 64], [n, 0]), [8, 32]), 1.0)", False),
        ("r = pl.slice(pl.reshape(pl.slice(t, [4, 64], [4, 0]), [8, 32]), [4, 32], [0, 0])", False),
        # assembles: equal pitches, a proved boundary, a target that is no window
        ("r = pl.assemble(t, pl.slice(u, [8, 32], [0, 0]), [n, 8])", True),
        ("r = pl.assemble(t, pl.load(y, [0, 0], [8, 32]), [n, 8])", False),
        ("r = pl.assemble(t, pl.slice(u, [8, 32], [0, 0]), [n, m])", False),
        ("r = pl.assemble(pl.slice(t, [8, 64], [0, 0]), pl.slice(u, [4, 64], [0, 0]), [0, 0])", False),
        # static partial rectangles, which must match
        ("a = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 33])\nr = pl.mul(a, a)", True),
        ("a = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 33])\nr = pl.mul(a, t)", False),
        # other operators, layouts and policies
        ("r = pl.cast(pl.cast(t, pl.FP16), pl.FP32)", False),
        ("r = pl.fillpad(t)", False),
        ("r = pl.write(t, [0, 0], 1.0)", False),
        ("r = pl.load(x, [0, 0], [16, 64], cache=1)", False),
        ("r = pl.load(x, [n, 0], [16, 64], clamp=True)", False),
        ("r = pl.adds(pl.load(x, [0, 0], [16, 1]), 1.0)", False),
    ],
)
def test_windows_relabels_and_assembles(body, chosen):
    why = reason(LOADS + body + "\n" + STORE)
    assert (why is None) == chosen, why


def test_atomic_stores_are_not_chosen():
    assert reason("r = pl.load(x, [0, 0], [16, 64])\npl.store(r, [0, 0], o, atomic=pl.AtomicType.Add)") is not None


@pytest.mark.contract("B054", "B056", "B061", "B109")
@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        ("for i in pl.range(n):\n    t = pl.add(t, u)", True),
        ("for i in pl.range(n):\n    t, u = u, t", True),
        ("for i in pl.range(0, n, 2):\n    t = pl.add(t, u)", True),
        ("for i in pl.range(8, 0, -1):\n    t = pl.add(t, u)", False),
        ("k = pl.const(0, pl.INDEX)\nwhile k < n:\n    k = k + 1\n    t = pl.add(t, u)", True),
        ("if n > 0:\n    t = pl.add(t, u)", True),
        ("for i in pl.range(4):\n    pl.store(t, [i * 16, 0], o)", True),
        ("if n > 0:\n    pl.store(t, [16, 0], o)\nelse:\n    pl.store(u, [32, 0], o)", True),
        ("w = pl.slice(t, [8, 64], [0, 0])\nfor i in pl.range(n):\n    w = pl.add(w, w)\nt = pl.assemble(t, w, [0, 0])", False),
    ],
)
def test_control_flow(body, chosen):
    why = reason(LOADS + body + "\nr = t\n" + STORE)
    assert (why is None) == chosen, why


@pytest.mark.contract("B060", "B061")
def test_steps_are_positive_constants():
    t = "pl.Tensor[[16, 64], pl.FP32]"
    body = "t = pl.load(x, [0, 0], [16, 64])\nfor i in pl.range(0, n, 2):\n    t = pl.adds(t, 1.0)\npl.store(t, [0, 0], o)"
    f = kernel_of(through(scope(body, f"x: {t}, n: pl.Scalar[pl.INDEX], o: pl.Out[{t}]"), "init_mem_ref"))

    class Stepped(Mutator):
        def visit_for_stmt(self, s: ForStmt) -> ForStmt:
            return s.replace(step=s.stop)

    assert why_not_selected(f, PassOptions()) is None
    assert "by a constant" in why_not_selected(f.replace(body=Stepped().body(f.body)), PassOptions())


@pytest.mark.contract("B029", "B120", "B121", "B122", "B124", "B125", "B126", "B127", "B128", "B129", "B130")
@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        ("a = pl.load(x, [0, 0], [16, 64], valid_shape=[16, n])\nr = pl.add(a, a)", True),
        (
            "a = pl.load(x, [0, 0], [16, 64], valid_shape=[16, n])\nb = pl.load(x, [0, 0], [16, 64], valid_shape=[16, m])\n"
            "r = pl.add(a, b)",
            False,
        ),
        ("r = pl.adds(pl.set_validshape(t, 16, n), 1.0)", True),
        ("a = pl.set_validshape(t, 16, n)\nr = pl.adds(a, 1.0)\npl.store(t, [16, 0], o)", False),
        (
            "w = pl.slice(t, [8, 64], [0, 0])\na = pl.set_validshape(t, 16, n)\npl.store(a, [16, 0], o)\nr = pl.adds(w, 1.0)",
            False,
        ),
        ("a = pl.set_validshape(t, 16, n)\npl.store(a, [16, 0], o)\npl.store(a, [32, 0], o)\nr = u", True),
        ("r = pl.set_validshape(pl.slice(t, [8, 64], [0, 0]), 8, n)", False),
        ("a = pl.load(x, [0, 0], [16, 64], valid_shape=[16, n])\nif m > 0:\n    pl.store(a, [16, 0], o)\nr = u", False),
        ("a = pl.load(x, [0, 0], [16, 64], valid_shape=[n, 64])\nr = pl.adds(pl.slice(a, [8, 64], [0, 0]), 1.0)", True),
    ],
)
def test_run_time_extents(body, chosen):
    why = reason(LOADS + body + "\n" + STORE)
    assert (why is None) == chosen, why


@pytest.mark.contract("B112")
def test_shapes_that_windows_are_cut_from_without_addresses():
    body = "a = pl.reshape(t, [32, 32])\nr = pl.add(pl.slice(t, [8, 32], [0, 0]), pl.slice(a, [8, 32], [0, 0]))\n" + STORE
    assert reason(LOADS + body, planner=PYPTO) is None
    assert "several shapes" in reason(LOADS + body, planner=PTOAS)


@pytest.mark.contract("B107")
def test_the_newer_chip_and_the_switch():
    body = LOADS + "r = pl.add(t, u)\n" + STORE
    assert reason(body, platform="a5sim") is not None
    names = default_pipeline(PassOptions(enable_buffer_ir=False)).names
    assert "SelectBufferIRFunctions" not in names
    p = through(
        scope(body, "x: pl.Tensor[[16, 64], pl.FP32], y: pl.Tensor[[16, 64], pl.FP32], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"),
        "init_mem_ref",
    )
    assert why_not_selected(kernel_of(p), PassOptions(enable_buffer_ir=False)) == "buffers are switched off"


def test_packed_matrices_only():
    t = "pl.Tensor[[64, 64], pl.FP32, pl.TensorView(stride=[128, 1], layout=pl.ND)]"
    p = through(
        scope(f"r = pl.load(x, [0, 0], [16, 64])\n{STORE}", f"x: {t}, o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"), "init_mem_ref"
    )
    assert "packed" in why_not_selected(kernel_of(p), PassOptions())
