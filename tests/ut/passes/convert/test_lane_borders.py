"""What crosses the border of a vector-lane region becomes a tile operation as it stands, and nothing is loaded for it."""

from __future__ import annotations

import pytest
from back_lab import applied, call_of, raw_kernel, scope, through
from convert_kit import calls_of, kernel, values
from pass_lab import FRONT, apply, findings

from pypto.enums import MemorySpace
from pypto.errors import CompileError, Error
from pypto.ir import ops
from pypto.ir.rewrite import walk
from pypto.ir.stmt import SplitAivScopeStmt
from pypto.ir.verify.lane_regions import Core, core_of
from pypto.ir.verify.properties import IRProperty as P

contract = pytest.mark.contract
M = MemorySpace
T = "pl.Tensor[[32, 16], pl.FP32]"
A = f"a: {T}, b: pl.Tensor[[16, 32], pl.FP32], c: {T}, x: pl.Tensor[[32, 32], pl.FP32], o: pl.Out[{T}]"
TEXT = """
product = pl.matmul(a, b)
for lane in pl.split_aiv(2, mode=pl.SplitMode.{mode}):
    half = pl.aiv_shard(product)
    whole = pl.aic_gather(half * 2.0)
o[:] = pl.matmul(whole, c)
"""
MODES = [("UP_DOWN", 1), ("LEFT_RIGHT", 2)]


@contract("T162", "T167", "T168")
@pytest.mark.parametrize(("mode", "split"), MODES)
def test_each_becomes_the_tile_operation_of_its_name(mode, split):
    f = kernel(TEXT.format(mode=mode), A)
    names = [n for n in applied(f) if "aiv" in n or "aic" in n]
    assert names == ["tile.aiv_shard", "tile.aic_gather"]
    assert [call_of(f, n).kwargs["split"] for n in names] == [split, split]
    half, whole = values(f, "tile.aiv_shard")[0].type, values(f, "tile.aic_gather")[0].type
    assert (half.memory_space, whole.memory_space) == (M.Vec, M.Mat)
    assert [d.value for d in half.shape] == ([16, 32] if split == 1 else [32, 16])
    assert [d.value for d in whole.shape] == [32, 32]


@contract("T170")
@pytest.mark.parametrize(("mode", "split"), MODES)
def test_nothing_is_loaded_for_them(mode, split):
    f = kernel(TEXT.format(mode=mode), A)
    assert applied(f).count("tile.load") == 3
    assert call_of(f, "tile.aiv_shard").args[0] is values(f, "tile.matmul")[0]
    with pytest.raises(Error, match="not a tensor in global memory"):
        kernel(TEXT.format(mode=mode).replace("aiv_shard(product)", "aiv_shard(x)"), A)


@contract("T163")
@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather"])
def test_their_operand_is_a_matrix(name):
    text = f"for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    y = pl.{name}(v)"
    with pytest.raises(Error, match="matrices of two dimensions") as e:
        kernel(text, "v: pl.Tensor[[2, 16, 32], pl.FP32]")
    assert "pl.reshape" in str(e.value)


@contract("T164", "T172")
@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather"])
@pytest.mark.parametrize("space", ["", "tensor."])
def test_outside_of_a_region_they_are_refused(name, space):
    with pytest.raises(Error, match="belongs inside of a vector-lane region") as e:
        kernel(f"p = pl.matmul(a, b)\ny = pl.{space}{name}(p)", A)
    assert "pl.split_aiv" in str(e.value)


@contract("T172")
@pytest.mark.parametrize("level", ["tensor", "tile"])
def test_both_forms_must_stay_in_their_region(level):
    made = "t = pl.tile.create([32, 32], dtype=pl.FP32, target_memory=pl.Mem.Acc)\n"
    body = "y = pl.tensor.aiv_shard(x, split=1)" if level == "tensor" else made + "y = pl.tile.aiv_shard(t, split=1)"
    p = raw_kernel(body, "x: pl.Tensor[[32, 32], pl.FP32]")
    assert [code for code, _ in findings(p, P.AivSplitValid)] == [621]


@contract("T165")
def test_the_low_level_form_takes_tiles_only():
    with pytest.raises(Error, match=r"pl\.tile\.aiv_shard takes a Tile, got a Tensor"):
        kernel(TEXT.format(mode="UP_DOWN").replace("pl.aiv_shard(product)", "pl.tile.aiv_shard(x, split=1)"), A)


@contract("T169")
@pytest.mark.parametrize(
    ("operation", "space"), [("aiv_shard", "Vec"), ("aiv_shard", "Mat"), ("aic_gather", "Acc"), ("aic_gather", "Mat")]
)
def test_where_the_operand_lies_is_for_the_judge_to_say(operation, space):
    assert all(s is None for s in ops.get(f"tile.{operation}").spaces)
    text = (
        f"t = pl.create_tile([32, 32], dtype=pl.FP32, target_memory=pl.Mem.{space})\n"
        f"for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):\n    y = pl.{operation}(t)"
    )
    with pytest.raises(CompileError, match=f"not a tile in {space} memory") as e:
        kernel(text, A)
    assert e.value.code == "C063"
    assert e.value.hint


@contract("T162")
@pytest.mark.parametrize(("mode", "split"), MODES)
def test_they_stay_where_they_stood(mode, split):
    f = kernel(TEXT.format(mode=mode), A)
    (region,) = [n for n in walk(f.body) if isinstance(n, SplitAivScopeStmt)]
    assert len(calls_of(region, "tile.aiv_shard")) == len(calls_of(region, "tile.aic_gather")) == 1
    assert (findings(through(scope(TEXT.format(mode=mode), A), "convert_tensor_to_tile_ops"), P.AivSplitValid)) == []


@contract("T171")
@pytest.mark.parametrize("name", ["aiv_shard", "aic_gather"])
@pytest.mark.parametrize("level", ["tensor", "tile"])
def test_both_forms_keep_both_cores_busy(level, name):
    assert core_of(ops.get(f"{level}.{name}")) is Core.MIXED
    assert core_of(ops.get(f"{level}.matmul")) is Core.CUBE
    assert core_of(ops.get(f"{level}.exp")) is Core.VECTOR
    assert core_of(ops.get("tile.load")) is core_of(ops.get("tensor.assemble")) is Core.SHARED


@contract("T171")
@pytest.mark.parametrize("last", ["outline_incore_scopes", "convert_tensor_to_tile_ops"])
@pytest.mark.parametrize(("mode", "split"), MODES)
def test_they_are_no_work_of_one_core_in_the_region_of_the_other(mode, split, last):
    """A product in a region is refused, vector work outside of one too; what leads from one to the other is neither."""
    p = through(scope(TEXT.format(mode=mode), A), last) if "convert" in last else apply(scope(TEXT.format(mode=mode), A), *FRONT)
    (f,) = [g for g in p.function_list if g.is_device]
    cores = {n: core_of(ops.get(n)) for n in applied(f)}
    assert [n.split(".")[1] for n, core in cores.items() if core is Core.MIXED] == ["aiv_shard", "aic_gather"]
    assert [code for code, _ in findings(p, P.AivSplitValid)] == []
