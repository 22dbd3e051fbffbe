"""The judge of vector-lane regions: each rule is broken once; a sound kernel and kernels without regions pass."""

import textwrap

import pytest

from pypto.frontend import parse
from pypto.ir.verify.lane_regions import aiv_split_valid, region_findings
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import STRUCTURAL, VERIFIED, judge_of

F32 = "pl.Tensor[[32, 32], pl.FP32]"
PRODUCT = """
a = pl.tile.load(x, [0, 0], [32, 32], [32, 32], target_memory=pl.Mem.Mat)
l = pl.tile.move(a, target_memory=pl.Mem.Left)
r = pl.tile.move(a, target_memory=pl.Mem.Right)
p = pl.tile.matmul(l, r)
"""
VEC = "v = pl.tile.load(x, [0, 0], [32, 32], [32, 32], target_memory=pl.Mem.Vec)\n"
REGION = "for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):\n"
SHARD = "h = pl.tile.aiv_shard(p, split=1)\n"
STORE = "o1 = pl.tile.store(h, [lane * 16, 0], o)\n"


def kernel(text, kind="InCore"):
    head = f"@pl.program\nclass P:\n    @pl.function(type=pl.FunctionType.{kind})\n"
    head += f"    def k(x: {F32}, o: pl.Out[{F32}]):\n"
    return parse("# pypto.program: P\nimport pypto.language as pl\n" + head + textwrap.indent(text, "        "))


def region(inside, before=PRODUCT, after="", mode="UP_DOWN", kind="InCore"):
    return kernel(before + REGION.format(mode=mode) + textwrap.indent(inside, "    ") + after, kind)


def codes(p):
    return [d.error_code for d in aiv_split_valid(p)]


@pytest.mark.contract("T169")
def test_a_sound_kernel_passes():
    gathered = SHARD + "e = pl.tile.exp(h)\ng = pl.tile.aic_gather(e, split=1)\n" + STORE
    after = "gl = pl.tile.move(g, target_memory=pl.Mem.Left)\nq = pl.tile.matmul(gl, r)\no2 = pl.tile.store(q, [0, 0], o1)\n"
    assert codes(region(gathered, after=after)) == []
    assert codes(kernel(VEC + "e = pl.tile.exp(v)\n")) == []


def test_it_is_registered_and_asked():
    assert judge_of(IRProperty.AivSplitValid) is aiv_split_valid
    assert IRProperty.AivSplitValid in VERIFIED - STRUCTURAL


@pytest.mark.parametrize("kind", ["AIC", "AIV", "Orchestration"])
def test_620_a_region_outside_of_a_kernel(kind):
    assert codes(region(SHARD + STORE, kind=kind)) == [620]


def test_a_scope_that_will_be_a_kernel_may_hold_regions():
    inside = textwrap.indent(PRODUCT + REGION.format(mode="UP_DOWN") + textwrap.indent(SHARD + STORE, "    "), "    ")
    assert codes(kernel("with pl.at(level=pl.Level.CORE_GROUP):\n" + inside, "Orchestration")) == []


@pytest.mark.contract("T164", "T172")
@pytest.mark.parametrize(
    "text",
    [
        PRODUCT + SHARD,
        VEC + "g = pl.tile.aic_gather(v, split=1)\n",
        "h = pl.tensor.aiv_shard(x, split=1)\n",
        "g = pl.tensor.aic_gather(x, split=2)\n",
    ],
)
def test_621_boundary_operators_outside_of_a_region(text):
    (found,) = aiv_split_valid(kernel(text))
    assert found.error_code == 621
    assert "pl.split_aiv" in found.hint


@pytest.mark.parametrize("mode", ["NONE", "LEFT_RIGHT"])
def test_622_another_split_than_the_region_has(mode):
    assert codes(region(SHARD + STORE, mode=mode)) == [622]


def test_622_a_gather_that_does_not_run_once():
    inside = SHARD + "for i in pl.range(2):\n    g = pl.tile.aic_gather(h, split=1)\n"
    assert codes(region(inside)) == [622]


def test_623_a_product_inside():
    assert 623 in codes(region("q = pl.tile.matmul(l, r)\n" + SHARD + STORE))
    assert codes(region("q = pl.tensor.matmul(x, x)\n", before="")) == [623]


@pytest.mark.parametrize(("mode", "wrong"), [("UP_DOWN", "col_sum"), ("LEFT_RIGHT", "row_sum"), ("NONE", "")])
def test_624_a_reduction_over_what_the_lanes_share(mode, wrong):
    for name in ("col_sum", "row_sum"):
        assert codes(region(f"s = pl.tensor.{name}(x)\n", before="", mode=mode)) == [624] * (name == wrong)


def test_625_vector_work_outside():
    inside = SHARD + STORE
    assert codes(region(inside, before=PRODUCT + VEC)) == []
    assert codes(region(inside, before=PRODUCT + VEC + "e = pl.tile.exp(v)\n")) == [625]
    assert codes(region(inside, before=PRODUCT + VEC + "e = pl.tile.full([8, 8], 0.0, dtype=pl.FP32)\n")) == [625]
    assert codes(region(inside, before=PRODUCT + VEC, after="s = pl.tile.row_max(v, v)\n")) == [625]


def test_626_the_whole_of_a_product_inside():
    assert codes(region("o1 = pl.tile.store(p, [0, 0], o)\n")) == [626]
    assert codes(region("c = p\n" + SHARD + STORE)) == [626]


def test_627_what_leaves_without_being_gathered():
    assert codes(region(SHARD, after="o1 = pl.tile.store(h, [0, 0], o)\n")) == [627]
    assert codes(region("n = pl.tile.get_block_idx()\n" + SHARD + STORE, after="for i in pl.range(n):\n    y = i\n")) == [627]
    used_in_a_type = "z = pl.tile.load(x, [0, 0], [32, 32], [n, 32], target_memory=pl.Mem.Mat)\n"
    assert codes(region("n = pl.tile.get_block_idx()\n" + SHARD + STORE, after=used_in_a_type)) == [627]


@pytest.mark.contract("T169")
def test_628_an_operand_on_the_wrong_side():
    assert codes(region("h = pl.tile.aiv_shard(v, split=1)\n" + STORE, before=VEC)) == [628]
    assert codes(region("h = pl.tile.aiv_shard(a, split=1)\n" + STORE)) == [628]
    assert codes(region("g = pl.tile.aic_gather(a, split=1)\n")) == [628]


def test_629_a_whole_that_is_used_before_it_is_one():
    assert codes(region(SHARD + "g = pl.tile.aic_gather(h, split=1)\nw = pl.tile.move(g, target_memory=pl.Mem.Vec)\n")) == [629]


def test_findings_have_a_place_and_a_remedy():
    text = "q = pl.tile.matmul(l, r)\n" + SHARD + "g = pl.tile.aic_gather(h, split=1)\nw = g\n"
    found = list(region_findings(region(text).get_function("k")))
    assert {d.error_code for d in found} == {623, 626, 629}
    assert all(d.hint and d.span.is_valid() for d in found)
