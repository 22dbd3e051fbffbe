"""Storage of joined values: where it must be one, where it must be apart."""

import textwrap

import pytest
from judge_lab import alloc, kernel, kernel_program, load, tile

from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import judge_of
from pypto.ir.verify.tile_storage import check_storage

X = "x: pl.Tensor[[16, 16], pl.FP32], n: pl.Scalar[pl.INDEX]"
T, U = load("t", "m", 0), load("u", "q", 0)


def messages(body: str, physical: bool = False) -> list[str]:
    """Findings about a kernel over three allocations."""
    found = check_storage(kernel(alloc("m", "q", "z") + textwrap.dedent(body), X), physical)
    assert all("kernel 'k'" in d.message for d in found)
    return [d.message for d in found]


def loop(carries: str, values: str, body: str, results: str) -> str:
    inner = textwrap.indent(body, "    ")
    return T + U + f"for i, ({carries},) in pl.range(n, init_values=({values},)):\n{inner}    {results}\n"


def scaled(name: str, source: str, base: str, offset: int = 0) -> str:
    return f"{name}: {tile(base, offset)} = pl.tile.muls({source}, 2.0)\n"


def test_one_place_per_carry():
    assert messages(loop("c", "t", scaled("d", "c", "m"), "r = pl.yield_(d)")) == []
    both = loop("a, b", "t, u", scaled("d", "a", "m") + scaled("e", "b", "q"), "r, s = pl.yield_(d, e)")
    assert messages(both) == []


@pytest.mark.parametrize(("base", "offset"), [("z", 0), ("m", 32)])
def test_a_carry_that_moves(base, offset):
    (m,) = messages(loop("c", "t", scaled("d", "c", base, offset), "r = pl.yield_(d)"))
    assert "initial value, carry, yielded value and result of 'c' must share canonical storage" in m


def test_swapped_carries():
    found = messages(loop("a, b", "t, u", "", "r, s = pl.yield_(b, a)"))
    assert ["'a'" in m or "'b'" in m for m in found] == [True, True]


@pytest.mark.parametrize(("base", "offset", "count"), [("m", 0, 1), ("m", 512, 1), ("m", 1024, 0)])
def test_carries_of_one_loop_lie_apart(base, offset, count):
    second = load("u", base, offset)
    text = loop("a, b", "t, u", scaled("d", "a", "m") + scaled("e", "b", base, offset), "r, s = pl.yield_(d, e)").replace(
        U, second
    )
    found = messages(text)
    assert len(found) == count
    assert all("carries 'a' and 'b': their windows overlap" in m for m in found)


def test_carries_at_run_time_offsets():
    text = loop("a, b", "t, u", scaled("d", "a", "m") + scaled("e", "b", "m"), "r, s = pl.yield_(d, e)").replace(
        U, load("u", "m", 0)
    )
    text = text.replace("u: pl.Tile[[16, 16], pl.FP32, pl.MemRef(m, 0,", "u: pl.Tile[[16, 16], pl.FP32, pl.MemRef(m, n,")
    text = text.replace("e: pl.Tile[[16, 16], pl.FP32, pl.MemRef(m, 0,", "e: pl.Tile[[16, 16], pl.FP32, pl.MemRef(m, n,")
    assert any("unprovable symbolic overlap of carries 'a' and 'b'" in m for m in messages(text)), messages(text)


def branch(then: str, other: str, result: str) -> str:
    arms = f"if n > 0:\n    r: {result}\n" + textwrap.indent(then, "    ") + "else:\n" + textwrap.indent(other, "    ")
    return T + U + arms


def test_branch_results_have_one_place():
    here, there = scaled("d", "t", "z") + "r = pl.yield_(d)\n", scaled("e", "u", "z") + "r = pl.yield_(e)\n"
    assert messages(branch(here, there, tile("z", 0))) == []
    elsewhere = there.replace("z, 0", "q, 0")
    (m,) = messages(branch(here, elsewhere, tile("z", 0)))
    assert "Every tile branch arm must yield its declared storage: 'r'" in m
    assert len(messages(branch(here, there, tile("m", 0)))) == 2


def test_findings_of_nested_control_flow():
    inner = branch(scaled("d", "t", "z") + "r = pl.yield_(d)\n", scaled("e", "u", "m") + "r = pl.yield_(e)\n", tile("z", 0))
    nested = T + U + "for i in pl.range(n):\n" + textwrap.indent(inner.replace(T + U, ""), "    ")
    assert len(messages(nested)) == 1


def test_tiles_without_places():
    (m,) = messages("t = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)")
    assert "tile 't' must have a MemRef and memory space" in m


def test_addresses_are_compared_by_bytes():
    # two allocations, one address: apart as allocations, together as bytes
    both = loop("a, b", "t, u", scaled("d", "a", "m") + scaled("e", "b", "q"), "r, s = pl.yield_(d, e)")
    assert messages(both, physical=False) == []
    assert any("their windows overlap" in m for m in messages(both, physical=True))
    moved = loop("c", "t", scaled("d", "c", "q"), "r = pl.yield_(d)")
    assert messages(moved, physical=False) != []
    assert messages(moved, physical=True) == []


@pytest.mark.parametrize(("offset", "count"), [(0, 0), (32, 1), (1024, 0)])
def test_moves_cover_their_source_or_nothing(offset, count):
    body = T + f"w: {tile('m', offset)} = pl.tile.move(t, target_memory=pl.Mem.Vec)\n"
    found = messages(body, physical=True)
    assert len(found) == count
    assert all("the move to 'w' overlaps its source in part" in m for m in found)
    assert messages(body, physical=False) == []


def test_negative_addresses():
    text = load("t", "m", -64)
    (m,) = messages(text, physical=True)
    assert "negative address -64" in m


def test_the_properties_ask_the_two_questions():
    both = alloc("m", "q", "z") + loop("a, b", "t, u", scaled("d", "a", "m") + scaled("e", "b", "q"), "r, s = pl.yield_(d, e)")
    p = kernel_program(both, X)
    assert list(judge_of(IRProperty.TileStorageLegalized)(p)) == []
    assert len(list(judge_of(IRProperty.TileStorageAllocated)(p))) == 1
