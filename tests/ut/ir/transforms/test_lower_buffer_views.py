"""Views of planned storage: what allocations become, windows where they are cut, assembles, run-time valid extents."""

from __future__ import annotations

import pytest
from back_lab import kernel_of, named, scope, through
from buffer_lab import (
    ADDRESSED,
    LOAD,
    LOADS,
    PLANNERS,
    PTOAS,
    PYPTO,
    STORE,
    TARGETS,
    T,
    alloc,
    by_hand,
    calls,
    definition,
    handles,
    load,
    lowered,
    names,
    operations,
    planned,
    root,
    tile,
    values,
)

from pypto.dtypes import DataType
from pypto.enums import MemorySpace
from pypto.errors import CompileError, VerificationError
from pypto.ir import ops
from pypto.ir.expr import Call, ConstInt, Expr, MakeTuple, Var, const_index
from pypto.ir.opdef import OpRejected
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.serialization import deserialize, serialize
from pypto.ir.shaped import BufferType
from pypto.ir.stmt import AssignStmt, EvalStmt, IfStmt, Stmt, flatten_to_stmts
from pypto.ir.structural import compare
from pypto.ir.types import ScalarType
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower
from pypto.passes.statements import statements
from pypto.span import Span

contract = pytest.mark.contract
INDEX = ScalarType.of(DataType.INDEX)


def buffer(*shape: int, valid: tuple[int, int] | None = None, dtype: str = "FP32") -> BufferType:
    return BufferType(shape, getattr(DataType, dtype), MemorySpace.Vec, valid)


def everywhere(test):
    """Under each planner, on each target."""
    return pytest.mark.parametrize("target", TARGETS)(pytest.mark.parametrize("planner", PLANNERS)(test))


# -- views of allocations --------------------------------------------------------------------------------------------


@contract("B174")
@everywhere
def test_one_descriptor_that_covers_everything_is_the_allocations(planner, target):
    f = by_hand(LOADS + "r = pl.add(t, u)" + STORE, planner, target)
    assert {c.type for c in calls(f, "alloc")} == {buffer(16, 64)}
    assert not {"reshape", "subview"} & set(operations(f))


@contract("B095", "B171", "B172", "B178", "B180")
@everywhere
def test_relabels_share_one_byte_root(planner, target):
    body = LOADS + "r = pl.adds(pl.reshape(t, [32, 32]), 1.0)\npl.store(pl.add(pl.reshape(r, [16, 64]), u), [0, 0], o)"
    f = by_hand(body, planner, target)
    roots = [c.type for c in calls(f, "alloc") if c.type.dtype.name == "UINT8"]
    assert set(roots) == {buffer(128, 32, dtype="UINT8")}
    # A reshape leaves nothing behind: its views stand beside the allocation, in front of everything that moves data.
    found = names(flatten_to_stmts(f.body))
    first = next(i for i, name in enumerate(found) if name not in ("alloc", "reshape", "subview"))
    assert found[first:] == ["load", "load", "adds", "add", "store"]
    assert "reshape" in found[:first]


PLANNED = (
    alloc("mem")
    + load("t", tile("mem", 8192, (32, 32)), "[32, 32]")
    + "s: {t} = pl.tile.store(t, [0, 0], o)\n"
    + load("u", tile("mem", 8256, (16, 32)), "[16, 32]")
    + "v: {t} = pl.tile.store(u, [0, 0], s)\nw: {t} = pl.tile.store(u, [16, 0], v)\nreturn o\n"
)


def interior(base: int = 8192, inner: int = 8256, text: str = PLANNED, planner=PYPTO):
    t = "pl.Tensor[[32, 32], pl.FP32]"
    text = text.replace("mem, 8192", f"mem, {base}").replace("mem, 8256", f"mem, {inner}").replace("{t}", t)
    return planned(text, f"x: {t}, o: pl.Out[{t}]", planner)


@contract("B156", "B170", "B171", "B173", "B184", "B242")
def test_an_interior_member_is_a_window_of_the_byte_root():
    f = interior()
    (made,) = calls(f, "alloc")
    (view,) = calls(f, "subview")
    assert made.type == buffer(128, 32, dtype="UINT8")  # what tile.alloc says
    assert made.args[1].value == 8192
    assert (values(view.args[1]), view.type) == ([2, 0], buffer(64, 32, dtype="UINT8"))
    sources = {c.args[0] for c in calls(f, "store")}
    assert len(sources) == 2  # repeated stores share a handle
    program = Program([f])
    assert compare(program, deserialize(serialize(program)), auto_map=True) is None


@contract("B170")
def test_the_capacity_is_that_of_the_allocation():
    """More than its tiles need, or less."""
    f = planned(alloc("m", 6144) + load("t", tile("m")), planner=PTOAS)
    (made,) = calls(f, "alloc")
    assert made.type == buffer(192, 32, dtype="UINT8")
    with pytest.raises(CompileError, match="exceeds the planned allocation capacity"):
        planned(alloc("m", 2048) + load("t", tile("m")), planner=PTOAS)


@contract("B173", "B242")
def test_tiles_that_name_one_view_have_one_handle():
    again = "".join(load(name, tile("mem", 64, (16, 32)), "[16, 32]") for name in "uvw")
    f = planned(alloc("mem") + load("t", tile("mem")) + again)
    assert len({c.args[3] for c in calls(f, "load")}) == 2
    assert operations(f).count("subview") == 1


@contract("B096", "B097", "B181", "B184", "B242")
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
        interior(base, inner)


@contract("B184")
def test_rows_of_views_are_whole_blocks():
    narrow = load("u", tile("mem", 64, (32, 12)), "[32, 12]")
    with pytest.raises(CompileError, match="physical rows aligned to 32 bytes"):
        planned(alloc("mem") + load("t", tile("mem", 0, (32, 32)), "[32, 32]") + narrow, "x: pl.Tensor[[32, 32], pl.FP32]")


WITHOUT_WHOLE = "\n".join(line for line in PLANNED.splitlines() if not line.startswith(("t:", "s:"))).replace("s)", "o)")


@contract("B181", "B182")
@pytest.mark.parametrize("planner", ADDRESSED)
def test_interior_members_alone_give_no_origin(planner):
    with pytest.raises(CompileError, match="full-capacity MemRef anchor"):
        interior(text=WITHOUT_WHOLE, planner=planner)


@contract("B183")
def test_without_addresses_the_origin_is_zero():
    f = interior(inner=64, text=WITHOUT_WHOLE, planner=PTOAS)
    (made,), (view,) = calls(f, "alloc"), calls(f, "subview")
    assert (len(made.args), made.type) == (1, buffer(128, 32, dtype="UINT8"))
    assert values(view.args[1]) == [2, 0]


@contract("B175")
@everywhere
def test_tiles_that_windows_are_cut_from_give_the_allocation_its_type(planner, target):
    body = (
        LOAD + "w = pl.slice(t, [8, 64], [0, 0])\npl.store(pl.adds(w, 1.0), [0, 0], o)\nr = pl.adds(pl.reshape(t, [32, 32]), 1.0)"
    )
    f = by_hand(body + "\npl.store(pl.reshape(r, [16, 64]), [0, 0], o)", planner, target)
    (window,) = (c for c in calls(f, "subview") if c.type == buffer(8, 64))
    assert definition(f, window.args[0]).op.name == "buffer.alloc"
    assert window.args[0].type == buffer(16, 64)
    (read,) = calls(f, "load")
    assert read.args[3] is window.args[0]
    (other,) = (c for c in calls(f, "reshape") if c.args[0] is window.args[0])
    assert other.type == buffer(32, 32)


@contract("B196")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("planner", ADDRESSED)
def test_a_second_parent_is_an_allocation_of_its_own_at_the_planned_address(planner, target):
    body = LOADS + "a = pl.reshape(t, [32, 32])\nr = pl.add(pl.slice(a, [8, 32], [8, 0]), pl.slice(t, [8, 32], [0, 32]))" + STORE
    f = by_hand(body, planner, target)
    parents = [definition(f, c.args[0]) for c in calls(f, "subview") if c.type == buffer(8, 32)]
    assert [c.type for c in parents] == [buffer(32, 32), buffer(16, 64)]
    first, second = parents
    assert {c.op.name for c in parents} == {"buffer.alloc"}
    assert first.args[1].value == second.args[1].value


@contract("B028", "B176")
def test_static_partial_rectangles_are_windows_of_one_allocation():
    f = lowered(
        "t = pl.load(x, [0, 0], [16, 64], valid_shape=[7, 33])\nu = pl.set_validshape(pl.adds(t, 1.0), 5, 20)\n"
        "pl.store(u, [0, 0], o)"
    )
    (c,) = (c for c in calls(f, "subview") if c.type.valid_shape == (5, 20))
    assert values(c.args[1]) == [0, 0]
    assert c.args[0].type.valid_shape == c.type.physical_shape


@contract("B177")
@pytest.mark.parametrize("target", TARGETS)
def test_an_assemble_into_a_partly_valid_target_takes_no_second_allocation(target):
    body = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[4, 64])\nu = pl.load(y, [0, 0], [16, 64])\n"
    body += "r = pl.assemble(t, pl.slice(u, [8, 64], [0, 0]), [4, 0])" + STORE
    f = by_hand(body, PTOAS, target)
    (read, _), (written,) = calls(f, "load"), calls(f, "store")
    assert operations(f).count("alloc") == 2
    assert root(f, read.args[3]) is root(f, written.args[0])
    assert [h.type.valid_shape for h in (read.args[3], written.args[0])] == [(4, 64), (12, 64)]


@contract("B178")
@pytest.mark.parametrize("planner", PLANNERS)
def test_views_stand_beside_their_allocation(planner):
    f = lowered(
        LOADS + "r = pl.adds(pl.reshape(t, [32, 32]), 1.0)\npl.store(pl.add(pl.reshape(r, [16, 64]), u), [0, 0], o)", planner
    )
    last: Expr | None = None
    for s in flatten_to_stmts(f.body):
        if not isinstance(s, AssignStmt) or not isinstance(s.var.type, BufferType):
            break
        last = s.var if names([s]) == ["alloc"] else last
        assert root(f, s.var) is last
    assert all(ops.get(f"buffer.{n}").effects({})[0].name == "Read" for n in ("subview", "reshape"))


@contract("B185")
def test_boxes_have_no_view_beside_the_allocation():
    boxed = "blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major"
    moved = f"u: {tile('m', view=boxed + ', fractal=512')} = pl.tile.move(t, target_memory=pl.Mem.Vec, {boxed})\n"
    with pytest.raises(CompileError, match="needs dense rank-2 buffers"):
        planned(alloc("m") + load("t", tile("m")) + moved)


@contract("B185", "B211")
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_tile_of_run_time_extents_has_its_allocation_to_itself(planner):
    text = alloc("m") + load("t", tile("m", view="valid_shape=[n, 64]"), valid="[n, 64]")
    f = planned(text, planner=planner)
    assert operations(f).count("alloc") == 1
    assert not any(h.type.dtype.name == "UINT8" for h in handles(f))
    with pytest.raises(CompileError, match="must own its allocation"):
        planned(text + load("u", tile("m", 0, (8, 64)), "[8, 64]"), planner=planner)


# -- windows ---------------------------------------------------------------------------------------------------------


@contract("B069", "B070", "B186", "B191", "B242")
@everywhere
def test_slices_are_cut_where_they_are_written(planner, target):
    body = LOADS + "v = pl.slice(u, [8, 32], [8, 32])\nw = pl.slice(t, [8, 32], [m, 32])\npl.store(pl.add(w, v), [0, 0], o)"
    f = by_hand(body, planner, target)
    here = names(flatten_to_stmts(f.body))
    assert here[here.index("load") :] == ["load", "load", "subview", "subview", "add", "store"]
    fixed, moving = (c for c in calls(f, "subview") if c.type == buffer(8, 32))
    assert (values(fixed.args[1]), values(fixed.args[2])) == ([8, 32], [8, 32])
    assert [isinstance(e, ConstInt) for e in moving.args[1].elements] == [False, True]
    assert values(moving.args[2]) == [8, 32]


@contract("B187")
@everywhere
def test_a_relabel_of_a_window_is_made_where_the_window_is(planner, target):
    """Not where it is used, which is later."""
    body = LOADS + "w = pl.reshape(pl.slice(t, [4, 64], [4, 0]), [8, 32])\npl.store(pl.adds(u, 1.0), [0, 0], o)\n"
    f = by_hand(body + "pl.store(pl.adds(w, 1.0), [0, 0], o)", planner, target)
    here = names(flatten_to_stmts(f.body))
    assert here[here.index("load") :] == ["load", "load", "subview", "reshape", "adds", "store", "adds", "store"]
    (relabel,) = (c for c in calls(f, "reshape") if definition(f, c.args[0]).type == buffer(4, 64))
    assert relabel.type == buffer(8, 32)


def cut(offsets: tuple[int | Expr, ...], valids: tuple[int | Expr, ...] | None, result: BufferType) -> Call:
    source = Var("b", buffer(16, 64))
    tuples = [MakeTuple(const_index(e) if isinstance(e, int) else e for e in x) for x in (offsets, valids) if x is not None]
    return ops.get("buffer.subview").call((source, *tuples), None, Span.unknown(), result)


N = Var("n", INDEX)


@contract("B192", "B193", "B194")
@pytest.mark.parametrize(
    ("valids", "result", "words"),
    [
        pytest.param((8, 32), buffer(8, 32), "", marks=contract("B193")),
        pytest.param((N, 32), buffer(8, 32, valid=(-1, 32)), "", marks=contract("B194")),
        pytest.param((9, 32), buffer(8, 32, valid=(-1, 32)), "needs a nonconstant extent", marks=contract("B194")),
        pytest.param((8, 32), buffer(8, 32, valid=(-1, 32)), "needs a nonconstant extent", marks=contract("B194")),
        pytest.param((7, 32), buffer(8, 32), "must equal the static descriptor dimension 0", marks=contract("B193")),
        pytest.param((N, 32), buffer(8, 32), "must equal the static descriptor dimension 0", marks=contract("B193")),
        pytest.param((0, 32), buffer(8, 32, valid=(0, 32)), "must be positive", marks=contract("B192", "B195")),
        pytest.param((8, 0), buffer(8, 32, valid=(8, 0)), "must be positive", marks=contract("B192", "B195")),
        pytest.param(None, buffer(8, 32, valid=(-1, 32)), "requires a valid-extents tuple", marks=contract("B191")),
    ],
)  # fmt: skip
def test_extents_of_windows(valids, result, words):
    if not words:
        assert cut((0, N), valids, result).type == result
        return
    with pytest.raises(OpRejected, match=words):
        cut((0, N), valids, result)


@contract("B192")
def test_a_constant_extent_is_no_larger_than_the_window():
    with pytest.raises(ValueError, match="valid"):
        buffer(8, 32, valid=(9, 32))


@contract("B195")
@pytest.mark.parametrize(
    "body",
    [
        LOADS + "r = pl.adds(pl.slice(t, [8, 64], [0, 0], valid_shape=[0, 64]), 1.0)",
        LOADS + "r = pl.assemble(u, pl.slice(t, [8, 64], [0, 0], valid_shape=[0, 64]), [0, 0])",
        LOADS + "r = pl.assemble(u, pl.load(x, [0, 0], [8, 64], valid_shape=[8, 0]), [0, 0])",
    ],
)
@pytest.mark.parametrize("planner", PLANNERS)
def test_windows_that_hold_nothing_are_refused(body, planner):
    with pytest.raises(CompileError, match="must have positive valid extents"):
        by_hand(body + STORE, planner)


@contract("B199")
@pytest.mark.parametrize("planner", PLANNERS)
def test_slices_that_drop_an_axis_are_refused(planner):
    row = "w: pl.Tile[[64], pl.FP32, pl.MemRef(m, 0, 256), pl.Mem.Vec] = pl.tile.slice(t, [1, 64], [0, 0], [1, 64], [0])\n"
    other = "r: pl.Tile[[64], pl.FP32, pl.MemRef(q, 0, 256), pl.Mem.Vec] = pl.tile.adds(w, pl.const(1.0, pl.FP32))\n"
    with pytest.raises(CompileError, match="rank-reducing slices have no window recipe"):
        planned(alloc("m") + alloc("q", 256) + load("t", tile("m")) + row + other, planner=planner)


# -- assembles -------------------------------------------------------------------------------------------------------


@contract("B188", "B242")
@everywhere
def test_assembles_copy_into_a_window_of_the_result(planner, target):
    f = by_hand(LOADS + "w = pl.slice(u, [8, 32], [0, 0])\npl.store(pl.assemble(t, w, [m, 32]), [0, 0], o)", planner, target)
    (copy,), (read, _), (written,) = calls(f, "copy"), calls(f, "load"), calls(f, "store")
    window = definition(f, copy.args[1])
    assert window.op.name == "buffer.subview"
    assert read.args[3] is window.args[0] is written.args[0]
    assert isinstance(window.args[1].elements[0], Var)


@contract("B189")
@everywhere
def test_a_target_stored_elsewhere_is_copied_first(planner, target):
    body = LOADS + "r = pl.assemble(t, pl.slice(u, [4, 64], [0, 0]), [m, 0])\npl.store(pl.add(t, t), [0, 0], o)" + STORE
    f = by_hand(body, planner, target)
    whole, part = calls(f, "copy")
    (read, _), written = calls(f, "load"), calls(f, "store")[1]
    assert (whole.args[0], whole.args[1]) == (read.args[3], written.args[0])
    assert definition(f, part.args[1]).args[0] is written.args[0]


@contract("B190")
@everywhere
def test_where_more_becomes_valid_the_target_is_copied_as_far_as_it_was(planner, target):
    body = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[4, 64])\nu = pl.load(y, [0, 0], [16, 64])\n"
    body += "r = pl.assemble(t, pl.slice(u, [8, 64], [0, 0]), [4, 0])\npl.store(pl.add(t, t), [0, 0], o)" + STORE
    f = by_hand(body, planner, target)
    kept, _ = calls(f, "copy")
    assert {e.type.valid_shape for e in kept.args} == {(4, 64)}
    assert root(f, kept.args[1]) is root(f, calls(f, "store")[1].args[0])
    assert calls(f, "store")[1].args[0].type.valid_shape == (12, 64)


@contract("B189", "B190")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("valid", ["", "valid_shape=[4, 64]"])
def test_a_result_that_is_planned_elsewhere_begins_as_its_target(planner, valid):
    rows = "[4, 64]" if valid else "[16, 64]"
    p, q = (0, 0) if planner is PTOAS else (4096, 8192)
    text = "".join(alloc(name) for name in "mpq") + load("t", tile("m", view=valid), valid=rows) + load("u", tile("p", p))
    text += "w: " + tile("p", p, (8, 64)) + " = pl.tile.slice(u, [8, 64], [0, 0])\n"
    result = tile("q", q, view=valid.replace("4", "12", 1))
    f = planned(text + f"r: {result} = pl.tile.assemble(t, w, [4, 0])\ns: {T} = pl.tile.store(r, [0, 0], o)\n", planner=planner)
    kept, part = calls(f, "copy")
    (read, _), (written,) = calls(f, "load"), calls(f, "store")
    assert root(f, kept.args[0]) is root(f, read.args[3])
    assert root(f, kept.args[1]) is root(f, part.args[1]) is root(f, written.args[0])
    assert {e.type.valid_shape for e in kept.args} == {(4, 64) if valid else (16, 64)}
    assert written.args[0].type.valid_shape == ((12, 64) if valid else (16, 64))


@contract("B190", "B195")
@pytest.mark.parametrize("planner", PLANNERS)
def test_of_a_target_that_holds_nothing_nothing_is_copied(planner):
    body = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[0, 64])\nu = pl.load(y, [0, 0], [16, 64])\n"
    body += "r = pl.assemble(t, pl.slice(u, [8, 64], [0, 0]), [0, 0])\npl.store(t, [0, 0], o)" + STORE
    f = by_hand(body, planner)
    assert operations(f).count("copy") == 1
    assert not any(0 in c.type.valid_shape for c in calls(f, "subview"))


@contract("B028", "B188")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    "body",
    [
        LOAD + "a = pl.load(y, [0, 0], [8, 64], valid_shape=[5, 33])\nr = pl.assemble(t, a, [m, 0])",
        LOADS + "r = pl.assemble(t, pl.slice(u, [8, 32], [0, 0], valid_shape=[5, 20]), [m, 8])",
        LOADS + "r = pl.assemble(t, pl.slice(t, [8, 64], [2, 0], valid_shape=[5, 20]), [3, 0])",
    ],
)
def test_of_a_partly_valid_source_what_is_valid_is_assembled(planner, body):
    f = lowered(body + STORE, planner)
    copy = calls(f, "copy")[-1]
    assert copy.args[0].type.valid_shape == copy.args[1].type.valid_shape != copy.args[1].type.physical_shape


@contract("B066", "B143")
@pytest.mark.parametrize("planner", PLANNERS)
def test_what_is_beyond_the_valid_part_moves_along_where_it_may_become_valid(planner):
    """Storage that was loaded whole is narrowed, moved where a branch wants it, and widened."""
    body = (
        LOADS
        + "a = pl.set_validshape(t, 4, 64)\nif m > 1:\n    a = pl.set_validshape(u, 4, 64)\nr = pl.set_validshape(a, 16, 64)"
        + STORE
    )
    f = lowered(body, planner)
    assert {e.type.valid_shape for c in calls(f, "copy") for e in c.args} == {(16, 64)}


@contract("B198")
@pytest.mark.parametrize("planner", PLANNERS)
def test_assembling_from_one_memory_into_another_is_refused(planner):
    matrix = tile("q", space="Mat")
    text = (
        alloc("m")
        + alloc("q", space="Mat")
        + load("t", tile("m"))
        + load("u", matrix)
        + f"r: {matrix} = pl.tile.assemble(u, t, [0, 0])\n"
    )
    with pytest.raises(CompileError, match="assemble across memory spaces"):
        planned(text, planner=planner)


@contract("B079", "B197")
def test_a_source_that_is_the_window_needs_no_copy():
    f = lowered(LOADS + "w = pl.slice(t, [8, 64], [m, 0])\npl.store(pl.assemble(t, w, [m, 0]), [0, 0], o)")
    assert "copy" not in operations(f)


@contract("B077", "B078")
@pytest.mark.parametrize("planner", PLANNERS)
def test_an_overlapping_source_is_read_from_a_copy_of_the_whole(planner):
    f = lowered(LOADS + "w = pl.slice(t, [8, 64], [0, 0])\npl.store(pl.assemble(t, w, [4, 0]), [0, 0], o)", planner)
    whole, part = calls(f, "copy")
    assert {e.type for e in whole.args} == {buffer(16, 64)}
    assert definition(f, part.args[0]).args[0] is whole.args[1]


CHAIN = LOADS + "w = pl.slice(t, [4, 64], [8, 0])\na = pl.assemble(t, pl.slice(u, [4, 64], [0, 0]), [0, 0])\n"


@contract("B082")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(("row", "whole_copies"), [(4, 0), (12, 0), (8, 0), (6, 1), (11, 1)])
def test_bytes_are_compared_through_a_chain_of_assembles(planner, row, whole_copies):
    f = lowered(CHAIN + f"r = pl.assemble(a, w, [{row}, 0])" + STORE, planner)
    assert sum(c.args[1].type == buffer(16, 64) for c in calls(f, "copy")) == whole_copies


@contract("B083")
@pytest.mark.parametrize("planner", PLANNERS)
def test_through_a_chain_the_copied_parent_is_that_of_the_slice(planner):
    f = lowered(CHAIN + "r = pl.assemble(a, w, [6, 0])" + STORE, planner)
    (first, _), (whole,) = calls(f, "load"), [c for c in calls(f, "copy") if c.args[1].type == buffer(16, 64)]
    assert root(f, whole.args[0]) is first.args[3]  # t, in which a was assembled
    again = definition(f, calls(f, "copy")[-1].args[0])
    assert again.args[0] is whole.args[1]
    assert values(again.args[1]) == [8, 0]


@contract("B085")
@pytest.mark.parametrize("planner", PLANNERS)
def test_a_symbolic_offset_is_computed_once(planner):
    body = (
        LOADS + "w = pl.slice(pl.slice(t, [8, 64], [m + n * 2, 0]), [4, 64], [n + 1, 0])\nr = pl.assemble(t, w, [6, 0])" + STORE
    )
    f = lowered(body, planner, ((0, 0), (1, 5), (2, 3), (3, 2)))
    rows = [c.args[1].elements[0] for c in calls(f, "subview") if isinstance(c.args[1].elements[0], Var)]
    assert len(rows) == 4
    assert (rows[0], rows[1]) == (rows[2], rows[3])  # the very same variables
    sums = [s for s in statements(f.body) if isinstance(s, AssignStmt) and isinstance(s.var.type, ScalarType)]
    assert {s.var for s in sums} == set(rows)


# -- placement -------------------------------------------------------------------------------------------------------


@contract("B203")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("planner", ADDRESSED)
@pytest.mark.parametrize("chosen", [True, False])
def test_what_is_computed_from_a_window_lies_apart_from_its_family(planner, target, chosen):
    body = LOAD + "w = pl.slice(t, [16, 32], [0, n * 8])\nr = pl.mul(w, w)\n"
    body += "s = pl.slice(r, [8, 32], [m, 0])\npl.store(pl.adds(s, 1.0), [0, 0], o)"
    f = by_hand(body, planner, target, ((0, 0), (1, 5), (4, 8)), chosen)
    for c in (*calls(f, "mul"), *calls(f, "adds")):
        at = [definition(f, root(f, e)) for e in c.args if isinstance(e.type, BufferType)]
        spans = {(a.args[1].value, a.args[1].value + a.type.physical_shape[0] * a.type.physical_shape[1] * 4) for a in at}
        (low, high), (low2, _) = sorted(spans)
        assert high <= low2


@contract("B202", "B242")
@pytest.mark.parametrize("planner", ADDRESSED)
def test_a_run_time_window_that_lies_partly_on_a_destination_fails(planner):
    window = f"w: {tile('m')} = pl.tile.slice(t, [8, 64], [n, 0])\n".replace("[16, 64]", "[8, 64]", 1)
    text = alloc("m") + alloc("q", 2048) + load("t", tile("m")) + window
    made = f"r: {tile('q', {at}, (8, 64))} = pl.tile.adds(w, pl.const(1.0, pl.FP32))\n" if (at := 0) else ""
    result = "r: {} = pl.tile.adds(w, pl.const(1.0, pl.FP32))\n" + made
    planned(text + result.format(tile("q", 4096, (8, 64))), planner=planner)
    with pytest.raises(VerificationError, match="partially overlapping"):
        planned(text + result.format(tile("q", 2048, (8, 64))), planner=planner)


@contract("B136")
@pytest.mark.parametrize(
    ("second", "merged"),
    [
        ("pl.load(x, [0, 0], [8, 64], valid_shape=[n, 64])", False),  # another size
        ("pl.load(x, [0, 0], [32, 32], valid_shape=[n, 32])", False),  # the same size in another shape
        ("pl.load(x, [0, 0], [16, 64], valid_shape=[n, 64])", True),
    ],
)
def test_storage_of_run_time_extents_is_merged_with_its_like_only(second, merged):
    t = "pl.Tensor[[32, 64], pl.FP32]"
    body = "a = pl.load(x, [0, 0], [16, 64])\npl.store(pl.adds(a, 1.0), [0, 0], o)\nb = " + second + "\npl.store(b, [0, 0], o)"
    p = scope(body, f"x: {t}, n: pl.Scalar[pl.INDEX], o: pl.Out[{t}]")
    f = kernel_of(through(p, "memory_reuse"))
    assert f.attrs["buffer_ir_selected"]
    assert (named(f, "a").type.memref.base_ is named(f, "b").type.memref.base_) == merged
    assert operations(kernel_of(lower(p, PassOptions()).device)).count("alloc") == (1 if merged else 2)


# -- run-time extents ------------------------------------------------------------------------------------------------

NARROW = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[n, 64])\n"


@contract("B029", "B134", "B138", "B204", "B206", "B207", "B242")
@everywhere
def test_extents_are_stated_and_empty_rectangles_guarded(planner, target):
    f = by_hand(
        "t = pl.load(x, [0, 0], [16, 64], valid_shape=[n, m])\npl.store(pl.add(t, t), [0, 0], o)",
        planner,
        target,
        ((0, 5), (5, 0), (16, 64), (3, 7)),
    )
    assert operations(f).count("set_validshape") == 2
    guards = [s for s in walk(f.body) if isinstance(s, IfStmt)]
    assert len(guards) == 1
    assert {c.type.valid_shape for c in calls(f, "alloc")} == {(-1, -1)}
    assert {tuple(values(c.args[0])) for c in calls(f, "alloc")} == {(16, 64)}  # as stored
    assert [n for n in operations(f) if n in ("load", "add", "store")] == [n for n in operations(guards[0]) if n != "subview"]


@contract("B206")
@pytest.mark.parametrize("planner", PLANNERS)
def test_an_allocation_of_changing_extents_begins_as_it_is_stored(planner):
    f = lowered(
        NARROW + "pl.store(pl.adds(t, 1.0), [0, 0], o)\npl.store(pl.load(y, [0, 0], [8, 32], valid_shape=[8, m]), [0, 0], o)",
        planner,
    )
    for c in calls(f, "alloc"):
        assert (values(c.args[0]), c.type.valid_shape) == (list(c.type.physical_shape), (-1, -1))


@contract("B134", "B204")
@everywhere
def test_one_static_extent(planner, target):
    """Transfers are between the tensor and the allocation itself, whose extents are the transfer's, constant or not."""
    f = by_hand(
        "t = pl.load(x, [0, 0], [16, 64], valid_shape=[16, m])\npl.store(pl.add(t, t), [0, 0], o)",
        planner,
        target,
        ((0, 0), (0, 5), (0, 64)),
        chosen=True,
    )
    assert [n for n in operations(f) if n != "alloc"] == ["set_validshape", "set_validshape", "load", "add", "store"]
    assert {c.type.valid_shape for c in calls(f, "alloc")} == {(-1, -1)}
    (read,), (write,) = calls(f, "load"), calls(f, "store")
    told = {c.args[0]: c.args[1] for c in calls(f, "set_validshape")}
    for handle, extents in ((read.args[3], read.args[2]), (write.args[0], write.args[2])):
        assert definition(f, handle).op.name == "buffer.alloc"
        assert values(extents) == values(told[handle])
        assert values(extents)[0] == 16


@contract("B205")
@everywhere
def test_the_empty_pair_makes_both_extents_dynamic(planner, target):
    f = by_hand(
        LOADS + "a = pl.set_validshape(t, 0, 0)\nb = pl.set_validshape(a, 8, 64)\nr = pl.adds(b, 1.0)" + STORE, planner, target
    )
    (read, _) = calls(f, "load")
    assert definition(f, root(f, read.args[3])).type.valid_shape == (-1, -1)
    assert [values(c.args[1]) for c in calls(f, "set_validshape") if c.args[0] is root(f, read.args[3])][:3] == [
        [16, 64],
        [0, 0],
        [8, 64],
    ]


@contract("B208", "B209")
@everywhere
def test_setters_update_the_shared_handle(planner, target):
    body = "t = pl.load(x, [0, 0], [16, 64])\nu = pl.set_validshape(t, n, m)\npl.store(pl.adds(u, 1.0), [0, 0], o)"
    f = by_hand(body, planner, target, ((0, 5), (16, 64), (3, 7)), chosen=True)
    assert operations(f).count("set_validshape") == 3
    (read,), first, second = calls(f, "load"), *calls(f, "set_validshape")[:2]
    assert root(f, read.args[3]) is first.args[0] is second.args[0]
    assert values(first.args[1]) == [16, 64]
    assert [v.name_hint for v in values(second.args[1])] == ["n", "m"]


@contract("B209")
@pytest.mark.parametrize("planner", PLANNERS)
def test_tiles_that_differ_in_valid_extents_alone_are_one_handle(planner):
    setters = "a = pl.set_validshape(t, n, 64)\npl.store(a, [0, 0], o)\nb = pl.set_validshape(a, 8, m)\npl.store(b, [0, 0], o)"
    f = lowered(LOAD + setters, planner, ((0, 0), (16, 64), (3, 7)))
    assert operations(f).count("alloc") == 1
    assert {c.args[0] for c in calls(f, "set_validshape")} == {h for h in handles(f) if root(f, h) is h}


@contract("B135", "B139", "B141", "B142")
@pytest.mark.parametrize("planner", PLANNERS)
def test_windows_keep_each_extent_as_it_is_and_stay_inside_of_their_guards(planner):
    body = NARROW + "w = pl.slice(t, [8, 64], [0, 0])\npl.store(pl.adds(w, 1.0), [0, 0], o)\n"
    body += "pl.store(pl.load(y, [0, 0], [4, 64]), [12, 0], o)\npl.store(pl.muls(w, 2.0), [8, 0], o)"
    f = lowered(body, planner, trips=((0, 0), (3, 0), (5, 0), (8, 0)))
    guards = [s for s in statements(f.body) if isinstance(s, IfStmt)]
    assert len(guards) > 1  # between the uses of the window stands what has nothing to do with it
    inside = [{s.var for s in statements(g.then_body) if isinstance(s, AssignStmt)} for g in guards]
    cuts = {s.var for s in statements(f.body) if isinstance(s, AssignStmt) and names([s]) == ["subview"]}
    dynamic = {v for v in cuts if -1 in v.type.valid_shape}
    assert {v.type.valid_shape for v in dynamic} == {(-1, 64)}
    assert dynamic <= set().union(*inside)  # none is made where nothing is valid
    for g, own in zip(guards, inside, strict=True):
        seen = {e for s in statements(f.body) if s not in set(statements(g.then_body)) for e in operands(s)}
        assert not own & seen  # nothing outside sees what a guard made
        assert not g.return_vars


def operands(s: Stmt) -> tuple[Expr, ...]:
    e = s.value if isinstance(s, AssignStmt) else s.expr if isinstance(s, EvalStmt) else None
    return e.args if isinstance(e, Call) else ()


@contract("B212")
@pytest.mark.parametrize("planner", PLANNERS)
def test_operands_that_describe_their_extents_differently_are_bridged(planner):
    body = (
        NARROW
        + "w = pl.slice(t, [8, 64], [4, 0])\na = pl.load(y, [0, 0], [8, 64], valid_shape=[8, 64])\nr = pl.mul(w, pl.adds(w, 1.0))"
        + STORE
    )
    f = lowered(body, planner, ((0, 0), (4, 0), (5, 0), (16, 0)))
    (mul,) = calls(f, "mul")
    assert {e.type.valid_shape for e in mul.args} == {(-1, 64)}
    bridges = [definition(f, e) for e in mul.args[1:]]
    assert {tuple(values(c.args[1])) for c in bridges} == {(0, 0)}
    assert {c.args[0].type.valid_shape for c in bridges} == {(-1, -1)}
    assert "copy" not in operations(f)
    assert {c.args[0] for c in calls(f, "set_validshape")} <= {h for h in handles(f) if root(f, h) is h}


@contract("B213")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("planner", PLANNERS)
def test_the_source_of_an_assemble_is_bridged(planner, target):
    body = LOAD + "a = pl.load(y, [0, 0], [8, 64], valid_shape=[n, 64])\nr = pl.assemble(t, a, [m, 0])" + STORE
    f = by_hand(body, planner, target, ((0, 0), (1, 5), (8, 8)), chosen=True)
    (copy,) = calls(f, "copy")
    source, window = (definition(f, e) for e in copy.args)
    assert {e.type.valid_shape for e in copy.args} == {(-1, 64)}
    assert (values(source.args[1]), source.args[0].type.valid_shape) == ([0, 0], (-1, -1))
    assert window.args[0].type == buffer(16, 64)


@contract("B143")
@pytest.mark.parametrize("planner", PLANNERS)
def test_widening_the_extents_writes_nothing(planner):
    body = (
        LOAD + "a = pl.set_validshape(t, n, 64)\npl.store(a, [0, 0], o)\nb = pl.set_validshape(a, 16, m)\npl.store(b, [0, 0], o)"
    )
    f = lowered(body, planner, ((0, 0), (3, 64), (3, 7), (16, 64)))
    assert [n for n in operations(f) if n not in ("alloc", "subview", "set_validshape")] == ["load", "store", "store"]


@contract("B126", "B239")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    ("setters", "used"),
    [
        ("a = pl.set_validshape(t, n, 64)", "t"),
        ("a = pl.set_validshape(t, n, 64)\nb = pl.set_validshape(t, m, 64)", "a"),
        ("a = pl.set_validshape(t, n, 64)\nb = pl.set_validshape(t, m, 64)", "pl.exp(a)"),
        ("a = pl.set_validshape(t, n, 64)\nb = pl.set_validshape(t, m, 64)", "pl.add(b, pl.exp(b))"),
    ],
)
def test_passes_by_hand_do_not_use_former_extents(planner, setters, used):
    """Nothing was selected, so nobody asked before; one handle has one pair of extents, that it was told last."""
    body = LOAD + setters + f"\npl.store({used}, [0, 0], o)\npl.store(a, [0, 0], o)"
    with pytest.raises(VerificationError, match=r"other extents than those that '.*' was told"):
        by_hand(body, planner, chosen=True)


@contract("B140")
def test_what_is_known_to_be_empty_is_not_built():
    empty = "t = pl.load(x, [0, 0], [16, 64], valid_shape=[0, 0])\npl.store(t, [0, 0], o)\n"
    f = lowered(empty + "pl.store(pl.load(y, [0, 0], [8, 64]), [8, 0], o)")
    assert operations(f).count("load") == operations(f).count("store") == 1
