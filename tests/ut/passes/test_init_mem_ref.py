"""Every tile gets a place."""

import pytest
from back_lab import kernel_of, named, raw_kernel, scope, through
from pass_lab import same

from pypto.enums import MemoryPlanner
from pypto.errors import CompileError, NotSupportedError
from pypto.ir.expr import Call, ConstInt
from pypto.ir.rewrite import walk
from pypto.passes.context import PassOptions
from pypto.passes.init_mem_ref import init_mem_ref

X = "x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]]"
LOAD = "t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\n"


def placed(body: str, **options):
    made = init_mem_ref.run(raw_kernel(body, X), PassOptions(**options))
    assert init_mem_ref.run(made, PassOptions(**options)) is made
    return kernel_of(made)


def place(f, name: str) -> tuple[str, int, int]:
    m = named(f, name).type.memref
    assert isinstance(m.byte_offset_, ConstInt)
    return m.base_.name_hint, m.byte_offset_.value, m.size_


def test_producers_have_allocations_of_their_own_at_the_top():
    made = init_mem_ref.run(raw_kernel(LOAD + "u = pl.tile.add(t, t)", X), PassOptions())
    after = """
        mem_vec_0: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        mem_vec_1: pl.Ptr = pl.tile.alloc(pl.const(4096, pl.INT64), memory_space=pl.Mem.Vec)
        t: pl.Tile[[16, 64], pl.FP32, pl.MemRef(mem_vec_0, 0, 4096), pl.Mem.Vec] = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)
        u: pl.Tile[[16, 64], pl.FP32, pl.MemRef(mem_vec_1, 0, 4096), pl.Mem.Vec] = pl.tile.add(t, t)
        """  # noqa: E501
    same(made, raw_kernel(after, X))


def test_views_lie_in_their_operand():
    f = placed(
        LOAD
        + """
w = pl.tile.slice(t, [8, 16], [4, 16])
v = pl.tile.slice(w, [4, 8], [2, 8])
d = pl.tile.slice(t, [8, 16], [n, 16])
e = pl.tile.slice(d, [4, 8], [0, 8])
r = pl.tile.reshape(t, [32, 32])
q = pl.tile.slice(r, [2, 32], [4, 0])
p = pl.tile.set_validshape(w, 3, 5)
"""
    )
    at = (4 * 64 + 16) * 4
    assert place(f, "w") == ("mem_vec_0", at, (7 * 64 + 16) * 4)
    assert place(f, "v") == ("mem_vec_0", at + (2 * 64 + 8) * 4, (3 * 64 + 8) * 4)
    assert place(f, "d") == place(f, "e") == place(f, "t") == place(f, "r")
    assert place(f, "q") == ("mem_vec_0", 4 * 32 * 4, 2 * 32 * 4)
    assert place(f, "p") == place(f, "w")


def test_columns_of_column_vectors():
    f = placed("c = pl.tile.load(x, [0, 0], [64, 1], [64, 1], target_memory=pl.Mem.Vec)\nw = pl.tile.slice(c, [8, 1], [16, 0])")
    assert place(f, "w") == ("mem_vec_0", 64, 32)


def test_what_replaces_an_operand_shares_its_place():
    f = placed(
        LOAD
        + """
u = pl.tile.muls(t, 2.0)
a = pl.tile.assemble(t, u, [0, 0])
b = pl.tile.write(a, [0, 0], 1.0)
for i, (c,) in pl.range(3, init_values=(b,)):
    d = pl.tile.adds(c, 1.0)
    r = pl.yield_(d)
"""
    )
    assert place(f, "t") == place(f, "a") == place(f, "b")
    (loop,) = [s for s in walk(f.body) if type(s).__name__ == "ForStmt"]
    assert loop.iter_args[0].type.memref.base_ is named(f, "t").type.memref.base_
    assert loop.return_vars[0].type.memref.base_ is named(f, "d").type.memref.base_


def declared(body: str):
    """Tiles bound to declared memory, read as a person writes it."""
    return through(scope(body, X), "init_mem_ref")


def test_declared_memory_is_one_pinned_allocation_of_the_largest_tile():
    f = kernel_of(
        declared(
            """
            buf = pl.MemRef("buf")
            t: pl.Tile[[16, 64], pl.FP32, buf, pl.Mem.Vec] = pl.load(x, [0, 0], [16, 64])
            pl.store(t, [0, 0], o)
            u: pl.Tile[[8, 64], pl.FP32, buf, pl.Mem.Vec] = pl.load(x, [0, 0], [8, 64])
            pl.store(u, [0, 0], o)
            """
        )
    )
    assert place(f, "t") == ("buf", 0, 4096)
    assert place(f, "u") == ("buf", 0, 2048)
    allocs = [n for n in walk(f.body) if isinstance(n, Call) and n.op.name == "tile.alloc"]
    assert [(a.args[0].value, a.kwargs.get("pinned")) for a in allocs] == [(4096, True)]


def test_a_view_cannot_be_put_into_declared_memory():
    with pytest.raises(CompileError, match="lies in its operand"):
        declared(
            """
            buf = pl.MemRef("buf")
            t = pl.load(x, [0, 0], [16, 64])
            u: pl.Tile[[8, 64], pl.FP32, buf, pl.Mem.Vec] = pl.slice(t, [8, 64], [0, 0])
            pl.store(u, [0, 0], o)
            """
        )


def test_slots_need_addresses():
    text = """
        buf = pl.MemRef("buf", slots=2)
        t: pl.Tile[[16, 64], pl.FP32, buf[1], pl.Mem.Vec] = pl.load(x, [0, 0], [16, 64])
        pl.store(t, [0, 0], o)
        """
    f = kernel_of(declared(text))
    assert place(f, "t") == ("buf", 4096, 4096)
    with pytest.raises(NotSupportedError, match="slots"):
        through(scope(text, X), "init_mem_ref", MemoryPlanner.PTOAS)


def test_a_tile_larger_than_its_memory_is_refused_at_its_line():
    with pytest.raises(CompileError, match=r"Vec buffer usage \(262144 bytes\) exceeds platform limit \(188416 bytes\)") as e:
        through(
            scope(
                "t = pl.tile.full([1024, 64], dtype=pl.FP32, value=0.0)\npl.store(t, [0, 0], o)", X.replace("64, 64", "1024, 64")
            ),
            "init_mem_ref",
        )
    assert "kernel 'main_incore_0'" in e.value.message
    assert "'t'" in e.value.message
    assert e.value.span["line"] == 5


@pytest.mark.parametrize(
    ("body", "words", "legal"),
    [
        ("t = pl.load(x, [0, 0], [16, 3])\npl.store(t, [0, 0], o)", "rows of 12 bytes", "[16, 8]"),
        ("t = pl.load(x, [0, 0], [5, 1])\npl.store(t, [0, 0], o)", "columns of 20 bytes", "[8, 1]"),
        (
            "t = pl.cast(pl.load(x, [0, 0], [16, 8]), pl.FP16)\npl.store(pl.cast(t, pl.FP32), [0, 0], o)",
            "rows of 16 bytes",
            "[16, 16]",
        ),
    ],
)
def test_lines_are_whole_blocks_and_the_next_legal_extent_is_named(body, words, legal):
    with pytest.raises(CompileError, match=words) as e:
        through(scope(body, X), "init_mem_ref")
    assert legal in e.value.hint
    assert e.value.span["line"] == 5
    assert e.value.code == "C051"


def test_windows_keep_the_lines_of_what_they_are_cut_from():
    through(scope("t = pl.load(x, [0, 0], [16, 64])\npl.store(pl.slice(t, [16, 3], [0, 8]), [0, 0], o)", X), "init_mem_ref")
