"""The judge of hard barriers finds launches that leave cores out, whatever form they have."""

from __future__ import annotations

import pytest

from pypto import frontend
from pypto.ir.program import Program
from pypto.ir.verify.properties import IRProperty
from pypto.ir.verify.registry import VERIFIED, judge_of
from pypto.ir.verify.syncalls import hard_syncall_occupancy_valid, launch_findings
from pypto.target import chip_of

TEXT = """
import pypto.language as pl


@pl.program
class test:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, s: {counts}, o: pl.Out[{out}]) -> {out}:
        pl.system.syncall({barrier})
        return pl.store(pl.tile.full([8, 32], dtype=pl.FP32, value=1.0), [0, 0], o)

    @pl.function(type=pl.FunctionType.{kind})
    def wrapper(self, s: {counts}, o: pl.Out[{out}]) -> {out}:
        o = self.kernel(s, o)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, s: {counts}, o: pl.Out[{out}]) -> {out}:
        {launch}
        return o
"""


def program(launch: str, barrier: str = "", kind: str = "Spmd") -> Program:
    types = {"counts": "pl.InOut[pl.Tensor[[1, 512], pl.INT32]]", "out": "pl.Tensor[[8, 32], pl.FP32]"}
    made = frontend.parse(TEXT.format(launch=launch, barrier=barrier, kind=kind, **types))
    assert isinstance(made, Program)
    return made


SUBMIT = "o, t = pl.spmd_submit(self.{callee}, s, o, core_num={n}, sync_start={sync})"


@pytest.mark.parametrize(
    ("launch", "barrier", "codes"),
    [
        (SUBMIT.format(callee="kernel", n=24, sync=True), "", []),
        (SUBMIT.format(callee="kernel", n=36, sync=True), "", []),  # another chip has as many
        (SUBMIT.format(callee="kernel", n=24, sync=False), "", [641]),
        (SUBMIT.format(callee="kernel", n=8, sync=True), "", [640]),
        (SUBMIT.format(callee="kernel", n=24, sync=True), "core_type='aiv_only'", [640]),
        (SUBMIT.format(callee="kernel", n=48, sync=True), "core_type='aiv_only'", []),
        (SUBMIT.format(callee="kernel", n=8, sync=False), "mode='soft', gm_workspace=s", []),
        (SUBMIT.format(callee="wrapper", n=8, sync=True), "", [640]),
        (SUBMIT.format(callee="wrapper", n=24, sync=True), "", []),
        ("o, t = pl.submit(self.kernel, s, o)", "", [640]),
        ("o = self.kernel(s, o)", "", [640]),
        ("o = self.wrapper(s, o)", "", [640]),
    ],
)
@pytest.mark.parametrize("kind", ["Spmd", "Group"])
def test_launches(launch: str, barrier: str, codes: list[int], kind: str) -> None:
    found = list(hard_syncall_occupancy_valid(program(launch, barrier, kind)))
    assert [d.error_code for d in found] == codes
    assert all(d.span.is_valid() and d.hint for d in found)


def test_a_number_of_blocks_that_nobody_knows() -> None:
    launch = "n = pl.read(s, [0, 0])\n        " + SUBMIT.format(callee="kernel", n="n", sync=True)
    (found,) = hard_syncall_occupancy_valid(program(launch))
    assert (found.error_code, "only a run knows" in found.message) == (640, True)


def test_for_one_chip() -> None:
    made = program(SUBMIT.format(callee="kernel", n=36, sync=True))
    assert [d.error_code for d in launch_findings(made, (chip_of("a2a3"),))] == [640]
    assert not list(launch_findings(made, (chip_of("a5"),)))


def test_the_registry_knows_it() -> None:
    assert judge_of(IRProperty.HardSyncallOccupancyValid) is hard_syncall_occupancy_valid
    assert IRProperty.HardSyncallOccupancyValid in VERIFIED
