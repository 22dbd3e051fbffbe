"""What can be asked of a kernel besides a call: compile, lower, specialize, inspect, explain; and what a compiled one answers."""

import os
import re
from pathlib import Path

import jit_kit
import pytest
from jit_kit import HEAD, NO_LAUNCHER, call, full, scaled, untouched

import pypto
import pypto.language as pl
from pypto.enums import MemoryPlanner
from pypto.ir.program import Program
from pypto.passes.context import PassContext, effective
from pypto.passes.instruments import CallbackInstrument
from pypto.passes.select_buffer_ir_functions import why_not_selected
from pypto.runtime import RunConfig

X = full(1.0)


def annotated():
    @pl.jit
    def g(a: pl.Tensor[[32, 32], pl.FP32], s: pl.FP32, o: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.mul(a, s)
        return o

    return g


def with_all_directions():
    @pl.jit
    def k(
        x: pl.Tensor[[64, 64], pl.FP32],
        z: pl.InOut[pl.Tensor[[64, 64], pl.FP32]],
        y: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
        s: pl.FP32,
        w: pl.Out[pl.Tensor[[64, 64], pl.FP32]],
    ):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, s)
            z[:] = pl.add(z, 1.0)
            w[:] = pl.add(x, s)
        return y, w

    return k


# -- compile --


def test_equal_requests_give_the_identical_object():
    kernel = scaled(2.0)
    made = kernel.compile(X, X)
    assert kernel.compile(X, X) is made
    assert kernel.compile(x=X, y=X) is made
    assert kernel.compile(full(7.0), X, config=RunConfig()) is made
    assert kernel.compile(full(1.0, (32, 64)), full(1.0, (32, 64))) is not made
    assert scaled(2.0).compile(X, X) is not made  # of another kernel, with the same files
    assert scaled(2.0).compile(X, X).output_dir == made.output_dir


def test_compiling_does_not_run(launcher):
    kernel, y = scaled(2.0), untouched()
    kernel.compile(X, y)
    assert (y == 77).all()
    before = pypto.cache_stats().requests
    kernel(X, y)  # what is compiled is known to calls
    assert pypto.cache_stats().requests == before


def test_without_sample_arrays(launcher):
    kernel = annotated()
    made = kernel.compile(s=pl.RUNTIME)
    a, o = full(3.0, (32, 32)), untouched((32, 32))
    made(a, 2.5, o)
    assert (o == 7.5).all()
    assert kernel.compile(a, 1.0, o) is made
    assert kernel.compile(s=4.0) is made  # a value changes nothing
    assert isinstance(kernel.lower(s=pl.RUNTIME), Program)
    with pytest.raises(TypeError, match=r"scalar 's' has no value"):
        kernel.compile()
    with pytest.raises(TypeError, match=r"pl\.RUNTIME for 's' is a compile-time marker"):
        kernel.compile(a, pl.RUNTIME, o)
    with pytest.raises(TypeError, match=r"pl\.RUNTIME for 's' is a compile-time marker"):
        kernel(a, pl.RUNTIME, o)
    with pytest.raises(TypeError, match=r"parameter 'x' is not fully annotated") as caught:
        scaled(2.0).compile()
    assert "sample arrays" in str(caught.value)


def test_without_sample_arrays_for_other_names():
    with pytest.raises(TypeError, match="'t'"):
        annotated().compile(s=1.0, t=2.0)


def test_a_default_serves_without_sample_arrays():
    @pl.jit
    def g(a: pl.Tensor[[32, 32], pl.FP32], o: pl.Out[pl.Tensor[[32, 32], pl.FP32]], s: pl.FP32 = 3.0):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = pl.mul(a, s)
        return o

    made, o = g.compile(), untouched((32, 32))
    made(full(1.0, (32, 32)), o, 5.0)
    assert (o == 5).all()


def test_a_run_time_scalar_that_must_be_a_constant():
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], width: pl.INDEX, y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.slice(x, [64, width], [0, 0])
            y[0:64, 0:width] = pl.mul(t, 2.0)
        return y

    with pytest.raises(pypto.Error, match="must be known when the kernel is compiled"):
        k.compile(width=pl.RUNTIME)
    made = k.compile(width=32)
    y = untouched()
    made(X, 32, y)
    assert (y[:, :32] == 2).all()
    with pytest.raises(ValueError, match=r"'width' was compiled for 32, got 16"):
        made(X, 16, y)
    with pytest.raises(TypeError, match=r"'width' is needed as a constant"):
        k.compile(width=pl.RUNTIME)
    assert k.lower(width=32).name == k.specialize(X, 16, X).name == "k"


N = pl.dynamic("N")


def of_rows():
    @pl.jit
    def rows(x: pl.Tensor[[N, 64], pl.FP32], y: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(0, N, 8):
                y[i : i + 8, :] = pl.mul(x[i : i + 8, :], 2.0)
        return y

    return rows


def test_dynamic_extents_without_sample_arrays():
    kernel = of_rows()
    made = kernel.compile()
    for n in (8, 32):
        y = untouched((n, 64))
        made(full(1.0, (n, 64)), y)
        assert (y == 2).all()
    assert kernel.compile(full(1.0, (24, 64)), full(1.0, (24, 64))) is made
    with pytest.raises(ValueError, match=r"output 'y' has a dynamic extent"):
        made(full(1.0, (8, 64)))


# -- what a compiled kernel is --


def test_facts(launcher):
    made = with_all_directions().compile(s=pl.RUNTIME)
    assert made.param_names == ["x", "z", "y", "s", "w"]
    assert made.output_indices == [2, 4]
    assert made.has_return
    assert made.platform == "a2a3sim"
    assert made.output_dir == Path(str(made)) == Path(os.fspath(made))
    assert (made.output_dir / "kernel.so").is_file()
    assert "k: 5 parameters, 1 of them scalars" in repr(made)
    assert made.program.name == "k"
    assert made.lowered.name == made.program.name


def test_in_place_and_returning(launcher):
    kernel = with_all_directions()
    made = kernel.compile(s=pl.RUNTIME)
    z, y, w = full(10.0), untouched(), untouched()
    got = made(X, z, y, 3.0, w)
    assert got[0] is y
    assert got[1] is w
    assert ((y == 3) & (z == 11) & (w == 4)).all()
    new_y, new_w = made(X, z, 5.0)
    assert ((new_y == 5) & (z == 12) & (new_w == 6)).all()
    assert ((y == 3) & (w == 4)).all()
    got = kernel(X, z, y, 2.0, w)
    assert got[0] is y
    assert got[1] is w


def partly():
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[0:8, :] = pl.mul(x[0:8, :], 2.0)
        return y

    return k


def test_an_output_that_is_made_is_zero_where_nothing_is_written(launcher):
    made = partly().compile(X, X)
    y = untouched()
    assert made(X, y) is y
    assert (y[8:] == 77).all()
    fresh = made(X)
    assert (fresh[:8] == 2).all()
    assert (fresh[8:] == 0).all()


@pytest.mark.parametrize("count", [0, 1, 2, 4, 6])
def test_another_number_of_arguments(launcher, count):
    made = with_all_directions().compile(s=pl.RUNTIME)
    with pytest.raises(TypeError) as caught:
        made(*[X] * count)
    text = str(caught.value)
    assert f"CompiledProgram expects 5 (in-place) or 3 (return) arguments, got {count}" in text
    assert "['x', 'z', 'y', 's', 'w']" in text


def test_arguments_that_do_not_fit(launcher):
    made = with_all_directions().compile(s=pl.RUNTIME)
    for args in (
        (X, full(0.0), X.T, 1.0, untouched()),
        (full(1.0, (32, 64)), full(0.0), 1.0),
        (X, full(0.0), untouched(), "1", X),
    ):
        with pytest.raises((TypeError, ValueError), match=r"'[xyzs]'"):
            made(*args)
    with pytest.raises(TypeError, match="'s'"):
        made(X, full(0.0), X)
    with pytest.raises(TypeError, match="'x'"):
        made(1.0, full(0.0), 1.0)


def test_a_kernel_that_returns_nothing(launcher):
    @pl.jit
    def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, 2.0)

    made, y = k.compile(X, X), untouched()
    assert not made.has_return
    assert k(X, y) is None
    assert made(X, y) is None
    assert (y == 2).all()


# -- lower, specialize, inspect --


def test_programs_before_and_after_the_passes():
    kernel = scaled(2.0)
    before, after = kernel.specialize(X, X), kernel.lower(X, X)
    assert "pl.at" in before.as_python()
    assert len(after.function_list) > len(before.function_list)
    assert kernel.lower(X, X) is not after  # never kept
    runs = pypto.cache_stats().pipeline_runs
    kernel.lower(X, X)
    kernel.specialize(X, X)
    assert pypto.cache_stats().pipeline_runs == runs + 1


def test_options_of_lowering():
    kernel = scaled(2.0)
    on = kernel.lower(X, X)
    with PassContext(enable_buffer_ir=False):
        off = kernel.lower(X, X)
    assert on.as_python() != off.as_python()
    dsa = kernel.lower(X, X, config=RunConfig(memory_planner=MemoryPlanner.DSA_RP))
    with PassContext(memory_planner=MemoryPlanner.DSA_RP):
        assert kernel.lower(X, X).as_python() == dsa.as_python()


def test_stages_as_text():
    kernel = scaled(2.0)
    with pytest.raises(ValueError, match="has not been compiled"):
        kernel.inspect("c")
    assert "pypto_entry" in kernel.inspect("c", X, X)
    assert kernel.inspect("c") == kernel.compile(X, X).inspect("c")
    assert "tile.muls" in kernel.inspect("tile_ir")
    assert "buffer." in kernel.inspect("buffer_ir")
    assert "stays at tile stage" not in kernel.inspect("buffer_ir")
    with pytest.raises(ValueError, match="unknown stage 'asm': expected one of c, tile_ir, buffer_ir"):
        kernel.inspect("asm")
    assert "pto.tmuls" in kernel.inspect("pto")


def test_text_for_the_assembler(monkeypatch):
    """The stored text is what is shown without places; a compiler is not needed to see it."""
    kernel = scaled(2.0)
    monkeypatch.setenv("PYPTO_CC", "/nowhere/cc")
    placed = kernel.inspect("pto", X, X)
    assert f'loc("{jit_kit.__file__}":' in placed
    monkeypatch.setenv("PYPTO_EMIT_PTO_LOC", "0")
    plain = kernel.inspect("pto", X, X)
    assert "loc(" not in plain
    assert re.sub(r' loc\("[^"]*":\d+:\d+\)', "", placed) == plain
    monkeypatch.delenv("PYPTO_CC")
    compiled = kernel.compile(X, X)
    assert (compiled.output_dir / "k_incore_0.pto").read_text() == plain


def test_why_a_kernel_is_no_buffers():
    """The selector's own reason stands above the kernel, in every process and for every planner."""
    with PassContext(enable_buffer_ir=False):
        off = scaled(2.0).compile(X, X).inspect("buffer_ir").split("\n")
    at = next(i for i, line in enumerate(off) if "stays at tile stage" in line)
    assert off[at].strip() == "# 'k_incore_0' stays at tile stage: buffers are switched off"
    assert off[at + 1].lstrip().startswith("@pl.function(")
    assert scaled(2.0).compile(X, X).stages == {"k_incore_0": "buffer"}
    with PassContext(enable_buffer_ir=False):
        assert scaled(2.0).compile(X, X).stages == {"k_incore_0": "tile: buffers are switched off"}

    @pl.jit
    def sums(x: pl.Tensor, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, pl.row_sum(x))
        return y

    made = sums.compile(X, X)
    (line,) = [line for line in made.inspect("buffer_ir").split("\n") if "stays at tile stage" in line]
    reason = line.partition("stage: ")[2]
    assert made.stages == {"sums_incore_0": f"tile: {reason}"}
    seen = []
    with PassContext([CallbackInstrument(after_pass=lambda p, program: seen.append((p.name, program)))]):
        sums.lower(X, X)
    program = next(program for name, program in seen if name == "SelectBufferIRFunctions")
    assert reason in [why_not_selected(f, effective()) for f in program.function_list]
    assert "stays at tile stage" not in made.inspect("tile_ir")


def test_the_last_compilation_is_inspected():
    kernel = scaled(2.0)
    call(kernel)
    small = full(1.0, (8, 8))
    kernel(small, untouched((8, 8)))
    assert kernel.inspect("c") == kernel.compile(small, small).inspect("c")


# -- explain --


def test_why_a_call_would_compile(box):
    code = """
F = 2.0
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, F)
    return y
x = ones()
print(k.explain(x, x)); print("--")
k.compile(x, x)
print(k.explain(x, x)); print("--")
F = 3.0
print(k.explain(x, x)); print("--")
F = 2.0
print(k.explain(x[:32], x[:32])); print("--")
from pypto import passes
with passes.PassContext(enable_buffer_ir=False): print(k.explain(x, x))
s = pypto.cache_stats(); print("--"); print(s.requests, s.builds)
"""
    first, loaded, value, shape, option, counts = box.run(HEAD + code).out.split("--\n")
    assert "'k': not stored" in first
    assert loaded.strip() == "'k': loaded in this process"
    assert value.splitlines()[1:] == ["  values: F: 2.0 -> 3.0"]
    assert shape.splitlines()[1:] == [f"  parameters: {p}: FP32 [64, 64] -> FP32 [32, 64]" for p in "xy"]
    assert "enable_buffer_ir: True -> False" in option
    assert counts.split() == ["1", "1"]
    first, *_ = box.run(HEAD + code).out.split("--\n")
    assert "'k': stored in" in first


EDITED = """
import sys
from pathlib import Path
import importlib
TEXT = '''
import pypto.language as pl

@pl.jit.incore
def stage(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    "Text."
    t = pl.load(x, [0, 0], [8, 64])  # a comment
    y = pl.store(pl.exp(t), [0, 0], y)
    return y


@pl.jit
def twice(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = stage(x, y)
    for i in pl.range(0, 8, 4):

        y = stage(x, y)
    return y
'''
def made(number, *changes):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path(f"twice{number}.py").write_text(text)
    sys.path.insert(0, ".")
    importlib.invalidate_caches()
    return importlib.import_module(f"twice{number}").twice
x = ones()
print(made(0).explain(x, x)); print("--")
scaled(7.0).compile(x, x)
print(made(0).explain(x, x)); print("--")
made(0).compile(x, x)
print(made(1, ("# a comment", "")).explain(x, x)); print("--")
print(made(2, ("8, 4)", "8, 2)")).explain(x, x)); print("--")
print(made(3, ("pl.exp(t)", "pl.neg(t)")).explain(x, x)); print("--")
print(made(4, ("y = stage(x, y)\\n    return", "y = stage(x, y)\\n    y = stage(x, y)\\n    return")).explain(x, x)); print("--")
print(made(5, ("def stage", "def part"), ("stage(x, y)", "part(x, y)")).explain(x, x))
"""


def test_which_line_of_the_source_is_another_one(box):
    """Only artifacts of a kernel of this name are compared, whatever else the cache holds."""
    parts = [t.strip().splitlines() for t in box.run(HEAD + EDITED).out.split("--\n")]
    empty, other, comment, step, helper, more, renamed = parts
    assert empty == other
    assert "the cache has no artifact of a kernel of this name" in empty[0]
    assert comment == ["'twice': loaded in this process"] or "'twice': stored in" in comment[0]
    assert step[1:] == ['  twice, line 15: "for i in pl.range(0, 8, 2):" was "for i in pl.range(0, 8, 4):"']
    assert helper[1:] == ['  stage, line 8: "y = pl.store(pl.neg(t), [0, 0], y)" was "y = pl.store(pl.exp(t), [0, 0], y)"']
    assert more[1:] == ['  twice, line 18: "y = stage(x, y)" was "return y"']
    assert renamed[1:] == [
        '  twice, line 14: "y = part(x, y)" was "y = stage(x, y)"',
        "  helper part: not used -> used",
        "  helper stage: used -> not used",
    ]


def test_explaining_in_an_empty_cache(new_box):
    box = new_box(empty=True)
    text = box.run(HEAD + "k = scaled(2.0)\nprint(k.explain(ones(), ones()))\n", **NO_LAUNCHER).out
    assert "'k': not stored" in text
    assert "no artifact" in text


# -- run configurations --


def test_a_configuration_of_one_call(launcher):
    kernel, y = scaled(2.0), untouched()
    kernel(X, y, config=RunConfig(memory_planner=MemoryPlanner.DSA_RP))
    assert (y == 2).all()
    before = pypto.cache_stats().requests
    assert call(kernel) == 2.0  # by the default planner: the configuration was of that call only
    assert pypto.cache_stats().requests == before + 1
    assert {c.record.parts["memory_planner"] for c in kernel.kernels.values()} == {MemoryPlanner.DSA_RP, MemoryPlanner.PYPTO}


def test_a_configuration_under_a_context():
    kernel = scaled(2.0)

    def planner(config):
        return kernel.compile(X, X, config=config).record.parts["memory_planner"]

    with PassContext(memory_planner=MemoryPlanner.DSA_RP, platform="a5sim"):
        assert planner(RunConfig()) is MemoryPlanner.DSA_RP  # it says nothing about planners
        assert planner(RunConfig(memory_planner=MemoryPlanner.PTOAS)) is MemoryPlanner.PTOAS
        assert kernel.compile(X, X).platform == "a5sim"
        assert kernel.compile(X, X, config=RunConfig(platform="a2a3sim")).platform == "a2a3sim"
    assert planner(RunConfig()) is MemoryPlanner.PYPTO


def test_what_is_no_configuration(launcher):
    kernel = scaled(2.0)
    for wrong in ({"platform": "a5"}, "a5", 3, PassContext()):
        with pytest.raises(TypeError, match=r"config.*RunConfig"):
            kernel(X, untouched(), config=wrong)
        with pytest.raises(TypeError, match=r"config.*RunConfig"):
            kernel.compile(X, X, config=wrong)


def test_a_parameter_called_config(launcher):
    @pl.jit
    def k(x: pl.Tensor, config: pl.FP32, y: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, config)
        return y

    for _ in range(2):
        y = untouched()
        k(X, config=3.0, y=y)
        assert (y == 3).all()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"platform": "a6"}, ValueError),
        ({"memory_planner": "PYPTO"}, TypeError),
        ({"enable_pmu": 1}, NotImplementedError),
        ({"save_kernels": True}, NotImplementedError),
        ({"dump_passes": True}, NotImplementedError),
        ({"ring_heap": 1000}, ValueError),
        ({"ring_task_window": [4, 4]}, ValueError),
    ],
)
def test_values_that_mean_nothing_here(values, error):
    with pytest.raises(error, match=next(iter(values))):
        RunConfig(**values)


def test_a_compiled_kernel_and_a_configuration(launcher):
    """It is compiled already: what a configuration could still say about it must agree with it."""
    made, y = scaled(2.0).compile(X, X), untouched()
    made(X, y, config=RunConfig(device_id=1))
    assert (y == 2).all()
    with pytest.raises(ValueError, match="platform"):
        made(X, y, config=RunConfig(platform="a5"))
    with pytest.raises(ValueError, match="planner"):
        made(X, y, config=RunConfig(memory_planner=MemoryPlanner.PTOAS))


# -- counters --


def test_counters(box):
    code = """
a = pypto.cache_stats()
k = scaled(2.0)
call(k); call(k); call(k)
b = pypto.cache_stats()
k.compile(ones(), ones())
c = pypto.cache_stats()
print(a.requests, b.requests, c.requests, c.memory_hits - b.memory_hits, type(a).__name__)
try: a.requests = 5
except AttributeError: print("fixed")
"""
    assert box.run(HEAD + code).words == ["0", "1", "2", "1", "CacheStats", "fixed"]
    (cold,) = box.stats()
    assert (cold["requests"], cold["misses"], cold["builds"], cold["private_builds"], cold["disk_hits"]) == (2, 1, 1, 0, 0)
    assert (cold["pipeline_runs"], cold["compiler_runs"]) == (1, 1)
    assert cold["build_ns"] > cold["lookup_ns"] > 0
    box.run(HEAD + code)
    (warm,) = box.stats()
    assert (warm["requests"], warm["misses"], warm["builds"], warm["disk_hits"], warm["memory_hits"]) == (2, 0, 0, 1, 1)
    assert (warm["pipeline_runs"], warm["compiler_runs"], warm["build_ns"]) == (0, 0, 0)
