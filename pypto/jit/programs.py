"""`pypto.ir.compile`: programs that exist already, through the same cache as kernels.

In: a program (of `@pl.program`, `pl.parse`, the IR builder).  Out: a CompiledProgram for its orchestration function.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.config import NATIVE_OPT
from pypto.enums import FunctionType, MemoryPlanner, RuntimeKind
from pypto.errors import ArgumentTypeError, NotSupportedError
from pypto.ir.expr import Call
from pypto.ir.program import Program
from pypto.ir.rewrite import walk
from pypto.ir.serialization import serialize
from pypto.jit.compiled import CompiledProgram
from pypto.jit.dispatch import NEEDS, WATCHED, build_shared
from pypto.jit.identity import code_identity, make_record
from pypto.jit.request import ProgramRequest
from pypto.passes.context import CURRENT, PassContext, PassOptions, effective
from pypto.runtime import stats
from pypto.runtime.record import sha256
from pypto.runtime.store import default_store
from pypto.runtime.toolchain import find, find_compiler

if TYPE_CHECKING:
    from pypto.jit.generated import Generated
    from pypto.passes.manager import Watcher
    from pypto.passes.pass_manager import PassDumpLevel
    from pypto.runtime.entry import Entry

__all__ = ["Compilation", "compile_program", "generate_program"]

_programs: dict[bytes, CompiledProgram] = {}
_NO_EFFECT = {
    "distributed_config": "programs here run on one host",
    "profiling": "time ir.compile(...), or read pypto.cache_stats()",
    "dump_ptoas_passes": "ptoas runs without dumps of its own passes; run it on the .pto files of output_dir",
    "analyze_auto_scopes_for_deps": "tasks run in program order, which satisfies every dependency",
}


def compile_program(
    program: Program,
    output_dir: str | os.PathLike[str] | None = None,
    strategy: Any = None,
    dump_passes: bool | PassDumpLevel = True,
    backend_type: Any = None,
    skip_ptoas: bool = False,
    verification_level: Any = None,
    diagnostic_phase: Any = None,
    disabled_diagnostics: Any = None,
    memory_planner: MemoryPlanner | None = None,
    enable_pypto_l0c_double_buffer: bool | None = None,
    profiling: bool = False,
    platform: str | None = None,
    distributed_config: Any = None,
    analyze_auto_scopes_for_deps: bool = False,
    emit_source_loc: bool | None = None,
    dump_ptoas_passes: bool = False,
    runtime: RuntimeKind | None = None,
    *,
    enable_buffer_ir: bool | None = None,
) -> CompiledProgram:
    """A program compiled for this machine; equal programs and options give the identical object.

    With `output_dir`, the artifact's files are put there, and with `dump_passes` the program after each pass, below
    `passes_dump/`; such a compilation really happens and is not shared.  Without it, nothing is written but the cache.
    `skip_ptoas`: the texts for the assembler stay as they are, though there is one.
    RuntimeError for an option that an active PassContext decides; NotSupportedError for what has no effect here;
    ToolchainError for the platform of a device.
    """
    if not isinstance(program, Program):
        what = f"ir.compile takes a Program, got {type(program).__name__}"
        raise ArgumentTypeError(what, hint="pass what @pl.program made, or kernel.specialize(...) of a @pl.jit kernel")
    given = {
        "distributed_config": distributed_config,
        "profiling": profiling,
        "dump_ptoas_passes": dump_ptoas_passes,
        "analyze_auto_scopes_for_deps": analyze_auto_scopes_for_deps,
    }
    for name, value in given.items():
        if value:
            raise NotSupportedError(f"ir.compile({name}=...) has no effect in this version", hint=_NO_EFFECT[name])
    decided = {
        "verification_level": verification_level,
        "diagnostic_phase": diagnostic_phase,
        "memory_planner": memory_planner,
        "runtime": runtime,
        "enable_buffer_ir": enable_buffer_ir,
        "enable_pypto_l0c_double_buffer": enable_pypto_l0c_double_buffer,
    }
    context = _context({k: v for k, v in decided.items() if v is not None}, disabled_diagnostics, platform)
    with context:
        if output_dir is None:
            return _compile(program, entry_of(program), skip_ptoas)
        return _compile_into(program, entry_of(program), os.fspath(output_dir), dump_passes, skip_ptoas)


def generate_program(program: Program) -> Generated:
    """The program's texts under the options in force, also for a device that is not here; nothing is stored."""
    from pypto.jit.generated import generate

    return generate(ProgramRequest(program, entry_of(program), effective(), NATIVE_OPT.get() == "1"))


def _context(given: dict[str, Any], disabled_diagnostics: Any, platform: str | None) -> PassContext:
    active = CURRENT.get()
    if active is None:
        return PassContext(disabled_diagnostics=disabled_diagnostics, platform=platform or effective().platform, **given)
    if given:
        raise RuntimeError(f"ir.compile({', '.join(given)}=...) while a PassContext is active: the context decides")
    options = active.options
    return PassContext(
        active.instruments,
        active.verification_level,
        active.diagnostic_phase,
        active.disabled_diagnostics if disabled_diagnostics is None else disabled_diagnostics,
        options.memory_planner,
        options.enable_pypto_l0c_double_buffer,
        options.runtime,
        options.enable_buffer_ir,
        platform=platform or options.platform,
    )


def entry_of(program: Program) -> str:
    """The one function that callers start: an orchestration (or untyped) function that no other calls."""
    called = {n.op.name for f in program.function_list for n in walk(f.body) if isinstance(n, Call)}
    starts = (FunctionType.Orchestration, FunctionType.Opaque)
    found = [f.name for f in program.function_list if f.func_type in starts and f.name not in called]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotSupportedError(
            f"program '{program.name}' has no orchestration function that could be called",
            program.span,
            "add a @pl.function(type=pl.FunctionType.Orchestration) that calls the kernels",
        )
    raise NotSupportedError(
        f"program '{program.name}' has several orchestration functions: {', '.join(found)}",
        program.span,
        "make a program of each",
    )


def _compile(program: Program, entry: str, skip_ptoas: bool) -> CompiledProgram:
    """From this process, from the store, or built; a context with instruments sees a build of its own."""
    one = Compilation(program, entry, skip_ptoas=skip_ptoas)
    context = CURRENT.get()
    if context is not None and context.is_diagnostic:
        stats.bypass(WATCHED)
        return one.private(None)
    return one.shared()


def _compile_into(program: Program, entry: str, directory: str, dump: bool | PassDumpLevel, skip_ptoas: bool) -> CompiledProgram:
    """A build of its own, with its files and dumps below `directory`."""
    from pypto.passes.pass_manager import Dump, PassDumpLevel, dump_level

    stats.bypass("an output directory was asked for")
    os.makedirs(directory, exist_ok=True)
    level = dump_level(dump)
    dumps = None if level is PassDumpLevel.NONE else Dump(Path(directory) / "passes_dump", level, "pl")
    if dumps is not None:
        dumps.before(program)
    made = Compilation(program, entry, skip_ptoas=skip_ptoas).private(None if dumps is None else dumps.after)
    made.export(directory)
    return made


class Compilation:
    """One request, its identity and its toolchain."""

    def __init__(self, program: Program, entry: str, options: PassOptions | None = None, *, skip_ptoas: bool = False) -> None:
        """`options`: those of the context here if they are not given."""
        stats.count("requests")
        self.request = ProgramRequest(program, entry, options or effective(), NATIVE_OPT.get() == "1")
        self.store = default_store()
        self.toolchain = find_compiler(self.store) if skip_ptoas else find(self.store)
        parts = {"kernel": ("program", entry, sha256(serialize(program))), "values": (), "helpers": ()}
        self.code = code_identity(self.store)
        self.record = make_record(parts, {}, self.request.options, self.request.optimize, self.code, self.toolchain)

    def known(self) -> CompiledProgram | Entry | None:
        """What this process, or the store, has."""
        compiled = _programs.get(self.record.encoded)
        if compiled is not None:
            stats.count("memory_hits")
            return compiled
        return self.store.lookup(self.record.encoded, NEEDS)

    def shared(self) -> CompiledProgram:
        label = f"program '{self.request.program.name}'"
        found = self.known()
        if isinstance(found, CompiledProgram):
            return found
        if found is None:
            found = build_shared(self.store, self.record, lambda d: self.build(d, None), label)
        return _programs.setdefault(self.record.encoded, self.compiled(found))

    def private(self, watch: Watcher | None) -> CompiledProgram:
        return self.compiled(self.store.build_private(self.record.encoded, lambda d: self.build(d, watch), NEEDS))

    def build(self, directory: str, watch: Watcher | None) -> None:
        from pypto.jit import driver

        driver.build(self.request, self.toolchain, self.store, directory, watch)

    def compiled(self, entry: Entry) -> CompiledProgram:
        return CompiledProgram(entry, self.record, self.request)
