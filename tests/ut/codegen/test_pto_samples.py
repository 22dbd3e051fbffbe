"""Small kernels of every kind, and all that their `.pto` text says: what is moved where, in which order, under which type."""

from __future__ import annotations

import re

import pytest
from pto_canon import canonical
from pto_lab import function, kernel, lowered

from pypto.enums import MemoryPlanner

PYPTO, DSA_RP, PTOAS = MemoryPlanner.PYPTO, MemoryPlanner.DSA_RP, MemoryPlanner.PTOAS
X = "x: pl.Tensor[[16, 32], pl.FP32]"
TILE = "vec f32 16x32 row/non/512"

SAMPLES = {
    "elementwise": (
        f"{X}, o: pl.Out[pl.Tensor[[16, 32], pl.FP32]]",
        """
        t = pl.load(x, [0, 0], [16, 32])
        y = pl.add(t, t)
        pl.store(y, [0, 0], o)
        """,
        f"""
        tload arg0<nd [16, 32][32, 1]>[0+16, 0+32] -> t0
        tadd t0, t0 -> t0
        tstore t0 -> arg1<nd [16, 32][32, 1]>[0+16, 0+32]
        t0: {TILE}
        """,
    ),
    "rows known at run time": (
        f"{X}, o: pl.Out[pl.Tensor[[16, 32], pl.FP32]], n: pl.Scalar[pl.INDEX]",
        """
        t = pl.load(x, [0, 0], [16, 32], valid_shape=[n, 32])
        y = pl.add(t, t)
        pl.store(y, [0, 0], o)
        """,
        """
        valid t0 = arg2, 32
        if sgt(arg2, 0)
          tload arg0<nd [16, 32][32, 1]>[0+arg2, 0+32] -> t0
        valid t1 = arg2, 32
        if sgt(arg2, 0)
          tadd t0, t0 -> t1
        if sgt(arg2, 0)
          tstore t1 -> arg1<nd [16, 32][32, 1]>[0+arg2, 0+32]
        t0: vec f32 16x32 valid ?x? row/non/512
        t1: vec f32 16x32 valid ?x? row/non/512
        """,
    ),
    "branch and loops": (
        f"{X}, o: pl.Out[pl.Tensor[[64, 32], pl.FP32]], n: pl.Scalar[pl.INDEX], f: pl.Scalar[pl.BOOL]",
        """
        left: pl.Tile[[16, 32], pl.FP32] = pl.load(x, [0, 0], [16, 32])
        right = pl.add(left, left)
        if f:
            t = pl.mul(left, right)
            row = 16
        else:
            t = left
            row = 0
        pl.store(t, [row, 0], o)
        r = 0
        c = 0
        for i in pl.range(n):
            left, right = right, left
            r = r + 1
            c = c + 16
        k = 0
        while k < n:
            left = pl.add(left, right)
            k = k + 1
        pl.store(left, [r, 0], o)
        """,
        f"""
        tload arg0<nd [16, 32][32, 1]>[0+16, 0+32] -> t0
        tadd t0, t0 -> t1
        c0 = if arg3
          tmul t0, t1 -> t2
          yield 16
        else
          tmov t0 -> t2
          yield 0
        tstore t2 -> arg1<nd [64, 32][32, 1]>[c0+16, 0+32]
        c4, c5 = for c1 in 0, arg2, 1; c2 = 0; c3 = 0
          tmov t1 -> t2
          tmov t0 -> t1
          tmov t2 -> t0
          yield (c2 + 1), (c3 + 16)
        c7 = while c6 = 0
          on slt(c6, arg2), c6
        do c8
          tadd t0, t1 -> t0
          yield (c8 + 1)
        tstore t0 -> arg1<nd [64, 32][32, 1]>[c4+16, 0+32]
        t0: {TILE}
        t1: {TILE}
        t2: {TILE}
        """,
    ),
    "windows": (
        "x: pl.Tensor[[32, 64], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]], row: pl.Scalar[pl.INDEX]",
        """
        whole = pl.load(x, [0, 0], [32, 64])
        canvas = pl.tile.full([32, 32], dtype=pl.FP32, value=0.0)
        w = pl.slice(whole, [16, 32], [row, 32])
        doubled = pl.add(w, w)
        canvas = pl.assemble(canvas, doubled, [16, 0])
        pl.store(canvas, [0, 0], o)
        """,
        f"""
        tload arg0<nd [32, 64][64, 1]>[0+32, 0+64] -> t0
        texpands 0.00000000000000000e+00 -> t1
        tadd t0[arg2+16, 32+32], t0[arg2+16, 32+32] -> t2
        tmov t2 -> t1[16+16, 0+32]
        tstore t1 -> arg1<nd [32, 32][32, 1]>[0+32, 0+32]
        t0: vec f32 32x64 row/non/512
        t1: vec f32 32x32 row/non/512
        t2: {TILE}
        """,
    ),
    "products": (
        "a: pl.Tensor[[64, 256], pl.FP16], b: pl.Tensor[[256, 64], pl.FP16], o: pl.Out[pl.Tensor[[64, 64], pl.FP32]], "
        "n: pl.Scalar[pl.INDEX]",
        """
        acc = pl.create_tile([64, 64], dtype=pl.FP32, target_memory=pl.Mem.Acc)
        for k in pl.range(n):
            x = pl.load(a, [0, k * 64], [64, 64], target_memory=pl.Mem.Mat)
            y = pl.load(b, [k * 64, 0], [64, 64], target_memory=pl.Mem.Mat)
            acc = pl.matmul_acc(acc, x, y, init_cond=(k == 0))
        pl.store(acc, [0, 0], o)
        """,
        """
        for c0 in 0, arg3, 1
          tload arg0<nd [64, 256][256, 1]>[0+64, (c0 * 64)+64] -> t0
          tload arg1<nd [256, 64][64, 1]>[(c0 * 64)+64, 0+64] -> t1
          tmov t0 -> t2
          tmov t1 -> t3
          if eq(c0, 0)
            tmatmul t2, t3 -> t4
          else
            tmatmul.acc t4, t2, t3 -> t4
        tstore t4 -> arg2<nd [64, 64][64, 1]>[0+64, 0+64]
        t0: mat f16 64x64 col/row/512
        t1: mat f16 64x64 col/row/512
        t2: left f16 64x64 col/row/512
        t3: right f16 64x64 row/col/512
        t4: acc f32 64x64 col/row/1024
        """,
    ),
    "reduction": (
        f"{X}, o: pl.Out[pl.Tensor[[16, 1], pl.FP32]]",
        """
        t = pl.load(x, [0, 0], [16, 32])
        w = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
        s = pl.row_sum(t, w)
        pl.store(s, [0, 0], o)
        """,
        f"""
        tload arg0<nd [16, 32][32, 1]>[0+16, 0+32] -> t0
        trowsum t0, t1 -> t2
        tstore t2 -> arg1<dn [16, 1][1, 16]>[0+16, 0+1]
        t0: {TILE}
        t1: {TILE}
        t2: vec f32 16x1 col/non/512
        """,
    ),
}


def _said(name: str, planner: MemoryPlanner, buffers: bool) -> tuple[str, list[int]]:
    """What the text of a sample says, and the addresses of its tiles."""
    params, body, _ = SAMPLES[name]
    p = lowered(kernel("k", params, body, "AIC" if name == "products" else "AIV"), planner, buffers)
    lines = canonical(function(p, planner is not PTOAS))
    addresses = [int(m[1]) for m in (re.search(r" @(\d+)$", line) for line in lines) if m is not None]
    return "\n".join(re.sub(r" @\d+$", "", line) for line in lines), addresses


def _wanted(name: str) -> str:
    lines = SAMPLES[name][2].strip("\n").split("\n")
    return "\n".join(line[8:] for line in lines[:-1])


@pytest.mark.parametrize("buffers", [True, False], ids=["buffers", "tiles"])
@pytest.mark.parametrize("planner", [PYPTO, DSA_RP], ids=lambda p: p.name)
@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in ("rows known at run time", "branch and loops")])
def test_samples(name: str, planner: MemoryPlanner, buffers: bool) -> None:
    said, addresses = _said(name, planner, buffers)
    assert said == _wanted(name)
    assert len(addresses) == said.count(": ")


def test_control_flow() -> None:
    """Two tiles change places by way of a third, and only scalars go through loops and branches."""
    assert _said("branch and loops", PYPTO, True)[0] == _wanted("branch and loops")


def test_what_may_be_empty_is_guarded() -> None:
    assert _said("rows known at run time", PTOAS, False) == (_wanted("rows known at run time"), [])


def test_guarded_in_place() -> None:
    """With addresses the sum may lie where its operand does; the guards may be one."""
    said, addresses = _said("rows known at run time", PYPTO, True)
    assert addresses == [0]
    steps = [line.strip().split()[0] for line in said.split("\n")]
    assert [s for s in steps if s not in ("valid", "if")] == ["tload", "tadd", "tstore", "t0:"]
    assert said.count("valid t0 = arg2, 32") >= 1
    assert said.index("if sgt(arg2, 0)") < said.index("tload")


@pytest.mark.parametrize("buffers", [True, False], ids=["buffers", "tiles"])
def test_without_addresses_each_tile_has_a_place_of_its_own(buffers: bool) -> None:
    said, addresses = _said("elementwise", PTOAS, buffers)
    assert addresses == []
    assert said == (
        "tload arg0<nd [16, 32][32, 1]>[0+16, 0+32] -> t0\ntadd t0, t0 -> t1\n"
        f"tstore t1 -> arg1<nd [16, 32][32, 1]>[0+16, 0+32]\nt0: {TILE}\nt1: {TILE}"
    )
