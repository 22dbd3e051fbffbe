"""`RunConfig`: how one call, compilation or test case is to be run.

Invariant: a value that can have no effect here is refused with what to do instead, never ignored.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from pypto.enums import MemoryPlanner
from pypto.errors import ArgumentTypeError, ConfigError, NotSupportedError
from pypto.target.chip import PLATFORMS

__all__ = ["FIELDS", "RunConfig", "checked"]

_CAPTURES = ("enable_chip_swimlane", "enable_dump_args", "enable_pmu", "enable_dep_gen", "enable_scope_stats")
_INSTEAD = {
    "dump_passes": "kernel.lower(...) gives the final program; pypto.passes.PassManager().run_passes(..., dump_ir=True) dumps",
    "dump_ptoas_passes": "ptoas runs without dumps of its own passes; run it on the .pto files of kernel.compile(...).output_dir",
    "save_kernels": "kernel.compile(...).output_dir is where the artifact is",
    "save_kernels_dir": "kernel.compile(...).output_dir is where the artifact is",
    "codegen_only": "kernel.compile(...) compiles without running",
    "compile_profiling": "time kernel.compile(...), or read pypto.cache_stats()",
    "golden_data_dir": "compare with numpy.testing.assert_allclose",
    "distributed_config": "programs here run on one host",
    "analyze_auto_scopes_for_deps": "tasks run in program order, which satisfies every dependency",
}


@dataclass(frozen=True)
class RunConfig:
    """`kernel(..., config=RunConfig(...))`.

    platform: the chip whose capacities and rules hold.  Kernels for `"a2a3sim"` and `"a5sim"` run on the host; `"a2a3"` and
    `"a5"` are devices, for which `lower`, `inspect` and `generate` work and a compilation is a ToolchainError.
    memory_planner: None leaves the choice to the PassContext.  rtol, atol: for comparisons of a test harness.  device_id,
    aicpu_thread_num and the ring sizes describe a device's runtime and do not matter to a host.
    ConfigError for a value out of its domain; NotSupportedError for a field that this version has no effect for.
    """

    platform: str = "a2a3sim"
    device_id: int = 0
    rtol: float = 1e-5
    atol: float = 1e-5
    strategy: Any = None
    backend_type: Any = None
    dump_passes: Any = False
    save_kernels: bool = False
    save_kernels_dir: str | os.PathLike[str] | None = None
    codegen_only: bool = False
    enable_chip_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    compile_profiling: bool = False
    diagnostic_phase: Any = None
    disabled_diagnostics: Any = None
    golden_data_dir: str | os.PathLike[str] | None = None
    aicpu_thread_num: int | None = None
    ring_task_window: int | Sequence[int] | None = None
    ring_heap: int | Sequence[int] | None = None
    ring_dep_pool: int | Sequence[int] | None = None
    distributed_config: Any = None
    analyze_auto_scopes_for_deps: bool = False
    memory_planner: MemoryPlanner | None = None
    dump_ptoas_passes: bool = False

    def __post_init__(self) -> None:
        if self.platform not in PLATFORMS:
            what = f"platform must be one of {', '.join(PLATFORMS)}, got {self.platform!r}"
            raise ConfigError(what, hint='RunConfig(platform="a2a3sim")')
        if self.memory_planner is not None and not isinstance(self.memory_planner, MemoryPlanner):
            what = f"memory_planner must be a passes.MemoryPlanner or None, got {self.memory_planner!r}"
            raise ArgumentTypeError(what, hint=f"passes.MemoryPlanner.{MemoryPlanner.PYPTO.name}, for example")
        for name in _CAPTURES:
            if getattr(self, name):
                raise NotSupportedError(f"RunConfig({name}=...) captures on a device", hint="kernels run on the host here")
        for name, instead in _INSTEAD.items():
            if getattr(self, name):
                raise NotSupportedError(f"RunConfig({name}=...) has no effect in this version", hint=instead)
        for name, least in (("ring_task_window", 4), ("ring_heap", 1024), ("ring_dep_pool", 4)):
            _check_ring(name, getattr(self, name), least)


FIELDS = frozenset(f.name for f in fields(RunConfig))


def checked(config: object) -> RunConfig:
    """What was given as `config=`; ArgumentTypeError for anything but a RunConfig."""
    if not isinstance(config, RunConfig):
        raise ArgumentTypeError(
            f"config expects a RunConfig, got {type(config).__name__}", hint="from pypto.runtime import RunConfig"
        )
    return config


def _check_ring(name: str, value: int | Sequence[int] | None, least: int) -> None:
    if value is None:
        return
    several = isinstance(value, Sequence)
    sizes = list(value) if isinstance(value, Sequence) else [value]
    if several and len(sizes) != 4:
        raise ConfigError(f"{name} takes one size or a list of 4, got {len(sizes)}", hint=f"RunConfig({name}={least})")
    for size in sizes:
        if several and size == 0:
            continue  # the default of that ring
        power = name != "ring_dep_pool"
        if not least <= size < 1 << 31 or (power and size & (size - 1)):
            what = f"{name} must be {'a power of two ' if power else ''}from {least} on, got {size}"
            raise ConfigError(what, hint=f"RunConfig({name}={least})")
