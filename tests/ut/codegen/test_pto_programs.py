"""Kernels as `.pto` text that run to the bit as the interpreter: movement, windows, control flow, indices, launches.

Each runs under every planner, with and without Buffer IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from pto_lab import WAYS, Ran, agree, kernel, lowered, run_text, same_bits

from pypto import frontend
from pypto.debug import Placement, interpret
from pypto.dtypes import DataType
from pypto.enums import MemoryPlanner
from pypto.ir.program import Function, Program

F32 = np.float32


def normal(*shape: int, seed: int = 0, dtype: Any = F32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 2).astype(dtype)


def blank(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.full(shape, -77, dtype)


def t(*shape: int | str, dtype: str = "FP32") -> str:
    return f"pl.Tensor[[{', '.join(map(str, shape))}], pl.{dtype}]"


def everywhere(params: str, body: str, *calls: Sequence[Any], kind: str = "InCore") -> list[Ran]:
    """Runs of a kernel, none of which has no text."""
    made = agree(kernel("k", params, body, kind), "k", *calls)
    for ran in made:
        assert not ran.refused, ran.refused
    return made


def test_offsets_and_extents() -> None:
    """Offsets and extents that numbers say, negative and empty ones too, in tensors of run-time extents."""
    params = f"x: {t('M', 'N')}, o: pl.Out[{t('M', 'N')}], r: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]"
    body = """
    a = pl.load(x, [r, 32], [16, 32], valid_shape=[n, 32])
    pl.store(pl.mul(a, 2.0), [r + 1, 0], o)
    b = pl.load(x, [0, r * 3], [16, 32], valid_shape=[16, n])
    pl.store(b, [16, 32], o)
    """
    head = 'import pypto.language as pl\n\nM = pl.dynamic("M")\nN = pl.dynamic("N")\n\n\n@pl.program\nclass test:\n'
    function = f"    @pl.function(type=pl.FunctionType.InCore)\n    def k({params}):\n"
    p = frontend.parse(head + function + body.replace("\n    ", "\n        "))
    x = normal(40, 70)
    for ran in agree(p, "k", *([x, blank(40, 70), r, n] for r, n in ((3, 16), (7, 1), (12, 0)))):
        assert not ran.refused
        assert "%arg4: index, %arg5: index" in ran.texts["k"]


def test_windows() -> None:
    params = f"x: {t(32, 64)}, o: pl.Out[{t(64, 64)}], r: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]"
    body = """
    whole = pl.load(x, [0, 0], [32, 64])
    w = pl.slice(whole, [16, 32], [r, 32])
    inner = pl.slice(w, [8, 16], [8, 16])
    canvas = pl.tile.full([32, 64], dtype=pl.FP32, value=1.5)
    canvas = pl.assemble(canvas, pl.add(w, w), [16, 32])
    canvas = pl.assemble(canvas, inner, [r, 0])
    part = pl.set_validshape(whole, n, 64)
    pl.store(canvas, [0, 0], o)
    pl.store(pl.exp(part), [32, 0], o)
    """
    everywhere(params, body, *([normal(32, 64), blank(64, 64), r, n] for r, n in ((0, 32), (16, 3))))


def test_windows_of_windows_that_may_be_empty() -> None:
    """Each is cut from the tile itself, where it is known to hold something: what it is a window of may hold nothing there."""
    params = f"x: {t(8, 64)}, o: pl.Out[{t(16, 32)}], r: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]"
    body = """
    whole = pl.set_validshape(pl.load(x, [0, 0], [8, 64]), n, 64)
    w = pl.slice(whole, [4, 32], [r, 8])
    inner = pl.slice(w, [2, 16], [1, 8])
    pl.store(inner, [0, 0], o)
    pl.store(pl.neg(pl.slice(inner, [1, 8], [r // 4, 8])), [4, 0], o)
    pl.store(pl.slice(pl.set_validshape(w, 4, 32), [2, 16], [2, 0]), [8, 0], o)
    """
    calls = ([normal(8, 64), blank(16, 32), r, n] for r, n in ((2, 8), (4, 8), (4, 5), (4, 0), (0, 2)))
    for ran in everywhere(params, body, *calls):
        assert "pto.subview %w[" not in ran.texts["k"]
        assert "pto.subview %inner[" not in ran.texts["k"]


def test_columns_of_run_time_numbers_seen_as_rows() -> None:
    """Where an allocation has no address, a tile in it that is seen another way says how far it is valid."""
    params = f"x: {t(32, 64)}, o: pl.Out[{t(32, 64)}], n: pl.Scalar[pl.INDEX]"
    body = """
    a = pl.load(x, [0, 0], [32, 64], valid_shape=[n, 64])
    scratch = pl.create_tile([32, 64], dtype=pl.FP32)
    mean = pl.mul(pl.row_sum(a, scratch), 0.5)
    for i in pl.range(3):
        mean = pl.maximum(pl.add(mean, mean), pl.row_max(a, scratch))
    pl.store(pl.row_expand_sub(a, mean), [0, 0], o)
    """
    for ran in everywhere(params, body, *([normal(32, 64), blank(32, 64), n] for n in (32, 5, 0))):
        assert "pto.treshape" in ran.texts["k"] or "addr = " in ran.texts["k"]


def test_extents_that_change_on_some_ways() -> None:
    """What a branch or a loop says of a tile's extents is not known behind it, nor at the next beginning of the loop."""
    params = f"x: {t(16, 32)}, o: pl.Out[{t(96, 32)}], n: pl.Scalar[pl.INDEX], f: pl.Scalar[pl.BOOL]"
    body = """
    a = pl.load(x, [0, 0], [16, 32])
    if f:
        pl.store(pl.exp(pl.set_validshape(a, 5, 32)), [0, 0], o)
    pl.store(pl.neg(pl.set_validshape(a, 5, 32)), [16, 0], o)
    for i in pl.range(n):
        pl.store(pl.abs(pl.set_validshape(a, 7, 32)), [32, 0], o)
        pl.store(pl.muls(a, 2.0), [48, 0], o)
    pl.store(pl.adds(pl.set_validshape(a, 7, 32), 1.0), [64, 0], o)
    pl.store(a, [80, 0], o)
    """
    everywhere(params, body, *([normal(16, 32), blank(96, 32), n, f] for n, f in ((0, False), (2, True), (1, False))))


def test_views() -> None:
    """Other shapes and other types of the same bytes; a column as a row and back."""
    params = f"x: {t(16, 32)}, o: pl.Out[{t(8, 64)}], q: pl.Out[{t(16, 1)}], i: pl.Out[{t(16, 32, dtype='INT32')}]"
    body = """
    a = pl.load(x, [0, 0], [16, 32])
    pl.store(pl.reshape(pl.add(a, a), [8, 64]), [0, 0], o)
    w = pl.create_tile([16, 32], dtype=pl.FP32, target_memory=pl.Mem.Vec)
    s = pl.row_sum(a, w)
    line = pl.reshape(s, [1, 16])
    pl.store(pl.reshape(pl.mul(line, line), [16, 1]), [0, 0], q)
    pl.store(pl.reinterpret_view(a, dtype=pl.INT32), [0, 0], i)
    """
    everywhere(params, body, [normal(16, 32), blank(8, 64), blank(16, 1), blank(16, 32, dtype=np.int32)])


def test_control_flow() -> None:
    params = f"x: {t(16, 32)}, o: pl.Out[{t(128, 32)}], n: pl.Scalar[pl.INDEX], s: pl.Scalar[pl.INT32], f: pl.Scalar[pl.BOOL]"
    body = """
    left = pl.load(x, [0, 0], [16, 32])
    right = pl.mul(left, 3.0)
    total = 0
    for i in pl.range(n):
        left, right = right, left
        if i % 2 == 1:
            left = pl.add(left, right)
        total = total + i * 16
    pl.store(left, [0, 0], o)
    k = n
    while k > 0:
        right = pl.sub(right, left)
        k = k - 2
    pl.store(right, [16, 0], o)
    for i in pl.range(n, 0, -1):
        pl.store(pl.adds(left, 1.0), [32 + i, 0], o)
    if f:
        row = 64 + total // 16
    else:
        row = 80
    pl.store(left, [row, 0], o)
    """
    calls = ([normal(16, 32), blank(128, 32), n, s, f] for n, s, f in ((0, 1, True), (1, 2, False), (4, -3, True)))
    for ran in everywhere(params, body, *calls):
        text = ran.texts["k"]
        heads = [line for line in text.split("\n") if "scf.for" in line or "scf.while" in line]
        assert len(heads) == 3
        assert not any("tile_buf" in line for line in heads)


def test_scalars() -> None:
    """What scalars are computed to, of both signs: quotients and remainders, shifts, bits, conversions, comparisons."""
    numbers = "n: pl.Scalar[pl.INT32], u: pl.Scalar[pl.UINT32], h: pl.Scalar[pl.FP32]"
    params = f"{numbers}, o: pl.Out[{t(16, dtype='INT32')}], q: pl.Out[{t(4)}]"
    body = """
    pl.write(o, [0], n // 3)
    pl.write(o, [1], n % 3)
    pl.write(o, [2], n // -4)
    pl.write(o, [3], n % -4)
    pl.write(o, [4], (n + 100) // 7)
    pl.write(o, [5], n >> 2)
    pl.write(o, [6], pl.cast(pl.cast(n, pl.INT8), pl.INT32))
    pl.write(o, [7], pl.cast(u // 3, pl.INT32))
    pl.write(o, [8], pl.cast(h, pl.INT32))
    pl.write(o, [9], pl.min(n, 2) + pl.max(n, 5))
    if u > 7 and not h < 0.0:
        pl.write(o, [11], 1)
    if u < 7 or u >= 9:
        pl.write(o, [12], 1)
    if u <= 5:
        pl.write(o, [13], 1)
    pl.write(q, [0], pl.cast(n, pl.FP32) / h)
    pl.write(q, [1], pl.cast(u, pl.FP32))
    pl.write(q, [2], h * 0.1)
    """
    calls = ([n, u, h, blank(16, dtype=np.int32), blank(4)] for n, u, h in ((7, 3000000000, 2.5), (-9, 5, -0.75), (0, 8, 1e-3)))
    everywhere(params, body, *calls)


@pytest.mark.parametrize(("dtype", "total"), [("FP16", "FP32"), ("BF16", "FP32"), ("FP32", "FP32"), ("INT8", "INT32")])
def test_products(dtype: str, total: str) -> None:
    """A product, and a sum of products whose beginning a number decides."""
    params = (
        f"a: {t(32, 64, dtype=dtype)}, b: {t(64, 32, dtype=dtype)}, o: pl.Out[{t(64, 32, dtype=total)}], n: pl.Scalar[pl.INDEX]"
    )
    body = f"""
    x = pl.load(a, [0, 0], [32, 64], target_memory=pl.Mem.Mat)
    y = pl.load(b, [0, 0], [64, 32], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul(x, y), [0, 0], o)
    acc = pl.create_tile([32, 32], dtype=pl.{total}, target_memory=pl.Mem.Acc)
    for k in pl.range(n):
        acc = pl.matmul_acc(acc, x, y, init_cond=(k == 0))
    acc = pl.matmul_acc(acc, x, y)
    pl.store(acc, [32, 0], o)
    """
    d, s = (getattr(DataType, name).numpy() for name in (dtype, total))
    arrays = [np.random.default_rng(i).integers(-4, 5, shape).astype(d) for i, shape in enumerate(((32, 64), (64, 32)))]
    for ran in everywhere(params, body, [*arrays, blank(64, 32, dtype=s), 3], kind="AIC"):
        assert ran.executed["tmatmul"] == 2
        assert ran.executed["tmatmul.acc"] == 3


@pytest.mark.parametrize("dtype", ["FP16", "FP32"])
def test_products_of_tensors(dtype: str) -> None:
    """The second operand turned, ragged extents, a bias; cut into pieces as the memories ask."""
    text = f"""
    import pypto.language as pl


    @pl.function
    def main(a: {t(40, 80, dtype=dtype)}, b: {t(24, 80, dtype=dtype)}, o: pl.Out[{t(40, 24)}]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.assemble(o, pl.matmul(a, b, out_dtype=pl.FP32, b_trans=True), [0, 0])
        return o
    """
    f = frontend.parse(dedent(text))
    assert isinstance(f, Function)
    d = getattr(DataType, dtype).numpy()
    for ran in agree(Program([f], "test"), "main", [normal(40, 80, dtype=d), normal(24, 80, seed=1, dtype=d), blank(40, 24)]):
        assert not ran.refused, ran.refused
        assert ran.executed["tmatmul"] == 1


def test_products_of_few_rows() -> None:
    """Rows that numbers say, in a tile of several boxes of rows: the product lies as close together as its rows ask."""
    params = f"a: {t(48, 32)}, b: {t(32, 32)}, o: pl.Out[{t(48, 32)}], m: pl.Scalar[pl.INDEX]"
    body = """
    x = pl.load(a, [0, 0], [48, 32], valid_shape=[m, 32], target_memory=pl.Mem.Mat)
    y = pl.load(b, [0, 0], [32, 32], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul(x, y), [0, 0], o)
    """
    for ran in everywhere(params, body, *([normal(48, 32), normal(32, 32, seed=1), blank(48, 32), m] for m in (48, 17, 1, 0))):
        assert "compact=1" in ran.texts["k"]


def test_index_operators() -> None:
    params = f"x: {t(8, 64)}, j: {t(8, 64, dtype='INT32')}, g: {t(32, 64)}, o: pl.Out[{t(96, 64)}], q: pl.Out[{t(32, 64)}]"
    body = """
    a = pl.tile.load(x, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)
    i = pl.tile.load(j, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)
    w = pl.tile.create([8, 64], dtype=pl.INT32, target_memory=pl.Mem.Vec)
    o0 = pl.tile.store(pl.tile.gather(a, i, w), [0, 0], o)
    o1 = pl.tile.store(pl.tile.gather_mask(a, mask_pattern=2), [8, 0], o0)
    d = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
    e = pl.tile.expands(d, 0.5)
    s = pl.tile.scatter(e, a, i)
    o2 = pl.tile.store(s, [16, 0], o1)
    o3 = pl.tile.store(pl.tile.mgather(g, i, coalesce=1), [24, 0], o2)
    v = pl.tile.create([8, 64], dtype=pl.FP32, target_memory=pl.Mem.Vec)
    u = pl.tile.transpose(a, 0, 1, v)
    o4 = pl.tile.store(u, [32, 0], o3)
    q0 = pl.tile.mscatter(a, i, q)
    """
    j = np.random.default_rng(5).permutation(512).astype(np.int32).reshape(8, 64)
    p = kernel("k", params, body, raw=True)
    for ran in agree(p, "k", [normal(8, 64), j, normal(32, 64, seed=2), blank(96, 64), blank(32, 64)], ways=WAYS[1::2]):
        assert not ran.refused, ran.refused
        assert {"tgather", "tscatter", "mgather", "ttrans", "mscatter"} <= ran.executed.keys()


def test_sorting_and_making() -> None:
    params = f"x: {t(1, 128)}, o: pl.Out[{t(16, 256)}], i: pl.Out[{t(16, 64, dtype='INT32')}]"
    body = """
    a = pl.load(x, [0, 0], [1, 128])
    n = pl.tile.ci(pl.const(0, pl.INT32), [1, 128], dtype=pl.INT32)
    runs = pl.tile.sort32(a, pl.tile.reinterpret_view(n, dtype=pl.UINT32))
    pl.store(runs, [0, 0], o)
    pl.store(pl.tile.mrgsort(runs, block_len=64), [1, 0], o)
    """
    p = kernel("k", params, body)
    for ran in agree(p, "k", [normal(1, 128), blank(16, 256), blank(16, 64, dtype=np.int32)], ways=WAYS[1::2]):
        assert not ran.refused, ran.refused
        assert {"tci", "tsort32", "tmrgsort"} <= ran.executed.keys()


def test_elements_of_tiles_and_tensors() -> None:
    params = f"x: {t(8, 32)}, o: pl.Out[{t(8, 32)}], q: pl.Out[{t(8, 1)}], n: pl.Scalar[pl.INDEX]"
    body = """
    a = pl.load(x, [0, 0], [8, 32])
    v = pl.read(a, [n, 3])
    a = pl.tile.write(a, [1, n], v + pl.read(x, [n, n]))
    pl.store(a, [0, 0], o)
    pl.write(q, [n, 0], v)
    """
    everywhere(params, body, *([normal(8, 32), blank(8, 32), blank(8, 1), n] for n in (0, 5)))


def test_tensors_of_more_axes() -> None:
    params = f"x: {t(4, 3, 40)}, o: pl.Out[{t(4, 3, 40)}], n: pl.Scalar[pl.INDEX]"
    body = """
    a = pl.load(x, [n, 0, 8], [2, 3, 32])
    pl.store(pl.mul(a, a), [n, 0, 0], o)
    """
    everywhere(params, body, *([normal(4, 3, 40), blank(4, 3, 40), n] for n in (0, 2)))


def test_blocks_and_launches() -> None:
    """The block numbers come with the launch; arrays that a launch hands to kernels are the caller's."""
    text = f"""
    import pypto.language as pl


    @pl.program
    class test:
        @pl.function(type=pl.FunctionType.InCore)
        def k(self, x: {t(64, 32)}, o: pl.Out[{t(64, 32)}]) -> {t(64, 32)}:
            i = pl.tile.get_block_idx()
            n = pl.tile.get_block_num()
            a = pl.load(x, [i * 16, 0], [16, 32])
            o = pl.store(pl.muls(a, 2.0), [(n - 1 - i) * 16, 0], o)
            return o

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: {t(64, 32)}, o: pl.Out[{t(64, 32)}]) -> {t(64, 32)}:
            with pl.spmd(4):
                o = self.k(x, o)
            return o
    """
    p = frontend.parse(dedent(text))
    for ran in agree(p, "main", [normal(64, 32), blank(64, 32)]):
        (name,) = ran.texts
        assert "%__pypto_spmd_block_idx: i32, %__pypto_spmd_block_num: i32" in ran.texts[name]
        assert ran.executed["tload"] == 4


def test_the_comparison_sees_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong instruction and one wrong address are noticed."""
    import pto_lab

    body = "a = pl.load(x, [0, 0], [16, 32])\nb = pl.load(x, [16, 0], [16, 32])\npl.store(pl.sub(a, b), [0, 0], o)"
    program = lowered(kernel("k", f"x: {t(32, 32)}, o: pl.Out[{t(16, 32)}]", body))
    want = [normal(32, 32), blank(16, 32)]
    interpret(program, want, "k", Placement.ADDRESSED)
    right = pto_lab.module_of
    for old, new in (("pto.tsub", "pto.tadd"), ("%c16_index, %c0_index], sizes", "%c0_index, %c0_index], sizes")):
        monkeypatch.setattr(pto_lab, "module_of", lambda *a, old=old, new=new: right(*a).replace(old, new))
        got = [normal(32, 32), blank(16, 32)]
        run_text(program, "k", got, True)
        with pytest.raises(AssertionError, match="elements differ"):
            same_bits(got, want, "wrong")


def test_planners_differ_in_addresses_alone() -> None:
    """Without addresses no `addr`, with them one in each allocation."""
    body = "a = pl.load(x, [0, 0], [16, 32])\npl.store(pl.add(pl.exp(a), a), [0, 0], o)"
    p = kernel("k", f"x: {t(16, 32)}, o: pl.Out[{t(16, 32)}]", body)
    for (planner, _), ran in zip(WAYS, agree(p, "k", [normal(16, 32), blank(16, 32)]), strict=True):
        text = ran.texts["k"]
        addressed = planner is not MemoryPlanner.PTOAS
        assert (" addr = " in text) == addressed
        assert text.count(" addr = ") == (text.count("pto.alloc_tile") if addressed else 0)
