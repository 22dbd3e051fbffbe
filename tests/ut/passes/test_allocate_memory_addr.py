"""Allocations get addresses."""

import pytest
from back_lab import kernel_of, named, scope, through

from pypto.enums import MemoryPlanner, MemorySpace
from pypto.errors import CompileError
from pypto.ir.expr import Call, ConstInt
from pypto.ir.rewrite import walk
from pypto.ir.shaped import TileType
from pypto.ir.verify.placement import overlapping_tiles
from pypto.passes.allocate_memory_addr import allocate_memory_addr
from pypto.passes.context import PassOptions
from pypto.passes.statements import definitions

X = "x: pl.Tensor[[1024, 64], pl.FP32], o: pl.Out[pl.Tensor[[1024, 64], pl.FP32]]"
ADDRESSED = [MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP]


def addressed(body: str, planner: MemoryPlanner):
    p = through(scope(body, X), "allocate_memory_addr", planner, buffers=False)
    f = kernel_of(p)
    assert overlapping_tiles(f, addressed=True) == []
    if planner is MemoryPlanner.PYPTO:
        assert allocate_memory_addr.run(p, PassOptions(memory_planner=planner)) is p
    return f


def address(f, name: str) -> int:
    offset = named(f, name).type.memref.byte_offset_
    assert isinstance(offset, ConstInt)
    return offset.value


TWO = """
a = pl.load(x, [0, 0], [16, 64])
b = pl.load(x, [16, 0], [16, 64])
w = pl.slice(b, [8, 64], [4, 0])
pl.store(pl.add(a, b), [0, 0], o)
pl.store(w, [16, 0], o)
"""


def test_one_after_the_other_and_views_with_them():
    f = addressed(TWO, MemoryPlanner.PYPTO)
    assert (address(f, "a"), address(f, "b"), address(f, "w")) == (0, 4096, 4096 + 4 * 256)
    sizes = [n.args[0].value for n in walk(f.body) if isinstance(n, Call) and n.op.name == "tile.alloc"]
    assert sizes == [4096, 4096]


@pytest.mark.parametrize("planner", ADDRESSED)
def test_addresses_are_whole_blocks_within_the_memory(planner):
    f = addressed(TWO + "\nd = pl.row_max(a, b)\npl.store(d, [32, 0], o)", planner)
    for v in definitions(f.body):
        if isinstance(v.type, TileType):
            m = v.type.memref
            assert m.byte_offset_.value % 32 == 0
            assert 0 <= m.byte_offset_.value <= 184 * 1024 - m.size_


FULL = "".join(f"t{i} = pl.load(x, [{64 * i}, 0], [{n}, 64])\n" for i, n in enumerate((256, 256, 128, 96)))


@pytest.mark.parametrize("planner", ADDRESSED)
def test_the_last_byte_of_the_memory_can_be_used(planner):
    stores = "".join(f"pl.store(t{i}, [0, 0], o)\n" for i in range(4))
    f = addressed(FULL + stores, planner)
    ends = [v.type.memref.byte_offset_.value + v.type.memref.size_ for v in definitions(f.body) if isinstance(v.type, TileType)]
    assert max(ends) == 184 * 1024


@pytest.mark.parametrize("planner", ADDRESSED)
def test_what_does_not_fit_is_refused_at_the_largest_tile(planner):
    body = "a = pl.load(x, [0, 0], [128, 64])\nb = pl.load(x, [0, 0], [512, 64])\nd = pl.load(x, [0, 0], [256, 64])\n"
    stores = "pl.store(b, [0, 0], o)\npl.store(d, [0, 0], o)\npl.store(a, [0, 0], o)"
    with pytest.raises(CompileError, match=r"Vec buffer usage \(229376 bytes\) exceeds platform limit \(188416 bytes\)") as e:
        addressed(body + stores, planner)
    assert "main_incore_0" in e.value.message
    assert e.value.span["line"] == 6
    if planner is MemoryPlanner.PYPTO:
        assert "'b' [512, 64] of fp32 131072 bytes" in e.value.note


def test_lifetimes_let_dsa_reuse_bytes():
    body = "a = pl.load(x, [0, 0], [512, 64])\npl.store(a, [0, 0], o)\nb = pl.load(x, [0, 0], [512, 64])\npl.store(b, [0, 0], o)"
    f = addressed(body, MemoryPlanner.DSA_RP)
    assert address(f, "a") == address(f, "b") == 0


def test_dsa_avoids_reuse_across_units_where_there_is_room():
    body = "a = pl.load(x, [0, 0], [16, 64])\npl.store(a, [0, 0], o)\nb = pl.load(x, [0, 0], [16, 64])\npl.store(b, [0, 0], o)"
    f = addressed(body, MemoryPlanner.DSA_RP)
    assert address(f, "a") != address(f, "b")


@pytest.mark.contract("B148")
def test_symbolic_allocations_have_no_address():
    f = kernel_of(through(scope(TWO, X), "materialize_semantic_aliases", MemoryPlanner.PTOAS, buffers=False))
    assert (address(f, "a"), address(f, "b")) == (0, 0)
    assert named(f, "a").type.memory_space is MemorySpace.Vec
