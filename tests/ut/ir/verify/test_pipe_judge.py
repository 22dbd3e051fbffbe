"""The judge of pipes: what is right passes, and each mistake has a code, the user's line and a remedy."""

from __future__ import annotations

import re

import pytest

import pypto.language as pl
from pypto.errors import VerificationError
from pypto.ir.program import Program
from pypto.ir.verify.pipe_ends import C2V, V2C, Channel, pipe_use, slots_of
from pypto.ir.verify.pipes import pipes_valid
from pypto.ir.verify.properties import Diagnostic
from pypto.passes.pipeline import lower

A = "pl.Tensor[[16, 32], pl.FP32]"
B = "pl.Tensor[[32, 64], pl.FP32]"
O = "pl.Out[pl.Tensor[[16, 64], pl.FP32]]"  # noqa: E741
TEXT = f"""
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, b: {B}, n: pl.Scalar[pl.INDEX]):
        there = pl.import_peer_buffer(name="c2v", peer_func="vec")
        here = pl.reserve_buffer(name="v2c", size=12288)
        pl.aic_initialize_pipe(there, here, dir_mask=3, slot_size=4096)
        y = pl.load(b, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        r = pl.move(y, target_memory=pl.Mem.Right)
        for i in pl.range(4):
            x = pl.tpop_from_aiv(shape=[16, 32], dtype=pl.FP32, split=1)
            c = pl.matmul(pl.move(x, target_memory=pl.Mem.Left), r)
            pl.tfree_to_aiv(x)
            pl.tpush_to_aiv(c, split=2)

    @pl.function(type=pl.FunctionType.AIV)
    def vec(self, a: {A}, n: pl.Scalar[pl.INDEX], o: {O}):
        here = pl.reserve_buffer(name="c2v", size=8192)
        there = pl.import_peer_buffer(name="v2c", peer_func="cube")
        pl.aiv_initialize_pipe(here, there, dir_mask=3, slot_size=4096)
        lane = pl.get_subblock_idx()
        x = pl.load(a, [lane * 8, 0], [8, 32])
        for i in pl.range(4):
            pl.tpush_to_aic(x, split=1)
            t = pl.tpop_from_aic(shape=[16, 32], dtype=pl.FP32, split=2)
            pl.store(t, [0, lane * 32], o)
            pl.tfree_to_aic(t)

    @pl.function(type=pl.FunctionType.Group)
    def both(self, a: {A}, b: {B}, n: pl.Scalar[pl.INDEX], o: {O}):
        self.cube(b, n)
        self.vec(a, n, o)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: {A}, b: {B}, n: pl.Scalar[pl.INDEX], o: {O}):
        self.both(a, b, n, o)
"""


def found(text: str) -> list[Diagnostic]:
    p = pl.parse_program(text)
    assert isinstance(p, Program)
    return list(pipes_valid(p))


def test_what_is_right_passes() -> None:
    assert found(TEXT) == []
    lower(pl.parse_program(TEXT))


def test_what_a_function_does_with_pipes() -> None:
    p = pl.parse_program(TEXT)
    cube, vec = (pipe_use(p.get_function(n)) for n in ("cube", "vec"))
    assert cube is not None
    assert vec is not None
    assert (cube.lanes, vec.lanes, cube.core, vec.core) == (1, 2, "aic", "aiv")
    assert [(t.kind, t.channel, t.split) for t in cube.transfers] == [
        ("pop", Channel(V2C, 0), 1),
        ("free", Channel(V2C, 0), 0),
        ("push", Channel(C2V, 0), 2),
    ]
    assert slots_of((cube, vec)) == {Channel(C2V, 0): 2, Channel(V2C, 0): 3}
    assert pipe_use(p.get_function("main")) is None


def test_names_that_are_given_again_are_other_tiles() -> None:
    again = """            pl.tfree_to_aic(t)
            t = pl.tpop_from_aic(shape=[16, 32], dtype=pl.FP32, split=2)
            pl.store(t, [0, lane * 32], o)
            pl.tfree_to_aic(t)
"""
    push = "pl.tpush_to_aiv(c, split=2)"
    text = TEXT.replace("            pl.tfree_to_aic(t)\n", again)
    assert found(text.replace(push, f"{push}\n{DEEP}{push}")) == []


DEEP = " " * 12
PUSH = "pl.tpush_to_aic(x, split=1)"
POP = "t = pl.tpop_from_aic(shape=[16, 32], dtype=pl.FP32, split=2)"
FREE = "pl.tfree_to_aic(t)"
STORE = "pl.store(t, [0, lane * 32], o)"
AIV = "pl.aiv_initialize_pipe(here, there, dir_mask=3, slot_size=4096)"
LOOP = "pl.load(a, [lane * 8, 0], [8, 32])\n        for i in pl.range(4)"
CUBE, VEC = "self.cube(b, n)", "self.vec(a, n, o)"
SLOT = "slot_size=4096"
# What is changed into what; the code of the finding, what stands in the line that it points to, and what it says.
WRONG: list[tuple[str, str, int, str, str]] = [
    ("type=pl.FunctionType.AIV", "type=pl.FunctionType.InCore", 650, "reserve_buffer", "a function of neither core"),
    (PUSH, f"{PUSH}\n{DEEP}pl.tfree_to_aiv(x)", 650, "tfree_to_aiv(x)", "no function of kind AIC"),
    (AIV, "pass", 651, PUSH, "pipe 0 from vector to cube is not opened in 'vec'"),
    (AIV, f"{AIV}\n        {AIV}", 651, AIV, "pipe 0 is opened twice"),
    (AIV, f"if n > 0:\n{DEEP}{AIV}", 651, AIV, "inside of a loop or a branch"),
    (AIV, AIV.replace("here, there", "there, there"), 652, "aiv_initialize", "'vec' pops from it and reserves no buffer"),
    (AIV, AIV.replace("here, there", "here, here"), 652, "aiv_initialize", "does not say whose buffer that is"),
    ('name="c2v", size=8192', 'name="c2v", size=2048', 652, "reserve_buffer", "has no room for a slot of 4096"),
    (POP, POP.replace("split=2", "split=0"), 653, "tpop_from_aic", "some tiles in halves and others whole"),
    (f"{DEEP}{FREE}\n", "", 654, "tpop_from_aic", "the slot of 't' is never freed"),
    (FREE, "pl.tfree_to_aic(x)", 654, "tfree_to_aic(x)", "takes the very tile that a pop gave"),
    (FREE, "pl.tfree_to_aic(t, split=1)", 654, "tfree_to_aic(t", "and is freed otherwise"),
    (FREE, f"{FREE}\n{DEEP}{FREE}", 654, FREE, "'t' is freed twice"),
    (STORE, f"{FREE}\n{DEEP}{STORE}", 655, STORE, "used when its slot is free again"),
    (f"        {VEC}\n", f"        for i in pl.range(2):\n{DEEP}{VEC}\n", 656, VEC, "does not run beside it"),
    ("self.both(a, b, n, o)\n", f"{VEC}\n", 656, VEC, "does not run beside it"),
    (f"        {VEC}\n", f"        {VEC}\n        {CUBE}\n", 656, CUBE, "started twice"),
    (f"        {CUBE}\n", "", 657, AIV, "no function beside it has the other"),
    (AIV, AIV.replace("4096", "8192"), 657, "initialize_pipe", "slot_size=8192 in 'vec'"),
    ('peer_func="vec"', 'peer_func="other"', 657, "import_peer_buffer", "names another buffer"),
    (SLOT, "slot_size=1024", 657, "tpop_from_ai", "has 2048 bytes, and a slot of pipe 0 has 1024"),
    (POP, POP.replace("32]", "16]"), 658, "tpop_from_aic", r"pops a tile \[16, 16\] of fp32, split=2, which nobody pushes"),
    ("pl.tpush_to_aiv(c, split=2)", "pl.tpush_to_aiv(c, split=1)", 658, "tpush_to_aiv", "which nobody pops"),
    (LOOP, LOOP.replace("range(4)", "range(5)"), 659, "tp", "are pushed and"),
]


@pytest.mark.parametrize(("old", "new", "code", "place", "message"), WRONG)
def test_each_mistake_has_its_place(old: str, new: str, code: int, place: str, message: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new) if old == SLOT else TEXT.replace(old, new, 1)
    same = [d for d in found(text) if d.error_code == code]
    assert same, [d.text() for d in found(text)]
    lines = text.split("\n")
    at = [d for d in same if place in lines[d.span.begin_line - 1]]
    assert at, [(d.text(), lines[d.span.begin_line - 1]) for d in same]
    assert any(re.search(message, d.message) for d in at), [d.message for d in at]
    assert all(d.hint for d in same)
    with pytest.raises(VerificationError) as e:
        lower(pl.parse_program(text))
    assert e.value.hint


def test_a_function_without_pipes_beside_functions_with_pipes_is_refused() -> None:
    other = f"""    @pl.function(type=pl.FunctionType.AIV)
    def third(self, o: {O}):
        pl.store(pl.tile.full([16, 64], dtype=pl.FP32, value=1.0), [0, 0], o)

    @pl.function(type=pl.FunctionType.Group)
"""
    text = TEXT.replace("    @pl.function(type=pl.FunctionType.Group)\n", other)
    text = text.replace("        self.vec(a, n, o)\n", "        self.vec(a, n, o)\n        self.third(o)\n")
    (d,) = found(text)
    assert d.error_code == 656
    assert "nothing says when it runs" in d.message
