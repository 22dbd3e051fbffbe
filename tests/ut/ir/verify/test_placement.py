"""Tiles on bytes that another tile still needs are found, and nothing else."""

import textwrap

import pytest
from judge_lab import alloc, kernel, kernel_program, load, tile

from pypto.dtypes import DataType
from pypto.enums import MemoryPlanner
from pypto.frontend import parse
from pypto.ir.expr import ConstInt, IterArg, Var
from pypto.ir.program import Function, Program
from pypto.ir.rewrite import Mutator, defined_vars
from pypto.ir.shaped import TileType
from pypto.ir.verify.placement import allocated_memory_addr, check_placement, overlapping_tiles
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

X = "x: pl.Tensor[[16, 16], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[64, 16], pl.FP32]]"
O = "pl.Tensor[[64, 16], pl.FP32]"  # noqa: E741


def store(name: str, to: str = "o") -> str:
    return f"s_{name}: {O} = pl.tile.store({name}, [0, 0], {to})\n"


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def found(body: str, addressed: bool = False) -> set[tuple[str, str]]:
    overlaps = overlapping_tiles(kernel(alloc("m", "q", size=4096) + body, X), addressed)
    return {(o.needed.name_hint, o.written.name_hint) for o in overlaps}


T, U = load("t", "m", 0), load("u", "m", 0)


def add(name: str, a: str, b: str, base: str, offset: int) -> str:
    return f"{name}: {tile(base, offset)} = pl.tile.add({a}, {b})\n"


STRAIGHT = {
    "the first is read again": (T + U + store("t") + store("u"), {("t", "u")}),
    "one byte block of it is enough": (T + load("u", "m", 992) + store("t") + store("u"), {("t", "u")}),
    "the next byte is free": (T + load("u", "m", 1024) + store("t") + store("u"), set()),
    "the first is read no more": (T + store("t") + U + store("u"), set()),
    "other allocations are other bytes": (T + load("u", "q", 0) + store("t") + store("u"), set()),
    "a sum over what it reads": (T + add("u", "t", "t", "m", 0) + store("u"), set()),
    "a sum over what is read again": (T + add("u", "t", "t", "m", 0) + store("u") + store("t"), {("t", "u")}),
    "a sum beside what it reads": (T + add("u", "t", "t", "m", 32) + store("u"), {("t", "u")}),
    "a reciprocal over what it reads": (T + f"u: {tile('m', 0)} = pl.tile.recip(t)\n" + store("u"), {("t", "u")}),
    "a slice keeps its whole": (
        T + f"w: {tile('m', 256, '[4, 16]', size=256)} = pl.tile.slice(t, [4, 16], [4, 0])\n" + U + store("w") + store("u"),
        {("w", "u")},
    ),
    "beside the slice the whole is free": (
        T
        + f"w: {tile('m', 256, '[4, 16]', size=256)} = pl.tile.slice(t, [4, 16], [4, 0])\n"
        + load("u", "m", 512)
        + store("w")
        + store("u"),
        set(),
    ),
    "another shape is the same bytes": (
        T
        + f"w: {tile('m', 0, '[8, 32]')} = pl.tile.reshape(t, [8, 32])\n"
        + U
        + f"v: {tile('q', 0, '[8, 32]')} = pl.tile.muls(w, 2.0)\n"
        + store("u"),
        {("w", "u")},
    ),
    "a conversion to wider elements": (
        f"t: {tile('m', 0, dtype='FP16', size=512)} = pl.tile.full([16, 16], pl.const(1.0, pl.FP16), dtype=pl.FP16)\n"
        f"u: {tile('m', 0)} = pl.tile.cast(t, target_type=pl.FP32)\n" + store("u"),
        {("t", "u")},
    ),
    "a conversion to narrower elements": (
        T + f"u: {tile('m', 0, dtype='FP16', size=512)} = pl.tile.cast(t, target_type=pl.FP16)\n"
        f"v: {tile('q', 0)} = pl.tile.cast(u, target_type=pl.FP32)\n" + store("v"),
        set(),
    ),
    "an insertion into what is read again": (
        T + load("w", "q", 0) + f"u: {tile('m', 0)} = pl.tile.assemble(t, w, [0, 0])\n" + store("u") + store("t"),
        {("t", "u")},
    ),
    "an insertion into what is read no more": (
        T + load("w", "q", 0) + f"u: {tile('m', 0)} = pl.tile.assemble(t, w, [0, 0])\n" + store("u"),
        set(),
    ),
}


@pytest.mark.parametrize(("body", "pairs"), STRAIGHT.values(), ids=list(STRAIGHT))
def test_one_statement_after_another(body, pairs):
    assert found(body) == pairs


def test_scratch_is_written():
    reduction = "u: pl.Tile[[16, 1], pl.FP32, pl.MemRef(q, 0, 64), pl.Mem.Vec] = pl.tile.row_sum(t, w)\n"
    made = f"w: {tile('m', 512)} = pl.tile.create([16, 16], dtype=pl.FP32, target_memory=pl.Mem.Vec)\n"
    apart = made.replace("m, 512", "m, 1024")
    assert ("t", "w") in found(T + made + reduction + store("t"))
    assert found(T + apart + reduction + store("t")) == set()


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        # read in the next iteration
        (T + "for i in pl.range(n):\n" + indented(store("t") + U), {("t", "u")}),
        (T + "for i in pl.range(n):\n" + indented(add("u", "t", "t", "q", 0) + load("v", "q", 0) + store("v")), set()),
        # read on one side only, or after both
        (T + "if n > 0:\n" + indented(U + store("u")) + "else:\n" + indented(store("t")), set()),
        (T + "if n > 0:\n" + indented(U + store("u")) + store("t"), {("t", "u")}),
        # read after the loop
        (T + "for i in pl.range(n):\n" + indented(U + store("u")) + store("t"), {("t", "u")}),
        (T + "for i in pl.range(n):\n" + indented("if i > 0:\n" + indented(store("t")) + U + store("u")), {("t", "u")}),
    ],
)
def test_control_flow(body, pairs):
    assert found(body) == pairs


SAME = f"if n > 0:\n    r: {tile('m', 0)} = pl.yield_(t)\nelse:\n    r = pl.yield_(t)\n"
OTHER = f"{U}if n > 0:\n    r: {tile('m', 0)} = pl.yield_(t)\nelse:\n    r = pl.yield_(u)\n".replace("(m", "(q", 1)
KEPT = f"for i, (c,) in pl.range(n, init_values=(t,)):\n    v: {tile('q', 0)} = pl.tile.muls(c, 2.0)\n    r = pl.yield_(c)\n"


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        # a join of one value is that value, another one is not
        (T + SAME + store("t") + store("r"), set()),
        (T + OTHER + store("t") + store("r"), {("t", "r")}),
        (T + OTHER + store("r"), set()),
        # so is what every iteration hands on
        (T + KEPT + store("t") + store("r"), set()),
        (T + KEPT.replace("yield_(c)", "yield_(v)") + store("t") + store("r"), {("t", "c")}),
        (
            T + KEPT.replace("yield_(c)", "yield_(v)").replace("muls(c", "add(c, t").replace(", 2.0", "") + store("r"),
            {("t", "c")},
        ),
        # what nobody reads does no harm
        (T + OTHER + store("t"), set()),
    ],
)
def test_joins(body, pairs):
    assert found(body) == pairs


def test_addresses_and_offsets_are_different_questions():
    body = T + load("u", "q", 0) + store("t") + store("u")
    assert found(body, addressed=False) == set()
    assert found(body, addressed=True) == {("t", "u")}


def test_memories_do_not_meet():
    other = f"u: {tile('z', 0, space='Mat')} = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Mat)\n"
    f = kernel(alloc("m") + alloc("z", space="Mat") + T + other + store("t") + store("u"), X)
    assert overlapping_tiles(f, addressed=True) == []


def test_the_report_says_where():
    (d,) = check_placement(kernel_program(alloc("m") + T + load("u", "m", 32) + store("t") + store("u"), X), addressed=True)
    for part in ("kernel 'k'", "'t'", "'u'", "Vec", "[0, 1024)", "[32, 1056)", "tile.load"):
        assert part in d.message
    assert d.span.begin_line == 9


def test_every_tile_has_an_address():
    assert allocated_memory_addr(kernel_program(alloc("m") + T, X)) == []
    (d,) = allocated_memory_addr(kernel_program("t = pl.tile.load(x, [0, 0], [16, 16], [16, 16], target_memory=pl.Mem.Vec)", X))
    assert "'t' has no address" in d.message
    negative = T.replace("m, 0", "m, -32")
    assert len(allocated_memory_addr(kernel_program(alloc("m") + negative, X))) == 1


# -- places of a planner, and what happens when one is moved ---------------------------------------------------------

KERNEL = """
import pypto.language as pl

@pl.function(type=pl.FunctionType.InCore)
def main(x: pl.Tensor[[64, 16], pl.FP32], n: pl.Scalar[pl.INDEX], o: pl.Out[pl.Tensor[[64, 16], pl.FP32]]):
    a = pl.load(x, [0, 0], [16, 16])
    b = pl.load(x, [16, 0], [16, 16])
    c = pl.add(a, b)
    for i in pl.range(n):
        d = pl.mul(b, c)
        c = pl.add(d, a)
    w = pl.slice(b, [8, 16], [8, 0])
    if n > 2:
        e = pl.exp(a)
    else:
        e = pl.recip(c)
    pl.store(pl.add(e, b), [0, 0], o)
    pl.store(c, [16, 0], o)
    pl.store(w, [32, 0], o)
    return o
"""


class _Move(Mutator):
    """One tile, and all that is said of it, at another address."""

    def __init__(self, v: Var, address: int) -> None:
        super().__init__()
        self.moved, self.address = v, address

    def define(self, v: Var) -> Var:
        if v is not self.moved:
            return super().define(v)
        assert isinstance(v.type, TileType)
        assert v.type.memref is not None
        at = v.type.at(v.type.memref.replace(byte_offset_=ConstInt(self.address, DataType.INT64)))
        made = IterArg(v.name_hint, at, self.visit(v.initValue)) if isinstance(v, IterArg) else Var(v.name_hint, at)
        self.vars[v] = made
        return made


def planned(planner: MemoryPlanner) -> Program:
    program = parse(KERNEL)
    seen: dict[str, Program] = {}
    options = PassOptions(memory_planner=planner)
    lower(
        Program([program], "test") if isinstance(program, Function) else program,
        options,
        watch=lambda n, p, made: seen.setdefault(p.name, made),
    )
    return seen["AllocateMemoryAddr"]


def address(v: Var) -> int:
    assert isinstance(v.type, TileType)
    assert v.type.memref is not None
    assert isinstance(v.type.memref.byte_offset_, ConstInt)
    return v.type.memref.byte_offset_.value


@pytest.mark.parametrize("where", ["the same bytes", "the last 32 bytes", "the first 32 bytes"])
@pytest.mark.parametrize("planner", [MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP])
def test_tiles_moved_onto_live_ones_are_found(planner, where):
    p = planned(planner)
    assert check_placement(p, addressed=True) == []
    (f,) = p.function_list
    tiles = [v for v in defined_vars(f.body) if isinstance(v.type, TileType)]
    pairs = [
        ("a", "b"),
        ("b", "c"),
        ("b", "d"),
        ("a", "d"),
        ("b", "c__iter"),
        ("b", "c__rv"),
        ("b", "e"),
        ("c__rv", "e"),
        ("w", "e"),
    ]
    for pair in pairs:
        first, second = (next(v for v in tiles if v.name_hint.startswith(name)) for name in pair)
        shift = {"s": 0, "l": first.type.memref.size_ - 32, "f": 32 - second.type.memref.size_}[where[4]]
        to = address(first) + shift
        broken = p.with_functions([f.replace(body=_Move(second, to).body(f.body))])
        texts = [d.message for d in check_placement(broken, addressed=True)]
        ranges = [f"[{at}, {at + v.type.memref.size_})" for v, at in ((first, address(first)), (second, to))]
        wanted = (f"'{first.name_hint}'", f"'{second.name_hint}'", "Vec", *ranges)
        assert any(all(part in text for part in wanted) for text in texts), (pair, texts)
