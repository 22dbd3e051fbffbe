"""A look into an artifact: its programs and texts, stage by stage.

In: the artifact's files, the request that they are of.  Out: programs, texts, copies of the files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pypto.errors import ArgumentValueError

if TYPE_CHECKING:
    from pypto.debug.memory_map import MemoryMap
    from pypto.ir.program import Program
    from pypto.jit.request import ProgramRequest, Request

__all__ = ["STAGES", "STAYS", "TEXTLESS", "Stages"]

STAGES = ("c", "tile_ir", "buffer_ir", "pto", "ptoas", "report")
STAYS = "stays.record"  # of an artifact: kernels that are not buffers, and why
TEXTLESS = "textless.record"  # kernels without a text for the assembler, and why


class Files(Protocol):
    """Of an artifact, by name."""

    @property
    def files(self) -> Mapping[str, object]: ...

    def read(self, name: str) -> bytes: ...


class Stages:
    """What there is of a kernel besides its machine code."""

    def __init__(self, artifact: Files, request: Request | ProgramRequest) -> None:
        self._artifact, self._request = artifact, request

    def copy_to(self, directory: str) -> None:
        """Put copies of the artifact's files into a directory; texts for the assembler and what it made into its `ptoas/`."""
        for name in self._artifact.files:
            place = os.path.join(directory, "ptoas") if name.endswith((".pto", ".cpp")) else directory
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, name), "wb") as f:
                f.write(self._artifact.read(name))

    @property
    def program(self) -> Program:
        """The program that was compiled, before any pass."""
        from pypto.jit import driver
        from pypto.jit.request import ProgramRequest

        request = self._request
        return request.program if isinstance(request, ProgramRequest) else driver.parse_request(request).program

    @property
    def lowered(self) -> Program:
        """The final program, as the device would run it."""
        return self._load("device.msgpack")

    def _load(self, name: str) -> Program:
        from pypto.ir.program import Program
        from pypto.ir.serialization import deserialize

        loaded = deserialize(self._artifact.read(name))
        assert isinstance(loaded, Program)
        return loaded

    def inspect(self, stage: str) -> str:
        """The text of a stage: "c", "tile_ir" (planned tiles), "buffer_ir" (the final program), "pto" (for the assembler),
        "ptoas" (what the assembler made of that, or why there is nothing), "report" (the loops of the C: what they move and
        compute, and what keeps them apart).

        In the final program a comment above each kernel that is not made of buffers says why.
        """
        if stage == "c":
            return self._artifact.read("kernel.c").decode()
        if stage == "pto":
            from pypto.jit.inspection import pto_text

            return pto_text(self._request)
        if stage == "ptoas":
            return self._assembled()
        if stage == "report":
            from pypto.jit.inspection import report_text

            return report_text(self._request)
        if stage not in STAGES:
            what = f"unknown stage {stage!r}: expected one of {', '.join(STAGES)}"
            raise ArgumentValueError(what, hint=f"inspect({STAGES[0]!r}), for example")
        from pypto.ir.printer import python_print

        name = "tile.msgpack" if stage == "tile_ir" and "tile.msgpack" in self._artifact.files else "device.msgpack"
        text = python_print(self._load(name))
        return self._commented(text) if stage == "buffer_ir" else text

    def _assembled(self) -> str:
        from pypto.runtime.ptoas import ABSENT

        made = sorted(name for name in self._artifact.files if name.endswith(".cpp"))
        texts = any(name.endswith(".pto") for name in self._artifact.files)
        shown = [f"// {name}\n{self._artifact.read(name).decode(errors='replace')}" for name in made]
        shown += [] if made else [f"// {ABSENT if texts else 'there is no .pto text to assemble'}\n"]
        shown += [f"// '{name}' has no .pto text: {reason}\n" for name, reason in self._reasons(TEXTLESS).items()]
        return "\n".join(shown)

    def memory_map(self) -> MemoryMap:
        """What lives where in each on-chip memory, and when; it draws itself: `.text()`, `.html()`."""
        from pypto.jit.inspection import map_memory

        return map_memory(self._request)

    @property
    def stages(self) -> dict[str, str]:
        """For each kernel of the final program: "buffer", or "tile: " and why it is not made of buffers."""
        from pypto.enums import FunctionIRStage

        stays, found = self._reasons(STAYS), {}
        for f in self.lowered.function_list:
            if f.is_device:
                found[f.name] = "buffer" if f.ir_stage is FunctionIRStage.Buffer else f"tile: {stays[f.name]}"
        return found

    def _reasons(self, record: str) -> dict[str, str]:
        """By kernel; nothing where the artifact has no such record."""
        from pypto.runtime.record import Record

        found = Record.decode(self._artifact.read(record)).parts if record in self._artifact.files else {}
        return {name: str(reason) for name, reason in found.items()}

    def _commented(self, text: str) -> str:
        lines = text.split("\n")
        for name, reason in self._reasons(STAYS).items():
            at = next((i for i, line in enumerate(lines) if line.lstrip().startswith(f"def {name}(")), None)
            while at is not None and not lines[at].lstrip().startswith("@"):
                at -= 1
            if at is not None:
                indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
                lines.insert(at, f"{indent}# '{name}' stays at tile stage: {reason}")
        return "\n".join(lines)
