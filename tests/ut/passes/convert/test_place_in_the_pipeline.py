"""What ConvertTensorToTileOps needs, what it establishes, and where it stands."""

from __future__ import annotations

import pytest
from back_lab import raw_kernel
from convert_kit import T, convert, kernel
from pass_lab import FRONT, apply, findings, program

from pypto import passes
from pypto.ir.program import Program
from pypto.ir.verify.properties import IRProperty as P
from pypto.passes import pipeline
from pypto.passes.context import PassOptions
from pypto.passes.manager import Pipeline
from pypto.passes.pipeline import default_pipeline, find_pass

contract = pytest.mark.contract
NAME = "convert_tensor_to_tile_ops"
THE_PASS = find_pass(NAME)


@contract("T003")
def test_it_stands_between_clusters_and_orchestration():
    at = pipeline.ORDER.index(NAME)
    assert pipeline.ORDER[at - 1 : at + 2] == ("outline_cluster_scopes", NAME, "optimize_orch_tensors")
    names = default_pipeline(PassOptions()).names
    assert names[names.index("OutlineClusterScopes") :][:3] == [
        "OutlineClusterScopes",
        "ConvertTensorToTileOps",
        "OptimizeOrchTensors",
    ]


@contract("T004")
def test_it_is_made_by_its_name_and_takes_a_program():
    made = passes.convert_tensor_to_tile_ops()
    assert made.get_name() == "ConvertTensorToTileOps"
    p = raw_kernel("y = pl.tensor.muls(x, 2.0)\nreturn y", f"x: {T}", T)
    after = made(p)
    assert isinstance(after, Program)
    assert len(after.function_list[0].params) == 2


@contract("T002", "T180")
@pytest.mark.parametrize("missing", ["SSAForm", "SplitIncoreOrch", "NormalizedStmtStructure"])
def test_a_pipeline_without_what_it_needs_cannot_be_built(missing):
    needed = {P.SSAForm, P.SplitIncoreOrch, P.NormalizedStmtStructure}
    assert THE_PASS.requires == needed
    Pipeline([THE_PASS], given=needed)
    with pytest.raises(Exception, match=missing):
        Pipeline([THE_PASS], given=needed - {P[missing]})


@contract("T179")
def test_what_it_establishes():
    assert THE_PASS.produces == {P.SSAForm, P.IncoreTileOps, P.NormalizedStmtStructure, P.AivSplitValid}
    # Of a program with branches, loops, shared loads and results, what there is a judge for holds.
    f = kernel(
        "e = x\nfor i in pl.range(4):\n    e = pl.add(e, x)\nif pl.read(x, [0, 0]) > 0.0:\n    g = e\nelse:\n    g = x\no[:] = g",
        f"x: {T}, o: {T}",
    )
    p = Program([f], "test")
    assert findings(p, P.SSAForm, P.IncoreTileOps, P.NormalizedStmtStructure) == []


@contract("T181")
def test_the_split_regions_are_checked_again():
    assert THE_PASS.invalidates == {P.AivSplitValid}
    assert P.AivSplitValid in THE_PASS.produces


@contract("T182")
def test_no_tensor_operator_computes_in_a_kernel_afterwards():
    before = raw_kernel(
        "y = pl.tensor.add(x, x)\ns = pl.tensor.slice(y, [4, 64], [0, 0])\nr = pl.tensor.assemble(o, s, [0, 0])",
        f"x: {T}, o: {T}",
    )
    assert findings(before, P.IncoreTileOps) != []
    assert findings(convert(before), P.IncoreTileOps) == []


@contract("T001")
def test_a_function_that_is_no_kernel_keeps_its_tensor_operators():
    text = f"@pl.function\ndef main(x: {T}, o: pl.Out[{T}]):\n    pl.write(o, [0, 0], pl.read(x, [0, 0]))\n"
    p = apply(program(text), *FRONT)
    assert convert(p).function_list[0] is p.function_list[0]
