"""A process that finds everything in the cache: no pass, no compiler, and none of their modules, whatever the kernel is like."""

import json

import pytest
from jit_kit import HEAD

KERNELS = (
    HEAD
    + """
N = pl.dynamic("N")
FACTOR, SHIFTS = 2.0, (1.0, 2.0)
@pl.jit.inline
def inner(t: pl.Tensor, s: pl.FP32 = 3.0):
    return pl.mul(t, s)
@pl.jit.incore
def shift(t: pl.Tensor, y: pl.Out[pl.Tensor]):
    u = inner(t)
    y[:] = pl.add(u, SHIFTS[1])
    return y
@pl.jit
def with_helpers(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = shift(x, y)
    return y
@pl.jit
def with_static(x: pl.Tensor, width: pl.INDEX, s: pl.FP32, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [64, width], [0, 0])
        y[0:64, 0:width] = pl.mul(t, s)
    return y
@pl.jit
def with_dynamic(x: pl.Tensor[[N, 64], pl.FP32], y: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(0, N, 8):
            y[i:i + 8, :] = pl.mul(x[i:i + 8, :], FACTOR)
    return y
@pl.jit
def with_fault(x: pl.Tensor, at: pl.INDEX, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [at, 0], [8, 64])
        y = pl.store(t, [0, 0], y)
    return y
def go():
    got = [call(with_helpers), call(with_dynamic)]
    for width in (32, 16):
        y = np.zeros((64, 64), np.float32); with_static(ones(), width, 2.0, y); got.append(float(y.sum()))
    y = np.zeros((8, 64), np.float32); with_fault(ones(), 8, y)
    try: with_fault(ones(), 60, y)
    except IndexError as e: got.append("pl.load(x, [at, 0]" in str(e) and "t.py:" in str(e))
    return got
print(*go())
"""
)
WANT = ["5.0", "2.0", "4096.0", "2048.0", "True"]
# Nothing below any of these is needed to find and call a kernel.
COMPILER = """
heavy = ("pypto.passes.pipeline", "pypto.passes.manager", "pypto.codegen", "pypto.frontend.statements", "pypto.debug",
         "pypto.frontend.expressions", "pypto.frontend.kernels", "pypto.ir", "pypto.jit.driver", "pypto.runtime.build",
         "pypto.runtime.locks", "pypto.runtime.process", "pypto.runtime.prune", "subprocess", "tempfile", "shutil", "asyncio",
         "hashlib", "platformdirs", "ml_dtypes", "difflib")
print(*[m for m in heavy if any(n == m or n.startswith(m + ".") for n in sys.modules)])
"""


@pytest.mark.parametrize("how", ["native", "ctypes"])
def test_neither_passes_nor_compiler(box, how):
    env = {} if how == "native" else {"PYPTO_LAUNCHER": "ctypes"}
    assert box.run(KERNELS, **env).words == WANT
    (cold,) = box.stats()
    assert (cold["builds"], cold["compiler_runs"], cold["disk_hits"]) == (5, 5, 0)
    assert box.builds(agree=False) == 5
    p = box.run(KERNELS + COMPILER, **env)
    alone = box.run("import sys, numpy\n" + COMPILER).words  # numpy 2.2 imports subprocess by itself
    assert p.words == [*WANT, *alone]  # and no other module in the last line
    assert not p.err
    (warm,) = box.stats()
    assert (warm["pipeline_runs"], warm["compiler_runs"], warm["builds"], warm["misses"]) == (0, 0, 0, 0)
    assert warm["disk_hits"] == warm["requests"] == 5
    assert box.builds(agree=False) == 0


def test_the_modules_of_a_cold_process(box):
    """The test above would pass for nothing if modules had other names."""
    p = box.run(KERNELS + COMPILER)
    assert {"pypto.passes.pipeline", "pypto.codegen", "pypto.frontend.statements", "pypto.ir", "pypto.jit.driver"} <= set(p.words)


def test_defining_kernels_loads_no_numpy(box):
    """`@pl.jit` by itself captures the source; arrays and caches are for calls."""
    text = KERNELS.replace("import numpy as np\n", "").split("def go():")[0]
    p = box.run(
        text + "print(*[m for m in ('numpy', 'pypto.runtime.store', 'pypto.ir', 'msgpack') if m in sys.modules])", COUNTERS=None
    )
    assert p.words == []


def test_a_look_at_a_warm_kernel(box):
    """Its programs and texts are there after a restart; only they load the IR."""
    code = """
k = scaled(2.0)
call(k)
light = "pypto.ir.program" not in sys.modules
made = k.compile(ones(), ones())
print(light, "pypto_entry" in made.inspect("c"), "pl.at" in made.program.as_python(), "tile." in made.inspect("tile_ir"),
      len(made.lowered.function_list), pypto.cache_stats().builds, pypto.cache_stats().pipeline_runs)
"""
    box.run(HEAD + code)
    box.builds()
    assert box.run(HEAD + code).words == ["True", "True", "True", "True", "2", "0", "0"]
    assert box.builds() == 0


def test_everything_that_a_kernel_tells_is_there_after_a_restart(box):
    """The same texts as of the process that built it, and what it reads is watched as there."""
    code = """
c = 2.0
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, c)
    return y
x = ones()
made = k.compile(x, x)
told = [made.explain(), made.program.as_python(), made.lowered.as_python(), made.memory_map().text()]
told += map(made.inspect, ("c", "tile_ir", "buffer_ir", "pto"))
told += [k.lower(x, x).as_python(), k.specialize(x, x).as_python(), k.inspect("buffer_ir")]
print(json.dumps(told))
print(call(k)); c = 3.0; print(call(k)); c = 2.0; print(call(k)); print(pypto.cache_stats().builds)
"""
    cold = box.run(HEAD + code).out.splitlines()
    warm = box.run(HEAD + code).out.splitlines()
    assert (cold[1:], warm[1:]) == (["2.0", "3.0", "2.0", "2"], ["2.0", "3.0", "2.0", "0"])
    assert warm[0] == cold[0]
    told = json.loads(warm[0])
    assert all(told)
    assert told[0].startswith("'k': artifact ")
    assert "  enable_buffer_ir: true" in told[0].splitlines()


def test_an_existing_program(box):
    """Reading a text takes the frontend; neither passes nor compiler."""
    code = """
text = '''import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[64, 64], pl.FP32], y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        return pl.store(pl.mul(pl.load(x, [0, 0], [64, 64]), 3.0), [0, 0], y)
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[64, 64], pl.FP32], y: pl.Out[pl.Tensor[[64, 64], pl.FP32]]) -> pl.Tensor[[64, 64], pl.FP32]:
        y = self.kernel(x, y)
        return y
'''
made = pypto.ir.compile(pl.parse_program(text))
print(float(made(ones())[0, 0]), pypto.cache_stats().pipeline_runs)
"""
    assert box.run(HEAD + code).words == ["3.0", "1"]
    assert box.run(HEAD + code).words == ["3.0", "0"]
    assert box.builds() == 1
