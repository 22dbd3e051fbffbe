"""Pipes as `.pto` text: one operation for each operator, judged, run beside the interpreter; what has no form is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pto_grammar import check
from pto_lab import run_text, same_bits
from pto_syntax import PtoError

import pypto.language as pl
from pypto.codegen.pto import PTOCodegen, module_of
from pypto.debug import Placement, interpret
from pypto.enums import MemoryPlanner
from pypto.errors import NotSupportedError
from pypto.ir.program import Program
from pypto.jit.device_text import device_text
from pypto.passes.context import PassOptions
from pypto.passes.pipeline import lower

A = "pl.Tensor[[64, 32], pl.FP32]"
B = "pl.Tensor[[32, 64], pl.FP32]"
O = "pl.Out[pl.Tensor[[64, 64], pl.FP32]]"  # noqa: E741
TEXT = f"""
import pypto.language as pl

@pl.program
class P:
    @pl.function(type=pl.FunctionType.AIC)
    def cube(self, b: {B}, n: pl.Scalar[pl.INDEX]):
        there = pl.import_peer_buffer(name="c2v", peer_func="vec")
        here = pl.reserve_buffer(name="v2c", size=8192)
        pl.aic_initialize_pipe(there, here, dir_mask=3, slot_size=4096, id=2)
        y = pl.load(b, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
        r = pl.move(y, target_memory=pl.Mem.Right)
        for i in pl.range(n):
            x = pl.tpop_from_aiv(shape=[16, 32], dtype=pl.FP32, split=2, id=2)
            c = pl.matmul(pl.move(x, target_memory=pl.Mem.Left), r)
            pl.tfree_to_aiv(x)
            pl.tpush_to_aiv(c, split=2, id=2)

    @pl.function(type=pl.FunctionType.AIV)
    def vec(self, a: {A}, n: pl.Scalar[pl.INDEX], o: {O}):
        here = pl.reserve_buffer(name="c2v", size=8192)
        there = pl.import_peer_buffer(name="v2c", peer_func="cube")
        pl.aiv_initialize_pipe(here, there, dir_mask=3, slot_size=4096, id=2)
        lane = pl.get_subblock_idx()
        for i in pl.range(n):
            x = pl.load(a, [i * 16, lane * 16], [16, 16])
            pl.tpush_to_aic(BOXED(pl.add(x, x)), split=2, id=2)
            t = pl.tpop_from_aic(shape=[16, 32], dtype=pl.FP32, split=2, id=2)
            LINES
            pl.tfree_to_aic(t)

    @pl.function(type=pl.FunctionType.Group)
    def both(self, a: {A}, b: {B}, n: pl.Scalar[pl.INDEX], o: {O}):
        self.cube(b, n)
        self.vec(a, n, o)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: {A}, b: {B}, n: pl.Scalar[pl.INDEX], o: {O}):
        self.both(a, b, n, o)
"""
STORE = "pl.store(pl.adds(t, 1.0), [i * 16, lane * 32], o)"


BOXED = r"pl.move(\1, target_memory=pl.Mem.Vec, blayout=pl.TileLayout.col_major, slayout=pl.TileLayout.row_major)"


def written(lines: str = STORE, gm: str | bool = "", boxed: bool | None = None, blocks: str = "") -> Program:
    gm = "[4096]" if gm is True else gm
    text = TEXT.replace("LINES", lines.replace("\n", "\n            "))
    text = re.sub(r"BOXED\((.*\))\),", (r"\1" if (gm if boxed is None else not boxed) else BOXED) + ",", text)
    if "tfree_to_aic(t)" in lines:
        text = text.rstrip().replace("            pl.tfree_to_aic(t)\n\n", "\n")
    if gm:
        text = text.replace("there, here, dir", "there, here, gm, dir").replace("here, there, dir", "here, there, gm, dir")
        text = re.sub(r"(def \w+\(self, .*?)\):", rf"\1, gm: pl.Out[pl.Tensor[{gm}, pl.FP32]]):", text)
        text = re.sub(r"(self\.\w+\([^,)]+, .*?)\)", r"\1, gm)", text)
    if blocks:
        text = text.replace("        self.both(", f"        with pl.spmd({blocks}):\n            self.both(")
    return pl.parse_program(text)


def final(p: Program, planner: MemoryPlanner = MemoryPlanner.PYPTO, platform: str = "a5") -> Program:
    return lower(p, PassOptions(memory_planner=planner, platform=platform)).host


def module(p: Program, planner: MemoryPlanner = MemoryPlanner.PYPTO, arch: str = "a5") -> str:
    return module_of([f for f in p.function_list if f.is_device], arch, planner is not MemoryPlanner.PTOAS, False)


def arguments() -> list[Any]:
    a, b = (np.random.default_rng(i).standard_normal(s, dtype=np.float32) for i, s in enumerate(((64, 32), (32, 64))))
    return [a, b, 4, np.full((64, 64), -777, np.float32)]


def agree(p: Program, planner: MemoryPlanner) -> dict[str, str]:
    got, want = arguments(), arguments()
    addressed = planner is not MemoryPlanner.PTOAS
    interpret(p, want, "main", Placement.ADDRESSED if addressed else Placement.PRIVATE)
    ran = run_text(p, "main", got, addressed, "a5")
    assert not ran.refused
    same_bits(got, want, f"as text, {planner.name}")
    assert not (want[3] == -777).any()
    return ran.texts


@pytest.mark.parametrize("planner", MemoryPlanner)
def test_the_text_runs_as_the_interpreter(planner: MemoryPlanner) -> None:
    texts = agree(final(written(), planner), planner)
    assert texts.keys() == {"cube", "vec"}


def test_one_operation_for_each_operator() -> None:
    p = final(written())
    text = module(p)
    check(text, True)
    lines = [re.sub(r"!pto\.tile_buf<loc=(\w+).*?>", r"\1", line).strip() for line in text.split("\n")]
    found = [line for line in lines if re.search(r"pto\.(\w*pipe|tp|tfree|reserve|import)", line)]
    space = "#pto.address_space"
    assert found == [
        '%there = pto.import_reserved_buffer {name = "c2v", peer_func = @vec} -> i32',
        f'%here = pto.reserve_buffer {{name = "v2c", size = 8192, location = {space}<mat>, auto = false, base = 0}} -> i32',
        "pto.aic_initialize_pipe {id = 2, dir_mask = 3, slot_size = 4096} (c2v_consumer_buf = %there : i32, "
        "v2c_consumer_buf = %here : i32)",
        "%x = pto.tpop_from_aiv {id = 2, split = 2} -> mat",
        "pto.tfree_from_aiv {id = 2, split = 2}",
        "pto.tpush_to_aiv(%c : acc) {id = 2, split = 2}",
        f'%here = pto.reserve_buffer {{name = "c2v", size = 8192, location = {space}<vec>, auto = false, base = 0}} -> i32',
        '%there = pto.import_reserved_buffer {name = "v2c", peer_func = @cube} -> i32',
        "pto.aiv_initialize_pipe {id = 2, dir_mask = 3, slot_size = 4096} (c2v_consumer_buf = %here : i32, "
        "v2c_consumer_buf = %there : i32)",
        "pto.tpush_to_aic(%t__tmp_v1 : vec) {id = 2, split = 2}",
        "%t = pto.tpop_from_aic {id = 2, split = 2} -> vec",
        "pto.tfree_from_aic {id = 2, split = 2}",
    ]
    assert "%t = pto.alloc_tile" not in text


def test_without_addresses_the_assembler_places_the_slots() -> None:
    p = final(written(), MemoryPlanner.PTOAS)
    text = module(p, MemoryPlanner.PTOAS)
    check(text, False)
    assert text.count("auto = true} -> i32") == 2


def test_extents_that_are_known_at_run_time_are_operands() -> None:
    lines = "u = pl.tpop_from_aic(shape=[16, 32], dtype=pl.FP32, split=2, id=2, valid_shape=[i + 1, 32])\npl.tfree_to_aic(u)"
    p = final(written(STORE + "\n" + lines))
    text = module(p)
    check(text, True)
    assert re.search(r"%u = pto\.tpop_from_aic\(%\w+, %\w+\) \{id = 2, split = 2\} -> .*v_row=\?, v_col=\?", text)


def test_functions_of_one_group_are_one_module() -> None:
    p = final(written())
    made = device_text(p, PassOptions(platform="a5"), False)
    assert list(made.modules) == ["both"]
    assert not made.refused
    check(made.modules["both"], True)


def test_slots_of_a2a3_are_in_global_memory() -> None:
    plain = device_text(final(written(), platform="a2a3"), PassOptions(platform="a2a3"), False)
    assert "pass tiles through global memory" in str(plain.refused["both"])
    p = final(written(gm=True), platform="a2a3")
    text = device_text(p, PassOptions(platform="a2a3"), False).modules["both"]
    check(text, True)
    assert text.count("(gm_slot_buffer = %arg") == 2


@pytest.mark.parametrize(
    ("gm", "blocks", "message"),
    [
        ("[4096]", "2", "several blocks run 'cube' beside each other and pass tiles through one memory, 'gm'"),
        ("[4096]", "n", "several blocks run 'cube' beside each other"),
        ("[1, 4096]", "2", "'gm' has no row for each block"),
        ("[2, 2047]", "2", "'gm' has no row for each block with room for all slots"),
        ("[2, 4096]", "2", ""),
        ("[2, 4096]", "n", ""),
        ("[4096]", "1", ""),
    ],
)
def test_blocks_do_not_share_global_memory(gm: str, blocks: str, message: str) -> None:
    p = final(written(gm=gm, blocks=blocks), platform="a2a3")
    made = device_text(p, PassOptions(platform="a2a3"), False)
    if message:
        why = made.refused["both"]
        assert message in str(why)
        assert why.location is not None
        with pytest.raises(NotSupportedError, match=re.escape(message)):
            PTOCodegen().generate(p)
        return
    check(made.modules["both"], True)
    assert made.modules["both"].count("pto.addptr") == (2 if "," in gm else 0)
    assert PTOCodegen().generate(p, emit_source_loc=False) == made.modules["both"]


def test_tiles_of_the_vector_core_lie_as_their_way_wants_it() -> None:
    for platform, gm, message in (("a5", False, "there they lie in boxes"), ("a2a3", True, "this one lies in boxes")):
        p = final(written(gm=gm, boxed=gm), platform=platform)
        why = device_text(p, PassOptions(platform=platform), False).refused["both"]
        assert message in str(why)
        assert why.location is not None


def test_the_judge_knows_how_tiles_lie() -> None:
    p = final(written(gm=True), platform="a2a3")
    text = module(p, arch="a2a3")
    check(text, True)
    with pytest.raises(PtoError, match="a5 copies it into mat as it lies"):
        check(text.replace('"a2a3"', '"a5"'), True)


KEPT = {
    "in place": "half = pl.slice(t, [8, 32], [0, 0])\nown = pl.move(t, target_memory=pl.Mem.Vec)\n"
    "lower = pl.slice(own, [8, 32], [8, 0])\nown = pl.tile.assemble(own, pl.add(half, lower), [0, 0])\n"
    "pl.store(pl.adds(pl.add(own, t), 1.0), [i * 16, lane * 32], o)",
    "into the tile": "t2 = pl.tile.assemble(t, pl.muls(pl.slice(t, [8, 32], [8, 0]), 2.0), [0, 0])\n"
    "pl.store(t2, [i * 16, lane * 32], o)",
    "an element": "t2 = pl.tile.write(t, [0, 0], 3.0)\npl.store(t2, [i * 16, lane * 32], o)",
    "carried": "for k, (s,) in pl.range(2, init_values=(t,)):\n    s2 = pl.yield_(pl.adds(s, 1.0))\n"
    "pl.store(s2, [i * 16, lane * 32], o)",
    "chosen": "if i > 1:\n    s = pl.yield_(t)\nelse:\n    s = pl.yield_(pl.adds(t, 1.0))\npl.store(s, [i * 16, lane * 32], o)",
    "copied out": "own = pl.move(t, target_memory=pl.Mem.Vec)\npl.tfree_to_aic(t)\n"
    "pl.store(pl.adds(own, 1.0), [i * 16, lane * 32], o)",
    "seen as rows": "u = pl.reshape(t, [32, 16])\npl.store(pl.reshape(pl.adds(u, 1.0), [16, 32]), [i * 16, lane * 32], o)",
    "valid in part": "pl.store(t, [i * 16, lane * 32], o)\nu = pl.set_validshape(t, 8, 32)\n"
    "pl.store(pl.adds(u, 1.0), [i * 16, lane * 32], o)",
}


@pytest.mark.parametrize("planner", MemoryPlanner)
@pytest.mark.parametrize("lines", KEPT)
def test_a_popped_tile_is_never_read_or_written_through_its_memref(lines: str, planner: MemoryPlanner) -> None:
    """Operators that work in place, views, carries and copies of what lies in a slot."""
    agree(final(written(KEPT[lines]), planner), planner)


WRONG = {
    ("size = 8192, location = #pto.address_space<vec>", "size = 8192, location = #pto.address_space<mat>"): "slots in",
    ("auto = false, base = 0} -> i32", "auto = true} -> i32"): "auto and base",
    ("auto = false, base = 0", "auto = false, base = 8"): "bytes at 8",
    ("peer_func = @vec", "peer_func = @other"): "nobody reserves",
    ("aiv_initialize_pipe {id = 2", "aiv_initialize_pipe {id = 1"): "requires initialize_pipe with the same id",
    ("dir_mask = 3", "dir_mask = 1"): "the pipe does not go this way",
    ("slot_size = 4096", "slot_size = 1024"): "bytes in a slot of 1024",
    ("id = 2, split = 2", "id = 2, split = 7"): "split 7",
    ('"a5"', '"a2a3"'): "requires gm_slot_buffer",
}


@pytest.mark.parametrize("change", WRONG)
def test_the_judge_notices(change: tuple[str, str]) -> None:
    text = module(final(written()))
    check(text, True)
    assert change[0] in text
    with pytest.raises(PtoError, match=WRONG[change]):
        check(text.replace(*change), True)


def test_the_judge_keeps_tiles_out_of_slots() -> None:
    text = module(final(written()))
    wrong = re.sub(r"%c(\d+)_i64 = arith\.constant 8192 : i64", r"%c\1_i64 = arith.constant 4096 : i64", text)
    assert wrong != text
    with pytest.raises(PtoError, match="are slots of a pipe"):
        check(wrong, True)
