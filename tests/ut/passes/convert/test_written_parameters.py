"""Parameters say what a kernel does to them: found from the effects that operators declare, through every name."""

from __future__ import annotations

import pytest
from convert_kit import IN, INOUT, OUT, C, T, directions, raw_converted

from pypto.enums import ArgEffect
from pypto.ir import ops
from pypto.ir.opdef import Attr, OpDef, Operand, Special

contract = pytest.mark.contract
WHOLE = "t = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\n"
PIPE = "dir_mask=1, slot_size=4096, id=0)"
# One kernel for each operator that writes a tensor; `o` is the written one.
WRITERS = {
    "tile.store": WHOLE + "r = pl.tile.store(t, [0, 0], o)",
    "tensor.write": "r = pl.tensor.write(o, [0, 0], pl.const(1.0, pl.FP32))",
    "tensor.assemble": "y = pl.tensor.muls(x, 2.0)\nr = pl.tensor.assemble(o, y, [0, 0])",
    "tile.mscatter": WHOLE
    + "i = pl.tile.load(n, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\nr = pl.tile.mscatter(t, i, o)",
    "system.aic_initialize_pipe": "b = pl.const(0, pl.INT32)\npl.system.aic_initialize_pipe(b, b, o, " + PIPE,
    "system.aiv_initialize_pipe": "b = pl.const(0, pl.INT32)\npl.system.aiv_initialize_pipe(b, b, o, " + PIPE,
    "tensor.expand_clone": "s = pl.tensor.slice(x3, [1, 1, 64], [0, 0, 0])\nr = pl.tensor.expand_clone(s, o3)",
}
# Those that write what lies on chip only.
ON_CHIP = {"tensor.gather_row"}
T3 = "pl.Tensor[[1, 16, 64], pl.FP32]"
PARAMS = f"x: {T}, n: pl.Tensor[[16, 64], pl.INT32], o: {T}, x3: {T3}, o3: {T3}"
_WRITES = (ArgEffect.Write, ArgEffect.ReadWrite)


def writers_of_tensors() -> set[str]:
    """Operators of kernels that write an operand which is a tensor."""
    return {
        op.name
        for op in ops.ALL
        if op.level != "buffer"
        and any(o.kind == "tensor" and e in _WRITES for o, e in zip(op.operands, op.effects(), strict=True))
    }


@contract("T028", "T029")
def test_there_is_a_kernel_for_every_operator_that_writes_a_tensor():
    assert writers_of_tensors() - ON_CHIP == set(WRITERS) | {"system.syncall"}
    assert all(ops.get(n).channel is None for n in ON_CHIP)


@contract("T027", "T028", "T029", "T030", "T032")
@pytest.mark.parametrize("name", WRITERS)
def test_a_written_parameter_is_an_output(name):
    written = "o3" if name == "tensor.expand_clone" else "o"
    found = directions(raw_converted(WRITERS[name], PARAMS))
    assert found == dict.fromkeys(("x", "n", "o", "x3", "o3"), IN) | {written: OUT}


@contract("T027", "T028")
def test_what_blocks_meet_by_is_read_and_written():
    f = raw_converted('pl.system.syncall(n, mode="soft")', PARAMS)
    assert directions(f) == dict.fromkeys(("x", "o", "x3", "o3"), IN) | {"n": INOUT}


@contract("T027")
@pytest.mark.parametrize(
    "read", ["y = pl.tensor.adds(o, 1.0)", "y = pl.tensor.slice(o, [16, 64], [0, 0])", "s = pl.tensor.read(o, [0, 0])"]
)
def test_a_parameter_that_is_read_and_written_is_both(read):
    source = "y" if read.startswith("y") else "x"
    f = raw_converted(f"{read}\nz = pl.tensor.muls({source}, 2.0)\nr = pl.tensor.assemble(o, z, [0, 0])", f"x: {T}, o: {T}")
    assert directions(f) == {"x": IN, "o": INOUT}


@contract("T028")
def test_the_registration_says_what_is_written(monkeypatch):
    monkeypatch.setattr(ops.get("tensor.write"), "_effects", (ArgEffect.ReadWrite, ArgEffect.Read, ArgEffect.Read))
    assert directions(raw_converted(WRITERS["tensor.write"], PARAMS))["o"] is INOUT
    monkeypatch.setattr(ops.get("tensor.write"), "_effects", (ArgEffect.Read,) * 3)
    assert directions(raw_converted(WRITERS["tensor.write"], PARAMS))["o"] is IN


@contract("T030", "T032")
def test_a_store_into_a_window_reads_nothing_of_the_rest():
    f = raw_converted(WHOLE.replace("[16, 64]", "[4, 64]") + "r = pl.tile.store(t, [8, 0], o)", PARAMS)
    assert directions(f)["o"] is OUT


@contract("T031")
@pytest.mark.parametrize(("atomic", "want"), [("", OUT), (", atomic=0", OUT), (", atomic=1", INOUT)])
@pytest.mark.parametrize("name", ["tile.store", "tensor.assemble"])
def test_an_atomic_store_also_reads(name, atomic, want):
    text = WRITERS[name]
    assert directions(raw_converted(text[:-1] + atomic + ")", PARAMS))["o"] is want


READ = "s = pl.tensor.read(o, [1, 1])\n"


@contract("T033")
@pytest.mark.parametrize(("declared", "want"), [("Out", OUT), ("InOut", INOUT)])
@pytest.mark.parametrize(
    "body", [WRITERS["tensor.write"], READ + WRITERS["tensor.write"], READ + "y = pl.tensor.muls(x, 2.0)"], ids=["w", "rw", "r"]
)
def test_what_the_user_declared_stays(body, declared, want):
    assert directions(raw_converted(body, f"x: {T}, o: pl.{declared}[{T}]"))["o"] is want


@contract("T034")
def test_what_an_operator_does_not_list_is_read_and_saying_nothing_is_an_error():
    assert ops.get("tensor.write").effect(7) is ArgEffect.Read
    operands, semantics = (Operand("x", "tensor"), Operand("y", "tensor")), Special("view")
    with pytest.raises(AssertionError, match="1 effects for 2 operands"):
        OpDef("tensor.silent", operands, lambda s: s.tensor(0), semantics, effects=(ArgEffect.Read,), attrs=(Attr("a", (int,)),))
    with pytest.raises(TypeError, match="effects"):
        OpDef("tensor.silent", operands, lambda s: s.tensor(0), semantics)  # type: ignore[call-arg]


WRITE = "pl.tensor.write({o}, [0, 0], pl.const(1.0, pl.FP32))"
YIELD = (
    "    if pl.tensor.read(c, [0]) > 0:\n        w = "
    + WRITE.format(o="p")
    + "\n        v = pl.yield_(w)\n    else:\n        v = pl.yield_(p)"
)
PATHS = {
    "alias": "p = o\nw = " + WRITE.format(o="p"),
    "loop": "for i, (p,) in pl.range(4, init_values=(o,)):\n    w = " + WRITE.format(o="p") + "\n    r = pl.yield_(w)",
    "behind a loop": "for i, (p,) in pl.range(4, init_values=(o,)):\n    r = pl.yield_(p)\nw = " + WRITE.format(o="r"),
    "while": "for (p,) in pl.while_(init_values=(o,)):\n    pl.cond(pl.tensor.read(c, [0]) > 0)\n    w = "
    + WRITE.format(o="p")
    + "\n    r = pl.yield_(w)",
    "branch": "if pl.tensor.read(c, [0]) > 0:\n    w = " + WRITE.format(o="o"),
    "all": "q = o\nfor i, (p,) in pl.range(4, init_values=(q,)):\n" + YIELD + "\n    r = pl.yield_(v)",
}


@contract("T009", "T027")
@pytest.mark.parametrize("path", PATHS)
def test_writes_are_found_through_aliases_and_control_flow(path):
    assert directions(raw_converted(PATHS[path], f"x: {T}, c: {C}, o: {T}")) == {"x": IN, "c": IN, "o": OUT}


@contract("T009")
def test_a_choice_between_two_tensors_writes_both():
    choice = "if pl.tensor.read(c, [0]) > 0:\n    p = pl.yield_(o)\nelse:\n    p = pl.yield_(q)\n"
    f = raw_converted(choice + "s = pl.tensor.read(p, [1, 1])\nw = " + WRITE.format(o="p"), f"c: {C}, o: {T}, q: {T}")
    assert directions(f) == {"c": IN, "o": INOUT, "q": INOUT}
