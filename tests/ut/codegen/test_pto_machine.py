"""The machine itself, on a text that no kernel of the language becomes: a product converted into a block of a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from pto_grammar import check
from pto_machine import Machine
from pto_memory import MachineError
from pto_syntax import PtoError, parse

from pypto.dtypes import DataType

# a @ b goes into m at (ROW, 16); m times the unit matrix is stored.  Types stand for `TYPES`, `D` for the elements of m.
TEXT = """module attributes {pto.target_arch = "a2a3"} {
  func.func @k(ARGUMENTS) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c48 = arith.constant 48 : index
    %a = pto.alloc_tile : !mat_small
    %b = pto.alloc_tile : !mat_small
    %m = pto.alloc_tile : !mat
    %unit = pto.alloc_tile : !mat_unit
    %a_left = pto.alloc_tile : !left_small
    %b_right = pto.alloc_tile : !right_small
    %sum = pto.alloc_tile : !acc_small
    %m_left = pto.alloc_tile : !left
    %unit_right = pto.alloc_tile : !right
    %out = pto.alloc_tile : !acc
    LOAD a arg0 16 16 f16 !mat_small
    LOAD b arg1 16 16 f16 !mat_small
    LOAD m arg2 32 48 D !mat
    LOAD unit arg3 48 48 D !mat_unit
    pto.tmov ins(%a : !mat_small) outs(%a_left : !left_small)
    pto.tmov ins(%b : !mat_small) outs(%b_right : !right_small)
    pto.tmatmul ins(%a_left, %b_right : !left_small, !right_small) outs(%sum : !acc_small)
    pto.tinsert ins(%sum, ROW, %c16 : !acc_small, index, index) outs(%m : !mat)
    pto.tmov ins(%m : !mat) outs(%m_left : !left)
    pto.tmov ins(%unit : !mat_unit) outs(%unit_right : !right)
    pto.tmatmul ins(%m_left, %unit_right : !left, !right) outs(%out : !acc)
    VIEW out arg4 32 48 f32
    pto.tstore ins(%out : !acc) outs(%out_part : !pto.partition_tensor_view<32x48xf32>)
    return
  }
}
"""
ARGUMENTS = ", ".join(f"%arg{i}: !pto.ptr<{d}>" for i, d in enumerate(("f16", "f16", "D", "D", "f32"))) + ", %arg5: index"
WINDOW = """VIEW {0} {1} {2} {3} {4}
    pto.tload ins(%{0}_part : !pto.partition_tensor_view<{2}x{3}x{4}>) outs(%{0} : {5})"""
VIEW = (
    "%{0}_view = pto.make_tensor_view %{1}, shape = [%c{2}, %c{3}], strides = [%c{3}, %c1] {{layout = #pto.layout<nd>}}"
    " : !pto.tensor_view<?x?x{4}>\n"
    "    %{0}_part = pto.partition_view %{0}_view, offsets = [%c0, %c0], sizes = [%c{2}, %c{3}]"
    " : !pto.tensor_view<?x?x{4}> -> !pto.partition_tensor_view<{2}x{3}x{4}>"
)
LAYOUTS = {"mat": "col row 512", "left": "col row 512", "right": "row col 512", "acc": "col row 1024"}
TYPES = {
    "mat_small": "f16 16 16",
    "left_small": "f16 16 16",
    "right_small": "f16 16 16",
    "acc_small": "f32 16 16",
    "mat_unit": "D 48 48",
    "mat": "D 32 48",
    "left": "D 32 48",
    "right": "D 48 48",
    "acc": "f32 32 48",
}


def tile(name: str) -> str:
    loc = name.partition("_")[0]
    (d, r, c), (b, s, fractal) = TYPES[name].split(), LAYOUTS[loc].split()
    extents = f"rows={r}, cols={c}, v_row={r}, v_col={c}"
    return f"!pto.tile_buf<loc={loc}, dtype={d}, {extents}, blayout={b}_major, slayout={s}_major, fractal={fractal}, pad=0>"


def text(dtype: str, row: str) -> str:
    lines = []
    for line in TEXT.split("\n"):
        word, *rest = line.split() or [""]
        line = f"    {WINDOW.format(*rest)}" if word == "LOAD" else line
        for part in line.split("\n"):
            word, *rest = part.split() or [""]
            lines.append(f"    {VIEW.format(*rest)}" if word == "VIEW" else part)
    made = "\n".join(lines).replace("ARGUMENTS", ARGUMENTS)
    for name in TYPES:  # longer names first
        made = made.replace(f"!{name}", tile(name))
    return made.replace("ROW", row).replace("<D>", f"<{dtype}>").replace("xD>", f"x{dtype}>").replace("=D,", f"={dtype},")


def executed(dtype: str, row: str, at: int) -> tuple[np.ndarray, np.ndarray]:
    """What the text stores, and what it should."""
    rng, d = np.random.default_rng(7), getattr(DataType, {"f16": "FP16", "bf16": "BF16", "f32": "FP32"}[dtype]).numpy()
    a, b = (rng.integers(-40, 40, (16, 16)).astype(np.float16) for _ in range(2))
    m, unit, o = rng.integers(-9, 9, (32, 48)).astype(d), np.eye(48).astype(d), np.full((32, 48), -77, np.float32)
    made = text(dtype, row)
    check(made, False)
    (f,) = parse(made).functions
    machine = Machine(f, [a, b, m, unit, o, at], {})
    machine.run()
    assert machine.executed["tinsert"] == 1
    want = m.astype(np.float32)
    # Exact in single precision, then rounded once.
    want[at : at + 16, 16:32] = (a.astype(np.float32) @ b.astype(np.float32)).astype(d)
    return o, want


@pytest.mark.parametrize(("row", "at"), [("%c0", 0), ("%c16", 16), ("%arg5", 16)])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_product_goes_into_a_block_of_a_matrix(dtype: str, row: str, at: int) -> None:
    got, want = executed(dtype, row, at)
    np.testing.assert_array_equal(got, want)


def test_a_block_that_leaves_the_matrix() -> None:
    """The judge sees constants; the machine sees the rest."""
    with pytest.raises(PtoError, match="leaves its tile of 32"):
        executed("f16", "%c32", 32)
    with pytest.raises(MachineError, match=r"the window at \(17, 16\) leaves %m"):
        executed("f16", "%arg5", 17)


def test_only_halves_are_made_of_sums() -> None:
    with pytest.raises(PtoError, match="an insert of acc mat"):
        executed("f32", "%c0", 0)
