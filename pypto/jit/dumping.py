"""PYPTO_DUMP: what a compilation came to, left for reading.

In: a request that is compiled, not found in the cache.  Out: a folder of its own, with the program before and after each
pass, the C, the texts for the assembler, and the report of the loops.
Invariant: what is compiled does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pypto.codegen.native.report import report_text
from pypto.config import DUMP
from pypto.errors import ConfigError
from pypto.ir.printer import python_print
from pypto.passes.pass_manager import Dump, PassDumpLevel
from pypto.runtime.record import sha256

if TYPE_CHECKING:
    from pypto.codegen.native.unit import NativeUnit
    from pypto.ir.program import Program
    from pypto.jit.driver import LoweredRequest
    from pypto.jit.request import Specialized
    from pypto.passes.framework import Pass

__all__ = ["Dumping"]


class Dumping:
    """The folder of one compilation: named by the kernel, and by a few digits of its program before any pass.

    ConfigError where it cannot be written.
    """

    def __init__(self, request: Specialized, root: str) -> None:
        self.addressed = request.options.addressed
        self.folder = Path(root) / f"{request.entry}-{sha256(python_print(request.program).encode())[:8]}"
        self.passes = Dump(self.folder / "passes", PassDumpLevel.CONCISE, "pl")
        with _writing():
            self.passes.before(request.program)

    def after(self, number: int, p: Pass, program: Program) -> None:
        with _writing():
            self.passes.after(number, p, program)

    def finish(self, lowered: LoweredRequest, unit: NativeUnit, files: Mapping[str, bytes]) -> None:
        """What came of the final program."""
        report = report_text(lowered.host, unit, lowered.stays, addressed=self.addressed)
        texts = {name: data for name, data in files.items() if name.endswith((".pto", ".cpp"))}
        texts |= {"kernel.c": unit.source.encode(), "report.txt": report.encode()}
        with _writing():
            for name, data in texts.items():
                (self.folder / Path(name).name).write_bytes(data)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise ConfigError(f"{DUMP.name}: {e.filename}: {e.strerror}", hint=f"{DUMP.name}: {DUMP.doc}") from None
