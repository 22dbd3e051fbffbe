"""The `.pto` text of a compiled program, kernel by kernel.

In: the lowered program.  Out: a module for each kernel that has a form, and why the others have none.
Invariant: what is stored with an artifact names no place in anybody's files; only what is shown does.
"""

from __future__ import annotations

from typing import NamedTuple

from pypto.codegen.pto import module_of, symbol
from pypto.enums import MemoryPlanner
from pypto.errors import NotSupportedError
from pypto.ir.program import Program
from pypto.passes.context import PassOptions
from pypto.target import chip_of

__all__ = ["DeviceText", "device_text", "file_name"]


class DeviceText(NamedTuple):
    """Modules and refusals by kernel."""

    modules: dict[str, str]
    refused: dict[str, NotSupportedError]

    def shown(self) -> str:
        """All modules, one after the other; a comment stands for a kernel that has none.  NotSupportedError if none has."""
        if not self.modules and self.refused:
            raise next(iter(self.refused.values()))
        comments = [f"// '{name}' has no .pto form: {e.message}\n" for name, e in self.refused.items()]
        return "\n".join([*comments, *self.modules.values()])


def device_text(program: Program, options: PassOptions, locations: bool) -> DeviceText:
    """The text of the device functions of a program whose storage is final; `locations`: with the user's files and lines."""
    addressed = options.memory_planner is not MemoryPlanner.PTOAS
    arch = chip_of(options.platform).name
    made = DeviceText({}, {})
    for f in program.function_list:
        if f.is_device:
            try:
                made.modules[f.name] = module_of((f,), arch, addressed, locations)
            except NotSupportedError as e:
                made.refused[f.name] = e
    return made


def file_name(kernel: str) -> str:
    """The file of a kernel's module among those of an artifact."""
    return f"{symbol(kernel)[:170]}.pto"
