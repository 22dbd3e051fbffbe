"""Warnings and hints: found where they are, quiet where not."""

from textwrap import indent

import pytest
from pass_lab import apply, body, program

from pypto import passes
from pypto.passes.diagnostics import show

Check, Phase = passes.DiagnosticCheck, passes.DiagnosticPhase
X = "pl.Tensor[[16, 16], pl.FP32]"
XO = f"x: {X}, o: pl.Out[{X}]"


def found(p, check, phase=Phase.PRE_PIPELINE):
    return passes.DiagnosticCheckRegistry.run_checks([check], phase, p)


def test_a_variable_that_nothing_reads():
    p = body("a = pl.read(x, [0, 0])\nb = pl.read(x, [0, 1])\npl.write(o, [0, 0], b)\nreturn o", XO)
    (d,) = found(p, Check.UnusedVariable)
    assert "'a' is assigned but never read" in d.text()
    assert d.span.begin_line == 4


def test_a_result_that_nothing_reads():
    p = apply(body("k = pl.const(0, pl.INDEX)\nfor i in pl.range(3):\n    k = k + i\nreturn o", XO), "convert_to_ssa")
    assert found(p, Check.UnusedControlFlowResult)
    assert Check.UnusedControlFlowResult in passes.DiagnosticCheckRegistry.OFF_BY_DEFAULT


def test_an_output_that_is_rebound_instead_of_written():
    p = body("with pl.at(level=pl.Level.CORE_GROUP):\n    o = pl.tensor.add(x, x)\nreturn o", XO)
    (d,) = found(p, Check.OutParamWriteDropped)
    assert "o[:]" in d.message
    written = body("with pl.at(level=pl.Level.CORE_GROUP):\n    o[:] = pl.tensor.add(x, x)\nreturn o", XO)
    assert found(written, Check.OutParamWriteDropped) == []


WHOLE = "pl.Tensor[[32, 16], pl.FP32]"
PART = f"""
@pl.program
class Parts:
    @pl.function(type=pl.FunctionType.InCore)
    def part(x: {X}, o: pl.Out[{X}]) -> {X}:
        o = pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], o)
        return o

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {WHOLE}, o: pl.Out[{WHOLE}], p: pl.Out[{WHOLE}]) -> {WHOLE}:
"""
PLACES = """
a = o
b = p
for i in pl.range(3):
    a = pl.assemble(a, x, [0, 0])
    c = a
    a = b
    b = c
return o
"""
ONE_NAME = """
w = o[0:16]
w = self.part(x[0:16], w)
w = p[0:16]
w = self.part(x[0:16], w)
return o
"""
LAUNCHED = """
w = o[0:16]
for i in pl.range(2):
    _v, t = pl.submit(self.part, x[0:16], w)
    w = p[i * 16 : i * 16 + 16]
return o
"""
RELABELLED = """
w = pl.reshape(o, [2, 16, 16])
for i in pl.range(2):
    v = pl.reshape(w[i], [16, 16])
    v = self.part(x[0:16], v)
p[:] = x
return o
"""


def parts(lines):
    return program(PART + indent(lines, " " * 8))


@pytest.mark.parametrize("lines", [PLACES, ONE_NAME, LAUNCHED, RELABELLED])
def test_outputs_that_are_written_under_other_names(lines):
    assert found(parts(lines), Check.OutParamWriteDropped) == []


@pytest.mark.parametrize("lines", [ONE_NAME, LAUNCHED])
def test_an_output_whose_window_gets_no_name(lines):
    (d,) = found(parts(lines.replace("o[0:16]", "p[0:16]")), Check.OutParamWriteDropped)
    assert "nothing writes the output 'o'" in d.message


def test_short_rows_are_a_hint_after_the_pipeline(tmp_path, capsys):
    p = program(f"""
        @pl.function(type=pl.FunctionType.InCore)
        def main({XO}):
            t = pl.load(x, [0, 0], [16, 16])
            o = pl.store(t, [0, 0], o)
            return o
        """)
    assert found(p, Check.TileInnermostDimGranularity) == []
    hints = found(p, Check.TileInnermostDimGranularity, Phase.POST_PIPELINE)
    assert [h.hint_code for h in hints] == ["PH001", "PH001"]
    show(hints, "post_pipeline", str(tmp_path))
    assert (tmp_path / "perf_hints.log").read_text().count("PH001") == 2
    assert capsys.readouterr().err.startswith("2 performance hint(s)")
    show(hints, "post_pipeline")
    assert capsys.readouterr().err.count("64 bytes") == 2


def test_the_instrument_runs_after_each_pass(capsys):
    p = body("a = pl.read(x, [0, 0])\nreturn o", XO)
    with passes.PassContext([passes.DiagnosticInstrument([Check.UnusedVariable])]):
        passes.convert_to_ssa()(p)
    assert "after ConvertToSSA" in capsys.readouterr().err


@pytest.mark.parametrize(("group", "count"), [("get_all_checks", 4), ("get_warning_checks", 3), ("get_perf_hint_checks", 1)])
def test_groups_of_checks(group, count):
    assert len(getattr(passes.DiagnosticCheckRegistry, group)()) == count
