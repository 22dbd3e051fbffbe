"""`pypto.ir.compile`: programs that exist already take the same way through the cache as kernels."""

import numpy as np
import pytest
from jit_kit import HEAD, call, full, scaled, untouched

import pypto
import pypto.language as pl
from pypto import ir
from pypto.enums import MemoryPlanner, RuntimeKind
from pypto.jit import programs
from pypto.passes import CallbackInstrument
from pypto.passes.context import PassContext

TEXT = """import pypto.language as pl
@pl.program
class Scaling:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[64, 64], pl.FP32], y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        t = pl.load(x, [0, 0], [64, 64])
        r = pl.mul(t, 3.0)
        return pl.store(r, [0, 0], y)
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[64, 64], pl.FP32], y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        y = self.kernel(x, y)
        return y
"""


@pytest.fixture
def program():
    return pl.parse_program(TEXT)


def test_call_styles(launcher, program):
    made, y = ir.compile(program), untouched()
    assert made(full(2.0), y) is y
    assert (y == 6).all()
    assert (made(full(4.0)) == 12).all()
    assert made.param_names == ["x", "y"]
    assert made.output_indices == [1]
    assert made.program.as_python() == program.as_python()
    assert "3.0" in made.inspect("c")


def test_equal_requests_give_the_identical_object(program):
    made = ir.compile(program)
    assert ir.compile(program) is made
    assert ir.compile(pl.parse_program(TEXT)) is made
    assert ir.compile(program, dump_passes=False, skip_ptoas=True) is made
    others = [
        ir.compile(program, memory_planner=MemoryPlanner.DSA_RP),
        ir.compile(program, enable_buffer_ir=False),
        ir.compile(program, platform="a5sim"),
        ir.compile(pl.parse_program(TEXT.replace("3.0", "4.0"))),
    ]
    assert len({id(m) for m in (made, *others)}) == 5
    assert all((m(full(1.0)) == 3).all() for m in others[:3])
    assert (others[3](full(1.0)) == 4).all()
    assert others[2].platform == "a5sim"


def test_where_a_text_stands_does_not_count(program):
    moved = pl.parse_program("\n\n\n" + TEXT.replace("    @pl", "    # a comment\n    @pl"))
    assert ir.compile(moved) is ir.compile(program)


def test_through_the_store(box):
    code = "P = '''" + TEXT + "'''\nm = pypto.ir.compile(pl.parse_program(P))\nprint(float(m(ones())[0, 0]))\n"
    for builds in (1, 0):
        assert box.run(HEAD + code).words == ["3.0"]
        assert box.builds() == builds


def test_of_a_kernels_own_program(launcher):
    kernel = scaled(5.0)
    for made in (ir.compile(kernel.specialize(full(1.0), full(1.0))), kernel.compile(full(1.0), full(1.0))):
        assert call(made) == 5.0


def test_an_output_directory(program, tmp_path):
    builds = pypto.cache_stats().builds
    out = tmp_path / "a" / "b"
    made = ir.compile(program, output_dir=out)
    assert made.output_dir == out
    assert {p.name for p in out.iterdir()} >= {"kernel.c", "kernel.so", "plan.msgpack", "device.msgpack", "passes_dump"}
    dumps = sorted(p.name for p in (out / "passes_dump").iterdir())
    assert dumps[0] == "00_frontend.py"
    assert any("after_ConvertToSSA" in d for d in dumps)
    (out / "kept.txt").write_text("x")
    again = ir.compile(program, output_dir=str(out), dump_passes=False)
    assert again is not made
    assert (out / "kept.txt").exists()
    assert pypto.cache_stats().builds == builds + 2
    assert (again(full(1.0)) == 3).all()
    quiet = ir.compile(program, output_dir=tmp_path / "quiet", dump_passes=False)
    assert not (tmp_path / "quiet" / "passes_dump").exists()
    assert (quiet(full(1.0)) == 3).all()


def test_an_output_directory_that_cannot_be(program, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        ir.compile(program, output_dir=tmp_path / "file")


@pytest.mark.parametrize(
    "given",
    [
        {"verification_level": 0},
        {"memory_planner": MemoryPlanner.DSA_RP},
        {"runtime": RuntimeKind.TENSORMAP_AND_RINGBUFFER},
        {"diagnostic_phase": 0},
        {"enable_buffer_ir": True},
        {"enable_pypto_l0c_double_buffer": False},
    ],
)
def test_an_active_context_decides(program, given):
    with PassContext(), pytest.raises(RuntimeError, match=next(iter(given))):
        ir.compile(program, **given)
    ir.compile(program, **given)


def test_options_of_the_context(program):
    plain = ir.compile(program)
    with PassContext(memory_planner=MemoryPlanner.DSA_RP):
        assert ir.compile(program) is ir.compile(program, platform="a2a3sim")
        within = ir.compile(program)
    assert within is not plain
    assert within is ir.compile(program, memory_planner=MemoryPlanner.DSA_RP)
    seen = []
    with PassContext([CallbackInstrument(after_pass=lambda p, prog: seen.append(p))]):
        watched = ir.compile(program)
    assert len(seen) > 5
    assert watched is not plain
    assert ir.compile(program) is plain


@pytest.mark.parametrize(
    "given",
    [{"profiling": True}, {"distributed_config": object()}, {"dump_ptoas_passes": True}, {"analyze_auto_scopes_for_deps": True}],
)
def test_what_has_no_effect_here(program, given):
    with pytest.raises(NotImplementedError, match=next(iter(given))):
        ir.compile(program, **given)


def test_what_is_no_program():
    for wrong in (scaled(2.0), TEXT, None):
        with pytest.raises(TypeError, match="takes a Program"):
            ir.compile(wrong)


def test_which_function_is_started(program):
    assert programs.entry_of(program) == "main"
    alone = TEXT.split("    @pl.function(type=pl.FunctionType.Orchestration)")[0]
    with pytest.raises(NotImplementedError, match="no orchestration function") as caught:
        ir.compile(pl.parse_program(alone))
    assert "Orchestration" in str(caught.value)
    with pytest.raises(NotImplementedError, match="several orchestration functions: main, other"):
        ir.compile(
            pl.parse_program(TEXT + TEXT[TEXT.index("    @pl.function(type=pl.FunctionType.Orch") :].replace("main", "other"))
        )


def test_a_platform_that_is_none(program):
    with pytest.raises(ValueError, match="platform"):
        ir.compile(program, platform="a6")
    with pytest.raises(ValueError, match="platform"):
        PassContext(platform="a6")


def test_a_fault_names_the_statement(launcher):
    big, small = "pl.Tensor[[64, 64], pl.FP32]", "pl.Tensor[[8, 64], pl.FP32]"
    text = f"""import pypto.language as pl
@pl.program
class Sliding:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: {big}, at: pl.Scalar[pl.INDEX], y: pl.Out[{small}]) -> {small}:
        t = pl.load(x, [at, 0], [8, 64])
        return pl.store(t, [0, 0], y)
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: {big}, at: pl.Scalar[pl.INDEX], y: pl.Out[{small}]) -> {small}:
        y = self.kernel(x, at, y)
        return y
"""
    made = ir.compile(pl.parse_program(text))
    x, y = np.arange(4096, dtype=np.float32).reshape(64, 64), untouched((8, 64))
    made(x, 8, y)
    assert (y == x[8:16]).all()
    with pytest.raises(IndexError, match="57"):
        made(x, 57, y)
