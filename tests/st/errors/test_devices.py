"""Platforms of devices that are not here: one error wherever something would run, and all that needs no device works."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import ir
from pypto.cli.main import main
from pypto.enums import FunctionIRStage, MemoryPlanner
from pypto.errors import ArgumentTypeError, ConfigError, ToolchainError
from pypto.passes import PassContext
from pypto.runtime import RunConfig

T = pl.Tensor[[16, 32], pl.FP32]
X = np.ones((16, 32), np.float32)
devices = pytest.mark.parametrize("platform", ["a2a3", "a5"])


@pl.jit
def k(x: T, o: pl.Out[T]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 32])
        o = pl.store(pl.add(t, t), [0, 0], o)
    return o


def ways(platform, o):
    """Everything that would make something to be run."""
    program, config = k.specialize(X, o), RunConfig(platform=platform)

    def within(call):
        with PassContext(platform=platform):
            return call()

    def in_a_thread(call):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call).result()

    return {
        "call": lambda: k(X, o, config=config),
        "call in a context": lambda: within(lambda: k(X, o)),
        "call in a thread": lambda: in_a_thread(lambda: k(X, o, config=config)),
        "compile": lambda: k.compile(X, o, config=config),
        "compile by annotations": lambda: k.compile(config=config),
        "ir.compile": lambda: ir.compile(program, platform=platform),
        "ir.compile in a context": lambda: within(lambda: ir.compile(program)),
        "watched": lambda: _watched(platform, o),
        "the C of it": lambda: k.inspect("c", X, o, config=config),
        "generated": lambda: k.generate(X, o, config=config)(X, o),
    }


def _watched(platform, o):
    from pypto.passes import CallbackInstrument

    with PassContext([CallbackInstrument(after_pass=lambda p, program: None)], platform=platform):
        return k(X, o)


@devices
@pytest.mark.parametrize("way", ways("a2a3", X.copy()))
def test_nothing_runs_under_a_devices_name(platform, way):
    o = np.full((16, 32), -777, np.float32)
    k(X, X.copy())  # what the host has compiled does not answer for a device
    call = ways(platform, o)[way]
    before = pypto.cache_stats()
    for _ in range(2):
        with pytest.raises(ToolchainError) as caught:
            call()
        e = pickle.loads(pickle.dumps(caught.value))
        assert e.code == "T130"
        assert e.message.startswith(f"platform '{platform}' is a device, and there is no toolchain for it here")
        assert f"platform '{platform}sim' has the same memories and rules and runs on this host" in e.hint
        assert isinstance(e, RuntimeError)
    after = pypto.cache_stats()
    assert (after.builds, after.compiler_runs) == (before.builds, before.compiler_runs)
    assert (o == -777).all()


@devices
def test_an_output_directory_stays_empty(platform, tmp_path):
    with pytest.raises(ToolchainError, match="is a device"):
        ir.compile(k.specialize(X, X), platform=platform, output_dir=tmp_path / "out", dump_passes=False)
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]


@devices
def test_all_that_needs_no_device(platform):
    config = RunConfig(platform=platform)
    assert k.lower(config=config).as_python() == k.lower(config=RunConfig(platform=f"{platform}sim")).as_python()
    assert k.specialize(config=config).as_python()
    assert k.memory_map(config=config).chip == platform
    assert "not stored" in k.explain(X, X, config=config)
    for stage in ("tile_ir", "buffer_ir", "pto", "ptoas"):
        assert k.inspect(stage, X, X, config=config)
    assert k.inspect("pto", X, X, config=config).startswith(f'module attributes {{pto.target_arch = "{platform}"}}')
    with PassContext(platform=platform):
        assert k.inspect("buffer_ir", X, X) == k.inspect("buffer_ir", X, X, config=config)


@devices
@pytest.mark.parametrize("planner", list(MemoryPlanner))
def test_what_is_generated(platform, planner, tmp_path):
    """The same programs and texts that a compilation for the simulator keeps, but for the name of the chip."""
    with PassContext(memory_planner=planner, platform=platform):
        made = k.generate(X, X)
    with PassContext(memory_planner=planner, platform=f"{platform}sim"):
        compiled = k.compile(X, X)
    assert made.platform == platform
    for stage in ("tile_ir", "buffer_ir", "pto", "ptoas"):
        assert made.inspect(stage) == compiled.inspect(stage)
    stages = {f.ir_stage for f in made.lowered.function_list if f.is_device}
    assert stages == {FunctionIRStage.Buffer if platform == "a2a3" else FunctionIRStage.Functional}
    assert made.program.as_python() == k.specialize(X, X).as_python()
    made.copy_to(str(tmp_path / "a"))
    compiled.copy_to(str(tmp_path / "b"))
    ours, theirs = (
        {str(p.relative_to(d)): p.read_bytes() for p in d.rglob("*") if p.is_file()} for d in (tmp_path / "a", tmp_path / "b")
    )
    assert set(theirs) - set(ours) == {"kernel.c", "kernel.so", "plan.msgpack"}
    assert ours == {name: theirs[name] for name in ours}


def test_unknown_platforms_are_no_devices():
    for made in RunConfig, PassContext:
        with pytest.raises(ConfigError, match="platform must be one of a2a3sim, a2a3, a5sim, a5") as caught:
            made(platform="a6")
        assert caught.value.hint == f'{made.__name__}(platform="a2a3sim")'


@pytest.mark.parametrize("way", ["__call__", "compile", "lower", "generate"])
def test_a_platform_that_is_given_as_an_argument(way):
    with pytest.raises(ArgumentTypeError, match="'platform'") as caught:
        getattr(k, way)(X, X.copy(), platform="a5sim")
    assert "config=RunConfig(platform=...)" in caught.value.hint
    assert "PassContext(platform=...)" in caught.value.hint


def test_a_platform_that_a_decorator_gets():
    with pytest.raises(ArgumentTypeError, match=r"@pl.jit got an unexpected keyword argument 'platform'") as caught:
        pl.jit(platform="a2a3")
    assert "config=RunConfig(platform=...)" in caught.value.hint
    with pytest.raises(ArgumentTypeError, match=r"it takes level=") as caught:
        pl.jit.incore(size=3)
    assert "level=" in caught.value.hint


def test_fields_of_a_configuration_that_have_no_such_value():
    for field in {"ring_heap": 3}, {"ring_task_window": [4, 4]}, {"ring_dep_pool": 0}:
        with pytest.raises(ConfigError, match=next(iter(field))):
            RunConfig(**field)
    with pytest.raises(ArgumentTypeError, match="memory_planner"):
        RunConfig(memory_planner="pypto")


def test_arrays_where_a_stage_belongs():
    with pytest.raises(ArgumentTypeError, match="name of a stage first, got ndarray") as caught:
        k.inspect(X, X.copy())
    assert 'k.inspect("c", ...)' in caught.value.hint


@devices
def test_the_command_line(platform, tmp_path, capsys):
    file = tmp_path / "file.py"
    file.write_text(
        "import pypto.language as pl\nT = pl.Tensor[[16, 32], pl.FP32]\n\n\n@pl.jit\ndef k(x: T, o: pl.Out[T]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n        t = pl.load(x, [0, 0], [16, 32])\n"
        "        o = pl.store(t, [0, 0], o)\n    return o\n"
    )
    for stage in ("tensor", "tile_ir", "buffer_ir", "pto", "ptoas", "memory-map"):
        assert main(["inspect", str(file), "--platform", platform, "--stage", stage]) == 0
        assert capsys.readouterr().out
    for emit in ("program", "pto"):
        assert main(["lower", str(file), "--platform", platform, "--emit", emit]) == 0
    capsys.readouterr()
    assert main(["inspect", str(file), "--platform", platform, "--stage", "c"]) == 1
    ran = capsys.readouterr()
    assert ran.out == ""
    assert f"error[T130]: platform '{platform}' is a device" in ran.err
    assert f"platform '{platform}sim'" in ran.err


@pytest.mark.parametrize("way", ["__call__", "compile"])
def test_an_option_that_is_wrong(way, monkeypatch):
    monkeypatch.setenv("PYPTO_NUM_THREADS", "-3")

    @pl.jit
    def fresh(x: T, o: pl.Out[T]):
        with pl.at(level=pl.Level.CORE_GROUP):
            o[:] = x
        return o

    with pytest.raises(ConfigError, match="PYPTO_NUM_THREADS='-3': expected a positive number"):
        getattr(fresh, way)(X, X.copy())
