"""All cases of one pytest run: which options they get, where their artifacts go, and which are compiled ahead.

Invariant: a key belongs to one case.  Workers are threads that get options with each case, and nothing from the thread that
submitted it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from pypto.enums import MemoryPlanner
from pypto.passes.context import PassOptions
from pypto.testing.cases import Case
from pypto.testing.running import CaseRun, Prepared, Resolved, RunResult, execute, failure, prepare

__all__ = ["Session", "SessionOptions"]


class SessionOptions(NamedTuple):
    """What the command line says; `memory_planner` None leaves it to each case."""

    platforms: tuple[str, ...] = ("a2a3sim",)
    memory_planner: MemoryPlanner | None = None
    kernels_dir: Path | None = None
    save_kernels: bool = False
    dump_passes: bool = False
    codegen_only: bool = False
    precompile_workers: int = 0
    build_output: Path = Path("build_output")


class Session:
    """Runs cases; `close` at the end."""

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self._owners: dict[str, Case] = {}
        self._ahead: dict[str, Future[Prepared]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._temporary: Path | None = None
        self.root = self._kept_root()

    def _kept_root(self) -> Path | None:
        """Where artifacts and dumps stay: the directory asked for, or a new one in the build output."""
        o = self.options
        if o.kernels_dir is not None:
            return o.kernels_dir.absolute()
        if o.save_kernels or o.dump_passes:
            return o.build_output.absolute() / time.strftime("precompile_%Y%m%d_%H%M%S")
        return None

    def decide(self, case: Case, platform: str) -> Resolved:
        """A case with every option decided: its own say first, then the session's."""
        planner = case.memory_planner or self.options.memory_planner
        options = PassOptions(
            planner or MemoryPlanner.PYPTO,
            case.enable_buffer_ir,
            case.enable_pypto_l0c_double_buffer,
            platform=platform,
        )
        return Resolved(case, options, planner is not None)

    def resolve(self, case: Case, platform: str) -> Resolved:
        """As `decide`; AssertionError if another case of this session has the same key."""
        resolved = self.decide(case, platform)
        if self._owners.setdefault(resolved.key, case) is not case:
            raise AssertionError(f"two cases of this session have the key {resolved.key}: give one of them another name=")
        return resolved

    def precompile(self, wanted: Iterable[tuple[Case, str]]) -> None:
        """Begin to compile cases for platforms in worker threads; `run` waits for them one by one."""
        self._pool = ThreadPoolExecutor(self.options.precompile_workers, "precompile")
        root = self.root
        if root is None:
            root = self._temporary = Path(tempfile.mkdtemp(prefix="pypto-precompile-"))
        for case, platform in wanted:
            r = self.decide(case, platform)
            # The test of a second case with this key says that there are two.
            if r.key not in self._ahead and self._owners.setdefault(r.key, case) is case:
                self._ahead[r.key] = self._pool.submit(
                    prepare, r, root / r.key, self.options.dump_passes, self.options.codegen_only
                )

    def run(self, r: Resolved) -> CaseRun:
        """Compile, unless that has begun already, run and compare."""
        ahead = self._ahead.get(r.key)
        prepared = self._inline(r) if ahead is None else _finished(ahead)
        if isinstance(prepared, RunResult):
            return CaseRun(r.case, prepared, None, None)
        result = RunResult(True) if self.options.codegen_only else execute(r, prepared)
        return CaseRun(r.case, result, prepared.directory, prepared.compiled)

    def _inline(self, r: Resolved) -> Prepared | RunResult:
        try:
            directory = None if self.root is None else self.root / r.key
            return prepare(r, directory, self.options.dump_passes, self.options.codegen_only)
        except Exception as e:
            return failure("compilation failed", e)

    def close(self) -> None:
        """Wait for what workers have begun, drop the rest, and remove what is not kept."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _finished(ahead: Future[Prepared]) -> Prepared | RunResult:
    try:
        error = ahead.exception()
    except CancelledError:
        return RunResult(False, "compile task crashed: it was cancelled")
    if error is None:
        return ahead.result()
    return failure("Pre-compilation failed" if isinstance(error, Exception) else "compile task crashed", error)
