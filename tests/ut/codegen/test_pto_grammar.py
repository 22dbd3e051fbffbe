"""The judge of `.pto` text refuses what it has to: one wrong text for each rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pto_grammar import check
from pto_syntax import PtoError

F32 = "dtype=f32, rows=16, cols=32, v_row=16, v_col=32, blayout=row_major, slayout=none_box, fractal=512, pad=0>"
V = f"!pto.tile_buf<loc=vec, {F32}"
SQUARE = "rows=32, cols=32, v_row=32, v_col=32"
MAT = f"!pto.tile_buf<loc=mat, dtype=f16, {SQUARE}, blayout=col_major, slayout=row_major, fractal=512, pad=0>"
LEFT, RIGHT = (
    MAT.replace("=mat", "=left"),
    MAT.replace("=mat", "=right").replace("col_major, slayout=row", "row_major, slayout=col"),
)
ACC = MAT.replace("=mat", "=acc").replace("f16", "f32").replace("fractal=512", "fractal=1024")
D = V.replace("v_row=16, v_col=32", "v_row=?, v_col=?")
CONSTANTS = {
    "%c0_i64": 0,
    "%c2048_i64": 2048,
    "%c0_index": 0,
    "%c1_index": 1,
    "%c16_index": 16,
    "%c32_index": 32,
    "%cn1_index": -1,
}
HEAD = "\n".join(f"    {name} = arith.constant {n} : {name.rsplit('_', 1)[1]}" for name, n in CONSTANTS.items())
ND = "{layout = #pto.layout<nd>}"
VIEW, PART = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x32xf32>"
W = V.replace("rows=16, cols=32, v_row=16, v_col=32", "rows=8, cols=16, v_row=1, v_col=16")
VECTOR = f"""
    %xv = pto.make_tensor_view %arg0, shape = [%c16_index, %c32_index], strides = [%c32_index, %c1_index] {ND} : {VIEW}
    %x = pto.alloc_tile addr = %c0_i64 : {V}
    %y = pto.alloc_tile addr = %c2048_i64 : {V}
    %d = pto.alloc_tile addr = %c0_i64 valid_row = %c16_index valid_col = %c32_index : {D}
    %xp = pto.partition_view %xv, offsets = [%c0_index, %c0_index], sizes = [%c16_index, %c32_index] : {VIEW} -> {PART}
    pto.tload ins(%xp : {PART}) outs(%x : {V})
    %w = pto.subview %x[%c0_index, %c0_index] sizes [8, 16] valid [%c1_index, %c16_index] : {V} -> {W}
    pto.set_validshape %d, %arg1, %c32_index : {D}
    %p = arith.cmpi sgt, %arg1, %c0_index : index
    scf.if %p {{
      pto.texp ins(%d : {D}) outs(%d : {D})
    }}
    pto.tadd ins(%x, %x : {V}, {V}) outs(%y : {V})
    pto.trecip ins(%y : {V}) outs(%x : {V})
    scf.for %i = %c0_index to %c16_index step %c1_index {{
      pto.tmov ins(%x : {V}) outs(%y : {V})
    }}
    pto.tstore ins(%y : {V}) outs(%xp : {PART})"""
CUBE = f"""
    %m = pto.alloc_tile addr = %c0_i64 : {MAT}
    %l = pto.alloc_tile addr = %c0_i64 : {LEFT}
    %r = pto.alloc_tile addr = %c0_i64 : {RIGHT}
    %a = pto.alloc_tile addr = %c0_i64 : {ACC}
    pto.tmov ins(%m : {MAT}) outs(%l : {LEFT})
    pto.tmov ins(%m : {MAT}) outs(%r : {RIGHT})
    pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%a : {ACC})
    pto.tmatmul.acc ins(%a, %l, %r : {ACC}, {LEFT}, {RIGHT}) outs(%a : {ACC})"""


def module(body: str, attributes: str = "") -> str:
    head = (
        f'module attributes {{pto.target_arch = "a2a3"}} {{\n  func.func @k(%arg0: !pto.ptr<f32>, %arg1: index){attributes} {{\n'
    )
    return f"{head}{HEAD}{body}\n    return\n  }}\n}}\n"


def refused(body: str, old: str, new: str, why: str) -> None:
    text = module(body)
    assert old in text, old
    with pytest.raises(PtoError, match=why):
        check(text.replace(old, new), True)


def test_what_is_right() -> None:
    check(module(VECTOR), True)
    check(module(VECTOR, " attributes {pto.kernel_kind = #pto.kernel_kind<vector>}"), True)
    check(module(CUBE, " attributes {pto.kernel_kind = #pto.kernel_kind<cube>}"), True)
    check(module(VECTOR.replace(" addr = %c0_i64", "").replace(" addr = %c2048_i64", "")), False)


VECTOR_RULES = [
    # names and types
    ("%xp : !pto.partition", "%xq : !pto.partition", "is not defined"),
    ("%y = pto.alloc_tile", "%x = pto.alloc_tile", "defined twice"),
    (f"(%x : {V}) outs(%y", f"(%x : {D}) outs(%y", "used as"),
    ("pto.tadd", "pto.tplus", "unknown instruction"),
    ("ins(%x, %x : ", "ins(%x : ", "1 operands of 2 types"),
    ("cmpi sgt", "cmpi bigger", "predicate"),
    # tiles
    ("rows=8, cols=16", "rows=8, cols=20", "32-byte aligned"),
    ("v_row=16, v_col=32", "v_row=17, v_col=32", "valid extent 17 of 16"),
    ("loc=vec", "loc=somewhere", "unknown memory"),
    ("rows=16, cols=32", "rows=8192, cols=32", "do not fit"),
    (" pad=0>", ">", "malformed tile type"),
    # allocations
    (" addr = %c2048_i64 : ", " : ", "addr is given exactly"),
    (" valid_row = %c16_index valid_col", " valid_col", "valid_row operand exactly"),
    ("%c2048_i64 = arith.constant 2048", "%c2048_i64 = arith.constant 2040", "aligned to 32 bytes"),
    ("%c2048_i64 = arith.constant 2048", "%c2048_i64 = arith.constant 188416", "leave vec"),
    # extents
    ("set_validshape %d, %arg1, %c32_index : " + D, "set_validshape %x, %arg1, %c32_index : " + V, "dynamic validShape"),
    ("%arg1, %c32_index", "%c32_index, %c32_index", "valid extent 32 of 16"),
    ("    scf.if %p {\n", "    scf.if %q {\n", "not defined"),
    ("sgt, %arg1, %c0_index", "sgt, %c16_index, %c0_index", "may be empty"),
    ("sgt, %arg1, %c0_index", "sge, %arg1, %c0_index", "may be empty"),
    # windows
    ("%x[%c0_index, %c0_index]", "%x[%c16_index, %c0_index]", "leaves its parent"),
    ("%x[%c0_index, %c0_index]", "%x[%cn1_index, %c0_index]", "leaves its parent"),
    ("sizes [8, 16]", "sizes [8, 32]", "sizes and result type differ"),
    ("valid [%c1_index, %c16_index]", "valid [%c16_index, %c16_index]", "to match the explicit"),
    # global memory
    ("offsets = [%c0_index, %c0_index]", "offsets = [%cn1_index, %c0_index]", "non-negative"),
    ("offsets = [%c0_index, %c0_index]", "offsets = [%c1_index, %c0_index]", "leaves its tensor"),
    ("offsets = [%c0_index, %c0_index]", "offsets = [%arg1, %c0_index]", "may be negative"),
    ("sizes = [%c16_index, %c32_index]", "sizes = [%c1_index, %c32_index]", "size/result mismatch"),
    ("sizes = [%c16_index, %c32_index]", "sizes = [%c0_index, %c32_index]", "size/result|positive"),
    ("tensor_view<?x?xf32>\n", "tensor_view<?x?xi32>\n", "different elements"),
    # instructions
    ("%c0_index to %c16_index step %c1_index", "%c0_index to %c16_index step %cn1_index", "step -1"),
    ("step %c1_index", "step %arg1", "step None"),
    ("pto.tadd ins(%x, %x", "pto.tand ins(%x, %x", "f32 elements"),
    ("pto.texp ins(%d", "pto.tnot ins(%d", "f32 elements"),
    ("pto.trecip ins(%y : ", "pto.trecip ins(%x : ", "overlaps"),
    ("pto.tmov ins(%x", "pto.tmov ins(%y", "overlaps"),
    ("pto.tadd ins(%x, %x : ", "pto.tadd ins(%x, %x {precisionType = #pto<div_precision high_precision>} : ", "attribute"),
]


@pytest.mark.parametrize(("old", "new", "why"), VECTOR_RULES, ids=lambda v: str(v)[:40])
def test_rules_of_the_vector_unit(old: str, new: str, why: str) -> None:
    refused(VECTOR, old, new, why)


CUBE_RULES = [
    (f"{SQUARE}, blayout=row_major", "rows=32, cols=64, v_row=32, v_col=64, blayout=row_major", "extents differ"),
    ("outs(%a : ", "outs(%b : ", "not defined"),
    (ACC, ACC.replace("rows=32", "rows=48", 1), "not compact"),
    (ACC, ACC.replace("v_col=32", "v_col=16"), "expects lhs"),
    ("dtype=f32", "dtype=i32", "unsupported element types"),
    (SQUARE, "rows=24, cols=32, v_row=24, v_col=32", "multiple of innerRows"),
    ("%c0_i64 = arith.constant 0", "%c0_i64 = arith.constant 32", "aligned to 512 bytes"),
]


@pytest.mark.parametrize(("old", "new", "why"), CUBE_RULES, ids=lambda v: str(v)[:40])
def test_rules_of_the_cube_unit(old: str, new: str, why: str) -> None:
    refused(CUBE, old, new, why)


def test_one_accumulator() -> None:
    other = CUBE.replace("    pto.tmatmul.acc", f"    %b = pto.alloc_tile addr = %c0_i64 : {ACC}\n    pto.tmatmul.acc")
    refused(other, "pto.tmatmul.acc ins(%a", "pto.tmatmul.acc ins(%b", "one handle")


def test_one_unit() -> None:
    with pytest.raises(PtoError, match="both units"):
        check(module(VECTOR + CUBE), True)
    with pytest.raises(PtoError, match="instructions of the other unit"):
        check(module(VECTOR, " attributes {pto.kernel_kind = #pto.kernel_kind<cube>}"), True)


def test_constant_of_an_unsigned_type() -> None:
    refused(VECTOR, "    %p = ", "    %u = arith.constant 3 : ui32\n    %p = ", "3 : ui32")


def test_text_of_another_form() -> None:
    for old, new in (
        ("pto.tload ins", "pto.tload outs"),
        ("return", "return %x"),
        ("module", "modul"),
        ("scf.if %p {", "scf.if %p"),
    ):
        with pytest.raises(PtoError):
            check(module(VECTOR).replace(old, new), True)


def test_judge_and_machine_share_nothing_with_what_prints() -> None:
    """What reads the text is written from the description alone."""
    here = Path(__file__).parent
    for name in ("syntax", "types", "tables", "places", "rules", "grammar"):
        assert not re.search(r"(import|from) pypto", (here / f"pto_{name}.py").read_text()), name
    for name in ("memory", "instructions", "scattered", "machine", "canon"):
        assert "pypto.codegen" not in (here / f"pto_{name}.py").read_text(), name
