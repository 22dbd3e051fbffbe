"""Kernels over buffers: handles, windows, extents, control flow, and what cannot be converted."""

import numpy as np
import pytest
from back_lab import kernel_of, raw_kernel, scope, through
from pass_lab import out
from test_back_semantics import executed

from pypto.debug import Placement
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import CompileError, VerificationError
from pypto.ir.expr import Call, ConstInt
from pypto.ir.printer import python_print
from pypto.ir.rewrite import defined_vars, walk
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.shaped import BufferType, TileType
from pypto.ir.stmt import ForStmt, IfStmt, WhileStmt
from pypto.ir.structural import compare
from pypto.ir.types import VoidType
from pypto.ir.verify.buffer_ir import buffer_ir
from pypto.passes.context import PassOptions
from pypto.passes.lower_tile_to_buffer import lower_tile_to_buffer
from pypto.passes.pipeline import lower

PLANNERS = list(MemoryPlanner)
T = "pl.Tensor[[16, 64], pl.FP32]"
X = f"x: {T}, y: {T}, n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX], o: pl.Out[{T}]"
LOADS = "t = pl.load(x, [0, 0], [16, 64])\nu = pl.load(y, [0, 0], [16, 64])\n"
NUMBERS = np.arange(1024, dtype=np.float32).reshape(16, 64) * 7 % 13 - 6


def lowered(body: str, planner: MemoryPlanner = MemoryPlanner.PYPTO, trips=((0, 0), (1, 5), (3, 8))):
    """The kernel in its buffer form; it runs to the bit as the program does."""
    p = scope(body, X)
    device = lower(p, PassOptions(memory_planner=planner)).device
    f = kernel_of(device)
    assert f.ir_stage is FunctionIRStage.Buffer, python_print(f)
    assert list(buffer_ir(device)) == []
    assert not any(isinstance(v.type, TileType) for v in defined_vars(f.body))
    for n, m in trips:
        args = [NUMBERS, NUMBERS[::-1].copy(), n, m, out(16, 64)]
        assert executed(device, args, None) == executed(p, args, Placement.VALUES)
    return f


def operations(f) -> list[str]:
    return [n.op.name.removeprefix("buffer.") for n in walk(f.body) if isinstance(n, Call) and n.op.name.startswith("buffer.")]


def calls(f, name: str) -> list[Call]:
    return [n for n in walk(f.body) if isinstance(n, Call) and n.op.name == f"buffer.{name}"]


# -- straight lines --------------------------------------------------------------------------------------------------


@pytest.mark.contract("B001", "B024", "B025", "B026", "B155", "B156", "B157")
@pytest.mark.parametrize("planner", PLANNERS)
def test_producers_write_into_their_destination(planner):
    f = lowered(LOADS + "pl.store(pl.mul(pl.add(t, u), t), [0, 0], o)", planner)
    names = operations(f)
    assert [names.count(n) for n in ("load", "add", "mul", "store")] == [2, 1, 1, 1]
    for c in (n for n in walk(f.body) if isinstance(n, Call)):
        assert isinstance(c.type, BufferType if c.op.name == "buffer.alloc" else VoidType)
    assert {len(c.args) for c in calls(f, "alloc")} == {1 if planner is MemoryPlanner.PTOAS else 2}


@pytest.mark.contract("B165", "B166")
def test_the_signature_and_the_caller_stay():
    p = scope(LOADS + "pl.store(pl.add(t, u), [0, 0], o)", X)
    plain = lower(p, PassOptions(enable_buffer_ir=False)).device
    device = lower(p, PassOptions()).device
    a, b = kernel_of(plain), kernel_of(device)
    assert [v.name_hint for v in a.params] == [v.name_hint for v in b.params]
    assert a.param_directions == b.param_directions
    assert compare(plain.get_function("main"), device.get_function("main"), auto_map=True) is None


@pytest.mark.contract("B167", "B240")
def test_conversion_is_idempotent_pure_and_survives_serialization():
    p = through(scope(LOADS + "pl.store(pl.add(t, u), [0, 0], o)", X), "materialize_valid_shape_symbols")
    before = python_print(p)
    made = lower_tile_to_buffer.run(p, PassOptions())
    assert python_print(p) == before
    assert lower_tile_to_buffer.run(made, PassOptions()) is made
    assert compare(made, deserialize(serialize(made)), auto_map=True) is None


@pytest.mark.contract("B043")
def test_scalars_take_the_element_type():
    f = lowered(LOADS + "k = pl.cast(n, pl.FP32)\npl.store(pl.muls(t, k), [0, 0], o)")
    (c,) = calls(f, "muls")
    assert c.args[1].type.dtype is c.args[0].type.dtype


@pytest.mark.contract("B044", "B238")
def test_fills_take_their_shape_from_the_destination():
    f = lowered("pl.store(pl.tile.full([16, 64], dtype=pl.FP32, value=2.5), [0, 0], o)")
    assert operations(f) == ["alloc", "full", "store"]


@pytest.mark.contract("B047")
def test_recip_has_a_destination_of_its_own():
    f = lowered(LOADS + "pl.store(pl.recip(pl.adds(t, 100.0)), [0, 0], o)")
    (c,) = calls(f, "recip")
    assert c.args[0] is not c.args[1]


# -- views of allocations --------------------------------------------------------------------------------------------


@pytest.mark.contract("B095", "B171", "B172")
def test_relabels_share_one_byte_root():
    f = lowered(LOADS + "r = pl.adds(pl.reshape(t, [32, 32]), 1.0)\npl.store(pl.add(pl.reshape(r, [16, 64]), u), [0, 0], o)")
    roots = [c.type for c in calls(f, "alloc") if c.type.dtype.name == "UINT8"]
    assert [r.physical_shape for r in roots] == [(128, 32)]
    assert "reshape" in operations(f)


PLANNED = """
mem: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
t: pl.Tile[[32, 32], pl.FP32, pl.MemRef(mem, {base}, 4096), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [32, 32], [32, 32], target_memory=pl.Mem.Vec)
s: {t} = pl.tile.store(t, [0, 0], o)
u: pl.Tile[[16, 32], pl.FP32, pl.MemRef(mem, {inner}, 2048), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 32], [16, 32], target_memory=pl.Mem.Vec)
v: {t} = pl.tile.store(u, [0, 0], s)
w: {t} = pl.tile.store(u, [16, 0], v)
return o
"""  # noqa: E501


def planned(base: int = 8192, inner: int = 8256, text: str = PLANNED):
    t = "pl.Tensor[[32, 32], pl.FP32]"
    p = raw_kernel(text.format(base=base, inner=inner, t=t), f"x: {t}, o: pl.Out[{t}]", t)
    return kernel_of(lower_tile_to_buffer.run(p, PassOptions()))


@pytest.mark.contract("B171", "B173", "B184")
def test_an_interior_member_is_a_window_of_the_byte_root():
    f = planned()
    (alloc,) = calls(f, "alloc")
    (view,) = calls(f, "subview")
    assert alloc.type == BufferType((128, 32), alloc.type.dtype, alloc.type.memory_space)
    assert alloc.args[1].value == 8192
    assert [e.value for e in view.args[1].elements] == [2, 0]
    sources = {c.args[0] for c in calls(f, "store")}
    assert len(sources) == 2  # repeated stores share a handle


@pytest.mark.contract("B096", "B097", "B181", "B184")
@pytest.mark.parametrize(
    ("base", "inner", "words"),
    [
        (8192, 8200, "offsets and windows aligned to 32 bytes"),
        (8192, 11264, "descriptor window exceeds the planned allocation capacity"),
        (8192, 8160, "must begin within its allocation"),
    ],
)
def test_malformed_windows_fail(base, inner, words):
    with pytest.raises(CompileError, match=words):
        planned(base, inner)


@pytest.mark.contract("B181", "B182")
def test_interior_members_alone_give_no_origin():
    text = "\n".join(line for line in PLANNED.splitlines() if not line.startswith(("t:", "s:"))).replace("s)", "o)")
    with pytest.raises(CompileError, match="full-capacity MemRef anchor"):
        planned(text=text)


@pytest.mark.contract("B028", "B176")
def test_static_partial_rectangles_are_windows_of_one_allocation():
    f = lowered(
        "t = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 33])\nu = pl.set_validshape(pl.adds(t, 1.0), 5, 20)\n"
        "pl.store(u, [0, 0], o)"
    )
    assert {c.type.valid_shape for c in calls(f, "subview")} >= {(5, 20)}


# -- windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("B070", "B186", "B191")
@pytest.mark.parametrize("planner", PLANNERS)
def test_slices_are_cut_where_they_are_written(planner):
    f = lowered(LOADS + "w = pl.slice(t, [8, 32], [m, 32])\npl.store(pl.add(w, w), [0, 0], o)", planner)
    at = [(c, c.args[1].elements) for c in calls(f, "subview")]
    ((view, _),) = [(c, offsets) for c, offsets in at if not isinstance(offsets[0], ConstInt)]
    assert [e.value for e in view.args[2].elements] == [8, 32]


@pytest.mark.contract("B188")
@pytest.mark.parametrize("planner", PLANNERS)
def test_assembles_copy_into_a_window_of_the_result(planner):
    f = lowered(LOADS + "w = pl.slice(u, [8, 32], [0, 0])\npl.store(pl.assemble(t, w, [m, 32]), [0, 0], o)", planner)
    assert operations(f).count("copy") == 1
    assert operations(f).count("subview") == 2


@pytest.mark.contract("B079", "B197")
def test_a_source_that_is_the_window_needs_no_copy():
    f = lowered(LOADS + "w = pl.slice(t, [8, 64], [m, 0])\npl.store(pl.assemble(t, w, [m, 0]), [0, 0], o)")
    assert "copy" not in operations(f)


@pytest.mark.contract("B077")
def test_an_overlapping_source_is_read_from_a_copy_of_the_whole():
    f = lowered(LOADS + "w = pl.slice(t, [8, 64], [0, 0])\npl.store(pl.assemble(t, w, [4, 0]), [0, 0], o)")
    assert operations(f).count("copy") == 2


# -- run-time extents ------------------------------------------------------------------------------------------------


@pytest.mark.contract("B029", "B134", "B138", "B204", "B207")
@pytest.mark.parametrize("planner", PLANNERS)
def test_extents_are_stated_and_empty_rectangles_guarded(planner):
    f = lowered(
        "t = pl.load(x, [0, 0], [16, 64], valid_shape=[n, m])\npl.store(pl.add(t, t), [0, 0], o)",
        planner,
        ((0, 5), (5, 0), (16, 64), (3, 7)),
    )
    assert operations(f).count("set_validshape") == 2
    guards = [s for s in walk(f.body) if isinstance(s, IfStmt)]
    assert len(guards) == 1
    assert {c.type.valid_shape for c in calls(f, "alloc")} == {(-1, -1)}
    inside = [n.op.name for n in walk(guards[0]) if isinstance(n, Call)]
    assert [n for n in operations(f) if n in ("load", "add", "store")] == [
        n.removeprefix("buffer.") for n in inside if "subview" not in n
    ]


@pytest.mark.contract("B204")
@pytest.mark.parametrize("planner", PLANNERS)
def test_one_static_extent(planner):
    f = lowered(
        "t = pl.load(x, [0, 0], [16, 64], valid_shape=[16, m])\npl.store(pl.add(t, t), [0, 0], o)",
        planner,
        ((0, 0), (0, 5), (0, 64)),
    )
    assert operations(f).count("set_validshape") == 2


@pytest.mark.contract("B208")
@pytest.mark.parametrize("planner", PLANNERS)
def test_setters_update_the_shared_handle(planner):
    body = "t = pl.load(x, [0, 0], [16, 64])\nu = pl.set_validshape(t, n, m)\npl.store(pl.adds(u, 1.0), [0, 0], o)"
    f = lowered(body, planner, ((0, 5), (16, 64), (3, 7)))
    assert operations(f).count("set_validshape") == 3


@pytest.mark.contract("B135")
def test_windows_keep_each_extent_as_it_is():
    load = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[n, 64])\n"
    f = lowered(load + "w = pl.slice(t, [8, 64], [0, 0])\npl.store(pl.adds(w, 1.0), [0, 0], o)", trips=((0, 0), (5, 0), (16, 0)))
    assert (-1, 64) in {c.type.valid_shape for c in calls(f, "subview")}


@pytest.mark.contract("B140")
def test_what_is_known_to_be_empty_is_not_built():
    empty = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[0, 0])\npl.store(t, [0, 0], o)\n"
    f = lowered(empty + "pl.store(pl.load(y, [0, 0], [8, 64]), [8, 0], o)")
    assert operations(f).count("load") == operations(f).count("store") == 1


# -- control flow ----------------------------------------------------------------------------------------------------


@pytest.mark.contract("B054", "B055", "B067", "B225", "B229", "B231")
@pytest.mark.parametrize("planner", PLANNERS)
def test_only_scalars_pass_through_control_flow(planner):
    body = """
        k = pl.const(0, pl.INDEX)
        for i in pl.range(n):
            t, u = u, t
            k = k + 1
        if n > 1:
            t = pl.mul(t, u)
            k = k + 4
        else:
            t = u
        while k < m:
            k = k + 1
            u = pl.add(u, t)
        pl.store(pl.sub(t, u), [0, 0], o)
        """
    f = lowered(LOADS + "\n".join(line[8:] for line in body.splitlines()), planner, ((0, 0), (1, 5), (2, 9), (3, 2)))
    for s in walk(f.body):
        if isinstance(s, (ForStmt, WhileStmt)):
            assert len(s.iter_args) == len(s.return_vars) == 1
        elif isinstance(s, IfStmt):
            assert len(s.return_vars) == 1


@pytest.mark.contract("B056", "B232")
def test_stores_in_loops_keep_the_parameter():
    f = lowered(
        "for i in pl.range(n):\n    t = pl.load(x, [i * 4, 0], [4, 64])\n    pl.store(t, [i * 4, 0], o)", trips=((0, 0), (4, 0))
    )
    (store,) = calls(f, "store")
    assert store.args[3] is next(v for v in f.params if v.name_hint == "o")


# -- what has no buffer form -----------------------------------------------------------------------------------------


def explicit(
    body: str, params: str = "x: pl.Tensor[[16, 64], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[16, 64], pl.FP32]]"
):
    """The low-level pass by hand, on a kernel that selection never saw."""
    options = PassOptions(enable_buffer_ir=False)
    p = through(scope(body, params), "allocate_memory_addr", buffers=False)
    return lower_tile_to_buffer.run(p, options)


LOAD = "t = pl.load(x, [0, 0], [16, 64])\n"


@pytest.mark.contract("B223", "B239")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (LOAD + "pl.store(pl.row_expand_add(t, pl.row_max(t, t)), [0, 0], o)", "no conversion recipe for 'tile.row_max'"),
        (LOAD + "k = pl.read(t, [0, 0])\npl.store(pl.muls(t, k), [0, 0], o)", "no conversion recipe for 'tile.read'"),
        (LOAD + "pl.store(t, [0, 0], o, atomic=pl.AtomicType.Add)", "atomic and phased stores require"),
        ("pl.store(pl.load(x, [0, 0], [16, 64], cache=1), [0, 0], o)", "cache-policy loads require"),
    ],
)
def test_what_has_no_recipe_is_diagnosed_at_its_line(body, words):
    with pytest.raises(CompileError, match=words) as e:
        explicit(body)
    assert e.value.span["line"] >= 5


@pytest.mark.contract("B226")
def test_global_memory_must_be_one_parameter():
    t = "pl.Tensor[[16, 64], pl.FP32]"
    text = f"""
        if n > 0:
            r: {t}
            r = pl.yield_(x)
        else:
            r = pl.yield_(y)
        mem: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        t: pl.Tile[[16, 64], pl.FP32, pl.MemRef(mem, 0, 4096), pl.Mem.Vec] = pl.tile.load(r, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
        """  # noqa: E501
    p = raw_kernel(text, f"x: {t}, y: {t}, n: pl.Scalar[pl.INDEX]")
    with pytest.raises(CompileError, match="GM branch results must alias the same parameter"):
        lower_tile_to_buffer.run(p, PassOptions())


@pytest.mark.contract("B224")
def test_attributes_need_a_contract():
    text = """
        mem: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        t: pl.Tile[[16, 64], pl.FP32, pl.MemRef(mem, 0, 4096), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec, attrs={attrs})
        """  # noqa: E501
    params = "x: pl.Tensor[[16, 64], pl.FP32]"
    with pytest.raises(CompileError, match="explicit conversion contract"):
        lower_tile_to_buffer.run(raw_kernel(text.replace("{attrs}", "{'no_duplicate': True}"), params), PassOptions())
    lower_tile_to_buffer.run(raw_kernel(text.replace("{attrs}", "{'pipeline_membership': ['0:1']}"), params), PassOptions())


@pytest.mark.contract("B149")
def test_storage_is_checked_again():
    text = """
        m: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        q: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        t: pl.Tile[[16, 64], pl.FP32, pl.MemRef(m, 0, 4096), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
        for i, (c,) in pl.range(3, init_values=(t,)):
            d: pl.Tile[[16, 64], pl.FP32, pl.MemRef(q, 4096, 4096), pl.Mem.Vec] = pl.tile.muls(c, 2.0)
            r = pl.yield_(d)
        """  # noqa: E501
    with pytest.raises(VerificationError, match="must share canonical storage"):
        lower_tile_to_buffer.run(raw_kernel(text, "x: pl.Tensor[[16, 64], pl.FP32]"), PassOptions())


@pytest.mark.contract("B010", "B012", "B108")
def test_kernels_left_at_tile_stage_stay():
    p = scope(LOADS + "pl.store(pl.row_expand_add(t, pl.row_max(u, t)), [0, 0], o)", X)
    f = kernel_of(lower(p, PassOptions()).device)
    assert f.ir_stage is FunctionIRStage.Functional
    assert f.attrs["buffer_ir_selected"] is False
